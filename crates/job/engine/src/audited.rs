//! Changes of processes stand in a log, before and after.
//!
//! Next: the agents' crate, which writes the log of a host; `window` for what is changed.

use crate::error::Error;
use std::fmt;
use trimtab_track::Job;
use trimtab_types::{BoxError, Pid, one_line};

/// Processes that are about to be changed, and then restored.
#[derive(Clone, Copy, Debug)]
pub enum Changed<'a> {
    /// The ranks of a job.
    Ranks(&'a Job),
    /// Any processes.
    Processes(&'a [Pid]),
}

impl fmt::Display for Changed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |pids: &mut dyn Iterator<Item = Pid>| pids.map(|pid| pid.to_string()).collect::<Vec<_>>().join(" ");
        match self {
            Changed::Ranks(job) => write!(f, "ranks {}", shown(&mut job.ranks.iter().map(|rank| rank.pid))),
            Changed::Processes(pids) => write!(f, "processes {}", shown(&mut pids.iter().copied())),
        }
    }
}

/// How a change ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All is as before.
    Restored,
    /// It failed, which left all as before, too.
    Failed {
        /// Why.
        reason: String,
    },
}

/// A log of changes.
pub trait Audit: Sync {
    /// Writes down that a command is about to change processes.
    ///
    /// # Errors
    /// It can't be written; then nothing may be changed.
    fn begin(&self, command: &str, changed: Changed<'_>) -> Result<Box<dyn Change>, BoxError>;
}

/// A change that has begun.
pub trait Change {
    /// Writes down how it ended; only the first end counts.
    fn end(&mut self, end: &End);
}

/// A change that has its end in the log whatever happens.
pub struct Audited {
    change: Box<dyn Change>,
}

impl Audited {
    /// Writes down that these processes are about to be changed.
    ///
    /// # Errors
    /// [`Error::Audit`]; then nothing may be changed.
    pub fn begin(audit: &dyn Audit, command: &str, changed: Changed<'_>) -> Result<Self, Error> {
        Ok(Audited { change: audit.begin(command, changed).map_err(Error::Audit)? })
    }

    /// Does it; what came of it is written down.
    ///
    /// # Errors
    /// Those of the work.
    pub fn around<T, E: std::error::Error>(mut self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let done = work();
        match &done {
            Ok(_) => self.restored(),
            Err(error) => self.change.end(&End::Failed { reason: one_line(error) }),
        }
        done
    }

    /// All is as before.
    pub fn restored(&mut self) {
        self.change.end(&End::Restored);
    }
}

impl Drop for Audited {
    fn drop(&mut self) {
        // Whoever left by an error has restored what was changed, or changed nothing.
        self.change.end(&End::Failed { reason: "it ended early".to_owned() });
    }
}
