//! Forecasts beside what came, by method.
//!
//! Next: `end` for the forecasts.

use crate::classes::median;

/// A forecast whose end is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How it was derived.
    pub method: String,
    /// The forecast end after the real one, as a share of the whole run: below zero if it was too early. `None`: only the
    /// latest end was said.
    pub error: Option<f64>,
    /// The interval held.
    pub held: bool,
    /// The end came before the one that 99% were to come before.
    pub held_late: bool,
}

/// All outcomes of one method.
#[derive(Clone, Debug, PartialEq)]
pub struct ByMethod {
    /// The method.
    pub method: String,
    /// Its forecasts whose end is known.
    pub count: usize,
    /// Median of their errors without sign; `None`: it says no expected end.
    pub error_median: Option<f64>,
    /// The largest of these.
    pub error_worst: Option<f64>,
    /// Share of intervals that held.
    pub held: f64,
    /// Share of ends that came before the late one.
    pub held_late: f64,
}

/// Outcomes by method, the method with most of them first.
pub fn by_method(outcomes: &[Outcome]) -> Vec<ByMethod> {
    let mut methods: Vec<&str> = outcomes.iter().map(|outcome| outcome.method.as_str()).collect();
    methods.sort_unstable();
    methods.dedup();
    let mut all: Vec<ByMethod> = methods.into_iter().map(|method| of_method(method, outcomes)).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.count));
    all
}

fn of_method(method: &str, outcomes: &[Outcome]) -> ByMethod {
    let of: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.method == method).collect();
    let errors: Vec<f64> = of.iter().filter_map(|outcome| outcome.error.map(f64::abs)).collect();
    let share = |is: fn(&Outcome) -> bool| of.iter().filter(|outcome| is(outcome)).count() as f64 / of.len() as f64;
    ByMethod {
        method: method.to_owned(),
        count: of.len(),
        error_median: (!errors.is_empty()).then(|| median(errors.clone())),
        error_worst: errors.iter().copied().max_by(f64::total_cmp),
        held: share(|outcome| outcome.held),
        held_late: share(|outcome| outcome.held_late),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_judged_apart() {
        let outcome = |method: &str, error: Option<f64>, held| Outcome {
            method: method.to_owned(),
            error,
            held,
            held_late: true,
        };
        let found = by_method(&[
            outcome("history", Some(0.2), false),
            outcome("iterations", Some(-0.03), true),
            outcome("iterations", Some(0.01), true),
            outcome("iterations", Some(0.5), false),
            outcome("iterations at most", None, true),
        ]);
        let shown: Vec<(&str, usize, Option<f64>)> =
            found.iter().map(|one| (one.method.as_str(), one.count, one.error_median)).collect();
        assert_eq!(shown[0], ("iterations", 3, Some(0.03)));
        assert_eq!((found[0].error_worst, found[0].held_late), (Some(0.5), 1.0));
        assert!((found[0].held - 2.0 / 3.0).abs() < 1e-12);
        assert!(shown.contains(&("iterations at most", 1, None)) && shown.contains(&("history", 1, Some(0.2))));
    }
}
