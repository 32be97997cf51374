//! `--loop`: a window's iterations are passes of a loop of the program, whatever is called in it how often.
//!
//! Programs in C, C++ and Fortran make five exchanges in each step and a collective in every fourth; `continue`, `cycle` and
//! exceptions are among the ways back. Eight iterations must so have exactly five exchanges each and two collectives.
//!
//! Next: `loops.rs` for loops that are found without hints.

mod common;

use common::{Home, LIMIT, RANKS, alone};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_specimens::{Launch, Mpi, Running, TextSnapshot, at_work};
use trimtab_types::report::Report;

/// Twice four, so that the rare calls are whole.
const ITERATIONS: u64 = 8;

/// A program, its compiler's wrapper and the function with the loop of its steps.
struct Program {
    source: &'static str,
    wrapper: &'static str,
    function: &'static str,
}

const PROGRAMS: [Program; 3] = [
    Program { source: "steps.c", wrapper: "mpicc", function: "solve" },
    Program { source: "steps.cpp", wrapper: "mpicxx", function: "flow::Solver::solve(int)" },
    Program { source: "steps.f90", wrapper: "mpifort", function: "flow::solve" },
];

fn compiled(home: &Home, program: &Program, mpi: Mpi, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/main_loop").join(program.source);
    let output = home.path(program.source).with_extension("bin");
    let mut compiler = Command::new(format!("{}.{}", program.wrapper, mpi.name()));
    compiler.args(flags).args(["-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", "-o"]).arg(&output).arg(&source).arg("-lm");
    // Fortran's module goes beside the program.
    let compiled = compiler.current_dir(home.path("")).output().expect("the compiler runs");
    assert!(compiled.status.success(), "{}: {}", source.display(), String::from_utf8_lossy(&compiled.stderr));
    output
}

/// Starts it; its ranks have worked for a while.
fn started(program: &Path, mpi: Mpi) -> Running {
    working(Launch::mpi(mpi, RANKS, program).start().expect("it starts"))
}

/// Its ranks have worked for a while.
fn working(mut job: Running) -> Running {
    at_work(&mut job, 12);
    job
}

fn calls(report: &Report, function: &str) -> (u64, Option<u64>) {
    let found = report.functions.iter().find(|one| one.name == function);
    found.map_or((0, None), |found| (found.calls_counted(), found.bytes))
}

#[test]
fn iterations_are_passes_of_the_loop() {
    let _alone = alone();
    for (index, program) in PROGRAMS.iter().enumerate() {
        for (turn, flags) in [["-O0", "-g"], ["-O2", "-g"], ["-O3", "-g"]].into_iter().enumerate() {
            // Each program with both, each level with both.
            let mpi = Mpi::ALL[(index + turn) % 2];
            let home = Home::new();
            let name = format!("{} {} {}", program.source, mpi.name(), flags[0]);
            let mut job = started(&compiled(&home, program, mpi, &flags), mpi);
            let texts: Vec<TextSnapshot> = snapshots(&mut job);
            let options = format!("--loop {} --iterations {ITERATIONS} --max-seconds 30", program.function);
            let (code, report) = home.attach(job.pid(), &options).unwrap_or_else(|said| panic!("{name}: {said:?}"));
            assert_eq!((code, report.window.valid), (0, true), "{name}: {:?} {:?}", report.window, report.warnings);
            let exchanges = u64::from(RANKS) * ITERATIONS * 5;
            assert_eq!(
                calls(&report, "MPI_Sendrecv"),
                (exchanges, Some(exchanges * 320)),
                "{name}: {:?}",
                report.window
            );
            assert_eq!(calls(&report, "MPI_Allreduce").0, u64::from(RANKS) * 2, "{name}");
            let found = report.window.main_loop.clone().expect("it is a loop");
            assert_eq!(calls(&report, &format!("loop {} of {}", found.number, found.function)).0, 16, "{name}");
            assert!(found.source().is_some_and(|at| at.starts_with(program.source)), "{name}: {found:?}");
            assert_eq!(report.window.marker_source.word(), "named", "{name}");
            assert_unchanged(&texts, &name);
        }
    }
}

