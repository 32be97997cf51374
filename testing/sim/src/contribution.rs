//! The ranks' contributions: to every filter its own kind of value, a function of rank and wave, so that any result
//! can be made again from the ranks that it covers. And what they are told: payloads in which each rank's part is its
//! own.
//!
//! Next: `check`, which compares, and `trimtab_reduce::spec` for the filters.

use crate::random::scramble;
use std::collections::BTreeMap;
use std::sync::Arc;
use trimtab_reduce::down::{context_of, in_context, parts_of, scatter};
use trimtab_reduce::lists::{Classes, Concat};
use trimtab_reduce::numbers::{Histogram, Max, Mean, MeanParts, Min, Of, Ordered, Sum, SumReal};
use trimtab_reduce::{Bad, Down, DownFilter, Filter, FilterSpec, RankSet, Registry, exact::ExactSum, lists::TopK};
use trimtab_types::Rank;

/// The name of the filter that is nobody's but the simulation's.
pub const OWN_NAME: &str = "xor";

/// The name of its downstream filter.
pub const SLICE_NAME: &str = "slice";
/// Below a command's number in the word of a rank.
const RANK_BITS: u32 = 24;

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

/// A user's downstream filter: an array of words, one for each rank from some rank on.
#[derive(Clone, Copy, Debug)]
struct Slice;

impl DownFilter for Slice {
    fn name(&self) -> &'static str {
        SLICE_NAME
    }

    fn narrow(&self, payload: &[u8], ranks: &RankSet) -> Result<Vec<u8>, Bad> {
        let malformed = Bad::Form { filter: SLICE_NAME, what: "no array of words" };
        let (first, words) = words_in(payload).ok_or(malformed)?;
        let span = ranks.lowest().zip(ranks.highest()).map(|(low, high)| low.0..=high.0);
        let kept = |rank: &u32| span.as_ref().is_some_and(|span| span.contains(rank));
        let ranked: Vec<(u32, u64)> = (first..).zip(words).filter(|(rank, _)| kept(rank)).collect();
        let first = ranked.first().map_or(0, |(rank, _)| *rank);
        Ok(slice_of(first, ranked.into_iter().map(|(_, word)| word)))
    }
}

/// The words of ranks from `first` on, as bytes.
fn slice_of(first: u32, words: impl Iterator<Item = u64>) -> Vec<u8> {
    first.to_le_bytes().into_iter().chain(words.flat_map(u64::to_le_bytes)).collect()
}

/// The words that [`slice_of`] was made of.
fn words_in(bytes: &[u8]) -> Option<(u32, Vec<u64>)> {
    let (first, words) = bytes.split_first_chunk()?;
    let words = words.chunks(8).map(|word| word.try_into().map(u64::from_le_bytes).ok());
    Some((u32::from_le_bytes(*first), words.collect::<Option<_>>()?))
}

/// The filters of agents that know one more than all, in each direction.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register(OWN_NAME, |_| Ok(Arc::new(Xor)));
    registry.register_down(SLICE_NAME, |_| Ok(Arc::new(Slice)));
    registry
}

/// One of each kind of downstream filter.
pub fn every_down() -> Vec<Down> {
    vec![Down::Same, Down::Scatter, Down::Context, Down::Own { name: SLICE_NAME.into(), parameters: vec![] }]
}

/// A command with this number for some ranks: a word of its own for each, where the filter tells them apart.
pub fn payload(down: &Down, ranks: &RankSet, number: u64) -> Vec<u8> {
    let word = |rank: Rank| number << RANK_BITS | u64::from(rank.0);
    let encoded = match down {
        Down::Same => Ok(number.to_le_bytes().to_vec()),
        Down::Scatter => {
            let parts: BTreeMap<Rank, Vec<u8>> =
                ranks.iter().map(|rank| (rank, word(rank).to_le_bytes().to_vec())).collect();
            scatter(&parts)
        }
        Down::Context => {
            let meant = ranks.iter().filter(|rank| !(number + u64::from(rank.0)).is_multiple_of(3)).collect();
            in_context(&meant, &number.to_le_bytes())
        }
        Down::Own { .. } => Ok(slice_of(ranks.lowest().map_or(0, |rank| rank.0), ranks.iter().map(word))),
    };
    encoded.expect("a payload has bytes")
}

