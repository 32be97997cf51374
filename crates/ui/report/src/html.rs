//! The page for a browser: one file with plots, tables and the report itself as JSON, that opens without a network.
//!
//! Everything is drawn here as SVG and text, so the page is whole without its script; the script adds tooltips, sorting,
//! the colour switch and the download. A content security policy in the page forbids it any connection.
//!
//! Next: `html/plots.rs` for the plots, `html/page.css` and `html/page.js`, `words.rs` for the sentences.

mod escape;
mod plots;
mod svg;
mod tables;

use crate::numbers::{self, COST_BAR};
use crate::omp;
use crate::paths;
use crate::transfers;
use crate::units::{NOT_MEASURED, percent, time};
use crate::waits;
use crate::words::{self, Fact, Tone};
use escape::{card, text};
use std::fmt::Write;
use trimtab_types::report::{Estimate, Report};

/// Above this the embedded JSON leaves out its two long lists, so that the page still opens at once.
const EMBEDDED_BYTES_MAX: usize = 8 << 20;

/// Nothing may be loaded or sent; style and script are those of the page.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

const CSS: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// The whole file; `headline` is the one sentence a reader should take away.
pub fn html(report: &Report, headline: &str) -> String {
    let title = text(&format!("{} window {}", job_name(report), report.window.number));
    let (json, trimmed) = embedded_json(report);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title} - trimtab</title>\n<style>\n{CSS}</style>\n</head>\n<body>\n<main>\n"
    );
    page += &header(report, headline);
    page += &tiles(report);
    page += &warnings(report);
    page += &plot_cards(report);
    page += &card("Functions", &words::summed_over(report), &tables::functions(report));
    page += &regions(report);
    page += &call_paths(report);
    page += &waiting(report);
    page += &link_times(report);
    page += &facts_cards(report);
    page += &tables::ranks(report);
    page += &tables::counters(report);
    page += &tables::details(report);
    page += &footer(report, trimmed);
    let _infallible = write!(
        page,
        "</main>\n<div id=\"tip\" hidden></div>\n<script type=\"application/json\" id=\"report\">{json}</script>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    );
    page
}

/// Transfer and waiting of links, where messages were matched.
fn link_times(report: &Report) -> String {
    if report.messages.is_empty() {
        return String::new();
    }
    card("Time of messages from rank to rank", &transfers::basis(report), &tables::link_times(report))
}

/// Parallel regions and what their threads did, where they were measured.
fn regions(report: &Report) -> String {
    let Some(found) = &report.omp else { return String::new() };
    let notes: String = omp::notes(found).iter().map(|line| format!("<p>{}</p>\n", text(line))).collect();
    card("Parallel regions of OpenMP", "summed over ranks", &(tables::regions(found) + &notes))
}

/// Communication by the place it is called from, and calls by what they carry, where either is known.
fn call_paths(report: &Report) -> String {
    let missing: String = paths::missing(report).iter().map(|line| format!("<p>{}</p>\n", text(line))).collect();
    let mut cards = String::new();
    if !report.paths.is_empty() {
        let body = tables::paths(report) + &missing;
        cards += &card("Communication by where it is called", &words::summed_over(report), &body);
    }
    if !paths::sizes(report).is_empty() {
        cards += &card("Calls by what they carry", "functions whose calls differ", &tables::sizes(report));
    }
    cards
}

/// The waits by causer, and the time of which nobody knows it; nothing where nobody communicated.
fn waiting(report: &Report) -> String {
    let lines: String = waits::unattributed(report).iter().map(|line| format!("<p>{}</p>\n", text(line))).collect();
    match (report.wait_states.is_empty(), lines.is_empty()) {
        (true, true) => String::new(),
        (true, false) => card("Waiting in communication", "", &lines),
        (false, _) => card("Waiting in communication", &waits::basis(report), &(tables::wait_states(report) + &lines)),
    }
}

fn job_name(report: &Report) -> &str {
    match report.job.id.as_str() {
        "" => report.job.program.rsplit('/').next().unwrap_or_default(),
        id => id,
    }
}

fn header(report: &Report, headline: &str) -> String {
    let sentence = text(headline);
    let where_from = format!(
        "{} · window {} · {} · {} · {}",
        job_name(report),
        report.window.number,
        crate::units::counted(u64::from(report.job.ranks), "rank"),
        report.job.mpi,
        crate::units::date_if_known(report.window.started_unix_s)
    );
    let invalid = words::invalid(report).map(|why| format!("<p class=\"banner bad\">{}</p>\n", text(&why)));
    format!(
        "<header>\n<div class=\"top\"><p class=\"where\">{}</p>\
         <button type=\"button\" id=\"theme\" hidden>dark / light</button></div>\n<h1>{sentence}</h1>\n{}</header>\n",
        text(&where_from),
        invalid.unwrap_or_default()
    )
}

