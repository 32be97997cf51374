//! Rows as the store returns them, and how they are read.
//!
//! Next: `store.rs`, which asks for these rows.

use crate::Error;
use rusqlite::Row;
use rusqlite::types::Type;
use std::fmt;
use std::path::Path;
use trimtab_types::report::{Ended, EventKind, Job, Report};
use trimtab_types::{Pid, Rank};

/// The short name of a job, unique in its store, as people type it: "particle-3".
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub(crate) String);

impl JobId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A job with what was measured of it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSummary {
    /// The job's short name.
    pub id: JobId,
    /// Two sightings with the same key are the same job; as given to `Store::upsert_job`.
    pub key: String,
    /// The user whose processes its ranks are, in a site's store; `None`: in a user's own.
    pub owner: Option<u32>,
    /// The job as last described; `job.id` equals `id`.
    pub job: Job,
    /// Number of stored windows.
    pub windows: u32,
    /// The window stored last; `None`: none yet.
    pub newest: Option<WindowSummary>,
}

/// The line a list shows of a window.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowSummary {
    /// Number of the window in its job, from 0.
    pub number: u32,
    /// The command that asked for it.
    pub trigger: String,
    /// Wall-clock time of its start, seconds since 1970; `None`: not known.
    pub started_unix_s: Option<f64>,
    /// True if all ranks recorded the same iterations.
    pub valid: bool,
    /// Why it ended.
    pub ended_by: Ended,
    /// The marker that counted iterations; `None`: by time.
    pub marker: Option<String>,
    /// Recorded iterations per rank; `None`: by time.
    pub iterations: Option<u64>,
    /// Mean share of the window in communication; `None`: not measured.
    pub communication_fraction: Option<f64>,
    /// Mean time of one iteration, seconds; `None`: not measured.
    pub time_per_iteration_s: Option<f64>,
    /// The event that it waited for; `None`: it was measured at once.
    pub event: Option<WindowEvent>,
}

/// The event that a window waited for.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowEvent {
    /// Its kind.
    pub kind: EventKind,
    /// The value that was seen.
    pub value: String,
    /// When, seconds since 1970.
    pub at_unix_s: f64,
}

/// Where one rank of a job was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// World rank.
    pub rank: Rank,
    /// Process id on `host`.
    pub pid: Pid,
    /// Host name.
    pub host: String,
    /// Start of the process in clock ticks since its host's boot; with the pid it names a process for certain.
    pub start_ticks: u64,
}

/// A moment as the tables keep it: they have no empty one, so 0 stands for what is not known.
pub(crate) fn moment_to_store(unix_s: Option<f64>) -> f64 {
    unix_s.unwrap_or(0.0)
}

fn stored_moment(unix_s: f64) -> Option<f64> {
    Some(unix_s).filter(|unix_s| *unix_s != 0.0)
}

/// Columns of a job, in the order [`RawJob::read`] takes them.
pub(crate) const JOB_COLUMNS: &str =
    "jobs.number, jobs.id, jobs.key, program, arguments, ranks, mpi, hosts, builds, jobs.started_unix_s, jobs.owner";

/// Columns of a window, in the order [`read_window`] takes them.
pub(crate) const WINDOW_COLUMNS: &str = "batch, triggered_by, started_unix_s, valid, ended_by, marker, iterations, \
                                         communication_fraction, time_per_iteration_s, event_kind, event_value, \
                                         event_unix_s";

/// A job's row with its lists still as JSON text.
pub(crate) struct RawJob {
    pub number: i64,
    key: String,
    owner: Option<u32>,
    job: Job,
    lists: [String; 3],
}

