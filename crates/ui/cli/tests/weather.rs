//! `trimtab weather` as it is typed, on this host: what is printed, kept and forecast, and what is wrong with options.
//!
//! Next: docs/weather.md; `trimtab-sensors`' own test of truth for shares beside what processes got.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn weather(store: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    command.arg("weather").args(options).arg("--store").arg(store);
    command.output().expect("trimtab runs")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn this_host_has_weather_and_a_forecast() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("trimtab.db");
    let one = json(&weather(&store, &["--json", "-"]));
    let figure = |found: &Value, key: &str| found["figures"][key].clone();
    let share = figure(&one, "cpu_share");
    assert!(share["value"].as_f64().is_some_and(|share| share > 0.0 && share <= 1.0), "{one}");
    assert!(share["how"].as_str().is_some_and(|how| how.contains("corrected by probes")), "{one}");
    assert!(figure(&one, "memory_free_bytes")["value"].as_f64().is_some_and(|bytes| bytes > 1e6), "{one}");
    assert_eq!((&share["soon"], one["version"].as_u64()), (&Value::Null, Some(1)), "one value is no basis");
    assert!(share["no_soon"].as_str().is_some_and(|why| why.contains("1 value in a row")), "{share}");
    for (key, figure) in one["figures"].as_object().expect("figures") {
        assert_ne!(figure["value"].is_null(), figure["why_not"].is_null(), "{key}: a value or a reason: {figure}");
    }
    let ways = one["ways"].as_array().expect("ways");
    assert_eq!(ways.iter().filter_map(|way| way["way"].as_str()).collect::<Vec<_>>(), ["tasks", "vmstat", "load"]);
    assert!(one["probe"]["cpu_s"].as_f64().is_some_and(|cpu_s| cpu_s > 0.0 && cpu_s < 0.1), "{one}");
    // Enough for an interval.
    let many = json(&weather(&store, &["--for", "13", "--nice", "5", "--json", "-"]));
    let soon = figure(&many, "cpu_share")["soon"].clone();
    let [lower, value, upper] = ["lower", "value", "upper"].map(|key| soon[key].as_f64().expect("a number"));
    assert!(0.0 <= lower && lower <= value && value <= upper && upper <= 1.0, "{soon}");
    assert_eq!((soon["values"].as_u64(), soon["share_inside"].as_f64()), (Some(13), Some(0.9)), "of this level only");
    let shown = String::from_utf8(weather(&store, &["--no-probe"]).stdout).expect("text");
    assert!(shown.contains("share of a processor") && shown.contains("no probe: --no-probe"), "{shown}");
}

#[test]
fn a_process_s_place_has_its_own_weather_which_is_not_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("trimtab.db");
    let mut other = Command::new("sleep").arg("600").spawn().expect("sleep runs");
    let pid = other.id().to_string();
    let found = json(&weather(&store, &["--pid", &pid, "--json", "-"]));
    assert!(found["figures"]["cpu_share"]["value"].as_f64().is_some_and(|share| share > 0.0), "{found}");
    assert!(found["no_probe"].as_str().is_some_and(|why| why.contains("place of another process")), "{found}");
    assert!(found["figures"]["cpu_share"]["no_soon"].as_str().is_some_and(|why| why.contains("not kept")), "{found}");
    other.kill().and_then(|()| other.wait()).expect("it ends");
    let gone = weather(&store, &["--pid", &pid]);
    assert_eq!(gone.status.code(), Some(2), "{gone:?}");
    assert!(String::from_utf8_lossy(&gone.stderr).contains(&format!("process {pid} is not there")), "{gone:?}");
}

#[test]
fn what_can_not_be_is_one_clear_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("trimtab.db");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "0123456789abcdef0123456789abcdef\n").expect("a file");
    let broken = folder.path().join("broken");
    std::fs::write(&broken, "hello\n").expect("a file");
    let [secret, broken] = [&secret, &broken].map(|path| path.display().to_string());
    // A port that is free, so nobody answers.
    let closed =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a port").to_string();
    for (options, said) in [
        (&["--nice", "20"][..], "from -20 to 19"),
        (&["--nice", "x"], "from -20 to 19"),
        (&["--for", "0"], "from 1 to 86400"),
        (&["--to", "127.0.0.1:9"], "--secret"),
        (&["--to", "no-such-host.invalid:9", "--secret", &secret], "unknown host: no-such-host.invalid:9"),
        (&["--to", "nowhere", "--secret", &secret], "unknown host: nowhere"),
        (&["--to", &closed, "--secret", &broken], "holds no secret"),
        (&["--to", &closed, "--secret", &secret], "can't be reached"),
        (&["--bytes", "2000"], "--to"),
        (&["--json", "/nowhere/x"], "can't write /nowhere/x"),
        (&["--answer", "999.0.0.1:1"], "invalid"),
        (&["--answer", "127.0.0.1:0", "--nice", "1"], "cannot be used with"),
    ] {
        let output = weather(&store, options);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
        assert!(text.contains(said), "{options:?}: {text}");
    }
}
