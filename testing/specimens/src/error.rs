//! The errors when specimens are built, run and watched.
//!
//! A test prints these, so each names the thing and the next step. Next: `build.rs`, `launch.rs`.

use std::path::PathBuf;
use std::time::Duration;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a specimen could not be built, run or watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No specimen has this name.
    #[error("no specimen is called {name:?}; there are {known}")]
    UnknownProgram {
        /// The name asked for.
        name: String,
        /// All names, with commas.
        known: String,
    },
    /// An MPI specimen was asked for without a library, or another one with.
    #[error("specimen {name} {}; pass {}", if *.needs_mpi { "is an MPI program" } else { "is not an MPI program" },
            if *.needs_mpi { "Some(Mpi::...)" } else { "None" })]
    WrongMpi {
        /// The specimen.
        name: String,
        /// True if it is an MPI program.
        needs_mpi: bool,
    },
    /// The variant makes no sense for this specimen.
    #[error("specimen {name} cannot be built as {variant}: {reason}")]
    WrongVariant {
        /// The specimen.
        name: String,
        /// The variant's folder name.
        variant: String,
        /// Why not.
        reason: &'static str,
    },
    /// A compiler or launcher is not installed.
    #[error("{tool} is not installed; run: apt-get install {package}")]
    MissingTool {
        /// The command.
        tool: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A compiler refused.
    #[error("{command}\nfailed:\n{output}")]
    Compile {
        /// The command line.
        command: String,
        /// The compiler's output.
        output: String,
    },
    /// A file or process could not be read, written or started.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The operation that was tried, e.g. "read".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The ground truth's file is not what its reader expects.
    #[error("{} is not a ground truth file of schema {expected}; rebuild the wrapper", path.display())]
    BadTruth {
        /// The file.
        path: PathBuf,
        /// The schema understood.
        expected: &'static str,
        /// The parser's reason, if it did not even parse.
        #[source]
        source: Option<serde_json::Error>,
    },
    /// The ground truth has no row for an iteration, or it has rows of other iterations only.
    #[error("rank {rank} has no ground truth of iteration {iteration}; it has {kept} rows (see GT_START, GT_COUNT)")]
    MissingIteration {
        /// World rank.
        rank: u32,
        /// The iteration asked for.
        iteration: u32,
        /// Rows there are.
        kept: usize,
    },
    /// Something did not happen in time.
    #[error("{what} did not happen within {limit:?}; so far the program said:\n{output}")]
    TimeOut {
        /// The event that was waited for.
        what: String,
        /// How long.
        limit: Duration,
        /// Standard output and error so far.
        output: String,
    },
    /// Process `pid` is not there or not as expected.
    #[error("process {pid}: {reason}")]
    Process {
        /// The process.
        pid: i32,
        /// The fault, in words.
        reason: String,
    },
}

impl Error {
    /// For `map_err`: what was tried on which path.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { action, path, source }
    }
}
