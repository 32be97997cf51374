//! Forecasts of a recorded series, one step ahead, against what came: how far each forecaster was off, and if intervals held.
//!
//! Nothing is known of a value before it is forecast. All values teach, and a part of them is judged.
//!
//! Next: `trimtab backtest`, which prints it.

use crate::forecasters::Forecasters;
use crate::interval::Interval;
use crate::mixture::Mixture;
use crate::ordered::Ordered;
use crate::published::PublishedRule;
use crate::series::Series;
use serde::Serialize;

/// The share of values that intervals are to hold.
pub const INTERVAL_SHARE: f64 = 0.9;

/// From where on forecasts are judged, of a series' values or of a log's jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum From {
    /// From the first one on that can be forecast.
    #[default]
    Start,
    /// The later part, from this share of all on, 0 to 1.
    Share(f64),
}

/// Errors of one forecaster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Its name.
    pub name: String,
    /// The mean of absolute errors, in the series' unit.
    pub error_mean: f64,
    /// The root of the mean of squared errors, in the series' unit.
    pub error_root_mean_square: f64,
}

/// Intervals against what came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Held {
    /// The share of values they are to hold.
    pub share_wanted: f64,
    /// The share they held.
    pub share: f64,
    /// The mean interval score, in the series' unit: width, and twice over the share outside times how far values lie outside
    /// (Gneiting and Raftery, 2007). Less is better.
    pub score: f64,
    /// Their mean width, in the series' unit.
    pub width: f64,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Backtest {
    /// Values of the series.
    pub values: usize,
    /// Values that were judged.
    pub judged: usize,
    /// The usual time between two values, seconds.
    pub step_s: Option<f64>,
    /// Places where the next value came later than one and a half steps.
    pub gaps: usize,
    /// Values of a day, if forecasters know one.
    pub day: Option<usize>,
    /// Single forecasters, the best first.
    pub forecasters: Vec<Judged>,
    /// The mixture of them.
    pub mixture: Judged,
    /// The rule that the Network Weather Service published, by absolute errors.
    pub published: Judged,
    /// The mixture's mean error over that of the best single one, which is known in hindsight only; `None`: that one was never
    /// off.
    pub mixture_over_best: Option<f64>,
    /// Intervals around the mixture; `None`: too few values.
    pub interval: Option<Held>,
    /// Quantiles of all errors so far in their place.
    pub plain_interval: Option<Held>,
}

/// Sums of what is judged.
#[derive(Clone, Debug, Default)]
struct Errors {
    count: usize,
    absolute: f64,
    square: f64,
}

#[derive(Clone, Debug, Default)]
struct Intervals {
    count: usize,
    inside: usize,
    score: f64,
    width: f64,
}

/// Goes through a series.
pub fn backtest(series: &Series, from: From) -> Backtest {
    let mut run = Run::new(series.day());
    let first = match from {
        From::Start => 1,
        From::Share(share) => ((series.values.len() as f64 * share) as usize).max(1),
    };
    for (at, value) in series.values.iter().enumerate() {
        run.step(*value, at >= first);
    }
    run.result(series)
}

/// Everything that learns, and what it was judged by.
struct Run {
    forecasters: Forecasters,
    mixture: Mixture,
    published: PublishedRule,
    interval: Interval,
    plain: Ordered,
    single: Vec<Errors>,
    mixed: Errors,
    ruled: Errors,
    held: Intervals,
    plainly_held: Intervals,
}

impl Run {
    fn new(day: Option<usize>) -> Self {
        let forecasters = Forecasters::new(day);
        let count = forecasters.names().len();
        Run {
            mixture: Mixture::new(count),
            published: PublishedRule::new(Forecasters::published_count()),
            interval: Interval::new(INTERVAL_SHARE),
            plain: Ordered::new(usize::MAX),
            single: vec![Errors::default(); count],
            forecasters,
            mixed: Errors::default(),
            ruled: Errors::default(),
            held: Intervals::default(),
            plainly_held: Intervals::default(),
        }
    }

