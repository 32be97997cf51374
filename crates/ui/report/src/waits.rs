//! Waiting inside of communication, as both pages tell it: which calls waited, how long, and for whom.
//!
//! Next: `terminal.rs` and `html/tables.rs`, which lay it out.

use crate::clean::clean;
use crate::numbers;
use crate::units::{count, counted, percent, time};
use trimtab_types::report::{Report, WaitState};

/// Rows shown, the longest waits first; all are in the JSON.
pub(crate) const WAITS_SHOWN_MAX: usize = 8;

/// Titles of the columns, with how readily a narrow page leaves each out.
pub(crate) const COLUMNS: [(&str, u8); 7] =
    [("waits", 0), ("in", 0), ("calls", 3), ("time", 0), ("+/-", 2), ("share", 1), ("for ranks", 1)];

/// One kind of waiting in one function: what is shown under each title, with the number it stands for.
pub(crate) fn cells(report: &Report, state: &WaitState) -> [(String, Option<f64>); COLUMNS.len()] {
    let share = share(report, state);
    let shown_share = |share: Share| waited(share.time, share.error, percent);
    let error = if state.error_s > 0.0 && state.time_s.is_some() { time(state.error_s) } else { "-".to_string() };
    [
        (state.state.to_string(), None),
        (clean(&state.function), None),
        (count(state.calls), Some(state.calls as f64)),
        (waited(state.time_s, state.error_s, time), Some(state.time_s.unwrap_or(-1.0))),
        (error, Some(state.error_s)),
        (share.map_or("-".to_string(), shown_share), Some(share.map_or(-1.0, |share| share.time.unwrap_or(0.0)))),
        (late_ranks(state), None),
    ]
}

/// A time that was waited, or its share; below what clocks of two ranks can tell: "< 1.2 us".
pub(crate) fn waited(known: Option<f64>, error: f64, shown: fn(f64) -> String) -> String {
    known.map_or_else(|| format!("< {}", shown(error)), shown)
}

/// A wait as a share, and how far that may be off.
#[derive(Clone, Copy)]
struct Share {
    time: Option<f64>,
    error: f64,
}

/// Of the ranks' time in the iterations that were looked at.
fn share(report: &Report, state: &WaitState) -> Option<Share> {
    let all = report.window.iterations.filter(|all| *all > 0)?;
    let looked_at_s = numbers::rank_seconds(report) * state.iterations as f64 / all as f64;
    let error = numbers::ratio(state.error_s, looked_at_s)?;
    Some(Share { time: state.time_s.and_then(|time_s| numbers::ratio(time_s, looked_at_s)), error })
}

/// The ranks that others waited for: "2 (82%), 3 (18%)".
fn late_ranks(state: &WaitState) -> String {
    let one = |late: &trimtab_types::report::LateRank| {
        let share = state.time_s.and_then(|time_s| numbers::ratio(late.time_s, time_s));
        let share = share.map_or(String::new(), |share| format!(" ({})", percent(share)));
        format!("{}{share}", late.rank)
    };
    state.late_ranks.iter().map(one).collect::<Vec<String>>().join(", ")
}

/// Below this share of the time it is not worth a line that nobody knows for whom a function waited.
const SHARE_SHOWN_MIN: f64 = 0.01;
/// Functions named in one line.
const NAMED_MAX: usize = 6;

/// Functions that took time of which no part is in the table, a line for each reason.
pub(crate) fn unattributed(report: &Report) -> Vec<String> {
    let mut lines: Vec<(&str, Vec<String>)> = Vec::new();
    for function in &report.functions {
        let share = function.time_s.and_then(|time_s| numbers::ratio(time_s, numbers::rank_seconds(report)));
        let (Some(reason), Some(share)) = (function.waits_missing.as_deref(), share) else { continue };
        if share >= SHARE_SHOWN_MIN {
            let named = format!("{} ({})", clean(&function.name), percent(share));
            match lines.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, names)) => names.push(named),
                None => lines.push((reason, vec![named])),
            }
        }
    }
    let line = |(reason, names): (&str, Vec<String>)| {
        let more = names.len().saturating_sub(NAMED_MAX);
        let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
        format!("{named}{and_more}: for whom they wait is not known: {}", clean(reason))
    };
    lines.into_iter().map(line).collect()
}

/// The basis of the table.
pub(crate) fn basis(report: &Report) -> String {
    let iterations = report.wait_states.iter().map(|state| state.iterations).max().unwrap_or(0);
    let more = report.wait_states.len().saturating_sub(WAITS_SHOWN_MAX);
    let rest = if more > 0 { format!("; {} in the JSON", counted(more as u64, "shorter row")) } else { String::new() };
    format!("summed over ranks, from calls of {} that could be matched{rest}", counted(iterations, "iteration"))
}
