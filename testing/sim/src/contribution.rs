//! The ranks' contributions: to every filter its own kind of value, a function of rank and wave, so that any result
//! can be made again from the ranks that it covers.
//!
//! Next: `check`, which compares, and `trimtab_reduce::spec` for the filters.

use crate::random::scramble;
use trimtab_reduce::lists::Concat;
use trimtab_reduce::{Bad, Filter, FilterSpec, RankSet, Registry};
use trimtab_types::Rank;

/// The sum of integers: it shows whatever is counted twice. It is registered under its name, as are the filters that merge
/// scripts' variables and windows' figures.
#[derive(Clone, Copy, Debug)]
pub struct Total;

impl Total {
    /// It, for a stream.
    pub fn spec() -> FilterSpec {
        FilterSpec::Own(Total.name().to_owned())
    }
}

impl Filter for Total {
    type Value = i128;

    fn name(&self) -> &'static str {
        "total"
    }

    fn identity(&self) -> i128 {
        0
    }

    fn merge(&self, into: &mut i128, other: i128) -> Result<(), Bad> {
        *into = into.checked_add(other).ok_or(Bad::Overflow { filter: self.name() })?;
        Ok(())
    }
}

/// The filters of nodes that know [`Total`] beside the tree's own.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register(Total);
    registry
}

/// One of each kind of filter.
pub fn every_filter() -> Vec<FilterSpec> {
    vec![Total::spec(), FilterSpec::Concat(1 << 20)]
}

/// A rank's contribution to a wave, encoded for a filter: positive and negative, and different for every pair.
pub fn contribution(filter: &FilterSpec, rank: Rank, wave: u64) -> Vec<u8> {
    let word = scramble(u64::from(rank.0) << 32 ^ wave);
    let encoded = match filter {
        FilterSpec::Concat(byte_count_max) => {
            let concat = Concat { byte_count_max: *byte_count_max };
            concat.encode(&concat.of(&word.to_le_bytes(), rank))
        }
        FilterSpec::Own(_) => Total.encode(&i128::from(word as i64)),
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