/// The number of the command that a leaf with this rank was told, if it was told one.
pub fn number_in(down: &Down, rank: Rank, payload: &[u8]) -> Option<u64> {
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
    match down {
        Down::Same => number(payload),
        Down::Scatter => number(parts_of(payload, &RankSet::one(rank)).ok()?.get(&rank)?).map(|word| word >> RANK_BITS),
        Down::Context => number(&context_of(payload).ok()?.1),
        Down::Own { .. } => words_in(payload)?.1.first().map(|word| word >> RANK_BITS),
    }
}

/// One of each kind of filter.
pub fn every_filter() -> Vec<FilterSpec> {
    let edges = [-4e18, -1e18, 0.0, 1e18, 4e18].map(ordered).to_vec();
    vec![
        FilterSpec::Sum,
        FilterSpec::SumReal,
        FilterSpec::Min,
        FilterSpec::Max,
        FilterSpec::Mean,
        FilterSpec::Histogram(edges),
        FilterSpec::TopK(5),
        FilterSpec::Classes(16),
        FilterSpec::Concat(1 << 20),
        FilterSpec::Own { name: OWN_NAME.into(), parameters: vec![] },
    ]
}

/// A rank's contribution to a wave, encoded for a filter: positive and negative, and different for every pair.
pub fn contribution(filter: &FilterSpec, rank: Rank, wave: u64) -> Vec<u8> {
    let word = scramble(u64::from(rank.0) << 32 ^ wave);
    let number = || ordered(word as i64 as f64 / 3.0);
    let encoded = match filter {
        FilterSpec::Sum => Sum.encode(&i128::from(word as i64)),
        FilterSpec::SumReal => SumReal.encode(&ExactSum::of(number().into())),
        FilterSpec::Min => Min.encode(&Some(Of { number: number(), rank })),
        FilterSpec::Max => Max.encode(&Some(Of { number: number(), rank })),
        FilterSpec::Mean => Mean.encode(&MeanParts::of(number().into())),
        FilterSpec::Histogram(edges) => {
            Histogram::new(edges.clone()).and_then(|histogram| histogram.encode(&histogram.of(number())))
        }
        FilterSpec::TopK(count) => TopK { count: *count }.encode(&vec![Of { number: number(), rank }]),
        FilterSpec::Classes(class_count_max) => {
            let classes = Classes { class_count_max: *class_count_max };
            classes.encode(&classes.of(&[word as u8 % 7], rank))
        }
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

fn ordered(number: f64) -> Ordered {
    Ordered::try_from(number).expect("a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_one_rank_is_its_part_of_what_is_for_all() {
        let all = RankSet::range(Rank(3), Rank(40));
        for down in every_down() {
            let filter = registry().build_down(&down).unwrap();
            for rank in all.iter() {
                let own = payload(&down, &RankSet::one(rank), 77);
                let part = filter.as_ref().map(|filter| filter.narrow(&payload(&down, &all, 77), &RankSet::one(rank)));
                assert!(part.is_none_or(|part| part.as_ref() == Ok(&own)), "{down:?}: {rank}");
                assert_eq!(number_in(&down, rank, &own), Some(77), "{down:?}: {rank}");
            }
        }
    }

    #[test]
    fn each_filter_tells_missing_and_repeated_ranks_apart() {
        let registry = registry();
        for filter in every_filter() {
            let all = RankSet::range(Rank(0), Rank(40));
            let whole = merged(&registry, &filter, &all, 3);
            assert_ne!(whole, merged(&registry, &filter, &all, 4), "{filter:?}: another wave");
            let differs = |rank| merged(&registry, &filter, &all.minus(&RankSet::one(Rank(rank))), 3) != whole;
            let keeps_one = matches!(filter, FilterSpec::Min | FilterSpec::Max | FilterSpec::TopK(_));
            assert!(if keeps_one { (0..=40).any(differs) } else { (0..=40).all(differs) }, "{filter:?}");
        }
    }
}
