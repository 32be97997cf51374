//! Programs' answers to pressure at a site: administrators keep them, and forecasts of jobs that have not met use them.

use super::forecasts::{number, refused};
use super::{Site, status};
use crate::scopro::report;
use serde_json::{Value, json};
use trimtab_store::Run;

const BUILD: &str = "0123abcd";

/// A report of one rank on one processor, which it keeps busy.
fn busy(program: &str) -> Value {
    let mut made = report(program, 1, 0.1, 0, Some(100));
    made["job"]["builds"] = json!([format!("/nas/{program} {BUILD}")]);
    made["job"]["arguments"] = json!([program]);
    made["nodes"] = json!([{
        "host": "n1", "seconds": 1.0, "processors": 2, "busy": null, "steal": null, "load": null, "pressure": null,
        "places": [{ "rank": 0, "cpus_allowed": "0", "cpus_seen": "0", "clock_mhz": null, "waited_s": 0.0 }],
        "neighbours": [], "neighbours_left_out": 0, "limits": [],
    }]);
    made["ranks"] = json!([{
        "rank": 0, "pid": 1, "host": "n1", "duration_s": 1.0, "communication_s": 0.1, "computation_s": 0.9, "cpu_s": 1.0,
        "cpu_user_s": 1.0, "cpu_system_s": 0.0, "iterations": 10, "time_per_iteration_s": 0.1, "iteration_times_s": [],
        "minor_faults": null, "major_faults": null, "voluntary_switches": null, "involuntary_switches": null,
        "group_s": [], "unattributed_bytes": null, "pause_insert_us": 0.0, "pause_remove_us": null, "probe_hits": 0,
    }]);
    made
}

/// As `trimtab model pressure JOB --json` writes it.
fn profile(report: &Value, whole: f64, makes: f64) -> Value {
    let read = serde_json::from_value(report.clone()).expect("a report");
    let of = Run::of_window("", None, &read).likeness().expect("a build id");
    let curve = |half: f64, whole: f64| {
        let point = |level: f64, value: f64| json!({ "level": level, "slowdown": { "value": value, "ends": [value - 0.01, value + 0.01] } });
        json!({ "points": [point(0.5, half), point(1.0, whole)] })
    };
    let felt = json!({ "slows": curve(1.0 + (whole - 1.0) / 2.0, whole), "makes": { "value": makes, "ends": [0.9 * makes, 1.1 * makes] } });
    json!({
        "version": 1, "job": "x-1", "host": "n1", "program": report["job"]["program"], "build": of.build,
        "arguments_hash": of.arguments_hash, "ranks": 1, "made_unix_s": 1.0, "windows": 14, "took_s": 20.0, "cost_s": 8.0,
        "because": [],
        "profile": {
            "place": "upon", "processors": [0], "sharing": curve(1.5, 2.0), "cache": null, "memory": felt,
        },
    })
}

#[test]
fn profiles_that_administrators_keep_predict_jobs_before_they_meet() {
    let site = Site::start();
    let (ann, root) = (site.client("user:7"), site.client("administrator:0"));
    let (a, b) = (busy("a"), busy("b"));
    let asked = json!({ "jobs": [{ "report": a, "name": "a" }, { "report": b, "name": "b" }] });
    let corun = || ann.post::<Value>("/v1/forecasts/corun", &asked).expect("an outlook");
    assert_eq!(corun()["method"], "predicted from processors");
    assert_eq!(status(ann.post::<()>("/v1/profiles", &profile(&a, 1.3, 0.5))), 403);
    let changed = |pointer: &str, value: Value| {
        let mut wrong = profile(&a, 1.3, 0.5);
        *wrong.pointer_mut(pointer).expect("a field") = value;
        wrong
    };
    for (wrong, words) in [
        (changed("/version", 2.into()), "another version"),
        (changed("/build", "".into()), "say what it is of"),
        (changed("/took_s", (-1).into()), "negative"),
        (changed("/profile/memory/makes/value", 7.into()), "too large"),
        (changed("/profile/sharing/points/0/slowdown/value", (-2).into()), "negative"),
    ] {
        let (status, why) = refused(&root, "/v1/profiles", &wrong);
        assert!(status == 422 && why.contains(words), "{words}: {status} {why}");
    }
    assert_eq!(corun()["method"], "predicted from processors", "nothing is kept of these");
    root.post::<()>("/v1/profiles", &profile(&a, 1.3, 0.5)).expect("it is kept");
    root.post::<()>("/v1/profiles", &profile(&b, 1.1, 1.0)).expect("it is kept");
    let found = corun();
    assert_eq!(found["method"], "predicted from profiles", "{found}");
    // B presses as a probe at 100%.
    assert!((number(&found["jobs"][0]["slowdown"]["value"]) - 2.0 * 1.3).abs() < 1e-6, "{found}");
}

/// A window of a program, beside this one if there is one.
fn window(program: &str, each_s: f64, beside: Option<&str>) -> trimtab_types::report::Report {
    let mut made = busy(program);
    made["time_per_iteration_s"] = json!({
        "mean": each_s, "variance": 0.0, "half_width_95": 0.01, "min": each_s, "max": each_s, "samples": 10,
    });
    if let Some(other) = beside {
        made["nodes"][0]["neighbours"] = json!([{
            "kind": "mpi", "name": "7", "user": "bob", "program": other, "processes": 1, "ranks": 1,
            "busy_processors": 1.0, "cpus_seen": "0", "shares": "core", "with_ranks": [0], "presence": "throughout",
        }]);
    }
    serde_json::from_value(made).expect("a report")
}

#[test]
fn who_slows_whom_is_told_of_jobs_that_the_asker_may_see() {
    let site = Site::start();
    let _agent = site.agent("n1");
    let (ann, bob) = (site.client("user:7"), site.client("user:8"));
    let (root, slurm) = (site.client("administrator:0"), site.client("scheduler:990"));
    for (uid, program, other) in [(7, "a", "b"), (8, "b", "a")] {
        site.keeps(uid, &format!("{program} alone"), window(program, 0.1, None));
        site.keeps(uid, &format!("{program} beside"), window(program, 0.2, Some(other)));
    }
    let table = |client: &trimtab_site::Client| client.get::<Value>("/v1/pairs").expect("a table");
    let seen = |client| {
        let found = table(client);
        let of = |field: &str| found[field].as_array().expect("rows").len();
        (found["windows"].as_u64(), of("beside"), of("pairs"))
    };
    assert_eq!(seen(&root), (Some(4), 2, 1), "{}", table(&root));
    assert_eq!(seen(&ann), (Some(2), 1, 0), "{}", table(&ann));
    assert!(table(&bob)["beside"][0]["program"].as_str().is_some_and(|program| program.ends_with("/b")));
    assert!((number(&table(&ann)["beside"][0]["slowdown"]["value"]) - 2.0).abs() < 1e-9, "{}", table(&ann));
    assert_eq!(seen(&slurm), (Some(0), 0, 0));
    ann.post::<()>("/v1/schedulers/990", &()).expect("she accepts it");
    assert_eq!(seen(&slurm), (Some(2), 1, 0), "{}", table(&slurm));
    assert_eq!(status(site.client("node:n1").get::<Value>("/v1/pairs")), 403);
}
