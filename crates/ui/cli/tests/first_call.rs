//! `trimtab run --follow` and `watch --follow`: ranks wait as they come out of `MPI_Init` until all are measured, so a whole run's calls, bytes
//! and links are those that a profiler in the program sees. Nobody waits for ever, and nobody is held by a trimtab that is
//! gone.
//!
//! Next: `numbers.rs` for windows of iterations.

mod common;
mod common_truth;

use common::{Home, LIMIT, RANKS, Specimen, alone, is_held, maps};
use common_truth::{check_functions, check_links};
use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use trimtab_engine::FirstCall;
use trimtab_specimens::{GroundTruth, Launch, Mpi, Running, TextSnapshot, build, interrupt, skip, truths_of};
use trimtab_types::Pid;
use trimtab_types::report::{PathTotal, Report};

/// Programs of which every call is known, and what they are called with: in C, in Fortran, and in Fortran 2008.
const PROGRAMS: [(&str, &str); 4] = [
    ("kinds", "--iterations 40"),
    ("heat", "--iterations 200"),
    ("heat08", "--iterations 200"),
    ("particle", "--iterations 60"),
];

#[test]
fn a_whole_run_has_every_call_that_a_profiler_sees_with_mpich() {
    every_call_is_seen(Mpi::Mpich);
}

#[test]
fn a_whole_run_has_every_call_that_a_profiler_sees_with_open_mpi() {
    every_call_is_seen(Mpi::OpenMpi);
}

fn every_call_is_seen(mpi: Mpi) {
    let _alone = alone();
    for (program, arguments) in PROGRAMS {
        let home = Home::new();
        let launch = launch(&home, &Specimen::of(mpi, program, arguments), None);
        let report = followed(&home, &launch, &[]);
        let truths = truths_of(&home.path("truth"), RANKS).expect("the wrapper wrote");
        let name = format!("{} {program}", mpi.name());
        let from = report.window.from_first_call.as_ref().expect("it is asked for");
        assert_eq!((from.ranks.as_slice(), from.missed.len()), (&[0, 1][..], 0), "{name}: {from:?}");
        assert_eq!((report.window.ended_by.word(), report.window.valid), ("program-ended", true), "{name}");
        check_functions(&report, &truths, &name);
        check_links(&report, &truths, &name);
        // The wrapper does not see where MPICH's binding for Fortran 2008 comes out of MPI_Init.
        if program != "heat08" {
            check_times(&report, &truths, &name);
        }
    }
}

/// Each rank's window is what the wrapper saw of the program less the time for which it was held: it lasts to where that rank
/// comes to `MPI_Finalize`.
fn check_times(report: &Report, truths: &[GroundTruth], name: &str) {
    let from = report.window.from_first_call.as_ref().expect("it is asked for");
    let longest = from.held.iter().map(|held| held.held_us).fold(0.0, f64::max);
    assert_eq!((from.held.len(), from.held_us_max), (RANKS as usize, Some(longest)), "{name}: {from:?}");
    for ((truth, rank), held) in truths.iter().zip(&report.ranks).zip(&from.held) {
        assert_eq!((rank.rank, held.rank), (truth.rank, truth.rank), "{name}");
        assert!(held.held_us > 0.0, "{name}: {held:?}");
        let expected_s = truth.program_s - held.held_us * 1e-6;
        let off_s = rank.duration_s - expected_s;
        assert!(
            off_s.abs() < 0.01 + 0.05 * expected_s,
            "{name}: {} s, expected {expected_s} s, {held:?}",
            rank.duration_s
        );
    }
}

#[test]
fn ranks_that_finalize_at_different_times_with_mpich() {
    each_rank_ends_where_it_finalizes(Mpi::Mpich);
}

#[test]
fn ranks_that_finalize_at_different_times_with_open_mpi() {
    each_rank_ends_where_it_finalizes(Mpi::OpenMpi);
}

