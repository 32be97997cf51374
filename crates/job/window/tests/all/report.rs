//! Does the report say what the samples hold, and nothing else?

use std::collections::BTreeMap;
use trimtab_types::report::{
    CallFrame, CounterCost, CrowdLimit, Ended, FunctionGroup, Job, MarkerSource, NodeShare, Oversubscription,
    RankPlace, Report, SCHEMA, WaitKind,
};
use trimtab_window::{
    DetailSample, FunctionInfo, FunctionSample, IterationMark, LinkSample, NamedPath, PathSample, PathWait, RankSample,
    SizeSample, ThreadSample, UnixTime, Untimed, Usage, WaitSum, Waits, WindowFacts, WindowInput, assemble, headline,
};

const TICKS_PER_SECOND: f64 = 1e6;
const ITERATIONS: u64 = 10;
const ITERATION_TICKS: u64 = 100_000;

/// Changes one thing about a window.
type Change<T> = fn(&mut T);

fn job(ranks: u32) -> Job {
    Job {
        id: "job".to_owned(),
        program: "./app".to_owned(),
        arguments: Vec::new(),
        ranks,
        mpi: "MPICH".to_owned(),
        hosts: vec!["node".to_owned()],
        builds: Vec::new(),
        started_unix_s: Some(900.0),
    }
}

fn function(name: &str, group: &str) -> FunctionInfo {
    FunctionInfo {
        name: name.to_owned(),
        group: FunctionGroup::from_word(group).expect("a group"),
        timed: true,
        moves_bytes: group == "comm",
        ..FunctionInfo::default()
    }
}

/// Ten iterations of 0.1 s, of which `comm_ticks` each in communication, a little more in every second one.
fn rank(rank: u32, comm_ticks: u64) -> RankSample {
    let jitter = |i: u64| if i.is_multiple_of(2) { 0 } else { 500 };
    let marks = (0..=ITERATIONS).map(|i| IterationMark {
        ticks: 5_000_000 + i * ITERATION_TICKS + jitter(i),
        comm_ticks: 77 + i * comm_ticks + jitter(i),
    });
    let marks: Vec<IterationMark> = marks.collect();
    RankSample {
        rank,
        pid: 100 + rank as i32,
        host: "node".to_owned(),
        first_ticks: 5_000_000,
        last_ticks: 5_000_000 + ITERATIONS * ITERATION_TICKS,
        marks,
        complete: true,
        functions: vec![FunctionSample {
            function: 0,
            calls: 20,
            nested: 3,
            ticks: ITERATIONS * comm_ticks,
            bytes: 2000,
            bytes_max: 400,
            argument_sum: 9,
            first_ticks: 5_010_000,
            last_ticks: 5_900_000 + u64::from(rank),
            unknown_bytes: 0,
            polled_on: 0,
        }],
        comm_ticks: ITERATIONS * comm_ticks,
        usage: Some(Usage { cpu_user_s: 0.9, cpu_system_s: 0.1, minor_faults: 4, ..Usage::default() }),
        links: vec![
            LinkSample { other: 1 - rank % 2, messages: 10, bytes: 1500, ..LinkSample::default() },
            LinkSample { other: 1 - rank % 2, is_collective: true, messages: 2, bytes: 500, ..LinkSample::default() },
        ],
        pause_insert_us: 300.0 + f64::from(rank),
        pause_remove_us: Some(200.0),
        probe_ns: Some(20.0),
        probe_hits: 1000,
        inline_hits: 0,
        inline_ns: 0.0,
        points: 12,
        ..RankSample::default()
    }
}

fn input(comm_ticks: &[u64]) -> WindowInput {
    WindowInput {
        job: job(comm_ticks.len() as u32),
        facts: WindowFacts {
            marker: Some("MPI_Allreduce".to_owned()),
            marker_source: MarkerSource::Detected,
            start: Some(70),
            ended_by: Ended::Iterations,
            groups: vec![FunctionGroup::Comm],
            ..WindowFacts::default()
        },
        ticks_per_second: TICKS_PER_SECOND,
        functions: vec![function("MPI_Send", "comm"), function("read", "io")],
        ranks: comm_ticks.iter().enumerate().map(|(number, ticks)| rank(number as u32, *ticks)).rev().collect(),
        warnings: Vec::new(),
        command_to_first_record_s: Some(0.25),
        nodes: Vec::new(),
        named_paths: Vec::new(),
        unix_time: UnixTime { unix_s: 1000.0, at_ticks: 5_000_000, ticks_per_second: TICKS_PER_SECOND },
        waits: Waits::default(),
    }
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-9
}

