//! The jobs of `forecast corun` as they are named: jobs that run, windows of the store, files.
//!
//! Next: `corun`, which asks.

use crate::attach::found_again;
use crate::engine::Kept;
use crate::given_window::{no_file, of_file, stored};
use crate::outcomes::known_job;
use anyhow::{anyhow, bail};
use std::path::Path;
use trimtab_controller::forecasts::letter_of;
use trimtab_engine::{Engine, Found, Life, Target};
use trimtab_store::History;
use trimtab_types::Pid;
use trimtab_types::report::Report;

/// A job of Slurm is named so.
const SLURM: &str = "slurm:";

/// A job as it was named.
pub struct Given {
    /// Its name in sentences; `None`: that of the store.
    pub name: Option<String>,
    /// Where a window comes from.
    pub source: Source,
}

/// Where a window comes from.
pub enum Source {
    /// It is measured.
    Live(Box<Found>),
    /// It is there.
    Window(Box<Report>),
}

/// The job of a text.
pub fn given(engine: &Engine<'_>, kept: &Kept, text: &str) -> anyhow::Result<Given> {
    let live = |found: Found| Given { name: None, source: Source::Live(Box::new(found)) };
    if let Ok(pid) = text.parse::<i32>() {
        return Ok(live(engine.find(Target::Process(Pid(pid)), None)?));
    }
    if let Some(id) = text.strip_prefix(SLURM) {
        return Ok(live(engine.find(Target::Slurm(id.parse()?), None)?));
    }
    if let Some(report) = of_file(text)? {
        let stem = Path::new(text).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        return Ok(Given { name: stem, source: Source::Window(Box::new(report)) });
    }
    let selection = kept.store().find(text).map_err(|error| no_file(error, text))?;
    let run = kept.store().run(&selection.job.key)?;
    let known = run.map(|run| known_job(kept, &run)).transpose()?.flatten();
    let runs = known.is_some_and(|known| engine.life(&known, true) == Life::Runs);
    if selection.window.is_none() && runs {
        let found = found_again(engine, &kept.store(), text)?;
        return Ok(live(found));
    }
    Ok(Given { name: Some(text.to_owned()), source: Source::Window(Box::new(stored(&kept.store(), text)?)) })
}

/// The windows alone that were named, by job.
pub fn alone_named(kept: &Kept, jobs: &[String], named: &[String]) -> anyhow::Result<Vec<Option<Report>>> {
    let mut found: Vec<Option<Report>> = vec![None; jobs.len()];
    for text in named {
        let (at, window) = of_job(jobs, text)?;
        if found[at].is_some() {
            bail!("--alone names two windows of {}", jobs[at]);
        }
        let report = match of_file(window)? {
            Some(report) => report,
            None => stored(&kept.store(), window)?,
        };
        found[at] = Some(report);
    }
    Ok(found)
}

/// The job and the window in `JOB=WINDOW`; JOB is one of those given, or its letter.
fn of_job<'a>(jobs: &[String], text: &'a str) -> anyhow::Result<(usize, &'a str)> {
    // Names may hold the sign themselves.
    let by_name = jobs.iter().enumerate().find_map(|(at, job)| {
        let window = text.strip_prefix(job.as_str())?.strip_prefix('=')?;
        Some((at, window))
    });
    let by_letter = || {
        let (letter, window) = text.split_once('=')?;
        let at = (0..jobs.len()).find(|at| letter_of(*at) == letter)?;
        Some((at, window))
    };
    by_name.or_else(by_letter).ok_or_else(|| {
        let last = letter_of(jobs.len() - 1);
        anyhow!("--alone takes JOB=WINDOW, and JOB is one of those given, or its letter from A to {last}; got {text:?}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_alone_are_named_by_job_or_letter() {
        let jobs = ["is=4.json".to_owned(), "17".to_owned()];
        for (text, wanted) in [
            ("is=4.json=alone.json", Some((0, "alone.json"))),
            ("17=app-3/0", Some((1, "app-3/0"))),
            ("A=x=y.json", Some((0, "x=y.json"))),
            ("B=app-3", Some((1, "app-3"))),
            ("C=app-3", None),
            ("app-3", None),
        ] {
            assert_eq!(of_job(&jobs, text).ok(), wanted, "{text}");
        }
    }
}
