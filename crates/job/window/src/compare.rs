//! Two windows of a job beside each other: how much longer an iteration takes, and who came meanwhile.
//!
//! Windows before and after another job has come are ScoPro's way to see what sharing a machine costs: the ratio of the
//! times per iteration is the slowdown. A difference is only called one where the intervals of both leave no doubt.
//!
//! Next: `trimtab_types::comparison` for the result.

use std::collections::BTreeMap;
use trimtab_types::comparison::{Change, Companion, Comparison, SCHEMA, Side};
use trimtab_types::report::{Estimate, NeighbourKind, Presence, Report};

/// Compares the window `after` with `before`.
pub fn compare(before: &Report, after: &Report) -> Comparison {
    let both_valid = before.window.valid && after.window.valid;
    let change = |of: fn(&Report) -> Option<Estimate>| {
        of(before).zip(of(after)).filter(|_| both_valid).map(|(before, after)| change(&before, &after))
    };
    let (first, second) = (guests(before), guests(after));
    Comparison {
        schema: SCHEMA.to_owned(),
        job: after.job.id.clone(),
        before: side(before),
        after: side(after),
        time_per_iteration_s: change(|report| report.time_per_iteration_s),
        communication_fraction: change(|report| report.communication_fraction),
        came: missing_in(&second, &first),
        left: missing_in(&first, &second),
        warnings: warnings(before, after),
    }
}

fn side(report: &Report) -> Side {
    Side {
        number: report.window.number,
        started_unix_s: report.window.started_unix_s,
        valid: report.window.valid,
        event: report.window.event.clone(),
        time_per_iteration_s: report.time_per_iteration_s,
        communication_fraction: report.communication_fraction,
    }
}

/// The two were measured apart, so their errors add up as squares.
fn change(before: &Estimate, after: &Estimate) -> Change {
    let difference = after.mean - before.mean;
    let half_width_95 = before.half_width_95.zip(after.half_width_95).map(|(a, b)| a.hypot(b));
    Change {
        difference,
        half_width_95,
        ratio: (before.mean > 0.0).then(|| after.mean / before.mean),
        significant: half_width_95.map(|half_width| difference.abs() > half_width),
    }
}

type Companions = BTreeMap<(NeighbourKind, String), Companion>;

/// The others on a machine when the window ended.
fn guests(report: &Report) -> Companions {
    let mut guests = Companions::new();
    for node in &report.nodes {
        for one in node.neighbours.iter().filter(|one| one.presence != Presence::Left) {
            let guest = || Companion {
                kind: one.kind,
                name: one.name.clone(),
                program: one.program.clone(),
                hosts: Vec::new(),
            };
            let known = guests.entry((one.kind, one.name.clone())).or_insert_with(guest);
            known.hosts.push(node.host.clone());
        }
    }
    guests
}

fn missing_in(some: &Companions, others: &Companions) -> Vec<Companion> {
    some.iter().filter(|(who, _)| !others.contains_key(*who)).map(|(_, guest)| guest.clone()).collect()
}

fn warnings(before: &Report, after: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    for report in [before, after].into_iter().filter(|report| !report.window.valid) {
        warnings.push(format!("window {} is not valid: its numbers are not compared", report.window.number));
    }
    if before.window.marker != after.window.marker {
        let name = |report: &Report| report.window.marker.clone().unwrap_or_else(|| "time".to_owned());
        warnings.push(format!(
            "iterations were counted by {} and by {}: they may not be the same ones",
            name(before),
            name(after)
        ));
    }
    if before.window.groups != after.window.groups {
        warnings.push("different groups of functions were measured, which cost differently".to_owned());
    }
    if before.nodes.is_empty() || after.nodes.is_empty() {
        warnings.push("who shared the machines was not recorded with both windows".to_owned());
    }
    warnings
}
