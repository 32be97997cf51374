//! A node's ranks' loops, and what each rank would count: said in a few words of each rank.
//!
//! Next: `job::agreement` for what becomes of them, `passes` for how what counts was passed.

use super::how_far;
use super::naming::readable;
use super::observe::{self, Sites, Stream, Turns, calls, snapshot};
use super::team::{Member, Team};
use super::{Wanted, Window, header};
use crate::error::Error;
use crate::excerpt::Excerpt;
use crate::reason::NotYet;
use crate::request::{Answer, Choice, Fitted, Looked, LoopSeen, OnceCall, Reference, WordSeen};
use crate::runs::{Run, value_of};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;
use trimtab_os::{monotonic_ns, ticks};
use trimtab_stub::layout::PATH_ADDRESSES_MAX;
use trimtab_window::{
    CallEvent, Cut, DetectOptions, FoundLoop, RankStream, Relation, Symbol, best_cut, detect, in_sight, word_marks,
};

/// The marker is a function of the program, wherever it is called from.
pub(super) const ANY_SITE: u64 = u64::MAX;

/// Calls that happen once per iteration that are told of each rank; more would only be more of the same.
const ONCE_MAX: usize = 32;

/// A full ring that holds less than this is one of a fast loop; and how long a rank may wait for its turn on a processor.
const RING_SECONDS_SHORT: f64 = 0.05;
const TURN_SECONDS_MAX: f64 = 0.1;

/// Looking from which on it is asked whether a slow loop is in sight.
const SIGHT_SECONDS: f64 = 0.5;

/// Between two looks for return addresses on the same way.
const LEARNING_LOOK: Duration = Duration::from_millis(1);

/// In this time a program's usual calls are seen for the first time.
const SETTLING_SECONDS: f64 = 1.0;

/// A call site whatever the direction of its messages.
type Base = (u32, u64);

impl Wanted {
    /// Events of a rank that begin an iteration.
    pub(super) fn marks(&self, team: &Team, stream: &Stream) -> Vec<usize> {
        let is_polling = |symbol: Symbol| team.selection.polling.contains(&symbol.function);
        if !self.word.is_empty() {
            return word_marks(&stream.events, &self.word, is_polling);
        }
        (0..stream.events.len()).filter(|index| self.is_call(stream.events[*index].symbol())).collect()
    }

    /// True if each call of a function counts, from wherever it is called.
    pub(super) fn is_each_call(&self) -> bool {
        self.word.is_empty() && self.every == 1 && self.symbol.site == ANY_SITE
    }

    /// True if this is a call of the marker's call site, in the marker's direction.
    pub(super) fn is_call(&self, symbol: Symbol) -> bool {
        symbol.function == self.symbol.function && (self.symbol.site == ANY_SITE || symbol.site == self.symbol.site)
    }
}

