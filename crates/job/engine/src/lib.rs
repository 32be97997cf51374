//! The way to a job, for every door: a command line, a page, a program.
//!
//! Ranks are found from any process of a job, on this machine, or through Slurm or a launcher on many; then the job is
//! whole, or an error says which ranks are missing. Nothing here reads arguments, prints, or knows an exit code.
//!
//! Next: [`find`] for jobs, [`Program`] for programs that are started.
#![forbid(unsafe_code)]

mod descriptors;
mod error;
mod found;
mod launch;
mod spread;

pub use descriptors::check as check_descriptors;
pub use error::Error;
pub use found::{
    Found, LookedInto, Target, elsewhere, find, job_of, launched_again, slurm_job, to_look_into, wait_for,
};
pub use launch::{Begun, Program, measure_when_ready, when_ready};
pub use spread::{Launched, RSH_VARIABLE, Spread, launcher_of, slurm_id};
