//! `backtest --jobs`: run times and waits of a log's jobs, forecast in order of submission, against what came.
//!
//! Next: `trimtab-history` for the forecast; docs/forecasts.md for what is printed.

use crate::arguments::BacktestOptions;
use crate::exit_code::{DONE, PARTIAL};
use crate::output;
use crate::recorded::{bytes_of, short};
use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};
use trimtab_engine::history::{
    Backtest, Basis, Format, From, Judged, LeftOut, Log, WaitsJudged, Wrong, backtest, read_log,
};

/// Version of the JSON's shape: fields may be added to it, and nothing else changes.
const JSON_VERSION: u32 = 1;
/// Nothing is said of progress before.
const QUIET: Duration = Duration::from_secs(1);
/// Jobs between two looks at the clock.
const LOOK_EVERY: usize = 64;

/// `trimtab backtest --jobs FILE`.
pub fn run(path: &Path, options: &BacktestOptions) -> anyhow::Result<u8> {
    let name = path.display().to_string();
    let log = log_of(path, options.leave_out_wrong)?;
    let mut progress = Progress::new(log.jobs.len());
    let found = backtest(&log, options.from.map_or(From::Start, From::Share), &mut |done| progress.tell(done));
    progress.bar.finish_and_clear();
    match &options.json {
        Some(path) => output::write(path, &as_json(&found)?)?,
        None => output::print_text(&page(&name, &found))?,
    }
    Ok(if found.judged == 0 { PARTIAL } else { DONE })
}

/// A log of jobs in a file.
pub(crate) fn log_of(path: &Path, leave_out_wrong: bool) -> anyhow::Result<Log> {
    let bytes = bytes_of(path)?;
    // Headers of old logs have names in other encodings; what counts is in ASCII.
    let text = String::from_utf8_lossy(&bytes);
    let wrong = if leave_out_wrong { Wrong::LeftOut } else { Wrong::Refused };
    read_log(&text, wrong).with_context(|| path.display().to_string())
}

/// A line on a terminal once it takes long.
struct Progress {
    bar: ProgressBar,
    begun: Instant,
}

impl Progress {
    fn new(jobs: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(jobs as u64), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{pos} of {len} jobs") {
            bar.set_style(style);
        }
        Progress { bar, begun: Instant::now() }
    }

    fn tell(&mut self, done: usize) {
        if !done.is_multiple_of(LOOK_EVERY) || self.begun.elapsed() < QUIET {
            return;
        }
        if self.bar.is_hidden() {
            // It draws nothing where no terminal is.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done as u64);
    }
}

fn as_json(found: &Backtest) -> anyhow::Result<String> {
    let mut object = serde_json::to_value(found)?;
    object["version"] = json!(JSON_VERSION);
    Ok(serde_json::to_string_pretty(&object)?)
}

fn page(name: &str, found: &Backtest) -> String {
    let mut text = first_lines(name, found);
    let Some(history) = &found.history else {
        text += "no job was judged\n";
        return text;
    };
    let _ = writeln!(text, "\n{:<36} {:>9} {:>13} {:>10}", "", "accuracy", "median error", "too short");
    for judged in [history].into_iter().chain(&found.rules) {
        text += &row(judged);
    }
    text += "\n";
    if let (Some(last_two), Some(best)) = (found.over_last_two_points, found.over_best_rule_points) {
        let _ = writeln!(
            text,
            "history is {} than the mean of the last two, {} than the best rule",
            better(last_two),
            better(best)
        );
    }
    text += &bound_lines(found);
    text += &found.waits.as_ref().map(wait_lines).unwrap_or_default();
    let _ = writeln!(text, "\n{:<36} {:>9} {:>13}", "known were jobs of", "accuracy", "jobs");
    for by in &found.by_basis {
        let _ = writeln!(text, "{:<36} {:>8.1}% {:>13}", words(by.basis), 100.0 * by.accuracy, by.judged);
    }
    text
}

fn first_lines(name: &str, found: &Backtest) -> String {
    let format = match found.format {
        Format::Swf => "Standard Workload Format",
        Format::Sacct => "sacct",
        Format::Csv => "CSV",
    };
    let mut text = format!("{name}: {} jobs ({format}), {} with a requested time", found.jobs, found.requested);
    let _ = writeln!(text, "; {} judged", found.judged);
    let LeftOut { never_ran, not_ended, parts, unknown, wrong } = found.left_out;
    let left_out = [
        (never_ran, "that never ran"),
        (not_ended, "that have not ended"),
        (parts, "steps or parts of jobs"),
        (unknown, "without a submission or a run time"),
        (wrong, "damaged or impossible lines"),
    ];
    let left_out: Vec<String> =
        left_out.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !left_out.is_empty() {
        let _ = writeln!(text, "left out: {}", left_out.join(", "));
    }
    if found.out_of_order > 0 {
        let _ =
            writeln!(text, "{} stood behind a job submitted later; all were sorted by submission", found.out_of_order);
    }
    if found.without_basis > 0 {
        let _ = writeln!(
            text,
            "{} had neither a request nor a job that had ended before: no forecast",
            found.without_basis
        );
    }
    text
}

fn row(judged: &Judged) -> String {
    let Judged { name, accuracy, error_median_s, too_short } = judged;
    let error = format!("{} s", short(*error_median_s));
    format!("{name:<36} {:>8.1}% {error:>13} {:>9.1}%\n", 100.0 * accuracy, 100.0 * too_short)
}

fn better(points: f64) -> String {
    format!("{:.1} points {}", points.abs(), if points < 0.0 { "worse" } else { "better" })
}

fn bound_lines(found: &Backtest) -> String {
    let mut text = String::new();
    if let Some(interval) = &found.interval {
        let [share, below, above] =
            [interval.share, interval.share_below, interval.share_above].map(|share| 100.0 * share);
        let _ = writeln!(
            text,
            "intervals of 90%: {share:.1}% of run times inside, {below:.1}% below, {above:.1}% above, of {} jobs; \
             from end to end a factor of {} in the median",
            interval.judged,
            short(interval.factor_median)
        );
    }
    if let Some(limit) = &found.limit {
        let _ = write!(text, "limits of 99%: {:.1}% ran no longer, of {} jobs", 100.0 * limit.share, limit.judged);
        if let Some(part) = limit.of_request_median {
            let _ = write!(text, "; {part:.2} of the request in the median");
        }
        text += "\n";
    }
    text
}

fn wait_lines(waits: &WaitsJudged) -> String {
    let mut text = format!(
        "waits: median error {} s (mean of the last ten: {} s), median wait {} s, of {} jobs\n",
        short(waits.error_median_s),
        short(waits.last_ten_error_median_s),
        short(waits.wait_median_s),
        waits.judged
    );
    if let Some((share, width_s)) = waits.share.zip(waits.width_median_s) {
        let _ = writeln!(
            text,
            "intervals of 90%: {:.1}% of waits inside, of {} jobs; {} s wide in the median",
            100.0 * share,
            waits.with_interval,
            short(width_s)
        );
    }
    text
}

fn words(basis: Basis) -> &'static str {
    match basis {
        Basis::SameUserRanksRequest => "the same user, ranks and request",
        Basis::SameUserRequest => "the same user and request",
        Basis::SameUser => "the same user",
        Basis::OtherUsers => "other users",
        Basis::Request => "nobody: the requested time",
    }
}
