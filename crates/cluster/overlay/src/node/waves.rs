//! What goes up: contributions, merged on the way into units that name their ranks.
//!
//! A node merges the units of one wave until it has those of all ranks below it, and passes the result on as one unit.
//! What comes later, or belongs to another attempt, is passed on as it is. Units are never repeated by a node: what was
//! lost with a link or a node is asked for again by the root, and only the leaves that are asked contribute again. So
//! dropping a unit is always safe, and waves can't shift, since each unit names its wave.
//!
//! Next: `root` for who gathers them and asks again, `queue` for where they wait, `trimtab-reduce` for how they merge.

use super::ring::Ring;
use super::{Busy, Node, Told, Trouble};
use crate::frame::{Body, Frame, Run};
use crate::limits::{CREDIT, RUN_COUNT_MAX, STREAM_COUNT_MAX};
use crate::unit::UnitRef;
use crate::{NodeId, StreamSpec, Sync};
use std::borrow::Cow;
use std::sync::Arc;
use trimtab_reduce::{Accumulator, AnyFilter, Bad, DownFilter, RankSet};

/// An open stream.
pub(super) struct Stream {
    pub(super) spec: StreamSpec,
    /// This node's ranks of its target.
    own: RankSet,
    pub(super) filter: Arc<dyn AnyFilter>,
    pub(super) down: Option<Arc<dyn DownFilter>>,
    /// The first wave that isn't over.
    pub(super) below: u64,
    waves: Ring<Wave>,
    /// This node's contributions to waves that aren't over, to give again.
    kept: Ring<Vec<u8>>,
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

impl Stream {
    fn is_open(&self, wave: u64) -> bool {
        (self.below..self.open_below()).contains(&wave)
    }

    /// The first wave that may not be contributed to yet.
    fn open_below(&self) -> u64 {
        self.below.saturating_add(self.spec.wave_window())
    }
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
        self.put(now_us, stream, wave, value)?;
        Ok(self.flush(now_us))
    }

    /// As [`Node::contribute`], without doing what follows from it: for many contributions, with one
    /// [`Node::flush`] after them.
    pub fn put(&mut self, now_us: u64, stream: u32, wave: u64, value: Vec<u8>) -> Result<(), Busy> {
        self.now_us = self.now_us.max(now_us);
        let Some(open) = self.streams.get_mut(&stream) else { return Err(Busy::NoStream { stream }) };
        if open.own.is_empty() {
            return Err(Busy::NotHere { id: self.setup.id, who: "a node with ranks of the stream's target" });
        }
        if !open.is_open(wave) {
            return Err(Busy::Window { stream, wave, from: open.below, below: open.open_below() });
        }
        if open.kept.contains(wave) {
            return Err(Busy::Twice { stream, wave });
        }
        open.filter.check_bytes(&value).map_err(Busy::Bad)?;
        open.kept.insert(wave, value);
        self.give(stream, wave);
        if self.queue.unit_count() >= RUN_COUNT_MAX {
            // As soon as there is credit: what waits here is bounded.
            self.send_queue();
        }
        Ok(())
    }

    /// Does what follows from contributions that were put.
    pub fn flush(&mut self, now_us: u64) -> Vec<super::Action> {
        self.now_us = self.now_us.max(now_us);
        self.after()
    }

    /// Puts the kept contribution of a wave on its way.
    fn give(&mut self, stream: u32, wave: u64) {
        let is_leaf = self.children.is_empty() && self.root.is_none();
        let Some(open) = self.streams.get(&stream) else { return };
        let Some(value) = open.kept.get(wave) else { return };
        let begun = open.waves.get(wave);
        let attempt = begun.map_or(0, |begun| begun.attempt);
        let unit = UnitRef { reign: self.reign, stream, wave, attempt, covers: &open.own, value: Cow::Borrowed(value) };
        if is_leaf && begun.is_none() {
            // Nothing to merge with: a leaf remembers only what it contributed.
            return self.queue.push(unit, None);
        }
        let (covers, value) = (open.own.clone(), Cow::Owned(value.clone()));
        self.merge(UnitRef { reign: self.reign, stream, wave, attempt, covers: &covers, value }, None);
    }

    pub(super) fn open_stream(&mut self, number: u32, spec: &StreamSpec, below: u64) {
        let limit = Bad::TooMany { filter: "a tree", count: self.streams.len() + 1, count_max: STREAM_COUNT_MAX };
        let room = if self.streams.len() < STREAM_COUNT_MAX { Ok(()) } else { Err(limit) };
        let registry = &self.setup.registry;
        match room.and_then(|()| Ok((registry.build(&spec.filter)?, registry.build_down(&spec.down)?))) {
            Err(bad) => self.tell(Told::Trouble(Trouble::Stream { stream: number, bad })),
            Ok((filter, down)) => {
                let (waves, kept) = (Ring::new(below), Ring::new(below));
                let own = self.setup.ranks.intersection(&spec.target);
                let has_ranks = !own.is_empty();
                let stream = Stream { spec: spec.clone(), own, filter, down, below, waves, kept };
                self.streams.insert(number, Box::new(stream));
                if has_ranks {
                    self.tell(Told::Opened { stream: number, spec: spec.clone(), wave: below });
                    self.tell(Told::Window { stream: number, below: below + spec.wave_window() });
                }
            }
        }
    }

