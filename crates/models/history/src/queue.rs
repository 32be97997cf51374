//! When a job would begin if it were submitted now, from the waits of those that have begun.
//!
//! Next: `waits` for the forecast, `backtest_waits` for how far it was off so far.

use crate::backtest_waits::{Run, WaitsJudged};
use crate::job::{Ask, Job, Open};
use crate::log::Log;
use crate::replay::replay_until;
use crate::waits::AlikeWaits;
use std::collections::HashMap;

/// The wait of a job that is submitted now.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// The moment it is submitted, seconds as the log's times: waits that ended later are not known.
    pub now_s: f64,
    /// As many jobs wait longer as shorter, seconds.
    pub wait_s: f64,
    /// The ends of an interval that holds nine tenths of waits, seconds; `None`: too few jobs have begun, of all or of
    /// those that were submitted while as many others waited.
    pub interval_s: Option<(f64, f64)>,
    /// Jobs that wait now.
    pub waiting: usize,
    /// Jobs that have begun.
    pub begun: usize,
    /// When the latest of these began.
    pub latest_begin_s: f64,
    /// Waits that the forecast rests on.
    pub alike: AlikeWaits,
    /// How such forecasts did on the waits that are known; `None`: there was none.
    pub judged: Option<WaitsJudged>,
}

/// Jobs of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfQueue {
    /// Queue or partition.
    pub partition: String,
    /// Quality of service, or what the log has in its place; may be empty.
    pub quality: String,
    /// How many.
    pub jobs: usize,
    /// Its number in [`Ask::queue`].
    pub number: u32,
}

impl Log {
    /// The queues of all jobs, the one with most jobs first.
    pub fn queues(&self) -> Vec<OfQueue> {
        let mut jobs: HashMap<u32, usize> = HashMap::new();
        let asks = self.jobs.iter().map(|job| job.ask).chain(self.open.iter().map(|open| open.ask));
        for queue in asks.filter_map(|ask| ask.queue) {
            *jobs.entry(queue).or_default() += 1;
        }
        let mut queues: Vec<OfQueue> =
            self.names.iter().filter_map(|(name, number)| of_queue(name, *number, &jobs)).collect();
        queues.sort_by(|a, b| {
            b.jobs.cmp(&a.jobs).then_with(|| (&a.partition, &a.quality).cmp(&(&b.partition, &b.quality)))
        });
        queues
    }

    /// The number of a user; `None`: no job is theirs.
    pub fn user(&self, name: &str) -> Option<u32> {
        let number = *self.names.get(name)?;
        self.jobs.iter().any(|job| job.ask.user == Some(number)).then_some(number)
    }

    /// The last moment that the log tells of.
    pub fn last_s(&self) -> f64 {
        let ended = self.jobs.iter().map(|job| job.ended_s);
        let open = self.open.iter().map(|open| open.begun_s.unwrap_or(open.submitted_s));
        ended.chain(open).fold(f64::NEG_INFINITY, f64::max)
    }

    /// When a job would begin that is submitted at a moment; `None`: no job had begun by then.
    pub fn queue(&self, ask: &Ask, now_s: f64) -> Option<Queue> {
        let mut jobs: Vec<Job> =
            self.jobs.iter().filter_map(Job::wait).chain(self.open.iter().map(Open::wait)).collect();
        jobs.retain(|job| job.submitted_s <= now_s);
        jobs.sort_by(|a, b| a.submitted_s.total_cmp(&b.submitted_s));
        for job in jobs.iter_mut().filter(|job| job.ended_s > now_s) {
            job.ended_s = f64::INFINITY;
        }
        let begins = jobs.iter().map(|job| job.ended_s).filter(|s| s.is_finite());
        let latest_begin_s = begins.fold(f64::NEG_INFINITY, f64::max);
        let mut run = Run::new();
        replay_until(&jobs, &mut run, now_s);
        run.settle(now_s);
        let waiting = run.waiting.len();
        let wait = run.waits.forecast(ask, waiting)?;
        Some(Queue {
            now_s,
            wait_s: wait.wait_s,
            interval_s: wait.interval_s(),
            waiting,
            begun: run.begun(),
            latest_begin_s,
            alike: run.waits.alike(ask, waiting),
            judged: run.result(),
        })
    }
}

