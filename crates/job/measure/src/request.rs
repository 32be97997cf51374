//! Requests of the job to its nodes, and their answers: plain values that mean the same on any machine.
//!
//! A request goes to every node; each answers for its own ranks. A fact that can be one number for a whole node is
//! one; a fact of each rank is short, because all of it meets at the root: [`Answer`] says for each how many bytes a
//! rank costs, and a test holds it to that. Moments are ticks of the node's own clock; whoever compares them converts
//! them first. Iterations are the job's from [`Request::Number`] on: a node adds its ranks' offsets by itself.
//!
//! Next: `crew` for how a request comes to nodes, `node` for what it does there, `job` for who asks what when.

use crate::excerpt::Excerpt;
use crate::first_call::{GatherEnd, Standing};
use crate::options::{LoopName, Options};
use crate::part::Part;
use crate::reason::{NestUnknown, NoEnds, NoHold, NoIterations, NotYet};
use crate::runs::Run;
use crate::so_far::CommSoFar;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trimtab_types::report::{CallFrame, Ended, HeldRank, NodeShare};
use trimtab_window::reduce::{Ends, OfWindow, Seen};
use trimtab_window::{FunctionInfo, MarkTimes, NamedPath, NoRepetition, RankSample, Relation, Symbol};

/// Names one window for ever: a node refuses requests of any but the newest it has heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WindowId(pub u64);

/// A request of one window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// The window; only [`Request::Insert`] begins one.
    pub window: WindowId,
    /// The request.
    pub request: Request,
}

