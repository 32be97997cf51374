//! What counts iterations: a function of the program, or a call of the main loop that is found while it runs.
//!
//! A loop is accepted once it has been seen again after the observation doubled, so that a short inner loop does not
//! win over the outer one at first sight. All ranks must agree; their counters are then aligned to one numbering.
//!
//! Next: `recording` arms the ranks.

use crate::error::Error;
use crate::observe::{self, Sites, Stream};
use crate::options::{Options, Progress, Stage};
use crate::requests::readable;
use crate::team::Team;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;
use trimtab_mpi::HandleFacts;
use trimtab_os::{monotonic_ns, ticks};
use trimtab_session::ImageCache;
use trimtab_window::{Alignment, Certainty, DetectOptions, Detection, FoundLoop, RankStream, Symbol, align, detect};

/// A rank may be this much faster than the slowest one's loop and still be in the same loop.
const PACE_TOLERANCE: f64 = 0.7;
/// Added to every rank's counter, so that calls before the counter began have numbers too.
const COUNT_BIAS: u64 = 1 << 32;
/// First look at the rings.
const FIRST_LOOK_MS: u64 = 4;
/// Longest time between two looks.
const LOOK_MS_MAX: u64 = 100;
/// A loop seen this long needs no second look.
const CERTAIN_SECONDS: f64 = 0.5;
/// Observation without any loop ends here, or after a third of `--max-seconds`.
const OBSERVE_SECONDS_MAX: f64 = 20.0;
/// Marker passes of every rank that alignment wants to see.
const PASSES_MIN: usize = 3;
/// Looks that must agree on an alignment that can't be proven, and passes they must rest on.
const ALIGN_LOOKS_MIN: usize = 3;
const ALIGN_PASSES_MIN: usize = 8;

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
    /// What the offsets rest on, for a reader.
    pub explanation: String,
    /// Ticks of one iteration, about.
    pub iteration_ticks: f64,
    /// The call synchronises all ranks.
    pub synchronises: bool,
    /// The marking call on each rank, and passes of its call site in one iteration.
    pub counts: Vec<(Symbol, u64)>,
    /// The loop in a sentence.
    pub description: Option<String>,
}

/// Looks at all ranks' rings.
pub(crate) struct Observer<'a> {
    team: &'a Team,
    cache: &'a ImageCache,
    facts: Option<HandleFacts>,
    sites: Vec<Sites>,
    started_ns: u64,
}

impl<'a> Observer<'a> {
    pub(crate) fn new(team: &'a Team, cache: &'a ImageCache) -> Self {
        let facts = team.library.as_ref().and_then(trimtab_mpi::Library::handles);
        let sites = team.members.iter().map(Sites::of).collect();
        Observer { team, cache, facts, sites, started_ns: monotonic_ns() }
    }

