//! Reports to draw: invented, but of the shape real windows have. Used by every test beside this folder and by
//! `examples/pages.rs`.
#![allow(dead_code)] // each user needs its own part

use trimtab_types::report::*;

/// Seconds since 1970 at which all samples start.
pub const STARTED_UNIX_S: f64 = 1_795_234_000.25;

/// All samples with their names and headlines.
pub fn all() -> Vec<(&'static str, &'static str, Report)> {
    vec![
        ("two_ranks", "12.4% of the time is communication; the two ranks are balanced", two_ranks()),
        (
            "four_ranks_imbalanced",
            "39.5% of the time is communication; ranks 2 and 3 compute 2.0x longer than the others, which wait for them",
            four_ranks(),
        ),
        (
            "sixty_four_ranks",
            "27.0% of the time is communication; rank 37 on node09 computes 1.4x longer than the mean",
            sixty_four_ranks(),
        ),
        ("by_time", "no loop was found: 51.0% of 2 s is communication", by_time()),
        ("invalid", "the window is not valid: rank 1 left after 7 of 10 iterations", invalid()),
        ("nothing_measured", "nothing was measured", nothing_measured()),
        ("openmp", "12.4% of the time is communication; the two ranks are balanced", openmp()),
        ("shared", "12.4% of the time is communication; the two ranks are balanced", shared()),
        ("hostile", "<script>alert('headline')</script> \u{1b}[31mred", hostile()),
    ]
}

/// Two ranks in balance, one host.
pub fn two_ranks() -> Report {
    sample(2, 10, 3.16e-3, &|_, _| 0.876)
}

/// Four ranks on two hosts; the second half has twice the work. With details.
pub fn four_ranks() -> Report {
    let mut report = sample(4, 10, 5.25e-3, &|rank, _| if rank < 2 { 0.41 } else { 0.80 });
    report.job.hosts = vec!["node1".into(), "node2".into()];
    report.ranks[2].host = "node2".into();
    report.ranks[3].host = "node2".into();
    report.imbalance = Some(0.3281);
    report.efficiencies = report.efficiencies.map(|found| Efficiencies {
        load_balance: 0.753,
        communication: found.parallel / 0.753,
        serialisation: Some(0.993),
        transfer: Some(found.parallel / 0.753 / 0.993),
        transfer_missing: None,
        work_on_first: Some(Factor::LoadBalance),
        ..found
    });
    report.difference = Some(Difference {
        longest: 3,
        shortest: 0,
        ratio: 1.95,
        cause: Cause::Work,
        because: "it calls push 20000 times, rank 0 10000 times".into(),
        assumed: None,
        relative: Vec::new(),
    });
    report.wait_states = vec![
        wait_state(WaitKind::Collective, "MPI_Allreduce", 0.0123, 4.1e-6, &[(2, 0.0101), (3, 0.0022)]),
        WaitState { time_s: None, ..wait_state(WaitKind::LateSender, "MPI_Sendrecv", 0.0, 3e-6, &[]) },
    ];
    report.messages = vec![
        MessageTimes { transfer_s: Some(0.0021), wait_s: Some(0.0064), ..message_times(0, 1, 8192) },
        MessageTimes {
            messages: 40,
            hidden: 40,
            ready: 0,
            transfer_s: None,
            wait_s: None,
            ..message_times(1, 0, 8192)
        },
    ];
    report.collectives = vec![collective_times()];
    report.details = (0..3).map(detail).collect();
    report.paths = vec![
        path("MPI_Allreduce", "solve", Some("solver.f90:214"), 0.0151),
        PathTotal { wait_s: None, ..path("MPI_Sendrecv", "exchange", None, 0.0052) },
        PathTotal {
            path: Vec::new(),
            path_missing: Some("these calls were under way when the probes went in".into()),
            calls: 0,
            ..path("MPI_Allreduce", "", None, 0.0001)
        },
    ];
    if let Some(function) = report.functions.iter_mut().find(|function| function.name == "MPI_Sendrecv") {
        let class = |from: u64, calls: u64| SizeClass {
            from_bytes: Some(from),
            to_bytes: Some(2 * from - 1),
            calls,
            bytes: calls * from,
        };
        function.sizes = Some(vec![class(1024, 8), class(8192, 72)]);
    }
    report
}

fn message_times(from: u32, to: u32, bytes: u64) -> MessageTimes {
    MessageTimes {
        from,
        to,
        bytes,
        messages: 40,
        hidden: 3,
        transfer_s: Some(0.0011),
        wait_s: Some(0.0004),
        ready: 35,
        transfer_s_low: Some(28e-6),
        transfer_s_median: Some(30e-6),
        transfer_s_high: Some(34e-6),
        send_s_median: Some(2e-6),
        receive_s_median: Some(1.5e-6),
        error_s: 1e-7,
    }
}

