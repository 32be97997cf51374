//! One value for each rank, told to all nodes: ranks next to each other mostly have the same one, and are told it once.
//!
//! Next: `request`, which uses it for what goes down to the nodes.

use serde::{Deserialize, Serialize};

/// A value that holds for ranks next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run<T> {
    /// The lowest rank.
    pub first: u32,
    /// The highest rank.
    pub last: u32,
    /// Their value.
    pub value: T,
}

/// Runs of `(rank, value)` pairs, ascending by rank. A rank that is not among them ends a run.
pub fn runs_of<T: Copy + PartialEq>(values: impl IntoIterator<Item = (u32, T)>) -> Vec<Run<T>> {
    let mut runs: Vec<Run<T>> = Vec::new();
    for (rank, value) in values {
        match runs.last_mut() {
            Some(run) if run.value == value && run.last.checked_add(1) == Some(rank) => run.last = rank,
            _ => runs.push(Run { first: rank, last: rank, value }),
        }
    }
    runs
}

/// The value of a rank.
pub fn value_of<T: Copy>(runs: &[Run<T>], rank: u32) -> Option<T> {
    let after = runs.partition_point(|run| run.first <= rank);
    let run = runs.get(after.checked_sub(1)?)?;
    (rank <= run.last).then_some(run.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_hold_every_value_and_no_other() {
        let rows = [
            ("none", vec![], 0),
            ("all alike", vec![(0, 7), (1, 7), (2, 7)], 1),
            ("one apart", vec![(0, 7), (1, 8), (2, 7)], 3),
            ("a gap", vec![(0, 7), (2, 7)], 2),
            ("the last rank", vec![(u32::MAX - 1, 1), (u32::MAX, 1)], 1),
        ];
        for (name, values, count) in &rows {
            let runs = runs_of(values.iter().copied());
            assert_eq!(runs.len(), *count, "{name}");
            for (rank, value) in values {
                assert_eq!(value_of(&runs, *rank), Some(*value), "{name}: rank {rank}");
            }
            assert_eq!(value_of(&runs, 100), None, "{name}");
            assert_eq!(value_of(&runs, 1), values.iter().find(|(rank, _)| *rank == 1).map(|one| one.1), "{name}");
        }
    }
}