/// A request of the job. The answer that belongs to each is named with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Which loops of the program run, from some looks at the stacks of the ranks that are to be measured; nothing is put in,
    /// and what this window has put in is taken out: [`Answer::Sampled`]. It needs no window.
    Sample(Box<Options>),
    /// The same, and how far each of them is: [`Answer::Sampled`].
    SampleCourses(Box<Options>),
    /// Have ranks that are yet to come out of `MPI_Init` wait there, those of these options: [`Answer::Standing`], how far they
    /// are. It belongs to no window.
    Gather(Box<Options>),
    /// No more ranks are waited for; from now on the text of those that wait is theirs again: [`Answer::Done`].
    EndGather(GatherEnd),
    /// Plan for every rank and insert into all at once: [`Answer::Inserted`]. A window that is still open is abandoned.
    Insert(Box<Options>),
    /// Take out what this window has put in, and put in what these options ask for: [`Answer::Inserted`].
    InsertAnew(Box<Options>),
    /// Describe the groups that are measured and the program, by one node for all: [`Answer::Described`],
    /// [`Answer::Done`] by others.
    Describe {
        /// The node that is to answer.
        node: u32,
    },
    /// Nothing but the time: [`Answer::Time`].
    Time,
    /// Record from now on, and let go the ranks that wait behind `MPI_Init`: [`Answer::Went`].
    Go,
    /// The ranks' loops: [`Answer::Looked`].
    Look {
        /// Look at the ranks; else think again about what was seen last.
        fresh: bool,
        /// As [`trimtab_window::DetectOptions::levels_only`].
        levels_only: bool,
    },
    /// The latest iterations of one rank, by its node: [`Answer::Reference`], [`Answer::Done`] by others.
    Refer {
        /// The rank.
        rank: u32,
        /// The call that begins its iterations, where that is a call of one place; else its word does.
        symbol: Option<Symbol>,
        /// Calls that the answer may hold.
        events_max: u32,
    },
    /// Where ranks whose iterations repeat call by call begin theirs, so that they fit another's: [`Answer::Fitted`].
    Fit {
        /// The other rank's iterations.
        reference: Box<Reference>,
        /// Each node's clock on that of the reference.
        clocks: Vec<(u32, Relation)>,
    },
    /// Count these calls from now on: [`Answer::Counted`].
    Count {
        /// For runs of ranks.
        choices: Vec<Run<Choice>>,
    },
    /// Count a function of the program, wherever it is called from: [`Answer::Counted`].
    CountFunction {
        /// Its position among the measured functions.
        function: u32,
    },
    /// How often loops were passed since the probes went in: [`Answer::LoopPassed`].
    LoopPasses {
        /// Their positions among the measured functions.
        functions: Vec<u32>,
    },
    /// How the ranks passed what counts: [`Answer::Passed`].
    Passes {
        /// Look at the ranks; else tell more of what was seen last.
        fresh: bool,
        /// With messages and smaller communicators, where collectives of all ranks do not suffice.
        with_messages: bool,
        /// By the counters alone, where a pass of a loop has more calls than a rank remembers.
        by_counter: bool,
        /// Calls of one rank that the answer may hold.
        events_max: u32,
    },
    /// Iterations have these numbers from now on, and what was recorded meanwhile is forgotten: [`Answer::Done`].
    Number {
        /// The job's iteration minus the rank's count, for runs of ranks.
        offsets: Vec<Run<i64>>,
    },
    /// The iteration of the furthest rank: [`Answer::Furthest`].
    Furthest,
    /// Record from one iteration on: [`Answer::Armed`].
    Arm {
        /// The first one.
        start: u64,
        /// The one after the last; `None`: told later.
        end: Option<u64>,
    },
    /// Record nothing and forget what was recorded: [`Answer::Done`].
    Reset,
    /// Record by time from now on, if that is not done yet: [`Answer::Early`].
    RecordByTime,
    /// See the recording by time so far: [`Answer::Early`].
    SeeEarly,
    /// How far the recording is: [`Answer::Polled`].
    Poll {
        /// The half width of the interval that is narrow enough, percent.
        confident_percent: Option<f64>,
    },
    /// End before this iteration, unless a rank has passed it: [`Answer::EndSet`].
    EndAt {
        /// The one after the last.
        end: u64,
    },
    /// See in the stacks if a loop that no rank passes any more was left, while the probes are in: [`Answer::Seen`].
    SeeLoop {
        /// Its position among the measured functions.
        function: u32,
    },
    /// See in the stacks which loops run, while the probes are in: [`Answer::Sampled`].
    SampleBeside(Box<Options>),
    /// End the recording wherever ranks are: [`Answer::Ended`].
    EndNow {
        /// A rank has ended; the others may be about to.
        program_ended: bool,
    },
    /// When the recorded iterations began: [`Answer::Checked`].
    Check {
        /// Latest iterations of each rank to tell of, and calls of each in them.
        marks_max: u32,
    },
    /// How far the loop is whose passes are iterations: [`Answer::HowFar`].
    HowFar {
        /// Its position among the measured functions.
        function: u32,
    },
    /// Take the probes out: [`Answer::Removed`].
    Remove,
    /// Read the recording: [`Answer::Read`]. The node forgets the window.
    Read {
        /// Why the recording ended.
        ended: Ended,
        /// Every rank recorded to the end that was meant.
        is_whole: bool,
        /// The window is counted in iterations.
        by_iterations: bool,
    },
    /// When the recorded iterations of ranks began, as a value that merges: [`Answer::Part`].
    SeeMarks {
        /// Each node's clock on that of the lead.
        clocks: Vec<(u32, Relation)>,
    },
    /// Read the recording and keep it; what its ranks have in common: [`Answer::Part`].
    SeeCommon {
        /// As in [`Request::Read`].
        ended: Ended,
        /// As in [`Request::Read`].
        is_whole: bool,
        /// How it is to be cut and counted.
        window: Box<OfWindow>,
        /// Each node's clock on that of the lead.
        clocks: Vec<(u32, Relation)>,
    },
    /// Cut the recording as all of the job are, of which that was seen, and sum it: [`Answer::Part`].
    Sum {
        /// The common part of all.
        seen: Box<Seen>,
    },
    /// The ranks beside the ends of all: [`Answer::Part`].
    SetBeside {
        /// The ends.
        ends: Ends,
    },
    /// The recordings of these ranks, their times on the lead's clock: [`Answer::Read`]. The node forgets the window.
    ReadRanks {
        /// World ranks, ascending.
        ranks: Vec<u32>,
    },
    /// Take the probes out, without results: [`Answer::Done`].
    Abandon,
}

