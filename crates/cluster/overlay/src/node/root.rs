//! The controller's part: making commands, gathering waves, asking again, and saying what a result covers.
//!
//! The root takes a value if it shares no rank with what it has of that wave; so nothing counts twice, whatever way it
//! came. A wave is complete when all ranks of the target are in it that are in the tree, or were until a moment ago:
//! orphans get the time to find another parent. A value that is missing from a complete-looking tree was lost on the
//! way, and is asked for again, those ranks only.
//!
//! Next: `waves` for the nodes between, `commands` for how commands travel.

use super::stretches::{Cut, Stretch, Stretches};
use super::{Action, Busy, Node, Told, WaveResult};
use crate::frame::Command;
use crate::limits::{LOG_COUNT_MAX, PAYLOAD_BYTES_MAX, STREAM_COUNT_MAX, WAVE_WINDOW};
use crate::run::RunRef;
use crate::{StreamSpec, Sync};
use std::collections::BTreeMap;
use trimtab_reduce::{Accumulator, Bad, RankSet};

/// How long after a change of membership the root asks again, in gathering times: others may change with it.
const AGAIN_SOON: u64 = 4;
/// Pauses between requests double up to this factor: a slow rank is not a lost one.
const AGAIN_FACTOR_MAX: u64 = 16;

/// State that only the root has.
#[derive(Default)]
pub(super) struct Root {
    began_us: Option<u64>,
    next_stream: u32,
    /// Lost ranks that may come back in time, and until when.
    away: Vec<(RankSet, u64)>,
    /// By stream.
    gathers: BTreeMap<u32, Stretches<Gather>>,
    /// The first wave of each stream whose result isn't out, as announced.
    retired: BTreeMap<u32, u64>,
}

/// Waves at the root to which the same has happened.
struct Gather {
    merged: Box<dyn Accumulator>,
    covers: RankSet,
    attempt: u32,
    /// When all that is missing is asked for, and the pause after that, as a factor.
    again_at_us: u64,
    again_factor: u64,
    /// Ranks that have just come back, whose contributions may be lost, and when they alone are asked.
    suspects: RankSet,
    suspects_at_us: Option<u64>,
    fire_at_us: Option<u64>,
    is_done: bool,
}

impl Root {
    fn gather(&self, (stream, wave): (u32, u64)) -> Option<&Stretch<Gather>> {
        self.gathers.get(&stream)?.get(wave)
    }

    fn gather_mut(&mut self, (stream, wave): (u32, u64)) -> Option<&mut Stretch<Gather>> {
        self.gathers.get_mut(&stream)?.get_mut(wave)
    }

    /// Those of which the results aren't out, by stream and first wave.
    fn open(&self) -> impl Iterator<Item = ((u32, u64), &Gather)> {
        let all = self
            .gathers
            .iter()
            .flat_map(|(stream, all)| all.iter().map(move |stretch| ((*stream, stretch.waves.start), &stretch.of)));
        all.filter(|(_, gather)| !gather.is_done)
    }
}

impl Node {
    /// Opens a stream over all nodes; its number.
    pub fn open(&mut self, now_us: u64, spec: StreamSpec) -> Result<(u32, Vec<Action>), Busy> {
        self.may_command(now_us)?;
        self.setup.registry.build(&spec.filter).map_err(Busy::Bad)?;
        let count = self.streams.len() + 1;
        if count > STREAM_COUNT_MAX {
            return Err(Busy::Bad(Bad::TooMany { filter: "a tree", count, count_max: STREAM_COUNT_MAX }));
        }
        let root = self.root.get_or_insert_default();
        let stream = root.next_stream;
        root.next_stream += 1;
        self.append(Command::Open { stream, spec: Box::new(spec) }.into());
        Ok((stream, self.done()))
    }

    /// Ends a stream; waves that aren't over have no result.
    pub fn close(&mut self, now_us: u64, stream: u32) -> Result<Vec<Action>, Busy> {
        self.may_command(now_us)?;
        self.append(Command::Close { stream }.into());
        if let Some(root) = &mut self.root {
            root.gathers.remove(&stream);
            root.retired.remove(&stream);
        }
        Ok(self.done())
    }

    /// Sends a payload to the leaves of a stream with these ranks.
    pub fn multicast(&mut self, now_us: u64, stream: u32, to: RankSet, payload: Vec<u8>) -> Result<Vec<Action>, Busy> {
        let mut actions = Vec::new();
        self.multicast_into(now_us, stream, to, payload, &mut actions)?;
        Ok(actions)
    }

