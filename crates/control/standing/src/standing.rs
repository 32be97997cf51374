//! A site's standing agent: one per node, in the controller's tree, for as long as the node runs.
//!
//! It reports to the controller, which gives it its place; joins the tree there; says how it is when it is asked; and
//! starts users' agents when a window wants some. It touches no process itself, and senses the weather of its host. When nobody above it is there any more,
//! the controller included, it reports again, less and less often, until it has a place.
//!
//! Next: `orders` for what it starts, `trimtab_site::api` for what is said.

use crate::error::Error;
use crate::orders::Starts;
use crate::weather::Weather;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use trimtab_agent::contribute::{contribute, encoded};
use trimtab_agent::found::asked_to_end;
use trimtab_agent::ticket::{node_of, own_version};
use trimtab_link::blocking::Blocking;
use trimtab_link::{Address, Config, Contact, Credentials, incarnation_now};
use trimtab_measure::host_name;
use trimtab_overlay::{NodeId, Setup, Told};
use trimtab_reduce::{RankSet, Registry};
use trimtab_site::api::{Enrol, Health, Placed, RevokedList};
use trimtab_site::weather::ProbeOrder;
use trimtab_site::{Client, Identity, Notice, Role, TIMING, Watch};
use trimtab_types::{Rank, notice, one_line};

/// Time between two looks at signals.
const LOOK: Duration = Duration::from_millis(500);
/// An agent that no parent would have for so long asks for another place.
const ALONE_MAX: Duration = Duration::from_secs(3);
/// An agent that is sent away so many times in a row, each time soon after it was let in, shares its name with another.
const PUSHED_OUT_COUNT_MAX: u32 = 5;
const PUSHED_OUT_SOON: Duration = Duration::from_secs(1);
/// Pauses between reports double from the first to the last: a site's agents all miss the controller at once.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// How often it is tried to get the list of revoked certificates, and the pause between: the controller was there just now.
const FETCH_COUNT_MAX: u32 = 5;
const FETCH_AGAIN: Duration = Duration::from_secs(1);

/// How a standing agent is started.
#[derive(Debug)]
pub struct Standing {
    /// `HOST` or `HOST:PORT`.
    pub controller: String,
    /// Its identity.
    pub identity: Identity,
    /// Where it awaits agents below it; 0: nowhere.
    pub port: u16,
}

/// An agent's knowledge of itself.
struct Agent {
    host: String,
    client: Arc<Client>,
    credentials: Arc<Credentials>,
    /// Looks for those whose certificates are revoked.
    revoked: Option<Watch>,
    port: u16,
    /// Which start of an agent this is.
    start: u64,
    starts: Arc<Starts>,
    began: Instant,
    /// Since when it has lost whoever was above it, and has no other yet.
    orphan_since: Option<Instant>,
    alone_max: Duration,
    survived: u64,
    asked_to_end: Arc<AtomicBool>,
    weather: Arc<Weather>,
}

/// Runs a standing agent until a signal asks it to end.
///
/// # Errors
/// An identity that can't be used. Everything else passes, and is said on standard error.
pub fn stand(standing: Standing) -> Result<(), Error> {
    let Standing { controller, identity, port } = standing;
    let identity = identity.only("a node's", |role| matches!(role, Role::Node { .. }))?;
    let Role::Node { host } = identity.role().clone() else { return Err(Error::Malformed { what: "the identity" }) };
    let asked_to_end = asked_to_end()?;
    let mut agent = Agent {
        host,
        client: Arc::new(Client::new(&controller, &identity)?),
        credentials: Arc::new(identity.credentials()?),
        revoked: identity.revoked().cloned().map(Watch::new),
        port,
        start: start_now(),
        starts: Arc::default(),
        began: Instant::now(),
        orphan_since: None,
        alone_max: Duration::ZERO,
        survived: 0,
        weather: Weather::begin(&asked_to_end),
        asked_to_end,
    };
    if let Some(warning) = another_host(&agent.host, &host_name()) {
        notice(&warning);
    }
    let mut pauses = Pauses::new(&agent.host);
    let mut said = String::new();
    while !agent.is_to_end() {
        match agent.join() {
            Ok((link, index)) => {
                said.clear();
                if agent.attend(&link, index) {
                    pauses.begin_again();
                }
            }
            Err(error) => {
                // Once for the same thing in a row: the controller may be away for days.
                let now = one_line(&error);
                if now != said {
                    notice(&now);
                    said = now;
                }
                // Whoever could not be reached may be on the list by now, or it may be the one that is.
                let _read = agent.revoked.as_mut().map(Watch::look);
            }
        }
        agent.pause(pauses.next());
    }
    Ok(())
}

/// Why an identity may be another host's, if its name is not this host's.
fn another_host(identity: &str, own: &str) -> Option<String> {
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
    (short(identity) != short(own)).then(|| {
        format!(
            "this host is called {own} and the identity is that of {identity}: good if the batch system calls this host so; \
             else it was copied from another host: issue one for this host (`trimtab site issue FOLDER node:{own}`)"
        )
    })
}

