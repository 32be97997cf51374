//! The latest values in order of size, so that medians and quantiles of them are at hand.
//!
//! Next: `forecasters`, `interval` and `trimtab-history`, which ask.

use std::collections::VecDeque;

/// The latest values, up to a number of them.
#[derive(Clone, Debug)]
pub struct Ordered {
    count_max: usize,
    in_time: VecDeque<f64>,
    by_size: Vec<f64>,
}

impl Ordered {
    /// Keeps so many.
    pub fn new(count_max: usize) -> Self {
        Ordered { count_max, in_time: VecDeque::new(), by_size: Vec::new() }
    }

    /// One more, which is no NaN; the oldest goes if there are too many.
    pub fn push(&mut self, value: f64) {
        self.in_time.push_back(value);
        let at = self.by_size.partition_point(|other| other.total_cmp(&value).is_lt());
        self.by_size.insert(at, value);
        if self.in_time.len() > self.count_max
            && let Some(oldest) = self.in_time.pop_front()
        {
            let at = self.by_size.partition_point(|other| other.total_cmp(&oldest).is_lt());
            self.by_size.remove(at);
        }
    }

    /// How many are kept now.
    pub fn count(&self) -> usize {
        self.by_size.len()
    }

    /// The median of all that are kept; `None` if there is no value.
    pub fn median(&self) -> Option<f64> {
        middle(&self.by_size)
    }

    /// The mean of all but a share of the smallest and of the largest.
    pub(crate) fn trimmed_mean(&self, share: f64) -> Option<f64> {
        let cut = (share * self.by_size.len() as f64) as usize;
        let kept = self.by_size.get(cut..self.by_size.len() - cut)?;
        (!kept.is_empty()).then(|| kept.iter().sum::<f64>() / kept.len() as f64)
    }

    /// The value below which the next one lies with this probability, if it is one more of the same: the k-th of n values
    /// with k = (n + 1) times the probability, between two of them as far as k lies between.
    pub(crate) fn quantile(&self, probability: f64) -> Option<f64> {
        let last = self.by_size.len().checked_sub(1)?;
        let place = ((self.by_size.len() + 1) as f64 * probability - 1.0).clamp(0.0, last as f64);
        let below = place as usize;
        let (a, b) = (self.by_size[below], self.by_size[(below + 1).min(last)]);
        Some(a + (place - below as f64) * (b - a))
    }

    /// As `quantile`, not between two values but the one to the safe side: below one half the lower, else the upper.
    pub fn quantile_outward(&self, probability: f64) -> Option<f64> {
        let last = self.by_size.len().checked_sub(1)?;
        let place = (self.by_size.len() + 1) as f64 * probability - 1.0;
        let place = if probability < 0.5 { place.floor() } else { place.ceil() };
        self.by_size.get((place.max(0.0) as usize).min(last)).copied()
    }
}

/// The median of values in order.
pub(crate) fn middle(ordered: &[f64]) -> Option<f64> {
    let half = ordered.len() / 2;
    match ordered.len() {
        0 => None,
        count if count % 2 == 1 => Some(ordered[half]),
        _ => Some(0.5 * (ordered[half - 1] + ordered[half])),
    }
}

/// The median of values in any order; `None` if there is none.
pub fn median_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    middle(&values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(count_max: usize, values: &[f64]) -> Ordered {
        let mut ordered = Ordered::new(count_max);
        values.iter().for_each(|value| ordered.push(*value));
        ordered
    }

    #[test]
    fn the_oldest_value_goes() {
        let ordered = of(3, &[9.0, 1.0, 5.0, 2.0]);
        assert_eq!(ordered.median(), Some(2.0));
        assert_eq!(of(3, &[]).median(), None);
        assert_eq!(of(4, &[1.0, 4.0, 2.0, 3.0]).median(), Some(2.5));
    }

    #[test]
    fn the_safe_side_is_the_neighbour_further_out() {
        let ordered = of(3, &[9.0, 1.0, 5.0, 1.0]);
        let quantile = |probability| ordered.quantile_outward(probability);
        assert_eq!(
            (ordered.count(), quantile(0.05), quantile(0.95), ordered.median()),
            (3, Some(1.0), Some(5.0), Some(1.0))
        );
        assert_eq!(of(3, &[]).quantile_outward(0.5), None);
    }

    #[test]
    fn a_trimmed_mean_leaves_both_ends_out() {
        let values: Vec<f64> = (0..10).map(f64::from).chain([1000.0]).collect();
        assert_eq!(of(11, &values).trimmed_mean(0.3), Some(5.0));
        assert_eq!(of(11, &values).trimmed_mean(0.0), Some(1045.0 / 11.0));
    }

    #[test]
    fn quantiles_are_those_of_one_more_value() {
        let values: Vec<f64> = (1..=99).map(f64::from).collect();
        let ordered = of(200, &values);
        for (probability, value) in [(0.05, 5.0), (0.5, 50.0), (0.95, 95.0), (0.001, 1.0), (0.999, 99.0), (0.055, 5.5)]
        {
            let found = ordered.quantile(probability).expect("there are values");
            assert!((found - value).abs() < 1e-9, "{probability}: {found}");
        }
    }
}
