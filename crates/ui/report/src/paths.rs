//! Communication by the place in the program that it is called from, and calls by what they carry, as both pages tell it.
//!
//! Next: `terminal.rs` and `html/tables.rs`, which lay it out.

use crate::clean::clean;
use crate::units::{bytes, count, counted, percent, time};
use crate::waits::waited;
use trimtab_types::report::{FunctionTotal, PathTotal, Report, SizeClass};

/// Rows of paths in a terminal, longest time first; all are in the JSON.
pub(crate) const PATHS_SHOWN_MAX: usize = 10;

/// Rows of sizes in a terminal, most bytes first; all are in the JSON.
pub(crate) const SIZES_SHOWN_MAX: usize = 10;

/// Titles of the columns of paths, with how readily a narrow page leaves each out.
pub(crate) const COLUMNS: [(&str, u8); 8] = [
    ("call", 0),
    ("from", 0),
    ("share", 0),
    ("calls", 1),
    ("time", 0),
    ("most on rank", 4),
    ("bytes", 2),
    ("waits", 3),
];

/// The calls by one of these paths: what is shown under each title, with the number it stands for.
pub(crate) fn cells(rows: &[PathTotal], row: &PathTotal) -> [(String, Option<f64>); COLUMNS.len()] {
    let maybe = |value: Option<f64>, shown: fn(f64) -> String| {
        (value.map_or("-".to_string(), shown), Some(value.unwrap_or(-1.0)))
    };
    let wait = match row.wait_error_s.filter(|_| row.wait_s.is_none()) {
        Some(error_s) => (waited(None, error_s, time), Some(0.0)),
        None => maybe(row.wait_s, time),
    };
    let most = row.rank_time_s_max.zip(row.rank_of_max);
    let most = most.map_or("-".to_string(), |(most_s, rank)| format!("{} ({rank})", time(most_s)));
    [
        (clean(&row.function), None),
        (place_among(rows, row), None),
        maybe(row.fraction, percent),
        (count(row.calls), Some(row.calls as f64)),
        maybe(row.time_s, time),
        (most, Some(row.rank_time_s_max.unwrap_or(-1.0))),
        maybe(row.bytes.map(|bytes| bytes as f64), bytes),
        wait,
    ]
}

/// Its place; where the compiler gave several calls one line, with what tells them apart: `solve at solver.f90:214 +0x1bb`.
fn place_among(rows: &[PathTotal], row: &PathTotal) -> String {
    let shown = place(row);
    let Some(own) = row.own().filter(|own| own.line.is_some()) else { return shown };
    let is_another = |other: &PathTotal| other.own().is_some_and(|of| of.offset != own.offset);
    let is_alike = |other: &PathTotal| other.function == row.function && place(other) == shown && is_another(other);
    if rows.iter().any(is_alike) { format!("{shown} +{:#x}", own.offset) } else { shown }
}

/// `solve at solver.f90:214`.
fn place(row: &PathTotal) -> String {
    match row.own() {
        Some(own) if own.interpreter => format!("Python ({})", clean(&own.place())),
        Some(own) if own.own => clean(&own.place()),
        Some(last) => format!("whoever calls {}", clean(&last.place())),
        None => "not known".to_string(),
    }
}

/// Reasons why it is not known from where in the program some calls come, with these calls.
pub(crate) fn missing(report: &Report) -> Vec<String> {
    let mut reasons: Vec<(&str, u64)> = Vec::new();
    for row in &report.paths {
        let Some(reason) = row.path_missing.as_deref() else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, calls)) => *calls += row.calls,
            None => reasons.push((reason, row.calls)),
        }
    }
    let line = |(reason, calls): (&str, u64)| match calls {
        0 => clean(reason),
        _ => format!("{}: {}", counted(calls, "call"), clean(reason)),
    };
    reasons.into_iter().map(line).collect()
}

/// The sum of the rows that are not shown; `None`: all are.
pub(crate) fn rest(rows: &[PathTotal]) -> Option<String> {
    let more = rows.get(PATHS_SHOWN_MAX..).filter(|rest| !rest.is_empty())?;
    let calls: u64 = more.iter().map(|row| row.calls).sum();
    let time_s: f64 = more.iter().filter_map(|row| row.time_s).sum();
    Some(format!("and {}: {}, {}", counted(more.len() as u64, "more place"), counted(calls, "call"), time(time_s)))
}

/// Each class of calls of functions that have several, those that carry most first.
pub(crate) fn sizes(report: &Report) -> Vec<(&FunctionTotal, SizeClass)> {
    let mut rows: Vec<(&FunctionTotal, SizeClass)> = Vec::new();
    for function in &report.functions {
        let sizes = function.sizes.as_deref().filter(|sizes| sizes.len() > 1);
        rows.extend(sizes.into_iter().flatten().map(|size| (function, *size)));
    }
    rows.sort_by_key(|(_, size)| std::cmp::Reverse((size.bytes, size.calls)));
    rows
}

/// `1 KiB to below 2 KiB`.
pub(crate) fn size(class: &SizeClass) -> String {
    let shown = |size: u64| bytes(size as f64);
    match (class.from_bytes, class.to_bytes) {
        (Some(0), _) => "none".to_string(),
        (Some(1), _) => "1 B".to_string(),
        (Some(from), Some(to)) => format!("{} to below {}", shown(from), shown(to.saturating_add(1))),
        (Some(from), None) => format!("{} and more", shown(from)),
        (None, _) => "not known".to_string(),
    }
}
