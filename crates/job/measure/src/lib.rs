//! How does one window go? Attach to all ranks of a job, find and agree on its main loop, record, restore, report.
//!
//! The decisions are made elsewhere: what to call a function in `trimtab-mpi`, where to patch in `trimtab-session`,
//! what is a loop and what a number means in `trimtab-window`. This crate carries them through for all ranks at once
//! and leaves every process as it was, whatever happens on the way.
//!
//! Next: [`measure`] in `drive`; `requests` for what is patched, `observe` and `readout` for what comes back.
#![forbid(unsafe_code)]

mod agreement;
mod checked;
mod counting;
mod drive;
mod early;
mod error;
mod library;
mod marker;
mod observe;
mod options;
mod readout;
mod recording;
mod requests;
mod team;

pub use drive::{Outcome, measure};
pub use error::Error;
pub use library::{datatype_sizes, describe_library, has_static_mpi};
pub use options::{Ended, Mark, Options, Progress, Silent, Stage};
pub use readout::host_name;
pub use requests::{Listed, list_functions};
pub use team::dry_run;
