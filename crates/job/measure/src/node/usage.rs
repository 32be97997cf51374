//! The system's counts of a process, read beside it at the borders of a window by time.
//!
//! Where a probe begins and ends the window, the process itself asks (`getrusage`), to the iteration. A window by time has
//! no probe at its borders; there the same numbers come from `/proc`, some tens of microseconds beside them.
//!
//! Next: `readout`, which subtracts the first from the last.

use std::fs;
use std::sync::atomic::Ordering::{Relaxed, Release};
use trimtab_stub::layout::{NotedUsage, noted_by};
use trimtab_types::Pid;
use trimtab_types::procfs::{CLOCK_TICKS_PER_SECOND, parse_usage, read_all};

const TICK_NS: u64 = 1_000_000_000 / CLOCK_TICKS_PER_SECOND;

/// Notes what `pid` has used so far; what can't be read stays unknown.
pub(super) fn note(pid: Pid, noted: &NotedUsage) {
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

/// The usage of one thread.
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
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::sync::atomic::Ordering::Acquire;
    use std::time::{Duration, Instant};

    /// Waits for a word, makes a text of a megabyte, and waits for the next one.
    const SCRIPT: &str =
        "read x; x=0123456789abcdef; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do x=$x$x; done; read x";

    #[test]
    fn processor_time_faults_and_switches_of_a_process_are_read() {
        let mut shell = Command::new("sh").args(["-c", SCRIPT]).stdin(Stdio::piped()).spawn().expect("a shell");
        let pid = Pid(shell.id() as i32);
        let before = NotedUsage::default();
        note(pid, &before);
        let mut pipe = shell.stdin.take().expect("its input");
        pipe.write_all(b"go\n").expect("it reads");
        let word = |usage: &NotedUsage, place: usize| usage.words[place].load(Relaxed);
        let cpu_us =
            |usage: &NotedUsage| (word(usage, 0) + word(usage, 2)) * 1_000_000 + word(usage, 1) + word(usage, 3);
        let begun = Instant::now();
        let grew = loop {
            let after = NotedUsage::default();
            note(pid, &after);
            assert_eq!((before.valid.load(Acquire), after.valid.load(Acquire)), (noted_by::BESIDE, noted_by::BESIDE));
            let grew = [
                cpu_us(&after) > cpu_us(&before),
                word(&after, 8) > word(&before, 8),
                word(&after, 16) > word(&before, 16),
            ];
            if grew == [true; 3] || begun.elapsed() > Duration::from_secs(20) {
                break grew;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        drop(pipe);
        shell.wait().expect("it ends");
        assert_eq!(grew, [true; 3], "processor time, faults, voluntary switches");
    }

    #[test]
    fn of_a_process_that_is_gone_nothing_is_known() {
        let noted = NotedUsage::default();
        note(Pid(i32::MAX), &noted);
        assert_eq!(noted.valid.load(Acquire), 0);
    }
}
