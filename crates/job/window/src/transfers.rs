//! How long messages and collectives took, apart from the time in which one rank waited for another.
//!
//! Of a message the entry and return of its send and of its receive are known (see `waits` for how they are matched):
//!
//! | the receive was called | transfer | waiting |
//! |---|---|---|
//! | before the send | from the send's entry to the receive's return | the receive's, until the send |
//! | while the send was inside | from the receive's entry to its return | the send's, until the receive |
//! | after the send had returned | hidden: nobody looked when it came | - |
//!
//! For a receive that was posted the call counts that waits for it, if that waits for nothing else and was called before the send. Else
//! it is hidden: other calls of its rank may have taken the message in before.
//!
//! Only of the first kind the time is that of the whole way: of the second a part may lie in buffers already. A sender that
//! comes late moves the receive's wait alone. A collective takes from the last entry to the last return; ranks that came before
//! waited. Next: `assemble`, which names functions; `trimtab-loggp`, which fits links.

use crate::event::CallEvent;
use std::collections::BTreeMap;
use trimtab_types::report::{CollectiveTimes, MessageTimes};

/// Sizes told of one link.
const SIZES_MAX: usize = 64;

/// Times of messages and collectives as they were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// By sender and receiver, and payload.
    messages: BTreeMap<(u32, u32), BTreeMap<u64, Vec<Seen>>>,
    /// By function and payload: ranks, and the time of each.
    collectives: BTreeMap<(u32, u64), Vec<Met>>,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// `None`: hidden.
    transfer: Option<u64>,
    wait: u64,
    /// Its receive was called before it was sent.
    is_ready: bool,
    in_send: u64,
    /// `None`: that is no time of taking in a message that is there.
    in_receive: Option<u64>,
    error: u64,
}

/// A message's ends.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    /// It was sent by this call.
    pub send: &'a CallEvent,
    /// This one returned with it.
    pub end: &'a CallEvent,
    /// The kind of that call.
    pub kind: EndKind,
}

/// The kind of call that returns with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndKind {
    /// Its receive.
    Receive,
    /// A wait for it alone, which was to be received since an earlier call.
    Wait,
    /// A wait for others too.
    WaitForSeveral,
}

/// One collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Met {
    ranks: u32,
    ticks: u64,
    error: u64,
}

impl Transfers {
    /// A message of which both ends were seen; `error` is how far their clocks may be apart.
    pub(crate) fn add_message(&mut self, pair: (u32, u32), message: Message<'_>, error: u64) {
        let Message { send, end, kind } = message;
        let Some(bytes) = send.bytes else { return };
        if end.exit_ticks == 0 || send.exit_ticks == 0 {
            return;
        }
        let (sent, taken) = (send.enter_ticks, end.enter_ticks);
        // Moments that clocks can't tell apart are as good as that.
        let is_ready = taken <= sent.saturating_add(error);
        // A send that also receives stays for that.
        let is_seen = match kind {
            EndKind::Receive => is_ready || (send.exit_ticks > taken && !send.is_receive),
            EndKind::Wait => is_ready,
            EndKind::WaitForSeveral => false,
        };
        // A send that only begins may have returned long before its message was there.
        let was_there = kind == EndKind::Receive && send.completed_ticks == 0;
        let seen = Seen {
            transfer: is_seen.then(|| end.exit_ticks.saturating_sub(if is_ready { sent } else { taken })),
            wait: if is_seen { sent.abs_diff(taken) } else { 0 },
            is_ready,
            in_send: send.exit_ticks.saturating_sub(sent),
            in_receive: was_there.then(|| end.exit_ticks.saturating_sub(taken)),
            error,
        };
        self.messages.entry(pair).or_default().entry(bytes).or_default().push(seen);
    }

