//! Large programs: deciding about all their functions, and putting in ten thousand probes.
//!
//! The figures come from two programs beside the session, one process for each, and are held to the bars here.
//!
//! Next: `crates/process/session/examples`, `plan_all.rs` and `insert_many.rs`, which measure.

use super::attach::Bench;
use super::row::{Row, Verdict};
use crate::shell;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A program of tens of megabytes that comes with the compiler.
const PROGRAM: &str = "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus";
/// A larger one, if it is there: much of it is data, so its figures are per 50 MB.
const LARGER: &str = "/usr/bin/node";
const PER_BYTES: f64 = 5e7;
/// Reading and deciding, the first time.
const FIRST_S_BAR: f64 = 2.0;
/// The same with what was kept of it.
const CACHED_S_BAR: f64 = 0.2;
/// The most memory it takes.
const MEMORY_MB_BAR: f64 = 500.0;
/// The longest time the program is held while ten thousand probes are put in.
const INSERT_MS_BAR: f64 = 50.0;

/// All rows about large programs.
pub fn rows(bench: &Bench) -> Result<Vec<Row>> {
    if !Path::new(PROGRAM).is_file() {
        return Ok(vec![Row::skipped("a program of 50 MB", format!("no {PROGRAM}. Next: apt-get install g++-12"))]);
    }
    let plans = |program: &str| -> Result<Vec<Value>> {
        (0..bench.rounds(5, 1)).map(|_| ask(bench, "plan_all", program)).collect()
    };
    let small = plans(PROGRAM)?;
    let large = if Path::new(LARGER).is_file() { plans(LARGER)? } else { Vec::new() };
    let insertion = ask(bench, "insert_many", PROGRAM)?;
    Ok([planned(&small), per_size(&large), inserted(&insertion)].concat())
}

/// The larger program's figures for every 50 MB of it; nothing without it.
fn per_size(plans: &[Value]) -> Vec<Row> {
    let seconds = |plan: &Value, path: &str| {
        let parts = plan["file_bytes"].as_f64()? / PER_BYTES;
        Some(plan.pointer(path)?.as_f64()? / parts)
    };
    let samples = |path: &str| plans.iter().filter_map(|plan| seconds(plan, path)).collect::<Vec<f64>>();
    let megabytes = plans.first().and_then(|plan| plan["file_bytes"].as_f64()).unwrap_or(0.0) / 1e6;
    let row = |what: &str, path: &str, bar: f64| {
        let what = format!("all functions of a program of {megabytes:.0} MB{what}, per 50 MB");
        Row::at_most(what, "s", &samples(path), bar)
    };
    if plans.is_empty() {
        return Vec::new();
    }
    vec![
        row(" parsed and planned", "/first/total_s", FIRST_S_BAR),
        row(" from the cache", "/cached/total_s", CACHED_S_BAR),
    ]
}

fn planned(plans: &[Value]) -> Vec<Row> {
    let samples = |path: &str, unit: f64| -> Vec<f64> {
        plans.iter().filter_map(|plan| plan.pointer(path)?.as_f64()).map(|figure| figure / unit).collect()
    };
    let size = samples("/file_bytes", 1e6).first().map_or(String::new(), |mb| format!(" of {mb:.0} MB"));
    let row = |what: &str, unit: &str, samples: &[f64], bar: f64| {
        Row::at_most(format!("all functions of a program{size} parsed and planned{what}"), unit, samples, bar)
    };
    let is_same =
        |plan: &Value| plan["first"]["digest"].is_string() && plan["first"]["digest"] == plan["cached"]["digest"];
    let same = !plans.is_empty() && plans.iter().all(is_same);
    let what = "decisions from the cache are those without it";
    vec![
        row("", "s", &samples("/first/total_s", 1.0), FIRST_S_BAR),
        row(": memory", "MB", &samples("/first/peak_bytes", 1e6), MEMORY_MB_BAR),
        row(" from the cache", "s", &samples("/cached/total_s", 1.0), CACHED_S_BAR),
        yes_or_no(what, same),
    ]
}

fn inserted(insertion: &Value) -> Vec<Row> {
    let samples = |name: &str| -> Vec<f64> {
        insertion[name].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let what = format!("longest time held while {} probes are put in", insertion["probes"]);
    let mut row = Row::at_most(what, "ms", &samples("insert_ms"), INSERT_MS_BAR);
    row.figures["all"] = insertion.clone();
    let out = format!("longest time held while {} probes are taken out", insertion["probes"]);
    vec![
        row,
        Row::no_bar(out, "ms", &samples("remove_ms")),
        yes_or_no("the large program's text is as before", insertion["restored"] == true),
    ]
}

fn yes_or_no(what: &str, holds: bool) -> Row {
    let measured = if holds { "yes" } else { "NO" };
    let (what, bar, figures) = (what.into(), "yes".into(), Value::Bool(holds));
    Row { what, measured: measured.into(), bar, verdict: Verdict::of(holds), figures }
}

/// Runs one of the programs and reads the line it prints.
fn ask(bench: &Bench, example: &str, program: &str) -> Result<Value> {
    let text = shell::read(Command::new(bench.binary(&format!("examples/{example}"))).arg(program))?;
    let line = text.lines().next_back().with_context(|| format!("{example} printed nothing"))?;
    serde_json::from_str(line).with_context(|| format!("{example} printed no JSON: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_are_held_to_their_bars() {
        let plan = |first: f64, cached: f64, bytes: f64, same: bool| {
            json!({ "file_bytes": 5e7, "first": { "total_s": first, "peak_bytes": bytes, "digest": "a" },
                    "cached": { "total_s": cached, "digest": if same { "a" } else { "b" } } })
        };
        let verdicts = |plan: Value| planned(&[plan]).iter().map(|row| row.verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(plan(1.9, 0.1, 4e8, true)), [Verdict::Met; 4]);
        assert_eq!(verdicts(plan(2.1, 0.3, 6e8, false)), [Verdict::Missed; 4]);
        let per = |bytes: f64| {
            let plan = json!({ "file_bytes": bytes, "first": { "total_s": 3.0 }, "cached": { "total_s": 0.3 } });
            per_size(&[plan]).iter().map(|row| row.verdict).collect::<Vec<_>>()
        };
        assert_eq!((per(1e8), per(5e7)), (vec![Verdict::Met; 2], vec![Verdict::Missed; 2]));
        assert!(per_size(&[]).is_empty());
        assert_eq!(planned(&[])[3].verdict, Verdict::Missed, "nothing measured is nothing shown");
        let insertion = json!({ "probes": 10000, "insert_ms": [40.0, 60.0], "remove_ms": [1.0], "restored": true });
        let rows = inserted(&insertion);
        assert_eq!([rows[0].verdict, rows[2].verdict], [Verdict::MedianMet, Verdict::Met]);
    }
}