/// The last rank leaves for `MPI_Finalize` half-way and waits there for the other one: that is none of its communication.
fn each_rank_ends_where_it_finalizes(mpi: Mpi) {
    let _alone = alone();
    let home = Home::new();
    let arguments = "--mode exit --iterations 200 --exit-at 40 --size 1000000";
    let report = followed(&home, &launch(&home, &Specimen::of(mpi, "sleeper", arguments), None), &[]);
    let truths = truths_of(&home.path("truth"), RANKS).expect("the wrapper wrote");
    let name = mpi.name();
    assert_eq!((report.window.ended_by.word(), report.window.valid), ("program-ended", true), "{name}");
    check_functions(&report, &truths, name);
    check_times(&report, &truths, name);
    let [first, last] = report.ranks.as_slice() else { panic!("{name}: two ranks") };
    assert!(last.duration_s < first.duration_s, "{name}: {} and {} s", first.duration_s, last.duration_s);
    let communication_s: f64 = report.ranks.iter().filter_map(|rank| rank.communication_s).sum();
    let functions_s: f64 = report.functions.iter().filter_map(|row| row.time_s).sum();
    assert!((communication_s - functions_s).abs() < 1e-3, "{name}: {communication_s} s, in functions {functions_s} s");
}

/// Objects by pickle, buffers, and at last three threads at once, each with a communicator of its own.
const PYTHON: &str = include_str!("programs/talks.py");

/// Debian's mpi4py, which finds MPI by itself: messages whose lengths nobody has written down, and threads.
#[test]
fn a_whole_run_of_python_has_every_call_that_a_profiler_sees() {
    let _alone = alone();
    let python = std::fs::canonicalize("/usr/bin/python3").unwrap_or_default();
    let home = Home::new();
    let mut has_it = std::process::Command::new(&python);
    has_it
        .args(["-c", "import mpi4py.MPI"])
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    if !has_it.output().is_ok_and(|output| output.status.success()) {
        return skip("a whole run of Python", "Python has no mpi4py; install python3-mpi4py");
    }
    let script = home.path("talks.py");
    std::fs::write(&script, PYTHON).expect("is written");
    let launch = Launch::mpi(Mpi::OpenMpi, RANKS, &python).args([&script]);
    let launch = launch.measured(&home.path("truth")).expect("the wrapper is built");
    let report = followed(&home, &launch, &[]);
    let truths = truths_of(&home.path("truth"), RANKS).expect("the wrapper wrote");
    let from = report.window.from_first_call.as_ref().expect("it is asked for");
    assert_eq!((from.ranks.as_slice(), from.missed.len()), (&[0, 1][..], 0), "{from:?}");
    check_functions(&report, &truths, "mpi4py");
    check_links(&report, &truths, "mpi4py");
    // The first calls come before it is known how to go up from mpi4py; the others are known by their line, in each thread.
    let of_line = |row: &&PathTotal| {
        let own = row.own().filter(|own| own.own && !own.interpreter);
        own.is_some_and(|own| {
            own.function == "talk" && own.line.as_ref().is_some_and(|line| line.starts_with("talks.py:"))
        })
    };
    let talks = || report.paths.iter().filter(|row| row.function == "MPI_Sendrecv_replace");
    let (all, known): (u64, u64) =
        (talks().map(|row| row.calls).sum(), talks().filter(of_line).map(|row| row.calls).sum());
    assert_eq!(all, u64::from(RANKS) * 4 * 100, "{:?}", report.paths);
    assert!(known > all / 4, "{known} of {all}: {:?}", report.paths);
}

/// Does around `MPI_Init` what may disturb whoever holds it there.
const BESET: &str = include_str!("programs/beset.c");

/// The program says itself whether all went well; nobody is held twice, and no call is missed.
#[test]
fn nothing_that_happens_around_mpi_init_disturbs_the_hold() {
    let _alone = alone();
    for (mpi, compiler) in [(Mpi::Mpich, "mpicc.mpich"), (Mpi::OpenMpi, "mpicc.openmpi")] {
        let (home, name) = (Home::new(), mpi.name());
        let (source, program) = (home.path("beset.c"), home.path("beset"));
        std::fs::write(&source, BESET).expect("is written");
        let mut built = std::process::Command::new(compiler);
        let built =
            built.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program).arg(&source).status();
        assert!(built.expect("the compiler is there").success());
        for mode in ["again", "child"] {
            let report = followed(&home, &Launch::mpi(mpi, RANKS, &program).args([mode]), &[]);
            let from = report.window.from_first_call.as_ref().expect("it is asked for");
            assert_eq!((from.ranks.as_slice(), from.missed.len()), (&[0, 1][..], 0), "{name} {mode}: {from:?}");
            let calls: Vec<(&str, u64)> =
                report.functions.iter().map(|row| (row.name.as_str(), row.calls_counted())).collect();
            assert_eq!(calls, [("MPI_Allreduce", 602)], "{name} {mode}");
        }
    }
}

