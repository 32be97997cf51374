//! The errors of waiting, each with the next step.

use std::io;
use std::path::PathBuf;

/// Why it can't be waited, or nobody can be called.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder for sockets can't be used.
    #[error("can't make {path} for calls of `trimtab trigger`; set XDG_RUNTIME_DIR to a folder of your own")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody else could put sockets into the folder.
    #[error(
        "{path} belongs to user {uid} with mode {mode:o}, so others could call in your name; remove it, or set \
         XDG_RUNTIME_DIR to a folder of your own"
    )]
    Unsafe {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Its permissions.
        mode: u32,
    },
    /// The socket can't be made.
    #[error("can't listen at {path} for calls of `trimtab trigger`")]
    Socket {
        /// Its file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Waiting failed.
    #[error("waiting for an event failed")]
    Wait {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// An event that has to be the only one.
    #[error("{condition} is counted in the program itself, with the window's probes already in; wait for it alone")]
    Alone {
        /// The event.
        condition: String,
    },
    /// Nobody tells how the job's machines are.
    #[error("how the job's machines are can't be seen")]
    Machines {
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Nobody tells which jobs there are.
    #[error("which other jobs run can't be asked")]
    Jobs {
        /// Why.
        #[source]
        source: Box<trimtab_track::slurm::SlurmError>,
    },
}
