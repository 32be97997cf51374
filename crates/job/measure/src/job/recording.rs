//! From "everyone agrees" to "everyone has recorded": arm, watch, end.
//!
//! All ranks are told the same iteration of the job. If one had already passed it, nobody's recording counts: all are
//! reset and told a later one. How much later the first one lies follows from the time that the way to all nodes and
//! back was seen to take. While ranks record nodes are only asked now and then how far they are.
//!
//! Next: `report` reads what they wrote.

use super::drive::Lead;
use super::marker::MarkerCall;
use crate::error::Error;
use crate::options::{Ended, Stage};
use crate::request::{Answer, Early, Polled, Request};
use std::time::Duration;
use trimtab_os::monotonic_ns;
use trimtab_window::choose_start;

/// Time it takes at most to tell every rank of this machine the start, seconds; grows with every failed try.
const TELLING_S: f64 = 0.004;
/// Ways to all nodes and back between the question where the ranks are and the moment at which all were told.
const TELLING_ROUND_TRIPS: f64 = 3.0;
/// Tries to agree on a start.
const ARM_TRIES_MAX: u32 = 6;
/// Iterations that ranks may take to come to an agreed end after the time limit, and bounds of that time in seconds.
const GRACE_ITERATIONS: f64 = 3.0;
const GRACE_S_MIN: f64 = 0.05;
const GRACE_S_MAX: f64 = 10.0;
/// Bounds of the time between two looks while recording, and the least of it in ways to all nodes and back.
const LOOK_US_MIN: u64 = 500;
const LOOK_US_MAX: u64 = 100_000;
const LOOK_ROUND_TRIPS: f64 = 4.0;
/// Time between two looks at a window by time.
const LOOK_MS: u64 = 10;
/// Length of a window by time unless `--max-seconds` is shorter.
const TIME_WINDOW_S: f64 = 5.0;

/// What came of a recording.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    /// The job's iteration at which recording began; `None`: by time.
    pub start: Option<u64>,
    /// Why it ended.
    pub ended: Ended,
    /// Every rank recorded to the end that was meant: no rank was cut off in the middle.
    pub is_whole: bool,
    /// Monotonic time of the first recorded iteration as far as we saw it.
    pub begun_ns: u64,
}

/// Records a window that is counted in iterations.
pub(super) fn by_iterations(lead: &mut Lead, marker: &MarkerCall) -> Result<Recorded, Error> {
    let ticks_per_second = lead.clock.ticks_per_second();
    let iteration_s = marker.iteration_ticks / ticks_per_second;
    let round_trip_s = lead.muster.round_trip_s(ticks_per_second);
    let (start, left) = arm(lead, iteration_s, round_trip_s)?;
    lead.progress.stage(&Stage::Armed { start });
    let mut watch = Watch { iteration_s, round_trip_s, begun_ns: 0, is_ending: false, left, done: 0 };
    let (ended, is_whole) = watch.until_done(lead, start)?;
    Ok(Recorded { start: Some(start), ended, is_whole, begun_ns: watch.begun_ns })
}

/// Iterations per second; 0 if not known.
fn rate(iteration_s: f64) -> f64 {
    if iteration_s > 0.0 { 1.0 / iteration_s } else { 0.0 }
}

fn furthest(lead: &mut Lead) -> Result<u64, Error> {
    let counts = lead.muster.ask(Request::Furthest, |answer| match answer {
        Answer::Furthest(count) => Some(count),
        _ => None,
    })?;
    Ok(counts.into_iter().map(|(_, count)| count).max().unwrap_or(0))
}

fn telling_s(round_trip_s: f64) -> f64 {
    TELLING_S + TELLING_ROUND_TRIPS * round_trip_s
}

/// Tells all ranks to begin at the same iteration; that iteration, and how many lie before the end.
fn arm(lead: &mut Lead, iteration_s: f64, round_trip_s: f64) -> Result<(u64, u64), Error> {
    let open = lead.options.follow || lead.options.until_confident.is_some();
    for attempt in 0..ARM_TRIES_MAX {
        let furthest = furthest(lead)?;
        let margin_s = telling_s(round_trip_s) * f64::from(4u32.pow(attempt));
        let mut start = choose_start(&[furthest], rate(iteration_s), margin_s);
        if let Some(pass) = lead.options.start {
            start = start.max(furthest + pass);
        }
        let end = (!open).then(|| start.saturating_add(lead.options.iterations));
        let missed = lead.muster.ask(Request::Arm { start, end }, |answer| match answer {
            Answer::Armed { is_missed } => Some(is_missed),
            _ => None,
        })?;
        if !missed.into_iter().any(|(_, is_missed)| is_missed) {
            return Ok((start, end.unwrap_or(u64::MAX).saturating_sub(furthest)));
        }
        lead.muster.tell(Request::Reset)?;
    }
    Err(Error::Options(
        "the ranks iterate faster than they can be told when to start; measure by time (--mark with a rarer function)"
            .into(),
    ))
}

