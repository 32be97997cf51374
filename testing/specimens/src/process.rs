//! Facts of processes and threads from /proc: descendants, environments, states.
//!
//! Only reads. Next: `launch.rs` finds ranks with it; tests ask [`threads_running`] after a tool has left.

use crate::{Error, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Checks that no thread of `pid` is stopped or traced, and returns how many threads there are.
///
/// # Errors
/// [`Error::Process`] names the first thread in state t or T or with a tracer, or says that the process is gone.
pub fn threads_running(pid: i32) -> Result<usize> {
    let folder = PathBuf::from(format!("/proc/{pid}/task"));
    let entries = fs::read_dir(&folder).map_err(|_| gone(pid))?;
    let mut count = 0;
    for entry in entries.flatten() {
        // A thread may end between the listing and the reading.
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else { continue };
        check_thread(pid, &entry.file_name().to_string_lossy(), &status)?;
        count += 1;
    }
    if count == 0 { Err(gone(pid)) } else { Ok(count) }
}

/// Asks a process that we started to end, as Ctrl-C does.
pub fn interrupt(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        // That it is gone already is what is wanted.
        let _gone = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    }
}

/// Processes of a program, also those in other namespaces.
pub fn running(program: &Path) -> Vec<i32> {
    let is_it = |pid: &i32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter(is_it).collect()
}

/// True if a process is past its loader and at work: it has computed for a tenth of a second, or its first thread sleeps for
/// milliseconds at once, which libraries do not while they begin.
pub fn has_worked(pid: i32) -> bool {
    const USER_TIME: usize = 14;
    const WORKED_TICKS: u64 = 10;
    let ticks = stat_field(pid, USER_TIME).and_then(|ticks| ticks.parse::<u64>().ok());
    ticks.is_some_and(|ticks| ticks >= WORKED_TICKS) || sleeps_for_long(pid)
}

/// User and system time of a process in clock ticks; a process that has ended has worked.
pub fn cpu_ticks(pid: i32) -> u64 {
    let ticks = |number| stat_field(pid, number).and_then(|ticks| ticks.parse::<u64>().ok());
    ticks(14).zip(ticks(15)).map_or(u64::MAX, |(user, system)| user + system)
}

/// True if the first thread of a process is in one and the same sleep for some milliseconds.
pub(crate) fn sleeps_for_long(pid: i32) -> bool {
    const LONG: Duration = Duration::from_millis(6);
    let before = sleep_of(pid);
    before.is_some() && {
        std::thread::sleep(LONG);
        sleep_of(pid) == before
    }
}

/// How often the first thread of a process has given up its processor, if it sleeps for a time now.
fn sleep_of(pid: i32) -> Option<String> {
    const NANOSLEEP: [&str; 2] = ["35", "230"];
    let call = fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    NANOSLEEP.contains(&call.split(' ').next()?).then_some(())?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(field(&status, "voluntary_ctxt_switches:")?.to_owned())
}

fn check_thread(pid: i32, thread: &str, status: &str) -> Result<()> {
    let state = field(status, "State:").unwrap_or("?");
    let tracer = field(status, "TracerPid:").unwrap_or("0");
    if state.starts_with(['t', 'T']) {
        return Err(Error::Process { pid, reason: format!("thread {thread} is stopped: {state}") });
    }
    if tracer != "0" {
        return Err(Error::Process { pid, reason: format!("thread {thread} is traced by process {tracer}") });
    }
    Ok(())
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

fn gone(pid: i32) -> Error {
    Error::Process { pid, reason: "is gone".to_owned() }
}

/// All processes below `pid`, parents before children.
pub(crate) fn descendants(pid: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(child) = entry.file_name().to_string_lossy().parse() else { continue };
        if let Some(parent) = parent(child) {
            children.entry(parent).or_default().push(child);
        }
    }
    let mut found = vec![pid];
    let mut next = 0;
    while next < found.len() {
        found.extend(children.remove(&found[next]).unwrap_or_default());
        next += 1;
    }
    found.split_off(1)
}

/// A process, told from a later one with the same number by when it started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: i32,
    start_ticks: u64,
}

impl Identity {
    /// `None` if there is no such process.
    pub(crate) fn of(pid: i32) -> Option<Identity> {
        Some(Identity { pid, start_ticks: stat_field(pid, 22)?.parse().ok()? })
    }
}

fn parent(pid: i32) -> Option<i32> {
    stat_field(pid, 4)?.parse().ok()
}

/// Field `number` (from 3, as proc(5) counts) of /proc/PID/stat.
fn stat_field(pid: i32, number: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the last ')' may contain anything; field 3 follows it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(number - 3).map(str::to_owned)
}

/// The world rank that the launcher gave process `pid` in its first environment.
pub(crate) fn rank_of(pid: i32) -> Option<u32> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let names: [&[u8]; 2] = [b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK="];
    let mut variables = environment.split(|&byte| byte == 0);
    let value = variables.find_map(|one| names.iter().find_map(|name| one.strip_prefix(*name)))?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Name of the executable's file, as it was when the process was started.
pub(crate) fn executable_name(pid: i32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some(name.trim_end_matches(" (deleted)").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_judged_by_its_status() {
        let rows = [
            ("sleeping", "Name:\tx\nState:\tS (sleeping)\nTracerPid:\t0\n", None),
            ("running", "State:\tR (running)\nTracerPid:\t0\n", None),
            ("stopped", "State:\tT (stopped)\nTracerPid:\t0\n", Some("thread 7 is stopped: T (stopped)")),
            ("tracing_stop", "State:\tt (tracing stop)\nTracerPid:\t9\n", Some("is stopped: t (tracing stop)")),
            ("traced", "State:\tS (sleeping)\nTracerPid:\t9\n", Some("thread 7 is traced by process 9")),
        ];
        for (name, status, problem) in rows {
            let result = check_thread(1, "7", status).map_err(|error| error.to_string());
            match problem {
                None => assert_eq!(result, Ok(()), "{name}"),
                Some(part) => assert!(result.as_ref().is_err_and(|text| text.contains(part)), "{name}: {result:?}"),
            }
        }
    }

    #[test]
    fn this_process_runs_and_process_minus_one_is_gone() {
        let own = i32::try_from(std::process::id()).unwrap_or(-1);
        assert!(threads_running(own).is_ok_and(|count| count >= 1));
        assert!(threads_running(-1).is_err());
    }
}
