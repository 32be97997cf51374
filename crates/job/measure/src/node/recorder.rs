//! A node's ranks while they record: armed, watched, ended.
//!
//! While ranks record nothing is sent to them; their shared memory is looked at now and then, and their marks are copied
//! before the ring of marks wraps.
//!
//! Next: `job::recording` for who decides, `readout` for what is read afterwards.

use super::observe::last_seen_ticks;
use super::so_far::comm_so_far;
use super::team::Member;
use super::{LOOK_STALE_RECORDING, Window, header};
use crate::request::{Answer, Polled};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;
use trimtab_os::{monotonic_ns, ticks};
use trimtab_stub::layout::{noted_by, state};
use trimtab_window::{IterationMark, statistics};

/// Time for the other ranks to end once one has.
const ENDING_MS: u64 = 20;
/// Time between two looks at whether all ranks still run this program, which reads their lists of mappings.
const ALIVE_NS: u64 = 50_000_000;
/// End of an open-ended window; a real end is told later.
const OPEN_END: u64 = u64::MAX;

impl Window<'_> {
    /// The job's iteration of the rank that is furthest.
    pub(super) fn furthest(&self) -> u64 {
        let members = self.team.members.iter().zip(&self.offsets);
        let counts =
            members.map(|(member, offset)| header(member).iteration.load(Acquire).saturating_add_signed(*offset));
        counts.max().unwrap_or(0)
    }

    pub(super) fn arm(&mut self, start: u64, end: Option<u64>) -> Answer {
        self.counters.begin();
        for (member, offset) in self.team.members.iter().zip(&self.offsets) {
            let local = |iteration: u64| iteration.saturating_add_signed(-offset);
            header(member).start.store(local(start), Relaxed);
            header(member).end.store(end.map_or(OPEN_END, local), Relaxed);
            header(member).state.store(state::ARMED, Release);
        }
        self.marks.iter_mut().for_each(Vec::clear);
        self.read.fill(0);
        Answer::Armed { is_missed: self.team.members.iter().any(has_missed) }
    }

    /// Has all ranks end at one iteration. Where one of them has passed it, none is told: the others would end there alone.
    pub(super) fn end_at(&self, end: u64) -> Answer {
        let local = |offset: &i64| end.saturating_add_signed(-offset);
        let ranks = || self.team.members.iter().zip(&self.offsets);
        let is_early = ranks().all(|(member, offset)| may_end_at(member, local(offset)));
        if is_early {
            ranks().for_each(|(member, offset)| header(member).end.store(local(offset), Release));
        }
        let is_missed = !is_early || ranks().any(|(member, offset)| !may_end_at(member, local(offset)));
        Answer::EndSet { is_missed }
    }

    pub(super) fn poll(&mut self, confident_percent: Option<f64>) -> Polled {
        self.drain();
        self.look_at_counters();
        self.learn_paths();
        self.team.yield_to_handlers();
        self.team.keep_within_limits(self.clock.ticks_per_second(), self.team.limits.calls());
        let is_alive = !self.is_due() || self.is_alive();
        let states: Vec<u32> = self.team.members.iter().map(|member| header(member).state.load(Acquire)).collect();
        let has_begun = states.iter().any(|now| *now >= state::RECORD);
        let is_done = states.iter().all(|now| *now == state::DONE);
        if has_begun && !is_done {
            self.beside.begin_recording(LOOK_STALE_RECORDING);
            self.beside.note();
        }
        let left =
            |member: &Member| header(member).end.load(Relaxed).saturating_sub(header(member).iteration.load(Relaxed));
        let slowest = self.marks.iter().min_by_key(|marks| marks.len());
        let ticks_per_second = self.clock.ticks_per_second();
        let is_narrow = |(percent, marks): (f64, &Vec<IterationMark>)| is_confident(marks, percent, ticks_per_second);
        let span = |marks: &Vec<IterationMark>| {
            marks.first().zip(marks.last()).map_or(0, |(first, last)| last.ticks.saturating_sub(first.ticks))
        };
        Polled {
            is_alive,
            has_new_handler: self.team.has_new_handler,
            is_over_limit: self.team.limits.is_over,
            is_done,
            since_first_s: has_begun.then(|| self.since_first_s()),
            recorded_s: self.marks.iter().map(span).min().unwrap_or(0) as f64 / ticks_per_second,
            marks_min: slowest.map_or(0, |marks| marks.len() as u64),
            left_max: self.team.members.iter().map(left).max().unwrap_or(0),
            is_confident: confident_percent.zip(slowest).is_some_and(is_narrow),
            comm: comm_so_far(&self.team),
        }
    }

    fn is_due(&mut self) -> bool {
        let is_due = monotonic_ns() - self.alive_ns > ALIVE_NS;
        if is_due {
            self.alive_ns = monotonic_ns();
        }
        is_due
    }

    fn since_first_s(&self) -> f64 {
        let first = self.team.members.iter().map(|member| header(member).first_ticks.load(Relaxed)).filter(|t| *t != 0);
        let rate = self.clock.ticks_per_second();
        first.min().map_or(0.0, |first| ticks().saturating_sub(first) as f64 / rate)
    }

    /// Ends the recording wherever the ranks are; iterations of the rank that recorded fewest, and of the one that did most.
    pub(super) fn end_now(&mut self, program_ended: bool) -> (u64, u64) {
        let now = ticks();
        if program_ended {
            // The others are about to end too; let them come to it.
            std::thread::sleep(Duration::from_millis(ENDING_MS));
        }
        for member in &self.team.members {
            end_member(member, now);
        }
        self.look_at_counters();
        self.drain();
        let iterations = || self.marks.iter().map(|marks| (marks.len() as u64).saturating_sub(1));
        (iterations().min().unwrap_or(0), iterations().max().unwrap_or(0))
    }

    /// Copies new marks before the ring of marks wraps.
    pub(super) fn drain(&mut self) {
        for ((member, marks), read) in self.team.members.iter().zip(&mut self.marks).zip(&mut self.read) {
            let view = member.inserted.view();
            let written = view.header().marks_written.load(Acquire);
            // Older marks are overwritten; and the program may have written anything over their number.
            let first = (*read).max(written.saturating_sub(view.geometry().mark_capacity));
            for index in first..written {
                let mark = view.mark(index);
                marks
                    .push(IterationMark { ticks: mark.ticks.load(Relaxed), comm_ticks: mark.comm_ticks.load(Relaxed) });
            }
            *read = written;
        }
    }
}