    fn step(&mut self, value: f64, is_judged: bool) {
        if let Some(said) = self.forecasters.next() {
            let forecast = self.mixture.next(&said);
            let shipped = &said[..Forecasters::published_count()];
            if is_judged {
                self.judge(&said, forecast, value);
                self.ruled.add(self.published.next(shipped).by_absolute - value);
            }
            self.published.learn(shipped, value);
            self.interval.learn(forecast, value);
            self.plain.push(value - forecast);
            self.mixture.learn(&said, value);
        }
        self.forecasters.learn(value);
    }

    fn judge(&mut self, said: &[f64], forecast: f64, value: f64) {
        self.single.iter_mut().zip(said).for_each(|(errors, single)| errors.add(single - value));
        self.mixed.add(forecast - value);
        if let Some(ends) = self.interval.around(forecast) {
            self.held.add(ends, value);
            let outside = (1.0 - INTERVAL_SHARE) / 2.0;
            let end = |probability| forecast + self.plain.quantile(probability).unwrap_or(0.0);
            self.plainly_held.add((end(outside), end(1.0 - outside)), value);
        }
    }

    fn result(self, series: &Series) -> Backtest {
        let names = self.forecasters.names();
        let mut forecasters: Vec<Judged> =
            names.into_iter().zip(&self.single).map(|(name, errors)| errors.judged(name)).collect();
        forecasters.sort_by(|a, b| a.error_mean.total_cmp(&b.error_mean));
        let mixture = self.mixed.judged("mixture".to_owned());
        let best = forecasters.first().map_or(0.0, |best| best.error_mean);
        Backtest {
            values: series.values.len(),
            judged: self.mixed.count,
            step_s: series.step_s(),
            gaps: series.gaps(),
            day: series.day(),
            mixture_over_best: (best > 0.0).then(|| mixture.error_mean / best),
            forecasters,
            mixture,
            published: self.ruled.judged("published rule".to_owned()),
            interval: self.held.held(),
            plain_interval: self.plainly_held.held(),
        }
    }
}

impl Errors {
    fn add(&mut self, error: f64) {
        self.count += 1;
        self.absolute += error.abs();
        self.square += error * error;
    }

    fn judged(&self, name: String) -> Judged {
        let count = self.count.max(1) as f64;
        Judged { name, error_mean: self.absolute / count, error_root_mean_square: (self.square / count).sqrt() }
    }
}

impl Intervals {
    fn add(&mut self, (low, high): (f64, f64), value: f64) {
        self.count += 1;
        self.inside += usize::from((low..=high).contains(&value));
        self.width += high - low;
        let outside = (low - value).max(value - high).max(0.0);
        self.score += high - low + 2.0 / (1.0 - INTERVAL_SHARE) * outside;
    }

    fn held(&self) -> Option<Held> {
        let count = self.count as f64;
        (self.count > 0).then(|| Held {
            share_wanted: INTERVAL_SHARE,
            share: self.inside as f64 / count,
            score: self.score / count,
            width: self.width / count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: Vec<f64>) -> Series {
        Series { times_s: (0..values.len()).map(|at| at as f64 * 300.0).collect(), values }
    }

    #[test]
    fn nothing_of_a_value_is_known_before_it_is_forecast() {
        let calm: Vec<f64> = (0..200).map(|at| f64::from(at % 3)).collect();
        let mut jumps = calm.clone();
        jumps.push(1e6);
        let without = backtest(&series(calm), From::Start);
        let with = backtest(&series(jumps), From::Start);
        let sum = |found: &Backtest| found.mixture.error_mean * found.judged as f64;
        assert!((sum(&with) - sum(&without) - 1e6).abs() < 10.0, "the jump is off by all of itself");
        assert_eq!((without.judged, with.judged), (199, 200));
    }

    #[test]
    fn the_second_half_is_judged_by_itself() {
        let values: Vec<f64> = (0..400).map(|at| if at < 200 { f64::from(at % 2) * 50.0 } else { 7.0 }).collect();
        let half = backtest(&series(values), From::Share(0.5));
        assert_eq!((half.values, half.judged), (400, 200));
        assert!(half.forecasters[0].error_mean < 0.5, "{:?}", half.forecasters[0]);
        assert!(half.interval.expect("enough values").share > 0.85);
    }

    #[test]
    fn one_value_is_no_forecast() {
        let one = backtest(&series(vec![4.0]), From::Start);
        assert_eq!((one.judged, one.interval, one.mixture_over_best), (0, None, None));
    }
}
