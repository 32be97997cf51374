//! Run times of a log's jobs, forecast in order of submission, against how long they ran, beside simple rules.
//!
//! Next: `trimtab backtest --jobs`, which prints it.

use crate::accuracy::accuracy;
use crate::backtest_waits::{WaitsJudged, backtest_waits};
use crate::job::Job;
use crate::log::{Format, LeftOut, Log};
use crate::past::Basis;
use crate::replay::{Watcher, replay};
use crate::rules::{self, LAST_TWO, Rules};
use crate::run_times::{Forecast, INSIDE, LIMIT, RunTimes};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use trimtab_weather::{From, median_of};

/// How near one way to forecast came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Its name.
    pub name: String,
    /// The mean over jobs of the shorter of forecast and run time over the longer.
    pub accuracy: f64,
    /// The median of how far forecasts were off, seconds.
    pub error_median_s: f64,
    /// The share of jobs that ran longer than forecast.
    pub too_short: f64,
}

/// The accuracy of forecasts with one basis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByBasis {
    /// The basis.
    pub basis: Basis,
    /// Jobs.
    pub judged: usize,
    /// As in [`Judged`].
    pub accuracy: f64,
}

/// Intervals against run times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Jobs with an interval: the first have none.
    pub judged: usize,
    /// The share of run times that they are to hold.
    pub share_wanted: f64,
    /// The share that they held.
    pub share: f64,
    /// The shares of run times below and above them.
    pub share_below: f64,
    /// See `share_below`.
    pub share_above: f64,
    /// The median of the longer end over the shorter.
    pub factor_median: f64,
}

/// Limits against run times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// Jobs with a limit.
    pub judged: usize,
    /// The share of jobs that are to run no longer.
    pub share_wanted: f64,
    /// The share that ran no longer.
    pub share: f64,
    /// The median of limit over request; `None`: no job had a request.
    pub of_request_median: Option<f64>,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Backtest {
    /// How the log was written.
    pub format: Format,
    /// Jobs that ran and ended.
    pub jobs: usize,
    /// Lines that are no such job.
    pub left_out: LeftOut,
    /// Jobs that stood behind one that was submitted later; they were sorted.
    pub out_of_order: usize,
    /// Jobs with a requested time.
    pub requested: usize,
    /// Jobs with neither a request nor any job that had ended: nothing was forecast, by nobody.
    pub without_basis: usize,
    /// Jobs that were judged, the same for all.
    pub judged: usize,
    /// The forecast; `None`: no job was judged.
    pub history: Option<Judged>,
    /// Simple rules, the best first.
    pub rules: Vec<Judged>,
    /// How much better than the mean of the last two, in points of a hundred.
    pub over_last_two_points: Option<f64>,
    /// How much better than the best rule, in points of a hundred.
    pub over_best_rule_points: Option<f64>,
    /// Accuracy by what the forecast rested on.
    pub by_basis: Vec<ByBasis>,
    /// Intervals; `None`: no job had one.
    pub interval: Option<Interval>,
    /// Limits; `None`: no job had one.
    pub limit: Option<Limit>,
    /// Waits; `None`: the log does not say when jobs began.
    pub waits: Option<WaitsJudged>,
}

/// Goes through the jobs of a log. `tell` is told how many are done.
pub fn backtest(log: &Log, from: From, tell: &mut dyn FnMut(usize)) -> Backtest {
    let first = match from {
        From::Start => 0,
        From::Share(share) => (log.jobs.len() as f64 * share) as usize,
    };
    let mut run = Run::new(first);
    replay(&log.jobs, &mut run, tell);
    run.result(log)
}

/// Everything that learns, and what it was judged by.
struct Run {
    first: usize,
    run_times: RunTimes,
    rules: Rules,
    /// Of jobs that have not ended.
    waiting: HashMap<usize, Forecast>,
    without_basis: usize,
    history: Tally,
    ruled: [Tally; rules::COUNT],
    by_basis: BTreeMap<Basis, Tally>,
    held: Held,
}

