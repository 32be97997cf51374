//! `trimtab-fuzz [--target NAME]... [--executions N] [--seconds S] [--seed N] [--jobs N] [--json FILE] [--keep]`: runs
//! targets and prints a table; `trimtab-fuzz replay TARGET FILE`: one input again.
//!
//! `cargo xtask fuzz` builds it with coverage counters and starts it. Exit codes: 0 nothing was found, 1 something was, 2
//! it could not be run.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use trimtab_fuzz::{HANG_S, NAMES, Options, PLANTED, Work, campaign, render, replay, work};

const EXECUTIONS_DEFAULT: u64 = 1_000_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.split_first() {
        Some((word, rest)) if word == "work" => parse_work(rest).and_then(|order| work(&order)).map(|()| 0),
        Some((word, [target, file])) if word == "replay" => again(target, Path::new(file), HANG_S),
        Some((word, [target, file, hang_s])) if word == "replay" => {
            number("replay", hang_s).and_then(|hang_s| again(target, Path::new(file), hang_s))
        }
        _ => fuzz(&words),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("fuzz: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn again(target: &str, file: &Path, hang_s: u64) -> Result<u8> {
    let code = replay(target, file, hang_s)?;
    if code == 0 {
        eprintln!("nothing is wrong with it now");
    }
    Ok(code)
}

fn fuzz(words: &[String]) -> Result<u8> {
    let (options, json) = parse(words)?;
    println!("fuzz: seed {}, {} targets", options.seed, options.targets.len());
    let outcome = campaign(&options)?;
    println!("\n{}", render(&outcome));
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&outcome)? + "\n";
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(u8::from(outcome.finding_count() > 0))
}

fn parse(words: &[String]) -> Result<(Options, Option<PathBuf>)> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut options = Options {
        targets: Vec::new(),
        executions: EXECUTIONS_DEFAULT,
        time: None,
        seed: u64::from(std::process::id()),
        jobs: 1,
        folder: package.join("../../target/fuzz-found"),
        corpus: package.join("corpus"),
        executable: std::env::current_exe().context("cannot find this program's own file")?,
        hang_s: HANG_S,
        keep: false,
    };
    let (mut json, mut executions) = (None, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--target" => options.targets.push(known(value()?)?),
            "--executions" => executions = Some(number(word, value()?)?),
            "--seconds" => options.time = Some(Duration::from_secs(number(word, value()?)?)),
            "--seed" => options.seed = number(word, value()?)?,
            "--jobs" => options.jobs = number(word, value()?)? as usize,
            "--folder" => options.folder = value()?.into(),
            "--json" => json = Some(PathBuf::from(value()?)),
            "--hang-seconds" => options.hang_s = number(word, value()?)?,
            "--keep" => options.keep = true,
            unknown => bail!(
                "fuzz takes --target NAME, --executions N, --seconds S, --seed N, --jobs N, --folder DIR, --json FILE, \
                 --hang-seconds S and --keep, got `{unknown}`"
            ),
        }
    }
    if options.targets.is_empty() {
        options.targets = NAMES.map(str::to_string).to_vec();
    }
    let unbounded = if options.time.is_some() { u64::MAX } else { EXECUTIONS_DEFAULT };
    options.executions = executions.unwrap_or(unbounded);
    Ok((options, json))
}

fn parse_work(words: &[String]) -> Result<Work> {
    let mut order = Work {
        target: String::new(),
        executions: 0,
        time: None,
        seed: 0,
        state: PathBuf::new(),
        found: PathBuf::new(),
        kept: PathBuf::new(),
        keep: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--target" => order.target = value()?.clone(),
            "--executions" => order.executions = number(word, value()?)?,
            "--milliseconds" => order.time = Some(Duration::from_millis(number(word, value()?)?)),
            "--seed" => order.seed = number(word, value()?)?,
            "--state" => order.state = value()?.into(),
            "--found" => order.found = value()?.into(),
            "--kept" => order.kept = value()?.into(),
            "--keep" => order.keep = true,
            unknown => bail!("a worker is started by `trimtab-fuzz` and knows no `{unknown}`"),
        }
    }
    Ok(order)
}

fn number(word: &str, text: &str) -> Result<u64> {
    text.replace('_', "").parse().with_context(|| format!("{word} takes a number"))
}

fn known(name: &str) -> Result<String> {
    if !NAMES.contains(&name) && name != PLANTED {
        bail!("no target `{name}`; there are: {}", NAMES.join(", "));
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
            parse(&words("--target elf --executions 10_000 --seed 9 --json a --jobs 2")).expect("all are known");
        assert_eq!((options.executions, options.seed, options.jobs, options.time), (10_000, 9, 2, None));
        assert_eq!((options.targets, json), (vec!["elf".to_string()], Some("a".into())));
        let (options, _) = parse(&words("--seconds 3")).expect("all are known");
        assert_eq!((options.time, options.executions), (Some(Duration::from_secs(3)), u64::MAX));
        assert_eq!(options.targets.len(), NAMES.len());
        for wrong in ["--seconds", "--seconds x", "--target word", "--what"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
