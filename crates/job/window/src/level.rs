//! Loop levels of one rank: sets of call sites that take turns, hence belong to the same loop body.
//!
//! Two call sites belong to one level if between two calls from the one there is always exactly one from the other.
//! That needs one pass per pair, tolerates anything between them (optional calls, receives in any order, inner loops
//! and polling loops of any length), and needs no guess of a period or a window, unlike lag-based detectors.
//!
//! Next: `detect` chooses among the levels.

use crate::event::{CallEvent, Symbol};
use std::collections::BTreeMap;

/// Share of iterations in which a call must occur to be a regular part of the loop body.
pub(crate) const REGULAR_SHARE: f64 = 0.9;

/// The distinct symbols of a stream and where each occurs.
pub(crate) struct SymbolTable {
    /// Symbols in order of first occurrence; their position is their id.
    pub symbols: Vec<Symbol>,
    /// Indices of the events of each symbol id.
    pub occurrences: Vec<Vec<usize>>,
    /// Symbol id of each event.
    pub ids: Vec<usize>,
}

/// One loop level: symbols that occur once per iteration of it.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// Ids of its symbols.
    pub symbols: Vec<usize>,
    /// Events that delimit its iterations: the occurrences of its rarest symbol.
    pub marks: Vec<usize>,
}

impl SymbolTable {
    /// Numbers the symbols of `events`.
    pub fn new(events: &[CallEvent]) -> Self {
        let mut numbers = BTreeMap::new();
        let mut table =
            SymbolTable { symbols: Vec::new(), occurrences: Vec::new(), ids: Vec::with_capacity(events.len()) };
        for (index, event) in events.iter().enumerate() {
            let symbol = event.symbol();
            let id = *numbers.entry(symbol).or_insert_with(|| {
                table.symbols.push(symbol);
                table.occurrences.push(Vec::new());
                table.symbols.len() - 1
            });
            table.occurrences[id].push(index);
            table.ids.push(id);
        }
        table
    }

    /// Groups the symbols with at least `occurrences_min` occurrences into levels, fewest iterations first.
    pub fn levels(&self, occurrences_min: usize, skip: impl Fn(Symbol) -> bool) -> Vec<Level> {
        let mut ids: Vec<usize> = (0..self.symbols.len())
            .filter(|id| self.occurrences[*id].len() >= occurrences_min && !skip(self.symbols[*id]))
            .collect();
        ids.sort_by_key(|id| (self.occurrences[*id].len(), *id));
        let mut levels: Vec<Level> = Vec::new();
        for id in ids {
            let marks = &self.occurrences[id];
            match levels.iter().rposition(|level| take_turns(&level.marks, marks)) {
                Some(home) => levels[home].symbols.push(id),
                None => levels.push(Level { symbols: vec![id], marks: marks.clone() }),
            }
        }
        levels
    }

    /// For each symbol: in how many of the stretches between consecutive `marks` it occurs.
    pub fn presence(&self, stretches: &[(usize, usize)]) -> Vec<usize> {
        let mut count = vec![0; self.symbols.len()];
        let mut seen_in = vec![usize::MAX; self.symbols.len()];
        for (number, (from, to)) in stretches.iter().enumerate() {
            for id in &self.ids[*from..*to] {
                if seen_in[*id] != number {
                    seen_in[*id] = number;
                    count[*id] += 1;
                }
            }
        }
        count
    }

    /// Share of iterations whose regular calls first occur in the commonest order; 0 if most calls are not regular.
    pub fn commonest_order_share(&self, level: &Level) -> f64 {
        let stretches = level.stretches();
        let presence = self.presence(&stretches);
        let needed = REGULAR_SHARE * stretches.len() as f64;
        let calls = || stretches.iter().flat_map(|(from, to)| &self.ids[*from..*to]);
        let regular = calls().filter(|id| presence[**id] as f64 >= needed).count();
        if 2 * regular < calls().count() {
            return 0.0;
        }
        let mut orders: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        let mut seen_in = vec![usize::MAX; self.symbols.len()];
        for (number, (from, to)) in stretches.iter().enumerate() {
            let mut order = Vec::new();
            for id in &self.ids[*from..*to] {
                if seen_in[*id] != number && presence[*id] as f64 >= needed {
                    seen_in[*id] = number;
                    order.push(*id);
                }
            }
            *orders.entry(order).or_default() += 1;
        }
        orders.values().copied().max().unwrap_or(0) as f64 / stretches.len().max(1) as f64
    }
}

impl Level {
    /// Complete iterations seen.
    pub fn iterations(&self) -> usize {
        self.marks.len().saturating_sub(1)
    }

    /// Event ranges of the complete iterations.
    pub fn stretches(&self) -> Vec<(usize, usize)> {
        self.marks.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }

    /// Durations of the complete iterations, ticks from entry to entry.
    pub fn intervals(&self, events: &[CallEvent]) -> Vec<f64> {
        intervals(events, &self.marks)
    }

    /// How many of `inner`'s marks lie in each complete iteration of this level.
    pub fn repeats_of(&self, inner: &Level) -> Vec<f64> {
        self.stretches()
            .iter()
            .map(|(from, to)| {
                let below = |limit: usize| inner.marks.partition_point(|mark| *mark < limit);
                (below(*to) - below(*from)) as f64
            })
            .collect()
    }
}

/// Ticks between the entries of consecutive `marks`.
pub(crate) fn intervals(events: &[CallEvent], marks: &[usize]) -> Vec<f64> {
    marks
        .windows(2)
        .map(|pair| events[pair[1]].enter_ticks.saturating_sub(events[pair[0]].enter_ticks) as f64)
        .collect()
}

/// True if the two ascending lists interleave one by one.
fn take_turns(a: &[usize], b: &[usize]) -> bool {
    if a.len().abs_diff(b.len()) > 1 || a.is_empty() || b.is_empty() {
        return false;
    }
    let (first, second) = if a[0] < b[0] { (a, b) } else { (b, a) };
    first.len() >= second.len()
        && first.iter().zip(second).all(|(x, y)| x < y)
        && first.iter().skip(1).zip(second).all(|(x, y)| x > y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns() {
        let cases: [(&str, &[usize], &[usize], bool); 6] = [
            ("alternate", &[0, 2, 4], &[1, 3, 5], true),
            ("second starts", &[1, 3, 5], &[0, 2, 4], true),
            ("one more at the end", &[0, 2, 4], &[1, 3], true),
            ("one more, wrong side", &[1, 3], &[0, 2, 4], true),
            ("twice in one gap", &[0, 3, 5], &[1, 2, 4], false),
            ("other count", &[0, 2, 4, 6], &[1, 3], false),
        ];
        for (name, a, b, expected) in cases {
            assert_eq!(take_turns(a, b), expected, "{name}");
            assert_eq!(take_turns(b, a), expected, "{name}, swapped");
        }
    }
}
