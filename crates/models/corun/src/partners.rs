//! The better partner, before jobs meet: ranked, not timed, as the thesis has it.
//!
//! Next: `outlook`, which says the slowdowns.

use crate::error::Error;
use crate::job::{Job, RankUse};
use crate::outlook::{Outlook, forecast, method_of};
use crate::pace::Paces;
use crate::processors::Sharing;

/// Progress of less than this share apart is the same.
const SAME: f64 = 0.005;

/// One that could join, and what would come of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Partner {
    /// Its place among those that were given, from 0.
    pub candidate: usize,
    /// All of them together; the candidate is the last.
    pub outlook: Outlook,
    /// Progress of all together in a second, in seconds of each alone: their number if nobody is slowed.
    pub progress: f64,
    /// The same if communication needs no processor.
    pub progress_at_most: f64,
    /// How far busy communication of them coincides by chance: the product of their shares; `None`: some share is not known.
    pub communication: Option<f64>,
    /// As good as the one before it, as far as processors and communication tell.
    pub is_tied: bool,
}

/// Candidates to join `fixed`, the better one first: by progress where processors are shared as they are used, then by that without
/// communication, then by how little communication would coincide. `communication` has the share of each candidate after those of
/// `fixed`.
///
/// # Errors
/// As [`forecast`]; [`Error::Mixed`] if any of them was measured together with others.
pub fn ranked(fixed: &[Job], candidates: &[Job], communication: &[Option<f64>]) -> Result<Vec<Partner>, Error> {
    let met = fixed.iter().chain(candidates).find(|job| job.together_s.is_some());
    if let Some(met) = met {
        let alone = fixed.iter().chain(candidates).find(|job| job.together_s.is_none()).unwrap_or(met);
        return Err(Error::Mixed { together: met.name.clone(), alone: alone.name.clone() });
    }
    let mut found = Vec::new();
    for (candidate, job) in candidates.iter().enumerate() {
        let jobs: Vec<Job> = fixed.iter().chain([job]).cloned().collect();
        let outlook = forecast(&jobs)?;
        let share = |at: usize| communication.get(at).copied().flatten();
        let shares = (0..fixed.len()).map(share).chain([share(fixed.len() + candidate)]);
        found.push(Partner {
            candidate,
            progress: progress(&jobs, Sharing::Turns),
            progress_at_most: progress(&jobs, Sharing::Computing),
            communication: shares.product(),
            outlook,
            is_tied: false,
        });
    }
    found.sort_by(|a, b| {
        let by = |a: f64, b: f64| step(b).cmp(&step(a));
        let overlap = |one: &Partner| step(one.communication.unwrap_or(1.0));
        by(a.progress, b.progress)
            .then_with(|| by(a.progress_at_most, b.progress_at_most))
            .then_with(|| overlap(a).cmp(&overlap(b)))
    });
    for place in 1..found.len() {
        let (before, own) = (&found[place - 1], &found[place]);
        let near = |a: f64, b: f64| (a - b).abs() <= SAME * a.max(b);
        let overlaps = |one: &Partner| one.communication.unwrap_or(1.0);
        found[place].is_tied = near(before.progress, own.progress)
            && near(before.progress_at_most, own.progress_at_most)
            && (overlaps(before) - overlaps(own)).abs() <= SAME;
    }
    Ok(found)
}

/// A number in steps that count as different.
fn step(value: f64) -> i64 {
    (value / SAME).round() as i64
}

fn progress(jobs: &[Job], sharing: Sharing) -> f64 {
    let paces = Paces::new(jobs, method_of(jobs));
    let all = vec![true; jobs.len()];
    let slowdown = |at: usize| paces.predicted(at, &all, sharing).map(|found| found.value);
    (0..jobs.len()).filter_map(slowdown).map(f64::recip).sum()
}

impl Job {
    /// The share of its processor time that is communication, mean over ranks; `None`: not measured.
    pub fn communication(&self) -> Option<f64> {
        let ranks = self.ranks.as_ref().ok()?;
        let share = |rank: &RankUse| Some(1.0 - (rank.computing? / rank.wanted.max(f64::MIN_POSITIVE)).min(1.0));
        let sum: f64 = ranks.iter().map(share).sum::<Option<f64>>()?;
        Some(sum / ranks.len().max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Between, Remaining};

    fn job(name: &str, wanted: f64, computing: f64) -> Job {
        Job {
            name: name.to_owned(),
            begins_s: 0.0,
            since_s: 0.0,
            remaining: Remaining::Exactly(10),
            alone_s: Ok(Between::exactly(1.0)),
            together_s: None,
            left_alone_by: None,
            ranks: Ok(vec![RankUse { host: "n1".to_owned(), processors: vec![0], wanted, computing: Some(computing) }]),
            profile: None,
            met: Vec::new(),
        }
    }

    fn order(fixed: &Job, candidates: &[Job]) -> Vec<(usize, bool)> {
        let shares: Vec<Option<f64>> = std::iter::once(fixed).chain(candidates).map(Job::communication).collect();
        let found = ranked(std::slice::from_ref(fixed), candidates, &shares).unwrap();
        found.iter().map(|partner| (partner.candidate, partner.is_tied)).collect()
    }

    #[test]
    fn who_needs_least_is_the_better_partner() {
        let fixed = job("a", 0.8, 0.8);
        let candidates = [job("full", 1.0, 1.0), job("little", 0.2, 0.2), job("half", 0.5, 0.5)];
        assert_eq!(order(&fixed, &candidates), vec![(1, false), (2, false), (0, false)]);
    }

    #[test]
    fn communication_decides_where_all_poll() {
        // Busy all the time, for it polls: who computes less has more to give.
        let fixed = job("a", 1.0, 0.7);
        let candidates = [job("computes", 1.0, 1.0), job("talks", 1.0, 0.4), job("as well", 1.0, 1.0)];
        assert_eq!(order(&fixed, &candidates), vec![(1, false), (0, false), (2, true)]);
    }

    #[test]
    fn two_that_talk_are_the_worse_pair() {
        let fixed = job("a", 0.4, 0.2);
        let candidates = [job("talks", 0.4, 0.1), job("computes", 0.4, 0.4)];
        assert_eq!(order(&fixed, &candidates), vec![(1, false), (0, false)]);
    }
}
