//! Data and routines on hosts and links over HTTP: FAST's product, who is asked for facts, and wrong questions.

use super::Site;
use super::forecasts::{now_s, number, refused, sort};
use super::jobs::report;
use serde_json::{Value, json};
use trimtab_types::report::Report;

/// FAST's complex product, as the command line's tests have it.
const PRODUCT: &str = include_str!("../../../../models/grid/complex-product.json");

fn link(from: &str, to: &str, bandwidth: f64) -> Value {
    let quantity = |value: f64| json!({ "value": value, "lower": 0.9 * value, "upper": 1.1 * value });
    json!({
        "from": from, "to": to, "bandwidth_bytes_per_s": quantity(bandwidth), "latency_s": quantity(1e-4), "both_ways": true,
    })
}

/// A client and two servers; the servers' own link has this bandwidth.
fn facts(between: f64) -> Value {
    let host = json!({ "cpu_share": { "value": 0.5, "lower": 0.4, "upper": 0.6 }, "memory_free_bytes": 8e9 });
    json!({
        "version": 1, "made_unix_s": now_s() - 5.0,
        "hosts": { "client": host, "s1": host, "s2": host, "n1": host },
        "links": [
            link("client", "s1", 1e8), link("client", "s2", 1e8), link("s1", "s2", between), link("client", "n1", 1e6),
        ],
    })
}

#[test]
fn data_take_their_time_and_a_plan_flips_with_one_link() {
    let site = Site::start();
    let ann = site.client("user:7");
    let asked = json!({ "data": { "A": "dense:double:1000x1000@client" }, "to": "s1", "facts": facts(1e8) });
    let found: Value = ann.post("/v1/forecasts/comm", &asked).expect("a time");
    assert!((number(&found["value"]) - 0.0801).abs() < 1e-6, "{found}");
    assert!(number(&found["lower"]) < 0.08 && number(&found["upper"]) > 0.08, "{found}");
    assert_eq!((&found["facts_from"], &found["asked"]), (&json!("question"), &json!("comm")));
    let chosen = |between: f64| {
        let plan: Value = serde_json::from_str(PRODUCT).expect("a plan");
        let question = json!({ "plan": plan, "facts": facts(between) });
        let found: Value = ann.post("/v1/forecasts/plan", &question).expect("a plan");
        let at = found["chosen"].as_u64().expect("a choice") as usize;
        found["alternatives"][at]["name"].as_str().expect("a name").to_owned()
    };
    assert_eq!((chosen(1e8).as_str(), chosen(1e6).as_str()), ("with exchange", "without exchange"));
}

#[test]
fn a_routine_is_placed_by_the_site_s_models() {
    let site = Site::start();
    site.client("administrator:0").post::<()>("/v1/models", &sort()).expect("it is kept");
    let ann = site.client("user:7");
    let mut asked = json!({
        "model": "sort", "args": { "n": "A.length" }, "data": { "A": "vector:double:3000@client" },
        "result": { "B": "vector:double:3000@client" }, "facts": facts(1e8),
    });
    let found: Value = ann.post("/v1/forecasts/place", &asked).expect("a ranking");
    let first = &found["alternatives"][found["order"][0].as_u64().expect("a place") as usize];
    // 3 s with a processor for itself, on half of one, and 24 kB there and back.
    assert!(first["name"] == "n1" && (number(&found["value"]) - 6.048).abs() < 0.01, "{found}");
    let others = found["alternatives"].as_array().expect("all").iter().filter(|one| one["name"] != "n1");
    let silent: Vec<&Value> = others.filter(|one| one["end_s"].is_null()).collect();
    assert_eq!(silent.len(), 3, "nobody knows how fast the others compute: {found}");
    asked["host"] = "n1".into();
    let of_n1: Value = ann.post("/v1/forecasts/total", &asked).expect("a time");
    assert_eq!(of_n1["value"], found["value"]);
}

#[test]
fn who_gives_no_facts_has_the_site_s_asked() {
    let site = Site::start();
    let ann = site.client("user:7");
    let question = json!({ "data": { "A": "bytes:1MB@n1" }, "to": "n2" });
    let (status, why) = refused(&ann, "/v1/forecasts/comm", &question);
    assert!(status == 404 && why.contains("unknown host"), "no agent has called yet: {why}");
    let _agents = [site.agent("n1"), site.agent("n2")];
    let (status, why) = refused(&ann, "/v1/forecasts/comm", &question);
    assert!(status == 503 && why.contains("did not answer"), "these agents sense nothing: {status} {why}");
    let nodes = site.client("node:n1");
    assert_eq!(refused(&nodes, "/v1/forecasts/comm", &question).0, 403);
}

