//! Forecasts over HTTP: ScoPro's tables, who is told of whose jobs, and wrong questions.

use super::{Site, status};
use crate::scopro::{ITERATIONS, TABLE_7, report as window};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use trimtab_site::{Client, SiteError};
use trimtab_store::{History, RunEnd, Store};
use trimtab_types::report::{LikelyProgress, LoopProgress, OuterProgress, Report};

/// Iterations of the ring, one each second.
const RING: u64 = 1000;

pub(super) fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64()
}

/// A window of a job that began at a moment: it has done so many iterations when the window ends at another.
pub(super) fn ring(begun_s: f64, ended_s: f64, done: u64) -> Report {
    let mut made = window("ring", 2, 1.0, done, Some(RING - done));
    made["job"]["builds"] = json!(["/nas/ring 0123abcd"]);
    made["job"]["started_unix_s"] = begun_s.into();
    made["window"]["started_unix_s"] = (ended_s - 10.0).into();
    serde_json::from_value(made).expect("a report")
}

pub(super) fn sort() -> Value {
    let model = |unit: &str, coefficient: f64| {
        json!({
            "parameters": ["n"], "unit": unit, "least": [100.0], "most": [10_000.0], "noise": 0.01, "fixed": 0.001 * coefficient,
            "typical": 100.0 * coefficient, "stray": null,
            "pieces": [{
                "above": [0.0], "up_to": [null], "least": [100.0], "most": [10_000.0], "places": 8,
                "terms": [{ "term": { "factors": [{ "parameter": 0, "power": 1.0, "logs": 0 }] }, "coefficient": coefficient }],
                "rivals": [], "error_median": 0.02, "error_worst": 0.05, "error_beyond": 0.03, "half_width": 0.05, "growth": 0.02,
            }],
        })
    };
    json!({
        "name": "sort", "command": ["sort", "{n}"], "made_unix_s": 1.0, "version": 1, "parameters": ["n"], "setup": null,
        "host": "n1", "host_kind": { "processor": "one", "processors": 2, "clock_mhz": 2600, "memory_gib": 1 },
        "speed": { "compute_per_s": 1e9, "memory_bytes_per_s": 1e10 }, "time_is": "wall", "has_threads": false,
        "time": model("seconds", 0.001), "memory": model("bytes", 1e6), "no_memory": null, "disturbed": 0, "left_out": [],
        "seed": 1, "runs": [],
    })
}

impl Site {
    /// Keeps a report for this user: where.
    pub(super) fn keeps(&self, uid: u32, key: &str, report: Report) -> String {
        let client = self.client(&format!("user:{uid}"));
        let window = self.window_of(&client, uid);
        let filing = json!({ "key": key, "report": report });
        let filed: Value = client.file(&format!("/v1/windows/{window}/report"), &filing).expect("it is kept");
        filed["job"].as_str().expect("a name").to_owned()
    }
}

pub(super) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// A refusal: its number, and its words.
pub(super) fn refused(client: &Client, path: &str, question: &Value) -> (u16, String) {
    match client.post::<Value>(path, question) {
        Err(SiteError::Refused { status, what }) => (status, what),
        other => panic!("{question}: {other:?}"),
    }
}

#[test]
fn tables_7a_and_7b_come_out_as_printed() {
    let site = Site::start();
    let ann = site.client("user:7");
    for (a, b, nodes, [ta1, _, tb, ta6, ta7, real]) in TABLE_7 {
        let row = format!("{a} with {b} on {nodes} nodes");
        let slowdown = ta7 / ta1;
        let of = |name: &str, whole_s: f64| window(name, *nodes, whole_s / ITERATIONS as f64, 0, Some(ITERATIONS));
        let question = json!({
            "jobs": [{ "report": of(a, ta1 * slowdown) }, { "report": of(b, *tb) }],
            "alone": [{ "job": "A", "report": of(a, *ta1) }],
        });
        let found: Value = ann.post("/v1/forecasts/corun", &question).unwrap_or_else(|error| panic!("{row}: {error}"));
        let (of_a, of_b) = (&found["jobs"][0], &found["jobs"][1]);
        assert_eq!((&of_a["name"], &found["method"]), (&json!(a), &json!("measured together")), "{row}");
        assert!((number(&of_a["slowdown"]["value"]) - slowdown).abs() < 1e-9, "{row}: {found}");
        assert!((number(&of_a["end_s"]["value"]) - ta6).abs() <= 0.07, "{row}: {found}");
        assert!((number(&of_a["end_if_all_stayed_s"]) - ta7).abs() < 1e-6, "{row}: {found}");
        assert!((number(&of_b["end_s"]["value"]) - tb).abs() < 1e-6, "{row}: {found}");
        assert!((number(&of_a["end_s"]["value"]) - real).abs() < 0.04 * real, "{row}: {found}");
        assert!(of_b["no_slowdown"].as_str().is_some_and(|why| why.contains("alone")), "{row}: {found}");
    }
}