/// A program in C and one that has no launcher, without any tool of others: the known answers are its own.
#[test]
fn a_program_by_itself_is_held_too() {
    let _alone = alone();
    for mpi in [Mpi::Mpich, Mpi::OpenMpi] {
        let home = Home::new();
        let program = build("ep", Some(mpi), &Default::default()).expect("the specimen is built");
        let report = followed(&home, &Launch::alone(&program).args(["--iterations", "50"]), &[]);
        let from = report.window.from_first_call.expect("it is asked for");
        assert_eq!((from.ranks, from.missed.len()), (vec![0], 0), "{mpi:?}");
    }
}

/// Executes the program behind it with an open file as a first try of ours leaves it.
const LEAVES: &str = r#"#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) { return memfd_create("trimtab", 0) != 3 || execv(argv[1], argv + 1); }
"#;

/// Closes that file after a while, and has a fault handler of its own.
const CLOSES: &str = r#"#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static void caught(int signal) { _exit(signal); }
int main(int argc, char **argv) {
    int sum = 0, one = 1;
    signal(SIGSEGV, caught);
    usleep(300000);
    close(3);
    usleep(200000);
    MPI_Init(&argc, &argv);
    for (int step = 0; step < 100; step++) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    printf("%d OK\n", sum);
    return 0;
}
"#;

/// Where a first try has left something that is about to go, the next one waits for that and holds the process. It is
/// stopped for both questions, that after the rest and that after its fault handlers.
#[test]
fn a_first_try_that_came_to_nothing_is_followed_by_another() {
    let _alone = alone();
    let home = Home::new();
    let [leaves, closes] =
        [("leaves", LEAVES, "cc"), ("closes", CLOSES, "mpicc.mpich")].map(|(name, text, compiler)| {
            let source = home.path(&format!("{name}.c"));
            std::fs::write(&source, text).expect("is written");
            let built = std::process::Command::new(compiler).arg("-o").arg(home.path(name)).arg(&source).status();
            assert!(built.expect("the compiler runs").success());
            home.path(name)
        });
    let report = followed(&home, &Launch::alone(&leaves).args([closes.to_str().expect("is text")]), &[]);
    let from = report.window.from_first_call.expect("it is asked for");
    assert_eq!((from.ranks.as_slice(), from.missed.len()), (&[0][..], 0), "{from:?}");
    let calls = |name: &str| report.functions.iter().find(|row| row.name == name).map(|row| row.calls_counted());
    assert_eq!(calls("MPI_Allreduce"), Some(100));
}

/// One rank comes out of `MPI_Init` later than the others may be held: all go on, and it is said of each.
#[test]
fn a_rank_that_comes_too_late_is_waited_for_no_longer() {
    let _alone = alone();
    let home = Home::new();
    let specimen = Specimen::of(Mpi::Mpich, "particle", "--iterations 4000");
    let report = followed(&home, &launch(&home, &specimen, Some("1:4")), &["--hold", "2"]);
    let from = report.window.from_first_call.as_ref().expect("it is asked for");
    assert!(from.ranks.is_empty(), "{from:?}");
    let reasons: Vec<(u32, &str)> = from.missed.iter().map(|missed| (missed.rank, missed.reason.as_str())).collect();
    let reason = "rank 1 was still in MPI_Init 1.2 s after others had left it";
    assert_eq!(reasons, [(0, reason), (1, reason)]);
    let late = report.window.begins_late.as_ref().expect("it is said");
    assert_eq!((late.ranks.as_slice(), late.reason.as_str()), (&[0, 1][..], reason));
    assert!(late.after_init_s_at_most > Some(1.2), "{late:?}");
    let said = format!("ranks 0, 1 were not measured from the first call on: {reason}");
    assert!(report.warnings.contains(&said), "{:?}", report.warnings);
}