#[test]
fn wrong_questions_about_data_and_hosts_are_one_error() {
    let site = Site::start();
    let ann = site.client("user:7");
    let with = |facts: Value, data: &str, to: &str| json!({ "data": { "A": data }, "to": to, "facts": facts });
    let mut stale = facts(1e8);
    stale["made_unix_s"] = (now_s() - 700.0).into();
    let mut ahead = facts(1e8);
    ahead["made_unix_s"] = (now_s() + 700.0).into();
    let mut twice = facts(1e8);
    twice["links"][1] = link("client", "s1", 5.0);
    let mut negative = facts(1e8);
    negative["links"][0]["bandwidth_bytes_per_s"] = (-1).into();
    let mut other = facts(1e8);
    other["version"] = 2.into();
    let good = "bytes:4@client";
    for (path, question, expected, words) in [
        ("comm", with(facts(1e8), good, "s9"), 404, "unknown host"),
        ("comm", with(facts(1e8), "bytes:4", "s1"), 422, "write @HOST"),
        ("comm", with(facts(1e8), "dense:nothing@client", "s1"), 400, "describes no data"),
        ("comm", with(stale, good, "s1"), 409, "s old"),
        ("comm", with(ahead, good, "s1"), 422, "ahead of now"),
        ("comm", with(twice, good, "s1"), 422, "given twice"),
        ("comm", with(negative, good, "s1"), 422, "above 0"),
        ("comm", with(other, good, "s1"), 422, "version 2"),
        ("comm", json!({ "data": {}, "to": "s1", "facts": facts(1e8) }), 422, "no data"),
        ("comm", json!({ "data": { "A": good }, "to": "s1", "age_s": -1, "facts": facts(1e8) }), 422, "above 0"),
        ("comm", json!({ "data": { "A": good }, "to": "s1", "form": 1 }), 400, "unknown field"),
        ("total", json!({ "model": "sort", "host": "s1", "facts": facts(1e8) }), 404, "no model"),
        ("place", json!({ "model": "sort", "facts": { "version": 1 } }), 404, "no model"),
        ("plan", json!({ "plan": { "version": 1, "alternatives": [] }, "facts": facts(1e8) }), 422, "alternatives"),
        ("plan", json!({ "plan": { "version": 3, "alternatives": [] } }), 422, "version 3"),
    ] {
        let (status, why) = refused(&ann, &format!("/v1/forecasts/{path}"), &question);
        assert!(status == expected && why.contains(words), "{words}: {status} {why}");
    }
}

/// A window of two ranks on n1 and n2 that saw alltoalls.
fn alltoalls() -> Report {
    let mut made = serde_json::to_value(report("secret-program")).expect("a report");
    made["job"]["hosts"] = json!(["n1", "n2"]);
    made["collectives"] = json!([{
        "function": "MPI_Alltoall", "ranks": 2, "bytes": 4096, "calls": 10, "time_s_low": 0.0009, "time_s_median": 0.001,
        "time_s_high": 0.0012, "error_s": 1e-6,
    }]);
    serde_json::from_value(made).expect("a report")
}

#[test]
fn a_collective_is_told_by_windows_of_all_without_their_names() {
    let site = Site::start();
    let _agent = site.agent("n1");
    let question = |hosts: &[&str]| json!({ "collective": "alltoall", "ranks": 2, "bytes": 4096, "hosts": hosts });
    let ann = site.client("user:7");
    assert_eq!(refused(&ann, "/v1/forecasts/collective", &question(&["n1", "n2"])).0, 404, "no window is kept");
    site.keeps(8, "secret", alltoalls());
    let found: Value = ann.post("/v1/forecasts/collective", &question(&["n1", "n2"])).expect("a time");
    assert!((number(&found["time"]["value_s"]) - 0.001).abs() < 1e-9 && found["method"] == "recorded", "{found}");
    assert!(!found.to_string().contains("secret"), "{found}");
    let (status, why) = refused(&ann, "/v1/forecasts/collective", &question(&["n3"]));
    assert!(status == 404 && why.contains("n3") && !why.contains("n2"), "{status} {why}");
    assert_eq!(refused(&ann, "/v1/forecasts/collective", &question(&[])).0, 422);
    let unknown = json!({ "collective": "scatter", "ranks": 2, "hosts": ["n1"] });
    assert_eq!(refused(&ann, "/v1/forecasts/collective", &unknown).0, 400);
}
