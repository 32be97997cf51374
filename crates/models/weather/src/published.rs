//! The rule that the Network Weather Service published: one forecaster is taken for each value, the one that did best lately.
//!
//! Sixteen selectors each take the forecaster of least error over all values or over the latest 1, 5, 10, 20, 30, 50 or 100, by
//! squared or by absolute error. The forecast is that of the selector that did best over all values by the same error.
//!
//! Next: `mixture`, which weighs forecasters instead of taking one.

use std::collections::VecDeque;

/// Values over which selectors look back; 0: all.
const WINDOWS: [usize; 8] = [0, 1, 5, 10, 20, 30, 50, 100];
const WINDOW_MAX: usize = 100;
/// Squared, absolute.
const ERRORS: usize = 2;

/// Both forecasts of the rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// By squared errors.
    pub by_square: f64,
    /// By absolute errors.
    pub by_absolute: f64,
}

/// Takes one of several forecasters.
#[derive(Clone, Debug)]
pub struct PublishedRule {
    /// Of each forecaster: sums of errors over all values, and the latest ones, the latest first.
    sums: Vec<[f64; ERRORS]>,
    latest: Vec<VecDeque<[f64; ERRORS]>>,
    /// Of each selector: the sum of its own errors.
    selectors: [[f64; WINDOWS.len()]; ERRORS],
}

impl PublishedRule {
    /// Of so many forecasters.
    pub fn new(forecasters: usize) -> Self {
        PublishedRule {
            sums: vec![[0.0; ERRORS]; forecasters],
            latest: vec![VecDeque::new(); forecasters],
            selectors: [[0.0; WINDOWS.len()]; ERRORS],
        }
    }

    /// Its forecasts, of what each forecaster says.
    pub fn next(&self, said: &[f64]) -> Published {
        let of = |kind: usize| {
            let best = first_least(self.selectors[kind].iter().copied());
            said[self.taken(kind, WINDOWS[best])]
        };
        Published { by_square: of(0), by_absolute: of(1) }
    }

    /// A value has come, before which the forecasters said this.
    pub fn learn(&mut self, said: &[f64], value: f64) {
        for kind in 0..ERRORS {
            for (at, window) in WINDOWS.into_iter().enumerate() {
                self.selectors[kind][at] += errors(said[self.taken(kind, window)], value)[kind];
            }
        }
        for ((sums, latest), forecast) in self.sums.iter_mut().zip(&mut self.latest).zip(said) {
            let errors = errors(*forecast, value);
            sums.iter_mut().zip(errors).for_each(|(sum, error)| *sum += error);
            latest.push_front(errors);
            latest.truncate(WINDOW_MAX);
        }
    }

    /// The forecaster of least error over a window.
    fn taken(&self, kind: usize, window: usize) -> usize {
        let over = |(sums, latest): (&[f64; ERRORS], &VecDeque<[f64; ERRORS]>)| match window {
            0 => sums[kind],
            _ => latest.iter().take(window).map(|errors| errors[kind]).sum(),
        };
        first_least(self.sums.iter().zip(&self.latest).map(over))
    }
}

fn errors(forecast: f64, value: f64) -> [f64; ERRORS] {
    let error = (forecast - value).abs();
    [error * error, error]
}

/// The place of the least of some numbers, of equal ones the first.
fn first_least(numbers: impl Iterator<Item = f64>) -> usize {
    numbers.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_forecaster_over_the_best_window_is_taken() {
        let mut rule = PublishedRule::new(2);
        assert_eq!(
            rule.next(&[3.0, 4.0]),
            Published { by_square: 3.0, by_absolute: 3.0 },
            "nothing is known: the first"
        );
        // The second is right but for one spike: by squares over all it looks worse, by the latest it is better.
        (0..30).for_each(|at| rule.learn(&[1.0, if at == 0 { 100.0 } else { 0.0 }], 0.0));
        let next = rule.next(&[1.0, 0.0]);
        assert_eq!((next.by_square, next.by_absolute), (0.0, 0.0), "a selector that looks back a little takes it");
        assert_eq!((rule.taken(0, 0), rule.taken(0, 10), rule.taken(1, 1)), (0, 1, 1));
    }

    #[test]
    fn more_than_a_hundred_values_are_remembered_as_a_sum() {
        let mut rule = PublishedRule::new(1);
        (0..250).for_each(|_| rule.learn(&[2.0], 0.0));
        assert_eq!((rule.sums[0], rule.latest[0].len()), ([1000.0, 500.0], WINDOW_MAX));
    }
}