impl RawJob {
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<RawJob> {
        let lists = [row.get(4)?, row.get(7)?, row.get(8)?];
        let job = Job {
            id: row.get(1)?,
            program: row.get(3)?,
            arguments: Vec::new(),
            ranks: row.get(5)?,
            mpi: row.get(6)?,
            hosts: Vec::new(),
            builds: Vec::new(),
            started_unix_s: stored_moment(row.get(9)?),
        };
        Ok(RawJob { number: row.get(0)?, key: row.get(2)?, owner: row.get(10)?, job, lists })
    }

    /// Reads the lists; the caller adds what was measured.
    pub(crate) fn into_summary(self, path: &Path) -> Result<JobSummary, Error> {
        let RawJob { key, owner, mut job, lists, .. } = self;
        let what = || format!("the description of job {}", job.id);
        let unreadable = |source| Error::UnreadableEntry { path: path.to_path_buf(), what: what(), source };
        let parse = |text: &str| serde_json::from_str::<Vec<String>>(text).map_err(unreadable);
        let [arguments, hosts, builds] = [parse(&lists[0])?, parse(&lists[1])?, parse(&lists[2])?];
        (job.arguments, job.hosts, job.builds) = (arguments, hosts, builds);
        Ok(JobSummary { id: JobId(job.id.clone()), key, owner, job, windows: 0, newest: None })
    }
}

/// Reads a window's line.
pub(crate) fn read_window(row: &Row<'_>) -> rusqlite::Result<WindowSummary> {
    Ok(WindowSummary {
        number: row.get(0)?,
        trigger: row.get(1)?,
        started_unix_s: stored_moment(row.get(2)?),
        valid: row.get(3)?,
        ended_by: read_ended(row, 4)?,
        marker: row.get(5)?,
        iterations: row.get::<_, Option<i64>>(6)?.map(i64::cast_unsigned),
        communication_fraction: row.get(7)?,
        time_per_iteration_s: row.get(8)?,
        event: read_event(row)?,
    })
}

fn read_ended(row: &Row<'_>, column: usize) -> rusqlite::Result<Ended> {
    let word: String = row.get(column)?;
    Ended::from_word(&word).ok_or_else(|| of_no_set(column, format!("no window ends by {word:?}")))
}

/// A word that is of no set was written by another trimtab.
pub(crate) fn of_no_set(column: usize, said: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, said.into())
}

fn read_event(row: &Row<'_>) -> rusqlite::Result<Option<WindowEvent>> {
    let kind: Option<String> = row.get(9)?;
    let seen = row.get::<_, Option<String>>(10)?.zip(row.get::<_, Option<f64>>(11)?);
    let Some((word, (value, at_unix_s))) = kind.zip(seen) else { return Ok(None) };
    let kind = EventKind::from_word(&word).ok_or_else(|| of_no_set(9, format!("no window waits for {word:?}")))?;
    Ok(Some(WindowEvent { kind, value, at_unix_s }))
}

/// Reads a rank's process.
pub(crate) fn read_process(row: &Row<'_>) -> rusqlite::Result<Process> {
    Ok(Process {
        rank: Rank(row.get(0)?),
        pid: Pid(row.get(1)?),
        host: row.get(2)?,
        start_ticks: row.get::<_, i64>(3)?.cast_unsigned(),
    })
}

/// The report as text that is certain to be readable again: JSON has no infinity, and would keep it as null.
pub(crate) fn report_text(report: &Report) -> Result<String, Error> {
    let unstorable =
        |source| Error::UnstorableReport { job: report.job.id.clone(), window: report.window.number, source };
    let text = serde_json::to_string(report).map_err(unstorable)?;
    serde_json::from_str::<Report>(&text).map_err(unstorable)?;
    Ok(text)
}

/// A list of texts as the store keeps it.
pub(crate) fn list_text(list: &[String]) -> String {
    serde_json::Value::from(list).to_string()
}

/// Reads a list of texts.
pub(crate) fn read_list(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<String>> {
    read_json(row, column)
}

/// Reads a value of JSON.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    let unreadable =
        |error: serde_json::Error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error));
    serde_json::from_str(&text).map_err(unreadable)
}
