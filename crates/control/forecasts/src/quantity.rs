//! A value with its interval, as answers have it.
//!
//! Next: `jobs_together` and `pairs`, which answer with it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trimtab_corun::Between;

/// A value with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantity {
    /// The value.
    pub value: f64,
    /// The lower end; null: a window has no interval.
    pub lower: Option<f64>,
    /// The upper end; null with the lower one.
    pub upper: Option<f64>,
}

impl From<&Between> for Quantity {
    fn from(found: &Between) -> Self {
        Quantity {
            value: found.value,
            lower: found.ends.map(|(lower, _)| lower),
            upper: found.ends.map(|(_, upper)| upper),
        }
    }
}
