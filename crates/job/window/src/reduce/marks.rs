//! When iterations began on ranks, as far as it shows that all recorded the same ones: of each iteration only who came last and
//! who left first.
//!
//! Next: `verify`, which says the same of every rank's marks.

use super::runs::Runs;
use super::sums::{RANKS_MAX, Unmergeable};
use crate::verify::{MarkTimes, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Iterations that are kept, the latest.
const KEPT: usize = 256;

/// The marks of some ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    ranks: Runs,
    /// The lowest rank whose iterations were not those that were counted.
    miscounted: Option<u32>,
    /// First recorded iteration and its rank: of the rank that began earliest, and latest.
    starts: Option<((i64, u32), (i64, u32))>,
    /// By the job's number.
    each: BTreeMap<u64, Mark>,
}

/// One iteration's mark on some ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    known: u64,
    /// The earliest moment at which the last rank can have entered it, and that rank.
    last_enter: (u64, u32),
    /// The latest moments at which the first two ranks can have left it, and these ranks.
    first_exits: Vec<(u64, u32)>,
}

impl Mark {
    fn merge(&mut self, other: &Mark) {
        self.known = self.known.saturating_add(other.known);
        self.last_enter = self.last_enter.max(other.last_enter);
        self.first_exits.extend(&other.first_exits);
        self.first_exits.sort_unstable();
        self.first_exits.truncate(2);
    }
}

impl Marks {
    /// Of one rank, whose marks have these numbers and times on the lead's clock.
    pub fn of(marks: &MarkTimes, iterations: &[u64], is_miscounted: bool) -> Marks {
        let start = (marks.first_iteration, marks.rank);
        let each = iterations.iter().zip(&marks.enter_ticks).enumerate().map(|(at, (iteration, enter))| {
            let left = marks.exit_ticks.get(at).copied().filter(|ticks| *ticks != 0);
            let exit = |ticks: u64| (ticks.saturating_add(marks.uncertainty_ticks), marks.rank);
            let last_enter = (enter.saturating_sub(marks.uncertainty_ticks), marks.rank);
            (*iteration, Mark { known: 1, last_enter, first_exits: left.map(exit).into_iter().collect() })
        });
        let mut all = Marks {
            ranks: Runs::one(marks.rank),
            miscounted: is_miscounted.then_some(marks.rank),
            starts: Some((start, start)),
            each: each.collect(),
        };
        all.keep();
        all
    }

    fn keep(&mut self) {
        while self.each.len() > KEPT {
            self.each.pop_first();
        }
    }

    /// With other ranks.
    ///
    /// # Errors
    /// They share a rank.
    pub fn merge(&mut self, other: Marks) -> Result<(), Unmergeable> {
        if self.ranks.has_common(&other.ranks) {
            return Err(Unmergeable("two values of the same rank"));
        }
        self.ranks.merge(&other.ranks);
        self.miscounted = self.miscounted.into_iter().chain(other.miscounted).min();
        self.starts = match (self.starts, other.starts) {
            (Some((first, last)), Some((other_first, other_last))) => {
                Some((first.min(other_first), last.max(other_last)))
            }
            (one, other) => one.or(other),
        };
        for (iteration, mark) in other.each {
            self.each.entry(iteration).and_modify(|known| known.merge(&mark)).or_insert(mark);
        }
        self.keep();
        Ok(())
    }

    /// True if bytes of another node can be this.
    pub fn is_sound(&self) -> bool {
        self.ranks.is_sound(RANKS_MAX)
            && self.each.len() <= KEPT
            && self.each.values().all(|mark| mark.first_exits.len() <= 2 && mark.first_exits.is_sorted())
    }

    /// The verdict of the recorded times; `synchronises`: as for [`crate::verify()`].
    pub fn verdict(&self, synchronises: bool) -> Verdict {
        if let Some(rank) = self.miscounted {
            return Verdict::Miscounted { rank };
        }
        let Some((earliest, latest)) = self.starts else { return Verdict::NotChecked };
        if earliest.0 != latest.0 {
            return Verdict::StartsDiffer { earliest, latest };
        }
        let all = self.ranks.count();
        if !synchronises || all < 2 {
            return Verdict::NotChecked;
        }
        let mut checked = 0;
        for (number, mark) in self.each.values().filter(|mark| mark.known == all).enumerate() {
            let (enter, entered) = mark.last_enter;
            let Some((exit, left)) = mark.first_exits.iter().find(|(_, rank)| *rank != entered).copied() else {
                continue;
            };
            match enter.saturating_sub(exit) {
                0 => checked += 1,
                by_ticks => return Verdict::Broken { mark: number, left, entered, by_ticks },
            }
        }
        if checked == 0 { Verdict::NotChecked } else { Verdict::Holds { checked } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::verify;

    fn times(rank: u32, enters: &[u64], exits: &[u64]) -> MarkTimes {
        let (enter_ticks, exit_ticks) = (enters.to_vec(), exits.to_vec());
        MarkTimes { rank, first_iteration: 7, enter_ticks, exit_ticks, uncertainty_ticks: 1 }
    }

    fn merged(all: &[MarkTimes], order: &[usize], miscounted: Option<u32>) -> Marks {
        let mut marks = Marks::default();
        for place in order {
            let one = Marks::of(&all[*place], &[7, 8, 9], miscounted == Some(all[*place].rank));
            marks.merge(one).expect("ranks apart");
        }
        marks
    }

    #[test]
    fn merged_marks_have_the_verdict_of_each_ranks() {
        let zero = times(0, &[10, 20, 30], &[14, 24, 34]);
        let together = times(1, &[12, 22, 32], &[15, 25, 34]);
        let one_off = times(2, &[22, 32, 42], &[24, 34, 44]);
        let not_returned = times(2, &[12, 22, 32], &[14, 24, 0]);
        let later = MarkTimes { first_iteration: 8, ..times(2, &[12, 22, 32], &[14, 24, 34]) };
        for (name, all, synchronises) in [
            ("together", vec![zero.clone(), together.clone()], true),
            ("one off", vec![zero.clone(), together.clone(), one_off], true),
            ("not returned", vec![zero.clone(), together.clone(), not_returned], true),
            ("other start", vec![zero.clone(), together.clone(), later], true),
            ("no collective", vec![zero.clone(), together.clone()], false),
            ("alone", vec![zero.clone()], true),
        ] {
            let backwards: Vec<usize> = (0..all.len()).rev().collect();
            let forwards: Vec<usize> = (0..all.len()).collect();
            let marks = merged(&all, &forwards, None);
            assert_eq!(marks, merged(&all, &backwards, None), "{name}");
            assert_eq!(marks.verdict(synchronises), verify(&all, synchronises), "{name}");
            assert!(marks.is_sound(), "{name}");
        }
        let miscounted = merged(&[zero, together], &[0, 1], Some(1));
        assert_eq!(miscounted.verdict(true), Verdict::Miscounted { rank: 1 });
    }

    #[test]
    fn iterations_that_a_ring_lost_are_not_compared() {
        let zero = Marks::of(&times(0, &[10, 20, 30], &[14, 24, 34]), &[7, 8, 9], false);
        let mut one = Marks::of(&times(1, &[32], &[34]), &[9], false);
        one.merge(zero.clone()).expect("ranks apart");
        assert_eq!(one.verdict(true), Verdict::Holds { checked: 1 });
        assert!(one.merge(zero).is_err(), "the same rank");
    }
}
