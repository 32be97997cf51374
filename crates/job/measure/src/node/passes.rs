//! How a node's ranks passed what counts, and the calls that let others say which iterations are the same.
//!
//! Next: `job::counting`, which aligns all ranks by these.

use super::how_far;
use super::observe::Stream;
use super::team::Member;
use super::{Wanted, Window, header};
use crate::error::Error;
use crate::excerpt::Excerpt;
use crate::request::{Answer, LoopEnds, LoopPasses, Passed, RankPasses};
use crate::runs::{Run, value_of};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use trimtab_stub::layout::owner;
use trimtab_stub::view::SlotView;
use trimtab_window::CallEvent;

/// Added to every rank's counter, so that calls before the counter began have numbers too.
pub(super) const COUNT_BIAS: u64 = 1 << 32;

/// Passes of a rank before which its calls say too little to be told.
pub(crate) const PASSES_MIN: u64 = 3;

impl Window<'_> {
    pub(super) fn passes(&mut self, fresh: bool, with_messages: bool, events_max: usize) -> Passed {
        let is_alive = self.observe();
        if fresh || self.streams.is_empty() {
            self.note_owners();
            self.read_streams();
        }
        let passes: Vec<Passes> = self
            .streams
            .iter()
            .zip(&self.wanted)
            .zip(&self.team.members)
            .map(|((stream, wanted), member)| self.passes_of(stream, wanted, member))
            .collect();
        self.phases = passes.iter().map(|passes| passes.phase).collect();
        let told_from = |wanted: &Wanted| if wanted.is_each_call() { 1 } else { PASSES_MIN };
        let have_passed = passes.iter().zip(&self.wanted).all(|(passes, wanted)| passes.counted >= told_from(wanted));
        let ends: Vec<Option<LoopEnds>> = self.wanted.iter().zip(&self.team.members).map(ends_of).collect();
        let told = passes.into_iter().zip(&self.streams).zip(&self.wanted).zip(ends);
        let told = told.map(|(((passes, stream), wanted), ends)| {
            let (calls, skipped) = match have_passed {
                true => excerpt(stream, &passes.marks, with_messages, events_max),
                false => (Excerpt::default(), 0),
            };
            RankPasses {
                rank: stream.rank,
                counted: passes.counted,
                is_silent: passes.marks.is_empty(),
                first_count: passes.first_count + skipped as u64,
                period_ticks: passes.period_ticks,
                is_common: wanted.is_common,
                ends,
                calls,
            }
        });
        Passed { is_alive, ranks: told.collect() }
    }

    /// How often loops were passed. The recording by time meanwhile is as long as a loop is looked for in calls.
    pub(super) fn loop_passes(&mut self, functions: &[u32]) -> LoopPasses {
        let is_alive = self.observe();
        let mut told = LoopPasses { is_alive, ..LoopPasses::default() };
        for function in functions {
            let of_ranks: Vec<PassedLoop> =
                self.team.members.iter().map(|member| PassedLoop::of(member, *function)).collect();
            let least = of_ranks.iter().min_by_key(|rank| rank.passes).copied().unwrap_or_default();
            told.passes_min.push(least.passes);
            told.with_mpi.push(least.with_mpi);
            told.passes_max.push(of_ranks.iter().map(|rank| rank.passes).max().unwrap_or(0));
            told.pass_ticks_max.push(of_ranks.iter().map(|rank| rank.pass_ticks).fold(0.0, f64::max));
        }
        told
    }

    fn passes_of(&self, stream: &Stream, wanted: &Wanted, member: &Member) -> Passes {
        let marks = wanted.marks(&self.team, stream);
        let is_counted =
            |index: &usize| stream.passes[*index] > 0 && stream.events[*index].enter_ticks > wanted.since_ticks;
        let first_counted = marks.iter().position(is_counted);
        let counted = first_counted.map_or(0, |first| marks.len() - first);
        // A call's record shows the passes after it was counted, hence the one less.
        let pass = first_counted.map_or(0, |first| stream.passes[marks[first]] - 1);
        let first_count = COUNT_BIAS + pass / wanted.every - first_counted.unwrap_or(0) as u64;
        let span = match (marks.first(), marks.last()) {
            (Some(first), Some(last)) => stream.events[*last].enter_ticks - stream.events[*first].enter_ticks,
            _ => 0,
        };
        let period_ticks = match marks.len() {
            0 | 1 => PassedLoop::of(member, wanted.symbol.function).pass_ticks,
            several => span as f64 / (several - 1) as f64,
        };
        Passes { counted: counted as u64, first_count, phase: pass % wanted.every, period_ticks, marks }
    }

    /// Notes which thread's passes count, before they are read.
    pub(super) fn note_owners(&mut self) {
        self.counting = self.team.members.iter().map(|member| header(member).marker_thread.load(Acquire)).collect();
    }

    /// From now on no other thread's passes count than when they were told.
    fn fix_owners(&self) -> Result<(), Error> {
        // Where the marker is a call any thread's count.
        for (member, told) in self.team.members.iter().zip(&self.counting).filter(|(_, told)| **told != 0) {
            let fixed = told | owner::FIXED;
            let set = header(member).marker_thread.compare_exchange(*told, fixed, AcqRel, Acquire);
            if set.is_err_and(|now| now != fixed) {
                return Err(Error::OtherThread { rank: member.process.rank });
            }
        }
        Ok(())
    }

    /// Gives iterations the job's numbers from now on.
    pub(super) fn number(&mut self, offsets: &[Run<i64>]) -> Result<Answer, Error> {
        let own = self.ranks().into_iter().map(|rank| value_of(offsets, rank)).collect::<Option<Vec<i64>>>();
        let own = own.filter(|own| own.len() == self.phases.len());
        self.offsets = own.ok_or(Error::Malformed { what: "offsets of ranks that did not pass their marker" })?;
        for (member, phase) in self.team.members.iter().zip(&self.phases) {
            header(member).marker_phase.store(*phase, Release);
        }
        self.fix_owners()?;
        self.early.forget(&self.team);
        self.counters.watch(&self.team);
        Ok(Answer::Done)
    }
}

