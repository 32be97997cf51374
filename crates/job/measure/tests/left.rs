//! Loops that a program leaves before a window of them begins, or while it is recorded, and loops whose passes have more
//! calls than a rank remembers: the window is of what runs then, or of what was recorded, says so, and doesn't wait for its
//! limit of time.
//!
//! Next: `common` for nodes that are spoken to in bytes.

#[allow(dead_code, reason = "of what is there only the nodes are asked")]
mod common;

use common::{LIMIT, Wires, options};
use rustix::process::{Pid as Process, Signal, kill_process};
use std::path::Path;
use std::process::Command;
use std::sync::Once;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use trimtab_measure::{
    Crew, Here, Mark, NotYet, Options, Progress, RecordedSoFar, Silent, WindowId, WindowNode, WindowStage,
    has_static_mpi, measure_with,
};
use trimtab_session::ImageCache;
use trimtab_specimens::{Launch, Mpi, Running, TextSnapshot, threads_running};
use trimtab_track::{Job, ProcFs, find_job_in};
use trimtab_types::Pid;
use trimtab_types::report::Report;

const RANKS: u32 = 2;
const ITERATIONS: u64 = 5;
/// Each loop that is left takes some seconds of it, and a third of what remains is to hold three passes of a second.
const MAX_SECONDS: f64 = 40.0;
/// Windows in which it must go as meant once: another process may keep the test from running at the wrong moment.
const ATTEMPTS_MAX: u32 = 3;

/// The program at work.
struct Program {
    _folder: TempDir,
    _running: Running,
    pids: Vec<i32>,
    job: Job,
    before: Vec<(TextSnapshot, usize)>,
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder of its own");
        let program = folder.path().join("left");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/left/left.c");
        let compiled = Command::new("mpicc.openmpi").args(["-O1", "-g", "-o"]).arg(&program).arg(&source).status();
        assert!(compiled.expect("the compiler runs").success(), "it compiles");
        let mut running = Launch::mpi(Mpi::OpenMpi, RANKS, &program).args(arguments).start().expect("it starts");
        let pids = running.rank_pids(LIMIT).expect("the ranks start");
        let deadline = Instant::now() + LIMIT;
        while running.stdout().matches("at work").count() < RANKS as usize {
            assert!(Instant::now() < deadline, "it does not work: {}", running.stderr());
            std::thread::sleep(Duration::from_millis(3));
        }
        let job = find_job_in(&ProcFs::new(), Pid(running.pid()), &has_static_mpi).expect("the job is found");
        let before =
            |pid: &i32| (TextSnapshot::of(*pid).expect("its text"), threads_running(*pid).expect("its threads"));
        Program { before: pids.iter().map(before).collect(), _folder: folder, _running: running, pids, job }
    }

    fn window(&self, crew: &mut dyn Crew, progress: &dyn Progress) -> Report {
        self.window_of(crew, progress, ITERATIONS)
    }

    fn window_of(&self, crew: &mut dyn Crew, progress: &dyn Progress, iterations: u64) -> Report {
        let options = Options {
            functions: Vec::new(),
            arguments: Vec::new(),
            detail: 0,
            max_seconds: MAX_SECONDS,
            // Calls to itself take less time than their probes.
            max_cost: Some(100.0),
            trigger: "attach".to_owned(),
            ..options(Mark::Auto, iterations)
        };
        measure_with(crew, WindowId(1), &options, progress).expect("a window").report
    }

    fn assert_restored(&self) {
        for (text, threads) in &self.before {
            assert_eq!(text.difference_now().expect("its text"), None, "process {}", text.pid());
            assert_eq!(threads_running(text.pid()).expect("its threads"), *threads, "process {}", text.pid());
        }
    }
}

/// The moment at which the program is to leave its loop.
#[derive(Clone, Copy)]
enum Moment {
    /// While calls are looked at, because no loop runs.
    Looking,
    /// While the passes of the loops that run are counted.
    Counting,
    /// As soon as all ranks know where to begin.
    Armed,
    /// When all have recorded so many iterations.
    Recorded(u64),
}

/// Has the program leave its loop.
struct Leaving<'a> {
    pids: &'a [i32],
    moment: Moment,
    once: Once,
}

impl<'a> Leaving<'a> {
    fn at(moment: Moment, program: &'a Program) -> Self {
        Leaving { pids: &program.pids, moment, once: Once::new() }
    }
}

