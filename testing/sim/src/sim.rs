//! The simulated tree: nodes, their programs, and the events between them in order of time.
//!
//! A leaf's program contributes to every wave that it may, after a moment's thought; what a rank contributes to a wave
//! is a function of both, so that any result can be checked. The controller opens one stream of each kind and sends
//! numbered commands. Frames go through their bytes if the plan says so.
//!
//! Next: `check` for what must hold, `storm` for what goes wrong.

use crate::check::Checker;
use crate::contribution::{contribution, registry};
use crate::network::Network;
use crate::plan::{Flow, Plan};
use crate::random::Random;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use trimtab_overlay::{Action, Event, Frame, Node, NodeId, Setup, StreamSpec, Told};
use trimtab_reduce::{RankSet, Registry};
use trimtab_types::Rank;

/// Waves that a leaf's program contributes to at once, at most.
const BURST_MAX: u64 = 9;

/// An event to come.
#[derive(Debug)]
enum SimEvent {
    Deliver { from: NodeId, to: NodeId, frame: Frame },
    Wake(NodeId),
    Closed { node: NodeId, peer: NodeId },
    Contribute { node: NodeId, incarnation: u32, stream: u32 },
    Command,
}

/// An event to come, and its time; of one moment, the event that was planned first comes first.
struct Scheduled {
    at_us: u64,
    serial: u64,
    what: SimEvent,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.at_us, self.serial) == (other.at_us, other.serial)
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_us, self.serial).cmp(&(other.at_us, other.serial))
    }
}

/// A place in the tree, with the node that lives there now, if any.
struct Position {
    node: Option<Node>,
    incarnation: u32,
    wake_at_us: u64,
    /// The waves that its program may contribute to, by stream: the next, and the first that it may not.
    waves: BTreeMap<u32, (u64, u64)>,
}

/// How much was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Events handled.
    pub events: u64,
    /// Frames sent.
    pub frames: u64,
    /// Their bytes, where frames are encoded.
    pub bytes: u64,
    /// The most frames that any node has received.
    pub frames_at_one_max: u64,
}

/// The whole simulation.
pub struct Sim {
    plan: Plan,
    now_us: u64,
    serial: u64,
    events: BinaryHeap<Reverse<Scheduled>>,
    places: Vec<Position>,
    frames_at: Vec<u64>,
    /// The links.
    pub network: Network,
    random: Random,
    registry: Arc<Registry>,
    /// The promises that must hold.
    pub checker: Checker,
    work: Work,
    command_count: u64,
}

impl Sim {
    /// All nodes begin at once; nobody has a parent yet.
    pub fn new(plan: Plan) -> Self {
        let mut random = Random::new(plan.seed);
        let network = Network::new(plan.weather, Random::new(random.any()));
        let place = |_| Position { node: None, incarnation: 0, wake_at_us: u64::MAX, waves: BTreeMap::new() };
        let count = plan.tree.node_count();
        let mut sim = Sim {
            now_us: 0,
            serial: 0,
            events: BinaryHeap::new(),
            places: (0..count).map(place).collect(),
            frames_at: vec![0; count],
            network,
            random,
            registry: Arc::new(registry()),
            checker: Checker::new(&plan),
            work: Work::default(),
            command_count: 0,
            plan,
        };
        sim.plan.tree.nodes().for_each(|node| sim.revive(node));
        if sim.plan.command_us > 0 {
            sim.schedule(sim.plan.command_us, SimEvent::Command);
        }
        sim
    }

    /// From now on leaves think about a contribution for so long at most.
    pub fn think(&mut self, think_us_max: u64) {
        self.plan.think_us_max = think_us_max;
    }

    /// The simulated time.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// The plan of this simulation.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How much was done.
    pub fn work(&self) -> Work {
        Work { frames_at_one_max: self.frames_at.iter().copied().max().unwrap_or(0), ..self.work }
    }

