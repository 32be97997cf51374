//! From "everyone agrees" to "everyone has recorded": arm, watch, end.
//!
//! All ranks are told the same iteration of the job. If one had already passed it, nobody's recording counts: all are
//! reset and told a later one. How much later the first one lies follows from the time that the way to all nodes and
//! back was seen to take. While ranks record nodes are only asked now and then how far they are.
//!
//! How many iterations fill the seconds asked for is chosen by how long they took before. Passes that come in bursts make
//! that wrong: a window that turns out much shorter is forgotten, and another one goes on until the seconds are over.
//!
//! Next: `report` reads what they wrote.

use super::drive::WindowLead;
use super::how_far;
use super::marker::{LEFT_LOOP_SECONDS, MarkerCall, PASSES_WAITED};
use crate::error::Error;
use crate::options::{ITERATIONS_CHOSEN_MAX, Options, RecordedSoFar, WindowStage};
use crate::request::{Answer, Early, LoopLeft, Polled, Request};
use crate::so_far::CommSoFar;
use std::time::Duration;
use trimtab_os::monotonic_ns;
use trimtab_types::report::Ended;
use trimtab_window::choose_start;

/// Time it takes at most to tell every rank of this machine the start, seconds; grows with every failed try.
const TELLING_S: f64 = 0.004;
/// Ways to all nodes and back between the question where the ranks are and the moment at which all were told.
const TELLING_ROUND_TRIPS: f64 = 3.0;
/// Tries to agree on a start.
const ARM_TRIES_MAX: u32 = 6;
/// Iterations that ranks may take to come to an agreed end after the time limit, and bounds of that time in seconds.
const GRACE_ITERATIONS: f64 = 5.0;
const GRACE_S_MIN: f64 = 1.0;
const GRACE_S_MAX: f64 = 10.0;
/// An end of short iterations lies so far ahead, seconds: a busy machine may keep us from telling it for a while.
const END_AHEAD_S: f64 = 0.05;
/// Iterations that are enough for a window if the program leaves the loop: fewer may have been anything.
const ITERATIONS_ENOUGH: u64 = 10;
/// From this time per iteration on, seconds, the end is agreed on an iteration before the limit of time.
const SLOW_ITERATION_S: f64 = 3.0;
/// Bounds of the time between two looks while recording, and the least of it in ways to all nodes and back.
const LOOK_US_MIN: u64 = 500;
const LOOK_US_MAX: u64 = 100_000;
/// The most of it where passes come in bursts.
const LOOK_US_BURSTS: u64 = 10_000;
const LOOK_ROUND_TRIPS: f64 = 4.0;
/// Time between two looks at a window by time.
const LOOK_MS: u64 = 10;
/// Length of a window by time unless `--max-seconds` is shorter.
const TIME_WINDOW_S: f64 = 5.0;

/// The result of a recording.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    /// The job's iteration at which recording began; `None`: by time.
    pub start: Option<u64>,
    /// Why it ended.
    pub ended: Ended,
    /// Every rank recorded to the end that was meant: no rank was cut off in the middle.
    pub is_whole: bool,
    /// If not, iterations that all ranks have whole, where these can be told apart.
    pub in_common: Option<u64>,
    /// Monotonic time of the first recorded iteration as far as we saw it.
    pub begun_ns: u64,
}

/// How a recording by iterations ended.
pub(super) enum HowEnded {
    /// It was recorded.
    Recorded(Recorded),
    /// The program left the loop after so few iterations that another may be chosen.
    Left {
        /// Iterations that were recorded.
        iterations: u64,
    },
}

/// The end of a recording.
struct End {
    ended: Ended,
    is_whole: bool,
    in_common: Option<u64>,
}

impl End {
    /// All ranks came to it together.
    fn whole(ended: Ended) -> Self {
        End { ended, is_whole: true, in_common: None }
    }
}

