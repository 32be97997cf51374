//! `cargo xtask test`: sets the machine up, runs every test, counts, and says loudly what was skipped.
//!
//! Tests that attach to running programs share two cores with them; their crates run one test at a time. Most of their time
//! they wait, so one program more than there are processors runs beside the others, but for those that compare times. A test that fails is run once more
//! with nothing beside it, and that verdict counts; only tests that prove that nothing is harmed, and any that finds a program's text changed, have no second chance. A test that cannot run here appends `SKIPPED: name: reason` to the file named by `TRIMTAB_SKIP_LOG` (docs/testing.md); libtest
//! counts it as passed, so it is taken out of that count here.
//!
//! Next: docs/testing.md for the convention, `tally` for the counting, `programs` for what is built, `setup` for what is installed first.

use crate::programs::{self, TestProgram};
use crate::slowest::{Slowest, Stopwatch};
use crate::tally::{SKIP_MARK, Tally};
use crate::{Outcome, setup, shell};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Crates whose tests attach to running programs: one test at a time.
const ATTACHING: &[&str] = &[
    "trimtab-os",
    "trimtab-session",
    "trimtab-stub",
    "trimtab-track",
    "trimtab-watch",
    "trimtab-measure",
    "trimtab-script",
    "trimtab-specimens",
    "trimtab-torture",
    "trimtab",
];
/// Programs whose tests compare times, loads or the jobs of the whole machine: nothing else runs beside them.
const ALONE: &[(&str, &str)] = &[
    ("trimtab", "tests/corun.rs"),
    ("trimtab", "tests/events.rs"),
    ("trimtab", "tests/first_call.rs"),
    ("trimtab", "tests/links.rs"),
    ("trimtab", "tests/links_net.rs"),
    ("trimtab", "tests/model.rs"),
    ("trimtab", "tests/numbers.rs"),
    ("trimtab", "tests/openmp.rs"),
    ("trimtab", "tests/path_sums.rs"),
    ("trimtab", "tests/pressure.rs"),
    ("trimtab", "tests/probe_limits.rs"),
    ("trimtab", "tests/scaling.rs"),
    ("trimtab", "tests/shares.rs"),
    ("trimtab-measure", "tests/counters.rs"),
];
/// Programs whose tests make nodes of this machine, and mostly wait for these: they begin first.
const ON_NODES: &[(&str, &str)] = &[
    ("trimtab", "tests/cluster.rs"),
    ("trimtab", "tests/hosts.rs"),
    ("trimtab", "tests/jobs.rs"),
    ("trimtab", "tests/manual.rs"),
    ("trimtab", "tests/run_whole.rs"),
    ("trimtab", "tests/site.rs"),
    ("trimtab", "tests/site_whole.rs"),
    ("trimtab", "tests/slurm.rs"),
    ("trimtab", "tests/weather_net.rs"),
    ("trimtab-testbed", "tests/nodes.rs"),
];
/// Programs whose tests prove that nothing is harmed: what fails once has failed, in company too.
const HARMLESS: &[(&str, &str)] =
    &[("trimtab", "tests/hazards.rs"), ("trimtab-session", "tests/hazards.rs"), ("trimtab-torture", "tests/short.rs")];
/// How many programs run beside each other: those on nodes mostly wait, but ranks of MPICH poll.
const LANES: usize = 3;
/// Names the file to which a test appends why it could not run.
const SKIP_LOG_VARIABLE: &str = "TRIMTAB_SKIP_LOG";

