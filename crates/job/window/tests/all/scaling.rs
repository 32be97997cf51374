//! Windows on several numbers of ranks: known laws of scaling, and who is named.

use trimtab_types::report::{Estimate, FunctionGroup, FunctionTotal, LongestRank, RankTotal, Report};
use trimtab_types::scaling::{Growth, LostIn, Scaling, Work};
use trimtab_window::{NoScaling, scaling};

const ITERATIONS: u64 = 10;

/// Seconds of an iteration on each rank: in work that all share, in a function that each calls, in one that rank 0 alone calls;
/// and in MPI the rest, until the longest is ready, and `mpi_s`.
struct Parts {
    shared_s: f64,
    each_s: f64,
    alone_s: f64,
    mpi_s: f64,
}

fn report(ranks: u32, parts: &Parts) -> Report {
    let text = r#"{"schema": "trimtab.report/1", "window": {"batch": 0, "trigger": "attach", "marker": "loop 1 of main",
        "marker_source": "detected", "start": 1, "iterations": 10, "valid": true, "ended_by": "iterations",
        "duration_s": 1, "started_unix_s": 0, "groups": [], "loop_description": null},
        "job": {"id": "app", "program": "/opt/app", "arguments": [], "ranks": 2, "mpi": "", "hosts": [], "builds": [],
        "started_unix_s": 0}, "time_per_iteration_s": null, "iterations_per_s": null, "communication_fraction": null,
        "communication_to_computation": null, "imbalance": null, "functions": [], "links": [], "ranks": [],
        "cost": {"pause_us_max": 0, "pause_us_total": 0, "probe_ns": null, "probes": 0, "points": 0, "fraction": null,
        "first_record_s": null}, "warnings": []}"#;
    let mut report: Report = serde_json::from_str(text).expect("a report");
    (report.job.id, report.job.ranks) = (format!("app-{ranks}"), ranks);
    let of_rank =
        |rank: u32| parts.shared_s / f64::from(ranks) + parts.each_s + if rank == 0 { parts.alone_s } else { 0.0 };
    let longest_s = of_rank(0);
    let time_s = longest_s + parts.mpi_s;
    report.time_per_iteration_s = Some(Estimate {
        mean: time_s,
        variance: None,
        half_width_95: Some(0.01 * time_s),
        min: time_s,
        max: time_s,
        samples: ITERATIONS,
    });
    let count = ITERATIONS as f64;
    report.ranks = (0..ranks)
        .map(|rank| {
            let text = format!(
                r#"{{"rank": {rank}, "pid": 1, "host": "n", "duration_s": {}, "communication_s": {}, "computation_s": {},
                "cpu_s": null, "cpu_user_s": null, "cpu_system_s": null, "iterations": 10, "time_per_iteration_s": null,
                "iteration_times_s": [], "minor_faults": null, "major_faults": null, "voluntary_switches": null,
                "involuntary_switches": null, "group_s": [], "unattributed_bytes": null, "pause_insert_us": 1,
                "pause_remove_us": null, "probe_hits": 1}}"#,
                time_s * count,
                (time_s - of_rank(rank)) * count,
                of_rank(rank) * count
            );
            serde_json::from_str::<RankTotal>(&text).expect("a rank")
        })
        .collect();
    let in_mpi_s: f64 = (0..ranks).map(|rank| time_s - of_rank(rank)).sum();
    let all = f64::from(ranks);
    report.functions = vec![
        function("shared", FunctionGroup::User, parts.shared_s, (ranks, 0, parts.shared_s / all)),
        function("each", FunctionGroup::User, parts.each_s * all, (ranks, 1 % ranks, parts.each_s)),
        function("alone", FunctionGroup::User, parts.alone_s, (1, 0, parts.alone_s)),
        function("MPI_Bcast", FunctionGroup::Comm, in_mpi_s, (ranks, ranks - 1, time_s - of_rank(ranks - 1))),
    ];
    report
}

fn function(name: &str, group: FunctionGroup, time_s: f64, (ranks, rank, longest_s): (u32, u32, f64)) -> FunctionTotal {
    let count = ITERATIONS as f64;
    FunctionTotal {
        name: name.into(),
        other_names: Vec::new(),
        group,
        calls: Some(ITERATIONS * u64::from(ranks)),
        nested_calls: Some(0),
        polling_calls: None,
        time_s: Some(time_s * count),
        time_missing: None,
        taken_out_after_s: None,
        waits_missing: None,
        bytes_missing: None,
        bytes: None,
        bytes_mean: None,
        bytes_max: None,
        sizes: None,
        argument_sum: None,
        ranks: Some(ranks),
        longest: Some(LongestRank { rank, time_s: longest_s * count }),
        first_s: None,
        last_s: None,
    }
}

fn scaled(parts: impl Fn(u32) -> Parts, work: Work) -> Scaling {
    // The order in which windows are given is of no account.
    let reports: Vec<Report> = [16, 1, 4, 2, 8].map(|ranks| report(ranks, &parts(ranks))).into();
    scaling(&reports, work).expect("five numbers of ranks")
}

const EPSILON: f64 = 1e-9;

