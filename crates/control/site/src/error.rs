//! The errors between a site's parts.
//!
//! Next: `client`, which meets most of these.

use crate::API_PORT;
use crate::role::{NoRole, Role};
use std::path::PathBuf;
use trimtab_link::LinkError;

/// Why something of a site's can't be had.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// A certificate names no role, or several.
    #[error(transparent)]
    NoRole(#[from] NoRole),
    /// A file of certificates or keys.
    #[error("{}: {what}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The fault, and what to do.
        what: String,
    },
    /// There is no identity.
    #[error(
        "no identity at {}: ask the site's administrators for one (`trimtab site issue`), or name it with --identity",
        path.display()
    )]
    NoIdentity {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The authority exists already.
    #[error("{} holds an authority already; remove it by hand if its certificates are not needed any more", path.display())]
    Exists {
        /// Its folder.
        path: PathBuf,
    },
    /// Nobody knows what is to be revoked.
    #[error(
        "nothing valid was issued as {whom}: give a role (user:1001), a serial number or an identity's file; issued.txt \
         in the authority's folder lists what was issued"
    )]
    NothingIssued {
        /// The text that was given.
        whom: String,
    },
    /// No job has such a name.
    #[error("{name:?} is no job's name at a site; `trimtab list --controller HOST` shows them")]
    NoName {
        /// The text that was given.
        name: String,
    },
    /// A certificate could not be made.
    #[error("a certificate could not be made")]
    Certificate(#[from] rcgen::Error),
    /// TLS could not be set up.
    #[error("the identity can't be used for TLS")]
    Tls(#[from] rustls::Error),
    /// The link between agents.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The controller's name has no address.
    #[error("the controller {name} has no address here: is it in /etc/hosts or the name service?")]
    NoAddress {
        /// The name that was given.
        name: String,
    },
    /// The controller can't be reached.
    #[error("the controller at {address} can't be reached; does `trimtab controller` run there?")]
    Unreachable {
        /// Where.
        address: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The controller doesn't take our certificate.
    #[error("the controller at {address} does not take this identity: {why}")]
    NotTaken {
        /// Where.
        address: String,
        /// Why, with what to do.
        why: String,
    },
    /// The other end is no controller of this site.
    #[error("this identity does not take the controller at {address}: {why}")]
    NotTrusted {
        /// Where.
        address: String,
        /// Why, with what to do.
        why: String,
    },
    /// Something else is at that address.
    #[error(
        "what answers at {address} speaks no TLS: it is no controller of trimtab's; is the port right? By itself it is {API_PORT}"
    )]
    NoTls {
        /// Where.
        address: String,
    },
    /// The controller did not answer in time.
    #[error("the controller at {address} did not answer within {seconds} s")]
    Slow {
        /// Where.
        address: String,
        /// How long it had.
        seconds: u64,
    },
    /// Something that speaks no HTTP, or breaks off.
    #[error("the controller at {address} broke off: {what}")]
    Broken {
        /// Where.
        address: String,
        /// The event, in words.
        what: String,
    },
    /// More than a question may hold.
    #[error("{byte_count} bytes are more than the controller takes at once ({byte_count_max})")]
    TooLong {
        /// How many.
        byte_count: usize,
        /// How many may be.
        byte_count_max: usize,
    },
    /// The controller refuses, and says why.
    #[error("the controller refuses: {what}")]
    Refused {
        /// HTTP's number.
        status: u16,
        /// Why.
        what: String,
    },
    /// An identity of the wrong kind.
    #[error("{} is the identity of {role}, but {wanted} is needed here", path.display())]
    WrongRole {
        /// Which file.
        path: PathBuf,
        /// The role that it is of.
        role: Role,
        /// The role that is needed.
        wanted: &'static str,
    },
    /// The system.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