/// `cargo xtask test [--quick] [FILTER...]`.
pub fn command(arguments: &[String]) -> Result<Outcome> {
    let (options, filters): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|word| word.starts_with('-'));
    if let Some(unknown) = options.iter().find(|option| **option != "--quick") {
        bail!("test takes --quick and filters, got `{unknown}`");
    }
    setup::prepare()?;
    let root = shell::root()?;
    let target = root.join("target");
    std::fs::create_dir_all(&target).context("cannot create target")?;
    let skip_log = target.join("skipped-tests.log");
    std::fs::write(&skip_log, "").context("cannot empty the log of skipped tests")?;
    let quick = !options.is_empty();
    let mut tally = Tally::default();
    let mut slowest = Slowest::default();
    let mut clock = Clock::new();
    let programs = programs::build(&root).unwrap_or_else(|error| {
        tally.problems.push(format!("{error:#}"));
        Vec::new()
    });
    clock.ends("build");
    let (company, alone) = in_order(programs.iter(), quick);
    let surroundings = Surroundings { root: &root, skip_log: &skip_log, filters: &filters };
    let lanes = std::thread::available_parallelism().map_or(1, |count| (count.get() + 1).min(LANES));
    let doubtful = run_in_lanes(&surroundings, company, lanes, &mut tally, &mut slowest)?;
    clock.ends("beside each other");
    let compared = run_alone(&surroundings, alone, &mut tally, &mut slowest)?;
    clock.ends("alone");
    for (task, first) in doubtful.into_iter().chain(compared) {
        run_again(&surroundings, &task, first, &mut tally)?;
    }
    clock.ends("again");
    println!("\nthe slowest tests:");
    slowest.said().iter().for_each(|line| println!("{line}"));
    println!("\n{}", clock.said());
    tally.read_skip_log(&std::fs::read_to_string(&skip_log).context("cannot read the log of skipped tests")?);
    print_end(&tally, quick, &target)
}

/// How long the parts of a run took.
struct Clock {
    since: Instant,
    parts: Vec<String>,
}

impl Clock {
    fn new() -> Clock {
        Clock { since: Instant::now(), parts: Vec::new() }
    }

    /// The part that began when the last one ended is over.
    fn ends(&mut self, part: &str) {
        self.parts.push(format!("{part} {} s", self.since.elapsed().as_secs()));
        self.since = Instant::now();
    }

    fn said(&self) -> String {
        format!("time of the tests: {}", self.parts.join(", "))
    }
}

/// A unit that is run at once: a test program, or the examples in comments of all crates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task<'a> {
    Program(&'a TestProgram),
    Examples,
}

impl Task<'_> {
    fn name(&self) -> String {
        match self {
            Task::Program(program) => format!("{} of {}", program.source.display(), program.package),
            Task::Examples => "examples in comments".to_string(),
        }
    }

    fn heading(&self, root: &Path) -> String {
        match self {
            Task::Program(program) => program.heading(root),
            Task::Examples => "     Running examples in comments".to_string(),
        }
    }

    /// Its tests attach to running programs, and run one at a time.
    fn attaches(&self) -> bool {
        matches!(self, Task::Program(program) if ATTACHING.contains(&program.package.as_str()))
    }

    fn is_in(&self, table: &[(&str, &str)]) -> bool {
        let Task::Program(program) = self else { return false };
        table.iter().any(|(package, source)| program.package == *package && program.source == Path::new(source))
    }
}

/// The programs to run beside others, in the order in which they are begun, and those that run with nothing beside
/// them.
fn in_order<'a>(programs: impl Iterator<Item = &'a TestProgram>, quick: bool) -> (Vec<Task<'a>>, Vec<Task<'a>>) {
    let all = programs.map(Task::Program).chain([Task::Examples]);
    let is_left_out =
        |task: &Task<'_>| quick && task.attaches() && matches!(task, Task::Program(program) if program.is_integration);
    let (alone, mut company): (Vec<_>, Vec<_>) =
        all.filter(|task| !is_left_out(task)).partition(|task| task.is_in(ALONE));
    // The longest begin first: those on nodes, which follow each other, then those of hazards and the examples of all crates. Programs
    // that wait and those that compute mix by the rest of the order.
    let is_long = |task: &Task<'_>| task.is_in(HARMLESS) || *task == Task::Examples;
    company.sort_by_key(|task| (!task.is_in(ON_NODES), !is_long(task), !task.attaches()));
    (company, alone)
}

