//! `trimtab model links` and `trimtab forecast collective` as they are typed: from reports of known links, and from windows of a
//! program whose messages have several sizes.
//!
//! Next: docs/links.md; `links_net.rs` for links of known bandwidth between nodes; `trimtab-loggp` for the formulas.

mod common;

use common::{Home, RANKS, alone, wait_until_at_work};
use serde_json::{Value, json};
use std::collections::HashMap;
use trimtab_specimens::{Launch, Mpi, Variant, build};

/// First byte and each further one, of a network of 100 Mbit/s.
const LINE: (f64, f64) = (50e-6, 80e-9);
/// Messages of the live program.
const SIZES: &str = "8,256,2048,16384,65536";

fn rank(rank: u32, host: &str) -> Value {
    json!({
        "rank": rank, "pid": 1 + rank, "host": host, "duration_s": 2.0, "communication_s": 1.0, "computation_s": 1.0,
        "cpu_s": null, "cpu_user_s": null, "cpu_system_s": null, "iterations": 10, "time_per_iteration_s": 0.2,
        "iteration_times_s": [], "minor_faults": null, "major_faults": null, "voluntary_switches": null,
        "involuntary_switches": null, "group_s": [], "unattributed_bytes": 0, "pause_insert_us": 0.0,
        "pause_remove_us": null, "probe_hits": 0,
    })
}

fn message(from: u32, to: u32, bytes: u64, median_s: f64) -> Value {
    json!({
        "from": from, "to": to, "bytes": bytes, "messages": 10, "hidden": 0, "transfer_s": 10.0 * median_s, "wait_s": 0.5,
        "ready": 10, "transfer_s_low": 0.99 * median_s, "transfer_s_median": median_s, "transfer_s_high": 1.01 * median_s,
        "send_s_median": 4e-6, "receive_s_median": 3e-6, "error_s": 30e-6,
    })
}

/// A window of a job of two ranks on n1 and n2, whose clocks differ by 20 us; 1 MB went from the first to the second.
fn report(job: &str, sizes: &[u64]) -> Value {
    let time = |bytes: u64| LINE.0 + LINE.1 * (bytes - 1) as f64;
    let both = |bytes: &u64| [message(0, 1, *bytes, time(*bytes) + 20e-6), message(1, 0, *bytes, time(*bytes) - 20e-6)];
    json!({
        "schema": "trimtab.report/1",
        "job": {
            "id": job, "program": "/opt/app", "arguments": [], "ranks": 2, "mpi": "Open MPI 4.1.4",
            "hosts": ["n1", "n2"], "builds": [], "started_unix_s": 1.7e9,
        },
        "window": {
            "batch": 0, "trigger": "attach", "marker": "main", "marker_source": "named", "start": 0, "iterations": 10,
            "valid": true, "ended_by": "iterations", "duration_s": 2.0, "started_unix_s": 1.7e9, "groups": ["comm"],
            "loop_description": null,
        },
        "time_per_iteration_s": null, "iterations_per_s": null, "communication_fraction": null,
        "communication_to_computation": null, "imbalance": null, "functions": [],
        "links": [{
            "from": 0, "to": 1, "messages": 10, "bytes": 1_000_000, "collective_messages": 0, "collective_bytes": 0,
        }],
        "messages": sizes.iter().flat_map(both).collect::<Vec<Value>>(),
        "collectives": [{
            "function": "MPI_Alltoall", "ranks": 2, "bytes": 4096, "calls": 10, "time_s_low": 0.0009, "time_s_median": 0.001,
            "time_s_high": 0.0012, "error_s": 1e-6,
        }],
        "ranks": [rank(0, "n1"), rank(1, "n2")],
        "cost": {
            "pause_us_max": null, "pause_us_total": null, "probe_ns": null, "probes": null, "points": null, "fraction": null,
            "first_record_s": null,
        },
        "warnings": [],
    })
}

fn kept(home: &Home, name: &str, report: &Value) -> String {
    let path = home.path(&format!("{name}.json"));
    std::fs::write(&path, report.to_string()).expect("it is written");
    path.to_str().expect("a path").to_owned()
}

