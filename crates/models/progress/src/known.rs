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
