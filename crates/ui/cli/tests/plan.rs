//! `trimtab forecast comm|total|place|plan` as they are typed, on hosts and links from files and from the store. No time is
//! measured here: `weather_net.rs` has transfers on real links.
//!
//! Next: docs/forecasts.md, `trimtab-grid` for the answers.

use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use trimtab_store::{History, KnownHost, SeriesName, SeriesValue, Store};

/// FAST's product of complex matrices on two servers.
const PRODUCT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/grid/complex-product.json");

/// A store of its own.
struct Home {
    folder: TempDir,
}

impl Home {
    fn new() -> Self {
        Home { folder: tempfile::tempdir().expect("a folder") }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("trimtab.db")
    }

    fn file(&self, name: &str, content: &Value) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content.to_string()).expect("a file");
        path.display().to_string()
    }

    fn trimtab(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
        command.env_remove("TRIMTAB_CONTROLLER").arg("--store").arg(self.store());
        command.args(words).output().expect("trimtab runs")
    }

    fn said(&self, words: &[&str], code: i32) -> String {
        let output = self.trimtab(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn json(&self, words: &[&str], code: i32) -> Value {
        let words = [words, &["--json", "-"]].concat();
        serde_json::from_str(&self.said(&words, code)).expect("JSON")
    }

    fn refused(&self, words: &[&str]) -> String {
        let output = self.trimtab(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn forecasts(&self) -> usize {
        Store::open(Some(&self.store())).expect("the store").size_forecasts().expect("forecasts").len()
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64()
}

fn quantity(value: f64, share: f64) -> Value {
    json!({ "value": value, "lower": value * (1.0 - share), "upper": value * (1.0 + share) })
}

fn link(from: &str, to: &str, bandwidth: f64) -> Value {
    json!({ "from": from, "to": to, "bandwidth_bytes_per_s": quantity(bandwidth, 0.1), "latency_s": quantity(0.001, 0.5),
            "both_ways": true })
}

/// n1 and n2 beside each other, n3 behind n2, n4 without a link.
fn facts(age_s: f64) -> Value {
    json!({
        "version": 1,
        "made_unix_s": now_s() - age_s,
        "hosts": {
            "n1": { "cpu_share": quantity(0.5, 0.1), "memory_free_bytes": 8e9, "software": ["block"] },
            "n2": { "cpu_share": quantity(1.0, 0.0), "memory_free_bytes": 8e9, "software": ["block"] },
            "n3": { "cpu_share": quantity(1.0, 0.0), "memory_free_bytes": 1e6, "software": ["block"] },
            "n4": { "cpu_share": quantity(1.0, 0.0), "memory_free_bytes": 8e9 },
            "n5": { "cpu_share": quantity(1.0, 0.0), "memory_free_bytes": 8e9, "software": ["other"] },
        },
        "links": [link("n1", "n2", 1e7), link("n2", "n3", 5e6), link("n1", "n5", 1e7)],
    })
}

#[test]
fn transfers_take_the_best_way_and_share_links() {
    let home = Home::new();
    let weather = home.file("weather.json", &facts(30.0));
    let comm = |data: &[&str], to: &str, code: i32| {
        home.json(&[&["forecast", "comm", "--to", to, "--weather", &weather, "--data"][..], data].concat(), code)
    };
    let said = comm(&["A=vector:byte:10000000@n1"], "n2", 0);
    assert!((number(&said["value"]) - 1.001).abs() < 1e-6 && number(&said["lower"]) < number(&said["value"]), "{said}");
    // Bandwidth 10% lower makes it an ninth longer; the latency hardly matters.
    assert!((number(&said["upper"]) - 1.001 - 1.0 / 9.0).abs() < 1e-3, "{said}");
    let oldest_s = number(&said["alternatives"][0]["oldest_age_s"]);
    assert!((30.0..90.0).contains(&oldest_s) && said["facts_from"] == "files", "{said}");
    let said = comm(&["A=bytes:10MB@n1"], "n3", 1);
    let found = &said["alternatives"][0];
    assert_eq!((&found["impossible"]["reason"], &said["value"]), (&"memory".into(), &Value::Null), "{said}");
    let said = comm(&["A=bytes:100kB@n1"], "n3", 0);
    assert_eq!(said["alternatives"][0]["steps"][0]["hosts"], json!(["n1", "n2", "n3"]));
    assert!((number(&said["value"]) - 0.022).abs() < 1e-6, "bandwidth is the minimum, latency the sum: {said}");
    let both = comm(&["A=bytes:10MB@n1", "B=bytes:10MB@n1"], "n2", 0);
    assert!((number(&both["value"]) - 2.001).abs() < 1e-6, "{both}");
    assert!(both["alternatives"][0]["because"].to_string().contains("share their ways"), "{both}");
    assert_eq!(comm(&["A=bytes:1@n4"], "n1", 1)["alternatives"][0]["impossible"]["reason"], "no_path");
    assert_eq!(home.forecasts(), 3, "all with a time and an interval are kept");
    let page = home.said(&["forecast", "comm", "--to", "n2", "--weather", &weather, "--data", "A=bytes:10MB@n1"], 0);
    for words in ["to n2: 1.00 s (90%:", "A (10.00 MB) n1 -> n2", "the oldest figure is"] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

#[test]
fn a_routine_is_placed_with_its_data_and_its_result() {
    let home = Home::new();
    // Most of its time is sleep, which is as long on a machine that others disturb.
    let block = "sh -c 'dd if=/dev/zero of=/dev/null bs={n}M count=1 status=none; sleep {n}e-2'";
    let fitted = home.json(&["model", "fit", "block", "--run", block, "--over", "n=8..64:5", "--repeat", "1"], 0);
    let mut store = Store::open(Some(&home.store())).expect("the store");
    for name in ["n1", "n2", "n3", "n4", "n5"] {
        let (kind, speed) = (fitted["host_kind"].to_string(), fitted["speed"].to_string());
        store.note_host(&KnownHost { name: name.to_owned(), kind, speed, seen_unix_s: 1.0 }).expect("it is kept");
    }
    drop(store);
    let weather = home.file("weather.json", &facts(5.0));
    let work = ["--args", "n=A.rows", "--data", "A=dense:byte:32x1024@n1", "--weather", weather.as_str()];
    let result = ["--result", "C=bytes:1MB@n1"];
    let total = |host: &str, more: &[&str]| {
        home.json(&[&["forecast", "total", "block", "--host", host], &work[..], more].concat(), 0)
    };
    let (here, there, back) = (total("n1", &[]), total("n2", &[]), total("n2", &result));
    let alone = number(&here["alternatives"][0]["steps"][0]["alone_s"]);
    assert!((number(&here["value"]) / alone - 2.0).abs() < 1e-6, "half of a processor: {here}");
    assert!((number(&there["value"]) - alone - 0.001 - 0.0032768).abs() < 1e-6, "{there}");
    assert!((number(&back["value"]) - number(&there["value"]) - 0.101).abs() < 1e-6, "the result comes back: {back}");
    let comp = home.json(&["forecast", "comp", "block", "--host", "n2", "--args", "n=32"], 0);
    assert!((number(&comp["value"]) - alone).abs() < 1e-9, "{comp}");

    let placed = home.json(&[&["forecast", "place", "block"][..], &work].concat(), 0);
    let of = |name: &str| {
        let all = placed["alternatives"].as_array().expect("alternatives");
        all.iter().find(|one| one["name"] == name).expect(name).clone()
    };
    assert_eq!(of("n3")["impossible"]["reason"], "memory");
    assert_eq!(of("n4")["impossible"]["reason"], "no_path");
    assert_eq!(of("n5")["impossible"], json!({ "reason": "software", "host": "n5", "routine": "block" }));
    let chosen = placed["chosen"].as_u64().expect("a choice") as usize;
    let ends: Vec<f64> = ["n1", "n2"].map(|name| number(&of(name)["end_s"]["value"])).into();
    assert_eq!(placed["alternatives"][chosen]["name"], if ends[0] < ends[1] { "n1" } else { "n2" }, "{placed}");
    let page = home.said(&[&["forecast", "place", "block"][..], &work].concat(), 0);
    assert!(page.contains("impossible: block is not installed on n5"), "{page}");
    // Of some hosts nothing is known: they have a reason, the others a place.
    let only = [&["forecast", "place", "block", "--on", "n1,n2"][..], &work].concat();
    assert_eq!(home.json(&only, 0)["alternatives"].as_array().map(Vec::len), Some(2));
    let said = home.refused(&[&["forecast", "total", "other", "--host", "n1"][..], &work].concat());
    assert!(said.contains("there is no model \"other\""), "{said}");
}

#[test]
fn fasts_product_is_planned_and_the_choice_flips_with_one_link() {
    let home = Home::new();
    let plan = |between: f64| {
        let links = json!([link("client", "s1", 12.5e6), link("client", "s2", 12.5e6), link("s1", "s2", between)]);
        let weather = home.file("weather.json", &json!({ "version": 1, "links": links }));
        home.json(&["forecast", "plan", PRODUCT, "--weather", &weather], 0)
    };
    let (fast, slow) = (plan(125e6), plan(0.5e6));
    let chosen = |said: &Value| said["alternatives"][number(&said["chosen"]) as usize]["name"].clone();
    assert_eq!((chosen(&fast), chosen(&slow)), ("with exchange".into(), "without exchange".into()));
    let best = &fast["alternatives"][0];
    let path = best["critical_path"].as_array().expect("a path");
    let last = number(&path[path.len() - 1]) as usize;
    assert_eq!(best["steps"][last]["ends_s"]["value"], best["end_s"]["value"]);
    assert_eq!((&best["steps"][last]["kind"], &best["steps"][last]["hosts"][1]), (&"send".into(), &"client".into()));
    assert_eq!((&fast["lower"], home.forecasts()), (&Value::Null, 0), "times of the file have no interval");
    assert!(best["because"].to_string().contains("there is no interval"), "{best}");
}

#[test]
fn weather_that_was_measured_is_used() {
    let home = Home::new();
    let figure = |value: f64, unit: &str| json!({ "value": value, "unit": unit, "age_s": 1.0 });
    let mut said = json!({
        "version": 1, "host": "n1", "to": "10.0.0.2:4711", "made_unix_s": now_s(),
        "figures": {
            "cpu_share": figure(0.5, "share"), "memory_free_bytes": figure(1e9, "bytes"),
            "latency_s": figure(0.001, "s"), "bandwidth_bytes_per_s": figure(1e6, "bytes/s"),
        },
        "net": { "latency_least_s": 0.0005, "latency_most_s": 0.002 },
    });
    let weather = home.file("n1.json", &said);
    let words = ["forecast", "comm", "--data", "A=bytes:1MB@n1", "--to", "n2", "--alias", "n2=10.0.0.2", "--weather"];
    let found = home.json(&[&words[..], &[&weather]].concat(), 0);
    assert!((number(&found["value"]) - 1.001).abs() < 1e-6, "{found}");
    assert!((number(&found["upper"]) - 1.0 / 0.9 - 0.001).abs() < 1e-3, "of one probe it is within 10%: {found}");
    assert!(found["alternatives"][0]["because"].to_string().contains("one probe"), "{found}");
    said["figures"]["bandwidth_bytes_per_s"]["unit"] = "bit/s".into();
    let weather = home.file("n1.json", &said);
    let error = home.refused(&[&words[..], &[&weather]].concat());
    assert!(error.contains("bandwidth_bytes_per_s is in \"bit/s\""), "{error}");

    // The same from the store, without a file.
    let series = |figure: &str, value: f64| {
        let name =
            SeriesName { host: "n1".to_owned(), peer: Some("10.0.0.2:4711".to_owned()), figure: figure.to_owned() };
        (name, SeriesValue { at_unix_s: now_s() - 5.0, value })
    };
    let mut store = Store::open(Some(&home.store())).expect("the store");
    store.note_values(&[series("latency_s", 0.001), series("bandwidth_bytes_per_s", 2e6)]).expect("they are kept");
    drop(store);
    let found = home.json(&words[..words.len() - 1], 0);
    assert!((number(&found["value"]) - 0.501).abs() < 1e-6 && found["facts_from"] == "store", "{found}");
}

#[test]
fn what_can_not_be_meant_is_one_error_and_nothing_is_kept() {
    let home = Home::new();
    let weather = home.file("weather.json", &facts(5.0));
    let comm = |data: &str, to: &str, weather: &str| {
        home.refused(&["forecast", "comm", "--data", data, "--to", to, "--weather", weather])
    };
    for (data, to, said) in [
        ("A=dense:double:-4x4@n1", "n2", "no count"),
        ("A=dense:double:NaNx4@n1", "n2", "no count"),
        ("A=dense:double:4kBx4@n1", "n2", "without a unit"),
        ("A=dense:double:4x4", "n2", "has no place"),
        ("A=bytes:3s@n1", "n2", "no amount of data"),
        ("A=bytes:4@n1", "n9", "unknown host \"n9\": known are n1, n2, n3, n4, n5"),
        ("A=bytes:4@n9", "n1", "unknown host \"n9\""),
    ] {
        let text = comm(data, to, &weather);
        assert!(text.contains(said), "{data} {to}: {text}");
    }
    let stale = home.file("stale.json", &facts(700.0));
    let text = comm("A=bytes:4@n1", "n2", &stale);
    assert!(text.contains("s old, more than 600 s") && text.contains("trimtab weather"), "{text}");
    assert_eq!(
        home.json(
            &["forecast", "comm", "--data", "A=bytes:4@n1", "--to", "n2", "--weather", &stale, "--age", "900"],
            0
        )["asked"],
        "comm"
    );
    let ahead = home.file("ahead.json", &facts(-700.0));
    assert!(comm("A=bytes:4@n1", "n2", &ahead).contains("ahead of now"));
    let mut all = facts(5.0);
    for (place, value, said) in [
        ("/links/0/bandwidth_bytes_per_s/value", json!(-1.0), "above 0"),
        ("/links/0/bandwidth_bytes_per_s/lower", json!(1e9), "above 0"),
        ("/links/0/latency_s/value", json!("fast"), "describes no hosts and links"),
        ("/hosts/n1/cpu_share/value", json!(1.5), "up to 1"),
        ("/links/1", link("n1", "n2", 3e6), "given twice"),
        ("/version", json!(9), "version 9"),
    ] {
        let kept = std::mem::replace(all.pointer_mut(place).expect(place), value);
        let text = comm("A=bytes:4@n1", "n2", &home.file("wrong.json", &all));
        assert!(text.contains(said), "{place}: {text}");
        *all.pointer_mut(place).expect(place) = kept;
    }
    assert!(comm("A=bytes:4@n1", "n2", "/no/such/file").contains("/no/such/file"));
    let text = home.refused(&["forecast", "comm", "--data", "A=bytes:4@n1", "--to", "n2"]);
    assert!(text.contains("nothing is known of any host"), "{text}");
    let plan = home.file("plan.json", &json!({ "version": 1, "alternatives": [], "speed": 3 }));
    assert!(home.refused(&["forecast", "plan", &plan, "--weather", &weather]).contains("unknown field"));
    assert_eq!(home.forecasts(), 1, "only that with --age");
}
