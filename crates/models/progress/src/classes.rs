//! Iterations of two classes: usual ones, and the few that take far longer, such as those that write output.
//!
//! Next: `pace`, which counts with both.

/// Fewer iterations have no classes.
const ITERATIONS_MIN: usize = 8;
/// An iteration is a rare one if it takes longer than the median by so many times the usual distance from it,
const DISTANCES: f64 = 8.0;
/// and by at least this share of the median.
const SHARE_MIN: f64 = 0.3;
/// More than this share of all iterations are not rare: then a program has phases.
const RARE_MAX: f64 = 0.2;

/// Rare iterations among those that were watched.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rare {
    /// How many.
    pub count: usize,
    /// Time that each takes beyond a usual one, mean, seconds.
    pub extra_s: f64,
    /// Mean time of a usual iteration, seconds.
    pub usual_s: f64,
}

/// Finds the rare ones; `None`: too few iterations, or none of them stands out.
pub(crate) fn rare(times_s: &[f64]) -> Option<Rare> {
    if times_s.len() < ITERATIONS_MIN {
        return None;
    }
    let middle = median(times_s.to_vec());
    let distance = median(times_s.iter().map(|time| (time - middle).abs()).collect());
    let limit = middle + (DISTANCES * distance).max(SHARE_MIN * middle);
    let (rare, usual): (Vec<f64>, Vec<f64>) = times_s.iter().partition(|time| **time > limit);
    if rare.is_empty() || rare.len() as f64 > RARE_MAX * times_s.len() as f64 {
        return None;
    }
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    Some(Rare { count: rare.len(), extra_s: mean(&rare) - mean(&usual), usual_s: mean(&usual) })
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_iterations_are_those_far_above_the_others() {
        let times: Vec<f64> = (0..100).map(|i| if i % 50 == 7 { 1.1 } else { 0.1 + f64::from(i % 5) * 1e-3 }).collect();
        let found = rare(&times).unwrap();
        assert_eq!(found.count, 2);
        assert!((found.extra_s - 0.998).abs() < 1e-3 && (found.usual_s - 0.102).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn phases_and_noise_are_not_rare() {
        let phases: Vec<f64> = (0..100).map(|i| if i % 10 < 3 { 0.2 } else { 0.1 }).collect();
        let noise: Vec<f64> = (0..100).map(|i| 0.1 + f64::from(i * 37 % 100) * 2e-4).collect();
        assert_eq!((rare(&phases), rare(&noise), rare(&[1.0; 5])), (None, None, None));
    }
}
