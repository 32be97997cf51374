//! Which part of communication is waiting, and for whom? From the calls of the recorded iterations that rings still hold.
//!
//! | state | who waits | how long |
//! |---|---|---|
//! | wait at a collective | each rank in one that nobody leaves before all have entered | until the last has entered |
//! | late sender | a receive | until the message is sent |
//! | late receiver | a send that returns only after the receive was entered | until the receive is entered |
//!
//! Each wait is at most as long as its call. Calls are matched within an iteration, by their order: the n-th collective of
//! all ranks, the n-th message from one rank to another. Where two ranks count differently in an iteration, nothing is
//! said of those calls; messages with several tags that are received in another order than sent are matched wrongly, but
//! only among themselves. Times of two machines carry their clocks' error, and so does what is derived from them.
//!
//! Next: `assemble`, which names the functions.

use crate::assemble::FunctionInfo;
use crate::event::CallEvent;
use std::collections::BTreeMap;
use trimtab_types::report::{LateRank, WaitState};

/// Ranks named for each wait state.
const LATE_RANKS_MAX: usize = 4;

/// A rank's calls in recorded iterations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankCalls {
    /// World rank.
    pub rank: u32,
    /// Which machine's clock times were read from.
    pub clock: u32,
    /// How far they may be from the common clock.
    pub uncertainty_ticks: u64,
    /// Calls in program order; others between them may be missing.
    pub events: Vec<CallEvent>,
    /// Events that begin an iteration, ascending.
    pub marks: Vec<usize>,
    /// The job's number of each of those iterations.
    pub iterations: Vec<u64>,
}

/// Why a rank waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitKind {
    /// In a collective, for the last rank to enter it.
    Collective,
    /// In a receive, for the message to be sent.
    LateSender,
    /// In a send, for the receive to be entered.
    LateReceiver,
}

impl WaitKind {
    /// Its name in the report.
    fn name(self) -> &'static str {
        match self {
            WaitKind::Collective => "wait at collective",
            WaitKind::LateSender => "late sender",
            WaitKind::LateReceiver => "late receiver",
        }
    }
}

/// All waits of one kind in one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitSum {
    /// Why.
    pub kind: WaitKind,
    /// Number of the function that waits.
    pub function: u32,
    /// Calls that were matched.
    pub calls: u64,
    /// Time waited, summed over ranks.
    pub ticks: u64,
    /// It may be this much more or less because clocks differ.
    pub error_ticks: u64,
    /// Time waited for each rank that came last.
    pub by_late_rank: BTreeMap<u32, u64>,
}

/// The waits of all ranks in the iterations that all of them still knew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Those iterations.
    pub iterations: u64,
    /// By kind and function.
    pub sums: Vec<WaitSum>,
}

impl Waits {
    /// As a reader is told, the longest first; a function is told by its place among `functions`.
    pub(crate) fn states(&self, functions: &[FunctionInfo], seconds: impl Fn(u64) -> f64) -> Vec<WaitState> {
        let state = |sum: &WaitSum| WaitState {
            state: sum.kind.name().to_owned(),
            function: functions.get(sum.function as usize).map_or_else(String::new, |info| info.name.clone()),
            iterations: self.iterations,
            calls: sum.calls,
            time_s: seconds(sum.ticks),
            error_s: seconds(sum.error_ticks),
            late_ranks: sum.late_ranks(&seconds),
        };
        let mut states: Vec<WaitState> = self.sums.iter().map(state).collect();
        states.sort_by(|a, b| b.time_s.total_cmp(&a.time_s).then(a.function.cmp(&b.function)));
        states
    }
}

impl WaitSum {
    /// The ranks that were waited for longest.
    fn late_ranks(&self, seconds: impl Fn(u64) -> f64) -> Vec<LateRank> {
        let late = self.by_late_rank.iter().map(|(rank, ticks)| LateRank { rank: *rank, time_s: seconds(*ticks) });
        let mut late: Vec<LateRank> = late.collect();
        late.sort_by(|a, b| b.time_s.total_cmp(&a.time_s).then(a.rank.cmp(&b.rank)));
        late.truncate(LATE_RANKS_MAX);
        late
    }
}

