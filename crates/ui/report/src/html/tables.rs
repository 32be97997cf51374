//! The tables: functions, ranks in full, trace records. Every cell that is a number carries it for sorting.
//!
//! Next: `page.js`, which sorts by a click on a column's title.

use super::escape::{card, text};
use crate::numbers;
use crate::omp;
use crate::paths;
use crate::transfers;
use crate::units::{bytes, count, counted, percent, significant, time};
use crate::waits;
use crate::words;
use std::fmt::Write;
use trimtab_types::report::{
    Counter, Detail, FunctionTotal, Link, Omp, PathTotal, RankTotal, Report, SizeClass, WaitState,
};

/// Links beside the map of all.
const LINKS_SHOWN_MAX: usize = 12;

/// Trace records shown; all are in the JSON.
const DETAILS_SHOWN_MAX: usize = 200;

/// A cell: what is shown, and the number to sort by.
struct Cell {
    shown: String,
    number: Option<f64>,
}

impl Cell {
    fn name(name: &str) -> Cell {
        Cell { shown: text(name), number: None }
    }

    /// A dash, sorted below everything, for what is no number.
    fn number(number: f64, shown: String) -> Cell {
        if number.is_finite() { Cell { shown: text(&shown), number: Some(number) } } else { Cell::dash() }
    }

    fn dash() -> Cell {
        Cell { shown: "-".to_string(), number: Some(-1.0) }
    }

    fn count(number: u64) -> Cell {
        Cell::number(number as f64, count(number))
    }

    /// A dash where nothing was measured.
    fn maybe(number: Option<f64>, show: impl Fn(f64) -> String) -> Cell {
        match number {
            Some(number) => Cell::number(number, show(number)),
            None => Cell::dash(),
        }
    }

    fn maybe_count(number: Option<u64>) -> Cell {
        Cell::maybe(number.map(|number| number as f64), |_| number.map_or(String::new(), count))
    }
}

/// The functions, with their share drawn.
pub(super) fn functions(report: &Report) -> String {
    if report.functions.is_empty() {
        return "<p class=\"none\">no measured function was called</p>\n".to_string();
    }
    let titles =
        ["function", "group", "calls", "time", "share", "mean", "bytes", "mean size", "max size", "nested calls"];
    let arguments = report.functions.iter().any(|function| function.argument_sum.is_some());
    let titles: Vec<&str> = titles.into_iter().chain(arguments.then_some("argument sum")).collect();
    let rows = report.functions.iter().map(|function| function_row(report, function, arguments));
    let notes = [words::taken_out(report), words::shares_of_threads(report).map(str::to_owned), words::polling(report)];
    let notes = notes.into_iter().flatten().map(|note| format!("<p>{}</p>\n", super::text(&note)));
    table(&titles, rows) + &notes.collect::<String>()
}

fn function_row(report: &Report, function: &FunctionTotal, arguments: bool) -> Vec<Cell> {
    let numbers = words::function_numbers(report, function);
    let mut share = Cell::maybe(numbers.share, percent);
    if let Some(part) = numbers.share {
        let width = (part * 100.0).clamp(0.0, 100.0);
        share.shown = format!("<span class=\"share\"><i style=\"width:{width:.1}%\"></i></span>{}", share.shown);
    }
    let size = |size: Option<u64>| Cell::maybe(size.map(|size| size as f64), bytes);
    let mut row = vec![
        Cell::name(&words::function_name(function)),
        Cell::name(function.group.word()),
        function.calls.map_or_else(
            || Cell::maybe_count(None),
            |calls| Cell::number(calls as f64, words::function_calls(function)),
        ),
        Cell::maybe(function.time_s, time),
        share,
        Cell::maybe(numbers.mean_s, time),
        size(function.bytes),
        Cell::maybe(function.bytes_mean, bytes),
        size(function.bytes_max),
        Cell::maybe_count(function.nested_calls),
    ];
    row.extend(arguments.then(|| Cell::maybe(function.argument_sum.map(|sum| sum as f64), |sum| significant(sum, 6))));
    row
}

/// Communication by the place it is called from; the whole way stands beside it.
pub(super) fn paths(report: &Report) -> String {
    let titles: Vec<&str> = paths::COLUMNS.iter().map(|(title, _)| *title).chain(["called"]).collect();
    let row = |row: &PathTotal| {
        let cells = paths::cells(&report.paths, row).map(|(shown, number)| match number {
            Some(number) => Cell::number(number, shown),
            None => Cell::name(&shown),
        });
        let way = if row.path.is_empty() { "-".to_string() } else { words::path(&row.path) };
        cells.into_iter().chain([Cell::name(&way)]).collect()
    };
    table(&titles, report.paths.iter().map(row))
}

