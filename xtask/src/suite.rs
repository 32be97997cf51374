//! `cargo xtask test`: sets the machine up, runs every test, counts, and says loudly what was skipped.
//!
//! Tests that attach to running programs share two cores with them; their crates run one test at a time. A test that
//! cannot run here appends `SKIPPED: name: reason` to the file named by `TRIMTAB_SKIP_LOG` (docs/testing.md); libtest
//! counts it as passed, so it is taken out of that count here.
//!
//! Next: docs/testing.md for the convention, `tally` for the counting, `programs` for what is built, `setup` for what is installed first.

use crate::programs::{self, TestProgram};
use crate::tally::{SKIP_MARK, Tally};
use crate::{Outcome, setup, shell};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

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
    // Whoever sees only the end shall see why.
    for line in tally.why_they_failed() {
        println!("{line}");
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
