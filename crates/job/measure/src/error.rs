//! What ends a measurement without a report.
//!
//! Next: `drive` raises these; the command line adds nothing but the exit code.

use trimtab_types::{Pid, Rank};

/// A measurement that could not be made. Every rank is as it was.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One rank could not be prepared, patched or restored.
    #[error("rank {rank} (process {pid})")]
    Rank {
        /// The rank.
        rank: Rank,
        /// Its process.
        pid: Pid,
        /// Why.
        #[source]
        source: trimtab_session::Error,
    },
    /// A function asked for is nowhere.
    #[error("no function matches {pattern:?}; `trimtab functions {pid}` lists what can be measured")]
    NoSuchFunction {
        /// What was asked for.
        pattern: String,
        /// The process.
        pid: Pid,
    },
    /// A function asked for by name can't be patched.
    #[error("{name} can't be measured: {reason}")]
    Refused {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// An option contradicts another.
    #[error("{0}")]
    Options(String),
    /// The program ended before anything was recorded.
    #[error("the program ended before the first iteration was recorded; attach earlier, or use `trimtab run`")]
    EndedEarly,
    /// The user interrupted before anything was recorded.
    #[error("interrupted before anything was recorded; the program runs on unchanged")]
    Interrupted,
    /// The named marker was called too seldom, or never while the other ranks called theirs.
    #[error(
        "within {seconds:.0} s {marker} was not called on rank {rank} a few times while the others called it; name another function with --mark"
    )]
    MarkerSilent {
        /// The marker.
        marker: String,
        /// The first rank without a call.
        rank: Rank,
        /// How long we waited.
        seconds: f64,
    },
}

impl Error {
    /// A rank that is gone when it is to be prepared means that the program has ended.
    pub(crate) fn or_ended(self) -> Self {
        match self {
            Error::Rank { source: trimtab_session::Error::Os(trimtab_os::Error::Gone { .. }), .. } => Error::EndedEarly,
            other => other,
        }
    }
}
