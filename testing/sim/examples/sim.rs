//! Ten thousand failures in one tree, and a tree of 65,536 leaves; figures on standard output.
//!
//! `cargo run --release -p trimtab-sim --example sim -- [failures|scale|all] [--seed N] [--failures N] [--leaves N]
//! [--json]`. With `--json` the storms' figures are one line, for `bench tree`. Simulated times are the same on every machine; how long the simulation itself takes is not.
//!
//! Next: `tests/storms.rs` for the smaller runs of every test.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::time::Instant;
use trimtab_overlay::Sync;
use trimtab_sim::check::Figures;
use trimtab_sim::storm::is_whole;
use trimtab_sim::{Flow, PATIENT, Plan, Sim, Storm, Tree};

/// How often conditions are looked at.
const STEP_US: u64 = 5_000;

struct Wish {
    part: String,
    seed: u64,
    failures: u64,
    leaves: u32,
    json: bool,
}

fn main() -> Result<()> {
    let wish = wish()?;
    if wish.part != "scale" {
        let storms = [storm_of_inner_nodes(&wish)?, storm_of_everything(&wish)?];
        if wish.json {
            println!("{}", json!({ "seed": wish.seed, "failures": wish.failures, "storms": storms }));
        }
    }
    if wish.part != "failures" {
        println!(
            "\nleaves  nodes  depth  fan-out  joined s  1 wave ms 8 waves ms command ms  frames/wave/leaf  real s"
        );
        let mut leaf_count = wish.leaves;
        let mut sizes = vec![];
        while leaf_count >= 64 {
            sizes.push(leaf_count);
            leaf_count /= 4;
        }
        sizes.into_iter().rev().try_for_each(|leaf_count| scale(wish.seed, leaf_count))?;
    }
    Ok(())
}

fn wish() -> Result<Wish> {
    let mut wish = Wish { part: "all".into(), seed: 1, failures: 10_000, leaves: 65_536, json: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|word| word.parse().ok()).context("a number must follow an option");
        match word.as_str() {
            "failures" | "scale" | "all" => wish.part = word,
            "--json" => wish.json = true,
            "--seed" => wish.seed = number()?,
            "--failures" => wish.failures = number()?,
            "--leaves" => wish.leaves = u32::try_from(number()?)?,
            _ => bail!("`{word}`: expected failures, scale, all, --seed N, --failures N, --leaves N or --json"),
        }
    }
    Ok(wish)
}

fn begin(mut plan: Plan, think_us_max: u64) -> Result<Sim> {
    plan.think_us_max = think_us_max;
    let seed = plan.seed;
    let mut sim = Sim::new(plan);
    if !sim.run_while(60_000_000, STEP_US, |sim| !is_whole(sim)) {
        bail!("seed {seed}: the tree never becomes whole");
    }
    Ok(sim)
}

fn storm(name: &str, wish: &Wish, storm: Storm) -> Result<Value> {
    let began = Instant::now();
    let tree = Tree::balanced(6, 1296)?;
    let say = |text: String| {
        if !wish.json {
            println!("{text}");
        }
    };
    let node_count = tree.node_count();
    say(format!("\n{name}: {} failures in a tree of {node_count} nodes, depth {}", wish.failures, tree.depth()));
    let mut plan = Plan::new(wish.seed, tree);
    plan.flows = [PATIENT, Sync::DontWait].map(Flow::sum).to_vec();
    let mut sim = begin(plan, 2_000_000)?;
    storm.strike(&mut sim);
    let until_us = sim.now_us() + 60_000_000;
    if !sim.run_while(until_us, STEP_US, |sim| !is_whole(sim)) {
        bail!("seed {}: the tree never becomes whole again", wish.seed);
    }
    sim.checker.nobody_is_lost(sim.now_us());
    let figures = &sim.checker.figures;
    if !wish.json {
        print_figures(&sim, figures);
    }
    say(format!("  simulated in {:.1} s", began.elapsed().as_secs_f64()));
    let orphan_s: Vec<f64> = figures.orphan_us.iter().map(|us| *us as f64 / 1e6).collect();
    Ok(json!({
        "name": name, "nodes": node_count, "kills": figures.kills, "orphans": orphan_s.len(),
        "orphan_s_max": orphan_s.iter().copied().fold(0.0, f64::max), "results": figures.results,
        "contributions": figures.contributions, "commands": figures.commands, "simulated_s": sim.now_us() as f64 / 1e6,
    }))
}

