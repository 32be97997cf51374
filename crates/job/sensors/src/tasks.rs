//! Threads and their time: for how long each ran and for how long it waited for a processor.
//!
//! A thread that ran for a share r and waited for a share w of some time would, with a processor to itself, have run for
//! r / (1 - w) of it: the time in which it neither ran nor waited stays.
//!
//! Next: `share`, which weighs them.

use crate::places::Places;
use std::collections::BTreeMap;
use std::time::Instant;
use trimtab_types::Pid;
use trimtab_types::procfs::{CLOCK_TICKS_PER_SECOND, State, parse_stat};

/// Processes whose threads are looked at one by one have so many at most; beyond that only their time altogether counts.
const THREADS_MAX: u32 = 4096;

/// The kernel's number of the idle policy, and real-time ones.
const IDLE_POLICY: u32 = 5;
const REAL_TIME: [u32; 3] = [1, 2, 6];

/// A process at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Task {
    start_ticks: u64,
    cpu_ticks: u64,
    runs: bool,
    pub nice: i32,
    policy: u32,
    threads: BTreeMap<i32, (u64, u64)>,
}

/// All processes at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    pub at: Instant,
    all: BTreeMap<Pid, Task>,
}

/// A thread's wish for processors between two moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Demand {
    pub pid: Pid,
    pub nice: i32,
    pub is_idle_class: bool,
    pub is_real_time: bool,
    /// Share of the time in which it ran.
    pub ran: f64,
    /// In which it waited for a processor.
    pub waited: f64,
}

impl Demand {
    /// Share of the time in which it would run with a processor to itself.
    pub(crate) fn wanted(&self) -> f64 {
        let not_waiting = 1.0 - self.waited.clamp(0.0, 1.0);
        if self.ran >= not_waiting { 1.0 } else { (self.ran / not_waiting).clamp(0.0, 1.0) }
    }
}

impl Tasks {
    /// Everything now, but for ourselves. Kernel threads' work is left to the counters of the machine.
    pub(crate) fn look(places: &Places) -> Tasks {
        const KTHREADD: Pid = Pid(2);
        let own = std::process::id().cast_signed();
        let entries = std::fs::read_dir(&places.proc).into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let mut all = BTreeMap::new();
        for pid in pids.filter(|pid| *pid != own).map(Pid) {
            let folder = places.proc.join(pid.0.to_string());
            let Ok(bytes) = std::fs::read(folder.join("stat")) else { continue };
            let (Some(stat), Some((nice, policy))) = (parse_stat(&bytes), parse_scheduled(&bytes)) else { continue };
            if stat.state.has_ended() || stat.parent == KTHREADD || pid == KTHREADD {
                continue;
            }
            let threads = match stat.threads {
                0..=1 => times(&folder.join("schedstat")).map(|times| (pid.0, times)).into_iter().collect(),
                2..=THREADS_MAX => threads(&folder),
                _ => BTreeMap::new(),
            };
            let runs = stat.state == State::Running;
            let (start_ticks, cpu_ticks) = (stat.start_time_ticks, stat.cpu_ticks);
            let task = Task { start_ticks, cpu_ticks, runs, nice, policy, threads };
            all.insert(pid, task);
        }
        Tasks { at: Instant::now(), all }
    }

    /// Whoever ran or waited until a later look.
    pub(crate) fn until(&self, later: &Tasks, seconds: f64) -> Vec<Demand> {
        /// Less than this is not worth a place in the sum: a hundred of them are a twentieth of a processor.
        const LEAST: f64 = 5e-4;
        let mut found = Vec::new();
        for (pid, task) in &later.all {
            let before = self.all.get(pid).filter(|before| before.start_ticks == task.start_ticks);
            let demand = |ran: f64, waited: f64| Demand {
                pid: *pid,
                nice: task.nice,
                is_idle_class: task.policy == IDLE_POLICY,
                is_real_time: REAL_TIME.contains(&task.policy),
                ran,
                waited,
            };
            for (thread, (ran, waited)) in &task.threads {
                let known = before.and_then(|before| before.threads.get(thread)).copied().unwrap_or_default();
                let share = |now: u64, then: u64| (now.saturating_sub(then) as f64 / 1e9 / seconds).clamp(0.0, 1.0);
                let one = demand(share(*ran, known.0), share(*waited, known.1));
                if one.ran + one.waited > LEAST {
                    found.push(one);
                }
            }
            if task.threads.is_empty() {
                let ran = without_times(before, task, seconds);
                // As many threads as that needs.
                let threads = ran.ceil().min(f64::from(THREADS_MAX)) as u32;
                found.extend((0..threads).map(|_| demand((ran / f64::from(threads)).min(1.0), 0.0)));
            }
        }
        found
    }
}

