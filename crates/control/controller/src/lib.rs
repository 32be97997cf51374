//! The controller: the service of a site. Its agents join a tree below it; people ask it by an API.
//!
//! But for reports, which are in its store, it keeps nothing that it could not be told again: after a restart the agents
//! report anew, and windows that were being started are begun again by whoever wanted them. It touches no process: it hands
//! out orders, each with the user in whose name it came, and every agent decides by itself what that user may do there.
//! A window that it has measured itself is led by another program, which it asks its machine for.
//!
//! - [`places`]: which agents there are, and who calls whom.
//! - [`windows`]: who wants agents where, and what came of it.
//! - `kept`: jobs and reports, for their owners; [`waits`] and `calls`: windows that wait for somebody's call.
//! - `measuring`: windows that the controller has measured in the name of a job's owner; `leads` for their leads,
//!   `measurements` for how they stand, `words_of_users` for who may ask for them.
//! - `foresight`: forecasts from what the site keeps; `grid`: of data and routines on its hosts.
//! - `weather` and `probes`: what agents sense, and probes of the network between two of them.
//! - `metrics`: what Prometheus asks for; `counts` for what is counted.
//! - [`root`]: the controller's place in the tree, and asking all agents.
//! - `table`: all requests with their words, of which `openapi` makes docs/openapi.json.
//! - [`routes`]: requests about the tree and windows; `listener` lets nobody near it who has no certificate, `live` and `revoking` end who had one.
//!
//! Next: `trimtab_site::api` for what is said.
#![forbid(unsafe_code)]

mod asked;
mod calls;
mod counts;
mod error;
mod foreknown;
mod foresight;
mod grid;
mod kept;
mod leads;
mod listener;
mod live;
mod measurements;
mod measuring;
mod metrics;
mod not_led;
mod openapi;
mod pairs;
pub mod places;
mod probes;
mod revoking;
pub mod root;
mod route;
pub mod routes;
mod said_as_facts;
mod state;
mod table;
pub mod waits;
mod weather;
pub mod windows;
mod words_of_users;

pub use error::Error;

/// Answers to questions about what comes, for commands too.
pub use trimtab_forecasts as forecasts;
pub use trimtab_site::weather as said_of_weather;
/// A site's parts, for whoever runs or asks one: the authority, identities, roles, and what is said.
pub use trimtab_site::{
    API_PORT, CONTROLLER_VARIABLE, IDENTITY_VARIABLE, REVOKED_FILE, TREE_PORT, api, jobs, measured,
};
pub use trimtab_site::{Authority, Client, Identity, Role, Serial, SiteError};

pub use foreknown::{LeadProcess, Machine, NoJob, RunningJob, SlurmJobs};
pub use routes::own_version;
pub use said_as_facts::{host_of_agent, link_of_pair};
pub use state::Controller;
pub use table::openapi;

use counts::Counts;
use foreknown::Foresight;
use listener::Peer;
use live::Live;
use places::Places;
use root::Root;
use state::State;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::Semaphore;
use trimtab_audit::Log;
use trimtab_site::Watch;
use trimtab_store::Store;
use windows::Windows;

/// How the controller is started.
#[derive(Debug)]
pub struct Options {
    /// The controller's identity.
    pub identity: Identity,
    /// Where the API is asked.
    pub listen: SocketAddr,
    /// Where agents are awaited.
    pub listen_tree: SocketAddr,
    /// Agents that call one node.
    pub fan_out: usize,
    /// Where jobs and reports are kept.
    pub store: Store,
    /// The log of requests for windows, and of who accepts whom.
    pub audit: PathBuf,
    /// Slurm and users, as its machine knows them.
    pub machine: Machine,
}

/// Runs the controller until the process ends; `ready` is told where it listens.
///
/// # Errors
/// An identity that can't be used, or a port that can't be had.
pub fn serve(options: Options, ready: impl FnOnce(SocketAddr, SocketAddr)) -> Result<(), Error> {
    let Options { identity, listen, listen_tree, fan_out, mut store, audit, machine } = options;
    // A log that can't be written keeps all windows from being begun: said at once.
    Log::open(&audit)?;
    let identity = identity.only("the controller's", |role| *role == trimtab_site::Role::Controller)?;
    let root = Root::start(&identity, listen_tree)?;
    // An earlier trimtab kept all as they are.
    store.hide_arguments()?;
    let (nodes, live) = (root.handle(), Arc::new(Live::default()));
    let revoked = identity.revoked().cloned();
    let (tree, tree_address) = (root.tree(), root.address());
    let state = State { places: Places::new(tree, fan_out), windows: Windows::default() };
    let controller = Arc::new(Controller {
        state: Mutex::new(state),
        root: Mutex::new(root),
        store: Mutex::new(store),
        waits: Mutex::default(),
        probes: Mutex::default(),
        foresight: Foresight::new(machine),
        measurements: Mutex::default(),
        counts: Counts::default(),
        audit,
        store_turn: Semaphore::new(1),
        nodes,
        revoked,
        tree_port: tree_address.port(),
        began: Instant::now(),
    });
    let tls = Arc::new(identity.server()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = listener::TlsListener::bind(listen, tls, live.clone()).await?;
        if let Some(revoked) = identity.revoked() {
            tokio::spawn(revoking::end(Watch::new(revoked.clone()), controller.clone(), live));
            tokio::spawn(revoking::tell(controller.clone(), revoked.clone()));
        }
        ready(listener.address(), tree_address);
        let service = table::routes(controller).into_make_service_with_connect_info::<Peer>();
        Ok(axum::serve(listener, service).await?)
    })
}
