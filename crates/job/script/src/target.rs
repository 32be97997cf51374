//! A process that a script runs in, how often it is looked at, and what may be lost in it.
//!
//! Next: `member` for the process with the script in it, `run` for all of them.

use std::time::Duration;
use trimtab_types::Pid;

/// Between two looks at memory that bodies write to. They make no system call, so nothing can wake us when they do; a
/// look at a few words every so often uses less than a thousandth of a processor.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The same while nothing comes: the ring of messages still takes 180,000 messages a second until it is looked at.
pub(crate) const LOOK_EVERY_MAX: Duration = Duration::from_millis(100);

/// A process to run the script in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The process.
    pub pid: Pid,
    /// Its MPI rank, if it has one.
    pub rank: Option<u32>,
    /// Ranks of its job, if that is known.
    pub ranks: Option<u32>,
}

impl Target {
    /// The rank, or -1.
    pub(crate) fn rank_number(&self) -> i64 {
        self.rank.map_or(-1, i64::from)
    }
}

/// The hits that were not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Loss {
    /// Loads from addresses that can't be read; they yielded 0.
    pub unreadable_loads: u64,
    /// Messages that found no room, or were begun and never finished.
    pub messages: u64,
    /// Elapsed times that were not known.
    pub elapsed_unknown: u64,
    /// Bodies not run because a signal handler came in the middle of another one.
    pub skipped: u64,
    /// Hits on threads for which there was no area.
    pub threads: u64,
}

impl Loss {
    /// With what was lost elsewhere.
    #[must_use]
    pub fn and(self, other: Loss) -> Loss {
        Loss {
            unreadable_loads: self.unreadable_loads.saturating_add(other.unreadable_loads),
            messages: self.messages.saturating_add(other.messages),
            elapsed_unknown: self.elapsed_unknown.saturating_add(other.elapsed_unknown),
            skipped: self.skipped.saturating_add(other.skipped),
            threads: self.threads.saturating_add(other.threads),
        }
    }
}

/// A library that came while the script was in. Calls before that were missed.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Late {
    /// The process.
    pub pid: i32,
    /// The end of the library's file name, as the script gives it.
    pub library: String,
    /// When its probes were in, seconds from the start.
    pub after_s: f64,
    /// Places that were patched in it.
    pub points: usize,
}