    /// As [`Node::multicast`], puts what is to be done behind `actions`.
    ///
    /// # Errors
    /// As [`Node::multicast`]; nothing is put there then.
    pub fn multicast_into(
        &mut self,
        now_us: u64,
        stream: u32,
        to: RankSet,
        payload: Vec<u8>,
        actions: &mut Vec<Action>,
    ) -> Result<(), Busy> {
        self.may_command(now_us)?;
        if !self.streams.contains_key(&stream) {
            return Err(Busy::NoStream { stream });
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(Busy::Bad(Bad::TooLong { byte_count: payload.len() }));
        }
        self.lend(actions);
        self.append(Command::Data { stream, to, payload }.into());
        self.after(actions);
        Ok(())
    }

    fn may_command(&mut self, now_us: u64) -> Result<(), Busy> {
        self.now_us = self.now_us.max(now_us);
        if self.root.is_none() {
            return Err(Busy::NotHere { id: self.setup.id, who: "the controller" });
        }
        if self.log.is_full() { Err(Busy::Commands { count: LOG_COUNT_MAX }) } else { Ok(()) }
    }

    /// How long the controller has been there.
    pub(super) fn root_age_us(&self) -> u64 {
        let began_us = self.root.as_ref().and_then(|root| root.began_us);
        began_us.map_or(0, |began_us| self.now_us - began_us)
    }

    /// Takes as much of a run that has arrived at the root as belongs to one stretch of waves.
    pub(super) fn gather_some(&mut self, run: &mut RunRef<'_>) {
        let (now_us, whole) = (self.now_us, *run);
        let soon_us = now_us + AGAIN_SOON * self.setup.timing.gather_us;
        self.expect_waves(run.stream, run.waves().end);
        let (Some(root), Some(open)) = (&mut self.root, self.streams.get(&run.stream)) else { return run.drop_all() };
        let Some(gathers) = root.gathers.get_mut(&run.stream) else { return run.drop_all() };
        let begin = |count| Gather::new(open.filter.start(count), now_us + self.setup.timing.again_us);
        let stretch = gathers.place(run.waves(), begin);
        let mut piece = run.split_to(stretch.wave_count());
        let gather = &mut stretch.of;
        if gather.is_done {
            self.counts.late += piece.unit_count() as u64;
            return;
        }
        if !gather.covers.is_disjoint(piece.covers) {
            match gather.covers.covers(piece.covers) {
                true => self.counts.repeated += piece.unit_count() as u64,
                false => {
                    self.counts.conflicting += piece.unit_count() as u64;
                    gather.suspect(piece.covers, soon_us);
                    self.waves_due_us = self.waves_due_us.min(soon_us);
                }
            }
            return;
        }
        let merged = gather.merged.add_all(piece.values);
        if let Err((index, _)) = merged {
            piece = gathers.leave_out(index, whole, run);
        }
        if let Some(stretch) = gathers.get_mut(piece.wave).filter(|_| piece.unit_count() > 0) {
            stretch.of.covers.take_in(piece.covers);
            if let Sync::TimeOut { us } = open.spec.sync {
                let at_us = *stretch.of.fire_at_us.get_or_insert(now_us + us);
                self.waves_due_us = self.waves_due_us.min(at_us);
            }
            if open.spec.sync == Sync::DontWait {
                let missing = open.spec.target.minus(&stretch.of.covers);
                self.tell_each(&piece, &missing);
            }
            self.finish_if_complete((piece.stream, piece.wave));
        }
        if let Err((index, bad)) = merged {
            self.tell_bad(whole.stream, whole.wave + index as u64, whole.covers, bad);
        }
    }

    /// Gives out contributions by themselves.
    fn tell_each(&mut self, piece: &RunRef<'_>, missing: &RankSet) {
        for (wave, value) in piece.waves().zip(piece.values) {
            let (covers, missing) = (piece.covers.clone(), missing.clone());
            let result = WaveResult { stream: piece.stream, wave, covers, missing, value: value.to_vec() };
            self.tell(Told::Result(Box::new(result)));
        }
    }

    /// Begins to gather the waves below one that exist. Everybody contributes in order, so those before it exist too;
    /// and the oldest may, though everything of it was lost: it is asked for even if nothing ever came.
    fn expect_waves(&mut self, stream: u32, end: u64) {
        let again_at_us = self.now_us + self.setup.timing.again_us;
        let (Some(root), Some(open)) = (&mut self.root, self.streams.get(&stream)) else { return };
        let gathers = root.gathers.entry(stream).or_default();
        // Without gaps up to the last of them.
        let next = gathers.last_mut().map_or(open.below, |last| last.waves.end.max(open.below));
        if next < end {
            gathers.place(next..end, |count| Gather::new(open.filter.start(count), again_at_us));
            self.waves_due_us = self.waves_due_us.min(again_at_us);
        }
    }

