//! The others on the job's machines, in sentences: one for each machine, and only where there is something to say.
//!
//! Next: `words.rs`, which puts them beside the other facts.

use crate::clean::clean;
use crate::units::{bytes, counted, percent, significant, time};
use trimtab_types::report::{
    Closeness, Event, Limit, Neighbour, NeighbourKind, NodeShare, Oversubscription, Presence, Report,
};

/// Machines described, neighbours named of each.
const NODES_SHOWN_MAX: usize = 8;
const NAMED_MAX: usize = 3;
/// Below this share of the time nothing is said of what the host gave to others.
const STEAL_SHOWN_MIN: f64 = 0.001;

/// "n1 with Slurm job 12.0 (2 ranks of cg on processors 4-5, the same as rank 1), 31% busy".
pub(crate) fn sharing(report: &Report) -> Option<String> {
    let shared: Vec<&NodeShare> = report.nodes.iter().filter(|node| !node.neighbours.is_empty()).collect();
    let mut sentences: Vec<String> = shared.iter().take(NODES_SHOWN_MAX).map(|node| of_node(node)).collect();
    if shared.len() > NODES_SHOWN_MAX {
        sentences.push(format!("and {}", counted((shared.len() - NODES_SHOWN_MAX) as u64, "more machine")));
    }
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

fn of_node(node: &NodeShare) -> String {
    let named: Vec<String> = node.neighbours.iter().take(NAMED_MAX).map(who).collect();
    let more = (node.neighbours.len() - named.len()) as u64 + u64::from(node.neighbours_left_out);
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} with {}{and_more}", clean(&node.host), named.join(", "))
}

/// A neighbour with all that matters.
pub(crate) fn who(one: &Neighbour) -> String {
    let name = match one.kind {
        NeighbourKind::Slurm => format!("Slurm job {}", clean(&one.name)),
        NeighbourKind::Mpi => format!("MPI job {}", clean(&one.name)),
        NeighbourKind::User => format!("user {}", clean(&one.name)),
    };
    let size = match one.ranks {
        0 => counted(u64::from(one.processes), "process"),
        ranks => counted(u64::from(ranks), "rank"),
    };
    let place = if one.cpus_seen.is_empty() {
        String::new()
    } else {
        format!(" on processors {}{}", clean(&one.cpus_seen), nearness(one))
    };
    let presence = match one.presence {
        Presence::Came => ", which came meanwhile",
        Presence::Left => ", which left meanwhile",
        Presence::Throughout => "",
    };
    let busy = one.busy_processors.map_or_else(String::new, |busy| format!(", {} of a processor busy", percent(busy)));
    format!("{name} ({size} of {}{place}){busy}{presence}", clean(&one.program))
}

fn nearness(one: &Neighbour) -> String {
    let ranks = one.with_ranks.iter().take(NAMED_MAX).map(u32::to_string).collect::<Vec<_>>().join(", ");
    let more = if one.with_ranks.len() > NAMED_MAX { ", ..." } else { "" };
    let noun = if one.with_ranks.len() == 1 { "rank" } else { "ranks" };
    match one.shares {
        Closeness::Core => format!(", the same as {noun} {ranks}{more}"),
        Closeness::Smt => format!(", in the same cores as {noun} {ranks}{more}"),
        Closeness::Cache => format!(", in one cache with {noun} {ranks}{more}"),
        Closeness::Numa | Closeness::Machine => String::new(),
    }
}

/// The time that hosts of virtual machines gave to others.
pub(crate) fn stolen(report: &Report) -> Option<String> {
    let stolen = report.nodes.iter().filter_map(|node| Some((node, node.steal?)));
    let (node, most) = stolen.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, most)| *most >= STEAL_SHOWN_MIN)?;
    Some(format!(
        "{} of the processors' time was given to others by the host, most on {}",
        percent(most),
        clean(&node.host)
    ))
}

