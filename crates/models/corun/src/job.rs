//! The facts about one job that a forecast is made of.
//!
//! Next: `outlook`, which takes them.

use crate::between::Between;
use crate::profile::Profile;
use crate::unknown::Unknown;

/// Iterations that a job still has to do, counted from its window's end.
#[derive(Clone, Debug, PartialEq)]
pub enum Remaining {
    /// So many.
    Exactly(u64),
    /// So many if its loop is not left before.
    AtMost(u64),
    /// Not known, for this reason.
    Unknown(Unknown),
}

impl Remaining {
    /// How many, at most.
    pub fn count(&self) -> Option<u64> {
        match self {
            Remaining::Exactly(count) | Remaining::AtMost(count) => Some(*count),
            Remaining::Unknown(_) => None,
        }
    }
}

/// A rank's use of processors, as it is alone.
#[derive(Clone, Debug, PartialEq)]
pub struct RankUse {
    /// Its host.
    pub host: String,
    /// The processors that it may run on.
    pub processors: Vec<u32>,
    /// Processors that its threads use, or would if they never had to wait for one, mean.
    pub wanted: f64,
    /// The same outside of communication, as ScoPro's busy time; `None`: not measured.
    pub computing: Option<f64>,
}

/// How a job got on beside one other, when they met before.
#[derive(Clone, Debug, PartialEq)]
pub struct Met {
    /// The other one's name.
    pub other: String,
    /// Time of an iteration beside it over that alone.
    pub slowdown: Between,
    /// Windows beside it.
    pub windows: usize,
}

/// One of the jobs that share processors.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name, for sentences.
    pub name: String,
    /// It begins so many seconds from now; 0: it is there already, or begins now.
    pub begins_s: f64,
    /// It has gone on for so many seconds since what is known of it was measured.
    pub since_s: f64,
    /// Iterations to come.
    pub remaining: Remaining,
    /// Seconds of one iteration while it is alone, or why that is not known.
    pub alone_s: Result<Between, Unknown>,
    /// Seconds of one iteration, measured together with all the others; `None`: they have not met.
    pub together_s: Option<Between>,
    /// One of the others that ended, by its pace, before the window of this one was over: this is no pace beside it.
    pub left_alone_by: Option<String>,
    /// Its ranks, or why their use of processors is not known.
    pub ranks: Result<Vec<RankUse>, Unknown>,
    /// Its answer to pressure, where it was probed on the host on which they meet.
    pub profile: Option<Profile>,
    /// How it got on beside others of these, one by one, when they met before.
    pub met: Vec<Met>,
}