/// Records a window that is counted in iterations.
pub(super) fn by_iterations(lead: &mut WindowLead, marker: &MarkerCall) -> Result<HowEnded, Error> {
    let ticks_per_second = lead.clock.ticks_per_second();
    let iteration_s = marker.iteration_ticks / ticks_per_second;
    let round_trip_s = lead.membership.round_trip_s(ticks_per_second);
    let mut wanted = wanted(lead, iteration_s);
    let mut seconds = None;
    let armed_ns = monotonic_ns();
    loop {
        let (start, left) = arm(lead, wanted, iteration_s, round_trip_s)?;
        lead.progress.stage(&WindowStage::Armed { start });
        let mut watch = Watch {
            iteration_s,
            round_trip_s,
            begun_ns: 0,
            is_ending: false,
            wanted,
            seconds,
            recorded_s: 0.0,
            end: wanted.map(|wanted| start.saturating_add(wanted)),
            left,
            moved_ns: monotonic_ns(),
            done: 0,
            comm: CommSoFar::default(),
            main_loop: how_far::position(lead, marker),
            looked_ns: 0,
        };
        let Some(end) = watch.until_done(lead, start, armed_ns)? else {
            return Ok(HowEnded::Left { iterations: watch.done });
        };
        if let Some(more_s) = watch.more_seconds(lead, &end, armed_ns) {
            lead.membership.tell(Request::Reset)?;
            (wanted, seconds) = (None, Some(more_s));
            continue;
        }
        if let Some(asked_s) = lead.options.length.unfilled(watch.recorded_s).filter(|_| end.ended == Ended::Iterations)
        {
            lead.membership.warnings.push(short(watch.recorded_s, asked_s, watch.done));
        }
        let End { ended, is_whole, in_common } = end;
        let begun_ns = watch.begun_ns;
        return Ok(HowEnded::Recorded(Recorded { start: Some(start), ended, is_whole, in_common, begun_ns }));
    }
}

/// Said of a window that is shorter than it was asked to be.
fn short(recorded_s: f64, asked_s: f64, iterations: u64) -> String {
    format!(
        "the window is shorter than the {asked_s} s asked for (--at-least): its {iterations} iterations took {:.3} ms; ask for \
         a number with --iterations, or for a loop further out with --loop",
        recorded_s * 1e3
    )
}

/// Iterations to record; `None`: the end is told later.
fn wanted(lead: &WindowLead, iteration_s: f64) -> Option<u64> {
    let options = lead.options;
    let is_open = options.follow || options.until_confident.is_some();
    (!is_open).then(|| options.length.iterations(iteration_s, lead.max_seconds))
}

/// Iterations per second; 0 if not known.
fn rate(iteration_s: f64) -> f64 {
    if iteration_s > 0.0 { 1.0 / iteration_s } else { 0.0 }
}

fn furthest(lead: &mut WindowLead) -> Result<u64, Error> {
    let counts = lead.membership.ask(Request::Furthest, |answer| match answer {
        Answer::Furthest(count) => Some(count),
        _ => None,
    })?;
    Ok(counts.into_iter().map(|(_, count)| count).max().unwrap_or(0))
}

fn telling_s(round_trip_s: f64) -> f64 {
    TELLING_S + TELLING_ROUND_TRIPS * round_trip_s
}

/// Tells all ranks to begin at the same iteration; that iteration, and how many lie before the end.
fn arm(lead: &mut WindowLead, wanted: Option<u64>, iteration_s: f64, round_trip_s: f64) -> Result<(u64, u64), Error> {
    for attempt in 0..ARM_TRIES_MAX {
        let furthest = furthest(lead)?;
        let margin_s = telling_s(round_trip_s) * f64::from(4u32.pow(attempt));
        // Of iterations that were to pass first none more is let pass, unless the ranks are too fast to be told in time.
        let asked = lead.options.start.map_or(0, |pass| furthest.saturating_add(pass));
        let start = match (lead.options.start, attempt) {
            (Some(_), 0) => asked,
            _ => asked.max(choose_start(&[furthest], rate(iteration_s), margin_s)),
        };
        let end = wanted.map(|wanted| start.saturating_add(wanted));
        let missed = lead.membership.ask(Request::Arm { start, end }, |answer| match answer {
            Answer::Armed { is_missed } => Some(is_missed),
            _ => None,
        })?;
        if !missed.into_iter().any(|(_, is_missed)| is_missed) {
            return Ok((start, end.unwrap_or(u64::MAX).saturating_sub(furthest)));
        }
        lead.membership.tell(Request::Reset)?;
    }
    Err(Error::TooFast)
}