    /// The node in a place, if one lives there.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.places[id.0 as usize].node.as_ref()
    }

    /// Handles everything up to a moment.
    pub fn run_until(&mut self, until_us: u64) {
        while let Some(Reverse(next)) = self.events.peek() {
            if next.at_us > until_us {
                break;
            }
            if let Some(Reverse(next)) = self.events.pop() {
                self.now_us = next.at_us;
                self.work.events += 1;
                self.happen(next.what);
            }
        }
        self.now_us = self.now_us.max(until_us);
    }

    /// Runs while a condition holds, which is asked every `step_us`; whether it ceased before `until_us`.
    pub fn run_while(&mut self, until_us: u64, step_us: u64, goes_on: impl Fn(&Sim) -> bool) -> bool {
        while goes_on(self) && self.now_us < until_us {
            self.run_until((self.now_us + step_us).min(until_us));
        }
        !goes_on(self)
    }

    /// A node dies. Its neighbours may learn it from the transport, as when a process ends, or not, as when a host does.
    pub fn kill(&mut self, id: NodeId, is_noticed: bool) {
        let orphans: Vec<NodeId> = self.node(id).map(|node| node.children().collect()).unwrap_or_default();
        let parent = self.node(id).and_then(Node::parent);
        let place = &mut self.places[id.0 as usize];
        (place.node, place.wake_at_us) = (None, u64::MAX);
        place.waves.clear();
        let orphans: Vec<NodeId> =
            orphans.into_iter().filter(|orphan| self.node(*orphan).and_then(Node::parent) == Some(id)).collect();
        self.checker.killed(self.now_us, id, &orphans);
        for node in orphans.into_iter().chain(parent).filter(|_| is_noticed) {
            let at_us = self.now_us + self.random.between(100, 2000);
            self.schedule(at_us, SimEvent::Closed { node, peer: id });
        }
    }

    /// A place comes to life, again.
    pub fn revive(&mut self, id: NodeId) {
        let tree = &self.plan.tree;
        let place = &mut self.places[id.0 as usize];
        place.incarnation += 1;
        place.node = Some(Node::new(Setup {
            id,
            incarnation: place.incarnation,
            ancestors: tree.ancestors(id),
            ranks: tree.ranks(id),
            timing: self.plan.timing,
            registry: self.registry.clone(),
        }));
        self.checker.revived(self.now_us, id);
        self.give(id, Event::Time);
        if id == NodeId::ROOT {
            self.open_streams();
        }
    }

    fn open_streams(&mut self) {
        self.plan.flows.clone().into_iter().for_each(|flow| self.open(flow));
    }

    /// Opens one more stream in this life of the controller; the next life opens those of the plan.
    pub fn open(&mut self, flow: Flow) {
        let target = RankSet::range(Rank(0), Rank(self.checker.rank_count() - 1));
        let spec = StreamSpec { target, filter: flow.filter.clone(), sync: flow.sync };
        let now_us = self.now_us;
        if let Some(root) = &mut self.places[0].node {
            let (stream, actions) = root.open(now_us, spec).expect("a controller has room for some streams");
            self.checker.opened(stream, flow);
            self.act(NodeId::ROOT, actions);
        }
    }

    fn schedule(&mut self, at_us: u64, what: SimEvent) {
        self.serial += 1;
        self.events.push(Reverse(Scheduled { at_us, serial: self.serial, what }));
    }

    fn happen(&mut self, what: SimEvent) {
        match what {
            SimEvent::Deliver { from, to, frame } => {
                if self.network.connects(from, to) {
                    self.frames_at[to.0 as usize] += 1;
                    self.give(to, Event::Frame { from, frame });
                }
            }
            SimEvent::Wake(id) => {
                let place = &mut self.places[id.0 as usize];
                if place.wake_at_us <= self.now_us {
                    place.wake_at_us = u64::MAX;
                    self.give(id, Event::Time);
                }
            }
            SimEvent::Closed { node, peer } => self.give(node, Event::Closed(peer)),
            SimEvent::Contribute { node, incarnation, stream } => self.contribute(node, incarnation, stream),
            SimEvent::Command => self.command(),
        }
    }

    fn give(&mut self, id: NodeId, event: Event) {
        let now_us = self.now_us;
        if let Some(node) = &mut self.places[id.0 as usize].node {
            let actions = node.handle(now_us, event);
            self.act(id, actions);
        }
    }

    /// Does what a node asks, and checks the node.
    fn act(&mut self, id: NodeId, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { to, frame } => self.send(id, to, frame),
                Action::Tell(told) => self.told(id, told),
            }
        }
        let place = &mut self.places[id.0 as usize];
        if let Some(node) = &place.node {
            self.checker.node(node);
            let wake_at_us = node.wake_at_us().max(self.now_us + 1);
            if wake_at_us < place.wake_at_us {
                place.wake_at_us = wake_at_us;
                self.schedule(wake_at_us, SimEvent::Wake(id));
            }
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, frame: Frame) {
        self.work.frames += 1;
        let frame = if self.plan.wire {
            let bytes = frame.encode().expect("a node's own frame has bytes");
            self.work.bytes += bytes.len() as u64;
            Frame::decode(&bytes).expect("its bytes are a frame")
        } else {
            frame
        };
        match self.network.arrival_us(self.now_us, from, to, frame.channel()) {
            Some(at_us) => self.schedule(at_us, SimEvent::Deliver { from, to, frame }),
            None => self.checker.lost_frame(self.now_us, from.max(to)),
        }
    }

    fn told(&mut self, id: NodeId, told: Told) {
        self.checker.told(self.now_us, id, &told);
        match told {
            Told::Opened { stream, wave, .. } => {
                self.places[id.0 as usize].waves.insert(stream, (wave, wave));
            }
            Told::Window { stream, below } => self.window(id, stream, below),
            Told::Closed { stream } => {
                self.places[id.0 as usize].waves.remove(&stream);
            }
            Told::Uninstrument => self.places[id.0 as usize].waves.clear(),
            _ => {}
        }
    }

    fn window(&mut self, id: NodeId, stream: u32, below: u64) {
        let place = &mut self.places[id.0 as usize];
        let incarnation = place.incarnation;
        let Some((next, end)) = place.waves.get_mut(&stream) else { return };
        let was_waiting = *next == *end;
        *end = below;
        if was_waiting {
            let at_us = self.now_us + self.random.between(1, self.plan.think_us_max);
            self.schedule(at_us, SimEvent::Contribute { node: id, incarnation, stream });
        }
    }

    /// A leaf's program contributes to the next wave, sometimes to a few, and thinks about the one after.
    fn contribute(&mut self, id: NodeId, incarnation: u32, stream: u32) {
        let now_us = self.now_us;
        let wave_count = if self.random.below(4) == 0 { self.random.between(2, BURST_MAX) } else { 1 };
        let place = &mut self.places[id.0 as usize];
        let (Some(node), Some((next, end))) = (&mut place.node, place.waves.get_mut(&stream)) else { return };
        if place.incarnation != incarnation || *next >= *end {
            return;
        }
        let rank = self.plan.tree.ranks(id).lowest().expect("only nodes with ranks contribute");
        let waves = *next..(*next + wave_count).min(*end);
        *next = waves.end;
        let again = *next < *end;
        for wave in waves {
            let value = contribution(&self.checker.flow(stream).filter, rank, wave);
            match node.put(now_us, stream, wave, &value) {
                Ok(()) => self.checker.contributed(now_us, (stream, wave), rank),
                // The waves ended without this rank while it thought.
                Err(trimtab_overlay::Busy::Window { from, .. }) if wave < from => {}
                Err(busy) => {
                    self.checker.broken(now_us, format!("{id} may contribute to wave {wave} and can not: {busy}"))
                }
            }
        }
        let actions = node.flush(now_us);
        self.act(id, actions);
        if again {
            let at_us = now_us + self.random.between(1, self.plan.think_us_max);
            self.schedule(at_us, SimEvent::Contribute { node: id, incarnation, stream });
        }
    }

    fn command(&mut self) {
        self.schedule(self.now_us + self.plan.command_us, SimEvent::Command);
        let now_us = self.now_us;
        let target = RankSet::range(Rank(0), Rank(self.checker.rank_count() - 1));
        let payload = self.command_count.to_le_bytes().to_vec();
        let Some(root) = &mut self.places[0].node else { return };
        if let Ok(actions) = root.multicast(now_us, 0, target, payload) {
            self.checker.commanded(now_us, self.command_count);
            self.command_count += 1;
            self.act(NodeId::ROOT, actions);
        }
    }
}
