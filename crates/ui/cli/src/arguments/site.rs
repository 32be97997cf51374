//! The words that can be typed about a site's standing parts.
//!
//! Next: `site` and `tree` of this program, which do it.

use super::range::within;
use clap::{Args, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use trimtab_controller::{API_PORT, CONTROLLER_VARIABLE, IDENTITY_VARIABLE, REVOKED_FILE, Role, TREE_PORT};
use trimtab_standing::SiteWay;

/// Where a site's controller is, and who asks it.
#[derive(Clone, Debug, Default, Args)]
pub struct SiteOptions {
    /// The site's controller; its standing agents start what else Slurm would [default: $TRIMTAB_CONTROLLER]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub controller: Option<String>,
    /// Your identity at the site [default: $TRIMTAB_IDENTITY, or ~/.config/trimtab/identity.pem]
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
}

impl SiteOptions {
    /// The controller that is to be asked, if any.
    pub fn controller(&self) -> Option<String> {
        self.controller.clone().or_else(|| named(CONTROLLER_VARIABLE))
    }

    /// The way by the site's agents, if there is a controller that may be asked.
    pub fn way(&self) -> Option<SiteWay> {
        Some(SiteWay { controller: self.controller()?, identity: self.identity() })
    }

    /// The file of a person's identity.
    pub fn identity(&self) -> PathBuf {
        let absolute = |name: &str| named(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = || absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
        let given = self.identity.clone().or_else(|| named(IDENTITY_VARIABLE).map(PathBuf::from));
        given.unwrap_or_else(|| folder().unwrap_or_default().join("trimtab/identity.pem"))
    }
}

/// A site's controller in place of what is on this machine. No variable stands for it: the same command must not mean
/// another store because of where it is typed.
#[derive(Clone, Debug, Default, Args)]
pub struct KeptOptions {
    /// Of the site with this controller, in place of this machine's
    #[arg(long, value_name = "HOST[:PORT]")]
    pub controller: Option<String>,
    /// Your identity at the site [default: $TRIMTAB_IDENTITY, or ~/.config/trimtab/identity.pem]
    #[arg(long, value_name = "FILE", requires = "controller")]
    pub identity: Option<PathBuf>,
}

impl KeptOptions {
    /// The same, as it is said elsewhere.
    pub fn of(&self, controller: &str) -> SiteOptions {
        SiteOptions { controller: Some(controller.to_owned()), identity: self.identity.clone() }
    }
}

fn named(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// How an agent is started.
#[derive(Clone, Debug, Args)]
pub struct AgentOptions {
    /// The ticket that the lead has written for it; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "controller")]
    pub ticket: Option<PathBuf>,
    /// Its place in the ticket's list, from 0 [default: that of this host's name]
    #[arg(long, value_name = "N", requires = "ticket", hide = true)]
    pub place: Option<usize>,
    /// Stand by for this controller, for as long as the node runs
    #[arg(long, value_name = "HOST[:PORT]")]
    pub controller: Option<String>,
    /// The node's identity, with --controller
    #[arg(long, value_name = "FILE", default_value = "/etc/trimtab/identity.pem")]
    pub identity: PathBuf,
    /// A list of revoked certificates beside the controller's, with --controller; read again when it changes
    #[arg(long, value_name = "FILE", default_value = REVOKED_FILE)]
    pub revoked: PathBuf,
    /// Port for agents that are to call this one; 0: none may
    #[arg(long, value_name = "PORT", default_value_t = TREE_PORT)]
    pub port: u16,
}

/// How the controller is started.
#[derive(Clone, Debug, Args)]
pub struct ControllerOptions {
    /// The controller's identity; `-` for standard input
    #[arg(long, value_name = "FILE", default_value = "/etc/trimtab/controller.pem")]
    pub identity: PathBuf,
    /// The list of revoked certificates; read again when it changes
    #[arg(long, value_name = "FILE", default_value = REVOKED_FILE)]
    pub revoked: PathBuf,
    /// Where it is asked
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from(([0, 0, 0, 0], API_PORT)))]
    pub listen: SocketAddr,
    /// Where it awaits agents
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from(([0, 0, 0, 0], TREE_PORT)))]
    pub listen_tree: SocketAddr,
    /// Agents that call the controller or one agent
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = |text: &str| within(text, 1_u32..=4096), allow_negative_numbers = true)]
    pub fan_out: u32,
}

/// A site's authority.
#[derive(Clone, Debug, Subcommand)]
pub enum SiteCommand {
    /// Make an authority in a new folder, and the controller's identity
    Init {
        /// The folder; it belongs on a host of administrators only
        folder: PathBuf,
        /// How long the controller's identity is valid
        #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = |text: &str| within(text, 1_u32..=7300), allow_negative_numbers = true)]
        days: u32,
    },
    /// Issue identities: a file each, to be moved to whoever it is for
    Issue {
        /// The authority's folder
        folder: PathBuf,
        /// For whom: node:HOST, user:UID, administrator:UID, scheduler:UID, controller
        #[arg(required = true, value_name = "ROLE")]
        roles: Vec<Role>,
        /// How long they are valid
        #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = |text: &str| within(text, 1_u32..=7300), allow_negative_numbers = true)]
        days: u32,
        /// Where to put them [default: the authority's folder]
        #[arg(long, value_name = "FOLDER")]
        output: Option<PathBuf>,
    },
    /// Revoke identities: write the signed list that the controller reads (--revoked FILE) and agents get from it
    ///
    /// Whoever is on it is refused, and connections that go on are ended, a second or two after the list has come to the
    /// controller's host. A new identity may be issued for the same role.
    Revoke {
        /// The authority's folder
        folder: PathBuf,
        /// Which: a role (user:1001) for all that is valid of it, a serial number, or an identity's file
        #[arg(required = true, value_name = "ROLE|SERIAL|FILE")]
        whom: Vec<String>,
        /// Where to put the list [default: revoked.pem in the authority's folder]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Let schedulers have your jobs measured, and see the windows and forecasts of these; nobody may until you say so
    Accept {
        /// Which: scheduler:UID, with the number of the user as which it runs
        #[arg(required = true, value_name = "ROLE")]
        schedulers: Vec<Role>,
        /// Which site.
        #[command(flatten)]
        site: SiteOptions,
    },
    /// Let schedulers do so no more
    Withdraw {
        /// Which: scheduler:UID
        #[arg(required = true, value_name = "ROLE")]
        schedulers: Vec<Role>,
        /// Which site.
        #[command(flatten)]
        site: SiteOptions,
    },
    /// Say how the site keeps the arguments of your programs, as hashes unless you say otherwise; or change it
    Arguments {
        /// As they are, or as hashes, those that are kept already too [default: say how they are kept]
        #[arg(value_enum)]
        how: Option<ArgumentsWord>,
        /// Which site.
        #[command(flatten)]
        site: SiteOptions,
    },
    /// List the schedulers that you accepted; for an administrator, who accepted which
    ///
    /// Exit codes: 0 there are some; 1 none; 2 an error.
    Accepted {
        /// Which site.
        #[command(flatten)]
        site: SiteOptions,
        /// Write JSON; `-` for standard output
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}

/// How a site keeps arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArgumentsWord {
    /// As they are.
    Keep,
    /// As hashes.
    Hash,
}

/// The options of `doctor`.
#[derive(Clone, Debug, Args)]
pub struct DoctorOptions {
    /// The controller that this node's agent, or you, would ask.
    #[command(flatten)]
    pub site: SiteOptions,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
