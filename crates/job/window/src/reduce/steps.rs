//! The iterations of all ranks together, one number for each iteration: what intervals are made from.
//!
//! Next: `statistics`, whose intervals these give; `sums`, which carries them.

use super::runs::{MeanShare, fixed, unfixed};
use crate::input::RankSample;
use crate::statistics;
use serde::{Deserialize, Serialize};
use trimtab_types::report::Estimate;

/// Of a longer window there is no interval, since all its iterations would be more than one message of the tree.
pub(crate) const STEPS_MAX: u64 = 32_768;

/// Sums over ranks for each of the first iterations, as many on each rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Steps {
    ranks: u64,
    /// Ticks of each.
    whole: Vec<u64>,
    /// Ticks in communication of each.
    part: Vec<u64>,
    /// How far each pulls the mean of the ranks' shares from its value, times the number of iterations.
    pull: Vec<i128>,
    /// Ticks of all.
    total: u128,
    /// Some rank has a share of all of them, and some has none.
    shares: MeanShare,
}

impl Steps {
    /// A rank's first iterations.
    pub(crate) fn of(rank: &RankSample, iterations: u64) -> Steps {
        let count = iterations as usize;
        let pairs = || rank.marks.windows(2).take(count);
        let whole: Vec<u64> = pairs().map(|pair| pair[1].ticks.saturating_sub(pair[0].ticks)).collect();
        let part: Vec<u64> = pairs().map(|pair| pair[1].comm_ticks.saturating_sub(pair[0].comm_ticks)).collect();
        let (wholes, parts) = (whole.iter().sum::<u64>(), part.iter().sum::<u64>());
        let share = (wholes > 0).then(|| parts as f64 / wholes as f64);
        let all = Steps { ranks: 1, total: u128::from(wholes), shares: MeanShare::of(share), ..Steps::default() };
        if iterations > STEPS_MAX || whole.len() < count {
            return all;
        }
        let one = |(part, whole): (&u64, &u64)| {
            let pull = *part as f64 - share.unwrap_or(0.0) * *whole as f64;
            fixed(pull * iterations as f64 / (wholes.max(1)) as f64)
        };
        let pull = part.iter().zip(&whole).map(one).collect();
        Steps { whole, part, pull, ..all }
    }

    /// As many of other ranks; of other numbers of iterations, only the sums over all.
    pub(crate) fn merge(&mut self, other: &Steps) {
        if self.ranks == 0 {
            self.clone_from(other);
            return;
        }
        if other.ranks == 0 {
            return;
        }
        let is_alike = self.whole.len() == other.whole.len();
        let add = |one: &mut Vec<u64>, other: &[u64]| {
            one.iter_mut().zip(other).for_each(|(one, other)| *one = one.saturating_add(*other));
        };
        add(&mut self.whole, &other.whole);
        add(&mut self.part, &other.part);
        self.pull.iter_mut().zip(&other.pull).for_each(|(one, other)| *one = one.saturating_add(*other));
        if !is_alike {
            (self.whole, self.part, self.pull) = Default::default();
        }
        self.ranks = self.ranks.saturating_add(other.ranks);
        self.total = self.total.saturating_add(other.total);
        self.shares.merge(other.shares);
    }

    pub(crate) fn is_sound(&self) -> bool {
        let length = self.whole.len();
        length <= STEPS_MAX as usize && self.part.len() == length && self.pull.len() == length
    }

    /// Mean time of one iteration over ranks, with its spread; of too many iterations without.
    pub(crate) fn time_per_iteration(&self, iterations: u64, ticks_per_second: f64) -> Option<Estimate> {
        let ranks = self.ranks as f64;
        if self.whole.is_empty() {
            let mean = self.total as f64 / ranks / iterations as f64 / ticks_per_second;
            let bare = Estimate { mean, variance: None, half_width_95: None, min: mean, max: mean, samples: 1 };
            return (iterations > 0 && self.ranks > 0).then_some(bare);
        }
        let times: Vec<f64> = self.whole.iter().map(|ticks| *ticks as f64 / ticks_per_second / ranks).collect();
        statistics::estimate_of_times(&times)
    }

    /// The spread of the share of communication over iterations.
    pub(crate) fn share(&self) -> Option<Estimate> {
        self.shares.mean()?;
        let pooled = self.part.iter().zip(&self.whole).filter(|(_, whole)| **whole > 0);
        let pooled: Vec<f64> = pooled.map(|(part, whole)| *part as f64 / *whole as f64).collect();
        let spread = statistics::estimate(&pooled)?;
        let pulls: Vec<f64> = self.pull.iter().map(|pull| unfixed(*pull) / self.ranks as f64).collect();
        Some(Estimate { half_width_95: statistics::half_width_95(&pulls), ..spread })
    }
}
