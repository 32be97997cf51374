//! `list` and `report`: what the store keeps, shown again.
//!
//! Next: `remote` for the same of a site's store; `trimtab-store` for how it is kept.

use crate::exit_code::{DONE, PARTIAL};
use crate::given_window::file_or_stored;
use crate::output;
use anyhow::bail;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use trimtab_engine::{compare as compared_with, headline, own, scaling as scaling_of};
use trimtab_report::{ListedJob, ListedWindow};
use trimtab_store::{JobSummary, Store};
use trimtab_types::report::Report;
use trimtab_types::scaling::Work;

/// `trimtab list`.
pub fn list(path: &Option<PathBuf>, json: bool) -> anyhow::Result<u8> {
    let store = Store::open_to_show(path.as_deref())?;
    let jobs: Vec<ListedJob> = store.list_jobs()?.iter().map(listed).collect();
    if json {
        output::print_text(&serde_json::to_string_pretty(&jobs.iter().map(as_json).collect::<Vec<_>>())?)?;
        return Ok(if jobs.is_empty() { PARTIAL } else { DONE });
    }
    show_list(&jobs)
}

/// The table of jobs, wherever they are kept.
pub fn show_list(jobs: &[ListedJob]) -> anyhow::Result<u8> {
    let style = output::style(std::io::stdout().is_terminal());
    output::print_text(&trimtab_report::list(jobs, own::unix_s(), &style))?;
    Ok(if jobs.is_empty() { PARTIAL } else { DONE })
}

fn listed(summary: &JobSummary) -> ListedJob {
    ListedJob {
        id: summary.id.to_string(),
        program: summary.job.program.clone(),
        arguments: summary.job.arguments.clone(),
        ranks: summary.job.ranks,
        windows: summary.windows,
        newest: summary.newest.as_ref().map(|window| ListedWindow {
            started_unix_s: window.started_unix_s,
            valid: window.valid,
            communication_fraction: window.communication_fraction,
            time_per_iteration_s: window.time_per_iteration_s,
            event: window.event.as_ref().map(|event| event.kind),
        }),
    }
}

fn as_json(job: &ListedJob) -> serde_json::Value {
    serde_json::json!({
        "id": job.id,
        "program": job.program,
        "arguments": job.arguments,
        "ranks": job.ranks,
        "windows": job.windows,
        "newest": job.newest.as_ref().map(|window| serde_json::json!({
            "started_unix_s": window.started_unix_s,
            "valid": window.valid,
            "communication_fraction": window.communication_fraction,
            "time_per_iteration_s": window.time_per_iteration_s,
            "event": window.event,
        })),
    })
}

/// `trimtab report JOB --compare A B`.
pub fn compare(path: &Option<PathBuf>, job: &str, windows: &[u32], json: bool) -> anyhow::Result<u8> {
    let store = Store::open_to_show(path.as_deref())?;
    let selection = store.find(job)?;
    let [before, after] = windows else { bail!("--compare takes two windows of the job") };
    if selection.window.is_some() {
        bail!("give the job alone, `trimtab report {} --compare {before} {after}`", selection.job.id);
    }
    let id = &selection.job.id;
    let compared = compared_with(&store.window(id, *before)?, &store.window(id, *after)?);
    if json {
        output::print_text(&serde_json::to_string_pretty(&compared)?)?;
    } else {
        let style = output::style(std::io::stdout().is_terminal());
        output::print_text(&trimtab_report::comparison(&compared, &style))?;
    }
    Ok(if compared.time_per_iteration_s.is_some() { DONE } else { PARTIAL })
}

/// `trimtab report A B C --scaling`.
pub fn scaling(path: &Option<PathBuf>, windows: &[String], work: Work, json: bool) -> anyhow::Result<u8> {
    let reports: Vec<Report> = windows.iter().map(|window| file_or_stored(path, window)).collect::<Result<_, _>>()?;
    let scaling = scaling_of(&reports, work)?;
    if json {
        output::print_text(&serde_json::to_string_pretty(&scaling)?)?;
    } else {
        let style = output::style(std::io::stdout().is_terminal());
        output::print_text(&trimtab_report::scaling(&scaling, &style))?;
    }
    Ok(if scaling.points.len() < windows.len() { PARTIAL } else { DONE })
}

/// How a report is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// As JSON.
    pub json: bool,
    /// As a page, in this file.
    pub html: Option<&'a Path>,
    /// With the whole paths of calls.
    pub path: bool,
}

/// `trimtab report`.
pub fn report(path: &Option<PathBuf>, window: Option<&str>, shown: Shown<'_>) -> anyhow::Result<u8> {
    let store = Store::open_to_show(path.as_deref())?;
    let found = match window {
        None => store.newest_window(None)?,
        Some(text) => {
            let selection = store.find(text).map_err(|error| meant_as_file(error.into(), text, shown.json))?;
            match selection.window {
                Some(window) => Some(store.window(&selection.job.id, window)?),
                None => store.newest_window(Some(&selection.job.id))?,
            }
        }
    };
    let Some(report) = found else {
        eprintln!("trimtab: no window has been stored yet; measure one with `trimtab attach PID`");
        return Ok(PARTIAL);
    };
    show_report(&report, shown)
}

/// `--json` of other commands names a file, and here it does not.
fn meant_as_file(error: anyhow::Error, text: &str, json: bool) -> anyhow::Error {
    if !json || !text.contains(['.', '/']) {
        return error;
    }
    error.context(format!("--json prints here: `trimtab report --json > {text}`"))
}

/// A report in the form that was asked for.
pub fn show_report(report: &Report, shown: Shown<'_>) -> anyhow::Result<u8> {
    let headline = headline(report);
    if shown.json {
        output::print_text(&trimtab_report::json(report)?)?;
    } else if let Some(html) = shown.html {
        output::write(html, &trimtab_report::html(report, &headline))?;
    } else {
        output::print_report(report, &headline, shown.path)?;
    }
    Ok(DONE)
}
