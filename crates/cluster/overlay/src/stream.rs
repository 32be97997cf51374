//! A stream: ranks, a filter upwards, and when a wave goes on.
//!
//! Next: `node::waves` for how waves are merged, `trimtab-reduce` for the filters.

use serde::{Deserialize, Serialize};
use trimtab_reduce::{FilterSpec, RankSet};

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
}

/// When a node passes a wave on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sync {
    /// When every living rank below it has contributed, or this long after the wave's first contribution; the root waits
    /// so long, its children half of it, theirs a quarter, so that late subtrees don't make their neighbours late.
    TimeOut {
        /// At the root, in microseconds.
        us: u64,
    },
    /// At once, each contribution by itself.
    DontWait,
}
