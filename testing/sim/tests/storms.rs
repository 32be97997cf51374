//! Many seeds of every kind of trouble, and some scenarios with names.
//!
//! A failure prints its seed; `one_seed` of this file runs it again.
//!
//! Next: `examples/sim.rs` for ten thousand failures and 65,536 leaves.

use trimtab_overlay::{NodeId, Sync};
use trimtab_sim::check::REPARENT_US_MAX;
use trimtab_sim::contribution::every_filter;
use trimtab_sim::storm::is_whole;
use trimtab_sim::{Flow, PATIENT, Plan, Sim, Storm, Tree};

const IMPATIENT: Sync = Sync::TimeOut { us: 400_000 };
const ALL_SYNCS: [Sync; 3] = [PATIENT, IMPATIENT, Sync::DontWait];
const INNER_ONLY: Storm =
    Storm { failure_count: 40, pause_us: 120_000, down_us_max: 2_000_000, roots: 0, cuts: 0, islands: 0, leaves: 0 };

/// How often conditions are looked at.
const STEP_US: u64 = 5_000;

/// One stream of each way to wait, each with another filter; over some seeds every filter meets every way.
fn flows(seed: u64) -> Vec<Flow> {
    let filters = every_filter();
    let filter = |place: usize| filters[(seed as usize + place) % filters.len()].clone();
    ALL_SYNCS.into_iter().enumerate().map(|(place, sync)| Flow { sync, filter: filter(place) }).collect()
}

/// A tree whose shape and network depend on the seed.
fn plan(seed: u64) -> Plan {
    let leaf_count = 20 + (seed * 37 % 180) as u32;
    let tree = match seed % 4 {
        0 => Tree::balanced(4, leaf_count),
        1 => Tree::of_agents(32, leaf_count),
        2 => Tree::of_agents(3, leaf_count),
        _ => Tree::balanced(8, leaf_count),
    };
    let mut plan = Plan::new(seed, tree.unwrap());
    plan.flows = flows(seed);
    plan.think_us_max = 700_000;
    plan.wire = seed.is_multiple_of(2);
    plan
}

/// Begins, strikes, waits until all is whole again, and sees that everybody counts then.
fn run(plan: Plan, storm: Storm) -> Sim {
    let mut sim = Sim::new(plan);
    assert!(sim.run_while(20_000_000, STEP_US, |sim| !is_whole(sim)), "seed {}: never whole at first", sim.plan().seed);
    storm.strike(&mut sim);
    let until_us = sim.now_us() + 30_000_000;
    assert!(sim.run_while(until_us, STEP_US, |sim| !is_whole(sim)), "seed {}: never whole again", sim.plan().seed);
    sim.checker.nobody_is_lost(sim.now_us());
    // The impatient stream may leave out whoever is slow; the others have everybody again.
    let waiting = |(stream, flow): (usize, &Flow)| (flow.sync != IMPATIENT).then_some(stream as u32);
    let streams: Vec<u32> = sim.plan().flows.iter().enumerate().filter_map(waiting).collect();
    sim.checker.whole.clear();
    let until_us = sim.now_us() + 30_000_000;
    let whole =
        sim.run_while(until_us, STEP_US, |sim| !streams.iter().all(|stream| sim.checker.whole.contains(stream)));
    assert!(whole, "seed {}: nothing whole comes, only streams {:?}", sim.plan().seed, sim.checker.whole);
    sim
}

#[test]
fn inner_nodes_die() {
    let mut orphans = 0;
    for seed in 0..16 {
        let sim = run(plan(seed), INNER_ONLY);
        orphans += sim.checker.figures.orphan_us.len();
        assert!(sim.checker.figures.orphan_us.iter().all(|us| *us <= REPARENT_US_MAX));
    }
    assert!(orphans > 300, "only {orphans} orphans: this shows little");
}

/// Commands come so often that some are under way to a node's old neighbours while it moves, and never so often that the
/// log is full.
#[test]
fn commands_reach_whoever_moves() {
    for seed in 500..516 {
        let mut plan = Plan::new(seed, Tree::balanced(3, 27).unwrap());
        (plan.command_us, plan.think_us_max) = (20_000, 700_000);
        let sim = run(plan, INNER_ONLY);
        assert!(sim.checker.figures.commands > 1_000, "{} commands", sim.checker.figures.commands);
    }
}

#[test]
fn everything_fails() {
    let storm = Storm { roots: 30, cuts: 200, islands: 50, leaves: 200, down_us_max: 5_000_000, ..INNER_ONLY };
    (100..116).for_each(|seed| drop(run(plan(seed), storm)));
}

#[test]
fn frames_are_lost_and_overtake_each_other() {
    for seed in 200..212 {
        let mut plan = plan(seed);
        plan.weather.overtaken_ppm = 20_000;
        plan.weather.lost_ppm = 300;
        run(plan, Storm { leaves: 300, failure_count: 20, ..INNER_ONLY });
    }
}

