//! Everything that can go wrong with a store, as facts and a next step.
//!
//! SQLite's codes are sorted into these variants in one place, [`Error::of_sqlite`], which knows the file's path. The
//! cause stays in `source()` and is not repeated in the message.
//!
//! Next: `store.rs`, whose every function returns these.

use crate::obstacle;
use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};

/// How long to wait for another trimtab that is writing: far longer than one window takes on a slow disk.
pub(crate) const BUSY_TIMEOUT_MS: u64 = 10_000;

/// Why the store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither `XDG_DATA_HOME` nor `HOME` names an absolute directory.
    #[error(
        "no data directory: XDG_DATA_HOME and HOME are both unset or relative; give the store's file with --store PATH"
    )]
    NoDataDirectory,
    /// None of the variables that name a service's directory does.
    #[error(
        "no state directory: STATE_DIRECTORY, XDG_STATE_HOME and HOME are all unset or relative; give the store's file \
         with --store PATH"
    )]
    NoStateDirectory,
    /// The directory of the store does not exist.
    #[error("the store's directory {} does not exist; create it with `mkdir -p {}`, or give another file with --store PATH", .directory.display(), .directory.display())]
    NoDirectory {
        /// The missing directory.
        directory: PathBuf,
    },
    /// The default directory could not be made.
    #[error("cannot create the store's directory {}; make it yourself, or give a file with --store PATH", .directory.display())]
    CreateDirectory {
        /// The directory.
        directory: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// There is no store to read.
    #[error("there is no store at {}; measure a job first with `trimtab attach PID`, or give another file with --store PATH", .path.display())]
    Missing {
        /// Where the store was expected.
        path: PathBuf,
    },
    /// The file cannot be opened or read.
    #[error("cannot open the store {}: {why}; or use --store PATH", .path.display())]
    Unreadable {
        /// The store's file.
        path: PathBuf,
        /// The obstacle, with the next step.
        why: String,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The file is not an SQLite database.
    #[error("{} is not a trimtab store (no SQLite database); move it away, or use --store PATH", .path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The file is an SQLite database of another program.
    #[error("{} is an SQLite database, but not a trimtab store; it was left as it is: use --store PATH", .path.display())]
    ForeignDatabase {
        /// The file.
        path: PathBuf,
    },
    /// The file is a damaged database.
    #[error("the store {} is damaged; save what can be read with `sqlite3 {} .recover`, then move the file away: trimtab makes a new one", .path.display(), .path.display())]
    Corrupt {
        /// The store's file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The store was written by a newer trimtab.
    #[error("the store {} has schema version {found}, this trimtab knows up to {known}; use the newer trimtab, or another file with --store PATH", .path.display())]
    Newer {
        /// The store's file.
        path: PathBuf,
        /// Version in the file.
        found: i64,
        /// Newest version known here.
        known: i64,
    },
    /// The store is of an older version and was opened for reading only.
    #[error("the store {} has schema version {found}, this trimtab reads version {known}; let its owner run `trimtab list --store {}` once to bring it up to date", .path.display(), .path.display())]
    Older {
        /// The store's file.
        path: PathBuf,
        /// Version in the file.
        found: i64,
        /// Version needed.
        known: i64,
    },
    /// A step to a newer schema failed; the store is as it was before.
    #[error("cannot bring the store {} from schema version {from} to {to}; it was left as it was: keep a copy and report this", .path.display())]
    Migration {
        /// The store's file.
        path: PathBuf,
        /// Version before.
        from: i64,
        /// Version wanted.
        to: i64,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The file or its directory cannot be written.
    #[error("the store {} cannot be written (read-only file, directory or file system); use --store PATH with a file you may write", .path.display())]
    ReadOnly {
        /// The store's file.
        path: PathBuf,
        /// SQLite's error, if it had to be asked.
        source: Option<rusqlite::Error>,
    },
    /// No space for what was being written; everything older is intact.
    #[error("no space to write to the store {}: the disk, your quota or the store's size limit is full; earlier windows are intact: free space, delete old jobs, or use --store PATH elsewhere", .path.display())]
    DiskFull {
        /// The store's file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// Another process kept the store locked for too long.
    #[error("the store {} is in use by another process and did not become free within {waited_ms} ms; try again, or see who has it open with `fuser {}`", .path.display(), .path.display())]
    Busy {
        /// The store's file.
        path: PathBuf,
        /// How long was waited, milliseconds.
        waited_ms: u64,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The system could not read or write the file.
    #[error("input/output error on the store {}; look at `dmesg` and the file system, or use --store PATH on another one", .path.display())]
    InputOutput {
        /// The store's file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// A measurement that is none.
    #[error("{series}: a value or its time is no finite number; nothing was stored")]
    NoNumber {
        /// The series.
        series: String,
    },
    /// A measurement from before the newest one.
    #[error(
        "{series}: this value is from {back_s} s before the newest one in the store; nothing was stored: has the clock been set back? Then wait until it has caught up, or use another file with --store PATH"
    )]
    ClockBack {
        /// The series.
        series: String,
        /// How far back, seconds.
        back_s: u64,
    },
    /// No job has this id, number or beginning of an id.
    #[error("no job called {text:?} in the store {}; `trimtab list` shows the jobs", .path.display())]
    NoSuchJob {
        /// The store's file.
        path: PathBuf,
        /// The text that was given.
        text: String,
    },
    /// Several jobs begin like this.
    #[error("{text:?} could be {}; type one of these", .candidates.join(", "))]
    Ambiguous {
        /// The text that was given.
        text: String,
        /// Ids of the jobs that fit, newest first, the first few.
        candidates: Vec<String>,
    },
    /// The text behind the slash is not a number.
    #[error("{text:?}: after the slash comes a window's number, as in particle-3/0; `trimtab list` shows them")]
    BadWindow {
        /// The text that was given.
        text: String,
    },
    /// The job has no window of this number.
    #[error("job {job} has no window {window}; it has {}", windows_in_words(.present))]
    NoSuchWindow {
        /// The job.
        job: String,
        /// The window asked for.
        window: u32,
        /// The windows it has, oldest first.
        present: Vec<u32>,
    },
    /// No window of this run was ever stored.
    #[error("the history knows no run {key:?}: a window of it comes first")]
    NoRun {
        /// The run's key.
        key: String,
    },
    /// A report that could not be read back must not be written.
    #[error(
        "the report of window {window} of job {job} cannot be stored (a number in it is not finite?); it was not written: report this, and keep the measurement with --json FILE"
    )]
    UnstorableReport {
        /// The job.
        job: String,
        /// The window.
        window: u32,
        /// Where reading it back failed.
        source: serde_json::Error,
    },
    /// A stored report or description cannot be read.
    #[error("{what} in the store {} cannot be read; delete the job with this entry, or use the trimtab that wrote it", .path.display())]
    UnreadableEntry {
        /// The store's file.
        path: PathBuf,
        /// Which entry, e.g. "window 3 of job particle-3".
        what: String,
        /// Where reading failed.
        source: serde_json::Error,
    },
    /// SQLite failed in a way that has no variant of its own.
    #[error("the store {} failed while {doing}; run `sqlite3 {} 'PRAGMA integrity_check'`, and report this", .path.display(), .path.display())]
    Database {
        /// The store's file.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// SQLite's error.
        source: rusqlite::Error,
    },
}

impl Error {
    /// True if the same call may succeed a moment later without anybody doing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Busy { .. } => true,
            Error::NoDataDirectory
            | Error::NoStateDirectory
            | Error::NoDirectory { .. }
            | Error::CreateDirectory { .. }
            | Error::Missing { .. }
            | Error::Unreadable { .. }
            | Error::NotADatabase { .. }
            | Error::ForeignDatabase { .. }
            | Error::Corrupt { .. }
            | Error::Newer { .. }
            | Error::Older { .. }
            | Error::Migration { .. }
            | Error::ReadOnly { .. }
            | Error::DiskFull { .. }
            | Error::InputOutput { .. }
            | Error::NoSuchJob { .. }
            | Error::Ambiguous { .. }
            | Error::BadWindow { .. }
            | Error::NoSuchWindow { .. }
            | Error::NoRun { .. }
            | Error::NoNumber { .. }
            | Error::ClockBack { .. }
            | Error::UnstorableReport { .. }
            | Error::UnreadableEntry { .. }
            | Error::Database { .. } => false,
        }
    }

    /// Sorts what SQLite said about the store at `path` into a variant.
    pub(crate) fn of_sqlite(path: &Path, doing: &'static str, source: rusqlite::Error) -> Error {
        let path = path.to_path_buf();
        // The index of the log beside the store can't grow: SQLite has no code of its own for a full disk there.
        let is_full_index =
            source.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE);
        match source.sqlite_error_code() {
            _ if is_full_index => Error::DiskFull { path, source },
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Error::Unreadable { why: obstacle::of(&path), path, source }
            }
            Some(ErrorCode::NotADatabase) => Error::NotADatabase { path, source },
            Some(ErrorCode::DatabaseCorrupt) => Error::Corrupt { path, source },
            Some(ErrorCode::ReadOnly) => Error::ReadOnly { path, source: Some(source) },
            Some(ErrorCode::DiskFull) => Error::DiskFull { path, source },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Error::Busy { path, waited_ms: BUSY_TIMEOUT_MS, source }
            }
            Some(ErrorCode::SystemIoFailure) => Error::InputOutput { path, source },
            _ => Error::Database { path, doing, source },
        }
    }
}

fn windows_in_words(present: &[u32]) -> String {
    match present {
        [] => "none yet: measure one with `trimtab measure JOB`".to_string(),
        [only] => format!("only window {only}"),
        [first, .., last] => format!("{} windows from {first} to {last}", present.len()),
    }
}
