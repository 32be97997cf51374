//! `trimtab loops`: the nest that it shows is the program's, in C, C++ and Fortran, optimised or not, with both MPI libraries;
//! where there is none that can be counted it says so; and nothing is left behind.
//!
//! How many calls of MPI a pass makes is known of each program, so it tells which loop was counted, whatever the machine's pace.
//!
//! Next: `common_nest/` for the programs, docs/loops.md for the output.

mod common;

use common::{Home, LIMIT, RANKS, Said, alone, wait_until_at_work};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use trimtab_specimens::{Launch, Mpi, Running, TextSnapshot, threads_running};

/// How far a mean over some hundred passes may be from the truth, as a part of it.
const MPI_CALLS_OFF_MAX: f64 = 0.05;

/// A program, how it is compiled, and the calls of MPI in a pass of its main loop.
struct Row {
    source: &'static str,
    flags: &'static [&'static str],
    mpi: Mpi,
    function: &'static str,
    mpi_calls: f64,
}

const fn row(
    source: &'static str,
    flags: &'static [&'static str],
    mpi: Mpi,
    function: &'static str,
    mpi_calls: f64,
) -> Row {
    Row { source, flags, mpi, function, mpi_calls }
}

const ROWS: &[Row] = &[
    row("nests.c", &["-DKIND=1", "-O0"], Mpi::OpenMpi, "run", 3.35),
    row("nests.c", &["-DKIND=1", "-O3"], Mpi::Mpich, "main", 3.35),
    row("nests.c", &["-DKIND=2", "-O1"], Mpi::OpenMpi, "main", 27.0),
    row("nests.c", &["-DKIND=3", "-O2"], Mpi::Mpich, "main", 49.0),
    row("nests.c", &["-DKIND=4", "-O2"], Mpi::OpenMpi, "main", 3.25),
    row("nests.cpp", &["-O2"], Mpi::Mpich, "Simulation::run", 12.25),
    row("nests.f90", &["-O0"], Mpi::Mpich, "MAIN__", 23.25),
    row("nests.f90", &["-O3"], Mpi::OpenMpi, "main", 23.25),
];

#[test]
fn the_outermost_loop_that_repeats_is_the_programs() {
    let _alone = alone();
    for row in ROWS {
        let name = format!("{} {:?} {}", row.source, row.flags, row.mpi.name());
        let (home, found) = (Home::new(), nest_of(row, &name));
        drop(home);
        let taken = found["taken"].as_u64().unwrap_or_else(|| panic!("{name}: none is taken: {found:#}")) as usize;
        let one = &found["loops"][taken - 1];
        let calls = one["mpi_calls_per_pass"].as_f64().unwrap_or_default();
        assert!((calls - row.mpi_calls).abs() <= MPI_CALLS_OFF_MAX * row.mpi_calls, "{name}: {calls} calls: {found:#}");
        assert!(one["function"].as_str().is_some_and(|function| function.contains(row.function)), "{name}: {one:#}");
        assert_eq!(one["passes_min"], one["ranks"].as_array().map_or(Value::Null, |ranks| least(ranks)), "{name}");
        let line = one["line"].as_str().and_then(|line| line.rsplit(':').next()?.parse().ok()).unwrap_or(0);
        let (first, last) = lines_of(row.source, row.flags);
        assert!((first..=last).contains(&line), "{name}: line {line} is not of {first} to {last}: {one:#}");
    }
}

/// A solver's loop inside of time steps stands below theirs, with its own passes.
#[test]
fn inner_loops_stand_in_the_nest() {
    let _alone = alone();
    let found = nest_of(&ROWS[2], "a solver in time steps");
    let loops = found["loops"].as_array().expect("a list");
    assert!(loops.len() >= 2, "{found:#}");
    let passes = |number: usize| loops[number]["ranks"][0]["passes"].as_f64().expect("a number");
    // A loop that tests its condition first passes its header once more than it repeats.
    let ratio = passes(1) / passes(0);
    assert!((5.8..=7.2).contains(&ratio), "6 to 7 passes of the solver in each step, not {ratio}: {found:#}");
    assert_eq!(found["taken"], 1);
    let solver = &loops[1]["progress"];
    assert_eq!(solver["total"], Value::Null, "it has a break: {found:#}");
    assert!(solver["total_at_most"].as_u64().is_none_or(|most| (5..=7).contains(&most)), "{found:#}");
}

