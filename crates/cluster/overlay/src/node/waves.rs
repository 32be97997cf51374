//! The way up: contributions, merged on the way into runs that name their ranks.
//!
//! A node merges the values of one wave until it has those of all ranks below it, and passes the result on as one. A
//! value that comes later, or belongs to another attempt, is passed on as it is. Values are never repeated by a node:
//! what was lost with a link or a node is asked for again by the root, and only the leaves that are asked contribute
//! again. So dropping any is always safe, and waves can't shift, since each run names its waves.
//!
//! Waves to which the same has happened are kept and handled as one stretch, however many they are.
//!
//! Next: `root` for who gathers them and asks again, `queue` for where they wait, `trimtab-reduce` for how they merge.

use super::stretches::{Cut, Stretch, Stretches};
use super::{Action, Busy, Node, Told, Trouble};
use crate::frame::{Body, Frame, OpenStream, Run};
use crate::limits::{CREDIT, STREAM_COUNT_MAX, WAVE_WINDOW};
use crate::run::RunRef;
use crate::{NodeId, StreamSpec, Sync};
use std::ops::Range;
use std::sync::Arc;
use trimtab_reduce::{Accumulator, AnyFilter, Bad, RankSet, Values, ValuesRef};

/// An open stream.
pub(super) struct Stream {
    pub(super) spec: StreamSpec,
    /// This node's ranks of its target.
    pub(super) own: RankSet,
    pub(super) filter: Arc<dyn AnyFilter>,
    /// The first wave that isn't over.
    pub(super) below: u64,
    /// How many payloads were sent on it.
    pub(super) sent: u64,
    waves: Stretches<Wave>,
    /// This node's contributions to waves that aren't over, to give again.
    kept: Stretches<Values>,
}

/// Waves on their way through a node, to which the same has happened.
struct Wave {
    attempt: u32,
    /// The ranks that were asked; none if everybody was.
    asked: Option<RankSet>,
    merged: Box<dyn Accumulator>,
    covers: RankSet,
    passed_on: bool,
    fire_at_us: Option<u64>,
}

impl Stream {
    /// The waves that may be contributed to.
    pub(super) fn open_waves(&self) -> Range<u64> {
        self.below..self.below.saturating_add(WAVE_WINDOW)
    }

    /// Keeps an own contribution, behind those before if no wave is between.
    fn keep(&mut self, wave: u64, value: ValuesRef<'_>) {
        match self.kept.last_mut() {
            Some(last) if last.waves.end == wave => {
                last.waves.end += 1;
                last.of.extend(value);
            }
            _ => self.kept.insert(wave..wave + 1, value.to_values()),
        }
    }
}

impl Wave {
    fn new(merged: Box<dyn Accumulator>, attempt: u32, asked: Option<RankSet>) -> Self {
        Wave { attempt, asked, merged, covers: RankSet::EMPTY, passed_on: false, fire_at_us: None }
    }

    /// True if all ranks below have contributed that are expected to.
    fn is_complete(&self, target: &RankSet, members: &RankSet) -> bool {
        let asked = self.asked.as_ref().unwrap_or(target);
        !self.passed_on && !self.covers.is_empty() && self.covers.covers_common(asked, members)
    }

    fn may_be_passed_on(&self) -> bool {
        !self.passed_on && !self.covers.is_empty()
    }
}

impl Cut for Wave {
    fn split_off(&mut self, index: usize) -> Self {
        let Wave { attempt, passed_on, fire_at_us, .. } = *self;
        let (asked, covers) = (self.asked.clone(), self.covers.clone());
        Wave { attempt, asked, merged: self.merged.split_off(index), covers, passed_on, fire_at_us }
    }
}

