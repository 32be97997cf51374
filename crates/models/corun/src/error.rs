//! Wrong questions.
//!
//! Next: `outlook`, which asks `check`.

use crate::job::Job;
use crate::pace::JOBS_MAX;
use crate::unknown::Unknown;

/// Wrong input; an unknown that is only missing is said in the outlook.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Nobody is asked about.
    #[error("no job is given")]
    NoJob,
    /// More than can be computed.
    #[error("{count} jobs are too many: {JOBS_MAX} at most")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// A number that can't be.
    #[error("{job}: {what} is negative, zero, infinite or no number")]
    NoNumber {
        /// Of this job.
        job: String,
        /// The number.
        what: &'static str,
    },
    /// Some are measured together with the others, and some not.
    #[error(
        "{together} was measured together with the others, {alone} only alone: measure all of them together, or none"
    )]
    Mixed {
        /// One of the first kind.
        together: String,
        /// One of the second.
        alone: String,
    },
    /// A prediction that nothing supports.
    #[error("{job}: {why}")]
    NoProfile {
        /// Its use of processors is not known.
        job: String,
        /// Why.
        why: Unknown,
    },
}

/// All numbers are such, and jobs fit together.
pub(crate) fn check(jobs: &[Job]) -> Result<(), Error> {
    if jobs.is_empty() {
        return Err(Error::NoJob);
    }
    if jobs.len() > JOBS_MAX {
        return Err(Error::TooMany { count: jobs.len() });
    }
    jobs.iter().try_for_each(check_job)?;
    let is_together = |job: &&Job| job.together_s.is_some();
    match (jobs.iter().find(is_together), jobs.iter().find(|job| !is_together(job))) {
        (Some(together), Some(alone)) => {
            Err(Error::Mixed { together: together.name.clone(), alone: alone.name.clone() })
        }
        _ => Ok(()),
    }
}

fn check_job(job: &Job) -> Result<(), Error> {
    let no_number = |what| Err(Error::NoNumber { job: job.name.clone(), what });
    let is_time = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
    if !is_time(job.begins_s) || !is_time(job.since_s) {
        return no_number("the time at which it begins or was measured");
    }
    let times = job.alone_s.iter().chain(&job.together_s);
    if !times.copied().all(super::between::Between::is_positive) {
        return no_number("the time of an iteration");
    }
    if !job.met.iter().all(|met| met.slowdown.is_positive()) {
        return no_number("how it got on beside another one before");
    }
    let ranks = job.ranks.iter().flatten();
    if !ranks.clone().all(|rank| is_time(rank.wanted) && rank.computing.is_none_or(is_time)) {
        return no_number("a rank's use of processors");
    }
    if ranks.clone().any(|rank| rank.processors.is_empty()) {
        return no_number("the number of a rank's processors");
    }
    Ok(())
}
