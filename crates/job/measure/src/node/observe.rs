//! A rank's ring of calls as events that loop detection understands.
//!
//! Call sites become hashes of files and offsets, so that they are the same on all ranks wherever libraries were loaded;
//! peers become world ranks. The busiest thread is the rank's main thread.
//!
//! Next: `call_paths` for what a site is, `looks` for how loops are found in these.

use super::call_paths::{CallPaths, PathSite, Rules};
use super::selection::Selection;
use super::team::Member;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;
use trimtab_mpi::HandleFacts;
use trimtab_os::ticks;
use trimtab_session::ImageCache;
use trimtab_stub::layout::{ABSENT, COMM_NONE, COMMS_MAX, Probe, SIZE_UNKNOWN, checksum, flag, kind, owner, requests};
use trimtab_stub::view::{SlotView, View};
use trimtab_window::{CallEvent, PEER_ANY, PEER_NONE, direction};

/// Records kept between the reader and the writer, so that none is overwritten while it is read.
const RING_MARGIN: u64 = 256;

/// Calls of which the last to return is among, however they are nested.
const RECENT: u64 = 64;

/// The calls that were seen of one rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    /// World rank.
    pub rank: u32,
    /// When it was looked at.
    pub until_ticks: u64,
    /// Calls of the busiest thread, oldest first.
    pub events: Vec<CallEvent>,
    /// Call site of each call whatever its peer, as the in-target routine tells them apart.
    pub bases: Vec<u64>,
    /// Passes of the marker after each call's entry.
    pub passes: Vec<u64>,
    /// Site of each call as the in-target routine tells it.
    pub sites: Vec<u64>,
    /// Probe of each call.
    pub probes: Vec<u64>,
    /// Sites of the events that come from a line of an interpreted program, with a number of that line.
    pub statements: BTreeMap<u64, u64>,
}

/// One rank's ring as it was at one moment, copied before anything is made of it: the ranks' copies must overlap in
/// time, and a ring may hold only some milliseconds.
pub(crate) struct Snapshot<'a> {
    slot: Option<SlotView<'a>>,
    records: Vec<RawCall>,
    until_ticks: u64,
}

/// A call record's words.
#[derive(Clone, Copy)]
struct RawCall {
    probe: u64,
    site: u64,
    enter_ticks: u64,
    exit_ticks: u64,
    comm: u32,
    peer: i32,
    source: i32,
    passes: u64,
    bytes: u64,
    strangers: u16,
    completed_ticks: u64,
}

/// A full ring of a fast loop's calls holds less time than a rank waits for a processor that others want as well. A rank
/// that waits so, or is in a call of which the other side waits so, would seem to have left its loop; what comes behind its
/// last call, and the part of a call that has not returned, is no part of what was seen of it then. One that really has
/// left it makes itself known when it does not pass the marker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    /// Ticks of a full ring up to which it is one of a fast loop.
    pub span_ticks_max: u64,
    /// Ticks without a call after which more than the scheduler is behind it.
    pub gap_ticks_max: u64,
}

impl Turns {
    /// Until when a rank with this full ring was seen that was looked at `now`.
    fn seen_until(self, records: &[RawCall], now: u64) -> u64 {
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return now };
        let has_returned = (last.enter_ticks..=now).contains(&last.exit_ticks);
        let end = if has_returned { last.exit_ticks } else { last.enter_ticks };
        let is_fast = end.saturating_sub(first.enter_ticks) <= self.span_ticks_max;
        if is_fast && now.saturating_sub(end) <= self.gap_ticks_max { end.min(now) } else { now }
    }
}

