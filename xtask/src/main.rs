//! The project's own commands, so that a laptop and the CI machine type the same words: `cargo xtask help`.
//!
//! This program is the first thing compiled on a bare machine, hence it has few dependencies and parses its own
//! arguments. Each command is one module.
//!
//! Next: `tidy` for the house rules, `suite` for how tests are run, `tally` for how they are counted, `demo` for the first impression.
#![forbid(unsafe_code)]

mod bench;
mod demo;
mod fuzz;
mod goldens;
mod outcome;
mod programs;
mod release;
mod setup;
mod shell;
mod slowest;
mod suite;
mod tally;
mod tidy;
mod torture;

use anyhow::{Result, bail};
use outcome::Outcome;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  demo [--release]              measure a running MPI program and show the report
  test [--quick] [FILTER...]    set the machine up, run every test, end with `N passed, N failed, N skipped`
  tidy                          check the house rules (also a test of this crate)
  setup [--check]               install the Debian packages that tests need; --check only lists what is missing
  bench [window] [--json FILE] [--quick] [--only probe|pauses|truth]
  bench probe [--json FILE] [--quick] [--only cost|peers|idle|large]
  bench tree [--json FILE] [--quick] [--only packet|trips|rest|survive|scale] [--leaves N]
  bench cluster [--json FILE] [--quick] [--only slurm|watch]
                                measure against the baseline, interleaved; default file: benches/results/DATE-NAME.json
  torture [--seconds S] [--program NAME]... [--seed N] [--json FILE]
                                patch real programs at random moments while they work, and check them
  fuzz [--target NAME]... [--executions N | --seconds S] [--seed N] [--jobs N] [--keep] [--json FILE]
                                give hostile bytes to everything that reads bytes; fuzz replay TARGET FILE: one again
  goldens [FILTER...]           accept today's output as the expected one and show what changed
  release                       build target/dist with checksums and check what the binary needs

Exit codes: 0 done, 1 a check or test failed, 2 it could not be run.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::from(1),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<Outcome> {
    let Some((command, rest)) = arguments.split_first() else { bail!("no command given\n\n{HELP}") };
    match command.as_str() {
        "demo" => demo::command(rest),
        "test" => suite::command(rest),
        "tidy" => tidy::command(rest),
        "setup" => setup::command(rest),
        "bench" => bench::command(rest),
        "torture" => torture::command(rest),
        "fuzz" => fuzz::command(rest),
        "goldens" => goldens::command(rest),
        "release" => release::command(rest),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(Outcome::Done)
        }
        unknown => bail!("no command `{unknown}`\n\n{HELP}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_command_lines_are_refused_with_the_help() {
        for (name, arguments) in [("none", &[][..]), ("unknown", &["tset"][..])] {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            let error = dispatch(&arguments).expect_err(name).to_string();
            assert!(error.contains("cargo xtask COMMAND"), "{name}: {error}");
        }
    }

    #[test]
    fn arguments_no_command_takes_are_refused() {
        for command in ["demo", "tidy", "setup", "release", "bench", "test", "torture", "fuzz"] {
            let arguments = [command.to_string(), "--no-such-option".to_string()];
            let error = dispatch(&arguments).expect_err(command).to_string();
            assert!(error.contains("--no-such-option"), "{command}: {error}");
        }
    }
}
