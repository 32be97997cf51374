//! Taking out what a killed trimtab left, in all ranks of a job or in one process.
//!
//! Next: `trimtab_session::leftover`, which finds and undoes.

use crate::Engine;
use crate::audited::{Audited, Changed};
use crate::error::Error;
use crate::nodes::UndoneAt;
use trimtab_session::Claim;
use trimtab_session::leftover::{self, Leftover};
use trimtab_track::Job;
use trimtab_types::{Pid, Rank};

/// Places that were restored in a process, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Removed {
    /// How many.
    pub patches: usize,
    /// Memory that had to stay.
    pub left_mapped_bytes: u64,
    /// Why, if any had to.
    pub left_because: Option<String>,
    /// Longest time that the process was held, microseconds.
    pub pause_us: f64,
}

/// A process of this machine that was looked at.
#[derive(Debug)]
pub struct LookedAt {
    /// Its rank in the job; `None`: it only named the job.
    pub rank: Option<Rank>,
    /// The process.
    pub pid: Pid,
    /// The things that were taken out; `None`: there were none.
    pub removed: Result<Option<Removed>, Error>,
}

/// All that was taken out of a job.
#[derive(Debug)]
pub enum Undone {
    /// Of each process here.
    Here(Vec<LookedAt>),
    /// Of a job on many nodes.
    Spread {
        /// Nodes on which no agent looked.
        absent: Vec<String>,
        /// By host.
        nodes: Vec<UndoneAt>,
    },
}

impl Engine<'_> {
    pub(crate) fn undo_here(&self, job: &Job, named: Option<Pid>, seccomp_ok: bool) -> Vec<LookedAt> {
        let ranks = job.ranks.iter().map(|rank| (Some(rank.rank), rank.pid));
        let others = named.filter(|pid| job.ranks.iter().all(|rank| rank.pid != *pid));
        let all = ranks.chain(others.map(|pid| (None, pid)));
        all.map(|(rank, pid)| LookedAt { rank, pid, removed: self.undo_process(pid, seccomp_ok) }).collect()
    }

    /// Takes out what is left in one process; `None`: nothing is.
    ///
    /// # Errors
    /// Another trimtab is at work in it, or not everything could be restored.
    pub fn undo_process(&self, pid: Pid, seccomp_ok: bool) -> Result<Option<Removed>, Error> {
        if seccomp_ok {
            trimtab_os::trust_filters(pid);
        }
        // Memory that another trimtab is just about to map is not left over.
        let _claim = Claim::of(pid)?;
        let found = leftover::find_also_coming(pid)?;
        let patches = match &found {
            Leftover::None => return Ok(None),
            Leftover::Complete { patches, .. } => *patches,
            Leftover::Unfinished(_) => 0,
        };
        let change = Audited::begin(self.audit, "undo", Changed::Processes(&[pid]))?;
        let removal = change.around(|| leftover::undo(pid, &found))?;
        if !removal.foreign.is_empty() {
            return Err(Error::Foreign { places: removal.foreign.len(), of: patches });
        }
        let (left_mapped_bytes, pause_us) = (removal.left_mapped_bytes, removal.pause_ns_max as f64 / 1e3);
        Ok(Some(Removed { patches, left_mapped_bytes, left_because: removal.left_because, pause_us }))
    }
}
