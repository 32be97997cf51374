//! Counters of the processor and the kernel on one rank: what they counted, how sure that is, and why not what is missing.
//!
//! Next: `trimtab-window`'s `counters` computes them; docs/report.md explains the fields to users.

use serde::{Deserialize, Serialize};

/// One counter on one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counter {
    /// As it was asked for, e.g. "instructions".
    pub name: String,
    /// Its count in the window, all threads; of `task-clock` nanoseconds. `None`: not known, as `missing` says.
    pub value: Option<u64>,
    /// It is no less: it was read somewhat beside the window's borders, or counted for a part of the time only.
    pub at_least: Option<u64>,
    /// It is no more; `None`: nothing says so.
    pub at_most: Option<u64>,
    /// `value` by iterations; `None`: window by time.
    pub per_iteration: Option<f64>,
    /// The part of `per_iteration` of the thread that iterates while it is in no call of MPI; mean of `outside_iterations`.
    pub outside_communication: Option<f64>,
    /// Iterations in which that was seen.
    pub outside_iterations: u64,
    /// Why `outside_communication` is `None`.
    pub outside_missing: Option<String>,
    /// Time for which it was to be counted / time for which it was: `value` was multiplied by it. 1 where no other event wanted
    /// the same counter of the processor.
    pub scaled: Option<f64>,
    /// Events inside of the kernel are not counted.
    pub user_only: bool,
    /// Why `value` is `None`.
    pub missing: Option<String>,
}

/// The cost of reading the counters, on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CounterCost {
    /// Readings in the moment in which the rank passed something.
    pub readings: u64,
    /// Nanoseconds that one takes the rank, calibrated on its machine; `None`: that could not be done.
    pub reading_ns: Option<f64>,
}
