//! Collectives as sums of messages.
//!
//! The algorithms are those of R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in
//! MPICH" (2005), with the time of a message of each size in place of their alpha + n beta; what a reduction computes is left out.
//! p is the number of ranks, lg its logarithm to the base 2 rounded up, n the bytes of a block, T(n) the time of a message:
//!
//! | collective | algorithm | time |
//! |---|---|---|
//! | barrier | dissemination | lg p T(1) |
//! | bcast of n | binomial tree | lg p T(n) |
//! | | scatter and ring | T(n/2) + T(n/4) + ... + (p-1) T(n/p) |
//! | allreduce of n | recursive doubling | lg p T(n) |
//! | | halving and doubling | 2 (T(n/2) + T(n/4) + ...) |
//! | | ring | 2 (p-1) T(n/p) |
//! | allgather of n from each | recursive doubling | T(n) + T(2n) + T(4n) + ... |
//! | | ring | (p-1) T(n) |
//! | alltoall of n to each | Bruck | lg p T(n p/2) |
//! | | pairwise | (p-1) T(n) |
//!
//! The quickest is taken, as libraries choose, and the interval reaches to the next. Where k ranks of a node send at once through
//! its one link, T(k n) stands for T(n). Next: `fit` for T.

use crate::error::Error;
use crate::fit::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ranks of a collective at most.
const RANKS_MAX: u32 = 1 << 24;

/// A collective of which times are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Collective {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast`.
    Bcast,
    /// `MPI_Allreduce`.
    Allreduce,
    /// `MPI_Allgather`.
    Allgather,
    /// `MPI_Alltoall`.
    Alltoall,
}

impl Collective {
    /// All of them.
    pub const ALL: [Collective; 5] =
        [Collective::Barrier, Collective::Bcast, Collective::Allreduce, Collective::Allgather, Collective::Alltoall];

    /// Its function in MPI.
    pub fn function(self) -> &'static str {
        match self {
            Collective::Barrier => "MPI_Barrier",
            Collective::Bcast => "MPI_Bcast",
            Collective::Allreduce => "MPI_Allreduce",
            Collective::Allgather => "MPI_Allgather",
            Collective::Alltoall => "MPI_Alltoall",
        }
    }

    /// The bytes of a block, where a report counts so many for the rank with most.
    pub fn block_bytes(self, payload: u64, ranks: u32) -> u64 {
        let others = u64::from(ranks.saturating_sub(1)).max(1);
        match self {
            Collective::Barrier | Collective::Allreduce => payload,
            Collective::Bcast | Collective::Allgather | Collective::Alltoall => payload / others,
        }
    }
}

/// The messages that make up a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// Each rank tells ever farther ones.
    Dissemination,
    /// Along a binomial tree.
    BinomialTree,
    /// Parts of it to all, which then go round.
    ScatterRing,
    /// Pairs at doubled distances.
    RecursiveDoubling,
    /// Reduced in halves, gathered by doubling.
    HalvingDoubling,
    /// From each rank to the next.
    Ring,
    /// J. Bruck's: blocks for several ranks in one message.
    Bruck,
    /// One partner at a time.
    Pairwise,
}

/// The time of a collective that nobody has seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CollectiveTime {
    /// The algorithm that is quickest.
    pub algorithm: Algorithm,
    /// Its time; the interval reaches up to the next algorithm's.
    pub time: Time,
}

/// The time of a collective of `ranks` with blocks of `bytes`, by that of a message; `at_once` ranks send through one link.
///
/// # Errors
/// [`Error`]: no such collective can be.
pub fn collective_time(
    collective: Collective,
    (ranks, at_once): (u32, u32),
    bytes: f64,
    time: &dyn Fn(f64) -> Result<Time, Error>,
) -> Result<CollectiveTime, Error> {
    if !(2..=RANKS_MAX).contains(&ranks) {
        return Err(Error::NoRanks { most: RANKS_MAX });
    }
    if !(bytes.is_finite() && bytes >= 0.0) {
        return Err(Error::NoNumber { what: "the size of a block" });
    }
    let message = |bytes: f64| time(bytes * f64::from(at_once.max(1)));
    let mut all = Vec::new();
    for (algorithm, messages) in messages(collective, ranks, bytes) {
        let mut sum = Time { value_s: 0.0, lower_s: 0.0, upper_s: 0.0, is_outside: false };
        for (count, bytes) in messages {
            let one = message(bytes)?;
            sum.value_s += count * one.value_s;
            sum.lower_s += count * one.lower_s;
            sum.upper_s += count * one.upper_s;
            sum.is_outside |= one.is_outside;
        }
        all.push(CollectiveTime { algorithm, time: sum });
    }
    all.sort_by(|a, b| a.time.value_s.total_cmp(&b.time.value_s));
    let mut best = *all.first().ok_or(Error::NoRanks { most: RANKS_MAX })?;
    if let Some(next) = all.get(1) {
        best.time.upper_s = best.time.upper_s.max(next.time.value_s);
    }
    Ok(best)
}

