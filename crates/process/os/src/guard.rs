//! The guard that a thread is under, as its status tells.
//!
//! Next: `guards`, which asks if it lets our calls pass.

use std::fs;
use trimtab_types::Pid;

/// A guard that keeps one thread from making calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Only reading, writing and ending are allowed.
    Strict,
    /// Filters of system calls.
    Filter,
    /// Return addresses are compared with a copy that nobody else can write.
    ShadowStack,
}

/// True if thread `tid` is under a filter.
pub(crate) fn is_filtered(pid: Pid, tid: i32) -> bool {
    guard_of(pid, tid) == Some(Guard::Filter)
}

pub(crate) fn guard_of(pid: Pid, tid: i32) -> Option<Guard> {
    guard_in(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default())
}

pub(crate) fn guard_in(status: &str) -> Option<Guard> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if field("x86_Thread_features:").is_some_and(|features| features.split_whitespace().any(|one| one == "shstk")) {
        return Some(Guard::ShadowStack);
    }
    match field("Seccomp:") {
        None | Some("0") => None,
        Some("1") => Some(Guard::Strict),
        Some(_) => Some(Guard::Filter),
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
            ("strict", "Seccomp:\t1\nSeccomp_filters:\t0\n", Some(Guard::Strict)),
            ("filter", "Seccomp:\t2\nSeccomp_filters:\t3\n", Some(Guard::Filter)),
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
}
