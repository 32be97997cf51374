//! Every specimen gives its known answer with both MPI libraries, and the ground truth wrapper counts what the
//! specimens say they move. Then the tools for watching: snapshots, thread states, ending what was started.
//!
//! Jobs run one at a time, because MPICH polls and the machine may have two cores. Next: `src/lib.rs`.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};
use trimtab_specimens::{
    Finished, GroundTruth, Launch, LinkTruth, Mark, Mpi, PROGRAMS, TextDifference, TextSnapshot, Variant, build,
    has_worked, threads_running, truths_of,
};

/// Longer than any specimen here takes on a loaded machine; no test measures against it.
const LIMIT: Duration = Duration::from_secs(60);

const ITERATIONS: u32 = 20;

/// A specimen's run, and what rank 0 sends to rank 1 in each iteration: (messages, bytes).
type Row = (&'static str, &'static str, &'static str, Option<(u64, u64)>);

const ROWS: &[Row] = &[
    ("particle_blocking", "particle", "--size 64 --particles 2000", Some((1, 512))),
    ("particle_nonblocking", "particle", "--size 64 --particles 2000 --nonblocking --tag-iteration", Some((1, 512))),
    ("particle_sendrecv", "particle", "--size 64 --particles 2000 --sendrecv --imbalance --mark", Some((1, 512))),
    ("fft", "fft", "--size 64", Some((2, 32768))),
    ("is", "is", "--size 5000", None),
    ("cg", "cg", "--size 2000", Some((26, 208))),
    ("ep", "ep", "--size 20000", Some((0, 0))),
    ("wave", "wave", "--size 32 --block 4 --columns 100", Some((8, 256))),
    ("threads", "threads", "--size 1000 --threads 2", None),
    ("heat", "heat", "--size 1000 --mark", Some((1, 8))),
    ("heat08", "heat08", "--size 1000 --mark", Some((1, 8))),
    ("steady", "steady", "--work 1000 --sleep-us 100 --threads 3", Some((1, 8))),
    ("pong", "pong", "--sizes 8,512 --between-us 10", Some((3, 524))),
    ("sleeper_block", "sleeper", "--mode block --size 1000", None),
    ("sleeper_threads", "sleeper", "--mode threads --size 1000", Some((0, 0))),
    ("sleeper_exec", "sleeper", "--mode exec --size 1000", Some((0, 0))),
    ("sleeper_exit", "sleeper", "--mode exit --exit-at 5 --size 1000", None),
];

#[test]
fn specimens_are_right_with_mpich() {
    check_rows(Mpi::Mpich);
}

#[test]
fn specimens_are_right_with_open_mpi() {
    check_rows(Mpi::OpenMpi);
}

fn check_rows(mpi: Mpi) {
    let _alone = alone();
    let marked = Variant { mark: Mark::Local, ..Variant::default() };
    for &(name, program, options, link) in ROWS {
        let (finished, truths) = run_measured(mpi, 2, program, &marked, options, name);
        assert!(finished.right_answer().is_some_and(|line| line.starts_with(program)), "{name}: {finished:?}");
        let Some((messages, bytes)) = link else { continue };
        let range = truths[0].range(0..ITERATIONS).expect(name);
        let sent = range.links.get(&1).cloned().unwrap_or_default();
        let count = u64::from(ITERATIONS);
        assert_eq!((sent.messages, sent.bytes), (count * messages, count * bytes), "{name}");
    }
}

#[test]
fn all_mpi_specimens_have_a_row() {
    for program in PROGRAMS.iter().filter(|program| program.mpi && program.name != "kinds") {
        assert!(ROWS.iter().any(|row| row.1 == program.name), "{}", program.name);
    }
}

#[test]
fn particle_is_right_with_four_ranks() {
    let _alone = alone();
    for options in ["", "--nonblocking", "--sendrecv --imbalance"] {
        let program = build("particle", Some(Mpi::OpenMpi), &Variant::default()).expect("particle");
        let arguments = format!("--iterations 10 --size 32 --particles 1000 {options}");
        let job = Launch::mpi(Mpi::OpenMpi, 4, &program).args(arguments.split_whitespace());
        let finished = job.run(LIMIT).expect(options);
        assert!(finished.right_answer().is_some(), "{options}: {finished:?}");
    }
}

#[test]
fn programs_without_mpi_are_right() {
    let plain = Variant::default();
    let static_link = Variant { static_link: true, fixed_address: true, ..plain };
    let rows = [
        ("tiny", "tiny", plain, "--seconds 0 --chunks 3 --idle 2 --busy 1"),
        ("tiny_static", "tiny", static_link, "--seconds 0 --chunks 3"),
        ("plain", "plain", plain, "--iterations 5"),
        ("plain_marked", "plain", Variant { mark: Mark::Exported, ..plain }, "--iterations 5 --mark"),
    ];
    for (name, program, variant, options) in rows {
        let program = build(program, None, &variant).expect(name);
        let finished = Launch::alone(&program).args(options.split_whitespace()).run(LIMIT).expect(name);
        assert!(finished.right_answer().is_some(), "{name}: {finished:?}");
    }
}

#[test]
fn tiny_prints_the_floor() {
    let program = build("tiny", None, &Variant::default()).expect("tiny");
    let finished = Launch::alone(&program).args(["--seconds", "0", "--chunks", "5"]).run(LIMIT).expect("tiny");
    for kind in ["bare", "counted", "timed"] {
        let start = format!("tiny: {kind} min ");
        let line = finished.stdout.lines().find(|line| line.starts_with(&start)).expect(kind);
        let nanoseconds: f64 = line[start.len()..].split(' ').next().expect(kind).parse().expect(kind);
        assert!(nanoseconds > 0.0, "{line}");
    }
}

#[test]
fn wrong_use_is_refused() {
    let _alone = alone();
    let rows = [
        ("mark_absent", "particle", "--mark --iterations 2", "built without measuremark"),
        ("fft_size", "fft", "--size 63", "must be a power of two"),
        ("mode", "sleeper", "--mode nothing --iterations 2", "--mode is block"),
    ];
    for (name, program, options, message) in rows {
        let program = build(program, Some(Mpi::Mpich), &Variant::default()).expect(name);
        let finished = Launch::mpi(Mpi::Mpich, 2, &program).args(options.split(' ')).run(LIMIT).expect(name);
        assert!(!finished.status.success() && finished.stderr.contains(message), "{name}: {finished:?}");
    }
}

#[test]
fn a_rank_may_vanish() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let options = "--mode vanish --exit-at 5 --size 1000";
        let (finished, _) = run(mpi, 2, "sleeper", &Variant::default(), options, "vanish", false);
        assert!(!finished.status.success(), "{mpi:?}: {finished:?}");
    }
}

