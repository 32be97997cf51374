//! Finds the main loop in one rank's stream of MPI calls.
//!
//! The levels of the stream (`level`) that cover the observed time and repeat regularly are candidates. The outermost
//! wins, except where it is only an optional call made every k-th iteration of another candidate (output, convergence
//! check): such a call adds little time and few call sites to the iteration it happens in. The anchor is a call that
//! happens exactly once per iteration, a synchronising collective if there is one.
//!
//! Where no level will do, or the chosen one is left and entered again at a fixed distance, a word of calls that repeats
//! exactly (`word`) is the iteration, and its anchor one pass of several.
//!
//! Next: `cut` and `align` for the same iterations on all ranks.

use crate::event::{CallEvent, Symbol};
use crate::formulas::{coefficient_of_variation, median, time_per_iteration};
use crate::level::{Level, REGULAR_SHARE, SymbolTable, intervals};
use crate::word::{OPTIONAL_TIME_SHARE_MAX, Word, lacking};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Share of iterations with the commonest order of calls that proves a repetition by itself.
const COMMON_ORDER_MIN: f64 = 0.6;

/// Spread of iteration times up to which a repetition is believed although its calls change order.
const CV_REGULAR_MAX: f64 = 0.5;

/// Inner iterations per outer one from which the outer may be only an optional call; below it looks like the stages of
/// one step, and taking the step as the iteration costs nothing.
const OPTIONAL_REPEATS_MIN: f64 = 5.0;

/// Spread of repeat counts that betrays a polling loop.
const POLLING_CV_MIN: f64 = 0.25;

/// Levels counted as nearly equal in number of iterations; one of them is the loop, the other misses an iteration
/// now and then.
const TWIN_RATIO_MAX: f64 = 1.5;

/// Calls of an iteration over those of most from which it is an interruption of the loop. Uneven work inside of one
/// iteration (solver steps, levels of a mesh) varies less than this; sweeps have dozens of blocks.
const INTERRUPTION_RATIO_MIN: f64 = 16.0;

/// Irregular passes of a loop, at one distance from each other, that are waited for: enough for a word to show.
const IRREGULAR_PASSES_MIN: usize = 5;

/// Share of the needed coverage from which a word may be expected to come to all of it.
const WORD_SHARE_MIN: f64 = 0.5;

/// Passes after the first irregular one in which another is waited for: more steps than most inner solvers make.
const DISTANCE_MAX: usize = 64;

/// Passes of a call site from which it may become a loop.
const OCCURRENCES_IN_SIGHT: usize = 2;

/// Candidates compared: a bound on the time of a pathological stream; real programs have fewer than ten.
const CANDIDATES_MAX: usize = 256;

/// The conditions for a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectOptions {
    /// Complete iterations that must have been seen.
    pub iterations_min: usize,
    /// Share of the observed span the loop must cover, 0 to 1.
    pub coverage_min: f64,
    /// Functions called in polling loops (`MPI_Test`, `MPI_Iprobe`, ...): never a level, never an anchor.
    pub polling_functions: Vec<u32>,
    /// Call sites of one statement of the program, by a number of that statement: bindings of an interpreter make many calls
    /// for one. A site that is not there is a statement by itself.
    pub statements: BTreeMap<u64, u64>,
    /// Levels only: a loop around one that is left and entered again is not looked for.
    pub levels_only: bool,
}

impl Default for DetectOptions {
    fn default() -> Self {
        let (polling_functions, statements) = (Vec::new(), BTreeMap::new());
        Self { iterations_min: 3, coverage_min: 0.8, polling_functions, statements, levels_only: false }
    }
}

impl DetectOptions {
    /// True if a call is one of a polling loop.
    pub fn is_polling(&self, symbol: Symbol) -> bool {
        self.polling_functions.contains(&symbol.function)
    }
}

