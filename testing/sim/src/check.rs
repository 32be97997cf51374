//! The promises of every simulated run, checked at every step; the first broken promise panics with the seed.
//!
//! - A result is exactly what its filter makes of what the ranks it covers contributed, each once, to that wave and no
//!   other.
//! - A wave has one result; where contributions are passed on one by one, no rank comes twice.
//! - A rank is missing from a result only if it, or an ancestor of it, was in trouble since shortly before the wave began, or if
//!   it had not contributed when the stream's time was over.
//! - Commands reach a leaf in order, without gaps or repetition, from its adoption until its lease is over.
//! - A leaf takes out its instrumentation only if there was trouble.
//! - A child of a lost node, or of one it is cut off from, has a parent again within a second, from then or from the last
//!   loss on its way to the root. If there was no way to the root at all, it has one within its longest pause between two
//!   attempts and that second, from when there is a way again.
//! - Queues and logs keep their bounds.
//!
//! Next: `sim`, which calls this.

use crate::contribution::{merged, registry};
use crate::plan::{Flow, Plan};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_overlay::limits::LOG_COUNT_MAX;
use trimtab_overlay::node::WaveResult;
use trimtab_overlay::{Node, NodeId, Sync, Told};
use trimtab_reduce::{RankSet, Registry};
use trimtab_types::Rank;

/// Trouble explains what is missing for so long: a lease, and the time to come back.
const TROUBLE_US: u64 = 12_000_000;
/// An orphan must have another parent by then.
pub const REPARENT_US_MAX: u64 = 1_000_000;
/// The longest pause of one that found nobody for long, and the second after it.
const AFTER_NOBODY_US_MAX: u64 = 1_600_000 + REPARENT_US_MAX;

/// The last news of a leaf.
#[derive(Clone, Debug, Default)]
struct Leaf {
    is_instrumented: bool,
    command: Option<u64>,
    /// The first command of this life of its, as it was told when it began.
    next: Option<u64>,
    sequence: u64,
}

/// A node without a parent.
#[derive(Clone, Copy, Debug)]
struct Orphan {
    since_us: u64,
    /// There is a way from it to the root now.
    has_way: bool,
    /// For some time there was none.
    had_none: bool,
}

/// Figures of a run.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Nodes killed.
    pub kills: u64,
    /// Results, each of them checked.
    pub results: u64,
    /// Results that covered their whole target.
    pub whole_results: u64,
    /// Contributions in them.
    pub contributions: u64,
    /// How long each orphan was without a parent that always had a way to the root.
    pub orphan_us: Vec<u64>,
    /// Commands received by leaves.
    pub commands: u64,
    /// The longest time from sending a command to a leaf's receiving it, over commands that left in fair weather.
    pub command_us_max: u64,
    /// Leaves that took out their instrumentation.
    pub uninstrumented: u64,
}

/// Holds a run to what the tree promises.
#[derive(Debug)]
pub struct Checker {
    seed: u64,
    registry: Registry,
    flows: BTreeMap<u32, Flow>,
    parents: Vec<Option<NodeId>>,
    homes: BTreeMap<Rank, NodeId>,
    leaves: BTreeMap<NodeId, Leaf>,
    trouble_us: Vec<u64>,
    orphans: BTreeMap<NodeId, Orphan>,
    ancestors: Vec<Vec<NodeId>>,
    dead: BTreeSet<NodeId>,
    cut: BTreeSet<(NodeId, NodeId)>,
    islands: BTreeMap<NodeId, u64>,
    finished: BTreeSet<(u32, u64)>,
    arrived: BTreeMap<(u32, u64), RankSet>,
    /// When each rank contributed to each wave without a result, on streams that wait.
    contributed_us: BTreeMap<(u32, u64), BTreeMap<Rank, u64>>,
    commanded_us: BTreeMap<u64, u64>,
    is_root_dead: bool,
    /// The first command of this life of the controller.
    epoch_from: u64,
    /// Figures so far.
    pub figures: Figures,
    /// Streams that had a result which lacked nobody, since somebody cleared this.
    pub whole: BTreeSet<u32>,
}

impl Orphan {
    fn us_max(&self) -> u64 {
        if self.had_none { AFTER_NOBODY_US_MAX } else { REPARENT_US_MAX }
    }
}

