//! The next value of a series that is measured now: from its latest run of values without a gap, one usual step ahead.
//!
//! A newest value that is older than some steps says nothing of what comes: it is refused, with its age.
//!
//! Next: `mixture` and `interval`, which say it.

use crate::backtest::INTERVAL_SHARE;
use crate::forecasters::Forecasters;
use crate::interval::Interval;
use crate::mixture::Mixture;
use crate::series::LARGEST;
use serde::Serialize;
use thiserror::Error;

/// Values that a forecast looks back at, the latest: an older one says next to nothing, and each costs some 40 us.
const VALUES_MAX: usize = 2048;
/// A forecast is refused if the newest value is older than so many steps; a longer gap ends what counts.
pub const STEPS_MAX: f64 = 5.0;
/// Values before there is a forecast.
const VALUES_MIN: usize = 3;

/// A forecast of the next value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Soon {
    /// The value.
    pub value: f64,
    /// Nine of ten values lie between this; `None`: too few values came.
    pub lower: Option<f64>,
    /// and this.
    pub upper: Option<f64>,
    /// The share of values in the interval.
    pub share_inside: f64,
    /// How, in words.
    pub method: String,
    /// Values that it rests on.
    pub values: usize,
    /// It is of the value so many seconds after the newest one.
    pub step_s: f64,
    /// The newest one's age, seconds.
    pub age_s: f64,
}

/// Why nothing is forecast.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum NotSoon {
    /// Too few values.
    #[error("{values} value{} in a row, and a forecast needs {VALUES_MIN}", if *values == 1 { "" } else { "s" })]
    Few {
        /// How many there are without a gap.
        values: usize,
    },
    /// Too long ago.
    #[error("the newest value is {age_s:.0} s old, more than {STEPS_MAX} steps of {step_s:.0} s")]
    Stale {
        /// Age of the newest value, seconds.
        age_s: f64,
        /// Usual time between two, seconds.
        step_s: f64,
    },
    /// The clock has gone back.
    #[error("the newest value is from {ahead_s:.0} s ahead of now: has the clock been set back?")]
    Ahead {
        /// How far, seconds.
        ahead_s: f64,
    },
    /// A value that is none.
    #[error("the series holds a value or a time that is no finite number or beyond 1e100, or times that go back")]
    Damaged,
}

/// Forecasts the next value of a series, given the time now; values lie within bounds.
///
/// # Errors
/// [`NotSoon`].
pub fn soon(times_s: &[f64], values: &[f64], now_s: f64, bounds: (f64, f64)) -> Result<Soon, NotSoon> {
    let is_sound = times_s.len() == values.len()
        && times_s.iter().chain(values).all(|number| number.abs() <= LARGEST)
        && times_s.is_sorted();
    if !is_sound {
        return Err(NotSoon::Damaged);
    }
    let first = values.len().saturating_sub(VALUES_MAX);
    let (times_s, values) = (&times_s[first..], &values[first..]);
    let few = |values: usize| NotSoon::Few { values };
    let Some(newest_s) = times_s.last() else { return Err(few(0)) };
    if values.len() < VALUES_MIN {
        return Err(few(values.len()));
    }
    let step_s = usual_step(times_s);
    let age_s = now_s - newest_s;
    if age_s < -step_s.max(1.0) {
        return Err(NotSoon::Ahead { ahead_s: -age_s });
    }
    if age_s > STEPS_MAX * step_s.max(1.0) {
        return Err(NotSoon::Stale { age_s, step_s });
    }
    let gap = times_s.windows(2).rposition(|pair| pair[1] - pair[0] > STEPS_MAX * step_s.max(1.0));
    let values = &values[gap.map_or(0, |at| at + 1)..];
    if values.len() < VALUES_MIN {
        return Err(few(values.len()));
    }
    let (value, interval) = learn(values);
    let within = |value: f64| value.clamp(bounds.0, bounds.1);
    Ok(Soon {
        value: within(value),
        // Of values that are all equal the mixture is off by rounding, and their interval has no width.
        lower: interval.map(|(lower, _)| within(lower.min(value))),
        upper: interval.map(|(_, upper)| within(upper.max(value))),
        share_inside: INTERVAL_SHARE,
        method: format!("mixture of {} forecasters", Forecasters::new(None).names().len()),
        values: values.len(),
        step_s,
        age_s: age_s.max(0.0),
    })
}

