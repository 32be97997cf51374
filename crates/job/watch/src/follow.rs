//! From programs to jobs: ranks of one launch are one start, and a start is told when all of it is known.
//!
//! A program has loaded no library yet when it is seen. It is looked at again, soon at first and then less often, until
//! it has MPI in it and its whole job is there, until it is certain that it has none, or until it has ended.
//!
//! Next: `lib.rs`, which feeds this; `trimtab-track` for what a job is.

use crate::sight::Sighting;
use std::collections::BTreeMap;
use trimtab_mpi::is_mpi_module;
use trimtab_track::{Error, Job, Processes, StaticMpi, find_job_in};
use trimtab_types::Pid;

/// Time until a process is looked at for the first time, and the longest time between two looks.
const LOOK_NS_MIN: u64 = 3_000_000;
const LOOK_NS_MAX: u64 = 50_000_000;
/// How long a program without a rank may take to show that it is an MPI program.
const PLAIN_NS: u64 = 200_000_000;
/// How long one with a rank may take: a launcher may have started a script that starts the program.
const RANKED_NS: u64 = 10_000_000_000;
/// How long ranks that are missing may take after the last one came; then they are taken for those of other machines.
const MISSING_NS: u64 = 3_000_000_000;
/// How long a launch is remembered, so that a rank that comes late is not taken for another one; and how many are.
const REMEMBER_NS: u64 = 60_000_000_000;
const REMEMBER_MAX: usize = 10_000;

/// One start of a wanted program: a process, or all ranks of a job.
#[derive(Debug)]
pub struct Start {
    /// Counted from 1.
    pub number: u64,
    /// Its processes, as they were seen.
    pub processes: Vec<Sighting>,
    /// The kind of start.
    pub what: ProgramKind,
}

/// The kind of program that has started.
#[derive(Debug)]
pub enum ProgramKind {
    /// A job that can be measured.
    Job(Box<Job>),
    /// A program without MPI.
    NotMpi,
    /// It ended before that was known.
    Ended,
    /// It can't be measured.
    Refused(Error),
}

/// Programs of which it is not yet known what they are.
#[derive(Debug, Default)]
pub(crate) struct Follow {
    groups: Vec<Group>,
    /// Launches that were told, with when.
    told: BTreeMap<String, u64>,
    numbers: u64,
}

/// Processes of one launch.
#[derive(Debug)]
struct Group {
    key: Option<String>,
    has_rank: bool,
    processes: Vec<Sighting>,
    look_ns: u64,
    wait_ns: u64,
    /// True if the program has MPI linked in, once that was looked at.
    is_static: Option<bool>,
}

impl Follow {
    /// Takes a program that was seen.
    pub(crate) fn add(&mut self, sighting: Sighting) {
        let origin = sighting.origin.as_ref();
        let has_rank = origin.is_some_and(|origin| origin.has_rank);
        let key = origin.filter(|origin| origin.has_rank).map(|origin| origin.key.clone());
        if key.as_ref().is_some_and(|key| self.told.contains_key(key)) {
            return;
        }
        let look_ns = sighting.seen_ns + LOOK_NS_MIN;
        match self.groups.iter_mut().find(|group| key.is_some() && group.key == key) {
            Some(group) => group.processes.push(sighting),
            None => {
                let (processes, wait_ns) = (vec![sighting], LOOK_NS_MIN);
                self.groups.push(Group { key, has_rank, processes, look_ns, wait_ns, is_static: None });
            }
        }
    }

    /// When somebody must be looked at next.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.groups.iter().map(|group| group.look_ns).min()
    }

    /// Looks at those whose time has come.
    pub(crate) fn look(&mut self, processes: &dyn Processes, is_static_mpi: StaticMpi, now_ns: u64) -> Vec<Start> {
        let mut starts = Vec::new();
        for mut group in std::mem::take(&mut self.groups) {
            let what = if group.look_ns > now_ns { None } else { group.look(processes, is_static_mpi, now_ns) };
            let Some(what) = what else {
                self.groups.push(group);
                continue;
            };
            self.numbers += 1;
            if let Some(key) = group.key {
                self.told.insert(key, now_ns);
            }
            starts.push(Start { number: self.numbers, processes: group.processes, what });
        }
        if self.told.len() > REMEMBER_MAX || !starts.is_empty() {
            self.told.retain(|_, told_ns| now_ns.saturating_sub(*told_ns) < REMEMBER_NS);
        }
        starts
    }
}

impl Group {
    /// Its kind, if that is known now.
    fn look(&mut self, processes: &dyn Processes, is_static_mpi: StaticMpi, now_ns: u64) -> Option<ProgramKind> {
        let Some(alive) = self.processes.iter().find(|sighting| is_alive(processes, sighting)) else {
            return Some(ProgramKind::Ended);
        };
        let first_ns = self.processes.iter().map(|sighting| sighting.seen_ns).min().unwrap_or(now_ns);
        let last_ns = self.processes.iter().map(|sighting| sighting.seen_ns).max().unwrap_or(now_ns);
        let pid = alive.pid;
        // A static program shows nothing in its map; its symbols are read once, when it has had time to map libraries.
        if self.has_rank && self.is_static.is_none() && now_ns.saturating_sub(first_ns) > PLAIN_NS / 2 {
            self.is_static = Some(is_static_mpi(&alive.program));
        }
        if has_library(processes, pid) || self.is_static == Some(true) {
            match find_job_in(processes, pid, is_static_mpi) {
                Ok(job) if is_whole(&job) || now_ns.saturating_sub(last_ns) > MISSING_NS => {
                    return Some(ProgramKind::Job(Box::new(job)));
                }
                Ok(_) => {}
                Err(error) if is_early(&error) => {}
                Err(error) => return Some(ProgramKind::Refused(error)),
            }
        } else {
            let limit_ns = if self.has_rank { RANKED_NS } else { PLAIN_NS };
            if now_ns.saturating_sub(last_ns) > limit_ns {
                return Some(ProgramKind::NotMpi);
            }
        }
        self.look_ns = now_ns + self.wait_ns;
        self.wait_ns = (self.wait_ns * 2).min(LOOK_NS_MAX);
        None
    }
}

fn is_alive(processes: &dyn Processes, sighting: &Sighting) -> bool {
    let Some(start) = sighting.start_time_ticks else { return false };
    processes.stat(sighting.pid).is_ok_and(|stat| stat.runs_since(start))
}

fn has_library(processes: &dyn Processes, pid: Pid) -> bool {
    let maps = processes.maps(pid).unwrap_or_default();
    maps.iter().any(|mapping| mapping.is_file() && is_mpi_module(&mapping.path))
}

fn is_whole(job: &Job) -> bool {
    job.is_complete() || job.ranks.iter().all(|rank| rank.identity_source.is_none())
}

/// True if it may be otherwise in a moment: processes come and go while a job starts.
fn is_early(error: &Error) -> bool {
    let passing = matches!(error, Error::NotMpi { .. } | Error::NoSuchProcess { .. } | Error::Zombie { .. });
    passing || error.is_retryable() || matches!(error, Error::Traced { .. } | Error::Measured { .. })
}

#[cfg(test)]
mod tests;