// ---------------------------------------------------------------- kinds of bytes

#[test]
fn wrapper_counts_what_kinds_moves() {
    let _alone = alone();
    for (mpi, ranks) in [(Mpi::Mpich, 2), (Mpi::OpenMpi, 2), (Mpi::OpenMpi, 3), (Mpi::OpenMpi, 4)] {
        let name = format!("kinds_{}_{ranks}", mpi.name());
        let (finished, truths) = run_measured(mpi, ranks, "kinds", &Variant::default(), "", &name);
        assert!(finished.right_answer().is_some(), "{name}: {finished:?}");
        let links = expected_links(&finished.stdout);
        assert!(links.len() >= 2 * ranks as usize, "{name}: {links:?}");
        let mut seen = BTreeMap::new();
        for truth in &truths {
            // Each iteration by itself: sums could hide a byte that is counted one iteration late.
            for row in &truth.iterations {
                let own: Vec<_> = row.links.iter().map(|link| ((truth.rank, link.to), link.clone())).collect();
                let want: Vec<_> = links.iter().filter(|((from, _), _)| *from == truth.rank).collect();
                assert_eq!(own.iter().map(|(key, link)| (key, link)).collect::<Vec<_>>(), want, "{name}");
                seen.extend(own);
            }
            check_function_bytes(&finished.stdout, truth, &name);
        }
        assert_eq!(seen, links, "{name}");
    }
}

