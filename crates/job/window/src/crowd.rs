//! Sentences about ranks of the job that share too few processors: who they are, and what that does to the numbers.
//!
//! Next: `headline`, which says them; `explain`, for which own ranks are nobody else.

use crate::words::name_ranks;
use serde::{Deserialize, Serialize};
use trimtab_types::report::{CrowdLimit, CrowdedNode, NodeShare, Oversubscription, RankTotal, Report};

/// Threads that had this part of the processors they wanted hardly waited for any.
const HAD_SHARE_MIN: f64 = 0.95;

/// The groups of ranks that share too few processors, and the most crowded of them. It merges with that of other machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Crowds {
    pub groups: u64,
    pub worst: Option<CrowdedNode>,
    /// In one of them ranks kept each other from their processors.
    pub is_any: bool,
}

impl Crowds {
    /// Of one machine.
    pub(crate) fn of(node: &NodeShare) -> Crowds {
        let mut all = Crowds::default();
        for crowd in crowds(node) {
            let worst = Some(CrowdedNode { host: node.host.clone(), group: crowd.clone() });
            all.merge(&Crowds { groups: 1, worst, is_any: !hardly_waited(crowd) });
        }
        all
    }

    pub(crate) fn merge(&mut self, other: &Crowds) {
        self.groups = self.groups.saturating_add(other.groups);
        self.is_any |= other.is_any;
        let is_worse = match (&self.worst, &other.worst) {
            (Some(one), Some(other)) => comes_before(other, one),
            (None, Some(_)) => true,
            _ => false,
        };
        if is_worse {
            self.worst.clone_from(&other.worst);
        }
    }
}

/// The more crowded one; of equal ones that on the first machine, and with the lowest rank there.
fn comes_before(one: &CrowdedNode, other: &CrowdedNode) -> bool {
    let place = |of: &CrowdedNode| (of.host.clone(), of.group.ranks.first().copied());
    let by_need = need(&other.group).total_cmp(&need(&one.group));
    by_need.then_with(|| place(one).cmp(&place(other))).is_lt()
}

/// All of the report, in one sentence or two; `None`: no ranks are known to share too few processors.
pub(crate) fn sentence(report: &Report) -> Option<String> {
    let all = of_report(report);
    let CrowdedNode { host, group: worst } = all.worst.as_ref()?;
    let machines = report.reduced.as_ref().map_or(report.nodes.len(), |reduced| reduced.nodes.len());
    let place = match (machines, all.groups) {
        (1, 1) => String::new(),
        (_, 1) => format!(" on {host}"),
        (_, groups) => format!(" on {host}, the most crowded of {groups} groups of ranks"),
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
/// too many: "the threads of rank 1 want 1.5 processors at a time and may use 1"; "rank 1 may use 0.50 processors".
pub(crate) fn short(crowd: &Oversubscription) -> String {
    let has_quota = crowd.limited_by == CrowdLimit::Quota;
    let quota = |whose: &str| if has_quota { format!(" that {whose} control group allows") } else { String::new() };
    let wanted = |want: &str| {
        let wanted = crowd.processors_wanted;
        wanted.map_or_else(String::new, |wanted| format!(" and {want} {wanted:.1} of them at a time"))
    };
    let (ranks, share) = (name_ranks(&crowd.ranks), processors(crowd.processors));
    match crowd.processors_wanted.filter(|_| !has_too_many_ranks(crowd)) {
        Some(wanted) => format!(
            "the threads of {ranks} want {wanted:.1} processors at a time and may use {}{}",
            number(crowd.processors),
            quota("their")
        ),
        None if crowd.ranks.len() == 1 => format!("{ranks} may use {share}{}{}", quota("its"), wanted("wants")),
        None => format!("{ranks} share {share}{}{}", quota("their"), wanted("want")),
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
    of_report(report).is_any
}

fn of_report(report: &Report) -> Crowds {
    if let Some(reduced) = &report.reduced {
        let (worst, is_any) = (reduced.most_crowded.clone(), reduced.crowds_waited);
        return Crowds { groups: u64::from(reduced.crowds), worst, is_any };
    }
    let mut all = Crowds::default();
    report.nodes.iter().for_each(|node| all.merge(&Crowds::of(node)));
    all
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
