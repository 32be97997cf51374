//! The calls of a rank that say which iterations of other ranks are the same: few of all it made, and short on a wire.
//!
//! In one process an excerpt holds events as everything else reads them. Serialized, each distinct call is described
//! once and moments are distances from the event before, so that an event takes about ten bytes instead of fifty.
//!
//! Next: `node::passes` chooses the events.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trimtab_window::{CallEvent, Relation};

/// Calls of one thread in program order, some of which begin iterations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "Short", try_from = "Short")]
pub struct Excerpt {
    /// The calls.
    pub events: Vec<CallEvent>,
    /// Positions of those that begin an iteration, ascending.
    pub marks: Vec<usize>,
}

impl Excerpt {
    /// Moments on the lead's clock instead of the node's; how far they may be off.
    pub(crate) fn onto_lead(&mut self, relation: &Relation) -> u64 {
        let ends = [self.events.first(), self.events.last()].into_iter().flatten();
        let error = ends.map(|event| relation.to_lead(event.enter_ticks).error_ticks).max().unwrap_or(0);
        self.events.iter_mut().for_each(|event| event.onto_lead(relation));
        error
    }

    /// Moments on the node's clock instead of the lead's; how far they may be off.
    pub(crate) fn onto_node(&mut self, relation: &Relation) -> u64 {
        self.events.iter_mut().for_each(|event| event.onto_node(relation));
        let ends = [self.events.first(), self.events.last()].into_iter().flatten();
        ends.map(|event| relation.to_lead(event.enter_ticks).error_ticks).max().unwrap_or(0)
    }

    /// Entries of the marks.
    pub(crate) fn mark_ticks(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.marks.iter().map(|mark| self.events[*mark].enter_ticks)
    }
}

/// The values that all calls of one kind have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Kind {
    function: u32,
    site: u64,
    comm: u64,
    peer: i32,
    source: i32,
    /// Bits: sends, receives, synchronises, has received, ends what was posted.
    bits: u8,
}

impl Kind {
    fn of(event: &CallEvent) -> Self {
        let flags = [event.is_send, event.is_receive, event.synchronising, event.completes, event.ends_posted];
        let bits = (0..).zip(flags).fold(0, |bits, (place, flag)| bits | u8::from(flag) << place);
        Kind {
            function: event.function,
            site: event.site,
            comm: event.comm,
            peer: event.peer,
            source: event.source,
            bits,
        }
    }
}

/// An event: its kind, ticks since the entry before, ticks inside plus one (0: not returned), whether it is a mark, its payload
/// plus one (0: not known), ticks from its entry to that of the call that completed it (0: none).
type Row = (u16, u64, u64, bool, u64, u64);

/// An excerpt as it travels.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Short {
    kinds: Vec<Kind>,
    rows: Vec<Row>,
}

impl From<Excerpt> for Short {
    fn from(excerpt: Excerpt) -> Self {
        let mut numbers = BTreeMap::new();
        let mut short = Short { kinds: Vec::new(), rows: Vec::with_capacity(excerpt.events.len()) };
        let mut before_ticks = 0;
        for (index, event) in excerpt.events.iter().enumerate() {
            let kind = Kind::of(event);
            let number = *numbers.entry(kind).or_insert_with(|| {
                short.kinds.push(kind);
                // A ring holds fewer calls than this has numbers.
                u16::try_from(short.kinds.len() - 1).unwrap_or(u16::MAX)
            });
            let inside = event.exit_ticks.checked_sub(event.enter_ticks).map_or(0, |ticks| ticks.saturating_add(1));
            let is_mark = excerpt.marks.binary_search(&index).is_ok();
            let bytes = event.bytes.map_or(0, |bytes| bytes.saturating_add(1));
            let completed = event.completed_ticks.saturating_sub(event.enter_ticks);
            short.rows.push((
                number,
                event.enter_ticks.saturating_sub(before_ticks),
                inside,
                is_mark,
                bytes,
                completed,
            ));
            before_ticks = event.enter_ticks;
        }
        short
    }
}

