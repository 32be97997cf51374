//! One window from the command to the report.
//!
//! Next: `membership` (who), `marker` (what counts), `recording` (when), `report` (what it says).

use super::checked;
use super::doubts;
use super::how_far;
use super::marker::{self, Found, Marker};
use super::membership::Membership;
use super::nest::Candidates;
use super::no_loop::ByTime;
use super::recording::{self, HowEnded, Recorded};
use super::report;
use crate::clock::Clock;
use crate::crew::{Crew, Here};
use crate::error::Error;
use crate::first_call::{GatherEnd, GatherWait, Held, Standing};
use crate::node::WindowNode;
use crate::options::{LoopName, Mark, Options, Progress, WindowStage};
use crate::request::{Answer, Facts, Request, WindowId};
use std::collections::BTreeSet;
use std::time::Duration;
use trimtab_os::{monotonic_ns, ticks};
use trimtab_session::ImageCache;
use trimtab_track::Job;
use trimtab_types::report::{Ended, Report};

/// Between two looks at ranks that are to wait behind `MPI_Init`, on this machine and on others.
const GATHER_LOOK: Duration = Duration::from_millis(2);
const GATHER_LOOK_FAR: Duration = Duration::from_millis(20);

/// Loops that a program may leave before a window of them begins, and seconds that must be left to choose another.
const LEFT_MAX: usize = 3;
const LEFT_SECONDS_MIN: f64 = 1.0;

/// Looks at the stacks where no loop of the program counts, besides the first ones.
const LOOKED_AGAIN_MAX: u32 = 6;

/// A loop that the program left before a window of it was long enough.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LeftLoop {
    /// The loop, for a reader.
    pub name: String,
    /// Iterations that were recorded; 0: the window had not begun.
    pub iterations: u64,
}

/// A finished window.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The window's report.
    pub report: Report,
    /// Its first sentences.
    pub headline: String,
    /// Processes that ended by a fault, or by what can't be known, while they were patched: a sentence each, which also is
    /// among the report's warnings. The window is not valid then.
    pub departed: Vec<String>,
}

/// Measures one window of a job whose ranks are all on this machine. Whatever happens, every rank is restored before
/// this returns.
pub fn measure(job: &Job, options: &Options, cache: &ImageCache, progress: &dyn Progress) -> Result<Outcome, Error> {
    let is_given_up = || progress.is_interrupted();
    let mut crew = Here { node: WindowNode::new(0, job.clone(), cache).until_given_up(&is_given_up) };
    measure_with(&mut crew, WindowId(1), options, progress)
}

/// As [`measure`], and ranks that wait behind `MPI_Init` go on once they record: the window is by time, from their first
/// call on.
///
/// # Errors
/// As [`measure`]; then all ranks go on, too.
pub fn measure_from_first_call(
    job: &Job,
    options: &Options,
    cache: &ImageCache,
    progress: &dyn Progress,
    held: Held,
) -> Result<Outcome, Error> {
    let is_given_up = || progress.is_interrupted();
    let is_held = held.is_any();
    let mut crew = Here { node: WindowNode::new(0, job.clone(), cache).until_given_up(&is_given_up).with_held(held) };
    let mut lead = WindowLead::new(Membership::new(&mut crew, WindowId(1)), options, progress);
    lead.waits = Some(is_held);
    lead.outcome()
}

/// Measures one window of the ranks that the nodes of a crew have. Every rank of a node that answers is restored before
/// this returns; one that does not answer has to restore its own.
pub fn measure_with(
    crew: &mut dyn Crew,
    window: WindowId,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Outcome, Error> {
    WindowLead::new(Membership::new(crew, window), options, progress).outcome()
}

/// Whoever leads a window through.
pub(super) struct WindowLead<'a> {
    pub membership: Membership<'a>,
    pub options: &'a Options,
    pub progress: &'a dyn Progress,
    pub facts: Facts,
    pub candidates: Candidates,
    pub clock: Clock,
    /// True if ranks wait behind `MPI_Init` until they record; `None`: nobody has asked for that.
    waits: Option<bool>,
    started_ns: u64,
    started_ticks: u64,
    /// Seconds that a loop may be looked for, and as many that it may be recorded: `--max-seconds`, and what is left of it
    /// once a loop was left.
    pub max_seconds: f64,
    /// The loops that were left before a window of them was long enough.
    pub left: Vec<LeftLoop>,
    /// The loops that were counted so far, whichever was taken, and how often stacks were looked at because none was.
    pub tried: BTreeSet<LoopName>,
    pub looked_again: u32,
    /// Loops around one that was left: it may have been a part of their passes.
    pub around_left: BTreeSet<LoopName>,
}