fn collective_times() -> CollectiveTimes {
    CollectiveTimes {
        function: "MPI_Allreduce".into(),
        ranks: 4,
        bytes: 8,
        calls: 10,
        time_s_low: 11e-6,
        time_s_median: 12e-6,
        time_s_high: 15e-6,
        error_s: 4e-6,
    }
}

fn path(function: &str, caller: &str, line: Option<&str>, time_s: f64) -> PathTotal {
    let frame = |function: &str, module: &str, line: Option<&str>, own: bool| CallFrame {
        function: function.into(),
        offset: 0x1f3,
        module: module.into(),
        line: line.map(str::to_owned),
        interpreter: false,
        own,
    };
    PathTotal {
        function: function.into(),
        path: vec![frame("pmpi_call_", "libmpifort.so.12", None, false), frame(caller, "app", line, true)],
        path_missing: None,
        ranks: 4,
        calls: 40,
        time_s: Some(time_s),
        fraction: Some(time_s / 0.21),
        rank_time_s_min: Some(time_s * 0.2),
        rank_time_s_mean: Some(time_s * 0.25),
        rank_time_s_max: Some(time_s * 0.3),
        rank_of_max: Some(1),
        bytes: Some(320),
        wait_s: Some(time_s * 0.5),
        wait_error_s: Some(3e-6),
        wait_calls: Some(30),
    }
}

/// Sixty-four ranks on sixteen hosts in a ring and with an alltoall; one is slow.
pub fn sixty_four_ranks() -> Report {
    let mut report = sample(64, 50, 12.5e-3, &|rank, i| {
        if rank == 37 { 0.97 } else { 0.68 + f64::from((rank * 7 + i) % 11) * 0.01 }
    });
    report.job.hosts = (0..16).map(|host| format!("node{host:02}")).collect();
    for rank in &mut report.ranks {
        rank.host = format!("node{:02}", rank.rank / 4);
    }
    for from in 0..64 {
        for to in (0..64).filter(|to| *to != from) {
            let collective =
                Link { from, to, messages: 50, bytes: 51_200, collective_messages: 50, collective_bytes: 51_200 };
            match report.links.iter_mut().find(|link| (link.from, link.to) == (from, to)) {
                Some(link) => {
                    link.messages += 50;
                    link.bytes += 51_200;
                    (link.collective_messages, link.collective_bytes) = (50, 51_200);
                }
                None => report.links.push(collective),
            }
        }
    }
    report.links.sort_by_key(|link| (link.from, link.to));
    report.imbalance = Some(0.314);
    report.efficiencies = report.efficiencies.map(|found| Efficiencies {
        load_balance: 0.761,
        load_balance_within_nodes: Some(0.87),
        load_balance_between_nodes: Some(0.8747),
        communication: found.parallel / 0.761,
        work_on_first: Some(Factor::Communication),
        ..found
    });
    report.functions.insert(0, function("MPI_Alltoall", 3200, 10.1, Some((206_438_400, 64_512))));
    report
}

fn wait_state(state: WaitKind, function: &str, time_s: f64, error_s: f64, late: &[(u32, f64)]) -> WaitState {
    let late_ranks = late.iter().map(|&(rank, time_s)| LateRank { rank, time_s }).collect();
    WaitState { state, function: function.into(), iterations: 10, calls: 30, time_s: Some(time_s), error_s, late_ranks }
}

fn assume(report: &mut Report) {
    if let Some(difference) = &mut report.difference {
        difference.assumed = Some(Assumption::Homogeneous);
        difference.relative = vec![RelativeRank { rank: 0, relative: 1.25 }];
    }
}

fn counter() -> Counter {
    Counter {
        name: "cache-misses".into(),
        value: Some(12_345),
        at_least: Some(12_000),
        at_most: Some(12_400),
        per_iteration: Some(1234.5),
        outside_communication: Some(1000.25),
        outside_iterations: 9,
        outside_missing: Some("-".into()),
        scaled: Some(1.5),
        user_only: true,
        missing: Some("-".into()),
    }
}

fn from_first_call() -> FromFirstCall {
    FromFirstCall {
        ranks: vec![0],
        missed: vec![MissedStart { rank: 1, reason: "it had left MPI_Init before it was seen".into() }],
        held: vec![HeldRank { rank: 0, held_us: 412_000.0 }, HeldRank { rank: 1, held_us: 1_300.0 }],
        held_us_max: Some(412_000.0),
    }
}

fn begins_late() -> Option<LateBegin> {
    let reason = "it had left MPI_Init before it was seen".into();
    Some(LateBegin { ranks: vec![1], after_init_s_at_most: Some(1.5), reason })
}

