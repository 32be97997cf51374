//! The memory and time of processes, as the kernel counts them.
//!
//! Next: `measure` and `scale`, which ask.

use crate::Outcome;

/// Memory of a process that it shares with nobody, in bytes.
pub fn own_memory_bytes(pid: u32) -> Outcome<u64> {
    status_bytes(pid, "RssAnon:")
}

/// Memory of a process, in bytes.
pub fn memory_bytes(pid: u32) -> Outcome<u64> {
    status_bytes(pid, "VmRSS:")
}

fn status_bytes(pid: u32, name: &str) -> Outcome<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line in /proc/PID/status")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

/// Processor time of a process, in seconds.
pub fn processor_seconds(pid: u32) -> Outcome<f64> {
    let mut total_ns = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let schedstat = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        total_ns += schedstat.split(' ').next().ok_or("schedstat is empty")?.parse::<u64>()?;
    }
    Ok(total_ns as f64 / 1e9)
}
