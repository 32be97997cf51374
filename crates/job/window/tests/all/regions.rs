//! Are the numbers of parallel regions those of the definitions, and null with a reason where they are not known?

use trimtab_types::report::{CallFrame, Ended, FunctionGroup, HybridFactor, Job, Omp, Report};
use trimtab_window::{
    FunctionInfo, FunctionSample, IterationMark, NamedPath, RankSample, RegionSample, TeamSample, UnixTime, Untimed,
    Waits, WindowFacts, WindowInput, assemble,
};

const TICKS_PER_SECOND: f64 = 1e6;
const ITERATIONS: u64 = 20;
const ITERATION_TICKS: u64 = 100_000;
const NAMES: [(&str, &str); 4] =
    [("MPI_Allreduce", "comm"), ("GOMP_parallel", "omp"), ("solve._omp_fn.0", "omp"), ("GOMP_barrier", "omp")];

/// Of each iteration's 100 ms, 10 are in MPI, 60 in a region of four threads: one is busy for 50 ms of it, the others for 30,
/// of which 2 ms are in MPI on the first one.
fn region() -> RegionSample {
    RegionSample {
        function: 2,
        passes: ITERATIONS,
        ticks: ITERATIONS * 60_000,
        thread_ticks: ITERATIONS * 240_000,
        longest_ticks: ITERATIONS * 200_000,
        busy: ITERATIONS * 140_000,
        comm: ITERATIONS * 2_000,
        comm_of_master: ITERATIONS * 2_000,
        barrier: ITERATIONS * 40_000,
        lock: ITERATIONS * 8_000,
        task: 0,
        threads_min: 4,
        threads_max: 4,
        own_busy_max: ITERATIONS * 50_000,
        own_threads: 4,
        ..RegionSample::default()
    }
}

fn team() -> TeamSample {
    TeamSample { regions: vec![region()], threads_met: 4, is_of_main: true, ..TeamSample::default() }
}

fn rank(rank: u32, team: TeamSample) -> RankSample {
    let mark = |i: u64| IterationMark { ticks: 1_000 + i * ITERATION_TICKS, comm_ticks: i * 12_000 };
    RankSample {
        rank,
        first_ticks: 1_000,
        last_ticks: 1_000 + ITERATIONS * ITERATION_TICKS,
        marks: (0..=ITERATIONS).map(mark).collect(),
        complete: true,
        comm_ticks: ITERATIONS * 12_000,
        team: Some(team),
        ..RankSample::default()
    }
}

fn report(ranks: Vec<RankSample>) -> Report {
    report_of(ranks, Vec::new())
}

fn report_of(ranks: Vec<RankSample>, named_paths: Vec<NamedPath>) -> Report {
    let job = Job {
        id: "job".to_owned(),
        program: "./app".to_owned(),
        arguments: Vec::new(),
        ranks: ranks.len() as u32,
        mpi: "MPICH".to_owned(),
        hosts: Vec::new(),
        builds: Vec::new(),
        started_unix_s: None,
    };
    let info = |(name, group): (&str, &str)| FunctionInfo {
        name: name.to_owned(),
        group: FunctionGroup::from_word(group).expect("a group"),
        timed: true,
        ..FunctionInfo::default()
    };
    assemble(&WindowInput {
        job,
        facts: WindowFacts {
            marker: Some("MPI_Allreduce".to_owned()),
            start: Some(3),
            ended_by: Ended::Iterations,
            groups: vec![FunctionGroup::Comm, FunctionGroup::Omp],
            ..WindowFacts::default()
        },
        ticks_per_second: TICKS_PER_SECOND,
        functions: NAMES.map(info).to_vec(),
        ranks,
        warnings: Vec::new(),
        command_to_first_record_s: None,
        unix_time: UnixTime::default(),
        waits: Waits::default(),
        nodes: Vec::new(),
        named_paths,
    })
}

fn omp(ranks: Vec<RankSample>) -> Omp {
    report(ranks).omp.expect("regions")
}

#[track_caller]
fn near(found: Option<f64>, expected: f64) {
    assert!(found.is_some_and(|found| (found - expected).abs() < 1e-9), "{found:?}, not {expected}");
}

