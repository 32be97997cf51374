//! `cargo xtask test`: sets the machine up, runs every test, counts, and says loudly what was skipped.
//!
//! Tests that attach to running programs share two cores with them; their crates run one test at a time. A test that
//! cannot run here appends `SKIPPED: name: reason` to the file named by `TRIMTAB_SKIP_LOG` (docs/testing.md); libtest
//! counts it as passed, so it is taken out of that count here.
//!
//! Next: docs/testing.md for the convention, `programs` for what is built, `setup` for what is installed first.

use crate::programs::{self, TestProgram};
use crate::{Outcome, setup, shell};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

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
/// Names the file to which a test appends why it could not run.
const SKIP_LOG_VARIABLE: &str = "TRIMTAB_SKIP_LOG";
/// What each line of that file, and the line printed, starts with.
const SKIP_MARK: &str = "SKIPPED: ";

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
    let programs = programs::build(&root).unwrap_or_else(|error| {
        tally.problems.push(format!("{error:#}"));
        Vec::new()
    });
    for (program, alone) in in_order(programs.iter(), quick) {
        println!("{}", program.heading(&root));
        run_program(program.command(&filters, alone).env(SKIP_LOG_VARIABLE, &skip_log), &mut tally)?;
    }
    let mut examples = shell::cargo(&root, &["test", "--workspace", "--doc", "--no-fail-fast", "--"]);
    run_program(examples.args(&filters).env(SKIP_LOG_VARIABLE, &skip_log), &mut tally)?;
    tally.read_skip_log(&std::fs::read_to_string(&skip_log).context("cannot read the log of skipped tests")?);
    print_end(&tally, quick, &target)
}

/// First those whose tests may run side by side, then those that attach, whose tests run alone (`true`).
fn in_order<'a>(
    programs: impl Iterator<Item = &'a TestProgram>,
    quick: bool,
) -> impl Iterator<Item = (&'a TestProgram, bool)> {
    let attaches = |program: &&TestProgram| ATTACHING.contains(&program.package.as_str());
    let (alone, side_by_side): (Vec<_>, Vec<_>) = programs.partition(attaches);
    let alone = alone.into_iter().filter(move |program| !(quick && program.is_integration));
    side_by_side.into_iter().map(|program| (program, false)).chain(alone.map(|program| (program, true)))
}

/// Runs tests, passing their output on line by line while counting.
fn run_program(tests: &mut Command, tally: &mut Tally) -> Result<()> {
    let line = shell::display(tests);
    let started = tests.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = started.with_context(|| format!("cannot start `{line}`"))?;
    let stdout = child.stdout.take().context("it has no stdout")?;
    let problems_before = tally.failed();
    for bytes in BufReader::new(stdout).split(b'\n') {
        let text =
            String::from_utf8_lossy(&bytes.with_context(|| format!("cannot read what `{line}` says"))?).into_owned();
        println!("{text}");
        tally.read_line(&text);
    }
    let status = child.wait().with_context(|| format!("cannot wait for `{line}`"))?;
    tally.end_of(&line, status, problems_before);
    Ok(())
}

