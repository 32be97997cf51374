//! Bounds that hold the share of run times that they are to hold.
//!
//! Quantiles of jobs alike are a first guess. Each is moved, as a factor, by the quantile of how far it was off lately
//! (conformalized quantile regression, Romano, Patterson and Candes 2019), among forecasts of the same kind, its key. Run times beyond a
//! bound are counted against what may be, and the quantile moves once there are too many or too few (after Gibbs and Candes
//! 2021). A run time is counted as its job ends, as all that is known.
//!
//! Next: `run_times`, which asks for them.

use crate::accuracy::{LEAST_S, Weighed, quantile};
use std::collections::HashMap;
use std::hash::Hash;
use trimtab_weather::Ordered;

/// Run times that each bound remembers, for each key.
const KEPT: usize = 2000;
/// From so many with the same key on these are asked, before that those of all; fewer than the second say nothing.
const KNOWN_FROM: usize = 30;
const ALL_KNOWN_FROM: usize = 10;
/// How much the share beyond a bound changes by each run time beyond it that is too much, as an exponent.
const MOVES: f64 = 0.02;
/// Of how many too much or too few is known: after that a burst is forgotten.
const SURPLUS_MOST: f64 = 200.0;
/// Shares beyond a bound that it may move to.
const SHARE_LEAST: f64 = 0.0005;
const SHARE_MOST: f64 = 0.4;

/// One bound.
#[derive(Clone, Debug)]
pub(crate) struct Bound<K> {
    /// Of run times below it.
    share: f64,
    /// Logarithms of run time over first guess.
    off: HashMap<Option<K>, Ordered>,
    /// Run times beyond it, more than there may be.
    surplus: f64,
}

/// A bound as it was for one job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    guess_s: f64,
    /// `None`: too little was known.
    pub(crate) s: Option<f64>,
}

impl<K: Copy + Eq + Hash> Bound<K> {
    /// One with this share of run times below it.
    pub(crate) fn new(share: f64) -> Self {
        Bound { share, off: HashMap::new(), surplus: 0.0 }
    }

    /// The bound for a job of which jobs alike ran so long, and that is forecast to run so long.
    pub(crate) fn around(&self, forecast_s: f64, alike: &[Weighed], key: K, most_s: Option<f64>) -> Given {
        let guess = quantile(alike, self.share).unwrap_or(forecast_s);
        let guess_s = if self.is_lower() { guess.min(forecast_s) } else { guess.max(forecast_s) };
        let s = self.off(key).and_then(|off| off.quantile_outward(self.moved_share())).map(|off| {
            let s = (guess_s * off.exp()).max(LEAST_S);
            most_s.map_or(s, |most_s| s.min(most_s.max(LEAST_S)))
        });
        Given { guess_s, s }
    }

    /// The job has ended, for which this was given.
    pub(crate) fn learn(&mut self, given: Given, key: K, ran_s: f64) {
        let ran_s = ran_s.max(LEAST_S);
        for key in [Some(key), None] {
            self.off.entry(key).or_insert_with(|| Ordered::new(KEPT)).push((ran_s / given.guess_s).ln());
        }
        if let Some(s) = given.s {
            let is_beyond = if self.is_lower() { ran_s < s } else { ran_s > s };
            self.count(is_beyond, self.share_beyond());
        }
    }

    /// Counts a run time that may lie beyond with this probability.
    pub(crate) fn count(&mut self, is_beyond: bool, may: f64) {
        let surplus = self.surplus + f64::from(u8::from(is_beyond)) - may;
        self.surplus = surplus.clamp(-SURPLUS_MOST, SURPLUS_MOST);
    }

    fn off(&self, key: K) -> Option<&Ordered> {
        let known = |one, least| self.off.get(&one).filter(|off: &&Ordered| off.count() >= least);
        known(Some(key), KNOWN_FROM).or_else(|| known(None, ALL_KNOWN_FROM))
    }

    fn is_lower(&self) -> bool {
        self.share < 0.5
    }

    fn share_beyond(&self) -> f64 {
        self.share.min(1.0 - self.share)
    }

    fn moved_share(&self) -> f64 {
        let beyond = (self.share_beyond() * (-MOVES * self.surplus).exp()).clamp(SHARE_LEAST, SHARE_MOST);
        if self.is_lower() { beyond } else { 1.0 - beyond }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u8 = 0;

    /// The share of run times below the bound, of those after the first 300, where jobs alike said little.
    fn share_below(share: f64, ran_s: impl Fn(u32) -> f64) -> f64 {
        let mut bound = Bound::new(share);
        let (mut below, mut count) = (0, 0);
        for at in 0..6000 {
            let given = bound.around(100.0, &[Weighed { s: 90.0, weight: 1.0 }], KEY, None);
            let ran_s = ran_s(at);
            if let Some(s) = given.s.filter(|_| at >= 300) {
                below += usize::from(ran_s < s);
                count += 1;
            }
            bound.learn(given, KEY, ran_s);
        }
        below as f64 / f64::from(count)
    }

    fn noise(at: u32) -> f64 {
        let mixed = u64::from(at).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635;
        (mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 40) as f64 / f64::from(1 << 24)
    }

    #[test]
    fn it_holds_the_share_whatever_the_first_guess() {
        for share in [0.05, 0.95, 0.99] {
            let held = share_below(share, |at| 1000.0 * (1.0 + 9.0 * noise(at)));
            assert!((held - share).abs() < 0.01, "{share}: {held}");
        }
    }

    #[test]
    fn it_is_right_again_after_run_times_doubled() {
        let held = share_below(0.95, |at| if at < 1000 { 50.0 + 50.0 * noise(at) } else { 100.0 + 100.0 * noise(at) });
        assert!((0.93..=0.97).contains(&held), "{held}");
    }

    #[test]
    fn it_says_nothing_as_long_as_nothing_is_known_and_never_more_than_can_be() {
        let mut bound = Bound::new(0.95);
        for _ in 0..ALL_KNOWN_FROM {
            let given = bound.around(100.0, &[], KEY, None);
            assert!(given.s.is_none());
            bound.learn(given, KEY, 5000.0);
        }
        let s = |most_s| bound.around(100.0, &[], KEY, most_s).s.expect("enough jobs");
        assert!((s(None) - 5000.0).abs() < 1e-6 && s(Some(300.0)) == 300.0, "{}", s(None));
    }
}