#[test]
fn parts_of_a_region_add_up() {
    let found = omp(vec![rank(0, team()), rank(1, team())]);
    assert_eq!((found.threads, found.unseen_s, found.regions.len()), (Some(8), 0.0, 1));
    let region = &found.regions[0];
    assert_eq!((region.passes, region.threads_min, region.threads_max), (40, Some(4), Some(4)));
    near(Some(region.time_s), 2.4);
    near(region.fraction, 0.6);
    near(region.thread_time_s, 9.6);
    near(region.work_s, 5.52);
    near(region.communication_s, 0.08);
    near(region.barrier_s, 1.6);
    near(region.lock_s, 0.32);
    near(region.task_s, 0.0);
    near(region.ends_s, 2.08);
    near(region.imbalance, 200.0 / 140.0 - 1.0);
    near(region.imbalance_of_sums, 50.0 / 35.0 - 1.0);
    near(region.efficiency, 140.0 / 240.0);
}

#[test]
fn factors_are_those_of_the_definitions() {
    let found = omp(vec![rank(0, team())]);
    near(found.serial_s, 0.6);
    let hybrid = found.hybrid.as_ref().unwrap_or_else(|| panic!("{:?}", found.hybrid_missing));
    // Milliseconds of an iteration: 400 of all threads; 10 in MPI outside of the region, 30 alone.
    let (useful, mpi, idle, imbalance, scheduling, serial) = (168.0, 12.0, 30.0, 60.0, 40.0, 90.0);
    assert_eq!(useful + mpi + idle + imbalance + scheduling + serial, 400.0);
    near(Some(hybrid.useful_s), useful / 50.0);
    near(Some(hybrid.mpi_s), mpi / 50.0);
    near(Some(hybrid.idle_in_mpi_s), idle / 50.0);
    near(Some(hybrid.imbalance_s), imbalance / 50.0);
    near(Some(hybrid.scheduling_s), scheduling / 50.0);
    near(Some(hybrid.serialisation_s), serial / 50.0);
    near(Some(hybrid.parallel), useful / 400.0);
    near(Some(hybrid.mpi), 358.0 / 400.0);
    near(Some(hybrid.mpi_load_balance), 1.0);
    near(Some(hybrid.omp), useful / 358.0);
    near(Some(hybrid.omp_load_balance), 258.0 / 318.0);
    near(Some(hybrid.omp_scheduling), 318.0 / 358.0);
    near(Some(hybrid.omp_serialisation), useful / 258.0);
    near(Some(hybrid.mpi * hybrid.omp), hybrid.parallel);
    assert_eq!((hybrid.work_on_first, &hybrid.region_first), (Some(HybridFactor::OmpSerialisation), &None));
    // Without the part that one thread does alone, imbalance costs most.
    let mut balanced = rank(0, team());
    let region = &mut balanced.team.as_mut().expect("a team").regions[0];
    (region.ticks, region.thread_ticks) = (ITERATIONS * 90_000, ITERATIONS * 360_000);
    region.longest_ticks = ITERATIONS * 350_000;
    let hybrid = omp(vec![balanced]).hybrid.expect("factors");
    assert_eq!(hybrid.work_on_first, Some(HybridFactor::OmpLoadBalance));
    assert_eq!(hybrid.region_first.as_deref(), Some("solve._omp_fn.0"));
}

/// Something that happens to a rank.
type Change<'c> = &'c dyn Fn(&mut RankSample);

