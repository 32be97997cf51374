//! The controller's part: making commands, gathering waves, asking again, and saying what a result covers.
//!
//! The root takes a unit if it shares no rank with what it has of that wave; so nothing counts twice, whatever way it
//! came. A wave is complete when all ranks of the target are in it that are in the tree, or were until a moment ago:
//! orphans get the time to find another parent. What is missing from a complete-looking tree was lost on the way, and is
//! asked for again, those ranks only.
//!
//! Next: `waves` for the nodes between, `commands` for how commands travel.

use super::ring::Ring;
use super::{Action, Busy, Node, Told, Trouble, WaveResult};
use crate::frame::Command;
use crate::limits::{LOG_COUNT_MAX, PAYLOAD_BYTES_MAX, STREAM_COUNT_MAX};
use crate::unit::UnitRef;
use crate::{StreamSpec, Sync};
use std::collections::BTreeMap;
use trimtab_reduce::{Accumulator, Bad, RankSet};

/// How long after a change of membership the root asks again, in gathering times: others may change with it.
const AGAIN_SOON: u64 = 4;
/// Pauses between requests double up to this factor: a slow rank is not a lost one.
const AGAIN_FACTOR_MAX: u64 = 16;

/// What only the root remembers.
#[derive(Default)]
pub(super) struct Root {
    began_us: Option<u64>,
    next_stream: u32,
    /// Lost ranks that may come back in time, and until when.
    away: Vec<(RankSet, u64)>,
    /// By stream.
    gathers: BTreeMap<u32, Ring<Gather>>,
    /// The first wave of each stream whose result isn't out, as announced.
    retired: BTreeMap<u32, u64>,
}

/// A wave at the root.
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
    fn gather(&self, (stream, wave): (u32, u64)) -> Option<&Gather> {
        self.gathers.get(&stream)?.get(wave)
    }

    fn gather_mut(&mut self, (stream, wave): (u32, u64)) -> Option<&mut Gather> {
        self.gathers.get_mut(&stream)?.get_mut(wave)
    }

    /// The waves whose results aren't out.
    fn open(&self) -> impl Iterator<Item = ((u32, u64), &Gather)> {
        let all =
            self.gathers.iter().flat_map(|(stream, ring)| ring.iter().map(move |(wave, of)| ((*stream, wave), of)));
        all.filter(|(_, gather)| !gather.is_done)
    }
}

impl Node {
    /// Opens a stream over all nodes; its number.
    pub fn open(&mut self, now_us: u64, spec: StreamSpec) -> Result<(u32, Vec<Action>), Busy> {
        self.may_command(now_us)?;
        self.setup.registry.build(&spec.filter).map_err(Busy::Bad)?;
        self.setup.registry.build_down(&spec.down).map_err(Busy::Bad)?;
        let count = self.streams.len() + 1;
        if count > STREAM_COUNT_MAX {
            return Err(Busy::Bad(Bad::TooMany { filter: "a tree", count, count_max: STREAM_COUNT_MAX }));
        }
        let root = self.root.get_or_insert_default();
        let stream = root.next_stream;
        root.next_stream += 1;
        self.append(Command::Open { stream, spec }.into());
        Ok((stream, self.after()))
    }

    /// Ends a stream; waves that aren't over have no result.
    pub fn close(&mut self, now_us: u64, stream: u32) -> Result<Vec<Action>, Busy> {
        self.may_command(now_us)?;
        self.append(Command::Close { stream }.into());
        if let Some(root) = &mut self.root {
            root.gathers.remove(&stream);
            root.retired.remove(&stream);
        }
        Ok(self.after())
    }

    /// Sends a payload to the leaves of a stream with these ranks; each gets what the stream's downstream filter leaves of
    /// it.
    pub fn multicast(&mut self, now_us: u64, stream: u32, to: RankSet, payload: Vec<u8>) -> Result<Vec<Action>, Busy> {
        self.may_command(now_us)?;
        let Some(open) = self.streams.get(&stream) else { return Err(Busy::NoStream { stream }) };
        let payload = match &open.down {
            Some(down) => down.narrow(&payload, &to).map_err(Busy::Bad)?,
            None => payload,
        };
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(Busy::Bad(Bad::TooLong { byte_count: payload.len() }));
        }
        self.append(Command::Data { stream, to, cut: RankSet::EMPTY, payload }.into());
        Ok(self.after())
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

    /// Takes a unit that has arrived at the root.
    pub(super) fn gather(&mut self, unit: UnitRef<'_>) {
        let now_us = self.now_us;
        let soon_us = now_us + AGAIN_SOON * self.setup.timing.gather_us;
        self.expect_waves(unit.stream, unit.wave);
        let (Some(root), Some(open)) = (&mut self.root, self.streams.get(&unit.stream)) else { return };
        let (key, sync) = ((unit.stream, unit.wave), open.spec.sync);
        let Some(gather) = root.gather_mut(key) else { return };
        if gather.is_done {
            self.counts.late += 1;
            return;
        }
        if !gather.covers.is_disjoint(unit.covers) {
            match gather.covers.covers(unit.covers) {
                true => self.counts.repeated += 1,
                false => {
                    self.counts.conflicting += 1;
                    gather.suspect(unit.covers, soon_us);
                    self.waves_due_us = self.waves_due_us.min(soon_us);
                }
            }
            return;
        }
        if let Err(bad) = gather.merged.add(&unit.value) {
            let (stream, wave) = key;
            let trouble = Trouble::Value { stream, wave, covers: unit.covers.clone(), bad };
            return self.tell(Told::Trouble(trouble));
        }
        gather.covers.take_in(unit.covers);
        if let Sync::TimeOut { us } = sync {
            let at_us = *gather.fire_at_us.get_or_insert(now_us + us);
            self.waves_due_us = self.waves_due_us.min(at_us);
        }
        if sync == Sync::DontWait {
            let missing = open.spec.target.minus(&gather.covers);
            let (covers, value) = (unit.covers.clone(), unit.value.into_owned());
            let result = WaveResult { stream: key.0, wave: key.1, covers, missing, value };
            self.tell(Told::Result(Box::new(result)));
        }
        self.finish_if_complete(key);
    }

