//! What counts iterations: a function of the program, or a call of the main loop that is found while it runs.
//!
//! A loop is accepted once it has been seen again after the observation doubled, so that a short inner loop does not
//! win over the outer one at first sight. All ranks must agree; their counters are then aligned to one numbering.
//!
//! Next: `recording` arms the ranks.

use crate::error::Error;
use crate::observe::{self, Sites, Stream};
use crate::options::{Options, Progress, Stage};
use crate::team::Team;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;
use trimtab_mpi::HandleFacts;
use trimtab_os::{monotonic_ns, ticks};
use trimtab_window::{
    Agreement, Alignment, Certainty, DetectOptions, Detection, FoundLoop, RankLoop, RankStream, Symbol, agree, align,
    detect,
};

/// Added to every rank's counter, so that calls before the counter began have numbers too.
const COUNT_BIAS: u64 = 1 << 32;
/// First look at the rings.
const FIRST_LOOK_MS: u64 = 4;
/// Longest time between two looks.
const LOOK_MS_MAX: u64 = 100;
/// A loop seen this long needs no second look.
const CERTAIN_SECONDS: f64 = 1.5;
/// Observation without any loop ends here, or after a third of `--max-seconds`.
const OBSERVE_SECONDS_MAX: f64 = 20.0;
/// Marker passes of every rank that alignment wants to see.
const PASSES_MIN: usize = 3;
/// Looks in which an alignment may stay unproven before the likeliest is taken.
const ALIGN_LOOKS_MAX: usize = 12;

/// What counts iterations in a window.
#[derive(Clone, Debug)]
pub(crate) enum Marker {
    /// Nothing: the window is by time.
    Time {
        /// Why no loop was found.
        why: String,
    },
    /// A call.
    Call(MarkerCall),
}

/// A call that counts iterations on all ranks.
#[derive(Clone, Debug)]
pub(crate) struct MarkerCall {
    /// For a reader.
    pub name: String,
    /// "detected", "named", "measuremark".
    pub source: &'static str,
    /// For each rank: the job's iteration number minus the rank's counter.
    pub offsets: Vec<i64>,
    /// Whether those offsets are proven.
    pub certain: bool,
    /// What they rest on, for a reader.
    pub explanation: String,
    /// Ticks of one iteration, about.
    pub iteration_ticks: f64,
    /// The call synchronises all ranks.
    pub synchronises: bool,
    /// Function and site on each rank.
    pub symbols: Vec<Symbol>,
    /// The loop in a sentence.
    pub description: Option<String>,
}

/// Looks at all ranks' rings.
pub(crate) struct Observer<'a> {
    team: &'a Team,
    facts: Option<HandleFacts>,
    sites: Vec<Sites>,
    started_ns: u64,
}

impl<'a> Observer<'a> {
    pub(crate) fn new(team: &'a Team) -> Self {
        let facts = team.library.as_ref().and_then(trimtab_mpi::Library::handles);
        let sites = team.members.iter().map(Sites::of).collect();
        Observer { team, facts, sites, started_ns: monotonic_ns() }
    }

    pub(crate) fn streams(&mut self) -> Vec<Stream> {
        let members = self.team.members.iter().zip(&mut self.sites);
        members.map(|(member, sites)| observe::read(member, &self.team.selection, self.facts.as_ref(), sites)).collect()
    }

    fn seconds(&self) -> f64 {
        (monotonic_ns() - self.started_ns) as f64 / 1e9
    }

    fn check(&self, progress: &dyn Progress) -> Result<(), Error> {
        if progress.is_interrupted() {
            return Err(Error::Interrupted);
        }
        if self.team.members.iter().any(|member| !member.inserted.is_alive()) {
            return Err(Error::EndedEarly);
        }
        Ok(())
    }
}

/// Finds what counts iterations.
pub(crate) fn find(team: &Team, options: &Options, progress: &dyn Progress) -> Result<Marker, Error> {
    let mut observer = Observer::new(team);
    let limit_s = OBSERVE_SECONDS_MAX.min(options.max_seconds / 3.0).max(0.2);
    match team.selection.marker {
        Some((index, source)) => named(&mut observer, index, source, limit_s, options, progress),
        None => detected(&mut observer, limit_s, progress),
    }
}

