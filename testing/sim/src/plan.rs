//! A run of the simulated tree: its shape, its network, its streams and all that is to happen.
//!
//! Next: `sim`, which runs it, and `check`, which holds the tree to what it promises.

use crate::contribution::Total;
use crate::network::NetworkConditions;
use crate::shape::Tree;
use trimtab_overlay::{Sync, Timing};
use trimtab_reduce::FilterSpec;

/// As long as the lead of a window waits for an agent, which is longer than anybody here thinks about eight waves.
pub const PATIENT: Sync = Sync::TimeOut { us: 20_000_000 };

/// A simulation's plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Everything random comes from it.
    pub seed: u64,
    /// The tree.
    pub tree: Tree,
    /// Its times.
    pub timing: Timing,
    /// The network's delays and losses.
    pub weather: NetworkConditions,
    /// The streams that the controller opens.
    pub flows: Vec<Flow>,
    /// Longest time that a leaf thinks about a contribution.
    pub think_us_max: u64,
    /// Between two commands of the controller; 0 for none.
    pub command_us: u64,
    /// True if frames are encoded and decoded on the way.
    pub wire: bool,
}

/// A stream that the controller opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// When a wave goes on.
    pub sync: Sync,
    /// How it is merged.
    pub filter: FilterSpec,
}

impl Flow {
    /// A stream of sums.
    pub fn sum(sync: Sync) -> Self {
        Flow { sync, filter: Total::spec() }
    }
}

impl Plan {
    /// A tree in fair weather with one patient stream.
    pub fn new(seed: u64, tree: Tree) -> Self {
        Plan {
            seed,
            tree,
            timing: Timing::default(),
            weather: NetworkConditions::default(),
            flows: vec![Flow::sum(PATIENT)],
            think_us_max: 200_000,
            command_us: 300_000,
            wire: false,
        }
    }
}
