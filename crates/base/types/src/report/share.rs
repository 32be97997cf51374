//! The others on the machines of a window, and the event that asked for the window.
//!
//! Next: `trimtab-neighbours` gathers it on each machine, `docs/report.md` explains it.

use super::words::{Closeness, CrowdLimit, EventKind, NeighbourKind, Presence};
use serde::{Deserialize, Serialize};

/// The event for which a window was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its kind.
    pub kind: EventKind,
    /// The condition as it was asked for, e.g. "load>8".
    pub condition: String,
    /// The value that was seen: the job that came or went, the load, the name that was called out and, by the site's
    /// API, by whom.
    pub value: String,
    /// When it was seen, seconds since 1970.
    pub at_unix_s: f64,
}

/// One machine during a window: where the job's ranks ran, and who was there beside them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeShare {
    /// Host name.
    pub host: String,
    /// Time over which all of this was seen: the window, and at most half a second around it.
    pub seconds: f64,
    /// Processors that are switched on; `None`: the kernel does not say.
    pub processors: Option<u32>,
    /// Share of the processors' time in which they worked, for whomever.
    pub busy: Option<f64>,
    /// Share of the processors' time that the machine's own host gave to others.
    pub steal: Option<f64>,
    /// Processes that ran or wanted to, mean over the last minute at the window's end.
    pub load: Option<f64>,
    /// Share of the time in which some process waited for a processor.
    pub pressure: Option<f64>,
    /// Where each rank ran.
    pub places: Vec<RankPlace>,
    /// Other jobs and users that were there, busiest first.
    pub neighbours: Vec<Neighbour>,
    /// Further ones, for which the report has no room.
    pub neighbours_left_out: u32,
    /// The limits that control groups set the ranks, where they restrict anything.
    pub limits: Vec<Limit>,
    /// The job's own ranks that share too few processors; empty: none do; `None`: it is not known.
    #[serde(default)]
    pub oversubscribed: Option<Vec<Oversubscription>>,
}

/// Ranks of the job on one machine that are more, or whose threads want more, than the processors they share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Oversubscription {
    /// The ranks, ascending.
    pub ranks: Vec<u32>,
    /// Processors that they share.
    pub processors: f64,
    /// The limit that bounds these.
    pub limited_by: CrowdLimit,
    /// Processors that their threads wanted on average: time in which these ran or were ready to, over time.
    pub processors_wanted: Option<f64>,
    /// Processors that their threads had on average.
    pub processors_had: Option<f64>,
}

/// Where a rank ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankPlace {
    /// World rank.
    pub rank: u32,
    /// Processors it may run on, e.g. "0-3,8".
    pub cpus_allowed: String,
    /// Processors on which any of its threads was seen.
    pub cpus_seen: String,
    /// Mean clock rate of these at both ends of the window.
    pub clock_mhz: Option<f64>,
    /// Time for which job control (SIGSTOP) was seen to hold it in the window, seconds, to about 0.2 s; 0: it was not seen to.
    /// `None`: nobody could look, or an older report.
    #[serde(default)]
    pub stopped_s: Option<f64>,
    /// Time in which its threads were ready to run and had no processor, seconds, over [`NodeShare::seconds`]; `None`: the kernel
    /// does not say.
    #[serde(default)]
    pub waited_s: Option<f64>,
}

/// Another job, or all other processes of a user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// A job or a user.
    pub kind: NeighbourKind,
    /// Slurm's id of the job and step, the pid of the MPI job's launcher, or the user's name.
    pub name: String,
    /// The user.
    pub user: String,
    /// Short name of its busiest process.
    pub program: String,
    /// Processes.
    pub processes: u32,
    /// Those with an MPI rank.
    pub ranks: u32,
    /// Processors it kept busy on average; `None`: they have ended, and it is not known what they did.
    pub busy_processors: Option<f64>,
    /// Processors on which its busy processes were seen.
    pub cpus_seen: String,
    /// The closest it came to a rank.
    pub shares: Closeness,
    /// The ranks it came so close to.
    pub with_ranks: Vec<u32>,
    /// When it was there.
    pub presence: Presence,
}

/// The limits that a control group sets its processes, and what it kept from them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The group that sets it.
    pub group: String,
    /// The ranks in it.
    pub ranks: Vec<u32>,
    /// Processors it may use at a time.
    pub processors: Option<f64>,
    /// Time in which it was kept from running because it had used these up; several processors' times add up.
    pub throttled_s: Option<f64>,
    /// Share of its accounting periods in which that happened.
    pub throttled_periods: Option<f64>,
    /// Memory it may use.
    pub memory_bytes_max: Option<u64>,
    /// Memory it used at the window's end.
    pub memory_bytes: Option<u64>,
}
