//! Processes that end while they are patched, or right after: by what, and what was patched then.
//!
//! A program that ends by a fault in such a moment may have ended by our doing. That must not look like any other end, so
//! it is said with all that is known, also where the cause can't be known. A signal that others send (to end a job, say)
//! is theirs.
//!
//! Next: `insert`, which watches each process; `ending`, which tells by what it ended.

use crate::ending::{AFTER, Ending, named};
use crate::insert::Inserted;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use trimtab_os::{ProcessEnd, wait_for_end};
use trimtab_stub::view::View;
use trimtab_types::Pid;

/// True if a thread has entered one of `probes` since they went in.
fn was_entered(view: View<'_>, probes: &[u32]) -> bool {
    let capacity = view.geometry().ring_capacity;
    view.slots().any(|slot| {
        let written = slot.slot.ring_written.load(Relaxed);
        let mut calls = (written.saturating_sub(capacity)..written).map(|index| slot.call(index).probe.load(Relaxed));
        calls.any(|probe| probes.contains(&probe))
    })
}

impl Inserted {
    /// The message if the process has ended by a fault, or by what can't be known, since it was patched. If its memory
    /// is gone, which is long before its end where a core file is written, the end is waited for, for a moment.
    pub fn departure(&self, is_memory_gone: bool) -> Option<String> {
        let ending = self.ending.as_ref()?;
        if is_memory_gone {
            wait_for_end([&ending.end].into_iter(), AFTER);
        }
        let had_finished = || was_entered(self.view(), &self.last_calls);
        ending.told(&format!("while trimtab had patched {}", self.patched), had_finished)
    }
}

/// Processes that are watched for a moment after their probes were taken out.
#[derive(Debug, Default)]
pub struct Departures(Vec<Ending>);

impl Departures {
    /// Of those that run now.
    pub fn of(pids: impl Iterator<Item = Pid>) -> Self {
        Departures(pids.filter_map(Ending::of).collect())
    }

    /// Waits until `after` has passed since now, when the probes have just been taken out, or until all have ended. Returns
    /// what to tell of those that ended so that they may have been harmed, and of whom nothing was `told` yet.
    pub fn linger(&self, after: Duration, told: &[String]) -> Vec<String> {
        let since = Instant::now();
        let running = || self.0.iter().map(|ending| &ending.end).filter(|end| !end.is_over());
        running().for_each(ProcessEnd::look_closely);
        while running().next().is_some() && since.elapsed() < after {
            wait_for_end(running(), after.saturating_sub(since.elapsed()));
        }
        let is_new = |ending: &&Ending| !told.iter().any(|text| text.contains(&named(ending.pid)));
        let when = "less than a second after trimtab took out its probes";
        // An end of which something was told, or nothing, while the probes were in is none of these.
        self.0.iter().filter(is_new).filter_map(|ending| ending.told(when, || false)).collect()
    }
}
