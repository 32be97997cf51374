//! At which iteration do all ranks begin to record?
//!
//! Next: `verify`, which checks that they did.

/// Iterations that begin on average while ranks are told, below which none most likely does.
const UNLIKELY: f64 = 0.005;

/// The first iteration that every rank can still reach after it was told to record there.
///
/// `counts` are the job's iteration numbers of all ranks now (own count plus offset), `iterations_per_s` the rate of the
/// fastest rank, `margin_s` the time it takes to tell every rank. A count is the number of the iteration that the rank
/// begins next, so the furthest one's is the earliest that all can begin together; it is chosen where ranks are so slow
/// that hardly ever one begins it while it is told (and whoever tells them notices). Else the result is at least one later.
/// With an unknown rate (zero, negative or not finite) only that one is added.
pub fn choose_start(counts: &[u64], iterations_per_s: f64, margin_s: f64) -> u64 {
    let furthest = counts.iter().copied().max().unwrap_or(0);
    let expected = iterations_per_s * margin_s;
    if expected > 0.0 && expected < UNLIKELY {
        return furthest;
    }
    let passing = expected.ceil();
    // A float to integer cast saturates and takes NaN to 0, which is what an unknown rate should add.
    let passing = if passing.is_finite() { passing.max(0.0) as u64 } else { 0 };
    furthest.saturating_add(passing).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rank_is_past_the_start() {
        let cases: [(&str, &[u64], f64, f64, u64); 7] = [
            ("one rank at rest", &[0], 0.0, 0.1, 1),
            ("furthest rank decides", &[5, 9, 7], 0.0, 0.0, 10),
            ("fast loop", &[100, 101], 1000.0, 0.05, 152),
            ("slow loop: under one iteration passes", &[3, 3], 0.2, 0.1, 5),
            ("section 4f: iterations of 6 s, none is let pass", &[3, 3], 1.0 / 6.0, 0.01, 3),
            ("rate not known", &[3, 4], f64::NAN, 0.1, 5),
            ("no rank", &[], 10.0, 0.1, 2),
        ];
        for (name, counts, rate, margin, expected) in cases {
            assert_eq!(choose_start(counts, rate, margin), expected, "{name}");
        }
    }
}
