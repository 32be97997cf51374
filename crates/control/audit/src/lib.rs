//! The audit log: who changed which process, when and why; one line of JSON per change, written before it is made.
//!
//! A site that lets us patch running programs wants to know afterwards what was done. So each change has two lines: what
//! is about to be done, and what came of it. If the first can't be written, the change is not made. Lines are appended
//! in one write each, so that several trimtabs may share a file; they are never rewritten.
//!
//! Next: [`permit`] for who may change what.
#![forbid(unsafe_code)]

pub mod permit;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use trimtab_types::Pid;

/// Names the file in place of the default.
pub const VARIABLE: &str = "TRIMTAB_AUDIT";

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When, in seconds since 1970.
    pub unix_s: f64,
    /// On which host.
    pub host: String,
    /// The process that makes the change.
    pub by_pid: i32,
    /// The user on whose behalf.
    pub uid: u32,
    /// The same by name, where it is known.
    pub user: Option<String>,
    /// The command in the user's words: "attach", "probe", "undo".
    pub command: String,
    /// The process that is changed.
    pub pid: i32,
    /// Its start in clock ticks after boot; with the pid it names the process for ever.
    pub start_ticks: u64,
    /// Its user.
    pub process_uid: u32,
    /// Its program.
    pub program: String,
    /// The action.
    pub what: AuditedAction,
}

/// The action that a line records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum AuditedAction {
    /// The change is about to be made.
    Begin,
    /// A site's agent is about to start an agent of the process's own user for it; that one writes what it changes into
    /// that user's log.
    Delegated,
    /// It was taken back: the program's code is as before.
    Restored,
    /// It was refused, or failed and changed nothing, or left something behind.
    Failed {
        /// Why.
        reason: String,
    },
}

/// One line about what was asked of a site's controller. It is in the controller's own log; the nodes' logs have the lines of
/// each change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// When, in seconds since 1970.
    pub unix_s: f64,
    /// The controller's host.
    pub host: String,
    /// The controller's process.
    pub by_pid: i32,
    /// The asker, as their certificate says: "user 7", "scheduler 990".
    pub by: String,
    /// As which role they asked.
    pub role: AskedAs,
    /// The job that they named; none: it is about none.
    pub job: Option<String>,
    /// The job's owner; none: not known, or it is about no job.
    pub owner: Option<u32>,
    /// The number of the window at the controller; none: it got none.
    pub window: Option<u64>,
    /// The request, or what came of it.
    pub what: RequestedAction,
}

/// As which role somebody asks about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AskedAs {
    /// The job's owner, or a user about themselves.
    Owner,
    /// An administrator.
    Administrator,
    /// A scheduler that the owner accepted.
    Scheduler,
    /// Nobody who may.
    Nobody,
}

/// A request to a controller, or its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum RequestedAction {
    /// A window of the job is about to be begun.
    Asked,
    /// It is refused, and nothing is begun.
    Refused {
        /// Why.
        reason: String,
    },
    /// It is to end early, with what was recorded.
    Interrupted,
    /// It was measured.
    Measured {
        /// Where its report is kept: JOB/N.
        kept: String,
    },
    /// It was begun, and there is no report of it.
    Failed {
        /// Why.
        reason: String,
    },
    /// The asker lets a scheduler have their jobs measured.
    Accepted {
        /// The scheduler's user.
        scheduler: u32,
    },
    /// The asker lets it do so no more.
    Withdrawn {
        /// The scheduler's user.
        scheduler: u32,
    },
    /// The asker says how the site keeps their programs' arguments.
    Arguments {
        /// True: as they are; false: as hashes.
        kept: bool,
    },
}

/// Why a line could not be written; the change must not be made then.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No folder for it is known.
    #[error(
        "no place for the audit log: XDG_STATE_HOME and HOME are both unset or relative; name a file in {VARIABLE}"
    )]
    NoPlace,
    /// The file can't be written.
    #[error("the audit log {} can't be written, so nothing was changed; make room there, or name another file in {VARIABLE}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// The log of one user, or of a site's agent.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Opens the log for appending, and makes it readable by its owner alone if it is new.
    ///
    /// # Errors
    /// [`Error::Write`] if the file or its folder can't be made.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Write { path: path.to_path_buf(), source };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(|errno| failed(errno.into()))?;
        Ok(Log { path: path.to_path_buf(), file: File::from(file) })
    }

    /// The log at [`default_path`].
    ///
    /// # Errors
    /// As [`Log::open`], and [`Error::NoPlace`].
    pub fn of_user() -> Result<Self, Error> {
        Log::open(&default_path()?)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line.
    ///
    /// # Errors
    /// [`Error::Write`]; part of a line may stand in the file then.
    pub fn write(&mut self, entry: &Entry) -> Result<(), Error> {
        self.append(entry)
    }

    /// Appends a line about a request.
    ///
    /// # Errors
    /// [`Error::Write`]; part of a line may stand in the file then.
    pub fn note(&mut self, request: &Request) -> Result<(), Error> {
        self.append(request)
    }

    fn append(&mut self, line: &impl Serialize) -> Result<(), Error> {
        let failed = |source| Error::Write { path: self.path.clone(), source };
        let mut line = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(failed)
    }
}

