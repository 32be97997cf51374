//! The coefficients of an autoregressive model, by the Levinson-Durbin recursion on the autocovariances of a window.
//!
//! A value is the mean of the window plus the coefficients times what the values before it differ from that mean.
//!
//! Next: `forecasters`, which refits them now and then.

/// A fitted model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Autoregression {
    mean: f64,
    /// Of the latest value first.
    coefficients: Vec<f64>,
}

impl Autoregression {
    /// Fits `order` coefficients to some values; `None` if there are fewer than four for each.
    pub(crate) fn fit(values: &[f64], order: usize) -> Option<Self> {
        if values.len() <= 4 * order {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let apart: Vec<f64> = values.iter().map(|value| value - mean).collect();
        let covariance = |lag: usize| apart[lag..].iter().zip(&apart).map(|(a, b)| a * b).sum::<f64>() / count;
        let covariances: Vec<f64> = (0..=order).map(covariance).collect();
        Some(Autoregression { mean, coefficients: solve(&covariances) })
    }

    /// The next value. `latest` is the latest one first, and as many as there are coefficients.
    pub(crate) fn next(&self, latest: impl Iterator<Item = f64>) -> f64 {
        let terms = self.coefficients.iter().zip(latest).map(|(coefficient, value)| coefficient * (value - self.mean));
        self.mean + terms.sum::<f64>()
    }
}

/// Levinson-Durbin: autocovariances of lags 0 to n give n coefficients. All are 0 where nothing varies.
fn solve(covariances: &[f64]) -> Vec<f64> {
    let order = covariances.len() - 1;
    let (mut coefficients, mut error) = (vec![0.0; order], covariances[0]);
    for size in 0..order {
        if error <= 0.0 {
            break;
        }
        let known: f64 = (0..size).map(|i| coefficients[i] * covariances[size - i]).sum();
        let reflection = (covariances[size + 1] - known) / error;
        let before = coefficients.clone();
        for i in 0..size {
            coefficients[i] = before[i] - reflection * before[size - 1 - i];
        }
        coefficients[size] = reflection;
        error *= 1.0 - reflection * reflection;
    }
    coefficients
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_solve_the_equations_of_yule_and_walker() {
        let covariances = [4.0, 2.5, 1.75, 0.5];
        let found = solve(&covariances);
        for row in 0..3usize {
            let left: f64 = (0..3).map(|column: usize| found[column] * covariances[row.abs_diff(column)]).sum();
            assert!((left - covariances[row + 1]).abs() < 1e-12, "row {row}: {left}");
        }
    }

    #[test]
    fn an_oscillation_goes_on() {
        let wave = |i: usize| (i as f64 * 0.3).sin() + 5.0;
        let values: Vec<f64> = (0..400).map(wave).collect();
        let fitted = Autoregression::fit(&values, 4).expect("enough values");
        let next = fitted.next(values.iter().rev().copied());
        assert!((next - wave(400)).abs() < 0.05, "{next} of {}", wave(400));
    }

    #[test]
    fn a_constant_stays() {
        let fitted = Autoregression::fit(&[3.0; 20], 2).expect("enough values");
        assert_eq!(fitted.next([3.0, 3.0].into_iter()), 3.0);
        assert_eq!(Autoregression::fit(&[1.0; 8], 2), None);
    }
}
