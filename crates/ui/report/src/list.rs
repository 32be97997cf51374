//! The table of `trimtab list`: jobs of a store, newest first, with what their newest window said.
//!
//! Next: `terminal.rs` for the page of one window.

use crate::Style;
use crate::clean::clean;
use crate::terminal::{Cell, Column, Pen, Table};
use crate::units::{age, percent, time};
use crate::words::shortened;
use trimtab_types::report::EventKind;

/// Characters of the command line in the table.
const COMMAND_LENGTH_MAX: usize = 60;

/// One job in the table.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedJob {
    /// Id of the job.
    pub id: String,
    /// Path of its executable.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Number of ranks.
    pub ranks: u32,
    /// Number of stored windows.
    pub windows: u32,
    /// The window stored last; `None`: none yet.
    pub newest: Option<ListedWindow>,
}

/// The table's figures of a job's newest window.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedWindow {
    /// Wall-clock time of its start, seconds since 1970; `None`: not known.
    pub started_unix_s: Option<f64>,
    /// True if all ranks recorded the same iterations.
    pub valid: bool,
    /// Mean share of the window in communication; `None`: not measured.
    pub communication_fraction: Option<f64>,
    /// Mean time of one iteration, seconds; `None`: not measured.
    pub time_per_iteration_s: Option<f64>,
    /// Kind of the event it waited for; `None`: it was measured at once.
    pub event: Option<EventKind>,
}

/// The table, in the order given; `now_unix_s` is the moment ages are counted from.
pub fn list(jobs: &[ListedJob], now_unix_s: f64, style: &Style) -> String {
    if jobs.is_empty() {
        return "no jobs in the store; measure one with `trimtab attach PID`\n".to_string();
    }
    let mut table = Table::new(vec![
        Column::text("job", 0),
        Column::number("ranks", 3),
        Column::number("windows", 4),
        Column::number("newest", 1),
        Column::number("comm", 0),
        Column::number("per iteration", 2),
        Column::cut("command"),
        Column::text("waited for", 5),
    ]);
    for job in jobs {
        table.row(cells(job, now_unix_s));
    }
    let laid_out = table.lay_out(&Pen::new(style));
    laid_out.lines.iter().map(|line| line.trim_end().to_string() + "\n").collect()
}

fn cells(job: &ListedJob, now_unix_s: f64) -> Vec<Cell> {
    let or_dash = |value: Option<String>| value.unwrap_or("-".to_string());
    let newest = job.newest.as_ref();
    let mut command = vec![job.program.rsplit('/').next().unwrap_or_default().to_string()];
    command.extend(job.arguments.iter().cloned());
    let age = newest.map(|window| {
        let invalid = if window.valid { "" } else { ", invalid" };
        or_dash(window.started_unix_s.map(|unix_s| age(now_unix_s - unix_s))) + invalid
    });
    let cells = [
        clean(&job.id),
        job.ranks.to_string(),
        job.windows.to_string(),
        or_dash(age),
        or_dash(newest.and_then(|window| window.communication_fraction).map(percent)),
        or_dash(newest.and_then(|window| window.time_per_iteration_s).map(time)),
        shortened(&clean(&command.join(" ")), COMMAND_LENGTH_MAX),
        or_dash(newest.and_then(|window| window.event).map(|event| event.to_string())),
    ];
    cells.into_iter().map(Cell::Text).collect()
}
