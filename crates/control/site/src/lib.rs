//! A site's standing parts: who each of them is, what they say to each other, and how the controller is asked.
//!
//! A site has one [`Authority`], whose key stays on the host of its administrators. It issues an [`Identity`] to the
//! controller, to each node's agent, to users and to administrators: one file with key, certificate and the authority's
//! own certificate. The certificate's name is the [`Role`]; everything that anybody may do follows from it. Nobody is
//! heard without one: every port of the site's is mutual TLS 1.3.
//!
//! A certificate can be revoked: the authority signs a list ([`revoked`]), which controller and agents read again
//! whenever it changes; agents get the controller's, too.
//!
//! A [`Notice`] over the tree of agents grants nothing: it says that there is something to ask the controller
//! for, and agents ask it directly, by a connection on which both ends have proved their roles.
//!
//! Next: [`role`], then [`api`] and [`jobs`] for what can be asked, [`client`] and `questions` for asking.
#![forbid(unsafe_code)]

pub mod api;
pub mod authority;
pub mod client;
pub mod error;
pub mod identity;
pub mod jobs;
pub mod led;
pub mod measured;
mod questions;
mod refusal;
pub mod register;
pub mod revoked;
pub mod role;
pub mod weather;

pub use api::Notice;
pub use authority::Authority;
pub use client::Client;
pub use error::SiteError;
pub use identity::Identity;
pub use register::{Noted, Serial};
pub use revoked::{Revoked, Watch};
pub use role::Role;

use trimtab_overlay::Timing;

/// The times of a site's tree. Slower than a window's: it stands for months beside jobs, and a beat wakes a processor. A
/// node that is killed is noticed at once by its connections' end; only one that is cut off takes the whole silence.
pub const TIMING: Timing = Timing {
    beat_us: 250_000,
    silence_us_max: 850_000,
    answer_us_max: 300_000,
    retry_us: 250_000,
    lease_us: 5_000_000,
    gather_us: 5_000,
    return_us: 2_000_000,
    again_us: 500_000,
};

/// Where the controller's API is asked, if nothing else is said.
pub const API_PORT: u16 = 7557;
/// Where the controller and the agents await agents below them, if nothing else is said.
pub const TREE_PORT: u16 = 7558;
/// Names the controller, in place of an option: `HOST` or `HOST:PORT`.
pub const CONTROLLER_VARIABLE: &str = "TRIMTAB_CONTROLLER";
/// Where controller, agents and commands look for the list of revoked certificates, if nothing else is said.
pub const REVOKED_FILE: &str = "/etc/trimtab/revoked.pem";
/// Names that list for commands, in place of an option.
pub const REVOKED_VARIABLE: &str = "TRIMTAB_REVOKED";
/// Names the file of one's identity, in place of an option.
pub const IDENTITY_VARIABLE: &str = "TRIMTAB_IDENTITY";
