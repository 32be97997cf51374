//! One anchor for the whole job, from the loops its ranks were found to run.
//!
//! Each rank votes for every symbol that happens once per iteration of its loop; the symbol most ranks share is the
//! job's anchor. A rank without it (a master, a boundary) counts its own nearest once-per-iteration symbol instead.
//!
//! Next: `align`, which finds out which iterations of the ranks are the same.

use crate::detect::FoundLoop;
use crate::event::{CallEvent, Symbol};
use crate::formulas::median;
use crate::level::{SymbolTable, intervals};
use std::collections::BTreeMap;

/// How far a rank's time per iteration may be from the job's, as a share of it.
const RATE_TOLERANCE: f64 = 0.25;

/// What one rank brings to the agreement.
#[derive(Clone, Copy, Debug)]
pub struct RankLoop<'a> {
    /// World rank.
    pub rank: u32,
    /// Its loop; `None`: none was found.
    pub found: Option<&'a FoundLoop>,
    /// The events the loop was found in.
    pub events: &'a [CallEvent],
}

/// The job's anchor and what stands for it on each rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// The symbol that counts iterations on most ranks.
    pub anchor: Symbol,
    /// It synchronises all ranks of `MPI_COMM_WORLD`.
    pub anchor_synchronises: bool,
    /// Median over ranks of the median time of one iteration, ticks.
    pub time_per_iteration_ticks: f64,
    /// In the order of the input.
    pub ranks: Vec<RankAnchor>,
    /// For a reader: how many ranks share the anchor and what the others use.
    pub explanation: String,
}

/// What counts iterations on one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct RankAnchor {
    /// World rank.
    pub rank: u32,
    /// Its anchor.
    pub anchor: Symbol,
    /// True if it is the job's.
    pub is_common: bool,
    /// Events of this rank that are calls of its anchor.
    pub occurrences: Vec<usize>,
}

/// Why the ranks cannot count iterations together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Disagreement {
    /// No rank was given.
    #[error("no rank to agree about; attach to at least one rank")]
    NoRanks,
    /// No call site is shared by most ranks.
    #[error(
        "no call happens once per iteration on more than half of the {ranks} ranks (the most shared one on {votes}); \
         name a function with --mark or measure by time"
    )]
    NoMajority {
        /// Ranks that took part.
        ranks: usize,
        /// Ranks that share the most shared symbol.
        votes: usize,
    },
    /// Some ranks have no call that keeps pace with the job's anchor.
    #[error(
        "ranks {ranks:?} make no MPI call once per iteration of the others; name a function with --mark or measure by \
         time"
    )]
    RanksWithoutAnchor {
        /// World ranks concerned.
        ranks: Vec<u32>,
    },
}

/// Agrees on one anchor by majority; ranks lacking it use their nearest once-per-iteration symbol.
///
/// # Errors
/// See [`Disagreement`]; every variant leaves the choice of a named function or a window by time.
pub fn agree(per_rank: &[RankLoop]) -> Result<Agreement, Disagreement> {
    if per_rank.is_empty() {
        return Err(Disagreement::NoRanks);
    }
    let (anchor, votes) = elect(per_rank);
    let Some(anchor) = anchor.filter(|_| 2 * votes > per_rank.len()) else {
        return Err(Disagreement::NoMajority { ranks: per_rank.len(), votes });
    };
    let pace = common_pace(per_rank, anchor);
    let mut ranks = Vec::with_capacity(per_rank.len());
    let mut without = Vec::new();
    for one in per_rank {
        match stand_in(one, anchor, pace, per_rank) {
            Some(found) => ranks.push(found),
            None => without.push(one.rank),
        }
    }
    if !without.is_empty() {
        return Err(Disagreement::RanksWithoutAnchor { ranks: without });
    }
    let explanation = explain(&ranks);
    let anchor_synchronises = synchronises(per_rank, anchor) && ranks.iter().all(|rank| rank.is_common);
    Ok(Agreement { anchor, anchor_synchronises, time_per_iteration_ticks: pace, ranks, explanation })
}

