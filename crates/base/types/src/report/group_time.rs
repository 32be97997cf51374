//! Time in the groups of functions that were measured beside communication.
//!
//! Next: `RankTotal` and `Reduced`, which have it of a rank and of all.

use super::words::FunctionGroup;
use serde::{Deserialize, Serialize};

/// Time in one group of functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupTime {
    /// The group.
    pub group: FunctionGroup,
    /// Seconds inside outermost calls of the group.
    pub time_s: f64,
}