/// Where a rank's loop began and will end, on its own count; `None`: that is not known.
fn ends_of((wanted, member): (&Wanted, &Member)) -> Option<LoopEnds> {
    (wanted.every == 1).then(|| how_far::sure_ends_on(member, wanted.symbol.function, COUNT_BIAS as i64))?
}

/// How often a rank's busiest thread has passed a loop.
#[derive(Clone, Copy, Debug, Default)]
struct PassedLoop {
    passes: u64,
    /// Those before which it called MPI since the pass before.
    with_mpi: u64,
    /// Of one pass; 0 before the second.
    pass_ticks: f64,
}

impl PassedLoop {
    fn of(member: &Member, function: u32) -> Self {
        let of_slot = |slot: SlotView<'_>| {
            let stat = slot.stat(u64::from(function));
            let (passes, with_mpi) = (stat.passes.load(Relaxed), stat.passes_with_calls.load(Relaxed));
            let (first, last) = (stat.first_pass_ticks.load(Relaxed), stat.last_pass_ticks.load(Relaxed));
            let pass_ticks = if passes > 1 { last.saturating_sub(first) as f64 / (passes - 1) as f64 } else { 0.0 };
            PassedLoop { passes, with_mpi, pass_ticks }
        };
        let slots = member.inserted.view().slots();
        slots.map(of_slot).max_by_key(|one| one.passes).unwrap_or_default()
    }
}

/// One rank's passes of its marker.
struct Passes {
    /// Events that begin an iteration.
    marks: Vec<usize>,
    /// Those that its counter has seen.
    counted: u64,
    /// Number of the first mark, biased.
    first_count: u64,
    /// The pass of the call site, modulo passes per iteration, that marks an iteration.
    phase: u64,
    period_ticks: f64,
}

/// The calls that alignment needs, the latest `events_max` of them, and how many marks were left out with the others.
fn excerpt(stream: &Stream, marks: &[usize], with_messages: bool, events_max: usize) -> (Excerpt, usize) {
    if events_max >= stream.events.len() {
        return (Excerpt { events: stream.events.clone(), marks: marks.to_vec() }, 0);
    }
    let mut needed = needed(&stream.events, marks, with_messages);
    needed.drain(..needed.len().saturating_sub(events_max));
    let from = needed.first().copied().unwrap_or(0);
    let skipped = marks.partition_point(|mark| *mark < from);
    let position = |mark: &usize| needed.binary_search(mark).ok();
    let excerpt = Excerpt {
        events: needed.iter().map(|index| stream.events[*index]).collect(),
        marks: marks[skipped..].iter().filter_map(position).collect(),
    };
    (excerpt, skipped)
}

