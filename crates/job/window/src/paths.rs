//! Communication by the place in the program that it is called from, and calls by what they carry.
//!
//! The ranks' tables are exact in all that they hold of a path. A function's own numbers are whole, so what none of its paths has is
//! told as the rest: calls that were under way when the probes went in, that came by a path nobody had gone up yet, or
//! that found no place in a table.
//!
//! Next: `waits`, which knows how long calls waited; `assemble` for the functions' own numbers.

use crate::input::{FunctionInfo, FunctionSample, NamedPath, PathSample, RankSample, SizeSample, WindowInput};
use crate::waits::told;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use trimtab_types::report::{FunctionGroup, FunctionTotal, PathTotal, SizeClass};

/// One rank's part of a row.
#[derive(Clone, Copy, Default)]
struct Part {
    calls: u64,
    ticks: u64,
    bytes: u64,
}

/// The calls of a function by one path, of some ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    ranks: u64,
    calls: u64,
    ticks: u64,
    bytes: u64,
    ticks_min: u64,
    /// The most of a rank, and the lowest of those that have it.
    most: (u64, Reverse<u32>),
}

impl Row {
    fn of(rank: u32, part: Part) -> Row {
        let Part { calls, ticks, bytes } = part;
        Row { ranks: 1, calls, ticks, bytes, ticks_min: ticks, most: (ticks, Reverse(rank)) }
    }

    pub(crate) fn merge(&mut self, other: &Row) {
        self.ranks = self.ranks.saturating_add(other.ranks);
        self.calls = self.calls.saturating_add(other.calls);
        self.ticks = self.ticks.saturating_add(other.ticks);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.ticks_min = self.ticks_min.min(other.ticks_min);
        self.most = self.most.max(other.most);
    }
}

/// Rows by function and path; no path: the rest of the function.
pub(crate) type Rows = BTreeMap<(usize, Option<u64>), Row>;

/// A rank's rows, with the paths that have names.
pub(crate) fn rows_of(rank: &RankSample, functions: &[FunctionInfo], named: &[NamedPath]) -> Rows {
    let names: HashMap<u64, &NamedPath> = named.iter().map(|named| (named.path, named)).collect();
    let mut rows = Rows::new();
    add_rows(&mut rows, rank, functions, &names);
    rows
}

fn add_rows(rows: &mut Rows, rank: &RankSample, functions: &[FunctionInfo], names: &HashMap<u64, &NamedPath>) {
    for sample in rank.functions.iter().filter(|sample| has_paths(functions, sample.function)) {
        for (path, part) in parts(rank, sample, names) {
            let one = Row::of(rank.rank, part);
            rows.entry((sample.function, path)).and_modify(|row| row.merge(&one)).or_insert(one);
        }
    }
}

/// One entry for each function and path, longest time first; `functions` are the totals of the same window.
pub(crate) fn path_totals(
    input: &WindowInput,
    functions: &[FunctionTotal],
    seconds: impl Fn(u64) -> f64,
) -> Vec<PathTotal> {
    let names: HashMap<u64, &NamedPath> = input.named_paths.iter().map(|named| (named.path, named)).collect();
    let mut rows = Rows::new();
    input.ranks.iter().for_each(|rank| add_rows(&mut rows, rank, &input.functions, &names));
    let total_s: f64 = input.ranks.iter().map(|rank| seconds(rank.duration_ticks())).sum();
    totals_of(input, functions, (&rows, total_s), seconds)
}

/// As [`path_totals`], of rows of all ranks, which recorded so long in sum.
pub(crate) fn totals_of(
    input: &WindowInput,
    functions: &[FunctionTotal],
    (rows, total_s): (&Rows, f64),
    seconds: impl Fn(u64) -> f64,
) -> Vec<PathTotal> {
    let names: HashMap<u64, &NamedPath> = input.named_paths.iter().map(|named| (named.path, named)).collect();
    let mut totals: Vec<PathTotal> = Vec::new();
    for ((function, path), of) in rows {
        let (function, path) = (*function, *path);
        let Some(info) = input.functions.get(function) else { continue };
        let of_it = |total: &&FunctionTotal| total.name == info.name && total.group == info.group;
        let Some(total) = functions.iter().find(of_it) else { continue };
        let wait = path.and_then(|path| input.waits.of_path(function as u32, path));
        let mut row = row(total, of, total_s, &seconds);
        let named = path.and_then(|path| names.get(&path));
        row.path = named.map(|named| named.frames.clone()).unwrap_or_default();
        row.path_missing = why_missing(named.copied(), row.calls).map(str::to_owned);
        row.wait_s = wait.and_then(|wait| told(wait.ticks, wait.error_ticks)).map(&seconds);
        row.wait_error_s = wait.map(|wait| seconds(wait.error_ticks));
        row.wait_calls = wait.map(|wait| wait.calls);
        totals.push(row);
    }
    totals.sort_by(|a, b| {
        let time = |row: &PathTotal| row.time_s.unwrap_or(-1.0);
        time(b).total_cmp(&time(a)).then(b.calls.cmp(&a.calls)).then(a.function.cmp(&b.function))
    });
    totals
}