impl Node {
    /// Contributes this node's value to a wave below the window's end that [`Told::Window`] names.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn contribute(&mut self, now_us: u64, stream: u32, wave: u64, value: &[u8]) -> Result<Vec<Action>, Busy> {
        self.put(now_us, stream, wave, value)?;
        Ok(self.flush(now_us))
    }

    /// As [`Node::contribute`], without doing what follows from it: for some contributions, with one
    /// [`Node::flush`] after them.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn put(&mut self, now_us: u64, stream: u32, wave: u64, value: &[u8]) -> Result<(), Busy> {
        self.now_us = self.now_us.max(now_us);
        let Some(open) = self.streams.get_mut(&stream) else { return Err(Busy::NoStream { stream }) };
        if open.own.is_empty() {
            return Err(Busy::NotHere { id: self.setup.id, who: "a node with ranks of the stream's target" });
        }
        let window = open.open_waves();
        if !window.contains(&wave) {
            return Err(Busy::Window { stream, wave, from: window.start, below: window.end });
        }
        if open.kept.get(wave).is_some() {
            return Err(Busy::Twice { stream, wave });
        }
        open.filter.check_bytes(value).map_err(Busy::Bad)?;
        let values = Values::from_iter([value]);
        open.keep(wave, values.view());
        self.give(stream, wave, values);
        Ok(())
    }

    /// Does what follows from contributions that were put.
    pub fn flush(&mut self, now_us: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        self.flush_into(now_us, &mut actions);
        actions
    }

    /// As [`Node::flush`], puts what is to be done behind `actions`.
    pub fn flush_into(&mut self, now_us: u64, actions: &mut Vec<Action>) {
        self.lend(actions);
        self.now_us = self.now_us.max(now_us);
        self.after(actions);
    }

    /// Puts contributions of this node on their way.
    fn give(&mut self, stream: u32, wave: u64, values: Values) {
        let is_leaf = self.children.is_empty() && self.root.is_none();
        let Some(open) = self.streams.get(&stream) else { return };
        let run = Run::own(self.epoch, stream, wave, open.own.clone(), values);
        if is_leaf && open.waves.first_in(&run.view().waves()).is_none() {
            // Nothing to merge with: a leaf remembers only what it contributed.
            self.queue.push_own(run);
        } else {
            self.merge(run.view(), None);
        }
    }

    pub(super) fn open_stream(&mut self, open: &OpenStream) {
        let OpenStream { stream: number, ref spec, below, sent } = *open;
        let limit = Bad::TooMany { filter: "a tree", count: self.streams.len() + 1, count_max: STREAM_COUNT_MAX };
        let room = if self.streams.len() < STREAM_COUNT_MAX { Ok(()) } else { Err(limit) };
        let registry = &self.setup.registry;
        match room.and_then(|()| registry.build(&spec.filter)) {
            Err(bad) => self.tell(Told::Trouble(Box::new(Trouble::Stream { stream: number, bad }))),
            Ok(filter) => {
                let (waves, kept) = (Stretches::default(), Stretches::default());
                let own = self.setup.ranks.intersection(&spec.target);
                let has_ranks = !own.is_empty();
                let stream = Stream { spec: spec.clone(), own, filter, below, sent, waves, kept };
                self.streams.insert(number, Box::new(stream));
                if has_ranks {
                    self.tell(Told::Opened { stream: number, spec: Box::new(spec.clone()), wave: below, sent });
                    self.tell(Told::Window { stream: number, below: below.saturating_add(WAVE_WINDOW) });
                }
            }
        }
    }

    /// Results of a child.
    pub(super) fn units_came(&mut self, from: NodeId, first: u32, run: &Run) {
        let Some(child) = self.children.get_mut(&from) else { return };
        let mut run = run.view();
        // Beyond its credit by more than what may have overtaken, or again and again: not a child that follows the rules.
        let told = child.credit_told.checked_sub(first).map_or(0, |left| left.saturating_add(1));
        let taken = told.min(CREDIT.saturating_sub(child.units_queued)).min(run.unit_count() as u32);
        self.counts.dropped += run.unit_count() as u64 - u64::from(taken);
        if taken == 0 {
            return;
        }
        child.units_received = child.units_received.max(first + (taken - 1));
        run = run.split_to(taken as usize);
        let is_ours = run.epoch == self.epoch && !run.covers.is_empty();
        let open = self.streams.get(&run.stream).filter(|_| is_ours).map_or(0..0, |stream| stream.open_waves());
        let of_time = run.within(&open);
        self.counts.late += u64::from(taken) - of_time.unit_count() as u64;
        self.merge(of_time, Some(from));
        self.return_credit(from);
    }

    /// Merges a run into its waves, or puts it into the queue as it is. All its waves are open.
    fn merge(&mut self, mut run: RunRef<'_>, from: Option<NodeId>) {
        while run.unit_count() > 0 {
            if self.root.is_some() {
                self.gather_some(&mut run);
            } else {
                self.merge_some(&mut run, from);
            }
        }
    }

    /// Takes as much of a run as belongs to one stretch of waves, and does with it what that needs.
    fn merge_some(&mut self, run: &mut RunRef<'_>, from: Option<NodeId>) {
        let (now_us, depth, whole) = (self.now_us, self.depth(), *run);
        let Some(open) = self.streams.get_mut(&run.stream) else { return run.drop_all() };
        let Stream { spec, filter, waves, kept, .. } = &mut **open;
        if spec.sync == Sync::DontWait {
            run.drop_all();
            return self.enqueue(whole, from);
        }
        // This node's contributions from before it had children are on their way already.
        let (is_kept, alike) = if from.is_some() { kept.alike(&run.waves()) } else { (false, run.waves()) };
        let begin = |count| Wave { passed_on: is_kept, ..Wave::new(filter.start(count), 0, None) };
        let stretch = waves.place(alike, begin);
        let mut piece = run.split_to(stretch.wave_count());
        let wave = &mut stretch.of;
        if from.is_none() {
            piece.attempt = wave.attempt;
        }
        if wave.passed_on || wave.attempt != piece.attempt {
            return self.enqueue(piece, from);
        }
        if !wave.covers.is_disjoint(piece.covers) {
            let repeated = wave.covers.covers(piece.covers);
            let count = if repeated { &mut self.counts.repeated } else { &mut self.counts.conflicting };
            *count += piece.unit_count() as u64;
            return;
        }
        let merged = wave.merged.add_all(piece.values);
        if let Err((index, _)) = merged {
            piece = waves.leave_out(index, whole, run);
        }
        if let Some(stretch) = waves.get_mut(piece.wave).filter(|_| piece.unit_count() > 0) {
            stretch.of.covers.take_in(piece.covers);
            if let Sync::TimeOut { us } = spec.sync {
                let after_us = us.checked_shr(depth).unwrap_or(0);
                let at_us = *stretch.of.fire_at_us.get_or_insert(now_us + after_us);
                self.waves_due_us = self.waves_due_us.min(at_us);
            }
            if stretch.of.is_complete(&spec.target, &self.members) {
                self.pass_on(piece.stream, piece.wave);
            }
        }
        if let Err((index, bad)) = merged {
            self.tell_bad(whole.stream, whole.wave + index as u64, whole.covers, bad);
        }
    }

    /// A value was left out.
    pub(super) fn tell_bad(&mut self, stream: u32, wave: u64, covers: &RankSet, bad: Bad) {
        self.tell(Told::Trouble(Box::new(Trouble::Value { stream, wave, covers: covers.clone(), bad })));
    }

    /// Sends what the stretch of a wave has merged so far.
    fn pass_on(&mut self, stream: u32, wave: u64) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        let Some(stretch) = open.waves.get_mut(wave).filter(|stretch| stretch.of.may_be_passed_on()) else { return };
        let (waves, of) = (stretch.waves.clone(), &mut stretch.of);
        (of.passed_on, of.fire_at_us) = (true, None);
        let (covers, mut values, mut wave, mut bad_ones) =
            (std::mem::take(&mut of.covers), Values::default(), waves.start, vec![]);
        let (queue, epoch, attempt) = (&mut self.queue, self.epoch, of.attempt);
        let mut send = |wave, values: &Values| {
            queue.push(RunRef { epoch, stream, wave, attempt, covers: &covers, values: values.view() }, None);
        };
        for (index, at) in waves.clone().enumerate() {
            if let Err(bad) = values.push_with(|out| of.merged.put(index, out)) {
                send(wave, &std::mem::take(&mut values));
                wave = at + 1;
                bad_ones.push((at, bad));
            }
        }
        send(wave, &values);
        bad_ones.into_iter().for_each(|(wave, bad)| self.tell_bad(stream, wave, &covers, bad));
    }

    fn enqueue(&mut self, run: RunRef<'_>, from: Option<NodeId>) {
        match from.and_then(|from| self.children.get_mut(&from)) {
            Some(child) => {
                child.units_queued += run.unit_count() as u32;
                self.queue.push(run, from);
            }
            // A child that is gone has no credit any more.
            None => self.queue.push(run, None),
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
            let done = open.waves.iter().filter(|stretch| stretch.of.is_complete(&open.spec.target, &self.members));
            complete.extend(done.map(|stretch| (*stream, stretch.waves.start)));
        }
        complete.into_iter().for_each(|(stream, wave)| self.pass_on(stream, wave));
    }

    /// The root lacks some ranks of some waves: what waits goes up as it is, and those ranks contribute again.
    pub(super) fn asked_again(&mut self, stream: u32, waves: &Range<u64>, attempt: u32, ranks: &RankSet) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        let window = open.open_waves();
        let waves = waves.start.max(window.start)..waves.end.min(window.end);
        if waves.is_empty() {
            return;
        }
        let begun = open.waves.cut_out(&waves);
        begun.into_iter().for_each(|wave| self.pass_on(stream, wave));
        let Some(open) = self.streams.get_mut(&stream) else { return };
        let merged = open.filter.start((waves.end - waves.start) as usize);
        open.waves.insert(waves.clone(), Wave::new(merged, attempt, Some(ranks.clone())));
        if self.setup.ranks.is_disjoint(ranks) {
            return;
        }
        let part = |kept: &Stretch<Values>| {
            let from = kept.waves.start.max(waves.start);
            let mut rest = kept.of.view().behind((from - kept.waves.start) as usize);
            (from, rest.split_to((waves.end.min(kept.waves.end) - from) as usize).to_values())
        };
        let again: Vec<(u64, Values)> = open.kept.within(&waves).map(part).collect();
        again.into_iter().for_each(|(wave, values)| self.give(stream, wave, values));
    }

    /// Waves below `below` are over.
    pub(super) fn retire(&mut self, stream: u32, below: u64) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        open.below = open.below.max(below);
        open.waves.drop_below(below);
        open.kept.drop_below(below);
        self.queue.rest();
        if !open.own.is_empty() {
            let below = open.open_waves().end;
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
            let fired = open.waves.iter().filter(|stretch| stretch.of.fire_at_us.is_some_and(|at| at <= now_us));
            due.extend(fired.map(|stretch| (*stream, stretch.waves.start)));
        }
        due.into_iter().for_each(|(stream, wave)| self.pass_on(stream, wave));
        self.gathered_in_time();
        let all = self.streams.values().flat_map(|open| open.waves.iter());
        let here = all.filter_map(|stretch| stretch.of.fire_at_us);
        self.waves_due_us = here.chain(self.gather_wake_at_us()).min().unwrap_or(u64::MAX);
    }
}