/// The same where a watch holds them.
#[test]
fn a_rank_that_comes_too_late_for_a_watch_is_waited_for_no_longer() {
    let _alone = alone();
    let home = Home::new();
    let specimen = Specimen::of(Mpi::Mpich, "particle", "--iterations 4000");
    let (watch, job) = start_watched(&home, &launch(&home, &specimen, Some("1:3")), 2);
    assert!(job.wait(LIMIT).expect("it ends").right_answer().is_some(), "its right answer");
    assert!(watch.wait_with_output().expect("it ends").status.success());
    let lines = std::fs::read_to_string(home.path("lines.json")).expect("lines");
    let line: serde_json::Value = serde_json::from_str(&lines).unwrap_or_else(|error| panic!("{error}: {lines}"));
    let said = home.trimtab(&["report", line["job"].as_str().unwrap_or_default(), "--json"]);
    let report: Report = serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?} {lines}"));
    let late = report.window.begins_late.as_ref().expect("it is said");
    let reason = "rank 1 was still in MPI_Init 1.2 s after others had left it";
    assert_eq!((late.ranks.as_slice(), late.reason.as_str()), (&[0, 1][..], reason));
    assert!(report.warnings.iter().any(|warning| warning.contains(reason)), "{:?}", report.warnings);
}

/// How a trimtab ends that holds ranks.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Killed,
    Interrupted,
}

/// trimtab is killed while one rank waits and the other is still in `MPI_Init`: it goes on by itself in its time, to its
/// right answer, and what was left in it can be undone meanwhile.
#[test]
fn ranks_that_wait_go_on_without_a_trimtab_that_was_killed() {
    let _alone = alone();
    let home = Home::new();
    let launch = launch(&home, &Specimen::of(Mpi::Mpich, "particle", "--iterations 6000"), Some("1:5"));
    let trimtab = start(&home, &launch, &["--hold", "4"]);
    ranks_go_on(&home, trimtab, End::Killed);
}

/// A watch that is killed, and one that is asked to end: that one lets them go.
#[test]
fn ranks_that_wait_go_on_without_their_watch() {
    let _alone = alone();
    for (end, seconds) in [(End::Killed, 4), (End::Interrupted, 30)] {
        let home = Home::new();
        let launch = launch(&home, &Specimen::of(Mpi::Mpich, "particle", "--iterations 2000"), Some("1:5"));
        let (watch, job) = start_watched(&home, &launch, seconds);
        ranks_go_on(&home, watch, end);
        assert!(job.wait(LIMIT).expect("it ends").right_answer().is_some(), "its right answer");
    }
}

/// How long a process's first thread has run, as the scheduler counts it. Clock ticks are no measure here: a thread that wakes
/// by a timer is charged a whole one as often as not.
fn processor_ns(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("it runs");
    text.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
}

