//! What can go wrong while one process is prepared, patched or restored.
//!
//! Next: `lib` raises them; `trimtab-measure` decides what to tell the user.

use trimtab_types::Pid;

/// A failed step of a session.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system said no.
    #[error(transparent)]
    Os(#[from] trimtab_os::Error),
    /// A file could not be read.
    #[error("can't read {path}")]
    File {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A mapped file has been deleted or replaced since the program started.
    #[error("{path} was deleted or replaced after the program started; restart the program to measure it")]
    Replaced {
        /// The file.
        path: String,
    },
    /// A file is no ELF file we understand.
    #[error("can't read the symbols of {path}")]
    Symbols {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: trimtab_symbols::Error,
    },
    /// Text in memory differs from the file.
    #[error("the code of {function} in memory differs from its file: another tool has patched it; end that tool first")]
    ForeignPatch {
        /// The function.
        function: String,
    },
    /// No room near a module.
    #[error("process {pid} has no free address range within reach of {module}; it can't be measured")]
    NoRoom {
        /// The process.
        pid: Pid,
        /// The module.
        module: String,
    },
    /// A system call filter would kill the target.
    #[error(
        "process {pid} runs under a seccomp filter (mode {mode}); mapping memory into it could kill it, so it is left alone"
    )]
    Seccomp {
        /// The process.
        pid: Pid,
        /// Mode as /proc shows it.
        mode: String,
    },
    /// Shadow stacks forbid our way in.
    #[error("process {pid} runs with a shadow stack; it is left alone")]
    ShadowStack {
        /// The process.
        pid: Pid,
    },
    /// It runs in its parent's memory for a moment.
    #[error("process {pid} still shares the memory of process {parent}, which started it; try again")]
    SharesMemory {
        /// The process.
        pid: Pid,
        /// Its parent.
        parent: Pid,
    },
    /// Nothing to patch.
    #[error("nothing to measure in process {pid}: {reason}")]
    NothingToDo {
        /// The process.
        pid: Pid,
        /// Why.
        reason: String,
    },
    /// A thread stood at a place that could not be patched.
    #[error("a thread of process {pid} kept standing inside {function} where it is to be patched; try again")]
    ThreadInTheWay {
        /// The process.
        pid: Pid,
        /// The function.
        function: String,
    },
    /// A thread was asked for system calls and did not run.
    #[error("no thread of process {pid} ran within {limit_s} s to {what}; is it stopped? Continue it and try again")]
    Idle {
        /// The process.
        pid: Pid,
        /// What it was to do.
        what: &'static str,
        /// How long we waited, seconds.
        limit_s: u64,
    },
    /// Left-over patches of another trimtab that can't be understood.
    #[error("process {pid} holds memory of another trimtab that can't be undone: {reason}")]
    Descriptor {
        /// The process.
        pid: Pid,
        /// Why.
        reason: String,
    },
    /// Another trimtab is measuring.
    #[error("process {pid} is being measured by trimtab process {monitor}; wait for it to end")]
    InUse {
        /// The process.
        pid: Pid,
        /// The other trimtab.
        monitor: Pid,
    },
}