impl Request {
    /// The purpose of the request, as a reader is told that it was not answered.
    pub fn purpose(&self) -> &'static str {
        match self {
            Request::Sample(_) | Request::SampleCourses(_) | Request::SampleBeside(_) => "look at stacks",
            Request::Gather(_) | Request::EndGather(_) | Request::Go => "hold ranks behind MPI_Init",
            Request::Insert(_) | Request::InsertAnew(_) => "insert probes",
            Request::Describe { .. } => "describe the program",
            Request::Time => "tell its time",
            Request::Look { .. } | Request::Refer { .. } | Request::Fit { .. } => "look for the main loop",
            Request::Count { .. }
            | Request::CountFunction { .. }
            | Request::LoopPasses { .. }
            | Request::Passes { .. } => "count iterations",
            Request::Number { .. } | Request::Furthest => "agree on the first iteration",
            Request::Arm { .. } | Request::Reset | Request::RecordByTime | Request::SeeEarly => "begin to record",
            Request::Poll { .. } => "tell how far the recording is",
            Request::SeeLoop { .. } => "see if the loop was left",
            Request::EndAt { .. } | Request::EndNow { .. } => "end the recording",
            Request::HowFar { .. } => "tell how far the loop is",
            Request::Check { .. } | Request::SeeMarks { .. } => "check the recorded iterations",
            Request::Remove | Request::Abandon => "take out the probes",
            Request::Read { .. }
            | Request::SeeCommon { .. }
            | Request::Sum { .. }
            | Request::SetBeside { .. }
            | Request::ReadRanks { .. } => "hand over what was recorded",
        }
    }

    /// The options of what it puts in; `None`: it puts in nothing.
    pub fn inserts(&self) -> Option<&Options> {
        match self {
            Request::Insert(options) | Request::InsertAnew(options) => Some(options),
            _ => None,
        }
    }

    /// Answered at once, so that the time it takes is that of the way.
    pub fn is_quick(&self) -> bool {
        matches!(self, Request::Time | Request::Furthest | Request::CountFunction { .. })
    }
}

/// The answer of a node. Bytes are those of the serialized answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// It is done.
    Done,
    /// For the node, at most [`Answer::SAMPLED_BYTES`].
    Sampled(Sampled),
    /// How far the node's ranks are with `MPI_Init`.
    Standing(Standing),
    /// Those of the node's ranks that waited there.
    Went(Went),
    /// At most [`Answer::INSERTED_BYTES`] a rank.
    Inserted(Inserted),
    /// Of one node only.
    Described(Box<Facts>),
    /// For the node.
    Time {
        /// Ticks of the node's clock in a second.
        ticks_per_second: f64,
    },
    /// At most [`Answer::LOOKED_BYTES`] a rank, and [`Answer::ONCE_BYTES`] for each call that counts iterations there.
    Looked(Looked),
    /// Of one node only.
    Reference(Box<Reference>),
    /// At most [`Answer::FITTED_BYTES`] a rank; the inner error says why a rank does not fit.
    Fitted(Result<Vec<Fitted>, NotYet>),
    /// The call that counts, of the lowest rank of the node whose call is the job's.
    Counted {
        /// For a reader: `MPI_Allreduce at solve+0x1f3`.
        name: Option<String>,
    },
    /// For the node.
    LoopPassed(LoopPasses),
    /// At most [`Answer::PASSED_BYTES`] a rank, and [`Answer::EVENT_BYTES`] for each call; no calls before all ranks of
    /// the node have passed.
    Passed(Passed),
    /// For the node.
    Furthest(u64),
    /// For the node.
    Armed {
        /// A rank had passed the first iteration already.
        is_missed: bool,
    },
    /// For the node.
    EndSet {
        /// A rank had passed the iteration already.
        is_missed: bool,
    },
    /// For the node.
    Seen(LoopLeft),
    /// For the node.
    Early(Early),
    /// For the node.
    Polled(Polled),
    /// For the node.
    Ended {
        /// Iterations that the rank with fewest of them recorded.
        iterations_min: u64,
        /// Those of the rank with most.
        iterations_max: u64,
    },
    /// At most [`Answer::CHECKED_BYTES`] a rank, [`Answer::MARK_BYTES`] for each mark and [`Answer::EVENT_BYTES`] for each
    /// call.
    Checked(Vec<RankCheck>),
    /// For the node; the error: why nothing is known, or that its ranks don't agree.
    HowFar(Result<LoopEnds, NoEnds>),
    /// Warnings of the node.
    Removed {
        /// Warnings about what did not go as it should.
        warnings: Vec<String>,
        /// Processes that ended by a fault, or by what can't be known, while they were patched; a sentence each.
        departed: Vec<String>,
    },
    /// At most [`Answer::READ_BYTES`] a rank, [`Answer::ITERATION_BYTES`] for each iteration, [`Answer::FUNCTION_BYTES`]
    /// for each function, [`Answer::REGION_BYTES`] for each function of parallel regions, [`Answer::COUNTER_BYTES`] for each counter and [`Answer::LINK_BYTES`] for each link, and [`Answer::SHARE_BYTES`] and [`Answer::SITE_BYTES`]
    /// for the node; trace records come on top where they were asked for.
    Read(Box<Recording>),
    /// A value that merges with those of other nodes; its length does not depend on how many ranks there are, but for a row
    /// for each node.
    Part(Part),
}

