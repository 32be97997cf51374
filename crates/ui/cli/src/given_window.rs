//! Windows as they are named by several commands: those of the store, and reports in files.
//!
//! Next: `stored` for `report --scaling`, `corun_given` for `forecast corun`.

use anyhow::{Context, bail};
use std::path::PathBuf;
use trimtab_store::Store;
use trimtab_types::report::{Report, SCHEMA};

/// A file with more bytes is no report that anybody wants to read here.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The report in a file, or else a stored window; the store is opened only for that.
pub fn file_or_stored(store: &Option<PathBuf>, text: &str) -> anyhow::Result<Report> {
    match of_file(text)? {
        Some(report) => Ok(report),
        None => stored(&Store::open_to_show(store.as_deref())?, text),
    }
}

/// The report in a file; `None`: there is no such file.
pub fn of_file(text: &str) -> anyhow::Result<Option<Report>> {
    let Ok(data) = std::fs::metadata(text) else { return Ok(None) };
    if data.is_dir() {
        return Ok(None);
    }
    if data.len() > FILE_BYTES_MAX {
        bail!("{text} has {} bytes, which is no report", data.len());
    }
    let bytes = std::fs::read(text).with_context(|| format!("can't read {text}"))?;
    let report: Report = serde_json::from_slice(&bytes)
        .with_context(|| format!("{text} is no report: write one with `trimtab attach PID --json {text}`"))?;
    if report.schema != SCHEMA {
        bail!("{text} is a {:?}, and this trimtab reads {SCHEMA}", report.schema);
    }
    Ok(Some(report))
}

/// Says that there is no such file either, where the text looks like one.
pub fn no_file(error: trimtab_store::Error, text: &str) -> anyhow::Error {
    let looks_like_a_file = text.contains(['.', '/']);
    let error = anyhow::Error::from(error);
    if looks_like_a_file { error.context(format!("there is no file {text}")) } else { error }
}

/// A stored window by its name; the newest of a job.
pub fn stored(store: &Store, text: &str) -> anyhow::Result<Report> {
    let selection = store.find(text).map_err(|error| no_file(error, text))?;
    match selection.window {
        Some(window) => Ok(store.window(&selection.job.id, window)?),
        None => store.newest_window(Some(&selection.job.id))?.with_context(|| format!("no window of {text} is stored")),
    }
}
