//! A job: what is known as it is submitted, and what came of it.
//!
//! Next: `read`, which makes them from a log; `past`, which remembers those that have ended.

/// A job as it is submitted. Names are numbers: two that are equal are the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The time that was requested, whole seconds.
    pub requested_s: Option<u64>,
    /// Ranks, processors or nodes: whichever the log has, the same for all its jobs.
    pub ranks: Option<u64>,
    /// Of whom it is.
    pub user: Option<u32>,
    /// On whose account it goes.
    pub account: Option<u32>,
    /// The job's name or its program.
    pub name: Option<u32>,
    /// The queue or partition, and the quality of service.
    pub queue: Option<u32>,
}

/// A job that waits or runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Open {
    /// The job as it was submitted.
    pub ask: Ask,
    /// When it was submitted, seconds as all jobs' times.
    pub submitted_s: f64,
    /// When it began; `None`: it waits, as far as the log knows.
    pub begun_s: Option<f64>,
}

/// A job that has ended. `ended_s` is no less than `submitted_s`, and all times are finite.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Job {
    /// The job as it was submitted.
    pub ask: Ask,
    /// When it was submitted, seconds from any moment that all jobs share.
    pub submitted_s: f64,
    /// When it began; `None`: the log does not say.
    pub begun_s: Option<f64>,
    /// When it ended: from then on its run time is known.
    pub ended_s: f64,
    /// How long it ran, seconds.
    pub ran_s: f64,
}

impl Job {
    /// Its wait: a job that ends as it begins, since the wait is known from then on. `None`: the log does not say when it began.
    pub(crate) fn wait(&self) -> Option<Job> {
        let begun_s = self.begun_s?;
        Some(Job { ended_s: begun_s, ran_s: begun_s - self.submitted_s, ..*self })
    }
}

impl Open {
    /// The same; a job that waits does so for ever, as far as is known.
    pub(crate) fn wait(&self) -> Job {
        let Open { ask, submitted_s, begun_s } = *self;
        let ended_s = begun_s.unwrap_or(f64::INFINITY);
        Job { ask, submitted_s, begun_s, ended_s, ran_s: ended_s - submitted_s }
    }
}
