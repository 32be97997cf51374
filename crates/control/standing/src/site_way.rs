//! The way to a site: its controller, and who asks it. Its standing agents start those of a window.
//!
//! Next: `ways`, which goes it; `calls`, which listens there.

use crate::site_window::SiteWindow;
use std::path::{Path, PathBuf};
use trimtab_agent::start::{Start, Started};
use trimtab_agent::{Error, Ticket};
use trimtab_link::JobSecret;

/// A site whose standing agents may be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteWay {
    /// The controller, as `HOST` or `HOST:PORT`.
    pub controller: String,
    /// The file of the identity with which it is asked.
    pub identity: PathBuf,
}

impl Start for SiteWay {
    /// The agents are the sites' own programs: their path here says nothing.
    fn start(&self, _: &Path, ticket: &Ticket, secret: &JobSecret) -> Result<Started, Error> {
        let begun = SiteWindow::begin(&self.controller, &self.identity, ticket, secret);
        begun.map(|window| Started::by_others(Box::new(window))).map_err(|error| Error::Others(error.into()))
    }
}