/// Parallel regions.
pub(super) fn regions(found: &Omp) -> String {
    let titles: Vec<&str> = omp::columns(found).into_iter().map(|(title, _)| title).collect();
    let cell = |(shown, number): (String, Option<f64>)| match number {
        Some(number) => Cell::number(number, shown),
        None => Cell::name(&shown),
    };
    table(&titles, omp::rows(found).into_iter().map(|row| row.into_iter().map(cell).collect()))
}

/// Calls by what they carry.
pub(super) fn sizes(report: &Report) -> String {
    let row = |(function, class): (&FunctionTotal, SizeClass)| {
        let from = class.from_bytes.map_or(-1.0, |from| from as f64);
        vec![
            Cell::name(&words::function_name(function)),
            Cell { shown: text(&paths::size(&class)), number: Some(from) },
            Cell::count(class.calls),
            Cell::number(class.bytes as f64, bytes(class.bytes as f64)),
        ]
    };
    table(&["function", "payload", "calls", "bytes"], paths::sizes(report).into_iter().map(row))
}

/// The ranks that waited, and for whom.
pub(super) fn wait_states(report: &Report) -> String {
    let row = |state: &WaitState| {
        let cells = waits::cells(report, state).map(|(shown, number)| match number {
            Some(number) => Cell::number(number, shown),
            None => Cell::name(&shown),
        });
        cells.into()
    };
    let titles = waits::COLUMNS.map(|(title, _)| title);
    table(&titles, report.wait_states.iter().take(waits::WAITS_SHOWN_MAX).map(row))
}

/// Transfer and waiting of links.
pub(super) fn link_times(report: &Report) -> String {
    let row =
        |row: [(String, f64); transfers::COLUMNS.len()]| row.map(|(shown, number)| Cell::number(number, shown)).into();
    table(&transfers::COLUMNS.map(|(title, _)| title), transfers::rows(report).into_iter().map(row))
}

/// The links with the most bytes.
pub(super) fn links(report: &Report) -> String {
    let titles = ["from", "to", "bytes", "messages", "mean size", "collective"];
    let row = |link: &Link| {
        let size = |size: u64| Cell::number(size as f64, bytes(size as f64));
        let rank = |rank: u32| Cell::number(f64::from(rank), rank.to_string());
        let mean = numbers::ratio(link.bytes as f64, link.messages as f64);
        vec![
            rank(link.from),
            rank(link.to),
            size(link.bytes),
            Cell::count(link.messages),
            Cell::maybe(mean, bytes),
            size(link.collective_bytes),
        ]
    };
    let heaviest = numbers::heaviest_links(report);
    let shown = heaviest.len().min(LINKS_SHOWN_MAX);
    let rest = heaviest.len() - shown;
    let note = if rest > 0 {
        format!("<p class=\"none\">and {}</p>\n", counted(rest as u64, "lighter link"))
    } else {
        String::new()
    };
    format!("<div>{}{note}</div>\n", table(&titles, heaviest.into_iter().take(shown).map(row)))
}

/// Every rank with everything measured of it, folded away.
pub(super) fn ranks(report: &Report) -> String {
    if report.ranks.is_empty() {
        return String::new();
    }
    let titles = [
        "rank",
        "host",
        "pid",
        "recorded",
        "computation",
        "communication",
        "comm",
        "CPU user",
        "CPU system",
        "CPU / wall",
        "iterations",
        "per iteration",
        "minor faults",
        "major faults",
        "voluntary switches",
        "involuntary switches",
        "other groups",
        "unattributed",
        "pause in",
        "pause out",
        "probes",
    ];
    let measured = numbers::communication_measured(report);
    let body = table(&titles, report.ranks.iter().map(|rank| rank_row(rank, measured)));
    let of = numbers::rank_count(report);
    match report.reduced {
        None => folded("All ranks", &counted(of as u64, "rank"), &body),
        Some(_) => {
            folded("Ranks that stand out", &format!("{} of {of}; --all-ranks shows all", report.ranks.len()), &body)
        }
    }
}

fn rank_row(rank: &RankTotal, measured: bool) -> Vec<Cell> {
    let microseconds = |us: f64| time(us * 1e-6);
    let if_measured = |value: Option<f64>| value.filter(|_| measured);
    let groups: Vec<String> = rank.group_s.iter().map(|part| format!("{} {}", part.group, time(part.time_s))).collect();
    vec![
        Cell::number(f64::from(rank.rank), rank.rank.to_string()),
        Cell::name(&rank.host),
        Cell::number(f64::from(rank.pid), rank.pid.to_string()),
        Cell::number(rank.duration_s, time(rank.duration_s)),
        Cell::maybe(if_measured(rank.computation_s), time),
        Cell::maybe(if_measured(rank.communication_s), time),
        Cell::maybe(numbers::communication_share(rank).filter(|_| measured), percent),
        Cell::maybe(rank.cpu_user_s, time),
        Cell::maybe(rank.cpu_system_s, time),
        Cell::maybe(numbers::cpu_share(rank), percent),
        Cell::maybe_count(rank.iterations),
        Cell::maybe(rank.time_per_iteration_s, time),
        Cell::maybe_count(rank.minor_faults),
        Cell::maybe_count(rank.major_faults),
        Cell::maybe_count(rank.voluntary_switches),
        Cell::maybe_count(rank.involuntary_switches),
        Cell::name(if groups.is_empty() { "-".to_string() } else { groups.join(", ") }.as_str()),
        Cell::maybe(rank.unattributed_bytes.map(|unnamed| unnamed as f64), bytes),
        Cell::number(rank.pause_insert_us, microseconds(rank.pause_insert_us)),
        Cell::maybe(rank.pause_remove_us, microseconds),
        Cell::count(rank.probe_hits),
    ]
}

