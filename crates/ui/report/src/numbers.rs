//! Numbers that are computed from a report for display: shares, spreads over ranks, sums of links, who is extreme.
//!
//! Nothing here formats; every function says by its type when there is nothing to show.
//!
//! Next: `words.rs`, `terminal.rs` and `html.rs` print these.

use crate::omp;
use trimtab_types::report::{FunctionGroup, Link, RankTotal, Report};

/// Cost above which every page warns: share of the window's time.
pub(crate) const COST_BAR: f64 = 0.02;

/// CPU time above this share of wall time means several busy threads.
const ONE_THREAD_CPU_SHARE_MAX: f64 = 1.05;

/// A distribution over ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub min: f64,
    pub lower_quartile: f64,
    pub median: f64,
    pub upper_quartile: f64,
    pub max: f64,
}

/// A counter summed over the ranks that measured it.
pub(crate) struct Counted {
    pub sum: u64,
    pub ranks: usize,
    /// Rank with the largest value, and the value.
    pub largest: (u32, u64),
}

/// Sums over all links.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Traffic {
    pub bytes: u64,
    pub messages: u64,
    pub collective_bytes: u64,
    pub collective_messages: u64,
    pub unattributed_bytes: u64,
}

/// `part / whole` where that is a number.
pub(crate) fn ratio(part: f64, whole: f64) -> Option<f64> {
    let ratio = part / whole;
    (whole > 0.0 && ratio.is_finite()).then_some(ratio)
}

/// True if communication was measured at all; in older reports the ranks' zeros mean nothing where it was not.
pub(crate) fn communication_measured(report: &Report) -> bool {
    let was_asked = report.window.groups.iter().any(|group| matches!(group, FunctionGroup::Comm | FunctionGroup::All));
    let is_known = report.ranks.iter().all(|rank| rank.communication_s.is_some());
    is_known && (report.communication_fraction.is_some() || was_asked)
}

/// Threads of one rank whose times are summed, at most; `None`: no time of a report is known to be such a sum. A share of
/// more than the whole time is one even where no two threads communicate.
pub(crate) fn threads_summed(report: &Report) -> Option<u32> {
    let communicating = match &report.reduced {
        Some(reduced) => reduced.communication_threads_max.unwrap_or(0),
        None => report.ranks.iter().filter_map(|rank| rank.communication_threads).max().unwrap_or(0),
    };
    let whole_s = rank_seconds(report) * (1.0 + ROUNDING);
    let is_above = report
        .functions
        .iter()
        .filter(|function| function.group != omp::GROUP)
        .any(|function| function.time_s.is_some_and(|time_s| time_s > whole_s));
    (communicating > 1 || is_above).then_some(communicating)
}

/// Borders of windows and calls are rounded to ticks.
const ROUNDING: f64 = 1e-6;

/// Sum of the ranks' recorded times, seconds: what a function's share is a share of.
pub(crate) fn rank_seconds(report: &Report) -> f64 {
    if let Some(reduced) = &report.reduced {
        return reduced.duration_s.mean * f64::from(reduced.ranks);
    }
    report.ranks.iter().map(|rank| rank.duration_s).sum()
}

/// Quartiles by linear interpolation between sorted values; `None`: there are no finite ones.
pub(crate) fn spread(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let at = |share: f64| {
        let place = share * (sorted.len() - 1) as f64;
        let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        below + (above - below) * place.fract()
    };
    Some(Spread { min, lower_quartile: at(0.25), median: at(0.5), upper_quartile: at(0.75), max })
}

/// Ranks that were measured, whether the report has their details or not.
pub(crate) fn rank_count(report: &Report) -> usize {
    report.reduced.as_ref().map_or(report.ranks.len(), |reduced| reduced.ranks as usize)
}

/// A rank's CPU time over its wall time; above 1 with several busy threads.
pub(crate) fn cpu_share(rank: &RankTotal) -> Option<f64> {
    ratio(rank.cpu_s?, rank.duration_s)
}

