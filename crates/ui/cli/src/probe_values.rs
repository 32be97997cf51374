//! How the results of a script look: a line per variable, histograms as bars, and JSON.
//!
//! Next: `trimtab-snippet`'s `values`, which says what they mean.

use serde_json::json;
use std::fmt::Write;
use trimtab_engine::{Message, MessageValue, Named, Probed, Value};

/// Columns of a histogram's longest bar.
const BAR_COLUMNS: u64 = 40;
/// Reasons shown at most for what a value lacks.
const REASONS_MAX: usize = 2;
/// Stacks shown at most.
const STACKS_MAX: usize = 10;

/// A message on one line.
pub fn line(message: &Message) -> String {
    let text = |value: &MessageValue| match value {
        MessageValue::Int(value) => value.to_string(),
        MessageValue::Float(value) => format!("{value}"),
        MessageValue::Text(text) => text.clone(),
    };
    let values: Vec<String> = message.values.iter().map(text).collect();
    let from = if message.rank >= 0 { format!("rank {}", message.rank) } else { format!("pid {}", message.pid) };
    format!("[{from}] {}: {}", message.tag, values.join(" "))
}

/// True if every function was probed and nothing went wrong on the way.
pub fn is_complete(probed: &Probed) -> bool {
    probed.refused.is_empty() && probed.summary.warnings.is_empty()
}

/// For programs.
pub fn as_json(probed: &Probed) -> serde_json::Value {
    json!({
        "schema": "trimtab.probe/1",
        "ended_by": probed.ended_by.word(),
        "seconds": probed.seconds,
        "functions": probed.functions,
        "refused": probed.refused,
        "variables": probed.values,
        "messages": probed.messages,
        "cost": probed.summary,
    })
}

/// For people.
pub fn text(probed: &Probed) -> String {
    let width = probed.values.iter().map(|named| named.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for named in &probed.values {
        let _ = writeln!(text, "{:width$}  {}", named.name, result(named));
        text += &named.value.as_ref().map(details).unwrap_or_default();
    }
    let summary = &probed.summary;
    let _ = writeln!(
        text,
        "{:.2} s, ended by: {}; {} places in {} functions; paused {:.0} us to insert, {}",
        probed.seconds,
        probed.ended_by.word(),
        summary.points,
        probed.functions - probed.refused.iter().filter(|one| !one.is_of_exits()).count(),
        summary.pause_insert_us_max,
        summary.pause_remove_us_max.map_or_else(
            || "nothing was left to remove them from".to_owned(),
            |pause_us| format!("{pause_us:.0} us to remove")
        )
    );
    for late in &summary.late {
        let _ = writeln!(
            text,
            "late: {} in process {} after {:.1} s, {} places; calls before that were missed",
            late.library, late.pid, late.after_s, late.points
        );
    }
    for (count, what) in [
        (summary.loss.unreadable_loads, "loads from addresses that can't be read yielded 0"),
        (summary.loss.messages, "messages found no room"),
        (summary.loss.elapsed_unknown, "elapsed times were not known"),
        (summary.loss.skipped, "runs were skipped inside signal handlers"),
        (summary.loss.threads, "hits were on threads beyond those there was room for"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "warning: {count} {what}");
        }
    }
    for note in &summary.notes {
        let _ = writeln!(text, "note: {note}");
    }
    for warning in &summary.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

/// A variable's value, and what is missing of it.
fn result(named: &Named) -> String {
    let missing = reasons(&named.missing);
    match &named.value {
        None => format!("not measured: {missing}"),
        Some(all) if named.missing.is_empty() => value(all),
        Some(part) if named.at_least => format!("at least {}; not counted: {missing}", value(part)),
        Some(part) => format!("{}; not complete, without: {missing}", value(part)),
    }
}

/// The first reasons; JSON has them all, and so has the list of places that were not probed.
fn reasons(missing: &[String]) -> String {
    let named = missing.iter().take(REASONS_MAX).map(String::as_str).collect::<Vec<_>>().join("; ");
    match missing.len().saturating_sub(REASONS_MAX) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::Sum { value } => number(value.as_float()),
        Value::Each { values } if values.is_empty() => "no value".to_owned(),
        Value::Each { values } if values.len() == 1 => number(values[0].value.as_float()),
        Value::Each { values } => {
            let each = values.iter().map(|own| format!("rank {}: {}", own.rank, number(own.value.as_float())));
            each.collect::<Vec<_>>().join(", ")
        }
        Value::Min { value, count } | Value::Max { value, count } => match value {
            Some(value) => format!("{} (of {count})", number(value.as_float())),
            None => "no value".to_owned(),
        },
        Value::Mean { count, .. } => match value.mean() {
            Some(mean) => format!("{} (of {count})", number(mean)),
            None => "no value".to_owned(),
        },
        Value::Histogram(histogram) => {
            let part = |share| histogram.percentile(share).map_or_else(|| "-".to_owned(), number);
            let mean = histogram.mean().map_or_else(|| "-".to_owned(), number);
            format!(
                "{} values, mean {mean}, median {}, p90 {}, p99 {}",
                histogram.count,
                part(0.5),
                part(0.9),
                part(0.99)
            )
        }
        Value::Stacks(stacks) => format!("{} different stacks", stacks.counts.len()),
    }
}

/// Integers without a fraction, others with four digits of it.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 9e15 { format!("{value:.0}") } else { format!("{value:.4}") }
}

fn details(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Histogram(histogram) => {
            let most = histogram.buckets.iter().copied().max().unwrap_or(0).max(1);
            let first = histogram.buckets.iter().position(|count| *count > 0).unwrap_or(0);
            for (bucket, count) in histogram.buckets.iter().enumerate().skip(first) {
                let from = if bucket == 0 { "<1".to_owned() } else { format!("{}", 1u128 << (bucket - 1)) };
                let bar = "#".repeat((count * BAR_COLUMNS).div_ceil(most) as usize);
                let _ = writeln!(text, "  {from:>20} {count:>12} {bar}");
            }
        }
        Value::Stacks(stacks) => {
            for (hash, count) in stacks.top(STACKS_MAX) {
                let _ = writeln!(text, "  {hash:#018x} {count:>12}");
            }
        }
        _ => {}
    }
    text
}