/// Looks at the ranks while they record.
struct Watch {
    iteration_s: f64,
    round_trip_s: f64,
    begun_ns: u64,
    is_ending: bool,
    /// Iterations to record, and the one after the last; `None`: no fixed number.
    wanted: Option<u64>,
    /// It ends after so many seconds in place of a number of iterations.
    seconds: Option<f64>,
    /// From the first to the last mark, of the rank where that is least.
    recorded_s: f64,
    end: Option<u64>,
    /// Iterations until the end, when that was asked last.
    left: u64,
    /// Monotonic time at which that was seen to have become less.
    moved_ns: u64,
    /// Iterations that every rank has recorded.
    done: u64,
    /// Communication so far.
    comm: CommSoFar,
    /// The loop whose passes are counted, as a position among the measured functions.
    main_loop: Option<u32>,
    /// Monotonic time at which it was looked where the ranks are; 0: never.
    looked_ns: u64,
}

impl Watch {
    /// Waits for the end. `None`: the loop was left, and another may be chosen.
    fn until_done(&mut self, lead: &mut WindowLead, start: u64, armed_ns: u64) -> Result<Option<End>, Error> {
        let mut ended = Ended::Iterations;
        let mut grace_ns = None;
        loop {
            std::thread::sleep(Duration::from_micros(self.look_us(lead.options)));
            let seen = poll(lead)?;
            if seen.left_max < self.left {
                self.moved_ns = monotonic_ns();
            }
            (self.left, self.done, self.comm) = (seen.left_max, seen.marks_min.saturating_sub(1), seen.comm);
            self.recorded_s = seen.recorded_s;
            if let Some(since_s) = seen.since_first_s.filter(|_| self.begun_ns == 0) {
                self.begun_ns = monotonic_ns().saturating_sub((since_s * 1e9) as u64);
            }
            if seen.is_done {
                return Ok(Some(End::whole(ended)));
            }
            if seen.is_alive && grace_ns.is_none() && self.is_left(lead)? {
                match self.done < self.enough() && lead.may_choose_anew() {
                    true => return Ok(None),
                    false if self.begun_ns != 0 => return end_now(lead, Ended::LeftLoop).map(Some),
                    false => {}
                }
            }
            let since_ns = if lead.options.patient { self.begun_ns } else { armed_ns };
            match must_end(lead, &seen, since_ns, self.ahead_s()) {
                // Once recording has begun an early end is an iteration too, the next one all ranks can reach: what was
                // recorded then is whole on all of them.
                Some(why @ (Ended::MaxSeconds | Ended::ProbeLimit | Ended::Interrupted)) if self.begun_ns != 0 => {
                    match grace_ns {
                        None => {
                            self.end_together(lead)?;
                            ended = why;
                            grace_ns = Some(monotonic_ns() + self.grace_ns());
                        }
                        Some(until) if monotonic_ns() < until => {}
                        Some(_) => return end_now(lead, why).map(Some),
                    }
                }
                Some(early) => return end_now(lead, early).map(Some),
                None if self.is_ending => {}
                None if self.is_filled(lead) => {
                    self.is_ending = self.end_together(lead)?;
                }
                None if seen.is_confident && self.end_together(lead)? => {
                    self.is_ending = true;
                    ended = Ended::Confident;
                }
                None => {}
            }
            self.tell(lead, start, armed_ns);
        }
    }

    /// The seconds that another window should take, as this one had all its iterations and is much shorter; `None`: it
    /// is not, has as many as are told of, or there is no time for another.
    fn more_seconds(&self, lead: &WindowLead, end: &End, armed_ns: u64) -> Option<f64> {
        let seconds = lead.options.length.unfilled(self.recorded_s)?;
        let spent_s = monotonic_ns().saturating_sub(armed_ns) as f64 / 1e9;
        let may_go_on = self.seconds.is_none() && self.wanted.is_some_and(|wanted| wanted < ITERATIONS_CHOSEN_MAX);
        (end.ended == Ended::Iterations && may_go_on && spent_s + seconds < lead.max_seconds).then_some(seconds)
    }

