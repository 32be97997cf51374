//! Iterations that repeat call by call, also where no call happens once in each.
//!
//! A wavefront sends a burst of blocks, then receives one; a solver without a call of its own around its inner steps
//! passes every call site many times per solution. No call site alone counts their iterations, but the sequence of calls
//! is the same in each: the stream ends in repetitions of one word. An iteration then begins at one of the word's calls,
//! known by the whole iteration before it, and counted as every n-th pass of its call site.
//!
//! Next: `detect`, which asks for a word where levels do not suffice.

use crate::event::{CallEvent, Symbol};
use crate::formulas::median;
use crate::level::SymbolTable;
use std::collections::{BTreeMap, BTreeSet};

/// An outer level that adds less than this share of the time to the inner one may be only an optional call. Half of
/// what a stage of a typical multi-stage step adds, several times what periodic output may cost before users remove it.
pub(crate) const OPTIONAL_TIME_SHARE_MAX: f64 = 0.15;

/// Passes of an inner loop from which a loop around it can be told from stages of one step.
const PASSES_MIN: usize = 3;

/// Share of the passes that may be irregular; the others say what a regular one is.
const IRREGULAR_SHARE_MAX: f64 = 1.0 / 3.0;

/// Irregular passes must compute so much more than regular ones, as a share of a regular pass: less is noise, and a
/// call that is only skipped now and then saves time.
const EXTRA_SHARE_MIN: f64 = 0.1;

/// Exact repetitions at the end of a stream.
pub(crate) struct Word {
    /// Calls of one repetition.
    pub period: usize,
    /// Share of the observed time in the repetitions, 0 to 1.
    pub coverage: f64,
    /// Symbol ids of a repetition.
    ids: Vec<usize>,
    /// Positions in `kept` from which on the stream repeats.
    from: usize,
    /// Events that are no polling calls.
    kept: Vec<usize>,
    /// Computing before each call of a repetition, ticks, median over the repetitions.
    gaps: Vec<f64>,
    /// Time from each call of a repetition to the next, ticks, median over the repetitions.
    steps: Vec<f64>,
}

impl Word {
    /// The shortest word that the stream ends in at least `times_min` times and that covers `coverage_min` of the time
    /// until `now_ticks`.
    pub fn find(
        events: &[CallEvent],
        table: &SymbolTable,
        skip: impl Fn(Symbol) -> bool,
        now_ticks: u64,
        (times_min, coverage_min): (usize, f64),
    ) -> Option<Self> {
        let kept: Vec<usize> = (0..events.len()).filter(|index| !skip(events[*index].symbol())).collect();
        let reversed: Vec<usize> = kept.iter().rev().map(|index| table.ids[*index]).collect();
        let matches = common_prefixes(&reversed);
        let coverage =
            |period: usize| covered(events, &kept[kept.len() - period - matches[period]..], period, now_ticks);
        // A word of one call is a loop level, and judged as one.
        let period = (2..=kept.len() / times_min.max(2))
            .filter(|period| period + matches[*period] >= times_min * period)
            .find(|period| coverage(*period) >= coverage_min)?;
        let from = kept.len() - period - matches[period];
        let ids = kept[from..from + period].iter().map(|index| table.ids[*index]).collect();
        let coverage = coverage(period);
        let mut word = Word { period, coverage, ids, from, kept, gaps: Vec::new(), steps: Vec::new() };
        word.gaps = (0..period).map(|place| word.gap(events, place)).collect();
        word.steps = (0..period).map(|place| word.step(events, place)).collect();
        Some(word)
    }

