//! The events of a process.
//!
//! Next: `connector` and `scan`, which tell it.

use trimtab_types::Pid;

/// Something that happened to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// It was forked.
    Fork {
        /// The process that forked.
        parent: Pid,
        /// The new one.
        child: Pid,
    },
    /// It executes another program, or was found to. After [`ProcessEvent::Lost`] one that was told before may be told
    /// again.
    Exec {
        /// The process.
        pid: Pid,
        /// When, on the monotonic clock; `None` if it was found by a scan.
        time_ns: Option<u64>,
    },
    /// Its first thread has ended.
    Exit {
        /// The process.
        pid: Pid,
    },
    /// The kernel dropped events because they were not fetched in time. Events that can still be seen follow.
    Lost,
}
