//! Jobs of a log in order of submission, where only jobs that have ended are known.
//!
//! Next: `backtest`, which judges what is forecast.

use crate::job::Job;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Somebody who sees jobs as they are submitted and as they end.
pub(crate) trait Watcher {
    /// A job is submitted; its end is not to be looked at but for judging.
    fn submitted(&mut self, at: usize, job: &Job);
    /// A job that was submitted has ended by the time of the next submission.
    fn ended(&mut self, at: usize, job: &Job);
}

/// A time of a job's end, in order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct End {
    s: f64,
    at: usize,
}

/// Jobs that have been submitted and have not ended.
type Running = BinaryHeap<Reverse<End>>;

/// Goes through jobs, which are in order of submission. `tell` is told how many are done.
pub(crate) fn replay(jobs: &[Job], watcher: &mut dyn Watcher, tell: &mut dyn FnMut(usize)) {
    go_through(jobs, watcher, tell);
}

/// The same, and on to a moment behind the last submission.
pub(crate) fn replay_until(jobs: &[Job], watcher: &mut dyn Watcher, until_s: f64) {
    let mut running = go_through(jobs, watcher, &mut |_| ());
    end_until(jobs, &mut running, watcher, until_s);
}

fn go_through(jobs: &[Job], watcher: &mut dyn Watcher, tell: &mut dyn FnMut(usize)) -> Running {
    let mut running = Running::new();
    for (at, job) in jobs.iter().enumerate() {
        end_until(jobs, &mut running, watcher, job.submitted_s);
        watcher.submitted(at, job);
        running.push(Reverse(End { s: job.ended_s, at }));
        tell(at + 1);
    }
    running
}

fn end_until(jobs: &[Job], running: &mut Running, watcher: &mut dyn Watcher, until_s: f64) {
    while let Some(Reverse(end)) = running.peek().copied().filter(|Reverse(end)| end.s <= until_s) {
        running.pop();
        watcher.ended(end.at, &jobs[end.at]);
    }
}

impl Eq for End {}

impl Ord for End {
    fn cmp(&self, other: &Self) -> Ordering {
        self.s.total_cmp(&other.s).then(self.at.cmp(&other.at))
    }
}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Remembers what happened: jobs submitted as their number, ended as its negative.
    #[derive(Default)]
    struct Order(Vec<i64>);

    impl Watcher for Order {
        fn submitted(&mut self, at: usize, _: &Job) {
            self.0.push(at as i64 + 1);
        }

        fn ended(&mut self, at: usize, _: &Job) {
            self.0.push(-(at as i64) - 1);
        }
    }

    #[test]
    fn a_job_is_known_once_it_has_ended_and_not_before() {
        let job = |submitted_s: f64, ended_s: f64| Job { submitted_s, ended_s, ..Job::default() };
        // The first runs on while the second and third are submitted; the third ends as it is submitted.
        let jobs = [job(0.0, 20.0), job(5.0, 6.0), job(10.0, 10.0), job(10.0, 30.0), job(20.0, 21.0)];
        let (mut order, mut told) = (Order::default(), 0);
        replay(&jobs, &mut order, &mut |done| told = done);
        assert_eq!(order.0, [1, 2, -2, 3, -3, 4, -1, 5]);
        let mut order = Order::default();
        replay_until(&jobs, &mut order, 21.0);
        assert_eq!(order.0, [1, 2, -2, 3, -3, 4, -1, 5, -5]);
        assert_eq!(told, 5);
    }
}
