//! The forecast of a job's run time.
//!
//! Next: `past`, `experts`, `record` and `bounds`, which it puts together.

use crate::accuracy::{LEAST_S, Weighed, nearest_to_all};
use crate::bounds::{Bound, Given};
use crate::experts::{Expert, Heard, OF_REQUEST, Said, ask_all};
use crate::job::{Ask, Job};
use crate::past::{Basis, Past};
use crate::record::Records;

/// The share of run times inside the interval, those below each end, and those below the limit.
pub(crate) const INSIDE: f64 = 0.9;
const BELOW: f64 = 0.05;
const ABOVE: f64 = 0.95;
pub(crate) const LIMIT: f64 = 0.99;
/// How much an expert with a better record counts more: the exponent of the ratio of accuracies.
const SHARPNESS: f64 = 6.0;
/// As how many jobs the request counts among times of jobs alike.
const REQUEST_JOBS: f64 = 0.5;

/// Learns from jobs that have ended, and forecasts others.
#[derive(Clone, Debug)]
pub struct RunTimes {
    past: Past,
    records: Records,
    bounds: [Bound<Basis>; 3],
}

/// A forecast. It is handed back as the job ends, so that trimtab learns who was right.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// How long it will run, seconds: the time that is expected to be nearest, as a ratio.
    pub run_s: f64,
    /// The nearest jobs that it rests on.
    pub basis: Basis,
    said: Vec<Said>,
    given: [Given; 3],
}

impl Default for RunTimes {
    fn default() -> Self {
        RunTimes::new()
    }
}

impl RunTimes {
    /// One that knows nothing.
    pub fn new() -> Self {
        RunTimes { past: Past::new(), records: Records::default(), bounds: [BELOW, ABOVE, LIMIT].map(Bound::new) }
    }

    /// A forecast by what has been learned; `None`: there is neither a job that has ended nor a request.
    pub fn forecast(&self, ask: &Ask) -> Option<Forecast> {
        let basis = self.past.basis(ask);
        let heard = ask_all(&self.past, ask);
        let expected = heard.said.iter().map(|said| self.records.expected(said.expert, basis, ask.user));
        let best = expected.clone().fold(f64::MIN_POSITIVE, f64::max);
        let weight = |accuracy: f64| (accuracy / best).powf(SHARPNESS);
        let mut times: Vec<Weighed> = heard
            .said
            .iter()
            .zip(expected)
            .map(|(said, accuracy)| Weighed { s: said.s, weight: weight(accuracy) })
            .collect();
        let run_s = nearest_to_all(&mut times)?;
        let alike = self.alike(&heard, ask, |expert| weight(self.records.expected(expert, basis, ask.user)));
        let most_s = self.past.most_s(ask);
        let [low, high, limit] = self.bounds.each_ref().map(|bound| bound.around(run_s, &alike, basis, most_s));
        Some(Forecast { run_s, basis, said: heard.said, given: [low, high, limit] })
    }

    /// A job has ended, of which this was the forecast at its submission, if there was one.
    pub fn learn(&mut self, job: &Job, forecast: Option<&Forecast>) {
        if let Some(forecast) = forecast {
            self.records.learn(&forecast.said, forecast.basis, job);
            for (bound, given) in self.bounds.iter_mut().zip(forecast.given) {
                bound.learn(given, forecast.basis, job.ran_s);
            }
        }
        self.past.learn(job);
    }

    /// Times of all jobs alike, by the records of those who look at them, in order.
    fn alike(&self, heard: &Heard, ask: &Ask, weight: impl Fn(Expert) -> f64) -> Vec<Weighed> {
        let mut alike = Vec::new();
        for (expert, times) in &heard.times {
            let by = weight(*expert);
            alike.extend(times.iter().map(|time| Weighed { s: time.s, weight: by * time.weight }));
        }
        let request = ask.requested_s.map(|s| Weighed { s: s as f64, weight: REQUEST_JOBS * weight(OF_REQUEST) });
        alike.extend(request);
        alike.sort_by(|a, b| a.s.total_cmp(&b.s));
        alike
    }
}

impl Forecast {
    /// The ends of an interval that holds nine tenths of run times; `None`: too few jobs have ended.
    pub fn interval_s(&self) -> Option<(f64, f64)> {
        let [low, high, _] = self.given.map(|given| given.s);
        let high = high?.max(LEAST_S);
        Some((low?.min(high), high))
    }

    /// A time that 99 of 100 jobs do not run longer than: what a scheduler's limit comes from, never from the mean. `None`: too
    /// few jobs have ended.
    pub fn limit_s(&self) -> Option<f64> {
        let [_, high, limit] = self.given.map(|given| given.s);
        Some(limit?.max(high?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(user: u32, requested_s: Option<u64>) -> Ask {
        Ask { user: Some(user), ranks: Some(4), requested_s, ..Ask::default() }
    }

    fn ran(run_times: &mut RunTimes, ask: Ask, ran_s: f64) {
        let forecast = run_times.forecast(&ask);
        run_times.learn(&Job { ask, ran_s, ended_s: ran_s, ..Job::default() }, forecast.as_ref());
    }

    #[test]
    fn without_history_it_is_the_request_and_without_that_nothing() {
        let run_times = RunTimes::new();
        let first = run_times.forecast(&ask(1, Some(600))).expect("a request");
        assert_eq!((first.run_s, first.basis), (600.0, Basis::Request));
        assert_eq!((first.interval_s(), first.limit_s()), (None, None));
        assert!(run_times.forecast(&ask(1, None)).is_none());
    }

    #[test]
    fn a_user_who_does_the_same_again_is_known_after_a_few_jobs() {
        let mut run_times = RunTimes::new();
        (0..30).for_each(|at| ran(&mut run_times, ask(1, Some(3600)), 100.0 + f64::from(at % 3)));
        let next = run_times.forecast(&ask(1, Some(3600))).expect("history");
        assert!((100.0..=102.0).contains(&next.run_s), "{next:?}");
        let (low, high) = next.interval_s().expect("enough jobs");
        assert!(low <= 100.0 && (102.0..500.0).contains(&high), "{low} {high}");
        assert!(next.limit_s().expect("enough jobs") >= high);
    }

    #[test]
    fn one_who_learns_that_requests_are_right_believes_them() {
        let mut run_times = RunTimes::new();
        for at in 0..60_u32 {
            let requested_s = 600 * u64::from(1 + at % 7);
            ran(&mut run_times, ask(at % 5, Some(requested_s)), requested_s as f64 * 0.98);
        }
        let unseen = run_times.forecast(&ask(9, Some(50_000))).expect("others' history");
        assert_eq!(unseen.basis, Basis::OtherUsers);
        assert!((45_000.0..=50_000.0).contains(&unseen.run_s), "{}", unseen.run_s);
    }
}