#[test]
fn numbers_of_a_valid_window() {
    let report = assemble(&input(&[40_000, 20_000]));
    assert_eq!(report.schema, SCHEMA);
    assert!(report.window.valid && report.warnings.is_empty(), "{:?}", report.warnings);
    assert_eq!((report.window.start, report.window.iterations), (Some(70), Some(ITERATIONS)));
    assert_eq!(report.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [0, 1], "in rank order");
    let time = report.time_per_iteration_s.expect("iterations");
    assert!(near(time.mean, 0.1) && time.samples == ITERATIONS && time.half_width_95.expect("ten") > 0.0);
    assert!(near(report.iterations_per_s.expect("iterations"), 10.0));
    let fraction = report.communication_fraction.expect("measured");
    assert!(near(fraction.mean, 0.3) && fraction.min < 0.3 && fraction.max > 0.3, "{fraction:?}");
    assert!(near(report.communication_to_computation.expect("measured"), 0.6 / 1.4));
    assert!(near(report.imbalance.expect("measured"), 0.8 / 0.7 - 1.0));
    let (communication_s, computation_s) = (report.ranks[0].communication_s, report.ranks[0].computation_s);
    assert!(near(communication_s.expect("measured"), 0.4) && near(computation_s.expect("measured"), 0.6));
    assert!(near(report.ranks[0].cpu_s.expect("read"), 1.0));
}

#[test]
fn functions_links_and_cost() {
    let report = assemble(&input(&[40_000, 20_000]));
    let [send] = report.functions.as_slice() else { panic!("read was never called: {:?}", report.functions) };
    assert_eq!((send.name.as_str(), send.calls, send.nested_calls), ("MPI_Send", Some(40), Some(6)));
    assert_eq!((send.bytes, send.bytes_mean, send.bytes_max), (Some(4000), Some(100.0), Some(400)));
    assert_eq!(send.argument_sum, None, "not asked for");
    assert!(near(send.first_s.expect("called"), 0.01) && near(send.last_s.expect("called"), 0.900001));
    assert!(near(send.time_s.expect("timed"), 0.6));
    let link = &report.links[0];
    assert_eq!((link.from, link.to, link.messages, link.bytes), (0, 1, 12, 2000));
    assert_eq!((link.collective_messages, link.collective_bytes), (2, 500));
    assert_eq!((report.cost.pause_us_max, report.cost.pause_us_total), (Some(301.0), Some(501.0)));
    assert_eq!(
        (report.cost.probes, report.cost.points, report.cost.first_record_s),
        (Some(2000), Some(12), Some(0.25))
    );
    assert!(near(report.cost.fraction.expect("calibrated"), 500.0 * 20e-9));
}

#[test]
fn what_was_not_measured_is_no_number() {
    let mut input = input(&[40_000, 20_000]);
    input.functions = vec![FunctionInfo { timed: false, moves_bytes: false, ..function("malloc", "mem") }];
    for rank in &mut input.ranks {
        (rank.usage, rank.probe_ns) = (None, None);
    }
    let report = assemble(&input);
    assert_eq!((report.communication_fraction, report.communication_to_computation), (None, None));
    assert_eq!((report.imbalance, report.cost.fraction, report.cost.probe_ns), (None, None, None));
    assert_eq!((report.ranks[0].cpu_s, report.ranks[0].minor_faults), (None, None));
    assert_eq!((report.functions[0].time_s, report.functions[0].bytes), (None, None));
    assert!(headline(&report).contains("not measured"), "{}", headline(&report));
}

#[test]
fn without_a_rank_that_recorded_no_cost_is_known() {
    let cost = assemble(&input(&[])).cost;
    assert_eq!((cost.pause_us_max, cost.pause_us_total, cost.probes, cost.points), (None, None, None, None));
}

#[test]
fn what_probes_took_widens_the_interval_of_the_share() {
    let mut input = input(&[4, 2]);
    let interval = |input: &WindowInput| {
        let report = assemble(input);
        let fraction = report.communication_fraction.expect("measured");
        (fraction.half_width_95.expect("iterations"), report.cost.fraction.expect("known"))
    };
    let (narrow, cheap) = interval(&input);
    for rank in &mut input.ranks {
        rank.probe_ns = rank.probe_ns.map(|ns| ns * 1000.0);
    }
    let (wide, dear) = interval(&input);
    assert!(dear > cheap && near(wide - narrow, dear - cheap), "{narrow} at {cheap}, {wide} at {dear}");
}

/// Iterations that are all alike add nothing to what no window of their length can know, and nothing constant is added.
#[test]
fn a_window_of_alike_iterations_does_not_promise_the_whole_run() {
    let mut input = input(&[40_000, 20_000]);
    for (rank, comm_ticks) in input.ranks.iter_mut().zip([20_000, 40_000]) {
        for (mark, i) in rank.marks.iter_mut().zip(0..) {
            *mark = IterationMark { ticks: 5_000_000 + i * ITERATION_TICKS, comm_ticks: i * comm_ticks };
        }
    }
    let report = assemble(&input);
    let fraction = report.communication_fraction.expect("measured");
    // Of a second nobody knows what takes a millisecond and comes less often than once in it.
    let unseen = 0.003 / 1.003 * 0.7;
    let beside_spread = report.cost.fraction.expect("known") + unseen;
    let found = fraction.half_width_95.expect("iterations");
    assert!(near(found, beside_spread), "{found} and {beside_spread}");
}

