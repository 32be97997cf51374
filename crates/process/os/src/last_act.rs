//! The last act of a trimtab that gets no memory or aborts: what it has put into programs comes out before it ends.
//!
//! Without memory nothing can be planned or written any more, and an abort leaves the probes in. So this program
//! executes itself anew in the same process, with nothing to do but to undo: the new one has all the memory that the old
//! one held. Which processes hold something of ours is kept in words that exist from the beginning, and what happens
//! between the refusal and the new program needs no memory.
//!
//! Next: `leftover` of `trimtab-session`, which undoes; `main` of `trimtab`, which makes this its allocator.

use crate::sys::raise_address_space_limit;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, Ordering};
use trimtab_types::Pid;

/// The hidden command that undoes; the cause ("memory" or "abort") and process ids follow.
pub const COMMAND: &str = "last-act";
/// Processes that can be remembered: ranks of one node.
const COUNT_MAX: usize = 1024;
/// Bytes of a process id in decimal digits, with the zero behind it.
const DIGITS: usize = 12;

static HELD: [AtomicI32; COUNT_MAX] = [const { AtomicI32::new(0) }; COUNT_MAX];
/// True once anything was put into a process by this program; not by the one that it was before a last act.
static HAS_HELD: AtomicBool = AtomicBool::new(false);
static BEGUN: AtomicBool = AtomicBool::new(false);
/// The new program's words: its name, its command, the cause, process ids, a null. They lie ready, as a stack may be short.
static WORDS: [AtomicPtr<c_char>; FIRST_PID + COUNT_MAX + 1] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; FIRST_PID + COUNT_MAX + 1];
static TEXTS: [[AtomicU8; DIGITS]; COUNT_MAX] = [const { [const { AtomicU8::new(0) }; DIGITS] }; COUNT_MAX];
const FIRST_PID: usize = 3;
/// Exit code of an error.
const ERROR: i32 = 2;
/// The last words of a program without memory that has nothing to undo, and of one that can't.
const NO_MEMORY: &str = "trimtab: ran out of memory; nothing of it is in any program: give it more (`ulimit -v`), or measure fewer functions\n";
const NO_LAST_ACT: &str = "trimtab: ran out of memory and can't take out what it has put in: `trimtab undo PID` does, with more memory (`ulimit -v`)\n";

/// As long as it lives, the last act takes out what is in a process.
#[derive(Debug)]
pub struct Held(Option<usize>);

impl Held {
    /// From before anything of ours is in the process.
    pub fn of(pid: Pid) -> Held {
        if !HAS_HELD.swap(true, Ordering::Relaxed) {
            await_aborts();
        }
        let free = |place: &AtomicI32| place.compare_exchange(0, pid.0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        Held(HELD.iter().position(free))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            HELD[place].store(0, Ordering::Release);
        }
    }
}

/// True if this program has put something into a process since it was executed.
pub fn has_held() -> bool {
    HAS_HELD.load(Ordering::Relaxed)
}

/// The system's allocator, with the last act where it has nothing to give.
#[derive(Debug)]
pub struct Allocator;

// SAFETY: everything is passed on to `System`, and its answers are passed back.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by whoever calls.
        given(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by whoever calls.
        given(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as promised by whoever calls.
        given(unsafe { System.realloc(memory, layout, new_size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as promised by whoever calls.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn given(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        exhausted();
    }
    memory
}

/// Does not return: where there is nothing to undo, the program ends and says why.
#[cold]
#[inline(never)]
fn exhausted() {
    let said = if begin(c"memory".as_ptr()) == 0 { NO_MEMORY } else { NO_LAST_ACT };
    // SAFETY: the text is as long as it says, and the program ends at once.
    unsafe {
        libc::write(libc::STDERR_FILENO, said.as_ptr().cast(), said.len());
        libc::_exit(ERROR)
    }
}

/// An abort has other causes, too: a thread that can't begin for lack of memory panics where panics can't be caught.
extern "C" fn aborted(_signal: libc::c_int) {
    // Where nothing is to be undone, whoever aborts goes on to.
    begin(c"abort".as_ptr());
}

/// Has aborts come by here.
fn await_aborts() {
    // SAFETY: all zeros are a valid value, and the handler does nothing that a handler may not.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = aborted as extern "C" fn(libc::c_int) as usize;
        // The new program is not to begin with the signal blocked.
        action.sa_flags = libc::SA_NODEFER | libc::SA_RESETHAND;
        libc::sigaction(libc::SIGABRT, &raw const action, std::ptr::null_mut());
    }
}

/// Executes this program anew, with the processes that hold something; returns if there is none, or that fails: how many
/// there are.
fn begin(why: *const c_char) -> usize {
    if BEGUN.swap(true, Ordering::AcqRel) {
        // Another thread is about to execute the new program, which ends this one.
        loop {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
    WORDS[0].store(c"trimtab".as_ptr().cast_mut(), Ordering::Relaxed);
    WORDS[1].store(c"last-act".as_ptr().cast_mut(), Ordering::Relaxed);
    WORDS[2].store(why.cast_mut(), Ordering::Relaxed);
    let held = HELD.iter().map(|pid| pid.load(Ordering::Acquire)).filter(|pid| *pid > 0);
    let mut count = 0;
    for ((pid, text), word) in held.zip(&TEXTS).zip(&WORDS[FIRST_PID..]) {
        word.store(write_digits(pid, text).cast_mut().cast(), Ordering::Relaxed);
        count += 1;
    }
    if count > 0 {
        raise_address_space_limit();
        // SAFETY: path and words end with zeros, the list ends with a null, and all exist as long as this program.
        unsafe { libc::execv(c"/proc/self/exe".as_ptr(), WORDS.as_ptr().cast()) };
    }
    BEGUN.store(false, Ordering::Release);
    count
}

/// The digits of a number above zero, with a zero behind them; where they begin.
fn write_digits(number: i32, text: &[AtomicU8; DIGITS]) -> *const u8 {
    let (mut at, mut rest) = (DIGITS - 1, number);
    while rest > 0 && at > 0 {
        at -= 1;
        text[at].store(b'0' + (rest % 10) as u8, Ordering::Relaxed);
        rest /= 10;
    }
    text[at].as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_ids_are_written_without_memory() {
        for number in [1, 42, 4_194_304, i32::MAX] {
            let text = [const { AtomicU8::new(0) }; DIGITS];
            let begin = write_digits(number, &text);
            let at = begin as usize - text[0].as_ptr() as usize;
            let bytes = text.map(|byte| byte.into_inner());
            let written = std::ffi::CStr::from_bytes_until_nul(&bytes[at..]).expect("an end");
            assert_eq!(written.to_str(), Ok(&*number.to_string()));
        }
    }

    #[test]
    fn what_is_held_is_known_until_it_is_let_go() {
        let is_known = |pid: i32| HELD.iter().any(|held| held.load(Ordering::Relaxed) == pid);
        let held = (Held::of(Pid(2_000_000_001)), Held::of(Pid(2_000_000_001)));
        assert!(is_known(2_000_000_001) && has_held());
        drop(held.0);
        assert!(is_known(2_000_000_001), "twice held");
        drop(held.1);
        assert!(!is_known(2_000_000_001));
    }
}