/// All bytes of a rank's functions are its links' bytes, and its contributions to collectives that have no links.
fn check_function_bytes(stdout: &str, truth: &GroundTruth, name: &str) {
    let start = format!("kinds: contributed {} bytes ", truth.rank);
    let line = stdout.lines().find_map(|line| line.strip_prefix(&start)).expect(name);
    let contributed: u64 = line.parse().expect(name);
    let range = truth.range(0..ITERATIONS).expect(name);
    let functions: u64 = range.functions.values().map(|function| function.bytes).sum();
    let links: u64 = range.links.values().map(|link| link.bytes).sum();
    assert_eq!(functions, links + contributed * u64::from(ITERATIONS), "{name}: rank {}", truth.rank);
}

/// "kinds: link FROM TO messages M bytes B collective_messages CM collective_bytes CB"
fn expected_links(stdout: &str) -> BTreeMap<(u32, u32), LinkTruth> {
    let lines = stdout.lines().filter_map(|line| line.strip_prefix("kinds: link "));
    lines
        .map(|line| {
            let number: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [from, to, messages, bytes, collective_messages, collective_bytes] = number[..] else {
                panic!("not a link: {line}")
            };
            let to = u32::try_from(to).expect("a rank");
            let link = LinkTruth { to, messages, bytes, collective_messages, collective_bytes };
            ((u32::try_from(from).expect("a rank"), to), link)
        })
        .collect()
}

#[test]
fn large_counts_are_told_apart_where_the_library_has_them() {
    let _alone = alone();
    for (mpi, has) in [(Mpi::Mpich, true), (Mpi::OpenMpi, false)] {
        let (_, truths) = run_measured(mpi, 2, "kinds", &Variant::default(), "", "kinds_large");
        let sent = truths[0].functions.iter().find(|function| function.name == "MPI_Send_c");
        assert_eq!(sent.map(|function| (function.calls, function.bytes_max)), has.then_some((20, 72)), "{mpi:?}");
    }
}

// ---------------------------------------------------------------- ground truth

#[test]
fn truth_is_consistent() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        let (_, truths) = run_measured(mpi, 2, "particle", &Variant::default(), "--size 64", "consistent");
        for truth in &truths {
            assert!(truth.finalized && truth.rows_dropped == 0 && truth.iterations.len() == ITERATIONS as usize);
            let range = truth.range(0..ITERATIONS).expect("all iterations");
            assert!(range.duration_s <= truth.program_s, "{truth:?}");
            assert!(range.communication_fraction() > 0.0 && range.communication_fraction() < 1.0, "{range:?}");
            let functions: f64 = range.functions.values().map(|function| function.time_s).sum();
            assert!((functions - range.communication_s).abs() < 1e-6, "{range:?}");
            // Four sides, one of them with a neighbour: PROC_NULL calls count as calls, not as messages.
            assert_eq!(range.functions["MPI_Send"].calls, 4 * u64::from(ITERATIONS));
            assert_eq!(range.links.values().map(|link| link.messages).sum::<u64>(), u64::from(ITERATIONS));
        }
    }
}

/// Name, environment, rows kept.
type TruthRow = (&'static str, &'static [(&'static str, &'static str)], usize);

#[test]
fn a_range_of_rows_or_calls_can_be_asked_for() {
    let _alone = alone();
    let program = build("fft", Some(Mpi::Mpich), &Variant::default()).expect("fft");
    let rows: [TruthRow; 2] = [
        ("range", &[("GT_START", "5"), ("GT_COUNT", "3")], 3),
        // A mark by the program and one by each of two calls: each ends a row.
        ("by_function", &[("GT_MARK_FUNCTION", "MPI_Alltoall")], 3 * ITERATIONS as usize),
    ];
    for (name, environment, kept) in rows {
        let prefix = scratch(name);
        let mut job = Launch::mpi(Mpi::Mpich, 2, &program).measured(&prefix).expect(name);
        job = job.args(["--size", "64", "--iterations"]).args([ITERATIONS.to_string()]);
        for (variable, value) in environment {
            job = job.env(variable, value);
        }
        assert!(job.run(LIMIT).expect(name).right_answer().is_some(), "{name}");
        assert_eq!(truths_of(&prefix, 2).expect(name)[1].iterations.len(), kept, "{name}");
    }
}

