//! Filters whose value is a few numbers: sums, means, extremes, histograms.
//!
//! Integers are summed in 128 bits, where 2^32 ranks of 64 bits can not overflow, and beyond that overflow is an error,
//! never a wrapped or clipped result. Doubles are summed exactly ([`crate::exact`]). A mean is a sum and a count until
//! it is read; a mean of means would weigh ranks wrongly.
//!
//! Next: [`crate::lists`] for filters that keep who contributed what.

use crate::exact::ExactSum;
use crate::{Bad, Filter};
use serde::{Deserialize, Serialize};
use trimtab_types::Rank;

/// Most bins of a histogram.
pub const BIN_COUNT_MAX: usize = 65_536;

/// The sum of integers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum;

impl Filter for Sum {
    type Value = i128;

    fn name(&self) -> &'static str {
        "sum"
    }

    fn identity(&self) -> i128 {
        0
    }

    fn merge(&self, into: &mut i128, other: i128) -> Result<(), Bad> {
        *into = into.checked_add(other).ok_or(Bad::Overflow { filter: self.name() })?;
        Ok(())
    }
}

/// The exact sum of doubles.
#[derive(Clone, Copy, Debug, Default)]
pub struct SumReal;

impl Filter for SumReal {
    type Value = ExactSum;

    fn name(&self) -> &'static str {
        "sum of doubles"
    }

    fn identity(&self) -> ExactSum {
        ExactSum::default()
    }

    fn merge(&self, into: &mut ExactSum, other: ExactSum) -> Result<(), Bad> {
        into.add(&other).map_err(|_| Bad::Overflow { filter: self.name() })
    }
}

/// The mean of doubles, as sum and count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean;

/// What a mean is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeanParts {
    /// The exact sum.
    pub sum: ExactSum,
    /// How many numbers are in it.
    pub count: u64,
}

impl MeanParts {
    /// One number.
    pub fn of(number: f64) -> Self {
        MeanParts { sum: ExactSum::of(number), count: 1 }
    }

    /// The mean; none of nothing.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum.to_f64() / self.count as f64)
    }
}

impl Filter for Mean {
    type Value = MeanParts;

    fn name(&self) -> &'static str {
        "mean"
    }

    fn identity(&self) -> MeanParts {
        MeanParts::default()
    }

    fn merge(&self, into: &mut MeanParts, other: MeanParts) -> Result<(), Bad> {
        let overflow = Bad::Overflow { filter: self.name() };
        let count = into.count.checked_add(other.count).ok_or(overflow.clone())?;
        into.sum.add(&other.sum).map_err(|_| overflow)?;
        into.count = count;
        Ok(())
    }
}

/// A double with an order: every number but NaN, and -0 as 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Ordered(f64);

/// NaN has no place in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("NaN is neither smaller nor larger than a number: leave it out of the contribution")]
pub struct NotANumber;

impl TryFrom<f64> for Ordered {
    type Error = NotANumber;

    fn try_from(number: f64) -> Result<Self, NotANumber> {
        if number.is_nan() { Err(NotANumber) } else { Ok(Ordered(number + 0.0)) }
    }
}

impl From<Ordered> for f64 {
    fn from(number: Ordered) -> f64 {
        number.0
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A number and who contributed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Of {
    /// The number.
    pub number: Ordered,
    /// Whose it is.
    pub rank: Rank,
}

/// The smallest number and its rank; of equal ones the lowest rank's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Min;

impl Filter for Min {
    type Value = Option<Of>;

    fn name(&self) -> &'static str {
        "min"
    }

    fn identity(&self) -> Option<Of> {
        None
    }

    fn merge(&self, into: &mut Option<Of>, other: Option<Of>) -> Result<(), Bad> {
        *into = into.iter().chain(&other).min_by_key(|of| (of.number, of.rank)).copied();
        Ok(())
    }
}

/// The largest number and its rank; of equal ones the lowest rank's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Max;

impl Filter for Max {
    type Value = Option<Of>;

    fn name(&self) -> &'static str {
        "max"
    }

    fn identity(&self) -> Option<Of> {
        None
    }

    fn merge(&self, into: &mut Option<Of>, other: Option<Of>) -> Result<(), Bad> {
        *into = into.iter().chain(&other).min_by_key(|of| (std::cmp::Reverse(of.number), of.rank)).copied();
        Ok(())
    }
}

/// How many numbers fell into each bin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    edges: Vec<Ordered>,
}

impl Histogram {
    /// Bins between ascending edges; one more below the first and one from the last on.
    pub fn new(edges: Vec<Ordered>) -> Result<Self, Bad> {
        let count = edges.len() + 1;
        if count > BIN_COUNT_MAX {
            return Err(Bad::TooMany { filter: "histogram", count, count_max: BIN_COUNT_MAX });
        }
        if !edges.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(Bad::Form { filter: "histogram", what: "edges that do not ascend" });
        }
        Ok(Histogram { edges })
    }

    /// The counts of one number.
    pub fn of(&self, number: Ordered) -> Vec<u64> {
        let mut counts = self.identity();
        counts[self.edges.partition_point(|edge| *edge <= number)] = 1;
        counts
    }
}

impl Filter for Histogram {
    type Value = Vec<u64>;

    fn name(&self) -> &'static str {
        "histogram"
    }

    fn identity(&self) -> Vec<u64> {
        vec![0; self.edges.len() + 1]
    }

    fn merge(&self, into: &mut Vec<u64>, other: Vec<u64>) -> Result<(), Bad> {
        let sums = into.iter().zip(&other).map(|(one, two)| one.checked_add(*two));
        *into = sums.collect::<Option<Vec<u64>>>().ok_or(Bad::Overflow { filter: self.name() })?;
        Ok(())
    }

    fn check(&self, counts: &Vec<u64>) -> Result<(), Bad> {
        let fits = counts.len() == self.edges.len() + 1;
        if fits { Ok(()) } else { Err(Bad::Form { filter: self.name(), what: "another number of bins" }) }
    }
}