/// Figures of all ranks, with everything that may be in them or without.
fn reduced(is_known: bool) -> Reduced {
    let known = |number: f64| is_known.then_some(number);
    let deviation = known(0.25);
    let spread = RankSpread { min: 0.5, rank_of_min: 3, mean: 1.0, max: 2.0, rank_of_max: 7, deviation };
    let if_known = Some(spread).filter(|_| is_known);
    let group = Oversubscription {
        ranks: vec![0, 1],
        processors: 1.0,
        limited_by: CrowdLimit::Affinity,
        processors_wanted: known(1.5),
        processors_had: known(1.0),
    };
    Reduced {
        ranks: 300,
        left_out: vec!["bytes and messages from rank to rank".into()],
        duration_s: spread,
        computation_s: if_known,
        communication_s: if_known,
        histogram: vec![RankClass { from_s: 0.5, to_s: 2.0, ranks: 300 }],
        longest_ranks: 2,
        others_wait: true,
        functions: vec![FunctionRanks {
            name: "MPI_Allreduce".into(),
            ranks: 300,
            time_s: if_known,
            calls_min: 3,
            calls_max: 4,
        }],
        nodes: vec![NodeSum {
            host: "n1".into(),
            ranks: 300,
            computation_s: known(1.0),
            computation_s_min: known(0.5),
            computation_s_max: known(2.0),
        }],
        communication_threads_max: is_known.then_some(2),
        communication_share_at_most: known(0.5),
        group_s: vec![GroupTime { group: FunctionGroup::Io, time_s: 0.3 }],
        unattributed_bytes: is_known.then_some(5),
        stopped_ranks: vec![4],
        stopped_s_max: known(0.4),
        crowds: 1,
        crowds_waited: true,
        most_crowded: is_known.then(|| CrowdedNode { host: "n1".into(), group }),
    }
}

/// Every optional value is there, every list has an entry.
pub fn everything() -> Report {
    let mut report = Report { reduced: Some(reduced(true)), ..four_ranks() };
    for rank in &mut report.ranks {
        rank.group_s = vec![GroupTime { group: FunctionGroup::Io, time_s: 0.001 }];
        (rank.counters, rank.counter_cost) =
            (vec![counter()], Some(CounterCost { readings: 31, reading_ns: Some(1250.0) }));
    }
    assume(&mut report);
    report.functions.iter_mut().for_each(fill);
    for detail in &mut report.details {
        detail.duration_s = Some(0.001);
    }
    report.wait_states = vec![wait_state(WaitKind::Collective, "MPI_Allreduce", 0.0123, 4.1e-6, &[(2, 0.0101)])];
    report.messages = vec![message_times(0, 1, 8192)];
    report.paths = vec![path("MPI_Allreduce", "solve", Some("solver.f90:214"), 0.01)];
    report.paths[0].path_missing = Some("who called here was not known yet".into());
    report.paths[0].path.remove(0);
    (report.efficiencies_missing, report.efficiencies) = (
        Some("a rank is missing".into()),
        Some(Efficiencies {
            load_balance_within_nodes: Some(0.9),
            load_balance_between_nodes: Some(0.9),
            serialisation: Some(0.9),
            transfer: Some(0.9),
            transfer_missing: Some("no wait is known".into()),
            ..efficiencies(0.6)
        }),
    );
    report.omp = Some(omp(true));
    report.communication_missing = Some("the group comm was not among what was measured (io)".into());
    report.nodes = vec![node_share()];
    report.window.event = Some(Event {
        kind: EventKind::JobStart,
        condition: "job-start".into(),
        value: "Slurm job 12 (cg)".into(),
        at_unix_s: STARTED_UNIX_S + 3599.5,
    });
    report.window.marker_path = marker_path();
    report.window.from_first_call = Some(from_first_call());
    report.window.begins_late = begins_late();
    report.window.progress = Some(LoopProgress {
        done: Some(240),
        remaining: Some(9_760),
        total: Some(10_000),
        total_at_most: Some(10_000),
        likely: Some(LikelyProgress {
            done: Some(240),
            remaining: Some(9_760),
            total: Some(10_000),
            remaining_lower: Some(9_000),
            remaining_upper: Some(11_000),
            remaining_at_most: Some(11_000),
        }),
        explanation: "by its counter, which moved by one step in each pass".into(),
    });
    report.window.loops_around = Some(vec!["loop 1 of main at md.c:20".into()]);
    report.window.outer_progress = vec![outer_progress()];
    report.window.main_loop = Some(LoopPlace {
        function: "solve".into(),
        number: "1".into(),
        module: "particle".into(),
        address: "0x1a2b".into(),
        file: Some("src/solver.f90".into()),
        line: Some(214),
    });
    report.warnings = vec!["a warning".into()];
    report
}

