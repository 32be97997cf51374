//! Weights of several experts that follow how each has done, for a forecast that is a mean of theirs.
//!
//! It is the rule of polynomial weights with a learning rate of its own for each expert (Gaillard, Stoltz, van Erven, "A
//! second-order bound with excess losses", 2014), on the slope of the loss at the forecast, with three changes for series of
//! measurements: what was seen long ago counts less; one value counts no more than some times the usual error, so that a spike
//! does not decide; and nothing is known of the range of values beforehand.
//!
//! Next: `mixture` and `interval`, which use it.

/// The memory of a learner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// The weight of an observation once there is one more; 1: for ever.
    pub keep: f64,
    /// No expert gains or loses more by one value than so many usual errors.
    pub clip: f64,
}

/// Weights, and what they come from.
#[derive(Clone, Debug)]
pub(crate) struct Learner {
    memory: Memory,
    gains: Vec<f64>,
    squares: Vec<f64>,
    largest_square: f64,
    weights: Vec<f64>,
    usual: Usual,
}

/// The usual error: a mean over time.
#[derive(Clone, Debug, Default)]
struct Usual {
    sum: f64,
    count: f64,
}

impl Learner {
    /// Of so many experts, all alike at first.
    pub(crate) fn new(experts: usize, memory: Memory) -> Self {
        Learner {
            memory,
            gains: vec![0.0; experts],
            squares: vec![0.0; experts],
            largest_square: f64::MIN_POSITIVE,
            weights: vec![1.0 / experts as f64; experts],
            usual: Usual::default(),
        }
    }

    /// The mean of the experts' values by their weights.
    pub(crate) fn mean(&self, values: &[f64]) -> f64 {
        self.weights.iter().zip(values).map(|(weight, value)| weight * value).sum()
    }

    /// Learns from a value: `slope` is that of the loss at the forecast, so that an expert gains by lying where the loss is
    /// less; `error` is a size of errors to which gains are compared.
    pub(crate) fn learn(&mut self, values: &[f64], slope: f64, error: f64) {
        let Memory { keep, clip } = self.memory;
        let forecast = self.mean(values);
        self.usual.sum = self.usual.sum * keep + error;
        self.usual.count = self.usual.count * keep + 1.0;
        let most = clip * self.usual.sum / self.usual.count;
        self.largest_square *= keep;
        for ((gain, square), value) in self.gains.iter_mut().zip(&mut self.squares).zip(values) {
            let gained = (slope * (forecast - value)).clamp(-most, most);
            *gain = *gain * keep + gained;
            *square = *square * keep + gained * gained;
            self.largest_square = self.largest_square.max(gained * gained).max(f64::MIN_POSITIVE);
        }
        self.weigh();
    }

    fn weigh(&mut self) {
        let raw = |(gain, square): (&f64, &f64)| gain.max(0.0) / (self.largest_square + square);
        let raw: Vec<f64> = self.gains.iter().zip(&self.squares).map(raw).collect();
        let sum: f64 = raw.iter().sum();
        let alike = 1.0 / raw.len() as f64;
        let is_known = sum > 0.0 && sum.is_finite();
        self.weights = raw.iter().map(|weight| if is_known { weight / sum } else { alike }).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forecasts of `experts` for 300 values, and the mean absolute error over the last 100.
    fn followed(experts: impl Fn(usize) -> Vec<f64>, truth: impl Fn(usize) -> f64) -> f64 {
        let mut learner = Learner::new(experts(0).len(), Memory { keep: 1.0, clip: 6.0 });
        let mut errors = Vec::new();
        for at in 0..300 {
            let (values, value) = (experts(at), truth(at));
            let forecast = learner.mean(&values);
            errors.push((forecast - value).abs());
            let error = values.iter().map(|other| (other - value).abs()).sum::<f64>() / values.len() as f64;
            learner.learn(&values, (forecast - value).signum(), error);
        }
        errors[200..].iter().sum::<f64>() / 100.0
    }

    #[test]
    fn the_expert_that_is_right_is_followed() {
        let truth = |at: usize| (at % 7) as f64;
        let error = followed(|at| vec![truth(at) + 3.0, truth(at), truth(at) - 9.0], truth);
        assert!(error < 0.05, "{error}");
    }

    #[test]
    fn two_that_are_off_to_both_sides_are_better_together() {
        let truth = |at: usize| (at % 7) as f64;
        let error = followed(|at| vec![truth(at) + 2.0, truth(at) - 1.0], truth);
        assert!(error < 0.5, "the better one alone is off by 1: {error}");
    }

    #[test]
    fn experts_that_agree_are_no_division_by_nothing() {
        assert_eq!(followed(|_| vec![1.0, 1.0], |_| 1.0), 0.0);
        assert!(followed(|_| vec![1.0, 1.0], |_| 2.0) == 1.0);
    }
}