#[test]
fn a_job_s_end_is_for_its_owner_and_is_of_now() {
    let site = Site::start();
    let _agent = site.agent("n1");
    let now = now_s();
    let job = site.keeps(7, "ring", ring(now - 210.0, now - 10.0, 200));
    let question = json!({ "job": job });
    let (ann, bob) = (site.client("user:7"), site.client("user:8"));
    let path = "/v1/forecasts/job";
    let found: Value = ann.post(path, &question).expect("hers");
    // 800 iterations came after the window, which ended 10 s ago.
    assert!((number(&found["end"]["remaining_s"]) - 790.0).abs() < 40.0, "{found}");
    assert_eq!((&found["iterations_done"], &found["no_claim"]), (&json!(200), &Value::Null), "{found}");
    assert!(site.client("administrator:0").post::<Value>(path, &question).is_ok());
    assert_eq!(refused(&bob, path, &question).0, 404);
    assert_eq!(refused(&site.client("node:n1"), path, &question).0, 403);
    for (question, expected, words) in [
        (json!({ "job": job, "newest_s": 5 }), 409, "ended 1"),
        (json!({ "job": job, "newest_s": -1 }), 422, "from 0 on"),
        (json!({ "job": job, "newest": 5 }), 400, "unknown field"),
        (json!({ "job": "ring-9" }), 404, "no such job"),
        (json!({}), 400, "missing field"),
        (json!("ring-1"), 400, "invalid type"),
    ] {
        let (status, why) = refused(&ann, path, &question);
        assert!(status == expected && why.contains(words), "{question}: {status} {why}");
    }
    // A window that said that the job would have ended by now, and one of a job that was seen to end.
    let over = site.keeps(7, "over", ring(now - 2000.0, now - 1100.0, 990));
    let (status, why) = refused(&ann, path, &json!({ "job": over }));
    assert!(status == 409 && why.contains("would have ended"), "{status} {why}");
    let mut store = Store::open_site(Some(&site.folder.path().join("site.db"))).expect("the store");
    let key = store.job_called(&job).expect("it is there").key;
    // Only questions with an answer are among the forecasts, and each window once.
    assert_eq!(store.forecasts().expect("all").len(), 1);
    store.note_end(&key, RunEnd { after_unix_s: now, before_unix_s: now }).expect("it is noted");
    let (status, why) = refused(&ann, path, &question);
    assert!(status == 409 && why.contains("has ended"), "{status} {why}");
}