    /// Events at one place of the word.
    fn at(&self, place: usize) -> impl Iterator<Item = usize> + '_ {
        self.kept[self.from..].iter().skip(place).step_by(self.period).copied()
    }

    fn gap(&self, events: &[CallEvent], place: usize) -> f64 {
        let gaps = self.at(place).filter(|index| *index > 0).map(|index| {
            let before = &events[index - 1];
            events[index].enter_ticks.saturating_sub(before.seen_until()) as f64
        });
        median(&gaps.collect::<Vec<_>>()).unwrap_or(0.0)
    }

    fn step(&self, events: &[CallEvent], place: usize) -> f64 {
        let ends = self.kept[self.from..].iter().skip(place + 1).step_by(self.period);
        let steps = self.at(place).zip(ends).map(|(begin, end)| events[*end].enter_ticks - events[begin].enter_ticks);
        median(&steps.map(|ticks| ticks as f64).collect::<Vec<_>>()).unwrap_or(0.0)
    }

    /// How often symbol `id` occurs in one repetition.
    pub fn count(&self, id: usize) -> usize {
        self.ids.iter().filter(|other| **other == id).count()
    }

    /// The place at which to begin an iteration: a call that synchronises, then one that happens once, then the first
    /// after the longest computation between two different calls, where a loop's end is likeliest.
    pub fn place(&self, synchronises: impl Fn(usize) -> bool) -> usize {
        let begins_run = |place: &usize| self.ids[*place] != self.ids[(place + self.period - 1) % self.period];
        let longest =
            (0..self.period).filter(begins_run).max_by(|a, b| self.gaps[*a].total_cmp(&self.gaps[*b]).then(b.cmp(a)));
        let after = |place: usize| (place + self.period - longest.unwrap_or(0)) % self.period;
        let mut counts = BTreeMap::new();
        self.ids.iter().for_each(|id| *counts.entry(*id).or_insert(0) += 1);
        let synchronising: BTreeSet<usize> = counts.keys().copied().filter(|id| synchronises(*id)).collect();
        let preference = |place: &usize| {
            let id = self.ids[*place];
            (!synchronising.contains(&id), counts[&id] != 1, after(*place))
        };
        (0..self.period).min_by_key(preference).unwrap_or(0)
    }

    /// The calls of an iteration that begins at `place`.
    pub fn symbols(&self, table: &SymbolTable, place: usize) -> Vec<Symbol> {
        (0..self.period).map(|at| table.symbols[self.ids[(place + at) % self.period]]).collect()
    }

    /// Events that begin an iteration at `place`.
    pub fn marks(&self, place: usize) -> Vec<usize> {
        self.at(place).collect()
    }

    /// True if the word is a loop around that of `inner`: in each repetition the inner loop is left and entered again.
    ///
    /// Most passes of the inner loop are alike. Either irregular ones lack some of its calls, so they are not passes that
    /// do something more (output, a check), and the program computes longer in them before the calls they do make, so
    /// they are not passes in which something is skipped. Or what irregular passes do more takes a good part of the time,
    /// as another loop after the inner one does.
    pub fn encloses(&self, table: &SymbolTable, inner: usize) -> bool {
        let starts: Vec<usize> = (0..self.period).filter(|place| self.ids[*place] == inner).collect();
        if starts.len() < PASSES_MIN {
            return false;
        }
        let passes: Vec<Pass> = (0..starts.len())
            .map(|pass| {
                let end = starts.get(pass + 1).copied().unwrap_or(starts[0] + self.period);
                Pass::new(self, (starts[pass]..end).map(|at| at % self.period))
            })
            .collect();
        let calls: Vec<Vec<usize>> = passes.iter().map(|pass| pass.ids.clone()).collect();
        let lacking = lacking(&calls, table.symbols.len());
        let fewest = (0..passes.len()).filter(|pass| !lacking.contains(pass)).map(|pass| calls[pass].len()).min();
        let (regular, more): (Vec<usize>, Vec<usize>) = (0..passes.len())
            .filter(|pass| !lacking.contains(pass))
            .partition(|pass| Some(calls[*pass].len()) == fewest);
        if ((passes.len() - regular.len()) as f64) > IRREGULAR_SHARE_MAX * passes.len() as f64 {
            return false;
        }
        let regular: Vec<&Pass> = regular.iter().map(|pass| &passes[*pass]).collect();
        let typical = |value: fn(&Pass) -> f64| {
            median(&regular.iter().map(|pass| value(pass)).collect::<Vec<_>>()).unwrap_or(0.0)
        };
        let computing: f64 = lacking.iter().map(|pass| passes[*pass].extra_computing(&regular)).sum();
        let time: f64 = more.iter().map(|pass| passes[*pass].ticks() - typical(Pass::ticks)).sum();
        computing > EXTRA_SHARE_MIN * typical(Pass::computing)
            || time > OPTIONAL_TIME_SHARE_MAX * self.steps.iter().sum::<f64>()
    }
}

/// One pass of an inner loop in a word.
struct Pass {
    ids: Vec<usize>,
    gaps: Vec<f64>,
    steps: Vec<f64>,
}

impl Pass {
    fn new(word: &Word, places: impl Iterator<Item = usize>) -> Self {
        let mut pass = Pass { ids: Vec::new(), gaps: Vec::new(), steps: Vec::new() };
        for place in places {
            pass.ids.push(word.ids[place]);
            pass.gaps.push(word.gaps[place]);
            pass.steps.push(word.steps[place]);
        }
        pass
    }

    fn ticks(&self) -> f64 {
        self.steps.iter().sum()
    }

    fn computing(&self) -> f64 {
        self.gaps.iter().sum()
    }

    /// Computing before the n-th call of a symbol.
    fn gap(&self, id: usize, n: usize) -> Option<f64> {
        self.ids.iter().zip(&self.gaps).filter(|(other, _)| **other == id).nth(n).map(|(_, gap)| *gap)
    }