/// Looks at the ranks while they record.
struct Watch {
    iteration_s: f64,
    round_trip_s: f64,
    begun_ns: u64,
    is_ending: bool,
    /// Iterations until the end, when that was asked last.
    left: u64,
    /// Iterations that every rank has recorded.
    done: u64,
}

impl Watch {
    /// Waits for the end; why it came, and whether all ranks came to it together.
    fn until_done(&mut self, lead: &mut Lead, start: u64) -> Result<(Ended, bool), Error> {
        let armed_ns = monotonic_ns();
        let mut ended = Ended::Iterations;
        let mut grace_ns = None;
        loop {
            std::thread::sleep(Duration::from_micros(self.look_us()));
            let seen = poll(lead)?;
            (self.left, self.done) = (seen.left_max, seen.marks_min.saturating_sub(1));
            if let Some(since_s) = seen.since_first_s.filter(|_| self.begun_ns == 0) {
                self.begun_ns = monotonic_ns().saturating_sub((since_s * 1e9) as u64);
            }
            if seen.is_done {
                return Ok((ended, true));
            }
            let since_ns = if lead.options.patient { self.begun_ns } else { armed_ns };
            match must_end(lead, &seen, since_ns) {
                // Once recording has begun the time limit is an iteration too, the next one all ranks can reach.
                Some(Ended::MaxSeconds) if self.begun_ns != 0 && grace_ns.is_none() => {
                    self.end_together(lead)?;
                    ended = Ended::MaxSeconds;
                    grace_ns = Some(monotonic_ns() + self.grace_ns());
                }
                Some(Ended::MaxSeconds) if grace_ns.is_some_and(|until| monotonic_ns() < until) => {}
                Some(early) => return end_now(lead, early),
                None if self.is_ending => ended = Ended::Confident,
                None if seen.is_confident => {
                    self.end_together(lead)?;
                    self.is_ending = true;
                    ended = Ended::Confident;
                }
                None => {}
            }
            self.tell(lead, start, armed_ns);
        }
    }

    /// Time for the ranks to come to an agreed end: a few iterations.
    fn grace_ns(&self) -> u64 {
        let iterations_s = GRACE_ITERATIONS * self.iteration_s + telling_s(self.round_trip_s);
        (iterations_s.clamp(GRACE_S_MIN, GRACE_S_MAX) * 1e9) as u64
    }

    /// Tells all ranks the same last iteration.
    fn end_together(&mut self, lead: &mut Lead) -> Result<(), Error> {
        let end = choose_start(&[furthest(lead)?], rate(self.iteration_s), telling_s(self.round_trip_s));
        lead.muster.tell(Request::EndAt { end })
    }

    /// How long to leave the ranks alone. They may use every processor, so each look takes time from one of them: we
    /// sleep until the end is expected and look a few times around it.
    fn look_us(&self) -> u64 {
        let expected_us = self.left.min(1_000_000) as f64 * self.iteration_s * 1e6;
        let least_us = ((self.round_trip_s * LOOK_ROUND_TRIPS * 1e6) as u64).clamp(LOOK_US_MIN, LOOK_US_MAX);
        (expected_us as u64).clamp(least_us, LOOK_US_MAX)
    }

    fn tell(&self, lead: &Lead, start: u64, armed_ns: u64) {
        if self.begun_ns == 0 {
            lead.progress.stage(&Stage::Armed { start });
            return;
        }
        let open = lead.options.follow || lead.options.until_confident.is_some();
        let wanted = if open { 0 } else { lead.options.iterations };
        let seconds = (monotonic_ns() - armed_ns) as f64 / 1e9;
        lead.progress.stage(&Stage::Recording { done: self.done, wanted, seconds });
    }
}

/// How far all ranks are. Of nodes, the one with the slowest rank says whether the interval is narrow enough.
fn poll(lead: &mut Lead) -> Result<Polled, Error> {
    let confident_percent = lead.options.until_confident;
    let polled = lead.muster.ask(Request::Poll { confident_percent }, |answer| match answer {
        Answer::Polled(polled) => Some(polled),
        _ => None,
    })?;
    let all = polled.into_iter().map(|(_, polled)| polled).reduce(|a, b| Polled {
        is_alive: a.is_alive && b.is_alive,
        has_new_handler: a.has_new_handler || b.has_new_handler,
        is_done: a.is_done && b.is_done,
        since_first_s: [a.since_first_s, b.since_first_s].into_iter().flatten().reduce(f64::max),
        left_max: a.left_max.max(b.left_max),
        is_confident: if b.marks_min < a.marks_min { b.is_confident } else { a.is_confident },
        marks_min: a.marks_min.min(b.marks_min),
    });
    all.ok_or(Error::NoNode { purpose: "tell how far the recording is" })
}