fn is_confident(marks: &[IterationMark], percent: f64, ticks_per_second: f64) -> bool {
    let seconds = |pair: &[IterationMark]| pair[1].ticks.saturating_sub(pair[0].ticks) as f64 / ticks_per_second;
    statistics::until_confident(&marks.windows(2).map(seconds).collect::<Vec<f64>>(), percent)
}

/// A rank that had passed its start before it was armed waits for ever.
fn has_missed(member: &Member) -> bool {
    let header = header(member);
    header.state.load(Acquire) == state::ARMED && header.iteration.load(Acquire) > header.start.load(Relaxed)
}

/// True if a rank has ended at an iteration, by its own number, or can still end there.
fn may_end_at(member: &Member, end: u64) -> bool {
    let header = header(member);
    // The count is the number of the next iteration.
    if header.state.load(Acquire) != state::DONE {
        return header.iteration.load(Acquire) <= end;
    }
    header.start.load(Relaxed).saturating_add(header.marks_written.load(Relaxed)).saturating_sub(1) == end
}

/// Ends the recording of a rank wherever it is. Of one that is gone nothing is known after its last call.
fn end_member(member: &Member, now: u64) {
    let header = header(member);
    if header.state.load(Acquire) == state::RECORD {
        // The window of whole iterations ends with the last mark, which the read-out uses.
        let end = if member.inserted.is_alive() { now } else { last_seen_ticks(member).min(now) };
        header.last_ticks.store(end.max(header.first_ticks.load(Relaxed)), Relaxed);
        if header.usage_first.valid.load(Acquire) == noted_by::BESIDE {
            super::usage::note(member.process.pid, &header.usage_last);
        }
        header.state.store(state::DONE, Release);
    }
}
