//! Routines whose sizes do not say their time: sparse data, factors of a number, a search that may end at once.
//!
//! Next: `model`, which then has no terms.

use crate::measured::{Measurement, spread_of};
use crate::unit::Unit;
use serde::{Deserialize, Serialize};
use trimtab_weather::median_of;

/// Repetitions of one size that spread by more than this share are not the machine's noise,
const SPREAD_MAX: f64 = 0.2;
/// nor are those that spread so many times as far as the noise, where that is known.
const NOISES: f64 = 4.0;
/// Values below this are mostly the start of a program, whose spread says nothing about the routine.
const SECONDS_MIN: f64 = 0.02;
/// An error at left-out places above this says that no terms describe the values,
const ERROR_MAX: f64 = 0.25;
/// if it is also so many times what repetitions explain.
const ERROR_NOISES: f64 = 4.0;

/// Why sizes do not say the value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Stray {
    /// The same sizes gave values that spread by this share, typically.
    Repetitions {
        /// Standard deviation over median.
        spread: f64,
    },
    /// Values at other sizes are missed by this share, typically, by the best of all terms.
    Sizes {
        /// Median error over value.
        error: f64,
    },
}

/// True to the first kind: repetitions spread too far. `quiet`: the machine's own noise, as a share, where it is known.
pub(crate) fn by_repetitions(measurements: &[Measurement], quiet: Option<f64>) -> Option<Stray> {
    let limit = SPREAD_MAX.max(quiet.map_or(0.0, |quiet| NOISES * quiet));
    let counts = |measurement: &&Measurement| {
        let least = if measurement.unit == Unit::Seconds { SECONDS_MIN } else { 0.0 };
        median_of(measurement.values.iter().copied()).is_some_and(|middle| middle >= least)
    };
    let spreads = measurements.iter().filter(counts).filter_map(|measurement| spread_of(&measurement.values));
    let spread = median_of(spreads.map(|(middle, spread)| spread / middle))?;
    (spread > limit).then_some(Stray::Repetitions { spread })
}

/// True to the second kind: no terms come near.
pub(crate) fn by_sizes(errors: &[f64], noise: f64) -> Option<Stray> {
    let error = median_of(errors.iter().map(|error| error.abs()))?;
    (error > ERROR_MAX && error > ERROR_NOISES * noise).then_some(Stray::Sizes { error })
}
