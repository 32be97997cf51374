//! A quantity with its interval.
//!
//! Next: `facts`, which is full of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The share of values that intervals are to hold.
pub const SHARE_INSIDE: f64 = 0.9;

/// A quantity, with the interval in which it lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "GridQuantity")]
pub struct Quantity {
    /// The expected value.
    pub value: f64,
    /// 90% lie between this; `None`: not known, and so is the other end.
    pub lower: Option<f64>,
    /// and this.
    pub upper: Option<f64>,
}

impl Quantity {
    /// One whose interval nobody knows.
    pub fn of(value: f64) -> Quantity {
        Quantity { value, lower: None, upper: None }
    }

    /// One with its interval.
    pub fn between(value: f64, lower: f64, upper: f64) -> Quantity {
        Quantity { value, lower: Some(lower), upper: Some(upper) }
    }

    /// One with its interval, if there is one.
    pub fn with(value: f64, ends: Option<(f64, f64)>) -> Quantity {
        Quantity { value, lower: ends.map(|ends| ends.0), upper: ends.map(|ends| ends.1) }
    }

    /// Both ends of the interval.
    pub fn ends(&self) -> Option<(f64, f64)> {
        self.lower.zip(self.upper)
    }

    /// All of it is a number from `least` on, and in order.
    pub(crate) fn is_at_least(&self, least: f64) -> bool {
        let (lower, upper) = self.ends().unwrap_or((self.value, self.value));
        let is_whole = self.lower.is_some() == self.upper.is_some();
        is_whole
            && [lower, self.value, upper].iter().all(|number| number.is_finite() && *number >= least)
            && lower <= self.value
            && self.value <= upper
    }
}

/// A quantity as people write it: a number, or an object with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Written {
    /// A number, without an interval.
    Number(f64),
    /// A number with its interval.
    Object {
        /// The expected value.
        value: f64,
        /// 90% lie between this
        lower: f64,
        /// and this.
        upper: f64,
    },
}

impl From<Written> for Quantity {
    fn from(written: Written) -> Quantity {
        match written {
            Written::Number(value) => Quantity::of(value),
            Written::Object { value, lower, upper } => Quantity::between(value, lower, upper),
        }
    }
}