impl Window<'_> {
    /// Gives rules to return addresses that the ranks met without one. True if any path will be longer now.
    pub(super) fn learn_paths(&mut self) -> bool {
        let mut leads_on = false;
        for (member, paths) in self.team.members.iter().zip(&mut self.paths) {
            leads_on |= paths.learn(member, &mut self.rules, self.cache);
        }
        leads_on
    }

    /// Copies all ranks' rings at nearly one moment, then makes streams of them.
    pub(super) fn read_streams(&mut self) {
        // Each function between the program and MPI is seen only when the one before it is known.
        for _ in 0..PATH_ADDRESSES_MAX {
            if !self.learn_paths() {
                break;
            }
            std::thread::sleep(LEARNING_LOOK);
        }
        let in_ticks = |seconds: f64| (seconds * self.clock.ticks_per_second()) as u64;
        let turns = Turns { span_ticks_max: in_ticks(RING_SECONDS_SHORT), gap_ticks_max: in_ticks(TURN_SECONDS_MAX) };
        let snapshots: Vec<_> = self.team.members.iter().map(|member| snapshot(member, turns)).collect();
        let (selection, facts) = (&self.team.selection, self.facts.as_ref());
        let settling_ticks = in_ticks(SETTLING_SECONDS);
        let mut streams = Vec::with_capacity(snapshots.len());
        for ((member, snapshot), paths) in self.team.members.iter().zip(&snapshots).zip(&mut self.paths) {
            let settled_ticks = paths.begun_ticks() + settling_ticks;
            let mut sites = Sites { paths, rules: &mut self.rules, cache: self.cache, settled_ticks };
            streams.push(observe::stream(member, snapshot, selection, facts, &mut sites));
        }
        self.streams = streams;
    }

    fn detect_options(&self, levels_only: bool) -> DetectOptions {
        let polling_functions = self.team.selection.polling.clone();
        DetectOptions { polling_functions, levels_only, ..DetectOptions::default() }
    }

    pub(super) fn look(&mut self, fresh: bool, levels_only: bool) -> Looked {
        let is_alive = self.observe();
        if fresh || self.streams.is_empty() {
            self.read_streams();
        }
        let options = self.detect_options(levels_only);
        let detected = self.streams.iter().map(|stream| {
            let options = DetectOptions { statements: stream.statements.clone(), ..options.clone() };
            detect(&stream.events, stream.until_ticks, &options)
        });
        let loops = detected.collect::<Result<Vec<FoundLoop>, _>>().map(|found| {
            self.found = found;
            self.streams.iter().zip(&self.found).map(|(stream, found)| seen(stream, found)).collect()
        });
        let description = self.found.first().filter(|_| loops.is_ok()).map(|found| found.description.clone());
        let calls = self.team.members.iter().map(calls).min().unwrap_or(0);
        let in_sight_ticks = if loops.is_err() { self.in_sight_ticks(&options) } else { None };
        Looked { is_alive, calls, in_sight_ticks, loops, description: description.unwrap_or_default() }
    }

    /// Ticks of what repeats on the slowest rank, if something does on all. It is asked only where a loop is not found at
    /// once, because each look takes time from the ranks.
    fn in_sight_ticks(&self, options: &DetectOptions) -> Option<f64> {
        let seconds = (monotonic_ns() - self.started_ns) as f64 / 1e9;
        let sight = |stream: &Stream| in_sight(&stream.events, stream.until_ticks, options);
        let ticks: Option<Vec<f64>> = self.streams.iter().filter(|_| seconds >= SIGHT_SECONDS).map(sight).collect();
        ticks?.into_iter().max_by(f64::total_cmp)
    }

    /// The iterations of a rank, if it is one of this node's and was seen.
    pub(super) fn refer(&self, rank: u32, symbol: Option<Symbol>, events_max: u32) -> Answer {
        let seen = self.streams.iter().zip(&self.found).find(|(stream, _)| stream.rank == rank);
        let Some((stream, found)) = seen else { return Answer::Done };
        let marks = symbol.map_or_else(|| found.occurrences.clone(), |symbol| calls_of(stream, symbol));
        let Some(last) = marks.last() else { return Answer::Done };
        let from = stream.events.len().saturating_sub(events_max as usize);
        let calls = Excerpt {
            events: stream.events[from..].to_vec(),
            marks: marks.iter().filter(|mark| **mark >= from).map(|mark| mark - from).collect(),
        };
        Answer::Reference(Box::new(Reference { rank, calls, base: base_of(stream, *last) }))
    }

    /// Where the ranks whose iterations repeat call by call begin theirs; the reference itself is not asked.
    pub(super) fn fit(&self, reference: &Reference, clocks: &[(u32, Relation)]) -> Result<Vec<Fitted>, NotYet> {
        let relation =
            clocks.iter().find(|(node, _)| *node == self.node).map_or(Relation::SAME, |(_, relation)| *relation);
        let mut calls = reference.calls.clone();
        let uncertainty_ticks = calls.onto_node(&relation);
        let stream = RankStream {
            rank: reference.rank,
            events: &calls.events,
            occurrences: &calls.marks,
            is_common: true,
            first_count: 0,
            uncertainty_ticks,
            clock: 0,
        };
        let options = self.detect_options(false);
        let ranks = self.streams.iter().zip(&self.found);
        let with_word = ranks.filter(|(own, found)| own.rank != reference.rank && !found.word.is_empty());
        with_word
            .map(|(own, found)| {
                let choice = fitted(&stream, reference.base, own, found, &options)?;
                Ok(Fitted { rank: own.rank, choice })
            })
            .collect()
    }

    /// Counts the calls that were chosen.
    pub(super) fn count(&mut self, choices: &[Run<Choice>]) -> Result<Answer, Error> {
        let mut counted = Vec::with_capacity(self.streams.len());
        for (index, stream) in self.streams.iter().enumerate() {
            let choice = value_of(choices, stream.rank).ok_or(Error::Malformed { what: "a rank without a choice" })?;
            let last = stream.events.iter().rposition(|event| event.symbol() == choice.symbol);
            let word = choice.place.map_or(Some(Vec::new()), |place| self.word_from(index, place as usize));
            let (Some(last), Some(word)) = (last, word) else {
                return Err(Error::Malformed { what: "a choice that was not seen" });
            };
            counted.push((choice, last, word));
        }
        for ((member, stream), (choice, last, _)) in self.team.members.iter().zip(&self.streams).zip(&counted) {
            let header = header(member);
            // An earlier marker counts no more while its parts are exchanged; passes go on from where they are.
            header.marker_probe.store(u32::MAX, SeqCst);
            header.marker_every.store(choice.every.max(1), Relaxed);
            header.marker_site.store(stream.sites[*last], Relaxed);
            header.marker_probe.store(stream.probes[*last] as u32, SeqCst);
        }
        let since_ticks = ticks();
        let name = self.marker_name(&counted);
        let wanted = counted.into_iter().map(|(choice, _, word)| Wanted {
            symbol: choice.symbol,
            word,
            every: choice.every.max(1),
            since_ticks,
            is_common: choice.is_common,
        });
        self.wanted = wanted.collect();
        Ok(Answer::Counted { name })
    }

    /// Counts calls of a function, or passes of a loop, from now on if another marker counted before.
    pub(super) fn count_function(&mut self, function: u32) -> Answer {
        let symbol = Symbol { function, site: ANY_SITE };
        let wanted = self.team.members.iter().map(|member| Wanted {
            symbol,
            word: Vec::new(),
            every: 1,
            since_ticks: mark_with(member, function),
            is_common: true,
        });
        self.wanted = wanted.collect();
        Answer::Counted { name: None }
    }

    /// A rank's word as it begins at one of its calls.
    fn word_from(&self, index: usize, place: usize) -> Option<Vec<Symbol>> {
        let mut word = self.found.get(index)?.word.clone();
        (place < word.len()).then(|| {
            word.rotate_left(place);
            word
        })
    }

    /// `MPI_Allreduce at solve+0x1f3`.
    fn marker_name(&mut self, counted: &[(Choice, usize, Vec<Symbol>)]) -> Option<String> {
        let mut ranks = counted.iter().zip(&self.streams).zip(&mut self.paths);
        let (((choice, last, _), stream), paths) = ranks.find(|(((choice, ..), _), _)| choice.is_common)?;
        let function = &self.team.selection.functions[choice.symbol.function as usize].name;
        let times = if choice.every > 1 { format!(", every {} calls", choice.every) } else { String::new() };
        let place = paths.describe(stream.sites[*last], self.cache);
        let (caller, offset) = place.rsplit_once('+').unwrap_or((&place, "0x0"));
        Some(format!("{function} at {}+{offset}{times}", readable(caller)))
    }
}