/// The median of the latest steps: what is measured more often now than before goes by its new pace.
fn usual_step(times_s: &[f64]) -> f64 {
    const LATEST: usize = 32;
    let steps = times_s.windows(2).rev().take(LATEST).map(|pair| pair[1] - pair[0]);
    crate::ordered::median_of(steps).unwrap_or(0.0)
}

fn learn(values: &[f64]) -> (f64, Option<(f64, f64)>) {
    let mut forecasters = Forecasters::new(None);
    let mut mixture = Mixture::new(forecasters.names().len());
    let mut interval = Interval::new(INTERVAL_SHARE);
    for value in values {
        if let Some(said) = forecasters.next() {
            interval.learn(mixture.next(&said), *value);
            mixture.learn(&said, *value);
        }
        forecasters.learn(*value);
    }
    let next = forecasters.next().map_or(f64::NAN, |said| mixture.next(&said));
    (next, interval.around(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(count: u32) -> (Vec<f64>, Vec<f64>) {
        (0..count).map(|at| (1000.0 + f64::from(at * 10), 0.5 + 0.01 * f64::from(at % 3))).unzip()
    }

    #[test]
    fn a_steady_series_goes_on_within_its_interval() {
        let (times, values) = steady(60);
        let found = soon(&times, &values, 1595.0, (0.0, 1.0)).expect("a forecast");
        assert!((found.value - 0.51).abs() < 0.02, "{found:?}");
        let (lower, upper) = found.lower.zip(found.upper).expect("enough values");
        assert!(lower <= found.value && found.value <= upper && upper - lower < 0.1, "{found:?}");
        assert_eq!((found.values, found.step_s, found.age_s), (60, 10.0, 5.0));
    }

    #[test]
    fn what_says_nothing_is_refused() {
        let (times, values) = steady(60);
        let of = |times: &[f64], values: &[f64], now: f64| soon(times, values, now, (0.0, 1.0)).expect_err("no basis");
        assert_eq!(of(&times, &values, 1700.0), NotSoon::Stale { age_s: 110.0, step_s: 10.0 });
        assert_eq!(of(&times, &values, 1500.0), NotSoon::Ahead { ahead_s: 90.0 });
        assert_eq!(of(&[], &[], 0.0), NotSoon::Few { values: 0 });
        assert_eq!(of(&times[..2], &values[..2], 1015.0), NotSoon::Few { values: 2 });
        assert_eq!(of(&times, &values[1..], 1595.0), NotSoon::Damaged);
        assert_eq!(of(&[1.0, 2.0, 3.0], &[1.0, f64::NAN, 1.0], 3.0), NotSoon::Damaged);
        assert_eq!(of(&[1.0, 3.0, 2.0], &[1.0; 3], 3.0), NotSoon::Damaged);
        // The last two lie behind a gap.
        let late: Vec<f64> =
            times.iter().enumerate().map(|(at, time)| if at < 58 { *time } else { time + 900.0 }).collect();
        assert_eq!(of(&late, &values, 2495.0), NotSoon::Few { values: 2 });
    }

    #[test]
    fn an_interval_holds_its_forecast_though_all_values_are_equal() {
        let (times, _) = steady(40);
        for equal in [0.9999957668812858, 0.1, 1.0 / 3.0, 0.7] {
            let found = soon(&times, &[equal; 40], 1395.0, (0.0, 1.0)).expect("a forecast");
            let (lower, upper) = found.lower.zip(found.upper).expect("enough values");
            assert!(lower <= found.value && found.value <= upper && upper - lower < 1e-12, "{found:?}");
        }
    }

    #[test]
    fn few_values_have_no_interval_and_bounds_hold() {
        let found = soon(&[1.0, 2.0, 3.0], &[0.2, 0.6, 1.0], 3.0, (0.0, 0.5)).expect("a forecast");
        assert_eq!((found.lower, found.value <= 0.5), (None, true));
    }
}
