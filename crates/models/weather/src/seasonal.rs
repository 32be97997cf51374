//! Forecasts from what was a period before, which is a day for most series.
//!
//! Next: `forecasters`, which has both among others.

use std::collections::VecDeque;

/// The values of a period.
#[derive(Clone, Debug)]
pub(crate) struct Seasonal {
    period: usize,
    /// The latest `period` + 1 values, oldest first.
    values: VecDeque<f64>,
}

impl Seasonal {
    /// Of a series that repeats after so many values.
    pub(crate) fn new(period: usize) -> Self {
        Seasonal { period, values: VecDeque::new() }
    }

    /// The value a period before, and the last value moved by as much as the series moved then; the last value, as long as
    /// there is none.
    pub(crate) fn next(&self, last: f64) -> [f64; 2] {
        let count = self.values.len();
        let before = |back: usize| count.checked_sub(back).and_then(|at| self.values.get(at)).copied();
        let (then, one_earlier) = (before(self.period), before(self.period + 1));
        [then.unwrap_or(last), then.zip(one_earlier).map_or(last, |(then, earlier)| last + then - earlier)]
    }

    pub(crate) fn learn(&mut self, value: f64) {
        self.values.push_back(value);
        if self.values.len() > self.period + 1 {
            self.values.pop_front();
        }
    }
}
