//! The errors between two processes, each with the fact and the next step.
//!
//! Next: `stop` and `inject` raise most of these.

use std::io;
use trimtab_types::Pid;

/// A failed operation on another process.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process or thread has ended.
    #[error("process {pid} has ended")]
    Gone {
        /// The process.
        pid: Pid,
    },
    /// The kernel refuses to let us trace it.
    #[error("not allowed to trace process {pid}: {hint}")]
    NotAllowed {
        /// The process.
        pid: Pid,
        /// Which setting forbids it and what to do.
        hint: String,
    },
    /// Somebody else traces it.
    #[error("process {pid} is traced by process {tracer} ({name}); end that tracer and try again")]
    OtherTracer {
        /// The process.
        pid: Pid,
        /// Its tracer.
        tracer: Pid,
        /// The tracer's command name.
        name: String,
    },
    /// Threads did not stop within the time limit.
    #[error(
        "thread {tid} of process {pid} did not stop within {limit_ms} ms (state {state}); nothing was changed, try again"
    )]
    WillNotStop {
        /// The process.
        pid: Pid,
        /// The thread.
        tid: i32,
        /// How long we waited.
        limit_ms: u64,
        /// Its state letter in /proc.
        state: char,
    },
    /// The process is stopped by job control.
    #[error("process {pid} is stopped (job control); continue it with `kill -CONT {pid}` and try again")]
    JobControlStopped {
        /// The process.
        pid: Pid,
    },
    /// A system call filter would kill the process for a call of ours.
    #[error("process {pid} runs under a seccomp filter: {reason}")]
    Filtered {
        /// The process.
        pid: Pid,
        /// Which call it does not let pass, or why that can't be known, and the next step.
        reason: String,
    },
    /// A shadow stack forbids our way in.
    #[error("process {pid} runs with a shadow stack, which forbids our way into it; it is left alone")]
    ShadowStack {
        /// The process.
        pid: Pid,
    },
    /// A 32-bit process.
    #[error("process {pid} runs 32-bit code; only 64-bit x86 programs can be measured")]
    Not64Bit {
        /// The process.
        pid: Pid,
    },
    /// A thread pointer that does not point at itself.
    #[error(
        "thread {tid} keeps no thread pointer at fs:0 (a runtime of its own, such as Go's); it can't be measured safely"
    )]
    NoThreadPointer {
        /// The thread.
        tid: i32,
    },
    /// No instruction sequence through which a system call could be made.
    #[error(
        "process {pid} maps no code with a system call and a signal return in it, by which it would restore itself (a \
         static program that handles no signal has none); link it dynamically, or have it handle a signal"
    )]
    NoGadgets {
        /// The process.
        pid: Pid,
    },
    /// The thread's stack has no room for a saved state, or it stands on another one.
    #[error("thread {tid} has no {needed} bytes left on a stack of its own to save its state; try again")]
    NoStack {
        /// The thread.
        tid: i32,
        /// Bytes needed.
        needed: u64,
    },
    /// The thread is at a place, or has a state, from which it can't make calls for us.
    #[error("thread {tid} can't make calls for us now; try again")]
    NotNow {
        /// The thread.
        tid: i32,
    },
    /// A system call made inside the target failed.
    #[error("{call} failed in process {pid}")]
    RemoteCall {
        /// The process.
        pid: Pid,
        /// Name of the system call.
        call: &'static str,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The target stopped for a reason that can't be handled in the middle of an injected call.
    #[error("process {pid} stopped unexpectedly (wait status {status:#x}) during an injected call; it was let go")]
    UnexpectedStop {
        /// The process.
        pid: Pid,
        /// The wait status.
        status: i32,
    },
    /// Remote memory could not be read or written.
    #[error("can't {verb} {length} bytes at {address:#x} of process {pid}")]
    Memory {
        /// "read" or "write".
        verb: &'static str,
        /// The process.
        pid: Pid,
        /// Where.
        address: u64,
        /// How many.
        length: usize,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A file under /proc could not be read.
    #[error("can't read {path}")]
    Proc {
        /// The file.
        path: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// Another system call of ours failed.
    #[error("{call} failed for process {pid}")]
    Call {
        /// Name of the call.
        call: &'static str,
        /// The process.
        pid: Pid,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// True if trying again a little later may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::WillNotStop { .. } | Error::NoStack { .. } | Error::NotNow { .. } | Error::UnexpectedStop { .. } => {
                true
            }
            Error::Gone { .. }
            | Error::NotAllowed { .. }
            | Error::OtherTracer { .. }
            | Error::JobControlStopped { .. }
            | Error::Filtered { .. }
            | Error::ShadowStack { .. }
            | Error::Not64Bit { .. }
            | Error::NoThreadPointer { .. }
            | Error::NoGadgets { .. }
            | Error::RemoteCall { .. }
            | Error::Memory { .. }
            | Error::Proc { .. }
            | Error::Call { .. } => false,
        }
    }
}
