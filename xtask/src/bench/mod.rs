//! `cargo xtask bench`: figures worth keeping, taken interleaved with their baseline and kept with their machine.
//!
//! A machine drifts while one measures: the next run of the same program may be a tenth slower. So contenders take
//! turns, A B A B, and what is reported is the ratio pair by pair with its spread; times are printed for orientation.
//!
//! Next: `runner` for the turns and the arithmetic, `row` for bars and verdicts, `record` for the file, `window` for
//! what is measured.

mod attach;
mod pauses;
mod peers;
mod probe;
mod record;
mod row;
mod runner;
mod truth;
mod window;

use crate::{Outcome, shell};
use anyhow::{Context, Result, bail};
use attach::Bench;
pub use record::Record;
use std::path::{Path, PathBuf};

/// `cargo xtask bench [window] [--json FILE] [--quick] [--only PART]`.
pub fn command(arguments: &[String]) -> Result<Outcome> {
    let options = parse(arguments)?;
    let root = shell::root()?;
    if cfg!(debug_assertions) {
        // What this program itself does per sample would weigh on the figures: measure from an optimised build.
        let mut release = shell::cargo(&root, &["run", "--quiet", "--release", "--package", "xtask", "--", "bench"]);
        release.current_dir(std::env::current_dir().context("the current folder is gone")?);
        return shell::run(release.args(arguments)).map(|()| Outcome::Done);
    }
    shell::run(&mut shell::cargo(&root, &["build", "--release", "--package", "trimtab"]))?;
    let example = ["build", "--release", "--package", "trimtab-session", "--example", "probe_cost"];
    shell::run(&mut shell::cargo(&root, &example))?;
    let bench = Bench { folder: emptied_folder(&root)?, root, quick: options.quick };
    let mut record = Record::begin(&options.name, &bench.root)?;
    println!("{}", record.machine_line());
    window::run(&bench, options.only, &mut record)?;
    println!("\n{}", record.summary());
    if (options.quick || options.only.is_some()) && options.json.is_none() {
        println!("not kept: too few rounds or rows; give --json FILE to keep it all the same");
        return Ok(Outcome::Done);
    }
    let path = options.json.unwrap_or_else(|| bench.root.join("benches/results").join(record.file_name()));
    record.write(&path)?;
    println!("written: {}", shell::relative(&bench.root, &path));
    Ok(Outcome::Done)
}

/// A folder for reports and caches in which nothing of an earlier run lies.
fn emptied_folder(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/bench");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("cannot empty target/bench")?;
    }
    std::fs::create_dir_all(&folder).context("cannot create target/bench")?;
    Ok(folder)
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    name: String,
    json: Option<PathBuf>,
    quick: bool,
    only: Option<Part>,
}

/// A part of the table that can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Probe,
    Pauses,
    Truth,
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { name: "window".to_string(), json: None, quick: false, only: None };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "window" => {}
            "--quick" => options.quick = true,
            "--only" => options.only = Some(part(words.next())?),
            "--json" => match words.next() {
                Some(file) => options.json = Some(file.into()),
                None => bail!("--json needs a FILE"),
            },
            unknown => bail!("bench takes `window`, --json FILE, --quick and --only PART, got `{unknown}`"),
        }
    }
    Ok(options)
}

fn part(word: Option<&String>) -> Result<Part> {
    match word.map(String::as_str) {
        Some("probe") => Ok(Part::Probe),
        Some("pauses") => Ok(Part::Pauses),
        Some("truth") => Ok(Part::Truth),
        other => bail!("--only needs probe, pauses or truth, got `{}`", other.unwrap_or("nothing")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
        for (name, text, json) in
            [("none", "", None), ("name", "window", None), ("file", "window --json a.json", Some("a.json"))]
        {
            let options = parse(&words(text)).expect(name);
            let json = json.map(PathBuf::from);
            assert_eq!(options, Options { name: "window".to_string(), json, quick: false, only: None }, "{name}");
        }
        assert!(parse(&words("--quick window")).expect("quick").quick);
        assert_eq!(parse(&words("--only truth")).expect("a part").only, Some(Part::Truth));
        for (name, text) in [("no file", "--json"), ("unknown bench", "tree"), ("unknown part", "--only all")] {
            assert!(parse(&words(text)).is_err(), "{name}");
        }
    }
}