/// Sums over jobs that were judged.
#[derive(Clone, Debug)]
struct Tally {
    accuracy: f64,
    too_short: usize,
    errors_s: Vec<f64>,
}

/// Sums over jobs with an interval and a limit.
#[derive(Clone, Debug)]
struct Held {
    below: usize,
    above: usize,
    factors: Vec<f64>,
    limits: usize,
    within_limit: usize,
    of_request: Vec<f64>,
}

impl Run {
    fn new(first: usize) -> Self {
        Run {
            first,
            run_times: RunTimes::new(),
            rules: Rules::new(),
            waiting: HashMap::new(),
            without_basis: 0,
            history: Tally::new(),
            ruled: std::array::from_fn(|_| Tally::new()),
            by_basis: BTreeMap::new(),
            held: Held::new(),
        }
    }

    fn judge(&mut self, job: &Job, forecast: &Forecast, ruled: &[f64]) {
        self.history.add(forecast.run_s, job.ran_s);
        self.by_basis.entry(forecast.basis).or_insert_with(Tally::new).add(forecast.run_s, job.ran_s);
        self.ruled.iter_mut().zip(ruled).for_each(|(tally, s)| tally.add(*s, job.ran_s));
        self.held.add(job, forecast);
    }

    fn result(self, log: &Log) -> Backtest {
        let has_requests = log.jobs.iter().any(|job| job.ask.requested_s.is_some());
        let named = Rules::names().into_iter().zip(&self.ruled);
        let mut rules: Vec<Judged> = named
            .filter(|(name, _)| has_requests || !name.contains("request"))
            .filter_map(|(name, tally)| tally.judged(name))
            .collect();
        rules.sort_by(|a, b| b.accuracy.total_cmp(&a.accuracy));
        let history = self.history.judged("history");
        let over = |rule: Option<&Judged>| Some(100.0 * (history.as_ref()?.accuracy - rule?.accuracy));
        Backtest {
            format: log.format,
            jobs: log.jobs.len(),
            left_out: log.left_out,
            out_of_order: log.out_of_order,
            requested: log.jobs.iter().filter(|job| job.ask.requested_s.is_some()).count(),
            without_basis: self.without_basis,
            judged: self.history.errors_s.len(),
            over_last_two_points: over(rules.iter().find(|rule| rule.name == LAST_TWO)),
            over_best_rule_points: over(rules.first()),
            by_basis: self.by_basis.iter().map(|(basis, tally)| tally.by(*basis)).collect(),
            interval: self.held.interval(),
            limit: self.held.limit(),
            waits: backtest_waits(&log.jobs, self.first),
            history,
            rules,
        }
    }
}

impl Watcher for Run {
    fn submitted(&mut self, at: usize, job: &Job) {
        let is_judged = at >= self.first;
        let Some((forecast, ruled)) = self.run_times.forecast(&job.ask).zip(self.rules.say(&job.ask)) else {
            self.without_basis += usize::from(is_judged);
            return;
        };
        if is_judged {
            self.judge(job, &forecast, &ruled);
        }
        self.waiting.insert(at, forecast);
    }

    fn ended(&mut self, at: usize, job: &Job) {
        self.run_times.learn(job, self.waiting.remove(&at).as_ref());
        self.rules.learn(job);
    }
}

impl Tally {
    fn new() -> Self {
        Tally { accuracy: 0.0, too_short: 0, errors_s: Vec::new() }
    }

    fn add(&mut self, forecast_s: f64, ran_s: f64) {
        self.accuracy += accuracy(forecast_s, ran_s);
        self.too_short += usize::from(ran_s > forecast_s);
        self.errors_s.push((forecast_s - ran_s).abs());
    }

    fn mean(&self) -> f64 {
        self.accuracy / self.errors_s.len() as f64
    }

