//! A site's standing agents, one per node all the time, and everything else of a site's that agents of a job are handed: the
//! ways by which they are started, the log that they write, and calls.
//!
//! A standing agent measures nothing: it starts users' agents, each as the user whose job it is, in place of the batch
//! system. The crate below, `trimtab-agent`, knows none of this: who starts agents and where their lines go are its traits
//! [`trimtab_agent::start::Start`] and [`trimtab_agent::ChangeLog`], and are handed in here.
//!
//! Next: [`standing`] and `orders` for what stands on nodes; [`Ways`] for who asks; [`HostLog`] for the log.
#![forbid(unsafe_code)]

mod audit;
mod calls;
mod error;
mod led_way;
mod orders;
mod site_way;
mod site_window;
pub mod standing;
mod ways;
mod weather;

pub use audit::HostLog;
pub use error::Error;
pub use led_way::LedWay;
pub use orders::user_name;
pub use site_way::SiteWay;
pub use trimtab_agent::start::{own_path, runs_on_all};
pub use trimtab_audit::VARIABLE as AUDIT_VARIABLE;
pub use trimtab_site::led::LeadOrder;
pub use trimtab_site::measured::WindowAsked;
pub use ways::Ways;

use std::io::Read;

/// Runs an agent of a job, as [`trimtab_agent::serve`] does; what it changes stands in the log of this host.
///
/// # Errors
/// As there.
pub fn serve(ticket: &mut impl Read, place: Option<usize>) -> Result<(), trimtab_agent::Error> {
    trimtab_agent::serve(ticket, place, &HostLog)
}

/// Stands beside an agent, as [`trimtab_agent::guard`] does; what it takes out stands in the log of this host.
///
/// # Errors
/// As there.
pub fn guard(agent: &mut impl Read) -> Result<(), trimtab_agent::Error> {
    trimtab_agent::guard(agent, &HostLog)
}
