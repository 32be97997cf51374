//! What goes up: contributions, merged on the way into units that name their ranks.
//!
//! A node merges the units of one wave until it has those of all ranks below it, and passes the result on as one unit.
//! What comes later, or belongs to another attempt, is passed on as it is. Units are never repeated by a node: what was
//! lost with a link or a node is asked for again by the root, and only the leaves that are asked contribute again. So
//! dropping a unit is always safe, and waves can't shift, since each unit names its wave.
//!
//! Next: `root` for who gathers them and asks again, `trimtab-reduce` for how they merge.

use super::{Busy, Node, Told, Trouble};
use crate::frame::{Body, Frame, Run, Unit};
use crate::limits::{CREDIT, STREAM_COUNT_MAX};
use crate::{NodeId, StreamSpec, Sync};
use std::collections::BTreeMap;
use std::sync::Arc;
use trimtab_reduce::{Accumulator, AnyFilter, Bad, RankSet};

/// Units of a node's own making that may wait for credit.
const OWN_QUEUE_COUNT_MAX: usize = 1024;

/// An open stream.
pub(super) struct Stream {
    pub(super) spec: StreamSpec,
    /// This node's ranks of its target.
    own: RankSet,
    pub(super) filter: Arc<dyn AnyFilter>,
    /// The first wave that isn't over.
    pub(super) below: u64,
    waves: BTreeMap<u64, Wave>,
    /// This node's contributions to waves that aren't over, to give again.
    kept: BTreeMap<u64, Vec<u8>>,
}

/// A wave on its way through a node.
struct Wave {
    attempt: u32,
    /// Who was asked; none if everybody.
    asked: Option<RankSet>,
    merged: Box<dyn Accumulator>,
    covers: RankSet,
    passed_on: bool,
    fire_at_us: Option<u64>,
}

/// A unit that waits for credit of the parent, and the child whose credit it holds.
pub(super) struct Queued {
    unit: Unit,
    from: Option<NodeId>,
}

/// The most units a queue may hold.
pub(super) fn queue_bound(child_count: usize) -> usize {
    OWN_QUEUE_COUNT_MAX + child_count * CREDIT as usize
}

impl Stream {
    fn is_open(&self, wave: u64) -> bool {
        (self.below..self.open_below()).contains(&wave)
    }

    /// The first wave that may not be contributed to yet.
    fn open_below(&self) -> u64 {
        self.below + self.spec.wave_window()
    }

    fn wave(&mut self, wave: u64) -> &mut Wave {
        let filter = &self.filter;
        self.waves.entry(wave).or_insert_with(|| Wave::new(filter.start(), 0, None))
    }
}

/// What a map holds from a wave on; without memory if that is nothing.
fn from_on<T>(map: &mut BTreeMap<u64, T>, below: u64) -> BTreeMap<u64, T> {
    let rest = map.split_off(&below);
    if rest.is_empty() { BTreeMap::new() } else { rest }
}

impl Wave {
    fn new(merged: Box<dyn Accumulator>, attempt: u32, asked: Option<RankSet>) -> Self {
        Wave { attempt, asked, merged, covers: RankSet::EMPTY, passed_on: false, fire_at_us: None }
    }

    /// Whether all ranks below have contributed that are expected to.
    fn is_complete(&self, target: &RankSet, members: &RankSet) -> bool {
        let asked = self.asked.as_ref().unwrap_or(target);
        !self.passed_on && !self.covers.is_empty() && self.covers.covers_common(asked, members)
    }
}

impl Node {
    /// Contributes this node's value to a wave. Waves are contributed to in the order of the window that
    /// [`Told::Window`] names.
    pub fn contribute(
        &mut self,
        now_us: u64,
        stream: u32,
        wave: u64,
        value: Vec<u8>,
    ) -> Result<Vec<super::Action>, Busy> {
        self.now_us = self.now_us.max(now_us);
        let Some(open) = self.streams.get_mut(&stream) else { return Err(Busy::NoStream { stream }) };
        if open.own.is_empty() {
            return Err(Busy::NotHere { id: self.setup.id, who: "a node with ranks of the stream's target" });
        }
        if !open.is_open(wave) {
            return Err(Busy::Window { stream, wave, from: open.below, below: open.open_below() });
        }
        if open.kept.contains_key(&wave) {
            return Err(Busy::Twice { stream, wave });
        }
        open.filter.check_bytes(&value).map_err(Busy::Bad)?;
        open.kept.insert(wave, value);
        self.give(stream, wave);
        Ok(self.after())
    }

