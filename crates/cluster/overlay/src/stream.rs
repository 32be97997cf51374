//! What a stream is: ranks, a filter upwards, a filter downwards, and when a wave goes on.
//!
//! Next: `node::waves` for how waves are merged, `trimtab-reduce` for the filters.

use crate::limits::{WAVE_WINDOW, WAVE_WINDOW_NUMBERS};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trimtab_reduce::{Bad, FilterSpec, RankSet};
use trimtab_types::Rank;

/// A stream, as it is announced to all nodes. Its waves are numbered from 0 without gaps; every rank of the target
/// contributes once to each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSpec {
    /// The ranks that contribute and that commands are for.
    pub target: RankSet,
    /// How contributions are merged on the way up.
    pub filter: FilterSpec,
    /// When a node passes a wave on.
    pub sync: Sync,
    /// What a leaf gets of a command's payload.
    pub down: Down,
}

impl StreamSpec {
    /// Waves that a leaf may be ahead of the oldest unfinished one; all nodes say the same.
    pub fn wave_window(&self) -> u64 {
        match self.filter {
            FilterSpec::Sum | FilterSpec::SumReal | FilterSpec::Min | FilterSpec::Max | FilterSpec::Mean => {
                WAVE_WINDOW_NUMBERS
            }
            FilterSpec::Histogram(_)
            | FilterSpec::TopK(_)
            | FilterSpec::Classes(_)
            | FilterSpec::Concat(_)
            | FilterSpec::Own { .. } => WAVE_WINDOW,
        }
    }
}

/// When a node passes a wave on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sync {
    /// When every living rank below it has contributed.
    WaitForAll,
    /// As [`Sync::WaitForAll`], or this long after the wave's first contribution; the root waits so long, its children
    /// half of it, theirs a quarter, so that late subtrees don't make their neighbours late.
    TimeOut {
        /// At the root, in microseconds.
        us: u64,
    },
    /// At once, each contribution by itself.
    DontWait,
}

/// The downstream filter: what a leaf gets of a command's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Down {
    /// All of it.
    Same,
    /// Its ranks' parts of a payload made by [`scatter`].
    Scatter,
}

/// A payload of which each rank gets its own part.
pub fn scatter(parts: &BTreeMap<Rank, Vec<u8>>) -> Result<Vec<u8>, Bad> {
    postcard::to_stdvec(parts).map_err(|_| Bad::Form { filter: "scatter", what: "it can not be written as bytes" })
}

/// The parts of `ranks` in a payload made by [`scatter`].
pub fn parts_of(payload: &[u8], ranks: &RankSet) -> Result<BTreeMap<Rank, Vec<u8>>, Bad> {
    let malformed = |_| Bad::Form { filter: "scatter", what: "malformed bytes" };
    let mut parts: BTreeMap<Rank, Vec<u8>> = postcard::from_bytes(payload).map_err(malformed)?;
    parts.retain(|rank, _| ranks.contains(*rank));
    Ok(parts)
}

impl Down {
    /// What a leaf with `ranks` gets.
    pub fn pass(self, payload: &[u8], ranks: &RankSet) -> Result<Vec<u8>, Bad> {
        match self {
            Down::Same => Ok(payload.to_vec()),
            Down::Scatter => scatter(&parts_of(payload, ranks)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_leaf_gets_its_parts() {
        let all = BTreeMap::from([(Rank(1), vec![1]), (Rank(2), vec![2]), (Rank(3), vec![3])]);
        let payload = scatter(&all).unwrap();
        let passed = Down::Scatter.pass(&payload, &RankSet::range(Rank(2), Rank(9))).unwrap();
        let expected = BTreeMap::from([(Rank(2), vec![2]), (Rank(3), vec![3])]);
        assert_eq!(parts_of(&passed, &RankSet::range(Rank(0), Rank(9))), Ok(expected));
        assert_eq!(Down::Same.pass(&payload, &RankSet::EMPTY), Ok(payload));
        assert!(Down::Scatter.pass(&[0xff; 9], &RankSet::EMPTY).is_err());
    }
}
