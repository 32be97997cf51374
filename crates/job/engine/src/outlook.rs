//! A job's way as stored windows show it, and if jobs that were measured still run.
//!
//! Next: `trimtab-progress`, which forecasts with it.

use crate::spread::{launcher_of, slurm_id};
use crate::store::KnownJob;
use crate::{Engine, Found, Target};
use trimtab_measure::host_name;
use trimtab_progress::{Look, Remaining};
use trimtab_track::slurm::{self, SlurmError};
use trimtab_types::report::Report;

/// Windows of one job that are looked at, at most: the newest.
pub const LOOKS_OF_JOB_MAX: usize = 64;

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

/// Windows of one job as looks at its way, from the newest on for as long as they tell of the same loop; and the iterations
/// still to come behind the newest. `reports` are the oldest first; the job began at `begun_unix_s`.
pub fn looks(reports: &[Report], begun_unix_s: f64) -> (Vec<Look>, Remaining) {
    let Some(newest) = reports.last() else { return (Vec::new(), Remaining::Unknown) };
    let mut found: Vec<Look> = Vec::new();
    for report in reports.iter().rev().filter(|report| is_alike(report, newest)) {
        let Some(look) = look(report, newest, begun_unix_s) else { continue };
        // An earlier pass of the same loop is another way.
        let is_before = |later: &Look| {
            look.at_s <= later.at_s - later.duration_s
                && look.place.zip(later.place).is_none_or(|(own, later)| own < later)
        };
        if found.last().is_none_or(is_before) {
            found.push(look);
        }
    }
    found.reverse();
    (found, remaining(newest))
}

fn is_alike(report: &Report, newest: &Report) -> bool {
    let (own, other) = (&report.window, &newest.window);
    let all = |report: &Report| report.window.progress.as_ref().and_then(|progress| progress.total_at_most);
    own.valid && own.main_loop == other.main_loop && own.marker == other.marker && all(report) == all(newest)
}

fn look(report: &Report, newest: &Report, begun_unix_s: f64) -> Option<Look> {
    let window = &report.window;
    let iterations = window.iterations.filter(|count| *count > 0)?;
    let progress = |report: &Report| report.window.progress.clone().unwrap_or_default();
    let counts_up = progress(newest).done.is_some();
    let own = progress(report);
    let place = match counts_up {
        true => own.done.and_then(|done| i64::try_from(done).ok()),
        false => own.remaining.and_then(|remaining| i64::try_from(remaining).ok()).map(|remaining| -remaining),
    };
    let at_s = window.started_unix_s? + window.duration_s - begun_unix_s;
    (at_s >= window.duration_s && window.duration_s > 0.0).then(|| Look {
        at_s,
        done: own.done,
        place,
        iterations,
        duration_s: window.duration_s,
        times_s: times(report),
        half_width_s: report.time_per_iteration_s.and_then(|estimate| estimate.half_width_95),
    })
}

/// The iterations' times, each the mean over ranks.
fn times(report: &Report) -> Vec<f64> {
    let ranks: Vec<&Vec<f64>> = report.ranks.iter().map(|rank| &rank.iteration_times_s).collect();
    let count = ranks.iter().map(|times| times.len()).min().unwrap_or(0);
    (0..count).map(|place| ranks.iter().map(|times| times[place]).sum::<f64>() / ranks.len() as f64).collect()
}

fn remaining(report: &Report) -> Remaining {
    let progress = report.window.progress.clone().unwrap_or_default();
    let at_most = progress.total_at_most.zip(progress.done).and_then(|(all, done)| all.checked_sub(done));
    match (progress.remaining, at_most) {
        _ if !report.window.valid => Remaining::Unknown,
        (Some(remaining), _) => Remaining::Exactly(remaining),
        (None, Some(at_most)) => Remaining::AtMost(at_most),
        (None, None) => Remaining::Unknown,
    }
}
