//! The single forecasters: each says the next value of a series from those that were.
//!
//! The first 18 are those that the Network Weather Service ships, with their parameters; of its adaptive median the rule that
//! was meant, where the window grows or shrinks by a step towards the better neighbour and stays within its bounds. Then come
//! a gradient, five autoregressive ones, exponential smoothing whose gain is fitted, by the crate `augurs-ets`, and two of the day
//! before where a series is long enough.
//!
//! Next: `mixture`, which weighs them.

use crate::fitted;
use crate::levinson::Autoregression;
use crate::ordered::{Ordered, median_of};
use crate::seasonal::Seasonal;
use std::collections::VecDeque;

/// Gains of exponential smoothing.
const GAINS: [f64; 8] = [0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75];
/// Adaptive medians: start, least, most and step of the window.
const ADAPTIVE: [[usize; 4]; 2] = [[10, 5, 21, 1], [30, 21, 51, 5]];
/// Autoregressions: coefficients, and values they are fitted to.
const AUTOREGRESSIONS: [[usize; 2]; 5] = [[1, 60], [2, 128], [4, 256], [8, 512], [16, 1024]];
/// Values between two fits.
const REFIT_VALUES: usize = 10;
/// The gradient's gain: at first, bounds, and what it grows and shrinks by.
const GRADIENT_START: f64 = 0.1;
const GRADIENT_BOUNDS: [f64; 2] = [0.01, 1.0];
const GRADIENT_GROWS: f64 = 1.1;
const GRADIENT_SHRINKS: f64 = 0.9;

/// All forecasters of a series.
#[derive(Clone, Debug)]
pub struct Forecasters {
    seen: usize,
    /// The latest values, the latest first.
    history: VecDeque<f64>,
    mean: f64,
    smoothed: [f64; GAINS.len()],
    last_5: Ordered,
    last_31: Ordered,
    last_51: Ordered,
    adaptive: [AdaptiveMedian; ADAPTIVE.len()],
    gradient: Gradient,
    regressions: [Option<Autoregression>; AUTOREGRESSIONS.len()],
    fitted: Option<f64>,
    seasonal: Option<Seasonal>,
}

/// A median over a window that grows and shrinks.
#[derive(Clone, Debug)]
struct AdaptiveMedian {
    window: usize,
    least: usize,
    most: usize,
    step: usize,
}

/// A forecast that follows its errors, the faster the longer they have one sign.
#[derive(Clone, Debug)]
struct Gradient {
    forecast: f64,
    gain: f64,
    last_sign: f64,
}

impl Forecasters {
    /// Of a series that repeats after `period` values, if that is known, as most do after a day.
    pub fn new(period: Option<usize>) -> Self {
        Forecasters {
            seen: 0,
            history: VecDeque::new(),
            mean: 0.0,
            smoothed: [0.0; GAINS.len()],
            last_5: Ordered::new(5),
            last_31: Ordered::new(31),
            last_51: Ordered::new(51),
            adaptive: ADAPTIVE.map(|[window, least, most, step]| AdaptiveMedian { window, least, most, step }),
            gradient: Gradient { forecast: 0.0, gain: GRADIENT_START, last_sign: 0.0 },
            regressions: [const { None }; AUTOREGRESSIONS.len()],
            fitted: None,
            seasonal: period.map(Seasonal::new),
        }
    }

