//! Processes that ended by a fault, or by what can't be known, while trimtab had patched them or right after.
//!
//! Next: `trimtab-session`, which watches for it.

use std::time::Duration;
use trimtab_session::{AFTER, Departures};
use trimtab_types::Pid;

/// Ends that may be due to trimtab.
#[derive(Debug, Default)]
pub struct Ends {
    /// A sentence for each process that ended while it was patched.
    departed: Vec<String>,
    /// Processes of this machine, since before they were patched.
    watched: Departures,
}

impl Ends {
    /// Watches processes of this machine that are about to be patched.
    pub fn watch(pids: impl Iterator<Item = Pid>) -> Self {
        Ends { departed: Vec::new(), watched: Departures::of(pids) }
    }

    /// With a sentence for each process that ended while it was patched.
    pub fn with(self, departed: Vec<String>) -> Self {
        Ends { departed, ..self }
    }

    /// A sentence for each process that ended while it was patched, or does so within a second of now, when the probes
    /// have just been taken out. It waits for that second.
    pub fn told(&self) -> Vec<String> {
        self.told_within(AFTER)
    }

    /// As [`Ends::told`], but within `after` of now, for a caller who looks after the processes himself.
    pub fn told_within(&self, after: Duration) -> Vec<String> {
        let later = self.watched.linger(after.min(AFTER), &self.departed);
        self.departed.iter().cloned().chain(later).collect()
    }
}