impl Answer {
    /// [`Answer::Sampled`].
    pub const SAMPLED_BYTES: usize = 8192;
    /// A rank in [`Answer::Inserted`].
    pub const INSERTED_BYTES: usize = 8;
    /// A rank in [`Answer::Looked`].
    pub const LOOKED_BYTES: usize = 80;
    /// A call that happens once per iteration.
    pub const ONCE_BYTES: usize = 40;
    /// A rank in [`Answer::Fitted`].
    pub const FITTED_BYTES: usize = 36;
    /// A rank in [`Answer::Passed`], its call sites included.
    pub const PASSED_BYTES: usize = 200;
    /// A call of a rank in [`Answer::Passed`].
    pub const EVENT_BYTES: usize = 20;
    /// A rank in [`Answer::Checked`].
    pub const CHECKED_BYTES: usize = 240;
    /// A mark in [`Answer::Checked`].
    pub const MARK_BYTES: usize = 32;
    /// A rank in [`Answer::Read`], with the place where it ran.
    pub const READ_BYTES: usize = 480;
    /// The length of the description of who shares a node, in [`Answer::Read`].
    pub const SHARE_BYTES: usize = 8192;
    /// From where the marker is called, in [`Answer::Read`].
    pub const SITE_BYTES: usize = 8192;
    /// An iteration of a rank.
    pub const ITERATION_BYTES: usize = 20;
    /// A function of a rank.
    pub const FUNCTION_BYTES: usize = 64;
    /// The parallel regions of one function of a rank.
    pub const REGION_BYTES: usize = 180;
    /// A counter of a rank, which may be two reasons why it is not known.
    pub const COUNTER_BYTES: usize = 640;
    /// A link of a rank.
    pub const LINK_BYTES: usize = 24;
}

/// Where a loop began and where it will end, in the job's iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopEnds {
    /// Its first pass; `None`: not known.
    pub first: Option<i64>,
    /// The one after its last pass; `None`: not known.
    pub end: Option<i64>,
    /// Something else may end it before.
    pub may_end_before: bool,
    /// The code shows that nobody but the loop writes to its counter and bound.
    pub is_sure: bool,
    /// The one after its last pass as its tests were seen to come closer to their ends; `None`: nothing follows from that.
    pub seen: Option<SeenEnd>,
}

/// The end of a loop by looks at its tests, in the job's iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenEnd {
    /// The one that is expected.
    pub expected: i64,
    /// The earliest that fits what was seen.
    pub least: i64,
    /// The latest.
    pub most: i64,
    /// The loop may be left before, in a way of which nothing is known: only the latest is told.
    pub is_at_most: bool,
}

impl SeenEnd {
    /// The one that fits both, of ranks or nodes that end together.
    #[must_use]
    pub fn both(self, other: SeenEnd) -> SeenEnd {
        SeenEnd {
            expected: self.expected.min(other.expected),
            least: self.least.min(other.least),
            most: self.most.max(other.most),
            is_at_most: self.is_at_most || other.is_at_most,
        }
    }
}

