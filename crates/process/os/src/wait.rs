//! Waiting for the end of processes without asking again and again, and what ended them.
//!
//! Next: `trimtab-script`, which waits so while probes are in.

use crate::proc::start_time_ticks;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;
use trimtab_types::Pid;

/// A process that the kernel tells the end of.
#[derive(Debug)]
pub struct ProcessEnd {
    descriptor: File,
    pid: Pid,
    start_ticks: Option<u64>,
}

/// What ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// It exited by itself with this status.
    Exited(i32),
    /// This signal ended it, as a program ends that went wrong inside.
    Fault(i32),
    /// Another signal ended it: somebody wanted that.
    Signal(i32),
    /// Its parent has taken note of its end, and the kernel keeps nothing of it (before Linux 6.15).
    Unknown,
}

/// Signals by which a program ends that went wrong inside.
const FAULTS: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGTRAP, libc::SIGFPE, libc::SIGABRT, libc::SIGSYS];

impl EndCause {
    fn of_status(status: i32) -> Self {
        match libc::WTERMSIG(status) {
            0 => EndCause::Exited(libc::WEXITSTATUS(status)),
            signal if FAULTS.contains(&signal) => EndCause::Fault(signal),
            signal => EndCause::Signal(signal),
        }
    }
}

/// `ioctl` of a process's descriptor that tells facts of it, and the fact of its end.
const GET_INFO: libc::c_ulong = 0xc040_ff0b;
const INFO_EXIT: u64 = 1 << 3;

/// The kernel's `struct pidfd_info`, as long as it was when ends came into it.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    control_group: u64,
    ids: [u32; 11],
    exit_status: i32,
}

impl ProcessEnd {
    /// Of a process that runs now.
    ///
    /// # Errors
    /// What the kernel says: there is no such process, or the kernel is older than 5.3.
    pub fn of(pid: Pid) -> io::Result<Self> {
        // SAFETY: takes plain values and returns a new descriptor.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, 0) };
        if descriptor == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else's.
        let descriptor = unsafe { File::from_raw_fd(descriptor as i32) };
        Ok(ProcessEnd { descriptor, pid, start_ticks: start_time_ticks(pid) })
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        let mut watched = self.watched();
        // SAFETY: the list outlives the call.
        unsafe { libc::poll(&mut watched, 1, 0) == 1 }
    }

    /// What ended it; `None`: it still runs.
    pub fn cause(&self) -> Option<EndCause> {
        if !self.is_over() {
            return None;
        }
        // Until its parent has asked, it is there without anything but its status; from then on the kernel tells.
        // It may ask in between, so it is looked at in both ways more than once.
        let status = (0..3).find_map(|_| self.status_of_zombie().or_else(|| self.status_of_reaped()));
        Some(status.map_or(EndCause::Unknown, EndCause::of_status))
    }

    fn status_of_zombie(&self) -> Option<i32> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        (self.start_ticks.is_some() && start_time_ticks(self.pid) == self.start_ticks).then(|| zombie_status(&text))?
    }

    fn status_of_reaped(&self) -> Option<i32> {
        let mut info = PidfdInfo { mask: INFO_EXIT, ..PidfdInfo::default() };
        // SAFETY: the structure is as long as the call's number says, and outlives it.
        let result = unsafe { libc::ioctl(self.descriptor.as_raw_fd(), GET_INFO, &raw mut info) };
        (result == 0 && info.mask & INFO_EXIT != 0).then_some(info.exit_status)
    }

    fn watched(&self) -> libc::pollfd {
        libc::pollfd { fd: self.descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 }
    }
}

/// The status in the line of a process that has ended and that its parent has not asked for.
fn zombie_status(stat: &str) -> Option<i32> {
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
    // The name is the second of 52 fields, and the state the third.
    (*fields.first()? == "Z").then(|| fields.get(49)?.parse().ok())?
}

/// Waits until one of the processes has ended, a signal has come to this thread, or the time is over.
pub fn wait_for_end<'a>(ends: impl Iterator<Item = &'a ProcessEnd>, limit: Duration) {
    let mut watched: Vec<libc::pollfd> = ends.map(ProcessEnd::watched).collect();
    let limit = libc::timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    // SAFETY: the list and the time outlive the call. Why it returned is for the caller to see, who looks at everything.
    unsafe { libc::ppoll(watched.as_mut_ptr(), watched.len() as u64, &limit, std::ptr::null()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_zombie_is_read() {
        let line = |state: &str, status: &str| format!("7 (a ) b) {state} {} {status}\n", vec!["1"; 48].join(" "));
        let rows = [
            ("exited", line("Z", "256"), Some(256)),
            ("segmentation", line("Z", "139"), Some(139)),
            ("still_runs", line("R", "0"), None),
            ("no_number", line("Z", "x"), None),
            ("cut", "7 (a) Z 1 2".to_string(), None),
            ("nothing", String::new(), None),
        ];
        for (name, text, wanted) in rows {
            assert_eq!(zombie_status(&text), wanted, "{name}");
        }
        assert_eq!(EndCause::of_status(139), EndCause::Fault(libc::SIGSEGV));
        assert_eq!(EndCause::of_status(0x86), EndCause::Fault(libc::SIGABRT));
        assert_eq!(EndCause::of_status(256), EndCause::Exited(1));
    }
}