fn print_end(tally: &Tally, quick: bool, target: &Path) -> Result<Outcome> {
    println!();
    if quick {
        println!("--quick: the integration tests of these crates were left out: {}", ATTACHING.join(", "));
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

/// What was counted so far.
#[derive(Default)]
struct Tally {
    /// Tests libtest calls passed; those in `skips` that name a whole test are taken out.
    passed: usize,
    /// Failed tests, crashed test programs, builds that failed: one line each.
    problems: Vec<String>,
    /// `name: reason` of everything skipped.
    skips: BTreeSet<String>,
    /// The test program that runs.
    running: Option<Program>,
}

/// A test program that has begun and not yet given its result.
struct Program {
    /// How many tests it has, in libtest's words.
    count: String,
    /// What it printed last.
    last_line: String,
    /// Problems known before it began.
    problems_before: usize,
}

impl Tally {
    /// Counts one line of what tests print.
    fn read_line(&mut self, line: &str) {
        if let Some(count) = begun_count(line) {
            self.end_program();
            let (count, last_line) = (count.to_string(), String::new());
            self.running = Some(Program { count, last_line, problems_before: self.failed() });
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.read_result(result);
        } else if let Some(test) = line.strip_prefix("test ") {
            self.read_test(test);
        }
        if let Some(program) = &mut self.running {
            program.last_line = line.to_string();
        }
    }

    /// Takes libtest's own counts; a child that shares stdout may have broken the line that named a failed test.
    fn read_result(&mut self, result: &str) {
        self.passed += count_before(result, " passed");
        let problems_before = self.running.take().map_or(self.failed(), |program| program.problems_before);
        for _ in self.failed() - problems_before..count_before(result, " failed") {
            self.problems.push("a test whose line other output broke: see `failures:` of its program".to_string());
        }
    }

    fn read_test(&mut self, test: &str) {
        if let Some(name) = test.strip_suffix(" ... FAILED") {
            self.problems.push(name.to_string());
        } else if let Some((name, reason)) = test.split_once(" ... ignored") {
            let reason = reason.strip_prefix(", ").unwrap_or("ignored in the source");
            self.skips.insert(format!("{name}: {reason}"));
        }
    }

    /// A program that began and printed no result has crashed.
    fn end_program(&mut self) {
        if let Some(Program { count, last_line, .. }) = self.running.take() {
            self.problems.push(format!("a test program with {count} crashed, its last line: {last_line}"));
        }
    }

    fn end_of(&mut self, line: &str, status: ExitStatus, problems_before: usize) {
        self.end_program();
        if !status.success() && self.failed() == problems_before {
            self.problems
                .push(format!("`{line}` ended with {status} and no failed test: see above for what did not build"));
        }
    }

    /// Takes the tests that say they could not run out of those that passed.
    fn read_skip_log(&mut self, log: &str) {
        for skip in log.lines().filter_map(|line| line.strip_prefix(SKIP_MARK)) {
            let is_new = self.skips.insert(skip.to_string());
            let is_case = skip.split(": ").next().is_some_and(|name| name.ends_with(']'));
            if is_new && !is_case {
                self.passed = self.passed.saturating_sub(1);
            }
        }
    }

    fn failed(&self) -> usize {
        self.problems.len()
    }

    fn summary(&self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed, self.failed(), self.skips.len())
    }
}

/// What stands in a line by which a test program says that it begins, such as "3 tests".
fn begun_count(line: &str) -> Option<&str> {
    line.strip_prefix("running ").filter(|count| count.ends_with(" test") || count.ends_with(" tests"))
}

/// The number that stands before `word` in a result line of libtest.
fn count_before(result: &str, word: &str) -> usize {
    let before = result.split(word).next().unwrap_or_default();
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn tally_of(output: &str, log: &str, exit_code: i32) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read_line(line));
        tally.end_of("cargo test", ExitStatus::from_raw(exit_code << 8), 0);
        tally.read_skip_log(log);
        tally
    }

    #[test]
    fn tests_are_counted() {
        let two = "running 2 tests\ntest a ... ok\ntest b ... ok\n\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\n";
        let failing = "running 2 tests\ntest a ... ok\ntest m::b ... FAILED\n\nfailures:\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n";
        let broken = "running 3 tests\ntest a ... noise\nFAILED\ntest b ... FAILED\ntest c ... ok\n\ntest result: FAILED. 1 passed; 2 failed\n";
        let doc = "running 1 test\ntest src/lib.rs - f (line 3) ... ignored\n\ntest result: ok. 0 passed; 0 failed; 1 ignored\n";
        let crash = "running 3 tests\ntest a ... ok\ntest b ... ";
        let crash_then_two = format!("{crash}\n{two}");
        for (name, output, log, exit_code, expected) in [
            ("all pass", two, "", 0, "2 passed, 0 failed, 0 skipped"),
            ("one fails", failing, "", 101, "1 passed, 1 failed, 0 skipped"),
            ("one skipped", two, "SKIPPED: a: no mpirun\n", 0, "1 passed, 0 failed, 1 skipped"),
            (
                "skipped twice",
                two,
                "SKIPPED: a: no mpirun\nSKIPPED: a: no mpirun\n",
                0,
                "1 passed, 0 failed, 1 skipped",
            ),
            ("one case skipped", two, "SKIPPED: a[openmpi]: no mpirun\n", 0, "2 passed, 0 failed, 1 skipped"),
            ("other lines in the log", two, "noise\n", 0, "2 passed, 0 failed, 0 skipped"),
            ("ignored", doc, "", 0, "0 passed, 0 failed, 1 skipped"),
            ("crash at the end", crash, "", 101, "0 passed, 1 failed, 0 skipped"),
            ("crash before another", crash_then_two.as_str(), "", 101, "2 passed, 1 failed, 0 skipped"),
            ("line broken by a child", broken, "", 101, "1 passed, 2 failed, 0 skipped"),
            ("does not build", "", "", 101, "0 passed, 1 failed, 0 skipped"),
            ("a test that talks", "running late\ntest of patience\n", "", 0, "0 passed, 0 failed, 0 skipped"),
        ] {
            assert_eq!(tally_of(output, log, exit_code).summary(), expected, "{name}");
        }
    }

    #[test]
    fn problems_carry_names() {
        let failing =
            tally_of("running 1 test\ntest m::b ... FAILED\ntest result: FAILED. 0 passed; 1 failed\n", "", 101);
        assert_eq!(failing.problems, ["m::b"]);
        let crash = tally_of("running 3 tests\ntest a ... ok\ntest b ... ", "", 101);
        assert!(crash.problems[0].ends_with("its last line: test b ... "), "{:?}", crash.problems);
    }

    #[test]
    fn attaching_crates_run_once_and_alone() {
        let program = |package: &str, is_integration| TestProgram {
            package: package.into(),
            folder: "/w".into(),
            source: "x.rs".into(),
            is_integration,
            executable: "/w/x".into(),
        };
        let programs = [program("trimtab-os", true), program("trimtab-os", false), program("trimtab-x86", true)];
        let order = |quick| in_order(programs.iter(), quick).collect::<Vec<_>>();
        assert_eq!(order(false), [(&programs[2], false), (&programs[0], true), (&programs[1], true)]);
        assert_eq!(order(true), [(&programs[2], false), (&programs[1], true)], "quick");
    }

    #[test]
    fn a_program_streams_and_is_counted() {
        let mut tally = Tally::default();
        let script = "echo 'running 1 test'; echo 'test a ... ok'; echo 'test result: ok. 1 passed; 0 failed'";
        run_program(Command::new("sh").args(["-c", script]), &mut tally).expect("sh runs");
        run_program(Command::new("sh").args(["-c", "echo 'running 1 test'; kill -9 $$"]), &mut tally).expect("sh runs");
        assert_eq!(tally.summary(), "1 passed, 1 failed, 0 skipped");
    }
}