/// A rank's communication time over its wall time.
pub(crate) fn communication_share(rank: &RankTotal) -> Option<f64> {
    ratio(rank.communication_s?, rank.duration_s)
}

/// Processors that a rank's threads wanted on average: time in which they ran or were ready to, over time. Where the kernel does
/// not say how long they were ready, what they had.
fn wanted(report: &Report, rank: &RankTotal) -> Option<f64> {
    let node = report.nodes.iter().find(|node| node.host == rank.host && node.seconds > 0.0);
    let place = node.and_then(|node| Some((node, node.places.iter().find(|place| place.rank == rank.rank)?)));
    let waited = place.and_then(|(node, place)| Some(place.waited_s? / node.seconds));
    Some(cpu_share(rank)? + waited.unwrap_or(0.0))
}

/// At least this share of communication time was spent on the CPU: (CPU - computation) / communication of the sums over
/// ranks. `None` where CPU time is missing, several threads were or wanted to be busy, or nothing was communicated.
pub(crate) fn polling_share(report: &Report) -> Option<f64> {
    let has_teams = report.omp.as_ref().and_then(|omp| omp.threads).is_some_and(|all| all > report.ranks.len() as u64);
    if !communication_measured(report) || has_teams || report.reduced.is_some() {
        return None;
    }
    let (mut on_cpu_s, mut communication_s) = (0.0, 0.0);
    for rank in &report.ranks {
        if wanted(report, rank)? > ONE_THREAD_CPU_SHARE_MAX {
            return None;
        }
        let in_communication_s = rank.communication_s?;
        on_cpu_s += (rank.cpu_s? - rank.computation_s?).clamp(0.0, in_communication_s);
        communication_s += in_communication_s;
    }
    ratio(on_cpu_s, communication_s)
}

/// Sums a counter over the ranks that have it; `None`: none has, or those of all ranks are not in the report.
pub(crate) fn counted(report: &Report, counter: impl Fn(&RankTotal) -> Option<u64>) -> Option<Counted> {
    if report.reduced.is_some() {
        return None;
    }
    let values: Vec<(u32, u64)> = report.ranks.iter().filter_map(|rank| Some((rank.rank, counter(rank)?))).collect();
    let largest = values.iter().rev().max_by_key(|(_, value)| *value)?;
    let sum = values.iter().fold(0, |sum: u64, (_, value)| sum.saturating_add(*value));
    Some(Counted { sum, ranks: values.len(), largest: *largest })
}

/// Sums over all links, and what could not be put on one.
pub(crate) fn traffic(report: &Report) -> Traffic {
    let mut traffic = Traffic::default();
    for link in &report.links {
        traffic.bytes = traffic.bytes.saturating_add(link.bytes);
        traffic.messages = traffic.messages.saturating_add(link.messages);
        traffic.collective_bytes = traffic.collective_bytes.saturating_add(link.collective_bytes);
        traffic.collective_messages = traffic.collective_messages.saturating_add(link.collective_messages);
    }
    if let Some(reduced) = &report.reduced {
        return Traffic { unattributed_bytes: reduced.unattributed_bytes.unwrap_or(0), ..traffic };
    }
    for unnamed in report.ranks.iter().filter_map(|rank| rank.unattributed_bytes) {
        traffic.unattributed_bytes = traffic.unattributed_bytes.saturating_add(unnamed);
    }
    traffic
}

/// Links by bytes, most first; equal ones by rank.
pub(crate) fn heaviest_links(report: &Report) -> Vec<&Link> {
    let mut links: Vec<&Link> = report.links.iter().collect();
    links.sort_by_key(|link| (std::cmp::Reverse(link.bytes), link.from, link.to));
    links
}