/// Derives the waits of iterations that all ranks know whole.
pub fn waits(ranks: &[RankCalls]) -> Waits {
    let mut known_by: BTreeMap<u64, Vec<Iteration>> = BTreeMap::new();
    for calls in ranks {
        for (place, pair) in calls.marks.windows(2).enumerate() {
            let (Some(iteration), Some(events)) = (calls.iterations.get(place), calls.events.get(pair[0]..pair[1]))
            else {
                continue;
            };
            known_by.entry(*iteration).or_default().push(Iteration { calls, events });
        }
    }
    let mut sums = Sums::default();
    let mut iterations = 0;
    for known in known_by.values().filter(|known| known.len() == ranks.len() && ranks.len() > 1) {
        iterations += 1;
        sums.add_collectives(known);
        sums.add_messages(known);
    }
    Waits { iterations, sums: sums.0.into_values().collect() }
}

/// One iteration of one rank.
struct Iteration<'a> {
    calls: &'a RankCalls,
    events: &'a [CallEvent],
}

impl Iteration<'_> {
    /// How far a time of this rank and one of another may be apart although they are the same.
    fn error_to(&self, other: &Iteration) -> u64 {
        match self.calls.clock == other.calls.clock {
            true => 0,
            false => self.calls.uncertainty_ticks.saturating_add(other.calls.uncertainty_ticks),
        }
    }
}

#[derive(Default)]
struct Sums(BTreeMap<(WaitKind, u32), WaitSum>);

impl Sums {
    /// `event` waited until `until`, when rank `late` came.
    fn add(&mut self, kind: WaitKind, event: &CallEvent, until: u64, late: u32, error: u64) {
        let inside = event.exit_ticks.saturating_sub(event.enter_ticks);
        let ticks = until.saturating_sub(event.enter_ticks).min(inside);
        let new = WaitSum {
            kind,
            function: event.function,
            calls: 0,
            ticks: 0,
            error_ticks: 0,
            by_late_rank: BTreeMap::new(),
        };
        let sum = self.0.entry((kind, event.function)).or_insert(new);
        sum.calls += 1;
        sum.ticks += ticks;
        sum.error_ticks += error.min(inside);
        if ticks > 0 {
            *sum.by_late_rank.entry(late).or_default() += ticks;
        }
    }

    fn add_collectives(&mut self, ranks: &[Iteration]) {
        let world = |one: &Iteration| -> Vec<CallEvent> {
            one.events.iter().filter(|event| event.synchronises_world()).copied().collect()
        };
        let all: Vec<Vec<CallEvent>> = ranks.iter().map(world).collect();
        let functions = |calls: &[CallEvent]| calls.iter().map(|call| call.function).collect::<Vec<u32>>();
        if all.iter().any(|calls| functions(calls) != functions(&all[0])) {
            return;
        }
        for number in 0..all[0].len() {
            let enters = all.iter().map(|calls| calls[number].enter_ticks).enumerate();
            let Some((last, until)) = enters.max_by_key(|(_, enter)| *enter) else { continue };
            let others = all.iter().zip(ranks).enumerate().filter(|(index, _)| *index != last);
            for (_, (calls, one)) in others.filter(|(_, (calls, _))| calls[number].exit_ticks != 0) {
                let late = &ranks[last];
                self.add(WaitKind::Collective, &calls[number], until, late.calls.rank, one.error_to(late));
            }
        }
    }

