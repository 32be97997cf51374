//! Programs' answers to pressure as a store keeps them.
//!
//! Next: `jobs_together`, which takes them; `trimtab-corun` for what they say.

use crate::error::Error;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use trimtab_corun::Profile;
use trimtab_store::{History, KeptPressure, Pressured, Run, Store};
use trimtab_types::report::Report;

/// Version of what is kept: fields may be added to it, and nothing else changes.
pub const PROFILE_VERSION: u32 = 1;

/// A program's answer to pressure on one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileKept {
    /// [`PROFILE_VERSION`].
    pub version: u32,
    /// The answer.
    pub profile: Profile,
    /// Windows that it was made of.
    pub windows: usize,
    /// Seconds from the first to the last.
    pub took_s: f64,
    /// Seconds by which the job was set back.
    pub cost_s: f64,
    /// Resources that were not probed or can't be told apart, in sentences.
    pub because: Vec<String>,
}

impl ProfileKept {
    /// As a store keeps it.
    ///
    /// # Errors
    /// [`Error::Question`]: nothing tells the program's next run, or a number that can't be.
    pub fn row(&self, report: &Report, host: &str, made_unix_s: f64) -> Result<KeptPressure, Error> {
        let program = &report.job.program;
        let of = pressured(report).ok_or_else(|| {
            Error::Question(format!("{program} has no build id, so its next run could not be told from others"))
        })?;
        let content = serde_json::to_string(self).map_err(|error| Error::Question(error.to_string()))?;
        Ok(KeptPressure { host: host.to_owned(), of, program: program.clone(), made_unix_s, content })
    }
}

/// An answer that the site is to keep: as `trimtab model pressure JOB --json` writes it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ProfileNamed {
    /// The host.
    pub host: String,
    /// Path of the executable.
    pub program: String,
    /// Build id of the program.
    pub build: String,
    /// SHA-256 of its arguments.
    pub arguments_hash: String,
    /// Ranks.
    pub ranks: u32,
    /// When it was made, seconds since 1970.
    pub made_unix_s: f64,
    /// All the rest.
    #[serde(flatten)]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub kept: ProfileKept,
}

impl ProfileNamed {
    /// As a store keeps it.
    ///
    /// # Errors
    /// [`Error::Question`]: of another version, of no program, or numbers that can't be.
    pub fn row(self) -> Result<KeptPressure, Error> {
        let ProfileNamed { host, program, build, arguments_hash, ranks, made_unix_s, kept } = self;
        let wrong = |why: &str| Err(Error::Question(format!("the profile of {program:?}: {why}")));
        if kept.version != PROFILE_VERSION {
            return wrong("it is of another version of trimtab");
        }
        if host.is_empty() || build.is_empty() || ranks == 0 {
            return wrong("host, build and ranks say what it is of");
        }
        let is_number = |number: f64| number.is_finite() && number >= 0.0;
        if !kept.profile.is_sound() || ![made_unix_s, kept.took_s, kept.cost_s].into_iter().all(is_number) {
            return wrong("a slowdown, a level or a time is negative, too large or no number");
        }
        let content = serde_json::to_string(&kept).map_err(|error| Error::Question(error.to_string()))?;
        let of = Pressured { build, arguments_hash, ranks };
        Ok(KeptPressure { host, of, program, made_unix_s, content })
    }
}

/// The program, arguments and ranks by which a run is known again; `None`: it has no build id.
pub fn pressured(report: &Report) -> Option<Pressured> {
    Run::of_window("", None, report).likeness().map(Pressured::from)
}

/// The answer to pressure of the program of a window, where it is to run on one host; `None`: it was not probed there.
///
/// # Errors
/// [`Error::Model`], and those of reading.
pub fn profile_kept(store: &Store, report: &Report, on: &[String]) -> Result<Option<ProfileKept>, Error> {
    let hosts = if on.is_empty() { &report.job.hosts[..] } else { on };
    let (Some(of), [host]) = (pressured(report), hosts) else { return Ok(None) };
    let Some(kept) = store.pressure(host, &of)? else { return Ok(None) };
    let unreadable = |source| Error::Model { name: kept.program.clone(), source };
    let found: ProfileKept = serde_json::from_str(&kept.content).map_err(unreadable)?;
    Ok(Some(found).filter(|found| found.version == PROFILE_VERSION))
}
