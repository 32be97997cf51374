//! `trimtab model` and `forecast comp|size` as they are typed: programs that others wrote, run at several sizes, and what is said
//! of sizes that were not run. No time is judged here: `benches/results` has figures.
//!
//! Next: docs/forecasts.md, `trimtab-routine` for the models.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;
use trimtab_store::{History, KnownHost, Store};

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

    fn trimtab(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
        command.arg("--store").arg(self.store()).args(words).output().expect("trimtab runs")
    }

    /// Standard output, if it ended with this code.
    fn said(&self, words: &[&str], code: i32) -> String {
        let output = self.trimtab(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn json(&self, words: &[&str], code: i32) -> Value {
        let words = [words, &["--json", "-"]].concat();
        serde_json::from_str(&self.said(&words, code)).expect("JSON")
    }

    /// The last lines of standard error of a command that ends with code 2.
    fn refused(&self, words: &[&str]) -> String {
        let output = self.trimtab(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// dd takes a block of `n` MiB of memory, and goes through it once. Most of the time is sleep, which is as long on a machine
/// that others disturb.
const BLOCK: &str = "sh -c 'dd if=/dev/zero of=/dev/null bs={n}M count=1 status=none; sleep {n}e-2'";

#[test]
fn memory_and_time_of_a_program_are_fitted_kept_and_asked() {
    let home = Home::new();
    let fitted = home.json(&["model", "fit", "block", "--run", BLOCK, "--over", "n=8..64:6", "--repeat", "5"], 0);
    assert_eq!((&fitted["name"], fitted["parameters"][0].as_str()), (&"block".into(), Some("n")), "{fitted}");
    assert!(fitted["runs"].as_array().is_some_and(|runs| (30..=60).contains(&runs.len())), "{fitted}");
    assert_eq!(fitted["memory"]["unit"], "bytes");
    let size = |n: &str| home.json(&["forecast", "size", "block", "--args", n], 0);
    for (n, bytes, is_outside) in [("n=25", 25.0, false), ("n=50", 50.0, false), ("n=128", 128.0, true)] {
        let said = size(n);
        // The program itself has some two MiB beside its block.
        let own = number(&said["value"]) - bytes * f64::from(1 << 20);
        assert!(own.abs() < 0.02 * bytes * f64::from(1 << 20) + f64::from(3 << 20), "{said}");
        assert_eq!(said["outside"], is_outside, "{said}");
        assert!(number(&said["lower"]) <= number(&said["value"]) && number(&said["value"]) <= number(&said["upper"]));
    }
    assert!((number(&size("n=128")["beyond"]["n"]) - 2.0).abs() < 1e-9);
    let width = |n: &str| {
        let said = size(n);
        (number(&said["upper"]) - number(&said["lower"])) / number(&said["value"])
    };
    assert!(width("n=256") > width("n=64"), "the interval grows");

    let page = home.said(&["model", "show", "block"], 0);
    for words in ["block: sh -c", "n from 8 to 64", "seconds: o measured, . model", "bytes:", "* n"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(home.said(&["model", "list"], 0).starts_with("block"));
    let checked = home.json(&["forecast", "comp", "block", "--args", "n=16", "--check"], 0);
    let kept = Store::open(Some(&home.store())).expect("the store").size_forecasts().expect("forecasts");
    let last = kept.last().expect("a forecast");
    assert_eq!((kept.len(), last.came, Some(last.value)), (7, checked["came"].as_f64(), checked["value"].as_f64()));
    // On a machine where others disturb all runs none counts.
    let is_said = checked["because"].to_string().contains("no run counts");
    assert!(last.came.is_some_and(|came| came > 0.0) != is_said, "{checked}");
    let judged = home.json(&["backtest"], i32::from(is_said));
    assert_eq!(judged["sizes"].as_array().map(Vec::len), Some(7), "{judged}");
    let kinds = judged["size_kinds"].as_array().expect("a list");
    assert_eq!(kinds.len(), usize::from(!is_said), "what was not run is not judged: {judged}");
    if let Some(kind) = kinds.first() {
        assert_eq!((&kind["unit"], &kind["outside"], &kind["judged"]), (&"seconds".into(), &false.into(), &1.into()));
        let error = checked["value"].as_f64().zip(last.came).map_or(f64::NAN, |(said, came)| said / came - 1.0);
        assert!((number(&kind["error_worst"]) - error.abs()).abs() < 1e-9, "{judged}");
    }
    let page = home.said(&["backtest"], i32::from(is_said));
    assert!(page.contains("not run") && page.contains("n=16"), "{page}");
}

#[test]
fn several_parameters_are_fitted_together() {
    let home = Home::new();
    let run = "sh -c 'dd if=/dev/zero of=/dev/null bs={n}M count={m} status=none; sleep $(({n} * {m}))e-2'";
    let over = ["--over", "n=4..32:4", "m=1..4:3", "--repeat", "1"];
    let fitted = home.json(&[&["model", "fit", "blocks", "--run", run][..], &over].concat(), 0);
    let terms = fitted["memory"]["pieces"][0]["terms"].to_string();
    assert!(terms.contains("\"parameter\":0") && !terms.contains("\"parameter\":1"), "memory is of one block: {terms}");
}

#[test]
fn a_host_that_is_not_alike_is_scaled_and_one_that_is_unknown_refused() {
    let home = Home::new();
    let fitted = home.json(&["model", "fit", "block", "--run", BLOCK, "--over", "n=8..64:6"], 0);
    let speed = |factor: f64| {
        let of = |name: &str| factor * number(&fitted["speed"][name]);
        serde_json::json!({ "compute_per_s": of("compute_per_s"), "memory_bytes_per_s": 0.5 * of("memory_bytes_per_s") })
    };
    let mut kind = fitted["host_kind"].clone();
    kind["processor"] = "another".into();
    let host = |name: &str, kind: &Value| KnownHost {
        name: name.to_owned(),
        kind: kind.to_string(),
        speed: speed(1.0).to_string(),
        seen_unix_s: 1.0,
    };
    let mut store = Store::open(Some(&home.store())).expect("the store");
    store.note_host(&host("slow", &kind)).expect("it is kept");
    store.note_host(&host("alike", &fitted["host_kind"])).expect("it is kept");
    drop(store);
    let of = |host: &str| home.json(&["forecast", "comp", "block", "--host", host, "--args", "n=32"], 0);
    let (alike, slow) = (of("alike"), of("slow"));
    assert_eq!(alike["scale"], Value::Null);
    assert_eq!((number(&slow["scale"]["least"]), number(&slow["scale"]["most"])), (1.0, 2.0), "{slow}");
    assert!((number(&slow["value"]) / number(&alike["value"]) - 2.0_f64.sqrt()).abs() < 1e-6);
    assert!((number(&slow["upper"]) / number(&alike["upper"]) - 2.0).abs() < 1e-6, "the interval holds both");
    assert!(slow["because"].to_string().contains("another kind of host"), "{slow}");
    let said = home.refused(&["forecast", "comp", "block", "--host", "nowhere", "--args", "n=32"]);
    assert!(said.contains("nothing is known of host \"nowhere\"") && said.contains("alike"), "{said}");
}

#[test]
fn data_that_differ_at_one_size_give_no_time() {
    let home = Home::new();
    // Some repetitions go through thirty times as many blocks, as sparse data or a lucky search do.
    let run = "sh -c 'case {value} in 1|4) c=120;; 2|5) c=1200;; *) c=3600;; esac; \
               dd if=/dev/zero of=/dev/null bs=1M count=$((c * {n})) status=none'";
    let over = ["--over", "n=1,2,3,4,6", "--repeat", "6", "--within", "120"];
    let fitted = home.json(&[&["model", "fit", "wild", "--run", run][..], &over].concat(), 1);
    assert_eq!(fitted["time"]["stray"]["why"], "repetitions", "{}", fitted["time"]);
    let said = home.json(&["forecast", "comp", "wild", "--args", "n=2"], 1);
    assert_eq!(said["value"], Value::Null);
    assert!(said["no_claim"].to_string().contains("the fastest is"), "{said}");
}

#[test]
fn what_can_not_be_meant_is_one_error_and_nothing_is_kept() {
    let home = Home::new();
    let fit =
        |run: &str, over: &[&str]| home.refused(&[&["model", "fit", "a", "--run", run, "--over"][..], over].concat());
    for (run, over, said) in [
        ("true", &["n=1..100"][..], "has no {n}"),
        ("true {n} {m}", &["n=1..100"], "names no m"),
        ("true {n} | cat", &["n=1..100"], "without one"),
        ("true {n}", &["n=5"], "one size only"),
        ("true {n}", &["n=1,2,3"], "has 3 sizes"),
        ("true {n}", &["n=100,101,102,103,104"], "at least 2 times"),
        ("true {n}", &["n=nan"], "is no size"),
        ("true {n}", &["n=-5..10"], "is no size"),
        ("true {n} {m}", &["n=1..100", "n=1..100"], "has no {m}|named twice|names no m"),
        ("/no/such/program {n}", &["n=1..100"], "can't run"),
        ("false {n}", &["n=1..100"], "ended with code 1"),
    ] {
        let text = fit(run, over);
        assert!(said.split('|').any(|said| text.contains(said)), "{run} {over:?}: {text}");
    }
    assert!(home.refused(&["forecast", "comp", "a", "--args", "n=5"]).contains("there is no model yet"));
    assert!(home.said(&["model", "list"], 1).contains("no model has been made yet"));
    home.json(&["model", "fit", "block", "--run", BLOCK, "--over", "n=8..64:6"], 0);
    for (args, said) in [("m=5", "no parameter m"), ("n=5,n=6", "twice"), ("n=1MB", "without a unit")] {
        let text = home.refused(&["forecast", "comp", "block", "--args", args]);
        assert!(text.contains(said), "{args}: {text}");
    }
    assert!(home.refused(&["model", "show", "other"]).contains("there are block"));
}
