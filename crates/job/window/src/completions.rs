//! Calls that wait for requests which earlier calls posted: `MPI_Wait`, `MPI_Waitall`.
//!
//! Such a call returns when all that it waits for is over. So it waits for the latest message among those that were posted to
//! be received; one that completes sends only waits until the last of their receives is called. It is known once every
//! message of it has been matched with its other end: one that nobody knows might be the latest.
//!
//! Next: `waits`, which matches messages.

use crate::event::{CallEvent, PEER_NONE};
use std::collections::BTreeMap;
use trimtab_types::report::WaitKind;

/// Calls that complete requests, by rank and entry.
#[derive(Debug, Default)]
pub(crate) struct Completions {
    calls: BTreeMap<(u32, u64), Completion>,
}

/// One of them.
#[derive(Debug)]
struct Completion {
    event: CallEvent,
    /// Ends of messages, and other requests, that it completes.
    ends: usize,
    /// Of these, ends whose other end was found.
    matched: usize,
    /// It completes a receive.
    has_received: bool,
    latest: Option<Latest>,
}

/// The other end of a message, which came at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Latest {
    /// For whom is waited.
    pub kind: WaitKind,
    /// When that rank came.
    pub until: u64,
    /// That rank.
    pub late: u32,
    /// The moment may be this much off.
    pub error: u64,
}

impl Completions {
    /// Those among some calls of ranks, with what they complete, which is among `all`.
    pub(crate) fn of<'a>(
        calls: impl Iterator<Item = (u32, &'a CallEvent)>,
        all: impl Iterator<Item = (u32, &'a CallEvent)>,
    ) -> Completions {
        let mut found = Completions::default();
        for (rank, event) in calls {
            if event.ends_posted {
                let completion = Completion { event: *event, ends: 0, matched: 0, has_received: false, latest: None };
                found.calls.insert((rank, event.enter_ticks), completion);
            }
        }
        for (rank, event) in all {
            if let Some(completion) = found.calls.get_mut(&(rank, event.completed_ticks)) {
                completion.ends += ends(event);
                completion.has_received |= event.is_receive;
            }
        }
        found
    }

    /// The call that completes this one of a rank.
    pub(crate) fn of_call(&self, rank: u32, posted: &CallEvent) -> Option<&CallEvent> {
        Some(&self.calls.get(&(rank, posted.completed_ticks))?.event)
    }

    /// True if it completes nothing else.
    pub(crate) fn is_alone(&self, rank: u32, posted: &CallEvent) -> bool {
        self.calls.get(&(rank, posted.completed_ticks)).is_some_and(|completion| completion.ends == 1)
    }

    /// The other end of what a call of a rank has posted was found; `None`: it kept nobody waiting.
    pub(crate) fn found(&mut self, rank: u32, posted: &CallEvent, latest: Option<Latest>) {
        let Some(completion) = self.calls.get_mut(&(rank, posted.completed_ticks)) else { return };
        completion.matched += 1;
        // A send may have been over long before; a message that has not come was not.
        let counts = |latest: &Latest| latest.kind == WaitKind::LateSender || !completion.has_received;
        let later = |latest: &Latest| completion.latest.is_none_or(|known| known.until < latest.until);
        if let Some(latest) = latest.filter(counts).filter(later) {
            completion.latest = Some(latest);
        }
    }

    /// Calls of which everything that they complete was found, with their ranks and who came last. One that completes only what was over
    /// waits for nobody.
    pub(crate) fn known(&self) -> impl Iterator<Item = (u32, &CallEvent, Option<Latest>)> {
        let whole = self.calls.iter().filter(|(_, one)| one.matched == one.ends);
        whole.map(|((rank, _), one)| (*rank, &one.event, one.latest))
    }
}

/// Ends of messages that a call posts; another kind of request counts as one that is never found.
fn ends(event: &CallEvent) -> usize {
    let (sends, receives) = (event.is_send, event.is_receive);
    match sends || receives {
        true => usize::from(sends && event.peer != PEER_NONE) + usize::from(receives && event.source != PEER_NONE),
        false => 1,
    }
}
