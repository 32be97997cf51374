//! The errors of preparing, patching and restoring one process.
//!
//! Next: `lib` raises them; `trimtab-measure` decides what to tell the user.

use crate::not_callable::NotCallable;
use crate::obstacle::Obstacle;
use trimtab_types::Pid;
use trimtab_types::procfs::State;
use trimtab_x86::NotCopyable;

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
    /// The file of a mapping could not be found.
    #[error("can't read {path}: {reason}")]
    NoFile {
        /// The file, as it was called when it was mapped.
        path: String,
        /// Why.
        reason: String,
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
    #[error("the code of {function} in memory differs from its file: {cause}")]
    ForeignPatch {
        /// The function.
        function: String,
        /// Names who has changed it, as far as that can be seen, and the next step.
        cause: String,
    },
    /// No room near a module.
    #[error("process {pid} has no free address range within reach of {module}; it can't be measured")]
    NoRoom {
        /// The process.
        pid: Pid,
        /// The module.
        module: String,
    },
    /// The kernel maps nothing more for it.
    #[error("process {pid} may not map {bytes} bytes more: {limit}")]
    NoMemory {
        /// The process.
        pid: Pid,
        /// How many.
        bytes: u64,
        /// Which limit, and the next step.
        limit: String,
    },
    /// It runs in its parent's memory for a moment.
    #[error("process {pid} still shares the memory of process {parent}, which started it; try again")]
    SharesMemory {
        /// The process.
        pid: Pid,
        /// Its parent.
        parent: Pid,
    },
    /// An emulator runs the program.
    #[error(
        "an emulator, {emulator}, runs process {pid}: the program's own code is data to it and never runs as it is; start \
         the program without it to have it measured"
    )]
    Emulated {
        /// The process.
        pid: Pid,
        /// The emulator.
        emulator: String,
    },
    /// Nothing to patch.
    #[error(
        "nothing to measure in process {pid}: none of the functions asked for can be patched (see `trimtab functions`)"
    )]
    NothingToDo {
        /// The process.
        pid: Pid,
    },
    /// The memory that code was to be mapped at was taken each time by another thread.
    #[error("process {pid} mapped memory of its own wherever trimtab's was to lie, several times; try again")]
    PlacesTaken {
        /// The process.
        pid: Pid,
    },
    /// More arenas than the descriptor has room for.
    #[error("the code to be patched in process {pid} lies in {places} far apart places; choose fewer modules")]
    FarApart {
        /// The process.
        pid: Pid,
        /// How many.
        places: usize,
    },
    /// The plan could not be made.
    #[error("no code could be made for process {pid}: {reason}")]
    Plan {
        /// The process.
        pid: Pid,
        /// Why.
        reason: trimtab_plan::Error,
    },
    /// Shared memory's descriptor was gone before it was opened, each time.
    #[error(
        "our shared memory's descriptor was not in process {pid}, {attempts} times: it has no descriptors left (`prlimit \
         --pid {pid}`), or closes those that it does not know; try again"
    )]
    DescriptorLost {
        /// The process.
        pid: Pid,
        /// How often.
        attempts: usize,
    },
    /// Work on a process panicked.
    #[error("trimtab failed inside while it worked on process {pid}; please report this")]
    Internal {
        /// The process.
        pid: Pid,
    },
    /// No thread can be held where it leaves a function that every process of a job calls.
    #[error("process {pid} can't be held: {why}")]
    NotHeld {
        /// The process.
        pid: Pid,
        /// Why.
        why: NotHeld,
    },
    /// The compiler has made something of the in-target routines that can't run in another program.
    #[error(
        "this trimtab was built with options that its in-target routines do not stand; build it with `cargo xtask \
         release`, without link-time optimisation, coverage or profiles"
    )]
    Build {
        /// The routines' fault.
        #[source]
        source: NotCopyable,
    },
    /// A library was unloaded while its patches were made.
    #[error("process {pid} has unmapped the code of {function} meanwhile; nothing was changed, try again")]
    CodeGone {
        /// The process.
        pid: Pid,
        /// A function that was there before.
        function: String,
    },
    /// It began to handle faults by itself while its patches were made, which move what may fault.
    #[error("process {pid} has set a fault handler of its own meanwhile ({handler}); nothing was changed, try again")]
    NewFaultHandler {
        /// The process.
        pid: Pid,
        /// The handler, in words.
        handler: String,
    },
    /// A thread stood at a place that could not be patched.
    #[error("a thread of process {pid} kept standing inside {function} where it is to be patched; try again")]
    ThreadInTheWay {
        /// The process.
        pid: Pid,
        /// The function.
        function: String,
    },
    /// A function can't be called from outside, or could not at any moment.
    #[error(
        "process {pid} was not asked to call a function: {reason}; call it where the program comes by and holds nothing \
         (`process int done; entry FUNCTION {{ if (done == 0) {{ done = 1; call ... }} }}`)"
    )]
    NoCall {
        /// The process.
        pid: Pid,
        /// Why.
        reason: NotCallable,
    },
    /// A thread was asked for system calls and did not run.
    #[error(
        "no thread of process {pid} could {what} within {limit_s} s; is it stopped, or has it no descriptors left (`prlimit --pid {pid}`)?"
    )]
    Idle {
        /// The process.
        pid: Pid,
        /// The purpose that it was to serve.
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
    /// Another trimtab has been inserting or removing for long.
    #[error("another trimtab has been changing process {pid} for {seconds} s; try again when it is done")]
    Claimed {
        /// The process.
        pid: Pid,
        /// How long we waited.
        seconds: u64,
    },
    /// Another trimtab may be changing the process: that can't be told.
    #[error("can't lock /proc/{pid}/mem, which keeps other trimtabs off; is the process still there, and yours?")]
    Claim {
        /// The process.
        pid: Pid,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Calls of a trimtab that was killed a moment ago are still to be made: what was found in the process is not all.
    #[error("a thread of process {pid} is still making the calls that a killed trimtab asked for; try again")]
    CallsPending {
        /// The process.
        pid: Pid,
    },
    /// Another trimtab is measuring.
    #[error("process {pid} is being measured by trimtab process {monitor}; {}", until_it_ends(*monitor))]
    InUse {
        /// The process.
        pid: Pid,
        /// The other trimtab.
        monitor: Pid,
    },
}

/// Why a process can't be held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotHeld {
    /// More code calls the functions for the program than a hold has ranges for.
    #[error("{ranges} libraries and functions call it for the program")]
    ManyCallers {
        /// How many.
        ranges: usize,
    },
    /// None of its returns can be patched.
    #[error("{function}: {reason}")]
    Refused {
        /// The function.
        function: String,
        /// Why.
        reason: Obstacle,
    },
    /// The process has no such function.
    #[error("it has no function {names}")]
    NoFunction {
        /// The names that were looked for.
        names: String,
    },
    /// It went on while the hold was made.
    #[error("it came out of MPI_Init while what holds it was put in")]
    TooLate,
    /// Somebody else has patched the same bytes.
    #[error("somebody else has patched {address:#x}")]
    PatchedByOthers {
        /// Where.
        address: u64,
    },
}

/// How another trimtab comes to its end: one that is stopped does not by itself.
fn until_it_ends(monitor: Pid) -> String {
    match trimtab_os::stat_of(monitor, monitor.0).map(|stat| stat.state) {
        Some(State::Stopped | State::TracingStop) => format!(
            "that one is stopped: let it go on (`kill -CONT {monitor}`) or end it (`kill -9 {monitor}`), then try again"
        ),
        _ => "wait for it to end".to_owned(),
    }
}

impl Error {
    /// True if it may go well if all is read anew: the program went on while it was looked at, and nothing was changed.
    /// [`crate::try_again`] does so.
    pub fn is_passing(&self) -> bool {
        matches!(self, Error::CodeGone { .. } | Error::CallsPending { .. } | Error::NewFaultHandler { .. })
    }

    /// True if the process's loader seems to be still at work: it is not yet in a state in which it can be patched.
    pub fn is_loading(&self) -> bool {
        use trimtab_os::Error as Os;
        match self {
            Error::Os(os) => os.is_retryable() || matches!(os, Os::NoGadgets { .. } | Os::NoThreadPointer { .. }),
            _ => false,
        }
    }
}