/// The loops that run in the ranks of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// Outermost first.
    pub loops: Vec<SampledLoop>,
    /// Stacks that were known from end to end; 0: the node has none of the ranks, or could not look at them.
    pub stacks: u64,
    /// The longest time a thread was held for that, microseconds.
    pub pause_us_max: f64,
    /// All times of the rank whose thread was held longest together, microseconds.
    pub pause_us_total: f64,
    /// Why the loops mean nothing, or are not all known.
    pub why_not: Option<NestUnknown>,
    /// A function around the outermost of the loops whose own loops are not known, and why.
    pub unknown_around: Option<NestUnknown>,
}

/// A loop of the program that runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampledLoop {
    /// Its function by where that begins in its file, whatever its symbols: `fn_0x1139@app`.
    pub function: String,
    /// For a reader, `loop 1 of solve`; cut where names are long.
    pub shown: String,
    /// Its number in the function.
    pub number: Vec<u32>,
    /// The part of the stacks that were in it.
    pub share: f64,
    /// A stack was in MPI below it.
    pub is_seen_in_mpi: bool,
    /// Why its passes can't be iterations; `None`: they may.
    pub why_not: Option<NoIterations>,
    /// If they can't be counted, something that each pass goes through, besides others: while it is not passed, the loop is
    /// not either.
    pub witness: Option<LoopName>,
    /// How often its body stands in its code, because the compiler unrolled it; 0, 1: once, as far as is known.
    pub copies: u32,
    /// It is counted together with one before it, in which other ranks are in its place.
    pub is_part: bool,
    /// How far it is.
    pub course: SampledCourse,
}

/// An answer to how far a loop is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum SampledCourse {
    /// Nobody asked.
    #[default]
    NotAsked,
    /// The loop is so far.
    Seen(LoopCourse),
    /// That can't be told.
    Unknown {
        /// The reason, as part of a sentence.
        why: String,
    },
}

/// How far a loop is, by a look at the counters of its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopCourse {
    /// Passes completed; `None`: it is not known with what its counter began.
    pub done: Option<u64>,
    /// Passes to come behind the one that ranks are in; at most so many if it may be left before.
    pub to_come: u64,
    /// It may be left before.
    pub may_end_before: bool,
    /// The code shows that nobody but the loop writes to its counter and bound.
    pub is_sure: bool,
}

impl LoopCourse {
    /// Of these ranks and others together, those that are behind; `None`: they are more than one pass apart.
    pub fn joined(self, other: LoopCourse) -> Option<LoopCourse> {
        let behind = if self.to_come >= other.to_come { self } else { other };
        let (may_end_before, is_sure) = (self.may_end_before || other.may_end_before, self.is_sure && other.is_sure);
        (self.to_come.abs_diff(other.to_come) <= 1).then_some(LoopCourse { may_end_before, is_sure, ..behind })
    }
}

impl SampledCourse {
    /// Of the ranks of this node and of another one.
    pub fn joined(self, other: SampledCourse) -> SampledCourse {
        match (self, other) {
            (SampledCourse::Seen(one), SampledCourse::Seen(other)) => match one.joined(other) {
                Some(both) => SampledCourse::Seen(both),
                None => SampledCourse::Unknown { why: "ranks are in different passes of it".to_owned() },
            },
            (SampledCourse::Seen(_) | SampledCourse::NotAsked, other) => other,
            (unknown, _) => unknown,
        }
    }
}

/// The ranks of a node, with probes in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inserted {
    /// The node's name.
    pub host: String,
    /// World ranks, ascending; none: the node has none of those that are to be measured, and takes no part.
    pub ranks: Vec<u32>,
    /// World ranks that are not to be measured.
    pub left_alone: Vec<u32>,
    /// Stands for what is measured: nodes with another value measure something else.
    pub digest: u64,
    /// Warnings that a reader must know.
    pub warnings: Vec<String>,
    /// A function that was asked for and that none of its ranks has, so that nothing was put into them.
    pub lacking: Option<Lacking>,
}

/// Ranks of a node that were to wait behind `MPI_Init` until they recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Went {
    /// World ranks that did.
    pub ranks: Vec<u32>,
    /// All others, and why.
    pub missed: BTreeMap<u32, NoHold>,
    /// How long each was held that was.
    pub held: Vec<HeldRank>,
}

