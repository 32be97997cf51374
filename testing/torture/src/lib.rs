//! Real programs, patched and restored at random moments while they work.
//!
//! Each program does real work with output that depends on nothing but its input. While it runs, probes are put into
//! random subsets of its functions and taken out again, by us or by a child that is killed at a random moment. Its
//! output and exit status must be those of an undisturbed run, and its code must be that of its files afterwards.
//! Everything random comes from one seed.
//!
//! Next: `programs` for what is run, `cycle` for what is done to it, `campaign` for how both meet.
#![forbid(unsafe_code)]

mod campaign;
mod crash;
mod cycle;
mod inserter;
mod outcome;
mod programs;
mod random;
mod run;
mod survey;
mod table;
mod target;
mod text;
mod tree;

pub use campaign::{Options, campaign};
pub use cycle::{Choice, begin_recording, counts, probe_of};
pub use inserter::inserter;
pub use outcome::{Failure, FailureKind, Outcome, Pauses, ProgramOutcome, Shares};
pub use programs::{NAMES, Program};
pub use random::Random;
pub use table::render;
pub use text::text_differences;
