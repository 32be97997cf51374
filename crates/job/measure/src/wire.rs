//! Answers as they go over whatever carries bytes, for a crew whose nodes are other processes.
//!
//! A [`Command`] goes down to every node as it is. An answer comes up as an [`Envelope`], in which an error is its text:
//! what the job does about it does not depend on more.
//!
//! Next: `crew` for who implements the transport's side.

use crate::crew::Reply;
use crate::error::Error;
use crate::node::WindowNode;
use crate::request::{Answer, Command};
use serde::{Deserialize, Serialize};
use trimtab_os::ticks;

/// A node's answer with its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// Its clock when it had the answer.
    pub ticks: u64,
    /// Its answer.
    pub result: Result<Answer, Failed>,
}

/// An error of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The node's machine.
    pub host: String,
    /// The error and its causes.
    pub text: String,
    /// The kind of failure, where the job's side must tell it from others.
    pub kind: FailedKind,
}

/// Errors that are acted upon; all others are only told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailedKind {
    /// A rank is gone: the program has ended.
    Ended,
    /// The window is not open at the node.
    Stale {
        /// The window of the command.
        asked: u64,
        /// The newest window that was open at the node.
        newest: Option<u64>,
    },
    /// Any other.
    Other,
}

impl WindowNode<'_> {
    /// Does what a command says; the answer as it goes up, in which an error is an answer too.
    pub fn answer(&mut self, command: &Command) -> Envelope {
        let result = self.handle(command).map_err(|error| Failed::of(&error));
        Envelope { ticks: ticks(), result }
    }
}

impl Reply {
    /// The reply of a node that an envelope holds; `sent_ticks` and `received_ticks` by the clock of this process.
    pub fn of(node: u32, envelope: Envelope, sent_ticks: u64, received_ticks: u64) -> Self {
        let moments = [sent_ticks, envelope.ticks, received_ticks];
        Reply::new(node, moments, envelope.result.map_err(Failed::into_error))
    }
}

impl Failed {
    fn of(error: &Error) -> Self {
        let (host, text) = (crate::host_name(), trimtab_types::one_line(error));
        let kind = match error {
            Error::EndedEarly => FailedKind::Ended,
            Error::Stale { asked, newest } => FailedKind::Stale { asked: *asked, newest: *newest },
            _ => FailedKind::Other,
        };
        Failed { host, text, kind }
    }

    fn into_error(self) -> Error {
        match self.kind {
            FailedKind::Ended => Error::EndedEarly,
            FailedKind::Stale { asked, newest } => Error::Stale { asked, newest },
            FailedKind::Other => Error::There { host: self.host, text: self.text },
        }
    }
}