#[test]
fn work_that_is_shared_scales_ideally() {
    let found = scaled(|_| Parts { shared_s: 1.6, each_s: 0.0, alone_s: 0.0, mpi_s: 0.0 }, Work::Strong);
    assert_eq!(found.points.iter().map(|point| point.ranks).collect::<Vec<_>>(), [1, 2, 4, 8, 16]);
    for point in &found.points {
        assert!((point.speed_up - f64::from(point.ranks)).abs() < EPSILON && (point.efficiency - 1.0).abs() < EPSILON);
        assert!((point.computation_scaling.expect("measured") - 1.0).abs() < EPSILON);
        assert!(point.serial_fraction.is_none_or(|part| part.abs() < EPSILON));
    }
    assert!(found.lost_s.abs() < EPSILON && found.functions.is_empty(), "{found:?}");
}

/// Amdahl's law: the serial part comes out as Karp and Flatt compute it, and the function is named.
#[test]
fn a_serial_function_is_named_whoever_calls_it() {
    for (each_s, alone_s, name, part, rank) in
        [(0.1, 0.0, "each", LostIn::Computation, None), (0.0, 0.1, "alone", LostIn::LoadBalance, Some(0))]
    {
        let found = scaled(|_| Parts { shared_s: 0.9, each_s, alone_s, mpi_s: 0.0 }, Work::Strong);
        let last = &found.points[4];
        assert!((last.speed_up - 1.0 / (0.1 + 0.9 / 16.0)).abs() < EPSILON, "{name}");
        assert!(found.points[1..].iter().all(|point| (point.serial_fraction.expect("strong") - 0.1).abs() < EPSILON));
        // Each time is known to 1%: so is the inverse of the speed-up to a share of 0.01 times the root of two.
        let half = 0.01 * 2.0_f64.sqrt() * (0.1 + 0.9 / 16.0) / (1.0 - 1.0 / 16.0);
        assert!((last.serial_fraction_half_width_95.expect("intervals") - half).abs() < EPSILON, "{name}");
        assert!(found.points[0].serial_fraction_half_width_95.is_none());
        let lost = 0.1 * (1.0 - 1.0 / 16.0);
        assert!((found.lost_s - lost).abs() < EPSILON, "{name}");
        assert_eq!(found.parts[0].part, part, "{name}");
        let named = found.functions.iter().find(|function| function.group == FunctionGroup::User).expect(name);
        assert_eq!((named.name.as_str(), named.growth, named.only_rank), (name, Growth::Stays, rank));
        assert!((named.lost_s - lost).abs() < EPSILON, "{name}");
        assert!(named.per_iteration_s.iter().all(|time| (time.expect("timed") - 0.1).abs() < EPSILON), "{name}");
        assert!(!found.functions.iter().any(|function| function.name == "shared"), "{name}");
    }
}

#[test]
fn communication_that_grows_is_named() {
    let grows = |ranks| Parts { shared_s: 0.0, each_s: 0.1, alone_s: 0.0, mpi_s: 0.01 * f64::from(ranks) };
    let found = scaled(grows, Work::Weak);
    let last = &found.points[4];
    assert!((last.efficiency - 0.11 / 0.26).abs() < EPSILON && last.serial_fraction.is_none());
    assert_eq!(found.parts[0].part, LostIn::Communication);
    assert_eq!(
        found.functions.iter().map(|one| (one.name.as_str(), one.growth)).collect::<Vec<_>>(),
        [("MPI_Bcast", Growth::Grows)]
    );
}

#[test]
fn windows_that_can_not_be_compared_are_named() {
    let parts = Parts { shared_s: 1.0, each_s: 0.0, alone_s: 0.0, mpi_s: 0.1 };
    let (one, two) = (report(1, &parts), report(2, &parts));
    let mut other = two.clone();
    other.job.program = "/opt/other".into();
    assert_eq!(
        scaling(&[one.clone(), other], Work::Strong),
        Err(NoScaling::Programs(vec!["app".into(), "other".into()]))
    );
    let mut invalid = two.clone();
    invalid.window.valid = false;
    let error = scaling(&[one.clone(), invalid], Work::Strong).expect_err("one is left").to_string();
    assert!(error.contains("app-2/0 is left out: it is not valid"), "{error}");
    assert!(scaling(std::slice::from_ref(&one), Work::Strong).is_err() && scaling(&[], Work::Strong).is_err());
    let found = scaling(&[one, two.clone(), two], Work::Strong).expect("two numbers of ranks");
    assert!(found.warnings.iter().any(|warning| warning.contains("another window has 2 ranks too")), "{found:?}");
}

/// A rank of which nothing is known leaves what is computed from all ranks out, and no number is made up.
#[test]
fn what_was_not_measured_is_left_out() {
    let parts = Parts { shared_s: 1.0, each_s: 0.1, alone_s: 0.0, mpi_s: 0.1 };
    let (one, mut two) = (report(1, &parts), report(2, &parts));
    two.ranks.pop();
    for function in &mut two.functions {
        function.longest = None;
    }
    let found = scaling(&[one, two], Work::Strong).expect("two numbers of ranks");
    assert_eq!((found.points[1].computation_scaling, found.parts.len()), (None, 0));
    assert!(found.warnings.iter().any(|warning| warning.contains("1 of 2 ranks were measured")), "{found:?}");
}