/// Ten iterations of a microsecond: no processor time that the kernel could tell, and a word on what to ask for.
#[test]
fn a_short_window_says_so_and_promises_nothing() {
    let mut input = input(&[4, 2]);
    input.ticks_per_second = TICKS_PER_SECOND * 1e5;
    let report = assemble(&input);
    assert!(near(report.window.duration_s, 1e-5), "{:?}", report.window);
    assert_eq!((report.ranks[0].cpu_s, report.ranks[0].cpu_user_s, report.ranks[0].cpu_system_s), (None, None, None));
    assert_eq!(report.ranks[0].minor_faults, Some(4), "counts are exact however short it is");
    let warned = report.warnings.iter().find(|warning| warning.contains("lasted 10.00 us and had 10 iterations"));
    assert!(warned.is_some_and(|warned| warned.contains("--at-least 1 ")), "{:?}", report.warnings);
    let fraction = report.communication_fraction.expect("measured");
    assert!(fraction.half_width_95.is_some_and(|half_width| half_width > 0.99), "it may be anything: {fraction:?}");
    let said = headline(&report);
    assert!(
        said.contains("is communication (0.0 to 100.0% at 95%), in a window of 10.00 us and 10 iterations"),
        "{said}"
    );
    assert!(said.contains("too short to speak of the whole program"), "{said}");
}

/// The same shares in windows of other lengths, each with what its first lines say of it.
#[test]
fn the_interval_follows_the_length_of_the_window() {
    let mut last = 1.0;
    for (faster, said, is_short) in [
        (1e3, "in a window of 1.00 ms and 10 iterations, too short", true),
        (1e2, "in a window of 10.00 ms and 10 iterations, too short", true),
        (5.0, "in a window of 200.00 ms and 10 iterations.", false),
        (1.0, "in a window of 1.00 s and 10 iterations.", false),
    ] {
        let mut input = input(&[40_000, 20_000]);
        input.ticks_per_second = TICKS_PER_SECOND * faster;
        let report = assemble(&input);
        let text = headline(&report);
        assert!(text.contains(said), "{text}");
        assert_eq!(report.warnings.iter().any(|one| one.contains("says little of the program")), is_short, "{said}");
        let half_width = report.communication_fraction.and_then(|share| share.half_width_95).expect("ten");
        assert!(half_width < last, "{said} {half_width}, shorter ones {last}");
        last = half_width;
    }
    let mut few = input(&[40_000, 20_000]);
    few.ranks.iter_mut().for_each(|rank| rank.marks.truncate(4));
    let report = assemble(&few);
    let warned = report.warnings.iter().find(|one| one.contains("and had 3 iterations")).expect("a warning");
    assert!(warned.contains("record 10 or more, for which --max-seconds must be"), "{warned}");
    assert!(headline(&report).contains("too few to speak of the whole program"), "{}", headline(&report));
}

/// Whoever interrupts gets what was recorded by then, if that is whole.
#[test]
fn an_interrupted_window_of_whole_iterations_is_valid() {
    let mut input = input(&[40_000, 20_000]);
    input.facts.ended_by = Ended::Interrupted;
    let report = assemble(&input);
    assert!(report.window.valid, "{:?}", report.warnings);
    let said = report.warnings.iter().any(|one| one.contains("interrupted: the window is the 10 iterations"));
    assert!(said, "{:?}", report.warnings);
}

#[test]
fn windows_by_time_have_no_iterations() {
    let mut input = input(&[40_000, 20_000]);
    input.facts.marker = None;
    for rank in &mut input.ranks {
        rank.marks.clear();
    }
    let report = assemble(&input);
    assert!(report.window.valid, "{:?}", report.warnings);
    assert_eq!((report.window.start, report.window.iterations, report.time_per_iteration_s), (None, None, None));
    let fraction = report.communication_fraction.expect("measured");
    assert!(near(fraction.mean, 0.3) && fraction.half_width_95.is_none());
}

fn end_all(input: &mut WindowInput, ended_by: &str) {
    input.facts.ended_by = Ended::from_word(ended_by).expect("a word");
    input.ranks.iter_mut().for_each(|rank| rank.complete = false);
}

/// A rank that nobody asked to measure is not missing.
#[test]
fn windows_of_some_ranks_are_valid_and_say_so() {
    let mut input = input(&[40_000, 20_000, 30_000]);
    input.ranks.retain(|rank| rank.rank != 2);
    assert!(!assemble(&input).window.valid);
    (input.facts.context, input.facts.left_alone) = (Some("0-1".to_owned()), vec![2]);
    let report = assemble(&input);
    assert!(report.window.valid, "{:?}", report.warnings);
    assert_eq!(report.window.context.as_deref(), Some("0-1"));
    assert!(headline(&report).starts_with("Of 3 ranks 2 were measured, as asked (0-1)."), "{}", headline(&report));
}