/// Messages one behind the other, as how many of which size, by algorithm.
fn messages(collective: Collective, ranks: u32, bytes: f64) -> Vec<(Algorithm, Vec<(f64, f64)>)> {
    let steps = (ranks - 1).checked_ilog2().map_or(0, |log| log + 1);
    let (p, lg) = (f64::from(ranks), f64::from(steps));
    let halves = |count: f64| (1..=steps).map(move |step| (count, bytes / 2f64.powi(step as i32)));
    match collective {
        Collective::Barrier => vec![(Algorithm::Dissemination, vec![(lg, 1.0)])],
        Collective::Bcast => vec![
            (Algorithm::BinomialTree, vec![(lg, bytes)]),
            (Algorithm::ScatterRing, halves(1.0).chain([(p - 1.0, bytes / p)]).collect()),
        ],
        Collective::Allreduce => vec![
            (Algorithm::RecursiveDoubling, vec![(lg, bytes)]),
            (Algorithm::HalvingDoubling, halves(2.0).collect()),
            (Algorithm::Ring, vec![(2.0 * (p - 1.0), bytes / p)]),
        ],
        Collective::Allgather => {
            vec![(Algorithm::RecursiveDoubling, doubled(ranks, bytes)), (Algorithm::Ring, vec![(p - 1.0, bytes)])]
        }
        Collective::Alltoall => {
            vec![(Algorithm::Pairwise, vec![(p - 1.0, bytes)]), (Algorithm::Bruck, vec![(lg, bytes * p / 2.0)])]
        }
    }
}

/// Messages of 1, 2, 4 blocks and so on, the last of those that are left.
fn doubled(ranks: u32, bytes: f64) -> Vec<(f64, f64)> {
    let mut known = 1;
    let mut all = Vec::new();
    while known < ranks {
        let more = known.min(ranks - known);
        all.push((1.0, bytes * f64::from(more)));
        known += more;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: f64) -> Result<Time, Error> {
        let value_s = 10e-6 + bytes * 1e-9;
        Ok(Time { value_s, lower_s: 0.9 * value_s, upper_s: 1.1 * value_s, is_outside: false })
    }

    fn us(collective: Collective, ranks: u32, bytes: f64) -> (Algorithm, f64) {
        let found = collective_time(collective, (ranks, 1), bytes, &message).expect("a time");
        assert!(found.time.lower_s <= found.time.value_s && found.time.value_s <= found.time.upper_s);
        (found.algorithm, found.time.value_s * 1e6)
    }

    #[test]
    fn formulas_are_the_published_ones() {
        use Algorithm::*;
        let rows = [
            (Collective::Barrier, 16, 0.0, Dissemination, 4.0 * 10.001),
            (Collective::Barrier, 5, 0.0, Dissemination, 3.0 * 10.001),
            (Collective::Bcast, 16, 8.0, BinomialTree, 4.0 * 10.008),
            (Collective::Bcast, 16, 16e6, ScatterRing, 19.0 * 10.0 + 30_000.0),
            (Collective::Allreduce, 8, 8.0, RecursiveDoubling, 3.0 * 10.008),
            (Collective::Allreduce, 8, 8e6, HalvingDoubling, 6.0 * 10.0 + 2.0 * 7e3),
            (Collective::Allgather, 8, 1e3, RecursiveDoubling, 30.0 + 7.0),
            (Collective::Alltoall, 16, 1e6, Pairwise, 15.0 * 1010.0),
            (Collective::Alltoall, 16, 8.0, Bruck, 4.0 * 10.064),
        ];
        for (collective, ranks, bytes, algorithm, expected_us) in rows {
            let (found, time_us) = us(collective, ranks, bytes);
            assert_eq!(found, algorithm, "{collective:?} of {bytes}");
            assert!((time_us / expected_us - 1.0).abs() < 1e-9, "{collective:?} of {bytes}: {time_us} {expected_us}");
        }
    }

    #[test]
    fn ranks_that_share_a_link_send_one_behind_the_other() {
        let alone = collective_time(Collective::Alltoall, (16, 1), 1e6, &message).expect("a time");
        let shared = collective_time(Collective::Alltoall, (16, 8), 1e6, &message).expect("a time");
        assert!((shared.time.value_s / alone.time.value_s / 8.0 - 1.0).abs() < 0.02);
    }

    #[test]
    fn wrong_questions_are_refused() {
        for (ranks, bytes) in [(0, 8.0), (1, 8.0), (RANKS_MAX + 1, 8.0), (4, f64::NAN), (4, -1.0)] {
            assert!(collective_time(Collective::Bcast, (ranks, 1), bytes, &message).is_err(), "{ranks} {bytes}");
        }
    }

    #[test]
    fn blocks_are_what_a_rank_names_in_its_call() {
        let rows = [
            (Collective::Alltoall, 3000, 4, 1000),
            (Collective::Allgather, 3000, 4, 1000),
            (Collective::Bcast, 3000, 4, 1000),
            (Collective::Allreduce, 3000, 4, 3000),
        ];
        for (collective, payload, ranks, expected) in rows {
            assert_eq!(collective.block_bytes(payload, ranks), expected, "{collective:?}");
        }
    }
}