/// The counters of every rank, where any were asked for.
pub(super) fn counters(report: &Report) -> String {
    let all = report.ranks.iter().flat_map(|rank| rank.counters.iter().map(move |counter| (rank.rank, counter)));
    let rows: Vec<Vec<Cell>> = all.map(|(rank, counter)| counter_row(rank, counter)).collect();
    if rows.is_empty() {
        return String::new();
    }
    let titles = [
        "rank",
        "counter",
        "value",
        "at least",
        "at most",
        "per iteration",
        "outside communication",
        "scaled",
        "remark",
    ];
    let subtitle = counted(rows.len() as u64, "counter");
    folded("Counters", &subtitle, &table(&titles, rows.into_iter()))
}

fn counter_row(rank: u32, counter: &Counter) -> Vec<Cell> {
    let reason = counter.missing.as_deref().or(counter.outside_missing.as_deref());
    let user = counter.user_only.then_some("outside of the kernel");
    let remark: Vec<&str> = reason.into_iter().chain(user).collect();
    let each = |value: f64| significant(value, 6);
    vec![
        Cell::number(f64::from(rank), rank.to_string()),
        Cell::name(&counter.name),
        Cell::maybe_count(counter.value),
        Cell::maybe_count(counter.at_least),
        Cell::maybe_count(counter.at_most),
        Cell::maybe(counter.per_iteration, each),
        Cell::maybe(counter.outside_communication, each),
        Cell::maybe(counter.scaled, |factor| significant(factor, 3)),
        Cell::name(if remark.is_empty() { "-".to_owned() } else { remark.join("; ") }.as_str()),
    ]
}

/// The trace records, where there are any.
pub(super) fn details(report: &Report) -> String {
    if report.details.is_empty() {
        return String::new();
    }
    let titles = ["rank", "thread", "function", "at", "took", "arguments"];
    let shown = report.details.iter().take(DETAILS_SHOWN_MAX).map(|detail| detail_row(report, detail));
    let subtitle =
        format!("{}, {DETAILS_SHOWN_MAX} shown at most", counted(report.details.len() as u64, "trace record"));
    folded("First calls", &subtitle, &table(&titles, shown))
}

fn detail_row(report: &Report, detail: &Detail) -> Vec<Cell> {
    let at = report.window.started_unix_s.map(|started| detail.time_unix_s - started);
    let arguments: Vec<String> = detail.arguments.iter().map(|argument| format!("{argument:#x}")).collect();
    let took = match detail.duration_s {
        Some(seconds) => Cell::number(seconds, time(seconds)),
        None => Cell { shown: "no return".to_string(), number: Some(f64::MAX) },
    };
    vec![
        Cell::number(f64::from(detail.rank), detail.rank.to_string()),
        Cell::number(f64::from(detail.thread), detail.thread.to_string()),
        Cell::name(&detail.function),
        Cell::maybe(at, time),
        took,
        Cell::name(&arguments.join(" ")),
    ]
}

fn folded(title: &str, subtitle: &str, body: &str) -> String {
    let inside = format!("<details><summary>show</summary>\n{body}</details>\n");
    card(title, subtitle, &inside)
}

/// A table that a click on a title sorts.
fn table(titles: &[&str], rows: impl Iterator<Item = Vec<Cell>>) -> String {
    let mut html = String::from("<div class=\"scroll\"><table class=\"sortable\">\n<thead><tr>");
    let rows: Vec<Vec<Cell>> = rows.collect();
    for (column, title) in titles.iter().enumerate() {
        let words = rows.first().is_some_and(|row| row[column].number.is_none());
        let class = if words { " class=\"text\"" } else { "" };
        let _infallible = write!(html, "<th scope=\"col\"{class}>{}</th>", text(title));
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in rows {
        html += "<tr>";
        for cell in row {
            let _infallible = match cell.number {
                Some(number) => write!(html, "<td class=\"n\" data-n=\"{number:e}\">{}</td>", cell.shown),
                None => write!(html, "<td>{}</td>", cell.shown),
            };
        }
        html += "</tr>\n";
    }
    html + "</tbody></table></div>\n"
}