impl Leaving<'_> {
    fn leave(&self) {
        self.once.call_once(|| {
            for pid in self.pids.iter().filter_map(|pid| Process::from_raw(*pid)) {
                kill_process(pid, Signal::USR1).expect("it runs");
            }
        });
    }
}

impl Progress for Leaving<'_> {
    fn stage(&self, stage: &WindowStage) {
        let is_time = match (self.moment, stage) {
            (Moment::Counting, WindowStage::Observing { why, .. }) => *why == NotYet::CountingPasses,
            (Moment::Looking, WindowStage::Observing { why, .. }) => *why != NotYet::CountingPasses,
            (Moment::Armed, WindowStage::Armed { .. }) => true,
            _ => false,
        };
        if is_time {
            self.leave();
        }
    }

    fn recorded(&self, recorded: RecordedSoFar) {
        if matches!(self.moment, Moment::Recorded(after) if recorded.done >= after) {
            self.leave();
        }
    }
}
#[test]
fn a_loop_that_is_left_before_the_window_is_not_waited_for() {
    let attempt = |_| {
        let program = Program::start(&[]);
        let cache = ImageCache::in_memory();
        let leaving = Leaving::at(Moment::Armed, &program);
        let report = program.window(&mut Wires::new(&program.job, &cache), &leaving);
        program.assert_restored();
        // Where it is left a pass later than meant the window has begun, and waits for its limit.
        let is_of_first = |report: &Report| report.window.main_loop.as_ref().is_some_and(|it| it.function == "prepare");
        (!is_of_first(&report)).then_some(report)
    };
    let report = (0..ATTEMPTS_MAX).find_map(attempt).expect("a window of the main loop");
    let window = &report.window;
    let found = window.main_loop.as_ref().unwrap_or_else(|| panic!("{window:?} {:?}", report.warnings));
    assert_eq!((found.function.as_str(), window.iterations), ("solve", Some(ITERATIONS)), "{window:?}");
    assert!(window.valid, "{:?}", report.warnings);
    let said = window.loop_description.clone().unwrap_or_default();
    assert!(
        said.contains("loop 1 of prepare at left.c:")
            && said.contains("was not passed any more before a window of it began"),
        "{said}"
    );
    assert!(report.cost.pause_us_total.is_some_and(|us| us > 0.0), "{:?}", report.cost);
}

#[test]
fn loops_that_are_left_while_they_are_counted_are_not_waited_for() {
    let program = Program::start(&[]);
    let cache = ImageCache::in_memory();
    let leaving = Leaving::at(Moment::Counting, &program);
    let report = program.window(&mut Wires::new(&program.job, &cache), &leaving);
    program.assert_restored();
    let window = &report.window;
    let found = window.main_loop.as_ref().unwrap_or_else(|| panic!("{window:?} {:?}", report.warnings));
    assert_eq!((found.function.as_str(), window.iterations), ("solve", Some(ITERATIONS)), "{window:?}");
    let said = window.loop_description.clone().unwrap_or_default();
    assert!(window.valid, "{said} {:?}", report.warnings);
    assert!(said.contains("loop 1 of prepare at left.c:") && said.contains(" ran first"), "{said}");
}

#[test]
fn the_main_loop_of_a_program_that_sets_up_is_found_once_it_runs() {
    let program = Program::start(&["set-up"]);
    let cache = ImageCache::in_memory();
    let leaving = Leaving::at(Moment::Looking, &program);
    let report = program.window(&mut Wires::new(&program.job, &cache), &leaving);
    program.assert_restored();
    let window = &report.window;
    let found = window.main_loop.as_ref().unwrap_or_else(|| panic!("{window:?} {:?}", report.warnings));
    assert_eq!((found.function.as_str(), window.iterations), ("solve", Some(ITERATIONS)), "{window:?}");
    assert!(window.valid, "{:?}", report.warnings);
}

/// The loop that was left was a part of the first step, and the other one is a part of each.
#[test]
fn a_loop_around_one_that_was_left_is_waited_for() {
    let attempt = |_| {
        let program = Program::start(&["parts"]);
        let cache = ImageCache::in_memory();
        let leaving = Leaving::at(Moment::Armed, &program);
        let report = program.window_of(&mut Wires::new(&program.job, &cache), &leaving, 3);
        program.assert_restored();
        let is_of_first = |report: &Report| report.window.main_loop.as_ref().is_some_and(|it| it.function == "prepare");
        (!is_of_first(&report)).then_some(report)
    };
    let report = (0..ATTEMPTS_MAX).find_map(attempt).expect("a window of what runs then");
    let window = &report.window;
    let found = window.main_loop.as_ref().unwrap_or_else(|| panic!("{window:?} {:?}", report.warnings));
    assert_eq!((found.function.as_str(), window.iterations), ("steps", Some(3)), "{window:?}");
    let exchanges = report.functions.iter().find(|one| one.name == "MPI_Sendrecv").map(|one| one.calls_counted());
    assert_eq!(exchanges, Some(u64::from(RANKS) * 3 * 50), "{:?}", report.functions);
}