/// All programs are run with these.
struct Surroundings<'a> {
    root: &'a Path,
    skip_log: &'a Path,
    filters: &'a [&'a String],
}

/// When the output of a program is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Show {
    /// Line by line.
    AtOnce,
    /// As a whole when it has ended, so that programs do not mix.
    AtTheEnd,
}

/// One program's output and how its tests ended.
struct Counted {
    lines: Vec<String>,
    tally: Tally,
    slowest: Slowest,
}

impl Surroundings<'_> {
    /// Runs its tests; with `names`, only these.
    fn command(&self, task: &Task<'_>, names: &[String]) -> Command {
        let mut command = match task {
            Task::Program(program) => program.command(),
            Task::Examples => shell::cargo(self.root, &["test", "--workspace", "--doc", "--no-fail-fast", "--"]),
        };
        if names.is_empty() {
            command.args(self.filters);
        } else {
            command.arg("--exact").args(names);
        }
        if task.attaches() {
            command.arg("--test-threads=1");
        }
        command.env(SKIP_LOG_VARIABLE, self.skip_log);
        command
    }

    /// Runs a program's tests to their end; with `names`, only these.
    fn count(&self, task: &Task<'_>, names: &[String], show: Show) -> Result<Counted> {
        let watch = Stopwatch::new(&task.name(), task.attaches());
        self.count_timed(&mut self.command(task, names), show, watch)
    }

    fn count_timed(&self, tests: &mut Command, show: Show, mut watch: Stopwatch) -> Result<Counted> {
        let line = shell::display(tests);
        let began = Instant::now();
        let started = tests.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = started.with_context(|| format!("cannot start `{line}`"))?;
        let stdout = child.stdout.take().context("it has no stdout")?;
        let (mut lines, mut tally) = (Vec::new(), Tally::default());
        for bytes in BufReader::new(stdout).split(b'\n') {
            let bytes = bytes.with_context(|| format!("cannot read what `{line}` says"))?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            tally.read_line(&text);
            watch.read_line(&text, began.elapsed());
            match show {
                Show::AtOnce => println!("{text}"),
                Show::AtTheEnd => lines.push(text),
            }
        }
        let status = child.wait().with_context(|| format!("cannot wait for `{line}`"))?;
        tally.end_of(&line, status);
        Ok(Counted { lines, tally, slowest: watch.end(began.elapsed()) })
    }
}

/// Runs so many programs beside each other and counts those whose tests all passed. Returns the others.
fn run_in_lanes<'a>(
    surroundings: &Surroundings<'_>,
    tasks: Vec<Task<'a>>,
    lanes: usize,
    tally: &mut Tally,
    slowest: &mut Slowest,
) -> Result<Vec<(Task<'a>, Tally)>> {
    let queue = Mutex::new(tasks.into_iter());
    let results = Mutex::new((tally, Vec::new(), slowest));
    let lane = || -> Result<()> {
        loop {
            let Some(task) = locked(&queue).next() else { return Ok(()) };
            let Counted { lines, tally, slowest } = surroundings.count(&task, &[], Show::AtTheEnd)?;
            let mut results = locked(&results);
            results.2.add(slowest);
            println!("{}", task.heading(surroundings.root));
            lines.iter().for_each(|line| println!("{line}"));
            match tally.failed() {
                0 => results.0.add(tally),
                _ if task.is_in(HARMLESS) || tally.has_harmed() => results.0.add(tally),
                _ => results.1.push((task, tally)),
            }
        }
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        let ended = all.into_iter().map(|lane| lane.join().unwrap_or_else(|_| bail!("a lane panicked")));
        ended.collect::<Result<Vec<()>>>()
    })?;
    Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner).1)
}

