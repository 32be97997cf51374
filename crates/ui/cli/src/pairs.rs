//! `model pairs`: programs beside each other, from stored windows.
//!
//! Next: `trimtab_controller::forecasts` for the table; docs/forecasts.md describes the output.

use crate::arguments::links::LinksOptions;
use crate::exit_code::{DONE, PARTIAL};
use crate::links::windows;
use crate::output;
use std::fmt::Write as _;
use std::path::PathBuf;
use trimtab_controller::forecasts::{Beside, PairTable, pair_table};

/// `trimtab model pairs`.
pub fn list(options: &LinksOptions, store: &Option<PathBuf>) -> anyhow::Result<u8> {
    if let Some(path) = &options.json {
        output::check_writable(path)?;
    }
    let table = pair_table(&windows(store, &options.windows)?);
    match &options.json {
        Some(path) => output::write(path, &serde_json::to_string_pretty(&table)?)?,
        None => output::print_text(&page(&table))?,
    }
    let is_known = table.beside.iter().any(|row| row.slowdown.is_some());
    Ok(if is_known { DONE } else { PARTIAL })
}

fn page(table: &PairTable) -> String {
    let mut text = String::new();
    if table.beside.is_empty() {
        let _ = writeln!(
            text,
            "in {} windows no job had exactly one other beside it: measure iterations while two jobs share processors",
            table.windows
        );
    }
    for row in &table.beside {
        let _ = writeln!(text, "{}: {}", names(row), slowdown(row));
    }
    if !table.pairs.is_empty() {
        text += "\npairs, the one that gets on best first (progress of both; 1 is as much as one after the other):\n";
    }
    for (place, pair) in table.pairs.iter().enumerate() {
        let [one, _] = pair.beside.map(|at| &table.beside[at]);
        let _ = writeln!(text, "{:>2}  {:.3}  {}", place + 1, pair.progress, names(one));
    }
    text
}

fn names(row: &Beside) -> String {
    let program = row.program.rsplit('/').next().unwrap_or(&row.program);
    let ranks = row.partner_ranks.map_or_else(String::new, |ranks| format!(" ({ranks} ranks)"));
    format!("{program} ({} ranks) beside {}{ranks}", row.ranks, row.partner)
}

fn slowdown(row: &Beside) -> String {
    let windows = format!("{} windows beside it, {} alone", row.windows, row.windows_alone);
    match row.slowdown {
        Some(found) => {
            let ends = found.lower.zip(found.upper);
            let ends = ends.map_or_else(String::new, |(lower, upper)| format!(" ({lower:.3} to {upper:.3})"));
            format!("{:.3} times as long as alone{ends}, {windows}", found.value)
        }
        None => format!("not known: no window of it alone is stored; {windows}"),
    }
}