    fn judged(&self, name: &str) -> Option<Judged> {
        let error_median_s = median_of(self.errors_s.iter().copied())?;
        let too_short = self.too_short as f64 / self.errors_s.len() as f64;
        Some(Judged { name: name.to_owned(), accuracy: self.mean(), error_median_s, too_short })
    }

    fn by(&self, basis: Basis) -> ByBasis {
        ByBasis { basis, judged: self.errors_s.len(), accuracy: self.mean() }
    }
}

impl Held {
    fn new() -> Self {
        Held { below: 0, above: 0, factors: Vec::new(), limits: 0, within_limit: 0, of_request: Vec::new() }
    }

    fn add(&mut self, job: &Job, forecast: &Forecast) {
        let ran_s = job.ran_s.max(crate::accuracy::LEAST_S);
        if let Some((low, high)) = forecast.interval_s() {
            self.below += usize::from(ran_s < low);
            self.above += usize::from(ran_s > high);
            self.factors.push(high / low);
        }
        if let Some(limit) = forecast.limit_s() {
            self.limits += 1;
            self.within_limit += usize::from(ran_s <= limit);
            let requested = job.ask.requested_s.filter(|requested| *requested > 0);
            requested.into_iter().for_each(|requested| self.of_request.push(limit / requested as f64));
        }
    }

    fn interval(&self) -> Option<Interval> {
        let judged = self.factors.len();
        let share = |count: usize| count as f64 / judged as f64;
        Some(Interval {
            judged,
            share_wanted: INSIDE,
            share: share(judged - self.below - self.above),
            share_below: share(self.below),
            share_above: share(self.above),
            factor_median: median_of(self.factors.iter().copied())?,
        })
    }

