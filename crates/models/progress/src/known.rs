//! The facts that a forecast is made of.
//!
//! Next: `end`, which takes them.

/// A job that runs, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// How long it has run, seconds.
    pub elapsed_s: f64,
    /// Windows of the loop that counts its iterations, oldest first.
    pub looks: Vec<Look>,
    /// Iterations still to come when the last window ended.
    pub remaining: Remaining,
    /// A loop around that one whose end is the job's; `None`: there is none, or it is not known how far it is.
    pub outer: Option<Outer>,
    /// How long earlier runs of the same program with the same arguments on as many ranks took, seconds.
    pub earlier_s: Vec<f64>,
}

/// A window of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// The job's age at the window's end, seconds.
    pub at_s: f64,
    /// Iterations completed at the window's end; `None`: not known.
    pub done: Option<u64>,
    /// The same from any first number on, by which windows can be told apart; `None`: not known.
    pub place: Option<i64>,
    /// Iterations in the window.
    pub iterations: u64,
    /// Their time together, seconds.
    pub duration_s: f64,
    /// Their times one by one, as far as they were kept.
    pub times_s: Vec<f64>,
    /// Half of the 95% interval of their mean; `None`: not known.
    pub half_width_s: Option<f64>,
}

/// A loop around the one that counts iterations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outer {
    /// Its name, for a reader.
    pub name: String,
    /// Looks at it, oldest first; at least one.
    pub looks: Vec<OuterLook>,
    /// It may be left before it has made all passes to come.
    pub may_end_before: bool,
    /// Its counter or bound is a variable that other code may change.
    pub is_likely: bool,
}

/// How far it was at the end of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OuterLook {
    /// The job's age then, seconds.
    pub at_s: f64,
    /// Passes to come behind the one that it was in.
    pub to_come: u64,
    /// Passes completed; `None`: not known.
    pub done: Option<u64>,
    /// The time that the loop inside had taken in this pass, at least, seconds; 0: not known.
    pub inner_done_s: f64,
    /// The same of what it was still to take.
    pub inner_left_s: f64,
}

/// Iterations still to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remaining {
    /// So many.
    Exactly(u64),
    /// So many, or the loop is left before.
    AtMost(u64),
    /// About so many, as its tests were seen to come closer to their ends.
    Between {
        /// The number that is expected.
        expected: u64,
        /// The least that fits.
        least: u64,
        /// The most.
        most: u64,
    },
    /// Nobody knows.
    #[default]
    Unknown,
}
