//! The way to a job's other nodes, as the engine asks for it.
//!
//! The agents' crate goes it. Values are plain, and go over its wire as they are here.
//!
//! Next: `window`, which asks.

use crate::spread::Spread;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use trimtab_measure::Crew;
use trimtab_neighbours::Counters;
use trimtab_trigger::Waker;
use trimtab_types::BoxError;
use trimtab_types::report::Report;

/// A way to other nodes.
pub trait Nodes: Sync {
    /// True if agents stand by on a site's nodes: they measure what Slurm runs, also on one node.
    fn stand_by(&self) -> bool;

    /// True if those measure this job.
    fn stand_by_for(&self, spread: &Spread) -> bool {
        self.stand_by() && matches!(spread, Spread::Slurm(_))
    }

    /// Has agents come on all nodes of a job. With `hold` each looks at its node before it comes, and ranks that begin MPI
    /// from then on are held. `is_interrupted` ends the waiting.
    ///
    /// # Errors
    /// No way is known, or no agent comes.
    fn gather<'a>(
        &'a self,
        spread: &Spread,
        command: &str,
        hold: Option<Hold>,
        is_interrupted: &'a dyn Fn() -> bool,
    ) -> Result<Box<dyn Gathered + 'a>, BoxError>;

    /// Has a site listen for calls for a job, until the answer is dropped. `waker` rings at each.
    ///
    /// # Errors
    /// There is no site, or it refuses: what can't be heard is not waited for.
    fn hear_calls(&self, job: Callable, waker: Waker) -> Result<Box<dyn Calls>, BoxError>;
}

/// A job that may be called through a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callable {
    /// Its names there, the best to type first.
    pub names: Vec<String>,
    /// How the keys of its filed windows begin, if the site keeps any.
    pub key: Option<String>,
    /// Its owner.
    pub owner: Option<u32>,
    /// Only calls with one of these names are meant; empty: all are.
    pub calls: Vec<String>,
}

/// A site that listens for calls.
pub trait Calls {
    /// The name by which the job is best called there.
    fn job_name(&self) -> &str;

    /// The name that was called since the last question, and by whom.
    fn take(&self) -> Option<String>;

    /// Why calls were not heard since the last question, a sentence for each reason.
    fn take_troubles(&self) -> Vec<String>;
}

/// How ranks are to be held where they come out of `MPI_Init`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// At most so many seconds each.
    pub seconds: u64,
    /// The job's owner says that its filters of system calls let ours pass, where they can't be read.
    pub seccomp_ok: bool,
}

/// Agents that came; they go with this.
pub trait Gathered {
    /// How many there are.
    fn count(&self) -> usize;

    /// Nodes whose agents did not come or are gone.
    fn absent(&self) -> Vec<String>;

    /// Why nodes whose agents came have no ranks, a sentence each.
    fn left_out(&self) -> Vec<String>;

    /// The words of what started the agents, if there are any.
    fn said(&self) -> String;

    /// The crew of all agents that have ranks, for which it waits so long at most.
    ///
    /// # Errors
    /// None has any.
    fn crew(&mut self, wait: Duration) -> Result<Box<dyn FarCrew + '_>, BoxError>;

    /// The ranks that agents have, by position; they may take so long to appear.
    ///
    /// # Errors
    /// None has any.
    fn present(&mut self, wait: Duration) -> Result<BTreeMap<usize, Present>, BoxError>;

    /// How the machines are on which the job has ranks, and which other jobs are there: of all whose agents answer soon.
    ///
    /// # Errors
    /// Nobody can be asked.
    fn machines(&mut self) -> Result<Vec<MachineNow>, BoxError>;

    /// Has all agents that have ranks take out what an earlier trimtab left in them. Ranks may take so long to appear.
    ///
    /// # Errors
    /// None has any.
    fn undo(&mut self, wait: Duration, seccomp_ok: bool) -> Result<Vec<UndoneAt>, BoxError>;

    /// The site's place for the report, where its agents measured.
    fn take_filing(&mut self) -> Option<Box<dyn Filing>>;
}

/// Agents that have ranks of the job, as windows and scripts ask them.
pub trait FarCrew: Crew + trimtab_script::Nodes {
    /// Their ranks, by position.
    fn present(&self) -> &BTreeMap<usize, Present>;

    /// Troubles on the way so far; they are told once.
    fn take_troubles(&mut self) -> Vec<String>;
}

/// A site that keeps the report of a window.
pub trait Filing {
    /// Has it kept, which can be done once.
    ///
    /// # Errors
    /// The site can't be asked, or refuses.
    fn file(&self, key: &str, report: &Report) -> Result<Filed, BoxError>;
}

/// Where a site keeps a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filed {
    /// The job's name at the site.
    pub job: String,
    /// The window's number in it.
    pub window: u32,
}

/// An agent with its ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Present {
    /// Its host.
    pub host: String,
    /// Names the job on that host.
    pub key: String,
    /// Number of ranks in the whole job, where its launcher says so.
    pub size: Option<u32>,
    /// The ranks there.
    pub ranks: Vec<PresentRank>,
}

/// A rank on an agent's host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentRank {
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Its process there.
    pub pid: i32,
    /// The start of that process in clock ticks after boot.
    pub start_ticks: u64,
}

/// A machine of a job's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineNow {
    /// Its name.
    pub host: String,
    /// Other jobs with processes there, each with the name of a program.
    pub jobs: BTreeMap<String, String>,
    /// The kernel's counters.
    pub counters: Counters,
}

/// A host, and what was taken out of each rank there, or why nothing was.
pub type UndoneAt = (String, Result<Vec<UndoneRank>, String>);

/// The leftovers of an earlier trimtab in a rank, and what became of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UndoneRank {
    /// The rank.
    pub rank: u32,
    /// Its process there.
    pub pid: i32,
    /// True if anything was in it.
    pub was_there: bool,
    /// Places that were restored.
    pub patches: u64,
    /// Longest time the process was held, microseconds.
    pub pause_us_max: f64,
    /// Why something is still there.
    pub problem: Option<String>,
}
