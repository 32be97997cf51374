//! `cargo xtask bench`: figures worth keeping, taken interleaved with their baseline and kept with their machine.
//!
//! A machine drifts while one measures: the next run of the same program may be a tenth slower. So contenders take
//! turns, A B A B, and what is reported is the ratio pair by pair with its spread; times are printed for orientation.
//!
//! Next: `runner` for the turns and the arithmetic, `record` for the file, `window` for what is measured.

mod record;
mod runner;
mod window;

use crate::{Outcome, shell};
use anyhow::{Context, Result, bail};
use record::Record;
use std::path::PathBuf;

/// `cargo xtask bench [window] [--json FILE]`.
pub fn command(arguments: &[String]) -> Result<Outcome> {
    let options = parse(arguments)?;
    let root = shell::root()?;
    if cfg!(debug_assertions) {
        // What this program itself does per sample would weigh on the figures: measure from an optimised build.
        let mut release = shell::cargo(&root, &["run", "--quiet", "--release", "--package", "xtask", "--", "bench"]);
        release.current_dir(std::env::current_dir().context("the current folder is gone")?);
        return shell::run(release.args(arguments)).map(|()| Outcome::Done);
    }
    let mut record = Record::begin(&options.name, &root)?;
    println!("{}", record.machine_line());
    for mut comparison in window::comparisons() {
        let result = comparison.run()?;
        println!("\n{result}");
        record.results.push(result);
    }
    let path = options.json.unwrap_or_else(|| root.join("benches/results").join(record.file_name()));
    record.write(&path)?;
    println!("\nwritten: {}", shell::relative(&root, &path));
    Ok(Outcome::Done)
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    name: String,
    json: Option<PathBuf>,
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { name: "window".to_string(), json: None };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "window" => {}
            "--json" => match words.next() {
                Some(file) => options.json = Some(file.into()),
                None => bail!("--json needs a FILE"),
            },
            unknown => bail!("bench takes `window` and --json FILE, got `{unknown}`"),
        }
    }
    Ok(options)
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
            assert_eq!(options, Options { name: "window".to_string(), json: json.map(PathBuf::from) }, "{name}");
        }
        for (name, text) in [("no file", "--json"), ("unknown bench", "tree")] {
            assert!(parse(&words(text)).is_err(), "{name}");
        }
    }
}