#[test]
fn iterations_that_other_code_may_change_claim_no_end() {
    let site = Site::start();
    let _agent = site.agent("n1");
    let now = now_s();
    let mut report = ring(now - 210.0, now - 10.0, 200);
    let known = report.window.progress.take().expect("it counts");
    let likely = Some(LikelyProgress {
        done: known.done,
        remaining: known.remaining,
        total: known.total,
        remaining_lower: Some(600),
        remaining_upper: Some(1000),
        remaining_at_most: None,
    });
    report.window.progress = Some(LoopProgress { likely, ..LoopProgress::default() });
    let job = site.keeps(7, "ring", report);
    let found: Value = site.client("user:7").post("/v1/forecasts/job", &json!({ "job": job })).expect("hers");
    let nothing = ["end", "iterations_done", "iterations_remaining", "iterations_total", "share_done"];
    assert!(nothing.iter().all(|field| found[*field].is_null()), "{found}");
    assert!(found["no_claim"].as_str().is_some_and(|why| why.contains("other code may change")), "{found}");
    let mut expected = json!({ "done": known.done, "remaining": known.remaining, "total": known.total });
    expected["remaining_lower"] = json!(600);
    expected["remaining_upper"] = json!(1000);
    expected["remaining_at_most"] = json!(null);
    assert_eq!(found["likely"], expected, "{found}");
    let end = |field: &str| number(&found["likely_end"][field]);
    assert!(end("lower_s") < 600.0 && end("upper_s") > 980.0, "{found}");
    assert_eq!(found["likely_end"]["method"], "likely iterations", "{found}");
    assert!((number(&found["likely_end"]["remaining_s"]) - 790.0).abs() < 40.0, "{found}");
    let store = Store::open_site(Some(&site.folder.path().join("site.db"))).expect("the store");
    let kept = store.forecasts().expect("all");
    assert!(kept.len() == 1 && kept[0].forecast.method == "likely iterations", "{kept:?}");
}

/// The job may go on for long when the loop has ended.
#[test]
fn a_loop_that_lies_in_another_one_claims_no_end() {
    let site = Site::start();
    let _agent = site.agent("n1");
    let now = now_s();
    let ask = |around: &[&str]| -> Value {
        let mut report = ring(now - 210.0, now - 10.0, 200);
        report.window.loops_around = Some(around.iter().map(|name| (*name).to_owned()).collect());
        let job = site.keeps(7, &format!("ring{}", around.len()), report);
        site.client("user:7").post("/v1/forecasts/job", &json!({ "job": job })).expect("hers")
    };
    assert_eq!((&ask(&[])["end"]["of"], &ask(&[])["likely_end"]), (&json!("main loop"), &Value::Null));
    let found = ask(&["loop 1 of main"]);
    assert!(found["end"].is_null() && found["iterations_done"] == 200, "{found}");
    assert!(found["no_claim"].as_str().is_some_and(|why| why.contains("then or later")), "{found}");
    let end = &found["likely_end"];
    assert_eq!((&end["of"], &end["method"]), (&json!("inner loop"), &json!("inner iterations")), "{found}");
    assert!((number(&end["remaining_s"]) - 790.0).abs() < 40.0, "{found}");
}

/// Passes of a loop around are taken to be alike; in the last of them the end is that of the loop inside.
#[test]
fn an_end_by_a_loop_around_is_likely_until_its_last_pass() {
    let site = Site::start();
    let _agent = site.agent("n1");
    let now = now_s();
    let ask = |name: &str, (done, to_come), is_likely, progress: Option<LoopProgress>| -> Value {
        let mut report = ring(now - 210.0, now - 10.0, 200);
        report.window.progress = progress.or(report.window.progress);
        report.window.loops_around = Some(vec!["loop 1 of main".to_owned()]);
        let outer = OuterProgress {
            name: "loop 1 of main".to_owned(),
            done: Some(done),
            to_come: Some(to_come),
            to_come_at_most: Some(to_come),
            is_likely,
            missing: None,
        };
        report.window.outer_progress = vec![outer];
        let job = site.keeps(7, name, report);
        site.client("user:7").post("/v1/forecasts/job", &json!({ "job": job })).expect("hers")
    };
    // Four passes and a part of the fifth in 200 s; five come behind it.
    let found = ask("steps", (4, 5), false, Some(LoopProgress::default()));
    assert!(found["end"].is_null() && found["outer"][0]["to_come"] == 5, "{found}");
    assert!(found["no_claim"].as_str().is_some_and(|why| why.contains("alike")), "{found}");
    let end = &found["likely_end"];
    assert_eq!((&end["of"], &end["method"]), (&json!("outer loop"), &json!("likely outer iterations")), "{found}");
    let within = |low: f64, high: f64| number(&end["lower_s"]) <= low && number(&end["upper_s"]) >= high;
    assert!(within(190.0, 240.0) && number(&end["upper_s"]) < 340.0, "{found}");
    let last = ask("last", (4, 0), false, None);
    assert_eq!((&last["end"]["of"], &last["end"]["method"]), (&json!("main loop"), &json!("iterations")), "{last}");
    let likely = ask("likely", (4, 0), true, None);
    assert!(likely["end"].is_null() && likely["likely_end"]["of"] == "inner loop", "{likely}");
}