/// Loops with ends of their own say how far they are: steps that the program writes down, 7 sweeps in each, and a solver of
/// 9 passes at most in each of these.
#[test]
fn each_loop_says_how_far_it_is() {
    const STEPS: u64 = 200_000;
    let _alone = alone();
    const ENDS: [Row; 4] = [
        row("nests.c", &["-DKIND=6", "-O0"], Mpi::OpenMpi, "", 63.0),
        row("nests.c", &["-DKIND=6", "-O1"], Mpi::Mpich, "", 63.0),
        row("nests.c", &["-DKIND=6", "-O2"], Mpi::OpenMpi, "", 63.0),
        row("nests.c", &["-DKIND=6", "-O3"], Mpi::Mpich, "", 63.0),
    ];
    for row in &ENDS {
        let name = format!("{:?} {}", row.flags, row.mpi.name());
        let home = Home::new();
        let mut job = start(row, &home);
        let pids = job.rank_pids(LIMIT).expect(&name);
        let step = || {
            let bytes = std::fs::read(format!("/proc/{}/cwd/step", pids[0])).expect("it writes it down");
            bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let before: Vec<TextSnapshot> = pids.iter().map(|pid| TextSnapshot::of(*pid).expect(&name)).collect();
        let first = step();
        let said = home.trimtab(&["loops", "--json", &job.pid().to_string()]);
        let last = step();
        for (pid, before) in pids.iter().zip(&before) {
            assert_eq!(before.difference(&TextSnapshot::of(*pid).expect(&name)), None, "{name}");
        }
        assert_eq!(said.code, 0, "{name}: {said:?}");
        let found: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
        let loops = found["loops"].as_array().expect("a list");
        // Loops that only compute are below them, where a stack was taken in one.
        assert!(loops.len() >= 3, "{name}: {found:#}");
        let number = |index: usize, field: &str| loops[index]["progress"][field].as_u64();
        let (done, remaining) = (number(0, "done").expect(&name), number(0, "remaining").expect(&name));
        assert!(first <= done + 1 && done <= last, "{name}: {done} done, {first} before, {last} after: {found:#}");
        assert_eq!(number(0, "total"), Some(STEPS), "{name}: {found:#}");
        assert!((STEPS..=STEPS + 1).contains(&(done + remaining)), "{name}: {found:#}");
        // Ranks may be a pass apart, so that one has the last of a run and another the first of the next.
        assert_eq!((number(1, "total"), number(1, "total_at_most")), (Some(7), Some(7)), "{name}: {found:#}");
        // On a free machine it is passed too often to be counted.
        let is_counted = !loops[2]["passes_max"].is_null();
        let at_most = is_counted.then_some(9);
        assert_eq!((number(2, "total"), number(2, "total_at_most")), (None, at_most), "{name}: {found:#}");
        assert!(number(1, "done") <= Some(7) && number(2, "done") <= Some(9), "{name}: {found:#}");
        assert_eq!(number(2, "remaining"), None, "{name}: {found:#}");
    }
}

#[test]
fn a_function_that_calls_itself_is_named() {
    let _alone = alone();
    let row = row("nests.c", &["-DKIND=5", "-O0"], Mpi::Mpich, "", 0.0);
    let said = shown(&row, "recursion", &["--samples", "10", "--max-seconds", "6"]);
    assert_eq!(said.code, 1, "{said:?}");
    let found: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    assert_eq!(found["taken"], Value::Null);
    let notes = found["notes"].to_string();
    assert!(notes.contains("run_from") && notes.contains("calls itself"), "{notes}");
}

#[test]
fn what_can_not_be_looked_at_is_said() {
    let home = Home::new();
    for (words, fragment) in [
        (&["loops", "nojob"][..], "no process id and no job that runs"),
        (&["loops", "999999999"], "999999999"),
        (&["loops", "--samples", "0", "1"], "a whole number from 1 to 10000"),
    ] {
        let said = home.trimtab(words);
        assert_eq!(said.code, 2, "{words:?}: {said:?}");
        assert!(said.stderr.contains(fragment), "{words:?}: {said:?}");
    }
}

/// The shape that docs/loops.md promises.
#[test]
fn json_is_as_described() {
    let _alone = alone();
    let found = nest_of(&ROWS[0], "json");
    let described = include_str!("../../../../docs/loops.md");
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    let all = [&found, &found["processes"][0], &found["loops"][0], &found["loops"][0]["ranks"][0]];
    let all = [&all[..], &[&found["loops"][0]["progress"]]].concat();
    for key in all.into_iter().flat_map(keys) {
        assert!(described.contains(&format!("`{key}`")), "{key} is not described");
    }
    assert_eq!(found["version"], 1);
}

fn least(ranks: &[Value]) -> Value {
    ranks.iter().filter_map(|rank| rank["passes"].as_u64()).min().map_or(Value::Null, Value::from)
}

/// The lines of the loop that is marked; where code is put into it from other functions, those before it too.
fn lines_of(source: &str, flags: &[&str]) -> (u64, u64) {
    const BODY_LINES: u64 = 7;
    let text = std::fs::read_to_string(folder().join(source)).expect("a source");
    let kind = flags.iter().find_map(|flag| flag.strip_prefix("-DKIND="));
    let begin = kind.map_or(0, |kind| text.lines().position(|line| line.contains(&format!("KIND == {kind}"))).unwrap());
    let line = text.lines().skip(begin).position(|line| line.contains("LOOP")).expect("a mark") + begin + 1;
    let is_plain = flags.contains(&"-O0");
    (if is_plain { line as u64 } else { 1 }, line as u64 + BODY_LINES)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common_nest")
}

fn start(row: &Row, home: &Home) -> Running {
    let compiler = match row.source.rsplit('.').next() {
        Some("c") => "mpicc",
        Some("cpp") => "mpicxx",
        _ => "mpif90",
    };
    let program = home.path("nests");
    let mut command = Command::new(format!("{compiler}.{}", row.mpi.name()));
    command.current_dir(home.path("")).arg("-g").args(row.flags).arg(folder().join(row.source)).arg("-o").arg(&program);
    assert!(command.status().expect("a compiler").success(), "it compiles");
    let launch = Launch::mpi(row.mpi, RANKS, &program).folder(&home.path(""));
    wait_until_at_work(launch.start().expect("it starts"), true)
}

/// The command's words about a program, which is as before afterwards.
fn shown(row: &Row, name: &str, options: &[&str]) -> Said {
    let home = Home::new();
    let mut job = start(row, &home);
    let pids = job.rank_pids(LIMIT).expect(name);
    let before: Vec<TextSnapshot> = pids.iter().map(|pid| TextSnapshot::of(*pid).expect(name)).collect();
    let pid = job.pid().to_string();
    let said = home.trimtab(&[&["loops", "--json"][..], options, &[&pid]].concat());
    for (pid, before) in pids.iter().zip(&before) {
        assert_eq!(before.difference(&TextSnapshot::of(*pid).expect(name)), None, "{name}");
        assert!(threads_running(*pid).expect(name) > 0, "{name}: its threads run");
    }
    said
}

fn nest_of(row: &Row, name: &str) -> Value {
    let said = shown(row, name, &[]);
    assert_eq!(said.code, 0, "{name}: {said:?}");
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{name}: {error}: {said:?}"))
}
