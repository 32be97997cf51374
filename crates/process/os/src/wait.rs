//! Waiting for the end of processes without asking again and again.
//!
//! Next: `trimtab-script`, which waits so while probes are in.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;
use trimtab_types::Pid;

/// A process that the kernel tells the end of.
#[derive(Debug)]
pub struct ProcessEnd(File);

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
        Ok(ProcessEnd(unsafe { File::from_raw_fd(descriptor as i32) }))
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        let mut watched = self.watched();
        // SAFETY: the list outlives the call.
        unsafe { libc::poll(&mut watched, 1, 0) == 1 }
    }

    fn watched(&self) -> libc::pollfd {
        libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 }
    }
}

/// Waits until one of the processes has ended, a signal has come to this thread, or the time is over.
pub fn wait_for_end<'a>(ends: impl Iterator<Item = &'a ProcessEnd>, limit: Duration) {
    let mut watched: Vec<libc::pollfd> = ends.map(ProcessEnd::watched).collect();
    let limit = libc::timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    // SAFETY: the list and the time outlive the call. Why it returned is for the caller to see, who looks at everything.
    unsafe { libc::ppoll(watched.as_mut_ptr(), watched.len() as u64, &limit, std::ptr::null()) };
}
