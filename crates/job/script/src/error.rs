//! The errors of scripts.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trimtab_measure::host_name;
use trimtab_session::Passing;
use trimtab_snippet::Refused;
use trimtab_snippet::error::Code;
use trimtab_types::{Pid, one_line};

/// An error of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The node's machine.
    pub host: String,
    /// The error, with the script's lines if it is about them.
    pub text: String,
    /// None of the node's ranks has what the script names; those of other nodes may.
    pub lacking: Option<Lacking>,
}

/// Ranks that have no place for a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lacking {
    /// Which.
    pub ranks: Vec<u32>,
    /// Why, in one line.
    pub reason: String,
}

/// Longest text of a script that is shown with its problems.
const REFUSED_BYTES_MAX: usize = 64 << 10;

impl Failed {
    /// An error here, in these ranks, about a script of this text.
    pub fn of(error: Error, text: &str, ranks: Vec<u32>) -> Failed {
        let lacking = error.is_of_places().then(|| Lacking { ranks, reason: error.reason() });
        let text = match error {
            Error::Script(refused) if text.len() <= REFUSED_BYTES_MAX => {
                format!("the script was refused\n{}", refused.render(text))
            }
            other => one_line(&other),
        };
        Failed { host: host_name(), text, lacking }
    }
}

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
    /// It is for none of the job's ranks.
    #[error("no rank of the job is in `{ranks}`; it has ranks 0 to {last}")]
    NoRank {
        /// The ranks that it is for.
        ranks: String,
        /// The job's last one.
        last: u32,
    },
    /// A node could not do what it was asked.
    #[error("on {}: {}", .0.host, .0.text)]
    There(Failed),
    /// Several could not.
    #[error("{}", reasons.join("; "))]
    Several {
        /// Why, one for each different reason.
        reasons: Vec<String>,
    },
    /// No node answers any more.
    #[error("{said}")]
    Lost {
        /// Which, and what is missing.
        said: String,
    },
    /// The values of several nodes can't be made one.
    #[error("{said}")]
    Unmerged {
        /// Why.
        said: String,
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
            Error::There(failed) => failed.lacking.is_some(),
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

    /// True if a process's loader is still at work, so that it may go well in a moment.
    pub fn is_loading(&self) -> bool {
        matches!(self, Error::Process { source, .. } if source.is_loading())
    }

    /// One error of all, each reason once, with the first of the machines that have it; `None`: there are none.
    pub(crate) fn of_all(mut errors: Vec<Error>) -> Option<Error> {
        if errors.len() < 2 {
            return errors.pop();
        }
        let mut reasons: BTreeMap<String, String> = BTreeMap::new();
        for error in errors {
            let shown = error.to_string();
            let reason = if let Error::There(failed) = error { failed.text } else { shown.clone() };
            reasons.entry(reason).or_insert(shown);
        }
        Some(Error::Several { reasons: reasons.into_values().collect() })
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
