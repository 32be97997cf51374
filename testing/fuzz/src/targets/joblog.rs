//! Any text as a log of jobs, in whichever format: it is read or refused, and what is read can be forecast.
//!
//! Next: `trimtab-history`'s `read`.

use crate::hostile::Target;
use anyhow::Result;
use trimtab_history::{From, Log, Wrong, backtest, read_log};

/// A log of each format, with what they have that others have not.
const LOGS: [&str; 5] = [
    "; Version: 2.2\n1 0 5 100 8 -1 -1 8 600 -1 1 3 1 2 1 -1 -1 -1\n2 7 -1 90 8 -1 -1 -1 -1 -1 0 3 1 2 1 -1 -1 -1\n",
    "1 900 5 0 8 -1 -1 8 600 -1 5 -1 1 2 1 -1 -1 -1\n2 7 1 9.5 8 -1 -1 9 60 -1 3 4 1 2 1 -1 -1 -1 {1,2} q\n3 8 2 7 1 1 1 1 9 1 1 1 1 1 1 1 1 1\n",
    "JobID|User|NNodes|Submit|Start|End|Elapsed|Timelimit|State\n7|a|4|2026-01-02T10:00:00|2026-01-02T10:05:00|2026-01-03T11:05:00|1-01:00:00|UNLIMITED|COMPLETED\n7.0|a|4|2026-01-02T10:00:00|Unknown|Unknown|00:00|Partition_Limit|PENDING\n",
    "Submit|Start|ElapsedRaw|TimelimitRaw|State\n0|10|90|15|CANCELLED by 5\n1|11|80|15|FAILED\n",
    "user,\"qos\",wallclock_req,submit_time,start_time,end_time,name\nu,n,600.0,2019-01-01 08:55:55,2019-01-01 08:56:00,2019-01-01 08:57:00,\"a, \"\"b\"\n",
];

/// The target.
pub struct JobLog;

impl Target for JobLog {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        Ok(LOGS.iter().map(|log| log.as_bytes().to_vec()).collect())
    }

    fn length_max(&self) -> usize {
        2048
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let text = String::from_utf8_lossy(input);
        let strict = read_log(&text, Wrong::Refused);
        if let Ok(log) = &strict {
            assert_eq!(log.left_out.wrong, 0, "wrong lines are refused");
            assert_eq!(read_log(&text, Wrong::LeftOut).as_ref(), Ok(log), "there is nothing to leave out");
        }
        let log = strict.or_else(|_| read_log(&text, Wrong::LeftOut));
        log.is_ok_and(|log| {
            judge(&log);
            true
        })
    }
}

fn judge(log: &Log) {
    assert!(log.jobs.is_sorted_by(|a, b| a.submitted_s <= b.submitted_s), "in order of submission");
    for job in &log.jobs {
        assert!(job.ended_s >= job.submitted_s && job.ran_s >= 0.0 && job.ended_s.is_finite(), "{job:?}");
        assert!(job.begun_s.is_none_or(|begun_s| begun_s >= job.submitted_s), "{job:?}");
    }
    let found = backtest(log, From::Start, &mut |_| ());
    assert_eq!(found.judged + found.without_basis, log.jobs.len());
    let is_share = |share: f64| (0.0..=1.0).contains(&share);
    assert!(found.history.is_none_or(|history| is_share(history.accuracy) && history.error_median_s.is_finite()));
    assert!(found.interval.is_none_or(|interval| is_share(interval.share) && interval.factor_median >= 1.0));
}
