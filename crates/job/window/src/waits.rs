//! Which part of communication is waiting, and for whom? From the calls of the recorded iterations that rings still hold.
//!
//! | state | who waits | how long |
//! |---|---|---|
//! | wait at a collective | each rank in one that nobody leaves before all have entered | until the last has entered |
//! | late sender | a receive that returns with its message, or the wait for one that was posted | until the message is sent |
//! | late receiver | a send that returns only after the receive was entered, or the wait for one | until the receive is entered |
//!
//! Each wait is at most as long as its call. Calls are matched within an iteration, by their order: the n-th collective of
//! all ranks, the n-th message from one rank to another. A message may be received in the iteration beside the one it is
//! sent in, as where one rank sends before it receives and the other receives first: of the iterations before, the same and
//! behind, the latest is taken from which every message was sent before its receive returned. An older one could only hide a
//! wait. Where two ranks count differently in an iteration, nothing is said of those calls; messages with several tags that are received in another order than sent are matched wrongly, but
//! only among themselves. Times of two machines carry their clocks' error, and those of one machine what its processors'
//! clocks and two probes may differ by ([`SAME_CLOCK_NS`]). All that is derived from them carries it too: a sum of waits
//! that is not above its error is not told, only that error.
//!
//! Next: `assemble`, which names the functions.

use crate::completions::{Completions, Latest};
use crate::event::CallEvent;
use crate::transfers::{EndKind, Message, Transfers};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_types::report::{LateRank, WaitKind, WaitState};

/// How far apart times of the same moment may be that two processes of one machine read, nanoseconds: the kernel sees no
/// difference between two processors' clocks that is shorter than a cache line takes from one to the other, and each time is
/// read within a probe.
pub const SAME_CLOCK_NS: f64 = 100.0;
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
    /// Where each rank's time went in those iterations, in rank order.
    pub ranks: Vec<RankWaits>,
    /// By function and path, ascending.
    pub paths: Vec<PathWait>,
    /// The time of messages and collectives without them.
    pub transfers: Transfers,
}

/// How long calls of one function by one path waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathWait {
    /// Number of the function.
    pub function: u32,
    /// As [`crate::PathSample::path`].
    pub path: u64,
    /// Calls that were matched with their partners.
    pub calls: u64,
    /// Time waited in them, summed over ranks.
    pub ticks: u64,
    /// It may be this much more or less because clocks differ.
    pub error_ticks: u64,
}

/// Where a rank's time went in the iterations that all ranks still knew, as far as its main thread's calls tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankWaits {
    /// World rank.
    pub rank: u32,
    /// From the first to the last mark of each iteration, summed.
    pub duration_ticks: u64,
    /// Inside communication.
    pub communication_ticks: u64,
    /// Waiting for other ranks, of that.
    pub wait_ticks: u64,
    /// Inside calls of which nobody knows how much is waiting, of that.
    pub unknown_ticks: u64,
}

impl Waits {
    /// The waits of a function's calls by one path.
    pub(crate) fn of_path(&self, function: u32, path: u64) -> Option<&PathWait> {
        self.paths.iter().find(|wait| (wait.function, wait.path) == (function, path))
    }

    /// As a reader is told, the longest first; `name` is that of a function by its number.
    pub(crate) fn states(&self, name: impl Fn(u32) -> String, seconds: impl Fn(u64) -> f64) -> Vec<WaitState> {
        let state = |sum: &WaitSum| WaitState {
            state: sum.kind,
            function: name(sum.function),
            iterations: self.iterations,
            calls: sum.calls,
            time_s: told(sum.ticks, sum.error_ticks).map(&seconds),
            error_s: seconds(sum.error_ticks),
            late_ranks: sum.late_ranks(&seconds),
        };
        let mut states: Vec<WaitState> = self.sums.iter().map(state).collect();
        let time_s = |state: &WaitState| state.time_s.unwrap_or(-1.0);
        states.sort_by(|a, b| time_s(b).total_cmp(&time_s(a)).then(a.function.cmp(&b.function)));
        states
    }
}

/// A sum of waits as far as it is known: `None` where it is not above its error.
pub(crate) fn told(ticks: u64, error_ticks: u64) -> Option<u64> {
    (error_ticks == 0 || ticks > error_ticks).then_some(ticks)
}