fn ranks_go_on(home: &Home, mut trimtab: Child, end: End) {
    let program = particle();
    let pids = until(|| Some(trimtab_specimens::running(&program)).filter(|pids| pids.len() == RANKS as usize));
    let waiting = until(|| pids.iter().copied().find(|pid| is_held(*pid)));
    let begun = Instant::now();
    if end == End::Killed {
        trimtab.kill().expect("it runs");
        trimtab.wait().expect("it was killed");
        let (spent, since) = (processor_ns(waiting), Instant::now());
        std::thread::sleep(Duration::from_millis(500));
        assert!(is_held(waiting), "it waits");
        let (computed, passed) = (processor_ns(waiting) - spent, since.elapsed().as_nanos());
        // One that spins would compute all of it.
        assert!(u128::from(computed) < passed / 4, "it computes while it waits: {computed} of {passed} ns");
    } else {
        interrupt(i32::try_from(trimtab.id()).expect("a pid"));
        trimtab.wait().expect("it ends");
        assert!(!is_held(waiting), "it was let go");
    }
    until(|| (!is_held(waiting)).then_some(()));
    let held_s = begun.elapsed().as_secs_f64();
    assert!(end == End::Interrupted || (1.0..8.0).contains(&held_s), "it went on after {held_s} s");
    if end == End::Killed {
        let said = home.trimtab(&["undo", &waiting.to_string()]);
        assert_eq!(said.code, 0, "{said:?}");
    }
    for pid in &pids {
        let text = TextSnapshot::of(*pid).expect("it runs");
        assert_eq!(text.difference_from_files().expect("it runs"), None, "text is as in the files");
        assert!(!maps(*pid).contains("memfd:trimtab"), "nothing is left");
    }
    until(|| trimtab_specimens::running(&program).is_empty().then_some(()));
    let truths = truths_of(&home.path("truth"), RANKS).expect("both came to MPI_Finalize");
    assert!(truths.iter().all(|truth| truth.finalized), "they went on to their end");
}

