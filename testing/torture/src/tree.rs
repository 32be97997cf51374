//! A process and its living descendants, and ending them all.
//!
//! Next: `campaign` picks one of them.

use rustix::process::{Pid as RawPid, Signal, kill_process};
use trimtab_types::Pid;

/// Rounds of killing: each catches what the round before was just starting.
const ROUNDS_MAX: usize = 5;

/// The facts of a living process in `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// State letter.
    pub state: char,
    /// Clock ticks since boot at its start: with the pid, it names one process for ever.
    pub start: u64,
}

/// State and start of `pid`; `None`: it has ended or is a zombie.
pub(crate) fn life(pid: Pid) -> Option<Life> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let state = words.first()?.chars().next()?;
    let start = words.get(19)?.parse().ok()?;
    (!matches!(state, 'Z' | 'X')).then_some(Life { state, start })
}

/// All living descendants of `root`, parents first, without `root`.
pub(crate) fn descendants(root: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        let children = children(pid);
        open.extend(&children);
        found.extend(children.into_iter().filter(|pid| life(*pid).is_some()));
    }
    found
}

fn children(pid: Pid) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok().map(Pid)).collect::<Vec<_>>())
        .collect()
}

/// Sends `signal` to `pid`; whether it was there.
pub(crate) fn send(pid: Pid, signal: Signal) -> bool {
    RawPid::from_raw(pid.0).is_some_and(|raw| kill_process(raw, signal).is_ok())
}

/// Kills `root` and everything below it, each by its id.
pub(crate) fn end(root: Pid) {
    for _ in 0..ROUNDS_MAX {
        let all = descendants(root);
        for pid in &all {
            send(*pid, Signal::KILL);
        }
        if all.is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    send(root, Signal::KILL);
}
