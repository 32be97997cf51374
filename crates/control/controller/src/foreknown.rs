//! Known to forecasts between two questions: the site's past as Slurm tells it, and which forecasts are kept.
//!
//! Next: `foresight`, which answers.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Semaphore;
use trimtab_forecasts::Past;
use trimtab_history::{LogError, Wrong, read_log};
use trimtab_types::BoxError;

/// Slurm is asked for the jobs of so many days,
const DAYS: u32 = 30;
/// and what it says holds for so long.
const PAST_TIME_MAX: Duration = Duration::from_secs(60);
/// Windows of which it is known that their forecast is kept.
const NOTED_MAX: usize = 4096;

/// Jobs as Slurm's accounting knows them.
#[derive(Clone, Debug)]
pub struct SlurmJobs {
    /// As `sacct --parsable2` prints them.
    pub jobs: String,
    /// The partition of jobs that name none.
    pub default_partition: Option<String>,
}

/// Why the site's past is not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPast {
    /// Slurm does not say it.
    #[error(transparent)]
    Slurm(BoxError),
    /// Its answer is no log of jobs.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// A job that Slurm runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningJob {
    /// Slurm's name for it.
    pub id: String,
    /// Its owner, by Slurm's word.
    pub owner: u32,
}

/// Why there is no such job to measure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoJob {
    /// It is no name of a job of Slurm's.
    #[error(
        "job {0} is none of Slurm's, whose jobs the site's standing agents measure; on its own host `trimtab attach PID` does"
    )]
    NotSlurm(String),
    /// Slurm knows none, or it has ended.
    #[error("{0}")]
    Unknown(String),
    /// It does not run now.
    #[error("{0}")]
    NotNow(String),
    /// Slurm does not say.
    #[error("{0}")]
    Silent(String),
}

/// Another program that leads a window, as `trimtab_site::led` says.
pub struct LeadProcess {
    /// Its words.
    pub says: Box<dyn Read + Send>,
    /// Where it hears.
    pub hears: Box<dyn Write + Send>,
    /// Has it end its window early, with what was recorded; nothing happens if it has ended.
    pub interrupt: Box<dyn Fn() + Send>,
    /// Ends it, if it has not ended, and waits for that.
    pub end: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for LeadProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeadProcess")
    }
}

/// The questions that the controller has for its machine; it starts nothing itself.
#[derive(Clone, Copy)]
pub struct Machine {
    /// A job of Slurm's by its id.
    pub running_job: fn(&str) -> Result<RunningJob, NoJob>,
    /// Starts a lead.
    pub lead: fn() -> std::io::Result<LeadProcess>,
    /// The jobs of so many last days, of all users; or why Slurm does not say.
    pub slurm_jobs: fn(u32) -> Result<SlurmJobs, BoxError>,
    /// The name of a user by their number.
    pub user_name: fn(u32) -> Option<String>,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Machine")
    }
}

/// Kept between two questions.
pub(crate) struct Foresight {
    pub(crate) machine: Machine,
    /// Slurm's past, and when it was asked; locked while it is, by threads that may wait.
    past: Mutex<Option<(Instant, Arc<Past>)>>,
    /// Windows whose forecast is among all forecasts: who asks again adds nothing.
    noted: Mutex<BTreeSet<(String, u32)>>,
    /// Logs that come with a question are gone through one at a time.
    pub(crate) log_turn: Semaphore,
}

impl Foresight {
    pub(crate) fn new(machine: Machine) -> Self {
        Foresight { machine, past: Mutex::default(), noted: Mutex::default(), log_turn: Semaphore::new(1) }
    }

    /// The past of the site, asked for anew once it is old.
    ///
    /// # Errors
    /// Why Slurm does not say it.
    pub(crate) fn past(&self) -> Result<Arc<Past>, NoPast> {
        let mut known = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = known.as_ref().filter(|(asked, _)| asked.elapsed() < PAST_TIME_MAX);
        let past = match fresh {
            Some((_, past)) => past.clone(),
            None => Arc::new(self.asked_past()?),
        };
        if fresh.is_none() {
            *known = Some((Instant::now(), past.clone()));
        }
        Ok(past)
    }

    fn asked_past(&self) -> Result<Past, NoPast> {
        let SlurmJobs { jobs, default_partition } = (self.machine.slurm_jobs)(DAYS).map_err(NoPast::Slurm)?;
        let log = read_log(&jobs, Wrong::LeftOut)?;
        let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Ok(Past { log, now_s, source: format!("sacct, {DAYS} days"), is_live: true, default_partition })
    }

    /// The name of a user by their number.
    pub(crate) fn user_name(&self, uid: u32) -> Option<String> {
        (self.machine.user_name)(uid)
    }

    /// True the first time.
    pub(crate) fn is_new(&self, key: &str, window: u32) -> bool {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() >= NOTED_MAX {
            noted.clear();
        }
        noted.insert((key.to_owned(), window))
    }
}