/// A step that is passed twice in the time that others are given, while its stages repeat, is waited for; and the loop around it,
/// which goes round once, is told.
#[test]
fn a_slow_step_is_taken_and_not_its_stages() {
    let _alone = alone();
    let home = Home::new();
    let stages = Program { source: "stages.c", wrapper: "mpicc", function: "run" };
    let mut job = started(&compiled(&home, &stages, Mpi::OpenMpi, &["-O2", "-g"]), Mpi::OpenMpi);
    let texts = snapshots(&mut job);
    let (code, report) = home.attach(job.pid(), "--iterations 2 --max-seconds 60").expect("a report");
    assert_eq!((code, report.window.valid), (0, true), "{:?} {:?}", report.window, report.warnings);
    let taken = report.window.main_loop.clone().expect("a loop");
    assert_eq!(taken.function, "run", "{:?}", report.window);
    assert_eq!(calls(&report, "MPI_Allreduce").0, u64::from(RANKS) * 2 * 2, "{:?}", report.window);
    let around = report.window.loops_around.clone().expect("it was looked at");
    assert!(around.len() == 1 && around[0].contains("main"), "{around:?}");
    assert_unchanged(&texts, "stages");
}

/// Cycles whose loop lies around the one that counts iterations.
struct Cycles {
    source: &'static str,
    wrapper: &'static str,
    flags: [&'static str; 2],
    mpi: Mpi,
    count: u64,
    /// Nobody else can change its counter.
    is_sure: bool,
}

const CYCLES: [Cycles; 6] = [
    Cycles {
        source: "cycles.c",
        wrapper: "mpicc",
        flags: ["-O0", "-DFORM=0"],
        mpi: Mpi::Mpich,
        count: 500,
        is_sure: true,
    },
    Cycles {
        source: "cycles.c",
        wrapper: "mpicc",
        flags: ["-O3", "-DFORM=0"],
        mpi: Mpi::OpenMpi,
        count: 500,
        is_sure: true,
    },
    Cycles {
        source: "cycles.c",
        wrapper: "mpicc",
        flags: ["-O2", "-DFORM=1"],
        mpi: Mpi::Mpich,
        count: 500,
        is_sure: false,
    },
    Cycles {
        source: "cycles.c",
        wrapper: "mpicc",
        flags: ["-O2", "-DFORM=2"],
        mpi: Mpi::OpenMpi,
        count: 1,
        is_sure: true,
    },
    Cycles {
        source: "cycles.f90",
        wrapper: "mpifort",
        flags: ["-O0", "-g"],
        mpi: Mpi::OpenMpi,
        count: 500,
        is_sure: true,
    },
    Cycles {
        source: "cycles.f90",
        wrapper: "mpifort",
        flags: ["-O2", "-g"],
        mpi: Mpi::Mpich,
        count: 500,
        is_sure: true,
    },
];

/// Loops around the one that counts iterations, of which no pass was seen from its beginning to its end, are read where ranks call
/// out of them: exactly as the program counts them. They sleep, so that all of them can run at once.
#[test]
fn loops_around_are_read_where_ranks_stand_in_them() {
    let _alone = alone();
    std::thread::scope(|scope| {
        let mut checks: Vec<_> = CYCLES.iter().map(|one| scope.spawn(|| cycles_are_read(one))).collect();
        checks.push(scope.spawn(uncounted_cycles_are_read));
        checks.into_iter().for_each(|check| check.join().expect("it is as the program says"));
    });
}

/// Where no loop can count iterations, those in which ranks stand are read all the same.
fn uncounted_cycles_are_read() {
    let home = Home::new();
    let program = Program { source: "cycles.c", wrapper: "mpicc", function: "evolve" };
    let program = compiled(&home, &program, Mpi::OpenMpi, &["-O2", "-DFORM=3"]);
    let mut job = Launch::mpi(Mpi::OpenMpi, RANKS, &program).start().expect("it starts");
    job.rank_pids(LIMIT).expect("ranks");
    std::thread::sleep(Duration::from_secs(2));
    let texts = snapshots(&mut job);
    let (_, report) = home.attach(job.pid(), "--max-seconds 6").expect("a report");
    let cycles = job.stdout().lines().filter(|line| line.trim().parse::<u64>().is_ok()).count() as u64;
    assert_eq!(report.window.main_loop, None, "{:?}", report.window);
    let [outer] = &report.window.outer_progress[..] else { panic!("{:?}", report.window) };
    assert_eq!((cycles, outer.done, outer.to_come, outer.is_likely), (1, Some(0), Some(499), false), "{outer:?}");
    assert_unchanged(&texts, "a cycle that nobody waits for");
}

fn cycles_are_read(one: &Cycles) {
    let name = format!("{} {:?} {}", one.source, one.flags, one.mpi.name());
    let home = Home::new();
    let program = Program { source: one.source, wrapper: one.wrapper, function: "evolve" };
    let program = compiled(&home, &program, one.mpi, &one.flags);
    let mut job = Launch::mpi(one.mpi, RANKS, &program).start().expect("it starts");
    let cycle = |job: &mut Running| job.stdout().lines().last().and_then(|line| line.trim().parse::<u64>().ok());
    let deadline = Instant::now() + LIMIT;
    while cycle(&mut job) != Some(one.count.min(2) - 1) {
        assert!(Instant::now() < deadline, "{name}: it does not work: {}", job.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    let texts = snapshots(&mut job);
    let (code, report) = home.attach(job.pid(), "--iterations 4 --max-seconds 60").expect("a report");
    let latest = cycle(&mut job).expect("it counts");
    assert_eq!((code, report.window.valid), (0, true), "{name}: {:?} {:?}", report.window, report.warnings);
    let taken = report.window.main_loop.clone().expect("a loop");
    assert!(taken.function.ends_with("solve"), "{name}: {:?}", report.window);
    let [outer] = &report.window.outer_progress[..] else { panic!("{name}: {:?}", report.window) };
    let done = outer.done.unwrap_or_else(|| panic!("{name}: {:?}", report.window));
    // The look comes right after the window; the command ends a moment later.
    assert!(done <= latest && latest <= done + 1, "{name}: {latest} {outer:?}");
    assert_eq!((outer.to_come, outer.is_likely), (Some(one.count - 1 - done), !one.is_sure), "{name}: {outer:?}");
    assert_eq!(report.window.is_of_inner_loop(), one.count > 1, "{name}: {:?}", report.window);
    if one.count > 1 && one.is_sure {
        let said = home.trimtab(&["loops", "--json", &job.pid().to_string()]);
        let found: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
        let loops = found["loops"].as_array().expect("a list");
        let cycles = loops.iter().find(|one| one["function"].as_str().is_some_and(|name| name.ends_with("evolve")));
        let cycles = &cycles.unwrap_or_else(|| panic!("{name}: {found:#}"))["progress"];
        assert_eq!(cycles["total"], one.count, "{name}: {found:#}");
        assert!(cycles["done"].as_u64() >= Some(latest), "{name}: {found:#}");
    }
    assert_unchanged(&texts, &name);
}

/// Without hints the loop of the steps is found, whatever the calls in it repeat, and a job's windows keep to it.
#[test]
fn the_programs_loop_is_taken_without_hints() {
    let _alone = alone();
    for (program, mpi) in PROGRAMS.iter().zip([Mpi::Mpich, Mpi::OpenMpi, Mpi::Mpich]) {
        let home = Home::new();
        let name = format!("{} {}", program.source, mpi.name());
        let mut job = started(&compiled(&home, program, mpi, &["-O2", "-g"]), mpi);
        let texts = snapshots(&mut job);
        let options = format!("--iterations {ITERATIONS} --max-seconds 30");
        let mut taken = Vec::new();
        for window in 0..2 {
            let (code, report) = home.attach(job.pid(), &options).unwrap_or_else(|said| panic!("{name}: {said:?}"));
            assert_eq!((code, report.window.valid), (0, true), "{name} {window}: {:?}", report.warnings);
            assert_eq!(report.window.marker_source.word(), "detected", "{name}");
            let exchanges = calls(&report, "MPI_Sendrecv").0;
            assert_eq!(exchanges, u64::from(RANKS) * ITERATIONS * 5, "{name} {window}: {:?}", report.window);
            taken.push(report.window.main_loop.clone().expect("a loop of the program"));
        }
        assert_eq!(taken[0], taken[1], "{name}");
        assert!(taken[0].source().is_some_and(|at| at.starts_with(program.source)), "{name}: {taken:?}");
        let (_, by_calls) = home.attach(job.pid(), "--mark calls --max-seconds 5").expect("a report");
        assert_eq!(by_calls.window.main_loop, None, "{name}");
        assert_unchanged(&texts, &name);
    }
}

/// How often a rank waits until all messages of an exchange have come is no part of what its calls repeat.
#[test]
fn steps_whose_messages_come_in_parts_repeat() {
    let _alone = alone();
    let program = Program { source: "parts.c", wrapper: "mpicc", function: "main" };
    for mpi in Mpi::ALL {
        let home = Home::new();
        let mut job = started(&compiled(&home, &program, mpi, &["-O2", "-g"]), mpi);
        let texts = snapshots(&mut job);
        let options = format!("--mark calls --iterations {ITERATIONS} --max-seconds 30");
        let (code, report) = home.attach(job.pid(), &options).unwrap_or_else(|said| panic!("{mpi:?}: {said:?}"));
        assert_eq!((code, report.window.valid), (0, true), "{mpi:?}: {:?} {:?}", report.window, report.warnings);
        assert_eq!(calls(&report, "MPI_Isend").0, u64::from(RANKS) * ITERATIONS * 10, "{mpi:?}: {:?}", report.window);
        assert_unchanged(&texts, mpi.name());
    }
}

/// Ranks that send and ranks that receive are in loops of their own, on two sides of a branch: both are one loop's passes.
#[test]
fn loops_on_two_sides_of_a_branch_are_one() {
    let _alone = alone();
    let program = Program { source: "sides.c", wrapper: "mpicc", function: "exchange" };
    for (mpi, level) in [(Mpi::OpenMpi, "-O2"), (Mpi::Mpich, "-O0"), (Mpi::Mpich, "-O3")] {
        let home = Home::new();
        let name = format!("{} {level}", mpi.name());
        let mut job = started(&compiled(&home, &program, mpi, &[level, "-g"]), mpi);
        let texts = snapshots(&mut job);
        let options = format!("--iterations {ITERATIONS} --max-seconds 30");
        let (code, report) = home.attach(job.pid(), &options).unwrap_or_else(|said| panic!("{name}: {said:?}"));
        assert_eq!((code, report.window.valid), (0, true), "{name}: {:?}", report.warnings);
        let found = report.window.main_loop.clone().unwrap_or_else(|| panic!("{name}: {:?}", report.window));
        // Compilers may make a copy of the function for the arguments that they know.
        assert!(found.function.starts_with(program.function) && found.number.contains('+'), "{name}: {found:?}");
        let each = (u64::from(RANKS) * ITERATIONS, Some(u64::from(RANKS) * ITERATIONS * 512));
        assert_eq!((calls(&report, "MPI_Send"), calls(&report, "MPI_Recv").0), (each, each.0), "{name}");
        let named = format!("--loop {}:{} --iterations {ITERATIONS}", found.function, found.number);
        let (_, again) = home.attach(job.pid(), &named).unwrap_or_else(|said| panic!("{name}: {said:?}"));
        assert_eq!(again.window.main_loop.as_ref().map(|again| &again.number), Some(&found.number), "{name}");
        assert_eq!(calls(&again, "MPI_Send"), each, "{name}");
        let shown = nest_shown(&home, &job);
        let taken = taken_of(&shown).unwrap_or_else(|| panic!("{name}: none is taken: {shown:#}"));
        assert_eq!(taken["loop"].as_str(), Some(found.number.as_str()), "{name}: {shown:#}");
        assert!(taken["passes_min"].as_u64().is_some_and(|passes| passes > 20), "{name}: {shown:#}");
        assert!(
            taken["mpi_calls_per_pass"].as_f64().is_some_and(|calls| (calls - 2.0).abs() < 0.2),
            "{name}: {shown:#}"
        );
        assert_unchanged(&texts, &name);
    }
}

/// The nest as `trimtab loops` shows it.
fn nest_shown(home: &Home, job: &Running) -> Value {
    // A loop that nobody passes is waited for a third of these seconds.
    let said = home.trimtab(&["loops", &job.pid().to_string(), "--json", "--samples", "20", "--max-seconds", "15"]);
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

fn taken_of(shown: &Value) -> Option<&Value> {
    shown["taken"].as_u64().map(|number| &shown["loops"][number as usize - 1])
}

/// One rank that hands out what two others do passes its loop twice as often as they pass theirs.
#[test]
fn loops_that_ranks_pass_unequally_often_are_not_one() {
    let _alone = alone();
    let home = Home::new();
    let program = Program { source: "sides.c", wrapper: "mpicc", function: "hand_out" };
    let path = compiled(&home, &program, Mpi::OpenMpi, &["-O2", "-g"]);
    let launch = Launch::mpi(Mpi::OpenMpi, RANKS + 1, &path).args(["hand-out"]);
    let mut job = working(launch.start().expect("it starts"));
    let texts = snapshots(&mut job);
    let (_, report) = home.attach(job.pid(), &format!("--iterations {ITERATIONS} --max-seconds 12")).expect("a report");
    assert_eq!(report.window.main_loop, None, "{:?}", report.window);
    let said = report.window.loop_description.clone().unwrap_or_default();
    assert!(said.contains("one may hand out what the others do"), "{said}");
    let shown = nest_shown(&home, &job);
    assert!(taken_of(&shown).is_none_or(|taken| !taken["loop"].to_string().contains('+')), "{shown:#}");
    assert!(shown["notes"].to_string().contains("one may hand out what the others do"), "{shown:#}");
    assert_unchanged(&texts, "hand out");
}

fn snapshots(job: &mut Running) -> Vec<TextSnapshot> {
    let pids = job.rank_pids(LIMIT).expect("ranks");
    pids.iter().map(|pid| TextSnapshot::of(*pid).expect("its text can be read")).collect()
}

fn assert_unchanged(texts: &[TextSnapshot], name: &str) {
    for text in texts {
        assert_eq!(text.difference_now().expect("it runs"), None, "{name}: process {}", text.pid());
    }
}

/// A loop inside is another one, and a name without a number must mean one loop.
#[test]
fn a_loop_is_chosen_by_its_number() {
    let _alone = alone();
    let home = Home::new();
    let job = started(&compiled(&home, &PROGRAMS[0], Mpi::Mpich, &["-O0", "-g"]), Mpi::Mpich);
    let (_, report) = home.attach(job.pid(), "--loop solve:1.1 --iterations 12").expect("a report");
    let sends = calls(&report, "MPI_Sendrecv").0;
    // The test of the inner loop's condition is a pass too when it ends.
    assert!((16..=24).contains(&sends), "{sends} calls in 12 passes of each rank");
    assert!(report.window.marker.as_deref().is_some_and(|marker| marker.starts_with("loop 1.1 of solve at steps.c:")));
    let (_, of_nest) = home.attach(job.pid(), "--loop 1 --iterations 12").expect("a report");
    let marker = of_nest.window.marker.clone().unwrap_or_default();
    assert!(marker.starts_with("loop 1 of solve at steps.c:"), "{marker}");
    assert_eq!(calls(&of_nest, "MPI_Sendrecv").0, u64::from(RANKS) * 12 * 5, "five exchanges in a step");
    let described = of_nest.window.loop_description.clone().unwrap_or_default();
    assert!(described.starts_with("the outermost of the program's loops that run"), "{described}");
    for (asked, said) in [
        ("9", "so there is no loop 9; `trimtab loops PID` shows them"),
        ("solve:4", "solve has no loop 4; it has 1 at steps.c:"),
        ("main", "main has no loop"),
        ("nobody:1", "no function matches"),
    ] {
        let pid = job.pid().to_string();
        let refused = home.trimtab(&["attach", "--loop", asked, &pid]);
        assert!(refused.code == 2 && refused.stderr.contains(said), "{asked}: {refused:?}");
    }
}

/// A loop of which nobody can count the passes is known not to be passed while what it calls is not called anew.
#[test]
fn a_loop_that_cannot_be_counted_hides_none_inside() {
    let _alone = alone();
    let home = Home::new();
    let program = Program { source: "hidden.c", wrapper: "mpicc", function: "steps" };
    let mut job = started(&compiled(&home, &program, Mpi::Mpich, &["-O0", "-g"]), Mpi::Mpich);
    let texts = snapshots(&mut job);
    let pid = job.pid().to_string();
    let refused = home.trimtab(&["attach", "--loop", "1", &pid]);
    assert!(refused.code == 2 && refused.stderr.contains("is entered at several places"), "{refused:?}");
    let (code, report) = home.attach(job.pid(), "--iterations 12").expect("a report");
    assert_eq!((code, report.window.valid), (0, true), "{:?}", report.warnings);
    let found = report.window.main_loop.clone().unwrap_or_else(|| panic!("{:?}", report.window));
    assert_eq!((found.function.as_str(), report.window.marker_source.word()), ("steps", "detected"));
    assert_eq!(calls(&report, "MPI_Sendrecv").0, u64::from(RANKS) * 12 * 3, "three exchanges in a step");
    assert_eq!(report.functions.iter().find(|one| one.name == "calls of steps").map(|one| one.calls_counted()), None);
    let mut loops = report.functions.iter().filter(|one| one.name.starts_with("loop ")).peekable();
    assert!(loops.peek().is_some() && loops.all(|one| one.group.word() == "loop"), "{:?}", report.functions);
    let shown = home.trimtab(&["loops", "--json", "--samples", "12", &pid]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap_or_else(|_| panic!("{shown:?}"));
    let taken = shown["taken"].as_u64().unwrap_or_else(|| panic!("{shown:#}")) as usize;
    assert_eq!(shown["loops"][taken - 1]["function"], "steps", "the command takes what windows take");
    assert!(shown["loops"][0]["not_counted_because"].to_string().contains("was not passed"), "{shown:#}");
    assert_unchanged(&texts, "hidden");
}

/// A thread that goes through the same loop more often and sends nothing does not count.
#[test]
fn passes_of_one_thread_are_iterations() {
    let _alone = alone();
    let home = Home::new();
    let program = Program { source: "threads.c", wrapper: "mpicc", function: "solve" };
    let job = started(&compiled(&home, &program, Mpi::Mpich, &["-O2", "-pthread"]), Mpi::Mpich);
    let mut is_wrong_thread = 0;
    for _ in 0..3 {
        let (code, report) = home.attach(job.pid(), "--loop solve --iterations 12").expect("a report");
        // A thread that sends may be kept from a processor for a second, in which the other one passes alone.
        if report.warnings.iter().any(|warning| warning.contains("are passes of a thread that called no MPI")) {
            assert!(code != 0 && !report.window.valid, "{code} {:?}", report.window);
            is_wrong_thread += 1;
            continue;
        }
        assert_eq!((code, calls(&report, "MPI_Sendrecv").0), (0, u64::from(RANKS) * 12), "{:?}", report.window);
        assert!(
            report.warnings.iter().any(|warning| warning.contains("passes of other threads")),
            "{:?}",
            report.warnings
        );
    }
    assert!(is_wrong_thread < 3, "no window counted the thread that sends");
}

/// The thread that sends is kept from its processor once probes are in, for longer than another one has to pass the loop alone
/// until it counts. It takes over once it comes, so calls are those of the iterations.
#[test]
fn a_thread_that_calls_mpi_takes_over_from_one_that_does_not() {
    let _alone = alone();
    let home = Home::new();
    let program = Program { source: "late_thread.c", wrapper: "mpicc", function: "solve" };
    let job = started(&compiled(&home, &program, Mpi::Mpich, &["-O2", "-pthread"]), Mpi::Mpich);
    let (code, report) = home.attach(job.pid(), "--loop solve --iterations 12").expect("a report");
    assert!(!report.warnings.iter().any(|warning| warning.contains("called no MPI")), "{:?}", report.warnings);
    assert_eq!((code, calls(&report, "MPI_Sendrecv").0), (0, u64::from(RANKS) * 12), "{:?}", report.window);
}

/// The thread that sends comes back when passes of the other one are numbered already: no number of such a window is right.
#[test]
fn a_window_of_a_thread_that_calls_no_mpi_is_invalid() {
    let _alone = alone();
    let home = Home::new();
    let program = Program { source: "late_thread.c", wrapper: "mpicc", function: "solve" };
    let flags = ["-O2", "-pthread", "-DAWAY_US=6000000"];
    let mut job = started(&compiled(&home, &program, Mpi::Mpich, &flags), Mpi::Mpich);
    let texts = snapshots(&mut job);
    let (code, report) = home.attach(job.pid(), "--loop solve --iterations 50").expect("a report");
    let fault = "are passes of a thread that called no MPI";
    assert!(report.warnings.iter().any(|warning| warning.contains(fault)), "{:?}", report.warnings);
    assert!(code != 0 && !report.window.valid, "{code} {:?}", report.window);
    assert!(calls(&report, "MPI_Sendrecv").0 > 0, "it had come back: {:?}", report.functions);
    assert_unchanged(&texts, "a silent thread");
}

/// Passes that come in bursts: how many fill the seconds asked for can't be told from how long they took before.
#[test]
fn a_window_of_bursts_is_as_long_as_asked() {
    let _alone = alone();
    let home = Home::new();
    let program = Program { source: "bursts.c", wrapper: "mpicc", function: "steps" };
    let job = started(&compiled(&home, &program, Mpi::Mpich, &["-O2"]), Mpi::Mpich);
    for _ in 0..3 {
        let (code, report) = home.attach(job.pid(), "--loop steps --at-least 0.2").expect("a report");
        let window = &report.window;
        let shortest_s = report.ranks.iter().map(|rank| rank.duration_s).fold(f64::INFINITY, f64::min);
        // A pause of a burst more or less, and as long again until all ranks come to one end.
        let is_asked = (0.18..6.0).contains(&shortest_s);
        assert!(code == 0 && is_asked, "{shortest_s} s: {window:?} {:?}", report.warnings);
        let iterations = window.iterations.expect("it counts");
        assert_eq!(calls(&report, "MPI_Sendrecv").0, u64::from(RANKS) * iterations, "{window:?}");
        println!("{iterations} iterations in {shortest_s} s");
    }
}

/// A killed trimtab leaves loops counted, and the next one takes that out.
#[test]
fn what_a_killed_trimtab_left_is_undone() {
    let _alone = alone();
    let home = Home::new();
    let mut job = started(&compiled(&home, &PROGRAMS[0], Mpi::OpenMpi, &["-O2", "-g"]), Mpi::OpenMpi);
    let texts = snapshots(&mut job);
    let pid = job.pid().to_string();
    let mut command = home.command(&["attach", "--loop", "solve", "--iterations", "1000000000", &pid]);
    let mut attach = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("trimtab runs");
    let deadline = Instant::now() + LIMIT;
    while texts.iter().any(|text| text.difference_now().expect("it runs").is_none()) {
        assert!(Instant::now() < deadline, "nothing was patched");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(200));
    attach.kill().expect("it runs");
    attach.wait().expect("it has ended");
    let undone = home.trimtab(&["undo", &pid]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_unchanged(&texts, "undone");
    let (code, _) = home.attach(job.pid(), "--loop solve --iterations 8").expect("a report");
    assert_eq!(code, 0);
}
