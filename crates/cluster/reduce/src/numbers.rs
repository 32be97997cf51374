//! Filters whose value is a few numbers: sums, means, extremes, histograms.
//!
//! Integers are summed in 128 bits, where 2^32 ranks of 64 bits can not overflow, and beyond that overflow is an error,
//! never a wrapped or clipped result. Doubles are summed exactly ([`crate::exact`]). A mean is a sum and a count until
//! it is read; a mean of means would weigh ranks wrongly.
//!
//! Next: [`crate::lists`] for filters that keep who contributed what.

use crate::exact::ExactSum;
use crate::filter::{decode_whole, put_encoded};
use crate::plain::put_number;
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

    fn encode_onto(&self, value: &i128, out: &mut Vec<u8>) -> Result<(), Bad> {
        match i64::try_from(*value) {
            Ok(short) => put_short(short, out),
            Err(_) => put_encoded(self, value, out)?,
        }
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<i128, Bad> {
        match short(bytes) {
            Some(short) => Ok(i128::from(short)),
            None => decode_whole(self, bytes),
        }
    }
}

/// A number of 64 bits as one of 128 is encoded, which takes several times as long if nobody knows that it is short:
/// seven bits to a byte, lowest first, the sign in the lowest bit.
fn put_short(number: i64, out: &mut Vec<u8>) {
    put_number((number << 1 ^ number >> 63) as u64, out);
}

/// The number that [`put_short`] encodes like this, of 63 bits at most.
fn short(bytes: &[u8]) -> Option<i64> {
    let (last, others) = bytes.split_last()?;
    if *last >= 0x80 || others.len() > 8 || (*last == 0 && !others.is_empty()) {
        return None;
    }
    let mut left = u64::from(*last);
    for byte in others.iter().rev() {
        if *byte < 0x80 {
            return None;
        }
        left = left << 7 | u64::from(byte & 0x7f);
    }
    Some((left >> 1) as i64 ^ -((left & 1) as i64))
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

/// The parts of a mean: sum and count.
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
    /// The rank that it is of.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sums() -> impl Strategy<Value = i128> {
        (any::<i128>(), 0_u32..128).prop_map(|(number, shift)| number >> shift)
    }

    proptest! {
        #[test]
        fn sums_are_encoded_as_any_number_of_their_type(sum in sums()) {
            let bytes = Sum.encode(&sum).unwrap();
            prop_assert_eq!(&bytes, &postcard::to_stdvec(&sum).unwrap());
            prop_assert_eq!(Sum.decode(&bytes), Ok(sum));
        }

        #[test]
        fn no_bytes_are_another_sum_than_they_are_a_number(bytes in proptest::collection::vec(any::<u8>(), 0..22)) {
            let number = postcard::take_from_bytes::<i128>(&bytes).ok().filter(|(_, rest)| rest.is_empty());
            prop_assert_eq!(Sum.decode(&bytes).ok(), number.map(|(number, _)| number));
        }
    }

    #[test]
    fn the_ends_of_short_sums() {
        for sum in [0, 1, -1, 63, 64, -64, -65, i128::from(i64::MAX), i128::from(i64::MIN), i128::from(i64::MIN) - 1] {
            let bytes = Sum.encode(&sum).unwrap();
            assert_eq!((&bytes, Sum.decode(&bytes)), (&postcard::to_stdvec(&sum).unwrap(), Ok(sum)));
        }
    }
}
