//! The reasons that nodes and the lead tell each other, and a reader: why no loop counts yet, why one can't, and why it is
//! not known how far one is.
//!
//! Next: `job::no_loop` for what the lead makes of those about loops; `request`, whose answers carry them.

use serde::{Deserialize, Serialize};
use trimtab_window::{Hopeless, NoRepetition, name_ranks};

/// A thing that the search for the main loop still lacks, or why it was given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub enum NotYet {
    /// The calls of a rank show no loop.
    #[error(transparent)]
    NoRepetition(#[from] NoRepetition),
    /// Looking longer would not help.
    #[error(transparent)]
    Hopeless(#[from] Hopeless),
    /// Passes of the program's loops are counted.
    #[error("counting passes of the loops that run")]
    CountingPasses,
    /// Iterations of some ranks are much shorter.
    #[error("the ranks do not repeat at one pace yet")]
    OtherPaces,
    /// No node told of a rank.
    #[error("there is no rank to look at")]
    NoRank,
    /// No call of a rank can begin an iteration.
    #[error("a rank has no call that happens once per iteration")]
    NoCall,
    /// The call that would begin an iteration is made at a place that iterations pass now more, now less often.
    #[error("a call site is passed a varying number of times")]
    VaryingPasses,
    /// Several ways to number a rank's iterations fit as well.
    #[error("the ranks' calls do not say which of their iterations are the same")]
    Ambiguous,
    /// A rank has left the loop.
    #[error("the loop has ended")]
    LoopEnded,
    /// A loop was seen once, or not for long.
    #[error("seeing it again")]
    SeenOnce,
    /// Something repeats, and not often enough yet.
    #[error("what repeats takes about {seconds:.1} s, waiting for more of it; --max-seconds bounds that")]
    InSight {
        /// So long.
        seconds: f64,
    },
    /// A rank did not come to the call that was to count.
    #[error("rank {rank} did not pass {name} again")]
    NotAgain {
        /// The rank.
        rank: u32,
        /// The call.
        name: String,
    },
    /// Counters were hardly moved.
    #[error("every rank must pass the marker a few times")]
    FewPasses,
    /// The calls that ranks remember lie apart.
    #[error("the ranks' latest calls must overlap in time")]
    Apart,
}

/// Why the loops that stacks show mean nothing, or are not all known. Functions are named with their files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NestUnknown {
    /// Stacks can't be looked at.
    #[error("{reason}")]
    NoStacks {
        /// The error, in words.
        reason: String,
    },
    /// Code that may have been patched in memory is not on disk any more.
    #[error("{path} is not there any more as it was loaded")]
    FileGone {
        /// Its file.
        path: String,
    },
    /// Stacks are not known from end to end.
    #[error("{unknown} of {looks} stacks are not known from end to end, most because {reason}")]
    Unknown {
        /// So many.
        unknown: u64,
        /// Of so many.
        looks: u64,
        /// The commonest reason, in words.
        reason: String,
    },
    /// The program's loop is none of the machine's.
    #[error(
        "an interpreter runs the program ({function}): its loop is none of the machine's, so windows go by what calls of MPI \
         repeat"
    )]
    Interpreter {
        /// The interpreter's function.
        function: String,
    },
    /// Passes of several calls at once would be counted.
    #[error("{function} calls itself: its loops are left out, because passes of all its calls would be one sum")]
    Recursive {
        /// The function.
        function: String,
    },
    /// Code that is not understood.
    #[error("loops of {function} are not known: {reason}")]
    Unread {
        /// The function.
        function: String,
        /// The obstacle, in words.
        reason: String,
    },
    /// The stacks have nothing to do with each other.
    #[error("no stacks have a function in common")]
    NothingInCommon,
}

/// Why the passes of a loop can't be iterations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NoIterations {
    /// The loop is an interpreter's, or inside of what it calls.
    #[error("an interpreter runs the program")]
    Interpreted,
    /// Some ranks are elsewhere.
    #[error("no stack of {} is in it", name_ranks(ranks))]
    NotOfRanks {
        /// World ranks, ascending.
        ranks: Vec<u32>,
    },
    /// It runs in calls of a function that calls itself, all of which are parts of one pass of a loop around.
    #[error("it runs in calls of {function}, which calls itself: its passes are those of several loops")]
    InRecursion {
        /// The function.
        function: String,
    },
    /// Other loops communicate.
    #[error("no stack in it is in MPI")]
    NotInMpi,
    /// It can't be probed.
    #[error("{reason}")]
    Obstacle {
        /// In words.
        reason: String,
    },
}

/// Why it is not known where a loop began and will end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NoEnds {
    /// Ranks say different things.
    #[error("ranks disagree on it")]
    Disagree,
    /// No rank says anything.
    #[error("no rank passed it")]
    NotPassed,
    /// A rank does not have it.
    #[error("it is not counted on every rank")]
    NotCounted,
    /// Its code or its readings do not say it.
    #[error("{reason}")]
    Reading {
        /// In words.
        reason: String,
    },
}

/// Why a process does not wait behind `MPI_Init`, or does no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NoHold {
    /// It was behind it when it was first looked at.
    #[error("it had left MPI_Init before it was seen")]
    SeenLate,
    /// It was seen, and quicker.
    #[error("it had left MPI_Init before it could be held")]
    HeldLate,
    /// The hold was being put in meanwhile.
    #[error("what holds it was not in when it came out of MPI_Init")]
    NotIn,
    /// The hold was in.
    #[error("it came out of MPI_Init by a way that is not held")]
    OtherWay,
    /// Nobody came for it in time.
    #[error("it waited as long as it might, and went on")]
    WaitedLong,
    /// The window was being prepared meanwhile.
    #[error("it waited as long as it might, and went on before its probes were in")]
    WaitedLongForProbes,
    /// It has ended.
    #[error("it ended")]
    Ended,
    /// It has ended, and never began MPI.
    #[error("it ended without MPI")]
    EndedWithoutMpi,
    /// It is not waited for any longer.
    #[error("it had not begun MPI after {seconds} s")]
    NoMpi {
        /// After so long.
        seconds: u64,
    },
    /// Whoever asked for it does not want it any more.
    #[error("it was given up")]
    GivenUp,
    /// Others would have to wait too long for a rank.
    #[error("rank {rank} was still in MPI_Init {:.1} s after others had left it", f64::from(*ms) / 1e3)]
    OthersWait {
        /// The rank that others wait for.
        rank: u32,
        /// So long, milliseconds.
        ms: u32,
    },
    /// It is another process of the job.
    #[error("it is no rank of the job")]
    NoRank,
    /// Probes of an earlier window are still to be taken out.
    #[error("what was put in before is not out yet")]
    Unfinished,
    /// Somebody holds it.
    #[error("another trimtab holds it")]
    HeldByOther,
    /// Somebody measures it.
    #[error("another trimtab has changed it")]
    ChangedByOther,
    /// It can't be held at the moment.
    #[error("{reason}")]
    NotNow {
        /// In words.
        reason: String,
    },
    /// It can't be held.
    #[error("it could not be held: {reason}")]
    Failed {
        /// In words.
        reason: String,
    },
    /// It may not be changed.
    #[error("{reason}")]
    Forbidden {
        /// In words.
        reason: String,
    },
}