/// The four numbers to remember.
fn tiles(report: &Report) -> String {
    let share = report.communication_fraction;
    let iteration = report.time_per_iteration_s;
    let cost = report.cost.fraction;
    let interval = |estimate: Option<Estimate>, largest: f64, shown: fn(f64) -> String| {
        let ends = estimate.and_then(|estimate| estimate.interval_95(largest));
        ends.map(|(low, high)| format!("{} to {} (95%)", shown(low), shown(high))).unwrap_or_default()
    };
    let rows = [
        ("communication", share.map(|s| percent(s.mean)), interval(share, 1.0, percent), false),
        ("time per iteration", iteration.map(|t| time(t.mean)), interval(iteration, f64::INFINITY, time), false),
        ("imbalance", report.imbalance.map(percent), "longest / mean computation - 1".to_string(), false),
        (
            "cost of measuring",
            cost.map(percent),
            "of the window's time".to_string(),
            cost.is_some_and(|c| c > COST_BAR),
        ),
    ];
    let mut tiles = String::from("<div class=\"tiles\">\n");
    for (name, value, remark, warn) in rows {
        let class = match (&value, warn) {
            (None, _) => "tile none",
            (_, true) => "tile warn",
            _ => "tile",
        };
        let shown = value.as_deref().unwrap_or(NOT_MEASURED);
        let remark = if value.is_some() { remark } else { String::new() };
        let _infallible = writeln!(
            tiles,
            "<div class=\"{class}\"><span>{name}</span><strong>{}</strong><small>{}</small></div>",
            text(shown),
            text(&remark)
        );
    }
    tiles + "</div>\n"
}

fn warnings(report: &Report) -> String {
    let mut list = String::new();
    for warning in &report.warnings {
        let _infallible = writeln!(list, "<p class=\"banner\">{}</p>", text(warning));
    }
    list
}

fn plot_cards(report: &Report) -> String {
    let ranks = if numbers::communication_measured(report) {
        "computation and communication of each rank's recorded time"
    } else {
        "recorded time; communication was not measured"
    };
    let traffic = words::traffic(report).unwrap_or(NOT_MEASURED.to_string());
    card("Time per rank", ranks, &plots::ranks(report))
        + &card("Time per iteration", "how it changes over the window", &plots::iterations(report))
        + &card("Bytes from rank to rank", &traffic, &plots::volume(report))
}

/// All facts in two columns.
fn facts_cards(report: &Report) -> String {
    let column = |cards: &[(&str, Vec<Fact>)]| {
        let body: String = cards.iter().map(|(title, facts)| card(title, "", &definitions(facts))).collect();
        format!("<div>\n{body}</div>\n")
    };
    let what = column(&[("Job", words::job(report)), ("Window", words::window(report, true))]);
    let found = column(&[
        ("Result", words::result(report)),
        ("Operating system", words::system(report)),
        ("Cost of measuring", words::cost(report)),
    ]);
    format!("<div class=\"facts\">\n{what}{found}</div>\n")
}

fn definitions(facts: &[Fact]) -> String {
    let mut list = String::from("<dl>\n");
    for fact in facts {
        let class = match fact.tone {
            Tone::Plain => "",
            Tone::Bad => " class=\"bad\"",
            Tone::Warn => " class=\"warn\"",
        };
        let _infallible = writeln!(list, "<dt>{}</dt><dd{class}>{}</dd>", text(fact.name), text(&fact.value));
    }
    list + "</dl>\n"
}

fn footer(report: &Report, trimmed: bool) -> String {
    let note = if trimmed {
        " The data in this page leaves out the single iteration times and trace records: see --json for all."
    } else {
        ""
    };
    format!(
        "<footer><p>Measured by trimtab; {}. Every number is explained in docs/report.md.{note} \
         <button type=\"button\" id=\"download\" hidden>save the data as JSON</button></p></footer>\n",
        text(&report.schema)
    )
}

/// The report as JSON that cannot end the script element it stands in, and whether long lists were left out.
fn embedded_json(report: &Report) -> (String, bool) {
    let whole = serialised(report);
    if whole.len() <= EMBEDDED_BYTES_MAX {
        return (whole, false);
    }
    let mut short = report.clone();
    short.details.clear();
    for rank in &mut short.ranks {
        rank.iteration_times_s.clear();
    }
    (serialised(&short), true)
}

fn serialised(report: &Report) -> String {
    // A report has no map with odd keys, the only thing that cannot be serialised; "null" would be valid JSON still.
    let json = serde_json::to_string(report).unwrap_or("null".to_string());
    // These characters stand in JSON only inside of strings, where the escape means the same.
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}