/// Copies the ring of a rank's main thread.
pub(crate) fn snapshot(member: &Member, turns: Turns) -> Snapshot<'_> {
    let view = member.inserted.view();
    let until_ticks = ticks();
    let Some(slot) = main_slot(view) else { return Snapshot { slot: None, records: Vec::new(), until_ticks } };
    let capacity = view.geometry().ring_capacity;
    let written = slot.slot.ring_written.load(Acquire);
    let first = written.saturating_sub(capacity - RING_MARGIN);
    let mut records = Vec::with_capacity((written - first) as usize);
    for index in first..written {
        let record = slot.call(index);
        records.push(RawCall {
            probe: u64::from(record.probe.load(Relaxed)),
            site: record.site.load(Relaxed),
            enter_ticks: record.enter_ticks.load(Relaxed),
            exit_ticks: record.exit_ticks.load(Relaxed),
            comm: u32::from(record.comm.load(Relaxed)),
            peer: record.peer.load(Relaxed),
            source: record.source.load(Relaxed),
            passes: record.passes.load(Relaxed),
            bytes: record.bytes.load(Relaxed),
            strangers: record.strangers.load(Relaxed),
            completed_ticks: record.completed_ticks.load(Relaxed),
        });
    }
    // The records were read before what is written now is looked up.
    fence(Acquire);
    let now = slot.slot.ring_written.load(Relaxed);
    records.drain(..overwritten(first, records.len(), now, capacity));
    let until_ticks = if first > 0 { turns.seen_until(&records, until_ticks) } else { until_ticks };
    Snapshot { slot: Some(slot), records, until_ticks }
}

/// How many of the records from `first` on were overwritten while they were read, if `now` have been written: the next one
/// is perhaps being written, in the place of the oldest.
fn overwritten(first: u64, records: usize, now: u64, capacity: u64) -> usize {
    (now + 1).saturating_sub(capacity).saturating_sub(first).min(records as u64) as usize
}

/// The facts that tell where calls of one rank come from.
pub(crate) struct Sites<'a> {
    pub paths: &'a mut CallPaths,
    pub rules: &'a mut Rules,
    pub cache: &'a ImageCache,
    /// Ticks from when on all of a program's usual calls were seen once.
    pub settled_ticks: u64,
}

/// The ranks that messages came from which were received from any source, as statuses told.
#[derive(Default)]
struct Sources {
    /// Of calls of which each completes one request, by the tick of their entry.
    completed: HashMap<u64, i32>,
    /// Requests that one call completes, by the tick of its entry.
    requests: HashMap<u64, u32>,
}

impl Sources {
    fn of_all(records: &[RawCall]) -> Sources {
        let mut sources = Sources::default();
        for record in records {
            if record.source >= 0 {
                sources.completed.insert(record.enter_ticks, record.source);
            }
            if record.completed_ticks != 0 {
                *sources.requests.entry(record.completed_ticks).or_default() += 1;
            }
        }
        sources
    }

    /// Of a receive: by its own status, or by that of the call that completes it and nothing else.
    fn of(&self, record: &RawCall) -> Option<i32> {
        let is_alone = self.requests.get(&record.completed_ticks) == Some(&1);
        let completed = || self.completed.get(&record.completed_ticks).copied().filter(|_| is_alone);
        Some(record.source).filter(|source| *source >= 0).or_else(completed)
    }
}

/// Makes events of a snapshot.
pub(crate) fn stream(
    member: &Member,
    snapshot: &Snapshot<'_>,
    selection: &Selection,
    facts: Option<&HandleFacts>,
    sites: &mut Sites<'_>,
) -> Stream {
    let (rank, until_ticks) = (member.process.rank.0, snapshot.until_ticks);
    let mut stream = Stream { rank, until_ticks, ..Stream::default() };
    let Some(slot) = snapshot.slot else { return stream };
    let (records, places) = placed(member, &snapshot.records, sites);
    let view = member.inserted.view();
    let comms = comm_ids(view, &slot);
    let sources = Sources::of_all(&records);
    for (record, base) in records.iter().zip(places) {
        let Some(probe) = member.prepared.probe(record.probe as u32) else { continue };
        let (sends, receives) = (probe.kind == kind::SEND, probe.flags & flag::RECEIVES != 0);
        let world = |named: i32| peer(view, &slot, record.comm, named, facts);
        let peer = world(record.peer);
        let site = base ^ direction(sends || receives, peer, member.process.rank.0);
        if let Some(line) = sites.paths.python_line(record.site) {
            stream.statements.insert(site, line);
        }
        let source = match (sends, receives) {
            (_, false) => PEER_NONE,
            (false, true) if peer == PEER_ANY => sources.of(record).map_or(PEER_ANY, world),
            (false, true) => peer,
            (true, true) => world(record.source),
        };
        let is_synchronising = selection.synchronising[probe.function as usize] && record.comm != COMM_NONE;
        stream.events.push(CallEvent {
            function: probe.function,
            site,
            enter_ticks: record.enter_ticks,
            exit_ticks: record.exit_ticks,
            peer,
            source,
            is_send: sends,
            is_receive: receives,
            completes: receives && probe.request == ABSENT,
            ends_posted: probe.requests >= requests::COMPLETES_ONE && record.strangers == 0,
            completed_ticks: record.completed_ticks,
            synchronising: is_synchronising,
            comm: comms.get(&record.comm).copied().unwrap_or(u64::from(COMM_NONE)),
            bytes: bytes(probe, record, is_synchronising),
        });
        stream.bases.push(base);
        stream.passes.push(record.passes);
        stream.sites.push(record.site);
        stream.probes.push(record.probe);
    }
    stream
}