    /// Their names, in the order of [`Forecasters::next`].
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = ["last value", "running mean"].map(str::to_owned).to_vec();
        names.extend(GAINS.map(|gain| format!("smoothing {gain}")));
        names.extend(
            ["median 31", "median 5", "mean 31", "mean 5", "trimmed mean 31", "trimmed mean 51"].map(str::to_owned),
        );
        names.extend(ADAPTIVE.map(|[_, least, most, _]| format!("adaptive median {least}-{most}")));
        names.push("gradient".to_owned());
        names.extend(AUTOREGRESSIONS.map(|[order, window]| format!("autoregression {order} of {window}")));
        names.push(format!("fitted smoothing of {}", fitted::VALUES));
        if self.seasonal.is_some() {
            names.extend(["a day before", "a day before, moved"].map(str::to_owned));
        }
        names
    }

    /// How many of them the Network Weather Service has; they come first.
    pub fn published_count() -> usize {
        2 + GAINS.len() + 6 + ADAPTIVE.len()
    }

    /// Each one's forecast of the next value; `None` before the first value.
    pub fn next(&self) -> Option<Vec<f64>> {
        let last = *self.history.front()?;
        let or_last = |value: Option<f64>| value.unwrap_or(last);
        let mut all = vec![last, self.mean];
        all.extend(self.smoothed);
        all.extend([&self.last_31, &self.last_5].map(|window| or_last(window.median())));
        all.extend([&self.last_31, &self.last_5].map(|window| or_last(window.trimmed_mean(0.0))));
        all.extend([&self.last_31, &self.last_51].map(|window| or_last(window.trimmed_mean(0.3))));
        all.extend(self.adaptive.iter().map(|median| or_last(self.median_of_latest(median.window))));
        all.push(self.gradient.forecast);
        let latest = || self.history.iter().copied();
        all.extend(self.regressions.iter().map(|fitted| or_last(fitted.as_ref().map(|fitted| fitted.next(latest())))));
        all.push(or_last(self.fitted));
        all.extend(self.seasonal.iter().flat_map(|seasonal| seasonal.next(last)));
        Some(all)
    }

    /// A value has come.
    pub fn learn(&mut self, value: f64) {
        self.adapt(value);
        self.gradient.learn(value, self.seen == 0);
        self.seen += 1;
        self.mean += (value - self.mean) / self.seen as f64;
        for (smoothed, gain) in self.smoothed.iter_mut().zip(GAINS) {
            *smoothed = if self.seen == 1 { value } else { *smoothed + gain * (value - *smoothed) };
        }
        [&mut self.last_5, &mut self.last_31, &mut self.last_51].into_iter().for_each(|window| window.push(value));
        if let Some(seasonal) = &mut self.seasonal {
            seasonal.learn(value);
        }
        self.history.push_front(value);
        self.history.truncate(AUTOREGRESSIONS[AUTOREGRESSIONS.len() - 1][1]);
        self.refit();
    }

    fn median_of_latest(&self, count: usize) -> Option<f64> {
        median_of(self.history.iter().copied().take(count))
    }

    /// Moves each adaptive window a step towards the neighbour that would have been nearer.
    fn adapt(&mut self, value: f64) {
        if self.history.is_empty() {
            return;
        }
        let mut adaptive = self.adaptive.clone();
        for median in &mut adaptive {
            let error =
                |window: usize| self.median_of_latest(window).map_or(f64::INFINITY, |found| (found - value).abs());
            let (shorter, longer) = (median.window.saturating_sub(median.step).max(1), median.window + median.step);
            let now = error(median.window);
            let (below, above) = (error(shorter), error(longer));
            let moved = match (below < now && below <= above, above < now) {
                (true, _) => median.window.saturating_sub(1),
                (false, true) => median.window + 1,
                (false, false) => median.window,
            };
            median.window = moved.clamp(median.least, median.most);
        }
        self.adaptive = adaptive;
    }

    fn refit(&mut self) {
        let latest: Vec<f64> = self.history.iter().take(fitted::VALUES).rev().copied().collect();
        self.fitted = fitted::next(&latest);
        for (fitted, [order, window]) in self.regressions.iter_mut().zip(AUTOREGRESSIONS) {
            if fitted.is_none() || self.seen.is_multiple_of(REFIT_VALUES) {
                let count = window.min(self.history.len());
                let values: Vec<f64> = self.history.range(..count).rev().copied().collect();
                *fitted = Autoregression::fit(&values, order);
            }
        }
    }
}

impl Gradient {
    fn learn(&mut self, value: f64, is_first: bool) {
        if is_first {
            self.forecast = value;
            return;
        }
        let error = value - self.forecast;
        let sign = if error == 0.0 { 0.0 } else { error.signum() };
        let factor = if sign * self.last_sign > 0.0 { GRADIENT_GROWS } else { GRADIENT_SHRINKS };
        self.gain = (self.gain * factor).clamp(GRADIENT_BOUNDS[0], GRADIENT_BOUNDS[1]);
        self.forecast += self.gain * error;
        self.last_sign = sign;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(values: &[f64], period: Option<usize>) -> Forecasters {
        let mut all = Forecasters::new(period);
        values.iter().for_each(|value| all.learn(*value));
        all
    }

    fn said(all: &Forecasters, name: &str) -> f64 {
        let at = all.names().iter().position(|other| other == name).expect(name);
        all.next().expect("a value came")[at]
    }

    #[test]
    fn each_says_what_its_rule_is() {
        let values = [4.0, 8.0, 6.0, 2.0, 10.0, 1000.0];
        let all = after(&values, None);
        for (name, value) in [
            ("last value", 1000.0),
            ("running mean", 1030.0 / 6.0),
            ("smoothing 0.5", 503.5),
            ("median 5", 8.0),
            ("median 31", 7.0),
            ("mean 5", 1026.0 / 5.0),
            ("trimmed mean 31", 7.0),
            ("adaptive median 5-21", 7.0),
        ] {
            let found = said(&all, name);
            assert!((found - value).abs() < 1e-9, "{name}: {found}");
        }
        assert_eq!((all.names().len(), Forecasters::published_count()), (25, 18));
        assert_eq!(Forecasters::new(None).next(), None);
    }

    #[test]
    fn an_adaptive_window_follows_what_is_nearer_and_stays_in_its_bounds() {
        let ramp: Vec<f64> = (0..200).map(f64::from).collect();
        assert_eq!(after(&ramp, None).adaptive.map(|median| median.window), [5, 21]);
        let noisy: Vec<f64> = (0..600).map(|i| f64::from((i * 7919) % 101)).collect();
        let windows = after(&noisy, None).adaptive.map(|median| median.window);
        assert!((5..=21).contains(&windows[0]) && (21..=51).contains(&windows[1]), "{windows:?}");
    }

    #[test]
    fn the_day_before_is_asked_where_a_period_is_known() {
        let wave: Vec<f64> = (0..40).map(|i| f64::from(i % 8)).collect();
        let all = after(&wave, Some(8));
        assert_eq!((said(&all, "a day before"), said(&all, "a day before, moved")), (0.0, 0.0));
        assert_eq!(said(&after(&wave[..5], Some(8)), "a day before"), 4.0, "no day before: the last value");
    }

    #[test]
    fn a_gradient_grows_where_errors_keep_their_sign() {
        let ramp: Vec<f64> = (0..100).map(f64::from).collect();
        let all = after(&ramp, None);
        assert!(said(&all, "gradient") > 97.0, "{}", said(&all, "gradient"));
    }
}
