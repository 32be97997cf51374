//! The examples of FAST's paper.
//!
//! Next: `laws` for what holds of any plan.

use crate::{
    Answer, Data, Facts, Figure, Host, Impossible, Link, Needs, NoNeeds, Plan, Quantity, RoutineFault, Routines,
    compare,
};
use std::collections::BTreeMap;

/// Nobody knows any routine.
pub(crate) struct Nobody;

impl Routines for Nobody {
    fn needs(&self, routine: &str, _: &str, _: &BTreeMap<String, f64>) -> Result<Needs, NoNeeds> {
        Err(NoNeeds::Wrong(RoutineFault::NoModel { routine: routine.to_owned() }))
    }
}

pub(crate) fn exactly(value: f64) -> Figure {
    Figure::given(Quantity::between(value, value, value))
}

pub(crate) fn link(from: &str, to: &str, bytes_per_s: f64, latency_s: f64) -> Link {
    Link {
        from: from.to_owned(),
        to: to.to_owned(),
        bandwidth_bytes_per_s: exactly(bytes_per_s),
        latency_s: exactly(latency_s),
    }
}

pub(crate) fn facts(links: &[(&str, &str, f64)]) -> Facts {
    let mut facts = Facts { age_max_s: 600.0, ..Facts::default() };
    links.iter().for_each(|(from, to, rate)| facts.add_link(link(from, to, *rate, 0.0)));
    facts
}

fn plan(text: &str) -> Plan {
    serde_json::from_str(text).expect("a plan")
}

fn end(answer: &Answer, name: &str) -> f64 {
    let found = answer.alternatives.iter().find(|one| one.name == name).expect("an alternative");
    found.end_s.expect("an end").value
}

/// Figure 1: A is on server 1, B on server 2.
const FIGURE_1: &str = r#"{
    "version": 1, "transfers": "TRANSFERS",
    "data": { "A": "bytes:1000@s1", "B": "bytes:1000@s2" },
    "alternatives": [
        { "name": "1", "steps": [{ "run": "product", "on": "s1", "takes": ["A", "B"], "seconds": 10 }] },
        { "name": "2", "steps": [{ "run": "product", "on": "s2", "takes": ["A", "B"], "seconds": 5 }] },
        { "name": "3", "steps": [{ "run": "product", "on": "s3", "takes": ["A", "B"], "seconds": 0.5 }] }
    ]
}"#;

#[test]
fn figure_1_comes_out_as_printed() {
    let facts = facts(&[("s2", "s1", 500.0), ("s1", "s2", 1000.0 / 3.0), ("s1", "s3", 1000.0), ("s2", "s3", 500.0)]);
    for (transfers, ends) in [("in_turn", [12.0, 8.0, 3.5]), ("together", [12.0, 8.0, f64::NAN])] {
        let mut facts = facts.clone();
        // The links of the figure are apart: server 3 takes what comes on both.
        facts.hosts.get_mut("s3").expect("a host").receive_bytes_per_s = Some(1500.0);
        let answer = compare(&plan(&FIGURE_1.replace("TRANSFERS", transfers)), &facts, &Nobody).expect("an answer");
        for (name, expected) in ["1", "2", "3"].iter().zip(ends) {
            // At the same time both transfers take 2 s.
            let expected = if expected.is_nan() { 2.5 } else { expected };
            assert!((end(&answer, name) - expected).abs() < 1e-9, "{transfers} {name}: {answer:?}");
        }
        assert_eq!(answer.chosen, Some(2));
    }
}

/// Figures 2b and 2c: the product of complex matrices on two servers.
pub(crate) const FIGURE_2: &str = include_str!("../complex-product.json");

#[test]
fn the_choice_flips_when_one_link_is_slowed() {
    let plan = plan(FIGURE_2);
    let ends = |between: f64, client: f64| {
        let mut all = Vec::new();
        for (one, other) in [("client", "s1"), ("client", "s2"), ("s1", "s2")] {
            let rate = if one == "client" { client } else { between };
            all.extend([(one, other, rate), (other, one, rate)]);
        }
        let answer = compare(&plan, &facts(&all), &Nobody).expect("an answer");
        assert!(answer.is_choice_sure.is_none(), "times are given without an interval");
        let chosen = answer.alternatives[answer.chosen.expect("a choice")].name.clone();
        (chosen, end(&answer, "with exchange"), end(&answer, "without exchange"))
    };
    let (chosen, with, without) = ends(125e6, 12.5e6);
    assert!(chosen == "with exchange" && with < without, "{with} {without}");
    // Six matrices go out, one comes back on each way, and one goes each way between servers.
    let bytes = 8.0 * 1024.0 * 1024.0;
    let (chosen, slowed, same) = ends(1.25e6, 12.5e6);
    assert!(chosen == "without exchange" && slowed > same, "{slowed} {same}");
    assert_eq!(same, without, "it does not use that link");
    assert!(without > 8.0 * bytes / 12.5e6, "eight go out, and the client's links share what it sends");
}

