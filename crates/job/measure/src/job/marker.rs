//! The marker that counts iterations: a function of the program, or a call of the main loop that is found while it
//! runs.
//!
//! A loop is accepted once it has been seen again after the observation doubled and many times, or for a while, so that
//! a short inner loop does not win over the outer one at first sight. All ranks must agree; their counters are then
//! aligned to one numbering. A marker that is not passed again was no main loop: the search goes on, as long as there is
//! hope.
//!
//! Next: `agreement` for what the ranks have in common, `counting` for their counters.

use super::agreement::{Agreed, Seen, look};
use super::counting::{Aligned, Waiting, aligned};
use super::drive::WindowLead;
use super::nest::{self, Candidates, Choice, Chosen};
use super::no_loop::{ByTime, NoLoop};
use crate::error::Error;
use crate::node::PASSES_MIN;
use crate::options::{Mark, WindowStage};
use crate::reason::NotYet;
use crate::request::{Answer, Request};
use crate::runs::runs_of;
use std::time::Duration;
use trimtab_types::Rank;
use trimtab_types::report::{LoopPlace, MarkerSource};
use trimtab_window::{FunctionInfo, Patience, Symbol};

/// First look at the rings.
const FIRST_LOOK_MS: u64 = 4;
/// Longest time between two looks.
pub(super) const LOOK_MS_MAX: u64 = 100;
/// A loop seen this long needs no second look.
const CERTAIN_SECONDS: f64 = 1.0;
/// Iterations in which an inner loop would most likely have been left once.
const ITERATIONS_MANY: u64 = 32;
/// Looks that may miss a loop that was seen before: this many, or one of this many that showed it.
const MISSED_MIN: u32 = 1;
const LOOKS_PER_MISSED: u32 = 3;
/// A loop around the one seen is waited for this long, from when that one was seen.
const UNDECIDED_SECONDS_MAX: f64 = 3.0;
/// The part of `--max-seconds` that may pass without any repetition in sight.
const NOTHING_PART_MAX: f64 = 1.0 / 3.0;
const LIMIT_SECONDS_MIN: f64 = 0.2;
/// A marker that was found is waited for this long, and this many of its iterations more; all that is needed to align its
/// counters, longer.
const SILENT_MARKER_SECONDS_MAX: f64 = 0.5;
const MARKER_SECONDS_MAX: f64 = 2.0;
const MARKER_ITERATIONS_MAX: f64 = 20.0;
/// Passes of a slow loop that are waited for.
pub(super) const PASSES_WAITED: f64 = 5.0;
/// So long more a loop of the program is waited for before it is taken for left, seconds.
pub(super) const LEFT_LOOP_SECONDS: f64 = 1.0;
/// While calls are looked at, the stacks are looked at again after so long, and then after so much more of the time until
/// then.
const LOOK_AGAIN_SECONDS: f64 = 1.0;
const LOOK_AGAIN_FACTOR: f64 = 1.5;
/// A `measuremark` that nobody calls is waited for this long before a loop is looked for.
const SILENT_SECONDS_MAX: f64 = 3.0;
/// The part of `--max-seconds` that may pass until a marker that is being called is aligned.
const CALLED_PART_MAX: f64 = 2.0 / 3.0;

/// The marker that counts iterations in a window.
#[derive(Clone, Debug)]
pub(super) enum Marker {
    /// Nothing: the window is by time.
    Time {
        /// Why.
        why: ByTime,
        /// Why no loop of the program counts, where they were looked at.
        no_loop: Option<NoLoop>,
    },
    /// A call.
    Call(MarkerCall),
}

impl Marker {
    /// The same, whose description says why no loop of the program counts.
    fn because(self, no_loop: Option<&NoLoop>) -> Self {
        match (self, no_loop) {
            (Marker::Call(call), Some(why)) => {
                let description = call.description.as_deref().map(|known| format!("{known}; {}", why.with_meaning()));
                Marker::Call(MarkerCall { description, ..call })
            }
            (Marker::Time { why, .. }, no_loop) => Marker::Time { why, no_loop: no_loop.cloned() },
            (marker, _) => marker,
        }
    }
}

/// The outcome of a search.
pub(super) enum Found {
    /// The marker that counts iterations.
    Counts(Marker),
    /// None yet, but loops run that did not when stacks were looked at before.
    Others(Candidates),
    /// The loop of this name was chosen or about to be, and ranks have left it since.
    Left {
        /// Its name.
        name: String,
    },
}

