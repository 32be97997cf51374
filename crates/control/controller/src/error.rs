//! Why the controller can't run.
//!
//! Next: `serve` in the crate's root.

use std::net::SocketAddr;
use trimtab_link::LinkError;
use trimtab_site::SiteError;

/// Why the controller can't be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its identity.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The log of what is asked of it.
    #[error(transparent)]
    Audit(#[from] trimtab_audit::Error),
    /// Its store.
    #[error(transparent)]
    Store(#[from] trimtab_store::Error),
    /// The tree.
    #[error("the tree of agents could not begin at {address}")]
    Tree {
        /// Where.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: LinkError,
    },
    /// Its place in the tree has no port.
    #[error("the tree of agents has no port; give one with --listen-tree")]
    NoPort,
    /// A port.
    #[error("can't listen at {address}; is another controller running there?")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The system.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
