//! Waiting for the end of processes without asking again and again, and what ended them.
//!
//! Since Linux 6.15 the kernel tells the status of a process that has ended, whoever has asked before. On an older one the
//! status is gone as soon as the parent has asked, so there a thread of ours sleeps until the end and reads it at once,
//! from a file that is open already ([`EndWatcher`]). It usually comes before the parent; if not, the cause is unknown here.
//!
//! Next: `trimtab-script`, which waits so while probes are in.

use crate::precedence::take_precedence;
use crate::proc::start_time_ticks;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use trimtab_types::Pid;

/// A process that the kernel tells the end of.
#[derive(Debug)]
pub struct ProcessEnd {
    descriptor: File,
    pid: Pid,
    start_ticks: Option<u64>,
    /// On kernels that forget.
    witness: Option<Arc<EndWatcher>>,
}

/// The way in which a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// It exited by itself with this status.
    Exited(i32),
    /// This signal ended it, as a program ends that went wrong inside.
    Fault(i32),
    /// Another signal ended it: somebody wanted that.
    Signal(i32),
    /// Its parent has taken note of its end before we could, and the kernel keeps nothing of it (before Linux 6.15).
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
    /// The kernel's errors: there is no such process, or the kernel is older than 5.3.
    pub fn of(pid: Pid) -> io::Result<Self> {
        // SAFETY: takes plain values and returns a new descriptor.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, 0) };
        if descriptor == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else's.
        let descriptor = unsafe { File::from_raw_fd(descriptor as i32) };
        let witness = if kernel_tells() { None } else { EndWatcher::of(pid, &descriptor) };
        Ok(ProcessEnd { descriptor, pid, start_ticks: start_time_ticks(pid), witness })
    }

    /// Has the end looked for every millisecond from now on, on kernels that forget it: for moments in which it is likely.
    pub fn look_closely(&self) {
        if let Some(witness) = &self.witness {
            witness.is_close.store(true, Relaxed);
        }
    }

    /// True if it has ended.
    pub fn is_over(&self) -> bool {
        let mut watched = self.watched();
        // SAFETY: the list outlives the call.
        unsafe { libc::poll(&mut watched, 1, 0) == 1 }
    }

    /// The way in which it ended; `None`: it still runs.
    pub fn cause(&self) -> Option<EndCause> {
        if !self.is_over() {
            return None;
        }
        // Until its parent has asked, it is there without anything but its status; from then on the kernel tells.
        // It may ask in between, so it is looked at in both ways more than once.
        let ask = || self.status_of_zombie().or_else(|| self.status_of_reaped());
        let status = (0..3).find_map(|_| ask()).or_else(|| self.witness.as_ref()?.status());
        Some(status.map_or(EndCause::Unknown, EndCause::of_status))
    }

    fn status_of_zombie(&self) -> Option<i32> {
        let text = std::fs::read(format!("/proc/{}/stat", self.pid)).ok()?;
        (self.start_ticks.is_some() && start_time_ticks(self.pid) == self.start_ticks).then(|| zombie_status(&text))?
    }

    fn status_of_reaped(&self) -> Option<i32> {
        let info = exit_info(&self.descriptor)?;
        (info.mask & INFO_EXIT != 0).then_some(info.exit_status)
    }

    fn watched(&self) -> libc::pollfd {
        libc::pollfd { fd: self.descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 }
    }
}

impl Drop for ProcessEnd {
    fn drop(&mut self) {
        if let Some(witness) = &self.witness {
            witness.is_left.store(true, Relaxed);
        }
    }
}

/// The kernel's word on a process's end; `None` if it knows no such question.
fn exit_info(descriptor: &File) -> Option<PidfdInfo> {
    let mut info = PidfdInfo { mask: INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the structure is as long as the call's number says, and outlives it.
    let result = unsafe { libc::ioctl(descriptor.as_raw_fd(), GET_INFO, &raw mut info) };
    (result == 0).then_some(info)
}

/// True if the kernel keeps the status of processes that have ended: it knows the question, and is not one of the two that
/// knew it without this answer.
fn kernel_tells() -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    let ask = || {
        // SAFETY: takes plain values and returns a new descriptor.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0) };
        // SAFETY: the descriptor is new, and nobody else's.
        let descriptor = (descriptor != -1).then(|| unsafe { File::from_raw_fd(descriptor as i32) });
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        is_since_6_15(&release) && descriptor.is_some_and(|descriptor| exit_info(&descriptor).is_some())
    };
    *TELLS.get_or_init(ask)
}

fn is_since_6_15(release: &str) -> bool {
    let mut numbers = release.split(|byte: char| !byte.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(15))
}

/// A thread that notes the status of a process in the moment of its end.
#[derive(Debug)]
struct EndWatcher {
    status: OnceLock<i32>,
    /// It looks every millisecond.
    is_close: AtomicBool,
    /// Nobody asks any more.
    is_left: AtomicBool,
    /// It has come back from the end, with a status or without.
    has_looked: AtomicBool,
}

/// The witness looks this often whether anybody still wants to know, and so often where the end is near.
const WITNESS_MS: i32 = 200;
const WITNESS_CLOSE_MS: i32 = 1;
/// How long its look at the end may take, on a machine without a free processor.
const WITNESS_LOOKS: Duration = Duration::from_secs(1);

