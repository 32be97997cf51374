//! Faults over time: nodes die and come back, links are cut, parts of the tree are islands for a while.
//!
//! Next: `sim`, to which this happens, and `check` for what must hold nevertheless.

use crate::random::Random;
use crate::sim::Sim;
use std::collections::BTreeMap;
use trimtab_overlay::NodeId;

/// How bad it is.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// How many failures.
    pub failure_count: u64,
    /// Mean time between two.
    pub pause_us: u64,
    /// Longest time until a dead node is replaced or a link is mended.
    pub down_us_max: u64,
    /// Of a thousand failures: those of the controller.
    pub roots: u64,
    /// Of a thousand: cut links.
    pub cuts: u64,
    /// Of a thousand: islands.
    pub islands: u64,
    /// Of a thousand: leaves. All others are inner nodes.
    pub leaves: u64,
}

/// A repair of an earlier fault.
#[derive(Clone, Debug)]
enum Repair {
    Revive(NodeId),
    Mend(NodeId, NodeId),
    Join(Vec<NodeId>),
}

impl Storm {
    /// Lets it happen, repairs everything, and waits until the tree is whole.
    pub fn strike(&self, sim: &mut Sim) {
        let mut storm = Running::new(self, sim);
        let mut done = 0;
        let mut next_us = sim.now_us() + storm.random.below(2 * self.pause_us);
        while done < self.failure_count || !storm.repairs.is_empty() {
            let repair_us = storm.repairs.keys().next().map_or(u64::MAX, |(at, _)| *at);
            let strike_us = if done < self.failure_count { next_us } else { u64::MAX };
            sim.run_until(repair_us.min(strike_us));
            if repair_us <= strike_us {
                storm.repair(sim);
            } else {
                done += u64::from(storm.fail(sim));
                next_us = sim.now_us() + 1 + storm.random.below(2 * self.pause_us);
            }
        }
    }
}

/// True if all places are alive and in the tree.
pub fn is_whole(sim: &Sim) -> bool {
    let everyone = sim.plan().tree.nodes().all(|id| sim.node(id).is_some_and(|node| node.is_attached()));
    let members = sim.node(NodeId::ROOT).map_or(0, |root| root.members().rank_count());
    everyone && members == u64::from(sim.checker.rank_count())
}

struct Running<'a> {
    storm: &'a Storm,
    random: Random,
    repairs: BTreeMap<(u64, u64), Repair>,
    serial: u64,
    inner: Vec<NodeId>,
    leaves: Vec<NodeId>,
}

impl<'a> Running<'a> {
    fn new(storm: &'a Storm, sim: &Sim) -> Self {
        let tree = &sim.plan().tree;
        let is_inner = tree.is_inner();
        let (inner, leaves) = tree.nodes().skip(1).partition(|node| is_inner[node.0 as usize]);
        let random = Random::new(sim.plan().seed ^ 0x0570_4242);
        Running { storm, random, repairs: BTreeMap::new(), serial: 0, inner, leaves }
    }

    /// One failure; false if what was chosen is broken already.
    fn fail(&mut self, sim: &mut Sim) -> bool {
        let storm = self.storm;
        let dice = self.random.below(1000);
        if dice < storm.roots {
            self.kill(sim, NodeId::ROOT)
        } else if dice < storm.roots + storm.cuts {
            self.cut(sim)
        } else if dice < storm.roots + storm.cuts + storm.islands {
            self.island(sim)
        } else if dice < storm.roots + storm.cuts + storm.islands + storm.leaves || self.inner.is_empty() {
            let leaf = self.leaves[self.random.below(self.leaves.len() as u64) as usize];
            self.kill(sim, leaf)
        } else {
            let inner = self.inner[self.random.below(self.inner.len() as u64) as usize];
            self.kill(sim, inner)
        }
    }

    fn later(&mut self, sim: &Sim, repair: Repair) {
        self.serial += 1;
        let at_us = sim.now_us() + 1 + self.random.below(self.storm.down_us_max);
        self.repairs.insert((at_us, self.serial), repair);
    }

    fn kill(&mut self, sim: &mut Sim, id: NodeId) -> bool {
        if sim.node(id).is_none() {
            return false;
        }
        let is_noticed = self.random.below(2) == 0;
        sim.kill(id, is_noticed);
        self.later(sim, Repair::Revive(id));
        true
    }

    fn cut(&mut self, sim: &mut Sim) -> bool {
        let any = 1 + self.random.below(sim.plan().tree.node_count() as u64 - 1) as u32;
        let child = NodeId(any);
        let Some(parent) = sim.node(child).and_then(|node| node.parent()) else { return false };
        sim.network.cut(child, parent, true);
        let now_us = sim.now_us();
        sim.checker.cut(now_us, child, parent);
        self.later(sim, Repair::Mend(child, parent));
        true
    }

    /// A node and all that are below it in the plan are cut off from the rest.
    fn island(&mut self, sim: &mut Sim) -> bool {
        if self.inner.is_empty() {
            return false;
        }
        let top = self.inner[self.random.below(self.inner.len() as u64) as usize];
        let tree = &sim.plan().tree;
        let is_on_it = |id: &NodeId| *id == top || tree.ancestors(*id).contains(&top);
        let nodes: Vec<NodeId> = tree.nodes().filter(is_on_it).collect();
        let now_us = sim.now_us();
        self.serial += 1;
        sim.checker.islanded(now_us, &nodes, self.serial);
        sim.network.island(nodes.iter().copied(), Some(self.serial as u32));
        self.later(sim, Repair::Join(nodes));
        true
    }

    fn repair(&mut self, sim: &mut Sim) {
        let now_us = sim.now_us();
        match self.repairs.pop_first().map(|(_, repair)| repair) {
            Some(Repair::Revive(id)) => sim.revive(id),
            Some(Repair::Mend(child, parent)) => {
                sim.network.cut(child, parent, false);
                let is_there = sim.node(child).is_none_or(|node| node.parent() == Some(parent));
                sim.checker.mended(now_us, child, parent, is_there);
            }
            Some(Repair::Join(nodes)) => {
                let is_orphan = |id: &NodeId| sim.node(*id).is_some_and(|node| node.parent().is_none());
                let orphans: Vec<NodeId> = nodes.iter().copied().filter(is_orphan).collect();
                sim.checker.joined(now_us, &nodes, &orphans);
                sim.network.island(nodes, None);
            }
            None => {}
        }
    }
}