    /// Begins to gather the waves up to one that exists. Everybody contributes in order, so those before it exist too;
    /// and the oldest may, though everything of it was lost: it is asked for even if nothing ever came.
    fn expect_waves(&mut self, stream: u32, wave: u64) {
        let again_at_us = self.now_us + self.setup.timing.again_us;
        let (Some(root), Some(open)) = (&mut self.root, self.streams.get(&stream)) else { return };
        let ring = root.gathers.entry(stream).or_insert_with(|| Ring::new(open.below));
        for wave in (open.below..=wave).rev() {
            if ring.contains(wave) {
                break;
            }
            ring.insert(wave, Gather::new(open.filter.start(), again_at_us));
            self.waves_due_us = self.waves_due_us.min(again_at_us);
        }
    }

    fn expect_oldest(&mut self, stream: u32) {
        let Some(root) = &self.root else { return };
        let Some(open) = self.streams.get(&stream) else { return };
        let is_done = |wave: &u64| root.gather((stream, *wave)).is_some_and(|gather| gather.is_done);
        let oldest = (open.below..open.below + open.spec.wave_window()).find(|wave| !is_done(wave));
        if let Some(oldest) = oldest {
            self.expect_waves(stream, oldest);
        }
    }

    /// Ranks in the tree, and those that may come back.
    fn awaited(&self) -> RankSet {
        let away = self.root.iter().flat_map(|root| &root.away).map(|(ranks, _)| ranks);
        RankSet::union_of(away.chain([&self.members]))
    }

    fn finish_if_complete(&mut self, key: (u32, u64)) {
        let (Some(root), Some(open)) = (&self.root, self.streams.get(&key.0)) else { return };
        let Some(gather) = root.gather(key).filter(|gather| !gather.is_done) else { return };
        let has_all = |awaited| !gather.covers.is_empty() && gather.covers.covers_common(&open.spec.target, awaited);
        // Nearly always nobody is away, and no set needs to be made.
        if has_all(&self.members) && (root.away.is_empty() || has_all(&self.awaited())) {
            self.finish(key);
        }
    }

    /// Gives out the result of a wave, and ends all waves up to the first that has none.
    fn finish(&mut self, key: (u32, u64)) {
        let (Some(root), Some(open)) = (&mut self.root, self.streams.get(&key.0)) else { return };
        let Some(gather) = root.gather_mut(key) else { return };
        gather.is_done = true;
        let (covers, sync, open_window) = (gather.covers.clone(), open.spec.sync, open.spec.wave_window());
        let missing = open.spec.target.minus(&covers);
        let told = match gather.merged.bytes() {
            Ok(value) => Told::Result(Box::new(WaveResult { stream: key.0, wave: key.1, covers, missing, value })),
            Err(bad) => Told::Trouble(Trouble::Value { stream: key.0, wave: key.1, covers, bad }),
        };
        if sync != Sync::DontWait {
            self.tell(told);
        }
        self.retire_done(key.0, open_window / 4);
    }

    /// Announces that the oldest waves of a stream are over, if there are so many.
    fn retire_done(&mut self, stream: u32, step: u64) {
        let Some(root) = &mut self.root else { return };
        let announced = root.retired.entry(stream).or_default();
        let Some(ring) = root.gathers.get_mut(&stream) else { return };
        let is_done = |wave: u64| ring.get(wave).is_some_and(|gather| gather.is_done);
        // The last one needed is nearly always missing; then the others needn't be looked at.
        if self.is_owner_behind || self.log.is_full() || !is_done(*announced + step - 1) {
            return;
        }
        let below = (*announced..).find(|wave| !is_done(*wave)).unwrap_or(u64::MAX);
        if below < *announced + step {
            return;
        }
        *announced = below;
        ring.drop_below(below);
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
        let gathers = root.gathers.values_mut().flat_map(Ring::values_mut);
        gathers.for_each(|gather| gather.suspect(&gained, soon_us));
        self.waves_due_us = self.waves_due_us.min(soon_us);
        let gained = gained.minus(&before_away);
        if !gained.is_empty() {
            self.tell(Told::Ranks { gained, lost: RankSet::EMPTY });
        }
    }

    /// What time alone brings at the root.
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
            // What a slow stream leaves is announced too, in time: the leaves keep it until then.
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
        let Some(gather) = root.gather_mut((stream, wave)) else { return };
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
        self.append(Command::Again { stream, wave, attempt, ranks }.into());
    }

    /// When a wave at the root will have waited long enough.
    pub(super) fn gather_wake_at_us(&self) -> Option<u64> {
        let open = self.root.iter().flat_map(Root::open);
        open.map(|(_, gather)| gather.fire_at_us.unwrap_or(u64::MAX).min(gather.ask_at_us())).min()
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
