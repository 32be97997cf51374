//! An interval around a forecast that holds a share of the values, whatever the series is like.
//!
//! Below and above are learned apart, each as a quantile of how far values were off: of the latest 60, 250, 1,000 or all of
//! them, as they are or in parts of their recent size. Learners weigh these quantiles by the quantile's loss. Then comes what
//! adaptive conformal inference adds (Gibbs and Candes, 2021): values that were outside are counted against what may be, and
//! the interval widens or shrinks once the count is off by more than chance does.
//!
//! Next: `learner` for the rule, `mixture` for the forecast.

use crate::learner::{Learner, Memory};
use crate::ordered::Ordered;

/// How many of the latest errors quantiles are of.
const WINDOWS: [usize; 4] = [60, 250, 1000, usize::MAX];
/// Memories of the recent size of errors that they are divided by.
const SIZES: [f64; 3] = [0.97, 0.9, 0.7];
const MEMORY: Memory = Memory { keep: 0.998, clip: 4.0 };
/// Values outside more or less than expected that are chance, and how much the interval widens by each more, as an exponent.
const CHANCE: f64 = 1.0;
const WIDENS: f64 = 0.05;
/// Values before outside ones are counted.
const COUNTED_FROM: usize = 20;
/// Values before there is an interval.
const KNOWN_FROM: usize = 10;

/// An error is no more than so many sizes: after a calm of zeros the size is next to nothing.
const PARTS_MAX: f64 = 1e6;
/// The least part that a size falls to by one value.
const SIZE_FALLS_MOST: f64 = 0.5;

/// Learns how far values lie from forecasts.
#[derive(Clone, Debug)]
pub struct Interval {
    seen: usize,
    /// Errors in parts of their recent size.
    scaled: Vec<Scaled>,
    below: Side,
    above: Side,
}

/// Errors, value minus forecast, in parts of a size.
#[derive(Clone, Debug)]
struct Scaled {
    /// Memory of the size; `None`: it is 1.
    keep: Option<f64>,
    size: f64,
    windows: [Ordered; WINDOWS.len()],
}

/// One end of the interval.
#[derive(Clone, Debug)]
struct Side {
    /// Of errors that lie below it.
    probability: f64,
    learner: Learner,
    /// Values beyond it, more than there may be.
    surplus: f64,
}

impl Interval {
    /// One that holds a share of all values, e.g. 0.9, with as many below as above.
    pub fn new(share: f64) -> Self {
        let outside = (1.0 - share) / 2.0;
        let scaled = [None].into_iter().chain(SIZES.map(Some)).map(Scaled::new).collect::<Vec<_>>();
        let experts = scaled.len() * WINDOWS.len();
        let side = |probability| Side { probability, learner: Learner::new(experts, MEMORY), surplus: 0.0 };
        Interval { seen: 0, scaled, below: side(outside), above: side(1.0 - outside) }
    }

    /// Both ends around a forecast; `None` as long as too few values came.
    pub fn around(&self, forecast: f64) -> Option<(f64, f64)> {
        if self.seen < KNOWN_FROM {
            return None;
        }
        let quantile = |side: &Side| side.learner.mean(&self.quantiles(side.probability));
        let (low, high) = (quantile(&self.below), quantile(&self.above));
        // Each end moves away from the middle between both, wherever that lies from the forecast.
        let (middle, half) = (forecast + (low + high) / 2.0, ((high - low) / 2.0).max(0.0));
        Some((middle - half * self.below.factor(), middle + half * self.above.factor()))
    }

    /// A value has come, of which this was the forecast.
    pub fn learn(&mut self, forecast: f64, value: f64) {
        let (error, ends) = (value - forecast, self.around(forecast));
        if let Some((low, high)) = ends.filter(|_| self.seen >= COUNTED_FROM) {
            self.below.count(value < low);
            self.above.count(value > high);
        }
        if self.seen > 0 {
            let quantiles =
                [self.below.probability, self.above.probability].map(|probability| self.quantiles(probability));
            self.below.learn(&quantiles[0], error);
            self.above.learn(&quantiles[1], error);
        }
        self.scaled.iter_mut().for_each(|scaled| scaled.push(error, self.seen == 0));
        self.seen += 1;
    }

