//! The way to a site: its controller, and who asks it.
//!
//! Next: `ways`, which goes it; `calls`, which listens there.

use std::path::PathBuf;

/// A site whose standing agents may be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteWay {
    /// The controller, as `HOST` or `HOST:PORT`.
    pub controller: String,
    /// The file of the identity with which it is asked.
    pub identity: PathBuf,
}