impl WaitSum {
    /// The ranks that were waited for longest; none where it is not known that any was.
    fn late_ranks(&self, seconds: impl Fn(u64) -> f64) -> Vec<LateRank> {
        if told(self.ticks, self.error_ticks).is_none() {
            return Vec::new();
        }
        let late = self.by_late_rank.iter().map(|(rank, ticks)| LateRank { rank: *rank, time_s: seconds(*ticks) });
        let mut late: Vec<LateRank> = late.collect();
        late.sort_by(|a, b| b.time_s.total_cmp(&a.time_s).then(a.rank.cmp(&b.rank)));
        late.truncate(LATE_RANKS_MAX);
        late
    }
}

/// Derives the waits of iterations that all ranks know whole. The last rank to come to a collective is known only if these
/// are all ranks of the job (`is_whole`). `same_clock_ticks` is [`SAME_CLOCK_NS`] in ticks.
pub fn waits(ranks: &[RankCalls], is_whole: bool, same_clock_ticks: u64) -> Waits {
    let mut known_by: BTreeMap<u64, Vec<Iteration>> = BTreeMap::new();
    for calls in ranks {
        for (place, pair) in calls.marks.windows(2).enumerate() {
            let (Some(iteration), Some(events)) = (calls.iterations.get(place), calls.events.get(pair[0]..pair[1]))
            else {
                continue;
            };
            let mark = |at: usize| calls.events.get(at).map_or(0, |event| event.enter_ticks);
            let duration_ticks = mark(pair[1]).saturating_sub(mark(pair[0]));
            known_by.entry(*iteration).or_default().push(Iteration { calls, events, duration_ticks });
        }
    }
    let mut sums = Sums { same_clock_ticks, ..Sums::default() };
    known_by.retain(|_, known| known.len() == ranks.len() && ranks.len() > 1);
    if is_whole {
        known_by.values().for_each(|known| {
            sums.add_collectives(known);
            sums.time_collectives(known);
        });
    }
    sums.add_messages(&known_by);
    let of_rank = |calls: &RankCalls| sums.of_rank(calls.rank, known_by.values().flatten());
    let ranks = if known_by.is_empty() { Vec::new() } else { ranks.iter().map(of_rank).collect() };
    let paths = sums.by_path(known_by.values().flatten());
    let transfers = sums.transfers;
    Waits { iterations: known_by.len() as u64, ranks, paths, sums: sums.by_kind.into_values().collect(), transfers }
}

/// One iteration of one rank.
struct Iteration<'a> {
    calls: &'a RankCalls,
    events: &'a [CallEvent],
    /// From the mark that begins it to the next.
    duration_ticks: u64,
}

impl Iteration<'_> {
    /// How far a time of this rank and one of another may be apart although they are the same.
    fn error_to(&self, other: &Iteration, same_clock_ticks: u64) -> u64 {
        let between_machines = match self.calls.clock == other.calls.clock {
            true => 0,
            false => self.calls.uncertainty_ticks.saturating_add(other.calls.uncertainty_ticks),
        };
        between_machines.saturating_add(same_clock_ticks)
    }
}

#[derive(Default)]
struct Sums {
    by_kind: BTreeMap<(WaitKind, u32), WaitSum>,
    /// Waits by rank and entry of the call, each with its error.
    by_call: BTreeMap<(u32, u64), (u64, u64)>,
    same_clock_ticks: u64,
    transfers: Transfers,
}

/// One call's wait.
struct Wait<'a> {
    kind: WaitKind,
    /// The rank that waited, and in which call.
    rank: u32,
    event: &'a CallEvent,
    /// When rank `late` came.
    until: u64,
    late: u32,
    /// `until` may be this much off.
    error: u64,
}

