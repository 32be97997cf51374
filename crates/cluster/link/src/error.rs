//! Errors of a connection, and the record of them for people.
//!
//! Next: `greet`, `link` and `driver`, where these come about.

use crate::address::Address;
use std::io;
use std::path::PathBuf;
use trimtab_overlay::NodeId;
use trimtab_overlay::frame::BadFrame;
use trimtab_wire::{BadBytes, BadHello};

/// Why a connection, or a node, did not come about or ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The transport failed.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// The other end closed it.
    #[error("the other end closed the connection")]
    Closed,
    /// It took too long to prove who it is.
    #[error("the other end did not say who it is within {seconds} s: is it one of trimtab's?")]
    Slow {
        /// How long it had.
        seconds: u64,
    },
    /// It sent too much before it had proved who it is.
    #[error("the other end sent {byte_count} bytes before it said who it is: is it one of trimtab's?")]
    TooMuch {
        /// How much was read.
        byte_count: usize,
    },
    /// The proof of identity failed.
    #[error("TLS refused the other end: do both ends have the same job's secret, or certificates of the same site?")]
    Tls(#[from] rustls::Error),
    /// A certificate isn't that of the node it should be.
    #[error("the other end is not {expected}: its certificate has another name")]
    Name {
        /// The name it should have.
        expected: String,
    },
    /// Another user's process at the other end of a Unix socket.
    #[error("the other end runs as user {theirs}, this one as user {ours}: start both as the same user")]
    User {
        /// The other end's.
        theirs: u32,
        /// Ours.
        ours: u32,
    },
    /// No hello of ours.
    #[error(transparent)]
    Hello(#[from] BadHello),
    /// A node of another tree, or one that means somebody else.
    #[error("{theirs} of tree {tree:x} called for {wanted}: an address of an earlier run?")]
    Stranger {
        /// The node it says it is.
        theirs: NodeId,
        /// The tree it says it is of.
        tree: u64,
        /// The node it called, or was called as.
        wanted: NodeId,
    },
    /// The other end would not have us.
    #[error("{peer} refused this node: its own list of troubles says why")]
    Refused {
        /// The ancestor.
        peer: NodeId,
    },
    /// Bytes that are not of our protocol.
    #[error(transparent)]
    Bytes(#[from] BadBytes),
    /// A frame that isn't one.
    #[error(transparent)]
    Frame(#[from] BadFrame),
    /// A frame on the wrong lane.
    #[error("a result among commands, or the reverse: close the connection; do both ends run the same version?")]
    Lane,
    /// The other end doesn't take what it is sent.
    #[error("{count} frames wait for the other end, as many as may: it does not read")]
    Full {
        /// How many.
        count: usize,
    },
    /// There are as many connections as may be.
    #[error("{count} connections, as many as may be: give the tree a smaller fan-out")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// Its certificate was good when it connected, and is not any more.
    #[error("the other end's certificate was revoked")]
    Revoked,
    /// A newer connection of the same node took its place.
    #[error("a newer connection of the same node took its place")]
    Replaced,
    /// TCP without credentials.
    #[error("{address} needs credentials: give the job's secret or a site's certificates")]
    NoCredentials {
        /// For which address.
        address: Address,
    },
    /// Ancestors and their addresses don't match.
    #[error("{ancestors} ancestors and {contacts} addresses of them: give one for each, in the same order")]
    Contacts {
        /// How many ancestors.
        ancestors: usize,
        /// How many addresses.
        contacts: usize,
    },
    /// A file of certificates, keys or a secret.
    #[error("{}: {what}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The fault, and the remedy.
        what: String,
    },
    /// A certificate could not be made.
    #[error("a certificate could not be made")]
    Certificate(#[from] rcgen::Error),
    /// A secret in the wrong form.
    #[error("no secret: expected 64 hexadecimal digits and nothing else")]
    Secret,
}

impl LinkError {
    /// The reason in an error of a connection's stream, which may carry one of TLS's or of ours.
    pub(crate) fn of_stream(error: io::Error) -> LinkError {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return LinkError::Closed;
        }
        match error.downcast::<LinkError>().map_err(|error| error.downcast::<rustls::Error>()) {
            Ok(why) => why,
            Err(Ok(why)) => LinkError::Tls(why),
            Err(Err(error)) => LinkError::Io(error),
        }
    }
}

/// Something that went wrong with a connection, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The other end: a node, or its address or process where it did not say.
    pub with: String,
    /// The error, with its causes.
    pub what: String,
    /// How often in a row.
    pub count: u64,
}
