//! How often which stack was seen, by hash. A stack whose hash found no place is counted, not named.
//!
//! Next: `super`, which merges them.

use crate::ir::STACKS_WORDS;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts of stacks by hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stacks {
    /// Count by hash.
    pub counts: BTreeMap<u64, u64>,
    /// Stacks that found no place in a thread's table.
    pub unplaced: u64,
}

impl Stacks {
    /// From a variable's words.
    pub fn read(words: &[u64]) -> Stacks {
        let (pairs, last) = words.split_at(words.len().min(STACKS_WORDS as usize - 2));
        let mut stacks = Stacks { counts: BTreeMap::new(), unplaced: last.get(1).copied().unwrap_or(0) };
        for pair in pairs.chunks_exact(2).filter(|pair| pair[0] != 0) {
            add(stacks.counts.entry(pair[0]).or_insert(0), pair[1]);
        }
        stacks
    }

    /// Both as one.
    #[must_use]
    pub fn merge(mut self, other: Stacks) -> Stacks {
        for (hash, count) in other.counts {
            add(self.counts.entry(hash).or_insert(0), count);
        }
        add(&mut self.unplaced, other.unplaced);
        self
    }

    /// The stacks seen most often, most frequent first, `count` of them at most.
    pub fn top(&self, count: usize) -> Vec<(u64, u64)> {
        let mut all: Vec<(u64, u64)> = self.counts.iter().map(|(hash, seen)| (*hash, *seen)).collect();
        all.sort_by_key(|(hash, seen)| (std::cmp::Reverse(*seen), *hash));
        all.truncate(count);
        all
    }
}

/// The program may have written anything over its counts: they stay at the most there can be.
fn add(count: &mut u64, more: u64) {
    *count = count.saturating_add(more);
}