    fn expect_oldest(&mut self, stream: u32) {
        let Some(root) = &self.root else { return };
        let Some(open) = self.streams.get(&stream) else { return };
        let oldest = root.gathers.get(&stream).map_or(open.below, |gathers| first_open(gathers, open.below));
        if open.open_waves().contains(&oldest) {
            self.expect_waves(stream, oldest + 1);
        }
    }

    /// Ranks in the tree, and those that may come back.
    fn awaited(&self) -> RankSet {
        let away = self.root.iter().flat_map(|root| &root.away).map(|(ranks, _)| ranks);
        RankSet::union_of(away.chain([&self.members]))
    }

    fn finish_if_complete(&mut self, key: (u32, u64)) {
        let (Some(root), Some(open)) = (&self.root, self.streams.get(&key.0)) else { return };
        let Some(gather) = root.gather(key).map(|stretch| &stretch.of).filter(|gather| !gather.is_done) else { return };
        let has_all = |awaited| !gather.covers.is_empty() && gather.covers.covers_common(&open.spec.target, awaited);
        // Nearly always nobody is away, and no set needs to be made.
        if has_all(&self.members) && (root.away.is_empty() || has_all(&self.awaited())) {
            self.finish(key);
        }
    }

    /// Gives out the results of the stretch with a wave, and ends all waves up to the first that has none.
    fn finish(&mut self, key: (u32, u64)) {
        let (Some(root), Some(open)) = (&mut self.root, self.streams.get(&key.0)) else { return };
        let Some(stretch) = root.gather_mut(key) else { return };
        stretch.of.is_done = true;
        if open.spec.sync != Sync::DontWait {
            let gather = &stretch.of;
            let missing = open.spec.target.minus(&gather.covers);
            let mut bad_ones = Vec::new();
            for (index, wave) in stretch.waves.clone().enumerate() {
                let mut value = Vec::new();
                match gather.merged.put(index, &mut value) {
                    Ok(()) => {
                        let (covers, missing) = (gather.covers.clone(), missing.clone());
                        let result = WaveResult { stream: key.0, wave, covers, missing, value };
                        self.out.push(Action::Tell(Told::Result(Box::new(result))));
                    }
                    Err(bad) => bad_ones.push((wave, bad)),
                }
            }
            let covers = gather.covers.clone();
            bad_ones.into_iter().for_each(|(wave, bad)| self.tell_bad(key.0, wave, &covers, bad));
        }
        self.retire_done(key.0, WAVE_WINDOW / 2);
    }

    /// Announces that the oldest waves of a stream are over, if there are so many.
    fn retire_done(&mut self, stream: u32, step: u64) {
        let Some(root) = &mut self.root else { return };
        let announced = root.retired.entry(stream).or_default();
        let Some(gathers) = root.gathers.get_mut(&stream) else { return };
        let is_done = |wave: u64| gathers.get(wave).is_some_and(|stretch| stretch.of.is_done);
        // The last one needed is nearly always missing; then the others needn't be looked at.
        if self.is_owner_behind || self.log.is_full() || !is_done(*announced + step - 1) {
            return;
        }
        let below = first_open(gathers, *announced);
        if below < *announced + step {
            return;
        }
        *announced = below;
        gathers.drop_below(below);
        self.append(Command::Retire { stream, below }.into());
    }

    /// Announces whatever is over in all streams.
    pub(super) fn retire_all(&mut self) {
        for stream in self.streams.keys().copied().collect::<Vec<_>>() {
            self.retire_done(stream, 1);
        }
    }

    /// Ranks have come or gone.
    pub(super) fn root_members_changed(&mut self, before: &RankSet) {
        let (gained, lost) = (self.members.minus(before), before.minus(&self.members));
        let until_us = self.now_us + self.setup.timing.return_us;
        let soon_us = self.now_us + AGAIN_SOON * self.setup.timing.gather_us;
        let Some(root) = &mut self.root else { return };
        let before_away = RankSet::union_of(root.away.iter().map(|(ranks, _)| ranks));
        root.away.iter_mut().for_each(|(ranks, _)| *ranks = ranks.minus(&gained));
        root.away.retain(|(ranks, _)| !ranks.is_empty());
        if !lost.is_empty() {
            root.away.push((lost, until_us));
        }
        let gathers = root.gathers.values_mut().flat_map(Stretches::iter_mut);
        gathers.for_each(|stretch| stretch.of.suspect(&gained, soon_us));
        self.waves_due_us = self.waves_due_us.min(soon_us);
        let gained = gained.minus(&before_away);
        if !gained.is_empty() {
            self.tell(Told::Ranks { gained, lost: RankSet::EMPTY });
        }
    }

