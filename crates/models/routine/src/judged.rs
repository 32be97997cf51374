//! Forecasts of time and memory beside what came, inside of what was measured and outside of it.
//!
//! Next: `model` for the forecasts.

use crate::unit::Unit;
use serde::Serialize;
use trimtab_weather::median_of;

/// A forecast whose value came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Came {
    /// Seconds: time; bytes: memory.
    pub unit: Unit,
    /// A size was outside of what was measured.
    pub outside: bool,
    /// The forecast over what came, less one.
    pub error: f64,
    /// The interval held.
    pub held: bool,
}

/// All of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SizesJudged {
    /// Seconds: time; bytes: memory.
    pub unit: Unit,
    /// Sizes were outside of what was measured.
    pub outside: bool,
    /// How many.
    pub judged: usize,
    /// Median of errors without sign, as a share of what came.
    pub error_median: f64,
    /// The largest of these.
    pub error_worst: f64,
    /// Share of intervals of 90% that held.
    pub held: f64,
}

impl Came {
    /// A forecast with its interval beside what came; `None`: that is no value.
    pub fn of(unit: Unit, outside: bool, (lower, value, upper): (f64, f64, f64), came: f64) -> Option<Came> {
        let is_value = |value: f64| value.is_finite() && value > 0.0;
        let held = (lower..=upper).contains(&came);
        (is_value(value) && is_value(came)).then(|| Came { unit, outside, error: value / came - 1.0, held })
    }
}

/// By kind: time and memory, inside and outside.
pub fn sizes_judged(all: &[Came]) -> Vec<SizesJudged> {
    let kinds = [(Unit::Seconds, false), (Unit::Seconds, true), (Unit::Bytes, false), (Unit::Bytes, true)];
    kinds.into_iter().filter_map(|(unit, outside)| of_kind(all, unit, outside)).collect()
}

fn of_kind(all: &[Came], unit: Unit, outside: bool) -> Option<SizesJudged> {
    let of = || all.iter().filter(|came| (came.unit, came.outside) == (unit, outside));
    let errors = || of().map(|came| came.error.abs());
    let judged = of().count();
    Some(SizesJudged {
        unit,
        outside,
        judged,
        error_median: median_of(errors())?,
        error_worst: errors().fold(0.0, f64::max),
        held: of().filter(|came| came.held).count() as f64 / judged as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_memory_inside_and_outside_are_judged_apart() {
        let came = |unit, outside, said: f64, came| Came::of(unit, outside, (0.9 * said, said, 1.1 * said), came);
        let all = [
            came(Unit::Seconds, false, 1.0, 1.0),
            came(Unit::Seconds, false, 1.2, 1.0),
            came(Unit::Seconds, false, 1.0, 0.0),
            came(Unit::Bytes, true, 2.0, 1.0),
        ];
        let found = sizes_judged(&all.into_iter().flatten().collect::<Vec<_>>());
        let [time, memory] = found[..] else { panic!("{found:?}") };
        assert_eq!((time.unit, time.outside, time.judged, time.held), (Unit::Seconds, false, 2, 0.5));
        assert!((time.error_worst - 0.2).abs() < 1e-9 && (time.error_median - 0.1).abs() < 1e-9, "{time:?}");
        assert_eq!((memory.unit, memory.outside, memory.error_median, memory.held), (Unit::Bytes, true, 1.0, 0.0));
    }
}