/// A call that counts iterations on all ranks.
#[derive(Clone, Debug)]
pub(super) struct MarkerCall {
    /// For a reader.
    pub name: String,
    /// How it was found.
    pub source: MarkerSource,
    /// True if the ranks' numbering is proven.
    pub certain: bool,
    /// The basis of the choice, for a reader.
    pub explanation: String,
    /// Ticks of one iteration, about.
    pub iteration_ticks: f64,
    /// The call synchronises all ranks.
    pub synchronises: bool,
    /// The loop in a sentence.
    pub description: Option<String>,
    /// The loop itself, if its passes are counted.
    pub main_loop: Option<Box<LoopPlace>>,
    /// The loops around it, outermost first; `None`: not looked at.
    pub around: Option<Vec<String>>,
}

/// Finds what counts iterations.
pub(super) fn find(lead: &mut WindowLead) -> Result<Found, Error> {
    let max_seconds = lead.max_seconds;
    let limits = Limits::of(max_seconds);
    let limit_s = limits.nothing_s;
    match lead.facts.marker {
        Some((index, is_named)) => {
            let silent_s = if is_named { limit_s } else { limit_s.min(SILENT_SECONDS_MAX) };
            let called_s = limit_s.max(max_seconds * CALLED_PART_MAX);
            let waiting = Waiting { silent_s, limit_s: called_s, passes_min: PASSES_MIN, of_loop: None };
            match named(lead, index, is_named, waiting)? {
                Some(marker) => Ok(Found::Counts(marker)),
                // A program that has a marker but has not come to it yet: its calls may still show a loop.
                None => detected(lead, Limits { nothing_s: limit_s + silent_s, ..limits }),
            }
        }
        None => match of_nest(lead, limits)? {
            Some(found) => Ok(found),
            // The time that the program's loops have taken is not that of its calls.
            None => {
                let nothing_s = limits.nothing_s + lead.seconds();
                let found = detected(lead, Limits { nothing_s, most_s: limits.most_s.max(nothing_s) })?;
                Ok(match found {
                    Found::Counts(marker) => Found::Counts(marker.because(lead.candidates.why_not.as_ref())),
                    other => other,
                })
            }
        },
    }
}

/// A loop of the program counts iterations: the one of the nest that is wanted, or that the rule chooses; `None`: none is.
fn of_nest(lead: &mut WindowLead, limits: Limits) -> Result<Option<Found>, Error> {
    let Chosen { function, pass_s, description, around } = match nest::chosen(lead, limits.nothing_s)? {
        Choice::Loop(chosen) => chosen,
        Choice::Left { name } => return Ok(Some(Found::Left { name })),
        Choice::Nothing => return Ok(None),
    };
    let is_wanted = lead.options.mark != Mark::Auto;
    let may_choose_anew = lead.may_choose_anew();
    let source = if is_wanted { MarkerSource::Named } else { MarkerSource::Detected };
    let passes_s = PASSES_WAITED * pass_s;
    let limit_s = limits.nothing_s.max(passes_s).min(limits.most_s);
    // Where another may be chosen, one that is not passed any more is not waited for so long.
    let silent_s = if may_choose_anew { limit_s.min(passes_s + LEFT_LOOP_SECONDS) } else { limit_s };
    // It was passed already before it was chosen.
    let waiting = Waiting { silent_s, limit_s, passes_min: 1, of_loop: Some(function) };
    let begun_s = lead.seconds();
    match marked(lead, function, source, waiting)? {
        Ok(Marker::Call(call)) => {
            let call = MarkerCall { description: Some(description), around: Some(around), ..call };
            Ok(Some(Found::Counts(Marker::Call(call))))
        }
        Ok(by_time @ Marker::Time { .. }) => Ok(Some(Found::Counts(by_time))),
        Err((marker, silent)) if is_wanted => {
            Err(Error::MarkerSilent { marker, rank: Rank(silent), seconds: lead.seconds() - begun_s })
        }
        // The program has left it: stacks show where it is now.
        Err((name, _)) if may_choose_anew => Ok(Some(Found::Left { name })),
        // Or calls, where that happened too often.
        Err((marker, silent)) => {
            lead.candidates.left(&marker, silent, lead.seconds() - begun_s);
            Ok(None)
        }
    }
}

/// How long a loop is looked for, seconds since the probes went in.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// While nothing repeats.
    nothing_s: f64,
    /// While something does, or might.
    most_s: f64,
}

