//! How a script's variables become one on the way up the tree.
//!
//! The kind of a variable says how it merges: sums add up, extremes keep the best, histograms add bucket by bucket, and what
//! belongs to one thread or process stays beside the others. Merging is exact: sums of floats keep all their bits until
//! they are read, so neither the tree's shape nor a lost node changes a digit.
//!
//! Values come from the network: they are checked, and nothing a count or a sum can be makes this code panic.
//!
//! Next: `remote`, which reads the merged values.

use crate::parts::Parts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trimtab_reduce::exact::ExactSum;
use trimtab_reduce::{Bad, Filter, FilterSpec, Registry};
use trimtab_script::{Histogram, MISSING_MAX, Named, Number, Own, Stacks, Value, all_missing};

/// The filter's name in the tree.
const FILTER: &str = "script";
/// Most buckets of a histogram: one for each power of two, and those below one.
const BUCKETS_MAX: usize = 65;

/// A variable of a script and what ranks counted in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name in the script.
    pub name: String,
    /// The value that was counted; `None`: nothing that sets it could be probed.
    pub counted: Option<Counted>,
    /// Places that would have set it and could not be probed, in order.
    pub missing: Vec<String>,
    /// True if what is missing can only make it larger.
    pub at_least: bool,
}

/// The ranks' counts in one variable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Counted {
    /// A sum of integers; beyond 64 bits it wraps around as the processor does.
    Sum(i64),
    /// A sum of floats.
    SumReal(ExactSum),
    /// Each thread's or process's own, ordered.
    Each(Vec<Single>),
    /// The smallest, if there was one, out of so many.
    Min(Option<Digits>, u64),
    /// The largest.
    Max(Option<Digits>, u64),
    /// The sum and the number of a mean's values.
    Mean(ExactSum, u64),
    /// A histogram.
    Histogram(Buckets),
    /// How often which stack was seen, and how many found no place.
    Stacks(BTreeMap<u64, u64>, u64),
}

/// A number, whose kind travels with it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Digits {
    /// An integer.
    Int(i64),
    /// The bits of a float.
    Float(u64),
}

/// One thread's or process's value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Single {
    /// The rank, or -1.
    pub rank: i64,
    /// The kernel's number of the thread; `None`: of the whole process.
    pub thread: Option<u64>,
    /// The value.
    pub value: Digits,
}

/// A histogram with one bucket per power of two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buckets {
    /// Values per bucket; none that is empty at the end.
    pub counts: Vec<u64>,
    /// Number of values.
    pub count: u64,
    /// Their sum.
    pub sum: i128,
    /// The smallest.
    pub min: i64,
    /// The largest.
    pub max: i64,
}

/// Bytes of a variable that does not grow when it merges, but for its name: the longest is a histogram, with all reasons
/// that may be missing.
const FIXED_BYTES_MAX: u64 = 1024 + MISSING_MAX as u64 * (REASON_BYTES_MAX as u64 + 8);
/// Bytes of a reason at most.
const REASON_BYTES_MAX: usize = 256;

impl Variable {
    /// Bytes that it takes whatever it merges with, and bytes that add up with others'.
    pub fn costs(&self) -> (u64, u64) {
        let growing = match &self.counted {
            Some(Counted::Each(all)) => 40 * all.len() as u64,
            Some(Counted::Stacks(counts, _)) => 20 * counts.len() as u64,
            _ => 0,
        };
        (FIXED_BYTES_MAX + self.name.len() as u64, growing)
    }
}

/// The filter. Its neutral element is no variable at all.
#[derive(Clone, Copy, Debug)]
pub struct Values;

impl Filter for Values {
    type Value = Vec<Variable>;

