//! The simulated network: delays, order, losses, cut links, partitions.
//!
//! Each pair of nodes has two channels; frames of one channel keep their order unless the weather lets one overtake.
//! A frame that crosses a cut or a partition when it is sent, or when it would arrive, is lost.
//!
//! Next: `storm` for who cuts what when.

use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use trimtab_overlay::NodeId;
use trimtab_overlay::frame::Channel;

/// Delays and losses that the network gives to every frame.
#[derive(Clone, Copy, Debug)]
pub struct NetworkConditions {
    /// Least delay.
    pub delay_us_min: u64,
    /// Greatest delay, without overtaking.
    pub delay_us_max: u64,
    /// The additional delay of results: a slow bulk channel.
    pub bulk_delay_us: u64,
    /// Frames of a million that others may overtake.
    pub overtaken_ppm: u32,
    /// Frames of a million that are lost.
    pub lost_ppm: u32,
}

impl Default for NetworkConditions {
    fn default() -> Self {
        NetworkConditions { delay_us_min: 30, delay_us_max: 900, bulk_delay_us: 0, overtaken_ppm: 0, lost_ppm: 0 }
    }
}

/// The state of all links.
#[derive(Debug)]
pub struct Network {
    weather: NetworkConditions,
    random: Random,
    last_arrival_us: BTreeMap<(NodeId, NodeId, Channel), u64>,
    cuts: BTreeSet<(NodeId, NodeId)>,
    /// Nodes of one side of a partition; the others are all on one side.
    islands: BTreeMap<NodeId, u32>,
}

impl Network {
    /// A whole network.
    pub fn new(weather: NetworkConditions, random: Random) -> Self {
        let (last_arrival_us, cuts, islands) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Network { weather, random, last_arrival_us, cuts, islands }
    }

    /// When a frame arrives; none if it is lost.
    pub fn arrival_us(&mut self, now_us: u64, from: NodeId, to: NodeId, channel: Channel) -> Option<u64> {
        if !self.connects(from, to) || self.random.one_in_million(self.weather.lost_ppm) {
            return None;
        }
        let mut delay_us = self.random.between(self.weather.delay_us_min, self.weather.delay_us_max);
        if channel == Channel::Bulk {
            delay_us += self.weather.bulk_delay_us;
        }
        if self.random.one_in_million(self.weather.overtaken_ppm) {
            return Some(now_us + delay_us + self.random.below(5_000));
        }
        let last = self.last_arrival_us.entry((from, to, channel)).or_default();
        *last = (now_us + delay_us).max(*last);
        Some(*last)
    }

    /// True if frames pass between two nodes now.
    pub fn connects(&self, one: NodeId, other: NodeId) -> bool {
        !self.cuts.contains(&(one.min(other), one.max(other))) && self.islands.get(&one) == self.islands.get(&other)
    }

    /// Cuts, or mends, the link of two nodes.
    pub fn cut(&mut self, one: NodeId, other: NodeId, is_cut: bool) {
        let pair = (one.min(other), one.max(other));
        if is_cut {
            self.cuts.insert(pair);
        } else {
            self.cuts.remove(&pair);
        }
    }

    /// Puts nodes on an island of their own, or back.
    pub fn island(&mut self, nodes: impl IntoIterator<Item = NodeId>, island: Option<u32>) {
        for node in nodes {
            match island {
                Some(island) => self.islands.insert(node, island),
                None => self.islands.remove(&node),
            };
        }
    }
}
