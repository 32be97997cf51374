//! How long a job goes on that has run for so long, if earlier runs of the same program took so long.
//!
//! Next: `end`, which asks.

use crate::mixture::normal;

/// The deviation of the logarithm of run times where there is one run only, and the least there is with more.
const ONE_RUN: f64 = 0.35;
const FLOOR: f64 = 0.02;
/// A job that has outlived this share of what earlier runs allow is no such run.
const OUTLIVED: f64 = 0.995;
/// Nor is one that has lasted for so many times the longest of them: it does more work than any, and how much more they can't
/// tell.
const LONGER: f64 = 1.1;
/// Steps of the search for a quantile.
const STEPS: usize = 60;

/// Run times of earlier runs, as a distribution of this one's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Past {
    /// Mean and deviation of the logarithm.
    middle: f64,
    deviation: f64,
    /// The share that would have ended by now.
    ended: f64,
    elapsed_s: f64,
}

impl Past {
    /// Of earlier runs' times, seconds; `None`: there are none, or this job has outlived them.
    pub fn of(runs_s: &[f64], elapsed_s: f64) -> Option<Past> {
        let logarithms: Vec<f64> = runs_s.iter().filter(|time| **time > 0.0).map(|time| time.ln()).collect();
        let count = logarithms.len() as f64;
        if logarithms.is_empty() {
            return None;
        }
        let middle = logarithms.iter().sum::<f64>() / count;
        let squares: f64 = logarithms.iter().map(|value| (value - middle).powi(2)).sum();
        // One run says little of how much runs differ, and more of them say it better and better.
        let deviation = ((squares + ONE_RUN.powi(2)) / count.powi(2).max(1.0)).sqrt().max((squares / count).sqrt());
        let deviation = deviation.max(FLOOR) * (1.0 + 1.0 / count).sqrt();
        let ended = if elapsed_s > 0.0 { normal((elapsed_s.ln() - middle) / deviation) } else { 0.0 };
        let longest_s = runs_s.iter().copied().fold(0.0, f64::max);
        (ended < OUTLIVED && elapsed_s <= LONGER * longest_s).then_some(Past { middle, deviation, ended, elapsed_s })
    }

    /// The time still to come below which a share of such runs ends, seconds.
    pub fn quantile(&self, share: f64) -> f64 {
        let wanted = self.ended + share * (1.0 - self.ended);
        let (mut low, mut high) = (self.middle - 10.0 * self.deviation, self.middle + 10.0 * self.deviation);
        for _ in 0..STEPS {
            let middle = 0.5 * (low + high);
            if normal((middle - self.middle) / self.deviation) < wanted { low = middle } else { high = middle }
        }
        ((0.5 * (low + high)).exp() - self.elapsed_s).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_earlier_runs_took_is_left_of_it() {
        let past = Past::of(&[100.0, 102.0, 98.0, 101.0, 99.0], 60.0).unwrap();
        assert!((past.quantile(0.5) - 40.0).abs() < 1.5, "{}", past.quantile(0.5));
        assert!(past.quantile(0.05) > 20.0 && past.quantile(0.95) < 60.0, "{past:?}");
    }

    #[test]
    fn having_lasted_counts() {
        // Runs of ten and of a hundred: one that runs for 30 is of the long ones.
        let runs = [10.0, 11.0, 9.0, 100.0, 110.0, 90.0];
        let (begun, later) = (Past::of(&runs, 0.0).unwrap(), Past::of(&runs, 30.0).unwrap());
        assert!(begun.quantile(0.5) < 40.0 && later.quantile(0.5) > 40.0, "{begun:?} {later:?}");
    }

    #[test]
    fn one_run_says_little_and_an_outlived_past_nothing() {
        let one = Past::of(&[100.0], 1.0).unwrap();
        assert!(one.quantile(0.95) > 140.0 && one.quantile(0.05) < 60.0, "{one:?}");
        assert!(Past::of(&[10.0, 10.5, 9.5], 40.0).is_none());
        assert!(Past::of(&[9.2], 10.0).is_some() && Past::of(&[9.2], 10.5).is_none());
        assert!(Past::of(&[50.0, 200.0], 210.0).is_some() && Past::of(&[50.0, 200.0], 230.0).is_none());
        assert!(Past::of(&[], 40.0).is_none());
    }
}