#[test]
fn a_loop_that_is_left_early_in_the_window_gives_way_to_what_runs_then() {
    let program = Program::start(&[]);
    let cache = ImageCache::in_memory();
    let leaving = Leaving::at(Moment::Recorded(2), &program);
    let report = program.window_of(&mut Wires::new(&program.job, &cache), &leaving, 20);
    program.assert_restored();
    let window = &report.window;
    let found = window.main_loop.as_ref().unwrap_or_else(|| panic!("{window:?} {:?}", report.warnings));
    assert_eq!((found.function.as_str(), window.iterations), ("solve", Some(20)), "{window:?}");
    assert!(window.valid, "{:?}", report.warnings);
    let said = window.loop_description.clone().unwrap_or_default();
    assert!(said.contains("loop 1 of prepare at left.c:") && said.contains("left it after"), "{said}");
}

#[test]
fn a_loop_that_is_left_late_in_the_window_ends_it() {
    let program = Program::start(&[]);
    let cache = ImageCache::in_memory();
    let leaving = Leaving::at(Moment::Recorded(12), &program);
    let report = program.window_of(&mut Wires::new(&program.job, &cache), &leaving, 150);
    program.assert_restored();
    let window = &report.window;
    let found = window.main_loop.as_ref().unwrap_or_else(|| panic!("{window:?} {:?}", report.warnings));
    assert_eq!((found.function.as_str(), window.ended_by.word()), ("prepare", "left-loop"), "{window:?}");
    assert!(window.valid, "{:?}", report.warnings);
    let iterations = window.iterations.unwrap_or_default();
    assert!((12..150).contains(&iterations), "{window:?}");
    let is_told = |warning: &String| {
        warning.contains("left loop 1 of prepare at left.c:")
            && warning.contains(&format!("after {iterations} iterations"))
    };
    assert!(report.warnings.iter().any(is_told), "{:?}", report.warnings);
    // Both are called behind the last mark, the first one in each pass, too, and the other one only there.
    let is_left_out = |name: &str| report.functions.iter().all(|one| one.name != name);
    assert!(is_left_out("MPI_Allreduce") && is_left_out("MPI_Sendrecv"), "{:?}", report.functions);
    let passes = report.functions.iter().find(|one| one.name == "loop 1 of prepare").map(|one| one.calls_counted());
    assert_eq!(passes, Some(u64::from(RANKS) * iterations), "{:?}", report.functions);
    let said = "left out: MPI_Allreduce";
    assert!(report.warnings.iter().any(|warning| warning.ends_with(said)), "{:?}", report.warnings);
    let reports = report.ranks.iter().map(|rank| (rank.iterations, rank.iteration_times_s.len() as u64));
    assert!(reports.into_iter().all(|rank| rank == (Some(iterations), iterations)), "{:?}", report.ranks);
}

#[test]
fn passes_with_more_calls_than_a_rank_remembers_are_iterations() {
    let program = Program::start(&["chat"]);
    let cache = ImageCache::in_memory();
    // Nodes look at the same time, which those of a test that are asked one after the other do not.
    let report = program.window(&mut Here { node: WindowNode::new(0, program.job.clone(), &cache) }, &Silent);
    program.assert_restored();
    let window = &report.window;
    let found = window.main_loop.as_ref().unwrap_or_else(|| panic!("{window:?} {:?}", report.warnings));
    assert_eq!((found.function.as_str(), window.iterations), ("chat", Some(ITERATIONS)), "{window:?}");
    let calls = report.functions.iter().find(|one| one.name == "MPI_Sendrecv").map(|one| one.calls_counted());
    assert_eq!(calls, Some(u64::from(RANKS) * ITERATIONS * 30_001), "{window:?} {:?}", report.functions);
    assert!(report.warnings.iter().any(|warning| warning.contains("likely, not proven")), "{:?}", report.warnings);
}
