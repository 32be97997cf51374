//! A value together with the ranks whose contributions it holds.
//!
//! Sums are wrong if anything is merged twice, and after a node was lost nobody knows by itself what arrived. A partial
//! result that names its ranks does know: two that share one refuse to merge, and what is missing can be asked for.
//!
//! Next: `filter` for how values merge.

use crate::{Bad, Filter, RankSet};
use serde::{Deserialize, Serialize};

/// A merged value and the ranks it was merged from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial<V> {
    /// The ranks of which contributions are in it, each once.
    pub covers: RankSet,
    /// The merged value.
    pub value: V,
}

/// Why two partial results can't become one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Overlap {
    /// They share ranks.
    #[error("ranks {shared} are in both results and would count twice: keep one, ask for the rest of the other")]
    Shared {
        /// The ranks in both.
        shared: RankSet,
    },
    /// The values don't merge.
    #[error("the values of disjoint ranks do not merge")]
    Value(#[source] Bad),
}

impl<V> Partial<V> {
    /// Takes in what other ranks contributed; on an error nothing has changed.
    pub fn join<F: Filter<Value = V>>(&mut self, filter: &F, other: Partial<V>) -> Result<(), Overlap> {
        if !self.covers.is_disjoint(&other.covers) {
            return Err(Overlap::Shared { shared: self.covers.intersection(&other.covers) });
        }
        filter.merge(&mut self.value, other.value).map_err(Overlap::Value)?;
        self.covers = self.covers.union(&other.covers);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Sum;
    use trimtab_types::Rank;

    fn partial(first: u32, last: u32, value: i64) -> Partial<i128> {
        Partial { covers: RankSet::range(Rank(first), Rank(last)), value: i128::from(value) }
    }

    #[test]
    fn disjoint_ranks_join() {
        let mut all = partial(0, 3, 10);
        all.join(&Sum, partial(4, 4, 5)).unwrap();
        assert_eq!(all, partial(0, 4, 15));
    }

    #[test]
    fn a_rank_never_counts_twice() {
        let mut all = partial(0, 3, 10);
        let shared = RankSet::one(Rank(3));
        assert_eq!(all.join(&Sum, partial(3, 5, 1)), Err(Overlap::Shared { shared }));
        assert_eq!(all, partial(0, 3, 10));
    }
}