/// A function's optional values.
fn fill(function: &mut FunctionTotal) {
    (function.bytes, function.bytes_mean, function.bytes_max) = (Some(1), Some(1.0), Some(1));
    (function.argument_sum, function.polling_calls) = (Some(-5), Some(7));
    function.sizes.get_or_insert_default().push(SizeClass {
        from_bytes: Some(1),
        to_bytes: Some(1),
        calls: 1,
        bytes: 1,
    });
    function.other_names = vec!["memmove".into()];
    function.waits_missing = Some("it completes what other calls began".into());
    function.time_missing = Some("it is left only by jumps to other functions".into());
    let persistent = "3 of its messages are of requests that the program made before trimtab came";
    (function.bytes_missing, function.taken_out_after_s) = (Some(persistent.into()), Some(0.0125));
}

/// Through the binding of Fortran.
fn marker_path() -> Vec<CallFrame> {
    let frame = |function: &str, offset: u64, module: &str, line: Option<&str>| CallFrame {
        function: function.into(),
        offset,
        module: module.into(),
        line: line.map(str::to_string),
        interpreter: false,
        own: line.is_some(),
    };
    vec![
        frame("pmpi_allreduce_", 0x5c, "libmpi_mpifh.so.40", None),
        frame("solve", 0x1f3, "cg", Some("solver.f90:214")),
    ]
}

/// A machine with a busy neighbour on a rank's processors, a quiet one, and a quota.
pub fn node_share() -> NodeShare {
    let neighbour = |kind: NeighbourKind, name: &str, busy_processors: f64, shares: Closeness| Neighbour {
        kind,
        name: name.into(),
        user: "ann".into(),
        program: "cg".into(),
        processes: 2,
        ranks: 2,
        busy_processors: Some(busy_processors),
        cpus_seen: "4-5".into(),
        shares,
        with_ranks: if shares == Closeness::Machine { Vec::new() } else { vec![1] },
        presence: Presence::Came,
    };
    NodeShare {
        host: "node1".into(),
        seconds: 0.41,
        processors: Some(8),
        busy: Some(0.62),
        steal: Some(0.021),
        load: Some(5.5),
        pressure: Some(0.31),
        places: vec![RankPlace {
            rank: 0,
            cpus_allowed: "0-7".into(),
            cpus_seen: "0,4".into(),
            clock_mhz: Some(2900.0),
            stopped_s: Some(0.5),
            waited_s: Some(0.25),
        }],
        neighbours: vec![
            neighbour(NeighbourKind::Slurm, "12.0", 0.62, Closeness::Core),
            neighbour(NeighbourKind::User, "bob", 0.05, Closeness::Machine),
        ],
        neighbours_left_out: 3,
        limits: vec![Limit {
            group: "/job_7".into(),
            ranks: vec![0, 1],
            processors: Some(1.5),
            throttled_s: Some(0.12),
            throttled_periods: Some(0.4),
            memory_bytes_max: Some(1 << 30),
            memory_bytes: Some(1 << 28),
        }],
        oversubscribed: Some(vec![Oversubscription {
            ranks: vec![0, 1],
            processors: 1.5,
            limited_by: CrowdLimit::Quota,
            processors_wanted: Some(1.9),
            processors_had: Some(1.4),
        }]),
    }
}

/// Two ranks that share their machine, measured because somebody came.
pub fn shared() -> Report {
    let mut report = two_ranks();
    let full = everything();
    report.nodes = full.nodes;
    report.window.event = full.window.event;
    report
}