/// Seconds inside each measured group other than communication, summed over ranks, in order of appearance.
pub(crate) fn group_seconds(report: &Report) -> Vec<(FunctionGroup, f64)> {
    let mut sums: Vec<(FunctionGroup, f64)> = Vec::new();
    let of_all = report.reduced.iter().flat_map(|reduced| &reduced.group_s);
    let of_each = report.ranks.iter().filter(|_| report.reduced.is_none()).flat_map(|rank| &rank.group_s);
    for part in of_all.chain(of_each) {
        match sums.iter_mut().find(|(group, _)| *group == part.group) {
            Some((_, sum)) => *sum += part.time_s,
            None => sums.push((part.group, part.time_s)),
        }
    }
    sums
}

/// Ranks by computation time, longest first; equal ones by rank.
pub(crate) fn by_computation(report: &Report) -> Vec<&RankTotal> {
    let mut ranks: Vec<&RankTotal> = report.ranks.iter().collect();
    ranks.sort_by(|a, b| computation_order(b, a).then(a.rank.cmp(&b.rank)));
    ranks
}

/// By computation time; ranks of which it is not known come first.
pub(crate) fn computation_order(a: &RankTotal, b: &RankTotal) -> std::cmp::Ordering {
    let order = |rank: &RankTotal| rank.computation_s.unwrap_or(f64::NEG_INFINITY);
    order(a).total_cmp(&order(b))
}

/// Number of ranks of the world, as far as anything in the report shows.
pub(crate) fn world_size(report: &Report) -> u32 {
    let ranks = report.ranks.iter().map(|rank| rank.rank);
    let linked = report.links.iter().flat_map(|link| [link.from, link.to]);
    ranks.chain(linked).map(|rank| rank.saturating_add(1)).max().unwrap_or(0).max(report.job.ranks)
}

/// Bytes from rank (row) to rank (column), grouped so that there are at most `side_max` rows; with the ranks per row.
pub(crate) fn volume_matrix(report: &Report, side_max: usize) -> (Vec<Vec<u64>>, usize) {
    let world = world_size(report) as usize;
    let per_row = world.div_ceil(side_max.max(1)).max(1);
    let side = world.div_ceil(per_row);
    let mut matrix = vec![vec![0u64; side]; side];
    for link in &report.links {
        let cell = &mut matrix[link.from as usize / per_row][link.to as usize / per_row];
        *cell = cell.saturating_add(link.bytes);
    }
    (matrix, per_row)
}

/// True if ranks were often put off their cores by other work: time off the CPU then says nothing about waiting.
pub(crate) fn is_displaced(report: &Report) -> bool {
    let switches: u64 = report.ranks.iter().filter_map(|rank| rank.involuntary_switches).sum();
    report.reduced.is_none() && switches > 0 && switches as f64 > DISPLACED_PER_SECOND * rank_seconds(report)
}

/// Involuntary context switches per second of a rank above which its core is taken to be shared.
const DISPLACED_PER_SECOND: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        let of = |values: &[f64]| {
            spread(values.iter().copied()).map(|s| [s.min, s.lower_quartile, s.median, s.upper_quartile, s.max])
        };
        let rows = [
            ("none", vec![], None),
            ("one", vec![3.0], Some([3.0; 5])),
            ("unsorted", vec![4.0, 0.0, 1.0, 3.0, 2.0], Some([0.0, 1.0, 2.0, 3.0, 4.0])),
            ("between", vec![0.0, 1.0], Some([0.0, 0.25, 0.5, 0.75, 1.0])),
            ("not finite", vec![f64::NAN, 1.0, f64::INFINITY], Some([1.0; 5])),
        ];
        for (name, values, expected) in rows {
            assert_eq!(of(&values), expected, "{name}");
        }
    }

    #[test]
    fn ratios_need_a_whole() {
        assert_eq!([ratio(1.0, 4.0), ratio(1.0, 0.0), ratio(f64::NAN, 1.0)], [Some(0.25), None, None]);
    }
}
