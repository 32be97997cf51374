//! How does one window go? Attach to all ranks of a job, find and agree on its main loop, record, restore, report.
//!
//! The decisions are made elsewhere: what to call a function in `trimtab-mpi`, where to patch in `trimtab-session`,
//! what is a loop and what a number means in `trimtab-window`. This crate carries them through for all ranks at once
//! and leaves every process as it was, whatever happens on the way.
//!
//! It has two halves. [`WindowNode`] is one machine's part: all that touches a process or its memory. `job` decides what is
//! one for all ranks, and asks nodes by plain values ([`Request`], [`Answer`]) through a [`Crew`]: of the one node in
//! this process, or of nodes anywhere, whose answers come as bytes and may be missing.
//!
//! Next: [`measure`] in `job::drive`; `request` for what is asked; `node` for what is patched and what comes back.
#![forbid(unsafe_code)]

mod clock;
mod crew;
mod error;
mod excerpt;
mod first_call;
mod job;
mod node;
mod options;
mod part;
mod reason;
mod request;
mod runs;
mod so_far;
mod wire;

pub use crew::{Asked, Crew, Here, Question, Replied, Reply};
pub use error::Error;
pub use excerpt::Excerpt;
pub use first_call::{FirstCall, GatherEnd, Held, Standing, let_go};
pub use job::{Outcome, measure, measure_from_first_call, measure_with};
pub use node::FRAMES_MISSING;
pub use node::{
    Functions, Listed, NestSampler, NoCounter, PASSES_PER_SECOND_MAX, SamplingCost, WindowNode, called_mpi, chosen,
    counted_numbers, courses, datatype_sizes, describe_library, dry_run, has_static_mpi, host_name, list_functions,
    program_name, script_name, wait_for_start, wanted_files, what_counts,
};
pub use options::{
    DETAIL_RANKS_MAX, Length, LoopName, Mark, Options, Progress, RecordedSoFar, Silent, WindowStage, dotted,
};
pub use part::Part;
pub use reason::{NestUnknown, NoEnds, NoHold, NoIterations, NotYet};
pub use request::{
    Answer, Choice, Command, Early, Facts, Fitted, Inserted, Lacking, Looked, LoopCourse, LoopEnds, LoopLeft,
    LoopPasses, LoopSeen, OnceCall, Passed, Polled, RankCheck, RankPasses, Recording, Reference, Request, Sampled,
    SampledCourse, SampledLoop, WindowId, WordSeen,
};
pub use runs::{Run, runs_of, value_of};
pub use so_far::{CommSoFar, RankShare};
pub use wire::{Envelope, Failed, FailedKind};
