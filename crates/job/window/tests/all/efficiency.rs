//! Are the factors those of the definitions, and told only where they are known?

use trimtab_types::report::{Efficiencies, Ended, Factor, FunctionGroup, Job, NodeShare, RankPlace, Report, WaitKind};
use trimtab_window::{
    FunctionInfo, IterationMark, RankSample, RankWaits, UnixTime, Usage, WaitSum, Waits, WindowFacts, WindowInput,
    assemble,
};

const TICKS_PER_SECOND: f64 = 1e6;
const ITERATIONS: u64 = 20;
const ITERATION_TICKS: u64 = 100_000;

/// Twenty iterations of 0.1 s of a rank on a host, of which so much is communication.
fn rank(rank: u32, host: &str, comm_ticks: u64) -> RankSample {
    let mark = |i: u64| IterationMark { ticks: 1_000 + i * ITERATION_TICKS, comm_ticks: i * comm_ticks };
    RankSample {
        rank,
        host: host.to_owned(),
        first_ticks: 1_000,
        last_ticks: 1_000 + ITERATIONS * ITERATION_TICKS,
        marks: (0..=ITERATIONS).map(mark).collect(),
        complete: true,
        comm_ticks: ITERATIONS * comm_ticks,
        ..RankSample::default()
    }
}

fn report(ranks: Vec<RankSample>, waits: Waits) -> Report {
    report_on(ranks, waits, Vec::new())
}

fn report_on(ranks: Vec<RankSample>, waits: Waits, nodes: Vec<NodeShare>) -> Report {
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
    let facts = WindowFacts {
        marker: Some("MPI_Allreduce".to_owned()),
        start: Some(3),
        ended_by: Ended::Iterations,
        groups: vec![FunctionGroup::Comm],
        ..WindowFacts::default()
    };
    let name = "MPI_Allreduce".to_owned();
    assemble(&WindowInput {
        job,
        facts,
        ticks_per_second: TICKS_PER_SECOND,
        functions: vec![FunctionInfo { name, group: FunctionGroup::Comm, timed: true, ..FunctionInfo::default() }],
        ranks,
        warnings: Vec::new(),
        command_to_first_record_s: None,
        unix_time: UnixTime::default(),
        waits,
        nodes,
        named_paths: Vec::new(),
    })
}

/// Where the ranks' time went in half of the iterations: so much of each in communication, waiting and unknown.
fn waits(ranks: &[(u64, u64, u64)]) -> Waits {
    let half = ITERATIONS / 2;
    let of = |(rank, (comm, wait, unknown)): (usize, &(u64, u64, u64))| RankWaits {
        rank: rank as u32,
        duration_ticks: half * ITERATION_TICKS,
        communication_ticks: half * comm,
        wait_ticks: half * wait,
        unknown_ticks: half * unknown,
    };
    Waits { iterations: half, ranks: ranks.iter().enumerate().map(of).collect(), ..Waits::default() }
}

fn found(report: &Report) -> &Efficiencies {
    report.efficiencies.as_ref().unwrap_or_else(|| panic!("{:?}", report.efficiencies_missing))
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-9
}

#[test]
fn factors_are_those_of_the_definitions() {
    let ranks = vec![rank(0, "n1", 20_000), rank(1, "n1", 40_000), rank(2, "n2", 50_000), rank(3, "n2", 70_000)];
    let report = report(ranks, Waits::default());
    let found = found(&report);
    // Useful 0.8, 0.6, 0.5, 0.3 of the time: mean 0.55, largest 0.8; the nodes' means are 0.7 and 0.4.
    assert!(near(found.parallel, 0.55) && near(found.load_balance, 0.55 / 0.8), "{found:?}");
    assert!(near(found.communication, 0.8) && near(found.parallel, found.load_balance * found.communication));
    assert!(near(found.load_balance_within_nodes.expect("two nodes"), 0.7 / 0.8), "{found:?}");
    assert!(near(found.load_balance_between_nodes.expect("two nodes"), 0.55 / 0.7), "{found:?}");
    assert_eq!(found.work_on_first, Some(Factor::BetweenNodes));
    assert_eq!((found.serialisation, found.transfer), (None, None), "no wait is known");
    assert!(found.transfer_missing.as_deref().is_some_and(|why| why.contains("waits are told only of windows")));
}