/// Has a rank count this function, if it has it; the moment from which on it does for sure.
fn mark_with(member: &Member, function: u32) -> u64 {
    let header = header(member);
    let probe = member.prepared.probes().position(|probe| probe.function == function);
    let probe = probe.map_or(u32::MAX, |probe| probe as u32);
    if header.marker_probe.load(SeqCst) == probe {
        how_far::begin(member, probe);
        return 0;
    }
    header.marker_probe.store(u32::MAX, SeqCst);
    how_far::begin(member, probe);
    header.marker_every.store(1, Relaxed);
    header.marker_site.store(0, Relaxed);
    header.marker_thread.store(0, Relaxed);
    header.marker_probe.store(probe, SeqCst);
    ticks()
}

/// A rank's loop for those who know only what is said here.
fn seen(stream: &Stream, found: &FoundLoop) -> LoopSeen {
    let word = (!found.word.is_empty()).then(|| found.occurrences.last()).flatten().map(|last| WordSeen {
        symbol: stream.events[*last].symbol(),
        synchronises: found.occurrences.iter().all(|mark| synchronises_world(&stream.events[*mark])),
        every: passes_per_iteration(stream, &found.occurrences, base_of(stream, *last)),
    });
    LoopSeen {
        rank: stream.rank,
        iterations_seen: found.iterations_seen as u64,
        iteration_ticks: found.time_per_iteration_ticks,
        iteration_ticks_mean: found.mean_time_per_iteration_ticks,
        is_undecided: found.is_undecided,
        anchor: found.anchor,
        once: once(stream, found),
        word,
    }
}