impl Limits {
    fn of(max_seconds: f64) -> Self {
        let nothing_s = (max_seconds * NOTHING_PART_MAX).max(LIMIT_SECONDS_MIN);
        Limits { nothing_s, most_s: max_seconds.max(nothing_s) }
    }

    fn of_sight(self, is_in_sight: bool) -> f64 {
        if is_in_sight { self.most_s } else { self.nothing_s }
    }
}

/// A function of the program counts iterations; `None`: nobody asked for it, and it stays silent.
fn named(lead: &mut WindowLead, function: u32, is_named: bool, waiting: Waiting) -> Result<Option<Marker>, Error> {
    let begun_s = lead.seconds();
    let source = if is_named { MarkerSource::Named } else { MarkerSource::MeasureMark };
    match marked(lead, function, source, waiting)? {
        Ok(marker) => Ok(Some(marker)),
        Err((marker, silent)) if is_named => {
            Err(Error::MarkerSilent { marker, rank: Rank(silent), seconds: lead.seconds() - begun_s })
        }
        Err(_) => Ok(None),
    }
}

/// Has a measured function count iterations; the inner error is its name, and a rank that it stays silent on.
fn marked(
    lead: &mut WindowLead,
    function: u32,
    source: MarkerSource,
    waiting: Waiting,
) -> Result<Result<Marker, (String, u32)>, Error> {
    let info = lead.facts.functions.get(function as usize).cloned();
    let FunctionInfo { name, loop_place, .. } =
        info.ok_or(Error::Malformed { what: "a marker that is not measured" })?;
    let name = match loop_place.as_ref().and_then(LoopPlace::source) {
        Some(source) => format!("{name} at {source}"),
        None => name,
    };
    lead.membership.tell(Request::CountFunction { function })?;
    Ok(match aligned(lead, waiting)? {
        Ok(found) => {
            Ok(Marker::Call(MarkerCall { main_loop: loop_place.map(Box::new), ..found.call(name, source, None) }))
        }
        Err(silent) => Err((name, silent)),
    })
}

/// A loop that was seen, and from when on. A rank that waits for a processor may hide it at a look or two.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    symbol: Symbol,
    since_s: f64,
    looks: u32,
    missed: u32,
}

impl Sighting {
    fn first(symbol: Symbol, since_s: f64) -> Self {
        Sighting { symbol, since_s, looks: 1, missed: 0 }
    }

    /// A look showed it again.
    fn again(self) -> Self {
        Sighting { looks: self.looks + 1, ..self }
    }

    /// A look did not show it; `None`: it has not been there too often to be the same when it comes again.
    fn missed(self) -> Option<Self> {
        let missed = self.missed + 1;
        (missed <= MISSED_MIN.max(self.looks / LOOKS_PER_MISSED)).then_some(Sighting { missed, ..self })
    }
}

/// Looks for the main loop by what calls repeat. Programs set up before they come to it, so that the stacks are looked at
/// again meanwhile.
fn detected(lead: &mut WindowLead, limits: Limits) -> Result<Found, Error> {
    let mut look_again_s = lead.seconds() + LOOK_AGAIN_SECONDS;
    let mut patience = Patience::default();
    let mut sighting: Option<Sighting> = None;
    let mut wait_ms = FIRST_LOOK_MS;
    loop {
        std::thread::sleep(Duration::from_millis(wait_ms));
        wait_ms = (wait_ms * 3 / 2).min(LOOK_MS_MAX);
        lead.check_interrupted()?;
        if lead.seconds() > look_again_s {
            if let Some(others) = nest::others(lead)? {
                return Ok(Found::Others(others));
            }
            look_again_s = lead.seconds() * LOOK_AGAIN_FACTOR + LOOK_AGAIN_SECONDS;
        }
        let seen = look(lead)?;
        let seconds = lead.seconds();
        let why = match seen.agreed.clone() {
            Ok(loops) => {
                let anchor = loops.choices.first().map(|(_, choice)| choice.symbol);
                let anchor = anchor.ok_or(Error::Malformed { what: "a loop of no rank" })?;
                // Of several calls that all happen once now the one, now the other is chosen.
                let same = sighting.filter(|seen| seen.symbol == anchor || loops.once.contains(&seen.symbol));
                if same.is_none() {
                    patience.none();
                }
                patience.found();
                let same = same.map_or(Sighting::first(anchor, seconds), Sighting::again);
                sighting = Some(same);
                match is_sure(&loops, seconds, same.since_s, limits.nothing_s) {
                    true => match sure(lead, &loops, limits.most_s)? {
                        Ok(found) => return Ok(found),
                        Err(why) => {
                            sighting = None;
                            patience.left();
                            why
                        }
                    },
                    false => NotYet::SeenOnce,
                }
            }
            Err(why) => {
                sighting = sighting.and_then(Sighting::missed);
                if sighting.is_none() {
                    patience.none();
                }
                in_sight(lead, &seen).unwrap_or(why)
            }
        };
        let limit_s = limits.of_sight(sighting.is_some() || seen.in_sight_ticks.is_some());
        let ended = patience.ended(lead.seconds(), seen.calls);
        if ended.is_some() || lead.seconds() > limit_s {
            let why = ByTime::NotYet(ended.map_or(why, NotYet::Hopeless));
            return Ok(Found::Counts(Marker::Time { why, no_loop: None }));
        }
        lead.progress.stage(&WindowStage::Observing { seconds, why });
    }
}

