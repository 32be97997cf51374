//! Sentences about ranks of the job that share too few processors: who they are, and what that does to the numbers.
//!
//! Next: `headline`, which says them; `explain`, for which own ranks are nobody else.

use crate::words::name_ranks;
use trimtab_types::report::{NodeShare, Oversubscription, RankTotal, Report};

/// Threads that had this part of the processors they wanted hardly waited for any.
const HAD_SHARE_MIN: f64 = 0.95;

/// All of the report, in one sentence or two; `None`: no ranks are known to share too few processors.
pub(crate) fn sentence(report: &Report) -> Option<String> {
    let all: Vec<(&NodeShare, &Oversubscription)> =
        report.nodes.iter().flat_map(|node| crowds(node).map(move |crowd| (node, crowd))).collect();
    let by_need =
        |a: &&(&NodeShare, &Oversubscription), b: &&(&NodeShare, &Oversubscription)| need(a.1).total_cmp(&need(b.1));
    let (node, worst) = all.iter().rev().max_by(by_need)?;
    let place = match (report.nodes.len(), all.len()) {
        (1, 1) => String::new(),
        (_, 1) => format!(" on {}", node.host),
        (_, groups) => format!(" on {}, the most crowded of {groups} groups of ranks", node.host),
    };
    let who = if has_too_many_ranks(worst) { "Ranks" } else { "Threads" };
    let meaning = match hardly_waited(worst) {
        true => ", for which they hardly had to wait".to_owned(),
        false => format!(
            ". {who} that wait in MPI take processors from those that compute, so the share of communication is not what it \
             would be with a processor for each"
        ),
    };
    Some(format!("The job is oversubscribed: {}{place}{meaning}.", short(worst)))
}

/// "ranks 0-3 share 2 processors and want 3.9 of them at a time"; where there is a processor for each rank, their threads are
/// too many: "the threads of rank 1 want 1.5 processors at a time and may use 1".
pub(crate) fn short(crowd: &Oversubscription) -> String {
    let quota = if crowd.limited_by == "quota" { " that their control group allows" } else { "" };
    let wanted =
        crowd.processors_wanted.map_or_else(String::new, |wanted| format!(" and want {wanted:.1} of them at a time"));
    let (ranks, share) = (name_ranks(&crowd.ranks), processors(crowd.processors));
    match crowd.processors_wanted.filter(|_| !has_too_many_ranks(crowd)) {
        Some(wanted) => format!(
            "the threads of {ranks} want {wanted:.1} processors at a time and may use {}{quota}",
            number(crowd.processors)
        ),
        None => format!("{ranks} share {share}{quota}{wanted}"),
    }
}

fn has_too_many_ranks(crowd: &Oversubscription) -> bool {
    crowd.ranks.len() as f64 > crowd.processors
}

/// The group of ranks with too few processors that a rank belongs to.
pub(crate) fn of_rank<'a>(nodes: &'a [NodeShare], rank: &RankTotal) -> Option<&'a Oversubscription> {
    let node = nodes.iter().find(|node| node.host == rank.host)?;
    crowds(node).find(|crowd| crowd.ranks.contains(&rank.rank) && !hardly_waited(crowd))
}

/// True if ranks of the job kept each other from their processors.
pub(crate) fn is_any(report: &Report) -> bool {
    report.nodes.iter().flat_map(crowds).any(|crowd| !hardly_waited(crowd))
}

fn crowds(node: &NodeShare) -> impl Iterator<Item = &Oversubscription> {
    node.oversubscribed.iter().flatten()
}

/// Where that is not known, they may well have waited.
fn hardly_waited(crowd: &Oversubscription) -> bool {
    let known = crowd.processors_wanted.zip(crowd.processors_had);
    known.is_some_and(|(wanted, had)| had >= HAD_SHARE_MIN * wanted)
}

/// How many ranks, or wanted processors, there are for one processor.
fn need(crowd: &Oversubscription) -> f64 {
    (crowd.ranks.len() as f64).max(crowd.processors_wanted.unwrap_or(0.0)) / crowd.processors.max(f64::MIN_POSITIVE)
}

fn processors(count: f64) -> String {
    let plural = if count == 1.0 { "" } else { "s" };
    format!("{} processor{plural}", number(count))
}

fn number(count: f64) -> String {
    if count.fract() == 0.0 { format!("{count}") } else { format!("{count:.2}") }
}