/// The payload of a call that is over when it returns, or of a send. A barrier carries nothing.
fn bytes(probe: &Probe, record: &RawCall, is_synchronising: bool) -> Option<u64> {
    if probe.kind == kind::NONE {
        return is_synchronising.then_some(0);
    }
    let begins_only = probe.kind != kind::SEND && probe.request != ABSENT;
    (!begins_only && record.bytes != SIZE_UNKNOWN).then_some(record.bytes)
}

/// The records with what their sites are called on all ranks. A path that was cut, because what lies on it was not known
/// yet, is given as the only one that it can have been; where there are several, what came up to then is left out.
fn placed(member: &Member, records: &[RawCall], sites: &mut Sites<'_>) -> (Vec<RawCall>, Vec<u64>) {
    sites.paths.learn(member, sites.rules, sites.cache);
    let mut placed: Vec<(RawCall, PathSite)> = Vec::with_capacity(records.len());
    for record in records {
        placed.push((*record, sites.place(member, record)));
    }
    let from = if placed.iter().any(|(_, place)| place.is_cut) { sites.complete(member, &mut placed) } else { 0 };
    placed.drain(..from);
    placed.into_iter().map(|(record, place)| (record, place.id)).unzip()
}

impl Sites<'_> {
    fn place(&mut self, member: &Member, record: &RawCall) -> PathSite {
        self.paths.place(member, (record.site, record.enter_ticks), self.rules, self.cache)
    }

    /// Completes the paths that were cut; how many of the first calls are better left out.
    fn complete(&mut self, member: &Member, placed: &mut [(RawCall, PathSite)]) -> usize {
        let mut whole: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for (record, _) in placed.iter().filter(|(_, place)| !place.is_cut) {
            whole.entry(record.probe).or_default().insert(record.site);
        }
        let (none, count) = (BTreeSet::new(), placed.len());
        let mut from = 0;
        for (index, (record, place)) in placed.iter_mut().enumerate().filter(|(_, (_, place))| place.is_cut) {
            let of_function = whole.get(&record.probe).unwrap_or(&none);
            match self.paths.only_longer(member.inserted.view(), record.site, of_function) {
                Some(longer) => {
                    record.site = longer;
                    *place = self.place(member, record);
                }
                // A rare call of a program that has run for long is one more place.
                None if record.enter_ticks < self.settled_ticks || 2 * index <= count => from = index + 1,
                None => {}
            }
        }
        from
    }
}

/// Calls of a rank's main thread so far.
pub(crate) fn calls(member: &Member) -> u64 {
    main_slot(member.inserted.view()).map_or(0, |slot| slot.slot.ring_written.load(Relaxed))
}

/// When a rank was last seen to call or to return: all that is known of one that is gone.
pub(crate) fn last_seen_ticks(member: &Member) -> u64 {
    let last = |slot: SlotView<'_>| {
        let written = slot.slot.ring_written.load(Acquire);
        let recent = (written.saturating_sub(RECENT)..written).map(|index| {
            let record = slot.call(index);
            record.enter_ticks.load(Relaxed).max(record.exit_ticks.load(Relaxed))
        });
        recent.max().unwrap_or(0)
    };
    member.inserted.view().slots().map(last).max().unwrap_or(0)
}

