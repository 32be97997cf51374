//! The results of probes, from the areas of all threads and ranks: sums, extremes, means, histograms, stacks.
//!
//! Merging is associative and commutative (floating-point sums up to rounding), so results may be merged on the way
//! up a tree of nodes in any order.
//!
//! Next: `histogram` and `stacks`.

mod histogram;
mod stacks;

use crate::arithmetic::Number;
use crate::ir::{Area, Kind, Unit, Variable};
use crate::resolve::words;
pub use histogram::Histogram;
use serde::{Deserialize, Serialize};
pub use stacks::Stacks;
use std::collections::{BTreeMap, BTreeSet};

/// The areas of one rank.
#[derive(Clone, Copy, Debug)]
pub struct RankAreas<'a> {
    /// The rank, or -1.
    pub rank: i64,
    /// The process area, in words.
    pub process: &'a [u64],
    /// The threads' areas, in words.
    pub threads: &'a [&'a [u64]],
}

/// A variable's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Added up.
    Sum {
        /// The sum.
        value: Number,
    },
    /// Each thread's or process's own that has set it, in order of rank and thread.
    Each {
        /// The values, and whose each is.
        values: Vec<Own>,
    },
    /// The smallest, if there was one.
    Min {
        /// The value.
        value: Option<Number>,
        /// Out of how many.
        count: u64,
    },
    /// The largest, if there was one.
    Max {
        /// The value.
        value: Option<Number>,
        /// Out of how many.
        count: u64,
    },
    /// A mean as what it is made of.
    Mean {
        /// The sum.
        sum: f64,
        /// Of how many.
        count: u64,
    },
    /// A histogram.
    Histogram(Histogram),
    /// How often which stack was seen.
    Stacks(Stacks),
}

/// One thread's or process's value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// The rank, or -1.
    pub rank: i64,
    /// The kernel's number of the thread; `None` for a value of the whole process.
    pub thread: Option<u64>,
    /// The value.
    pub value: Number,
}

/// A variable's name with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Named {
    /// The name in the script.
    pub name: String,
    /// The result; `None`: nothing that sets the variable could be probed, so nothing is known of it.
    pub value: Option<Value>,
    /// Places that would have set it and could not be probed, each with the reason, in order; [`MISSING_MAX`] at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// True if what is missing can only make it larger.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// Reasons that a result keeps at most.
pub const MISSING_MAX: usize = 4;

impl Named {
    /// The result of a variable of which nothing is missing.
    pub fn whole(name: String, value: Value) -> Self {
        Named { name, value: Some(value), missing: Vec::new(), at_least: false }
    }

    /// With what other processes have of it. Of two that fit together in no way the first stays.
    #[must_use]
    pub fn and(self, other: Named) -> Named {
        let value = match (self.value, other.value) {
            (Some(a), Some(b)) => merge(a.clone(), b).or(Some(a)),
            (a, b) => a.or(b),
        };
        let missing = all_missing(self.missing, other.missing);
        Named { name: self.name, value, missing, at_least: self.at_least || other.at_least }
    }
}

/// Both lists of what is missing as one: in order, each once, cut at [`MISSING_MAX`].
pub fn all_missing(a: Vec<String>, b: Vec<String>) -> Vec<String> {
    let all: BTreeSet<String> = a.into_iter().chain(b).collect();
    all.into_iter().take(MISSING_MAX).collect()
}

/// Variables of several processes, which run the same script, as one.
pub fn merge_all(a: Vec<Named>, b: Vec<Named>) -> Vec<Named> {
    let mut others: BTreeMap<String, Named> = b.iter().map(|named| (named.name.clone(), named.clone())).collect();
    let names: BTreeSet<String> = a.iter().map(|named| named.name.clone()).collect();
    let both = a.into_iter().map(|named| match others.remove(&named.name) {
        Some(other) => named.and(other),
        None => named,
    });
    let merged: Vec<Named> = both.collect();
    let only_there = b.into_iter().filter(|named| !names.contains(&named.name));
    merged.into_iter().chain(only_there).collect()
}