/// The symbol with most votes; among equals the one most ranks chose themselves, then a synchronising one.
fn elect(per_rank: &[RankLoop]) -> (Option<Symbol>, usize) {
    let mut votes: BTreeMap<Symbol, (usize, usize)> = BTreeMap::new();
    for found in per_rank.iter().filter_map(|one| one.found) {
        for symbol in &found.once_per_iteration {
            let entry = votes.entry(*symbol).or_default();
            entry.0 += 1;
            entry.1 += usize::from(*symbol == found.anchor);
        }
    }
    let most = votes.values().map(|(shared, _)| *shared).max().unwrap_or(0);
    votes.retain(|_, (shared, _)| *shared == most);
    let best = votes
        .iter()
        .max_by_key(|(symbol, (_, chosen))| (synchronises(per_rank, **symbol), *chosen, std::cmp::Reverse(**symbol)));
    (best.map(|(symbol, _)| *symbol), best.map_or(0, |(_, (shared, _))| *shared))
}

fn synchronises(per_rank: &[RankLoop], symbol: Symbol) -> bool {
    let calls = || per_rank.iter().flat_map(|one| one.events).filter(|event| event.symbol() == symbol);
    calls().next().is_some() && calls().all(CallEvent::synchronises_world)
}

/// Median over the ranks that vote for `anchor` of their time per iteration.
fn common_pace(per_rank: &[RankLoop], anchor: Symbol) -> f64 {
    let paces: Vec<f64> = per_rank
        .iter()
        .filter_map(|one| one.found)
        .filter(|found| found.once_per_iteration.contains(&anchor))
        .map(|found| found.time_per_iteration_ticks)
        .collect();
    median(&paces).unwrap_or(0.0)
}

/// The job's anchor on this rank if it keeps pace there, else the symbol of the same pace nearest in time to it.
fn stand_in(one: &RankLoop, anchor: Symbol, pace: f64, per_rank: &[RankLoop]) -> Option<RankAnchor> {
    let is_common_here = one.found.is_some_and(|found| found.once_per_iteration.contains(&anchor));
    let own: Vec<usize> = occurrences(one.events, anchor);
    if is_common_here || keeps_pace(one.events, &own, pace) {
        return Some(RankAnchor { rank: one.rank, anchor, is_common: true, occurrences: own });
    }
    let table = SymbolTable::new(one.events);
    let reference = reference_times(per_rank, anchor);
    let nearest = (0..table.symbols.len())
        .filter(|id| keeps_pace(one.events, &table.occurrences[*id], pace))
        .map(|id| (distance(one.events, &table.occurrences[id], &reference), id))
        .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
    let occurrences = table.occurrences[nearest.1].clone();
    Some(RankAnchor { rank: one.rank, anchor: table.symbols[nearest.1], is_common: false, occurrences })
}

fn occurrences(events: &[CallEvent], symbol: Symbol) -> Vec<usize> {
    (0..events.len()).filter(|index| events[*index].symbol() == symbol).collect()
}

/// True if both the typical and the mean distance of the calls are about one iteration.
fn keeps_pace(events: &[CallEvent], marks: &[usize], pace: f64) -> bool {
    let times = intervals(events, marks);
    let Some(typical) = median(&times) else { return false };
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let near = |time: f64| (time - pace).abs() <= RATE_TOLERANCE * pace;
    times.len() >= 2 && near(typical) && near(mean)
}

/// Entries of the anchor on the first rank that votes for it.
fn reference_times(per_rank: &[RankLoop], anchor: Symbol) -> Vec<u64> {
    let votes = |one: &&RankLoop| one.found.is_some_and(|found| found.once_per_iteration.contains(&anchor));
    per_rank.iter().find(votes).map_or_else(Vec::new, |one| {
        occurrences(one.events, anchor).iter().map(|index| one.events[*index].enter_ticks).collect()
    })
}

/// Median distance in time from the marks to the nearest reference time.
fn distance(events: &[CallEvent], marks: &[usize], reference: &[u64]) -> f64 {
    let nearest = |ticks: u64| {
        let after = reference.partition_point(|time| *time < ticks);
        let around = [after.checked_sub(1), Some(after)];
        around.into_iter().flatten().filter_map(|i| reference.get(i)).map(|time| time.abs_diff(ticks)).min()
    };
    let gaps: Vec<f64> =
        marks.iter().filter_map(|mark| nearest(events[*mark].enter_ticks)).map(|gap| gap as f64).collect();
    median(&gaps).unwrap_or(f64::MAX)
}

fn explain(ranks: &[RankAnchor]) -> String {
    let others: Vec<String> = ranks.iter().filter(|rank| !rank.is_common).map(|rank| rank.rank.to_string()).collect();
    let shared = ranks.len() - others.len();
    if others.is_empty() {
        return format!("all {shared} ranks share the anchor");
    }
    format!("{shared} of {} ranks share the anchor; ranks {} use their nearest call", ranks.len(), others.join(", "))
}
