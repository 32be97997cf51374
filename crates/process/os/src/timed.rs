//! One run of a program of ours: its time, processor time, and memory, as the kernel counted them.
//!
//! The child begins by a fork: what a program that shares our memory until its exec takes over would count as its own memory.
//!
//! Next: `trimtab-engine`, which runs routines at several sizes.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long nobody looks whether a run is to be ended.
const LOOK_MS: i32 = 50;
/// Nanoseconds in a second.
const NS: f64 = 1e9;
/// Memory that a child has of us beside what the status file counts: tables of pages that it writes before its exec.
const FLOOR_MORE_BYTES: u64 = 512 << 10;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signal(i32),
    /// It took longer than it may, and was ended with all of its process group.
    TimedOut,
    /// Somebody wanted it to end.
    Interrupted,
}

/// A run that is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedRun {
    /// How it ended.
    pub end: RunEnd,
    /// Seconds by the monotonic clock, from before its fork until its end.
    pub wall_s: f64,
    /// User and system time of all its processes and threads, seconds.
    pub cpu_s: f64,
    /// How long its first thread was ready to run and had no processor, seconds; `None`: this kernel does not count it.
    pub waited_s: Option<f64>,
    /// The most memory that any one of its processes had at a time, bytes; `None`: no more than it had of us as it began.
    pub memory_bytes: Option<u64>,
    /// Processor time that others had meanwhile, as a share of all processors; `None`: not known.
    pub others_share: Option<f64>,
}

/// Runs a program in a process group of its own until it ends, or for `limit` at most.
///
/// # Errors
/// It can't be started or waited for.
pub fn run_timed(command: &mut Command, limit: Duration, wants_end: &dyn Fn() -> bool) -> io::Result<TimedRun> {
    // SAFETY: the closure does nothing; its being there has the child begin by a fork.
    unsafe { command.pre_exec(|| Ok(())) };
    let floor = own_memory_bytes();
    let busy = busy_s();
    let begun = Instant::now();
    let child = command.process_group(0).spawn()?;
    let pid = child.id() as i32;
    let early = wait_until_end(pid, begun, limit, wants_end);
    if !matches!(early, Ok(None)) {
        // SAFETY: the group is that of a child that nobody has waited for: its number is not another's.
        unsafe { libc::kill(-pid, libc::SIGKILL) };
    }
    let wall_s = begun.elapsed().as_secs_f64();
    let (waited_s, (status, usage)) = (run_delay_s(pid), wait_for(pid)?);
    let end = match early? {
        Some(end) => end,
        None if libc::WIFSIGNALED(status) => RunEnd::Signal(libc::WTERMSIG(status)),
        None => RunEnd::Exited(libc::WEXITSTATUS(status)),
    };
    let cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    let memory = (usage.ru_maxrss.max(0) as u64) << 10;
    let others = busy.zip(busy_s()).map(|((before, processors), (after, _))| {
        ((after - before - cpu_s) / (processors * wall_s).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    });
    let memory_bytes = Some(memory).filter(|memory| floor.is_some_and(|floor| *memory > floor));
    Ok(TimedRun { end, wall_s, cpu_s, waited_s, memory_bytes, others_share: others })
}

/// Waits; the reason for which it is to be ended early, if there is one.
fn wait_until_end(
    pid: i32,
    begun: Instant,
    limit: Duration,
    wants_end: &dyn Fn() -> bool,
) -> io::Result<Option<RunEnd>> {
    // SAFETY: the call takes numbers only; the descriptor it returns is nobody else's.
    let descriptor = unsafe {
        match libc::syscall(libc::SYS_pidfd_open, pid, 0) {
            -1 => return Err(io::Error::last_os_error()),
            descriptor => OwnedFd::from_raw_fd(descriptor as i32),
        }
    };
    loop {
        let mut poll = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let left_ms = limit.saturating_sub(begun.elapsed()).as_millis().min(LOOK_MS as u128) as i32;
        // SAFETY: `poll` outlives the call, which reads and writes this one structure.
        let ready = unsafe { libc::poll(&raw mut poll, 1, left_ms.max(1)) };
        if ready > 0 {
            return Ok(None);
        }
        if begun.elapsed() >= limit {
            return Ok(Some(RunEnd::TimedOut));
        }
        if wants_end() {
            return Ok(Some(RunEnd::Interrupted));
        }
    }
}

fn wait_for(pid: i32) -> io::Result<(i32, libc::rusage)> {
    loop {
        let mut status = 0;
        // SAFETY: the structure has numbers only, for which zero is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both places outlive the call, which writes them and nothing else.
        let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        let error = io::Error::last_os_error();
        match waited {
            -1 if error.kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(error),
            _ => return Ok((status, usage)),
        }
    }
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

/// Of a process that has ended and that nobody has waited for.
fn run_delay_s(pid: i32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    Some(text.split_whitespace().nth(1)?.parse::<f64>().ok()? / NS)
}

/// Memory of our own that a child has after its fork.
fn own_memory_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    };
    Some(((of("RssAnon:")? + of("RssShmem:")?) << 10) + FLOOR_MORE_BYTES)
}

/// Seconds that all processors were busy since the machine was started, and how many processors there are.
fn busy_s() -> Option<(f64, f64)> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let numbers = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<f64> = numbers.map(|number| number.parse().unwrap_or(0.0)).collect();
    // user, nice, system, then idle and waiting for a disk, then interrupts of both kinds, and what a hypervisor took.
    let busy: f64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|place| ticks.get(*place)).sum();
    // SAFETY: the call takes and returns a number.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    let processors = stat.lines().filter(|line| line.starts_with("cpu")).count().saturating_sub(1).max(1);
    Some((busy / per_second.max(1.0), processors as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    const LIMIT: Duration = Duration::from_secs(60);

    fn run(script: &str, limit: Duration, wants_end: &dyn Fn() -> bool) -> TimedRun {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        run_timed(&mut command, limit, wants_end).expect("it runs")
    }

    #[test]
    fn work_is_processor_time_and_sleep_is_not() {
        let work = run("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done", LIMIT, &|| false);
        assert_eq!(work.end, RunEnd::Exited(0));
        assert!(work.cpu_s > 0.02 && work.cpu_s <= work.wall_s + 0.02, "{work:?}");
        let sleep = run("sleep 0.3", LIMIT, &|| false);
        assert!(sleep.wall_s >= 0.3 && sleep.cpu_s < 0.1, "{sleep:?}");
    }

    #[test]
    fn memory_is_the_program_s_own() {
        let dd = |mebibytes: u64| {
            let taken =
                run(&format!("dd if=/dev/zero of=/dev/null bs={mebibytes}M count=1 2>/dev/null"), LIMIT, &|| false);
            taken.memory_bytes.expect("more than we have")
        };
        let more = dd(256) - dd(128);
        assert!(more.abs_diff(128 << 20) < 2 << 20, "{more}");
    }

    #[test]
    fn codes_signals_and_limits_are_told_apart() {
        assert_eq!(run("exit 3", LIMIT, &|| false).end, RunEnd::Exited(3));
        assert_eq!(run("kill -9 $$", LIMIT, &|| false).end, RunEnd::Signal(9));
        let begun = Instant::now();
        assert_eq!(run("sleep 600 & wait", Duration::from_millis(100), &|| false).end, RunEnd::TimedOut);
        assert_eq!(run("sleep 600", LIMIT, &|| true).end, RunEnd::Interrupted);
        assert!(begun.elapsed() < LIMIT);
        let missing = run_timed(&mut Command::new("/no/such/program"), LIMIT, &|| false);
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