/// The results of all variables of the user, in the order of the script.
pub fn collect(unit: &Unit, ranks: &[RankAreas<'_>]) -> Vec<Named> {
    let users = unit.variables.iter().filter(|variable| !is_implied(variable));
    let results = users.filter_map(|variable| {
        let note = note_of(&variable.name);
        let note = unit.variables.iter().find(|other| other.name == note);
        let parts = ranks.iter().flat_map(|rank| of_rank(variable, note, rank));
        let value = parts.reduce(|a, b| merge(a, b).expect("parts of one variable are of one kind"))?;
        Some(Named::whole(variable.name.clone(), value))
    });
    results.collect()
}

/// The variable that says in which areas another one has been set: what was never set there is no value.
pub(crate) fn note_of(name: &str) -> String {
    format!("(set {name})")
}

/// True if a variable was made by the front end and not by the user.
pub fn is_implied(variable: &Variable) -> bool {
    variable.name.starts_with('(')
}

/// Two results of one variable as one; `None` if they are of different kinds.
pub fn merge(a: Value, b: Value) -> Option<Value> {
    Some(match (a, b) {
        (Value::Sum { value: a }, Value::Sum { value: b }) => Value::Sum { value: add(a, b) },
        (Value::Each { values: a }, Value::Each { values: b }) => {
            let mut values = [a, b].concat();
            values.sort_by_key(|own| (own.rank, own.thread, own.value.bits()));
            Value::Each { values }
        }
        (Value::Min { value: a, count: n }, Value::Min { value: b, count: m }) => {
            Value::Min { value: better(a, b, |a, b| a < b), count: n.saturating_add(m) }
        }
        (Value::Max { value: a, count: n }, Value::Max { value: b, count: m }) => {
            Value::Max { value: better(a, b, |a, b| a > b), count: n.saturating_add(m) }
        }
        (Value::Mean { sum: a, count: n }, Value::Mean { sum: b, count: m }) => {
            Value::Mean { sum: a + b, count: n.saturating_add(m) }
        }
        (Value::Histogram(a), Value::Histogram(b)) => Value::Histogram(a.merge(&b)),
        (Value::Stacks(a), Value::Stacks(b)) => Value::Stacks(a.merge(b)),
        _ => return None,
    })
}

impl Value {
    /// The mean of a mean or a histogram; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        match self {
            Value::Mean { sum, count } if *count > 0 => Some(sum / *count as f64),
            Value::Histogram(histogram) => histogram.mean(),
            _ => None,
        }
    }
}

/// A variable's results on one rank, one per area that holds it.
fn of_rank<'a>(variable: &'a Variable, note: Option<&'a Variable>, rank: &'a RankAreas<'a>) -> Vec<Value> {
    let read = |area: &[u64], thread| {
        let value = read(variable, area, rank.rank, thread)?;
        let is_unset = note.is_some_and(|note| area.get(note.offset as usize / 8) == Some(&0));
        Some(if is_unset { Value::Each { values: Vec::new() } } else { value })
    };
    match variable.area {
        Area::Process => read(rank.process, None).into_iter().collect(),
        Area::Thread => {
            let thread_word = crate::ir::thread_word::THREAD as usize / 8;
            let of = |area: &&[u64]| read(area, area.get(thread_word).copied());
            rank.threads.iter().filter_map(of).collect()
        }
    }
}

/// A variable's result from one area's words; `None` if the area is too short or the variable has no result.
pub fn read(variable: &Variable, area: &[u64], rank: i64, thread: Option<u64>) -> Option<Value> {
    let first = variable.offset as usize / 8;
    let words = area.get(first..first + words(variable.kind) as usize)?;
    let number = |float| Number::from_bits(words[0], float);
    let each = |float| Value::Each { values: vec![Own { rank, thread, value: number(float) }] };
    let extreme = |float| (words[1] > 0).then(|| number(float));
    Some(match variable.kind {
        Kind::Sum => Value::Sum { value: number(false) },
        Kind::SumFloat => Value::Sum { value: number(true) },
        Kind::Last => each(false),
        Kind::LastFloat => each(true),
        Kind::Min => Value::Min { value: extreme(false), count: words[1] },
        Kind::MinFloat => Value::Min { value: extreme(true), count: words[1] },
        Kind::Max => Value::Max { value: extreme(false), count: words[1] },
        Kind::MaxFloat => Value::Max { value: extreme(true), count: words[1] },
        Kind::Mean => Value::Mean { sum: f64::from_bits(words[0]), count: words[1] },
        Kind::Histogram => Value::Histogram(Histogram::read(words)),
        Kind::Stacks => Value::Stacks(Stacks::read(words)),
        Kind::OpenCalls => return None,
    })
}

fn add(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => Number::Int(a.wrapping_add(b)),
        (a, b) => Number::Float(a.as_float() + b.as_float()),
    }
}

/// The value that beats the other; what is not a number loses, and of equal ones either is the same.
fn better(a: Option<Number>, b: Option<Number>, beats: fn(f64, f64) -> bool) -> Option<Number> {
    let (Some(first), Some(second)) = (a, b) else { return a.or(b) };
    if let (Number::Int(x), Number::Int(y)) = (first, second) {
        let smaller = beats(0.0, 1.0);
        return Some(Number::Int(if smaller { x.min(y) } else { x.max(y) }));
    }
    let (x, y) = (first.as_float(), second.as_float());
    let second_wins = beats(y, x) || (x.is_nan() && !y.is_nan());
    Some(if second_wins { second } else { first })
}
