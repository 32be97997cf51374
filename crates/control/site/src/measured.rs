//! The API's words about windows that the controller itself has measured, and about the schedulers that may ask for them.
//! Version 1, as all of [`crate::api`].
//!
//! | request | who may | answer |
//! |---|---|---|
//! | `POST /v1/jobs/JOB/windows` with [`WindowAsked`] | the job's owner, administrators, schedulers that the owner accepted | [`Measurement`] |
//! | `GET /v1/measurements/ID` | whoever asked for it, the job's owner, administrators | [`Measurement`], after some seconds at most |
//! | `GET /v1/schedulers` | users their own, schedulers those who accepted them, administrators all | [`Acceptances`] |
//! | `POST /v1/schedulers/UID` | users, administrators: for themselves | nothing |
//! | `DELETE /v1/schedulers/UID` | the same | nothing |
//!
//! Next: the controller's `measurements`, which answers; `led` for how such a window is led.

use crate::jobs::Filed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use trimtab_types::context::Context;

/// The longest time that a window may take, seconds.
pub const SECONDS_MAX: f64 = 600.0;
/// The time that it takes at most if nothing is said.
const SECONDS_USUAL: f64 = 60.0;

/// A window of a job, measured now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowAsked {
    /// Iterations to record; none: as many as fill `seconds`.
    #[serde(default)]
    pub iterations: Option<u64>,
    /// Record as many iterations as fill so many seconds, 10 at least; none, without `iterations`: 0.2.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// The window ends after so many seconds at the latest, 600 at most.
    #[serde(default = "seconds_usual")]
    pub seconds_max: f64,
    /// Only these ranks, as `--ranks` has them: `0-3,7`, `host:n2`, `all except 0`; none: all.
    #[serde(default)]
    pub ranks: Option<String>,
    /// Groups of functions; empty: calls of MPI.
    #[serde(default)]
    pub groups: Vec<GroupWord>,
    /// True: the answer comes when the window is over.
    #[serde(default)]
    pub blocking: bool,
}

fn seconds_usual() -> f64 {
    SECONDS_USUAL
}

impl Default for WindowAsked {
    fn default() -> Self {
        WindowAsked {
            iterations: None,
            seconds: None,
            seconds_max: SECONDS_USUAL,
            ranks: None,
            groups: Vec::new(),
            blocking: false,
        }
    }
}

/// A group of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GroupWord {
    /// Calls of MPI that communicate.
    Comm,
    /// Input and output.
    Io,
    /// Memory.
    Mem,
    /// Sleep.
    Sleep,
    /// Threads of OpenMP that wait for each other.
    Omp,
    /// All of these but omp.
    All,
}

impl GroupWord {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            GroupWord::Comm => "comm",
            GroupWord::Io => "io",
            GroupWord::Mem => "mem",
            GroupWord::Sleep => "sleep",
            GroupWord::Omp => "omp",
            GroupWord::All => "all",
        }
    }
}

/// A question about a window that contradicts itself.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadWindow {
    /// Two lengths.
    #[error("a window has \"iterations\" or \"seconds\", not both: leave one out")]
    TwoLengths,
    /// No iteration is no window.
    #[error("\"iterations\" is a whole number from 1 on")]
    NoIteration,
    /// A time that is none.
    #[error("\"{field}\" is {value}: give seconds above 0, {SECONDS_MAX} at most")]
    Seconds {
        /// Which field.
        field: &'static str,
        /// As it came.
        value: f64,
    },
    /// Seconds that the window may not take.
    #[error(
        "\"seconds\" is {seconds} and \"seconds_max\" {seconds_max}: a window can't fill more than it may take; raise the latter"
    )]
    TooShort {
        /// Wanted.
        seconds: f64,
        /// Allowed.
        seconds_max: f64,
    },
    /// Ranks that can't be understood.
    #[error("\"ranks\": {0}")]
    Ranks(#[from] trimtab_types::context::BadContext),
}

