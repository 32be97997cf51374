//! How experts did so far: of all users, by what forecasts rested on, and of one user.
//!
//! Few jobs say little: a user's record leans on that of all users with the same basis, and that on the record of all.
//!
//! Next: `run_times`, which weighs experts by it.

use crate::accuracy::accuracy;
use crate::experts::{Expert, Said};
use crate::job::Job;
use crate::past::Basis;
use std::collections::HashMap;

/// How much a forecast counts less than the one after it.
const KEEP: f64 = 0.999;
const KEEP_OF_USER: f64 = 0.98;
/// The accuracy of an expert of whom nothing is known, and as how many jobs that counts.
const FIRST: f64 = 0.3;
const FIRST_JOBS: f64 = 3.0;
/// As how many jobs the wider record counts in the narrower one.
const WIDER_JOBS: f64 = 8.0;
const WIDER_JOBS_OF_USER: f64 = 4.0;

/// Sums of accuracies, the latest with the most weight.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    accuracy: f64,
    jobs: f64,
}

/// Records of all experts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    all: HashMap<Expert, Sums>,
    by_basis: HashMap<(Expert, Basis), Sums>,
    by_user: HashMap<(Expert, Basis, Option<u32>), Sums>,
}

impl Records {
    /// The accuracy that is expected of an expert for a job of this user.
    pub(crate) fn expected(&self, expert: Expert, basis: Basis, user: Option<u32>) -> f64 {
        let all = Sums::leaning(self.all.get(&expert), FIRST, FIRST_JOBS);
        let by_basis = Sums::leaning(self.by_basis.get(&(expert, basis)), all, WIDER_JOBS);
        Sums::leaning(self.by_user.get(&(expert, basis, user)), by_basis, WIDER_JOBS_OF_USER)
    }

    /// The job has ended, of which they said this.
    pub(crate) fn learn(&mut self, said: &[Said], basis: Basis, job: &Job) {
        for Said { expert, s } in said {
            let accuracy = accuracy(*s, job.ran_s);
            self.all.entry(*expert).or_default().add(accuracy, KEEP);
            self.by_basis.entry((*expert, basis)).or_default().add(accuracy, KEEP);
            self.by_user.entry((*expert, basis, job.ask.user)).or_default().add(accuracy, KEEP_OF_USER);
        }
    }
}

impl Sums {
    fn add(&mut self, accuracy: f64, keep: f64) {
        self.accuracy = self.accuracy * keep + accuracy;
        self.jobs = self.jobs * keep + 1.0;
    }

    fn leaning(sums: Option<&Sums>, wider: f64, wider_jobs: f64) -> f64 {
        let sums = sums.copied().unwrap_or_default();
        (sums.accuracy + wider_jobs * wider) / (sums.jobs + wider_jobs)
    }
}