#[test]
fn partial_windows_are_invalid_and_say_why() {
    let spoil: [(&str, Change<WindowInput>, &str); 7] = [
        ("missing rank", |input| input.ranks.retain(|rank| rank.rank != 2), "rank 2 recorded nothing"),
        ("ended early", |input| input.ranks[0].complete = false, "rank 2 ended before"),
        (
            "silent thread",
            |input| input.ranks[1].counts_silent_thread = true,
            "iterations of rank 1 are passes of a thread that called no MPI",
        ),
        ("interrupted", |input| end_all(input, "interrupted"), "interrupted before all iterations"),
        ("time limit", |input| end_all(input, "max-seconds"), "the time limit came before"),
        ("other count", |input| input.ranks[1].marks.truncate(10), "9 on rank 1, 10 on ranks 0, 2"),
        (
            "no iteration",
            |input| input.ranks.iter_mut().for_each(|rank| rank.marks.truncate(1)),
            "no rank completed an iteration",
        ),
    ];
    for (name, spoil, expected) in spoil {
        let mut input = input(&[30_000, 30_000, 30_000]);
        spoil(&mut input);
        let report = assemble(&input);
        assert!(!report.window.valid, "{name}");
        assert!(report.warnings.iter().any(|warning| warning.contains(expected)), "{name}: {:?}", report.warnings);
        assert!(headline(&report).contains("invalid"), "{name}");
    }
    let nobody = WindowInput { ranks: Vec::new(), ..input(&[1, 1]) };
    let report = assemble(&nobody);
    assert!(!report.window.valid && report.communication_fraction.is_none() && report.imbalance.is_none());
}

#[test]
fn costs_above_the_bar_and_other_remarks() {
    let remark: [(&str, Change<RankSample>, &str); 6] = [
        ("probes", |rank| rank.probe_hits = 4_000_000, "4.0% of the window's time, without which some 30% of it"),
        ("pauses inside", |rank| rank.pause_inside_us = 30_000.0, "3.0% of the window"),
        ("threads", |rank| rank.threads = vec![ThreadSample { comm_ticks: 900_000 }], "another thread"),
        (
            "several threads in MPI at once",
            |rank| rank.threads = vec![ThreadSample { comm_ticks: 5 }],
            "on rank 1 several threads communicate, 2 at most: the time of a function is the sum over them",
        ),
        ("unnamed", |rank| rank.unattributed_bytes = 8, "8 bytes"),
        ("persistent", |rank| rank.functions[0].unknown_bytes = 30, "are not known: 30 of its messages"),
    ];
    for (name, change, expected) in remark {
        let mut input = input(&[40_000, 20_000]);
        change(&mut input.ranks[0]);
        let report = assemble(&input);
        assert!(report.window.valid, "{name}");
        assert!(report.warnings.iter().any(|warning| warning.contains(expected)), "{name}: {:?}", report.warnings);
    }
}

/// A rank that reads another one's memory counts it, and the bytes come from there.
#[test]
fn what_a_rank_reads_from_another_is_sent_by_that_one() {
    let mut input = input(&[40_000, 20_000]);
    for rank in &mut input.ranks {
        rank.links.clear();
    }
    let reader = input.ranks.iter_mut().find(|rank| rank.rank == 1).expect("rank 1");
    reader.links = vec![LinkSample { other: 0, is_from_other: true, messages: 3, bytes: 24, ..LinkSample::default() }];
    let links = assemble(&input).links;
    assert_eq!(links.len(), 1);
    assert_eq!((links[0].from, links[0].to, links[0].messages, links[0].bytes), (0, 1, 3, 24));
}

/// A function that communicates and could not be patched makes the share a lower bound, although nobody saw it called.
#[test]
fn a_wholly_refused_communication_function_makes_the_share_a_lower_bound() {
    let refused = |function| Untimed { function, reason: "it is too short".into(), is_out: false, out_after_us: 0 };
    for (name, group, unseen, is_bound) in [
        ("none", "comm", vec![], false),
        ("comm", "comm", vec![refused(0)], true),
        ("io", "io", vec![refused(0)], false),
    ] {
        let mut input = input(&[40_000, 20_000]);
        input.functions[0].group = FunctionGroup::from_word(group).expect("a group");
        input.ranks[1].unseen = unseen;
        let report = assemble(&input);
        assert_eq!(report.communication_at_least, is_bound, "{name}");
        let is_said =
            report.warnings.iter().any(|warning| warning.starts_with("the share of communication is a lower bound"));
        assert_eq!(is_said, is_bound, "{name}: {:?}", report.warnings);
        if name != "io" {
            // Nor is the rest all computation, so nothing is said of balance, and nothing of how much it is at most.
            let is_open = headline(&report).contains("how much more is not known") && report.imbalance.is_none();
            let is_known = report.ranks.iter().all(|rank| rank.computation_s.is_some());
            assert_eq!((is_open, is_known), (is_bound, !is_bound), "{name}: {}", headline(&report));
        }
    }
}