/// Positions of the marks, of collectives of all ranks, and of the first and last call, which say how long was looked.
/// With messages, of each iteration the last send to each rank, the last receive from each that had its message and the
/// first that had not, and the first collective of each smaller communicator: alignment asks for no others.
fn needed(events: &[CallEvent], marks: &[usize], with_messages: bool) -> Vec<usize> {
    let is_always = |index: usize| {
        let event = &events[index];
        index == 0 || index + 1 == events.len() || (event.synchronising && event.comm == 0)
    };
    let mut needed: Vec<usize> =
        (0..events.len()).filter(|index| is_always(*index)).chain(marks.iter().copied()).collect();
    if with_messages {
        let mut chosen = BTreeMap::new();
        let from = marks.first().copied().unwrap_or(events.len());
        for (index, event) in events.iter().enumerate().skip(from) {
            let iteration = marks.partition_point(|mark| *mark <= index);
            for (key, is_last) in relations(event) {
                match chosen.entry((iteration, key)) {
                    Entry::Vacant(entry) => {
                        entry.insert(index);
                    }
                    Entry::Occupied(mut entry) if is_last => *entry.get_mut() = index,
                    Entry::Occupied(_) => {}
                }
            }
        }
        needed.extend(chosen.into_values());
    }
    needed.sort_unstable();
    needed.dedup();
    needed
}

/// The relations of a call's iteration: a rank it sends to or has received from, of which the last call counts; a rank
/// it will receive from, or a smaller communicator, of which the first does.
fn relations(event: &CallEvent) -> impl Iterator<Item = ((u8, i64), bool)> {
    let sends = event.is_send.then_some(((0, i64::from(event.peer)), true));
    let kind = 1 + u8::from(event.completes);
    let receives = event.is_receive.then_some(((kind, i64::from(event.source)), event.completes));
    let meets = (event.synchronising && event.comm != 0).then_some(((5, event.comm as i64), false));
    [sends, receives, meets].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_window::{RankStream, align};

    /// Iterations of a ring: sends to the next (several), a receive from the one before, and now and then a barrier.
    fn ring(rank: i32, iterations: u64) -> (Vec<CallEvent>, Vec<usize>) {
        let (mut events, mut marks) = (Vec::new(), Vec::new());
        let mut now = 1_000 + rank as u64 * 40;
        let mut call = |function: u32, peer: i32, is_send: bool, is_receive: bool, synchronising: bool| {
            now += 50;
            let (enter_ticks, exit_ticks) = (now, now + 20);
            events.push(CallEvent {
                function,
                site: u64::from(function),
                enter_ticks,
                exit_ticks,
                peer,
                source: if is_receive { peer } else { -1 },
                is_send,
                is_receive,
                completes: is_receive,
                ends_posted: false,
                completed_ticks: 0,
                synchronising,
                comm: 0,
                bytes: None,
            });
            events.len() - 1
        };
        for iteration in 0..iterations {
            marks.push(call(1, (rank + 1) % 4, true, false, false));
            call(2, (rank + 1) % 4, true, false, false);
            call(2, (rank + 1) % 4, true, false, false);
            call(3, (rank + 3) % 4, false, true, false);
            call(3, (rank + 3) % 4, false, true, false);
            if iteration % 5 == 4 {
                call(4, -1, false, false, true);
            }
        }
        (events, marks)
    }

    fn aligned(excerpts: &[(Excerpt, usize)]) -> trimtab_window::Alignment {
        let ranks: Vec<RankStream> = excerpts
            .iter()
            .enumerate()
            .map(|(rank, (excerpt, skipped))| RankStream {
                rank: rank as u32,
                events: &excerpt.events,
                occurrences: &excerpt.marks,
                is_common: true,
                first_count: 100 + *skipped as u64,
                uncertainty_ticks: 0,
                clock: 0,
            })
            .collect();
        align(&ranks)
    }

    #[test]
    fn fewer_calls_say_the_same() {
        let streams: Vec<Stream> =
            (0..4).map(|rank| Stream { rank: rank as u32, events: ring(rank, 40).0, ..Stream::default() }).collect();
        let marks: Vec<Vec<usize>> = (0..4).map(|rank| ring(rank, 40).1).collect();
        let with = |messages: bool, events_max: usize| -> Vec<(Excerpt, usize)> {
            streams.iter().zip(&marks).map(|(stream, marks)| excerpt(stream, marks, messages, events_max)).collect()
        };
        let all = aligned(&with(true, usize::MAX));
        let thinned = with(true, 200);
        assert!(thinned.iter().all(|(excerpt, skipped)| *skipped == 0 && excerpt.events.len() < 150), "thinned");
        assert_eq!(aligned(&thinned), all, "without calls that alignment does not ask for");
        let world = with(false, 200);
        assert_eq!(world[0].0.events.len(), 40 + 8, "marks and barriers");
        assert_eq!(aligned(&world).offsets, all.offsets, "collectives alone");
        let latest = with(true, 60);
        assert!(latest.iter().all(|(excerpt, skipped)| *skipped > 0 && excerpt.events.len() == 60), "the latest only");
        assert_eq!(aligned(&latest).offsets, all.offsets, "the latest only, numbered as before");
    }
}