/// The slot of the thread whose passes of a loop count iterations, or else of the one that made most calls.
pub(crate) fn main_slot(view: View<'_>) -> Option<SlotView<'_>> {
    let counting = owner::thread(view.header().marker_thread.load(Relaxed));
    let counts = |slot: &SlotView<'_>| counting != 0 && slot.slot.key.load(Relaxed) == counting;
    view.slots().max_by_key(|slot| (counts(slot), slot.slot.ring_written.load(Relaxed)))
}

/// Number of each communicator of a thread, the same on all its members: 0 the world, else a hash of its members.
fn comm_ids(view: View<'_>, slot: &SlotView<'_>) -> HashMap<u32, u64> {
    let count = slot.slot.comm_count.load(Relaxed).min(COMMS_MAX);
    let world_size = view.world_size() as i32;
    let ids = (0..count).map(|index| {
        // A duplicate of the world synchronises the world as well.
        let is_world = |list: &[i32]| list.iter().copied().eq(0..world_size);
        let id = match members(view, slot, index as u32) {
            _ if index == 0 => 0,
            Some(list) if is_world(&list) => 0,
            Some(list) => hash(&list),
            None => u64::MAX,
        };
        (index as u32, id)
    });
    ids.collect()
}

fn hash(members: &[i32]) -> u64 {
    let bytes: Vec<u8> = members.iter().flat_map(|member| member.to_le_bytes()).collect();
    checksum(&bytes).max(1)
}

/// World ranks of a communicator's members; `None` for the world itself or if unknown.
pub(crate) fn members(view: View<'_>, slot: &SlotView<'_>, comm: u32) -> Option<Vec<i32>> {
    let entry = slot.slot.comms.get(comm as usize)?;
    let first = entry.pool.load(Acquire);
    if comm == 0 || first == u64::MAX {
        return None;
    }
    (0..entry.size.load(Relaxed)).map(|member| view.pool(first.checked_add(member)?)).collect()
}

fn peer(view: View<'_>, slot: &SlotView<'_>, comm: u32, named: i32, facts: Option<&HandleFacts>) -> i32 {
    if named < 0 {
        // A receive with no source named -1 is told apart from "no peer" by the library's own constant.
        return if facts.is_some_and(|facts| named == facts.any_source) { PEER_ANY } else { PEER_NONE };
    }
    match comm {
        0 => named,
        COMM_NONE => PEER_NONE,
        _ => members(view, slot, comm).and_then(|list| list.get(named as usize).copied()).unwrap_or(PEER_NONE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_were_overwritten_while_they_were_read_are_left_out() {
        for (first, records, now, expected) in
            [(0, 5, 5, 0), (3, 5, 10, 0), (3, 5, 11, 1), (3, 5, 14, 4), (3, 5, 90, 5), (0, 0, 0, 0)]
        {
            assert_eq!(overwritten(first, records, now, 8), expected, "{records} from {first} on, {now} written");
        }
    }

    #[test]
    fn a_rank_that_waits_for_a_processor_was_seen_until_its_last_call() {
        let call = |enter_ticks: u64, exit_ticks: u64| RawCall {
            probe: 0,
            site: 0,
            enter_ticks,
            exit_ticks,
            comm: 0,
            peer: 0,
            source: 0,
            passes: 0,
            bytes: 0,
            strangers: 0,
            completed_ticks: 0,
        };
        let turns = Turns { span_ticks_max: 100, gap_ticks_max: 200 };
        for (name, first, last, now, expected) in [
            ("it waits", 1_000, (1_080, 1_090), 1_250, 1_090),
            ("inside of its last call", 1_000, (1_080, 0), 1_250, 1_080),
            ("it runs", 1_000, (1_080, 1_090), 1_090, 1_090),
            ("inside of a call that returns while it is looked at", 1_000, (1_080, 1_250), 1_240, 1_080),
            ("it calls while it is looked at", 1_000, (1_095, 1_098), 1_090, 1_090),
            ("it has not called for long", 1_000, (1_080, 1_090), 1_300, 1_300),
            ("its loop is slow", 900, (1_080, 1_090), 1_250, 1_250),
        ] {
            let records = [call(first, first + 1), call(last.0, last.1)];
            assert_eq!(turns.seen_until(&records, now), expected, "{name}");
        }
        assert_eq!(turns.seen_until(&[], 7), 7, "it has never called");
    }
}
