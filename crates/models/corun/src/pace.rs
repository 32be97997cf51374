//! The pace of each job beside those who are there: seconds of one of its iterations.
//!
//! Next: `outlook`, which varies what is uncertain here; `processors` for the prediction.

use crate::job::{Job, RankUse};
use crate::processors::{Sharing, slowdowns};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Jobs of one forecast.
pub(crate) const JOBS_MAX: usize = 16;
/// A prediction of less than this says nothing of how a slowdown is made up.
const SLOWDOWN_MIN: f64 = 1.01;

/// How a slowdown was derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// From windows measured together and alone.
    Together,
    /// From what each uses of processors alone.
    Processors,
}

impl Method {
    /// The words for it.
    pub fn words(self) -> &'static str {
        match self {
            Method::Together => "measured together",
            Method::Processors => "predicted from processors",
        }
    }
}

/// One choice of all that is uncertain.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    /// Seconds of an iteration alone, by job; `None`: not known.
    pub alone_s: Vec<Option<f64>>,
    /// The same together with all.
    pub together_s: Vec<Option<f64>>,
    /// How processors are shared.
    pub sharing: Sharing,
    /// The part of the slowdown beside all that remains beside some of them; `None`: as processors tell it.
    pub part: Option<f64>,
}

/// Jobs that are there, and how they share.
type Question = (Vec<bool>, Sharing);

/// Computes paces, and keeps what processors say of those who were there.
pub(crate) struct Paces<'a> {
    method: Method,
    ranks: Option<Vec<&'a [RankUse]>>,
    known: RefCell<BTreeMap<Question, Vec<f64>>>,
}

impl<'a> Paces<'a> {
    pub fn new(jobs: &'a [Job], method: Method) -> Paces<'a> {
        let ranks = jobs.iter().map(|job| job.ranks.as_deref().ok()).collect();
        Paces { method, ranks, known: RefCell::default() }
    }

    /// How many times as long a job takes by the use of processors; `None`: that of some is not known.
    pub fn by_processors(&self, job: usize, there: &[bool], sharing: Sharing) -> Option<f64> {
        let ranks = self.ranks.as_ref()?;
        let mut known = self.known.borrow_mut();
        let all = known.entry((there.to_vec(), sharing)).or_insert_with(|| slowdowns(ranks, there, sharing));
        Some(all[job])
    }

    /// Seconds of an iteration of `job`; of one whose time alone is not known that beside all. `None`: neither is.
    pub fn pace(&self, setting: &Setting, job: usize, there: &[bool]) -> Option<f64> {
        let (alone, together) = (setting.alone_s[job], setting.together_s[job]);
        let count = there.iter().filter(|is_there| **is_there).count();
        match self.method {
            _ if count <= 1 => alone.or(together),
            Method::Processors => Some(alone? * self.by_processors(job, there, setting.sharing)?),
            Method::Together if count == there.len() => together,
            Method::Together => {
                let (Some(alone), Some(together)) = (alone, together) else { return together };
                let part = setting.part.unwrap_or_else(|| self.part(job, there, setting.sharing));
                Some(alone + (together - alone) * part)
            }
        }
    }

    /// The part of the slowdown beside all that is expected beside some: as processors tell it, else by their number.
    fn part(&self, job: usize, there: &[bool], sharing: Sharing) -> f64 {
        let beside = |there: &[bool]| self.by_processors(job, there, sharing);
        match (beside(there), beside(&vec![true; there.len()])) {
            (Some(some), Some(all)) if all > SLOWDOWN_MIN => ((some - 1.0) / (all - 1.0)).clamp(0.0, 1.0),
            _ => {
                let others = there.iter().filter(|is_there| **is_there).count() - 1;
                others as f64 / (there.len() - 1) as f64
            }
        }
    }
}
