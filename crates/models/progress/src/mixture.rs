//! Guesses with weights, as one distribution: its quantiles are what is said.
//!
//! Next: `pace`, which guesses.

/// Steps of the search for a quantile: more than a double has bits.
const STEPS: usize = 80;
/// So many standard deviations hold any quantile that is asked for.
const REACH: f64 = 8.0;

/// One guess: a time whose logarithm is normal, so that none is below zero, with a weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Guess {
    /// The middle of it, above zero.
    pub mean: f64,
    pub deviation: f64,
    pub weight: f64,
}

impl Guess {
    /// The standard deviation of its logarithm.
    fn spread(&self) -> f64 {
        (self.deviation / self.mean).powi(2).ln_1p().sqrt().max(f64::EPSILON)
    }
}

/// Guesses together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Mixture {
    guesses: Vec<Guess>,
}

impl Mixture {
    pub fn new(guesses: Vec<Guess>) -> Self {
        Mixture { guesses }
    }

    /// The value below which a share of it lies.
    pub fn quantile(&self, share: f64) -> f64 {
        let end = |guess: &Guess, sign: f64| guess.mean * (sign * REACH * guess.spread()).exp();
        let ends = |sign: f64| self.guesses.iter().map(move |guess| end(guess, sign));
        let (mut low, mut high) = (ends(-1.0).fold(f64::MAX, f64::min), ends(1.0).fold(0.0, f64::max));
        for _ in 0..STEPS {
            let middle = 0.5 * (low + high);
            if self.share_below(middle) < share { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    }

    /// The same in another unit.
    pub fn times(&self, factor: f64) -> Mixture {
        let scaled = |guess: &Guess| Guess { mean: guess.mean * factor, deviation: guess.deviation * factor, ..*guess };
        Mixture { guesses: self.guesses.iter().map(scaled).collect() }
    }

    fn share_below(&self, value: f64) -> f64 {
        let total: f64 = self.guesses.iter().map(|guess| guess.weight).sum();
        let below = |guess: &Guess| guess.weight * normal((value / guess.mean).ln() / guess.spread());
        self.guesses.iter().map(below).sum::<f64>() / total
    }
}

/// The share of a normal distribution below `z` standard deviations; after Abramowitz and Stegun 7.1.26, to 1e-7.
pub(crate) fn normal(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let factors = [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429];
    let sum = factors.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    let outside = 0.5 * sum * (-x * x).exp();
    if z > 0.0 { 1.0 - outside } else { outside }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_narrow_guess_are_the_normal_s_and_none_is_below_zero() {
        let narrow = Mixture::new(vec![Guess { mean: 10.0, deviation: 0.02, weight: 3.0 }]);
        for (share, z) in [(0.5, 0.0), (0.95, 1.644_85), (0.05, -1.644_85), (0.99, 2.326_35)] {
            assert!((narrow.quantile(share) - (10.0 + 0.02 * z)).abs() < 1e-3, "{share}");
        }
        let wide = Mixture::new(vec![Guess { mean: 10.0, deviation: 10.0, weight: 1.0 }]);
        assert!(wide.quantile(0.05) > 1.0 && wide.quantile(0.95) > 30.0);
    }

    #[test]
    fn guesses_apart_widen_it() {
        let of = |mean| Guess { mean, deviation: 0.1, weight: 1.0 };
        let both = Mixture::new(vec![of(1.0), of(3.0)]);
        assert!((both.quantile(0.05) - 0.87).abs() < 0.02 && (both.quantile(0.95) - 3.13).abs() < 0.02);
    }
}