/// Runs programs one after the other and counts those whose tests all passed. Returns the others: they compare times, and
/// the machine may be shared with others that nobody sees from here.
fn run_alone<'a>(
    surroundings: &Surroundings<'_>,
    tasks: Vec<Task<'a>>,
    tally: &mut Tally,
    slowest: &mut Slowest,
) -> Result<Vec<(Task<'a>, Tally)>> {
    let mut doubtful = Vec::new();
    for task in tasks {
        println!("{}", task.heading(surroundings.root));
        let counted = surroundings.count(&task, &[], Show::AtOnce)?;
        slowest.add(counted.slowest);
        match counted.tally.failed() {
            0 => tally.add(counted.tally),
            _ if counted.tally.has_harmed() => tally.add(counted.tally),
            _ => doubtful.push((task, counted.tally)),
        }
    }
    Ok(doubtful)
}

/// A test that failed is asked once more, with nothing beside it, and that verdict counts. That it failed is said all the same.
fn run_again(surroundings: &Surroundings<'_>, task: &Task<'_>, first: Tally, tally: &mut Tally) -> Result<()> {
    let names = first.failed_tests();
    println!("{}, again with nothing beside it", task.heading(surroundings.root));
    let again = surroundings.count(task, &names.clone().unwrap_or_default(), Show::AtOnce)?;
    tally.add_again(first, again.tally, names.is_some());
    Ok(())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn print_end(tally: &Tally, quick: bool, target: &Path) -> Result<Outcome> {
    println!();
    if quick {
        println!("--quick: the integration tests of these crates were left out: {}", ATTACHING.join(", "));
    }
    // Whoever sees only the end shall see why.
    for line in tally.why_they_failed() {
        println!("{line}");
    }
    for name in &tally.passed_again {
        println!("PASSED AGAIN: {name}: it failed the first time; see above for what it said");
    }
    for problem in &tally.problems {
        println!("FAILED: {problem}");
    }
    for skip in &tally.skips {
        println!("{SKIP_MARK}{skip}");
    }
    let summary = tally.summary();
    std::fs::write(target.join("test-summary.txt"), format!("{summary}\n")).context("cannot write the summary")?;
    println!("{summary}");
    if tally.passed + tally.failed() + tally.skips.len() == 0 {
        bail!("no test has such a name. Next: cargo test --workspace -- --list");
    }
    Ok(if tally.failed() == 0 { Outcome::Done } else { Outcome::Failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(package: &str, source: &str) -> TestProgram {
        TestProgram {
            package: package.into(),
            folder: "/w".into(),
            source: source.into(),
            is_integration: source.starts_with("tests"),
            executable: "/w/x".into(),
        }
    }

    #[test]
    fn programs_that_compare_times_run_alone_and_those_on_nodes_first() {
        let programs = [
            program("trimtab-os", "tests/inject.rs"),
            program("trimtab-os", "src/lib.rs"),
            program("trimtab-x86", "tests/hold.rs"),
            program("trimtab", "tests/numbers.rs"),
            program("trimtab", "tests/slurm.rs"),
        ];
        let names = |tasks: Vec<Task<'_>>| -> Vec<String> {
            let name =
                |task: &Task<'_>| task.heading(Path::new("/w")).split_whitespace().nth(1).unwrap_or("").to_string();
            tasks.iter().map(name).collect()
        };
        let order = |quick| {
            let (company, alone) = in_order(programs.iter(), quick);
            (names(company), names(alone))
        };
        let texts = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let all = texts(&["tests/slurm.rs", "examples", "tests/inject.rs", "src/lib.rs", "tests/hold.rs"]);
        assert_eq!(order(false), (all, texts(&["tests/numbers.rs"])));
        assert_eq!(order(true), (texts(&["examples", "src/lib.rs", "tests/hold.rs"]), Vec::new()), "quick");
    }

    #[test]
    fn programs_of_the_tables_are_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let folders: &[(&str, &str)] = &[
            ("trimtab", "crates/ui/cli"),
            ("trimtab-measure", "crates/job/measure"),
            ("trimtab-session", "crates/process/session"),
            ("trimtab-testbed", "testing/testbed"),
            ("trimtab-torture", "testing/torture"),
        ];
        for (package, source) in ALONE.iter().chain(ON_NODES).chain(HARMLESS) {
            let folder = folders.iter().find(|(name, _)| name == package).unwrap_or_else(|| panic!("{package}"));
            assert!(root.join(folder.1).join(source).is_file(), "{package} {source}");
        }
    }

    fn surroundings<'a>(root: &'a Path) -> Surroundings<'a> {
        Surroundings { root, skip_log: Path::new("/dev/null"), filters: &[] }
    }

    #[test]
    fn a_program_is_counted_whether_it_ends_well_or_not() {
        let root = std::env::temp_dir();
        for (name, script, expected) in [
            (
                "well",
                "echo 'running 1 test'; echo 'test a ... ok'; echo 'test result: ok. 1 passed; 0 failed'",
                "1 passed, 0 failed, 0 skipped",
            ),
            ("killed", "echo 'running 1 test'; kill -9 $$", "0 passed, 1 failed, 0 skipped"),
        ] {
            for show in [Show::AtOnce, Show::AtTheEnd] {
                let watch = Stopwatch::new(name, true);
                let counted =
                    surroundings(&root).count_timed(Command::new("sh").args(["-c", script]), show, watch).expect(name);
                assert_eq!(counted.tally.summary(), expected, "{name}");
                assert_eq!(counted.lines.is_empty(), show == Show::AtOnce, "{name}");
            }
        }
    }

    /// A program of tests as a script: `a` passes, `b` fails unless it is asked for by name and `works` is 1.
    fn script(folder: &Path, works: bool) -> TestProgram {
        let text = format!(
            "#!/bin/sh\ncase \"$*\" in\n*--exact*b*) if {works}; then echo 'running 1 test'; echo 'test b ... ok'; \
             echo 'test result: ok. 1 passed; 0 failed'; exit 0; fi; echo 'running 1 test';;\n\
             *) echo 'running 2 tests'; echo 'test a ... ok'; extra=1;;\nesac\necho 'test b ... FAILED'\n\
             echo \"test result: FAILED. ${{extra:-0}} passed; 1 failed\"; exit 101\n"
        );
        let file = folder.join(format!("script-{works}"));
        std::fs::write(&file, text).expect("writes");
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("is ours");
        TestProgram { folder: folder.into(), executable: file, ..program("a", "tests/b.rs") }
    }

    #[test]
    fn what_failed_is_asked_again_alone() {
        let folder = std::env::temp_dir().join(format!("xtask-lanes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let works = (true, "2 passed, 0 failed, 0 skipped", 1);
        let fails = (false, "1 passed, 1 failed, 0 skipped", 0);
        for ((works, expected, passed_again), in_company) in
            [(works, true), (fails, true), (works, false), (fails, false)]
        {
            let program = script(&folder, works);
            let (mut tally, mut slowest) = (Tally::default(), Slowest::default());
            let (surroundings, tasks) = (surroundings(&folder), vec![Task::Program(&program)]);
            let doubtful = match in_company {
                true => run_in_lanes(&surroundings, tasks, LANES, &mut tally, &mut slowest),
                false => run_alone(&surroundings, tasks, &mut tally, &mut slowest),
            };
            let doubtful = doubtful.expect("it runs");
            assert_eq!((doubtful.len(), tally.summary().as_str()), (1, "0 passed, 0 failed, 0 skipped"), "{works}");
            for (task, first) in doubtful {
                run_again(&surroundings, &task, first, &mut tally).expect("it runs again");
            }
            assert_eq!((tally.summary().as_str(), tally.passed_again.len()), (expected, passed_again), "{works}");
        }
        std::fs::remove_dir_all(&folder).expect("is ours");
    }
}
