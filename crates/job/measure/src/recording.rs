//! From "everyone agrees" to "everyone has recorded": arm, watch, end.
//!
//! All ranks are told the same iteration of the job. If one had already passed it, nobody's recording counts: all are
//! reset and told a later one. While ranks record nothing is sent to them; their shared memory is looked at now and then.
//!
//! Next: `readout` reads what they wrote.

use crate::early::{Early, reset};
use crate::error::Error;
use crate::marker::MarkerCall;
use crate::observe::last_seen_ticks;
use crate::options::{Ended, Options, Progress, Stage};
use crate::team::{Member, Team};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;
use trimtab_os::{monotonic_ns, ticks};
use trimtab_stub::layout::{Header, state};
use trimtab_window::{IterationMark, choose_start, statistics};

/// Time it takes at most to tell every rank the start, seconds; grows with every failed try.
const TELLING_S: f64 = 0.004;
/// Tries to agree on a start.
const ARM_TRIES_MAX: u32 = 6;
/// Iterations that ranks may take to come to an agreed end after the time limit, and bounds of that time in seconds.
const GRACE_ITERATIONS: f64 = 3.0;
const GRACE_S_MIN: f64 = 0.05;
const GRACE_S_MAX: f64 = 10.0;
/// Time for the other ranks to end once one has.
const ENDING_MS: u64 = 20;
/// Bounds of the time between two looks while recording.
const LOOK_US_MIN: u64 = 500;
const LOOK_US_MAX: u64 = 100_000;
/// Time between two looks at a window by time.
const LOOK_MS: u64 = 10;
/// Time between two looks at whether all ranks still run this program, which reads their lists of mappings.
const ALIVE_NS: u64 = 50_000_000;
/// End of an open-ended window; a real end is told later.
const OPEN_END: u64 = u64::MAX;

/// What came of a recording.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// The job's iteration at which recording began; `None`: by time.
    pub start: Option<u64>,
    /// Why it ended.
    pub ended: Ended,
    /// Every rank recorded to the end that was meant: no rank was cut off in the middle.
    pub is_whole: bool,
    /// Marks of each rank.
    pub marks: Vec<Vec<IterationMark>>,
    /// Monotonic time of the first recorded iteration as far as we saw it.
    pub begun_ns: u64,
}

fn header(member: &Member) -> &Header {
    member.inserted.view().header()
}

/// Records a window that is counted in iterations.
pub(crate) fn by_iterations(
    team: &Team,
    marker: &MarkerCall,
    options: &Options,
    early: &mut Early,
    ticks_per_second: f64,
    progress: &dyn Progress,
) -> Result<Recorded, Error> {
    early.forget(team);
    let start = arm(team, marker, options, ticks_per_second)?;
    progress.stage(&Stage::Armed { start });
    let mut watch = Watch::new(team, marker, options, ticks_per_second);
    let (ended, is_whole) = watch.until_done(start, progress)?;
    watch.drain();
    Ok(Recorded { start: Some(start), ended, is_whole, marks: watch.marks, begun_ns: watch.begun_ns })
}

/// Tells all ranks to begin at the same iteration; that iteration.
fn arm(team: &Team, marker: &MarkerCall, options: &Options, ticks_per_second: f64) -> Result<u64, Error> {
    let rate = if marker.iteration_ticks > 0.0 { ticks_per_second / marker.iteration_ticks } else { 0.0 };
    for attempt in 0..ARM_TRIES_MAX {
        let counts: Vec<u64> = global_counts(team, marker);
        let margin_s = TELLING_S * f64::from(4u32.pow(attempt));
        let mut start = choose_start(&counts, rate, margin_s);
        if let Some(pass) = options.start {
            start = start.max(counts.iter().copied().max().unwrap_or(0) + pass);
        }
        for (member, offset) in team.members.iter().zip(&marker.offsets) {
            let local = start.saturating_add_signed(-offset);
            let open = options.follow || options.until_confident.is_some();
            let end = if open { OPEN_END } else { local.saturating_add(options.iterations) };
            header(member).start.store(local, Relaxed);
            header(member).end.store(end, Relaxed);
            header(member).state.store(state::ARMED, Release);
        }
        if !team.members.iter().any(has_missed) {
            return Ok(start);
        }
        reset(team);
    }
    Err(Error::Options(
        "the ranks iterate faster than they can be told when to start; measure by time (--mark with a rarer function)"
            .into(),
    ))
}

fn global_counts(team: &Team, marker: &MarkerCall) -> Vec<u64> {
    let members = team.members.iter().zip(&marker.offsets);
    members.map(|(member, offset)| header(member).iteration.load(Acquire).saturating_add_signed(*offset)).collect()
}