/// No optional value is there, every list has an entry.
pub fn bare() -> Report {
    let mut report = nothing_measured();
    let full = everything();
    (report.functions, report.links, report.ranks, report.details) =
        (full.functions, full.links, full.ranks, full.details);
    report.wait_states = full.wait_states;
    report.wait_states.iter_mut().for_each(|state| state.time_s = None);
    let MessageTimes { from, to, bytes, .. } = message_times(0, 1, 8192);
    report.messages = vec![MessageTimes { from, to, bytes, ..MessageTimes::default() }];
    report.collectives = full.collectives;
    report.nodes = full.nodes;
    for node in &mut report.nodes {
        (node.busy, node.steal, node.load, node.pressure) = (None, None, None, None);
        node.places.iter_mut().for_each(|place| (place.clock_mhz, place.waited_s) = (None, None));
        node.places.iter_mut().for_each(|place| place.stopped_s = None);
        node.processors = None;
        node.neighbours.iter_mut().for_each(|one| one.busy_processors = None);
        for limit in &mut node.limits {
            (limit.processors, limit.throttled_s, limit.throttled_periods) = (None, None, None);
            (limit.memory_bytes_max, limit.memory_bytes) = (None, None);
        }
        for crowd in node.oversubscribed.iter_mut().flatten() {
            (crowd.processors_wanted, crowd.processors_had) = (None, None);
        }
    }
    report.omp = Some(omp(false));
    report.reduced = Some(reduced(false));
    let mut unknown = report.nodes[0].clone();
    unknown.oversubscribed = None;
    report.nodes.push(unknown);
    let window = &mut report.window;
    (window.marker, window.start, window.iterations, window.loop_description) = (None, None, None, None);
    window.marker_path = vec![CallFrame::default()];
    (window.started_unix_s, report.job.started_unix_s) = (None, None);
    let (mean, samples) = (1.0, 1);
    let one = Estimate { mean, variance: None, half_width_95: None, min: mean, max: mean, samples };
    report.communication_fraction = Some(one);
    for function in &mut report.functions {
        (function.time_s, function.bytes, function.bytes_mean, function.bytes_max) = (None, None, None, None);
        (function.argument_sum, function.first_s, function.last_s) = (None, None, None);
        (function.calls, function.nested_calls) = (None, None);
        function.sizes = Some(vec![SizeClass { calls: 3, ..SizeClass::default() }]);
    }
    let mut unmeasured = report.functions[0].clone();
    unmeasured.sizes = None;
    report.functions.push(unmeasured);
    report.paths = vec![PathTotal { path: vec![CallFrame::default()], ..PathTotal::default() }];
    for rank in &mut report.ranks {
        (rank.cpu_s, rank.cpu_user_s, rank.cpu_system_s) = (None, None, None);
        (rank.iterations, rank.time_per_iteration_s, rank.pause_remove_us) = (None, None, None);
        (rank.minor_faults, rank.major_faults) = (None, None);
        (rank.voluntary_switches, rank.involuntary_switches) = (None, None);
        (rank.communication_s, rank.computation_s, rank.unattributed_bytes) = (None, None, None);
        (rank.communication_threads, rank.communication_threads_s) = (None, None);
        rank.counters = vec![Counter { name: "instructions".into(), ..Counter::default() }];
        rank.counter_cost = Some(CounterCost { readings: 31, reading_ns: None });
    }
    for detail in &mut report.details {
        detail.duration_s = None;
    }
    report
}

/// So many ranks in a ring, rank 37 slow.
pub fn many_ranks(ranks: u32) -> Report {
    sample(ranks, 100, 12.5e-3, &|rank, i| if rank == 37 { 0.97 } else { 0.5 + f64::from((rank * 7 + i) % 31) * 0.01 })
}

/// No loop: two seconds by time; several groups; an expensive measurement.
pub fn by_time() -> Report {
    let mut report = sample(2, 0, 2.0, &|_, _| 0.49);
    let window = &mut report.window;
    (window.marker, window.start, window.iterations) = (None, None, None);
    (window.marker_source, window.ended_by) = (MarkerSource::Time, Ended::MaxSeconds);
    window.loop_description = None;
    window.groups = vec![FunctionGroup::Comm, FunctionGroup::Io];
    (report.time_per_iteration_s, report.iterations_per_s) = (None, None);
    for rank in &mut report.ranks {
        rank.iterations = None;
        rank.time_per_iteration_s = None;
        rank.group_s = vec![GroupTime { group: FunctionGroup::Io, time_s: 0.125 }];
    }
    let mut write = function("write", 812, 0.25, Some((3_325_952, 65_536)));
    write.group = FunctionGroup::Io;
    write.argument_sum = Some(-12);
    report.functions.push(write);
    report.cost.fraction = Some(0.061);
    report.warnings = vec!["no repeating pattern of MPI calls covers half of the time; the window is by time".into()];
    report
}

/// Rank 1 left early; its counters are partly missing.
pub fn invalid() -> Report {
    let mut report = sample(3, 10, 3.16e-3, &|_, _| 0.7);
    report.window.valid = false;
    report.window.ended_by = Ended::ProgramEnded;
    let rank = &mut report.ranks[1];
    rank.iterations = Some(7);
    rank.duration_s *= 0.7;
    rank.computation_s = rank.computation_s.map(|s| s * 0.7);
    rank.communication_s = rank.communication_s.map(|s| s * 0.7);
    (rank.cpu_s, rank.cpu_user_s, rank.cpu_system_s) = (None, None, None);
    (rank.minor_faults, rank.major_faults) = (None, None);
    (rank.voluntary_switches, rank.involuntary_switches, rank.pause_remove_us) = (None, None, None);
    rank.unattributed_bytes = Some(4096);
    report.warnings = vec!["rank 1 (pid 4712) exited during the window: its last 3 iterations are missing".into()];
    report
}