impl Sums {
    fn add(&mut self, Wait { kind, rank, event, until, late, error }: Wait<'_>) {
        let inside = event.exit_ticks.saturating_sub(event.enter_ticks);
        let wait_until = |until: u64| until.saturating_sub(event.enter_ticks).min(inside);
        let ticks = wait_until(until);
        let error_ticks =
            (wait_until(until.saturating_add(error)) - ticks).max(ticks - wait_until(until.saturating_sub(error)));
        let new = WaitSum {
            kind,
            function: event.function,
            calls: 0,
            ticks: 0,
            error_ticks: 0,
            by_late_rank: BTreeMap::new(),
        };
        let known = self.by_call.entry((rank, event.enter_ticks)).or_default();
        *known = (ticks, error_ticks).max(*known);
        let sum = self.by_kind.entry((kind, event.function)).or_insert(new);
        sum.calls += 1;
        sum.ticks += ticks;
        sum.error_ticks += error_ticks;
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
                let (late, rank) = (&ranks[last], one.calls.rank);
                let (event, error) = (&calls[number], one.error_to(late, self.same_clock_ticks));
                self.add(Wait { kind: WaitKind::Collective, rank, event, until, late: late.calls.rank, error });
            }
            self.by_call.insert((ranks[last].calls.rank, until), (0, 0));
        }
    }

    /// Times of collectives, where all ranks made the same ones, in whatever order each came.
    fn time_collectives(&mut self, ranks: &[Iteration]) {
        let of_world = |one: &Iteration| -> Vec<CallEvent> {
            one.events.iter().filter(|event| event.is_of_world()).copied().collect()
        };
        let all: Vec<Vec<CallEvent>> = ranks.iter().map(of_world).collect();
        let is_same = |calls: &Vec<CallEvent>| {
            calls.len() == all[0].len() && calls.iter().zip(&all[0]).all(|(one, other)| one.function == other.function)
        };
        if all.is_empty() || !all.iter().all(is_same) {
            return;
        }
        let errors = ranks.iter().map(|one| one.error_to(&ranks[0], self.same_clock_ticks));
        let error = errors.max().unwrap_or(0);
        for number in 0..all[0].len() {
            let calls: Vec<CallEvent> = all.iter().map(|calls| calls[number]).collect();
            self.transfers.add_collective(&calls, error);
        }
    }

    fn add_messages<'a>(&mut self, known: &BTreeMap<u64, Vec<Iteration<'a>>>) {
        let of = |rank: u32, events: &'a [CallEvent]| events.iter().map(move |event| (rank, event));
        let calls = known.values().flatten().flat_map(|one| of(one.calls.rank, one.events));
        let ranks = known.values().next().into_iter().flatten();
        let mut completions = Completions::of(calls, ranks.flat_map(|one| of(one.calls.rank, &one.calls.events)));
        let messages: BTreeMap<u64, Messages> =
            known.iter().map(|(number, ranks)| (*number, messages(ranks))).collect();
        let pairs: BTreeSet<(u32, u32)> = messages.values().flat_map(|some| some.received.keys().copied()).collect();
        for pair in pairs {
            let met = [1, 0, -1].map(|shift| matched(&messages, pair, (shift, self.same_clock_ticks), &completions));
            let is_told = |met: &&Vec<Met>| met.iter().any(|met| met.end.is_some()) && met.iter().all(Met::is_possible);
            let latest = met.iter().find(is_told);
            for met in latest.unwrap_or(&met[1]) {
                self.add_message(met, pair, &mut completions);
                if let (Some(_), Some(end)) = (latest, &met.end) {
                    let kind = match met.receive.completes {
                        true => EndKind::Receive,
                        false if completions.is_alone(pair.1, &met.receive) => EndKind::Wait,
                        false => EndKind::WaitForSeveral,
                    };
                    self.transfers.add_message(pair, Message { send: &met.send, end, kind }, met.error);
                }
            }
        }
        for (rank, event, latest) in completions.known() {
            match latest {
                Some(Latest { kind, until, late, error }) => self.add(Wait { kind, rank, event, until, late, error }),
                None => _ = self.by_call.entry((rank, event.enter_ticks)).or_default(),
            }
        }
    }

    fn add_message(&mut self, met: &Met, (sender, receiver): (u32, u32), completions: &mut Completions) {
        let Met { send, receive, error, .. } = met;
        let error = *error;
        if receive.exit_ticks != 0 && receive.completes {
            let (rank, event, until) = (receiver, receive, send.enter_ticks);
            self.add(Wait { kind: WaitKind::LateSender, rank, event, until, late: sender, error });
        }
        let sent = Latest { kind: WaitKind::LateSender, until: send.enter_ticks, late: sender, error };
        completions.found(receiver, receive, Some(sent));
        if let Some(end) = completions.of_call(sender, send) {
            let taken = Latest { kind: WaitKind::LateReceiver, until: receive.enter_ticks, late: receiver, error };
            let was_over = end.exit_ticks < receive.enter_ticks;
            completions.found(sender, send, (!was_over).then_some(taken));
            self.by_call.entry((sender, send.enter_ticks)).or_default();
            return;
        }
        // A send that returned before was buffered and waited for nobody; one that also receives may have waited for that.
        let has_met = send.exit_ticks >= receive.enter_ticks;
        if has_met && !send.is_receive {
            let (rank, event, until) = (sender, send, receive.enter_ticks);
            self.add(Wait { kind: WaitKind::LateReceiver, rank, event, until, late: receiver, error });
        } else if !send.is_receive {
            self.by_call.entry((sender, send.enter_ticks)).or_default();
        }
    }

    /// Waits of calls that were matched, by function and path.
    fn by_path<'a>(&self, iterations: impl Iterator<Item = &'a Iteration<'a>>) -> Vec<PathWait> {
        let mut paths: BTreeMap<(u32, u64), PathWait> = BTreeMap::new();
        for (one, event) in iterations.flat_map(|one| one.events.iter().map(move |event| (one, event))) {
            let Some((ticks, error_ticks)) = self.by_call.get(&(one.calls.rank, event.enter_ticks)) else { continue };
            let (function, path) = (event.function, event.base(one.calls.rank));
            let new = PathWait { function, path, ..PathWait::default() };
            let wait = paths.entry((function, path)).or_insert(new);
            wait.calls += 1;
            wait.ticks += ticks;
            wait.error_ticks += error_ticks;
        }
        paths.into_values().collect()
    }

    fn of_rank<'a>(&self, rank: u32, iterations: impl Iterator<Item = &'a Iteration<'a>>) -> RankWaits {
        let mut found = RankWaits { rank, ..RankWaits::default() };
        for one in iterations.filter(|one| one.calls.rank == rank) {
            found.duration_ticks += one.duration_ticks;
            for event in one.events {
                let inside = event.exit_ticks.saturating_sub(event.enter_ticks);
                found.communication_ticks += inside;
                match self.by_call.get(&(rank, event.enter_ticks)) {
                    Some((wait, _)) => found.wait_ticks += wait,
                    // It posts a receive and returns at once.
                    None if event.is_receive && !event.completes => {}
                    None => found.unknown_ticks += inside,
                }
            }
        }
        found
    }
}