    /// True if it goes by seconds and they are over, or as many iterations are recorded as are told of; or if the iterations
    /// that were to fill them take much longer.
    fn is_filled(&self, lead: &WindowLead) -> bool {
        match self.seconds {
            Some(seconds) => self.recorded_s >= seconds || self.done >= ITERATIONS_CHOSEN_MAX,
            None if self.wanted.is_some() && self.done >= ITERATIONS_ENOUGH => {
                lead.options.length.is_overfilled(self.recorded_s)
            }
            None => false,
        }
    }

    /// True if some rank has not passed its loop for longer than some passes of it take, and all are somewhere else. A call
    /// of a program has no code that ranks can be in: before recording has begun it counts as left by that time alone.
    fn is_left(&mut self, lead: &mut WindowLead) -> Result<bool, Error> {
        let patience_s = PASSES_WAITED * self.iteration_s + LEFT_LOOP_SECONDS;
        let since_s = |then_ns: u64| monotonic_ns().saturating_sub(then_ns) as f64 / 1e9;
        if since_s(self.moved_ns) <= patience_s {
            return Ok(false);
        }
        let Some(function) = self.main_loop else { return Ok(self.begun_ns == 0) };
        // A look holds the ranks for a moment: the longer a pass takes, the rarer it is.
        if since_s(self.looked_ns) <= since_s(self.moved_ns) / 2.0 {
            return Ok(false);
        }
        self.looked_ns = monotonic_ns();
        is_somewhere_else(lead, function)
    }

    /// Iterations by which a window is one of the loop, also if the program leaves it then.
    fn enough(&self) -> u64 {
        self.wanted.map_or(ITERATIONS_ENOUGH, |wanted| wanted.min(ITERATIONS_ENOUGH)).max(1)
    }

    /// How long before the limit of time an end must be agreed on, so that ranks come to it before: an iteration, where
    /// they take so long that time for that after the limit would be missed by whoever set it.
    fn ahead_s(&self) -> f64 {
        if self.done > 0 && self.iteration_s > SLOW_ITERATION_S { self.iteration_s } else { 0.0 }
    }

    /// Time for the ranks to come to an agreed end: a few iterations.
    fn grace_ns(&self) -> u64 {
        let iterations_s = GRACE_ITERATIONS * self.iteration_s + telling_s(self.round_trip_s);
        (iterations_s.clamp(GRACE_S_MIN, GRACE_S_MAX) * 1e9) as u64
    }

