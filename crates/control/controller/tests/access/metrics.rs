//! `GET /metrics`: who may, what is there, and that every line is what Prometheus reads.

use super::{Site, status};
use crate::forecasts::{now_s, ring};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_store::{History, RunEnd, Store};

/// A sample: its metric, its labels, its value.
type Sample = (String, BTreeMap<String, String>, f64);

fn is_name(text: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    text.starts_with(|letter: char| !letter.is_ascii_digit()) && !text.is_empty() && text.chars().all(fits)
}

/// The labels between braces; `None`: they are none.
fn labels(text: &str) -> Option<BTreeMap<String, String>> {
    let (mut all, mut rest) = (BTreeMap::new(), text);
    while !rest.is_empty() {
        let (name, quoted) = rest.split_once("=\"")?;
        let (mut value, mut letters) = (String::new(), quoted.char_indices());
        let end = loop {
            match letters.next()? {
                (_, '\\') => value.push(match letters.next()?.1 {
                    'n' => '\n',
                    letter @ ('\\' | '"') => letter,
                    _ => return None,
                }),
                (at, '"') => break at,
                (_, letter) => value.push(letter),
            }
        };
        if !is_name(name) || all.insert(name.to_owned(), value).is_some() {
            return None;
        }
        rest = &quoted[end + 1..];
        rest = match rest.strip_prefix(',') {
            Some(more) => more,
            None if rest.is_empty() => rest,
            None => return None,
        };
    }
    Some(all)
}

/// Reads the text format 0.0.4: each metric has its help, its type and all of its samples in one place, each sample once.
fn samples(text: &str) -> Result<Vec<Sample>, String> {
    if !text.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    let (mut all, mut known, mut current): (Vec<Sample>, BTreeSet<String>, Option<(String, String)>) =
        (Vec::new(), BTreeSet::new(), None);
    let mut helped = String::new();
    for line in text.lines() {
        let wrong = |what: &str| format!("{what}: {line}");
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = help.split(' ').next().unwrap_or_default().to_owned();
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').ok_or_else(|| wrong("no type"))?;
            let is_kind = matches!(kind, "counter" | "gauge") && name.ends_with("_total") == (kind == "counter");
            if !is_name(name) || !is_kind || helped != name || !known.insert(name.to_owned()) {
                return Err(wrong("no type of a metric that has none yet"));
            }
            current = Some((name.to_owned(), kind.to_owned()));
            continue;
        }
        let (left, value) = line.rsplit_once(' ').ok_or_else(|| wrong("no value"))?;
        let (name, inside) = match left.split_once('{') {
            Some((name, rest)) => (name, rest.strip_suffix('}').ok_or_else(|| wrong("no end of labels"))?),
            None => (left, ""),
        };
        let (of, kind) = current.as_ref().ok_or_else(|| wrong("no type before it"))?;
        let value: f64 = value.parse().map_err(|_| wrong("no number"))?;
        let labels = labels(inside).ok_or_else(|| wrong("no labels"))?;
        if of != name || !value.is_finite() || (kind == "counter" && value < 0.0) {
            return Err(wrong("no sample of this metric"));
        }
        if all.iter().any(|(other, theirs, _)| other == name && *theirs == labels) {
            return Err(wrong("it is there twice"));
        }
        all.push((name.to_owned(), labels, value));
    }
    Ok(all)
}