fn of_queue(name: &str, number: u32, jobs: &HashMap<u32, usize>) -> Option<OfQueue> {
    let (partition, quality) = name.split_once(' ')?;
    let jobs = *jobs.get(&number)?;
    Some(OfQueue { partition: partition.to_owned(), quality: quality.to_owned(), jobs, number })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Wrong;
    use crate::read::read_log;
    use std::fmt::Write as _;

    /// Jobs of two partitions, each an hour after the one before: those of `short` wait 10 to 19 s, those of `long` 1,000 to 1,900.
    fn log(open: &str) -> Log {
        let mut text = "JobID|User|Partition|QOS|NNodes|Submit|Start|End|Elapsed|Timelimit|State\n".to_owned();
        for at in 0..400_u32 {
            let (partition, times) = if at % 2 == 0 { ("short", 1) } else { ("long", 100) };
            let submitted = 1_795_000_000 + 3600 * at;
            let begun = submitted + times * (10 + at / 2 % 10);
            let _ = writeln!(
                text,
                "{at}|anna|{partition}|normal|2|{submitted}|{begun}|{}|00:01:00|01:00:00|COMPLETED",
                begun + 60
            );
        }
        read_log(&(text + open), Wrong::Refused).expect("a log")
    }

    fn ask(log: &Log, partition: &str) -> Ask {
        let queue = log.queues().into_iter().find(|queue| queue.partition == partition).expect("it is there");
        Ask {
            requested_s: Some(3600),
            ranks: Some(2),
            user: log.user("anna"),
            queue: Some(queue.number),
            ..Ask::default()
        }
    }

    #[test]
    fn a_job_waits_as_those_of_its_queue() {
        let log = log("");
        for (partition, times) in [("short", 1.0), ("long", 100.0)] {
            let queue = log.queue(&ask(&log, partition), log.last_s()).expect("jobs have begun");
            assert!((10.0 * times..20.0 * times).contains(&queue.wait_s), "{partition}: {queue:?}");
            let (low, high) = queue.interval_s.expect("many have begun");
            assert!(low <= queue.wait_s && queue.wait_s <= high && high < 40.0 * times, "{partition}: {queue:?}");
            assert_eq!((queue.waiting, queue.begun), (0, 400));
            assert!(queue.alike.queue_size_time > 30, "{queue:?}");
            let held = queue.judged.and_then(|judged| judged.share).expect("judged");
            assert!((0.85..=1.0).contains(&held), "{held}");
        }
    }

    #[test]
    fn jobs_that_wait_count_and_those_that_run_have_waited() {
        let open = "900|anna|long|normal|2|1796500000|Unknown|Unknown|00:00:00|01:00:00|PENDING\n\
                    901|anna|long|normal|2|1796500000|1796507000|Unknown|00:00:10|01:00:00|RUNNING\n";
        let log = log(open);
        assert_eq!((log.open.len(), log.left_out.not_ended), (2, 2));
        let queue = log.queue(&ask(&log, "long"), 1_796_507_010.0).expect("jobs have begun");
        assert_eq!((queue.waiting, queue.begun, queue.latest_begin_s), (1, 401, 1_796_507_000.0));
        assert_eq!(queue.interval_s, None, "so many never waited before");
        let before = log.queue(&ask(&log, "long"), 1_796_506_000.0).expect("jobs have begun");
        assert_eq!((before.waiting, before.begun), (2, 400), "one has not begun by then");
    }

    #[test]
    fn without_a_job_that_has_begun_nothing_is_said() {
        let log = log("");
        assert_eq!(log.queue(&ask(&log, "long"), 1_795_000_000.0), None);
    }

    #[test]
    fn queues_have_the_number_of_their_jobs() {
        let queues = log("").queues();
        let found: Vec<(&str, &str, usize)> =
            queues.iter().map(|queue| (queue.partition.as_str(), queue.quality.as_str(), queue.jobs)).collect();
        assert_eq!(found, [("long", "normal", 200), ("short", "normal", 200)]);
    }
}
