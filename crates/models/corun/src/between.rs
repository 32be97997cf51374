//! A quantity and its interval.
//!
//! Next: `outlook`, which puts several together.

use serde::{Deserialize, Serialize};

/// An interval holds this share of what the quantity may be.
pub const SHARE: f64 = 0.9;
/// Half of an interval of 90% over half of one of 95%, of a normal distribution.
const HALF_90_OF_95: f64 = 1.644_853_6 / 1.959_963_98;

/// A quantity above zero, with the interval in which it lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Between {
    /// The expected one.
    pub value: f64,
    /// Lower and upper end; `None`: not known.
    pub ends: Option<(f64, f64)>,
}

impl Between {
    /// One that is known.
    pub fn exactly(value: f64) -> Between {
        Between { value, ends: Some((value, value)) }
    }

    /// A mean with half of its 95% interval.
    pub fn of_mean(mean: f64, half_width_95: Option<f64>) -> Between {
        let ends = half_width_95.map(|half| {
            let factor = (HALF_90_OF_95 * half / mean).exp();
            (mean / factor, mean * factor)
        });
        Between { value: mean, ends }
    }

    /// This one over another one that was measured by itself.
    pub fn over(self, other: Between) -> Between {
        let value = self.value / other.value;
        let ends = self.ends.zip(other.ends).map(|(own, other_ends)| {
            let part = |end: f64, value: f64| (end / value).ln();
            let down = part(own.0, self.value).hypot(part(other_ends.1, other.value));
            let up = part(own.1, self.value).hypot(part(other_ends.0, other.value));
            (value * (-down).exp(), value * up.exp())
        });
        Between { value, ends }
    }

    /// The same in another unit, or of so many.
    pub fn times(self, factor: f64) -> Between {
        Between { value: self.value * factor, ends: self.ends.map(|(lower, upper)| (lower * factor, upper * factor)) }
    }

    /// Both, one upon the other; an interval that only one has is that of both.
    pub fn and(self, other: Between) -> Between {
        let ends = |one: Between| one.ends.unwrap_or((one.value, one.value));
        let (own, others) = (ends(self), ends(other));
        Between {
            value: self.value * other.value,
            ends: self.ends.or(other.ends).map(|_| (own.0 * others.0, own.1 * others.1)),
        }
    }

    /// The same value, with an interval that reaches to that of another one.
    pub fn reaching(self, other: Between) -> Between {
        let ends = |one: Between| one.ends.unwrap_or((one.value, one.value));
        let (own, others) = (ends(self), ends(other));
        Between { value: self.value, ends: Some((own.0.min(others.0), own.1.max(others.1))) }
    }

    /// So much later.
    pub fn after(self, seconds: f64) -> Between {
        Between {
            value: self.value + seconds,
            ends: self.ends.map(|(lower, upper)| (lower + seconds, upper + seconds)),
        }
    }

    /// All of it is a number, and above zero.
    pub(crate) fn is_positive(self) -> bool {
        let (lower, upper) = self.ends.unwrap_or((self.value, self.value));
        [self.value, lower, upper].into_iter().all(|number| number.is_finite() && number > 0.0)
            && (lower..=upper).contains(&self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_as_uncertain_as_both() {
        let together = Between::of_mean(1.2, Some(0.012 / HALF_90_OF_95));
        let alone = Between::of_mean(1.0, Some(0.01 / HALF_90_OF_95));
        let slowdown = together.over(alone);
        let (lower, upper) = slowdown.ends.unwrap();
        let wanted = 1.2 * 0.01 * 2.0_f64.sqrt();
        assert!((slowdown.value - 1.2).abs() < 1e-12, "{slowdown:?}");
        assert!((upper - 1.2 - wanted).abs() < 2e-4 && (1.2 - lower - wanted).abs() < 2e-4, "{slowdown:?}");
        assert_eq!(together.over(Between { value: 1.0, ends: None }).ends, None, "of one interval there is none");
    }

    #[test]
    fn a_wide_mean_stays_above_zero() {
        assert!(Between::of_mean(1.0, Some(3.0)).is_positive());
        assert!(!Between::of_mean(f64::NAN, None).is_positive() && !Between::exactly(-1.0).is_positive());
    }
}