impl WindowAsked {
    /// Checks that it is one window.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), BadWindow> {
        if self.iterations.is_some() && self.seconds.is_some() {
            return Err(BadWindow::TwoLengths);
        }
        if self.iterations == Some(0) {
            return Err(BadWindow::NoIteration);
        }
        for (field, value) in [("seconds", self.seconds), ("seconds_max", Some(self.seconds_max))] {
            if let Some(value) = value.filter(|value| !(*value > 0.0 && *value <= SECONDS_MAX)) {
                return Err(BadWindow::Seconds { field, value });
            }
        }
        if let Some(seconds) = self.seconds.filter(|seconds| *seconds > self.seconds_max) {
            return Err(BadWindow::TooShort { seconds, seconds_max: self.seconds_max });
        }
        self.ranks.as_deref().map(str::parse::<Context>).transpose()?;
        Ok(())
    }
}

/// A window that the controller has measured, or has begun to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// Its number, to be asked for.
    pub id: u64,
    /// The job, as Slurm calls it.
    pub job: String,
    /// The job's owner.
    pub owner: u32,
    /// The role that asked for it.
    pub by: String,
    /// When, seconds since 1970.
    pub asked_unix_s: f64,
    /// How far it is.
    pub state: MeasurementState,
    /// Where its report is kept; none: there is none, yet or at all.
    pub kept: Option<KeptAt>,
    /// Why there is no report, with what to do; none: it goes on, or there is one.
    pub why_not: Option<String>,
}

/// How far such a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MeasurementState {
    /// It goes on.
    Measuring,
    /// Its report is kept.
    Measured,
    /// There is no report.
    Failed,
}

/// A kept window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptAt {
    /// The job's name at the site.
    pub job: String,
    /// The window's number in it: `GET /v1/jobs/JOB/windows/N` is its report.
    pub window: u32,
}

impl From<Filed> for KeptAt {
    fn from(Filed { job, window }: Filed) -> Self {
        KeptAt { job, window }
    }
}

impl fmt::Display for KeptAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.job, self.window)
    }
}

/// The schedulers that users accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Acceptances {
    /// 1: fields are added, and nothing else changes.
    pub schema: u32,
    /// Those that whoever asks may see.
    pub accepted: Vec<Acceptance>,
}

/// A user lets a scheduler have their jobs measured, and see what is kept of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Acceptance {
    /// The user.
    pub owner: u32,
    /// The scheduler's user.
    pub scheduler: u32,
    /// Since when, seconds since 1970.
    pub since_unix_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_contradicts_itself_is_one_error() {
        let usual = WindowAsked::default;
        for (name, asked, expected) in [
            ("usual", usual(), None),
            ("seconds", WindowAsked { seconds: Some(2.0), ..usual() }, None),
            ("both", WindowAsked { seconds: Some(2.0), iterations: Some(1), ..usual() }, Some("not both")),
            ("none", WindowAsked { iterations: Some(0), ..usual() }, Some("from 1 on")),
            ("not a number", WindowAsked { seconds: Some(f64::NAN), ..usual() }, Some("\"seconds\" is NaN")),
            ("negative", WindowAsked { seconds_max: -1.0, ..usual() }, Some("\"seconds_max\" is -1")),
            ("too long", WindowAsked { seconds_max: 601.0, ..usual() }, Some("600 at most")),
            ("longer than it may take", WindowAsked { seconds: Some(61.0), ..usual() }, Some("raise the latter")),
            ("no ranks", WindowAsked { ranks: Some("0-".to_owned()), ..usual() }, Some("\"ranks\": column")),
        ] {
            let why = asked.check().err().map(|why| why.to_string());
            assert_eq!(why.is_some(), expected.is_some(), "{name}: {why:?}");
            assert!(why.clone().is_none_or(|why| expected.is_some_and(|words| why.contains(words))), "{name}: {why:?}");
        }
        assert!(serde_json::from_str::<WindowAsked>("{\"iteration\": 5}").is_err(), "a field that nobody knows");
        let asked: WindowAsked = serde_json::from_str("{}").expect("all is usual");
        assert_eq!(asked, usual());
    }
}