/// A window in which nothing could be measured.
pub fn nothing_measured() -> Report {
    let mut report = two_ranks();
    report.job.id = String::new();
    report.window.groups = vec![FunctionGroup::User];
    (report.time_per_iteration_s, report.iterations_per_s, report.imbalance) = (None, None, None);
    (report.efficiencies, report.efficiencies_missing) = (None, Some("communication was not measured".into()));
    (report.communication_fraction, report.communication_to_computation) = (None, None);
    (report.functions, report.links, report.ranks) = (Vec::new(), Vec::new(), Vec::new());
    report.cost = Cost {
        pause_us_max: None,
        pause_us_total: None,
        probe_ns: None,
        probes: None,
        points: None,
        fraction: None,
        communication_fraction_without: None,
        first_record_s: None,
    };
    report
}

/// Every text the target can choose tries to break out of the page.
pub fn hostile() -> Report {
    let evil = "</script><script>alert(1)</script>\"'&<img src=x onerror=alert(2)>\u{1b}]0;title\u{7}\u{202e}\n\u{0}";
    let mut report = four_ranks();
    let job = &mut report.job;
    (job.id, job.program, job.mpi) = (evil.into(), evil.into(), evil.into());
    (job.arguments, job.hosts, job.builds) = (vec![evil.into()], vec![evil.into(), evil.into()], vec![evil.into()]);
    let window = &mut report.window;
    (window.marker, window.loop_description) = (Some(evil.into()), Some(evil.into()));
    let (function, module) = (evil.into(), evil.into());
    window.marker_path = vec![CallFrame { function, module, line: Some(evil.into()), ..CallFrame::default() }];
    window.trigger = evil.into();
    for rank in &mut report.ranks {
        rank.host = evil.into();
        rank.group_s = vec![GroupTime { group: FunctionGroup::Io, time_s: 0.001 }];
    }
    for function in &mut report.functions {
        function.name = evil.into();
    }
    for detail in &mut report.details {
        detail.function = evil.into();
    }
    for row in &mut report.paths {
        (row.function, row.path_missing) = (evil.into(), Some(evil.into()));
        row.path.iter_mut().for_each(|frame| (frame.function, frame.line) = (evil.into(), Some(evil.into())));
    }
    for state in &mut report.wait_states {
        state.function = evil.into();
    }
    if let Some(difference) = &mut report.difference {
        difference.because = evil.into();
    }
    report.nodes = vec![node_share()];
    let node = &mut report.nodes[0];
    (node.host, node.limits[0].group) = (evil.into(), evil.into());
    node.neighbours.truncate(1);
    let one = &mut node.neighbours[0];
    (one.name, one.user, one.program) = (evil.into(), evil.into(), evil.into());
    report.window.event =
        Some(Event { kind: EventKind::Api, condition: evil.into(), value: String::new(), at_unix_s: STARTED_UNIX_S });
    report.warnings = vec![evil.into()];
    report
}