/// A function that the ranks of a node do not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lacking {
    /// The request.
    pub pattern: String,
    /// One of the processes that were looked into.
    pub pid: i32,
    /// World ranks that were to be measured, ascending.
    pub ranks: Vec<u32>,
    /// Their program.
    pub program: String,
}

/// The groups that are measured, and the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The measured functions; everything else refers to them by position.
    pub functions: Vec<FunctionInfo>,
    /// Position of the marker if it is a function of the program, and whether the user named it.
    pub marker: Option<(u32, bool)>,
    /// The MPI library.
    pub mpi: String,
    /// Size of `MPI_COMM_WORLD` where the launcher says it.
    pub size: Option<u32>,
    /// The executable.
    pub program: String,
    /// Its arguments without itself.
    pub arguments: Vec<String>,
    /// Build ids of executable and library.
    pub builds: Vec<String>,
    /// Start of the process, seconds since 1970; `None`: not known.
    pub started_unix_s: Option<f64>,
}

/// The loops of a node's ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Looked {
    /// True if all ranks still run this program.
    pub is_alive: bool,
    /// Calls of the rank that called least since the probes went in.
    pub calls: u64,
    /// Ticks of what repeats on the slowest rank, where something does on all of them.
    pub in_sight_ticks: Option<f64>,
    /// One for each rank, ascending; the error: why some rank has none.
    pub loops: Result<Vec<LoopSeen>, NoRepetition>,
    /// The loop of the lowest rank in a sentence.
    pub description: String,
}

/// The loop of one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopSeen {
    /// World rank.
    pub rank: u32,
    /// Complete iterations seen.
    pub iterations_seen: u64,
    /// Ticks of one, the median.
    pub iteration_ticks: f64,
    /// Ticks of one, the mean.
    pub iteration_ticks_mean: f64,
    /// A loop around it is suspected.
    pub is_undecided: bool,
    /// The call that the rank itself would count.
    pub anchor: Symbol,
    /// Calls that happen once in each iteration, those that most ranks may share first.
    pub once: Vec<OnceCall>,
    /// Where iterations only repeat call by call: how they would be counted on this rank alone.
    pub word: Option<WordSeen>,
}

/// A call that happens once in each iteration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OnceCall {
    /// The call in its direction.
    pub symbol: Symbol,
    /// Its call site whatever the direction.
    pub base_site: u64,
    /// It is a collective of all ranks that nobody leaves before all have entered.
    pub synchronises: bool,
    /// Ticks of computing before it.
    pub gap_ticks: f32,
    /// Passes of its call site in one iteration; `None`: they vary.
    pub every: Option<u32>,
}

/// Iterations that repeat call by call, on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WordSeen {
    /// The call that begins an iteration.
    pub symbol: Symbol,
    /// As [`OnceCall::synchronises`].
    pub synchronises: bool,
    /// As [`OnceCall::every`].
    pub every: Option<u32>,
}

/// The call that counts iterations on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The call in its direction.
    pub symbol: Symbol,
    /// Where iterations repeat call by call: the call of the rank's word that begins one.
    pub place: Option<u32>,
    /// Passes of its call site in one iteration.
    pub every: u64,
    /// Its call site is the job's.
    pub is_common: bool,
    /// As [`OnceCall::synchronises`].
    pub synchronises: bool,
}

/// A rank that begins its iterations where they fit the reference's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// World rank.
    pub rank: u32,
    /// The marker there.
    pub choice: Choice,
}

/// The latest iterations of a rank, for others to fit theirs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// World rank.
    pub rank: u32,
    /// Its calls; marks begin iterations.
    pub calls: Excerpt,
    /// Function and call site of the marks.
    pub base: (u32, u64),
}

/// How often the ranks of a node passed some loops.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoopPasses {
    /// True if all ranks still run this program.
    pub is_alive: bool,
    /// Of each loop, passes of the rank that has passed it least.
    pub passes_min: Vec<u64>,
    /// Of each loop, passes of that rank before which it called MPI since the pass before.
    pub with_mpi: Vec<u64>,
    /// Of each loop, passes of the rank that has passed it most.
    pub passes_max: Vec<u64>,
    /// Of each loop, the longest time per pass of any rank, ticks; 0 before the second pass.
    pub pass_ticks_max: Vec<f64>,
}