/// Only calls of MPI are gone up to where they come from: all that communicates, and its files by themselves.
fn has_paths(functions: &[FunctionInfo], function: usize) -> bool {
    functions.get(function).is_some_and(|info| info.group == FunctionGroup::Comm || info.name.starts_with("MPI_File_"))
}

/// A function's paths on one rank, and what is left of the function.
fn parts(rank: &RankSample, sample: &FunctionSample, names: &HashMap<u64, &NamedPath>) -> BTreeMap<Option<u64>, Part> {
    let mut parts: BTreeMap<Option<u64>, Part> = BTreeMap::new();
    let mut rest = Part { calls: sample.calls, ticks: sample.ticks, bytes: sample.bytes };
    let known = |path: &&PathSample| path.function == sample.function && names.contains_key(&path.path);
    for path in rank.paths.iter().filter(known) {
        let part = parts.entry(Some(path.path)).or_default();
        part.calls += path.calls;
        part.ticks += path.ticks;
        part.bytes += path.bytes;
        rest.calls = rest.calls.saturating_sub(path.calls);
        rest.ticks = rest.ticks.saturating_sub(path.ticks);
        rest.bytes = rest.bytes.saturating_sub(path.bytes);
    }
    if rest.calls + rest.ticks + rest.bytes > 0 {
        parts.insert(None, rest);
    }
    parts
}

fn row(total: &FunctionTotal, of: &Row, total_s: f64, seconds: impl Fn(u64) -> f64) -> PathTotal {
    let time = |ticks: u64| total.time_s.is_some().then(|| seconds(ticks));
    let time_s = time(of.ticks);
    let (most, Reverse(rank_of_max)) = of.most;
    PathTotal {
        function: total.name.clone(),
        ranks: of.ranks as u32,
        calls: of.calls,
        time_s,
        fraction: time_s.filter(|_| total_s > 0.0).map(|time_s| time_s / total_s),
        rank_time_s_min: time(of.ticks_min),
        rank_time_s_mean: time_s.map(|time_s| time_s / of.ranks as f64),
        rank_time_s_max: time(most),
        rank_of_max: total.time_s.is_some().then_some(rank_of_max),
        bytes: total.bytes.map(|_| of.bytes),
        ..PathTotal::default()
    }
}

/// Why it is not known from where in the program these calls came.
fn why_missing(path: Option<&NamedPath>, calls: u64) -> Option<&'static str> {
    match path {
        Some(path) if path.is_cut => Some("who called here was not known yet when these calls were made"),
        Some(path) if !path.frames.iter().any(|frame| frame.own) => {
            Some("its unwind tables do not say who called here")
        }
        Some(_) => None,
        None if calls == 0 => Some("these calls were under way when the probes went in"),
        None => Some("these calls came by more paths than are told apart"),
    }
}

/// A function's calls by their payload; `None` if they were not counted by it.
pub(crate) fn sizes(input: &WindowInput, function: usize, calls: u64) -> Option<Vec<SizeClass>> {
    let mut classes: BTreeMap<u32, SizeClass> = BTreeMap::new();
    let samples = input.ranks.iter().flat_map(|rank| &rank.sizes).filter(|sample| sample.function == function);
    for sample in samples {
        let class = classes.entry(sample.class).or_insert(ends_of(sample));
        class.calls += sample.calls;
        class.bytes += sample.bytes;
    }
    let known: u64 = classes.values().map(|class| class.calls).sum();
    let unknown = SizeClass { calls: calls.saturating_sub(known), ..SizeClass::default() };
    let unknown = Some(unknown).filter(|class| class.calls > 0);
    (known > 0).then(|| classes.into_values().chain(unknown).collect())
}

fn ends_of(sample: &SizeSample) -> SizeClass {
    let from = |class: u32| if class == 0 { Some(0) } else { 1u64.checked_shl(class - 1) };
    let below = from(sample.class + 1).filter(|_| !sample.is_last);
    SizeClass { from_bytes: from(sample.class), to_bytes: below.map(|next| next - 1), ..SizeClass::default() }
}
