//! Sets of ranks, means and spreads that become the same value in whatever order and grouping they are merged.
//!
//! Sums are integers, ticks or fractions of a share, so that no rounding depends on who merges first.
//!
//! Next: `sums`, which is made of these.

use serde::{Deserialize, Serialize};
use trimtab_types::report::RankSpread;

/// Ranks as runs that follow each other: as short as they are simple.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Runs(Vec<(u32, u32)>);

impl Runs {
    pub(crate) fn one(rank: u32) -> Runs {
        Runs(vec![(rank, rank)])
    }

    /// The one rank, if it belongs to the set.
    pub(crate) fn of(rank: u32, belongs: bool) -> Runs {
        if belongs { Runs::one(rank) } else { Runs::default() }
    }

    pub(crate) fn merge(&mut self, other: &Runs) {
        if other.0.is_empty() {
            return;
        }
        let mut all: Vec<(u32, u32)> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        let mut runs: Vec<(u32, u32)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match runs.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => runs.push((first, last)),
            }
        }
        self.0 = runs;
    }

    pub(crate) fn has_common(&self, other: &Runs) -> bool {
        self.0.iter().any(|(first, last)| {
            let behind = other.0.partition_point(|(_, end)| end < first);
            other.0.get(behind).is_some_and(|(begin, _)| begin <= last)
        })
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|(first, last)| u64::from(last - first) + 1).sum()
    }

    /// Each rank, ascending; no more than so many.
    pub(crate) fn ranks(&self) -> Vec<u32> {
        self.0.iter().flat_map(|(first, last)| *first..=*last).collect()
    }

    /// True if bytes of another node make a set: ascending, apart, and below so many ranks.
    pub(crate) fn is_sound(&self, ranks_max: u32) -> bool {
        let is_apart = |pair: &[(u32, u32)]| u64::from(pair[0].1) + 1 < u64::from(pair[1].0);
        self.0.iter().all(|(first, last)| first <= last && *last < ranks_max) && self.0.windows(2).all(is_apart)
    }
}

/// A share of 1 as an integer.
const ONE: f64 = (1_u128 << 64) as f64;
/// Shares are no larger; what is has no mean.
const SHARE_MAX: f64 = (1_u64 << 40) as f64;

/// A number near 1 as an integer, rounded once.
pub(crate) fn fixed(number: f64) -> i128 {
    (number.clamp(-SHARE_MAX, SHARE_MAX) * ONE) as i128
}

/// The number that [`fixed`] made, or a sum of such.
pub(crate) fn unfixed(number: i128) -> f64 {
    number as f64 / ONE
}

/// The mean of a share over ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MeanShare {
    sum: i128,
    known: u64,
    unknown: u64,
}

impl MeanShare {
    pub(crate) fn of(share: Option<f64>) -> MeanShare {
        match share.filter(|share| share.is_finite()) {
            Some(share) => MeanShare { sum: fixed(share), known: 1, unknown: 0 },
            None => MeanShare { unknown: 1, ..MeanShare::default() },
        }
    }

    pub(crate) fn merge(&mut self, other: MeanShare) {
        self.sum = self.sum.saturating_add(other.sum);
        self.known = self.known.saturating_add(other.known);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    /// `None`: a rank's is not known, or there is none.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.unknown == 0 && self.known > 0).then(|| unfixed(self.sum) / self.known as f64)
    }
}

/// A rank's number among those of others, with the rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OfRank {
    pub number: f64,
    pub rank: u32,
}

impl OfRank {
    /// Smallest first; of equal ones the lowest rank.
    pub(crate) fn ascending(&self, other: &OfRank) -> std::cmp::Ordering {
        self.number.total_cmp(&other.number).then(self.rank.cmp(&other.rank))
    }

    /// Largest first; of equal ones the lowest rank.
    pub(crate) fn descending(&self, other: &OfRank) -> std::cmp::Ordering {
        other.number.total_cmp(&self.number).then(self.rank.cmp(&other.rank))
    }
}

/// Ranks kept at each end of a quantity.
pub(crate) const KEPT: usize = 4;

/// A time over ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    ranks: u64,
    /// Ticks, and their squares.
    sum: u128,
    squares: u128,
    /// In seconds: as the ranks' own numbers are, so that ends are told alike.
    shortest: Vec<OfRank>,
    longest: Vec<OfRank>,
}

impl Times {
    pub(crate) fn of(rank: u32, ticks: u64, seconds: f64) -> Times {
        let one = OfRank { number: seconds, rank };
        let squares = u128::from(ticks) * u128::from(ticks);
        Times { ranks: 1, sum: u128::from(ticks), squares, shortest: vec![one], longest: vec![one] }
    }

