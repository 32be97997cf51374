//! A window whose agents a site's standing ones start, in place of the batch system; its report is the site's too.
//!
//! The controller is asked over HTTPS by whoever has an identity, and through pipes by a lead that it has started itself.
//!
//! Next: `ways` and `led_way`, which begin one; `orders` for the other end.

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

/// Asks the controller about one window.
pub(crate) trait Asks: std::fmt::Debug {
    /// How its orders stand.
    fn state(&self) -> Result<WindowState, Error>;

    /// Has its report kept.
    fn file(&self, filing: &jobs::Filing) -> Result<Filed, Error>;

    /// It is over.
    fn end(&self);

    /// Another way to the same window, if whoever asks has one.
    fn other_way(&self) -> Option<&'static str>;
}

/// Over HTTPS.
#[derive(Debug)]
struct ByClient {
    client: Client,
    id: u64,
    /// With this ends who asks for it now and then.
    _keeps: Sender<()>,
}

/// A window as the controller knows it; it forgets it with this.
#[derive(Debug)]
pub struct SiteWindow {
    asks: Box<dyn Asks>,
    missing: Vec<String>,
    state: WindowState,
    asked: Instant,
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
        let wanted = wanted(ticket, secret)?;
        let begun: Begun = client.post("/v1/windows", &wanted).map_err(can_not_be_asked)?;
        let keeps = keep(client.clone(), begun.id, KEEP_EVERY)?;
        let asks = ByClient { client, id: begun.id, _keeps: keeps };
        Ok(SiteWindow::begun(Box::new(asks), &wanted.nodes, begun))
    }

    /// One that was begun for agents on these nodes.
    pub(crate) fn begun(asks: Box<dyn Asks>, nodes: &[String], Begun { missing, .. }: Begun) -> Self {
        let waiting = nodes.iter().filter(|name| !missing.contains(name)).cloned().collect();
        let state = WindowState { waiting, ..WindowState::default() };
        SiteWindow { asks, missing, state, asked: Instant::now() }
    }

    /// Has the site keep the report of the window, which can be done once; where it is found again there.
    ///
    /// # Errors
    /// When the controller can't be asked, or refuses.
    pub fn file(&self, key: &str, report: &Report) -> Result<Filed, Error> {
        self.asks.file(&jobs::Filing { key: key.to_owned(), report: report.clone() })
    }
}

/// The wish of a window, as the controller hears it.
pub(crate) fn wanted(ticket: &Ticket, secret: &JobSecret) -> Result<Wanted, Error> {
    let mut digits = Vec::new();
    secret.write(&mut digits)?;
    Ok(Wanted {
        nodes: ticket.places.iter().map(|place| place.name.clone()).collect(),
        ticket: serde_json::to_string(ticket).map_err(|error| Error::Io(error.into()))?,
        secret: String::from_utf8_lossy(&digits).trim_end().to_owned(),
    })
}

impl Asks for ByClient {
    fn state(&self) -> Result<WindowState, Error> {
        Ok(self.client.get(&format!("/v1/windows/{}", self.id))?)
    }

    fn file(&self, filing: &jobs::Filing) -> Result<Filed, Error> {
        Ok(self.client.file(&format!("/v1/windows/{}/report", self.id), filing)?)
    }

    fn end(&self) {
        // The controller forgets it by itself, later.
        let _gone = self.client.delete(&format!("/v1/windows/{}", self.id));
    }

    fn other_way(&self) -> Option<&'static str> {
        Some(BY_SLURM)
    }
}

impl StartedByOthers for SiteWindow {
    fn is_in_vain(&mut self) -> bool {
        if !self.state.waiting.is_empty() && self.asked.elapsed() >= LOOK {
            // A controller that is gone for a moment changes nothing for agents that are on their way.
            if let Ok(state) = self.asks.state() {
                self.state = state;
            }
            self.asked = Instant::now();
        }
        self.state.waiting.is_empty() && self.state.started.is_empty()
    }

    fn said(&self) -> String {
        let missing = (!self.missing.is_empty()).then(|| {
            let nodes = self.missing.join(", ");
            let other_way = self.asks.other_way().map_or_else(String::new, |way| format!("; {way}"));
            format!(
                "of the site's standing agents, which `trimtab tree` shows, none is on {nodes}: start it there (`systemctl start \
                 trimtab-agent`){other_way}"
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
        self.asks.end();
    }
}