impl EndWatcher {
    /// `None` if the process has ended, or no thread can be had.
    fn of(pid: Pid, descriptor: &File) -> Option<Arc<EndWatcher>> {
        let stat = File::open(format!("/proc/{pid}/stat")).ok()?;
        let descriptor = descriptor.try_clone().ok()?;
        let (status, is_close, is_left, has_looked) = Default::default();
        let witness = Arc::new(EndWatcher { status, is_close, is_left, has_looked });
        let of_thread = witness.clone();
        let thread = std::thread::Builder::new().name("end of process".into());
        thread.spawn(move || of_thread.wait(&stat, &descriptor)).ok()?;
        Some(witness)
    }

    fn wait(&self, stat: &File, descriptor: &File) {
        // To come before the parent; it sleeps but for that moment. Where it may not, it comes as it comes.
        take_precedence();
        let mut is_over = false;
        while !is_over && self.status.get().is_none() && !self.is_left.load(Relaxed) {
            let limit = if self.is_close.load(Relaxed) { WITNESS_CLOSE_MS } else { WITNESS_MS };
            let mut watched = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: the list outlives the call.
            is_over = unsafe { libc::poll(&raw mut watched, 1, limit) == 1 };
            let mut line = [0; 1024];
            let length = stat.read_at(&mut line, 0).unwrap_or(0);
            if let Some(status) = zombie_status(&line[..length]).or_else(|| exiting_status(&line[..length])) {
                let _ = self.status.set(status);
            }
        }
        self.has_looked.store(true, Relaxed);
    }

    /// After the end.
    fn status(&self) -> Option<i32> {
        let since = std::time::Instant::now();
        while !self.has_looked.load(Relaxed) && since.elapsed() < WITNESS_LOOKS {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.status.get().copied()
    }
}

/// Fields of a process's line in `/proc/PID/stat` behind its name, the state first.
fn fields_behind_name(stat: &[u8]) -> Option<Vec<&str>> {
    let behind = stat.iter().rposition(|byte| *byte == b')')? + 1;
    Some(std::str::from_utf8(&stat[behind..]).ok()?.split_whitespace().collect())
}

/// Places of fields among those: flags, threads, bytes of address space, status.
const FLAGS: usize = 6;
const THREADS: usize = 17;
const ADDRESS_BYTES: usize = 20;
const STATUS: usize = 49;
/// The flag of a thread that is ending.
const EXITING: u64 = 4;

/// The status in the line of a process that has ended and that its parent has not asked for.
fn zombie_status(stat: &[u8]) -> Option<i32> {
    let fields = fields_behind_name(stat)?;
    (*fields.first()? == "Z").then(|| fields.get(STATUS)?.parse().ok())?
}

/// The same of one whose last thread is ending. Its status is set before it loses its memory.
fn exiting_status(stat: &[u8]) -> Option<i32> {
    let fields = fields_behind_name(stat)?;
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    let is_ending = number(FLAGS)? & EXITING != 0 && number(THREADS)? <= 1 && number(ADDRESS_BYTES)? == 0;
    is_ending.then(|| fields.get(STATUS)?.parse().ok())?
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
    use std::process::{Command, Stdio};

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
            assert_eq!(zombie_status(text.as_bytes()), wanted, "{name}");
        }
        assert_eq!(EndCause::of_status(139), EndCause::Fault(libc::SIGSEGV));
        assert_eq!(EndCause::of_status(0x86), EndCause::Fault(libc::SIGABRT));
        assert_eq!(EndCause::of_status(256), EndCause::Exited(1));
    }

    #[test]
    fn the_status_of_a_process_that_is_ending_is_read() {
        let line = |flags: u64, threads: u64, memory: u64, status: i32| {
            let mut fields = vec!["0".to_string(); 50];
            fields[0] = "R".into();
            (fields[FLAGS], fields[THREADS], fields[ADDRESS_BYTES]) =
                (flags.to_string(), threads.to_string(), memory.to_string());
            fields[STATUS] = status.to_string();
            format!("7 (a) {}", fields.join(" "))
        };
        for (name, text, wanted) in [
            ("ends_well", line(0x40_0004, 1, 0, 0), Some(0)),
            ("ends_by_a_fault", line(4, 1, 0, 139), Some(139)),
            ("still_has_memory", line(4, 1, 4096, 0), None),
            ("other_threads_run", line(4, 2, 0, 0), None),
            ("runs", line(0x40_0000, 1, 4096, 0), None),
        ] {
            assert_eq!(exiting_status(text.as_bytes()), wanted, "{name}");
        }
    }

    #[test]
    fn the_witness_knows_how_a_process_ended_before_its_parent_asks() {
        for (name, script, wanted) in [
            ("exits", "read line; exit 3", EndCause::Exited(3)),
            ("faults", "read line; kill -SEGV $$", EndCause::Fault(libc::SIGSEGV)),
        ] {
            let mut child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().expect("a shell");
            let end = ProcessEnd::of(Pid(child.id() as i32)).expect("it runs");
            let witness = EndWatcher::of(end.pid, &end.descriptor).expect("a thread");
            drop(child.stdin.take());
            wait_for_end([&end].into_iter(), Duration::from_secs(60));
            assert_eq!(witness.status().map(EndCause::of_status), Some(wanted), "{name}");
            child.wait().expect("a child");
        }
    }

    #[test]
    fn kernels_that_keep_the_status_are_known_by_number() {
        for (release, wanted) in [
            ("6.15.0-rc1", true),
            ("6.18.44-fc", true),
            ("7.0", true),
            ("6.14.9", false),
            ("5.10.0-33-amd64", false),
            ("", false),
        ] {
            assert_eq!(is_since_6_15(release), wanted, "{release}");
        }
    }
}