impl Checker {
    /// A checker for a plan.
    pub fn new(plan: &Plan) -> Self {
        let tree = &plan.tree;
        let homes = tree.nodes().filter_map(|node| tree.ranks(node).lowest().map(|rank| (rank, node)));
        Checker {
            seed: plan.seed,
            registry: registry(),
            flows: BTreeMap::new(),
            parents: tree.nodes().map(|node| tree.parent(node)).collect(),
            homes: homes.collect(),
            leaves: BTreeMap::new(),
            trouble_us: vec![0; tree.node_count()],
            orphans: BTreeMap::new(),
            ancestors: tree.nodes().map(|node| tree.ancestors(node)).collect(),
            dead: BTreeSet::new(),
            cut: BTreeSet::new(),
            islands: BTreeMap::new(),
            finished: BTreeSet::new(),
            arrived: BTreeMap::new(),
            contributed_us: BTreeMap::new(),
            commanded_us: BTreeMap::new(),
            is_root_dead: false,
            epoch_from: 0,
            figures: Figures::default(),
            whole: BTreeSet::new(),
        }
    }

    /// Ends the run.
    pub fn broken(&self, now_us: u64, what: String) -> ! {
        panic!("seed {}, at {:.6} s: {what}", self.seed, now_us as f64 / 1e6);
    }

    /// How many ranks there are.
    pub fn rank_count(&self) -> u32 {
        self.homes.len() as u32
    }

    /// How many leaves may have something in a target.
    pub fn instrumented_count(&self) -> usize {
        self.leaves.values().filter(|leaf| leaf.is_instrumented).count()
    }

    /// True if a leaf may have something in its target.
    pub fn is_instrumented(&self, id: NodeId) -> bool {
        self.leaves.get(&id).is_some_and(|leaf| leaf.is_instrumented)
    }

    /// A node has died; these were its children.
    pub fn killed(&mut self, now_us: u64, id: NodeId, orphans: &[NodeId]) {
        self.figures.kills += 1;
        self.trouble_us[id.0 as usize] = now_us;
        self.leaves.remove(&id);
        self.orphans.remove(&id);
        self.dead.insert(id);
        if id == NodeId::ROOT {
            self.is_root_dead = true;
            self.epoch_from = self.commanded_us.keys().next_back().map_or(0, |last| last + 1);
            self.orphans.clear();
        } else if !self.is_root_dead {
            orphans.iter().for_each(|orphan| self.orphaned(now_us, *orphan));
            // The loss of another ancestor begins the search of those below anew.
            let below: Vec<NodeId> = self.orphans.keys().copied().filter(|orphan| self.is_below(*orphan, id)).collect();
            below.into_iter().for_each(|orphan| self.begin_anew(now_us, orphan));
        }
        self.review(now_us);
    }

    fn orphaned(&mut self, now_us: u64, id: NodeId) {
        self.orphans.insert(id, Orphan { since_us: now_us, has_way: true, had_none: false });
    }

    fn begin_anew(&mut self, now_us: u64, id: NodeId) {
        if let Some(orphan) = self.orphans.get_mut(&id) {
            orphan.since_us = now_us;
        }
    }

    /// After the network or the nodes have changed: which orphans have a way to the root.
    fn review(&mut self, now_us: u64) {
        let ways: Vec<(NodeId, bool)> = self.orphans.keys().map(|id| (*id, self.has_way(*id))).collect();
        for (id, has_way) in ways {
            if let Some(orphan) = self.orphans.get_mut(&id) {
                if has_way && !orphan.has_way {
                    orphan.since_us = now_us;
                }
                orphan.has_way = has_way;
                orphan.had_none |= !has_way;
            }
        }
    }

    fn has_way(&self, id: NodeId) -> bool {
        let island = |id: NodeId| self.islands.get(&id);
        let connects = |ancestor: &NodeId| !self.cut.contains(&(id, *ancestor)) && island(id) == island(*ancestor);
        let lives = |ancestor: &NodeId| !self.dead.contains(ancestor);
        // A node without a parent takes nobody in.
        let takes = |ancestor: &NodeId| lives(ancestor) && connects(ancestor) && !self.orphans.contains_key(ancestor);
        let mut reached = self.ancestors[id.0 as usize].iter().filter(|ancestor| takes(ancestor));
        id == NodeId::ROOT || reached.any(|ancestor| self.has_way(*ancestor))
    }

    /// A stream was opened.
    pub fn opened(&mut self, stream: u32, flow: Flow) {
        self.flows.insert(stream, flow);
    }

    /// The description that a stream was opened with.
    pub fn flow(&self, stream: u32) -> &Flow {
        &self.flows[&stream]
    }