/// Once-per-iteration calls of a rank with their call sites; of very many those that all ranks would keep as well.
fn once(stream: &Stream, found: &FoundLoop) -> Vec<OnceCall> {
    let mut known: Vec<OnceCall> =
        found.once_per_iteration.iter().filter_map(|symbol| once_call(stream, *symbol)).collect();
    if known.len() > ONCE_MAX {
        known.sort_by_key(|call| {
            (call.symbol != found.anchor, !call.synchronises, call.symbol.function, call.base_site, call.symbol.site)
        });
        known.truncate(ONCE_MAX);
    }
    known
}

fn once_call(stream: &Stream, symbol: Symbol) -> Option<OnceCall> {
    let calls = calls_of(stream, symbol);
    let (first, last) = (*calls.first()?, *calls.last()?);
    Some(OnceCall {
        symbol,
        base_site: stream.bases[first],
        synchronises: synchronises_world(&stream.events[first]),
        gap_ticks: gap_before(stream, symbol) as f32,
        every: passes_per_iteration(stream, &calls, base_of(stream, last)),
    })
}

fn calls_of(stream: &Stream, symbol: Symbol) -> Vec<usize> {
    (0..stream.events.len()).filter(|index| stream.events[*index].symbol() == symbol).collect()
}

/// A collective of all ranks that nobody leaves before all have entered.
fn synchronises_world(event: &CallEvent) -> bool {
    event.synchronising && event.comm == 0
}

/// Call site of an event.
fn base_of(stream: &Stream, index: usize) -> Base {
    (stream.events[index].function, stream.bases[index])
}

/// The choice of a rank whose iterations repeat call by call: those that fit the reference's iterations best.
fn fitted(
    reference: &RankStream,
    common: Base,
    stream: &Stream,
    found: &FoundLoop,
    options: &DetectOptions,
) -> Result<Choice, NotYet> {
    let kept: Vec<usize> =
        (0..stream.events.len()).filter(|index| !options.is_polling(stream.events[*index].symbol())).collect();
    let begins: Vec<usize> = found.occurrences.iter().map(|mark| kept.partition_point(|index| index < mark)).collect();
    let synchronises = reference.occurrences.iter().all(|mark| synchronises_world(&reference.events[*mark]));
    let shares = found.occurrences.windows(2).any(|pair| (pair[0]..pair[1]).any(|at| base_of(stream, at) == common));
    let mut cuts = Vec::new();
    let mut places = Vec::new();
    for (place, symbol) in found.word.iter().enumerate() {
        let marks: Vec<usize> = begins
            .iter()
            .filter_map(|begin| kept.get(begin + place).copied())
            .filter(|at| stream.events[*at].symbol() == *symbol)
            .collect();
        let is_common = marks.first().is_some_and(|mark| base_of(stream, *mark) == common);
        let before = found.word[(place + found.word.len() - 1) % found.word.len()];
        // A synchronising call is the same on all ranks; else an iteration does not begin inside a run of one call.
        let is_possible = if synchronises && shares { is_common } else { before != *symbol };
        if is_possible {
            cuts.push(Cut { marks, is_common });
            places.push(place);
        }
    }
    let best = best_cut(reference, stream.rank, &stream.events, &cuts).ok_or(NotYet::Ambiguous)?;
    let marks = cuts.swap_remove(best).marks;
    let last = *marks.last().ok_or(NotYet::LoopEnded)?;
    let base = base_of(stream, last);
    let every = passes_per_iteration(stream, &marks, base).ok_or(NotYet::VaryingPasses)?;
    Ok(Choice {
        symbol: stream.events[last].symbol(),
        place: Some(places[best] as u32),
        every: u64::from(every),
        is_common: common == base,
        synchronises: marks.iter().all(|mark| synchronises_world(&stream.events[*mark])),
    })
}

/// Mean time between the call before and each call of `symbol`.
fn gap_before(stream: &Stream, symbol: Symbol) -> f64 {
    let gaps: Vec<f64> = stream
        .events
        .windows(2)
        .filter(|pair| pair[1].symbol() == symbol && pair[0].exit_ticks != 0)
        .map(|pair| pair[1].enter_ticks.saturating_sub(pair[0].exit_ticks) as f64)
        .collect();
    trimtab_window::formulas::median(&gaps).unwrap_or(0.0)
}

/// How often the call site is passed from one occurrence to the next, if that is always the same.
fn passes_per_iteration(stream: &Stream, occurrences: &[usize], base: Base) -> Option<u32> {
    let passes = |range: &[usize]| (range[0]..range[1]).filter(|index| base_of(stream, *index) == base).count() as u32;
    let counts: BTreeSet<u32> = occurrences.windows(2).map(passes).collect();
    (counts.len() == 1).then(|| counts.first().copied()).flatten()
}
