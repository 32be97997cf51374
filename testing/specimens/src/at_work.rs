//! Waiting until the ranks of a job are at work: past their loader, and with the libraries that they keep.
//!
//! Next: [`crate::TextSnapshot`], which is taken then.

use crate::process::{cpu_ticks, sleeps_for_long};
use crate::{Running, wait_for};
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

/// Waits until every rank of a job has computed for so many clock ticks or sleeps for milliseconds at once, and its libraries no
/// longer come and go: the ranks' processes.
///
/// # Panics
/// If that is not so for very long, or the job ends before.
#[track_caller]
pub fn at_work(job: &mut Running, ticks: u64) -> Vec<i32> {
    const LOOKS_ALIKE: u32 = 4;
    const LOOK_EVERY: Duration = Duration::from_millis(20);
    let pids = job.rank_pids(Duration::from_secs(60)).expect("its ranks start");
    wait_for("the ranks work", || {
        let state = job.poll().expect("its state");
        assert!(state.is_none(), "it ended at once: {}{}", job.stdout(), job.stderr());
        pids.iter().all(|pid| cpu_ticks(*pid) >= ticks || sleeps_for_long(*pid))
    });
    let all = || pids.iter().map(|pid| mapped(*pid)).collect::<Vec<_>>();
    let (mut last, mut alike) = (all(), 0);
    wait_for("the ranks' libraries stay", || {
        std::thread::sleep(LOOK_EVERY);
        let now = all();
        alike = if now == last { alike + 1 } else { 0 };
        last = now;
        alike >= LOOKS_ALIKE
    });
    pids
}

/// Executable files that a process has mapped.
fn mapped(pid: i32) -> BTreeSet<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let code = maps.lines().filter(|line| line.contains(" r-xp ")).filter_map(|line| line.splitn(6, ' ').nth(5));
    code.map(|module| module.trim_start().to_owned()).collect()
}
