//! Processes that end while they are patched, or right after: by what, and what was patched then.
//!
//! A program that ends by a fault in such a moment may have ended by our doing. That must not look like any other end, so
//! it is said with all that is known, also where the cause can't be known. A signal that others send (to end a job, say)
//! is theirs.
//!
//! Next: `insert`, which watches each process; `trimtab-os`' `wait`, which asks the kernel.

use crate::insert::Inserted;
use crate::prepare::Prepared;
use std::time::{Duration, Instant};
use trimtab_os::{EndCause, ProcessEnd, signal_name, wait_for_end};
use trimtab_types::Pid;

/// Patched functions that are named.
const NAMES_MAX: usize = 4;
/// An end so long after the probes were taken out may still be due to them.
const AFTER: Duration = Duration::from_secs(1);
/// The next step for whoever reads of it.
const ADVICE: &str = "run it again without trimtab: if it does not end so by itself, trimtab has harmed it, and we ask for a report \
                      with this message and the core file";

/// What to tell of a process that has ended so that it may have been harmed, `when` in words; `None` if it runs, or has
/// ended otherwise.
pub fn departure(pid: Pid, end: &ProcessEnd, when: &str) -> Option<String> {
    Some(format!("{}{} {when}; {ADVICE}", named(pid), suspicious(end.cause()?)?))
}

fn named(pid: Pid) -> String {
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
    /// What is patched, in words.
    pub(crate) fn patched(&self) -> String {
        patched_text(
            self.point_count(),
            &self.functions.iter().map(|function| function.name.as_str()).collect::<Vec<_>>(),
        )
    }
}

fn patched_text(places: usize, names: &[&str]) -> String {
    let shown = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let noun = if places == 1 { "place" } else { "places" };
    format!("{places} {noun} of {shown}{more}")
}

impl Inserted {
    /// What to tell if the process has ended by a fault, or by what can't be known, since it was patched. If its memory is
    /// gone, which is long before its end where a core file is written, the end is waited for, for a moment.
    pub fn departure(&self, is_memory_gone: bool) -> Option<String> {
        let end = self.end.as_ref()?;
        if is_memory_gone {
            wait_for_end([end].into_iter(), AFTER);
        }
        departure(self.pid(), end, &format!("while trimtab had patched {}", self.patched))
    }
}

/// Processes that are watched for a moment after their probes were taken out.
#[derive(Debug, Default)]
pub struct Departures(Vec<(Pid, ProcessEnd)>);

impl Departures {
    /// Of those that run now.
    pub fn of(pids: impl Iterator<Item = Pid>) -> Self {
        Departures(pids.filter_map(|pid| Some((pid, ProcessEnd::of(pid).ok()?))).collect())
    }

    /// Waits until a second after `since`, at which the probes were taken out, or until all have ended. What to tell of
    /// those that ended so that they may have been harmed, and of whom nothing was `told` yet.
    pub fn linger(&self, since: Instant, told: &[String]) -> Vec<String> {
        let is_over = || self.0.iter().all(|(_, end)| end.is_over());
        while !is_over() && since.elapsed() < AFTER {
            let running = self.0.iter().map(|(_, end)| end).filter(|end| !end.is_over());
            wait_for_end(running, AFTER.saturating_sub(since.elapsed()));
        }
        let is_new = |(pid, _): &&(Pid, ProcessEnd)| !told.iter().any(|text| text.contains(&named(*pid)));
        let told = |(pid, end): &(Pid, ProcessEnd)| {
            departure(*pid, end, "less than a second after trimtab took out its probes")
        };
        self.0.iter().filter(is_new).filter_map(told).collect()
    }
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
}