/// Another trimtab comes while the ranks are held and nobody has handed them over yet: it waits for that, and takes them over.
#[test]
fn ranks_that_are_about_to_be_handed_over_are_waited_for() {
    let _alone = alone();
    let (home, program) = (Home::new(), particle());
    let launch = launch(&home, &Specimen::of(Mpi::Mpich, "particle", "--iterations 200"), None);
    let job = launch.start().expect("it starts");
    let holds = FirstCall::begin(vec![Pid(job.pid())], Duration::from_secs(30), |_| Ok(())).expect("it begins");
    let held = || trimtab_specimens::running(&program).into_iter().filter(|pid| is_held(*pid)).collect::<Vec<_>>();
    let ranks = until(|| Some(held()).filter(|pids| pids.len() == RANKS as usize));
    let json = home.path("report.json").to_string_lossy().into_owned();
    let mut attach = home.command(&["attach", "--follow", "--hold", "10", "--json", &json, &ranks[0].to_string()]);
    let attach = attach.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    // It has looked at them by then, and found them another's.
    std::thread::sleep(Duration::from_millis(700));
    holds.handed_over(Duration::from_secs(1), &|| false).expect("they are held");
    assert!(job.wait(LIMIT).expect("it ends").right_answer().is_some(), "its right answer");
    let output = attach.wait_with_output().expect("it ends");
    let report: Report = serde_json::from_slice(&std::fs::read(&json).unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let from = report.window.from_first_call.as_ref().expect("it is asked for");
    assert_eq!((from.ranks.as_slice(), from.missed.len()), (&[0, 1][..], 0), "{from:?}");
    let truths = truths_of(&home.path("truth"), RANKS).expect("the wrapper wrote");
    check_functions(&report, &truths, "handed over");
}

/// Whoever was to see to one that ends without MPI ends with it.
#[test]
fn nobody_waits_for_the_mpi_of_a_process_that_has_ended() {
    let home = Home::new();
    let mut child = std::process::Command::new("sleep").arg("0.5").spawn().expect("it starts");
    let mut hold = home.command(&["hold", &child.id().to_string()]);
    let hold = hold.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    child.wait().expect("it ends");
    let begun = Instant::now();
    let output = hold.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("it ended without MPI"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

/// Calls as soon as it may, so that whoever comes later misses most.
const EARLY: &str = include_str!("programs/early.c");

/// A package's helpers, one beside each rank, hold the ranks and end; the trimtab that measures the job takes them over.
#[test]
fn a_packed_program_is_measured_from_its_first_call() {
    let _alone = alone();
    for (mpi, compiler) in [(Mpi::Mpich, "mpicc.mpich"), (Mpi::OpenMpi, "mpicc.openmpi")] {
        let (home, name) = (Home::new(), mpi.name());
        let [source, program, package, json] =
            ["early.c", "early", "package", "report.json"].map(|file| home.path(file));
        std::fs::write(&source, EARLY).expect("is written");
        let built = std::process::Command::new(compiler).arg("-o").arg(&program).arg(&source).status();
        assert!(built.expect("the compiler is there").success());
        let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
        let said =
            home.trimtab(&["pack", &text(&program), "-o", &text(&package), "--", "--follow", "--json", &text(&json)]);
        assert_eq!(said.code, 0, "{said:?}");
        let words = Launch::mpi(mpi, RANKS, &package).words().expect("the launcher is there");
        let mut job = std::process::Command::new(&words[0]);
        job.args(&words[1..]).current_dir(home.path(".")).env("XDG_CACHE_HOME", home.path("cache"));
        job.env("XDG_DATA_HOME", home.path("data")).env("XDG_STATE_HOME", home.path("state")).stdin(Stdio::null());
        job.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        let output = job.output().expect("the launcher runs");
        assert!(String::from_utf8_lossy(&output.stdout).contains("2 OK"), "{name}: {output:?}");
        let report: Report = until(|| serde_json::from_slice(&std::fs::read(&json).ok()?).ok());
        let from = report.window.from_first_call.as_ref().expect("it is asked for");
        assert_eq!((from.ranks.as_slice(), from.missed.len()), (&[0, 1][..], 0), "{name}: {from:?}");
        let calls: Vec<(&str, u64)> =
            report.functions.iter().map(|row| (row.name.as_str(), row.calls_counted())).collect();
        let calls: BTreeMap<&str, u64> = calls.into_iter().collect();
        assert_eq!(calls, BTreeMap::from([("MPI_Allreduce", 600), ("MPI_Barrier", 40)]), "{name}");
        assert!(report.window.valid && from.held_us_max > Some(0.0), "{name}: {:?}", report.warnings);
    }
}

fn until<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        match condition() {
            Some(value) => return value,
            None => assert!(Instant::now() < deadline, "it takes too long"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A specimen beside the wrapper, one of whose ranks may be late.
fn launch(home: &Home, specimen: &Specimen, late: Option<&str>) -> Launch {
    let mpi = specimen.mpi.expect("with MPI");
    let program = build(specimen.program, Some(mpi), &specimen.variant).expect("the specimen is built");
    let launch = Launch::mpi(mpi, RANKS, &program).args(specimen.arguments.split_whitespace());
    let launch = launch.measured(&home.path("truth")).expect("the wrapper is built");
    late.map_or(launch.clone(), |late| launch.env("GT_LATE", late))
}

fn start(home: &Home, launch: &Launch, options: &[&str]) -> Child {
    let json = home.path("report.json").to_string_lossy().into_owned();
    let words = launch.words().expect("the launcher is there");
    let mut all = vec!["run", "--follow", "--json", &json];
    all.extend(options);
    all.push("--");
    all.extend(words.iter().map(String::as_str));
    let mut command = home.command(&all);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("trimtab runs")
}

/// A watch that holds ranks for so long at most, and the job that starts then.
fn start_watched(home: &Home, launch: &Launch, seconds: u32) -> (Child, Running) {
    let (errors, program, json) = (home.path("errors"), particle(), home.path("lines.json"));
    let mut command =
        home.command(&["watch", "--follow", "--count", "1", "--hold", &format!("{seconds}000"), "--name"]);
    command.arg(&program).arg("--json").arg(json).stdin(Stdio::null()).stdout(Stdio::null());
    let watch = command.stderr(std::fs::File::create(&errors).expect("a file")).spawn().expect("it starts");
    until(|| std::fs::read_to_string(&errors).is_ok_and(|said| said.contains("watching for")).then_some(()));
    (watch, launch.start().expect("it starts"))
}

fn particle() -> std::path::PathBuf {
    let program = build("particle", Some(Mpi::Mpich), &Default::default()).expect("it is built");
    program.canonicalize().expect("it is there")
}

/// The report of a whole run.
fn followed(home: &Home, launch: &Launch, options: &[&str]) -> Report {
    let output = start(home, launch, options).wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(said.contains(" OK"), "the program has its right answer: {said}");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(" behind MPI_Init until "), "the cost is said: {words}");
    let report = std::fs::read(home.path("report.json")).unwrap_or_else(|error| panic!("{error}: {said}"));
    serde_json::from_slice(&report).expect("a report")
}