/// An excerpt that no node can have sent.
#[derive(Debug, thiserror::Error)]
#[error("call {row} of {rows} is of no kind that was described, or lies beyond all time")]
struct Malformed {
    row: usize,
    rows: usize,
}

impl TryFrom<Short> for Excerpt {
    type Error = Malformed;

    fn try_from(short: Short) -> Result<Self, Malformed> {
        let mut excerpt = Excerpt::default();
        let mut now_ticks = 0u64;
        for (row, (number, since, inside, is_mark, bytes, completed)) in short.rows.iter().enumerate() {
            let malformed = || Malformed { row, rows: short.rows.len() };
            let kind = short.kinds.get(usize::from(*number)).ok_or_else(malformed)?;
            now_ticks = now_ticks.checked_add(*since).ok_or_else(malformed)?;
            let exit_ticks = match inside.checked_sub(1) {
                Some(ticks) => now_ticks.checked_add(ticks).ok_or_else(malformed)?,
                None => 0,
            };
            let completed_ticks = match completed {
                0 => 0,
                ticks => now_ticks.checked_add(*ticks).ok_or_else(malformed)?,
            };
            if *is_mark {
                excerpt.marks.push(row);
            }
            excerpt.events.push(CallEvent {
                function: kind.function,
                site: kind.site,
                enter_ticks: now_ticks,
                exit_ticks,
                peer: kind.peer,
                source: kind.source,
                is_send: kind.bits & 1 != 0,
                is_receive: kind.bits & 2 != 0,
                synchronising: kind.bits & 4 != 0,
                completes: kind.bits & 8 != 0,
                ends_posted: kind.bits & 16 != 0,
                completed_ticks,
                comm: kind.comm,
                bytes: bytes.checked_sub(1),
            });
        }
        Ok(excerpt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(site: u64, enter_ticks: u64, exit_ticks: u64, bits: u8) -> CallEvent {
        CallEvent {
            function: 3,
            site,
            enter_ticks,
            exit_ticks,
            peer: -1,
            source: bits as i32 - 4,
            is_send: bits & 1 != 0,
            is_receive: bits & 2 != 0,
            synchronising: bits & 4 != 0,
            completes: bits & 8 != 0,
            ends_posted: bits & 16 != 0,
            completed_ticks: if bits & 3 == 3 { enter_ticks + 77 } else { 0 },
            comm: 0,
            bytes: (bits & 1 != 0).then_some(enter_ticks % 70_000),
        }
    }

    #[test]
    fn excerpts_travel_unchanged_and_short() {
        let sites = [0x1234_5678_9abc_def0, 7, u64::MAX];
        let begin = 1 << 50;
        let call =
            |at: u64| event(sites[at as usize % 3], begin + at * 90_000, begin + at * 90_000 + 4_000, at as u8 % 32);
        let mut events: Vec<CallEvent> = (0..96).map(call).collect();
        events[95].exit_ticks = 0;
        let excerpt = Excerpt { events, marks: vec![0, 24, 48, 95] };
        let bytes = postcard::to_allocvec(&excerpt).unwrap();
        assert_eq!(postcard::from_bytes::<Excerpt>(&bytes).unwrap(), excerpt);
        let kinds = 24 * 30;
        assert!(bytes.len() <= kinds + 96 * crate::Answer::EVENT_BYTES, "{} bytes", bytes.len());
    }

    #[test]
    fn what_no_node_sends_is_an_error() {
        let kinds = vec![Kind::of(&event(1, 0, 0, 0))];
        for (name, rows) in [
            ("a kind that was not described", vec![(1, 0, 0, false, 0, 0)]),
            ("after the end of time", vec![(0, u64::MAX, 0, false, 0, 0), (0, 1, 0, false, 0, 0)]),
            ("a return after the end of time", vec![(0, 10, u64::MAX, false, 0, 0)]),
            ("completed after the end of time", vec![(0, 10, 0, false, 0, u64::MAX)]),
        ] {
            let bytes = postcard::to_allocvec(&Short { kinds: kinds.clone(), rows }).unwrap();
            assert!(postcard::from_bytes::<Excerpt>(&bytes).is_err(), "{name}");
        }
    }
}
