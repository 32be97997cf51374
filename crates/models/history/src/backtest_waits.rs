//! Waits of a log's jobs, forecast in order of submission, against how long they waited, beside the mean of the last ten.
//!
//! Next: `waits` for the forecast.

use crate::accuracy::LEAST_S;
use crate::job::{Ask, Job};
use crate::replay::{Watcher, replay};
use crate::waits::{Wait, Waits};
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use trimtab_weather::median_of;

/// Waits that the simple rule takes the mean of.
const LAST: usize = 10;
/// The share of waits that intervals are to hold.
const INSIDE: f64 = 0.9;
/// Jobs alike that are submitted within this time, seconds, are one burst.
const BURST_S: f64 = 60.0;

/// Forecasts of waits against waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WaitsJudged {
    /// Jobs that were judged: the log says when they began, and others had begun before.
    pub judged: usize,
    /// The median of how far forecasts were off, seconds.
    pub error_median_s: f64,
    /// The same of the mean of the last ten waits.
    pub last_ten_error_median_s: f64,
    /// The median wait, seconds.
    pub wait_median_s: f64,
    /// Jobs with an interval.
    pub with_interval: usize,
    /// The share of waits that intervals are to hold.
    pub share_wanted: f64,
    /// The share that they held; `None`: there was no interval.
    pub share: Option<f64>,
    /// The median width of intervals, seconds.
    pub width_median_s: Option<f64>,
}

/// Goes through jobs in order of submission and judges from the `first` on; `None`: no wait was forecast.
pub(crate) fn backtest_waits(jobs: &[Job], first: usize) -> Option<WaitsJudged> {
    let waits: Vec<Job> = jobs.iter().filter_map(Job::wait).collect();
    let first_s = jobs.get(first)?.submitted_s;
    let mut run = Run { first_s, ..Run::new() };
    replay(&waits, &mut run, &mut |_| ());
    run.result()
}

/// Jobs alike that were submitted together.
type BurstKey = (Ask, i64);

/// A wait that is known: the job, how many others waited as it was submitted, and its forecast.
type Known = (Job, usize, Option<Wait>);

/// Jobs of a burst: as long as some wait, those that have begun are the lucky ones, and say little of the others.
#[derive(Default)]
struct Burst {
    waiting: usize,
    begun: Vec<Known>,
}

/// Waits as they become known.
pub(crate) struct Run {
    first_s: f64,
    pub(crate) waits: Waits,
    last: VecDeque<f64>,
    /// Jobs that wait, with how many others did as they were submitted.
    pub(crate) waiting: HashMap<usize, (usize, Option<Wait>)>,
    bursts: HashMap<BurstKey, Burst>,
    /// Those of which nobody waits, though others may be submitted yet.
    complete: Vec<BurstKey>,
    errors_s: Vec<f64>,
    last_ten_errors_s: Vec<f64>,
    waited_s: Vec<f64>,
    widths_s: Vec<f64>,
    inside: usize,
}

impl Run {
    /// Judges each wait.
    pub(crate) fn new() -> Self {
        Run {
            first_s: f64::NEG_INFINITY,
            waits: Waits::new(),
            last: VecDeque::new(),
            waiting: HashMap::new(),
            bursts: HashMap::new(),
            complete: Vec::new(),
            errors_s: Vec::new(),
            last_ten_errors_s: Vec::new(),
            waited_s: Vec::new(),
            widths_s: Vec::new(),
            inside: 0,
        }
    }

    fn judge(&mut self, wait: &Wait, wait_s: f64) {
        let last_ten_s = self.last.iter().sum::<f64>() / self.last.len() as f64;
        self.errors_s.push((wait.wait_s - wait_s).abs());
        self.last_ten_errors_s.push((last_ten_s - wait_s).abs());
        self.waited_s.push(wait_s);
        if let Some((low, high)) = wait.interval_s() {
            self.inside += usize::from((low..=high).contains(&wait_s.max(LEAST_S)));
            self.widths_s.push(high - low);
        }
    }

    /// Jobs that have begun.
    pub(crate) fn begun(&self) -> usize {
        self.waits.begun() + self.bursts.values().map(|burst| burst.begun.len()).sum::<usize>()
    }

    /// Keeps a wait back until its burst is over and nobody of it waits.
    fn hold(&mut self, known: Known) {
        let key = burst_of(&known.0);
        let burst = self.bursts.entry(key).or_default();
        burst.begun.push(known);
        burst.waiting = burst.waiting.saturating_sub(1);
        if burst.waiting == 0 {
            self.complete.push(key);
        }
    }

    /// Learns from bursts that are over by now.
    pub(crate) fn settle(&mut self, now_s: f64) {
        let now = minute(now_s);
        let (over, later): (Vec<BurstKey>, Vec<BurstKey>) = self.complete.iter().partition(|(_, minute)| *minute < now);
        self.complete = later;
        for key in over {
            if self.bursts.get(&key).is_some_and(|burst| burst.waiting > 0) {
                continue;
            }
            for (job, waiting, wait) in self.bursts.remove(&key).unwrap_or_default().begun {
                self.waits.learn(&job.ask, waiting, job.ran_s, wait.as_ref());
            }
        }
    }

    pub(crate) fn result(self) -> Option<WaitsJudged> {
        let with_interval = self.widths_s.len();
        Some(WaitsJudged {
            judged: self.errors_s.len(),
            error_median_s: median_of(self.errors_s.iter().copied())?,
            last_ten_error_median_s: median_of(self.last_ten_errors_s.iter().copied())?,
            wait_median_s: median_of(self.waited_s.iter().copied())?,
            with_interval,
            share_wanted: INSIDE,
            share: (with_interval > 0).then(|| self.inside as f64 / with_interval as f64),
            width_median_s: median_of(self.widths_s.iter().copied()),
        })
    }
}

