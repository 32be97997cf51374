//! Which processes are one program? Finds all ranks of an MPI job on this machine from any one of its processes.
//!
//! [`find_job`] takes the pid of a launcher (`mpirun`, `mpiexec`, `srun`...), of a shell around one, or of any rank.
//! It decides on facts from `/proc` alone and changes nothing:
//!
//! 1. a rank is in `MPI_Init` or behind it, as its MPI library says (`start.rs`), or has not called it yet and asks for it;
//!    an MPI library that is merely in memory, as a preloaded tool's is in launchers and shells too, makes no rank. Where it
//!    can't be told, the library and an environment in which a launcher wrote its rank do. So does a static MPI program, if
//!    the caller can tell;
//! 2. from a rank the search goes up to its launcher, then down to all of the launcher's descendants;
//! 3. shells and helpers that inherited the environment fail the first test, or have a process of the same rank that is
//!    further; copies that a rank forked are told by the ancestor that has the same rank, also those that have left the
//!    launch by their own environment (`environment.rs`) and begun MPI before it;
//! 4. a program without launcher is a job of one rank.
//!
//! Each rank is checked at the end if it may be attached to ([`check_attachable`]); a rank that may not makes the
//! search an error with the reason and the next step.
//!
//! [`slurm`] asks Slurm about a job by its id, and [`find_slurm_job`] finds the ranks of one run of it here.
//!
//! Reading `/proc` is in `procfs.rs` alone, behind [`Processes`]; [`fake::Recorded`] is its twin in memory.
//!
//! Next: `job.rs` for the decision; `trimtab-mpi` for what an environment means.
#![forbid(unsafe_code)]

mod attach;
mod environment;
mod error;
pub mod fake;
mod job;
mod launcher;
mod mpir;
mod origin;
mod procfs;
mod remembered;
pub mod slurm;
mod start;
mod status;
mod tops;

pub use attach::check_attachable;
pub use error::{Denial, Error};
pub use job::{
    Far, Job, Launch, RankProcess, SlurmHandle, StaticMpi, far_launch, find_job, find_job_in, find_launched_job_in,
    find_slurm_job, find_slurm_job_in, slurm_handle,
};
pub use origin::{Origin, origin};
pub use procfs::{ElfKind, ProcFs, Processes};
pub use remembered::Remembered;
pub use status::{Seccomp, Status, parse_status};
pub use tops::Tops;
pub use trimtab_types::procfs::{Mapping, Stat, State, parse_stat};

use trimtab_types::Pid;

/// The memory map of `pid`, as `/proc/PID/maps` has it now.
///
/// # Errors
/// No such process, not permitted to read it, or text that can't be understood.
pub fn maps(pid: Pid) -> Result<Vec<Mapping>, Error> {
    ProcFs::new().maps(pid)
}
