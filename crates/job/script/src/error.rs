//! The errors of scripts.

use trimtab_session::Passing;
use trimtab_snippet::Refused;
use trimtab_snippet::error::Code;
use trimtab_types::Pid;

/// Why a script could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The script itself is wrong; every problem with its place.
    #[error("the script was refused")]
    Script(Refused),
    /// A process could not be opened, changed or restored.
    #[error("{}", said(*pid))]
    Process {
        /// Which.
        pid: Pid,
        /// Why.
        #[source]
        source: trimtab_session::Error,
    },
    /// A function is called where no thread of the program is at hand.
    #[error(
        "`{point}` bodies are run by trimtab, outside of the program, and can't call its functions; call it in `once`, or where the \
         program comes by and nothing is held: `process int done; entry FUNCTION {{ if (done == 0) {{ done = 1; call ... }} }}`"
    )]
    CallsOutside {
        /// Which kind.
        point: &'static str,
    },
    /// A file is looked at, and what a body calls can't be known from it.
    #[error("what `call` keeps depends on the C library of a running process; explain this script for a process")]
    CallsOfFile,
    /// Nobody knows what a name means: the program's own file could not be read.
    #[error("{}: {reason}", said(*pid))]
    ProgramUnread {
        /// Which.
        pid: Pid,
        /// Its file, why, and what to do.
        reason: String,
    },
    /// A library that is not loaded yet can't do what a script asks of it.
    #[error("{library} is not loaded yet, and {reason}; start the script once it is")]
    Awaited {
        /// The library.
        library: String,
        /// The reason why it can't be done.
        reason: &'static str,
    },
    /// No place of the script can be probed.
    #[error("{}: no place of the script can be probed: {reasons}", said(*pid))]
    NoPlace {
        /// Which.
        pid: Pid,
        /// Function and reason of the first few.
        reasons: String,
    },
}

/// The process in words, given its number; files have none.
fn said(pid: Pid) -> String {
    if pid.0 == 0 { "the file".to_owned() } else { format!("process {pid}") }
}

impl Error {
    /// True if the process only lacks what the script names: another process of the job may have it.
    pub fn is_of_places(&self) -> bool {
        match self {
            Error::Script(refused) => refused.problems.iter().all(|problem| problem.code == Code::NoSuchPoint),
            Error::NoPlace { .. } | Error::ProgramUnread { .. } => true,
            _ => false,
        }
    }

    /// The reason, in one line.
    pub fn reason(&self) -> String {
        match self {
            Error::Script(refused) => {
                let messages: Vec<&str> = refused.problems.iter().map(|problem| &*problem.message).collect();
                messages.join("; ")
            }
            other => other.to_string(),
        }
    }

    pub(crate) fn of(pid: Pid) -> impl Fn(trimtab_session::Error) -> Error {
        move |source| Error::Process { pid, source }
    }
}

/// A process that unloads a library just then is read anew.
impl Passing for Error {
    fn is_passing(&self) -> bool {
        matches!(self, Error::Process { source, .. } if source.is_passing())
    }
}
