//! `model links` and `forecast collective`: links between hosts, and how long collectives take on them, from stored windows.
//!
//! Next: `links_shown` for pages and JSON; docs/links.md describes the output.

use crate::arguments::links::{CollectiveOptions, LinksOptions};
use crate::exit_code::{DONE, PARTIAL};
use crate::given_window::file_or_stored;
use crate::{links_shown, output};
use anyhow::Context;
use std::path::PathBuf;
use trimtab_controller::forecasts::{CollectiveAsked, CollectiveMade, Links, newest_windows};
use trimtab_store::Store;
use trimtab_types::report::Report;

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
    let made = CollectiveMade::of(&asked, &links)?;
    match &options.json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(&made)?)?,
        None => output::print_text(&links_shown::answer(&made))?,
    }
    Ok(if made.time.is_outside { PARTIAL } else { DONE })
}

/// The windows that are named, or the newest ones of the store.
pub fn windows(store: &Option<PathBuf>, named: &[String]) -> anyhow::Result<Vec<Report>> {
    if !named.is_empty() {
        return named.iter().map(|text| file_or_stored(store, text)).collect();
    }
    let store = Store::open_to_show(store.as_deref())?;
    Ok(newest_windows(|| &store)?)
}