/// The repetition of calls counts, unless a loop of the program runs by now. The inner error says why it does not count.
fn sure(lead: &mut WindowLead, loops: &Agreed, most_s: f64) -> Result<Result<Found, NotYet>, Error> {
    match nest::others(lead)? {
        Some(others) => Ok(Ok(Found::Others(others))),
        None => Ok(count(lead, loops, most_s)?.map(Found::Counts)),
    }
}

/// The reason to wait where something repeats, but not often enough yet to be called a loop.
fn in_sight(lead: &WindowLead, seen: &Seen) -> Option<NotYet> {
    Some(NotYet::InSight { seconds: lead.seconds_of(seen.in_sight_ticks?) })
}

/// True if a loop that was first seen after `since` seconds was seen long and often enough.
fn is_sure(loops: &Agreed, seconds: f64, since: f64, limit_s: f64) -> bool {
    let is_long = seconds >= since + CERTAIN_SECONDS || seconds > limit_s;
    let is_known = is_long || (seconds >= 2.0 * since && loops.iterations_seen >= ITERATIONS_MANY);
    let may_wait = loops.is_undecided && seconds < (since + UNDECIDED_SECONDS_MAX).min(limit_s);
    is_known && !may_wait
}

/// Has every rank count its call, then aligns the ranks' counters. The inner error says why it does not count.
fn count(lead: &mut WindowLead, loops: &Agreed, most_s: f64) -> Result<Result<Marker, NotYet>, Error> {
    let counted = lead.membership.ask(
        Request::Count { choices: runs_of(loops.choices.iter().copied()) },
        |answer| match answer {
            Answer::Counted { name } => Some(name),
            _ => None,
        },
    )?;
    let name = counted.into_iter().find_map(|(_, name)| name).unwrap_or_default();
    let iterations_s = MARKER_ITERATIONS_MAX * lead.seconds_of(loops.iteration_ticks);
    // A loop that was found late is worth the time that its counters need.
    let limit_s = (most_s - lead.seconds()).max(most_s * NOTHING_PART_MAX);
    let waiting = Waiting {
        silent_s: limit_s.min(SILENT_MARKER_SECONDS_MAX + iterations_s),
        limit_s: limit_s.min(MARKER_SECONDS_MAX + iterations_s),
        passes_min: PASSES_MIN,
        of_loop: None,
    };
    Ok(match aligned(lead, waiting)? {
        Ok(found) => {
            let synchronises = loops.choices.iter().all(|(_, choice)| choice.synchronises);
            let found = Aligned { synchronises, ..found };
            Ok(Marker::Call(found.call(name, MarkerSource::Detected, Some(loops.description.clone()))))
        }
        Err(rank) => Err(NotYet::NotAgain { rank, name }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_a_look_missed_is_the_same_when_it_comes_again() {
        let symbol = Symbol { function: 1, site: 2 };
        for (looks, misses, is_known) in [(1, 1, true), (1, 2, false), (5, 2, false), (6, 2, true), (6, 3, false)] {
            let first = Sighting::first(symbol, 0.5);
            let seen = (1..looks).fold(first, |seen, _| seen.again());
            let left = (0..misses).try_fold(seen, |seen, _| seen.missed());
            assert_eq!(left.is_some(), is_known, "{looks} looks, {misses} misses");
            assert!(left.is_none_or(|left| left.again().since_s == 0.5), "from when on it was seen first");
        }
    }
}