/// Of a kernel that keeps no times of threads, or a process with too many: processor time in ticks, and whoever runs at both
/// looks wants a whole one.
fn without_times(before: Option<&Task>, task: &Task, seconds: f64) -> f64 {
    let ticks = task.cpu_ticks.saturating_sub(before.map_or(0, |before| before.cpu_ticks));
    let ran = ticks as f64 / CLOCK_TICKS_PER_SECOND as f64 / seconds;
    let runs = task.runs && before.is_some_and(|before| before.runs);
    if runs { ran.max(1.0) } else { ran }
}

fn threads(folder: &std::path::Path) -> BTreeMap<i32, (u64, u64)> {
    let entries = std::fs::read_dir(folder.join("task")).into_iter().flatten().flatten();
    let thread = |entry: std::fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, times(&entry.path().join("schedstat"))?))
    };
    entries.filter_map(thread).collect()
}

/// Nanoseconds run and waited; a kernel that keeps neither writes zeros.
fn times(file: &std::path::Path) -> Option<(u64, u64)> {
    parse_times(&std::fs::read_to_string(file).ok()?)
}

fn parse_times(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(str::parse);
    let (ran, waited) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (ran > 0 || waited > 0).then_some((ran, waited))
}

/// The nice level and the number of the policy in a line of `/proc/PID/stat`.
fn parse_scheduled(line: &[u8]) -> Option<(i32, u32)> {
    let close = line.iter().rposition(|byte| *byte == b')')?;
    // The first word behind the name is field 3.
    let words: Vec<&str> = std::str::from_utf8(line.get(close + 1..)?).ok()?.split_ascii_whitespace().collect();
    Some((words.get(19 - 3)?.parse().ok()?, words.get(41 - 3)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_line_is_a_panic(line in "[0-9]{1,9} \\(.{0,9}\\)( -?[0-9]{1,21}){0,60}", times in "([0-9]{1,22} ?){0,4}.*") {
            let _ = (parse_scheduled(line.as_bytes()), parse_times(&times));
        }
    }

    fn demand(ran: f64, waited: f64) -> f64 {
        let (pid, nice) = (Pid(7), 0);
        Demand { pid, nice, is_idle_class: false, is_real_time: false, ran, waited }.wanted()
    }

    #[test]
    fn a_thread_that_shares_its_processor_wants_all_of_it() {
        for (name, ran, waited, expected) in [
            ("alone", 1.0, 0.0, 1.0),
            ("half of one", 0.5, 0.5, 1.0),
            ("starved", 0.0, 1.0, 1.0),
            ("wakes now and then", 0.2, 0.0, 0.2),
            ("and waits before it runs", 0.2, 0.2, 0.25),
            ("clocks that differ", 0.6, 0.5, 1.0),
            ("asleep", 0.0, 0.0, 0.0),
        ] {
            assert!((demand(ran, waited) - expected).abs() < 1e-9, "{name}: {}", demand(ran, waited));
        }
    }

    #[test]
    fn recorded_looks_say_who_wants_what() {
        let folder = tempfile::tempdir().expect("a folder");
        let places = Places::below(folder.path());
        let write = |pid: i32, nice: i32, start: u64, ticks: u64, times: &str| {
            let folder = places.proc.join(pid.to_string());
            std::fs::create_dir_all(&folder).expect("a folder");
            let stat = format!(
                "{pid} (a b) R 1 7 7 0 -1 4194560 1 0 0 0 {ticks} 0 0 0 20 {nice} 1 0 {start} 6 7 8 1 1 1 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0"
            );
            std::fs::write(folder.join("stat"), stat).expect("a file");
            std::fs::write(folder.join("schedstat"), times).expect("a file");
        };
        write(10, 0, 5, 100, "1000000000 500 1\n");
        write(11, 19, 5, 100, "7000000000 0 1\n");
        write(12, 0, 5, 100, "0 0 0\n");
        write(13, 0, 5, 100, "9000000000 0 1\n");
        let first = Tasks::look(&places);
        write(10, 0, 5, 200, "2000000000 1000000500 1\n");
        write(11, 19, 5, 100, "7000000000 2000000000 1\n");
        write(12, 0, 5, 200, "0 0 0\n");
        // The same number, and another process.
        write(13, 0, 6, 10, "100000000 0 1\n");
        let later = Tasks::look(&places);
        let found: Vec<(i32, i32, f64)> =
            first.until(&later, 2.0).iter().map(|one| (one.pid.0, one.nice, one.wanted())).collect();
        let expected = [(10, 0, 1.0), (11, 19, 1.0), (12, 0, 1.0), (13, 0, 0.05)];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.0 == expected.0 && found.1 == expected.1 && (found.2 - expected.2).abs() < 1e-6, "{found:?}");
        }
    }
}