impl<'a> WindowLead<'a> {
    fn new(membership: Membership<'a>, options: &'a Options, progress: &'a dyn Progress) -> Self {
        let (started_ns, started_ticks) = (monotonic_ns(), ticks());
        let (facts, candidates, clock) = (Facts::default(), Candidates::default(), Clock::start());
        let (max_seconds, left, tried) = (options.max_seconds, Vec::new(), BTreeSet::new());
        WindowLead {
            membership,
            options,
            progress,
            facts,
            candidates,
            clock,
            waits: None,
            started_ns,
            started_ticks,
            max_seconds,
            left,
            tried,
            looked_again: 0,
            around_left: BTreeSet::new(),
        }
    }

    fn outcome(&mut self) -> Result<Outcome, Error> {
        let outcome = self.measure();
        if outcome.is_err() {
            self.membership.abandon();
        }
        outcome
    }

    /// Ranks record from their first call on, so nothing of it is forgotten for a loop.
    fn is_from_first_call(&self) -> bool {
        self.waits == Some(true)
    }

    /// Has ranks wait where they come out of `MPI_Init`, on all nodes, until each that can come has come.
    fn gather(&mut self, limit: Duration) -> Result<(), Error> {
        let mut wait = GatherWait::new(limit);
        loop {
            let standing =
                self.membership.ask(Request::Gather(Box::new(self.options.clone())), |answer| match answer {
                    Answer::Standing(standing) => Some(standing),
                    _ => None,
                })?;
            let all = standing.into_iter().fold(Standing::default(), |all, (_, node)| all.and(node));
            if let Some(end) = wait.seen(&all, self.progress.is_interrupted()) {
                self.waits = Some(all.held > 0 && end == GatherEnd::Whole);
                return self.membership.tell(Request::EndGather(end));
            }
            std::thread::sleep(if self.membership.is_here() { GATHER_LOOK } else { GATHER_LOOK_FAR });
        }
    }

    fn measure(&mut self) -> Result<Outcome, Error> {
        self.progress.stage(&WindowStage::Planning);
        if let Some(seconds) = self.options.first_call_s {
            self.gather(Duration::from_secs(seconds))?;
        }
        if !self.is_from_first_call() {
            self.candidates = Candidates::sampled(self)?;
        }
        self.insert(Request::Insert)?;
        if self.waits.is_some() {
            self.membership.go()?;
        }
        self.progress.stage(&WindowStage::Inserting { ranks: self.membership.rank_total() });
        let (marker, recorded) = match self.window() {
            Ok(found) => found,
            Err(error) => return Err(self.why_early(error)),
        };
        self.membership.end_clocks()?;
        let checked = checked::verify_marks(self, &marker)?;
        let how_far = how_far::ask(self, &marker)?;
        self.progress.stage(&WindowStage::Removing);
        let departed = self.remove()?;
        self.membership.warnings.extend(departed.iter().cloned());
        let mut report = report::report(self, &marker, &recorded, checked)?;
        report.window.valid &= departed.is_empty();
        report.window.progress = how_far::progress(&how_far, &report.window);
        doubts::say_phase(&mut report);
        doubts::say_around(self, &mut report)?;
        let headline = trimtab_window::headline(&report);
        Ok(Outcome { report, headline, departed })
    }

    /// Puts the probes in.
    pub(super) fn insert(&mut self, request: fn(Box<Options>) -> Request) -> Result<(), Error> {
        let asked = self.candidates.asked(self.options);
        self.tried.extend(asked.loops.iter().cloned());
        let request = request(Box::new(asked));
        let inserted = self.membership.insert(request, &self.clock);
        // Whoever gave it up isn't told what came of it.
        self.facts = inserted.or_else(|error| self.check_interrupted().and(Err(error)))?;
        (self.started_ns, self.started_ticks) = (monotonic_ns(), ticks());
        Ok(())
    }

    /// Takes the probes out everywhere; what to tell of processes that ended by a fault meanwhile.
    fn remove(&mut self) -> Result<Vec<String>, Error> {
        let removed = self.membership.ask(Request::Remove, |answer| match answer {
            Answer::Removed { warnings, departed } => Some((warnings, departed)),
            _ => None,
        })?;
        let (warnings, departed): (Vec<_>, Vec<_>) = removed.into_iter().map(|(_, told)| told).unzip();
        self.membership.warnings.extend(warnings.into_iter().flatten());
        Ok(departed.into_iter().flatten().collect())
    }

    /// A program that ended too early may have ended by a fault.
    fn why_early(&mut self, error: Error) -> Error {
        if !matches!(error, Error::EndedEarly) {
            return error;
        }
        match self.remove() {
            Ok(departed) if !departed.is_empty() => Error::Departed { departed },
            _ => error,
        }
    }

