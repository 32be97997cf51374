//! One program on several numbers of ranks: what `trimtab report A B C --scaling` says.
//!
//! Next: `trimtab-window` computes it, `trimtab-report` draws it, `docs/report.md` explains it.

use crate::report::{Estimate, FunctionGroup};
use serde::{Deserialize, Serialize};

/// Name and version of the shape of it.
pub const SCHEMA: &str = "trimtab.scaling/1";

/// How the work changes with the number of ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// The work of all ranks together stays: twice the ranks take half the time at best.
    #[default]
    Strong,
    /// The work of each rank stays: more ranks take as long at best.
    Weak,
}

/// Windows of one program on several numbers of ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The program of all windows.
    pub program: String,
    /// How its work changes.
    pub work: Work,
    /// One for each number of ranks, ascending; the first is the one that all others are compared with.
    pub points: Vec<ScalingPoint>,
    /// Seconds that an iteration takes longer on the most ranks than it would if it scaled ideally.
    pub lost_s: f64,
    /// Half width of its 95% interval; `None`: a window has none.
    pub lost_half_width_95_s: Option<f64>,
    /// The parts of that, the largest first; empty: not known.
    pub parts: Vec<LostPart>,
    /// The measured functions that take longer on the most ranks than they ideally would, the longest first.
    pub functions: Vec<FunctionScaling>,
    /// Warnings that a reader must know.
    pub warnings: Vec<String>,
}

/// A window on one number of ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingPoint {
    /// The window, `JOB/NUMBER`.
    pub window: String,
    /// Ranks of the job.
    pub ranks: u32,
    /// Time of one iteration.
    pub time_per_iteration_s: Estimate,
    /// Time on the fewest ranks / time on these: at best the ratio of the ranks, or 1 where each rank's work stays.
    pub speed_up: f64,
    /// Half width of its 95% interval; `None`: a window has none.
    pub speed_up_half_width_95: Option<f64>,
    /// Speed-up / the best that is possible.
    pub efficiency: f64,
    /// Computation of all ranks in an iteration on the fewest ranks / on these, and where each rank's work stays of one rank:
    /// below 1 ranks compute more than their part. `None`: not measured.
    pub computation_scaling: Option<f64>,
    /// Parallel efficiency, as in the report.
    pub parallel_efficiency: Option<f64>,
    /// Its factor load balance.
    pub load_balance: Option<f64>,
    /// Its factor communication.
    pub communication_efficiency: Option<f64>,
    /// The serial part of the work that this speed-up would come of by Amdahl's law, as Karp and Flatt compute it: of strong scaling
    /// only. `None`: the first point, or weak scaling.
    pub serial_fraction: Option<f64>,
    /// Half width of its 95% interval, of both windows' errors; `None`: there is no fraction, or a window has no interval.
    #[serde(default)]
    pub serial_fraction_half_width_95: Option<f64>,
}

/// A part of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostIn {
    /// Ranks compute longer, on average, than their part of the work.
    Computation,
    /// The rank that computes longest takes longer than the mean.
    LoadBalance,
    /// The time that the rank which computes longest is in communication.
    Communication,
}

/// How much of an iteration one of them costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LostPart {
    /// The part.
    pub part: LostIn,
    /// Seconds of an iteration on the most ranks above the ideal; below zero: it scales better than ideal.
    pub lost_s: f64,
}

/// How a function's time follows the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// It shrinks, but less than ideal.
    Shrinks,
    /// It takes as long on the most ranks as on the fewest, within a tenth.
    Stays,
    /// It grows.
    Grows,
    /// It was not called on the fewest ranks.
    Appears,
}

/// A function at each of the points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionScaling {
    /// Its name.
    pub name: String,
    /// Its group.
    pub group: FunctionGroup,
    /// Seconds in an iteration at each point: on the rank that is in it longest, and of communication the mean over ranks.
    /// `None`: it was not called there, not timed, or which rank is longest is not known.
    pub per_iteration_s: Vec<Option<f64>>,
    /// The rank that is in it longest on the most ranks, if only one calls it.
    pub only_rank: Option<u32>,
    /// Seconds of an iteration on the most ranks above the ideal.
    pub lost_s: f64,
    /// How it follows the number of ranks.
    pub growth: Growth,
}