    fn limit(&self) -> Option<Limit> {
        (self.limits > 0).then(|| Limit {
            judged: self.limits,
            share_wanted: LIMIT,
            share: self.within_limit as f64 / self.limits as f64,
            of_request_median: median_of(self.of_request.iter().copied()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Ask;

    /// Jobs of a few users, each with programs of their own, some of which fail at once; what they compute grows.
    fn log(count: u32) -> Log {
        let mut state = 7_u64;
        let mut below = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        let mut jobs = Vec::new();
        for at in 0..count {
            let (user, program) = (below(6), below(3));
            let usual_s = 100.0 * (1 + user) as f64 * f64::from(1 + at / 600) * [1.0, 7.0, 30.0][program as usize];
            let ran_s = if below(10) == 0 { 2.0 } else { usual_s * (0.9 + below(20) as f64 / 100.0) };
            let ask =
                Ask { user: Some(user as u32), ranks: Some(1 << program), requested_s: Some(40_000), ..Ask::default() };
            let submitted_s = f64::from(at) * 900.0;
            let begun_s = submitted_s + below(500) as f64;
            jobs.push(Job { ask, submitted_s, begun_s: Some(begun_s), ended_s: begun_s + ran_s, ran_s });
        }
        let (left_out, open, names) = (LeftOut::default(), Vec::new(), HashMap::new());
        Log { format: Format::Swf, jobs, left_out, open, out_of_order: 0, names, sizes: None }
    }

    /// A forecast's time and interval.
    type Said = (f64, Option<(f64, f64)>);

    /// All forecasts of a log, in order.
    fn forecasts(log: &Log) -> Vec<Option<Said>> {
        struct All(RunTimes, HashMap<usize, Forecast>, Vec<Option<Said>>);
        impl Watcher for All {
            fn submitted(&mut self, at: usize, job: &Job) {
                let forecast = self.0.forecast(&job.ask);
                self.2.push(forecast.as_ref().map(|forecast| (forecast.run_s, forecast.interval_s())));
                self.1.extend(forecast.map(|forecast| (at, forecast)));
            }
            fn ended(&mut self, at: usize, job: &Job) {
                self.0.learn(job, self.1.get(&at));
            }
        }
        let mut all = All(RunTimes::new(), HashMap::new(), Vec::new());
        replay(&log.jobs, &mut all, &mut |_| ());
        all.2
    }

    #[test]
    fn history_is_better_than_simple_rules_and_intervals_hold() {
        let found = backtest(&log(1500), From::Start, &mut |_| ());
        assert_eq!((found.jobs, found.judged, found.without_basis, found.requested), (1500, 1500, 0, 1500));
        let history = found.history.expect("jobs were judged");
        assert!(history.accuracy > 0.65 && history.accuracy < 1.0, "{history:?}");
        assert!(found.over_last_two_points.expect("a rule") > 5.0, "{:?}", found.rules);
        assert!(found.over_best_rule_points.expect("a rule") > 0.0, "{:?}", found.rules);
        assert!(found.rules.is_sorted_by(|a, b| a.accuracy >= b.accuracy) && found.rules.len() == rules::COUNT);
        let interval = found.interval.expect("jobs had one");
        assert!((0.88..=0.92).contains(&interval.share) && interval.judged > 1400, "{interval:?}");
        let limit = found.limit.expect("jobs had one");
        // Each of the 18 kinds of jobs becomes longer twice, which nobody knows the first time.
        assert!((0.96..1.0).contains(&limit.share), "{limit:?}");
        assert_eq!(found.by_basis.iter().map(|by| by.judged).sum::<usize>(), 1500);
    }

    #[test]
    fn what_ends_later_changes_no_forecast() {
        let whole = log(600);
        let known = forecasts(&whole);
        let moment_s = whole.jobs[400].submitted_s;
        let mut other = whole.clone();
        // Jobs that run at that moment, and those submitted after it, become other jobs.
        let later = |job: &&mut Job| job.ended_s > moment_s;
        let changed = other.jobs.iter_mut().filter(later).map(|job| {
            job.ran_s = 3.0 * job.ran_s + 777.0;
            job.ended_s = job.ended_s.max(moment_s) + 5000.0;
        });
        assert!(changed.count() > 200);
        assert_eq!(forecasts(&other)[..=400], known[..=400]);
        assert_ne!(forecasts(&other)[401..], known[401..], "later they do");
    }

    #[test]
    fn a_job_does_not_know_one_that_runs() {
        let mut log = log(2);
        let ask = Ask { user: Some(1), requested_s: Some(900), ..Ask::default() };
        let job = |submitted_s: f64, ran_s: f64| Job {
            ask,
            submitted_s,
            begun_s: Some(submitted_s),
            ended_s: submitted_s + ran_s,
            ran_s,
        };
        log.jobs = vec![job(0.0, 50.0), job(49.0, 50.0), job(50.0, 50.0)];
        let said: Vec<f64> = forecasts(&log).into_iter().map(|said| said.expect("a request").0).collect();
        assert_eq!(said[..2], [900.0, 900.0]);
        assert!(said[2] < 900.0, "{said:?}");
    }

    #[test]
    fn without_requests_rules_about_them_are_not_judged_and_the_first_job_is_nobodys() {
        let mut log = log(300);
        log.jobs.iter_mut().for_each(|job| job.ask.requested_s = None);
        let found = backtest(&log, From::Start, &mut |_| ());
        assert!(found.without_basis >= 1 && found.judged + found.without_basis == 300, "{found:?}");
        assert!(found.rules.len() == 3 && found.rules.iter().all(|rule| !rule.name.contains("request")));
        assert_eq!(found.limit.expect("jobs had one").of_request_median, None);
    }

    #[test]
    fn the_later_part_is_judged_by_itself() {
        let found = backtest(&log(100), From::Share(0.9), &mut |_| ());
        assert_eq!((found.jobs, found.judged), (100, 10));
        let none = backtest(&log(3), From::Share(1.0), &mut |_| ());
        assert_eq!((none.judged, none.history, none.interval, none.over_last_two_points), (0, None, None, None));
    }
}