    fn add_messages(&mut self, ranks: &[Iteration]) {
        let mut sent: BTreeMap<(u32, u32), Vec<(usize, CallEvent)>> = BTreeMap::new();
        let mut received = sent.clone();
        for (index, one) in ranks.iter().enumerate() {
            for event in one.events.iter().filter(|event| event.peer >= 0) {
                let (own, peer) = (one.calls.rank, event.peer as u32);
                // Of a call that does both it is only known to whom it sends.
                if event.is_send {
                    sent.entry((own, peer)).or_default().push((index, *event));
                } else if event.is_receive {
                    received.entry((peer, own)).or_default().push((index, *event));
                }
            }
        }
        for (pair, receives) in &received {
            let Some(sends) = sent.get(pair).filter(|sends| sends.len() == receives.len()) else { continue };
            for ((from, send), (to, receive)) in sends.iter().zip(receives) {
                let error = ranks[*from].error_to(&ranks[*to]);
                if receive.exit_ticks != 0 {
                    self.add(WaitKind::LateSender, receive, send.enter_ticks, pair.0, error);
                }
                // A send that returned before was buffered and waited for nobody.
                let has_met = send.exit_ticks >= receive.enter_ticks;
                if has_met && !send.is_receive {
                    self.add(WaitKind::LateReceiver, send, receive.enter_ticks, pair.1, error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARRIER: u32 = 4;
    const SEND: u32 = 1;
    const RECV: u32 = 2;

    fn call(function: u32, enter_ticks: u64, exit_ticks: u64, peer: i32) -> CallEvent {
        CallEvent {
            function,
            site: u64::from(function),
            enter_ticks,
            exit_ticks,
            peer,
            is_send: function == SEND,
            is_receive: function == RECV,
            synchronising: function == BARRIER,
            comm: 0,
        }
    }

    /// One iteration, number 7, and the mark that ends it.
    fn rank(rank: u32, clock: u32, mut events: Vec<CallEvent>) -> RankCalls {
        events.insert(0, call(9, 0, 1, -1));
        events.push(call(9, 10_000, 10_001, -1));
        let marks = vec![0, events.len() - 1];
        RankCalls { rank, clock, uncertainty_ticks: 5, events, marks, iterations: vec![7, 8] }
    }

    fn sum(found: &Waits, kind: WaitKind) -> Option<&WaitSum> {
        found.sums.iter().find(|sum| sum.kind == kind)
    }

    #[test]
    fn ranks_wait_for_the_last_to_enter() {
        let enters = [100, 160, 130];
        let calls = |clocks: [u32; 3]| -> Vec<RankCalls> {
            (0..3).map(|at| rank(at as u32, clocks[at], vec![call(BARRIER, enters[at], 165, -1)])).collect()
        };
        let found = waits(&calls([0, 0, 0]));
        let wait = sum(&found, WaitKind::Collective).expect("waits");
        assert_eq!((found.iterations, wait.calls, wait.ticks, wait.error_ticks), (1, 2, 60 + 30, 0));
        assert_eq!(wait.by_late_rank, BTreeMap::from([(1, 90)]));
        let apart = waits(&calls([0, 1, 1]));
        let wait = sum(&apart, WaitKind::Collective).expect("waits");
        assert_eq!((wait.ticks, wait.error_ticks), (90, 10), "rank 2 reads the clock of rank 1");
    }

    #[test]
    fn messages_wait_for_their_partner() {
        let rows = [
            ("late sender", (200, 210), (100, 215), Some(100), None),
            ("the message was there", (100, 110), (200, 215), Some(0), None),
            ("late receiver", (100, 260), (200, 265), Some(0), Some(100)),
            ("no longer than the call", (400, 410), (100, 150), Some(50), Some(0)),
        ];
        for (name, send, receive, late_sender, late_receiver) in rows {
            let ranks = [
                rank(0, 0, vec![call(SEND, send.0, send.1, 1)]),
                rank(1, 0, vec![call(RECV, receive.0, receive.1, 0)]),
            ];
            let found = waits(&ranks);
            let ticks = |kind| sum(&found, kind).map(|sum| sum.ticks);
            assert_eq!(ticks(WaitKind::LateSender), late_sender, "{name}");
            let has_met = late_receiver.or(ticks(WaitKind::LateReceiver));
            assert_eq!(ticks(WaitKind::LateReceiver), has_met, "{name}");
            assert_eq!(ticks(WaitKind::LateReceiver).unwrap_or(0), late_receiver.unwrap_or(0), "{name}");
        }
    }

    #[test]
    fn what_does_not_match_is_not_guessed() {
        let two = rank(0, 0, vec![call(SEND, 100, 110, 1), call(SEND, 200, 210, 1), call(BARRIER, 300, 310, -1)]);
        let one = rank(1, 0, vec![call(RECV, 100, 110, 0)]);
        let found = waits(&[two.clone(), one]);
        assert_eq!((found.iterations, found.sums.len()), (1, 0), "{found:?}");
        let other_iteration = RankCalls { iterations: vec![8, 9], ..rank(1, 0, vec![]) };
        assert_eq!(waits(&[two.clone(), other_iteration]), Waits::default());
        assert_eq!(waits(&[two]), Waits::default(), "one rank waits for nobody");
    }
}