/// Of a function that was taken out meanwhile only a part was seen: no time, no bytes, and that is said.
#[test]
fn a_function_that_was_taken_out_is_told_as_a_part() {
    for (name, calls) in [("called before", 7), ("never seen", 0)] {
        let mut input = input(&[40_000, 20_000]);
        for rank in &mut input.ranks {
            rank.functions.retain(|sample| sample.function != 0);
            let sample = FunctionSample { function: 0, calls, bytes: 8, ticks: 5, ..FunctionSample::default() };
            rank.functions.extend((calls > 0).then_some(sample));
        }
        input.functions[0].moves_bytes = true;
        let out =
            Untimed { function: 0, reason: "its probes were taken out".into(), is_out: true, out_after_us: 250_000 };
        input.ranks[1].untimed = vec![out.clone()];
        input.ranks[1].unseen = vec![out];
        let report = assemble(&input);
        let row = report.functions.iter().find(|row| row.name == input.functions[0].name);
        let row = row.expect("it is told, also if nobody saw it called");
        let counted = Some(2 * calls).filter(|calls| *calls > 0);
        assert_eq!((row.calls, row.taken_out_after_s), (counted, Some(0.25)), "{name}");
        assert_eq!(row.nested_calls.is_some(), calls > 0, "{name}: {row:?}");
        assert!(row.time_s.is_none() && row.bytes.is_none() && row.time_missing.is_some(), "{name}: {row:?}");
        let told = |part: &str| report.warnings.iter().any(|warning| warning.starts_with(part));
        assert!(
            told(&format!("{}: its probes were taken out", input.functions[0].name)),
            "{name}: {:?}",
            report.warnings
        );
        assert!(report.communication_at_least && told("the share of communication is a lower bound"), "{name}");
    }
}

/// A cost of which a part is not known is no number, nor is what the window would be without it.
#[test]
fn a_reading_of_counters_whose_cost_is_not_known_makes_the_cost_unknown() {
    for (reading_ns, is_known) in [(Some(1000.0), true), (None, false)] {
        let mut input = input(&[40_000, 20_000]);
        input.ranks[0].counter_cost = Some(CounterCost { readings: 20, reading_ns });
        let cost = assemble(&input).cost;
        let known = (cost.fraction.is_some(), cost.communication_fraction_without.is_some());
        assert_eq!(known, (is_known, is_known), "{reading_ns:?}: {cost:?}");
    }
}

#[test]
fn details_are_in_wall_clock_order() {
    let mut input = input(&[40_000, 20_000]);
    let detail = |enter_ticks, ticks| DetailSample { function: 0, enter_ticks, ticks, ..DetailSample::default() };
    input.ranks[0].details = vec![detail(5_500_000, Some(1000))];
    input.ranks[1].details = vec![detail(4_500_000, None)];
    let report = assemble(&input);
    let times: Vec<(u32, f64)> = report.details.iter().map(|detail| (detail.rank, detail.time_unix_s)).collect();
    assert_eq!(times, [(0, 999.5), (1, 1000.5)]);
    assert_eq!((report.details[0].duration_s, report.details[1].duration_s), (None, Some(0.001)));
}

/// Makes each iteration's computation of one rank unsteady: long gaps every other iteration.
fn unsteady(report: &mut Report) {
    for rank in &mut report.ranks {
        rank.iteration_times_s = (0..10).map(|i| if (i + rank.rank) % 5 == 0 { 0.5 } else { 0.0 }).collect();
    }
}

#[test]
fn headlines() {
    let cases: [(&str, &[u64], &str); 5] = [
        ("balanced", &[30_000, 30_000], "balanced"),
        ("bound", &[80_000, 80_000], "bound by communication"),
        ("one rank", &[60_000, 60_000, 60_000, 20_000], "Rank 3 computes 2.0x as long as rank 0 while the others wait"),
        ("half", &[60_000, 60_000, 20_000, 20_000], "2 ranks (longest rank 2) compute 2.0x as long as rank 0"),
        ("master", &[100_000, 20_000], "Rank 0 only communicates; rank 1 computes longest."),
    ];
    for (name, comm_ticks, expected) in cases {
        let text = headline(&assemble(&input(comm_ticks)));
        assert!(text.contains(expected), "{name}: {text}");
        assert!(text.contains("% of the time is communication"), "{name}: {text}");
    }
    let alone = headline(&assemble(&input(&[30_000])));
    assert!(!alone.contains("Rank") && alone.contains("30.0% of the time is communication"), "{alone}");
    let mut noisy = assemble(&input(&[40_000, 20_000]));
    unsteady(&mut noisy);
    assert!(headline(&noisy).contains("undetermined"), "{}", headline(&noisy));
    let mut displaced = assemble(&input(&[40_000, 20_000]));
    displaced.ranks[1].cpu_s = displaced.ranks[1].computation_s.map(|seconds| seconds / 2.0);
    assert!(headline(&displaced).contains("or others on its processor, is undetermined"), "{}", headline(&displaced));
}

