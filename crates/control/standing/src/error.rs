//! The errors of a site's standing agents, and of those who ask for them.
//!
//! Next: `site_window` and `standing`, which raise these.

use trimtab_link::LinkError;
use trimtab_site::SiteError;

/// Why a site's agents can't be asked, or one can't stand.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The site's controller, or an identity for it.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The site's controller can't be asked; Slurm can start agents, too.
    #[error("the site's agents can't be asked; {BY_SLURM}")]
    SiteAway {
        /// Why.
        #[source]
        source: Box<SiteError>,
    },
    /// The tree could not begin.
    #[error("the tree of agents could not begin")]
    Link(#[from] LinkError),
    /// The controller that has started this lead can't do what it asks.
    #[error("{0}")]
    ControllerSays(String),
    /// An identity of another kind than a node's.
    #[error("{what} can't be understood; do all nodes run the same trimtab?")]
    Malformed {
        /// The kind of answer that came.
        what: &'static str,
    },
    /// Something of the system's failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Another way to the same window than by a site's standing agents.
pub(crate) const BY_SLURM: &str = "without --controller and TRIMTAB_CONTROLLER `srun` starts agents inside of the job, and the \
                                   same is measured";
