//! The time of links as both pages tell it: how much of it is transfer, and how much waiting for the other end.
//!
//! Next: `terminal.rs` and `html/tables.rs`, which lay it out.

use crate::units::{count, counted, time};
use trimtab_types::report::Report;

/// Rows shown, the links with the longest times first; all sizes are in the JSON.
pub(crate) const LINKS_SHOWN_MAX: usize = 8;

/// Titles of the columns, with how readily a narrow page leaves each out.
pub(crate) const COLUMNS: [(&str, u8); 6] =
    [("from", 0), ("to", 0), ("messages", 1), ("transfer", 0), ("waiting", 0), ("not seen", 2)];

/// All messages of one link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LinkTime {
    from: u32,
    to: u32,
    messages: u64,
    hidden: u64,
    transfer_s: Option<f64>,
    wait_s: Option<f64>,
}

/// The cells under each title, with the numbers they stand for, of the links with the longest times.
pub(crate) fn rows(report: &Report) -> Vec<[(String, f64); COLUMNS.len()]> {
    let mut links = links(report);
    let total = |link: &LinkTime| link.transfer_s.unwrap_or(0.0) + link.wait_s.unwrap_or(0.0);
    links.sort_by(|a, b| total(b).total_cmp(&total(a)).then((a.from, a.to).cmp(&(b.from, b.to))));
    let shown = |seconds: Option<f64>| (seconds.map_or("-".to_owned(), time), seconds.unwrap_or(-1.0));
    let row = |link: &LinkTime| {
        [
            (link.from.to_string(), f64::from(link.from)),
            (link.to.to_string(), f64::from(link.to)),
            (count(link.messages), link.messages as f64),
            shown(link.transfer_s),
            shown(link.wait_s),
            (count(link.hidden), link.hidden as f64),
        ]
    };
    links.iter().take(LINKS_SHOWN_MAX).map(row).collect()
}

fn links(report: &Report) -> Vec<LinkTime> {
    let mut links: Vec<LinkTime> = Vec::new();
    for row in &report.messages {
        let is_it = |link: &&mut LinkTime| (link.from, link.to) == (row.from, row.to);
        let link = match links.iter_mut().rev().find(is_it) {
            Some(link) => link,
            None => {
                links.push(LinkTime { from: row.from, to: row.to, ..LinkTime::default() });
                let last = links.len() - 1;
                &mut links[last]
            }
        };
        link.messages += row.messages;
        link.hidden += row.hidden;
        let both = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        link.transfer_s = both(link.transfer_s, row.transfer_s);
        link.wait_s = both(link.wait_s, row.wait_s);
    }
    links
}

/// The basis of the table.
pub(crate) fn basis(report: &Report) -> String {
    let more = links(report).len().saturating_sub(LINKS_SHOWN_MAX);
    let rest = if more > 0 { format!("; {} in the JSON", counted(more as u64, "shorter link")) } else { String::new() };
    format!("of messages whose send and receive were matched; not seen: no call waited for them alone{rest}")
}