#[test]
fn what_is_no_text_of_metrics_is_told() {
    let good = "# HELP a_total b c\n# TYPE a_total counter\na_total{x=\"\\\"\\\\\\n,}\",y=\"\"} 1e3\n";
    let read = samples(good).expect("it is one");
    assert_eq!((read[0].1["x"].as_str(), read[0].2), ("\"\\\n,}", 1000.0));
    for (name, bad) in [
        ("no type", "a 1\n"),
        ("no help", "# TYPE a gauge\na 1\n"),
        ("another metric's sample", "# HELP a b\n# TYPE a gauge\nb 1\n"),
        ("no number", "# HELP a b\n# TYPE a gauge\na one\n"),
        ("twice", "# HELP a b\n# TYPE a gauge\na 1\na 2\n"),
        ("an open label", "# HELP a b\n# TYPE a gauge\na{x=\"1} 1\n"),
        ("a counter without its ending", "# HELP a b\n# TYPE a counter\na 1\n"),
        ("no end", "# HELP a b\n# TYPE a gauge\na 1"),
    ] {
        assert!(samples(bad).is_err(), "{name}");
    }
}

#[test]
fn metrics_say_what_the_site_does_and_name_nobody() {
    let site = Site::start();
    let ann = site.client("user:7");
    assert_eq!(status(site.client("node:n1").text("/metrics")), 403);
    let of = |name: &str, wanted: &[(&str, &str)]| -> Option<f64> {
        let text = ann.text("/metrics").expect("metrics");
        let all = samples(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        let is_it = |(other, labels, _): &&Sample| {
            other == name && wanted.iter().all(|(label, value)| labels.get(*label).is_some_and(|found| found == value))
        };
        all.iter().find(is_it).map(|(.., value)| *value)
    };
    assert_eq!(of("trimtab_windows_total", &[("outcome", "kept")]), Some(0.0));
    assert_eq!(of("trimtab_forecasts_judged", &[]), None, "none is: it is left out");
    let _agent = site.agent("n1");
    let now = now_s();
    let job = site.keeps(7, "ring", ring(now - 210.0, now - 10.0, 200));
    ann.post::<Value>("/v1/forecasts/job", &json!({ "job": job })).expect("hers");
    assert_eq!(status(site.client("user:8").post::<Value>("/v1/forecasts/job", &json!({ "job": job }))), 404);
    let mut store = Store::open_site(Some(&site.folder.path().join("site.db"))).expect("the store");
    let key = store.job_called(&job).expect("it is there").key;
    store.note_end(&key, RunEnd { after_unix_s: now + 800.0, before_unix_s: now + 800.0 }).expect("it is noted");
    for (name, labels, expected) in [
        ("trimtab_nodes", &[("state", "connected")][..], 1.0),
        ("trimtab_nodes", &[("state", "gone")], 0.0),
        ("trimtab_jobs_kept", &[], 1.0),
        ("trimtab_windows_kept", &[], 1.0),
        ("trimtab_windows_total", &[("outcome", "begun")], 1.0),
        ("trimtab_windows_total", &[("outcome", "started_on_node")], 1.0),
        ("trimtab_windows_total", &[("outcome", "kept")], 1.0),
        ("trimtab_forecasts_total", &[("kind", "job"), ("outcome", "answered")], 1.0),
        ("trimtab_forecasts_total", &[("kind", "job"), ("outcome", "refused")], 1.0),
        ("trimtab_forecasts_total", &[("kind", "queue"), ("outcome", "answered")], 0.0),
        ("trimtab_forecasts_judged", &[("kind", "job")], 1.0),
        ("trimtab_forecast_intervals_held_ratio", &[("kind", "job")], 1.0),
    ] {
        assert_eq!(of(name, labels), Some(expected), "{name} {labels:?}");
    }
    assert!(of("trimtab_forecast_error_median_ratio", &[]).is_some_and(|error| error < 0.05));
    assert_eq!(of("trimtab_weather_age_seconds", &[]), None, "this agent senses nothing");
    let text = ann.text("/metrics").expect("metrics");
    let labels: BTreeSet<String> =
        samples(&text).expect("metrics").into_iter().flat_map(|(_, labels, _)| labels.into_keys()).collect();
    assert!(
        labels.iter().all(|label| ["state", "outcome", "kind", "method", "host"].contains(&label.as_str())),
        "{labels:?}"
    );
    assert!(!text.contains("ring") && !text.contains("user"), "{text}");
}
