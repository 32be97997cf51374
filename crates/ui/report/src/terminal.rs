//! The page a person reads in a terminal: ruled sections, aligned columns, bars; from 40 columns and 1 rank upwards.
//!
//! Columns that do not fit are left out one by one, least important first, and that is said; many ranks become
//! quartiles and the extreme ranks.
//!
//! Next: `terminal/pen.rs` for colour and characters, `terminal/table.rs` for columns, `words.rs` for the sentences.

mod names;
mod page;
mod pen;
mod ranks;
mod table;

use crate::clean::clean;
use crate::numbers;
use crate::omp;
use crate::paths;
use crate::transfers;
use crate::units::{NOT_MEASURED, bytes, bytes_short, count, counted, percent, significant, time};
use crate::waits;
use crate::words;
use page::Page;
use pen::Ink;
pub use pen::Style;
use trimtab_types::report::{Detail, FunctionTotal, Link, Report};

pub(crate) use pen::Pen;
pub(crate) use table::{Cell, Column, Table};

/// Functions shown; the rest is summed in one line.
const FUNCTIONS_SHOWN_MAX: usize = 12;

/// Ranks up to which every pair has its cell.
const MATRIX_RANKS_MAX: u32 = 16;

/// Links shown where the matrix would be too large.
const LINKS_SHOWN_MAX: usize = 8;

/// Trace records shown; all are in the JSON.
const DETAILS_SHOWN_MAX: usize = 20;

/// The whole page; `headline` is the one sentence a reader should take away.
pub fn terminal(report: &Report, headline: &str, style: &Style) -> String {
    let pen = Pen::new(style);
    let mut page = Page { pen, text: String::new() };
    page.headline(report, headline);
    page.section("Job");
    page.facts(&words::job(report));
    page.section("Window");
    page.facts(&words::window(report, style.paths));
    page.section("Result");
    page.facts(&words::result(report));
    ranks::write(&mut page, report);
    functions(&mut page, report);
    regions(&mut page, report);
    call_paths(&mut page, report, style.paths);
    sizes(&mut page, report);
    wait_states(&mut page, report);
    link_times(&mut page, report);
    links(&mut page, report);
    page.section("Operating system");
    page.facts(&words::system(report));
    details(&mut page, report);
    page.section("Cost of measuring");
    page.facts(&words::cost(report));
    warnings(&mut page, report);
    page.text
}

fn functions(page: &mut Page, report: &Report) {
    page.section(&format!("Functions, {}", words::summed_over(report)));
    if report.functions.is_empty() {
        return page.note(Ink::Plain, "no measured function was called");
    }
    // Regions and their waits have a table of their own.
    let listed = |function: &&FunctionTotal| report.omp.is_none() || function.group != omp::GROUP;
    let listed: Vec<&FunctionTotal> = report.functions.iter().filter(listed).collect();
    let (shown, rest) = listed.split_at(listed.len().min(FUNCTIONS_SHOWN_MAX));
    let mut table = Table::new(function_columns(report));
    for function in shown {
        table.row(function_cells(report, function));
    }
    page.table(&table);
    if let Some(note) = words::taken_out(report) {
        page.note(Ink::Plain, &note);
    }
    if let Some(note) = words::shares_of_threads(report) {
        page.note(Ink::Plain, note);
    }
    if !rest.is_empty() {
        page.note(Ink::Plain, &rest_of_functions(rest));
    }
    if let Some(note) = words::polling(report) {
        page.note(Ink::Faint, &note);
    }
    let nested: u64 = listed.iter().filter_map(|function| function.nested_calls).sum();
    if nested > 0 {
        let calls = counted(nested, "call");
        page.note(
            Ink::Faint,
            &format!("{calls} from inside another measured call, not timed again and not in the table"),
        );
    }
}

fn function_columns(report: &Report) -> Vec<Column> {
    let mut columns = vec![
        Column::name("function"),
        Column::number("calls", 0),
        Column::number("time", 0),
        Column::number("share", 0),
        Column::number("mean us", 2),
        Column::number("bytes", 1),
        Column::number("mean size", 3),
        Column::number("max size", 4),
    ];
    if several_groups(report) {
        columns.push(Column::text("group", 5));
    }
    if report.functions.iter().any(|function| function.argument_sum.is_some()) {
        columns.push(Column::number("argument sum", 0));
    }
    columns
}

fn function_cells(report: &Report, function: &FunctionTotal) -> Vec<Cell> {
    let numbers = words::function_numbers(report, function);
    let or_dash = |value: Option<String>| value.unwrap_or("-".to_string());
    let mut cells = vec![
        words::function_name(function),
        words::function_calls(function),
        or_dash(function.time_s.map(time)),
        or_dash(numbers.share.map(percent)),
        or_dash(numbers.mean_s.map(|s| significant(s * 1e6, 3))),
        or_dash(function.bytes.map(|size| bytes(size as f64))),
        or_dash(function.bytes_mean.map(bytes)),
        or_dash(function.bytes_max.map(|size| bytes(size as f64))),
    ];
    if several_groups(report) {
        cells.push(function.group.to_string());
    }
    if report.functions.iter().any(|other| other.argument_sum.is_some()) {
        cells.push(or_dash(function.argument_sum.map(|sum| sum.to_string())));
    }
    cells.into_iter().map(Cell::Text).collect()
}