    /// A node has begun a new life.
    pub fn revived(&mut self, now_us: u64, id: NodeId) {
        self.trouble_us[id.0 as usize] = now_us;
        self.dead.remove(&id);
        if id == NodeId::ROOT {
            self.is_root_dead = false;
            self.finished.clear();
            self.arrived.clear();
            self.contributed_us.clear();
        }
        self.review(now_us);
    }

    /// The network lost a frame on the way to or from a node: what it was about to do must be done again.
    pub fn lost_frame(&mut self, now_us: u64, id: NodeId) {
        self.trouble_us[id.0 as usize] = now_us;
        self.begin_anew(now_us, id);
    }

    /// The link between a node and its parent was cut.
    pub fn cut(&mut self, now_us: u64, id: NodeId, parent: NodeId) {
        self.trouble_us[id.0 as usize] = now_us;
        self.cut.insert((id, parent));
        self.orphaned(now_us, id);
        self.review(now_us);
    }

    /// That link is whole again; `is_there`: the node has noticed nothing, or has come back to this parent.
    pub fn mended(&mut self, now_us: u64, id: NodeId, parent: NodeId, is_there: bool) {
        self.trouble_us[id.0 as usize] = now_us;
        self.cut.remove(&(id, parent));
        if is_there {
            self.orphans.remove(&id);
        }
        self.review(now_us);
    }

    /// Nodes are on an island, where nobody knows how long it takes them to see that there is no way out.
    pub fn islanded(&mut self, now_us: u64, nodes: &[NodeId], island: u64) {
        for id in nodes {
            self.trouble_us[id.0 as usize] = now_us;
            self.islands.insert(*id, island);
            self.orphans.remove(id);
        }
        self.review(now_us);
    }

    /// That island is none any more; these of its nodes have no parent as far as they know.
    pub fn joined(&mut self, now_us: u64, nodes: &[NodeId], orphans: &[NodeId]) {
        for id in nodes {
            self.trouble_us[id.0 as usize] = now_us;
            self.islands.remove(id);
        }
        for id in orphans.iter().filter(|id| **id != NodeId::ROOT && !self.is_root_dead) {
            self.orphans.insert(*id, Orphan { since_us: now_us, has_way: true, had_none: true });
        }
        self.review(now_us);
    }

    /// A rank's contribution was taken by its node.
    pub fn contributed(&mut self, now_us: u64, (stream, wave): (u32, u64), rank: Rank) {
        let key = (stream, wave);
        if matches!(self.flow(stream).sync, Sync::TimeOut { .. }) && !self.finished.contains(&key) {
            self.contributed_us.entry(key).or_default().insert(rank, now_us);
        }
    }

    /// A numbered command was sent.
    pub fn commanded(&mut self, now_us: u64, number: u64) {
        self.commanded_us.insert(number, now_us);
    }

    /// A node, after every event.
    pub fn node(&self, node: &Node) {
        assert!(node.queue_count() <= node.queue_bound(), "seed {}: a queue of {}", self.seed, node.queue_count());
        assert!(node.counts().log_max <= LOG_COUNT_MAX, "seed {}: a log of {}", self.seed, node.counts().log_max);
    }

    /// Takes what a node told its program.
    pub fn told(&mut self, now_us: u64, id: NodeId, told: &Told) {
        match told {
            Told::Result(result) => self.result(now_us, result),
            Told::Command { sequence, payload, .. } => self.command(now_us, id, *sequence, payload),
            Told::Adopt => {
                let leaf = self.leaves.entry(id).or_default();
                *leaf = Leaf { is_instrumented: true, command: None, next: None, sequence: leaf.sequence };
            }
            Told::Opened { stream: 0, sent, .. } => {
                self.leaves.entry(id).or_default().next = Some(self.epoch_from + sent);
            }
            Told::Uninstrument => self.uninstrument(now_us, id),
            Told::Attached { .. } => self.attached(now_us, id),
            Told::Trouble(trouble) => self.broken(now_us, format!("{id}: {trouble}")),
            _ => {}
        }
    }

    /// Orphans that have been without a parent for too long, at the end of a run.
    pub fn nobody_is_lost(&self, now_us: u64) {
        let late = self.orphans.iter().find(|(_, orphan)| orphan.has_way && now_us - orphan.since_us > orphan.us_max());
        if let Some((id, orphan)) = late {
            self.broken(now_us, format!("{id} has had no parent since {} us", orphan.since_us));
        }
    }

    fn is_below(&self, node: NodeId, ancestor: NodeId) -> bool {
        std::iter::successors(self.parents[node.0 as usize], |at| self.parents[at.0 as usize]).any(|at| at == ancestor)
    }

