//! A window whose agents a site's standing ones start, in place of the batch system; its report is the site's too.
//!
//! Next: `ways`, which chooses between the two; `orders` for the other end.

use crate::error::{BY_SLURM, Error};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use trimtab_agent::Ticket;
use trimtab_agent::start::StartedByOthers;
use trimtab_engine::Filing;
use trimtab_link::JobSecret;
use trimtab_site::api::{Begun, Wanted, WindowState};
use trimtab_site::jobs::{self, Filed};
use trimtab_site::{Client, Identity, Role, SiteError};
use trimtab_types::report::Report;

/// Time between two questions to the controller.
const LOOK: Duration = Duration::from_millis(250);
/// The same while the window is open: the controller forgets one that nobody asks for in an hour.
const KEEP_EVERY: Duration = Duration::from_secs(600);

/// A window as the controller knows it; it forgets it with this.
#[derive(Debug)]
pub struct SiteWindow {
    client: Client,
    id: u64,
    missing: Vec<String>,
    state: WindowState,
    asked: Instant,
    /// With this ends who asks for it now and then.
    _keeps: Sender<()>,
}

/// Asks for a window again and again, until it is dropped.
fn keep(client: Client, id: u64, every: Duration) -> std::io::Result<Sender<()>> {
    let (keeps, ended) = channel::<()>();
    let still_open = move || matches!(ended.recv_timeout(every), Err(RecvTimeoutError::Timeout));
    let ask = move || {
        while still_open() {
            // A controller that is gone for a moment may be back at the next time.
            let _state: Result<WindowState, _> = client.get(&format!("/v1/windows/{id}"));
        }
    };
    std::thread::Builder::new().name("keep".to_owned()).spawn(ask)?;
    Ok(keeps)
}

impl SiteWindow {
    /// Asks the controller for agents on all places of a ticket.
    ///
    /// # Errors
    /// When the controller can't be asked, or refuses.
    pub(crate) fn begin(controller: &str, identity: &Path, ticket: &Ticket, secret: &JobSecret) -> Result<Self, Error> {
        let client = client_of(controller, identity).map_err(can_not_be_asked)?;
        let mut digits = Vec::new();
        secret.write(&mut digits)?;
        let wanted = Wanted {
            nodes: ticket.places.iter().map(|place| place.name.clone()).collect(),
            ticket: serde_json::to_string(ticket).map_err(|error| Error::Io(error.into()))?,
            secret: String::from_utf8_lossy(&digits).trim_end().to_owned(),
        };
        let Begun { id, missing } = client.post("/v1/windows", &wanted).map_err(can_not_be_asked)?;
        let all = ticket.places.iter().map(|place| place.name.clone());
        let waiting = all.filter(|name| !missing.contains(name)).collect();
        let state = WindowState { waiting, ..WindowState::default() };
        let keeps = keep(client.clone(), id, KEEP_EVERY)?;
        Ok(SiteWindow { client, id, missing, state, asked: Instant::now(), _keeps: keeps })
    }

    /// Has the site keep the report of the window, which can be done once; where it is found again there.
    ///
    /// # Errors
    /// When the controller can't be asked, or refuses.
    pub fn file(&self, key: &str, report: &Report) -> Result<Filed, Error> {
        let filing = jobs::Filing { key: key.to_owned(), report: report.clone() };
        Ok(self.client.file(&format!("/v1/windows/{}/report", self.id), &filing)?)
    }
}

impl StartedByOthers for SiteWindow {
    fn is_in_vain(&mut self) -> bool {
        if !self.state.waiting.is_empty() && self.asked.elapsed() >= LOOK {
            // A controller that is gone for a moment changes nothing for agents that are on their way.
            if let Ok(state) = self.client.get(&format!("/v1/windows/{}", self.id)) {
                self.state = state;
            }
            self.asked = Instant::now();
        }
        self.state.waiting.is_empty() && self.state.started.is_empty()
    }

    fn said(&self) -> String {
        let missing = (!self.missing.is_empty()).then(|| {
            let nodes = self.missing.join(", ");
            format!(
                "of the site's standing agents, which `trimtab tree` shows, none is on {nodes}: start it there (`systemctl start \
                 trimtab-agent`); {BY_SLURM}"
            )
        });
        refusals(&self.state.refused).into_iter().chain(missing).collect::<Vec<_>>().join("; ")
    }

    fn into_filing(self: Box<Self>) -> Option<Box<dyn Filing>> {
        Some(self)
    }
}

fn client_of(controller: &str, identity: &Path) -> Result<Client, SiteError> {
    let is_person = |role: &Role| matches!(role, Role::User { .. } | Role::Administrator { .. });
    let identity = Identity::of_command(identity)?.only("a user's or an administrator's", is_person)?;
    Client::new(controller, &identity)
}

/// A controller that refuses has said why; of everything else Slurm knows nothing.
fn can_not_be_asked(error: SiteError) -> Error {
    match error {
        refused @ SiteError::Refused { .. } => refused.into(),
        other => Error::SiteAway { source: Box::new(other) },
    }
}

/// Each reason once, with all of its nodes.
fn refusals(refused: &[(String, String)]) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (node, why) in refused {
        reasons.entry(why).or_default().push(node);
    }
    reasons.into_iter().map(|(why, nodes)| format!("on {}: {why}", nodes.join(", "))).collect()
}

impl Drop for SiteWindow {
    fn drop(&mut self) {
        // The controller forgets it by itself, later.
        let _gone = self.client.delete(&format!("/v1/windows/{}", self.id));
    }
}