    /// How much longer the program computes before the calls of this pass than before the same calls of regular ones.
    fn extra_computing(&self, regular: &[&Pass]) -> f64 {
        let own = self.ids.iter().zip(&self.gaps).enumerate().map(|(at, (id, gap))| {
            let earlier = self.ids[..at].iter().filter(|other| *other == id).count();
            let usual: Vec<f64> = regular.iter().filter_map(|other| other.gap(*id, earlier)).collect();
            gap - median(&usual).unwrap_or(0.0)
        });
        own.sum()
    }
}

/// Passes that make fewer of some call than most passes do.
pub(crate) fn lacking(passes: &[Vec<usize>], symbols: usize) -> Vec<usize> {
    let mut counts = vec![vec![0usize; symbols]; passes.len()];
    for (pass, count) in passes.iter().zip(&mut counts) {
        pass.iter().for_each(|id| count[*id] += 1);
    }
    let usual: Vec<usize> = (0..symbols)
        .map(|id| {
            let mut sorted: Vec<usize> = counts.iter().map(|count| count[id]).collect();
            sorted.sort_unstable();
            // The lowest count of most passes, so that calls which come and go are no regular part.
            sorted.get((IRREGULAR_SHARE_MAX * sorted.len() as f64) as usize).copied().unwrap_or(0)
        })
        .collect();
    let lacks = |pass: &usize| counts[*pass].iter().zip(&usual).any(|(count, usual)| count < usual);
    (0..passes.len()).filter(lacks).collect()
}

/// Events at which an iteration of `word` begins: where it was made in full, and after one that was.
///
/// `skip` tells the calls that are not part of any word: those of polling loops.
pub fn word_marks(events: &[CallEvent], word: &[Symbol], skip: impl Fn(Symbol) -> bool) -> Vec<usize> {
    let kept: Vec<usize> = (0..events.len()).filter(|index| !skip(events[*index].symbol())).collect();
    if word.is_empty() {
        return Vec::new();
    }
    // The word, then the stream: wherever the word's length is matched, the stream holds it.
    let text = word.iter().copied().chain(kept.iter().map(|index| events[*index].symbol()));
    let matches = common_prefixes(&text.collect::<Vec<_>>());
    let holds = |at: usize| matches[word.len() + at] >= word.len();
    let follows = |at: usize| at >= word.len() && holds(at - word.len()) && matches[word.len() + at] > 0;
    (0..kept.len()).filter(|at| holds(*at) || follows(*at)).map(|at| kept[at]).collect()
}

/// For each position: how long what begins there equals the beginning (the Z function); linear.
fn common_prefixes<T: PartialEq>(text: &[T]) -> Vec<usize> {
    let mut lengths = vec![0; text.len()];
    let (mut left, mut right) = (0, 0);
    for at in 1..text.len() {
        let mut length = if at < right { lengths[at - left].min(right - at) } else { 0 };
        while at + length < text.len() && text[length] == text[at + length] {
            length += 1;
        }
        lengths[at] = length;
        if at + length > right {
            (left, right) = (at, at + length);
        }
    }
    lengths
}

/// Share of the observed time in the repetitions; what follows the last call counts as far as an iteration lasts.
fn covered(events: &[CallEvent], repeating: &[usize], period: usize, now_ticks: u64) -> f64 {
    let enter = |index: usize| events[index].enter_ticks as f64;
    let (Some(first), Some(last)) = (repeating.first(), repeating.last()) else { return 0.0 };
    let (start, end) = (enter(0), (now_ticks as f64).max(enter(*last)));
    let typical = (enter(*last) - enter(*first)) * period as f64 / repeating.len() as f64;
    let inside = enter(*last) - enter(*first) + (end - enter(*last)).min(typical);
    if end > start { inside / (end - start) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        let rows: [(&[u8], &[usize]); 4] =
            [(b"", &[]), (b"aaaa", &[0, 3, 2, 1]), (b"abcab", &[0, 0, 0, 2, 0]), (b"abab", &[0, 0, 2, 0])];
        for (text, expected) in rows {
            assert_eq!(common_prefixes(text), expected, "{text:?}");
        }
    }

    #[test]
    fn passes_that_lack_a_call() {
        let full = vec![0, 1, 2, 2];
        let rows: [(&str, Vec<usize>, bool); 4] = [
            ("as the others", full.clone(), false),
            ("more", vec![0, 1, 2, 2, 3], false),
            ("one of two", vec![0, 1, 2], true),
            ("another instead", vec![0, 3, 2, 2], true),
        ];
        for (name, last, expected) in rows {
            let passes: Vec<Vec<usize>> = std::iter::repeat_n(full.clone(), 5).chain([last]).collect();
            let found = lacking(&passes, 4);
            assert_eq!(found, if expected { vec![5] } else { vec![] }, "{name}");
        }
    }
}