#[test]
fn runs_of_others_count_without_their_names() {
    let site = Site::start();
    let _agent = site.agent("n1");
    let now = now_s();
    let others = site.keeps(8, "earlier", ring(now - 5000.0, now - 4500.0, 500));
    let mut store = Store::open_site(Some(&site.folder.path().join("site.db"))).expect("the store");
    let key = store.job_called(&others).expect("it is there").key;
    let end = now - 4000.0;
    store.note_end(&key, RunEnd { after_unix_s: end, before_unix_s: end }).expect("it is noted");
    let own = site.keeps(7, "now", ring(now - 210.0, now - 10.0, 200));
    let found: Value = site.client("user:7").post("/v1/forecasts/job", &json!({ "job": own })).expect("hers");
    assert_eq!(found["earlier_runs"], 1, "{found}");
    assert!(!found.to_string().contains(&others), "{found}");
    // Nor can she name it, together with hers or alone.
    for question in [
        json!({ "jobs": [{ "window": own }, { "window": others }], "together": true }),
        json!({ "jobs": [{ "window": own }, { "window": own }], "alone": [{ "job": "A", "window": others }] }),
    ] {
        assert_eq!(refused(&site.client("user:7"), "/v1/forecasts/corun", &question).0, 404, "{question}");
    }
}

#[test]
fn wrong_questions_about_jobs_together_are_one_error() {
    let site = Site::start();
    let ann = site.client("user:7");
    let one = json!({ "report": window("a", 2, 0.2, 10, Some(90)) });
    let alone = |job: &str| json!({ "job": job, "report": window("a", 2, 0.1, 0, Some(100)) });
    let negative = json!({ "report": window("a", 2, -0.2, 10, Some(90)) });
    let mut other = window("a", 2, 0.2, 10, Some(90));
    other["schema"] = "trimtab.report/99".into();
    for (question, expected, words) in [
        (json!({ "jobs": [one] }), 422, "two jobs"),
        (json!({ "jobs": [one, {}] }), 422, "either a window or a report"),
        (json!({ "jobs": [one, { "window": "ring-1/x" }] }), 404, "no such job"),
        (json!({ "jobs": [one, { "report": other }] }), 422, "trimtab.report/99"),
        (json!({ "jobs": [one, { "report": 5 }] }), 400, "invalid type"),
        (json!({ "jobs": [one, one], "alone": [alone("C")] }), 422, "letters from A to B"),
        (json!({ "jobs": [one, one], "alone": [alone("A"), alone("A")] }), 422, "names two windows"),
        (json!({ "jobs": [one, negative], "alone": [alone("A")] }), 422, "negative, zero"),
        (json!({ "jobs": [one, one], "offset_s": [1, 2] }), 422, "offset_s"),
        (json!({ "jobs": [one, one], "offset_s": [-1] }), 422, "from 0 on"),
        (json!({ "jobs": [one, one], "on": ["n1"] }), 422, "was on 2 nodes"),
        (json!({ "jobs": [one, one], "alone": [alone("A")], "with": [one] }), 422, "no \"on\" and no \"with\""),
        (json!({ "jobs": [one, one] }), 422, "no rank"),
    ] {
        let (status, why) = refused(&ann, "/v1/forecasts/corun", &question);
        assert!(status == expected && why.contains(words), "{words}: {status} {why}");
    }
    assert_eq!(refused(&site.client("node:n1"), "/v1/forecasts/corun", &json!({})).0, 403);
}