/// A rank that job control held is said to have been held before anything is said of its times.
#[test]
fn a_rank_that_was_stopped_is_said_to_have_been() {
    let mut input = input(&[60_000, 20_000]);
    input.ranks[0].usage = Some(Usage { cpu_user_s: 0.4, ..Usage::default() });
    let place = |rank, stopped_s| RankPlace { rank, stopped_s: Some(stopped_s), ..RankPlace::default() };
    let places = vec![place(0, 0.0), place(1, 0.5)];
    let host = input.ranks[0].host.clone();
    input.nodes = vec![NodeShare { host, seconds: 1.0, places, ..NodeShare::default() }];
    let report = assemble(&input);
    let text = headline(&report);
    assert!(text.starts_with("Rank 1 was stopped by job control (SIGSTOP) for at least 0.5 s of the window"), "{text}");
    let because = report.difference.map(|difference| difference.because).unwrap_or_default();
    assert!(because.ends_with("job control (SIGSTOP) held it for 0.5 s"), "{because}");
    let places = &mut input.nodes[0].places;
    (places[0].stopped_s, places[1].stopped_s) = (Some(0.6), Some(0.5));
    input.ranks.iter_mut().for_each(|rank| rank.usage = None);
    let both = headline(&assemble(&input));
    assert!(both.starts_with("Ranks 0, 1 were stopped") && both.contains("it was stopped is in that"), "{both}");
    (input.nodes[0].places[0].stopped_s, input.nodes[0].places[1].stopped_s) = (Some(0.0), Some(0.0));
    assert!(!headline(&assemble(&input)).contains("stopped"));
}

/// Ranks that share too few processors are the job's own, and the share of communication is one of such a run.
#[test]
fn an_oversubscribed_job_is_said_to_be() {
    let mut input = input(&[60_000, 60_000, 60_000, 20_000]);
    input.ranks.iter_mut().for_each(|rank| rank.usage = Some(Usage { cpu_user_s: 0.3, ..Usage::default() }));
    let host = input.ranks[0].host.clone();
    let crowd = |wanted: Option<f64>, had: f64| Oversubscription {
        ranks: vec![0, 1, 2, 3],
        processors: 2.0,
        limited_by: CrowdLimit::Affinity,
        processors_wanted: wanted,
        processors_had: wanted.map(|_| had),
    };
    let mut said = |found: Option<Vec<Oversubscription>>| {
        input.nodes =
            vec![NodeShare { host: host.clone(), seconds: 1.0, oversubscribed: found, ..NodeShare::default() }];
        let report = assemble(&input);
        (headline(&report), report.difference.map(|difference| difference.because).unwrap_or_default())
    };
    let share_is_another = "so the share of communication is not what it would be with a processor for each.";
    let (text, because) = said(Some(vec![crowd(Some(3.9), 2.0)]));
    let expected =
        "The job is oversubscribed: ranks 0-3 share 2 processors and want 3.9 of them at a time. Ranks that wait ";
    assert!(text.contains(expected) && text.contains(share_is_another), "{text}");
    assert!(text.contains("or ranks of the job on its processor, is undetermined"), "{text}");
    assert!(because.contains("so the times are also those of others on their processors; measure a run"), "{because}");
    let (text, _) = said(Some(vec![crowd(None, 0.0)]));
    assert!(
        text.contains("ranks 0-3 share 2 processors. Ranks that wait") && text.contains(share_is_another),
        "{text}"
    );
    // A processor for each rank, and not for each of their threads.
    let threads = Oversubscription { ranks: vec![1], processors: 1.0, ..crowd(Some(1.5), 1.0) };
    let (text, _) = said(Some(vec![threads]));
    let expected = "the threads of rank 1 want 1.5 processors at a time and may use 1. Threads that wait in MPI take";
    assert!(text.contains(expected) && text.contains(share_is_another), "{text}");
    let quota = CrowdLimit::Quota;
    let half = Oversubscription { ranks: vec![1], processors: 0.5, limited_by: quota, ..crowd(Some(1.0), 0.5) };
    let (text, _) = said(Some(vec![half]));
    let expected = "rank 1 may use 0.50 processors that its control group allows and wants 1.0 of them at a time";
    assert!(text.contains(expected), "{text}");
    // They share processors, and did without.
    let (text, because) = said(Some(vec![crowd(Some(0.8), 0.8)]));
    assert!(text.contains("and want 0.8 of them at a time, for which they hardly had to wait."), "{text}");
    assert!(!text.contains(share_is_another) && because.contains("those of others on its processor"), "{because}");
    for nobody in [None, Some(Vec::new())] {
        let (text, _) = said(nobody);
        assert!(!text.contains("oversubscribed") && text.contains("or others on its processor"), "{text}");
    }
}

/// Of ranks that were seen for a moment nobody knows which computes longer.
#[test]
fn a_glimpse_tells_nothing_of_balance() {
    let mut input = input(&[60_000, 20_000]);
    input.facts.marker = None;
    let long = assemble(&input);
    assert!(long.difference.is_some() && headline(&long).contains("2.0x as long"), "{}", headline(&long));
    for rank in &mut input.ranks {
        (rank.last_ticks, rank.comm_ticks) = (rank.first_ticks + 50_000, rank.comm_ticks / 20);
    }
    let report = assemble(&input);
    let text = headline(&report);
    assert!(report.difference.is_none() && !text.contains("as long as"), "{text}");
    assert!(text.contains("Which rank computes longer can't be told from so short a window."), "{text}");
}

