//! At which iteration do all ranks begin to record?
//!
//! Next: `verify`, which checks that they did.

/// The first iteration that every rank can still reach after it was told to record there.
///
/// `counts` are the job's iteration numbers of all ranks now (own count plus offset), `iterations_per_s` the rate of the
/// fastest rank, `margin_s` the time it takes to tell every rank. The result is at least one past the furthest rank, so
/// that no rank is inside the iteration it starts with. With an unknown rate (zero, negative or not finite) only that
/// one is added.
pub fn choose_start(counts: &[u64], iterations_per_s: f64, margin_s: f64) -> u64 {
    let furthest = counts.iter().copied().max().unwrap_or(0);
    let passing = (iterations_per_s * margin_s).ceil();
    // A float to integer cast saturates and takes NaN to 0, which is what an unknown rate should add.
    let passing = if passing.is_finite() { passing.max(0.0) as u64 } else { 0 };
    furthest.saturating_add(passing).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rank_is_past_the_start() {
        let cases: [(&str, &[u64], f64, f64, u64); 6] = [
            ("one rank at rest", &[0], 0.0, 0.1, 1),
            ("furthest rank decides", &[5, 9, 7], 0.0, 0.0, 10),
            ("fast loop", &[100, 101], 1000.0, 0.05, 152),
            ("slow loop: under one iteration passes", &[3, 3], 0.2, 0.1, 5),
            ("rate not known", &[3, 4], f64::NAN, 0.1, 5),
            ("no rank", &[], 10.0, 0.1, 2),
        ];
        for (name, counts, rate, margin, expected) in cases {
            assert_eq!(choose_start(counts, rate, margin), expected, "{name}");
        }
    }
}
