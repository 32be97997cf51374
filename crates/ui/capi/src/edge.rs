//! The functions of `trimtab.h`: pointers become values here, and nowhere else.
//!
//! Next: `job` and `forecast`, which do it.

use crate::error::Error;
use crate::forecast::forecast;
use crate::job::{Job, Said, Wanted};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use trimtab_types::one_line;

/// Codes of the header.
const DONE: c_int = 0;
const PARTIAL: c_int = 1;
const ERROR: c_int = 2;

thread_local! {
    static LATEST: RefCell<CString> = RefCell::default();
}

/// `trimtab_request` of the header, which describes the fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Iterations.
    pub iterations: u64,
    /// Seconds.
    pub seconds_max: f64,
    /// Text or null.
    pub groups: *const c_char,
    /// Text or null.
    pub functions: *const c_char,
    /// Text or null.
    pub event: *const c_char,
    /// 0 or 1.
    pub is_blocking: c_int,
}

/// Keeps why, for [`trimtab_error`].
fn failed(error: &Error) -> c_int {
    let text: Vec<u8> = one_line(error).into_bytes().into_iter().filter(|byte| *byte != 0).collect();
    LATEST.with_borrow_mut(|latest| *latest = CString::new(text).unwrap_or_default());
    ERROR
}

/// A defect of this library ends the call, not the caller.
fn guarded(call: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| failed(&Error::Defect))
}

/// # Safety
/// Null, or a text that ends with a zero.
unsafe fn text_or_null(text: *const c_char, name: &'static str) -> Result<Option<String>, Error> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: it is not null, and the caller says that it ends with a zero.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(|text| Some(text.to_owned())).map_err(|_| Error::Argument(name))
}

/// # Safety
/// As [`text_or_null`].
unsafe fn text(text: *const c_char, name: &'static str) -> Result<String, Error> {
    // SAFETY: as the caller says.
    unsafe { text_or_null(text, name) }?.ok_or(Error::Argument(name))
}

/// # Safety
/// Null, or a request whose texts are such.
unsafe fn wanted(request: *const Request) -> Result<Wanted, Error> {
    // SAFETY: it is null or a request, as the caller says.
    let request = unsafe { request.as_ref() }.ok_or(Error::Argument("request"))?;
    // SAFETY: its texts are such, as the caller says.
    let [groups, functions, event] = unsafe {
        [
            text_or_null(request.groups, "groups")?,
            text_or_null(request.functions, "functions")?,
            text_or_null(request.event, "event")?,
        ]
    };
    let (iterations, seconds_max) = (request.iterations, request.seconds_max);
    Ok(Wanted { iterations, seconds_max, groups, functions, event, is_blocking: request.is_blocking != 0 })
}

/// Hands a text to C, if it wants it.
///
/// # Safety
/// Null, or a place for a pointer.
unsafe fn hand(said: Result<Option<Said>, Error>, to: *mut *mut c_char) -> c_int {
    let (said, is_partial) = match said {
        Ok(Some(said)) => said,
        Ok(None) => return DONE,
        Err(error) => return failed(&error),
    };
    if !to.is_null() {
        let said = CString::new(said.replace('\0', "")).unwrap_or_default();
        // SAFETY: it is a place for a pointer, as the caller says.
        unsafe { *to = said.into_raw() };
    }
    if is_partial { PARTIAL } else { DONE }
}

/// # Safety
/// Null, or a place for a pointer.
unsafe fn clear<T>(place: *mut *mut T) {
    if !place.is_null() {
        // SAFETY: it is a place for a pointer, as the caller says.
        unsafe { *place = null_mut() };
    }
}

/// The program is started.
///
/// # Safety
/// A list of texts that ends with null, and null or a request.
unsafe fn begun(words: *const *const c_char, request: *const Request) -> Result<(Job, Wanted), Error> {
    let mut all = Vec::new();
    // SAFETY: as the caller says.
    unsafe {
        let wanted = wanted(request)?;
        let mut at = words;
        while !(*at).is_null() {
            all.push(text(*at, "a word")?);
            at = at.add(1);
        }
        Ok((Job::start(&all)?, wanted))
    }
}

