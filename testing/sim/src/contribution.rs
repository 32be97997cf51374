//! The ranks' contributions: to every filter its own kind of value, a function of rank and wave, so that any result
//! can be made again from the ranks that it covers.
//!
//! Next: `check`, which compares, and `trimtab_reduce::spec` for the filters.

use crate::random::scramble;
use std::sync::Arc;
use trimtab_reduce::lists::Concat;
use trimtab_reduce::numbers::Sum;
use trimtab_reduce::{Bad, Filter, FilterSpec, RankSet, Registry};
use trimtab_types::Rank;

/// The name of the filter that is nobody's but the simulation's.
pub const OWN_NAME: &str = "xor";

/// Exclusive or: merged twice it vanishes, so it shows whatever is counted twice.
#[derive(Clone, Copy, Debug)]
struct Xor;

impl Filter for Xor {
    type Value = u64;

    fn name(&self) -> &'static str {
        OWN_NAME
    }

    fn identity(&self) -> u64 {
        0
    }

    fn merge(&self, into: &mut u64, other: u64) -> Result<(), Bad> {
        *into ^= other;
        Ok(())
    }
}

/// The filters of agents that know one more than all.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register(OWN_NAME, |_| Ok(Arc::new(Xor)));
    registry
}

/// One of each kind of filter.
pub fn every_filter() -> Vec<FilterSpec> {
    let own = FilterSpec::Own { name: OWN_NAME.into(), parameters: vec![] };
    vec![FilterSpec::Sum, FilterSpec::Concat(1 << 20), own]
}

/// A rank's contribution to a wave, encoded for a filter: positive and negative, and different for every pair.
pub fn contribution(filter: &FilterSpec, rank: Rank, wave: u64) -> Vec<u8> {
    let word = scramble(u64::from(rank.0) << 32 ^ wave);
    let encoded = match filter {
        FilterSpec::Sum => Sum.encode(&i128::from(word as i64)),
        FilterSpec::Concat(byte_count_max) => {
            let concat = Concat { byte_count_max: *byte_count_max };
            concat.encode(&concat.of(&word.to_le_bytes(), rank))
        }
        FilterSpec::Own { .. } => Xor.encode(&word),
    };
    encoded.expect("a contribution has bytes")
}

/// The contributions of these ranks to a wave, merged and encoded.
pub fn merged(registry: &Registry, filter: &FilterSpec, ranks: &RankSet, wave: u64) -> Vec<u8> {
    let mut whole = registry.build(filter).expect("a filter of the plan is known").start(1);
    for rank in ranks.iter() {
        whole.add(0, &contribution(filter, rank, wave)).expect("contributions merge");
    }
    whole.bytes().expect("what is merged has bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_filter_tells_missing_and_repeated_ranks_apart() {
        let registry = registry();
        for filter in every_filter() {
            let all = RankSet::range(Rank(0), Rank(40));
            let whole = merged(&registry, &filter, &all, 3);
            assert_ne!(whole, merged(&registry, &filter, &all, 4), "{filter:?}: another wave");
            let differs = |rank| merged(&registry, &filter, &all.minus(&RankSet::one(Rank(rank))), 3) != whole;
            assert!((0..=40).all(differs), "{filter:?}");
        }
    }
}
