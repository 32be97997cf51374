//! `bench tree`: multicasts and sums over trees of processes, beside a bare tree of the same shape in the same run.
//!
//! The figures come from `crates/cluster/link/examples/tree`, which is controller, node and floor in one program, and
//! are held to the bars here. The tree speaks its whole protocol over TCP with mutual TLS and filters on. The floor is
//! plain TCP with nothing else. Turns of both follow each other, and the tree is held to the floor by their ratio, and to
//! MRNet's figures of trees on one machine, which have no TLS.
//!
//! Next: that example, which measures.

use super::Part;
use super::attach::Bench;
use super::record::Record;
use super::row::{Row, Verdict};
use crate::shell;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::process::Command;

/// Leaves, and what MRNet 5.0.1 needed for a multicast and a sum (ms): taken with the same shapes, one process per leaf, on
/// the two-core machine of the first results. On another one the ratio to the bare tree is what counts.
const MRNET: [(u32, f64); 4] = [(16, 0.8), (64, 4.3), (128, 10.7), (256, 34.0)];
/// Round trip over the bare tree's.
const TRIP_RATIO_BAR: f64 = 2.5;
/// One packet to a leaf and back, directly and through an inner node: twice MRNet's 33 and 58 us.
const DIRECT_US_BAR: f64 = 66.0;
const THROUGH_US_BAR: f64 = 116.0;
/// The largest tree, over Unix sockets: multicast and sum, start, memory.
const LEAVES_MAX: u32 = 65_536;
const LARGE_TRIP_S_BAR: f64 = 1.5;
const LARGE_START_S_BAR: f64 = 3.0;
const LARGE_BYTES_BAR: f64 = 8_000.0;
/// Growth is measured from here.
const LEAVES_SMALL: u32 = 1_024;
/// The largest tree over TCP with TLS.
const LEAVES_TLS: u32 = 4_096;
/// Time per leaf of the largest tree over that of the small one: no worse than linear, one level more, and noise.
const GROWTH_RATIO_BAR: f64 = 1.5;
/// An agent that has nothing to do.
const REST_CORE_PERCENT_BAR: f64 = 0.1;
const REST_MEMORY_MB_BAR: f64 = 20.0;
/// Failures in each simulated storm.
const FAILURES: usize = 10_000;
/// From the loss of an inner node to a parent for each of its children.
const ORPHANED_S_BAR: f64 = 1.0;

/// Measures everything, or one part, and prints it as it comes. `leaves` replaces the numbers of leaves.
pub fn run(bench: &Bench, only: Option<Part>, leaves: Option<u32>, record: &mut Record) -> Result<()> {
    let wanted = |part: Part| only.is_none_or(|only| only == part);
    if wanted(Part::Packet) {
        let found = measure(bench, "packet", 1, bench.rounds(15, 2), &[])?;
        record.judge(packet_rows(&found));
    }
    if wanted(Part::Trips) {
        for (count, trip_ms) in MRNET.into_iter().filter(|row| leaves.is_none_or(|leaves| leaves == row.0)) {
            let found = measure(bench, "trips", count, bench.rounds(10, 2), &[])?;
            record.judge(trip_rows(&found, count, trip_ms));
        }
    }
    if wanted(Part::Rest) {
        record.judge(rest_rows(&measure(bench, "rest", 1, 1, &[])?));
    }
    if wanted(Part::Survive) {
        record.judge(survive_rows(&measure(bench, "survive", 16, bench.rounds(100, 5), &[])?));
        record.judge(simulated_rows(&simulate(bench)?));
    }
    if wanted(Part::Scale) {
        let large = leaves.unwrap_or(if bench.quick { 4 * LEAVES_SMALL } else { LEAVES_MAX });
        let rounds = bench.rounds(10, 3);
        let unix = |count| measure(bench, "scale", count, rounds, &["--edges", "unix"]);
        record.judge(scale_rows(&unix(LEAVES_SMALL)?, &unix(large)?));
        record.judge(tls_rows(&measure(bench, "scale", LEAVES_TLS.min(large), rounds, &["--edges", "tcp"])?));
    }
    Ok(())
}

/// Storms in simulated trees, every result of which is checked as it comes: a wrong one ends the run.
fn simulate(bench: &Bench) -> Result<Value> {
    let failures = bench.rounds(FAILURES, FAILURES / 50).to_string();
    let mut command = Command::new(bench.binary("examples/sim"));
    let line =
        shell::read(command.args(["failures", "--failures", &failures, "--json"])).context("simulated storms")?;
    serde_json::from_str(&line).context("the simulation printed no JSON")
}

fn measure(bench: &Bench, part: &str, leaves: u32, rounds: usize, more: &[&str]) -> Result<Value> {
    let mut command = Command::new(bench.binary("examples/tree"));
    command.args(["measure", part, "--leaves", &leaves.to_string(), "--rounds", &rounds.to_string()]).args(more);
    let line = shell::read(&mut command).with_context(|| format!("tree: {part} of {leaves} leaves"))?;
    serde_json::from_str(&line).with_context(|| format!("tree: {part} printed no JSON"))
}