    fn name(&self) -> &'static str {
        FILTER
    }

    fn identity(&self) -> Vec<Variable> {
        Vec::new()
    }

    fn merge(&self, into: &mut Vec<Variable>, other: Vec<Variable>) -> Result<(), Bad> {
        match (into.is_empty(), other.is_empty()) {
            (_, true) => return Ok(()),
            (true, false) => *into = other,
            (false, false) => {
                let form = Bad::Form { filter: self.name(), what: "variables of another script" };
                if into.len() != other.len() {
                    return Err(form);
                }
                let pairs = into.iter().zip(other);
                let merged = pairs.map(|(one, other)| if one.name == other.name { Some((one, other)) } else { None });
                let merged = merged.map(|pair| {
                    let (one, other) = pair.ok_or_else(|| form.clone())?;
                    one.with(other)
                });
                *into = merged.collect::<Result<Vec<Variable>, Bad>>()?;
            }
        }
        Ok(())
    }

    fn check(&self, value: &Vec<Variable>) -> Result<(), Bad> {
        let is_short = |reason: &String| reason.len() <= REASON_BYTES_MAX;
        let is_told = |missing: &[String]| {
            missing.len() <= MISSING_MAX && missing.is_sorted_by(|a, b| a < b) && missing.iter().all(is_short)
        };
        let is_counted = |counted: &Counted| match counted {
            Counted::Histogram(buckets) => {
                let trimmed = buckets.counts.last() != Some(&0);
                trimmed && buckets.counts.len() <= BUCKETS_MAX && (buckets.count > 0 || *buckets == Buckets::default())
            }
            Counted::Each(all) => all.is_sorted_by_key(order),
            _ => true,
        };
        let is_ours = |variable: &Variable| {
            let is_there = variable.counted.as_ref().map_or(!variable.missing.is_empty(), is_counted);
            is_there && is_told(&variable.missing)
        };
        let form = Bad::Form { filter: self.name(), what: "a variable that no script counts" };
        if value.iter().all(is_ours) { Ok(()) } else { Err(form) }
    }
}

impl Variable {
    /// With what other ranks have of it.
    fn with(&self, other: Variable) -> Result<Variable, Bad> {
        let counted = match (&self.counted, other.counted) {
            (Some(one), Some(other)) => Some(both(one, other)?),
            (one, other) => other.or_else(|| one.clone()),
        };
        let missing = all_missing(self.missing.clone(), other.missing);
        Ok(Variable { name: other.name, counted, missing, at_least: self.at_least || other.at_least })
    }
}

/// The filters of a tree of agents: all of the tree's own, and those that merge what scripts counted and what nodes say of a
/// window.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register(Values);
    registry.register(Parts);
    registry
}

/// The filter that merges what scripts counted, for a stream.
pub fn filter() -> FilterSpec {
    FilterSpec::Own(FILTER.to_owned())
}

fn both(one: &Counted, other: Counted) -> Result<Counted, Bad> {
    let filter = FILTER;
    let add = |one: &ExactSum, other: &ExactSum| {
        let mut sum = one.clone();
        sum.add(other).map_err(|_| Bad::Overflow { filter })?;
        Ok(sum)
    };
    Ok(match (one, other) {
        (Counted::Sum(one), Counted::Sum(other)) => Counted::Sum(one.wrapping_add(other)),
        (Counted::SumReal(one), Counted::SumReal(other)) => Counted::SumReal(add(one, &other)?),
        (Counted::Each(one), Counted::Each(other)) => {
            let mut all: Vec<Single> = one.iter().copied().chain(other).collect();
            all.sort_by_key(order);
            Counted::Each(all)
        }
        (Counted::Min(one, n), Counted::Min(other, m)) => Counted::Min(best(*one, other, true), n.saturating_add(m)),
        (Counted::Max(one, n), Counted::Max(other, m)) => Counted::Max(best(*one, other, false), n.saturating_add(m)),
        (Counted::Mean(one, n), Counted::Mean(other, m)) => Counted::Mean(add(one, &other)?, n.saturating_add(m)),
        (Counted::Histogram(one), Counted::Histogram(other)) => Counted::Histogram(one.with(other)),
        (Counted::Stacks(one, n), Counted::Stacks(other, m)) => {
            let mut counts = one.clone();
            for (hash, count) in other {
                let sum = counts.entry(hash).or_insert(0);
                *sum = sum.saturating_add(count);
            }
            Counted::Stacks(counts, n.saturating_add(m))
        }
        _ => return Err(Bad::Form { filter, what: "a variable of another kind" }),
    })
}

fn order(single: &Single) -> (i64, Option<u64>, (bool, u64)) {
    (single.rank, single.thread, single.value.bits())
}

/// The smaller or larger of two, whichever comes first: what is not a number loses, and of zeros the negative is smaller.
fn best(one: Option<Digits>, other: Option<Digits>, smaller: bool) -> Option<Digits> {
    let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
    let is_first = match (a.rank_of(), b.rank_of()) {
        ((true, _), (false, _)) => false,
        ((false, _), (true, _)) => true,
        ((_, a), (_, b)) => (a <= b) == smaller,
    };
    Some(if is_first { a } else { b })
}