fn asked(home: &Home, code: i32, words: &[&str]) -> Value {
    let all: Vec<&str> = words.iter().copied().chain(["--json", "-"]).collect();
    let said = home.trimtab(&all);
    assert_eq!(said.code, code, "{words:?}: {said:?}");
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{words:?}: {error}: {said:?}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

const SIX: &[u64] = &[8, 64, 1024, 8192, 65_536, 524_288];

#[test]
fn a_known_link_is_fitted_and_loaded_by_all_jobs_on_it() {
    let home = Home::new();
    let (one, other) = (kept(&home, "one", &report("app-1", SIX)), kept(&home, "other", &report("app-2", SIX)));
    let links = asked(&home, 0, &["model", "links", &one, &other]);
    let pair = &links["pairs"][0];
    assert_eq!(
        (&pair["hosts"], &pair["way"], &pair["messages"]),
        (&json!(["n1", "n2"]), &json!("network"), &json!(240))
    );
    let (fit, segment) = (&pair["fit"], &pair["fit"]["segments"][0]);
    let near = |value: &Value, expected: f64| (number(value) / expected - 1.0).abs() < 0.02;
    assert!(
        near(&segment["latency_s"]["value"], LINE.0) && near(&segment["gap_s_per_byte"]["value"], LINE.1),
        "{pair}"
    );
    assert_eq!((&fit["breaks"], &fit["clock_error_s"]), (&json!([]), &json!(0.0)), "both directions: {pair}");
    assert!(near(&fit["wire_latency_s"], LINE.0 - 7e-6), "{fit}");
    let load = &links["loads"][0];
    assert_eq!((&load["host"], &load["jobs"]), (&json!("n1"), &json!(["app-1", "app-2"])));
    assert!(near(&load["sent_bytes_per_s"], 1e6) && near(&load["sent_share"], 0.08), "{load}");
    assert_eq!(load["received_bytes_per_s"], json!(0.0));
    let text = home.trimtab(&["model", "links", &one, &other]).stdout;
    assert!(text.contains("n1 - n2  Open MPI 4.1.4  240 messages") && text.contains("100.0"), "{text}");
}

#[test]
fn collectives_are_told_as_they_were_seen_or_added_up() {
    let home = Home::new();
    let file = kept(&home, "one", &report("app-1", SIX));
    let of = |code: i32, words: &[&str]| {
        asked(&home, code, &[&["forecast", "collective"], words, &["--by", &file]].concat())
    };
    let seen = of(0, &["alltoall", "--ranks", "2", "--bytes", "4K"]);
    assert_eq!(
        (&seen["method"], &seen["time"]["value_s"], &seen["recorded"]["calls"]),
        (&json!("recorded"), &json!(0.001), &json!(10))
    );
    assert!(number(&seen["messages"]["time"]["value_s"]) > 0.0, "both ways: {seen}");
    let added = of(0, &["alltoall", "--ranks", "2", "--bytes", "64K"]);
    assert_eq!(added["time"]["is_outside"], json!(false), "far beyond what was seen messages are asked: {added}");
    let all = of(1, &["allreduce", "--ranks", "2", "--bytes", "8M"]);
    assert_eq!((&all["method"], &all["time"]["is_outside"]), (&json!("messages"), &json!(true)));
    let barrier = of(0, &["barrier", "--ranks", "2", "--hosts", "n2,n1"]);
    assert!((number(&barrier["time"]["value_s"]) / LINE.0 - 1.0).abs() < 0.02, "one message: {barrier}");
}

#[test]
fn what_windows_do_not_decide_is_refused() {
    let home = Home::new();
    let few = kept(&home, "few", &report("app-1", &[8, 64]));
    let links = asked(&home, 1, &["model", "links", &few]);
    let pair = &links["pairs"][0];
    assert!(pair["fit"].is_null() && pair["no_fit"].as_str().expect("why").contains("2 sizes"), "{pair}");
    let mut none = report("app-1", &[]);
    none["collectives"] = json!([]);
    let none = kept(&home, "none", &none);
    assert_eq!(asked(&home, 1, &["model", "links", &none])["pairs"], json!([]));
    let six = kept(&home, "six", &report("app-1", SIX));
    for (words, reason) in [
        (&["barrier", "--ranks", "2", "--by", &none][..], "no window has the time of a message"),
        (&["barrier", "--ranks", "2", "--by", &few], "2 sizes"),
        (&["barrier", "--ranks", "1", "--by", &six], "2 ranks at least"),
        (&["barrier", "--ranks", "4", "--by", &six], "n1 and n1"),
        (&["barrier", "--ranks", "2", "--by", &six, "--hosts", "n9"], "nothing is known of \"n9\""),
        (&["barrier", "--ranks", "2", "--by", &six, "--mpi", "mpich"], "there are Open MPI 4.1.4"),
        (&["barrier", "--ranks", "2", "--by", "/no/such.json"], "there is no store"),
        (&["bcast", "--ranks", "2", "--bytes", "-1", "--by", &six], "no number of bytes"),
    ] {
        let said = home.trimtab(&[&["forecast", "collective"], words].concat());
        assert!(said.code == 2 && said.stderr.contains(reason) && said.stdout.is_empty(), "{words:?}: {said:?}");
    }
}

/// A rank that asks again and again is neither taken out nor said to have computed in between.
fn assert_is_asked_again_and_again(report: &Value, row: &Value, time_s: f64) {
    // On a busy machine a call may give its processor away, so that there are few of them.
    assert!(number(&row["polling_calls"]) > 0.0 && row["taken_out_after_s"].is_null(), "{row}");
    let ranks = report["ranks"].as_array().expect("ranks");
    let waits_s = number(&ranks[1]["communication_s"]);
    assert!(waits_s >= 0.95 * time_s, "{waits_s} s of {time_s}: {row}");
}

/// The receiver waits in `MPI_Wait` and its kin, for rank 0, which sleeps before it sends.
#[test]
fn waits_for_posted_messages_are_those_that_a_late_sender_makes() {
    let _alone = alone();
    const ITERATIONS: f64 = 12.0;
    const LATE_S: f64 = 0.02;
    // Short sends are over at once, and all of them share one handle; long ones have one each.
    let ways = [
        (Mpi::Mpich, "1", "0", "MPI_Wait", "2048"),
        (Mpi::OpenMpi, "2", "0", "MPI_Waitall", "2048"),
        (Mpi::Mpich, "33", "0", "MPI_Waitall", "8"),
        (Mpi::OpenMpi, "33", "0", "MPI_Waitall", "8"),
        (Mpi::OpenMpi, "33", "0", "MPI_Waitall", "65536"),
        (Mpi::Mpich, "3", "1", "MPI_Waitany", "2048"),
        (Mpi::OpenMpi, "3", "2", "MPI_Waitsome", "65536"),
        (Mpi::OpenMpi, "3", "3", "MPI_Testall", "2048"),
        (Mpi::Mpich, "3", "4", "MPI_Testany", "8"),
        (Mpi::OpenMpi, "2", "5", "MPI_Test", "8"),
        // Of a receive from any source the status says whom it waited for.
        (Mpi::Mpich, "wild 1", "0", "MPI_Recv", "2048"),
        (Mpi::OpenMpi, "wild 1", "0", "MPI_Recv", "8"),
        (Mpi::Mpich, "wild 2", "0", "MPI_Sendrecv", "8"),
        (Mpi::OpenMpi, "wild 2", "0", "MPI_Sendrecv", "2048"),
        (Mpi::Mpich, "wild 3", "0", "MPI_Wait", "2048"),
        (Mpi::OpenMpi, "wild 3", "0", "MPI_Wait", "8"),
        (Mpi::Mpich, "wild 4", "0", "MPI_Waitany", "8"),
        (Mpi::OpenMpi, "wild 4", "0", "MPI_Waitany", "2048"),
    ];
    // The loop is looked for once per MPI, since it is the same in all ways.
    let mut found: HashMap<&str, String> = HashMap::new();
    for (mpi, posted, any, function, size) in ways {
        let home = Home::new();
        let program = build("pong", Some(mpi), &Variant::default()).expect("it builds");
        let words = ["--iterations", "100000000", "--sizes", size, "--late-us", "20000"];
        let way = posted.strip_prefix("wild ").map_or(["--posted", posted], |wild| ["--wild", wild]);
        let words = [&words[..], &way, &["--any", any]].concat();
        let job = wait_until_at_work(Launch::mpi(mpi, RANKS, &program).args(words).start().expect("it starts"), true);
        let pid = job.pid().to_string();
        let by = found.get(mpi.name()).map_or("--mark=auto".to_owned(), |number| format!("--loop=main:{number}"));
        let said = home.trimtab(&["attach", "--iterations", "12", &by, "--json", "-", &pid]);
        let report: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
        let marker = report["window"]["marker"].as_str().expect("a marker");
        let loop_number =
            marker.strip_prefix("loop ").and_then(|rest| rest.strip_suffix(" of main")).expect("the main loop");
        found.insert(mpi.name(), loop_number.to_owned());
        let states = report["wait_states"].as_array().expect("states").iter();
        let mut own = states.filter(|state| state["function"] == function && state["state"] == "late sender");
        let state = own.next().unwrap_or_else(|| panic!("{function}: {report}"));
        let (time_s, calls) = (number(&state["time_s"]), number(&state["calls"]));
        // A sender that gets no processor is later still. Long messages take some of that time inside of `MPI_Isend`.
        let of_state = ITERATIONS * LATE_S;
        let part = if size == "65536" { 0.4 } else { 0.8 };
        assert!(time_s >= part * of_state && calls >= ITERATIONS, "{mpi:?} {function} {posted} {size}: {state}");
        assert_eq!(state["late_ranks"][0]["rank"], 0, "{mpi:?} {function}: {state}");
        let functions = report["functions"].as_array().expect("functions").iter();
        let row = functions.clone().find(|row| row["name"] == function).expect("a row");
        assert_eq!(row["waits_missing"], Value::Null, "{row}");
        assert!(time_s <= 1.01 * number(&row["time_s"]), "no longer than its calls: {row}");
        if function.starts_with("MPI_Test") {
            assert_is_asked_again_and_again(&report, row, time_s);
        }
        let messages = report["messages"].as_array().expect("messages");
        let from_first = messages.iter().find(|row| row["from"] == 0).expect("messages of rank 0");
        // Of several that one call waits for nobody sees when each came; beside a send that was over there is one.
        let is_timed = from_first["transfer_s"].is_number();
        let may_be = if posted == "1" { is_timed } else { posted != "33" || !is_timed };
        assert!(may_be, "{mpi:?} {posted}: {from_first}");
        let is_late = posted != "1" || number(&from_first["wait_s"]) >= 0.8 * of_state;
        assert!(is_late, "{mpi:?}: {from_first}");
    }
}

#[test]
fn links_are_fitted_and_collectives_forecast_from_windows() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let home = Home::new();
        let program = build("pong", Some(mpi), &Variant::default()).expect("it builds");
        let words = ["--iterations", "100000000", "--sizes", SIZES, "--collectives", "1"];
        let job = wait_until_at_work(Launch::mpi(mpi, RANKS, &program).args(words).start().expect("it starts"), true);
        let said = home.trimtab(&["attach", "--iterations", "20", "--json", "-", &job.pid().to_string()]);
        let report: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
        let sizes = |key: &str, of: &dyn Fn(&Value) -> bool| {
            let rows = report[key].as_array().expect("rows").iter();
            rows.filter(|row| of(row)).map(|row| row["bytes"].as_u64().expect("bytes")).collect::<Vec<u64>>()
        };
        for from in 0..2 {
            assert_eq!(sizes("messages", &|row| row["from"] == from), [8, 256, 2048, 16_384, 65_536], "{report}");
        }
        let alltoall = sizes("collectives", &|row| row["function"] == "MPI_Alltoall");
        assert_eq!(alltoall, [8, 256, 2048, 16_384, 65_536], "{report}");
        let links = asked(&home, 0, &["model", "links"]);
        assert_eq!((&links["windows"], &links["pairs"][0]["way"]), (&json!(1), &json!("shared_memory")));
        assert!(links["pairs"][0]["fit"]["sizes"].as_u64() >= Some(4), "{links}");
        let words = ["forecast", "collective", "alltoall", "--bytes", "16K", "--ranks", "2"];
        let seen = asked(&home, 0, &words);
        assert_eq!((&seen["method"], &seen["recorded"]["from_bytes"]), (&json!("recorded"), &json!(16_384)));
    }
}
