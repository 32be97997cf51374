//! Units of measured values.
//!
//! Next: `measured`, which accepts one unit for a model.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The unit of what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

impl fmt::Display for Unit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Unit::Seconds => "seconds",
            Unit::Bytes => "bytes",
        })
    }
}
