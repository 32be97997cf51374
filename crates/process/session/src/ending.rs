//! The end of a process: by what it came, and whether that may have been our doing.
//!
//! Where the kernel forgets a process's status, two other things show that it ended well: it had come to `MPI_Finalize`, or
//! the launcher that waited for it says by its own status that all have.
//!
//! Next: `departed`, which says so; `trimtab-os`' `wait`, which asks the kernel.

use crate::payload::Payload;
use crate::prepared::Prepared;
use crate::serving::{FOUND_AT, HELD_AT};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use trimtab_os::{EndCause, ProcessEnd, signal_name, stat_of, wait_for_end};
use trimtab_types::Pid;

/// Patched functions that are named.
const NAMES_MAX: usize = 4;
/// An end so long after the probes were taken out may still be due to them.
pub const AFTER: Duration = Duration::from_secs(1);
/// Beginnings of the names of programs that wait for all ranks, and end with 0 only if they did.
const LAUNCHERS: [&str; 5] = ["mpirun", "mpiexec", "orterun", "prterun", "srun"];
/// Parents of parents that are looked at for one.
const ANCESTORS_MAX: usize = 8;
/// Launchers that ran on when their ranks had ended.
static WAITED_IN_VAIN: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());
/// By what a rank of any library says that it has nothing more to do.
const LAST_CALLS: [&str; 2] = ["MPI_Finalize", "MPI_Session_finalize"];
/// The next step for whoever reads of it.
const ADVICE: &str = "run it again without trimtab: if it does not end so by itself, trimtab has harmed it, and we ask for a report \
                      with this message and the core file";

/// A process that is watched to its end.
#[derive(Debug)]
pub struct Ending {
    pub(crate) pid: Pid,
    pub(crate) end: ProcessEnd,
    launcher: Option<(Pid, ProcessEnd)>,
}

impl Ending {
    /// Of a process that runs now; `None` if it doesn't, or the kernel does not tell of ends.
    pub fn of(pid: Pid) -> Option<Self> {
        let end = ProcessEnd::of(pid).ok()?;
        let launcher = launcher_of(pid).and_then(|pid| Some((pid, ProcessEnd::of(pid).ok()?)));
        Some(Ending { pid, end, launcher })
    }

    /// The words to tell if it has ended so that it may have been harmed, `when` in words; `None` if it runs, or has ended
    /// otherwise. `had_finished` is asked where the kernel does not know any more.
    pub(crate) fn told(&self, when: &str, had_finished: impl Fn() -> bool) -> Option<String> {
        let ended_well = || had_finished() || self.launcher_ended_well();
        let cause = self.end.cause().filter(|cause| *cause != EndCause::Unknown || !ended_well())?;
        Some(format!("{}{} {when}; {ADVICE}", named(self.pid), suspicious(cause)?))
    }

    /// The launcher ends after its ranks, so it is waited for, for a moment; once for all of them.
    fn launcher_ended_well(&self) -> bool {
        let Some((pid, launcher)) = &self.launcher else { return false };
        let mut in_vain = WAITED_IN_VAIN.lock().unwrap_or_else(PoisonError::into_inner);
        if !in_vain.contains(&pid.0) {
            wait_for_end([launcher].into_iter(), AFTER);
            in_vain.extend((!launcher.is_over()).then_some(pid.0));
        }
        launcher.cause() == Some(EndCause::Exited(0))
    }
}

/// The outermost launcher above a process.
fn launcher_of(pid: Pid) -> Option<Pid> {
    let parent = |pid: &Pid| stat_of(*pid, pid.0).map(|stat| stat.parent).filter(|parent| parent.0 > 1);
    let is_launcher = |pid: &Pid| {
        let command = stat_of(*pid, pid.0).map(|stat| stat.command).unwrap_or_default();
        LAUNCHERS.iter().any(|name| command.starts_with(name))
    };
    std::iter::successors(parent(&pid), parent).take(ANCESTORS_MAX).filter(is_launcher).last()
}

/// True if a function of this name is one of those, as C or Fortran calls it, or a profiling library.
fn is_last_call(name: &str) -> bool {
    let plain = name.trim_end_matches('_');
    let is = |name: &str| LAST_CALLS.iter().any(|last| name.eq_ignore_ascii_case(last));
    is(plain) || plain.strip_prefix(['P', 'p']).is_some_and(is)
}

pub(crate) fn named(pid: Pid) -> String {
    format!("process {pid} ended ")
}

fn suspicious(cause: EndCause) -> Option<String> {
    match cause {
        EndCause::Fault(signal) => Some(format!("by {}", signal_name(signal))),
        EndCause::Unknown => {
            Some("by a cause that can't be known (its parent has taken note of it; Linux 6.15 tells)".into())
        }
        EndCause::Signal(_) | EndCause::Exited(_) => None,
    }
}

impl Prepared {
    /// Numbers of the probes at functions that a rank calls last.
    pub(crate) fn last_calls(&self) -> Vec<u32> {
        // A script's bodies keep no list of calls.
        let functions = self.functions.iter().filter(|_| !matches!(self.payload, Payload::Script(_)));
        functions.filter(|function| is_last_call(&function.name)).map(|function| function.probe).collect()
    }

    /// The patched program, in words.
    pub(crate) fn patched(&self) -> String {
        let names: Vec<&str> = self.asked().map(|function| function.name.as_str()).collect();
        let serving = [HELD_AT, FOUND_AT].into_iter();
        let serving = serving.filter(|name| self.functions.iter().any(|function| function.name == *name));
        patched_text(self.point_count(), &names) + &serving.map(|name| format!(", and {name}")).collect::<String>()
    }
}

fn patched_text(places: usize, names: &[&str]) -> String {
    let shown = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let noun = if places == 1 { "place" } else { "places" };
    format!("{places} {noun} of {shown}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ends_that_may_be_due_to_us_are_told() {
        let rows = [
            ("fault", EndCause::Fault(11), Some("SIGSEGV")),
            ("abort", EndCause::Fault(6), Some("SIGABRT")),
            ("bad_system_call", EndCause::Fault(31), Some("SIGSYS")),
            ("unknown", EndCause::Unknown, Some("can't be known")),
            ("killed", EndCause::Signal(9), None),
            ("terminated", EndCause::Signal(15), None),
            ("exited", EndCause::Exited(0), None),
            ("failed", EndCause::Exited(1), None),
        ];
        for (name, cause, wanted) in rows {
            let told = suspicious(cause);
            assert_eq!(told.is_some(), wanted.is_some(), "{name}");
            assert!(wanted.is_none_or(|part| told.is_some_and(|told| told.contains(part))), "{name}");
        }
    }

    #[test]
    fn what_was_patched_is_named() {
        assert_eq!(patched_text(1, &["f"]), "1 place of f");
        assert_eq!(patched_text(2, &["f"]), "2 places of f");
        assert_eq!(patched_text(9, &["a", "b", "c", "d", "e", "f"]), "9 places of a, b, c, d and 2 more");
    }

    #[test]
    fn by_which_calls_a_rank_says_that_it_ends() {
        for (name, wanted) in [
            ("MPI_Finalize", true),
            ("PMPI_Finalize", true),
            ("mpi_finalize_", true),
            ("pmpi_finalize__", true),
            ("MPI_Session_finalize", true),
            ("MPI_Finalized", false),
            ("MPI_Send", false),
            ("", false),
        ] {
            assert_eq!(is_last_call(name), wanted, "{name}");
        }
    }
}