/// How the ranks of a node passed what counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passed {
    /// True if all ranks still run this program.
    pub is_alive: bool,
    /// One for each rank, ascending.
    pub ranks: Vec<RankPasses>,
}

/// How one rank passed what counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankPasses {
    /// World rank.
    pub rank: u32,
    /// Passes that its counter has seen.
    pub counted: u64,
    /// It was never seen to pass.
    pub is_silent: bool,
    /// The rank's counter at the first mark of `calls`.
    pub first_count: u64,
    /// Ticks from one pass to the next, about.
    pub period_ticks: f64,
    /// Its call site is the job's.
    pub is_common: bool,
    /// Where its loop began and will end on this count, by the loop's own counter; `None`: no loop is counted, or that is not
    /// known.
    pub ends: Option<LoopEnds>,
    /// The calls that say which iterations of other ranks are the same.
    pub calls: Excerpt,
}

/// A recording by time that began while the loop was looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Early {
    /// Seconds since it began; `None`: it did not.
    pub seconds: Option<f64>,
    /// A rank has recorded a call.
    pub has_calls: bool,
    /// True if all ranks still run this program.
    pub is_alive: bool,
    /// True if a rank has set a fault handler of its own meanwhile, and so has no probes any more.
    pub has_new_handler: bool,
    /// True if all ranks have ended their recordings themselves, a moment ago or for good.
    pub is_over: bool,
    /// Communication so far.
    pub comm: CommSoFar,
}

/// How far the recording is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Polled {
    /// True if all ranks still run this program, as far as was looked.
    pub is_alive: bool,
    /// As [`Early::has_new_handler`].
    pub has_new_handler: bool,
    /// The function that counts iterations costs more than it may, so that the window should end.
    pub is_over_limit: bool,
    /// All ranks have recorded to the end.
    pub is_done: bool,
    /// Seconds since the first rank began to record; `None`: none has.
    pub since_first_s: Option<f64>,
    /// Seconds from the first to the last mark, of the rank where that is least; 0 where one has none.
    pub recorded_s: f64,
    /// Marks of the rank with fewest.
    pub marks_min: u64,
    /// Iterations until the end of the rank that is furthest from it.
    pub left_max: u64,
    /// The interval of the rank with fewest marks is narrow enough.
    pub is_confident: bool,
    /// Communication so far.
    pub comm: CommSoFar,
}

/// Where a node's ranks are while none passes the loop that counts iterations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoopLeft {
    /// All ranks are somewhere else, as far as their stacks are known; false if that is not known of one.
    pub is_left: bool,
    /// The longest time that a thread was held for a look, microseconds.
    pub pause_us_max: f64,
    /// All such times of the rank where they are longest together, microseconds.
    pub pause_us_total: f64,
}

/// When the recorded iterations of a rank began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankCheck {
    /// It passed its call site another number of times in some iteration.
    pub is_miscounted: bool,
    /// The job's number of each mark that is still known.
    pub iterations: Vec<u64>,
    /// Those marks.
    pub marks: MarkTimes,
    /// The latest calls of these iterations that could have waited; their marks are the last of `iterations`.
    pub calls: Excerpt,
}

/// The recordings of a node's ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// One for each rank.
    pub ranks: Vec<RankSample>,
    /// Warnings that a reader must know.
    pub warnings: Vec<String>,
    /// The others on the machine.
    pub share: NodeShare,
    /// From where the call that counts iterations comes; `None`: none of the node's ranks has the job's.
    pub site: Option<MarkerSite>,
    /// Paths by which the ranks' calls came, as people read them.
    pub named_paths: Vec<NamedPath>,
}

/// From where the call that counts iterations comes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MarkerSite {
    /// A world rank that has it.
    pub rank: u32,
    /// For a reader: `MPI_Allreduce from solve at solver.f90:214`.
    pub name: String,
    /// Its path, innermost first.
    pub path: Vec<CallFrame>,
}