/// Why no loop of a rank's calls can be named yet: observe longer, or fall back to a window by time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub enum NoRepetition {
    /// Fewer calls than a loop needs.
    #[error("{} seen; observe longer", calls_seen(*calls))]
    FewCalls {
        /// So many.
        calls: usize,
    },
    /// No call comes again often enough.
    #[error("no call site repeated {needed} times in {calls} MPI calls; observe longer or measure by time")]
    NoSite {
        /// So often.
        needed: usize,
        /// In so many calls.
        calls: usize,
    },
    /// Calls repeat in too small a part of the time.
    #[error(
        "the widest repeating part covers {:.0}% of the observed time, {:.0}% are needed; observe longer",
        covered * 100.0,
        needed * 100.0
    )]
    Narrow {
        /// The part, 0 to 1.
        covered: f64,
        /// The part that it should be.
        needed: f64,
    },
    /// Calls repeat now so, now otherwise.
    #[error("calls repeat, but neither in a steady order nor at steady intervals; name a function with --mark")]
    Unsteady,
}

fn calls_seen(calls: usize) -> String {
    match calls {
        0 => "no MPI call was".to_owned(),
        1 => "only 1 MPI call was".to_owned(),
        more => format!("only {more} MPI calls were"),
    }
}

/// The outermost loop seen so far on one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundLoop {
    /// Median number of MPI calls per iteration.
    pub period_calls: usize,
    /// Complete iterations seen.
    pub iterations_seen: usize,
    /// Share of the observed span inside the loop, 0 to 1.
    pub coverage: f64,
    /// Call that happens exactly once per iteration; with a `word`, the call that begins it.
    pub anchor: Symbol,
    /// The anchor synchronises all ranks of `MPI_COMM_WORLD`.
    pub anchor_synchronises: bool,
    /// Events that are calls of the anchor and begin an iteration.
    pub occurrences: Vec<usize>,
    /// Every symbol that happens exactly once per iteration, the anchor included; empty with a `word`.
    pub once_per_iteration: Vec<Symbol>,
    /// The calls of an iteration from the anchor on, polling calls left out, where each iteration makes exactly these and
    /// no call is known to happen once; else empty. [`word_marks`](crate::word_marks) finds it again.
    pub word: Vec<Symbol>,
    /// A loop around this one is suspected, and more of the stream will tell.
    pub is_undecided: bool,
    /// Median time of one iteration, ticks.
    pub time_per_iteration_ticks: f64,
    /// Mean time of one iteration, ticks: pauses count that the median does not see.
    pub mean_time_per_iteration_ticks: f64,
    /// Standard deviation of the iteration time over its mean.
    pub cv: f64,
    /// Loops inside this one, the outermost first.
    pub inner: Vec<InnerLoop>,
    /// The loop in a sentence for a reader.
    pub description: String,
}

/// A loop inside the main loop.
#[derive(Clone, Debug, PartialEq)]
pub struct InnerLoop {
    /// Call sites that happen once per inner iteration.
    pub calls: usize,
    /// Median number of inner iterations per main iteration.
    pub repeats: f64,
    /// Standard deviation of that number over its mean.
    pub repeats_cv: f64,
}

/// Finds the outermost loop of `events`, which are one thread's calls in program order without gaps.
///
/// `now_ticks` is the end of the observation. Coverage is measured from the first event to `now_ticks`; pass a later
/// part of the stream to ignore a long setup phase.
///
/// # Errors
/// [`NoRepetition`] if there is none yet.
pub fn detect(events: &[CallEvent], now_ticks: u64, options: &DetectOptions) -> Result<FoundLoop, NoRepetition> {
    let occurrences_min = options.iterations_min.max(1) + 1;
    if events.len() < occurrences_min {
        return Err(NoRepetition::FewCalls { calls: events.len() });
    }
    let table = SymbolTable::new(events);
    let levels = table.levels(occurrences_min, |symbol| options.is_polling(symbol));
    if levels.is_empty() {
        return Err(NoRepetition::NoSite { needed: occurrences_min, calls: events.len() });
    }
    let search = Search { events, now_ticks, table: &table, options };
    let candidates: Vec<Candidate> =
        levels.iter().filter_map(|level| search.candidate(level)).take(CANDIDATES_MAX).collect();
    let word = search.word(occurrences_min);
    let covering = word.as_ref().filter(|word| word.coverage >= options.coverage_min);
    let Some(inner) = search.choose(&candidates) else {
        return match covering {
            Some(word) => Ok(search.describe_word(word, &levels)),
            None => Err(search.why_none(&levels)),
        };
    };
    let around = word.as_ref().filter(|word| search.encloses(word, inner));
    Ok(match around {
        Some(word) if word.coverage >= options.coverage_min => search.enclosing(word, &candidates, &levels),
        _ => {
            let mut found = search.described(inner, &levels);
            found.is_undecided |= around.is_some();
            found
        }
    })
}

