//! The errors of watching for programs.

use std::path::PathBuf;

/// Why it can't be watched, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing has such a name.
    #[error("no program can be called {pattern:?}; give a file name or a path, with * and ?")]
    NoName {
        /// The pattern.
        pattern: String,
    },
    /// Not 64 hexadecimal digits.
    #[error("{text:?} is no SHA-256 checksum; give the 64 digits that `sha256sum PROGRAM` prints")]
    NoChecksum {
        /// The text.
        text: String,
    },
    /// A program could not be read.
    #[error("cannot read {} to compare its checksum", path.display())]
    Read {
        /// The program.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The kernel ended the stream of events.
    #[error("the kernel ended its process events; start again")]
    Events {
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread; see `ulimit -u`")]
    Thread {
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
}
