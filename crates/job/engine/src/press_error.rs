//! Errors of pressing on a job. Probes have ended with each of them.
//!
//! Next: `pressed`, which raises most.

use crate::error::Error;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum PressError {
    /// Probes run on one machine.
    #[error("probes run on this machine only, and this job has ranks elsewhere: profile it with all ranks on one node")]
    Elsewhere,
    /// A probe can't be started.
    #[error("can't run a probe that presses on {what}")]
    NoProbe {
        /// The resource.
        what: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Others were at work.
    #[error(
        "the probes' own pace differed by {percent:.0}% between two looks at the same work: others are at work on this host, so \
         nothing is kept; try again when it is quiet"
    )]
    Disturbed {
        /// How far.
        percent: f64,
    },
    /// Others were at work beside the job, so that none of its windows is without pressure.
    #[error(
        "{who} took {busy:.2} of this host's processors while no probe pressed: the job's answer to pressure can't be told from that to \
         others, and nothing was kept; try again when they have ended"
    )]
    Beside {
        /// The busiest of them.
        who: String,
        /// All of them together, in processors.
        busy: f64,
    },
    /// The user ended it.
    #[error("interrupted: the probes have ended, and nothing was kept")]
    Interrupted,
    /// A window could not be measured.
    #[error("a window under pressure could not be measured: the probes have ended, and nothing was kept")]
    Window(#[source] Error),
    /// Windows do not say how long an iteration takes.
    #[error("{why}: the probes have ended, and nothing was kept")]
    NoPace {
        /// Why.
        why: String,
    },
    /// It takes longer than it may.
    #[error(
        "one round of windows takes longer than {within_s} s: nothing was kept; allow more with --within, or less with --each"
    )]
    TooLong {
        /// Allowed, seconds.
        within_s: f64,
    },
}
