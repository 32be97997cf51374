//! `cargo xtask torture`: real programs, patched and restored at random moments; the table and the file it leaves.
//!
//! The work is done by the crate in `testing/torture`, in a process of its own, because this program links nothing that
//! traces. Its findings are kept with the machine and commit it holds for.
//!
//! Next: `testing/torture/src/campaign.rs`.

use crate::bench::Record;
use crate::{Outcome, shell};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// `cargo xtask torture [--seconds S] [--program NAME]... [--seed N] [--json FILE]`.
pub fn command(arguments: &[String]) -> Result<Outcome> {
    let (passed_on, json) = parse(arguments)?;
    let root = shell::root()?;
    shell::run(&mut shell::cargo(&root, &["build", "--release", "--package", "trimtab-torture"]))?;
    let record = Record::begin("torture", &root)?;
    println!("{}", record.machine_line());
    let found = root.join("target/torture.json");
    let mut torture = Command::new(root.join("target/release/trimtab-torture"));
    torture.args(&passed_on).arg("--json").arg(&found).current_dir(&root);
    println!("$ {}", shell::display(&torture));
    let status = torture.stdin(Stdio::null()).status().context("cannot start trimtab-torture")?;
    let outcome = match status.code() {
        Some(0) => Outcome::Done,
        Some(1) => Outcome::Failed,
        _ => bail!("the torture could not be run ({status})"),
    };
    if let Some(json) = json {
        record.write_found("torture", &found, &json)?;
        println!("written: {}", shell::relative(&root, &json));
    }
    Ok(outcome)
}

/// The torture's arguments, and the file the result is to be kept in.
fn parse(arguments: &[String]) -> Result<(Vec<String>, Option<PathBuf>)> {
    let (mut passed_on, mut json) = (Vec::new(), None);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--seconds" | "--program" | "--seed" => passed_on.extend([word.clone(), value()?.clone()]),
            "--no-survey" => passed_on.push(word.clone()),
            "--json" => json = Some(PathBuf::from(value()?)),
            unknown => bail!(
                "torture takes --seconds S, --program NAME, --seed N, --json FILE and --no-survey, got `{unknown}`"
            ),
        }
    }
    Ok((passed_on, json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_torture_takes_is_passed_on() {
        let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
        let (passed_on, json) = parse(&words("--seconds 5 --json a.json --program xz --seed 3")).expect("all known");
        assert_eq!(passed_on, words("--seconds 5 --program xz --seed 3"));
        assert_eq!(json, Some(PathBuf::from("a.json")));
        assert!(parse(&words("--seconds")).is_err());
        assert!(parse(&words("--what")).is_err());
    }
}
