//! `trimtab model pressure` and what `forecast corun` makes of it: profiles of reports, a specimen beside probes, and probes that end
//! with whoever started them. No time is judged here.
//!
//! Next: docs/forecasts.md; `trimtab-corun`'s `profile` for how it is predicted.

mod common;
mod common_scopro;
mod common_turns;

use common::{Home, LIMIT, RANKS, alone, wait_until_at_work};
use common_scopro::report;
use common_turns::turns;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use trimtab_specimens::{Launch, Mpi};
use trimtab_store::{History, KeptPressure, Pressured, Store};

/// The build id of a program that only a report knows.
const BUILD: &str = "0123abcd";

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn store(home: &Home) -> Store {
    Store::open(Some(&home.path("trimtab/trimtab.db"))).expect("the store")
}

/// A report of one rank on one processor, which it keeps busy.
fn busy(home: &Home, program: &str) -> (String, trimtab_types::report::Report) {
    let mut made = report(program, 1, 0.1, 0, Some(100));
    made["job"]["builds"] = json!([format!("/nas/{program} {BUILD}")]);
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
    made["job"]["arguments"] = json!([program]);
    let path = home.path(&format!("{program}.json"));
    std::fs::write(&path, made.to_string()).expect("it is written");
    (path.to_str().expect("a path").to_owned(), serde_json::from_value(made).expect("a report"))
}

/// A curve with two points.
fn curve(half: f64, whole: f64) -> Value {
    let point = |level: f64, value: f64| json!({ "level": level, "slowdown": { "value": value, "ends": [value - 0.01, value + 0.01] } });
    json!({ "points": [point(0.5, half), point(1.0, whole)] })
}

fn keep(home: &Home, report: &trimtab_types::report::Report, sharing: (f64, f64), memory: (f64, f64, f64)) {
    let (half, whole, makes) = memory;
    let content = json!({
        "version": 1, "windows": 14, "took_s": 20.0, "cost_s": 8.0, "because": [],
        "profile": {
            "place": "upon", "processors": [0], "sharing": curve(sharing.0, sharing.1), "cache": null,
            "memory": { "slows": curve(half, whole), "makes": { "value": makes, "ends": [0.9 * makes, 1.1 * makes] } },
        },
    });
    let likeness = trimtab_store::Run::of_window("", None, report).likeness().expect("a build id");
    let row = KeptPressure {
        host: "n1".to_owned(),
        of: Pressured::from(likeness),
        program: report.job.program.clone(),
        made_unix_s: 1.0,
        content: content.to_string(),
    };
    store(home).note_pressure(&row).expect("it is kept");
}

#[test]
fn profiles_predict_jobs_before_they_meet() {
    let home = Home::new();
    let ((a, of_a), (b, of_b)) = (busy(&home, "a"), busy(&home, "b"));
    let corun = || -> Value {
        let said = home.trimtab(&["forecast", "corun", "--json", "-", &a, &b]);
        assert_eq!(said.code, 0, "{said:?}");
        serde_json::from_str(&said.stdout).expect("JSON")
    };
    assert_eq!(corun()["method"], "predicted from processors");
    // A answers to a probe on its processor as formula 2 says, and B is slowed more; memory of both counts.
    keep(&home, &of_a, (1.5, 2.0), (1.1, 1.3, 0.5));
    let found = corun();
    assert_eq!((&found["method"], &found["share_inside"]), (&"predicted from profiles".into(), &Value::Null));
    let told = |found: &Value, job: usize| found["jobs"][job]["because"].to_string();
    assert!(told(&found, 1).contains("no profile on this host") && told(&found, 0).contains("sharing"), "{found}");
    assert!(found["not_modelled"].to_string().contains("memory bandwidth"), "{found}");
    keep(&home, &of_b, (1.6, 2.4), (1.0, 1.1, 1.0));
    let found = corun();
    let slowdown = |job: usize, end: &str| number(&found["jobs"][job]["slowdown"][end]);
    // B gives its processor away 1.4 times in a turn of the probe's, so A loses less to it; B presses as a probe at 100%.
    assert!((slowdown(0, "value") - (1.0 + 1.0 / 1.4) * 1.3).abs() < 1e-6, "{found}");
    // A never gives its own away, as the probe; it presses as one at 50%.
    assert!((slowdown(1, "value") - 2.4).abs() < 1e-6 && slowdown(1, "upper") > 2.4, "{found}");
    for job in [0, 1] {
        assert!(slowdown(job, "lower") < slowdown(job, "value") && slowdown(job, "value") < slowdown(job, "upper"));
        assert_eq!(found["jobs"][job]["is_profiled"], true);
    }
    assert_eq!(found["not_modelled"], json!(["cache", "network", "I/O"]));
    assert!(told(&found, 0).contains("memory; not told by profiles: cache"), "{found}");
    let page = home.trimtab(&["forecast", "corun", &a, &b]);
    assert!(page.stdout.contains("predicted from profiles: cache, network, I/O are not modelled"), "{page:?}");
    // The ranking goes by them, too.
    let (c, _) = busy(&home, "c");
    let said = home.trimtab(&["forecast", "corun", "--json", "-", &a, "--with", &b, &c]);
    let ranked: Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!((&ranked["partners"][0]["name"], said.code), (&"c".into(), 0), "{ranked}");
}

