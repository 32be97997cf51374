//! `cargo xtask fuzz`: hostile bytes for everything that reads bytes; the table and the file it leaves.
//!
//! The work is done by the crate in `testing/fuzz`, built here in a folder of its own with counters that tell which code
//! an input reaches. The result is kept with the machine and commit it holds for.
//!
//! Next: `testing/fuzz/src/campaign.rs`.

use crate::bench::Record;
use crate::{Outcome, shell};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One flag per branch, set once: cheaper than counting, and new code is what counts.
const COVERAGE_FLAGS: &str = "-C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=3 \
                              -C llvm-args=-sanitizer-coverage-inline-bool-flag";
/// Named, so that the flags are for this program only and not for what builds it.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const FOLDER: &str = "target/fuzz";

/// `cargo xtask fuzz [--target NAME]... [--executions N | --seconds S] [--seed N] [--jobs N] [--keep] [--json FILE]`, or
/// `cargo xtask fuzz replay TARGET FILE`.
pub fn command(arguments: &[String]) -> Result<Outcome> {
    let (passed_on, json) = parse(arguments)?;
    let root = shell::root()?;
    let program = build(&root)?;
    let record = Record::begin("fuzz", &root)?;
    println!("{}", record.machine_line());
    let found = root.join("target/fuzz.json");
    let mut fuzz = Command::new(program);
    fuzz.args(&passed_on).current_dir(&root);
    if passed_on.first().is_none_or(|word| word != "replay") {
        fuzz.arg("--json").arg(&found);
    }
    println!("$ {}", shell::display(&fuzz));
    let status = fuzz.stdin(Stdio::null()).status().context("cannot start trimtab-fuzz")?;
    let outcome = match status.code() {
        Some(0) => Outcome::Done,
        // A replay that fails says so with the code of a panic.
        Some(1 | 101) => Outcome::Failed,
        _ => bail!("the fuzzing could not be run, or a replayed input ended it ({status})"),
    };
    if let Some(json) = json {
        record.write_found("fuzz", &found, &json)?;
        println!("written: {}", shell::relative(&root, &json));
    }
    Ok(outcome)
}

fn build(root: &Path) -> Result<PathBuf> {
    let arguments =
        ["build", "--profile", "fuzz", "--package", "trimtab-fuzz", "--target", TRIPLE, "--target-dir", FOLDER];
    shell::run(shell::cargo(root, &arguments).env("RUSTFLAGS", COVERAGE_FLAGS))?;
    Ok(root.join(FOLDER).join(TRIPLE).join("fuzz/trimtab-fuzz"))
}

/// The fuzzer's arguments, and the file the result is to be kept in.
fn parse(arguments: &[String]) -> Result<(Vec<String>, Option<PathBuf>)> {
    if arguments.first().is_some_and(|word| word == "replay") {
        if arguments.len() != 3 {
            bail!("replay takes a TARGET and a FILE");
        }
        return Ok((arguments.to_vec(), None));
    }
    let (mut passed_on, mut json) = (Vec::new(), None);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--target" | "--executions" | "--seconds" | "--seed" | "--jobs" => {
                passed_on.extend([word.clone(), value()?.clone()]);
            }
            "--keep" => passed_on.push(word.clone()),
            "--json" => json = Some(PathBuf::from(value()?)),
            unknown => bail!(
                "fuzz takes --target NAME, --executions N, --seconds S, --seed N, --jobs N, --keep and --json FILE, or \
                 `replay TARGET FILE`, got `{unknown}`"
            ),
        }
    }
    Ok((passed_on, json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_fuzzing_takes_is_passed_on() {
        let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
        let (passed_on, json) = parse(&words("--target elf --json a.json --executions 5 --keep")).expect("all known");
        assert_eq!(passed_on, words("--target elf --executions 5 --keep"));
        assert_eq!(json, Some(PathBuf::from("a.json")));
        assert_eq!(parse(&words("replay elf a.hex")).expect("a replay").0, words("replay elf a.hex"));
        for wrong in ["--target", "--what", "replay elf"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