/// Starts a program and a window of it.
///
/// # Safety
/// Pointers are as `trimtab.h` describes them, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_start(
    words: *const *const c_char,
    request: *const Request,
    job: *mut *mut Job,
    report: *mut *mut c_char,
) -> c_int {
    // SAFETY: these are places for pointers, or null.
    unsafe {
        clear(job);
        clear(report);
    }
    if words.is_null() || job.is_null() {
        return failed(&Error::Argument("words or job"));
    }
    guarded(|| {
        // SAFETY: the list ends with null, and every word with a zero.
        let begun = unsafe { begun(words, request) };
        let (mut begun, wanted) = match begun {
            Ok(begun) => begun,
            Err(error) => return failed(&error),
        };
        let said = begun.measure(&wanted);
        // SAFETY: these are places for pointers; the first is not null.
        unsafe {
            *job = Box::into_raw(Box::new(begun));
            hand(said, report)
        }
    })
}

/// A job that runs.
///
/// # Safety
/// A place for a pointer, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_find(pid: c_int, job: *mut *mut Job) -> c_int {
    if job.is_null() || pid <= 0 {
        return failed(&Error::Argument("job or pid"));
    }
    // SAFETY: it is a place for a pointer.
    unsafe { *job = Box::into_raw(Box::new(Job::find(pid))) };
    DONE
}

/// Measures again.
///
/// # Safety
/// A job of this library's, and pointers as `trimtab.h` describes them, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_measure(job: *mut Job, request: *const Request, report: *mut *mut c_char) -> c_int {
    // SAFETY: all are what the header says, or null.
    guarded(|| unsafe {
        clear(report);
        let said = match (job.as_mut(), wanted(request)) {
            (Some(job), Ok(wanted)) => job.measure(&wanted),
            (None, _) => Err(Error::Argument("job")),
            (_, Err(error)) => Err(error),
        };
        hand(said, report)
    })
}

/// Waits for a window.
///
/// # Safety
/// As [`trimtab_measure`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_wait(job: *mut Job, report: *mut *mut c_char) -> c_int {
    // SAFETY: all are what the header says, or null.
    guarded(|| unsafe {
        clear(report);
        let said = job.as_mut().ok_or(Error::Argument("job")).and_then(Job::wait);
        hand(said.map(Some), report)
    })
}

/// The process id.
///
/// # Safety
/// A job of this library's, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_pid(job: *const Job) -> c_int {
    // SAFETY: it is a job of this library's, or null.
    unsafe { job.as_ref() }.map_or(-1, Job::pid)
}

/// Waits for the program, and forgets the job.
///
/// # Safety
/// A job of this library's, which is not used again, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_end(job: *mut Job) -> c_int {
    if job.is_null() {
        return -1;
    }
    // SAFETY: it was made by `Box::into_raw`, and C gives it back.
    let job = unsafe { Box::from_raw(job) };
    job.end().unwrap_or(-1)
}

/// Asks for a forecast.
///
/// # Safety
/// Texts that end with a zero and a place for a pointer, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_forecast(
    what: *const c_char,
    question: *const c_char,
    answer: *mut *mut c_char,
) -> c_int {
    // SAFETY: all are what the header says, or null.
    guarded(|| unsafe {
        clear(answer);
        let said = text(what, "what").and_then(|what| Ok((what, text(question, "question")?)));
        hand(said.and_then(|(what, question)| forecast(&what, &question)).map(Some), answer)
    })
}

/// Why the latest call failed.
#[unsafe(no_mangle)]
pub extern "C" fn trimtab_error() -> *const c_char {
    LATEST.with_borrow(|latest| latest.as_ptr())
}

/// Frees a text.
///
/// # Safety
/// A text of this library's, which is not used again, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: it was made by `CString::into_raw`, and C gives it back.
        drop(unsafe { CString::from_raw(text) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_the_call() {
        assert_eq!(guarded(|| panic!("a defect")), ERROR);
        let said = LATEST.with_borrow(|latest| latest.to_string_lossy().into_owned());
        assert!(said.contains("defect of trimtab"), "{said}");
        assert_eq!(guarded(|| DONE), DONE);
    }
}
