//! Histograms with one bucket per power of two: cheap to fill, and percentiles within a factor of two, mostly better.
//!
//! Next: `super`, which merges them.

use crate::ir::HISTOGRAM_BUCKETS;
use serde::{Deserialize, Serialize};

/// A histogram of integers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Shown", into = "Shown")]
pub struct Histogram {
    /// Values per bucket: bucket 0 holds values below 1, bucket n those from 2^(n-1) to below 2^n. Empty buckets at
    /// the end are left out.
    pub buckets: Vec<u64>,
    /// Number of values.
    pub count: u64,
    /// Sum of values; wide enough for all ranks.
    pub sum: i128,
    /// Smallest value; 0 without values.
    pub min: i64,
    /// Largest value; 0 without values.
    pub max: i64,
}

/// The same as others read it: without values there is no smallest and no largest.
#[derive(Serialize, Deserialize)]
struct Shown {
    buckets: Vec<u64>,
    count: u64,
    sum: i128,
    min: Option<i64>,
    max: Option<i64>,
}

impl From<Histogram> for Shown {
    fn from(histogram: Histogram) -> Self {
        let Histogram { buckets, count, sum, min, max } = histogram;
        let of_some = |value: i64| (count > 0).then_some(value);
        Shown { buckets, count, sum, min: of_some(min), max: of_some(max) }
    }
}

impl From<Shown> for Histogram {
    fn from(Shown { buckets, count, sum, min, max }: Shown) -> Self {
        Histogram { buckets, count, sum, min: min.unwrap_or(0), max: max.unwrap_or(0) }
    }
}

impl Histogram {
    /// From a variable's words.
    pub fn read(words: &[u64]) -> Histogram {
        let count_of_buckets = HISTOGRAM_BUCKETS as usize;
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        let mut buckets: Vec<u64> = (0..count_of_buckets).map(word).collect();
        trim(&mut buckets);
        Histogram {
            buckets,
            count: word(count_of_buckets),
            sum: i128::from(word(count_of_buckets + 1) as i64),
            min: word(count_of_buckets + 2) as i64,
            max: word(count_of_buckets + 3) as i64,
        }
    }

    /// Both as one.
    #[must_use]
    pub fn merge(&self, other: &Histogram) -> Histogram {
        match (self.count, other.count) {
            (0, _) => return other.clone(),
            (_, 0) => return self.clone(),
            _ => {}
        }
        let length = self.buckets.len().max(other.buckets.len());
        let at = |buckets: &[u64], index: usize| buckets.get(index).copied().unwrap_or(0);
        Histogram {
            buckets: (0..length)
                .map(|index| at(&self.buckets, index).saturating_add(at(&other.buckets, index)))
                .collect(),
            // The program may have written anything over its counts.
            count: self.count.saturating_add(other.count),
            sum: self.sum + other.sum,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    /// The mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// An estimate of the value below which `share` (0 to 1) of all values lie: evenly spread within the bucket, never
    /// beyond the smallest and largest value seen. `None` without values.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let total = self.buckets.iter().fold(0_u64, |total, count| total.saturating_add(*count));
        if total == 0 {
            return None;
        }
        let wanted = share.clamp(0.0, 1.0) * total as f64;
        let mut below = 0_u64;
        for (index, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let reached = below.saturating_add(*count);
            if reached as f64 >= wanted {
                let (low, high) = self.bounds(index);
                let part = (wanted - below as f64).max(0.0) / *count as f64;
                return Some(low + part * (high - low));
            }
            below = reached;
        }
        Some(self.max as f64)
    }

    /// The values that a bucket can hold, given the smallest and largest seen.
    fn bounds(&self, index: usize) -> (f64, f64) {
        let (min, max) = (self.min as f64, self.max as f64);
        let (low, high) = match index {
            0 => (min, 0.0),
            _ => (2_f64.powi(index as i32 - 1), 2_f64.powi(index as i32)),
        };
        (low.clamp(min, max.max(min)), high.clamp(min, max.max(min)))
    }
}

fn trim(buckets: &mut Vec<u64>) {
    while buckets.last() == Some(&0) {
        buckets.pop();
    }
}
