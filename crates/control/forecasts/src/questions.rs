//! Questions as they come over HTTP, and the same for the functions that answer. A field that nobody knows is an error: it was meant as something.
//!
//! Next: the controller's `forecasts`, which looks for windows and models in the site's store.

use crate::error::Error;
use crate::models::{Content, Named, named_model};
use crate::queue::QueueQuestion;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trimtab_types::report::{Report, SCHEMA};

/// Jobs in one question.
const JOBS_MAX: usize = 64;
/// The newest window of a job may have ended so long ago, seconds, where nobody says otherwise.
const NEWEST_S: f64 = 3600.0;
/// Longest limit of a job, seconds: a hundred years.
const LIMIT_MAX_S: u64 = 3_155_760_000;

/// When a running job ends.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobAsked {
    /// The job's name at the site.
    pub job: String,
    /// Its newest window ended at most so many seconds ago; 3600 if it is left out.
    #[serde(default = "newest_s")]
    pub newest_s: f64,
}

fn newest_s() -> f64 {
    NEWEST_S
}

impl JobAsked {
    /// The numbers can be.
    ///
    /// # Errors
    /// [`Error::Question`].
    pub fn check(&self) -> Result<(), Error> {
        not_negative("newest_s", self.newest_s)
    }
}

/// A window: of the site's store, or a report.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// JOB or JOB/N at the site: the newest window of a job, or one of them.
    #[serde(default)]
    pub window: Option<String>,
    /// A report, as `trimtab attach --json` writes it.
    #[serde(default)]
    #[schemars(schema_with = "report_or_null")]
    pub report: Option<Box<Report>>,
    /// Its name in the answer; that of the window if it is left out.
    #[serde(default)]
    pub name: Option<String>,
}

fn report_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "$ref": "report.schema.json" }, { "type": "null" }] })
}

impl Given {
    /// It is one of both, and a report is one that is read here.
    ///
    /// # Errors
    /// [`Error::Question`].
    pub fn check(&self) -> Result<(), Error> {
        match (&self.window, &self.report) {
            (Some(_), None) => Ok(()),
            (None, Some(report)) if report.schema == SCHEMA => Ok(()),
            (None, Some(report)) => {
                Err(Error::Question(format!("a report is a {:?}, and this trimtab reads {SCHEMA}", report.schema)))
            }
            _ => Err(Error::Question("give each job either a window or a report".to_owned())),
        }
    }
}

/// A window of a job alone.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GivenAlone {
    /// The job's letter: A for the first, B for the second.
    pub job: String,
    /// JOB or JOB/N at the site.
    #[serde(default)]
    pub window: Option<String>,
    /// A report.
    #[serde(default)]
    #[schemars(schema_with = "report_or_null")]
    pub report: Option<Box<Report>>,
}

/// How jobs slow each other, and who ends when.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CorunAsked {
    /// The jobs.
    pub jobs: Vec<Given>,
    /// Windows alone; with any of them the windows above are of jobs together.
    #[serde(default)]
    pub alone: Vec<GivenAlone>,
    /// True if the windows above are of jobs together: windows alone are then looked for in the site's store.
    #[serde(default)]
    pub together: bool,
    /// Each job after the first begins so many seconds from now; empty: all at once.
    #[serde(default)]
    pub offset_s: Vec<f64>,
    /// They meet on these nodes, in the order of those on which each was measured; empty: on their own.
    #[serde(default)]
    pub on: Vec<String>,
    /// Candidates of which one is to join, to be ranked.
    #[serde(default)]
    pub with: Vec<Given>,
}

impl CorunAsked {
    /// True if the windows are of jobs together.
    pub fn is_together(&self) -> bool {
        self.together || !self.alone.is_empty()
    }