/// `ranks` ranks in a ring that record `iterations` of about `iteration_s` each, or one piece of that length.
pub fn sample(ranks: u32, iterations: u32, iteration_s: f64, computing: &dyn Fn(u32, u32) -> f64) -> Report {
    let totals: Vec<RankTotal> = (0..ranks).map(|rank| rank_total(rank, iterations, iteration_s, computing)).collect();
    let duration_s = totals.iter().map(|rank| rank.duration_s).fold(0.0, f64::max);
    let communication_s: f64 = totals.iter().filter_map(|rank| rank.communication_s).sum();
    let computation_s: f64 = totals.iter().filter_map(|rank| rank.computation_s).sum();
    let calls = u64::from(ranks) * u64::from(iterations.max(1));
    let fraction = communication_s / (communication_s + computation_s);
    Report {
        schema: SCHEMA.into(),
        job: job(ranks),
        window: window(iterations, duration_s),
        time_per_iteration_s: Some(estimate(iteration_s, 0.016, calls)),
        iterations_per_s: Some(1.0 / iteration_s),
        communication_fraction: Some(estimate(fraction, 0.03, calls)),
        communication_at_least: false,
        communication_missing: None,
        communication_to_computation: Some(communication_s / computation_s),
        imbalance: Some(0.004),
        efficiencies: Some(efficiencies(1.0 - fraction)),
        efficiencies_missing: None,
        omp: None,
        reduced: None,
        difference: None,
        functions: vec![
            function("MPI_Sendrecv", calls * 2, communication_s * 0.9, Some((calls * 2 * 8192, 8192))),
            function("MPI_Allreduce", calls, communication_s * 0.1, Some((calls * 8, 8))),
            function("MPI_Comm_rank", 3, 2.1e-7, None),
        ],
        paths: Vec::new(),
        links: ring(ranks, iterations.max(1)),
        ranks: totals,
        messages: Vec::new(),
        collectives: Vec::new(),
        wait_states: Vec::new(),
        nodes: Vec::new(),
        cost: Cost {
            pause_us_max: Some(812.5),
            pause_us_total: Some(1503.0),
            probe_ns: Some(18.4),
            probes: Some(calls * 6),
            points: Some(62),
            fraction: Some(0.00031),
            communication_fraction_without: Some(fraction),
            first_record_s: Some(0.184),
        },
        details: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Ranks of several threads.
pub fn openmp() -> Report {
    let mut report = two_ranks();
    report.window.groups.push(FunctionGroup::Omp);
    let mut known = omp(true);
    known.hybrid_missing = None;
    known.regions[0].missing = None;
    let unseen = ParallelRegion { function: "GOMP_parallel".into(), time_s: 0.25, ..omp(false).regions[1].clone() };
    known.regions[1] = ParallelRegion { missing: Some("what its threads did was not seen".into()), ..unseen };
    known.unseen_s = 0.25;
    report.omp = Some(known);
    report
}

/// Two regions, with all that is known of them or nothing.
pub fn omp(is_known: bool) -> Omp {
    let line = is_known.then(|| "solver.c:88".to_owned());
    let place = CallFrame { function: "solve".into(), line, own: true, ..CallFrame::default() };
    let known = |value: f64| is_known.then_some(value);
    let region = |place: Option<CallFrame>, number: u32| ParallelRegion {
        place,
        function: format!("solve._omp_fn.{number}"),
        ranks: 4,
        passes: 400,
        time_s: 2.0,
        fraction: known(0.4),
        threads_min: is_known.then_some(2),
        threads_max: is_known.then_some(8),
        thread_time_s: known(16.0),
        work_s: known(10.0),
        communication_s: known(0.0),
        barrier_s: known(3.0),
        lock_s: known(1.0),
        task_s: known(0.5),
        ends_s: known(1.5),
        imbalance: known(0.31),
        imbalance_of_sums: known(0.29),
        efficiency: known(0.625),
        missing: Some("rank 0: 2 regions or waits were left by an exception".into()),
    };
    let other = is_known.then(|| CallFrame { line: Some("solver.c:120".into()), ..place.clone() });
    Omp {
        regions: vec![region(Some(place), 0), region(other, 1)],
        threads: is_known.then_some(32),
        serial_s: known(0.7),
        unseen_s: if is_known { 0.0 } else { 1.25 },
        nested: u64::from(is_known) * 3,
        hybrid: Some(hybrid(is_known)).filter(|_| is_known),
        hybrid_missing: Some("rank 0: 2 regions or waits were left by an exception".into()),
    }
}

fn hybrid(is_bad: bool) -> HybridEfficiencies {
    HybridEfficiencies {
        parallel: 0.5,
        mpi: 0.8,
        mpi_load_balance: 0.9,
        mpi_communication: 0.889,
        omp: 0.625,
        omp_load_balance: 0.78,
        omp_scheduling: 0.9,
        omp_serialisation: 0.89,
        useful_s: 20.0,
        mpi_s: 1.0,
        idle_in_mpi_s: 7.0,
        imbalance_s: 6.0,
        scheduling_s: 3.5,
        serialisation_s: 2.5,
        work_on_first: is_bad.then_some(HybridFactor::OmpLoadBalance),
        region_first: is_bad.then(|| "solve at solver.c:88".into()),
    }
}

/// Of ranks that compute for this share of the time.
fn efficiencies(parallel: f64) -> Efficiencies {
    Efficiencies {
        parallel,
        load_balance: 0.996,
        load_balance_within_nodes: None,
        load_balance_between_nodes: None,
        communication: parallel / 0.996,
        serialisation: None,
        transfer: None,
        transfer_missing: Some("nobody knows how much is waiting".into()),
        work_on_first: Some(Factor::Communication),
    }
}

fn job(ranks: u32) -> Job {
    Job {
        id: "particle-3".into(),
        program: "/opt/app/bin/particle".into(),
        arguments: vec!["--mesh".into(), "256".into(), "--name".into(), "two words".into()],
        ranks,
        mpi: "MPICH 4.0.2".into(),
        hosts: vec!["node1".into()],
        builds: vec!["/opt/app/bin/particle 3f1c2a".into(), "/usr/lib/libmpich.so.12 9be041".into()],
        started_unix_s: Some(STARTED_UNIX_S),
    }
}

/// A loop around the main one, of which all that can be said is.
fn outer_progress() -> OuterProgress {
    OuterProgress {
        name: "loop 1 of main at md.c:20".into(),
        done: Some(3),
        to_come: None,
        to_come_at_most: Some(16),
        is_likely: true,
        missing: Some("it is not known".into()),
    }
}

fn window(iterations: u32, duration_s: f64) -> Window {
    Window {
        number: 0,
        trigger: "attach".into(),
        event: None,
        marker: Some("MPI_Sendrecv at particle+0x1a2b".into()),
        marker_source: MarkerSource::Detected,
        start: Some(12_045),
        iterations: Some(u64::from(iterations)),
        valid: true,
        context: None,
        ended_by: Ended::Iterations,
        duration_s,
        started_unix_s: Some(STARTED_UNIX_S + 3600.0),
        groups: vec![FunctionGroup::Comm],
        loop_description: Some("3 MPI calls per iteration, covering 99.1% of the time".into()),
        marker_path: Vec::new(),
        main_loop: None,
        loops_around: None,
        outer_progress: Vec::new(),
        progress: None,
        from_first_call: None,
        begins_late: None,
    }
}

fn estimate(mean: f64, spread: f64, samples: u64) -> Estimate {
    let deviation = mean * spread;
    Estimate {
        mean,
        variance: Some(deviation * deviation),
        half_width_95: Some(1.96 * deviation / (samples as f64).sqrt()),
        min: mean * (1.0 - 2.0 * spread),
        max: mean * (1.0 + 2.5 * spread),
        samples,
    }
}

fn rank_total(rank: u32, iterations: u32, iteration_s: f64, computing: &dyn Fn(u32, u32) -> f64) -> RankTotal {
    let wobble = |i: u32| 1.0 + f64::from((i * 13 + rank * 5) % 17) * 0.002 + if i % 20 == 13 { 0.04 } else { 0.0 };
    let times: Vec<f64> = (0..iterations).map(|i| iteration_s * wobble(i)).collect();
    let duration_s = if iterations == 0 { iteration_s } else { times.iter().sum() };
    let computation_s =
        duration_s * (0..iterations.max(1)).map(|i| computing(rank, i)).sum::<f64>() / f64::from(iterations.max(1));
    RankTotal {
        rank,
        pid: 4711 + rank as i32,
        host: "node1".into(),
        duration_s,
        communication_s: Some(duration_s - computation_s),
        computation_s: Some(computation_s),
        computation_error_s: None,
        communication_threads: Some(1),
        communication_threads_s: Some(duration_s - computation_s),
        cpu_s: Some(duration_s * 0.997),
        cpu_user_s: Some(duration_s * 0.981),
        cpu_system_s: Some(duration_s * 0.016),
        iterations: Some(u64::from(iterations)),
        time_per_iteration_s: Some(duration_s / f64::from(iterations.max(1))),
        iteration_times_s: times,
        minor_faults: Some(u64::from(rank % 3)),
        major_faults: Some(0),
        voluntary_switches: Some(2),
        involuntary_switches: Some(u64::from(rank * 11 % 7)),
        group_s: Vec::new(),
        counters: Vec::new(),
        counter_cost: None,
        unattributed_bytes: Some(0),
        pause_insert_us: 812.5 - f64::from(rank),
        pause_remove_us: Some(690.5),
        probe_hits: u64::from(iterations) * 6,
    }
}

fn function(name: &str, calls: u64, time_s: f64, bytes: Option<(u64, u64)>) -> FunctionTotal {
    FunctionTotal {
        name: name.into(),
        other_names: Vec::new(),
        group: FunctionGroup::Comm,
        calls: Some(calls),
        nested_calls: Some(u64::from(name == "MPI_Allreduce") * 4),
        polling_calls: None,
        time_s: Some(time_s),
        time_missing: None,
        taken_out_after_s: None,
        waits_missing: None,
        bytes_missing: None,
        bytes: bytes.map(|(sum, _)| sum),
        bytes_mean: bytes.map(|(sum, _)| sum as f64 / calls as f64),
        bytes_max: bytes.map(|(_, max)| max),
        sizes: None,
        argument_sum: None,
        ranks: Some(2),
        longest: Some(trimtab_types::report::LongestRank { rank: 1, time_s: time_s * 0.6 }),
        first_s: Some(0.0001),
        last_s: Some(0.03),
    }
}

fn ring(ranks: u32, iterations: u32) -> Vec<Link> {
    let link = |from: u32, to: u32| Link {
        from,
        to: to % ranks,
        messages: u64::from(iterations),
        bytes: u64::from(iterations) * 8192,
        collective_messages: 0,
        collective_bytes: 0,
    };
    match ranks {
        1 => Vec::new(),
        2 => vec![link(0, 1), link(1, 0)],
        _ => (0..ranks).flat_map(|rank| [link(rank, rank + ranks - 1), link(rank, rank + 1)]).collect(),
    }
}

fn detail(number: u32) -> Detail {
    Detail {
        rank: number,
        thread: 0,
        function: "MPI_Sendrecv".into(),
        time_unix_s: STARTED_UNIX_S + 3600.0 + f64::from(number) * 0.0005,
        duration_s: (number < 2).then_some(0.00021),
        arguments: vec![0x7ffd_0000_1000, 1024, 0x4c00_080b, 1, 7, 0x7ffd_0000_3000],
    }
}
