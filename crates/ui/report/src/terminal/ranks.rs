//! Time per rank: a bar for each, or, with many ranks, how they spread and who is extreme.
//!
//! A bar's full width is the longest recorded time, so that a rank which recorded less is seen to. CPU beside wall time
//! shows ranks that burn a core while they wait.
//!
//! Next: `numbers.rs` for the shares and quartiles.

use super::page::Page;
use super::pen::Ink;
use super::table::{Cell, Column, Table};
use crate::clean::clean;
use crate::numbers::{self, Spread};
use crate::units::{NOT_MEASURED, percent, time};
use trimtab_types::report::{RankTotal, Reduced, Report};

/// Ranks up to which each has its bar.
const BARS_MAX: usize = 32;

/// Ranks shown at each end where there are more.
const EXTREMES: usize = 4;

pub(super) fn write(page: &mut Page, report: &Report) {
    page.section(&title(page, numbers::communication_measured(report)));
    if let Some(reduced) = &report.reduced {
        return standing_out(page, report, reduced);
    }
    match report.ranks.len() {
        0 => page.note(Ink::Plain, NOT_MEASURED),
        few if few <= BARS_MAX => bars(page, report, report.ranks.iter()),
        _ => many(page, report),
    }
}

/// All ranks in a few numbers, and the ranks whose details there are.
fn standing_out(page: &mut Page, report: &Report, reduced: &Reduced) {
    let mut table = Table::new(vec![
        Column::name("over all ranks"),
        Column::number("min", 0),
        Column::number("mean", 0),
        Column::number("max", 0),
        Column::number("deviation", 1),
    ]);
    let all = [
        ("recorded", Some(reduced.duration_s)),
        ("computation", reduced.computation_s),
        ("communication", reduced.communication_s),
    ];
    for (name, spread) in all {
        let cells = match spread {
            Some(of) => {
                let deviation = of.deviation.map_or("-".to_string(), time);
                [time(of.min), time(of.mean), time(of.max), deviation]
            }
            None => ["-", NOT_MEASURED, "-", "-"].map(str::to_string),
        };
        table.row(std::iter::once(name.to_string()).chain(cells).map(Cell::Text).collect());
    }
    page.table(&table);
    page.line("");
    let (shown, of) = (report.ranks.len(), reduced.ranks);
    page.note(Ink::Plain, &format!("{shown} of {of} ranks stand out; --all-ranks shows all:"));
    bars(page, report, report.ranks.iter());
}

fn many(page: &mut Page, report: &Report) {
    let mut table = Table::new(vec![
        Column::name("over all ranks"),
        Column::number("min", 0),
        Column::number("25%", 1),
        Column::number("median", 0),
        Column::number("75%", 1),
        Column::number("max", 0),
    ]);
    for (name, spread, show) in spreads(report) {
        let cells = match spread {
            Some(s) => [s.min, s.lower_quartile, s.median, s.upper_quartile, s.max].map(show),
            None => ["-", "-", NOT_MEASURED, "-", "-"].map(str::to_string),
        };
        table.row(std::iter::once(name.to_string()).chain(cells).map(Cell::Text).collect());
    }
    page.table(&table);
    page.line("");
    if !numbers::communication_measured(report) {
        return page.note(Ink::Plain, "communication was not measured, so no rank stands out by computation");
    }
    let sorted = numbers::by_computation(report);
    page.note(Ink::Plain, "ranks that compute longest and shortest:");
    let (longest, shortest) = (&sorted[..EXTREMES], &sorted[sorted.len() - EXTREMES..]);
    bars(page, report, longest.iter().chain(shortest).copied());
}

/// A quantity over ranks: its name, its distribution and how to print it.
type NamedSpread = (&'static str, Option<Spread>, fn(f64) -> String);

fn spreads(report: &Report) -> Vec<NamedSpread> {
    let ranks = &report.ranks;
    let measured = numbers::communication_measured(report);
    let of = |value: fn(&RankTotal) -> Option<f64>| numbers::spread(ranks.iter().filter_map(value));
    let communication = |value| if measured { of(value) } else { None };
    vec![
        ("recorded", of(|rank| Some(rank.duration_s)), time),
        ("computation", communication(|rank| rank.computation_s), time),
        ("communication", communication(|rank| rank.communication_s), time),
        ("communication share", communication(numbers::communication_share), percent),
        ("CPU / wall", of(numbers::cpu_share), percent),
        ("time per iteration", of(|rank| rank.time_per_iteration_s), time),
    ]
}

fn bars<'a>(page: &mut Page, report: &Report, ranks: impl Iterator<Item = &'a RankTotal>) {
    let shown = Shown {
        communication: numbers::communication_measured(report),
        iterations: report.ranks.iter().any(|rank| rank.time_per_iteration_s.is_some()),
        hosts: report.job.hosts.len() > 1,
        longest_s: report.ranks.iter().map(|rank| rank.duration_s).fold(0.0, f64::max),
    };
    let mut table = Table::new(columns(&shown));
    for rank in ranks {
        table.row(cells(rank, &shown));
    }
    page.table(&table);
}

/// The contents of the table of bars, and the length of a full bar.
struct Shown {
    communication: bool,
    iterations: bool,
    hosts: bool,
    longest_s: f64,
}

fn columns(shown: &Shown) -> Vec<Column> {
    let mut columns = vec![Column::number("rank", 0), Column::bar("")];
    if shown.communication {
        columns.extend([Column::number("comp", 2), Column::number("comm", 0)]);
    }
    columns.push(Column::number("CPU", 1));
    columns.extend(shown.iterations.then(|| Column::number("per iter", 3)));
    columns.extend(shown.hosts.then(|| Column::text("host", 4)));
    columns
}

/// The section's title with the legend of its bars.
fn title(page: &Page, measured: bool) -> String {
    let [computation, communication] = [Ink::Computation, Ink::Communication].map(|ink| page.pen.block(ink));
    if measured {
        format!("Time per rank: {computation} computation {communication} communication")
    } else {
        format!("Time per rank: communication {NOT_MEASURED}")
    }
}

fn cells(rank: &RankTotal, shown: &Shown) -> Vec<Cell> {
    let of_longest = |part_s: f64| numbers::ratio(part_s, shown.longest_s).unwrap_or(0.0);
    let or_dash = |value: Option<String>| Cell::Text(value.unwrap_or("-".to_string()));
    let bar = match rank.computation_s.zip(rank.communication_s).filter(|_| shown.communication) {
        Some((computation_s, communication_s)) => {
            vec![(Ink::Computation, of_longest(computation_s)), (Ink::Communication, of_longest(communication_s))]
        }
        None => vec![(Ink::Computation, of_longest(rank.duration_s))],
    };
    let mut cells = vec![Cell::Text(rank.rank.to_string()), Cell::Bar(bar)];
    if shown.communication {
        cells.push(or_dash(rank.computation_s.map(time)));
        cells.push(or_dash(numbers::communication_share(rank).map(percent)));
    }
    cells.push(or_dash(numbers::cpu_share(rank).map(|share| format!("{:.0}%", share * 100.0))));
    cells.extend(shown.iterations.then(|| or_dash(rank.time_per_iteration_s.map(time))));
    cells.extend(shown.hosts.then(|| Cell::Text(clean(&rank.host))));
    cells
}