fn several_groups(report: &Report) -> bool {
    report.functions.windows(2).any(|pair| pair[0].group != pair[1].group)
}

fn rest_of_functions(rest: &[&FunctionTotal]) -> String {
    let calls: u64 = rest.iter().map(|function| function.calls_counted()).sum();
    let time_s: f64 = rest.iter().filter_map(|function| function.time_s).sum();
    let functions = counted(rest.len() as u64, "more function");
    format!("and {functions}: {}, {}", counted(calls, "call"), time(time_s))
}

/// Parallel regions and what their threads did.
fn regions(page: &mut Page, report: &Report) {
    let Some(found) = &report.omp else { return };
    page.section("Parallel regions of OpenMP, summed over ranks");
    let column = |(title, rank): (&'static str, u8)| match title {
        "region" => Column::name(title),
        _ => Column::number(title, rank),
    };
    let mut table = Table::new(omp::columns(found).into_iter().map(column).collect());
    for row in omp::rows(found).into_iter().take(omp::REGIONS_SHOWN_MAX) {
        table.row(row.into_iter().map(|(shown, _)| Cell::Text(shown)).collect());
    }
    if !found.regions.is_empty() {
        page.table(&table);
    }
    omp::notes(found).iter().for_each(|line| page.note(Ink::Faint, line));
}

/// Communication by the place it is called from.
fn call_paths(page: &mut Page, report: &Report, whole: bool) {
    if report.paths.is_empty() {
        return;
    }
    page.section(&format!("Communication by where it is called, {}", words::summed_over(report)));
    let shown = &report.paths[..report.paths.len().min(paths::PATHS_SHOWN_MAX)];
    let column = |(title, rank): (&'static str, u8)| match title {
        "call" | "from" => Column::name(title),
        _ => Column::number(title, rank),
    };
    let mut table = Table::new(paths::COLUMNS.map(column).into());
    for row in shown {
        table.row(paths::cells(&report.paths, row).map(|(shown, _)| Cell::Text(shown)).into());
    }
    page.table(&table);
    if let Some(rest) = paths::rest(&report.paths) {
        page.note(Ink::Plain, &rest);
    }
    for row in shown.iter().filter(|row| whole && row.path.len() > 1) {
        page.note(Ink::Plain, &format!("{} is called {}", clean(&row.function), words::path(&row.path)));
    }
    paths::missing(report).iter().for_each(|line| page.note(Ink::Faint, line));
}

/// Calls by what they carry.
fn sizes(page: &mut Page, report: &Report) {
    let rows = paths::sizes(report);
    if rows.is_empty() {
        return;
    }
    page.section("Calls by what they carry");
    let mut table = Table::new(vec![
        Column::name("function"),
        Column::text("payload", 0),
        Column::number("calls", 0),
        Column::number("bytes", 0),
    ]);
    for (function, class) in rows.iter().take(paths::SIZES_SHOWN_MAX) {
        let cells = [words::function_name(function), paths::size(class), count(class.calls), bytes(class.bytes as f64)];
        table.row(cells.map(Cell::Text).into());
    }
    page.table(&table);
    let more = rows.len().saturating_sub(paths::SIZES_SHOWN_MAX);
    if more > 0 {
        page.note(Ink::Faint, &format!("and {}: see --json", counted(more as u64, "more row")));
    }
}

/// The waits by causer, and the time of which nobody knows it.
fn wait_states(page: &mut Page, report: &Report) {
    let unattributed = waits::unattributed(report);
    if report.wait_states.is_empty() && unattributed.is_empty() {
        return;
    }
    page.section("Waiting in communication");
    if !report.wait_states.is_empty() {
        wait_table(page, report);
    }
    unattributed.iter().for_each(|line| page.note(Ink::Plain, line));
}

fn wait_table(page: &mut Page, report: &Report) {
    let column = |(title, rank): (&'static str, u8)| match title {
        "waits" | "in" => Column::name(title),
        "for ranks" => Column::text(title, rank),
        _ => Column::number(title, rank),
    };
    let mut table = Table::new(waits::COLUMNS.map(column).into());
    for state in report.wait_states.iter().take(waits::WAITS_SHOWN_MAX) {
        table.row(waits::cells(report, state).map(|(shown, _)| Cell::Text(shown)).into());
    }
    page.table(&table);
    page.note(Ink::Faint, &waits::basis(report));
}

/// Transfer and waiting of links, of messages that were matched.
fn link_times(page: &mut Page, report: &Report) {
    if report.messages.is_empty() {
        return;
    }
    page.section("Time of messages from rank to rank");
    let mut table = Table::new(transfers::COLUMNS.map(|(title, rank)| Column::number(title, rank)).into());
    for row in transfers::rows(report) {
        table.row(row.map(|(shown, _)| Cell::Text(shown)).into());
    }
    page.table(&table);
    page.note(Ink::Faint, &transfers::basis(report));
}

