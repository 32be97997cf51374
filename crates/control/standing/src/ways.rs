//! Which way a command goes to the nodes of a job: by a site's standing agents, or by what starts processes there anyway.
//!
//! Next: `trimtab_agent::start` for the latter; `site_window` for the former.

use crate::calls::SiteCalls;
use crate::site_way::SiteWay;
use crate::site_window::SiteWindow;
use trimtab_agent::Lead;
use trimtab_agent::start::{Start, Starter};
use trimtab_engine::{BoxError, Callable, Calls, Filed, Filing, Gathered, Hold, Nodes, Spread, Waker};
use trimtab_types::report::Report;

/// All ways to nodes.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    /// The site whose agents are asked for jobs of Slurm; else `srun` starts some.
    pub site: Option<SiteWay>,
}

impl Nodes for Ways {
    fn stand_by(&self) -> bool {
        self.site.is_some()
    }

    fn gather<'a>(
        &'a self,
        spread: &Spread,
        command: &str,
        hold: Option<Hold>,
        is_interrupted: &'a dyn Fn() -> bool,
    ) -> Result<Box<dyn Gathered + 'a>, BoxError> {
        let starter: Box<dyn Start> = match (&self.site, spread) {
            (Some(way), Spread::Slurm(_)) => Box::new(way.clone()),
            _ => Box::new(Starter::of(spread)?),
        };
        Ok(Box::new(Lead::to(spread, &*starter, (command, hold), is_interrupted)?))
    }

    fn hear_calls(&self, job: Callable, waker: Waker) -> Result<Box<dyn Calls>, BoxError> {
        let site = self.site.as_ref().ok_or(trimtab_engine::Error::NoSite)?;
        Ok(Box::new(SiteCalls::begin(site, job, waker)?))
    }
}

impl Filing for SiteWindow {
    fn file(&self, key: &str, report: &Report) -> Result<Filed, BoxError> {
        let trimtab_site::jobs::Filed { job, window } = SiteWindow::file(self, key, report)?;
        Ok(Filed { job, window })
    }
}