impl Digits {
    fn bits(self) -> (bool, u64) {
        match self {
            Digits::Int(value) => (false, value as u64),
            Digits::Float(bits) => (true, bits),
        }
    }

    /// True if it is not a number, and its place among those of its kind; integers stand before floats.
    fn rank_of(self) -> (bool, (bool, i64)) {
        match self {
            Digits::Int(value) => (false, (false, value)),
            // As `f64::total_cmp` orders them.
            Digits::Float(bits) => {
                let signed = bits as i64;
                (f64::from_bits(bits).is_nan(), (true, signed ^ (((signed >> 63) as u64) >> 1) as i64))
            }
        }
    }
}

impl From<Number> for Digits {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(value) => Digits::Int(value),
            Number::Float(value) => Digits::Float(value.to_bits()),
        }
    }
}

impl From<Digits> for Number {
    fn from(digits: Digits) -> Self {
        match digits {
            Digits::Int(value) => Number::Int(value),
            Digits::Float(bits) => Number::Float(f64::from_bits(bits)),
        }
    }
}

impl Buckets {
    fn with(&self, other: Buckets) -> Buckets {
        match (self.count, other.count) {
            (0, _) => return other,
            (_, 0) => return self.clone(),
            _ => {}
        }
        let length = self.counts.len().max(other.counts.len());
        let at = |counts: &[u64], index: usize| counts.get(index).copied().unwrap_or(0);
        Buckets {
            counts: (0..length).map(|index| at(&self.counts, index).saturating_add(at(&other.counts, index))).collect(),
            count: self.count.saturating_add(other.count),
            sum: self.sum.wrapping_add(other.sum),
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

impl From<Histogram> for Buckets {
    fn from(histogram: Histogram) -> Self {
        let Histogram { buckets: counts, count, sum, min, max } = histogram;
        // A value that was being counted while it was read is none yet.
        if count == 0 { Buckets::default() } else { Buckets { counts, count, sum, min, max } }
    }
}

impl From<Named> for Variable {
    fn from(named: Named) -> Self {
        let Named { name, value, missing, at_least } = named;
        Variable { name, counted: value.map(Counted::from), missing, at_least }
    }
}

impl From<Variable> for Named {
    fn from(variable: Variable) -> Self {
        let Variable { name, counted, missing, at_least } = variable;
        Named { name, value: counted.map(Value::from), missing, at_least }
    }
}

impl From<Value> for Counted {
    fn from(value: Value) -> Self {
        let single = |own: Own| Single { rank: own.rank, thread: own.thread, value: own.value.into() };
        match value {
            Value::Sum { value: Number::Int(value) } => Counted::Sum(value),
            Value::Sum { value: Number::Float(value) } => Counted::SumReal(ExactSum::of(value)),
            Value::Each { values } => {
                let mut all: Vec<Single> = values.into_iter().map(single).collect();
                all.sort_by_key(order);
                Counted::Each(all)
            }
            Value::Min { value, count } => Counted::Min(value.map(Digits::from), count),
            Value::Max { value, count } => Counted::Max(value.map(Digits::from), count),
            Value::Mean { sum, count } => Counted::Mean(ExactSum::of(sum), count),
            Value::Histogram(histogram) => Counted::Histogram(histogram.into()),
            Value::Stacks(stacks) => Counted::Stacks(stacks.counts, stacks.unplaced),
        }
    }
}

impl From<Counted> for Value {
    fn from(counted: Counted) -> Self {
        let own = |single: Single| Own { rank: single.rank, thread: single.thread, value: single.value.into() };
        match counted {
            Counted::Sum(value) => Value::Sum { value: Number::Int(value) },
            Counted::SumReal(sum) => Value::Sum { value: Number::Float(sum.to_f64()) },
            Counted::Each(all) => Value::Each { values: all.into_iter().map(own).collect() },
            Counted::Min(value, count) => Value::Min { value: value.map(Number::from), count },
            Counted::Max(value, count) => Value::Max { value: value.map(Number::from), count },
            Counted::Mean(sum, count) => Value::Mean { sum: sum.to_f64(), count },
            Counted::Histogram(Buckets { counts, count, sum, min, max }) => {
                Value::Histogram(Histogram { buckets: counts, count, sum, min, max })
            }
            Counted::Stacks(counts, unplaced) => Value::Stacks(Stacks { counts, unplaced }),
        }
    }
}

#[cfg(test)]
mod tests;
