//! Did the ranks really record the same iterations? Checked on what was recorded, whatever was believed before.
//!
//! If the anchor synchronises the world, no rank may have left its n-th recorded one before all had entered theirs. A
//! rank that is one iteration off breaks this in almost every iteration.
//!
//! Next: `assemble`, which marks the window.

use serde::{Deserialize, Serialize};

/// One rank's recorded anchor calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MarkTimes {
    /// World rank.
    pub rank: u32,
    /// The job's iteration number of the first mark: own count plus offset.
    pub first_iteration: i64,
    /// Entry of each mark, ticks.
    pub enter_ticks: Vec<u64>,
    /// Return of each mark, ticks; 0: not known. May be shorter than `enter_ticks`.
    pub exit_ticks: Vec<u64>,
    /// How far this rank's ticks may be from the common clock.
    pub uncertainty_ticks: u64,
}

/// The verdict of the recorded times on the offsets.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// No iteration contradicts them.
    Holds {
        /// Iterations in which all ranks could be compared.
        checked: usize,
    },
    /// The ranks did not start at the same iteration.
    StartsDiffer {
        /// First iteration and the rank that starts there, the earliest.
        earliest: (i64, u32),
        /// The same of the latest.
        latest: (i64, u32),
    },
    /// A rank left its mark before another had entered the same one.
    Broken {
        /// Number of the mark in the window, from 0.
        mark: usize,
        /// The rank that left too early.
        left: u32,
        /// The rank that had not entered.
        entered: u32,
        /// By how much, ticks, beyond the clocks' uncertainty.
        by_ticks: u64,
    },
    /// A rank's iterations did not begin where they were counted: the loop changed while it was recorded.
    Miscounted {
        /// The rank.
        rank: u32,
    },
    /// Nothing could be compared: fewer than two ranks, no returns, or a mark that does not synchronise.
    NotChecked,
}

impl Verdict {
    /// True if the window must be reported as invalid.
    pub fn is_invalid(&self) -> bool {
        match self {
            Self::StartsDiffer { .. } | Self::Broken { .. } | Self::Miscounted { .. } => true,
            Self::Holds { .. } | Self::NotChecked => false,
        }
    }
}

/// Checks the recorded window; `synchronises`: the anchor is a collective of the world nobody leaves before all entered.
pub fn verify(marks: &[MarkTimes], synchronises: bool) -> Verdict {
    let by_start = |one: &&MarkTimes| (one.first_iteration, one.rank);
    let (Some(earliest), Some(latest)) = (marks.iter().min_by_key(by_start), marks.iter().max_by_key(by_start)) else {
        return Verdict::NotChecked;
    };
    if earliest.first_iteration != latest.first_iteration {
        return Verdict::StartsDiffer {
            earliest: (earliest.first_iteration, earliest.rank),
            latest: (latest.first_iteration, latest.rank),
        };
    }
    if !synchronises || marks.len() < 2 {
        return Verdict::NotChecked;
    }
    let comparable = marks.iter().map(|one| one.enter_ticks.len()).min().unwrap_or(0);
    let mut checked = 0;
    for mark in 0..comparable {
        match compare(marks, mark) {
            Some(Verdict::Holds { .. }) => checked += 1,
            Some(broken) => return broken,
            None => {}
        }
    }
    if checked == 0 { Verdict::NotChecked } else { Verdict::Holds { checked } }
}

/// Compares one mark on all ranks: last to enter against first to leave. `None`: too few returns are known.
fn compare(marks: &[MarkTimes], mark: usize) -> Option<Verdict> {
    let left = |one: &MarkTimes| one.exit_ticks.get(mark).copied().filter(|ticks| *ticks != 0);
    let earliest_exit = |one: &MarkTimes| left(one).map(|ticks| ticks.saturating_add(one.uncertainty_ticks));
    let latest_enter = |one: &MarkTimes| one.enter_ticks[mark].saturating_sub(one.uncertainty_ticks);
    let last = marks.iter().max_by_key(|one| latest_enter(one))?;
    let others = marks.iter().filter(|one| one.rank != last.rank);
    let (exit, first) = others.filter_map(|one| earliest_exit(one).map(|ticks| (ticks, one))).min_by_key(|at| at.0)?;
    let by_ticks = latest_enter(last).saturating_sub(exit);
    Some(match by_ticks {
        0 => Verdict::Holds { checked: 1 },
        _ => Verdict::Broken { mark, left: first.rank, entered: last.rank, by_ticks },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(rank: u32, first_iteration: i64, enters: &[u64], exits: &[u64]) -> MarkTimes {
        MarkTimes {
            rank,
            first_iteration,
            enter_ticks: enters.to_vec(),
            exit_ticks: exits.to_vec(),
            uncertainty_ticks: 1,
        }
    }

    #[test]
    fn verdicts() {
        let zero = marks(0, 7, &[10, 20, 30], &[14, 24, 34]);
        let broken = Verdict::Broken { mark: 0, left: 0, entered: 1, by_ticks: 22 - 14 - 2 };
        let differ = Verdict::StartsDiffer { earliest: (7, 0), latest: (8, 1) };
        let cases = [
            ("together", marks(1, 7, &[12, 22, 32], &[14, 24, 34]), true, Verdict::Holds { checked: 3 }),
            ("one off", marks(1, 7, &[22, 32, 42], &[24, 34, 44]), true, broken),
            ("within uncertainty", marks(1, 7, &[16, 20, 30], &[17, 24, 34]), true, Verdict::Holds { checked: 3 }),
            ("last not returned", marks(1, 7, &[12, 22, 32], &[14, 24, 0]), true, Verdict::Holds { checked: 3 }),
            ("other start", marks(1, 8, &[12], &[14]), true, differ),
            ("no collective", marks(1, 7, &[22, 32, 42], &[24, 34, 44]), false, Verdict::NotChecked),
        ];
        for (name, one, synchronises, expected) in cases {
            let verdict = verify(&[zero.clone(), one], synchronises);
            let invalid = matches!(verdict, Verdict::Broken { .. } | Verdict::StartsDiffer { .. });
            assert_eq!(verdict.is_invalid(), invalid, "{name}");
            assert_eq!(verdict, expected, "{name}");
        }
        assert_eq!(verify(&[], true), Verdict::NotChecked, "no rank");
        assert_eq!(verify(&[zero], true), Verdict::NotChecked, "one rank");
    }
}