#[test]
fn thousands_of_nodes() {
    let mut plan = Plan::new(300, Tree::of_agents(32, 4096).unwrap());
    plan.think_us_max = 1_000_000;
    run(plan, Storm { failure_count: 60, pause_us: 50_000, leaves: 300, ..INNER_ONLY });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let summary = |seed| {
        let sim = run(plan(seed), INNER_ONLY);
        format!("{:?} {:?} {}", sim.checker.figures, sim.work(), sim.now_us())
    };
    assert_eq!(summary(7), summary(7));
    assert_ne!(summary(7), summary(11));
}

/// A controller that has just begun sends away whoever has nearer ancestors, for most of a second, so that those find their
/// children; but not who was below it already.
#[test]
fn an_early_orphan_is_not_kept_waiting() {
    let mut sim = Sim::new(Plan::new(350, Tree::balanced(4, 16).unwrap()));
    assert!(sim.run_while(600_000, STEP_US, |sim| !is_whole(sim)), "it settles for longer than that");
    sim.kill(NodeId(1), true);
    sim.run_until(sim.now_us() + 5_000_000);
    let orphans = &sim.checker.figures.orphan_us;
    assert_eq!(orphans.len(), 4);
    assert!(orphans.iter().all(|us| *us < 100_000), "{orphans:?}");
}

#[test]
fn without_the_controller_leaves_give_up_and_are_adopted_by_the_next() {
    let mut sim = Sim::new(Plan::new(400, Tree::balanced(4, 64).unwrap()));
    assert!(sim.run_while(20_000_000, STEP_US, |sim| !is_whole(sim)));
    sim.run_until(20_000_000);
    assert_eq!(sim.checker.instrumented_count(), 64);
    sim.kill(NodeId::ROOT, false);
    let lease_us = sim.plan().timing.lease_us;
    sim.run_until(sim.now_us() + lease_us + 500_000);
    assert_eq!(sim.checker.instrumented_count(), 0, "no lease outlives the controller");
    sim.revive(NodeId::ROOT);
    let until_us = sim.now_us() + 10_000_000;
    assert!(sim.run_while(until_us, STEP_US, |sim| !is_whole(sim)), "the next controller has everybody");
    assert_eq!(sim.checker.instrumented_count(), 64);
    // Stragglers go home: nobody lives far up for long.
    sim.run_until(sim.now_us() + 20_000_000);
    let homes =
        sim.plan().tree.nodes().skip(1).filter(|id| sim.node(*id).unwrap().parent() == sim.plan().tree.parent(*id));
    assert_eq!(homes.count(), sim.plan().tree.node_count() - 1);
}

#[test]
fn an_island_gives_up_and_comes_back() {
    let mut sim = Sim::new(Plan::new(401, Tree::balanced(4, 64).unwrap()));
    assert!(sim.run_while(20_000_000, STEP_US, |sim| !is_whole(sim)));
    sim.run_until(20_000_000);
    let top = NodeId(1);
    let tree = sim.plan().tree.clone();
    let island: Vec<NodeId> = tree.nodes().filter(|id| *id == top || tree.ancestors(*id).contains(&top)).collect();
    sim.network.island(island.iter().copied(), Some(1));
    let lease_us = sim.plan().timing.lease_us;
    sim.run_until(sim.now_us() + lease_us + 500_000);
    for id in tree.nodes().filter(|id| !tree.ranks(*id).is_empty()) {
        assert_eq!(sim.checker.is_instrumented(id), !island.contains(&id), "{id}");
    }
    let results = sim.checker.figures.results;
    sim.run_until(sim.now_us() + 3_000_000);
    assert!(sim.checker.figures.results > results, "the others go on");
    sim.network.island(island.iter().copied(), None);
    let until_us = sim.now_us() + 10_000_000;
    assert!(sim.run_while(until_us, STEP_US, |sim| !is_whole(sim)), "the island is back");
}

#[test]
fn bulk_never_delays_commands() {
    let mut plan = Plan::new(402, Tree::balanced(8, 256).unwrap());
    plan.weather.bulk_delay_us = 3_000_000;
    plan.flows = vec![Flow::sum(Sync::DontWait)];
    // Leaves contribute to several waves at a time.
    plan.think_us_max = 20_000;
    let mut sim = Sim::new(plan);
    sim.run_until(40_000_000);
    let figures = &sim.checker.figures;
    assert!(figures.results > 100, "{} results, each seconds on its way", figures.results);
    assert!(figures.commands > 10_000);
    assert!(figures.command_us_max < 5_000, "a command took {} us", figures.command_us_max);
}

#[test]
fn one_seed() {
    let seed = std::env::var("TRIMTAB_SIM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    run(plan(seed), INNER_ONLY);
}
