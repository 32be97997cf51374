//! What makes a process a rank: MPI in its memory, and a launcher's word in its environment.

use super::StaticMpi;
use crate::error::Error;
use crate::procfs::Processes;
use crate::slurm::restarts;
use std::path::PathBuf;
use trimtab_mpi::{Family, Identity, identify, identify_for, is_mpi_module};
use trimtab_types::Pid;
use trimtab_types::procfs::Mapping;

/// A process that uses MPI.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) pid: Pid,
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
        let paths = mapped_files(processes, pid)?;
        let family = Family::from_modules(paths.iter().map(String::as_str));
        let environment = processes.environment(pid)?;
        let (family, identity) = match family {
            // Agents are started as the ranks were, and those that read symbols have MPI's library mapped.
            Some(_) if is_our_own(processes, pid)? => return Ok(None),
            Some(family) => (family, identify_for(&environment, family)),
            None => match identify(&environment) {
                Some(identity) if has_static_mpi(processes, pid, is_static_mpi)? => (Family::Unknown, Some(identity)),
                _ => return Ok(None),
            },
        };
        let library = paths.into_iter().find(|path| is_mpi_module(path)).map(PathBuf::from);
        let start_time_ticks = processes.stat(pid)?.start_time_ticks;
        let slurm_job = variable(&environment, "SLURM_JOB_ID");
        let restarts = restarts(&environment);
        Ok(Some(Member { pid, identity, family, library, start_time_ticks, slurm_job, restarts }))
    }

    /// The rank, if a launcher gave one.
    pub(super) fn rank(&self) -> Option<u32> {
        self.identity.as_ref().map(|identity| identity.rank)
    }

    /// Whether the key names the job among all jobs of the machine.
    pub(super) fn has_job_id(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| !identity.job_key.starts_with("by="))
    }

    /// What all members of its world have in common.
    pub(super) fn world_key(&self) -> String {
        match &self.identity {
            Some(identity) => identity.job_key.clone(),
            None => format!("single={}", self.pid),
        }
    }
}

/// Whether MPI is linked into a process's program. Into that which asks it is not, and its file has many megabytes to read
/// through.
fn has_static_mpi(processes: &dyn Processes, pid: Pid, is_static_mpi: StaticMpi) -> Result<bool, Error> {
    Ok(!is_our_own(processes, pid)? && is_static_mpi(&processes.executable(pid)?))
}

/// Whether it runs the program that asks: another agent, or another command of trimtab.
fn is_our_own(processes: &dyn Processes, pid: Pid) -> Result<bool, Error> {
    let program = processes.executable(pid)?;
    Ok(processes.executable(processes.own_pid()).is_ok_and(|own| own == program))
}

/// The Slurm job that a process was started in, if it can be read and there is one.
pub(super) fn slurm_job(processes: &dyn Processes, pid: Pid) -> Option<String> {
    variable(&processes.environment(pid).ok()?, "SLURM_JOB_ID")
}

/// Paths of mapped files, each once.
fn mapped_files(processes: &dyn Processes, pid: Pid) -> Result<Vec<String>, Error> {
    let mappings = processes.maps(pid)?;
    let files = mappings.into_iter().filter(Mapping::is_file);
    let mut paths: Vec<String> = files.map(|mapping| mapping.path).collect();
    paths.dedup();
    Ok(paths)
}

pub(super) fn variable(environment: &[u8], name: &str) -> Option<String> {
    let value = |entry: &[u8]| {
        let text = String::from_utf8_lossy(entry).into_owned();
        text.strip_prefix(name)?.strip_prefix('=').map(str::to_owned)
    };
    environment.split(|byte| *byte == 0).find_map(value)
}
