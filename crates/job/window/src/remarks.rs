//! What a reader should know beside the numbers of a window that is valid.
//!
//! Next: `assemble`, which prints these after what made a window invalid.

use crate::assemble::WindowInput;
use trimtab_types::report::Cost;

/// Share of the window the measurement may cost before the report warns.
pub(crate) const COST_FRACTION_WARN: f64 = 0.02;
/// A shorter window may have caught the program at anything.
const SHORT_S: f64 = 1e-3;
/// What a reader of such a window is told to ask for.
const LONG_S: f64 = 0.1;

/// What a reader must know although the window is valid.
pub(crate) fn remarks(input: &WindowInput, cost: &Cost, duration_s: f64) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(fraction) = cost.fraction.filter(|fraction| *fraction > COST_FRACTION_WARN) {
        remarks.push(format!(
            "measuring cost an estimated {:.1}% of the window's time{}; measure fewer functions",
            fraction * 100.0,
            without(cost)
        ));
    }
    if duration_s < SHORT_S && !input.is_by_time() && duration_s > 0.0 {
        remarks.push(too_short(input, duration_s));
    }
    let threaded: Vec<u32> = input
        .ranks
        .iter()
        .filter(|rank| rank.threads.iter().any(|thread| thread.comm_ticks > rank.comm_ticks))
        .map(|rank| rank.rank)
        .collect();
    if !threaded.is_empty() && input.has_comm() {
        remarks.push(format!(
            "on {} another thread than the main one communicates longest; the interval of the communication share \
             describes the main threads only",
            name_ranks(&threaded)
        ));
    }
    let unnamed: u64 = input.ranks.iter().map(|rank| rank.unattributed_bytes).sum();
    if unnamed > 0 {
        remarks.push(format!("{unnamed} bytes were sent to ranks that could not be named; links are without them"));
    }
    let starts: u64 = input.ranks.iter().map(|rank| rank.unknown_starts).sum();
    if starts > 0 {
        remarks.push(format!(
            "{starts} starts of persistent requests that were made before trimtab came, or that belong to persistent \
             collectives: their time is measured, their messages and bytes are not, so links and volumes are too small"
        ));
    }
    remarks
}

/// What the main number would be without the cost.
fn without(cost: &Cost) -> String {
    let share = |share: f64| format!(", without which some {:.0}% of it would be communication", share * 100.0);
    cost.communication_fraction_without.map(share).unwrap_or_default()
}

/// How many iterations to ask for instead.
fn too_short(input: &WindowInput, duration_s: f64) -> String {
    let iterations = input.ranks.iter().filter_map(|rank| rank.iterations(false)).min().unwrap_or(1).max(1);
    let enough = (LONG_S / duration_s * iterations as f64).log10().ceil() as u32;
    format!(
        "the window lasted {:.1} us: it says little of the program as a whole; --iterations {} would last about 0.1 s or \
         more",
        duration_s * 1e6,
        10u64.saturating_pow(enough)
    )
}

/// "rank 3", "ranks 0-2, 5".
pub fn name_ranks(ranks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*rank) => *last = *rank,
            _ => runs.push((*rank, *rank)),
        }
    }
    let text = |(from, to): &(u32, u32)| match to - from {
        0 => from.to_string(),
        1 => format!("{from}, {to}"),
        _ => format!("{from}-{to}"),
    };
    let plural = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{plural} {}", runs.iter().map(text).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_by_name() {
        let cases: [(&str, &[u32], &str); 4] = [
            ("one", &[3], "rank 3"),
            ("two", &[3, 4], "ranks 3, 4"),
            ("run", &[0, 1, 2, 5], "ranks 0-2, 5"),
            ("apart", &[0, 2], "ranks 0, 2"),
        ];
        for (name, ranks, expected) in cases {
            assert_eq!(name_ranks(ranks), expected, "{name}");
        }
    }
}
