//! Figures of all ranks in a report that has the details of a few only: a large job's, summed on the way to the root.
//!
//! Next: `trimtab-window`'s `reduce` computes them; docs/report.md explains the fields to users.

use super::group_time::GroupTime;
use super::share::Oversubscription;
use serde::{Deserialize, Serialize};

/// The figures of all ranks, where `Report::ranks` has only those that stand out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reduced {
    /// Ranks that were measured, and that all other numbers of the report are of.
    pub ranks: u32,
    /// Parts of a report that are not in this one because they need the details of every rank, a sentence each.
    pub left_out: Vec<String>,
    /// Recorded time of each rank.
    pub duration_s: RankSpread,
    /// Time of each rank outside of communication; `None`: not known.
    pub computation_s: Option<RankSpread>,
    /// Time of each rank in communication; `None`: not known.
    pub communication_s: Option<RankSpread>,
    /// Ranks by computation, in classes of the same width from the smallest to the largest; empty: not known.
    pub histogram: Vec<RankClass>,
    /// Ranks that compute nearly as long as the longest one, within 1.1x, itself among them.
    pub longest_ranks: u32,
    /// Every rank that computes less than these also communicates more than the longest one.
    pub others_wait: bool,
    /// Each function's time and calls over the ranks that called it, in the order of `Report::functions`.
    pub functions: Vec<FunctionRanks>,
    /// Sums of each machine, by name.
    pub nodes: Vec<NodeSum>,
    /// The most threads of one rank that communicate; `None`: not measured.
    pub communication_threads_max: Option<u32>,
    /// Share of time in which any thread of a rank communicates, at most: mean over ranks; `None`: not known.
    pub communication_share_at_most: Option<f64>,
    /// Time inside functions of each measured group other than "comm", of all ranks.
    pub group_s: Vec<GroupTime>,
    /// Bytes sent whose receiver could not be named; `None`: communication was not measured.
    pub unattributed_bytes: Option<u64>,
    /// Ranks that job control (SIGSTOP) held in the window, ascending.
    pub stopped_ranks: Vec<u32>,
    /// The longest such time of one rank, seconds; `None`: nobody could look.
    pub stopped_s_max: Option<f64>,
    /// Groups of the job's own ranks that share too few processors.
    pub crowds: u32,
    /// In one of them ranks had to wait for processors, or nobody knows that they had not to.
    pub crowds_waited: bool,
    /// The one with most ranks or wanted processors for a processor; `None`: there is none.
    pub most_crowded: Option<CrowdedNode>,
}

/// A group of the job's own ranks that share too few processors, and its machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CrowdedNode {
    /// Host name.
    pub host: String,
    /// The group.
    pub group: Oversubscription,
}

/// A quantity over ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankSpread {
    /// The smallest.
    pub min: f64,
    /// The rank that has it; of several the lowest.
    pub rank_of_min: u32,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: f64,
    /// The rank that has it; of several the lowest.
    pub rank_of_max: u32,
    /// Standard deviation over ranks; `None` for one.
    pub deviation: Option<f64>,
}

/// Ranks whose computation lies between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankClass {
    /// From this, seconds.
    pub from_s: f64,
    /// To below this, or up to it in the last class, seconds.
    pub to_s: f64,
    /// Ranks.
    pub ranks: u32,
}

/// A function over the ranks that called it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionRanks {
    /// As in `Report::functions`.
    pub name: String,
    /// Ranks that called it.
    pub ranks: u32,
    /// Time inside; `None`: it was not timed on all of them.
    pub time_s: Option<RankSpread>,
    /// The fewest calls of a rank.
    pub calls_min: u64,
    /// The most calls of a rank.
    pub calls_max: u64,
}

/// The ranks of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeSum {
    /// Host name.
    pub host: String,
    /// Ranks measured there.
    pub ranks: u32,
    /// Mean computation of these, seconds; `None`: not known.
    pub computation_s: Option<f64>,
    /// That of the one which computes shortest.
    pub computation_s_min: Option<f64>,
    /// That of the one which computes longest.
    pub computation_s_max: Option<f64>,
}