fn burst_of(job: &Job) -> BurstKey {
    (job.ask, minute(job.submitted_s))
}

fn minute(at_s: f64) -> i64 {
    (at_s / BURST_S).floor() as i64
}

impl Watcher for Run {
    fn submitted(&mut self, at: usize, job: &Job) {
        self.settle(job.submitted_s);
        let waiting = self.waiting.len();
        let wait = self.waits.forecast(&job.ask, waiting);
        // A job that still waits is no truth yet.
        let is_judged = job.submitted_s >= self.first_s && job.ended_s.is_finite();
        if let Some(wait) = wait.as_ref().filter(|_| is_judged) {
            self.judge(wait, job.ran_s);
        }
        self.waiting.insert(at, (waiting, wait));
        self.bursts.entry(burst_of(job)).or_default().waiting += 1;
    }

    fn ended(&mut self, at: usize, job: &Job) {
        let (waiting, wait) = self.waiting.remove(&at).unwrap_or_default();
        self.hold((*job, waiting, wait));
        self.last.push_front(job.ran_s);
        self.last.truncate(LAST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs of two queues: one where half begin at once, one where waits are long.
    fn jobs(count: u32) -> Vec<Job> {
        let mut state = 11_u64;
        let mut below = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % most) as u32
        };
        let mut one = |at: u32| {
            let queue = below(2);
            let wait_s = if queue == 0 { below(2) * below(60) } else { 1000 + below(2000) };
            let submitted_s = f64::from(at) * 300.0;
            let begun_s = submitted_s + f64::from(wait_s);
            let ask = Ask { queue: Some(queue), ..Ask::default() };
            Job { ask, submitted_s, begun_s: Some(begun_s), ended_s: begun_s + 50.0, ran_s: 50.0 }
        };
        (0..count).map(&mut one).collect()
    }

    #[test]
    fn waits_are_nearer_than_the_mean_of_the_last_ten_and_intervals_hold() {
        let found = backtest_waits(&jobs(3000), 0).expect("jobs begin");
        assert!(found.error_median_s < 0.7 * found.last_ten_error_median_s, "{found:?}");
        assert!((0.88..=0.92).contains(&found.share.expect("intervals")), "{found:?}");
        assert!(found.judged > 2980 && found.with_interval > 2950, "{found:?}");
    }

    #[test]
    fn a_wait_is_known_as_its_job_begins_and_not_before() {
        let ask = Ask::default();
        let job =
            |submitted_s: f64, begun_s: f64| Job { ask, submitted_s, begun_s: Some(begun_s), ended_s: 9e9, ran_s: 5.0 };
        // The first two wait while the others are submitted; only the third job's wait is known to the last.
        let jobs = [job(0.0, 900.0), job(70.0, 900.0), job(140.0, 145.0), job(200.0, 900.0)];
        let found = backtest_waits(&jobs, 0).expect("one has begun");
        assert_eq!((found.judged, found.error_median_s, found.last_ten_error_median_s), (1, 695.0, 695.0));
        assert_eq!(backtest_waits(&jobs[..3], 0), None, "none had begun");
    }

    #[test]
    fn those_of_a_burst_that_begin_at_once_say_nothing_as_long_as_others_of_it_wait() {
        let mut all = jobs(500);
        let last_s = all[499].submitted_s;
        let burst_s = BURST_S * (last_s / BURST_S + 200.0).ceil();
        // Of ten at a time one begins at once and nine wait for an hour; they are alike but for that.
        let ask = Ask { queue: Some(1), ranks: Some(7), ..Ask::default() };
        let one =
            |wait_s: f64| Job { ask, submitted_s: burst_s, begun_s: Some(burst_s + wait_s), ended_s: 9e9, ran_s: 5.0 };
        // A job that comes later, so that the first one's begin is known.
        let later = Job { submitted_s: burst_s + 1000.0, begun_s: Some(9e9), ..jobs(1)[0] };
        all.extend((0..10).map(|at| one(if at == 0 { 0.0 } else { 3600.0 })));
        let mut run = Run::new();
        all.push(later);
        let waits: Vec<Job> = all.iter().filter_map(Job::wait).collect();
        replay(&waits, &mut run, &mut |_| ());
        assert_eq!((run.begun(), run.waits.begun()), (501, 500));
    }

    #[test]
    fn more_jobs_at_once_than_ever_have_no_interval() {
        let mut jobs = jobs(500);
        let last_s = jobs[499].submitted_s;
        let burst = |at: u32| Job { submitted_s: last_s + 1.0, begun_s: Some(last_s + 9.0 + f64::from(at)), ..jobs[7] };
        let many: Vec<Job> = (0..100).map(burst).collect();
        let without = backtest_waits(&jobs, 0).expect("jobs begin");
        jobs.extend(many);
        let with = backtest_waits(&jobs, 0).expect("jobs begin");
        assert_eq!(with.judged, without.judged + 100);
        assert!((with.with_interval - without.with_interval) < 80, "{with:?}");
    }

    #[test]
    fn a_log_without_begins_has_no_waits() {
        let mut jobs = jobs(20);
        jobs.iter_mut().for_each(|job| job.begun_s = None);
        assert_eq!(backtest_waits(&jobs, 0), None);
        assert_eq!(backtest_waits(&[], 0), None);
    }
}