    /// Units of a child.
    pub(super) fn units_came(&mut self, from: NodeId, first: u32, run: &Run) {
        let Some(child) = self.children.get_mut(&from) else { return };
        // Beyond its credit by more than what may have overtaken, or again and again: not a child that follows the rules.
        let told = child.credit_told.checked_sub(first).map_or(0, |left| left.saturating_add(1));
        let taken = told.min(CREDIT.saturating_sub(child.units_queued)).min(run.unit_count() as u32);
        self.counts.dropped += run.unit_count() as u64 - u64::from(taken);
        if taken == 0 {
            return;
        }
        child.units_received = child.units_received.max(first + (taken - 1));
        for unit in run.units().take(taken as usize) {
            let open = self.streams.get(&unit.stream).is_some_and(|stream| stream.is_open(unit.wave));
            if !open || unit.reign != self.reign || unit.covers.is_empty() {
                self.counts.late += 1;
            } else {
                self.merge(unit, Some(from));
            }
        }
        self.return_credit(from);
    }

    /// Merges a unit into its wave, or puts it into the queue as it is.
    fn merge(&mut self, unit: UnitRef<'_>, from: Option<NodeId>) {
        if self.root.is_some() {
            return self.gather(unit);
        }
        let (now_us, depth) = (self.now_us, self.depth());
        let Some(open) = self.streams.get_mut(&unit.stream) else { return };
        let (stream, number) = (unit.stream, unit.wave);
        let Stream { spec, filter, waves, kept, .. } = &mut **open;
        let (target, sync) = (&spec.target, spec.sync);
        let wave = waves.get_or_insert_with(number, || {
            // What this node contributed while it had no children is on its way already.
            let passed_on = from.is_some() && kept.contains(number);
            Wave { passed_on, ..Wave::new(filter.start(), 0, None) }
        });
        let Some(wave) = wave else { return };
        if sync == Sync::DontWait || wave.passed_on || wave.attempt != unit.attempt {
            return self.enqueue(unit, from);
        }
        if !wave.covers.is_disjoint(unit.covers) {
            let repeated = wave.covers.covers(unit.covers);
            let count = if repeated { &mut self.counts.repeated } else { &mut self.counts.conflicting };
            *count += 1;
            return;
        }
        if let Err(bad) = wave.merged.add(&unit.value) {
            let trouble = Trouble::Value { stream, wave: number, covers: unit.covers.clone(), bad };
            return self.tell(Told::Trouble(trouble));
        }
        wave.covers.take_in(unit.covers);
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
        let begun = open.waves.get_mut(number).filter(|wave| !wave.passed_on && !wave.covers.is_empty());
        let Some(wave) = begun else { return };
        (wave.passed_on, wave.fire_at_us) = (true, None);
        let covers = std::mem::take(&mut wave.covers);
        let attempt = wave.attempt;
        match wave.merged.bytes() {
            Ok(value) => {
                let (covers, value) = (&covers, Cow::Owned(value));
                self.queue.push(UnitRef { reign: self.reign, stream, wave: number, attempt, covers, value }, None);
            }
            Err(bad) => self.tell(Told::Trouble(Trouble::Value { stream, wave: number, covers, bad })),
        }
    }

    fn enqueue(&mut self, unit: UnitRef<'_>, from: Option<NodeId>) {
        match from.and_then(|from| self.children.get_mut(&from)) {
            Some(child) => {
                child.units_queued += 1;
                self.queue.push(unit, from);
            }
            // Who is gone has no credit any more.
            None => self.queue.push(unit, None),
        }
    }

    /// Sends as much of the queue as the parent has given credit for.
    pub(super) fn send_queue(&mut self) {
        while let Some(joined) = &mut self.up.joined {
            let credit = joined.credit.saturating_sub(joined.units_sent);
            let Some((run, from)) = self.queue.pop(credit as usize) else { return };
            let (first, count) = (joined.units_sent + 1, run.unit_count() as u32);
            joined.units_sent += count;
            let frame = Frame { link: joined.link, body: Body::Units(first, run) };
            let to = self.setup.ancestors[joined.candidate];
            self.send(to, frame);
            if let Some(from) = from {
                if let Some(child) = self.children.get_mut(&from) {
                    child.units_queued = child.units_queued.saturating_sub(count);
                }
                self.return_credit(from);
            }
        }
    }

    /// Ranks are gone: waves that waited only for them go on.
    pub(super) fn check_waves(&mut self) {
        let mut complete = Vec::new();
        for (stream, open) in &self.streams {
            let done = open.waves.iter().filter(|(_, wave)| wave.is_complete(&open.spec.target, &self.members));
            complete.extend(done.map(|(wave, _)| (*stream, wave)));
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
        open.waves.drop_below(below);
        open.kept.drop_below(below);
        self.queue.rest();
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
            due.extend(fired.map(|(wave, _)| (*stream, wave)));
        }
        due.into_iter().for_each(|(stream, wave)| self.pass_on(stream, wave));
        self.gathered_in_time();
        let here = self.streams.values().flat_map(|open| open.waves.iter()).filter_map(|(_, wave)| wave.fire_at_us);
        self.waves_due_us = here.chain(self.gather_wake_at_us()).min().unwrap_or(u64::MAX);
    }
}