// ---------------------------------------------------------------- variants

#[test]
fn variants_are_what_they_say() {
    let plain = Variant::default();
    // (name, variant, ELF type: 2 fixed or 3 shared object, whether "measuremark" stands in the file)
    let rows = [
        ("pie", plain, 3, false),
        ("fixed", Variant { fixed_address: true, ..plain }, 2, false),
        ("marked", Variant { mark: Mark::Local, ..plain }, 3, true),
        ("stripped", Variant { mark: Mark::Local, stripped: true, ..plain }, 3, false),
        ("exported", Variant { mark: Mark::Exported, stripped: true, fixed_address: true, ..plain }, 2, true),
    ];
    let _alone = alone();
    for program in ["particle", "threads", "heat"] {
        for (name, variant, elf_type, named) in rows {
            let path = build(program, Some(Mpi::Mpich), &variant).expect(name);
            let bytes = fs::read(&path).expect(name);
            assert_eq!(u16::from_le_bytes([bytes[16], bytes[17]]), elf_type, "{program} {name}");
            // Its own symbol, not "measuremark_calls" or the message about it: a name ends with a zero byte.
            let symbol = format!("\0measuremark{}\0", if program == "heat" { "_" } else { "" });
            let found = bytes.windows(symbol.len()).any(|window| window == symbol.as_bytes());
            assert_eq!(found, named, "{program} {name}");
            let finished = Launch::mpi(Mpi::Mpich, 2, &path).args(["--iterations", "3", "--size", "32"]).run(LIMIT);
            assert!(finished.expect(name).right_answer().is_some(), "{program} {name}");
        }
    }
}

#[test]
fn built_once() {
    let modified = || {
        let path = build("plain", None, &Variant::default()).expect("plain");
        fs::metadata(path).and_then(|facts| facts.modified()).expect("time")
    };
    assert_eq!(modified(), modified());
}

// ---------------------------------------------------------------- watching

#[test]
fn snapshot_finds_a_changed_byte() {
    let program = build("plain", None, &Variant::default()).expect("plain");
    let mut running = Launch::alone(&program).args(["--endless"]).start().expect("start");
    let pid = settled(&mut running);
    let before = TextSnapshot::of(pid).expect("snapshot");
    assert_eq!(before.difference_now().expect("again"), None);

    // The last byte of the program's text page: padding that is never executed.
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let text = maps.lines().find(|line| line.contains("r-xp") && line.ends_with("/plain")).expect("text");
    let end = u64::from_str_radix(text.split(['-', ' ']).nth(1).expect("end"), 16).expect("hexadecimal");
    let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem")).expect("memory");
    if let Err(error) = memory.write_all_at(&[0xcc], end - 1) {
        println!("SKIPPED: this system does not let a parent write the text of its child: {error}");
        return;
    }
    let difference = before.difference_now().expect("snapshot");
    let Some(TextDifference::Byte { module, address, after: 0xcc, .. }) = &difference else { panic!("{difference:?}") };
    assert!(module.ends_with("/plain") && *address == end - 1, "{difference:?}");
}

#[test]
fn who_sleeps_for_long_is_at_work_and_who_waits_for_input_is_not() {
    let mut sleeper = Command::new("sleep").arg("60").spawn().expect("sleep runs");
    let mut reader = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat runs");
    eventually("the sleep", || has_worked(sleeper.id() as i32));
    assert!(!has_worked(reader.id() as i32));
    for process in [&mut sleeper, &mut reader] {
        process.kill().expect("it runs");
        process.wait().expect("it has ended");
    }
    assert!(!has_worked(sleeper.id() as i32), "it is gone");
}

