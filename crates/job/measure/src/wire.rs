//! Commands and answers as bytes, for a crew whose nodes are other processes.
//!
//! A transport needs two functions: [`command_bytes`] goes down to every node, which gives what comes to
//! [`Node::answer`](crate::Node::answer) and sends its bytes up; [`Reply::from_bytes`](crate::Reply::from_bytes) reads
//! those. An error becomes its text on the way: what the job does about it does not depend on more.
//!
//! Next: `crew` for who implements the transport's side.

use crate::crew::Reply;
use crate::error::Error;
use crate::node::Node;
use crate::request::{Answer, Command};
use serde::{Deserialize, Serialize};
use trimtab_os::ticks;
use trimtab_window::Exchange;

/// A node's answer with its name and time.
#[derive(Debug, Serialize, Deserialize)]
pub struct Envelope {
    /// The node.
    pub node: u32,
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

/// A command as it goes to every node.
pub fn command_bytes(command: &Command) -> Result<Vec<u8>, Error> {
    postcard::to_allocvec(command).map_err(|source| Error::Wire { what: "a command", source })
}

/// An answer as it comes from a node.
pub fn envelope_from(bytes: &[u8]) -> Result<Envelope, Error> {
    postcard::from_bytes(bytes).map_err(|source| Error::Wire { what: "an answer", source })
}

/// An answer as it goes up.
pub fn envelope_bytes(envelope: &Envelope) -> Result<Vec<u8>, Error> {
    postcard::to_allocvec(envelope).map_err(|source| Error::Wire { what: "an answer", source })
}

impl Node<'_> {
    /// Does what a command says; the answer as bytes, in which an error is an answer too.
    ///
    /// # Errors
    /// Only if the answer has no bytes, which is a fault of this program.
    pub fn answer(&mut self, command: &[u8]) -> Result<Vec<u8>, Error> {
        let command = postcard::from_bytes::<Command>(command);
        let result = command
            .map_err(|source| Error::Wire { what: "a command", source })
            .and_then(|command| self.handle(&command))
            .map_err(|error| Failed::of(&error));
        envelope_bytes(&Envelope { node: self.id(), ticks: ticks(), result })
    }
}

impl Reply {
    /// The reply that a node's bytes are; `sent_ticks` and `received_ticks` by the clock of this process.
    ///
    /// # Errors
    /// [`Error::Wire`] for bytes that no node sends.
    pub fn from_bytes(bytes: &[u8], sent_ticks: u64, received_ticks: u64) -> Result<Self, Error> {
        Ok(Reply::of(envelope_from(bytes)?, sent_ticks, received_ticks))
    }

    /// The reply that an envelope holds.
    pub fn of(envelope: Envelope, sent_ticks: u64, received_ticks: u64) -> Self {
        let exchange = Exchange { sent_ticks, node_ticks: envelope.ticks, received_ticks };
        Reply { node: envelope.node, exchange, result: envelope.result.map_err(Failed::into_error) }
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