/// Two ranks that compute half of the time each: one after the other, or both waiting for the network.
#[test]
fn communication_is_split_where_its_waits_are_known() {
    let both = || vec![rank(0, "n1", 50_000), rank(1, "n1", 50_000)];
    type Row = (&'static str, [(u64, u64, u64); 2], Option<(f64, f64)>, Option<Factor>);
    let rows: [Row; 5] = [
        ("in turns", [(50_000, 50_000, 0), (50_000, 48_000, 0)], Some((0.5, 1.0)), Some(Factor::Serialisation)),
        ("by the network", [(50_000, 0, 0), (50_000, 0, 0)], Some((1.0, 0.5)), Some(Factor::Transfer)),
        ("both", [(50_000, 30_000, 0), (50_000, 10_000, 0)], Some((0.5 / 0.8, 0.8)), Some(Factor::Serialisation)),
        (
            "half is of calls nobody knows",
            [(50_000, 20_000, 25_000), (50_000, 0, 0)],
            None,
            Some(Factor::Communication),
        ),
        ("calls were not kept", [(20_000, 10_000, 0), (50_000, 0, 0)], None, Some(Factor::Communication)),
    ];
    for (name, known, expected, first) in rows {
        let report = report(both(), waits(&known));
        let found = found(&report);
        let split = found.serialisation.zip(found.transfer);
        let fits = match (split, expected) {
            (Some((serial, transfer)), Some((one, other))) => near(serial, one) && near(transfer, other),
            (None, None) => found.transfer_missing.as_deref().is_some_and(|why| why.contains("% of a rank's time")),
            _ => false,
        };
        assert!(fits, "{name}: {found:?}");
        assert_eq!(found.work_on_first, first, "{name}");
    }
    let clocks = WaitSum {
        kind: WaitKind::LateSender,
        function: 0,
        calls: 9,
        ticks: 500_000,
        error_ticks: 60_000,
        by_late_rank: [(1, 500_000)].into(),
    };
    let unclear = Waits { sums: vec![clocks], ..waits(&[(50_000, 50_000, 0), (50_000, 0, 0)]) };
    assert_eq!(found(&report(both(), unclear)).transfer, None, "clocks of two machines leave it open");
    let mut displaced = both();
    displaced[0].usage = Some(Usage { cpu_user_s: 0.2, involuntary: 900, ..Usage::default() });
    let found_then = report(displaced, waits(&[(50_000, 0, 0), (50_000, 0, 0)]));
    let why = found(&found_then).transfer_missing.as_deref().unwrap_or_default();
    assert!(why.starts_with("ranks were kept from their processors"), "{why}");
    for (waited_s, is_known) in [(Some(0.5), false), (Some(0.01), true), (None, true)] {
        let place = |rank| RankPlace { rank, waited_s: waited_s.filter(|_| rank == 1), ..RankPlace::default() };
        let node =
            NodeShare { host: "n1".to_owned(), seconds: 1.0, places: [0, 1].map(place).into(), ..NodeShare::default() };
        let report = report_on(both(), waits(&[(50_000, 50_000, 0), (50_000, 48_000, 0)]), vec![node]);
        assert_eq!(found(&report).transfer.is_some(), is_known, "waited for a processor: {waited_s:?}");
    }
}

#[test]
fn balance_is_to_be_worked_on_only_if_the_ranks_differ() {
    let steady = vec![rank(0, "n1", 10_000), rank(1, "n1", 60_000)];
    let mut unsteady = steady.clone();
    // Nearly all time lies in the last iteration.
    for rank in &mut unsteady {
        let begin = rank.first_ticks;
        rank.marks.iter_mut().take(ITERATIONS as usize).zip(begin..).for_each(|(mark, ticks)| mark.ticks = ticks);
    }
    for (name, ranks, first) in [("steady", steady, Factor::LoadBalance), ("unsteady", unsteady, Factor::Communication)]
    {
        let report = report(ranks, Waits::default());
        let found = found(&report);
        assert!(found.load_balance < found.communication && found.communication < 0.95, "{name}: {found:?}");
        assert_eq!(found.work_on_first, Some(first), "{name}: {found:?}");
    }
}

#[test]
fn what_is_not_known_has_no_factor() {
    let known = || vec![rank(0, "n1", 1_000), rank(1, "n1", 2_000)];
    let good = report(known(), Waits::default());
    assert_eq!(found(&good).work_on_first, None, "nothing costs much: {:?}", found(&good));
    assert_eq!((found(&good).load_balance_within_nodes, found(&good).load_balance_between_nodes), (None, None));
    let mut gone = known();
    gone.remove(0);
    gone[0].rank = 1;
    let idle = vec![rank(0, "n1", ITERATION_TICKS), rank(1, "n1", ITERATION_TICKS)];
    let rows = [("a rank is missing", gone, "rank 0 recorded nothing"), ("none computes", idle, "no rank computed")];
    for (name, ranks, why) in rows {
        let mut report = report(ranks, Waits::default());
        assert_eq!(report.efficiencies.take(), None, "{name}");
        assert!(report.efficiencies_missing.as_deref().is_some_and(|said| said.contains(why)), "{name}: {report:?}");
    }
}
