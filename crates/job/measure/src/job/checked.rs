//! Were the iterations that were counted the program's, and the same on all ranks? Asked of the last calls in the rings.
//!
//! Next: `report` says what came of it.

use super::drive::WindowLead;
use super::marker::Marker;
use super::reduced::is_reduced;
use crate::error::Error;
use crate::excerpt::Excerpt;
use crate::part::Part;
use crate::request::{Answer, RankCheck, Request};
use std::collections::BTreeMap;
use trimtab_window::{MarkTimes, RankCalls, SAME_CLOCK_NS, Verdict, Waits, verify, waits};

/// Checks on the recorded marks themselves that all ranks recorded the same iterations, and if so who waited for whom in
/// them.
pub(super) fn verify_marks(lead: &mut WindowLead, marker: &Marker) -> Result<(Verdict, Waits), Error> {
    let Marker::Call(call) = marker else { return Ok((Verdict::NotChecked, Waits::default())) };
    if is_reduced(lead) {
        // Waits are told only where every rank's calls are brought together.
        let clocks = lead.membership.relations();
        let Part::Marks(marks) = lead.membership.ask_merged(Request::SeeMarks { clocks })? else {
            return Err(Error::Malformed { what: "the marks of nodes" });
        };
        return Ok((marks.verdict(call.synchronises), Waits::default()));
    }
    let marks_max = lead.membership.events_max();
    let checked = lead.membership.ask(Request::Check { marks_max }, |answer| match answer {
        Answer::Checked(ranks) => Some(ranks),
        _ => None,
    })?;
    let mut ranks: Vec<RankCheck> = Vec::new();
    let mut calls: Vec<RankCalls> = Vec::new();
    for (node, mut checked) in checked {
        let relation = lead.membership.relation(node);
        for rank in &mut checked {
            rank.marks.onto_lead(&relation);
            let uncertainty_ticks = rank.calls.onto_lead(&relation);
            calls.push(rank_calls(node, uncertainty_ticks, rank));
        }
        ranks.append(&mut checked);
    }
    ranks.sort_by_key(|rank| rank.marks.rank);
    if let Some(rank) = ranks.iter().find(|rank| rank.is_miscounted) {
        return Ok((Verdict::Miscounted { rank: rank.marks.rank }, Waits::default()));
    }
    let verdict = verify(&in_common(ranks), call.synchronises);
    let same_clock_ticks = (SAME_CLOCK_NS * 1e-9 * lead.clock.ticks_per_second()).ceil() as u64;
    let waits = if verdict.is_invalid() {
        Waits::default()
    } else {
        waits(&calls, is_whole(lead, calls.len()), same_clock_ticks)
    };
    Ok((verdict, waits))
}

/// True if these are all ranks of the job, as far as is known.
fn is_whole(lead: &WindowLead, ranks: usize) -> bool {
    lead.membership.left_alone().is_empty() && lead.facts.size.is_none_or(|size| ranks >= size as usize)
}

/// A rank's calls, taken out of its check.
fn rank_calls(node: u32, uncertainty_ticks: u64, rank: &mut RankCheck) -> RankCalls {
    let Excerpt { events, marks } = std::mem::take(&mut rank.calls);
    let skipped = rank.iterations.len().saturating_sub(marks.len());
    let iterations = rank.iterations[skipped..].to_vec();
    RankCalls { rank: rank.marks.rank, clock: node, uncertainty_ticks, events, marks, iterations }
}

/// The marks of iterations that all ranks still know: rings may have kept more of one rank than of another.
fn in_common(ranks: Vec<RankCheck>) -> Vec<MarkTimes> {
    let mut known_by: BTreeMap<u64, usize> = BTreeMap::new();
    for rank in &ranks {
        rank.iterations.iter().for_each(|iteration| *known_by.entry(*iteration).or_default() += 1);
    }
    let count = ranks.len();
    let common = |rank: RankCheck| {
        let RankCheck { iterations, marks, .. } = rank;
        let kept = || (0..iterations.len()).filter(|at| known_by[&iterations[*at]] == count);
        let picked = |ticks: &[u64]| kept().filter_map(|at| ticks.get(at).copied()).collect::<Vec<u64>>();
        MarkTimes { enter_ticks: picked(&marks.enter_ticks), exit_ticks: picked(&marks.exit_ticks), ..marks }
    };
    ranks.into_iter().map(common).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rank: u32, from: u64, enters: &[u64]) -> RankCheck {
        RankCheck {
            is_miscounted: false,
            calls: Excerpt::default(),
            iterations: (from..from + enters.len() as u64).collect(),
            marks: MarkTimes {
                rank,
                first_iteration: 5,
                enter_ticks: enters.to_vec(),
                exit_ticks: enters.iter().map(|ticks| ticks + 3).collect(),
                uncertainty_ticks: 0,
            },
        }
    }

    #[test]
    fn a_ring_that_kept_more_of_one_rank_breaks_nothing() {
        let ranks = vec![check(0, 5, &[10, 20, 30, 40]), check(1, 7, &[31, 41])];
        let common = in_common(ranks);
        assert_eq!((&common[0].enter_ticks, &common[1].enter_ticks), (&vec![30, 40], &vec![31, 41]));
        assert_eq!(verify(&common, true), Verdict::Holds { checked: 2 });
    }
}