#[test]
fn what_is_impossible_has_its_reason() {
    let mut facts = facts(&[("s1", "s2", 1e6), ("s2", "s3", 1e6)]);
    let ask = |facts: &Facts, host: &str, memory: f64| {
        let text = format!(
            r#"{{"version": 1, "data": {{"A": "bytes:1MB@s1"}}, "alternatives": [{{"name": "x", "steps":
            [{{"run": "f", "on": "{host}", "takes": ["A"], "seconds": 1, "memory_bytes": {memory}}}]}}]}}"#
        );
        compare(&plan(&text), facts, &Nobody).expect("an answer").alternatives.remove(0)
    };
    assert_eq!(ask(&facts, "s3", 0.0).end_s.expect("an end").value, 2.0, "by s2, of which bytes flow on");
    let host = |memory: f64, software: &str| Host {
        memory_free_bytes: Some(exactly(memory)),
        software: Some([software.to_owned()].into()),
        ..Host::default()
    };
    for (memory, software, needs, expected) in [
        (2e6, "f", 1e6, None),
        (2e6, "f", 3e6, Some("memory")),
        (0.5e6, "f", 0.0, Some("memory")),
        (2e6, "g", 0.0, Some("software")),
    ] {
        facts.hosts.insert("s3".to_owned(), host(memory, software));
        let found = ask(&facts, "s3", needs);
        let reason = found.impossible.as_ref().map(|why| match why {
            Impossible::Memory { .. } => "memory",
            Impossible::Software { .. } => "software",
            Impossible::NoPath { .. } => "no_path",
        });
        assert_eq!((reason, found.end_s.is_some()), (expected, expected.is_none()), "{found:?}");
    }
    facts.links.clear();
    let json = serde_json::to_value(ask(&facts, "s2", 0.0)).expect("JSON");
    assert_eq!(
        (&json["impossible"]["reason"], &json["end_s"]),
        (&"no_path".into(), &serde_json::Value::Null),
        "{json}"
    );
}

