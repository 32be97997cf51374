//! Two windows beside each other: differences with their intervals, and who came.

use trimtab_types::report::{Estimate, Neighbour, NeighbourKind, NodeShare, Presence, Report};
use trimtab_window::compare;

fn estimate(mean: f64, half_width_95: Option<f64>) -> Option<Estimate> {
    Some(Estimate { mean, variance: None, half_width_95, min: mean, max: mean, samples: 10 })
}

fn report(time_s: f64, half_width_s: Option<f64>, jobs: &[(&str, Presence)]) -> Report {
    let text = r#"{"schema": "trimtab.report/1", "window": {"batch": 0, "trigger": "attach", "marker": "MPI_Allreduce",
        "marker_source": "detected", "start": 1, "iterations": 10, "valid": true, "ended_by": "iterations",
        "duration_s": 1, "started_unix_s": 0, "groups": [], "loop_description": null},
        "job": {"id": "app-1", "program": "app", "arguments": [], "ranks": 2, "mpi": "", "hosts": [], "builds": [],
        "started_unix_s": 0}, "time_per_iteration_s": null, "iterations_per_s": null, "communication_fraction": null,
        "communication_to_computation": null, "imbalance": null, "functions": [], "links": [], "ranks": [],
        "cost": {"pause_us_max": 0, "pause_us_total": 0, "probe_ns": null, "probes": 0, "points": 0, "fraction": null,
        "first_record_s": null}, "warnings": []}"#;
    let mut report: Report = serde_json::from_str(text).expect("a report of before events and neighbours");
    report.time_per_iteration_s = estimate(time_s, half_width_s);
    let neighbour = |(name, presence): &(&str, Presence)| Neighbour {
        kind: NeighbourKind::Slurm,
        name: (*name).into(),
        presence: *presence,
        ..Neighbour::default()
    };
    let neighbours = jobs.iter().map(neighbour).collect();
    report.nodes = vec![NodeShare { host: "n1".into(), neighbours, ..NodeShare::default() }];
    report
}

#[test]
fn differences_have_their_intervals() {
    for (name, before, after, expected) in [
        ("slower", (1.0, Some(0.3)), (2.0, Some(0.4)), (1.0, Some(0.5), Some(2.0), Some(true))),
        ("in the noise", (1.0, Some(0.3)), (1.25, Some(0.4)), (0.25, Some(0.5), Some(1.25), Some(false))),
        ("no interval", (1.0, None), (2.0, Some(0.4)), (1.0, None, Some(2.0), None)),
        ("from nothing", (0.0, Some(0.0)), (2.0, Some(0.5)), (2.0, Some(0.5), None, Some(true))),
    ] {
        let found = compare(&report(before.0, before.1, &[]), &report(after.0, after.1, &[]));
        let change = found.time_per_iteration_s.expect(name);
        let told = (change.difference, change.half_width_95, change.ratio, change.significant);
        assert_eq!(told, expected, "{name}");
        assert_eq!(found.communication_fraction, None, "{name}: it was not measured");
    }
}

#[test]
fn who_came_and_who_left() {
    let before = report(1.0, None, &[("12.0", Presence::Throughout), ("13.0", Presence::Left)]);
    let after =
        report(1.0, None, &[("13.0", Presence::Throughout), ("14.0", Presence::Came), ("12.0", Presence::Left)]);
    let found = compare(&before, &after);
    let names = |guests: &[trimtab_types::comparison::Companion]| {
        guests.iter().map(|guest| format!("{} on {}", guest.name, guest.hosts.join("+"))).collect::<Vec<_>>()
    };
    assert_eq!(names(&found.came), ["13.0 on n1", "14.0 on n1"]);
    assert_eq!(names(&found.left), ["12.0 on n1"]);
}

#[test]
fn what_can_not_be_compared_is_said() {
    let (good, mut bad) = (report(1.0, None, &[]), report(2.0, None, &[]));
    (bad.window.valid, bad.window.marker) = (false, None);
    bad.nodes.clear();
    let found = compare(&good, &bad);
    assert_eq!(found.time_per_iteration_s, None);
    for text in ["window 0 is not valid", "by MPI_Allreduce and by time", "was not recorded with both"] {
        assert!(found.warnings.iter().any(|warning| warning.contains(text)), "{text}: {:?}", found.warnings);
    }
}
