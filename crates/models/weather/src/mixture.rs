//! One forecast of many: learners of several memories each weigh the forecasters, and one more weighs the learners.
//!
//! A learner that forgets nothing finds the best forecaster of a steady series, one that forgets soon follows a series that
//! changes; which of them suits is learned in the same way. A median by track record stands beside them, for series with
//! spikes.
//!
//! Next: `learner` for the rule, `interval` for how sure it is.

use crate::learner::{Learner, Memory};
use crate::ordered::median_of;

/// The learners below.
const MEMORIES: [Memory; 6] = [
    Memory { keep: 1.0, clip: 6.0 },
    Memory { keep: 0.999, clip: 6.0 },
    Memory { keep: 0.995, clip: 6.0 },
    Memory { keep: 0.998, clip: 2.0 },
    Memory { keep: 0.99, clip: 4.0 },
    Memory { keep: 0.999, clip: 2.0 },
];
/// The one above.
const ABOVE: Memory = Memory { keep: 0.999, clip: 6.0 };
/// The median by track record: memory of errors, and how much the better ones are preferred.
const RECORD_KEEP: f64 = 0.998;
const RECORD_POWER: f64 = 20.0;

/// Weighs forecasters by how they did.
#[derive(Clone, Debug)]
pub struct Mixture {
    below: Vec<Learner>,
    above: Learner,
    /// Absolute errors of each forecaster, recent ones more.
    errors: Vec<f64>,
}

impl Mixture {
    /// Of so many forecasters.
    pub fn new(forecasters: usize) -> Self {
        Mixture {
            below: MEMORIES.iter().map(|memory| Learner::new(forecasters, *memory)).collect(),
            above: Learner::new(MEMORIES.len() + 1, ABOVE),
            errors: vec![0.0; forecasters],
        }
    }

    /// The forecast, of what each forecaster says.
    pub fn next(&self, said: &[f64]) -> f64 {
        self.above.mean(&self.by_learner(said))
    }

    /// A value has come, before which the forecasters said this.
    pub fn learn(&mut self, said: &[f64], value: f64) {
        let by_learner = self.by_learner(said);
        learn(&mut self.above, &by_learner, value, off_by(said, value));
        for learner in &mut self.below {
            learn(learner, said, value, off_by(said, value));
        }
        for (error, forecast) in self.errors.iter_mut().zip(said) {
            *error = *error * RECORD_KEEP + (forecast - value).abs();
        }
    }

    fn by_learner(&self, said: &[f64]) -> Vec<f64> {
        let means = self.below.iter().map(|learner| learner.mean(said));
        means.chain([self.weighted_median(said)]).collect()
    }

    fn weighted_median(&self, said: &[f64]) -> f64 {
        let least = self.errors.iter().copied().fold(f64::INFINITY, f64::min);
        // Where one was never wrong, those like it decide.
        let weight = |error: f64| match () {
            () if error <= least => 1.0,
            () if least <= 0.0 => 0.0,
            () => (least / error).powf(RECORD_POWER),
        };
        let mut by_size: Vec<(f64, f64)> =
            said.iter().zip(&self.errors).map(|(value, error)| (*value, weight(*error))).collect();
        by_size.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half = by_size.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
        let mut sum = 0.0;
        let reaches = |(_, weight): &&(f64, f64)| {
            sum += weight;
            sum >= half
        };
        by_size.iter().find(reaches).map_or(0.0, |(value, _)| *value)
    }
}

/// The usual error of the forecasters is their median's, so that a bad one does not widen it.
fn off_by(said: &[f64], value: f64) -> f64 {
    median_of(said.iter().map(|forecast| (forecast - value).abs())).unwrap_or(0.0)
}

/// By the absolute error, whose slope is its sign.
fn learn(learner: &mut Learner, said: &[f64], value: f64, error: f64) {
    let forecast = learner.mean(said);
    let slope = if forecast == value { 0.0 } else { (forecast - value).signum() };
    learner.learn(said, slope, error);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixture_follows_a_change_of_the_best() {
        let mut mixture = Mixture::new(3);
        let mut late = 0.0;
        for at in 0..2000 {
            let value = f64::from(at % 5);
            let [right, off] = if at < 1000 { [0, 1] } else { [1, 0] };
            let mut said = [value + 20.0; 3];
            (said[right], said[off]) = (value, value + 3.0);
            if at >= 1800 {
                late += (mixture.next(&said) - value).abs();
            }
            mixture.learn(&said, value);
        }
        assert!(late / 200.0 < 0.1, "{}", late / 200.0);
    }

    #[test]
    fn a_forecaster_that_was_never_wrong_decides_the_median() {
        let mut mixture = Mixture::new(3);
        mixture.learn(&[1.0, 2.0, 3.0], 2.0);
        assert_eq!(mixture.weighted_median(&[5.0, 7.0, 9.0]), 7.0);
        assert_eq!(Mixture::new(3).weighted_median(&[5.0, 7.0, 9.0]), 7.0, "all alike");
    }
}
