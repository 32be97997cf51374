//! The reasons for which a function can't be called in a process, or a stack not be followed.
//!
//! They are errors of their own, below both [`super::outside_call`] and [`super::error`], which has them in its own.
//!
//! Next: `outside_call` and `unwind`, which find them.

use std::time::Duration;

/// How long the right moment for a call is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Why the functions around a place are not all known, as part of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotUnwound {
    /// There are more than are looked for.
    #[error("it is more than {calls} calls deep")]
    TooDeep {
        /// So many.
        calls: usize,
    },
    /// A caller's registers can't be had.
    #[error("what was saved on its stack at {stack:#x} is not known")]
    Lost {
        /// The stack pointer.
        stack: u64,
    },
    /// No unwind entry holds there.
    #[error("it is in code that no table describes ({address:#x})")]
    NoTable {
        /// Where.
        address: u64,
    },
    /// The functions around it were interrupted anywhere.
    #[error("it is in a signal handler")]
    InSignalHandler,
}

/// Why no thread of a process can call a function, in half a sentence.
#[derive(Debug, thiserror::Error)]
pub enum NotCallable {
    /// Its calls may fail, and nobody may see that.
    #[error("where it keeps errno is not known")]
    NoErrno,
    /// No file of it is known to be one.
    #[error("which of its files is the C library can't be told")]
    NoLibrary,
    /// The function is somebody else's.
    #[error("{name} is no function of a shared C library, and the program may be in the middle of what it uses")]
    NotOfLibrary {
        /// The function.
        name: String,
    },
    /// A function of the C library's may lead into the program.
    #[error("the program itself has {name}, which the function may call")]
    OwnFunction {
        /// A function of the program.
        name: String,
    },
    /// Code of the C library's is not what is known of it.
    #[error("the code of {file} is not what its file has: a tool or a library of the program has changed it")]
    CodeChanged {
        /// The file.
        file: String,
    },
    /// It has compiled what the C library does otherwise.
    #[error("{file} may be in the middle of writing to a stream in place")]
    WritesInPlace {
        /// The file.
        file: String,
    },
    /// It stayed so for as long as it is waited for.
    #[error("at no moment of {} s could it be interrupted safely: {why}", PATIENCE.as_secs())]
    NoMoment {
        /// Why not at the last one.
        why: Box<NotCallable>,
    },
    /// All threads wait.
    #[error("no thread of it computes")]
    NoThread,
    /// One thread stands in the way.
    #[error("thread {tid}: {why}")]
    OfThread {
        /// The thread.
        tid: i32,
        /// Why.
        why: Box<NotCallable>,
    },
    /// The thread may be on a stack that has no room.
    #[error("it is on no stack of its own")]
    NoStack,
    /// It is not known where the thread is.
    #[error(transparent)]
    NotUnwound(#[from] NotUnwound),
    /// The thread is where the call may not find it.
    #[error("it is in {function}")]
    Inside {
        /// The function.
        function: String,
    },
    /// The kernel may move the thread.
    #[error("it may be in a restartable sequence")]
    Restartable,
    /// The kernel does not say if it may.
    #[error("whether it is in a restartable sequence is not known: {0}")]
    RestartableUnknown(trimtab_os::Error),
    /// The kernel refused the call.
    #[error("{0}")]
    Refused(trimtab_os::Error),
}