    pub(crate) fn merge(&mut self, other: &Times) {
        self.ranks = self.ranks.saturating_add(other.ranks);
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = self.squares.saturating_add(other.squares);
        self.shortest.extend(&other.shortest);
        self.shortest.sort_by(OfRank::ascending);
        self.shortest.truncate(KEPT);
        self.longest.extend(&other.longest);
        self.longest.sort_by(OfRank::descending);
        self.longest.truncate(KEPT);
    }

    pub(crate) fn ranks(&self) -> u64 {
        self.ranks
    }

    pub(crate) fn sum_ticks(&self) -> f64 {
        self.sum as f64
    }

    pub(crate) fn longest(&self) -> &[OfRank] {
        &self.longest
    }

    pub(crate) fn shortest(&self) -> &[OfRank] {
        &self.shortest
    }

    pub(crate) fn spread(&self, ticks_per_second: f64) -> Option<RankSpread> {
        let (min, max) = (self.shortest.first()?, self.longest.first()?);
        let count = self.ranks as f64;
        let mean = self.sum as f64 / count;
        // Squares of 65,536 ranks' times fit 128 bits; their difference from the mean's square may still round.
        let deviation = (self.ranks > 1).then(|| {
            let above = (self.squares as f64 - mean * self.sum as f64).max(0.0);
            (above / (count - 1.0)).sqrt() / ticks_per_second
        });
        Some(RankSpread {
            min: min.number,
            rank_of_min: min.rank,
            mean: mean / ticks_per_second,
            max: max.number,
            rank_of_max: max.rank,
            deviation,
        })
    }

    pub(crate) fn is_sound(&self) -> bool {
        let is_sorted = self.shortest.is_sorted_by(|a, b| a.ascending(b).is_lt())
            && self.longest.is_sorted_by(|a, b| a.descending(b).is_lt());
        let kept = (self.ranks as usize).min(KEPT);
        is_sorted && self.shortest.len() == kept && self.longest.len() == kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_sets() {
        let mut evens = Runs::default();
        [4, 0, 2].into_iter().for_each(|rank| evens.merge(&Runs::one(rank)));
        let mut odds = Runs::default();
        [3, 1].into_iter().for_each(|rank| odds.merge(&Runs::one(rank)));
        assert!(!evens.has_common(&odds) && evens.is_sound(5) && !evens.is_sound(4));
        evens.merge(&odds);
        assert_eq!((evens.ranks(), evens.count(), evens.clone()), (vec![0, 1, 2, 3, 4], 5, Runs(vec![(0, 4)])));
        assert!(evens.has_common(&odds) && !Runs(vec![(1, 2), (3, 4)]).is_sound(9) && !Runs(vec![(2, 1)]).is_sound(9));
    }

    #[test]
    fn shares_sum_without_rounding_by_order() {
        let shares = [0.1, 0.7, 1e-9, 0.3];
        let sum = |order: &[usize]| {
            let mut mean = MeanShare::default();
            order.iter().for_each(|place| mean.merge(MeanShare::of(Some(shares[*place]))));
            mean
        };
        assert_eq!(sum(&[0, 1, 2, 3]), sum(&[3, 1, 0, 2]));
        let mean = sum(&[0, 1, 2, 3]).mean().unwrap_or_default();
        assert!((mean - shares.iter().sum::<f64>() / 4.0).abs() < 1e-15, "{mean}");
        let mut lacking = sum(&[0]);
        lacking.merge(MeanShare::of(None));
        assert_eq!((lacking.mean(), MeanShare::default().mean()), (None, None));
    }

    #[test]
    fn a_spread_is_that_of_its_ranks() {
        let mut times = Times::default();
        [(3, 30), (1, 10), (2, 30), (0, 50), (4, 10)]
            .into_iter()
            .for_each(|(rank, ticks)| times.merge(&Times::of(rank, ticks, ticks as f64 / 10.0)));
        let spread = times.spread(10.0).unwrap_or_default();
        assert_eq!((spread.min, spread.rank_of_min, spread.max, spread.rank_of_max), (1.0, 1, 5.0, 0));
        assert!((spread.mean - 2.6).abs() < 1e-12);
        let variance = [3.0, 1.0, 3.0, 5.0, 1.0].iter().map(|one: &f64| (one - 2.6).powi(2)).sum::<f64>() / 4.0;
        assert!(spread.deviation.is_some_and(|deviation| (deviation - variance.sqrt()).abs() < 1e-12), "{spread:?}");
        let longest: Vec<u32> = times.longest().iter().map(|of| of.rank).collect();
        assert_eq!((longest, times.is_sound()), (vec![0, 2, 3, 1], true));
    }
}