    /// Tells all ranks the same last iteration, none behind the one that was meant. Where a rank had passed it already, all
    /// are told a later one; false if ranks were too fast for any.
    fn end_together(&mut self, lead: &mut WindowLead) -> Result<bool, Error> {
        for attempt in 0..ARM_TRIES_MAX {
            let margin_s = self.end_ahead_s() * f64::from(4u32.pow(attempt));
            let next = choose_start(&[furthest(lead)?], rate(self.seen_s()), margin_s);
            let end = self.end.map_or(next, |end| end.min(next));
            let missed = lead.membership.ask(Request::EndAt { end }, |answer| match answer {
                Answer::EndSet { is_missed } => Some(is_missed),
                _ => None,
            })?;
            if !missed.into_iter().any(|(_, is_missed)| is_missed) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Time per iteration as it was before, or has been while recorded where that is longer: bursts are much faster than both.
    fn seen_s(&self) -> f64 {
        if self.done == 0 { self.iteration_s } else { self.iteration_s.max(self.recorded_s / self.done as f64) }
    }

    /// How far ahead an agreed end lies, seconds.
    fn end_ahead_s(&self) -> f64 {
        let telling_s = telling_s(self.round_trip_s);
        if self.iteration_s < END_AHEAD_S { telling_s.max(END_AHEAD_S) } else { telling_s }
    }

    /// How long to leave the ranks alone. They may use every processor, so each look takes time from one of them: we
    /// sleep until the end is expected and look a few times around it.
    ///
    /// Counters are also read about when the recording begins.
    fn look_us(&self, options: &Options) -> u64 {
        let begins_next = !options.counters.is_empty() && self.begun_ns == 0;
        let left = if begins_next { self.left.saturating_sub(self.wanted.unwrap_or(0)) } else { self.left };
        let expected_us = left.min(1_000_000) as f64 * self.iteration_s * 1e6;
        let least_us = ((self.round_trip_s * LOOK_ROUND_TRIPS * 1e6) as u64).clamp(LOOK_US_MIN, LOOK_US_MAX);
        // In bursts marks come faster than expected.
        let most_us = if self.seconds.is_some() { LOOK_US_BURSTS } else { LOOK_US_MAX };
        (expected_us as u64).clamp(least_us.min(most_us), most_us)
    }

    fn tell(&self, lead: &WindowLead, start: u64, armed_ns: u64) {
        if self.begun_ns == 0 {
            lead.progress.stage(&WindowStage::Armed { start });
            return;
        }
        let wanted = self.wanted.unwrap_or(0);
        let seconds = (monotonic_ns() - armed_ns) as f64 / 1e9;
        lead.progress.recorded(RecordedSoFar { done: self.done, wanted, seconds, comm: self.comm });
    }
}

/// True if no rank is in the loop, as all nodes know for sure.
pub(super) fn is_somewhere_else(lead: &mut WindowLead, function: u32) -> Result<bool, Error> {
    let seen = lead.membership.ask(Request::SeeLoop { function }, |answer| match answer {
        Answer::Seen(seen) => Some(seen),
        _ => None,
    })?;
    let longest = |of: fn(&LoopLeft) -> f64| seen.iter().map(|(_, node)| of(node)).fold(0.0, f64::max);
    let (pause_us_max, pause_us_total) = (longest(|node| node.pause_us_max), longest(|node| node.pause_us_total));
    lead.candidates.pause_us_max = lead.candidates.pause_us_max.max(pause_us_max);
    lead.candidates.pause_us_total += pause_us_total;
    Ok(seen.iter().all(|(_, node)| node.is_left))
}

/// How far all ranks are. Of nodes, the one with the slowest rank says whether the interval is narrow enough.
fn poll(lead: &mut WindowLead) -> Result<Polled, Error> {
    let confident_percent = lead.options.until_confident;
    let polled = lead.membership.ask(Request::Poll { confident_percent }, |answer| match answer {
        Answer::Polled(polled) => Some(polled),
        _ => None,
    })?;
    let all = polled.into_iter().map(|(_, polled)| polled).reduce(|a, b| Polled {
        is_alive: a.is_alive && b.is_alive,
        has_new_handler: a.has_new_handler || b.has_new_handler,
        is_over_limit: a.is_over_limit || b.is_over_limit,
        is_done: a.is_done && b.is_done,
        since_first_s: [a.since_first_s, b.since_first_s].into_iter().flatten().reduce(f64::max),
        left_max: a.left_max.max(b.left_max),
        is_confident: if b.marks_min < a.marks_min { b.is_confident } else { a.is_confident },
        comm: a.comm.merged(b.comm),
        marks_min: a.marks_min.min(b.marks_min),
        recorded_s: a.recorded_s.min(b.recorded_s),
    });
    all.ok_or(Error::NoNode { purpose: "tell how far the recording is" })
}

/// Reasons to end. The limit of time counts from `since_ns`; not yet, if that is 0; it is over `ahead_s` earlier.
fn must_end(lead: &WindowLead, seen: &Polled, since_ns: u64, ahead_s: f64) -> Option<Ended> {
    if seen.has_new_handler {
        return Some(Ended::FaultHandler);
    }
    if !seen.is_alive {
        return Some(Ended::ProgramEnded);
    }
    if lead.progress.is_interrupted() {
        return Some(Ended::Interrupted);
    }
    if seen.is_over_limit {
        return Some(Ended::ProbeLimit);
    }
    let seconds = (monotonic_ns() - since_ns) as f64 / 1e9 + ahead_s;
    (!lead.options.follow && since_ns != 0 && seconds > lead.max_seconds).then_some(Ended::MaxSeconds)
}

fn end_now(lead: &mut WindowLead, why: Ended) -> Result<End, Error> {
    let (iterations_min, iterations_max) = end_all(lead, why)?;
    let is_by_us = matches!(why, Ended::MaxSeconds | Ended::ProbeLimit | Ended::LeftLoop);
    if iterations_max == 0 && !is_by_us {
        return Err(match why {
            Ended::Interrupted => Error::Interrupted,
            Ended::FaultHandler => Error::NewFaultHandler,
            _ => Error::EndedEarly,
        });
    }
    // A window that was meant to last as long as the program is whole when the program has ended.
    let is_whole = lead.options.follow && why == Ended::ProgramEnded;
    let in_common = (is_by_us || why == Ended::Interrupted).then_some(iterations_min);
    Ok(End { ended: why, is_whole, in_common })
}

/// Ends all ranks' recording; iterations of the rank that recorded fewest, and of the one that did most.
fn end_all(lead: &mut WindowLead, why: Ended) -> Result<(u64, u64), Error> {
    let ended =
        lead.membership.ask(Request::EndNow { program_ended: why == Ended::ProgramEnded }, |answer| match answer {
            Answer::Ended { iterations_min, iterations_max } => Some((iterations_min, iterations_max)),
            _ => None,
        })?;
    let all = ended.into_iter().map(|(_, node)| node).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    Ok(all.unwrap_or_default())
}

/// The recording by time while a loop was looked for.
pub(super) fn early(lead: &mut WindowLead) -> Result<Early, Error> {
    ask_early(lead, Request::SeeEarly)
}

fn ask_early(lead: &mut WindowLead, request: Request) -> Result<Early, Error> {
    let early = lead.membership.ask(request, |answer| match answer {
        Answer::Early(early) => Some(early),
        _ => None,
    })?;
    let all = early.into_iter().map(|(_, early)| early).reduce(|a, b| Early {
        seconds: [a.seconds, b.seconds].into_iter().flatten().reduce(f64::max),
        has_calls: a.has_calls || b.has_calls,
        is_alive: a.is_alive && b.is_alive,
        has_new_handler: a.has_new_handler || b.has_new_handler,
        is_over: a.is_over && b.is_over,
        comm: a.comm.merged(b.comm),
    });
    all.ok_or(Error::NoNode { purpose: "begin to record" })
}

/// Records a window that is bounded by time, from when recording began while a loop was looked for.
pub(super) fn by_time(lead: &mut WindowLead) -> Result<Recorded, Error> {
    let begun = ask_early(lead, Request::RecordByTime)?;
    let begun_ns = monotonic_ns().saturating_sub((begun.seconds.unwrap_or(0.0) * 1e9) as u64);
    let options = lead.options;
    let limit_s = if options.follow { f64::INFINITY } else { TIME_WINDOW_S.min(lead.max_seconds) };
    let mut comm = begun.comm;
    let ended = loop {
        let seconds = (monotonic_ns() - begun_ns) as f64 / 1e9;
        lead.progress.recorded(RecordedSoFar { done: 0, wanted: 0, seconds, comm });
        if lead.progress.is_interrupted() {
            break Ended::Interrupted;
        }
        let seen = early(lead)?;
        comm = seen.comm;
        if seen.has_new_handler {
            break Ended::FaultHandler;
        }
        if !seen.is_alive || seen.is_over {
            break Ended::ProgramEnded;
        }
        if seconds >= limit_s {
            break Ended::MaxSeconds;
        }
        std::thread::sleep(Duration::from_millis(LOOK_MS));
    };
    // A window by time has no iterations that could be incomplete: all ranks recorded as long.
    let is_whole =
        matches!(ended, Ended::MaxSeconds | Ended::Interrupted) || (options.follow && ended == Ended::ProgramEnded);
    end_all(lead, ended)?;
    Ok(Recorded { start: None, ended, is_whole, in_common: None, begun_ns })
}

/// The recording by time, for `seconds`, until the program or its user ended it, or it had the probes taken out, while a
/// loop was looked for.
pub(super) fn cut_short(lead: &mut WindowLead, ended: Ended, seconds: f64) -> Result<Recorded, Error> {
    let begun_ns = monotonic_ns().saturating_sub((seconds * 1e9) as u64);
    end_all(lead, ended)?;
    Ok(Recorded { start: None, ended, is_whole: ended == Ended::Interrupted, in_common: None, begun_ns })
}
