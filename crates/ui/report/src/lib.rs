//! A report for people: pure functions from a measured window to a terminal page, one HTML file or JSON.
//!
//! [`terminal`] is read at a glance, [`html`] is one file that opens without a network, [`json`] is for programs, and
//! [`list`] shows the jobs of a store. Nothing here reads a clock, a file or the environment, and nothing is made up: what
//! was not measured is said to be so.
//!
//! Next: `numbers.rs` for what is computed from a report, `words.rs` for the lines both pages share, `terminal.rs` and
//! `html.rs` for the pages; `docs/report.md` explains every field to users.
#![forbid(unsafe_code)]

mod clean;
mod compare;
mod html;
mod list;
mod neighbours;
mod numbers;
mod omp;
mod paths;
mod scaling;
mod terminal;
mod transfers;
mod units;
mod waits;
mod words;

pub use compare::comparison;
pub use html::html;
pub use list::{ListedJob, ListedWindow, list};
pub use scaling::scaling;
pub use terminal::{Style, terminal};
pub use words::outer_progress;

use trimtab_types::report::Report;

/// The report as indented JSON, fields in the order of `docs/report.md`, with a newline at the end.
///
/// # Errors
/// None for a report trimtab made; `serde_json` reports a map whose keys are not text, and a report has none.
pub fn json(report: &Report) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(report).map(|text| text + "\n")
}
