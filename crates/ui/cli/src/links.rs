//! `model links` and `forecast collective`: links between hosts, and how long collectives take on them, from stored windows.
//!
//! Next: `links_shown` for pages and JSON; docs/links.md describes the output.

use crate::arguments::links::{CollectiveOptions, LinksOptions};
use crate::exit_code::{DONE, PARTIAL};
use crate::given_window::file_or_stored;
use crate::{links_shown, output};
use anyhow::Context;
use std::path::PathBuf;
use trimtab_engine::links::{CollectiveAsked, Links};
use trimtab_store::Store;
use trimtab_types::report::Report;

/// Jobs of the store that are looked at, those with the newest windows,
const JOBS_MAX: usize = 64;
/// and windows of each, the newest.
const WINDOWS_MAX: usize = 16;

/// `trimtab model links`.
pub fn list(options: &LinksOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    let links = Links::of(&windows(store, &options.windows)?);
    match &options.json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(&links_shown::list_as_json(&links))?)?,
        None => output::print_text(&links_shown::list(&links))?,
    }
    let is_whole = !links.pairs.is_empty() && links.pairs.iter().all(|pair| pair.fit.is_some());
    Ok(if is_whole { DONE } else { PARTIAL })
}

/// `trimtab forecast collective`.
pub fn collective(options: &CollectiveOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    let asked = CollectiveAsked {
        collective: options.collective.into(),
        ranks: u32::try_from(options.ranks).context("so many ranks can't be")?,
        bytes: options.bytes,
        hosts: options.hosts.clone(),
        mpi: options.mpi.clone(),
    };
    let links = Links::of(&windows(store, &options.windows)?);
    let answer = links.collective(&asked)?;
    match &options.json {
        Some(path) => {
            let value = links_shown::answer_as_json(&asked, &answer, &links);
            output::write(path, &serde_json::to_string_pretty(&value)?)?;
        }
        None => output::print_text(&links_shown::answer(&asked, &answer, &links))?,
    }
    Ok(if answer.time.is_outside { PARTIAL } else { DONE })
}

/// The windows that are named, or the newest ones of the store.
fn windows(store: &Option<PathBuf>, named: &[String]) -> anyhow::Result<Vec<Report>> {
    if !named.is_empty() {
        return named.iter().map(|text| file_or_stored(store, text)).collect();
    }
    let store = Store::open_to_show(store.as_deref())?;
    let mut reports = Vec::new();
    for job in store.list_jobs()?.into_iter().filter(|job| job.windows > 0).take(JOBS_MAX) {
        let windows = store.windows(&job.id)?;
        for window in windows.iter().rev().take(WINDOWS_MAX) {
            reports.push(store.window(&job.id, window.number)?);
        }
    }
    Ok(reports)
}