fn storm_of_inner_nodes(wish: &Wish) -> Result<Value> {
    let (failure_count, pause_us, down_us_max) = (wish.failures, 60_000, 2_000_000);
    storm(
        "inner nodes die",
        wish,
        Storm { failure_count, pause_us, down_us_max, roots: 0, cuts: 0, islands: 0, leaves: 0 },
    )
}

fn storm_of_everything(wish: &Wish) -> Result<Value> {
    let (failure_count, pause_us, down_us_max) = (wish.failures, 60_000, 4_000_000);
    storm(
        "everything fails",
        wish,
        Storm { failure_count, pause_us, down_us_max, roots: 2, cuts: 300, islands: 30, leaves: 268 },
    )
}

fn print_figures(sim: &Sim, figures: &Figures) {
    let mut orphan_us = figures.orphan_us.clone();
    orphan_us.sort_unstable();
    let at = |share: f64| orphan_us.get(((orphan_us.len() as f64 - 1.0) * share) as usize).copied().unwrap_or(0);
    let ms = |us: u64| us as f64 / 1e3;
    println!("  simulated time                 {:>12.1} s", sim.now_us() as f64 / 1e6);
    println!("  nodes killed                   {:>12}", figures.kills);
    println!("  orphans adopted                {:>12}", orphan_us.len());
    println!(
        "  time without a parent, ms      median {:.0}, 99% {:.0}, max {:.0}",
        ms(at(0.5)),
        ms(at(0.99)),
        ms(at(1.0))
    );
    println!("  results, all exact             {:>12}", figures.results);
    println!("  contributions in them          {:>12}", figures.contributions);
    println!("  commands received, in order    {:>12}", figures.commands);
    println!("  leaves that gave up for a time {:>12}", figures.uninstrumented);
    println!("  events                         {:>12}", sim.work().events);
}

/// One tree in fair weather: everybody joins, a stream is opened, eight waves come up, and commands go down.
fn scale(seed: u64, leaf_count: u32) -> Result<()> {
    let began = Instant::now();
    let mut plan = Plan::new(seed, Tree::of_agents(32, leaf_count)?);
    plan.flows.clear();
    // Nobody thinks, so that the time of a wave is the tree's alone.
    let mut sim = begin(plan, 2)?;
    let joined_us = sim.now_us();
    sim.open(Flow::sum(PATIENT));
    let frames = sim.work().frames;
    let result_us = |sim: &mut Sim, count: u64| {
        sim.run_while(joined_us + 60_000_000, 20, |sim| sim.checker.figures.results < count);
        sim.now_us() - joined_us
    };
    let first_us = result_us(&mut sim, 1);
    let eighth_us = result_us(&mut sim, 8);
    let frames = (sim.work().frames - frames) as f64 / 8.0 / f64::from(leaf_count);
    // Then only commands, two of them.
    sim.think(u64::MAX / 2);
    sim.run_until(sim.now_us() + 700_000);
    let tree = &sim.plan().tree;
    println!(
        "{leaf_count:>6} {:>6} {:>6} {:>8} {:>9.2} {:>9.2} {:>9.2} {:>11.2} {frames:>17.2} {:>6.1}",
        tree.node_count(),
        tree.depth(),
        tree.fan_out(),
        joined_us as f64 / 1e6,
        first_us as f64 / 1e3,
        eighth_us as f64 / 1e3,
        sim.checker.figures.command_us_max as f64 / 1e3,
        began.elapsed().as_secs_f64(),
    );
    if !sim.checker.whole.contains(&0) || !is_whole(&sim) {
        bail!("seed {seed}: a leaf is missing");
    }
    Ok(())
}
