//! Where a window begins and ends: the main loop is found in every specimen that has one, its iterations are the
//! program's own, and each way to say how long to measure does what it says. Every number here is known beforehand.
//!
//! Next: `numbers.rs` for the same against the PMPI wrapper.

mod common;

use common::{Home, LIMIT, RANKS, Specimen, TRUE_MARK, alone, finish, first_arguments, mpi_library};
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use trimtab_specimens::{Mark, Mpi, Running, Variant, wait_for};
use trimtab_types::report::{Detail, Report};

/// Iterations of most windows.
const ITERATIONS: u64 = 6;

const PIE: Variant = Variant { fixed_address: false, stripped: false, mark: Mark::Absent, static_link: false };
const FIXED: Variant = Variant { fixed_address: true, ..PIE };
const STRIPPED: Variant = Variant { stripped: true, ..PIE };
const FIXED_STRIPPED: Variant = Variant { fixed_address: true, stripped: true, ..PIE };
const MARKED: Variant = Variant { mark: Mark::Local, ..PIE };
const EXPORTED_STRIPPED: Variant = Variant { stripped: true, mark: Mark::Exported, ..PIE };

/// Long enough for any test; it is ended before.
const LONG: &str = "--iterations 1000000";

/// A solver of five steps: a busy machine must make a few of its iterations before one is told from its steps.
const SOLVER: &str = "--iterations 1000000 --inner 5";

/// A program with a main loop: how it is linked, and calls of one function per iteration and rank.
struct Row {
    mpi: Mpi,
    variant: Variant,
    program: &'static str,
    function: &'static str,
    calls: u64,
}

const fn row(mpi: Mpi, variant: Variant, program: &'static str, function: &'static str, calls: u64) -> Row {
    Row { mpi, variant, program, function, calls }
}

const ROWS: &[Row] = &[
    row(Mpi::Mpich, FIXED, "particle", "MPI_Send", 4),
    row(Mpi::OpenMpi, STRIPPED, "particle", "MPI_Send", 4),
    row(Mpi::Mpich, STRIPPED, "fft", "MPI_Alltoall", 2),
    row(Mpi::OpenMpi, FIXED_STRIPPED, "is", "MPI_Alltoallv", 1),
    // The outer loop has five steps and one more multiplication; a step is a loop too, but inside of it.
    row(Mpi::Mpich, FIXED_STRIPPED, "cg", "MPI_Sendrecv", 12),
    row(Mpi::OpenMpi, PIE, "cg", "MPI_Sendrecv", 12),
    row(Mpi::OpenMpi, FIXED, "heat", "MPI_Sendrecv", 2),
    row(Mpi::Mpich, STRIPPED, "heat08", "MPI_Allreduce", 1),
    // A burst of blocks is sent, then one received; no call happens once, and neither burst is an iteration.
    row(Mpi::Mpich, PIE, "wave", "MPI_Send", 64),
    row(Mpi::OpenMpi, FIXED_STRIPPED, "wave", "MPI_Recv", 64),
];

#[test]
fn the_main_loop_is_found_without_hints() {
    let _alone = alone();
    for row in ROWS {
        let arguments = if row.program == "cg" { SOLVER } else { LONG };
        let specimen = Specimen { mpi: Some(row.mpi), program: row.program, variant: row.variant, arguments };
        let (home, job) = (Home::new(), specimen.start());
        let report = done(&home, &job, &format!("--iterations {ITERATIONS} --max-seconds 60"));
        let name = specimen.name();
        assert_eq!(report.window.marker_source.word(), "detected", "{name}: {:?}", report.window);
        assert_eq!(report.window.iterations, Some(ITERATIONS), "{name}");
        println!("{name}: by {:?} in {:?}", report.window.marker, report.window.loop_description);
        let calls = calls_of(&report, row.function);
        assert_eq!(calls, row.calls * u64::from(RANKS) * ITERATIONS, "{name}: {:?}", report.window);
    }
}

/// A ring of calls that each take less than a microsecond holds some milliseconds: less than a rank waits for a processor
/// that others want as well.
#[test]
fn a_fast_loop_is_found_on_a_busy_machine() {
    let _alone = alone();
    let specimen = Specimen::of(Mpi::Mpich, "steady", "--iterations 1000000000000 --work 1 --sleep-us 0");
    let (home, job) = (Home::new(), specimen.start());
    let _busy = [Busy::start(), Busy::start()];
    for window in 0..4 {
        let report = done(&home, &job, &format!("--iterations {ITERATIONS} --max-seconds 60"));
        assert_eq!(report.window.marker_source.word(), "detected", "window {window}: {:?}", report.window);
        assert_eq!(calls_of(&report, "MPI_Sendrecv"), u64::from(RANKS) * ITERATIONS, "window {window}");
    }
}

