//! The kernel's counters of a whole machine: processor time by kind, time somebody waited, load.
//!
//! Next: `look`, which takes them together with the processes.

use serde::{Deserialize, Serialize};

/// Counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Processor time that was worked, given to others by the host, and all of it, in clock ticks.
    ticks: Option<[u64; 3]>,
    /// Microseconds in which some process waited for a processor.
    waited_us: Option<u64>,
    /// Processes that ran or wanted to, mean over the last minute.
    pub load: Option<f64>,
}

/// The processors' time between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worked {
    /// Share of the processors' time that was worked.
    pub busy: Option<f64>,
    /// Share that the host gave to others.
    pub steal: Option<f64>,
    /// Share of the time in which some process waited for a processor.
    pub pressure: Option<f64>,
}

impl Counters {
    /// From the texts of `/proc/stat`, `/proc/pressure/cpu` and `/proc/loadavg`, as far as there are such files.
    pub fn parse(stat: Option<&str>, pressure: Option<&str>, load: Option<&str>) -> Counters {
        Counters {
            ticks: stat.and_then(ticks),
            waited_us: pressure.and_then(|text| {
                let line = text.lines().find(|line| line.starts_with("some "))?;
                line.split_whitespace().find_map(|word| word.strip_prefix("total=")?.parse().ok())
            }),
            load: load.and_then(|text| text.split_whitespace().next()?.parse().ok()),
        }
    }

    /// From these to later ones, `seconds` apart.
    pub fn until(&self, later: &Counters, seconds: f64) -> Worked {
        let passed = |number: usize| {
            let (before, after) = (self.ticks?, later.ticks?);
            let all = after[2].checked_sub(before[2]).filter(|all| *all > 0)?;
            Some((after[number].saturating_sub(before[number]) as f64 / all as f64).min(1.0))
        };
        let waited_us = self.waited_us.zip(later.waited_us).map(|(before, after)| after.saturating_sub(before));
        Worked {
            busy: passed(0),
            steal: passed(1),
            pressure: waited_us.filter(|_| seconds > 0.0).map(|us| (us as f64 / 1e6 / seconds).min(1.0)),
        }
    }
}

/// Worked, stolen, all: of the line for all processors. Guests' time is in that of users already.
fn ticks(stat: &str) -> Option<[u64; 3]> {
    const KINDS: usize = 8;
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let kinds: Vec<u64> = line.split_whitespace().take(KINDS).filter_map(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal] = kinds.try_into().ok()?;
    let worked = user + nice + system + irq + softirq;
    Some([worked, steal, worked + idle + iowait + steal])
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 0 20 60 10 5 5 0 50 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
    const PRESSURE: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull avg10=0.00 total=7\n";

    #[test]
    fn shares_are_differences() {
        let before = Counters::parse(Some(STAT), Some(PRESSURE), Some("2.05 2.00 1.95 3/114 24440\n"));
        let stat = "cpu  150 0 20 90 10 5 5 20 99 0\n";
        let after = Counters::parse(Some(stat), Some(&PRESSURE.replace("1000000", "1500000")), None);
        let worked = before.until(&after, 2.0);
        assert_eq!((before.load, after.load), (Some(2.05), None));
        assert_eq!((worked.busy, worked.steal, worked.pressure), (Some(0.5), Some(0.2), Some(0.25)));
    }

    #[test]
    fn what_is_not_there_is_not_known() {
        for stat in ["", "cpu 1 2 3", "cpu a b c d e f g h", "cpu0 1 2 3 4 5 6 7 8"] {
            let odd = Counters::parse(Some(stat), Some("full total=3"), Some(""));
            assert_eq!(odd, Counters::default(), "{stat:?}");
        }
        let same = Counters::parse(Some(STAT), None, None);
        assert_eq!(same.until(&same, 0.0), Worked::default(), "no time has passed");
    }
}
