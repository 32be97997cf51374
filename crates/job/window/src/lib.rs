//! Which iterations do we measure, and what do the measurements say? Pure: no I/O, no clock, no randomness.
//!
//! A window goes through this crate in five steps, each a function of values a person can read:
//!
//! 1. [`detect`] finds the outermost repeating pattern in one rank's stream of MPI calls and a call that happens exactly
//!    once in each repetition, the anchor, or else one that begins each repetition.
//!    [`Patience`] says when looking longer would not help.
//!    [`find_nest`] finds the loops of the binary that run, and [`choose_loop`] which of them an iteration is a pass of.
//! 2. [`best_cut`] says where an iteration begins on a rank whose own calls leave it open; which call counts for the whole
//!    job is agreed on between nodes, in `trimtab-measure`.
//! 3. [`align`] finds which of one rank's iterations is the same iteration on another rank, with proof where the
//!    streams allow one; [`choose_start`] names the first iteration to record; [`verify`] checks afterwards that the
//!    ranks really recorded the same ones. Times of several machines are first put on one clock, with their error
//!    ([`Relation`]).
//! 4. [`statistics`] turns samples into means with honest intervals; [`formulas`] holds ratios and imbalance.
//! 5. [`waits`] derives who waited for whom; `efficiency` says where the rest went, `regions` what the threads of ranks did; [`assemble`] makes the [`Report`](trimtab_types::report::Report), [`headline`] its first sentences.
//!
//! Next: `event` for the input, then the steps in the order above.
#![forbid(unsafe_code)]

mod align;
mod assemble;
mod assumed;
mod clock;
mod compare;
mod completions;
mod computation;
mod convert;
mod counters;
mod crowd;
mod cut;
mod detect;
mod efficiency;
mod event;
mod explain;
mod fold;
pub mod formulas;
mod headline;
mod in_common;
mod input;
mod level;
mod nest;
mod order;
mod paths;
mod patience;
pub mod reduce;
mod regions;
mod remarks;
mod scaling;
mod start;
pub mod statistics;
mod transfers;
mod verify;
mod waits;
mod word;
mod words;

pub use align::{Alignment, Certainty, RankStream, align};
pub use assemble::assemble;
pub use clock::{Exchange, Moment, Reading, Relation};
pub use compare::compare;
pub use counters::{Borders, CounterLook, CounterNote, CounterReadings, NoNotes, NoteMoment, RawCount, count};
pub use cut::{Cut, best_cut};
pub use detect::{DetectOptions, FoundLoop, InnerLoop, NoRepetition, detect, in_sight};
pub use event::{CallEvent, PEER_ANY, PEER_NONE, Symbol, direction};
pub use headline::headline;
pub use input::{
    DetailSample, FunctionInfo, FunctionSample, IterationMark, LinkSample, NamedPath, PathSample, RankSample,
    RegionSample, SizeSample, TeamSample, ThreadSample, UnixTime, Untimed, Usage, WindowFacts, WindowInput,
};
pub use nest::{
    Binary, Bursts, Counted, FunctionId, FunctionLoop, InStep, LoopChoice, NEST_PART_MAX, NEST_SECONDS, Nest, NestLoop,
    Origin, PASSES_MIN, Passes, SeenStack, StackCall, Unusable, choose_loop, find_nest,
};
pub use patience::{Hopeless, Patience};
pub use scaling::{NoScaling, scaling};
pub use start::choose_start;
pub use verify::{MarkTimes, Verdict, verify};
pub use waits::{PathWait, RankCalls, RankWaits, SAME_CLOCK_NS, WaitSum, Waits, waits};
pub use word::word_marks;
pub use words::name_ranks;
