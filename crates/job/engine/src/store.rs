//! A memory of jobs and windows, as the engine asks for it.
//!
//! Next: `window`, which asks.

use crate::nodes::{Present, PresentRank};
use crate::spread::Spread;
use std::collections::BTreeMap;
use trimtab_measure::host_name;
use trimtab_track::{Job, RankProcess};
use trimtab_types::report::{LoopPlace, Report};
use trimtab_types::{BoxError, Pid, Rank};

/// Keeps windows.
pub trait Store: Sync {
    /// The loop that the newest window of this job whose loop was found took: windows with the same loop can be compared.
    ///
    /// # Errors
    /// The store can't be read.
    fn known_loop(&self, key: &str) -> Result<Option<LoopPlace>, BoxError>;

    /// Keeps a window; its report then says under which job and number.
    ///
    /// # Errors
    /// The store can't be written.
    fn keep(&self, job: &KnownJob, report: &mut Report) -> Result<(), BoxError>;

    /// The short name under which a job is kept; with `is_beginning` the newest one whose key begins so. `None`: it is not, or
    /// jobs have no names here.
    ///
    /// # Errors
    /// The store can't be read.
    fn short_name(&self, key: &str, is_beginning: bool) -> Result<Option<String>, BoxError> {
        let _ = (key, is_beginning);
        Ok(None)
    }
}

/// The facts that are kept of a job beside its report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownJob {
    /// Names it among all jobs.
    pub key: String,
    /// Its ranks' processes.
    pub processes: Vec<KnownProcess>,
}

/// A rank's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownProcess {
    /// The rank.
    pub rank: Rank,
    /// Its process.
    pub pid: Pid,
    /// The machine of that.
    pub host: String,
    /// The start of that process in clock ticks after boot.
    pub start_ticks: u64,
}

impl KnownJob {
    /// A job on this machine.
    pub fn here(job: &Job) -> Self {
        let host = host_name();
        let process = |rank: &RankProcess| KnownProcess {
            rank: rank.rank,
            pid: rank.pid,
            host: host.clone(),
            start_ticks: rank.start_time_ticks,
        };
        KnownJob { key: job.key.clone(), processes: job.ranks.iter().map(process).collect() }
    }

    /// A job on many nodes.
    pub(crate) fn spread(spread: &Spread, present: &BTreeMap<usize, Present>) -> Self {
        let first = present.values().next().map_or("", |present| &present.key);
        let of_node = |present: &Present| {
            let host = present.host.clone();
            let process = move |rank: &PresentRank| KnownProcess {
                rank: Rank(rank.rank),
                pid: Pid(rank.pid),
                host: host.clone(),
                start_ticks: rank.start_ticks,
            };
            present.ranks.iter().map(process).collect::<Vec<_>>()
        };
        KnownJob {
            key: format!("{}{} {first}", spread.key(), spread.restarts()),
            processes: present.values().flat_map(of_node).collect(),
        }
    }
}