impl Agent {
    fn is_to_end(&self) -> bool {
        self.asked_to_end.load(Ordering::Relaxed)
    }

    fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.is_to_end() && Instant::now() < until {
            std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
    }

    /// Reports to the controller and begins in the place it gets.
    fn join(&self) -> Result<(Blocking, u32), Error> {
        let controller = self.client.address()?;
        let enrol = Enrol { version: own_version(), port: self.port, start: self.start };
        let placed: Placed = self.client.post("/v1/agents", &enrol)?;
        // Before anybody is heard who is on it.
        self.fetching()();
        let agents = placed.ancestors.iter().map(|ancestor| {
            let host = Some(Role::Node { host: ancestor.host.clone() }.name());
            (node_of(ancestor.index as usize), Contact { address: Address::Tcp(ancestor.address), host })
        });
        let root = Contact {
            address: Address::Tcp(SocketAddr::new(controller.ip(), placed.root_port)),
            host: Some(Role::Controller.name()),
        };
        let (ancestors, contacts): (Vec<NodeId>, Vec<Contact>) = agents.chain([(NodeId::ROOT, root)]).unzip();
        let config = Config {
            setup: Setup {
                id: node_of(placed.index as usize),
                incarnation: incarnation_now(),
                ancestors,
                ranks: RankSet::one(Rank(placed.index)),
                timing: TIMING,
                registry: Arc::new(Registry::default()),
            },
            tree: placed.tree,
            listener: None,
            contacts,
            credentials: Some(self.credentials.clone()),
        };
        let listen = (self.port != 0).then(|| Address::Tcp(anywhere(controller, self.port)));
        Ok((Blocking::start(config, listen)?, placed.index))
    }

    /// Does what it is asked, until nobody asks any more; whether it was in the tree at all.
    fn attend(&mut self, link: &Blocking, index: u32) -> bool {
        let mut alone_since = Some(Instant::now());
        let mut was_in_tree = false;
        let (mut let_in, mut pushed_out_count) = (Instant::now(), 0);
        while !self.is_to_end() && alone_since.is_none_or(|since| since.elapsed() < ALONE_MAX) {
            match link.wait(LOOK) {
                Some(Told::Attached { parent }) => {
                    (alone_since, was_in_tree, let_in) = (None, true, Instant::now());
                    self.attached(parent, index);
                }
                Some(Told::Orphaned) => {
                    pushed_out_count = if let_in.elapsed() < PUSHED_OUT_SOON { pushed_out_count + 1 } else { 0 };
                    if pushed_out_count >= PUSHED_OUT_COUNT_MAX {
                        self.pushed_out();
                        return false;
                    }
                    alone_since = Some(Instant::now());
                    self.orphan_since.get_or_insert_with(Instant::now);
                }
                Some(Told::Command { stream, payload, .. }) => self.notified(link, index, stream, &payload),
                _ => {}
            }
            self.end_revoked(link);
        }
        was_in_tree
    }

    /// Whoever is above or below it and was revoked is not any more.
    fn end_revoked(&mut self, link: &Blocking) {
        let Some(revoked) = self.revoked.as_mut().and_then(Watch::look) else { return };
        let ended = link.handle().close_revoked(|certificate| revoked.is_revoked(certificate));
        if ended > 0 {
            notice(&format!("{ended} connections were ended: their other ends were revoked"));
        }
    }

    fn pushed_out(&mut self) {
        notice(&format!(
            "this agent was sent away {PUSHED_OUT_COUNT_MAX} times in a row as soon as it was in the tree: another \
             one has the same identity, {}, on this host or another; it waits before it tries again",
            self.host
        ));
        self.orphan_since.get_or_insert_with(Instant::now);
    }

    fn attached(&mut self, parent: NodeId, index: u32) {
        let mut after = String::new();
        if let Some(since) = self.orphan_since.take() {
            self.survived += 1;
            self.alone_max = self.alone_max.max(since.elapsed());
            after = format!(", after {} ms with nobody above it", since.elapsed().as_millis());
        }
        let above = parent.0.checked_sub(1).map_or("the controller".to_owned(), |above| format!("agent {above}"));
        notice(&format!("agent {index} is in the tree, below {above}{after}"));
    }

    fn notified(&self, link: &Blocking, index: u32, stream: u32, payload: &[u8]) {
        let answer = match postcard::from_bytes(payload) {
            Ok(Notice::Health) => postcard::to_allocvec(&self.health(link)).unwrap_or_default(),
            Ok(Notice::Window(window)) => {
                self.open(window);
                Vec::new()
            }
            Ok(Notice::Weather { nice }) => {
                postcard::to_allocvec(&self.weather.say(&self.host, nice)).unwrap_or_default()
            }
            Ok(Notice::Probe(probe)) => {
                self.probe(probe);
                Vec::new()
            }
            Ok(Notice::Revoked) => {
                self.spawn("trimtab-revoked", self.fetching());
                Vec::new()
            }
            // A controller of another version; it hears that somebody is there.
            Err(_) => Vec::new(),
        };
        if let Ok(value) = encoded(Rank(index), &answer) {
            contribute(link, stream, 0, &value);
        }
    }