    fn is_troubled(&self, now_us: u64, id: NodeId) -> bool {
        self.is_troubled_since(now_us.saturating_sub(TROUBLE_US), id)
    }

    fn is_troubled_since(&self, since_us: u64, id: NodeId) -> bool {
        let mut path = std::iter::successors(Some(id), |at| self.parents[at.0 as usize]);
        path.any(|at| self.trouble_us[at.0 as usize] >= since_us)
    }

    fn attached(&mut self, now_us: u64, id: NodeId) {
        let Some(orphan) = self.orphans.remove(&id) else { return };
        self.review(now_us);
        let orphan_us = now_us - orphan.since_us;
        if !orphan.had_none {
            self.figures.orphan_us.push(orphan_us);
        }
        if orphan_us > orphan.us_max() {
            self.broken(now_us, format!("{id} was without a parent for {orphan_us} us: {orphan:?}"));
        }
    }

    fn uninstrument(&mut self, now_us: u64, id: NodeId) {
        let Some(leaf) = self.leaves.get_mut(&id) else { return };
        leaf.is_instrumented = false;
        self.figures.uninstrumented += 1;
        if !self.is_troubled(now_us, id) {
            self.broken(now_us, format!("{id} gave up though nothing was wrong on its way to the root"));
        }
    }

    fn command(&mut self, now_us: u64, id: NodeId, sequence: u64, payload: &[u8]) {
        let Some(number) = payload.try_into().map(u64::from_le_bytes).ok() else {
            self.broken(now_us, format!("{id} received {payload:?}, which is no command's number"))
        };
        let leaf = self.leaves.entry(id).or_default().clone();
        let next = leaf.command.map_or(leaf.next, |last| Some(last + 1));
        if !leaf.is_instrumented || next != Some(number) {
            self.broken(now_us, format!("{id} received command {number} after {leaf:?}"));
        }
        self.leaves.insert(id, Leaf { command: Some(number), sequence, ..leaf });
        self.figures.commands += 1;
        let sent_us = self.commanded_us.get(&number).copied().unwrap_or(now_us);
        // The beginning of all nodes is trouble too, but a leaf that receives commands has it behind it.
        if sent_us < TROUBLE_US && self.figures.kills == 0 || !self.is_troubled(sent_us, id) {
            self.figures.command_us_max = self.figures.command_us_max.max(now_us - sent_us);
        }
    }

    fn result(&mut self, now_us: u64, result: &WaveResult) {
        let all = RankSet::range(Rank(0), Rank(self.rank_count() - 1));
        let key = (result.stream, result.wave);
        let name = format!("wave {} of stream {}", result.wave, result.stream);
        let Flow { sync, filter } = self.flow(result.stream).clone();
        let expected = merged(&self.registry, &filter, &result.covers, result.wave);
        if result.value != expected || result.covers.is_empty() {
            self.broken(now_us, format!("{name} is not what {filter:?} makes of {}", result.covers));
        }
        let arrived = self.arrived.entry(key).or_default();
        let is_repeated = !arrived.is_disjoint(&result.covers);
        *arrived = arrived.union(&result.covers);
        if is_repeated || arrived.union(&result.missing) != all || !arrived.is_disjoint(&result.missing) {
            self.broken(now_us, format!("{name} has {} and lacks {}", result.covers, result.missing));
        }
        if sync != Sync::DontWait && !self.finished.insert(key) {
            self.broken(now_us, format!("{name} has a second result"));
        }
        if let Sync::TimeOut { us } = sync {
            let contributed_us = self.contributed_us.remove(&key).unwrap_or_default();
            let began_us = contributed_us.values().min().copied().unwrap_or(now_us);
            // Contributions that were lost are asked for again, with longer and longer pauses.
            let since_us = began_us.min(now_us.saturating_sub(TROUBLE_US));
            let is_lost = |rank: &Rank| contributed_us.get(rank).is_some_and(|at_us| now_us - at_us > TROUBLE_US);
            let is_missed = |rank: &Rank| now_us - began_us < us || is_lost(rank);
            let unexplained = |rank: &Rank| is_missed(rank) && !self.is_troubled_since(since_us, self.homes[rank]);
            if let Some(rank) = result.missing.iter().find(unexplained) {
                self.broken(now_us, format!("{name} lacks rank {rank}, with which nothing was wrong"));
            }
        }
        self.figures.results += 1;
        self.figures.whole_results += u64::from(result.missing.is_empty());
        self.figures.contributions += result.covers.rank_count();
        if result.missing.is_empty() {
            self.whole.insert(result.stream);
        }
    }
}