    /// Finds what counts iterations and records; by time if nothing does.
    fn window(&mut self) -> Result<(Marker, Recorded), Error> {
        if self.is_from_first_call() {
            let marker = Marker::Time { why: ByTime::FromFirstCall, no_loop: None };
            return Ok((marker, recording::by_time(self)?));
        }
        loop {
            let marker = match marker::find(self) {
                // A program that ended too early was recorded by time.
                Err(Error::EndedEarly) => return self.until_ended(),
                // And whoever wants to see all of it until he says so gets that.
                Err(error @ Error::Interrupted) if self.options.follow => {
                    return self.until(Ended::Interrupted, error);
                }
                found => found?,
            };
            let marker = match marker {
                Found::Left { name } => {
                    self.choose_anew(LeftLoop { name, iterations: 0 })?;
                    continue;
                }
                Found::Others(candidates) => {
                    self.begin_anew(candidates)?;
                    continue;
                }
                Found::Counts(marker) => marker,
            };
            match &marker {
                Marker::Time { .. } => return Ok((marker, recording::by_time(self)?)),
                Marker::Call(call) => match recording::by_iterations(self, call)? {
                    HowEnded::Recorded(recorded) => return Ok((marker, recorded)),
                    HowEnded::Left { iterations } => {
                        self.choose_anew(LeftLoop { name: call.name.clone(), iterations })?;
                    }
                },
            }
        }
    }

    /// True if another loop may be chosen where the program leaves the one that was: nobody asked for that one, and there
    /// is time.
    pub(super) fn may_choose_anew(&self) -> bool {
        let is_free = matches!(self.options.mark, Mark::Auto | Mark::Calls) && self.facts.marker.is_none();
        let left_s = self.max_seconds - self.seconds();
        is_free && self.options.start.is_none() && self.left.len() < LEFT_MAX && left_s > LEFT_SECONDS_MIN
    }

    /// The program has left what was to count: the loops that run now are looked at, in the time that is left.
    fn choose_anew(&mut self, left: LeftLoop) -> Result<(), Error> {
        self.left.push(left);
        self.around_left.extend(self.candidates.around_taken());
        let candidates = Candidates::sampled(self)?;
        self.candidates.add_pauses(candidates.pause_us_max, candidates.pause_us_total);
        self.begin_anew(candidates)
    }

    /// Counts the passes of these loops, in the time that is left. Their looks are among those that are known already.
    fn begin_anew(&mut self, candidates: Candidates) -> Result<(), Error> {
        self.max_seconds = (self.max_seconds - self.seconds()).max(LEFT_SECONDS_MIN);
        let (pause_us_max, pause_us_total) = (self.candidates.pause_us_max, self.candidates.pause_us_total);
        self.candidates = Candidates { pause_us_max, pause_us_total, ..candidates };
        self.insert(Request::InsertAnew)
    }

    /// True if the stacks may be looked at again where no loop of the program counts.
    pub(super) fn may_look_again(&self) -> bool {
        let is_free = self.options.mark == Mark::Auto && self.facts.marker.is_none() && self.options.start.is_none();
        is_free && self.looked_again < LOOKED_AGAIN_MAX && self.max_seconds - self.seconds() > LEFT_SECONDS_MIN
    }

    /// The recording by time until the program ended, or set a fault handler, while the loop was looked for.
    fn until_ended(&mut self) -> Result<(Marker, Recorded), Error> {
        let early = match recording::early(self) {
            // It ended while probes were put in anew: none is in, so nothing was recorded.
            Err(Error::NoNode { .. }) => return Err(Error::EndedEarly),
            early => early?,
        };
        match early.has_new_handler {
            true => self.until(Ended::FaultHandler, Error::NewFaultHandler),
            false => self.until(Ended::ProgramEnded, Error::EndedEarly),
        }
    }

    /// The recording by time until something ended it while the loop was looked for; `error` if that is nothing.
    fn until(&mut self, ended: Ended, error: Error) -> Result<(Marker, Recorded), Error> {
        let early = recording::early(self)?;
        let is_worth_it = early.has_calls || ended == Ended::Interrupted;
        let Some(seconds) = early.seconds.filter(|_| is_worth_it) else { return Err(error) };
        let marker = Marker::Time { why: ByTime::CutShort { ended, seconds }, no_loop: None };
        Ok((marker, recording::cut_short(self, ended, seconds)?))
    }

    /// Since the probes went in.
    pub(super) fn seconds(&self) -> f64 {
        (monotonic_ns() - self.started_ns) as f64 / 1e9
    }

    /// So many ticks in seconds, about.
    pub(super) fn seconds_of(&self, some_ticks: f64) -> f64 {
        some_ticks * self.seconds() / (ticks() - self.started_ticks).max(1) as f64
    }

    pub(super) fn check_interrupted(&self) -> Result<(), Error> {
        if self.progress.is_interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