    /// A collective of all ranks, of which these are the calls; `error` is how far two of their clocks may be apart.
    pub(crate) fn add_collective(&mut self, calls: &[CallEvent], error: u64) {
        let bytes: Option<Vec<u64>> = calls.iter().map(|call| call.bytes).collect();
        let Some(bytes) = bytes.and_then(|bytes| bytes.into_iter().max()) else { return };
        let Some(function) = calls.first().map(|call| call.function) else { return };
        if calls.iter().any(|call| call.exit_ticks == 0) {
            return;
        }
        let entered = calls.iter().map(|call| call.enter_ticks).max().unwrap_or(0);
        let left = calls.iter().map(|call| call.exit_ticks).max().unwrap_or(0);
        let met = Met { ranks: calls.len() as u32, ticks: left.saturating_sub(entered), error };
        self.collectives.entry((function, bytes)).or_default().push(met);
    }

    /// Times of messages as a reader is told, by sender, receiver and size.
    pub(crate) fn messages(&self, seconds: impl Fn(u64) -> f64) -> Vec<MessageTimes> {
        let rows = self.messages.iter().flat_map(|(pair, sizes)| few(sizes).into_iter().map(move |row| (*pair, row)));
        rows.map(|(pair, (bytes, seen))| message_times(pair, bytes, &seen, &seconds)).collect()
    }

    /// Times of collectives as a reader is told, by name and size.
    pub(crate) fn collectives(
        &self,
        name: impl Fn(u32) -> String,
        seconds: impl Fn(u64) -> f64,
    ) -> Vec<CollectiveTimes> {
        let row = |((function, bytes), all): (&(u32, u64), &Vec<Met>)| {
            let [low, median, high] = quartiles(all.iter().map(|met| met.ticks))?.map(&seconds);
            Some(CollectiveTimes {
                function: name(*function),
                ranks: all.iter().map(|met| met.ranks).max()?,
                bytes: *bytes,
                calls: all.len() as u64,
                time_s_low: low,
                time_s_median: median,
                time_s_high: high,
                error_s: seconds(all.iter().map(|met| met.error).max()?),
            })
        };
        let mut rows: Vec<CollectiveTimes> = self.collectives.iter().filter_map(row).collect();
        rows.sort_by(|a, b| a.function.cmp(&b.function).then(a.bytes.cmp(&b.bytes)));
        rows
    }
}

/// A link's sizes, at most [`SIZES_MAX`]: of more, neighbours are put together.
fn few(sizes: &BTreeMap<u64, Vec<Seen>>) -> Vec<(u64, Vec<Seen>)> {
    let all: Vec<(&u64, &Vec<Seen>)> = sizes.iter().collect();
    let together = all.len().div_ceil(SIZES_MAX).max(1);
    let merge = |some: &[(&u64, &Vec<Seen>)]| {
        let seen: Vec<Seen> = some.iter().flat_map(|(_, seen)| seen.iter().copied()).collect();
        let sum: u128 = some.iter().map(|(bytes, seen)| u128::from(**bytes) * seen.len() as u128).sum();
        ((sum / seen.len().max(1) as u128) as u64, seen)
    };
    all.chunks(together).map(merge).collect()
}

fn message_times((from, to): (u32, u32), bytes: u64, seen: &[Seen], seconds: impl Fn(u64) -> f64) -> MessageTimes {
    let timed = || seen.iter().filter_map(|one| Some((one, one.transfer?)));
    let sum = |of: &dyn Fn((&Seen, u64)) -> u64| {
        (timed().count() > 0).then(|| seconds(timed().map(of).fold(0, u64::saturating_add)))
    };
    let ready = || timed().filter(|(one, _)| one.is_ready);
    let transfer = quartiles(ready().map(|(_, ticks)| ticks));
    let hidden = || seen.iter().filter(|one| one.transfer.is_none());
    let median = |ticks: Option<[u64; 3]>| ticks.map(|quartiles| seconds(quartiles[1]));
    MessageTimes {
        from,
        to,
        bytes,
        messages: seen.len() as u64,
        hidden: hidden().count() as u64,
        transfer_s: sum(&|(_, ticks)| ticks),
        wait_s: sum(&|(one, _)| one.wait),
        ready: ready().count() as u64,
        transfer_s_low: transfer.map(|all| seconds(all[0])),
        transfer_s_median: median(transfer),
        transfer_s_high: transfer.map(|all| seconds(all[2])),
        send_s_median: median(quartiles(ready().map(|(one, _)| one.in_send))),
        receive_s_median: median(quartiles(hidden().filter_map(|one| one.in_receive))),
        error_s: seconds(seen.iter().map(|one| one.error).max().unwrap_or(0)),
    }
}