/// A rank that had passed its start before it was armed waits for ever.
fn has_missed(member: &Member) -> bool {
    let header = header(member);
    header.state.load(Acquire) == state::ARMED && header.iteration.load(Acquire) > header.start.load(Relaxed)
}

/// Looks at the ranks while they record.
struct Watch<'a> {
    team: &'a Team,
    marker: &'a MarkerCall,
    options: &'a Options,
    ticks_per_second: f64,
    marks: Vec<Vec<IterationMark>>,
    read: Vec<u64>,
    begun_ns: u64,
    alive_ns: u64,
    is_ending: bool,
}

impl<'a> Watch<'a> {
    fn new(team: &'a Team, marker: &'a MarkerCall, options: &'a Options, ticks_per_second: f64) -> Self {
        let ranks = team.members.len();
        let (marks, read) = (vec![Vec::new(); ranks], vec![0; ranks]);
        Watch {
            team,
            marker,
            options,
            ticks_per_second,
            marks,
            read,
            begun_ns: 0,
            alive_ns: monotonic_ns(),
            is_ending: false,
        }
    }

    /// Waits for the end; why it came, and whether all ranks came to it together.
    fn until_done(&mut self, start: u64, progress: &dyn Progress) -> Result<(Ended, bool), Error> {
        let armed_ns = monotonic_ns();
        let mut ended = Ended::Iterations;
        let mut grace_ns = None;
        loop {
            std::thread::sleep(Duration::from_micros(self.look_us()));
            self.drain();
            let states: Vec<u32> = self.team.members.iter().map(|m| header(m).state.load(Acquire)).collect();
            if self.begun_ns == 0 && states.iter().any(|now| *now >= state::RECORD) {
                self.begun_ns = self.first_record_ns();
            }
            if states.iter().all(|now| *now == state::DONE) {
                return Ok((ended, true));
            }
            match self.must_end(armed_ns, progress) {
                // Once recording has begun the time limit is an iteration too, the next one all ranks can reach.
                Some(Ended::MaxSeconds)
                    if self.begun_ns != 0 && grace_ns.is_none_or(|until| monotonic_ns() < until) =>
                {
                    if grace_ns.is_none() {
                        self.end_together();
                        ended = Ended::MaxSeconds;
                        grace_ns = Some(monotonic_ns() + self.grace_ns());
                    }
                }
                Some(early) => return self.end_now(early),
                None => ended = self.may_end().unwrap_or(ended),
            }
            self.tell(start, armed_ns, progress);
        }
    }

    /// Time for the ranks to come to an agreed end: a few iterations.
    fn grace_ns(&self) -> u64 {
        let iterations_s = GRACE_ITERATIONS * self.marker.iteration_ticks / self.ticks_per_second;
        (iterations_s.clamp(GRACE_S_MIN, GRACE_S_MAX) * 1e9) as u64
    }

    /// Tells all ranks the same last iteration.
    fn end_together(&self) {
        let rate = self.ticks_per_second / self.marker.iteration_ticks.max(1.0);
        let end = choose_start(&global_counts(self.team, self.marker), rate, TELLING_S);
        for (member, offset) in self.team.members.iter().zip(&self.marker.offsets) {
            header(member).end.store(end.saturating_add_signed(-offset), Release);
        }
    }

    /// How long to leave the ranks alone. They may use every processor, so each look takes time from one of them: we
    /// sleep until the end is expected and look a few times around it.
    fn look_us(&self) -> u64 {
        let iteration_us = self.marker.iteration_ticks / self.ticks_per_second * 1e6;
        let left =
            |member: &Member| header(member).end.load(Relaxed).saturating_sub(header(member).iteration.load(Relaxed));
        let iterations = self.team.members.iter().map(left).max().unwrap_or(0);
        let expected_us = iterations.min(1_000_000) as f64 * iteration_us;
        (expected_us as u64).clamp(LOOK_US_MIN, LOOK_US_MAX)
    }

    fn first_record_ns(&self) -> u64 {
        let first = self.team.members.iter().map(|member| header(member).first_ticks.load(Relaxed)).filter(|t| *t != 0);
        let ago_s = first.min().map_or(0.0, |first| ticks().saturating_sub(first) as f64 / self.ticks_per_second);
        monotonic_ns().saturating_sub((ago_s * 1e9) as u64)
    }

    /// Reasons to end at once, wherever the ranks are.
    fn must_end(&mut self, armed_ns: u64, progress: &dyn Progress) -> Option<Ended> {
        if progress.is_interrupted() {
            return Some(Ended::Interrupted);
        }
        let is_due = monotonic_ns() - self.alive_ns > ALIVE_NS;
        if is_due {
            self.alive_ns = monotonic_ns();
        }
        if is_due && self.team.members.iter().any(|member| !member.inserted.is_alive()) {
            return Some(Ended::ProgramEnded);
        }
        let seconds = (monotonic_ns() - armed_ns) as f64 / 1e9;
        (!self.options.follow && seconds > self.options.max_seconds).then_some(Ended::MaxSeconds)
    }

