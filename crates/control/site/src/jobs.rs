//! The API's words about jobs: what is kept of them, and calls for a window. Version 1, as all of [`crate::api`].
//!
//! | request | who may | answer |
//! |---|---|---|
//! | `POST /v1/windows/ID/report` with [`Filing`] | whoever began it, once | [`Filed`] |
//! | `GET /v1/jobs` | users their own, administrators all | [`Jobs`] |
//! | `GET /v1/arguments` | users, administrators: of themselves | [`ArgumentsKept`] |
//! | `POST /v1/arguments` with [`ArgumentsKept`] | the same | nothing |
//! | `GET /v1/jobs/ID` | the job's owner, administrators | [`JobWindows`] |
//! | `GET /v1/jobs/ID/windows/N` | the same | the report |
//! | `POST /v1/jobs/ID/trigger` with [`Trigger`] | the same | [`Triggered`] |
//! | `POST /v1/waits` with [`Awaiting`] | users for their own jobs, administrators | [`Awaited`] |
//! | `GET /v1/waits/ID` | whoever waits | [`Heard`], after some seconds at most |
//! | `DELETE /v1/waits/ID` | whoever waits | nothing |
//!
//! A job's owner is the user whose processes its ranks are, as the agents of its nodes asked their kernels.
//!
//! Next: the controller's `kept` and `calls`, which answer.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use trimtab_types::report::{Ended, EventKind, Report};

/// A window's report, to be kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Filing {
    /// Two sightings with the same key are the same job; an owner's own.
    pub key: String,
    /// The report. Its job's id and its number are those of the owner's store; the site gives others.
    #[schemars(schema_with = "report")]
    pub report: Report,
}

fn report(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "$ref": "report.schema.json" })
}

/// Where it is found again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Filed {
    /// The job's name at the site.
    pub job: String,
    /// The window's number in it.
    pub window: u32,
}

/// Jobs that whoever asks may see, the one whose window was filed last first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Jobs {
    /// 1: fields are added, and nothing else changes.
    pub schema: u32,
    /// The jobs.
    pub jobs: Vec<JobLine>,
    /// There are older ones, which are not in the list.
    pub has_more: bool,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobLine {
    /// Its name at the site.
    pub id: String,
    /// The user whose processes its ranks are.
    pub owner: u32,
    /// Path of its program.
    pub program: String,
    /// The program's arguments; unless their owner said otherwise, one word with their hash: `sha256:...`.
    pub arguments: Vec<String>,
    /// Number of ranks.
    pub ranks: u32,
    /// The MPI library.
    pub mpi: String,
    /// Its hosts.
    pub hosts: Vec<String>,
    /// Start of rank 0, seconds since 1970; none: not known.
    pub started_unix_s: Option<f64>,
    /// How many windows are kept.
    pub windows: u32,
    /// The one filed last.
    pub newest: Option<WindowLine>,
}

/// How a user's arguments are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArgumentsKept {
    /// True: as they are; false: as hashes.
    pub kept: bool,
}

/// One window of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowLine {
    /// Its number in the job.
    pub window: u32,
    /// The command that measured it.
    pub trigger: String,
    /// Its start, seconds since 1970; none: not known.
    pub started_unix_s: Option<f64>,
    /// True if all ranks recorded the same iterations.
    pub valid: bool,
    /// Why it ended.
    #[schemars(with = "String")]
    pub ended_by: Ended,
    /// Recorded iterations; none: by time.
    pub iterations: Option<u64>,
    /// Mean share of the window in communication.
    pub communication_fraction: Option<f64>,
    /// Mean time of one iteration, seconds.
    pub time_per_iteration_s: Option<f64>,
    /// The event that it waited for; none: it was measured at once.
    pub event: Option<EventLine>,
}

/// The event that a window waited for; the condition as it was typed is in the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventLine {
    /// Of which kind.
    #[schemars(with = "String")]
    pub kind: EventKind,
    /// The value that was seen.
    pub value: String,
    /// When, seconds since 1970.
    pub at_unix_s: f64,
}

/// A job and all of its windows, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobWindows {
    /// 1: fields are added, and nothing else changes.
    pub schema: u32,
    /// The job.
    pub job: JobLine,
    /// Its windows.
    pub windows: Vec<WindowLine>,
}

/// Somebody waits for calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Awaiting {
    /// The names that the job may be called by.
    pub names: Vec<String>,
    /// How the keys of the job's filed windows begin, which then can be called by its name at the site.
    #[serde(default)]
    pub key: Option<String>,
    /// The job's owner; none: whoever waits.
    #[serde(default)]
    pub owner: Option<u32>,
    /// Only calls with one of these names are meant; empty: all are.
    #[serde(default)]
    pub calls: Vec<String>,
}

/// Calls come under a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Awaited {
    /// Which.
    pub id: u64,
}

/// The calls that came meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Heard {
    /// The call; none: there was none, ask again.
    pub call: Option<Call>,
}

/// A call for a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// The name that was called.
    pub name: String,
    /// The caller, as their certificate says.
    pub by: String,
}

/// Have a window measured by those who wait for a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trigger {
    /// Kept with the window.
    #[serde(default)]
    pub name: String,
}

/// It was heard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Triggered {
    /// By how many that wait for the job.
    pub reached: u32,
}