/// The limits of control groups, and what they kept from the ranks.
pub(crate) fn limits(report: &Report) -> Option<String> {
    let all = report.nodes.iter().flat_map(|node| node.limits.iter().map(move |limit| (node, limit)));
    let texts: Vec<String> = all.map(|(node, limit)| of_limit(node, limit)).collect();
    let shown = texts.len().min(NODES_SHOWN_MAX);
    let more = if texts.len() > shown { format!("; and {} more", texts.len() - shown) } else { String::new() };
    (!texts.is_empty()).then(|| texts[..shown].join("; ") + &more)
}

/// True if some rank was kept from running by its group's quota.
pub(crate) fn is_throttled(report: &Report) -> bool {
    let limits = report.nodes.iter().flat_map(|node| &node.limits);
    limits.into_iter().any(|limit| limit.throttled_s.is_some_and(|seconds| seconds > 0.0))
}

fn of_limit(node: &NodeShare, limit: &Limit) -> String {
    let mut parts = Vec::new();
    parts.extend(limit.processors.map(|some| format!("{} processors", significant(some, 3))));
    if let Some(seconds) = limit.throttled_s.filter(|seconds| *seconds > 0.0) {
        let periods =
            limit.throttled_periods.map_or_else(String::new, |share| format!(" in {} of its periods", percent(share)));
        parts.push(format!("used up{periods}, {} lost in {}", time(seconds), time(node.seconds)));
    }
    if let Some(most) = limit.memory_bytes_max {
        let used = limit.memory_bytes.map_or_else(String::new, |used| format!("{} of ", bytes(used as f64)));
        parts.push(format!("{used}{} memory", bytes(most as f64)));
    }
    format!("{} on {}: {}", clean(&limit.group), clean(&node.host), parts.join(", "))
}

/// True if ranks of the job keep each other from their processors, as far as that is known.
pub(crate) fn is_oversubscribed(report: &Report) -> bool {
    report.nodes.iter().any(|node| node.oversubscribed.as_ref().is_some_and(|some| !some.is_empty()))
}

/// "node1: 4 ranks (0, 1, 2, ...) on 2 processors (affinity), of which they wanted 3.9 and had 2".
pub(crate) fn oversubscribed(report: &Report) -> Option<String> {
    let of_node = |node: &'_ NodeShare| {
        let crowds = node.oversubscribed.clone().unwrap_or_default();
        crowds.into_iter().map(|crowd| format!("{}: {}", clean(&node.host), of_crowd(&crowd))).collect::<Vec<_>>()
    };
    let texts: Vec<String> = report.nodes.iter().flat_map(of_node).collect();
    let shown = texts.len().min(NODES_SHOWN_MAX);
    let more = if texts.len() > shown { format!("; and {} more", texts.len() - shown) } else { String::new() };
    (!texts.is_empty()).then(|| texts[..shown].join("; ") + &more)
}

fn of_crowd(crowd: &Oversubscription) -> String {
    let ranks = crowd.ranks.iter().take(NAMED_MAX).map(u32::to_string).collect::<Vec<_>>().join(", ");
    let more = if crowd.ranks.len() > NAMED_MAX { ", ..." } else { "" };
    let is_whole = crowd.processors.fract() == 0.0;
    let processors = if is_whole { format!("{}", crowd.processors) } else { significant(crowd.processors, 3) };
    let noun = if crowd.processors == 1.0 { "processor" } else { "processors" };
    let wanted = crowd.processors_wanted.zip(crowd.processors_had).map_or_else(String::new, |(wanted, had)| {
        format!(", of which they wanted {} at a time and had {}", significant(wanted, 2), significant(had, 2))
    });
    let count = counted(crowd.ranks.len() as u64, "rank");
    format!("{count} ({ranks}{more}) on {processors} {noun} ({}){wanted}", crowd.limited_by)
}

/// The event that a window waited for.
pub(crate) fn event(event: &Event) -> String {
    let (condition, value) = (clean(&event.condition), clean(&event.value));
    if value.is_empty() { condition } else { format!("{condition}: {value}") }
}
