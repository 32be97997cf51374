//! What the kernel or the processor holds against system calls made on our behalf: seccomp filters, which would kill the
//! program for a call it does not make itself, and shadow stacks, which forbid the returns by which calls are chained.
//!
//! Both belong to threads: one may have a filter that its process's first thread has not.
//!
//! Next: `inject` asks before it borrows a thread, `trimtab-session` before it begins.

use crate::error::Error;
use crate::proc::thread_ids;
use std::fs;
use trimtab_types::Pid;

/// What stands in the way of one thread's making calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// A filter of system calls, and its mode.
    Filter(&'static str),
    /// Return addresses are compared with a copy that nobody else can write.
    ShadowStack,
}

/// Checks that every thread of `pid` may make system calls for us.
///
/// # Errors
/// [`Error::Filtered`] or [`Error::ShadowStack`] for the first that may not; [`Error::Gone`].
pub fn check_all_calls(pid: Pid) -> Result<(), Error> {
    thread_ids(pid)?.into_iter().try_for_each(|tid| check_calls(pid, tid))
}

/// As [`check_all_calls`], of one thread; one that has ended has nothing against it.
pub(crate) fn check_calls(pid: Pid, tid: i32) -> Result<(), Error> {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
    match guard_in(&status) {
        None => Ok(()),
        Some(Guard::Filter(mode)) => Err(Error::Filtered { pid, mode }),
        Some(Guard::ShadowStack) => Err(Error::ShadowStack { pid }),
    }
}

fn guard_in(status: &str) -> Option<Guard> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if field("x86_Thread_features:").is_some_and(|features| features.split_whitespace().any(|one| one == "shstk")) {
        return Some(Guard::ShadowStack);
    }
    match field("Seccomp:") {
        None | Some("0") => None,
        Some("1") => Some(Guard::Filter("strict")),
        Some(_) => Some(Guard::Filter("filter")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_are_read_from_a_status() {
        let rows = [
            ("none", "Name:\tapp\nSeccomp:\t0\nSeccomp_filters:\t0\nx86_Thread_features:\t\n", None),
            ("old kernel", "Name:\tapp\n", None),
            ("strict", "Seccomp:\t1\nSeccomp_filters:\t0\n", Some(Guard::Filter("strict"))),
            ("filter", "Seccomp:\t2\nSeccomp_filters:\t3\n", Some(Guard::Filter("filter"))),
            // As Linux 6.6 and later write it for a program of a C library that asks for shadow stacks.
            (
                "shadow stack",
                "Seccomp:\t0\nSpeculationIndirectBranch:\tconditional enabled\nx86_Thread_features:\tshstk wrss \n\
                 x86_Thread_features_locked:\tshstk wrss \n",
                Some(Guard::ShadowStack),
            ),
            ("locked off", "x86_Thread_features:\t\nx86_Thread_features_locked:\tshstk wrss \n", None),
        ];
        for (name, status, wanted) in rows {
            assert_eq!(guard_in(status), wanted, "{name}");
        }
    }

    #[test]
    fn this_process_may_make_calls() {
        let own = Pid(std::process::id() as i32);
        // A container may run all its processes under a filter.
        let status = fs::read_to_string("/proc/self/status").expect("a status");
        assert_eq!(check_all_calls(own).is_ok(), guard_in(&status).is_none());
    }
}
