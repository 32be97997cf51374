//! The ranks' counters: set to count the agreed call, seen to count, aligned to one numbering.
//!
//! Next: `recording` arms the ranks.

use crate::error::Error;
use crate::marker::{ANY_SITE, LOOK_MS_MAX, MarkerCall, Observer};
use crate::observe::Stream;
use crate::options::{Progress, Stage};
use crate::team::Team;
use std::sync::atomic::Ordering::Release;
use std::time::Duration;
use trimtab_window::{Alignment, Certainty, RankStream, Symbol, align, word_marks};

/// Added to every rank's counter, so that calls before the counter began have numbers too.
const COUNT_BIAS: u64 = 1 << 32;
/// Marker passes of every rank that alignment wants to see.
const PASSES_MIN: usize = 3;
/// Looks that must agree on an alignment that can't be proven, and passes they must rest on.
const ALIGN_LOOKS_MIN: usize = 3;
const ALIGN_PASSES_MIN: usize = 8;

/// What counts iterations on one rank.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub symbol: Symbol,
    /// The calls of an iteration, if not every call of `symbol` begins one.
    pub word: Vec<Symbol>,
    pub every: u64,
    /// It counts for sure from then on.
    pub since_ticks: u64,
    pub is_common: bool,
}

impl Wanted {
    /// Events of a rank that begin an iteration.
    pub(crate) fn marks(&self, team: &Team, stream: &Stream) -> Vec<usize> {
        let is_polling = |symbol: Symbol| team.selection.polling.contains(&symbol.function);
        if !self.word.is_empty() {
            return word_marks(&stream.events, &self.word, is_polling);
        }
        (0..stream.events.len()).filter(|index| self.is_call(stream.events[*index].symbol())).collect()
    }

    /// Whether this is a call of the marker's call site, in the marker's direction.
    pub(crate) fn is_call(&self, symbol: Symbol) -> bool {
        symbol.function == self.symbol.function && (self.symbol.site == ANY_SITE || symbol.site == self.symbol.site)
    }
}

/// Counters on one numbering.
pub(crate) struct Aligned {
    alignment: Alignment,
    iteration_ticks: f64,
    wanted: Vec<Wanted>,
    pub synchronises: bool,
}

impl Aligned {
    pub(crate) fn call(self, name: String, source: &'static str, description: Option<String>) -> MarkerCall {
        MarkerCall {
            name,
            source,
            certain: self.alignment.certainty == Certainty::Proven,
            offsets: self.alignment.offsets,
            explanation: self.alignment.explanation,
            iteration_ticks: self.iteration_ticks,
            synchronises: self.synchronises,
            wanted: self.wanted,
            description,
        }
    }
}

/// How long to wait for a marker, seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// While some rank has not passed it once.
    pub silent_s: f64,
    /// For all that is needed.
    pub limit_s: f64,
}

/// Waits until every rank has passed its marker a few times, and aligns their counters. `Err` holds the position of a
/// rank that stayed silent.
pub(crate) fn aligned(
    observer: &mut Observer<'_>,
    wanted: &[Wanted],
    Waiting { silent_s, limit_s }: Waiting,
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
            streams.iter().zip(wanted).map(|(stream, wanted)| Passes::of(observer.team, stream, wanted)).collect();
        let waited_s = observer.seconds() - begun_s;
        if let Some(silent) = passes.iter().position(|passes| passes.counted < PASSES_MIN) {
            let never = passes[silent].occurrences.is_empty();
            if waited_s > if never { silent_s } else { limit_s } {
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
            let iteration_ticks = passes.iter().map(|passes| passes.period_ticks).fold(0.0, f64::max);
            return Ok(Ok(Aligned { iteration_ticks, wanted: wanted.to_vec(), synchronises: false, alignment }));
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
}

impl Passes {
    fn of(team: &Team, stream: &Stream, wanted: &Wanted) -> Self {
        let occurrences = wanted.marks(team, stream);
        let is_counted =
            |index: &usize| stream.passes[*index] > 0 && stream.events[*index].enter_ticks > wanted.since_ticks;
        let first_counted = occurrences.iter().position(is_counted);
        let counted = first_counted.map_or(0, |first| occurrences.len() - first);
        // A call's record shows the passes after it was counted, hence the one less.
        let pass = first_counted.map_or(0, |first| stream.passes[occurrences[first]] - 1);
        let first_count = COUNT_BIAS + pass / wanted.every - first_counted.unwrap_or(0) as u64;
        let span = match (occurrences.first(), occurrences.last()) {
            (Some(first), Some(last)) => stream.events[*last].enter_ticks - stream.events[*first].enter_ticks,
            _ => 0,
        };
        let period_ticks = span as f64 / occurrences.len().saturating_sub(1).max(1) as f64;
        Passes { occurrences, counted, first_count, phase: pass % wanted.every, period_ticks }
    }
}
