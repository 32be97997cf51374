//! Small programs to attach to, each with a known answer; and what tests need to build, run and watch them.
//!
//! `programs/` holds the specimens in C, C++ and Fortran: each says at its top what it does, what its known answer is
//! and which options it takes, and exits with 0 only if the answer was right. `groundtruth/` holds a PMPI wrapper
//! library that measures the same iterations by another method; it is preloaded in tests, never by trimtab. `hazards/` is
//! one program that does, again and again, what patched code must survive. `routines/` are run at many sizes.
//!
//! ```no_run
//! use std::time::Duration;
//! use trimtab_specimens::{GroundTruth, Launch, Mpi, Variant, build};
//! # fn main() -> Result<(), trimtab_specimens::Error> {
//! let particle = build("particle", Some(Mpi::Mpich), &Variant::default())?;
//! let mut job = Launch::mpi(Mpi::Mpich, 2, &particle).args(["--iterations", "2000"]).start()?;
//! let ranks = job.rank_pids(Duration::from_secs(10))?; // attach to these
//! let finished = job.wait(Duration::from_secs(60))?;
//! assert!(finished.status.success() && finished.stdout.contains("particle: checksum"));
//! # Ok(()) }
//! ```
//!
//! Next: [`build`] and [`Variant`] for the programs, [`Launch`] to run them, [`GroundTruth`] for the truth about an
//! iteration, [`TextSnapshot`] and [`threads_running`] to prove that nothing was left behind.
#![forbid(unsafe_code)]

mod at_work;
mod build;
mod error;
mod groundtruth;
mod launch;
mod process;
mod skip;
mod snapshot;
mod trace;
mod wait;

pub use at_work::at_work;
pub use build::{HazardVariant, Mark, Mpi, PROGRAMS, Program, Variant, build, groundtruth, hazards, profiler, routine};
pub use error::{Error, Result};
pub use groundtruth::{FunctionTruth, GroundTruth, IterationTruth, LinkTruth, RangeTruth, truths_of};
pub use launch::{Finished, Launch, Running};
pub use process::{cpu_ticks, has_worked, interrupt, running, threads_running};
pub use skip::skip;
pub use snapshot::{TextDifference, TextSnapshot, first_difference};
pub use trace::CallTrace;
pub use wait::{has_text, wait_for};

/// Arguments of `particle` that run until it is ended, and leave most of the processors to whoever else tests.
pub const ENDLESS: [&str; 8] =
    ["--iterations", "100000000", "--size", "64", "--particles", "1000", "--sleep-us", "20000"];
