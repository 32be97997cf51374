//! All processes at one moment, beside those of the moment before: what began, what ended, what became another program.
//!
//! Programs that begin and end between two looks are not seen; that is why this is the last resort.
//!
//! Next: `mod.rs`, which looks again and again where the kernel does not tell.

use super::event::ProcessEvent;
use crate::proc::stat_of;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use trimtab_types::Pid;

/// The processes that are known.
#[derive(Debug, Default)]
pub(super) struct Scan(BTreeMap<Pid, Known>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    start_time_ticks: u64,
    /// Device and inode of its program; `None` for a thread of the kernel, or somebody else's process.
    program: Option<(u64, u64)>,
}

impl Scan {
    /// The processes of this moment.
    pub(super) fn now() -> Scan {
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid);
        Scan(pids.filter_map(|pid| Some((pid, Known::of(pid)?))).collect())
    }

    /// The events since, as far as they can be seen now.
    pub(super) fn changes(&mut self) -> Vec<ProcessEvent> {
        let before = std::mem::replace(self, Scan::now());
        self.since(&before)
    }

    fn since(&self, before: &Scan) -> Vec<ProcessEvent> {
        let same = |pid: &Pid, known: &Known, other: &Scan| {
            other.0.get(pid).is_some_and(|other| other.start_time_ticks == known.start_time_ticks)
        };
        let ended = before.0.iter().filter(|(pid, known)| !same(pid, known, self));
        let ended = ended.map(|(pid, _)| ProcessEvent::Exit { pid: *pid });
        let begun = self.0.iter().filter(|(pid, known)| known.program.is_some() && before.0.get(pid) != Some(known));
        ended.chain(begun.map(|(pid, _)| ProcessEvent::Exec { pid: *pid, time_ns: None })).collect()
    }
}

impl Known {
    fn of(pid: Pid) -> Option<Known> {
        // One that has ended keeps its number until its parent asks for it.
        let stat = stat_of(pid, pid.0).filter(|stat| !stat.state.has_ended())?;
        let program = fs::metadata(format!("/proc/{pid}/exe")).ok().map(|file| (file.dev(), file.ino()));
        Some(Known { start_time_ticks: stat.start_time_ticks, program })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(rows: &[(i32, u64, u64)]) -> Scan {
        let known =
            |start_time_ticks, inode| Known { start_time_ticks, program: Some((1, inode)).filter(|_| inode > 0) };
        Scan(rows.iter().map(|(pid, start, inode)| (Pid(*pid), known(*start, *inode))).collect())
    }

    #[test]
    fn differences_are_events() {
        let exec = |pid| ProcessEvent::Exec { pid: Pid(pid), time_ns: None };
        let exit = |pid| ProcessEvent::Exit { pid: Pid(pid) };
        let before = scan(&[(1, 10, 5), (2, 20, 0)]);
        for (case, rows, expected) in [
            ("nothing", vec![(1, 10, 5), (2, 20, 0)], vec![]),
            ("began", vec![(1, 10, 5), (2, 20, 0), (3, 30, 5)], vec![exec(3)]),
            ("kernel_thread_began", vec![(1, 10, 5), (2, 20, 0), (3, 30, 0)], vec![]),
            ("ended", vec![(2, 20, 0)], vec![exit(1)]),
            ("another_program", vec![(1, 10, 6), (2, 20, 0)], vec![exec(1)]),
            ("pid_used_again", vec![(1, 11, 5), (2, 20, 0)], vec![exit(1), exec(1)]),
        ] {
            assert_eq!(scan(&rows).since(&before), expected, "{case}");
        }
    }

    #[test]
    fn a_program_that_begins_is_found() {
        let mut scan = Scan::now();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("sleep runs");
        let pid = Pid(child.id() as i32);
        let begun = scan.changes();
        child.kill().expect("ours to end");
        child.wait().expect("ours");
        assert!(begun.contains(&ProcessEvent::Exec { pid, time_ns: None }), "{begun:?}");
        assert!(scan.changes().contains(&ProcessEvent::Exit { pid }));
    }
}
