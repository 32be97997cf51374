//! What the system has counted for a process, read beside it at the borders of a window by time.
//!
//! Where a probe begins and ends the window, the process itself asks (`getrusage`), to the iteration. A window by time has
//! no probe at its borders; there the same numbers come from `/proc`, some tens of microseconds beside them.
//!
//! Next: `readout`, which subtracts the first from the last.

use std::fs;
use std::sync::atomic::Ordering::{Relaxed, Release};
use trimtab_stub::layout::{Usage, noted_by};
use trimtab_types::Pid;
use trimtab_types::procfs::{CLOCK_TICKS_PER_SECOND, parse_usage, read_all};

const TICK_NS: u64 = 1_000_000_000 / CLOCK_TICKS_PER_SECOND;

/// Notes what `pid` has used so far; what can't be read stays unknown.
pub(super) fn note(pid: Pid, noted: &Usage) {
    let Some(words) = words_of(pid) else { return };
    for (place, word) in words {
        noted.words[place].store(word, Relaxed);
    }
    noted.valid.store(noted_by::BESIDE, Release);
}

/// The words of `struct rusage` that are used, by their places.
fn words_of(pid: Pid) -> Option<[(usize, u64); 8]> {
    let stat = parse_usage(&read(&format!("/proc/{pid}/stat"))?)?;
    let threads: Vec<Thread> = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten().map(thread_of).collect();
    let sum = |value: fn(&Thread) -> u64| threads.iter().map(value).sum::<u64>();
    let counted = stat.user_ticks + stat.system_ticks;
    // The scheduler's times are exact, but those of threads that ended are only among the ticks.
    let cpu_ns = sum(|thread| thread.cpu_ns).max(counted * TICK_NS);
    let system_ns = (cpu_ns as f64 * stat.system_ticks as f64 / counted.max(1) as f64) as u64;
    let parts = |ns: u64| (ns / 1_000_000_000, ns / 1000 % 1_000_000);
    let ((user_s, user_us), (system_s, system_us)) = (parts(cpu_ns - system_ns), parts(system_ns));
    Some([
        (0, user_s),
        (1, user_us),
        (2, system_s),
        (3, system_us),
        (8, stat.minor_faults),
        (9, stat.major_faults),
        (16, sum(|thread| thread.voluntary)),
        (17, sum(|thread| thread.involuntary)),
    ])
}

/// What one thread has used.
#[derive(Default)]
struct Thread {
    cpu_ns: u64,
    voluntary: u64,
    involuntary: u64,
}

/// Zeros of one that has just ended.
fn thread_of(entry: fs::DirEntry) -> Thread {
    let text = |name: &str| String::from_utf8(read(&format!("{}/{name}", entry.path().display()))?).ok();
    let status = text("status").unwrap_or_default();
    let switches = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    let cpu_ns = text("schedstat").and_then(|text| text.split_ascii_whitespace().next()?.parse().ok());
    Thread {
        cpu_ns: cpu_ns.unwrap_or(0),
        voluntary: switches("voluntary_ctxt_switches:").unwrap_or(0),
        involuntary: switches("nonvoluntary_ctxt_switches:").unwrap_or(0),
    }
}

fn read(path: &str) -> Option<Vec<u8>> {
    read_all(fs::File::open(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Acquire;
    use std::time::{Duration, Instant};

    #[test]
    fn processor_time_faults_and_switches_of_a_process_are_read() {
        let (before, after) = (Usage::default(), Usage::default());
        let own = Pid(std::process::id() as i32);
        note(own, &before);
        let begun = Instant::now();
        let mut pages = Vec::new();
        while begun.elapsed() < Duration::from_millis(100) {
            pages.push(vec![1u8; 4096]);
        }
        std::thread::sleep(Duration::from_millis(2));
        note(own, &after);
        assert_eq!((before.valid.load(Acquire), after.valid.load(Acquire)), (noted_by::BESIDE, noted_by::BESIDE));
        let word = |usage: &Usage, place: usize| usage.words[place].load(Relaxed);
        let cpu_us = |usage: &Usage| (word(usage, 0) + word(usage, 2)) * 1_000_000 + word(usage, 1) + word(usage, 3);
        assert!(cpu_us(&after) > cpu_us(&before), "{before:?} {after:?}");
        assert!(word(&after, 8) > word(&before, 8), "{} pages were touched", pages.len());
        assert!(word(&after, 16) > word(&before, 16), "it slept");
    }

    #[test]
    fn of_a_process_that_is_gone_nothing_is_known() {
        let noted = Usage::default();
        note(Pid(i32::MAX), &noted);
        assert_eq!(noted.valid.load(Acquire), 0);
    }
}