fn links(page: &mut Page, report: &Report) {
    page.section("Bytes from rank to rank, counted at the sender");
    let Some(sentence) = words::traffic(report) else {
        return page.note(Ink::Plain, NOT_MEASURED);
    };
    page.note(Ink::Plain, &sentence);
    if report.links.is_empty() {
        return;
    }
    let world = numbers::world_size(report);
    let matrix = (world <= MATRIX_RANKS_MAX).then(|| matrix_table(report)).filter(|table| table.fits(&page.pen));
    match matrix {
        Some(table) => page.table(&table),
        None => link_summary(page, report),
    }
}

/// One row per sender, one column per receiver, and the sums.
fn matrix_table(report: &Report) -> Table {
    let (matrix, _) = numbers::volume_matrix(report, MATRIX_RANKS_MAX as usize);
    let mut columns = vec![Column::number("from \\ to", 0)];
    columns.extend((0..matrix.len()).map(|rank| Column::number(&rank.to_string(), 0)));
    columns.push(Column::number("sent", 0));
    let mut table = Table::new(columns);
    let mut received = vec![0u64; matrix.len()];
    for (from, row) in matrix.iter().enumerate() {
        let sent = row.iter().fold(0u64, |sum, cell| sum.saturating_add(*cell));
        let cells = row.iter().map(|cell| if *cell == 0 { ".".to_string() } else { bytes_short(*cell) });
        let ends = (from.to_string(), bytes_short(sent));
        table.row(std::iter::once(ends.0).chain(cells).chain([ends.1]).map(Cell::Text).collect());
        for (sum, cell) in received.iter_mut().zip(row) {
            *sum = sum.saturating_add(*cell);
        }
    }
    let total = received.iter().fold(0u64, |sum, cell| sum.saturating_add(*cell));
    let sums = received.iter().chain([&total]).map(|sum| bytes_short(*sum));
    table.row(std::iter::once("received".to_string()).chain(sums).map(Cell::Text).collect());
    table
}

fn link_summary(page: &mut Page, report: &Report) {
    if let Some(spread) = numbers::spread(report.links.iter().map(|link| link.bytes as f64)) {
        let (least, median, most) = (bytes(spread.min), bytes(spread.median), bytes(spread.max));
        page.note(Ink::Plain, &format!("per link: {least} at least, median {median}, {most} at most; the heaviest:"));
    }
    let total = numbers::traffic(report).bytes as f64;
    let mut table = Table::new(vec![
        Column::number("from", 0),
        Column::number("to", 0),
        Column::number("bytes", 0),
        Column::number("share", 0),
        Column::number("messages", 0),
        Column::number("mean size", 1),
        Column::number("collective", 2),
    ]);
    for link in numbers::heaviest_links(report).into_iter().take(LINKS_SHOWN_MAX) {
        table.row(link_cells(link, total));
    }
    page.table(&table);
}

fn link_cells(link: &Link, total: f64) -> Vec<Cell> {
    let or_dash = |value: Option<String>| value.unwrap_or("-".to_string());
    let cells = [
        link.from.to_string(),
        link.to.to_string(),
        bytes(link.bytes as f64),
        or_dash(numbers::ratio(link.bytes as f64, total).map(percent)),
        count(link.messages),
        or_dash(numbers::ratio(link.bytes as f64, link.messages as f64).map(bytes)),
        bytes(link.collective_bytes as f64),
    ];
    cells.into_iter().map(Cell::Text).collect()
}

fn details(page: &mut Page, report: &Report) {
    if report.details.is_empty() {
        return;
    }
    page.section("First calls, from the window's start");
    let mut table = Table::new(vec![
        Column::number("rank", 0),
        Column::number("thread", 2),
        Column::cut("function"),
        Column::number("at", 0),
        Column::number("took", 0),
        Column::text("arguments", 1),
    ]);
    for detail in report.details.iter().take(DETAILS_SHOWN_MAX) {
        table.row(detail_cells(report, detail));
    }
    page.table(&table);
    let more = report.details.len().saturating_sub(DETAILS_SHOWN_MAX);
    if more > 0 {
        page.note(Ink::Plain, &format!("and {}: see --json", counted(more as u64, "more record")));
    }
}

fn detail_cells(report: &Report, detail: &Detail) -> Vec<Cell> {
    let arguments: Vec<String> = detail.arguments.iter().map(|argument| format!("{argument:#x}")).collect();
    let cells = [
        detail.rank.to_string(),
        detail.thread.to_string(),
        clean(&detail.function),
        report.window.started_unix_s.map_or("-".to_string(), |started| time(detail.time_unix_s - started)),
        detail.duration_s.map_or("no return".to_string(), time),
        arguments.join(" "),
    ];
    cells.into_iter().map(Cell::Text).collect()
}

fn warnings(page: &mut Page, report: &Report) {
    if report.warnings.is_empty() {
        return;
    }
    page.section("Warnings");
    for warning in &report.warnings {
        page.note(Ink::Warn, &format!("! {}", clean(warning)));
    }
}