/// A program that does nothing but take time, until this is dropped.
struct Busy(std::process::Child);

impl Busy {
    fn start() -> Self {
        Busy(Command::new("yes").stdout(std::process::Stdio::null()).spawn().expect("yes starts"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().expect("is ended");
        self.0.wait().expect("has ended");
    }
}

/// An iteration that no call marks is counted from one place of the program on all ranks. A library's `gt_mark`, which
/// every specimen calls first in each iteration, tells which number it has to the program itself.
#[test]
fn iterations_that_no_call_marks_begin_alike() {
    let _alone = alone();
    let home = Home::new();
    let library = mark_library(&home);
    let options = format!("--mark calls --iterations {ITERATIONS} --max-seconds 60 --function {TRUE_MARK} --detail 1");
    let rows = [("wave", LONG), ("cg", SOLVER)];
    for (mpi, (program, arguments)) in Mpi::ALL.into_iter().flat_map(|mpi| rows.map(|row| (mpi, row))) {
        let specimen = Specimen::of(mpi, program, arguments);
        let job = specimen.start_with(&library);
        let report = done(&home, &job, &options);
        let name = specimen.name();
        assert_eq!(report.window.marker_source.word(), "detected", "{name}: {:?}", report.window);
        let marker = report.window.marker.clone().unwrap_or_default();
        assert!(marker.contains(", every "), "{name}: a call happens once: {marker}");
        assert_eq!(calls_of(&report, TRUE_MARK), u64::from(RANKS) * ITERATIONS, "{name}: {:?}", report.window);
        let first = first_arguments(&report, TRUE_MARK);
        assert!(first.iter().all(|number| *number == first[0]), "{name}: the ranks began at {first:?}");
    }
}

/// A library with nothing but a function that marks iterations for the truth.
fn mark_library(home: &Home) -> PathBuf {
    let (source, library) = (home.path("mark.c"), home.path("libmark.so"));
    let text =
        format!("volatile int last, calls;\nvoid {TRUE_MARK}(int number) {{ last = number; calls = calls + 1; }}\n");
    std::fs::write(&source, text).expect("its source");
    let built = Command::new("gcc").args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.expect("gcc runs").success(), "the library is built");
    library
}

#[test]
fn detected_iterations_are_the_programs_own() {
    let _alone = alone();
    let rows = [(Mpi::Mpich, ""), (Mpi::OpenMpi, "--nonblocking"), (Mpi::Mpich, "--sendrecv --imbalance")];
    for (mpi, way) in rows {
        let arguments: String = format!("{LONG} --tag-iteration {way}");
        let specimen = Specimen::of(mpi, "particle", arguments.leak());
        let (home, job) = (Home::new(), specimen.start());
        let report = done(&home, &job, &format!("--iterations {ITERATIONS} --detail 100"));
        let name = specimen.name();
        assert_eq!(report.window.marker_source.word(), "detected", "{name}");
        let firsts: Vec<u64> = (0..RANKS).map(|rank| check_tags(&report, rank, &name)).collect();
        assert!(firsts.iter().all(|first| *first == firsts[0]), "{name}: the ranks began with iterations {firsts:?}");
    }
}

/// Four sends in each iteration, whose tag is the iteration's number; the window may begin in mid-iteration. Returns
/// the number of the iteration it began with.
fn check_tags(report: &Report, rank: u32, name: &str) -> u64 {
    let sends = |detail: &&Detail| {
        detail.rank == rank && ["MPI_Send", "MPI_Isend", "MPI_Sendrecv"].contains(&detail.function.as_str())
    };
    let mut tags: Vec<u64> = report.details.iter().filter(sends).map(|detail| detail.arguments[4]).collect();
    tags.sort_unstable();
    let (first, last) = (tags[0], tags[tags.len() - 1]);
    assert_eq!(tags.len() as u64, 4 * ITERATIONS, "{name}: rank {rank}: sends {tags:?}");
    let of = |tag: u64| tags.iter().filter(|other| **other == tag).count();
    assert!(
        (first + 1..last).all(|tag| of(tag) == 4) && (last - first == ITERATIONS || of(last) == 4),
        "{name}: rank {rank}: the iterations are not the program's: {tags:?}"
    );
    assert!(last - first == ITERATIONS || last - first == ITERATIONS - 1, "{name}: rank {rank}: {tags:?}");
    first
}

#[test]
fn a_function_called_measuremark_wins_over_detection() {
    let _alone = alone();
    let rows = [
        (Mpi::Mpich, MARKED, "particle", "measuremark"),
        (Mpi::OpenMpi, EXPORTED_STRIPPED, "cg", "measuremark"),
        (Mpi::Mpich, MARKED, "heat", "measuremark_"),
    ];
    for (mpi, variant, program, marker) in rows {
        let specimen = Specimen { mpi: Some(mpi), program, variant, arguments: "--iterations 1000000 --mark" };
        let (home, job) = (Home::new(), specimen.start());
        let report = done(&home, &job, &format!("--iterations {ITERATIONS} --detail 2 --start 20"));
        let name = specimen.name();
        assert_eq!(report.window.marker_source.word(), "measuremark", "{name}");
        assert_eq!(report.window.marker.as_deref(), Some(marker), "{name}");
        assert_eq!(calls_of(&report, marker), u64::from(RANKS) * ITERATIONS, "{name}");
        let let_pass = report.window.start.expect("a start");
        assert!(let_pass >= 20, "{name}: --start 20 gave {let_pass}");
        let first = first_arguments(&report, marker);
        // Fortran passes the number's address.
        if marker == "measuremark" {
            assert!(first.iter().all(|number| *number == first[0]), "{name}: the ranks began at {first:?}");
            assert!(first[0] >= let_pass, "{name}: iteration {} cannot be number {let_pass} or later", first[0]);
        }
    }
}

/// A program that has a `measuremark` but never calls it is measured as any other.
#[test]
fn a_measuremark_that_nobody_calls_does_not_hide_the_loop() {
    let _alone = alone();
    let specimen = Specimen { variant: MARKED, ..Specimen::of(Mpi::Mpich, "particle", LONG) };
    let (home, job) = (Home::new(), specimen.start());
    let report = done(&home, &job, "--iterations 10");
    assert_eq!(report.window.marker_source.word(), "detected", "{:?}", report.window);
    check_whole_iterations(&report, &specimen.name());
}

#[test]
fn without_a_loop_the_window_is_by_time_and_says_so() {
    let _alone = alone();
    let specimen = Specimen::of(Mpi::OpenMpi, "ep", "--iterations 1000000 --every 1000000");
    let (home, job) = (Home::new(), specimen.start());
    let report = done(&home, &job, "--max-seconds 1.5");
    let window = &report.window;
    assert_eq!((window.marker_source.word(), window.ended_by.word()), ("time", "max-seconds"), "{window:?}");
    assert_eq!((&window.marker, window.start, window.iterations), (&None, None, None));
    assert!(window.loop_description.as_deref().is_some_and(|said| said.starts_with("no loop: ")), "{window:?}");
    assert!(report.time_per_iteration_s.is_none() && report.iterations_per_s.is_none());
    assert!(window.duration_s >= 1.4, "it recorded for {} s", window.duration_s);
    let counted = report.functions.iter().filter(|function| function.name.starts_with("loop "));
    assert!(
        counted.clone().all(|one| one.calls_counted() < 400_000),
        "none that is passed all the time: {:?}",
        report.functions
    );
    assert!(report.links.is_empty() && counted.count() == report.functions.len(), "{:?}", report.functions);
    assert!(report.ranks.iter().all(|rank| rank.communication_s == Some(0.0) && rank.iterations.is_none()));
    // Read from beside: to a clock tick, and never more than one thread can have used.
    for rank in &report.ranks {
        let cpu_s = rank.cpu_s.expect("measured without iterations too");
        assert!(cpu_s > 0.0 && cpu_s <= rank.duration_s + 0.05, "{cpu_s} s of {} s", rank.duration_s);
        assert!(rank.minor_faults.is_some() && rank.involuntary_switches.is_some(), "{rank:?}");
    }
}

#[test]
fn a_window_ends_as_it_was_asked_to() {
    let _alone = alone();
    let specimen = Specimen { variant: MARKED, ..Specimen::of(Mpi::Mpich, "particle", "--iterations 1000000 --mark") };
    let name = specimen.name();
    let (home, job) = (Home::new(), specimen.start());

    let report = done(&home, &job, "--until-confident 60");
    let time = report.time_per_iteration_s.expect("a time");
    // How narrow it is in the end depends on the machine: iterations go on until all ranks can end together.
    assert_eq!(report.window.ended_by.word(), "confident", "{name}");
    assert!(time.samples >= 8 && time.half_width_95.is_some(), "{name}: {time:?}");
    check_whole_iterations(&report, &name);

    let (_, report) = home.attach(job.pid(), "--iterations 1000000 --max-seconds 1.5").expect("a report");
    assert_eq!(report.window.ended_by.word(), "max-seconds", "{name}");
    assert!(report.window.duration_s > 0.3, "{name}: {:?}", report.window);
    assert!(report.window.iterations.is_some_and(|count| count >= 2), "{name}: {:?}", report.window);
}

#[test]
fn a_program_is_followed_to_its_end() {
    let _alone = alone();
    // Long enough for a machine on which the window begins late.
    let specimen = Specimen { variant: MARKED, ..Specimen::of(Mpi::Mpich, "particle", "--iterations 2200 --mark") };
    let name = specimen.name();
    let (home, job) = (Home::new(), specimen.start());
    let (_, report) = home.attach(job.pid(), "--follow --detail 1 --max-seconds 1.5").expect("a report");
    assert_eq!(report.window.ended_by.word(), "program-ended", "{name}");
    // The last iteration has no mark after it, so it is not a whole one.
    let whole = 2199 - first_arguments(&report, "measuremark")[0];
    assert!(report.ranks.iter().all(|rank| rank.iterations == Some(whole)), "{name}: not {whole}: {:?}", report.ranks);
    assert_eq!(calls_of(&report, "measuremark"), u64::from(RANKS) * (whole + 1), "{name}");
    assert_eq!(calls_of(&report, "MPI_Finalize"), u64::from(RANKS), "{name}: it was not followed to its end");
    finish(job, &name);
}

/// Of a job whose rank faults while it is measured all is told, and of one that begins to handle faults too.
#[test]
fn faults_and_their_handlers_end_a_window() {
    let _alone = alone();
    for (signal, ended, code, words) in [
        (
            Signal::SEGV,
            "program-ended",
            2,
            ["ended by SIGSEGV while trimtab had patched", "run it again without trimtab"],
        ),
        (Signal::USR2, "fault-handler", 1, ["fault handler of its own (SIGSEGV in particle)", "measure again"]),
    ] {
        // Recorded by time from some moment on, if its loop is not sure yet: later each time, until that has come.
        let is_told =
            [400, 1500, 5000].into_iter().any(|wait_ms| tells_of_a_fault(signal, ended, code, words, wait_ms));
        assert!(is_told, "{signal:?}: it recorded before the signal came");
    }
}

/// Checks what is told when this signal comes to a rank so long after probes are in; false if nothing was recorded by then.
fn tells_of_a_fault(signal: Signal, ended: &str, code: i32, words: [&str; 2], wait_ms: u64) -> bool {
    let specimen = Specimen::of(Mpi::Mpich, "particle", "--iterations 1000000 --handle-faults");
    let (home, mut job) = (Home::new(), specimen.start());
    let pids = job.rank_pids(LIMIT).expect("ranks");
    let file = home.path("report.json");
    let mut command = home.command(&["attach", "--follow", "--group", "all", "--json"]);
    let command = command.arg(&file).arg(job.pid().to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let attach = command.spawn().expect("trimtab runs");
    wait_for("recording", || pids.iter().all(|pid| is_probed(*pid)));
    std::thread::sleep(Duration::from_millis(wait_ms));
    let rank = rustix::process::Pid::from_raw(pids[1]).expect("a pid");
    rustix::process::kill_process(rank, signal).expect("it runs");
    let output = attach.wait_with_output().expect("it ends");
    if signal == Signal::SEGV {
        assert!(!job.wait(LIMIT).expect("it ends").status.success(), "its rank has ended by a fault");
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let Ok(report) = std::fs::read_to_string(&file) else {
        let is_told = err.contains("before") || words.iter().all(|part| err.contains(part));
        assert!(output.status.code() == Some(2) && is_told, "{signal:?}: {out} {err}");
        return false;
    };
    assert_eq!(output.status.code(), Some(code), "{signal:?}: {out} {err}");
    let report: Report = serde_json::from_str(&report).expect("JSON");
    assert!(!report.window.valid && report.window.ended_by.word() == ended, "{signal:?}: {:?}", report.window);
    let warned = |part: &&str| report.warnings.iter().any(|warning| warning.contains(*part));
    let late = report.window.begins_late.as_ref().expect("it began in the middle");
    let after_s = late.after_init_s_at_most.expect("its start is known");
    assert!(late.ranks == [0, 1] && (0.0..LIMIT.as_secs_f64()).contains(&after_s), "{late:?}");
    assert!(warned(&"not the whole run of ranks 0, 1: the window begins up to "), "{:?}", report.warnings);
    assert!(words.iter().all(|part| warned(part) && out.contains("rank 1")), "{signal:?}: {:?} {out}", report.warnings);
    assert!(signal != Signal::SEGV || words.iter().all(|part| err.contains(part)), "said loudly: {err}");
    assert!(signal == Signal::SEGV || pids.iter().all(|pid| !is_probed(*pid)), "taken out");
    true
}

fn is_probed(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default().contains("memfd:trimtab")
}

/// Calls of the window are those of its iterations, four sends each on each rank.
fn check_whole_iterations(report: &Report, name: &str) {
    let count = report.window.iterations.expect("iterations");
    assert_eq!(calls_of(report, "MPI_Send"), 4 * count * u64::from(RANKS), "{name}: {:?}", report.window);
}

#[test]
fn arguments_and_records_are_those_of_the_calls() {
    let _alone = alone();
    let arguments = "--iterations 1000000 --size 96 --tag-iteration --mark";
    let specimen = Specimen { variant: MARKED, ..Specimen::of(Mpi::OpenMpi, "particle", arguments) };
    let (home, job) = (Home::new(), specimen.start());
    let options = "--argument MPI_Send:1 --argument MPI_Recv:4 --function MPI_Comm_rank@libmpi --detail 3";
    let report = done(&home, &job, &format!("--iterations {ITERATIONS} {options}"));
    let ranks = u64::from(RANKS);
    let sum = |name: &str| report.functions.iter().find(|f| f.name == name).expect(name).argument_sum;
    assert_eq!(sum("MPI_Send"), Some((96 * 4 * ranks * ITERATIONS) as i64), "elements of all sends");
    let first = first_arguments(&report, "measuremark")[0] % 16384;
    let tags: u64 = (0..ITERATIONS).map(|iteration| (first + iteration) % 16384).sum();
    assert_eq!(sum("MPI_Recv"), Some((4 * ranks * tags) as i64), "tags of all receives from {first}");
    for name in ["MPI_Send", "MPI_Recv", "measuremark"] {
        for rank in 0..RANKS {
            let kept: Vec<&Detail> =
                report.details.iter().filter(|detail| detail.rank == rank && detail.function == name).collect();
            assert_eq!(kept.len(), 3, "{name}: records of rank {rank}");
            assert!(kept.iter().all(|detail| detail.duration_s.is_some()), "{name}: {kept:?}");
        }
    }
    let sends = report.details.iter().filter(|detail| detail.function == "MPI_Send");
    for send in sends {
        assert_eq!((send.arguments[1], send.arguments[4]), (96, first), "count and tag: {send:?}");
    }
}

/// `plain` has no MPI; an MPI library that is merely loaded makes it a job of one rank.
#[test]
fn input_output_memory_and_sleep_are_counted() {
    let _alone = alone();
    let home = Home::new();
    let library = mpi_library();
    let specimen = Specimen { variant: MARKED, ..Specimen::alone("plain", "--endless --mark --size 1000") };
    let job = specimen.start_with(&library);
    let report = done(&home, &job, "--group io,mem,sleep --iterations 10");
    assert_eq!(report.window.marker_source.word(), "measuremark");
    let counted = |name: &str| {
        let found = report.functions.iter().find(|function| function.name == name);
        found.map_or((0, None), |function| (function.calls_counted(), function.bytes))
    };
    let rows = [
        ("write", (200, Some(200_000))),
        ("read", (200, Some(200_000))),
        ("pwrite", (10, Some(10_000))),
        ("pread", (10, Some(10_000))),
        ("malloc", (2000, Some(10 * (0..200).map(|size| 64 + size).sum::<u64>()))),
        ("free", (2010, None)),
        ("calloc", (10, Some(1000))),
        ("realloc", (10, Some(10_000))),
        ("nanosleep", (20, None)),
    ];
    let names: Vec<&str> = report.functions.iter().map(|function| function.name.as_str()).collect();
    for (name, expected) in rows {
        assert_eq!(counted(name), expected, "{name} among {names:?}");
    }
    let rank = &report.ranks[0];
    let slept_s = rank.group_s.iter().find(|group| group.group.word() == "sleep").expect("sleeping").time_s;
    assert!(slept_s >= 20.0 * 100e-6, "it slept for {slept_s} s in 20 naps of 100 us");
}

/// One window of a job, complete.
fn done(home: &Home, job: &Running, options: &str) -> Report {
    let (code, report) = home.attach(job.pid(), options).unwrap_or_else(|said| panic!("{options}: {said:?}"));
    assert!(report.window.valid, "{options}: {:?}", report.warnings);
    assert_eq!(code, 0, "{options}: {:?}", report.window);
    report
}

fn calls_of(report: &Report, function: &str) -> u64 {
    report.functions.iter().filter(|found| found.name == function).map(|found| found.calls_counted()).sum()
}
