//! `trimtab-torture [--seconds S] [--program NAME]... [--seed N] [--json FILE]`: runs the torture and prints its table.
//!
//! `cargo xtask torture` builds and starts it. Exit codes: 0 nothing broke, 1 something did, 2 it could not be run.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use trimtab_torture::{NAMES, Options, campaign, inserter, render};

const SECONDS_DEFAULT: u64 = 300;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = if words.first().is_some_and(|word| word == "inserter") { child(&words[1..]) } else { torture(&words) };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("torture: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The process that is killed: `inserter PID SEED COUNT`.
fn child(words: &[String]) -> Result<bool> {
    let [pid, seed, count] = words else { bail!("usage: inserter PID SEED COUNT") };
    inserter(trimtab_types::Pid(pid.parse()?), seed.parse()?, count.parse()?)?;
    Ok(true)
}

fn torture(words: &[String]) -> Result<bool> {
    let (options, json) = parse(words)?;
    let outcome = campaign(&options)?;
    println!("\n{}", render(&outcome));
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&outcome)? + "\n";
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(outcome.failure_count() == 0)
}

fn parse(words: &[String]) -> Result<(Options, Option<PathBuf>)> {
    let executable = std::env::current_exe().context("cannot find this program's own file")?;
    let mut options = Options {
        budget: Duration::from_secs(SECONDS_DEFAULT),
        programs: Vec::new(),
        seed: u64::from(std::process::id()) << 20 ^ trimtab_os::monotonic_ns(),
        executable,
        survey: true,
    };
    let mut json = None;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--seconds" => options.budget = Duration::from_secs(value()?.parse().context("--seconds takes a number")?),
            "--seed" => options.seed = value()?.parse().context("--seed takes a number")?,
            "--json" => json = Some(PathBuf::from(value()?)),
            "--no-survey" => options.survey = false,
            "--program" => options.programs.push(known(value()?)?),
            unknown => bail!(
                "torture takes --seconds S, --program NAME, --seed N, --json FILE and --no-survey, got `{unknown}`"
            ),
        }
    }
    Ok((options, json))
}

fn known(name: &str) -> Result<String> {
    if !NAMES.contains(&name) {
        bail!("no program `{name}`; there are: {}", NAMES.join(", "));
    }
    Ok(name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
        let (options, json) =
            parse(&words("--seconds 7 --program xz --program git --seed 9 --json a")).expect("all are known");
        assert_eq!((options.budget, options.seed), (Duration::from_secs(7), 9));
        assert_eq!((options.programs, json), (vec!["xz".to_string(), "git".to_string()], Some("a".into())));
        for wrong in ["--seconds", "--seconds x", "--program word", "--what"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