/// Time of which nobody knows for whom it was waited is said to be that.
#[test]
fn functions_without_a_row_of_waits_say_why() {
    let waited = |function: u32| WaitSum {
        kind: WaitKind::LateSender,
        function,
        calls: 3,
        ticks: 9,
        error_ticks: 0,
        by_late_rank: BTreeMap::new(),
    };
    type Row = (&'static str, &'static str, Waits, Option<&'static str>);
    let known = |sums: Vec<WaitSum>| Waits { iterations: 5, sums, ..Waits::default() };
    let rows: [Row; 6] = [
        ("a row of its own", "MPI_Recv", known(vec![waited(0)]), None),
        ("it begins", "MPI_Irecv", known(vec![]), Some("it returns at once")),
        ("it completes", "MPI_Waitsome", known(vec![]), Some("it completes what other calls began")),
        ("it tests", "MPI_Testany", known(vec![waited(1)]), Some("it completes what other calls began")),
        ("nothing matched", "MPI_Bcast", known(vec![]), Some("could be matched with those of other ranks")),
        ("nothing was kept", "MPI_Waitall", Waits::default(), Some("of no iteration all calls")),
    ];
    for (name, function, waits, expected) in rows {
        let mut input = input(&[40_000, 40_000]);
        input.functions[0].name = function.to_owned();
        input.waits = waits;
        let report = assemble(&input);
        let found = report.functions.iter().find(|row| row.name == function).expect(name).waits_missing.as_deref();
        let fits = expected.map_or(found.is_none(), |part| found.is_some_and(|text| text.contains(part)));
        assert!(fits, "{name}: {found:?}");
        let other = report.functions.iter().find(|row| row.group.word() == "io");
        assert!(other.is_none_or(|row| row.waits_missing.is_none()), "{name}");
    }
    let mut by_time = input(&[40_000]);
    by_time.facts.marker = None;
    let found = assemble(&by_time).functions[0].waits_missing.clone().unwrap_or_default();
    assert_eq!(found, "waits are told only of windows of iterations");
}

/// A share of several threads' time says whose it is, and how much the rank's can be.
#[test]
fn the_share_of_a_rank_with_several_threads_says_whose_it_is() {
    let mut input = input(&[40_000, 40_000]);
    input.ranks[0].threads = vec![ThreadSample { comm_ticks: 300_000 }, ThreadSample::default()];
    let report = assemble(&input);
    let of_rank = |rank: usize| (report.ranks[rank].communication_threads, report.ranks[rank].communication_threads_s);
    // Samples come in any order: this one is of rank 1.
    assert_eq!((of_rank(1), of_rank(0)), ((Some(2), Some(0.7)), (Some(1), Some(0.4))));
    let text = headline(&report);
    assert!(text.starts_with("40.0% of the time is communication of each rank's busiest thread (±"), "{text}");
    // 40% of either rank at least; 70% of the one and 40% of the other at most.
    let bounds = "Up to 2 threads of a rank communicate: at least one of them does so in 40.0 to 55.0% of the time.";
    assert!(text.contains(bounds), "{text}");
    // More than the window is not in it.
    input.ranks[0].threads[0].comm_ticks = 900_000;
    let text = headline(&assemble(&input));
    assert!(text.contains("one of them does so in 65.0 to 70.0% of the time."), "{text}");
    input.ranks[0].untimed =
        vec![Untimed { function: 0, reason: "it is left by jumps".into(), is_out: false, out_after_us: 0 }];
    assert!(headline(&assemble(&input)).contains("one of them does so in at least 65.0% of the time."));
    input.ranks[0].threads.clear();
    assert!(!headline(&assemble(&input)).contains("thread"));
}

/// Time that nobody measured is not 0, nor is anything that would follow from it.
#[test]
fn communication_that_was_not_measured_is_null_with_the_reason() {
    let mut input = input(&[30_000, 60_000]);
    input.facts.groups = vec![FunctionGroup::Io];
    for function in &mut input.functions {
        function.group = FunctionGroup::Io;
    }
    let report = assemble(&input);
    assert!(report.ranks.iter().all(|rank| rank.communication_s.is_none() && rank.computation_s.is_none()));
    let derived = [report.communication_to_computation, report.imbalance, report.cost.communication_fraction_without];
    assert_eq!((derived, report.communication_fraction, &report.difference), ([None; 3], None, &None));
    let reason = "the group comm was not among what was measured (io)";
    assert_eq!(report.communication_missing.as_deref(), Some(reason));
    assert!(headline(&report).starts_with(&format!("Communication was not measured: {reason}; ")));
    let json = serde_json::to_value(&report.ranks[0]).expect("it is JSON");
    assert!(json["communication_s"].is_null() && json["computation_s"].is_null(), "{json}");
    assert!(json["unattributed_bytes"].is_null(), "{json}");
    input.facts.groups = vec![FunctionGroup::Comm];
    for function in &mut input.functions {
        function.group = FunctionGroup::Comm;
    }
    // Of communication only what was named: no less than that.
    input.facts.communication_named_only = true;
    let report = assemble(&input);
    assert!(report.communication_at_least && headline(&report).starts_with("At least 45.0% of the time"));
    let said = |warning: &String| warning.starts_with("of communication nothing but MPI_Send");
    assert!(report.warnings.iter().any(said), "{:?}", report.warnings);
    input.functions.iter_mut().for_each(|function| function.timed = false);
    let missing = assemble(&input).communication_missing.unwrap_or_default();
    assert!(missing.starts_with("no function of the group comm could be timed"), "{missing}");
}

#[test]
fn headline_of_a_starved_rank_names_its_processor_time() {
    let mut input = input(&[60_000, 20_000]);
    input.ranks[0].usage = Some(Usage { cpu_user_s: 0.5, ..Usage::default() });
    let text = headline(&assemble(&input));
    assert!(text.contains("0.50 s of 1.00 s"), "{text}");
}

/// Two ranks of 20 calls, 2000 bytes and 0.4 and 0.6 s of `MPI_Send` each.
fn by_paths() -> WindowInput {
    let mut input = input(&[40_000, 60_000]);
    let path = |path: u64, calls: u64, ticks: u64, bytes: u64| PathSample { function: 0, path, calls, ticks, bytes };
    for rank in &mut input.ranks {
        let ticks = if rank.rank == 0 { 300_000 } else { 500_000 };
        rank.paths = vec![path(7, 15, ticks, 1500), path(8, 4, 60_000, 500)];
        rank.sizes = vec![
            SizeSample { function: 0, class: 0, is_last: false, calls: 3, bytes: 0 },
            SizeSample { function: 0, class: 8, is_last: false, calls: 14, bytes: 2000 },
            SizeSample { function: 0, class: 39, is_last: true, calls: 1, bytes: 0 },
        ];
    }
    let frame = |function: &str, own: bool| CallFrame { function: function.to_owned(), own, ..CallFrame::default() };
    input.named_paths = vec![
        NamedPath { path: 7, frames: vec![frame("pmpi_send_", false), frame("solve", true)], is_cut: false },
        NamedPath { path: 8, frames: vec![frame("pmpi_send_", false)], is_cut: true },
    ];
    input.waits.paths = vec![PathWait { function: 0, path: 7, calls: 12, ticks: 200_000, error_ticks: 1_000 }];
    input
}

#[test]
fn paths_of_a_function_are_all_of_it() {
    let report = assemble(&by_paths());
    let rows: Vec<_> = report.paths.iter().map(|row| (row.path.len(), row.calls, row.bytes, row.ranks)).collect();
    assert_eq!(rows, [(2, 30, Some(3000), 2), (1, 8, Some(1000), 2), (0, 2, Some(0), 2)]);
    let [solve, cut, rest] = &report.paths[..] else { panic!("{:?}", report.paths) };
    assert!(near(solve.time_s.expect("a time"), 0.8) && near(solve.fraction.expect("a share"), 0.4), "{solve:?}");
    let spread = (solve.rank_time_s_min, solve.rank_time_s_mean, solve.rank_time_s_max, solve.rank_of_max);
    assert_eq!(spread, (Some(0.3), Some(0.4), Some(0.5), Some(1)));
    assert_eq!((solve.wait_s, solve.wait_calls, solve.path_missing.as_deref()), (Some(0.2), Some(12), None));
    assert_eq!((cut.wait_s, cut.wait_calls), (None, None));
    assert!(cut.path_missing.as_deref().is_some_and(|why| why.contains("not known yet")), "{cut:?}");
    assert!(rest.path_missing.is_some() && near(rest.time_s.expect("a time"), 0.08), "{rest:?}");
}

#[test]
fn a_path_is_known_as_well_as_its_function() {
    let mut input = by_paths();
    input.ranks[0].untimed =
        vec![Untimed { function: 0, reason: "it jumps".to_owned(), is_out: false, out_after_us: 0 }];
    input.ranks[1].functions[0].unknown_bytes = 2;
    let report = assemble(&input);
    assert!(report.paths.iter().all(|row| row.time_s.is_none() && row.fraction.is_none() && row.bytes.is_none()));
    assert!(report.paths.iter().all(|row| row.rank_time_s_max.is_none() && row.rank_of_max.is_none()));
    assert_eq!(report.paths.iter().map(|row| row.calls).sum::<u64>(), 40);
    // Without names all are the rest.
    let unnamed = assemble(&WindowInput { named_paths: Vec::new(), ..by_paths() });
    assert_eq!((unnamed.paths.len(), unnamed.paths[0].calls), (1, 40));
    // Functions other than communication have no paths.
    let mut io = by_paths();
    io.functions[0] = function("read", "io");
    assert_eq!(assemble(&io).paths, []);
}

#[test]
fn sizes_of_a_function_are_all_of_its_calls() {
    let report = assemble(&by_paths());
    let sizes = report.functions[0].sizes.clone().expect("sizes");
    let rows: Vec<_> = sizes.iter().map(|one| (one.from_bytes, one.to_bytes, one.calls, one.bytes)).collect();
    let last = (Some(1 << 38), None, 2, 0);
    assert_eq!(rows, [(Some(0), Some(0), 6, 0), (Some(128), Some(255), 28, 4000), last, (None, None, 4, 0)]);
    let mut uncounted = by_paths();
    uncounted.ranks.iter_mut().for_each(|rank| rank.sizes.clear());
    assert_eq!(assemble(&uncounted).functions[0].sizes, None);
}
