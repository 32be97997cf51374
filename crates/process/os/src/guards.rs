//! Guards of the kernel or the processor against system calls made on our behalf: seccomp filters, which may kill the
//! program for a call it does not make itself, and shadow stacks, which forbid the returns by which calls are chained.
//!
//! Filters are asked about the very calls that are to be made, with their arguments (`filters`); only if all of a thread's
//! filters let all of them pass is it sent through them.
//!
//! Both belong to threads: one may have a filter that its process's first thread has not.
//!
//! Next: `inject` asks before it borrows a thread, `trimtab-session` before it begins.

use crate::error::Error;
use crate::filters::{self, Objection, OurCall, is_trusted, on_the_way};
use crate::gadgets::{Call, find_gadgets};
use crate::guard::{Guard, guard_of};
use crate::memory::Memory;
use crate::proc::{MappingTable, thread_ids};
use crate::stop::Stopped;
use std::collections::BTreeSet;
use trimtab_types::Pid;

/// How far below the stack pointer the text of a call may lie.
const TEXT_BELOW_BYTES: u64 = 4096;

/// Checks that every thread of `pid` may make `calls` for us. A process under filters is held for a moment, in which they
/// are read.
///
/// # Errors
/// [`Error::Filtered`] or [`Error::ShadowStack`] for the first that may not; [`Error::Gone`], and those of holding it.
pub fn check_all_calls(pid: Pid, calls: &[Call]) -> Result<(), Error> {
    let mut is_filtered = false;
    for tid in thread_ids(pid)? {
        match guard_of(pid, tid) {
            None => {}
            Some(Guard::ShadowStack) => return Err(Error::ShadowStack { pid }),
            Some(Guard::Strict) => return Err(strict(pid)),
            Some(Guard::Filter) => is_filtered = true,
        }
    }
    if !is_filtered {
        return Ok(());
    }
    let gadgets = find_gadgets(pid, &Memory::open(pid)?, &MappingTable::of(pid)?)?;
    let stopped = Stopped::stop(pid)?;
    stopped.threads().iter().try_for_each(|thread| {
        // Near to where its text would lie.
        let text_at = thread.registers.rsp.saturating_sub(TEXT_BELOW_BYTES);
        check_calls(pid, thread.tid, &on_the_way(&thread.registers, calls, text_at, gadgets))
    })
}

/// Checks that a thread of `pid` may be sent into functions of its own program: nobody knows which calls those make.
///
/// # Errors
/// [`Error::Filtered`] if it is under filters and their owner has not said that our calls pass; [`Error::ShadowStack`].
pub fn check_function_calls(pid: Pid) -> Result<(), Error> {
    thread_ids(pid)?.into_iter().try_for_each(|tid| match guard_of(pid, tid) {
        None => Ok(()),
        Some(Guard::ShadowStack) => Err(Error::ShadowStack { pid }),
        Some(Guard::Strict) => Err(strict(pid)),
        Some(Guard::Filter) if is_trusted(pid) => Ok(()),
        Some(Guard::Filter) => {
            let reason = "which system calls a function makes is not known before it is called, so none is called; if \
                          the filter lets them pass, say so with --seccomp-ok";
            Err(Error::Filtered { pid, reason: reason.into() })
        }
    })
}

/// Checks that stopped thread `tid` may make `calls`; one that has ended has nothing against it.
pub(crate) fn check_calls(pid: Pid, tid: i32, calls: &[OurCall]) -> Result<(), Error> {
    match guard_of(pid, tid) {
        None => Ok(()),
        Some(Guard::ShadowStack) => Err(Error::ShadowStack { pid }),
        Some(Guard::Strict) => Err(strict(pid)),
        Some(Guard::Filter) => match filters::check(tid, calls) {
            Ok(()) => Ok(()),
            Err(Objection::Unreadable(_)) if is_trusted(pid) => Ok(()),
            Err(objection) => Err(Error::Filtered { pid, reason: reason(tid, calls, objection) }),
        },
    }
}

fn strict(pid: Pid) -> Error {
    Error::Filtered { pid, reason: "mode strict allows none of the calls that map memory; it is left alone".into() }
}

fn reason(tid: i32, calls: &[OurCall], objection: Objection) -> String {
    match objection {
        Objection::Refused(what) => format!(
            "{what} (thread {tid}), which trimtab would have it call, so it is left alone; start it with a filter that \
             allows this call"
        ),
        Objection::Unreadable(why) => {
            let names: BTreeSet<&str> = calls.iter().map(|call| call.name).collect();
            let names = names.into_iter().collect::<Vec<&str>>().join(", ");
            format!(
                "it can't be read ({why}), so it is left alone; run trimtab as root, or, if the filter allows {names}, \
                 as Docker's default does, say so with --seccomp-ok"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::guard_in;
    use std::fs;

    #[test]
    fn this_process_may_make_calls() {
        let own = Pid(std::process::id() as i32);
        // A container may run all its processes under a filter.
        let status = fs::read_to_string("/proc/self/status").expect("a status");
        assert_eq!(check_function_calls(own).is_ok(), guard_in(&status).is_none());
    }
}
