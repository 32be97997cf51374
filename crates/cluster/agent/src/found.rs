//! The ranks that an agent is for, and the signal by which it is asked to end.
//!
//! Next: `ticket` for whose ranks they are, `serve` for the agent.

use crate::ticket::AgentsFor;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use trimtab_measure::has_static_mpi;
use trimtab_track::{Job, ProcFs, find_job_in, find_launched_job_in, find_slurm_job_in};
use trimtab_types::{Pid, one_line};

/// Becomes true when a signal asks this program to end.
///
/// # Errors
/// The system lets nobody hear of it.
pub fn asked_to_end() -> std::io::Result<Arc<AtomicBool>> {
    let asked_to_end = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, asked_to_end.clone())?;
    }
    Ok(asked_to_end)
}

/// The ranks that the ticket is for; why there are none, and whether there may be some a moment later.
///
/// # Errors
/// Both.
pub fn find(whose: &AgentsFor) -> Result<Job, (String, bool)> {
    let processes = ProcFs::new();
    let found = match whose {
        AgentsFor::Processes(pids) => {
            let runs = |pid: &&i32| trimtab_os::runs(Pid(**pid));
            let Some(pid) = pids.iter().find(runs) else {
                return Err(("none of the job's processes runs here".to_owned(), false));
            };
            find_job_in(&processes, Pid(*pid), &has_static_mpi)
        }
        AgentsFor::Launch { mark, uid } => find_launched_job_in(&processes, (mark, *uid), &has_static_mpi),
        AgentsFor::Slurm { .. } => {
            let Some(run) = whose.slurm() else { return Err(("no job was named".to_owned(), false)) };
            find_slurm_job_in(&processes, &run, &has_static_mpi)
        }
    };
    found.map_err(|error| (one_line(&error), error.is_retryable()))
}