#[test]
fn a_probe_ends_with_its_input_or_its_time() {
    let home = Home::new();
    let words =
        ["press-probe", "--pressed", "memory", "--level", "0.5", "--wanted", "0.5", "--processors", "0", "--bytes"];
    let started = |seconds: &str| {
        let mut command = home.command(&[&words[..], &["4194304", "--seconds", seconds]].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        (child, output)
    };
    let (mut child, mut output) = started("60");
    let mut line = String::new();
    let mut marks = Vec::new();
    for _ in 0..3 {
        line.clear();
        output.read_line(&mut line).expect("a mark");
        marks.push(line.split(' ').map(|number| number.trim().parse().expect("a number")).collect::<Vec<u64>>());
        child.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
    }
    assert!(marks.is_sorted() && marks.iter().all(|mark| mark.len() == 2), "{marks:?}");
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
    // Nobody closes its input, and nobody reads.
    let (mut child, _output) = started("0.2");
    let _held = child.stdin.take();
    assert!(child.wait().expect("it ends").success());
    for (name, value) in [("--pressed", "tape"), ("--processors", "4000000")] {
        let mut wrong: Vec<&str> = [&words[..], &["4096", "--seconds", "1"]].concat();
        let at = wrong.iter().position(|word| *word == name).expect("an option");
        wrong[at + 1] = value;
        assert_eq!(home.trimtab(&wrong).code, 2, "{wrong:?}");
    }
}

/// The scale of this host as it might be: a machine where tests run is not quiet enough to find it.
fn keep_scale(home: &Home) {
    let gauge = json!({
        "bytes": 4 << 20, "alone_per_s": { "value": 5e4, "ends": [4e4, 6e4] }, "slows": curve(1.2, 1.5),
    });
    let content = json!({ "cache": null, "memory": gauge, "missing": ["cache: the kernel does not say"] });
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name").trim().to_owned();
    let of = Pressured::default();
    let row = KeptPressure { host, of, program: String::new(), made_unix_s: 1.0, content: content.to_string() };
    store(home).note_pressure(&row).expect("it is kept");
}

/// Times that a job is profiled at most.
const TRIES_MAX: u32 = 3;

#[test]
fn a_job_is_profiled_with_its_owners_yes_and_no_probe_stays() {
    let _alone = alone();
    let home = Home::new();
    let launch = Launch::mpi(Mpi::Mpich, RANKS, &turns(&home)).args(["100000000", "200000"]);
    let job = wait_until_at_work(launch.start().expect("it starts"), true);
    let pid = job.pid().to_string();
    let said = home.trimtab(&["model", "pressure", &pid, "--yes"]);
    assert!(said.code == 2 && said.stderr.contains("without a job first"), "{said:?}");
    keep_scale(&home);
    let said = home.trimtab(&["model", "pressure", &pid]);
    assert!(said.code == 2 && said.stderr.contains("--yes") && said.stderr.contains("slowed"), "{said:?}");
    let words = ["model", "pressure", &pid, "--yes", "--each", "0.1", "--within", "30", "--json", "-"];
    // Others on this machine may begin to work meanwhile: then it says so, and to try again.
    let mut tries = (0..TRIES_MAX).map(|_| home.trimtab(&words));
    let said = tries.find(|said| !said.stderr.contains("try again when they have ended")).expect("a quiet moment");
    assert_eq!(said.code, 1, "the cache is not known: {said:?}");
    let found: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let profile = &found["profile"];
    assert!(profile["cache"].is_null() && profile["place"] == "upon", "{found}");
    for curve in [&profile["sharing"], &profile["memory"]["slows"]] {
        let points = curve["points"].as_array().expect("points");
        assert!(points.len() == 2 && points.iter().all(|point| number(&point["slowdown"]["value"]) > 0.0), "{found}");
    }
    assert!(number(&profile["memory"]["makes"]["value"]) >= 0.0 && number(&found["cost_s"]) >= 0.0, "{found}");
    assert!(found["because"].to_string().contains("network and I/O were not probed"), "{found}");
    let probes = || {
        let all = std::fs::read_dir("/proc").expect("processes").flatten();
        let lines = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
        lines.filter(|line| line.contains("press-probe") && line.contains(env!("CARGO_BIN_EXE_trimtab"))).count()
    };
    assert_eq!(probes(), 0, "all have ended");
    // Killed in the midst, it leaves none either.
    let mut command = home.command(&["model", "pressure", &pid, "--yes", "--each", "5"]);
    let mut killed = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let begun = std::time::Instant::now();
    // Seldom, since who looks without end is at work beside the job.
    let pause = || std::thread::sleep(std::time::Duration::from_millis(200));
    while probes() == 0 && begun.elapsed() < LIMIT {
        pause();
    }
    assert!(probes() > 0, "a probe is at work when it is killed");
    killed.kill().expect("it is killed");
    killed.wait().expect("it ends");
    while probes() > 0 && begun.elapsed() < LIMIT {
        pause();
    }
    assert_eq!(probes(), 0, "they read the end of their input");
    let undone = home.trimtab(&["undo", &pid]);
    assert!(undone.code == 0 || undone.code == 1, "{undone:?}");
    drop(job);
}
