//! How near a forecast is to the truth, and the forecast that is expected to be nearest.
//!
//! Next: `experts`, which asks for it.

/// Times below this are this long: nobody plans by less, and a job that ends at once has no ratio.
pub(crate) const LEAST_S: f64 = 1.0;

/// A time and how much it counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Weighed {
    pub(crate) s: f64,
    pub(crate) weight: f64,
}

/// The shorter of both over the longer: 1 is right, 0.5 is off by a factor of two to either side.
pub fn accuracy(forecast_s: f64, truth_s: f64) -> f64 {
    let (forecast, truth) = (forecast_s.max(LEAST_S), truth_s.max(LEAST_S));
    (forecast / truth).min(truth / forecast)
}

/// The time with the greatest weighted sum of accuracies over all of them; `None` if there is none. Sorts them.
///
/// Between two neighbours the sum is `below / f + f * above`, which has no maximum inside: one of the times is the best.
pub(crate) fn nearest_to_all(times: &mut [Weighed]) -> Option<f64> {
    times.sort_by(|a, b| a.s.total_cmp(&b.s));
    let mut above: f64 = times.iter().map(|time| time.weight / time.s.max(LEAST_S)).sum();
    let (mut below, mut best) = (0.0, None::<(f64, f64)>);
    for time in times.iter() {
        let s = time.s.max(LEAST_S);
        below += time.weight * s;
        above -= time.weight / s;
        let sum = below / s + s * above;
        if best.is_none_or(|(most, _)| sum > most) {
            best = Some((sum, s));
        }
    }
    best.map(|(_, s)| s)
}

/// The time below which this share of the weight lies; `None` if there is none. They are sorted.
pub(crate) fn quantile(times: &[Weighed], share: f64) -> Option<f64> {
    let wanted = share * times.iter().map(|time| time.weight).sum::<f64>();
    let mut sum = 0.0;
    let reached = |time: &&Weighed| {
        sum += time.weight;
        sum >= wanted
    };
    times.iter().find(reached).or(times.last()).map(|time| time.s.max(LEAST_S))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(times: &[(f64, f64)]) -> Vec<Weighed> {
        times.iter().map(|&(s, weight)| Weighed { s, weight }).collect()
    }

    #[test]
    fn accuracy_is_a_ratio_to_either_side() {
        for (forecast, truth, ratio) in [(50.0, 100.0, 0.5), (100.0, 50.0, 0.5), (0.0, 0.0, 1.0), (0.2, 4.0, 0.25)] {
            assert_eq!(accuracy(forecast, truth), ratio);
        }
    }

    #[test]
    fn quantiles_go_by_weight() {
        let times = all(&[(1.0, 1.0), (2.0, 8.0), (50.0, 1.0)]);
        assert_eq!(
            [0.05, 0.1, 0.5, 0.9, 0.95].map(|share| quantile(&times, share)),
            [1.0, 1.0, 2.0, 2.0, 50.0].map(Some)
        );
        assert_eq!(quantile(&[], 0.5), None);
    }

    proptest! {
        #[test]
        fn no_other_time_is_nearer_to_all(times in prop::collection::vec((0.0..1e5f64, 0.01..1.0f64), 1..30), other in 0.0..1e5f64) {
            let mut times = all(&times);
            let best = nearest_to_all(&mut times).expect("there are times");
            let sum = |s: f64| times.iter().map(|time| time.weight * accuracy(s, time.s)).sum::<f64>();
            prop_assert!(sum(best) >= sum(other) - 1e-9, "{best}: {}, {other}: {}", sum(best), sum(other));
        }
    }
}
