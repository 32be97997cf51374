//! A process is a rank if it is in `MPI_Init` or behind it, or will call it. A launcher's word in its environment says
//! which one.

use crate::error::Error;
use crate::launcher;
use crate::procfs::Processes;
use crate::slurm::restarts;
use std::path::{Path, PathBuf};
use trimtab_mpi::{Family, Identity, Start, identify, identify_for, is_mpi_module};
use trimtab_types::Pid;
use trimtab_types::procfs::Mapping;

/// Tells whether a program file without an MPI library among its mapped files has MPI linked in.
pub type StaticMpi<'a> = &'a dyn Fn(&Path) -> bool;

/// Variables by which MPI libraries find their launchers and know their ranks.
const LAUNCHED: [&str; 6] = ["PMI_RANK", "PMI_FD", "PMI_PORT", "PMIX_RANK", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK"];

/// How near a process with MPI in its memory is to being a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is in `MPI_Init` or behind it.
    Rank,
    /// It has not called it, and asks for it; or nobody can tell.
    Ahead,
}

/// A process that uses MPI.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) pid: Pid,
    pub(super) standing: Standing,
    /// `None` for a program that no launcher started.
    pub(super) identity: Option<Identity>,
    pub(super) family: Family,
    pub(super) library: Option<PathBuf>,
    pub(super) start_time_ticks: u64,
    pub(super) slurm_job: Option<String>,
    /// How often its Slurm job had been requeued.
    pub(super) restarts: u32,
}

impl Member {
    /// Looks at one process; `None` if it does not use MPI.
    pub(super) fn look(processes: &dyn Processes, pid: Pid, is_static_mpi: StaticMpi) -> Result<Option<Member>, Error> {
        let maps = processes.maps(pid)?;
        let paths = mapped_files(&maps);
        let family = Family::from_modules(paths.iter().map(String::as_str));
        let environment = processes.environment(pid)?;
        let (family, identity, standing) = match family {
            // Agents are started as the ranks were, and those that read symbols have MPI's library mapped.
            Some(_) if is_our_own(processes, pid)? => return Ok(None),
            Some(family) => match standing(processes, pid, &maps, &environment)? {
                Some(standing) => (family, identify_for(&environment, family), standing),
                None => return Ok(None),
            },
            None => match identify(&environment) {
                Some(identity) if has_static_mpi(processes, pid, is_static_mpi)? => {
                    (Family::Unknown, Some(identity), Standing::Ahead)
                }
                _ => return Ok(None),
            },
        };
        let library = paths.into_iter().find(|path| is_mpi_module(path)).map(PathBuf::from);
        let start_time_ticks = processes.stat(pid)?.start_time_ticks;
        let slurm_job = variable(&environment, "SLURM_JOB_ID");
        let restarts = restarts(&environment);
        Ok(Some(Member { pid, standing, identity, family, library, start_time_ticks, slurm_job, restarts }))
    }

    /// True if it has changed in its own environment what its launcher had written there: it begins MPI as a program of its
    /// own. False also if that can't be told.
    pub(super) fn has_left_launch(&self, processes: &dyn Processes) -> bool {
        let (Ok(then), Some(now)) = (processes.environment(self.pid), processes.environment_now(self.pid)) else {
            return false;
        };
        let is_changed = |name: &&str| variable(&then, name).is_some_and(|value| variable(&now, name) != Some(value));
        LAUNCHED.iter().any(is_changed)
    }

    /// The rank, if a launcher gave one.
    pub(super) fn rank(&self) -> Option<u32> {
        self.identity.as_ref().map(|identity| identity.rank)
    }

    /// True if the key names the job among all jobs of the machine.
    pub(super) fn has_job_id(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| !identity.job_key.starts_with("by="))
    }

    /// The key that all members of its world have in common.
    pub(super) fn world_key(&self) -> String {
        match &self.identity {
            Some(identity) => identity.job_key.clone(),
            None => format!("single={}", self.pid),
        }
    }
}

/// How near to being a rank a process is that has an MPI library mapped; `None` if it only has it in memory. One that was
/// preloaded with one is no rank for that, and launchers, shells and wrappers are preloaded as ranks are.
fn standing(
    processes: &dyn Processes,
    pid: Pid,
    maps: &[Mapping],
    environment: &[u8],
) -> Result<Option<Standing>, Error> {
    Ok(match processes.start(pid, maps) {
        Some(Start::Within | Start::Behind) => Some(Standing::Rank),
        Some(Start::Before) => {
            let preloaded = variable(environment, "LD_PRELOAD").unwrap_or_default();
            let preloaded: Vec<String> = preloaded.split([':', ' ']).map(str::to_owned).collect();
            processes.asks_for_mpi(pid, maps, &preloaded).then_some(Standing::Ahead)
        }
        None => {
            let (program, stat) = (processes.executable(pid)?, processes.stat(pid)?);
            launcher::role(Some(&program), &stat.command).is_none().then_some(Standing::Ahead)
        }
    })
}

/// True if an MPI library is mapped into a process.
pub(super) fn has_library(processes: &dyn Processes, pid: Pid) -> bool {
    let maps = processes.maps(pid).unwrap_or_default();
    maps.iter().any(|mapping| mapping.is_file() && is_mpi_module(&mapping.path))
}

/// True if MPI is linked into a process's program. Into that which asks it is not, and its file has many megabytes to
/// read through.
fn has_static_mpi(processes: &dyn Processes, pid: Pid, is_static_mpi: StaticMpi) -> Result<bool, Error> {
    Ok(!is_our_own(processes, pid)? && is_static_mpi(&processes.executable(pid)?))
}

/// True if it runs the program that asks: another agent, or another command of trimtab.
pub(super) fn is_our_own(processes: &dyn Processes, pid: Pid) -> Result<bool, Error> {
    let program = processes.executable(pid)?;
    Ok(processes.executable(processes.own_pid()).is_ok_and(|own| own == program))
}

/// The Slurm job that a process was started in, if it can be read and there is one.
pub(super) fn slurm_job(processes: &dyn Processes, pid: Pid) -> Option<String> {
    variable(&processes.environment(pid).ok()?, "SLURM_JOB_ID")
}

/// Paths of mapped files, each once.
fn mapped_files(maps: &[Mapping]) -> Vec<String> {
    let files = maps.iter().filter(|mapping| mapping.is_file());
    let mut paths: Vec<String> = files.map(|mapping| mapping.path.clone()).collect();
    paths.dedup();
    paths
}

pub(super) fn variable(environment: &[u8], name: &str) -> Option<String> {
    let value = |entry: &[u8]| {
        let text = String::from_utf8_lossy(entry).into_owned();
        text.strip_prefix(name)?.strip_prefix('=').map(str::to_owned)
    };
    environment.split(|byte| *byte == 0).find_map(value)
}