/// Calls between two ranks, by sender and receiver, each with its own rank's iteration.
type Between<'a> = BTreeMap<(u32, u32), Vec<(&'a Iteration<'a>, CallEvent)>>;

/// The messages of an iteration.
#[derive(Default)]
struct Messages<'a> {
    sent: Between<'a>,
    received: Between<'a>,
}

/// A message's two ends.
struct Met {
    send: CallEvent,
    receive: CallEvent,
    /// The call that returned with it: the receive, or the wait for it; `None`: not known.
    end: Option<CallEvent>,
    error: u64,
}

impl Met {
    /// True if the message can have been sent before the call returned that returns with it. Where that call is not known,
    /// nothing else is but that most are received in the iteration they are sent in.
    fn is_possible(&self) -> bool {
        let is_before = |end: &CallEvent| self.send.enter_ticks <= end.exit_ticks.saturating_add(self.error);
        self.end.as_ref().is_none_or(|end| end.exit_ticks == 0 || is_before(end))
    }
}

fn messages<'a>(ranks: &'a [Iteration<'a>]) -> Messages<'a> {
    let mut found = Messages::default();
    for one in ranks {
        let own = one.calls.rank;
        for event in one.events {
            if event.is_send && event.peer >= 0 {
                found.sent.entry((own, event.peer as u32)).or_default().push((one, *event));
            }
            if event.is_receive && event.source >= 0 {
                found.received.entry((event.source as u32, own)).or_default().push((one, *event));
            }
        }
    }
    found
}

/// The messages from one rank to another, if each was sent so many iterations behind the one it was received in.
fn matched(
    messages: &BTreeMap<u64, Messages>,
    pair: (u32, u32),
    (shift, same_clock_ticks): (i64, u64),
    completions: &Completions,
) -> Vec<Met> {
    let end = |receive: &CallEvent| match receive.completes {
        true => Some(*receive),
        false => completions.of_call(pair.1, receive).copied(),
    };
    let mut met = Vec::new();
    for (number, there) in messages {
        let here = number.checked_add_signed(shift).and_then(|number| messages.get(&number));
        let (Some(receives), Some(sends)) = (there.received.get(&pair), here.and_then(|here| here.sent.get(&pair)))
        else {
            continue;
        };
        if sends.len() == receives.len() {
            met.extend(sends.iter().zip(receives).map(|((from, send), (to, receive))| Met {
                send: *send,
                receive: *receive,
                end: end(receive),
                error: from.error_to(to, same_clock_ticks),
            }));
        }
    }
    met
}

#[cfg(test)]
mod tests;