fn samples(found: &Value, name: &str) -> Vec<f64> {
    found[name].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

fn ratios(above: &[f64], below: &[f64]) -> Vec<f64> {
    above.iter().zip(below).map(|(above, below)| above / below).collect()
}

fn trip_rows(found: &Value, leaves: u32, mrnet_ms: f64) -> Vec<Row> {
    let [tcp_ms, bare_ms] = ["tcp_ms", "bare_ms"].map(|name| samples(found, name));
    let trip = format!("multicast and sum over {leaves} leaves");
    vec![
        Row::median_at_most(format!("{trip}, over the bare tree"), "x", &ratios(&tcp_ms, &bare_ms), TRIP_RATIO_BAR),
        Row::median_at_most(format!("{trip} (MRNet: {mrnet_ms} ms)"), "ms", &tcp_ms, mrnet_ms),
        Row::no_bar(format!("{trip}: the bare tree"), "ms", &bare_ms),
        Row::no_bar(format!("start of {leaves} leaves, a process each"), "s", &single(found, "start_s")),
    ]
}

fn single(found: &Value, name: &str) -> Vec<f64> {
    found[name].as_f64().into_iter().collect()
}

fn packet_rows(found: &Value) -> Vec<Row> {
    let rows = |what: &str, name: &str, bar: f64| {
        let [tcp, bare] = ["tcp_us", "bare_us"].map(|series| samples(&found[name], series));
        let packet = format!("one packet to a leaf and back, {what}");
        [
            Row::median_at_most(packet.clone(), "us", &tcp, bar),
            Row::no_bar(format!("{packet}, over the bare tree"), "x", &ratios(&tcp, &bare)),
        ]
    };
    let direct = rows("directly", "direct", DIRECT_US_BAR);
    direct.into_iter().chain(rows("through an inner node", "through", THROUGH_US_BAR)).collect()
}

fn rest_rows(found: &Value) -> Vec<Row> {
    let of = |name: &str| -> Vec<f64> {
        found["agents"].as_array().into_iter().flatten().filter_map(|agent| agent[name].as_f64()).collect()
    };
    vec![
        Row::at_most("an agent at rest: processor", "% of a core", &of("core_percent"), REST_CORE_PERCENT_BAR),
        Row::at_most("an agent at rest: memory", "MB", &of("memory_mb"), REST_MEMORY_MB_BAR),
    ]
}

fn survive_rows(found: &Value) -> Vec<Row> {
    let what = "after the loss of an inner node: until its children have a parent";
    let no_wrong = Row {
        what: "after these losses: results that are wrong or lack a living rank".into(),
        measured: format!("{} losses, {} waves, {} incomplete", found["losses"], found["waves"], found["incomplete"]),
        bar: "none, each result checked".into(),
        verdict: Verdict::of(found["incomplete"] == 0),
        figures: json!({ "losses": found["losses"], "waves": found["waves"], "incomplete": found["incomplete"] }),
    };
    vec![Row::at_most(what, "s", &samples(found, "orphaned_s"), ORPHANED_S_BAR), no_wrong]
}

fn simulated_rows(found: &Value) -> Vec<Row> {
    let rows = |storm: &Value| {
        let name = storm["name"].as_str().unwrap_or_default();
        let of = format!("simulated, {name}, {} failures in a tree of {} nodes", found["failures"], storm["nodes"]);
        let exact = Row {
            what: format!("{of}: results that are wrong"),
            measured: format!("{} killed, {} results, 0 wrong", storm["kills"], storm["results"]),
            bar: "none, each result checked".into(),
            verdict: Verdict::of(storm["results"].as_u64().is_some_and(|results| results > 0)),
            figures: storm.clone(),
        };
        let longest = format!("{of}: longest time that an orphan with a way to the root had no parent");
        [Row::at_most(longest, "s", &single(storm, "orphan_s_max"), ORPHANED_S_BAR), exact]
    };
    found["storms"].as_array().into_iter().flatten().flat_map(rows).collect()
}

fn scale_rows(small: &Value, large: &Value) -> Vec<Row> {
    let count = |found: &Value| found["leaves"].as_f64().unwrap_or(f64::NAN);
    let leaves = &large["leaves"];
    let per_leaf =
        |found: &Value| found["trip_median_s"].as_f64().map(|seconds| seconds / count(found)).unwrap_or(f64::NAN);
    let growth = per_leaf(large) / per_leaf(small);
    let from = format!("{} to {leaves} leaves", small["leaves"]);
    vec![
        Row::median_at_most(
            format!("multicast and sum over {leaves} leaves on this machine, a Unix socket each"),
            "s",
            &samples(large, "trips_s"),
            LARGE_TRIP_S_BAR,
        ),
        Row::median_at_most(format!("start of {leaves} leaves"), "s", &samples(large, "starts_s"), LARGE_START_S_BAR),
        Row::at_most(
            format!("memory of all processes per leaf, of {leaves}"),
            "bytes",
            &single(large, "memory_bytes_per_leaf"),
            LARGE_BYTES_BAR,
        ),
        Row::at_most(format!("time per leaf, grown from {from}"), "x", &[growth], GROWTH_RATIO_BAR),
        Row {
            what: format!("depth, grown from {from}"),
            measured: format!("{} to {}", small["depth"], large["depth"]),
            bar: "logarithmic".into(),
            verdict: Verdict::of(is_logarithmic(large)),
            figures: json!({ "small": small["depth"], "large": large["depth"] }),
        },
    ]
}

fn tls_rows(found: &Value) -> Vec<Row> {
    let leaves = format!("{} leaves over TCP with TLS", found["leaves"]);
    vec![
        Row::no_bar(format!("multicast and sum over {leaves}"), "s", &samples(found, "trips_s")),
        Row::no_bar(format!("start of {leaves}"), "s", &samples(found, "starts_s")),
        Row::no_bar(
            format!("memory of all processes per leaf, of {leaves}"),
            "bytes",
            &single(found, "memory_bytes_per_leaf"),
        ),
    ]
}

/// No deeper than a full tree of the same fan-out.
fn is_logarithmic(found: &Value) -> bool {
    let (depth, leaves) = (found["depth"].as_u64(), found["leaves"].as_u64());
    let (Some(depth), Some(leaves)) = (depth, leaves) else { return false };
    let enough = |depth: u32| 64_u64.saturating_pow(depth) >= leaves;
    u32::try_from(depth).is_ok_and(|depth| depth == 1 || !enough(depth - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(rows: &[Row]) -> Vec<Verdict> {
        rows.iter().map(|row| row.verdict).filter(|verdict| *verdict != Verdict::NoBar).collect()
    }

    #[test]
    fn trips_are_held_to_the_bare_tree_and_to_mrnet() {
        let found = |ms: f64| json!({ "tcp_ms": [ms], "bare_ms": [1.0], "start_s": 1.0 });
        let [met, missed] = [Verdict::Met, Verdict::Missed];
        assert_eq!(verdicts(&trip_rows(&found(1.0), 64, 4.3)), [met, met]);
        assert_eq!(verdicts(&trip_rows(&found(4.4), 64, 4.3)), [missed, missed]);
        assert_eq!(verdicts(&trip_rows(&found(3.0), 64, 4.3)), [missed, met]);
    }

    #[test]
    fn growth_is_judged_per_leaf() {
        let found = |leaves: u64, depth: u64, seconds: f64| {
            json!({
                "leaves": leaves, "depth": depth, "trips_s": [seconds], "trip_median_s": seconds, "starts_s": [2.0],
                "memory_bytes_per_leaf": 7_000,
            })
        };
        let small = found(1_024, 2, 0.01);
        assert_eq!(verdicts(&scale_rows(&small, &found(65_536, 3, 0.7))), [Verdict::Met; 5]);
        assert_eq!(verdicts(&scale_rows(&small, &found(65_536, 3, 1.4)))[3], Verdict::Missed);
        assert_eq!(verdicts(&scale_rows(&small, &found(65_536, 9, 0.7)))[4], Verdict::Missed);
    }

    #[test]
    fn simulated_storms_are_held_to_the_second() {
        let storm = |orphan_s_max: f64, results: u64| json!({ "name": "all", "orphan_s_max": orphan_s_max, "results": results });
        let found = json!({ "failures": 9, "storms": [storm(0.9, 5), storm(1.1, 0)] });
        let [met, missed] = [Verdict::Met, Verdict::Missed];
        assert_eq!(verdicts(&simulated_rows(&found)), [met, met, missed, missed]);
    }

    #[test]
    fn a_wrong_result_misses_the_bar() {
        let found =
            |incomplete: u64| json!({ "losses": 2, "orphaned_s": [0.1, 0.2], "waves": 9, "incomplete": incomplete });
        assert_eq!(verdicts(&survive_rows(&found(0))), [Verdict::Met; 2]);
        assert_eq!(verdicts(&survive_rows(&found(1))), [Verdict::Met, Verdict::Missed]);
        assert_eq!(
            verdicts(&rest_rows(&json!({ "agents": [{ "core_percent": 0.2, "memory_mb": 8.0 }] }))),
            [Verdict::Missed, Verdict::Met]
        );
        let packets = |us: f64| json!({ "tcp_us": [us], "bare_us": [25.0] });
        let found = json!({ "direct": packets(40.0), "through": packets(120.0) });
        assert_eq!(verdicts(&packet_rows(&found)), [Verdict::Met, Verdict::Missed]);
    }
}