    /// The parts fit together.
    ///
    /// # Errors
    /// [`Error::Question`].
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |why: &str| Err(Error::Question(why.to_owned()));
        let count = self.jobs.len() + self.with.len();
        if self.jobs.is_empty() || count < 2 {
            return wrong("give two jobs or more, or one and some that could join in \"with\"");
        }
        if count > JOBS_MAX {
            return Err(Error::Question(format!("{count} jobs are too many: {JOBS_MAX} at most")));
        }
        if self.is_together() && !(self.on.is_empty() && self.with.is_empty()) {
            return wrong("jobs that were measured together meet where they were: no \"on\" and no \"with\"");
        }
        if !self.offset_s.is_empty() && (self.offset_s.len() + 1 != self.jobs.len() || !self.with.is_empty()) {
            return wrong("\"offset_s\" has a time for each job after the first, and none of candidates");
        }
        self.offset_s.iter().try_for_each(|offset_s| not_negative("offset_s", *offset_s))?;
        self.jobs.iter().chain(&self.with).try_for_each(Given::check)?;
        self.alone_by_place().map(|_| ())
    }

    /// The window alone of each job, in their order.
    ///
    /// # Errors
    /// [`Error::Question`]: a letter that no job has, or one twice.
    pub fn alone_by_place(&self) -> Result<Vec<Option<Given>>, Error> {
        let mut found: Vec<Option<Given>> = vec![None; self.jobs.len()];
        for GivenAlone { job, window, report } in &self.alone {
            let place = (0..self.jobs.len()).find(|at| crate::letter_of(*at) == *job);
            let Some(place) = place else {
                let last = crate::letter_of(self.jobs.len().saturating_sub(1));
                return Err(Error::Question(format!(
                    "\"alone\" names jobs by letters from A to {last}, and not {job:?}"
                )));
            };
            let given = Given { window: window.clone(), report: report.clone(), name: None };
            given.check()?;
            if found[place].replace(given).is_some() {
                return Err(Error::Question(format!("\"alone\" names two windows of {job}")));
            }
        }
        Ok(found)
    }
}

/// How long a routine takes, or how much memory it needs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeAsked {
    /// The model's name, as the site's store has it.
    pub model: String,
    /// The host, one that a model of the site was made on.
    pub host: String,
    /// The size of each parameter.
    pub args: BTreeMap<String, f64>,
}

/// A model that the site is to keep: one of those that `trimtab model show NAME --json` lists.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ModelNamed {
    /// Its name.
    pub name: String,
    /// The words that were run.
    pub command: Vec<String>,
    /// When it was made, seconds since 1970.
    pub made_unix_s: f64,
    /// All the rest.
    #[serde(flatten)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub content: Content,
}

impl ModelNamed {
    /// As it is kept.
    ///
    /// # Errors
    /// [`Error::Question`].
    pub fn checked(self) -> Result<Named, Error> {
        not_negative("made_unix_s", self.made_unix_s)?;
        named_model(&self.name, self.command, self.made_unix_s, self.content)
    }
}

/// When Slurm would start a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueAsked {
    /// Nodes, where the past counts those, as Slurm's does.
    #[serde(default)]
    pub nodes: Option<u64>,
    /// Processors, where the past counts those.
    #[serde(default)]
    pub processors: Option<u64>,
    /// The job's limit, seconds.
    pub time_s: u64,
    /// Its partition; the default one if it is left out.
    #[serde(default)]
    pub partition: Option<String>,
    /// Its quality of service.
    #[serde(default)]
    pub qos: Option<String>,
    /// Its user, which only administrators may name, or who gives `jobs`; else it is whoever asks.
    #[serde(default)]
    pub user: Option<String>,
    /// A log of jobs in a format of docs/forecasts.md; the site's own past if it is left out.
    #[serde(default)]
    pub jobs: Option<String>,
    /// Lines of the log that can't be are left out and counted.
    #[serde(default)]
    pub leave_out_wrong: bool,
}

impl QueueAsked {
    /// As it is asked; `own` is the name of whoever asks.
    ///
    /// # Errors
    /// [`Error::Question`].
    pub fn question(&self, own: Option<String>) -> Result<QueueQuestion, Error> {
        if [self.nodes, self.processors].contains(&Some(0)) || !(1..=LIMIT_MAX_S).contains(&self.time_s) {
            return Err(Error::Question("nodes, processors and time_s are above zero".to_owned()));
        }
        Ok(QueueQuestion {
            nodes: self.nodes,
            processors: self.processors,
            requested_s: self.time_s,
            partition: self.partition.clone(),
            quality: self.qos.clone(),
            user: self.user.clone(),
            own,
        })
    }
}

fn not_negative(what: &str, value: f64) -> Result<(), Error> {
    match value.is_finite() && value >= 0.0 {
        true => Ok(()),
        false => Err(Error::Question(format!("{what} is a number from 0 on, and not {value}"))),
    }
}