/// A function of the program counts iterations.
fn named(
    observer: &mut Observer<'_>,
    index: usize,
    source: &'static str,
    limit_s: f64,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Marker, Error> {
    let name = observer.team.selection.functions[index].name.clone();
    let is_marker = |symbol: Symbol| symbol.function == index as u32;
    match aligned(observer, &[], &is_marker, limit_s, progress)? {
        Ok(found) => Ok(Marker::Call(found.call(name, source, None))),
        Err(silent) if source == "named" => Err(Error::MarkerSilent {
            marker: name,
            rank: observer.team.members[silent].process.rank,
            seconds: limit_s,
        }),
        // A program that has a marker but has not come to it yet: its calls may still show a loop.
        Err(_) => {
            let _ = options;
            detected(observer, limit_s, progress)
        }
    }
}

/// Looks for the main loop.
fn detected(observer: &mut Observer<'_>, limit_s: f64, progress: &dyn Progress) -> Result<Marker, Error> {
    let polling_functions = observer.team.selection.polling.clone();
    let detect_options = DetectOptions { polling_functions, ..DetectOptions::default() };
    let mut first_seen: Option<(Symbol, f64)> = None;
    let mut wait_ms = FIRST_LOOK_MS;
    loop {
        std::thread::sleep(Duration::from_millis(wait_ms));
        wait_ms = (wait_ms * 3 / 2).min(LOOK_MS_MAX);
        observer.check(progress)?;
        let streams = observer.streams();
        let seconds = observer.seconds();
        let why = match agreed(&streams, observer, &detect_options) {
            Ok((agreement, loops)) => {
                let since = first_seen.filter(|(symbol, _)| *symbol == agreement.anchor).map_or(seconds, |(_, at)| at);
                if seconds >= 2.0 * since || seconds >= since + CERTAIN_SECONDS {
                    return count(observer, &agreement, &loops, &streams, limit_s, progress);
                }
                first_seen = Some((agreement.anchor, since));
                "seeing it again".to_string()
            }
            Err(why) => {
                first_seen = None;
                why
            }
        };
        if seconds > limit_s {
            return Ok(Marker::Time { why });
        }
        progress.stage(&Stage::Observing { seconds, why });
    }
}

type Agreed = (Agreement, Vec<Option<FoundLoop>>);

fn agreed(streams: &[Stream], observer: &Observer<'_>, options: &DetectOptions) -> Result<Agreed, String> {
    let now = ticks();
    let mut loops = Vec::new();
    let mut reasons = Vec::new();
    for stream in streams {
        match detect(later_half_if_setup(stream), now, options) {
            Detection::Loop(found) => loops.push(Some(found)),
            Detection::NotYet { why } => {
                reasons.push(why);
                loops.push(None);
            }
        }
    }
    if loops.iter().all(Option::is_none) {
        return Err(reasons.into_iter().next().unwrap_or_default());
    }
    let ranks: Vec<RankLoop<'_>> = loops
        .iter()
        .zip(streams)
        .zip(&observer.team.members)
        .map(|((found, stream), member)| RankLoop {
            rank: member.process.rank.0,
            found: found.as_ref(),
            events: &stream.events,
        })
        .collect();
    agree(&ranks).map(|agreement| (agreement, loops.clone())).map_err(|disagreement| disagreement.to_string())
}

fn later_half_if_setup(stream: &Stream) -> &[trimtab_window::CallEvent] {
    &stream.events
}

/// Sets the marker on every rank, then aligns the ranks' counters.
fn count(
    observer: &mut Observer<'_>,
    agreement: &Agreement,
    loops: &[Option<FoundLoop>],
    streams: &[Stream],
    limit_s: f64,
    progress: &dyn Progress,
) -> Result<Marker, Error> {
    for ((member, anchor), stream) in observer.team.members.iter().zip(&agreement.ranks).zip(streams) {
        let Some(last) = anchor.occurrences.last() else { continue };
        let header = member.inserted.view().header();
        header.marker_site.store(stream.return_addresses[*last], Relaxed);
        header.marker_probe.store(stream.probes[*last] as u32, Release);
    }
    let symbols: Vec<Symbol> = agreement.ranks.iter().map(|anchor| anchor.anchor).collect();
    let common: Vec<bool> = agreement.ranks.iter().map(|anchor| anchor.is_common).collect();
    let name = marker_name(observer.team, agreement, streams);
    let description = loops.iter().flatten().next().map(|found| found.description.clone());
    let is_any = |_: Symbol| false;
    let by_rank: Vec<(Symbol, bool)> = symbols.iter().copied().zip(common).collect();
    match aligned(observer, &by_rank, &is_any, limit_s, progress)? {
        Ok(mut found) => {
            found.synchronises = agreement.anchor_synchronises;
            Ok(Marker::Call(found.call(name, "detected", description)))
        }
        Err(silent) => {
            let rank = observer.team.members[silent].process.rank;
            Ok(Marker::Time { why: format!("rank {rank} did not pass {name} again") })
        }
    }
}

/// `MPI_Allreduce at solve+0x1f3`.
fn marker_name(team: &Team, agreement: &Agreement, streams: &[Stream]) -> String {
    let function = &team.selection.functions[agreement.anchor.function as usize].name;
    let site = agreement.ranks.iter().zip(streams).zip(&team.members).find(|((anchor, _), _)| anchor.is_common);
    match site {
        Some(((anchor, stream), member)) => match anchor.occurrences.last() {
            Some(last) => format!("{function} at {}", member.modules.describe(stream.return_addresses[*last])),
            None => function.clone(),
        },
        None => function.clone(),
    }
}

struct Aligned {
    alignment: Alignment,
    iteration_ticks: f64,
    symbols: Vec<Symbol>,
    synchronises: bool,
}

impl Aligned {
    fn call(self, name: String, source: &'static str, description: Option<String>) -> MarkerCall {
        MarkerCall {
            name,
            source,
            certain: self.alignment.certainty == Certainty::Proven,
            offsets: self.alignment.offsets,
            explanation: self.alignment.explanation,
            iteration_ticks: self.iteration_ticks,
            synchronises: self.synchronises,
            symbols: self.symbols,
            description,
        }
    }
}

/// Waits until every rank has passed its marker a few times, and aligns their counters. `Err` holds the position of a
/// rank that stayed silent.
fn aligned(
    observer: &mut Observer<'_>,
    by_rank: &[(Symbol, bool)],
    is_marker: &dyn Fn(Symbol) -> bool,
    limit_s: f64,
    progress: &dyn Progress,
) -> Result<Result<Aligned, usize>, Error> {
    let begun_s = observer.seconds();
    let mut wait_ms = 2;
    let mut looks = 0;
    loop {
        std::thread::sleep(Duration::from_millis(wait_ms));
        wait_ms = (wait_ms * 3 / 2).min(LOOK_MS_MAX);
        observer.check(progress)?;
        let streams = observer.streams();
        let passes: Vec<Passes> = streams
            .iter()
            .enumerate()
            .map(|(index, stream)| Passes::of(stream, by_rank.get(index).copied(), is_marker))
            .collect();
        let silent = passes.iter().position(|passes| passes.counted < PASSES_MIN);
        if let Some(silent) = silent {
            if observer.seconds() - begun_s > limit_s {
                return Ok(Err(silent));
            }
            let why = "every rank must pass the marker a few times".to_string();
            progress.stage(&Stage::Observing { seconds: observer.seconds(), why });
            continue;
        }
        looks += 1;
        let alignment = align_passes(observer.team, &streams, &passes);
        if alignment.certainty == Certainty::Proven
            || looks >= ALIGN_LOOKS_MAX
            || observer.seconds() - begun_s > limit_s
        {
            return Ok(Ok(Aligned {
                iteration_ticks: passes.iter().map(|passes| passes.period_ticks).fold(0.0, f64::max),
                symbols: passes.iter().map(|passes| passes.symbol).collect(),
                synchronises: false,
                alignment,
            }));
        }
    }
}

fn align_passes(team: &Team, streams: &[Stream], passes: &[Passes]) -> Alignment {
    let ranks: Vec<RankStream<'_>> = team
        .members
        .iter()
        .zip(streams)
        .zip(passes)
        .map(|((member, stream), passes)| RankStream {
            rank: member.process.rank.0,
            events: &stream.events,
            occurrences: &passes.occurrences,
            is_common: passes.is_common,
            first_count: passes.first_count,
            uncertainty_ticks: 0,
        })
        .collect();
    align(&ranks)
}

/// One rank's passes of its marker.
struct Passes {
    occurrences: Vec<usize>,
    /// Those that its counter has seen.
    counted: usize,
    /// Number of the first occurrence.
    first_count: u64,
    period_ticks: f64,
    symbol: Symbol,
    is_common: bool,
}

impl Passes {
    fn of(stream: &Stream, wanted: Option<(Symbol, bool)>, is_marker: &dyn Fn(Symbol) -> bool) -> Self {
        let matches = |symbol: Symbol| wanted.map_or_else(|| is_marker(symbol), |(wanted, _)| wanted == symbol);
        let occurrences: Vec<usize> =
            (0..stream.events.len()).filter(|index| matches(stream.events[*index].symbol())).collect();
        let first_counted = occurrences.iter().position(|index| stream.counters[*index] > 0);
        let counted = first_counted.map_or(0, |first| occurrences.len() - first);
        let first_count = first_counted.map_or(COUNT_BIAS, |first| {
            // A call's record shows the counter after it was counted, hence the one less.
            stream.counters[occurrences[first]] - 1 + COUNT_BIAS - first as u64
        });
        let span = match (occurrences.first(), occurrences.last()) {
            (Some(first), Some(last)) => stream.events[*last].enter_ticks - stream.events[*first].enter_ticks,
            _ => 0,
        };
        let period_ticks = span as f64 / occurrences.len().saturating_sub(1).max(1) as f64;
        let symbol =
            occurrences.first().map_or(Symbol { function: 0, site: 0 }, |first| stream.events[*first].symbol());
        let is_common = wanted.is_none_or(|(_, common)| common);
        Passes { occurrences, counted, first_count, period_ticks, symbol, is_common }
    }
}