    pub(crate) fn streams(&mut self) -> Vec<Stream> {
        let snapshots: Vec<_> = self.team.members.iter().map(observe::snapshot).collect();
        let (selection, facts) = (&self.team.selection, self.facts.as_ref());
        let members = self.team.members.iter().zip(&snapshots).zip(&mut self.sites);
        members.map(|((member, snapshot), sites)| observe::stream(member, snapshot, selection, facts, sites)).collect()
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
pub(crate) fn find(
    team: &Team,
    options: &Options,
    cache: &ImageCache,
    progress: &dyn Progress,
) -> Result<Marker, Error> {
    let mut observer = Observer::new(team, cache);
    let limit_s = OBSERVE_SECONDS_MAX.min(options.max_seconds / 3.0).max(0.2);
    match team.selection.marker {
        Some((index, source)) => named(&mut observer, index, source, limit_s, progress),
        None => detected(&mut observer, limit_s, progress),
    }
}

/// A function of the program counts iterations.
fn named(
    observer: &mut Observer<'_>,
    index: usize,
    source: &'static str,
    limit_s: f64,
    progress: &dyn Progress,
) -> Result<Marker, Error> {
    let name = observer.team.selection.functions[index].name.clone();
    let function = index as u32;
    let any_site = Wanted { symbol: Symbol { function, site: ANY_SITE }, every: 1, is_common: true };
    let wanted = vec![any_site; observer.team.members.len()];
    match aligned(observer, &wanted, limit_s, progress)? {
        Ok(found) => Ok(Marker::Call(found.call(name, source, None))),
        Err(silent) if source == "named" => Err(Error::MarkerSilent {
            marker: name,
            rank: observer.team.members[silent].process.rank,
            seconds: limit_s,
        }),
        // A program that has a marker but has not come to it yet: its calls may still show a loop.
        Err(_) => detected(observer, limit_s, progress),
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
        let why = match agreed(&streams, &detect_options) {
            Ok(choices) => {
                let anchor = choices[0].symbol;
                let since = first_seen.filter(|(symbol, _)| *symbol == anchor).map_or(seconds, |(_, at)| at);
                if seconds >= 2.0 * since || seconds >= since + CERTAIN_SECONDS || seconds > limit_s {
                    return count(observer, &choices, &streams, limit_s, progress);
                }
                first_seen = Some((anchor, since));
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

/// One rank's part in an agreement.
#[derive(Clone, Debug)]
struct Choice {
    /// The call that counts iterations: call site and direction.
    symbol: Symbol,
    /// The event of its latest call.
    last: usize,
    /// Passes of its call site in one iteration.
    every: u64,
    /// Its call site is the job's.
    is_common: bool,
    synchronises: bool,
    description: String,
}

/// A call site whatever the direction of its messages.
type Base = (u32, u64);

fn agreed(streams: &[Stream], options: &DetectOptions) -> Result<Vec<Choice>, String> {
    let now = ticks();
    let mut loops = Vec::new();
    for stream in streams {
        match detect(&stream.events, now, options) {
            Detection::Loop(found) => loops.push(found),
            Detection::NotYet { why } => return Err(why),
        }
    }
    let common = elect(streams, &loops).ok_or("the ranks share no call that happens once per iteration")?;
    let pace = loops.iter().map(|found| found.time_per_iteration_ticks).fold(0.0, f64::max);
    streams.iter().zip(&loops).map(|(stream, found)| choose(stream, found, common, pace)).collect()
}

/// Call site of an event.
fn base_of(stream: &Stream, index: usize) -> Base {
    (stream.events[index].function, stream.bases[index])
}

/// Once-per-iteration calls of a rank with their call sites.
fn once(stream: &Stream, found: &FoundLoop) -> Vec<(Symbol, Base, bool)> {
    let mut known = Vec::new();
    for symbol in &found.once_per_iteration {
        if let Some(index) = stream.events.iter().position(|event| event.symbol() == *symbol) {
            let event = &stream.events[index];
            known.push((*symbol, base_of(stream, index), event.synchronising && event.comm == 0));
        }
    }
    known
}

/// The call site that most ranks pass once per iteration; a synchronising one if there is a choice.
fn elect(streams: &[Stream], loops: &[FoundLoop]) -> Option<Base> {
    let mut votes: BTreeMap<Base, (usize, bool, usize)> = BTreeMap::new();
    for (stream, found) in streams.iter().zip(loops) {
        let mut seen = BTreeSet::new();
        for (symbol, base, synchronises) in once(stream, found) {
            let vote = votes.entry(base).or_default();
            vote.0 += usize::from(seen.insert(base));
            vote.1 |= synchronises;
            vote.2 += usize::from(symbol == found.anchor);
        }
    }
    votes.into_iter().max_by_key(|(_, vote)| *vote).map(|(base, _)| base)
}

fn choose(stream: &Stream, found: &FoundLoop, common: Base, pace: f64) -> Result<Choice, String> {
    if found.time_per_iteration_ticks < pace * PACE_TOLERANCE {
        return Err("the ranks do not repeat at one pace yet".into());
    }
    let mut candidates: Vec<(Symbol, Base, bool)> =
        once(stream, found).into_iter().filter(|(_, base, _)| *base == common).collect();
    let is_common = !candidates.is_empty();
    if !is_common {
        candidates = once(stream, found).into_iter().filter(|(symbol, _, _)| *symbol == found.anchor).collect();
    }
    // Of several directions the one after the longest computation: that is where an iteration begins.
    let best = candidates.into_iter().max_by(|a, b| gap_before(stream, a.0).total_cmp(&gap_before(stream, b.0)));
    let (symbol, base, synchronises) = best.ok_or("a rank has no call that happens once per iteration")?;
    let occurrences: Vec<usize> =
        (0..stream.events.len()).filter(|index| stream.events[*index].symbol() == symbol).collect();
    let every =
        passes_per_iteration(stream, &occurrences, base).ok_or("a call site is passed a varying number of times")?;
    let last = *occurrences.last().ok_or("the loop has ended")?;
    Ok(Choice { symbol, last, every, is_common, synchronises, description: found.description.clone() })
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
fn passes_per_iteration(stream: &Stream, occurrences: &[usize], base: Base) -> Option<u64> {
    let passes = |range: &[usize]| (range[0]..range[1]).filter(|index| base_of(stream, *index) == base).count() as u64;
    let counts: BTreeSet<u64> = occurrences.windows(2).map(passes).collect();
    (counts.len() == 1).then(|| counts.first().copied()).flatten()
}

/// Sets the marker on every rank, then aligns the ranks' counters.
fn count(
    observer: &mut Observer<'_>,
    choices: &[Choice],
    streams: &[Stream],
    limit_s: f64,
    progress: &dyn Progress,
) -> Result<Marker, Error> {
    for ((member, choice), stream) in observer.team.members.iter().zip(choices).zip(streams) {
        let header = member.inserted.view().header();
        header.marker_every.store(choice.every, Relaxed);
        header.marker_site.store(stream.return_addresses[choice.last], Relaxed);
        header.marker_probe.store(stream.probes[choice.last] as u32, Release);
    }
    let name = marker_name(observer, choices, streams);
    let wanted: Vec<Wanted> =
        choices.iter().map(|c| Wanted { symbol: c.symbol, every: c.every, is_common: c.is_common }).collect();
    match aligned(observer, &wanted, limit_s, progress)? {
        Ok(mut found) => {
            found.synchronises = choices.iter().all(|choice| choice.synchronises);
            Ok(Marker::Call(found.call(name, "detected", choices.first().map(|choice| choice.description.clone()))))
        }
        Err(silent) => {
            let rank = observer.team.members[silent].process.rank;
            Ok(Marker::Time { why: format!("rank {rank} did not pass {name} again") })
        }
    }
}

/// `MPI_Allreduce at solve+0x1f3`.
fn marker_name(observer: &Observer<'_>, choices: &[Choice], streams: &[Stream]) -> String {
    let (team, cache) = (observer.team, observer.cache);
    let mut ranks = choices.iter().zip(streams).zip(&team.members);
    let common = ranks.find(|((choice, _), _)| choice.is_common);
    common.map_or_else(String::new, |((choice, stream), member)| {
        let function = &team.selection.functions[choice.symbol.function as usize].name;
        let times = if choice.every > 1 { format!(", every {} calls", choice.every) } else { String::new() };
        let place = member.modules.describe(stream.return_addresses[choice.last], cache);
        let (caller, offset) = place.rsplit_once('+').unwrap_or((&place, "0x0"));
        format!("{function} at {}+{offset}{times}", readable(caller))
    })
}

/// What counts iterations on one rank.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    symbol: Symbol,
    every: u64,
    is_common: bool,
}

struct Aligned {
    alignment: Alignment,
    iteration_ticks: f64,
    counts: Vec<(Symbol, u64)>,
    synchronises: bool,
}

impl MarkerCall {
    /// Whether `symbol` is the marking call of the rank at `index`.
    pub(crate) fn is_mark(&self, index: usize, symbol: Symbol) -> bool {
        let wanted = self.counts[index].0;
        symbol.function == wanted.function && (wanted.site == ANY_SITE || wanted.site == symbol.site)
    }
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
            counts: self.counts,
            description,
        }
    }
}

/// Waits until every rank has passed its marker a few times, and aligns their counters. `Err` holds the position of a
/// rank that stayed silent.
fn aligned(
    observer: &mut Observer<'_>,
    wanted: &[Wanted],
    limit_s: f64,
    progress: &dyn Progress,
) -> Result<Result<Aligned, usize>, Error> {
    let begun_s = observer.seconds();
    let mut wait_ms = 2;
    let mut same_looks = 0;
    let mut offsets_before = Vec::new();
    loop {
        std::thread::sleep(Duration::from_millis(wait_ms));
        wait_ms = (wait_ms * 3 / 2).min(LOOK_MS_MAX);
        observer.check(progress)?;
        let streams = observer.streams();
        let passes: Vec<Passes> =
            streams.iter().zip(wanted).map(|(stream, wanted)| Passes::of(stream, wanted)).collect();
        let waited_s = observer.seconds() - begun_s;
        if let Some(silent) = passes.iter().position(|passes| passes.counted < PASSES_MIN) {
            if waited_s > limit_s {
                return Ok(Err(silent));
            }
            let why = "every rank must pass the marker a few times".to_string();
            progress.stage(&Stage::Observing { seconds: observer.seconds(), why });
            continue;
        }
        if let Some(apart) = apart(&streams, &passes) {
            if waited_s > limit_s {
                return Ok(Err(apart));
            }
            let why = "the ranks' latest calls must overlap in time".to_string();
            progress.stage(&Stage::Observing { seconds: observer.seconds(), why });
            continue;
        }
        let alignment = align_passes(observer.team, &streams, &passes, wanted);
        same_looks = if alignment.offsets == offsets_before { same_looks + 1 } else { 1 };
        offsets_before.clone_from(&alignment.offsets);
        let enough = passes.iter().all(|passes| passes.counted >= ALIGN_PASSES_MIN);
        let is_settled = same_looks >= ALIGN_LOOKS_MIN && enough;
        if alignment.certainty == Certainty::Proven || is_settled || waited_s > limit_s {
            for (member, passes) in observer.team.members.iter().zip(&passes) {
                member.inserted.view().header().marker_phase.store(passes.phase, Release);
            }
            let counts = passes.iter().zip(wanted).map(|(passes, wanted)| (passes.symbol, wanted.every)).collect();
            let iteration_ticks = passes.iter().map(|passes| passes.period_ticks).fold(0.0, f64::max);
            return Ok(Ok(Aligned { iteration_ticks, counts, synchronises: false, alignment }));
        }
    }
}

/// A rank that passed its marker too seldom in the stretch of time that all ranks' streams have in common: nothing could
/// be said of its numbering.
fn apart(streams: &[Stream], passes: &[Passes]) -> Option<usize> {
    let times = |index: usize| passes[index].occurrences.iter().map(move |at| streams[index].events[*at].enter_ticks);
    let from = (0..passes.len()).filter_map(|index| times(index).next()).max().unwrap_or(0);
    let to = (0..passes.len()).filter_map(|index| times(index).next_back()).min().unwrap_or(0);
    (0..passes.len()).find(|index| times(*index).filter(|time| (from..=to).contains(time)).count() < PASSES_MIN)
}

fn align_passes(team: &Team, streams: &[Stream], passes: &[Passes], wanted: &[Wanted]) -> Alignment {
    let mut ranks = Vec::new();
    for (((member, stream), passes), wanted) in team.members.iter().zip(streams).zip(passes).zip(wanted) {
        ranks.push(RankStream {
            rank: member.process.rank.0,
            events: &stream.events,
            occurrences: &passes.occurrences,
            is_common: wanted.is_common,
            first_count: passes.first_count,
            uncertainty_ticks: 0,
        });
    }
    let mut alignment = align(&ranks);
    // The smallest offset is 0 for biased counts; the bias is the same for all, so it falls out.
    let smallest = alignment.offsets.iter().copied().min().unwrap_or(0);
    alignment.offsets.iter_mut().for_each(|offset| *offset -= smallest);
    alignment
}

/// The marker is a function of the program, wherever it is called from.
const ANY_SITE: u64 = u64::MAX;

/// One rank's passes of its marker.
struct Passes {
    occurrences: Vec<usize>,
    /// Those that its counter has seen.
    counted: usize,
    /// Number of the first occurrence, biased.
    first_count: u64,
    /// The pass of the call site, modulo passes per iteration, that marks an iteration.
    phase: u64,
    period_ticks: f64,
    symbol: Symbol,
}

impl Passes {
    fn of(stream: &Stream, wanted: &Wanted) -> Self {
        let matches = |symbol: Symbol| {
            symbol.function == wanted.symbol.function
                && (wanted.symbol.site == ANY_SITE || symbol.site == wanted.symbol.site)
        };
        let occurrences: Vec<usize> =
            (0..stream.events.len()).filter(|index| matches(stream.events[*index].symbol())).collect();
        let first_counted = occurrences.iter().position(|index| stream.passes[*index] > 0);
        let counted = first_counted.map_or(0, |first| occurrences.len() - first);
        // A call's record shows the passes after it was counted, hence the one less.
        let pass = first_counted.map_or(0, |first| stream.passes[occurrences[first]] - 1);
        let first_count = COUNT_BIAS + pass / wanted.every - first_counted.unwrap_or(0) as u64;
        let span = match (occurrences.first(), occurrences.last()) {
            (Some(first), Some(last)) => stream.events[*last].enter_ticks - stream.events[*first].enter_ticks,
            _ => 0,
        };
        let period_ticks = span as f64 / occurrences.len().saturating_sub(1).max(1) as f64;
        Passes { occurrences, counted, first_count, phase: pass % wanted.every, period_ticks, symbol: wanted.symbol }
    }
}