/// `$TRIMTAB_AUDIT`, else `trimtab/audit.jsonl` in `$XDG_STATE_HOME` or `~/.local/state`.
///
/// # Errors
/// [`Error::NoPlace`] if neither folder is known.
pub fn default_path() -> Result<PathBuf, Error> {
    path_from(std::env::var_os(VARIABLE), std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))
}

fn path_from(named: Option<OsString>, state: Option<OsString>, home: Option<OsString>) -> Result<PathBuf, Error> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return Ok(PathBuf::from(named));
    }
    let absolute = |folder: Option<OsString>| folder.map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = absolute(state).or_else(|| absolute(home).map(|home| home.join(".local/state")));
    folder.map(|folder| folder.join("trimtab/audit.jsonl")).ok_or(Error::NoPlace)
}

/// A process that is about to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Which.
    pub pid: Pid,
    /// Its start in clock ticks after boot.
    pub start_ticks: u64,
    /// Its user.
    pub uid: u32,
    /// Its program.
    pub program: String,
}

/// The user and the command: the lines of one command have these in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Whoever asked.
    pub by: permit::Requester,
    /// In the words of the command.
    pub command: String,
}

/// The moment, this host and this process.
fn here() -> (f64, String, i32) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    (since.as_secs_f64(), host, rustix::process::getpid().as_raw_nonzero().get())
}

impl Request {
    /// A line about a request, as of now and here; it is about no job yet.
    pub fn now(by: String, role: AskedAs, what: RequestedAction) -> Self {
        let (unix_s, host, by_pid) = here();
        Request { unix_s, host, by_pid, by, role, job: None, owner: None, window: None, what }
    }
}

impl Entry {
    /// A line about a process, as of now and here.
    pub fn now(cause: &Cause, target: &Target, what: AuditedAction) -> Self {
        let (unix_s, host, by_pid) = here();
        Entry {
            unix_s,
            host,
            by_pid,
            uid: cause.by.uid,
            user: cause.by.name.clone(),
            command: cause.command.clone(),
            pid: target.pid.0,
            start_ticks: target.start_ticks,
            process_uid: target.uid,
            program: target.program.clone(),
            what,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn cause() -> Cause {
        Cause {
            by: permit::Requester { uid: 7, name: Some("ann".into()), is_administrator: false },
            command: "attach".into(),
        }
    }

    fn target() -> Target {
        Target { pid: Pid(41), start_ticks: 9, uid: 7, program: "/bin/app \"x\"\n".into() }
    }

    #[test]
    fn lines_are_appended_by_all_and_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/audit.jsonl");
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let path = path.clone();
                std::thread::spawn(move || {
                    let mut log = Log::open(&path).expect("it opens");
                    for _ in 0..50 {
                        let what = AuditedAction::Failed { reason: format!("writer {writer}") };
                        log.write(&Entry::now(&cause(), &target(), what)).expect("it writes");
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("it ended"));
        let text = std::fs::read_to_string(&path).expect("it is there");
        let entries: Vec<Entry> = text.lines().map(|line| serde_json::from_str(line).expect("a whole line")).collect();
        assert_eq!(entries.len(), 200);
        assert!(entries.iter().all(|entry| entry.pid == 41 && entry.program == target().program));
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody else reads it");
    }

    #[test]
    fn what_can_not_be_written_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/full", &link).expect("a link");
        let error = Log::open(&link).expect_err("a link may lead anywhere").to_string();
        assert!(error.contains("link can't be written, so nothing was changed"), "{error}");
        let mut full = Log::open(Path::new("/dev/full")).expect("it opens");
        assert!(full.write(&Entry::now(&cause(), &target(), AuditedAction::Begin)).is_err());
    }

    #[test]
    fn a_request_and_its_outcome_are_lines_of_one_shape() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let mut log = Log::open(&path).expect("it opens");
        let by = || "scheduler 990".to_owned();
        let refused = RequestedAction::Refused { reason: "not accepted".to_owned() };
        let about =
            |what, role| Request { job: Some("4711".to_owned()), owner: Some(7), ..Request::now(by(), role, what) };
        let all = [about(refused, AskedAs::Nobody), about(RequestedAction::Asked, AskedAs::Scheduler)];
        all.iter().for_each(|request| log.note(request).expect("it writes"));
        let text = std::fs::read_to_string(&path).expect("it is there");
        let read: Vec<Request> = text.lines().map(|line| serde_json::from_str(line).expect("a whole line")).collect();
        assert_eq!(read, all);
        let has = |words: &str| text.lines().next().is_some_and(|line| line.contains(words));
        assert!(has("\"role\":\"nobody\"") && has("{\"event\":\"refused\",\"reason\":\"not accepted\"}"), "{text}");
    }

    #[test]
    fn its_place_follows_the_environment() {
        let word = |text: &str| Some(OsString::from(text));
        for (name, named, state, home, expected) in [
            ("named", word("/x/a"), word("/s"), word("/h"), Some("/x/a")),
            ("state", None, word("/s"), word("/h"), Some("/s/trimtab/audit.jsonl")),
            ("home", word(""), word("relative"), word("/h"), Some("/h/.local/state/trimtab/audit.jsonl")),
            ("nowhere", None, None, None, None),
        ] {
            assert_eq!(path_from(named, state, home).ok().as_deref(), expected.map(Path::new), "{name}");
        }
    }
}