#[test]
fn wrong_questions_are_one_error() {
    let facts = facts(&[("s1", "s2", 1e6)]);
    let step = |data: &str, step: &str| {
        let text =
            format!(r#"{{"version": 1, "data": {{{data}}}, "alternatives": [{{"name": "x", "steps": [{step}]}}]}}"#);
        let plan: Plan = match serde_json::from_str(&text) {
            Ok(plan) => plan,
            Err(error) => return error.to_string(),
        };
        compare(&plan, &facts, &Nobody).expect_err(step).to_string()
    };
    let a = r#""A": "bytes:4@s1""#;
    for (data, given, said) in [
        (a, r#"{"send": "B", "to": "s2"}"#, "there are no data \"B\""),
        (a, r#"{"send": "A", "to": "s9"}"#, "unknown host \"s9\": known are s1, s2"),
        (a, r#"{"send": "A"}"#, "a step has"),
        (a, r#"{"send": "A", "to": "s2", "speed": 3}"#, "unknown field"),
        (r#""A": "bytes:4""#, r#"{"send": "A", "to": "s2"}"#, "no place"),
        (r#""A": "dense:double:-4x4@s1""#, r#"{"send": "A", "to": "s2"}"#, "describes no data"),
        (a, r#"{"run": "f", "on": "s1", "gives": ["A"], "seconds": 1}"#, "is there already"),
        (a, r#"{"run": "f", "on": "s1", "seconds": -1}"#, "0 or more"),
        (a, r#"{"run": "f", "on": "s1", "seconds": {"value": 1, "lower": 2, "upper": 3}}"#, "between its ends"),
        (a, r#"{"run": "f", "on": "s1", "args": {"n": "A.rows"}}"#, "is no size"),
        (a, r#"{"run": "f", "on": "s1", "args": {"n": -4}}"#, "is no size"),
        (a, r#"{"run": "f", "on": "s1", "args": {"n": 4}}"#, "no model"),
    ] {
        let error = step(data, given);
        assert!(error.contains(said), "{given}: {error}");
    }
}

#[test]
fn stale_figures_are_refused_with_their_age() {
    let mut facts = facts(&[("s1", "s2", 1e6)]);
    facts.links[0].bandwidth_bytes_per_s.age_s = Some(601.0);
    let data = BTreeMap::from([("A".to_owned(), Data::parse("bytes:4@s1").expect("data"))]);
    let steps = vec![crate::Step::sends("A", "s2")];
    let mut plan = Plan::new(data, vec![crate::Alternative { name: "x".to_owned(), steps }]);
    let error = compare(&plan, &facts, &Nobody).expect_err("stale").to_string();
    assert!(error.contains("601 s old, more than 600 s") && error.contains("s1 to s2"), "{error}");
    plan.is_lenient = true;
    let answer = compare(&plan, &facts, &Nobody).expect("an answer");
    assert!(answer.alternatives[0].no_claim.as_ref().is_some_and(|why| why.contains("601 s old")), "{answer:?}");
    facts.links[0].bandwidth_bytes_per_s.age_s = Some(-60.0);
    assert!(compare(&plan, &facts, &Nobody).expect_err("a clock").to_string().contains("ahead of now"));
    // A way around it is taken instead.
    facts.links[0].bandwidth_bytes_per_s.age_s = Some(601.0);
    facts.add_link(link("s1", "s3", 1e6, 0.1));
    facts.add_link(link("s3", "s2", 1e6, 0.2));
    facts.links[1].latency_s.age_s = Some(20.0);
    let answer = compare(&plan, &facts, &Nobody).expect("an answer").alternatives.remove(0);
    assert_eq!((answer.steps[0].hosts.join(" "), answer.oldest_age_s), ("s1 s3 s2".to_owned(), Some(20.0)));
}

#[test]
fn intervals_add_up_by_squares_and_shared_figures_move_together() {
    let wide = |value: f64, half: f64| Figure::given(Quantity::between(value, value - half, value + half));
    let mut facts = Facts { age_max_s: 600.0, ..Facts::default() };
    for (to, latency) in [("s2", wide(3.0, 0.3)), ("s3", wide(4.0, 0.4))] {
        let (from, to) = (if to == "s2" { "s1" } else { "s2" }.to_owned(), to.to_owned());
        facts.add_link(Link { from, to, bandwidth_bytes_per_s: exactly(1e12), latency_s: latency });
    }
    let data = BTreeMap::from([("A".to_owned(), Data::parse("bytes:1@s1").expect("data"))]);
    let alternative = |name: &str, to: &[&str]| crate::Alternative {
        name: name.to_owned(),
        steps: to.iter().map(|to| crate::Step::sends("A", to)).collect(),
    };
    let plan = Plan::new(data, vec![alternative("far", &["s3"]), alternative("both", &["s2", "s3"])]);
    let answer = compare(&plan, &facts, &Nobody).expect("an answer");
    let end = answer.alternatives[0].end_s.expect("an end");
    let (lower, upper) = end.ends().expect("an interval");
    assert!((end.value - 7.0).abs() < 1e-9 && (upper - 7.5).abs() < 1e-9 && (lower - 6.5).abs() < 1e-9, "{end:?}");
    assert_eq!(answer.is_choice_sure, Some(false), "both rest on the same figures and end at the same time");
}

#[test]
fn a_short_plan_has_the_share_of_now_and_a_long_one_that_which_comes_next() {
    // Half of a processor now; nine tenths are said to come ten seconds after.
    let took_s = |alone_s: f64, age_s: f64| {
        let next = crate::Next { value: 0.9, ends: (0.4, 1.0), step_s: 10.0 };
        let share = crate::Looked::in_series(Some(0.5), Some(next), age_s).map(crate::Looked::share);
        let mut facts = Facts { age_max_s: 600.0, ..Facts::default() };
        facts.add_host("h", Host { cpu_share: share, ..Host::default() });
        let step = crate::Step {
            run: Some("r".to_owned()),
            on: Some("h".to_owned()),
            seconds: Some(crate::Written::Object { value: alone_s, lower: alone_s, upper: alone_s }),
            ..crate::Step::default()
        };
        let plan = Plan::new(BTreeMap::new(), vec![crate::Alternative { name: "a".to_owned(), steps: vec![step] }]);
        compare(&plan, &facts, &Nobody).expect("a time").alternatives[0].end_s.expect("a time")
    };
    let share = |alone_s: f64, age_s: f64| alone_s / took_s(alone_s, age_s).value;
    assert!((share(1e-6, 0.0) - 0.5).abs() < 1e-6);
    // It lasts 2 s with the share of now: one of ten seconds on the way.
    assert!((share(1.0, 0.0) - 0.54).abs() < 1e-9, "{}", share(1.0, 0.0));
    assert!((share(1.0, 5.0) - (0.5 + 0.4 * 4.0 / 7.0)).abs() < 1e-9, "{}", share(1.0, 5.0));
    assert!((share(1.0, 10.0) - 0.9).abs() < 1e-9);
    assert!((share(100.0, 0.0) - 0.9).abs() < 1e-9);
    let ends = took_s(1.0, 0.0).ends().expect("an interval");
    assert!(ends.0 <= 1.0 + 1e-9 && ends.1 >= 2.5 - 1e-9, "it is that of what comes next: {ends:?}");
}