/// Reasons to end at once, wherever the ranks are. The limit of time counts from `since_ns`; not yet, if that is 0.
fn must_end(lead: &Lead, seen: &Polled, since_ns: u64) -> Option<Ended> {
    if lead.progress.is_interrupted() {
        return Some(Ended::Interrupted);
    }
    if seen.has_new_handler {
        return Some(Ended::FaultHandler);
    }
    if !seen.is_alive {
        return Some(Ended::ProgramEnded);
    }
    let seconds = (monotonic_ns() - since_ns) as f64 / 1e9;
    (!lead.options.follow && since_ns != 0 && seconds > lead.options.max_seconds).then_some(Ended::MaxSeconds)
}

fn end_now(lead: &mut Lead, why: Ended) -> Result<(Ended, bool), Error> {
    let iterations_max = end_all(lead, why)?;
    if iterations_max == 0 && why != Ended::MaxSeconds {
        return Err(match why {
            Ended::Interrupted => Error::Interrupted,
            Ended::FaultHandler => Error::NewFaultHandler,
            _ => Error::EndedEarly,
        });
    }
    // A window that was meant to last as long as the program is whole when the program has ended.
    Ok((why, lead.options.follow && why == Ended::ProgramEnded))
}

/// Ends all ranks' recording; iterations of the rank that recorded most.
fn end_all(lead: &mut Lead, why: Ended) -> Result<u64, Error> {
    let ended =
        lead.muster.ask(Request::EndNow { program_ended: why == Ended::ProgramEnded }, |answer| match answer {
            Answer::Ended { iterations_max } => Some(iterations_max),
            _ => None,
        })?;
    Ok(ended.into_iter().map(|(_, iterations)| iterations).max().unwrap_or(0))
}

/// What was recorded by time while a loop was looked for.
pub(super) fn early(lead: &mut Lead) -> Result<Early, Error> {
    ask_early(lead, Request::SeeEarly)
}

fn ask_early(lead: &mut Lead, request: Request) -> Result<Early, Error> {
    let early = lead.muster.ask(request, |answer| match answer {
        Answer::Early(early) => Some(early),
        _ => None,
    })?;
    let all = early.into_iter().map(|(_, early)| early).reduce(|a, b| Early {
        seconds: [a.seconds, b.seconds].into_iter().flatten().reduce(f64::max),
        has_calls: a.has_calls || b.has_calls,
        is_alive: a.is_alive && b.is_alive,
        has_new_handler: a.has_new_handler || b.has_new_handler,
    });
    all.ok_or(Error::NoNode { purpose: "begin to record" })
}

/// Records a window that is bounded by time, from when recording began while a loop was looked for.
pub(super) fn by_time(lead: &mut Lead) -> Result<Recorded, Error> {
    let begun = ask_early(lead, Request::RecordByTime)?;
    let begun_ns = monotonic_ns().saturating_sub((begun.seconds.unwrap_or(0.0) * 1e9) as u64);
    let options = lead.options;
    let limit_s = if options.follow { f64::INFINITY } else { TIME_WINDOW_S.min(options.max_seconds) };
    let ended = loop {
        let seconds = (monotonic_ns() - begun_ns) as f64 / 1e9;
        lead.progress.stage(&Stage::Recording { done: 0, wanted: 0, seconds });
        if lead.progress.is_interrupted() {
            break Ended::Interrupted;
        }
        let seen = early(lead)?;
        if seen.has_new_handler {
            break Ended::FaultHandler;
        }
        if !seen.is_alive {
            break Ended::ProgramEnded;
        }
        if seconds >= limit_s {
            break Ended::MaxSeconds;
        }
        std::thread::sleep(Duration::from_millis(LOOK_MS));
    };
    let is_whole = ended == Ended::MaxSeconds || (options.follow && ended == Ended::ProgramEnded);
    end_all(lead, ended)?;
    Ok(Recorded { start: None, ended, is_whole, begun_ns })
}

/// What was recorded by time, for `seconds`, until the program ended, or had the probes taken out, while a loop was looked
/// for.
pub(super) fn cut_short(lead: &mut Lead, ended: Ended, seconds: f64) -> Result<Recorded, Error> {
    let begun_ns = monotonic_ns().saturating_sub((seconds * 1e9) as u64);
    end_all(lead, ended)?;
    Ok(Recorded { start: None, ended, is_whole: false, begun_ns })
}