#[test]
fn a_model_is_kept_by_an_administrator_and_asked_by_all() {
    let site = Site::start();
    let (ann, root) = (site.client("user:7"), site.client("administrator:0"));
    assert_eq!(status(ann.post::<Value>("/v1/models", &sort())), 403);
    let question = |host: &str, args: Value| json!({ "model": "sort", "host": host, "args": args });
    assert_eq!(refused(&ann, "/v1/forecasts/comp", &question("n1", json!({ "n": 1 }))).0, 404, "there is no model yet");
    let mut damaged = sort();
    damaged["time"]["pieces"][0]["terms"][0]["coefficient"] = (-1.0).into();
    let mut other = sort();
    other["time"]["pieces"][0]["most"] = json!([1.0, 2.0]);
    for wrong in [damaged, other] {
        assert_eq!(refused(&root, "/v1/models", &wrong).0, 422);
    }
    assert_eq!(refused(&root, "/v1/models", &json!({ "name": "sort" })).0, 400);
    root.post::<()>("/v1/models", &sort()).expect("it is kept");
    let found: Value = ann.post("/v1/forecasts/comp", &question("n1", json!({ "n": 3000 }))).expect("a time");
    assert!((number(&found["value"]) - 3.0).abs() < 1e-9 && found["unit"] == "seconds", "{found}");
    assert!(number(&found["lower"]) < 3.0 && number(&found["upper"]) > 3.0 && found["outside"] == false, "{found}");
    let found: Value = ann.post("/v1/forecasts/size", &question("n1", json!({ "n": 20_000 }))).expect("memory");
    assert!(found["outside"] == true && (number(&found["beyond"]["n"]) - 2.0).abs() < 1e-9, "{found}");
    assert!(found["because"].to_string().contains("impossible: the host has 1 GiB"), "{found}");
    for (question, expected, words) in [
        (question("n9", json!({ "n": 1 })), 404, "nothing is known of host"),
        (question("n1", json!({})), 422, "lack n"),
        (question("n1", json!({ "n": 1, "m": 2 })), 422, "no parameter m"),
        (question("n1", json!({ "n": -1 })), 422, "above zero"),
        (json!({ "model": "other", "host": "n1", "args": { "n": 1 } }), 404, "there are sort"),
    ] {
        let (status, why) = refused(&ann, "/v1/forecasts/comp", &question);
        assert!(status == expected && why.contains(words), "{question}: {status} {why}");
    }
}

#[test]
fn a_queue_is_forecast_from_a_log_and_wrong_ones_are_refused() {
    let site = Site::start();
    let (ann, root) = (site.client("user:7"), site.client("administrator:0"));
    let job = |at: u32| {
        let submitted = 1_795_000_000 + 600 * at;
        format!("{at}|anna|{submitted}|{}|{}|4|7200|batch|COMPLETED\n", submitted + 10 + at % 5, submitted + 310)
    };
    let lines: String = (0..200).map(job).collect();
    let log = format!("JobID|User|Submit|Start|End|NNodes|TimelimitRaw|Partition|State\n{lines}");
    let path = "/v1/forecasts/queue";
    let found: Value =
        ann.post(path, &json!({ "nodes": 4, "time_s": 7200, "user": "anna", "jobs": log })).expect("a wait");
    assert!((10.0..15.0).contains(&number(&found["wait_s"])) && found["user_known"] == true, "{found}");
    assert!(number(&found["lower_s"]) <= number(&found["upper_s"]) && found["begun"] == 200, "{found}");
    for (question, expected, words) in [
        (json!({ "nodes": 4, "time_s": 7200 }), 503, "accounting says nothing"),
        (json!({ "nodes": 4, "time_s": 7200, "user": "bob" }), 403, "may not name a user"),
        (json!({ "nodes": 0, "time_s": 7200, "jobs": log }), 422, "above zero"),
        (json!({ "nodes": 4, "time_s": -1, "jobs": log }), 400, "invalid value"),
        (json!({ "processors": 4, "time_s": 7200, "jobs": log }), 422, "counts nodes"),
        (json!({ "nodes": 4, "time_s": 7200, "jobs": "no log" }), 422, ""),
        (json!({ "nodes": 4, "time_s": 7200, "jobs": log, "partition": "other" }), 404, "no job was in the partition"),
        (json!({ "nodes": 4, "time_s": 7200, "jobs": log, "user": "bob" }), 404, "no job is bob's"),
    ] {
        let (status, why) = refused(&ann, path, &question);
        assert!(status == expected && why.contains(words), "{words}: {status} {why}");
    }
    assert_eq!(refused(&root, path, &json!({ "nodes": 4, "time_s": 7200, "user": "bob" })).0, 503, "she may name him");
}