/// Quartiles and median, each a value that was seen; `None` of nothing.
fn quartiles(ticks: impl Iterator<Item = u64>) -> Option<[u64; 3]> {
    let mut all: Vec<u64> = ticks.collect();
    all.sort_unstable();
    let last = all.len().checked_sub(1)?;
    Some([last / 4, last / 2, last - last / 4].map(|at| all[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(enter_ticks: u64, exit_ticks: u64, bytes: Option<u64>) -> CallEvent {
        CallEvent {
            function: 1,
            site: 1,
            enter_ticks,
            exit_ticks,
            peer: 1,
            source: -1,
            is_send: bytes.is_some(),
            is_receive: bytes.is_none(),
            completes: bytes.is_none(),
            ends_posted: false,
            completed_ticks: 0,
            synchronising: false,
            comm: 0,
            bytes,
        }
    }

    fn seen(send: (u64, u64), receive: (u64, u64)) -> MessageTimes {
        let mut transfers = Transfers::default();
        let (send, end) = (call(send.0, send.1, Some(4096)), call(receive.0, receive.1, None));
        transfers.add_message((0, 1), Message { send: &send, end: &end, kind: EndKind::Receive }, 7);
        transfers.messages(|ticks| ticks as f64).remove(0)
    }

    #[test]
    fn a_sender_made_late_changes_waiting_only() {
        for late in [0, 50, 5_000] {
            let times = seen((100 + late, 110 + late), (90, 160 + late));
            assert_eq!((times.transfer_s, times.wait_s), (Some(60.0), Some(10.0 + late as f64)), "{late}");
            assert_eq!((times.ready, times.hidden, times.transfer_s_median), (1, 0, Some(60.0)), "{late}");
        }
    }

    #[test]
    fn a_receiver_made_late_changes_waiting_or_hides_the_transfer() {
        let inside = seen((100, 400), (300, 380));
        assert_eq!((inside.transfer_s, inside.wait_s), (Some(80.0), Some(200.0)));
        assert_eq!((inside.ready, inside.transfer_s_median), (0, None), "a part may lie in buffers already");
        let behind = seen((100, 110), (300, 304));
        assert_eq!((behind.transfer_s, behind.wait_s, behind.hidden), (None, None, 1));
        assert_eq!((behind.receive_s_median, behind.send_s_median), (Some(4.0), None));
    }

    #[test]
    fn collectives_take_from_the_last_entry_to_the_last_return() {
        let mut transfers = Transfers::default();
        let of = |enter, exit, bytes| CallEvent { is_send: false, ..call(enter, exit, Some(bytes)) };
        transfers.add_collective(&[of(100, 190, 64), of(150, 180, 0), of(120, 181, 64)], 3);
        transfers.add_collective(&[of(100, 0, 64), of(150, 180, 64)], 3);
        let times = transfers.collectives(|_| "MPI_Bcast".to_owned(), |ticks| ticks as f64);
        assert_eq!(times.len(), 1, "a call that did not return says nothing");
        let of = |times: &CollectiveTimes| (times.ranks, times.bytes, times.calls, times.time_s_median, times.error_s);
        assert_eq!(of(&times[0]), (3, 64, 1, 40.0, 3.0));
    }

    #[test]
    fn of_many_sizes_neighbours_are_put_together() {
        let mut transfers = Transfers::default();
        for bytes in 0..200 {
            let (send, end) = (call(100, 110, Some(bytes)), call(90, 160, None));
            transfers.add_message((0, 1), Message { send: &send, end: &end, kind: EndKind::Receive }, 0);
        }
        let times = transfers.messages(|ticks| ticks as f64);
        assert!(times.len() <= SIZES_MAX, "{}", times.len());
        assert_eq!(times.iter().map(|row| row.messages).sum::<u64>(), 200);
        assert!(times.windows(2).all(|pair| pair[0].bytes < pair[1].bytes));
    }
}
