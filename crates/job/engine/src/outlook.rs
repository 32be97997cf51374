//! The age of a job, and if jobs that were measured still run.
//!
//! Next: `found` for how jobs are found.

use crate::spread::{launcher_of, slurm_id};
use crate::store::KnownJob;
use crate::{Engine, Found, Target};
use trimtab_measure::host_name;
use trimtab_track::slurm::{self, SlurmError};

/// The life of a job that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Life {
    /// It runs.
    Runs,
    /// It does not; with its end, seconds since 1970, if somebody has noted it.
    Ended(Option<f64>),
    /// Its processes are on other machines, or nobody answers.
    Unknown,
}

impl Engine<'_> {
    /// The age of a job's first process, seconds; `None`: its processes are not here, or it has ended.
    pub fn age_s(&self, found: &Found) -> Option<f64> {
        match found {
            Found::Here(job) => trimtab_os::age_of(job.ranks.first()?.pid).map(|age| age.as_secs_f64()),
            Found::Spread(_) => None,
        }
    }

    /// The key of a job's windows; the beginning of it if `true` comes with it.
    pub fn key_of(&self, found: &Found) -> (String, bool) {
        match found {
            Found::Here(job) => (job.key.clone(), false),
            Found::Spread(spread) => (spread.key(), true),
        }
    }

    /// The life of a job, as processes of this machine or Slurm tell it. Slurm is asked only if `may_ask`.
    pub fn life(&self, known: &KnownJob, may_ask: bool) -> Life {
        let key = known.key.as_str();
        if let Some(id) = slurm_id(key) {
            return id.map_or(Life::Unknown, |id| if may_ask { self.life_in_slurm(key, id) } else { Life::Unknown });
        }
        let lives = |is_any: bool| if is_any { Life::Runs } else { Life::Ended(None) };
        let here = host_name();
        if let Some((host, launcher, start)) = launcher_of(key) {
            return if host == here { lives(trimtab_os::runs_since(launcher, start)) } else { Life::Unknown };
        }
        let own: Vec<_> = known.processes.iter().filter(|process| process.host == here).collect();
        let is_any = own.iter().any(|process| trimtab_os::runs_since(process.pid, process.start_ticks));
        match own.is_empty() || (!is_any && own.len() < known.processes.len()) {
            true => Life::Unknown,
            false => lives(is_any),
        }
    }

    fn life_in_slurm(&self, key: &str, id: slurm::SlurmId) -> Life {
        let restarts = key.split(' ').nth(2).and_then(|word| word.parse::<u32>().ok());
        match self.look(Target::Slurm(id)) {
            Ok(Found::Spread(spread)) if restarts.is_some_and(|restarts| restarts != spread.restarts()) => {
                Life::Ended(None)
            }
            Ok(_) => Life::Runs,
            Err(crate::Error::Slurm(SlurmError::Ended { .. } | SlurmError::NoSuchJob { .. })) => {
                Life::Ended(slurm::ended_unix_s(&slurm::Accounting, id))
            }
            Err(_) => Life::Unknown,
        }
    }
}
