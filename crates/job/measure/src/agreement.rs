//! From each rank's own loop to one call that counts iterations on all of them.
//!
//! Where calls happen once per iteration, the one that most ranks share counts. Where iterations only repeat call by call,
//! one rank says where they begin, and the others begin theirs where that fits best.
//!
//! Next: `counting` sets it and aligns the ranks' counters.

use crate::observe::Stream;
use std::collections::{BTreeMap, BTreeSet};
use trimtab_window::{CallEvent, Cut, DetectOptions, Detection, FoundLoop, RankStream, Symbol, best_cut, detect};

/// A rank may be this much faster than the slowest one's loop and still be in the same loop.
const PACE_TOLERANCE: f64 = 0.7;

/// One rank's part in an agreement.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The call that counts iterations: call site and direction.
    pub symbol: Symbol,
    /// The calls of an iteration, if not every call of `symbol` begins one.
    pub word: Vec<Symbol>,
    /// The event of its latest call.
    pub last: usize,
    /// Passes of its call site in one iteration.
    pub every: u64,
    /// Its call site is the job's.
    pub is_common: bool,
    pub synchronises: bool,
    pub description: String,
}

/// What the ranks agree on.
#[derive(Clone, Debug)]
pub(crate) struct Agreed {
    /// In the order of the ranks.
    pub choices: Vec<Choice>,
    /// Complete iterations that every rank was seen to make.
    pub iterations_seen: usize,
    /// Ticks of one iteration of the slowest rank, about.
    pub iteration_ticks: f64,
    /// A loop around this one is suspected, and more of the streams will tell.
    pub is_undecided: bool,
}

/// A call site whatever the direction of its messages.
type Base = (u32, u64);

/// The loop that all ranks run, or why there is none.
pub(crate) fn agreed(streams: &[Stream], options: &DetectOptions) -> Result<Agreed, String> {
    let found = loops(streams, options)?;
    match agree(streams, &found, options) {
        // A rank may see the loop around the others' loop; then all take the inner one.
        Err(why) if found.iter().any(|found| !found.word.is_empty()) => {
            let options = DetectOptions { levels_only: true, ..options.clone() };
            let inner = loops(streams, &options).and_then(|found| agree(streams, &found, &options));
            inner.map(|inner| Agreed { is_undecided: true, ..inner }).map_err(|_| why)
        }
        result => result,
    }
}

fn loops(streams: &[Stream], options: &DetectOptions) -> Result<Vec<FoundLoop>, String> {
    let detected = streams.iter().map(|stream| match detect(&stream.events, stream.until_ticks, options) {
        Detection::Loop(found) => Ok(found),
        Detection::NotYet { why } => Err(why),
    });
    detected.collect()
}

fn agree(streams: &[Stream], loops: &[FoundLoop], options: &DetectOptions) -> Result<Agreed, String> {
    let pace = loops.iter().map(|found| found.time_per_iteration_ticks).fold(0.0, f64::max);
    if loops.iter().any(|found| found.time_per_iteration_ticks < pace * PACE_TOLERANCE) {
        return Err("the ranks do not repeat at one pace yet".into());
    }
    let common = elect(streams, loops);
    let own = |stream: &Stream, found: &FoundLoop| match found.word.is_empty() {
        true => chosen(stream, found, common),
        false => counted(stream, found, found.occurrences.clone(), found.word.clone(), None),
    };
    let first = loops.iter().position(|found| found.word.is_empty()).unwrap_or(0);
    let (stream, found) = streams.get(first).zip(loops.get(first)).ok_or("there is no rank to look at")?;
    let reference = own(stream, found)?;
    let marks = match found.word.is_empty() {
        true => calls_of(stream, reference.symbol),
        false => found.occurrences.clone(),
    };
    let fit = RankStream {
        rank: stream.rank,
        events: &stream.events,
        occurrences: &marks,
        is_common: true,
        first_count: 0,
        uncertainty_ticks: 0,
    };
    let site = base_of(stream, reference.last);
    let mut choices = Vec::with_capacity(loops.len());
    for (index, (stream, found)) in streams.iter().zip(loops).enumerate() {
        choices.push(match found.word.is_empty() {
            _ if index == first => reference.clone(),
            true => chosen(stream, found, common)?,
            false => fitted(&fit, site, stream, found, options)?,
        });
    }
    let iterations_seen = loops.iter().map(|found| found.iterations_seen).min().unwrap_or(0);
    Ok(Agreed {
        choices,
        iterations_seen,
        iteration_ticks: pace,
        is_undecided: loops.iter().any(|found| found.is_undecided),
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

/// Once-per-iteration calls of a rank with their call sites.
fn once(stream: &Stream, found: &FoundLoop) -> Vec<(Symbol, Base, bool)> {
    let mut known = Vec::new();
    for symbol in &found.once_per_iteration {
        if let Some(index) = stream.events.iter().position(|event| event.symbol() == *symbol) {
            let event = &stream.events[index];
            known.push((*symbol, base_of(stream, index), synchronises_world(event)));
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

/// The call that counts where one happens once per iteration: the common one, else the rank's own.
fn chosen(stream: &Stream, found: &FoundLoop, common: Option<Base>) -> Result<Choice, String> {
    let mut candidates: Vec<(Symbol, Base, bool)> =
        once(stream, found).into_iter().filter(|(_, base, _)| Some(*base) == common).collect();
    if candidates.is_empty() {
        candidates = once(stream, found).into_iter().filter(|(symbol, _, _)| *symbol == found.anchor).collect();
    }
    // Of several directions the one after the longest computation: that is where an iteration begins.
    let best = candidates.into_iter().max_by(|a, b| gap_before(stream, a.0).total_cmp(&gap_before(stream, b.0)));
    let (symbol, _, synchronises) = best.ok_or("a rank has no call that happens once per iteration")?;
    let choice = counted(stream, found, calls_of(stream, symbol), Vec::new(), common)?;
    Ok(Choice { synchronises, ..choice })
}

/// A choice whose iterations begin at `marks`. `common`: the job's call site; `None`: that of this rank.
fn counted(
    stream: &Stream,
    found: &FoundLoop,
    marks: Vec<usize>,
    word: Vec<Symbol>,
    common: Option<Base>,
) -> Result<Choice, String> {
    let last = *marks.last().ok_or("the loop has ended")?;
    let base = base_of(stream, last);
    let every = passes_per_iteration(stream, &marks, base).ok_or("a call site is passed a varying number of times")?;
    Ok(Choice {
        symbol: stream.events[last].symbol(),
        word,
        last,
        every,
        is_common: common.is_none_or(|common| common == base),
        synchronises: marks.iter().all(|mark| synchronises_world(&stream.events[*mark])),
        description: found.description.clone(),
    })
}

/// The choice of a rank whose iterations repeat call by call: those that fit the reference's iterations best.
fn fitted(
    reference: &RankStream,
    common: Base,
    stream: &Stream,
    found: &FoundLoop,
    options: &DetectOptions,
) -> Result<Choice, String> {
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
        // What synchronises is the same call on all ranks; else an iteration does not begin inside a run of one call.
        let is_possible = if synchronises && shares { is_common } else { before != *symbol };
        if is_possible {
            cuts.push(Cut { marks, is_common });
            places.push(place);
        }
    }
    let best = best_cut(reference, stream.rank, &stream.events, &cuts)
        .ok_or("the ranks' calls do not say which of their iterations are the same")?;
    let mut word = found.word.clone();
    word.rotate_left(places[best]);
    counted(stream, found, cuts.swap_remove(best).marks, word, Some(common))
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