#[test]
fn a_stopped_thread_is_noticed() {
    let program = build("plain", None, &Variant::default()).expect("plain");
    let mut running = Launch::alone(&program).args(["--endless"]).start().expect("start");
    let pid = settled(&mut running);
    assert_eq!(threads_running(pid).expect("running"), 1);
    send(pid, Signal::STOP);
    eventually("stop", || threads_running(pid).is_err());
    send(pid, Signal::CONT);
    eventually("go on", || threads_running(pid).is_ok());
}

#[test]
fn ranks_are_found_and_ended_on_drop() {
    let _alone = alone();
    for mpi in Mpi::ALL {
        for launcher_dies_first in [false, true] {
            let program = build("sleeper", Some(mpi), &Variant::default()).expect("sleeper");
            let job = Launch::mpi(mpi, 2, &program).args(["--mode", "threads", "--iterations", "1000000"]);
            let mut running = job.start().expect("start");
            let ranks = running.rank_pids(LIMIT).expect("ranks");
            assert_eq!(ranks.len(), 2, "{mpi:?}");
            eventually("all threads", || ranks.iter().all(|&pid| threads_running(pid).is_ok_and(|n| n > 64)));
            if launcher_dies_first {
                // Stopped ranks cannot notice that their parents die, so only the drop can end them.
                ranks.iter().for_each(|&pid| send(pid, Signal::STOP));
                let parents: BTreeSet<i32> = ranks.iter().map(|&pid| parent(pid)).collect();
                parents.iter().for_each(|&pid| send(pid, Signal::KILL));
            }
            drop(running);
            eventually("end of the ranks", || ranks.iter().all(|&pid| !is_alive(pid)));
        }
    }
}

#[test]
fn a_time_out_tells_what_was_said() {
    let program = build("tiny", None, &Variant::default()).expect("tiny");
    let mut running = Launch::alone(&program).args(["--seconds", "600"]).start().expect("start");
    running.wait_for_output("tiny: timed", LIMIT).expect("a line");
    let pid = running.pid();
    let error = running.wait(Duration::from_millis(10)).expect_err("it goes on");
    assert!(error.to_string().contains("tiny: timed"), "{error}");
    eventually("end", || !is_alive(pid));
}

// ---------------------------------------------------------------- helpers

fn alone() -> MutexGuard<'static, ()> {
    static ONE_JOB: Mutex<()> = Mutex::new(());
    ONE_JOB.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn run_measured(
    mpi: Mpi,
    ranks: u32,
    program: &str,
    variant: &Variant,
    options: &str,
    name: &str,
) -> (Finished, Vec<GroundTruth>) {
    let (finished, prefix) = run(mpi, ranks, program, variant, options, name, true);
    let truths = truths_of(&prefix, ranks).unwrap_or_else(|error| panic!("{name}: {error}: {finished:?}"));
    (finished, truths)
}

fn run(
    mpi: Mpi,
    ranks: u32,
    program: &str,
    variant: &Variant,
    options: &str,
    name: &str,
    measured: bool,
) -> (Finished, PathBuf) {
    let path = build(program, Some(mpi), variant).expect(name);
    let prefix = scratch(&format!("{name}.{}", mpi.name()));
    let mut job = Launch::mpi(mpi, ranks, &path).args(["--iterations", &ITERATIONS.to_string()]);
    job = job.args(options.split_whitespace());
    if measured {
        job = job.measured(&prefix).expect(name);
    }
    (job.run(LIMIT).expect(name), prefix)
}

/// The pid of a program that runs alone, once it has executed and mapped its libraries.
fn settled(running: &mut trimtab_specimens::Running) -> i32 {
    let pid = running.pid();
    let sleeping = || fs::read_to_string(format!("/proc/{pid}/syscall")).is_ok_and(|text| text.starts_with("230 "));
    eventually("first nanosleep", sleeping);
    pid
}

fn parent(pid: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("a parent");
    line.trim().parse().expect("a pid")
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("a pid"), signal).expect("signal");
}

/// A zombie is not alive: its parent, not we, must collect it.
fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        sleep(Duration::from_millis(2));
    }
}
