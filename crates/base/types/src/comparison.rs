//! Two windows of a job beside each other: what `trimtab report JOB --compare A B` says.
//!
//! Next: `trimtab-window` computes it, `trimtab-report` draws it, `docs/report.md` explains it.

use crate::report::{Estimate, Event, NeighbourKind};
use serde::{Deserialize, Serialize};

/// Name and version of the shape of a comparison.
pub const SCHEMA: &str = "trimtab.comparison/1";

/// Two windows of one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Id of the job in the store.
    pub job: String,
    /// The window named first.
    pub before: Side,
    /// The window named second.
    pub after: Side,
    /// Seconds of one iteration; `None`: one of them is by time, or not valid.
    pub time_per_iteration_s: Option<Change>,
    /// Share of communication; `None`: not measured, or not valid.
    pub communication_fraction: Option<Change>,
    /// Jobs and users that share a machine in the second window and not in the first.
    pub came: Vec<Companion>,
    /// Those of the first window that are not there in the second.
    pub left: Vec<Companion>,
    /// Notes that a reader must know.
    pub warnings: Vec<String>,
}

/// One of the two windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Its number in the job.
    #[serde(rename = "batch")]
    pub number: u32,
    /// Wall-clock time of its start, seconds since 1970; `None`: not known.
    pub started_unix_s: Option<f64>,
    /// All its ranks recorded the same iterations.
    pub valid: bool,
    /// The event that it waited for.
    pub event: Option<Event>,
    /// Time of one iteration.
    pub time_per_iteration_s: Option<Estimate>,
    /// Share of communication.
    pub communication_fraction: Option<Estimate>,
}

/// How a quantity differs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Second minus first.
    pub difference: f64,
    /// Half width of the 95% confidence interval of the difference; `None`: one of them has none.
    pub half_width_95: Option<f64>,
    /// Second over first: of the time per iteration, the slowdown; `None`: the first is 0.
    pub ratio: Option<f64>,
    /// The interval does not hold 0; `None`: there is no interval.
    pub significant: Option<bool>,
}

/// Somebody who shares a machine with the job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Companion {
    /// A job or a user.
    pub kind: NeighbourKind,
    /// As in the report.
    pub name: String,
    /// Short name of its busiest process.
    pub program: String,
    /// The machines.
    pub hosts: Vec<String>,
}