    /// Work that falls due at the root as time passes.
    pub(super) fn root_beat(&mut self) {
        let now_us = self.now_us;
        let Some(root) = &mut self.root else { return };
        if root.began_us.replace(root.began_us.unwrap_or(now_us)).is_none() {
            self.tell_agent(Told::Adopt);
        }
        let Some(root) = &mut self.root else { return };
        let gone = RankSet::union_of(root.away.iter().filter(|(_, until)| *until <= now_us).map(|(ranks, _)| ranks));
        if !gone.is_empty() {
            root.away.retain(|(_, until)| *until > now_us);
            self.tell(Told::Ranks { gained: RankSet::EMPTY, lost: gone });
        }
        let open: Vec<(u32, u64)> = self.root.iter().flat_map(Root::open).map(|(key, _)| key).collect();
        open.into_iter().for_each(|key| self.finish_if_complete(key));
        for stream in self.streams.keys().copied().collect::<Vec<_>>() {
            // A slow stream's leavings are announced too, in time: the leaves keep them until then.
            self.retire_done(stream, 1);
            self.expect_oldest(stream);
        }
    }

    /// Finishes waves whose time is up, and asks again for what others lack.
    pub(super) fn gathered_in_time(&mut self) {
        let now_us = self.now_us;
        let Some(root) = &self.root else { return };
        let (mut due, mut again) = (Vec::new(), Vec::new());
        for (key, gather) in root.open() {
            if gather.fire_at_us.is_some_and(|at| at <= now_us) {
                due.push(key);
            } else if gather.ask_at_us() <= now_us {
                again.push(key);
            }
        }
        due.into_iter().for_each(|key| self.finish(key));
        again.into_iter().for_each(|key| self.ask_again(key));
    }

    fn ask_again(&mut self, (stream, wave): (u32, u64)) {
        let is_full = self.log.is_full();
        let pause_us = self.setup.timing.again_us;
        let (Some(root), Some(open)) = (&mut self.root, self.streams.get(&stream)) else { return };
        let Some(stretch) = root.gather_mut((stream, wave)) else { return };
        let (waves, gather) = (stretch.waves.clone(), &mut stretch.of);
        let missing = open.spec.target.intersection(&self.members).minus(&gather.covers);
        let suspects = std::mem::take(&mut gather.suspects);
        gather.suspects_at_us = None;
        let ranks = if gather.again_at_us <= self.now_us {
            gather.again_at_us = self.now_us + pause_us * gather.again_factor;
            gather.again_factor = (gather.again_factor * 2).min(AGAIN_FACTOR_MAX);
            missing
        } else {
            missing.intersection(&suspects)
        };
        if ranks.is_empty() || is_full {
            return;
        }
        gather.attempt += 1;
        let attempt = gather.attempt;
        self.append(Command::Again { stream, waves, attempt, ranks }.into());
    }

    /// When a wave at the root will have waited long enough.
    pub(super) fn gather_wake_at_us(&self) -> Option<u64> {
        let open = self.root.iter().flat_map(Root::open);
        open.map(|(_, gather)| gather.fire_at_us.unwrap_or(u64::MAX).min(gather.ask_at_us())).min()
    }
}

/// The first wave from `from` on whose result isn't out.
fn first_open(gathers: &Stretches<Gather>, from: u64) -> u64 {
    let mut next = from;
    while let Some(done) = gathers.get(next).filter(|stretch| stretch.of.is_done) {
        next = done.waves.end;
    }
    next
}

impl Cut for Gather {
    fn split_off(&mut self, index: usize) -> Self {
        let merged = self.merged.split_off(index);
        Gather { merged, covers: self.covers.clone(), suspects: self.suspects.clone(), ..*self }
    }
}

impl Gather {
    fn new(merged: Box<dyn Accumulator>, again_at_us: u64) -> Self {
        Gather {
            merged,
            covers: RankSet::EMPTY,
            attempt: 0,
            again_at_us,
            again_factor: 1,
            suspects: RankSet::EMPTY,
            suspects_at_us: None,
            fire_at_us: None,
            is_done: false,
        }
    }

    /// These ranks' contributions may be lost, if they are not here yet.
    fn suspect(&mut self, ranks: &RankSet, soon_us: u64) {
        let ranks = ranks.minus(&self.covers);
        if !self.is_done && !ranks.is_empty() {
            self.suspects = self.suspects.union(&ranks);
            self.suspects_at_us = self.suspects_at_us.or(Some(soon_us));
        }
    }

    fn ask_at_us(&self) -> u64 {
        self.suspects_at_us.unwrap_or(u64::MAX).min(self.again_at_us)
    }
}