    /// Puts the kept contribution of a wave on its way.
    fn give(&mut self, stream: u32, wave: u64) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        let Some(value) = open.kept.get(&wave).cloned() else { return };
        let covers = open.own.clone();
        let attempt = open.waves.get(&wave).map_or(0, |wave| wave.attempt);
        let unit = Unit { reign: self.reign, stream, wave, attempt, covers, value };
        if self.children.is_empty() && attempt == 0 && self.root.is_none() && !open.waves.contains_key(&wave) {
            // Nothing to merge with: a leaf remembers only what it contributed.
            return self.enqueue(unit, None);
        }
        self.merge(unit, None);
    }

    pub(super) fn open_stream(&mut self, number: u32, spec: &StreamSpec, below: u64) {
        let limit = Bad::TooMany { filter: "a tree", count: self.streams.len() + 1, count_max: STREAM_COUNT_MAX };
        let room = if self.streams.len() < STREAM_COUNT_MAX { Ok(()) } else { Err(limit) };
        match room.and_then(|()| self.setup.registry.build(&spec.filter)) {
            Err(bad) => self.tell(Told::Trouble(Trouble::Stream { stream: number, bad })),
            Ok(filter) => {
                let (waves, kept) = (BTreeMap::new(), BTreeMap::new());
                let own = self.setup.ranks.intersection(&spec.target);
                let has_ranks = !own.is_empty();
                let stream = Stream { spec: spec.clone(), own, filter, below, waves, kept };
                self.streams.insert(number, Box::new(stream));
                if has_ranks {
                    self.tell(Told::Opened { stream: number, spec: spec.clone(), wave: below });
                    self.tell(Told::Window { stream: number, below: below + spec.wave_window() });
                }
            }
        }
    }

    /// A run of units of a child.
    pub(super) fn units_came(&mut self, from: NodeId, first: u32, run: Run) {
        let numbers = (0..).map_while(|index| first.checked_add(index));
        for (number, unit) in numbers.zip(run.into_units()) {
            self.unit_came(from, number, unit);
        }
    }

    /// A unit of a child.
    pub(super) fn unit_came(&mut self, from: NodeId, number: u32, unit: Unit) {
        let Some(child) = self.children.get_mut(&from) else { return };
        // Beyond its credit by more than what may have overtaken: not a child that follows the rules.
        if number > child.credit_told {
            self.counts.dropped += 1;
            return;
        }
        child.units_received = child.units_received.max(number);
        let open = self.streams.get(&unit.stream).is_some_and(|stream| stream.is_open(unit.wave));
        if !open || unit.reign != self.reign || unit.covers.is_empty() {
            self.counts.late += 1;
        } else if self.root.is_some() {
            self.gather(unit);
        } else {
            self.merge(unit, Some(from));
        }
        self.return_credit(from);
    }

    /// Merges a unit into its wave, or puts it into the queue as it is.
    fn merge(&mut self, unit: Unit, from: Option<NodeId>) {
        if self.root.is_some() {
            return self.gather(unit);
        }
        let (now_us, depth) = (self.now_us, self.depth());
        let Some(open) = self.streams.get_mut(&unit.stream) else { return };
        let (stream, number) = (unit.stream, unit.wave);
        let Stream { spec, filter, waves, kept, .. } = &mut **open;
        let (target, sync) = (&spec.target, spec.sync);
        let wave = waves.entry(number).or_insert_with(|| {
            // What this node contributed while it had no children is on its way already.
            let passed_on = from.is_some() && kept.contains_key(&number);
            Wave { passed_on, ..Wave::new(filter.start(), 0, None) }
        });
        if sync == Sync::DontWait || wave.passed_on || wave.attempt != unit.attempt {
            return self.enqueue(unit, from);
        }
        if !wave.covers.is_disjoint(&unit.covers) {
            let repeated = wave.covers.covers(&unit.covers);
            let count = if repeated { &mut self.counts.repeated } else { &mut self.counts.conflicting };
            *count += 1;
            return;
        }
        if let Err(bad) = wave.merged.add(&unit.value) {
            let trouble = Trouble::Value { stream, wave: number, covers: unit.covers, bad };
            return self.tell(Told::Trouble(trouble));
        }
        wave.covers = wave.covers.union(&unit.covers);
        if let Sync::TimeOut { us } = sync {
            let at_us = *wave.fire_at_us.get_or_insert(now_us + us.checked_shr(depth).unwrap_or(0));
            self.waves_due_us = self.waves_due_us.min(at_us);
        }
        if wave.is_complete(target, &self.members) {
            self.pass_on(stream, number);
        }
    }

    /// Sends what a wave has merged so far as one unit.
    fn pass_on(&mut self, stream: u32, number: u64) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        let wave = open.wave(number);
        if wave.passed_on || wave.covers.is_empty() {
            return;
        }
        (wave.passed_on, wave.fire_at_us) = (true, None);
        let covers = std::mem::take(&mut wave.covers);
        let attempt = wave.attempt;
        match wave.merged.bytes() {
            Ok(value) => {
                self.enqueue(Unit { reign: self.reign, stream, wave: number, attempt, covers, value }, None);
            }
            Err(bad) => self.tell(Told::Trouble(Trouble::Value { stream, wave: number, covers, bad })),
        }
    }

    fn enqueue(&mut self, unit: Unit, from: Option<NodeId>) {
        // Room that children have credit for is theirs.
        let is_full = self.queue.len() >= OWN_QUEUE_COUNT_MAX && self.own_queue_count() >= OWN_QUEUE_COUNT_MAX;
        match from.and_then(|from| self.children.get_mut(&from)) {
            Some(child) => child.units_queued += 1,
            None if is_full => {
                self.counts.dropped += 1;
                return;
            }
            None => {}
        }
        self.queue.push_back(Queued { unit, from });
        self.counts.queue_max = self.counts.queue_max.max(self.queue.len());
    }

    /// Units in the queue that are nobody's credit.
    fn own_queue_count(&self) -> usize {
        let of_children: usize = self.children.values().map(|child| child.units_queued as usize).sum();
        self.queue.len().saturating_sub(of_children)
    }

    /// Sends as much of the queue as the parent has given credit for.
    pub(super) fn send_queue(&mut self) {
        while let Some(joined) = self.up.joined.as_mut().filter(|joined| joined.units_sent < joined.credit) {
            let Some(Queued { unit, from }) = self.queue.pop_front() else { return };
            joined.units_sent += 1;
            let frame = Frame { link: joined.link, body: Body::Unit(joined.units_sent, Box::new(unit)) };
            let to = self.setup.ancestors[joined.candidate];
            self.send(to, frame);
            if let Some(from) = from {
                if let Some(child) = self.children.get_mut(&from) {
                    child.units_queued = child.units_queued.saturating_sub(1);
                }
                self.return_credit(from);
            }
        }
    }

    /// A child's link is gone: its units in the queue hold nobody's credit any more.
    pub(super) fn units_orphaned(&mut self, from: NodeId) {
        self.queue.iter_mut().filter(|queued| queued.from == Some(from)).for_each(|queued| queued.from = None);
        let (before, mut own) = (self.queue.len(), 0);
        self.queue.retain(|queued| {
            own += usize::from(queued.from.is_none());
            queued.from.is_some() || own <= OWN_QUEUE_COUNT_MAX
        });
        self.counts.dropped += (before - self.queue.len()) as u64;
    }

    /// Ranks are gone: waves that waited only for them go on.
    pub(super) fn check_waves(&mut self) {
        let mut complete = Vec::new();
        for (stream, open) in &self.streams {
            let done = open.waves.iter().filter(|(_, wave)| wave.is_complete(&open.spec.target, &self.members));
            complete.extend(done.map(|(wave, _)| (*stream, *wave)));
        }
        complete.into_iter().for_each(|(stream, wave)| self.pass_on(stream, wave));
    }

    /// The root lacks some ranks of a wave: what waits goes up as it is, and those ranks contribute again.
    pub(super) fn asked_again(&mut self, stream: u32, wave: u64, attempt: u32, ranks: &RankSet) {
        if self.root.is_none() {
            self.pass_on(stream, wave);
        }
        let Some(open) = self.streams.get_mut(&stream).filter(|open| open.is_open(wave)) else { return };
        let again = Wave::new(open.filter.start(), attempt, Some(ranks.clone()));
        open.waves.insert(wave, again);
        if !self.setup.ranks.is_disjoint(ranks) {
            self.give(stream, wave);
        }
    }

    /// Waves below `below` are over.
    pub(super) fn retire(&mut self, stream: u32, below: u64) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        open.below = open.below.max(below);
        open.waves = from_on(&mut open.waves, below);
        open.kept = from_on(&mut open.kept, below);
        if self.queue.is_empty() {
            // A node at rest keeps no memory for what once waited.
            self.queue.shrink_to_fit();
        }
        if !open.own.is_empty() {
            let below = open.open_below();
            self.tell(Told::Window { stream, below });
        }
    }

    /// Passes on what has waited long enough, here or, at the root, in what was gathered.
    pub(super) fn fire_waves(&mut self) {
        let now_us = self.now_us;
        if now_us < self.waves_due_us {
            // Nearly always; looking through all waves at every event would cost more than the events.
            return;
        }
        let mut due = Vec::new();
        for (stream, open) in &self.streams {
            let fired = open.waves.iter().filter(|(_, wave)| wave.fire_at_us.is_some_and(|at| at <= now_us));
            due.extend(fired.map(|(wave, _)| (*stream, *wave)));
        }
        due.into_iter().for_each(|(stream, wave)| self.pass_on(stream, wave));
        self.gathered_in_time();
        let here = self.streams.values().flat_map(|open| open.waves.values()).filter_map(|wave| wave.fire_at_us);
        self.waves_due_us = here.chain(self.gather_wake_at_us()).min().unwrap_or(u64::MAX);
    }
}
