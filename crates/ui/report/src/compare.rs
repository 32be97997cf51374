//! Two windows beside each other, for a terminal: a table of before and after, and who came and left.
//!
//! Next: `trimtab_types::comparison` for what is compared.

use crate::Style;
use crate::clean::clean;
use crate::neighbours;
use crate::terminal::{Cell, Column, Pen, Table};
use crate::units::{
    NOT_MEASURED, date_if_known, percent, percent_with_half_width, significant, time, time_with_half_width,
};
use trimtab_types::comparison::{Change, Companion, Comparison, Side};
use trimtab_types::report::{Estimate, NeighbourKind};

/// The comparison as text.
pub fn comparison(comparison: &Comparison, style: &Style) -> String {
    let pen = Pen::new(style);
    let Comparison { before, after, .. } = comparison;
    let mut lines = pen.wrap(&headline(comparison), 0);
    lines.push(String::new());
    let mut table = Table::new(vec![
        Column::name(""),
        Column::number(&format!("window {}", before.number), 0),
        Column::number(&format!("window {}", after.number), 0),
        Column::number("difference", 0),
        Column::number("ratio", 1),
    ]);
    let time_of = |side: &Side| estimate(side.time_per_iteration_s, time, time_with_half_width);
    let share_of = |side: &Side| estimate(side.communication_fraction, percent, percent_with_half_width);
    table.row(row("time per iteration", (time_of(before), time_of(after)), comparison.time_per_iteration_s, |s| {
        signed(s, time)
    }));
    table.row(row("communication", (share_of(before), share_of(after)), comparison.communication_fraction, |share| {
        signed(share, percent)
    }));
    lines.extend(table.lay_out(&pen).lines);
    lines.push(String::new());
    let mut facts: Vec<String> = [before, after].into_iter().map(begun).collect();
    facts
        .extend([("came", &comparison.came), ("left", &comparison.left)].into_iter().map(|(word, all)| who(word, all)));
    facts.extend(comparison.warnings.iter().map(|warning| format!("! {}", clean(warning))));
    lines.extend(facts.iter().flat_map(|fact| pen.wrap(fact, 0)));
    lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The main result of a comparison.
fn headline(comparison: &Comparison) -> String {
    let names = format!("window {} and window {}", comparison.before.number, comparison.after.number);
    match comparison.time_per_iteration_s {
        None => format!("The time per iteration of {names} can't be compared."),
        Some(Change { significant: Some(false), .. }) => {
            format!("An iteration takes as long in {names}, as far as their intervals tell.")
        }
        Some(change) => {
            let ratio = change.ratio.map_or_else(|| "?".to_owned(), |ratio| significant(ratio, 3));
            let doubt = if change.significant.is_none() { "; how sure that is can't be told" } else { "" };
            let (before, after) = (comparison.before.number, comparison.after.number);
            format!("An iteration takes {ratio}x as long in window {after} as in window {before}{doubt}.")
        }
    }
}

fn estimate(estimate: Option<Estimate>, alone: fn(f64) -> String, with_half_width: fn(f64, f64) -> String) -> String {
    let Some(estimate) = estimate else { return NOT_MEASURED.to_owned() };
    estimate.half_width_95.map_or_else(|| alone(estimate.mean), |half_width| with_half_width(estimate.mean, half_width))
}

fn row(
    name: &str,
    (before, after): (String, String),
    change: Option<Change>,
    shown: impl Fn(f64) -> String,
) -> Vec<Cell> {
    let difference = change.map(|change| {
        let half_width = change.half_width_95.map(|half| format!(" ± {}", shown(half).trim_start_matches('+')));
        shown(change.difference) + &half_width.unwrap_or_default()
    });
    let ratio = change.and_then(|change| change.ratio).map(|ratio| significant(ratio, 3));
    let or_dash = |value: Option<String>| value.unwrap_or("-".to_owned());
    [name.to_owned(), before, after, or_dash(difference), or_dash(ratio)].into_iter().map(Cell::Text).collect()
}

fn signed(value: f64, shown: fn(f64) -> String) -> String {
    let sign = if value < 0.0 { "-" } else { "+" };
    format!("{sign}{}", shown(value.abs()))
}

fn begun(side: &Side) -> String {
    let waited = side.event.as_ref().map(|event| format!(", waited for {}", neighbours::event(event)));
    format!("window {}: {}{}", side.number, date_if_known(side.started_unix_s), waited.unwrap_or_default())
}

fn who(word: &str, guests: &[Companion]) -> String {
    let name = |guest: &Companion| {
        let hosts = guest.hosts.iter().map(|host| clean(host)).collect::<Vec<_>>().join(", ");
        let kind = match guest.kind {
            NeighbourKind::Slurm => "Slurm job",
            NeighbourKind::Mpi => "MPI job",
            NeighbourKind::User => "user",
        };
        format!("{kind} {} ({}) on {hosts}", clean(&guest.name), clean(&guest.program))
    };
    let all: Vec<String> = guests.iter().map(name).collect();
    format!("{word}: {}", if all.is_empty() { "nobody".to_owned() } else { all.join("; ") })
}