/// Ticks of the outermost repetition that covers the observed time and is regular, however seldom it was seen so far: what
/// is worth waiting for before it can be called a loop. It is none any more when it does not come again in time.
pub fn in_sight(events: &[CallEvent], now_ticks: u64, options: &DetectOptions) -> Option<f64> {
    let table = SymbolTable::new(events);
    let search = Search { events, now_ticks, table: &table, options };
    let levels = table.levels(OCCURRENCES_IN_SIGHT, |symbol| options.is_polling(symbol));
    let outermost = levels.iter().take(CANDIDATES_MAX).find_map(|level| search.candidate(level))?;
    median(&outermost.intervals)
}

/// The stream under inspection.
struct Search<'a> {
    events: &'a [CallEvent],
    now_ticks: u64,
    table: &'a SymbolTable,
    options: &'a DetectOptions,
}

/// A level that covers the time and repeats regularly.
struct Candidate<'a> {
    level: &'a Level,
    intervals: Vec<f64>,
}

impl<'a> Search<'a> {
    fn candidate(&self, level: &'a Level) -> Option<Candidate<'a>> {
        let regular = self.coverage(level) >= self.options.coverage_min && self.is_regular(level);
        regular.then(|| Candidate { level, intervals: level.intervals(self.events) })
    }

    fn is_regular(&self, level: &Level) -> bool {
        coefficient_of_variation(&level.intervals(self.events)) <= CV_REGULAR_MAX
            || self.table.commonest_order_share(level) >= COMMON_ORDER_MIN
    }

    /// Share of the span from the first event to now that lies inside the level, unfinished iterations at both ends
    /// included as far as they are no longer than the typical one; without its interruptions.
    fn coverage(&self, level: &Level) -> f64 {
        let enter = |index: usize| self.events[index].enter_ticks as f64;
        let (Some(first), Some(last)) = (level.marks.first(), level.marks.last()) else { return 0.0 };
        let start = enter(0);
        let end = (self.now_ticks as f64).max(enter(self.events.len() - 1));
        let typical = median(&level.intervals(self.events)).unwrap_or(0.0);
        let ends = (enter(*first) - start).min(typical) + (end - enter(*last)).min(typical);
        let inside = enter(*last) - enter(*first) - self.interruptions(level) + ends;
        if end > start { inside / (end - start) } else { 0.0 }
    }

    /// Ticks in iterations with many times more calls than most have: what lies between two bursts of the same call, as
    /// in a sweep through blocks, is no iteration of that burst.
    fn interruptions(&self, level: &Level) -> f64 {
        let is_polling = |index: &usize| self.options.is_polling(self.events[*index].symbol());
        let stretches = level.stretches();
        let calls: Vec<f64> =
            stretches.iter().map(|(from, to)| (*from..*to).filter(|index| !is_polling(index)).count() as f64).collect();
        let limit = median(&calls).unwrap_or(0.0).max(1.0) * INTERRUPTION_RATIO_MIN;
        let interrupted = stretches.iter().zip(&calls).filter(|(_, calls)| **calls > limit);
        let enter = |index: usize| self.events[index].enter_ticks as f64;
        interrupted.map(|((from, to), _)| enter(*to) - enter(*from)).sum()
    }

    /// The outermost candidate, unless it is but an optional call of an inner one.
    fn choose<'c>(&self, candidates: &'c [Candidate<'a>]) -> Option<&'c Candidate<'a>> {
        let mut chosen = self.truest_twin(candidates, 0)?;
        while let Some(inner) =
            (chosen + 1..candidates.len()).find(|inner| self.is_optional(&candidates[chosen], &candidates[*inner]))
        {
            chosen = self.truest_twin(candidates, inner)?;
        }
        candidates.get(chosen)
    }

    /// Of candidates with nearly as many iterations as `start`, the one with most call sites, then the steadiest:
    /// the others are skipped or doubled in some iterations.
    fn truest_twin(&self, candidates: &[Candidate<'a>], start: usize) -> Option<usize> {
        let limit = candidates.get(start)?.level.marks.len() as f64 * TWIN_RATIO_MAX;
        let twins = (start..candidates.len()).take_while(|twin| candidates[*twin].level.marks.len() as f64 <= limit);
        twins.min_by(|a, b| {
            let rank = |index: usize| {
                let candidate = &candidates[index];
                (usize::MAX - candidate.level.symbols.len(), coefficient_of_variation(&candidate.intervals))
            };
            let (calls_a, cv_a) = rank(*a);
            let (calls_b, cv_b) = rank(*b);
            calls_a.cmp(&calls_b).then(cv_a.total_cmp(&cv_b))
        })
    }

    /// True if `outer` is an occasional light addition to iterations of `inner`, not a loop of its own.
    fn is_optional(&self, outer: &Candidate, inner: &Candidate) -> bool {
        let repeats = outer.level.repeats_of(inner.level);
        if median(&repeats).unwrap_or(0.0) < OPTIONAL_REPEATS_MIN || self.looks_like_polling(inner, &repeats) {
            return false;
        }
        let stretches = inner.level.stretches();
        let is_with = |(from, to): &(usize, usize)| {
            let position = outer.level.marks.partition_point(|mark| mark < from);
            outer.level.marks.get(position).is_some_and(|mark| mark < to)
        };
        let (with, plain): (Vec<usize>, Vec<usize>) = (0..stretches.len()).partition(|i| is_with(&stretches[*i]));
        self.adds_little_time(inner, &with, &plain) && self.adds_few_calls(inner, &stretches, &with, &plain)
    }

    fn looks_like_polling(&self, inner: &Candidate, repeats: &[f64]) -> bool {
        let synchronises = |id: &usize| self.events[self.table.occurrences[*id][0]].synchronising;
        inner.level.symbols.len() <= 2
            && !inner.level.symbols.iter().any(synchronises)
            && coefficient_of_variation(repeats) > POLLING_CV_MIN
    }

    fn adds_little_time(&self, inner: &Candidate, with: &[usize], plain: &[usize]) -> bool {
        let pick = |which: &[usize]| median(&which.iter().map(|i| inner.intervals[*i]).collect::<Vec<_>>());
        let (Some(time_with), Some(time_plain)) = (pick(with), pick(plain)) else { return false };
        let total: f64 = inner.intervals.iter().sum();
        (time_with - time_plain).max(0.0) * with.len() as f64 <= OPTIONAL_TIME_SHARE_MAX * total
    }

    /// True if the iterations `with` the outer call have at most one statement more, or under half of the inner's.
    fn adds_few_calls(&self, inner: &Candidate, all: &[(usize, usize)], with: &[usize], plain: &[usize]) -> bool {
        let pick = |which: &[usize]| which.iter().map(|i| all[*i]).collect::<Vec<_>>();
        let (in_with, in_plain) = (self.table.presence(&pick(with)), self.table.presence(&pick(plain)));
        let is_usual = |id: &usize| in_plain[*id] as f64 >= REGULAR_SHARE * plain.len() as f64;
        let is_extra = |id: &usize| {
            in_with[*id] as f64 >= REGULAR_SHARE * with.len() as f64
                && in_plain[*id] as f64 <= (1.0 - REGULAR_SHARE) * plain.len() as f64
        };
        let ids = || 0..in_plain.len();
        let usual = self.statements(ids().filter(is_usual));
        let extra = self.statements(ids().filter(is_extra)).difference(&usual).count();
        let of_inner = self.statements(inner.level.symbols.iter().copied());
        extra < 2 || 2 * extra < usual.len().max(of_inner.len())
    }

    /// The statements that make the calls of some symbols; a symbol of which none is known is one by itself.
    fn statements(&self, ids: impl Iterator<Item = usize>) -> BTreeSet<(Option<u64>, Symbol)> {
        let statement = |id: usize| {
            let symbol = self.table.symbols[id];
            match self.options.statements.get(&symbol.site) {
                Some(number) => (Some(*number), Symbol { function: 0, site: 0 }),
                None => (None, symbol),
            }
        };
        ids.map(statement).collect()
    }

    /// The word in which the stream repeats; one that covers too little says at least what to wait for.
    fn word(&self, times_min: usize) -> Option<Word> {
        if self.options.levels_only {
            return None;
        }
        let skip = |symbol| self.options.is_polling(symbol);
        Word::find(
            self.events,
            self.table,
            skip,
            self.now_ticks,
            (times_min, self.options.coverage_min * WORD_SHARE_MIN),
        )
    }

    /// The loop around an inner one: its level if a call happens once in it.
    fn enclosing(&self, word: &Word, candidates: &[Candidate], levels: &[Level]) -> FoundLoop {
        let level = candidates.iter().find(|outer| word.count(outer.level.symbols[0]) == 1);
        level.map_or_else(|| self.describe_word(word, levels), |outer| self.describe(outer, levels))
    }

    fn encloses(&self, word: &Word, inner: &Candidate) -> bool {
        word.encloses(self.table, inner.level.symbols[0])
    }

    /// A loop of which a reader, and who decides, must know that it may be an inner one.
    fn described(&self, chosen: &Candidate, levels: &[Level]) -> FoundLoop {
        let mut found = self.describe(chosen, levels);
        let stretches = chosen.level.stretches();
        let passes: Vec<Vec<usize>> = stretches.iter().map(|(from, to)| self.table.ids[*from..*to].to_vec()).collect();
        let irregular = lacking(&passes, self.table.symbols.len());
        found.is_undecided = !self.options.levels_only && may_be_fixed(&irregular, passes.len());
        if !irregular.is_empty() {
            let (few, all) = (irregular.len(), passes.len());
            found.description.push_str(&format!("; {few} of {all} make fewer calls, so there may be a loop around it"));
        }
        found
    }

    fn describe(&self, chosen: &Candidate, levels: &[Level]) -> FoundLoop {
        let level = chosen.level;
        let anchor_id = self.anchor(level);
        let occurrences = self.table.occurrences[anchor_id].clone();
        let mut found = self.found(anchor_id, occurrences, level, levels);
        found.once_per_iteration = level.symbols.iter().map(|id| self.table.symbols[*id]).collect();
        found.description = sentence(&found);
        found
    }

    fn describe_word(&self, word: &Word, levels: &[Level]) -> FoundLoop {
        let place = word.place(|id| self.synchronises(id));
        let symbols = word.symbols(self.table, place);
        let level = Level { symbols: Vec::new(), marks: word.marks(place) };
        let anchor_id = self.table.ids[level.marks[0]];
        let mut found = self.found(anchor_id, level.marks.clone(), &level, levels);
        found.period_calls = word.period;
        found.word = symbols;
        found.description = sentence(&found);
        found
    }

    /// The facts of a loop whose iterations begin at `occurrences`.
    fn found(&self, anchor_id: usize, occurrences: Vec<usize>, level: &Level, levels: &[Level]) -> FoundLoop {
        let times = intervals(self.events, &occurrences);
        let calls: Vec<f64> = occurrences.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = time_per_iteration(times.iter().sum(), occurrences.len() as u64);
        FoundLoop {
            period_calls: median(&calls).unwrap_or(0.0).round() as usize,
            iterations_seen: occurrences.len().saturating_sub(1),
            coverage: self.coverage(level).min(1.0),
            anchor: self.table.symbols[anchor_id],
            anchor_synchronises: self.synchronises(anchor_id),
            occurrences,
            once_per_iteration: Vec::new(),
            word: Vec::new(),
            is_undecided: false,
            time_per_iteration_ticks: median(&times).unwrap_or(0.0),
            mean_time_per_iteration_ticks: mean.unwrap_or(0.0),
            cv: coefficient_of_variation(&times),
            inner: inner_loops(level, levels),
            description: String::new(),
        }
    }

    /// The once-per-iteration symbol to count: synchronising if possible, then always at the same place in the
    /// iteration, then the steadiest in time.
    fn anchor(&self, level: &Level) -> usize {
        let preference = |id: &usize| {
            let marks = &self.table.occurrences[*id];
            let calls: Vec<f64> = marks.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
            let wandering_percent = (coefficient_of_variation(&calls) * 100.0).round();
            let steadiness = coefficient_of_variation(&intervals(self.events, marks));
            (!self.synchronises(*id), wandering_percent, steadiness, *id)
        };
        let mut preferences: Vec<_> = level.symbols.iter().map(preference).collect();
        preferences
            .sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2)).then(a.3.cmp(&b.3)));
        preferences[0].3
    }

    fn synchronises(&self, id: usize) -> bool {
        self.table.occurrences[id].iter().all(|index| self.events[*index].synchronises_world())
    }

    fn why_none(&self, levels: &[Level]) -> NoRepetition {
        let covered = levels.iter().map(|level| self.coverage(level)).fold(0.0, f64::max);
        let needed = self.options.coverage_min;
        if covered < needed { NoRepetition::Narrow { covered, needed } } else { NoRepetition::Unsteady }
    }
}

