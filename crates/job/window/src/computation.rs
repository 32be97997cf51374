//! The computation of ranks: who computes longest, and the part of it in which a rank did not run.
//!
//! Next: `explain` and `assumed`, which look for the cause.

use trimtab_types::report::{Cause, NodeShare, RankPlace, RankTotal};

/// Share of its computation below which a rank was kept from its processor.
pub(crate) const STARVED_COMPUTATION_SHARE: f64 = 0.9;

/// Sleep is worth a word from this share of the computation on.
pub(crate) const MUCH_SLEEP: f64 = 0.1;

/// Part of the time in which a rank did not run from which on it is called asleep.
const SLEPT_PART_MIN: f64 = 0.5;

/// Counts are in proportion to computation if their ratios differ by no more than this share.
pub(crate) const PROPORTION_TOLERANCE: f64 = 0.15;

/// And if they hold at least this part of the difference.
pub(crate) const EXPLAINED_SHARE_MIN: f64 = 0.33;

/// A cause and the facts it rests on.
pub(crate) type Explained = (Cause, String);

/// The rank that computes longest and the one that computes shortest; `None`: there is nobody to compare.
pub(crate) fn extremes(ranks: &[RankTotal]) -> Option<(&RankTotal, &RankTotal)> {
    let by_computation = |a: &&RankTotal, b: &&RankTotal| computation_s(a).total_cmp(&computation_s(b));
    let known = || ranks.iter().filter(|rank| rank.computation_s.is_some());
    let longest = known().rev().max_by(by_computation)?;
    let shortest = known().min_by(by_computation)?;
    (ranks.len() >= 2 && computation_s(longest) > 0.0).then_some((longest, shortest))
}

/// Computation of a rank; where that is not known it is no number, and every comparison with it is false.
pub(crate) fn computation_s(rank: &RankTotal) -> f64 {
    rank.computation_s.unwrap_or(f64::NAN)
}

/// Time for which job control was seen to hold a rank; `None`: nobody could look.
pub(crate) fn stopped_s(places: &[RankPlace], rank: u32) -> Option<f64> {
    places.iter().filter(|place| place.rank == rank).filter_map(|place| place.stopped_s).max_by(f64::total_cmp)
}

/// Seconds of its computation in which a rank neither ran nor waited for a processor nor was held: it slept, or waited for a file
/// or a device. `None`: that is not most of what it did not run, or not known.
pub(crate) fn slept_s(nodes: &[NodeShare], rank: &RankTotal) -> Option<f64> {
    let all =
        nodes.iter().filter(|node| node.seconds > 0.0).flat_map(|node| node.places.iter().map(move |at| (node, at)));
    let (node, place) = all.into_iter().find(|(_, place)| place.rank == rank.rank)?;
    let missing_s = computation_s(rank) - rank.cpu_s?;
    // Its waits in communication are in that, too: then it slept less than is said here.
    let waited_s = place.waited_s? * (rank.duration_s / node.seconds).min(1.0);
    let slept_s = missing_s - waited_s - place.stopped_s?;
    (missing_s > 0.0 && slept_s >= SLEPT_PART_MIN * missing_s).then_some(slept_s)
}

/// Part of the time in which threads of a rank were ready to run and had no processor; `None`: the kernel does not say.
pub(crate) fn waited_share(nodes: &[NodeShare], rank: &RankTotal) -> Option<f64> {
    let node = nodes.iter().find(|node| node.host == rank.host && node.seconds > 0.0)?;
    let place = node.places.iter().find(|place| place.rank == rank.rank)?;
    Some(place.waited_s? / node.seconds)
}

/// True if a rank had no processor for a part of its computation and may have wanted one: its time then depends on what else ran.
pub(crate) fn is_displaced(nodes: &[NodeShare], rank: &RankTotal) -> bool {
    rank.cpu_s.is_some_and(|cpu| cpu < STARVED_COMPUTATION_SHARE * computation_s(rank))
        && slept_s(nodes, rank).is_none()
}

/// "for 1.20 s of the 2.00 s that it computed it slept".
pub(crate) fn asleep(slept_s: f64, rank: &RankTotal) -> String {
    format!(
        "for at least {slept_s:.2} s of the {:.2} s that it computed it slept, or waited for a file or a device",
        computation_s(rank)
    )
}