    fn end_now(&mut self, why: Ended) -> Result<(Ended, bool), Error> {
        let now = ticks();
        if why == Ended::ProgramEnded {
            // The others are about to end too; let them come to it.
            std::thread::sleep(Duration::from_millis(ENDING_MS));
        }
        for member in &self.team.members {
            end_member(member, now);
        }
        self.drain();
        if self.marks.iter().all(|marks| marks.len() < 2) && why != Ended::MaxSeconds {
            return Err(if why == Ended::Interrupted { Error::Interrupted } else { Error::EndedEarly });
        }
        // A window that was meant to last as long as the program is whole when the program has ended.
        Ok((why, self.options.follow && why == Ended::ProgramEnded))
    }

    /// `--until-confident`: tells all ranks a common end once the interval is narrow enough.
    fn may_end(&mut self) -> Option<Ended> {
        let percent = self.options.until_confident?;
        if self.is_ending {
            return Some(Ended::Confident);
        }
        let seconds = |marks: &[IterationMark]| -> Vec<f64> {
            marks.windows(2).map(|pair| (pair[1].ticks - pair[0].ticks) as f64 / self.ticks_per_second).collect()
        };
        let slowest = self.marks.iter().min_by_key(|marks| marks.len())?;
        if !statistics::until_confident(&seconds(slowest), percent) {
            return None;
        }
        self.end_together();
        self.is_ending = true;
        Some(Ended::Confident)
    }

    fn tell(&self, start: u64, armed_ns: u64, progress: &dyn Progress) {
        if self.begun_ns == 0 {
            progress.stage(&Stage::Armed { start });
            return;
        }
        let done = self.marks.iter().map(|marks| marks.len().saturating_sub(1) as u64).min().unwrap_or(0);
        let open = self.options.follow || self.options.until_confident.is_some();
        let wanted = if open { 0 } else { self.options.iterations };
        progress.stage(&Stage::Recording { done, wanted, seconds: (monotonic_ns() - armed_ns) as f64 / 1e9 });
    }

    /// Copies new marks before the ring of marks wraps.
    fn drain(&mut self) {
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

/// Ends the recording of a rank wherever it is. Of one that is gone nothing is known after its last call.
fn end_member(member: &Member, now: u64) {
    let header = header(member);
    if header.state.load(Acquire) == state::RECORD {
        // The window of whole iterations ends with the last mark, which the read-out uses.
        let end = if member.inserted.is_alive() { now } else { last_seen_ticks(member).min(now) };
        header.last_ticks.store(end.max(header.first_ticks.load(Relaxed)), Relaxed);
        header.state.store(state::DONE, Release);
    }
}

/// Records a window that is bounded by time, from when recording began while a loop was looked for.
pub(crate) fn by_time(
    team: &Team,
    options: &Options,
    early: &mut Early,
    progress: &dyn Progress,
) -> Result<Recorded, Error> {
    let begun_ns = early.begin(team);
    let limit_s = if options.follow { f64::INFINITY } else { TIME_WINDOW_S.min(options.max_seconds) };
    let ended = loop {
        let seconds = (monotonic_ns() - begun_ns) as f64 / 1e9;
        progress.stage(&Stage::Recording { done: 0, wanted: 0, seconds });
        if progress.is_interrupted() {
            break Ended::Interrupted;
        }
        if team.members.iter().any(|member| !member.inserted.is_alive()) {
            break Ended::ProgramEnded;
        }
        if seconds >= limit_s {
            break Ended::MaxSeconds;
        }
        std::thread::sleep(Duration::from_millis(LOOK_MS));
    };
    let is_whole = ended == Ended::MaxSeconds || (options.follow && ended == Ended::ProgramEnded);
    Ok(Recorded { is_whole, ..ended_by_time(team, begun_ns, ended) })
}

/// What was recorded by time of a program that ended while a loop was looked for.
pub(crate) fn cut_short(team: &Team, early: &Early) -> Recorded {
    ended_by_time(team, early.begun_ns.unwrap_or_default(), Ended::ProgramEnded)
}

fn ended_by_time(team: &Team, begun_ns: u64, ended: Ended) -> Recorded {
    let now = ticks();
    if ended == Ended::ProgramEnded {
        // The others are about to end too; let them come to it.
        std::thread::sleep(Duration::from_millis(ENDING_MS));
    }
    for member in &team.members {
        end_member(member, now);
    }
    Recorded { start: None, ended, is_whole: false, marks: vec![Vec::new(); team.members.len()], begun_ns }
}

/// Length of a window by time unless `--max-seconds` is shorter.
const TIME_WINDOW_S: f64 = 5.0;