    /// A window wants something; the controller is asked by another thread, since that may take a while.
    fn open(&self, window: u64) {
        let (starts, client, host) = (self.starts.clone(), self.client.clone(), self.host.clone());
        self.spawn("trimtab-window", move || starts.carry_out(&client, window, &host));
    }

    /// A probe of the network is wanted; it takes a while, and so does the controller's answer.
    fn probe(&self, probe: u64) {
        let client = self.client.clone();
        self.spawn("trimtab-probe", move || {
            let order: Result<ProbeOrder, _> = client.get(&format!("/v1/probes/{probe}/order"));
            let told: Result<(), _> =
                order.and_then(|order| client.post(&format!("/v1/probes/{probe}/outcome"), &Weather::probe(&order)));
            if let Err(error) = told {
                notice(&format!("probe {probe}: {}", one_line(&error)));
            }
        });
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) {
        if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(work) {
            notice(&format!("{name}: no thread can be started: {error}"));
        }
    }

    /// Asks the controller for its list of revoked certificates, and takes it.
    fn fetching(&self) -> impl FnOnce() + Send + use<> {
        let (revoked, client) = (self.revoked.as_ref().map(|watch| watch.revoked().clone()), self.client.clone());
        move || {
            let Some(revoked) = revoked else { return };
            let fetch = || {
                let RevokedList { list } = client.get("/v1/revoked")?;
                list.map_or(Ok(()), |list| revoked.take(&list))
            };
            for tries_left in (0..FETCH_COUNT_MAX).rev() {
                match fetch() {
                    Ok(()) => return,
                    Err(_) if tries_left > 0 => std::thread::sleep(FETCH_AGAIN),
                    Err(error) => {
                        notice(&format!("the controller's list of revoked certificates: {}", one_line(&error)));
                    }
                }
            }
        }
    }

    fn health(&self, link: &Blocking) -> Health {
        let handle = link.handle();
        let counts = handle.counts();
        let (windows, windows_started) = self.starts.counts();
        Health {
            version: own_version(),
            parent: handle.parent().and_then(|parent| parent.0.checked_sub(1)),
            children: handle.children().len() as u32,
            failures_survived: self.survived,
            alone_us_max: self.alone_max.as_micros() as u64,
            queue: handle.queue_count() as u32,
            queue_max: counts.queue_max as u32,
            commands_max: counts.log_max,
            dropped: counts.dropped,
            up_s: self.began.elapsed().as_secs(),
            cpu_ms: cpu_ms(),
            resident_kb: resident_kb(),
            windows,
            windows_started,
            trouble: handle.troubles().last().map(|trouble| format!("{}: {}", trouble.with, trouble.what)),
        }
    }
}

/// A number that no other start of an agent on this host has: the nanoseconds since 1970.
fn start_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// Every address of this host, of the kind that the controller has.
fn anywhere(controller: SocketAddr, port: u16) -> SocketAddr {
    match controller {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, port).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, port).into(),
    }
}

fn cpu_ms() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

fn resident_kb() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64 / 1024)
}

/// Pauses between reports, a little different for each host.
struct Pauses {
    next: Duration,
    salt: u32,
}

impl Pauses {
    fn new(host: &str) -> Self {
        let salt = host.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Pauses { next: PAUSE_FIRST, salt }
    }

    fn begin_again(&mut self) {
        self.next = PAUSE_FIRST;
    }

    /// Up to half as long again as the doubled pauses.
    fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(PAUSE_MAX);
        self.salt = self.salt.wrapping_mul(0x9e37_79b1).wrapping_add(1);
        pause + pause.mul_f64(f64::from(self.salt >> 8) / f64::from(1 << 25))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_of_another_host_is_told() {
        for (identity, own, is_told) in [("n1", "n1", false), ("n1", "n1.site", false), ("n1", "n2", true)] {
            assert_eq!(another_host(identity, own).is_some(), is_told, "{identity} on {own}");
        }
    }

    #[test]
    fn pauses_grow_differ_and_begin_again() {
        let (mut one, mut two) = (Pauses::new("n1"), Pauses::new("n2"));
        let ones: Vec<Duration> = (0..8).map(|_| one.next()).collect();
        let twos: Vec<Duration> = (0..8).map(|_| two.next()).collect();
        assert!(ones.iter().zip(&twos).filter(|(one, two)| one != two).count() > 5, "{ones:?} {twos:?}");
        assert!(ones.iter().all(|pause| *pause >= PAUSE_FIRST && *pause <= PAUSE_MAX * 3 / 2), "{ones:?}");
        assert!(ones[7] >= PAUSE_MAX && ones[0] < PAUSE_FIRST * 2, "{ones:?}");
        one.begin_again();
        assert!(one.next() < PAUSE_FIRST * 2);
    }
}