/// True if irregular passes may come at one distance, but were not seen often enough for a word to show.
fn may_be_fixed(irregular: &[usize], passes: usize) -> bool {
    let (Some(first), Some(last)) = (irregular.first(), irregular.last()) else { return false };
    let distance = irregular.get(1).map(|second| second - first);
    let even = irregular.windows(2).all(|pair| Some(pair[1] - pair[0]) == distance);
    even && irregular.len() < IRREGULAR_PASSES_MIN
        && passes - last <= distance.map_or(DISTANCE_MAX, |distance| distance + distance / 2)
}

/// The levels that repeat at least twice inside each iteration of `outer`, outermost first, each repeat count once.
fn inner_loops(outer: &Level, levels: &[Level]) -> Vec<InnerLoop> {
    let mut found: Vec<InnerLoop> = Vec::new();
    for level in levels.iter().filter(|level| level.marks.len() >= 2 * outer.iterations()) {
        let repeats = outer.repeats_of(level);
        let inside = repeats.iter().filter(|count| **count >= 2.0).count() as f64;
        if inside < REGULAR_SHARE * repeats.len() as f64 {
            continue;
        }
        let one = InnerLoop {
            calls: level.symbols.len(),
            repeats: median(&repeats).unwrap_or(0.0),
            repeats_cv: coefficient_of_variation(&repeats),
        };
        match found.iter_mut().find(|known| known.repeats == one.repeats && known.repeats_cv == one.repeats_cv) {
            Some(known) => known.calls += one.calls,
            None => found.push(one),
        }
    }
    found
}

/// "1 iteration", "7 iterations".
fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

fn sentence(found: &FoundLoop) -> String {
    let mut text = format!(
        "{} per iteration, {} seen, covering {:.1}% of the time",
        counted(found.period_calls, "MPI call"),
        counted(found.iterations_seen, "iteration"),
        found.coverage * 100.0
    );
    for inner in &found.inner {
        let about = if inner.repeats_cv > 0.01 { "about " } else { "" };
        let sites = if inner.calls == 1 { "one call site" } else { "call sites" };
        let calls = if inner.calls == 1 { String::new() } else { format!("{} ", inner.calls) };
        text.push_str(&format!("; inside, {calls}{sites} repeated {about}{:.0} times", inner.repeats));
    }
    text
}