#[test]
fn what_is_not_known_has_a_reason() {
    let untimed = |function: usize| Untimed {
        function,
        reason: "its probes were taken out".into(),
        is_out: true,
        out_after_us: 0,
    };
    let out_and_lost = |rank: &mut RankSample| {
        rank.unseen = vec![untimed(2)];
        rank.team.as_mut().expect("a team").lost = 1;
    };
    let cases: [(&str, Change<'_>, &str, bool); 9] = [
        ("lost because of that", &out_and_lost, "solve._omp_fn.0: its probes", false),
        ("mixed", &|rank| rank.team.as_mut().expect("a team").mixed = 2, "another thread", false),
        ("lost", &|rank| rank.team.as_mut().expect("a team").lost = 1, "exception", false),
        ("many", &|rank| rank.team.as_mut().expect("a team").threads_met = 257, "256 threads", false),
        ("wait out", &|rank| rank.unseen = vec![untimed(3)], "GOMP_barrier: its probes", false),
        ("body out", &|rank| rank.unseen = vec![untimed(2)], "solve._omp_fn.0: its probes", false),
        ("unseen", &|rank| rank.team.as_mut().expect("a team").unseen_ticks = 30_000, "take 1.5% of its time", true),
        ("stray", &|rank| rank.team.as_mut().expect("a team").stray = 1, "before the window", true),
        ("other thread", &|rank| rank.team.as_mut().expect("a team").is_of_main = false, "another thread", true),
    ];
    for (name, change, why, has_rows) in cases {
        let mut changed = rank(0, team());
        change(&mut changed);
        let found = omp(vec![changed]);
        assert!(found.hybrid.is_none() && found.serial_s.is_none(), "{name}: {found:#?}");
        assert!(found.hybrid_missing.as_ref().is_some_and(|said| said.contains(why)), "{name}: {found:#?}");
        let region = &found.regions[0];
        assert_eq!(region.work_s.is_some(), has_rows, "{name}: {region:#?}");
        assert!(region.missing.as_ref().is_none_or(|said| said.contains(why)), "{name}: {region:#?}");
        assert_eq!(region.missing.is_none(), has_rows, "{name}: {region:#?}");
        near(Some(region.time_s), 1.2);
    }
}

#[test]
fn an_end_that_is_not_seen_matters_as_much_as_it_leaves_open() {
    let jumps = Untimed { function: 2, reason: "went on behind a jump".into(), is_out: false, out_after_us: 0 };
    let of = |ends: u64| {
        let mut changed = rank(0, team());
        changed.untimed = vec![jumps.clone()];
        changed.functions = vec![FunctionSample { function: 2, calls: 80, ..FunctionSample::default() }];
        let region = &mut changed.team.as_mut().expect("a team").regions[0];
        region.barrier = region.thread_ticks - region.busy - region.lock - ITERATIONS * ends;
        omp(vec![changed])
    };
    let (much, little) = (of(52_000), of(3_000));
    assert!(much.hybrid_missing.as_ref().is_some_and(|said| said.contains("behind a jump")), "{much:#?}");
    assert!(little.hybrid.is_some(), "{little:#?}");
    for found in [much, little] {
        assert!(found.regions[0].work_s.is_none() && found.regions[0].missing.is_some(), "{found:#?}");
    }
}

#[test]
fn a_region_has_the_name_of_the_function_that_it_was_written_in() {
    for (compilers, written) in [
        ("solve._omp_fn.0", "solve"),
        ("Grid::solve(int) [clone ._omp_fn.12]", "Grid::solve(int)"),
        ("grid::solve::__grid_MOD_solve._omp_fn.0", "grid::solve"),
        ("hydro::hydro_._omp_fn.1", "hydro"),
        ("app::MAIN__._omp_fn.0", "app"),
        ("solve::solve._omp_fn.0", "solve"),
        ("Grid::step", "Grid::step"),
        ("main", "main"),
    ] {
        let frames = vec![CallFrame { function: compilers.into(), own: true, ..CallFrame::default() }];
        let named = NamedPath { path: 0, frames, is_cut: false };
        let place = report_of(vec![rank(0, team())], vec![named]).omp.expect("regions").regions[0].place.clone();
        assert_eq!(place.expect("a place").function, written);
    }
}

#[test]
fn a_region_whose_threads_were_not_seen_has_its_time() {
    let mut unseen = team();
    unseen.regions[0] = RegionSample { function: 1, passes: 20, ticks: ITERATIONS * 60_000, ..RegionSample::default() };
    unseen.unseen_ticks = ITERATIONS * 60_000;
    let found = omp(vec![rank(0, unseen)]);
    assert_eq!((found.threads, found.regions[0].work_s, found.regions[0].threads_max), (None, None, None));
    assert!(found.regions[0].missing.is_some() && found.hybrid.is_none(), "{found:#?}");
    near(Some(found.unseen_s), 1.2);
    let mut without = rank(0, team());
    without.team = None;
    assert_eq!(report(vec![without]).omp, None);
}