    fn quantiles(&self, probability: f64) -> Vec<f64> {
        let of_size = |scaled: &Scaled| -> [f64; WINDOWS.len()] {
            std::array::from_fn(|at| scaled.size * scaled.windows[at].quantile(probability).unwrap_or(0.0))
        };
        self.scaled.iter().flat_map(of_size).collect()
    }
}

impl Scaled {
    fn new(keep: Option<f64>) -> Self {
        Scaled { keep, size: 1.0, windows: WINDOWS.map(Ordered::new) }
    }

    /// The error in parts of the size before it; then the size follows.
    fn push(&mut self, error: f64, is_first: bool) {
        let Some(keep) = self.keep else {
            self.windows.iter_mut().for_each(|window| window.push(error));
            return;
        };
        if is_first {
            self.size = error.abs().max(f64::MIN_POSITIVE);
        }
        let parts = (error / self.size).clamp(-PARTS_MAX, PARTS_MAX);
        self.windows.iter_mut().for_each(|window| window.push(parts));
        let least = self.size * SIZE_FALLS_MOST;
        self.size = (keep * self.size + (1.0 - keep) * error.abs()).max(least).max(f64::MIN_POSITIVE);
    }
}

impl Side {
    /// The factor of the distance from the middle of the interval.
    fn factor(&self) -> f64 {
        let beyond_chance = (self.surplus.abs() - CHANCE).max(0.0);
        (WIDENS * beyond_chance * self.surplus.signum()).exp()
    }

    fn outside(&self) -> f64 {
        self.probability.min(1.0 - self.probability)
    }

    fn count(&mut self, is_outside: bool) {
        self.surplus += f64::from(u8::from(is_outside)) - self.outside();
    }

    /// By the quantile's loss: its slope is the share of errors below that there is too much.
    fn learn(&mut self, quantiles: &[f64], error: f64) {
        let end = self.learner.mean(quantiles);
        let slope = f64::from(u8::from(error < end)) - self.probability;
        self.learner.learn(quantiles, slope, error.abs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of values inside over the last three quarters of `count`.
    fn held(count: usize, error: impl Fn(usize) -> f64) -> f64 {
        let mut interval = Interval::new(0.9);
        let mut inside = 0;
        for at in 0..count {
            let value = error(at);
            if at >= count / 4 {
                let (low, high) = interval.around(0.0).expect("enough came");
                inside += usize::from((low..=high).contains(&value));
            }
            interval.learn(0.0, value);
        }
        inside as f64 / (count - count / 4) as f64
    }

    /// Uniform in -1 to 1, the same each time.
    fn noise(at: usize) -> f64 {
        let mixed = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x632b_e59b_d9b4_e019);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 32)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    #[test]
    fn as_many_values_are_inside_as_were_asked_for() {
        let calm_and_wild = |at: usize| noise(at) * if (at / 500).is_multiple_of(2) { 1.0 } else { 20.0 };
        for (name, share) in [
            ("as it is", held(4000, noise)),
            ("that grows", held(4000, |at| noise(at) * at as f64)),
            ("calm and wild", held(4000, calm_and_wild)),
            ("to one side", held(4000, |at| noise(at).powi(8))),
        ] {
            assert!((share - 0.9).abs() < 0.012, "{name}: {share}");
        }
    }

    #[test]
    fn a_forecast_that_is_never_off_needs_no_width() {
        let mut interval = Interval::new(0.9);
        assert_eq!(interval.around(5.0), None);
        (0..50).for_each(|_| interval.learn(5.0, 5.0));
        let (low, high) = interval.around(5.0).expect("enough came");
        assert!((high - low).abs() < 1e-9, "{low} to {high}");
    }
}
