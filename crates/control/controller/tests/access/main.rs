//! Access to a controller: who may ask what, and who is not heard at all. Each line of docs/security.md about a site
//! has a test here or in `site.rs` of the command line.
//!
//! Next: `jobs`, `calls` and `revoked` beside this for what these are about; `routes` in the sources, which all ask.

mod calls;
mod forecasts;
mod grid;
mod history;
mod jobs;
mod measuring;
mod metrics;
mod openapi;
mod profiles;
mod revoked;
#[path = "../../../../ui/cli/tests/common_scopro/mod.rs"]
mod scopro;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};
use trimtab_controller::{Machine, Options, own_version, serve};
use trimtab_link::blocking::Blocking;
use trimtab_link::{Address, Config, Contact, incarnation_now};
use trimtab_overlay::{NodeId, Setup};
use trimtab_reduce::{RankSet, Registry};
use trimtab_site::api::{Begun, Enrol, Order, Outcome, Placed, Tree, Wanted, WindowState};
use trimtab_site::weather::{HostWeather, PairFound, ProbeOrder, ProbeOutcome};
use trimtab_site::{Authority, Client, Identity, Role, SiteError, TIMING};
use trimtab_store::Store;
use trimtab_types::Rank;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// A step that takes longer hangs.
const HANG: Duration = Duration::from_secs(60);

/// A machine without Slurm's accounting.
const MACHINE: Machine = Machine {
    slurm_jobs: |_| Err("no sacct here".into()),
    user_name: |_| None,
    running_job: measuring::running_job,
    lead: measuring::lead,
};

/// A site with a controller that runs in this process until the test's program ends.
struct Site {
    folder: tempfile::TempDir,
    authority: Authority,
    api: SocketAddr,
    tree: SocketAddr,
}

impl Site {
    fn start() -> Site {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::create(&folder.path().join("authority")).expect("an authority");
        let path = folder.path().join("controller.pem");
        authority.issue(&Role::Controller, DAY, &path).expect("an identity");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let identity = Identity::load(&path).expect("it is read").refusing(&folder.path().join("revoked.pem"));
        let identity = identity.expect("nobody is revoked yet");
        let store = Store::open_site(Some(&folder.path().join("site.db"))).expect("a store");
        let audit = folder.path().join("audit.jsonl");
        let options = Options { identity, listen: any, listen_tree: any, fan_out: 2, store, audit, machine: MACHINE };
        let (sender, ready) = channel();
        std::thread::spawn(move || serve(options, |api, tree| sender.send((api, tree)).expect("somebody waits")));
        let (api, tree) = ready.recv_timeout(HANG).expect("it listens");
        Site { folder, authority, api, tree }
    }

    fn path(&self, role: &str) -> PathBuf {
        self.folder.path().join(format!("{}.pem", role.replace(':', "-")))
    }

    fn identity(&self, role: &str) -> Identity {
        let path = self.path(role);
        if !path.exists() {
            self.authority.issue(&role.parse().expect("a role"), DAY, &path).expect("an identity");
        }
        Identity::load(&path).expect("it is read")
    }

    fn client(&self, role: &str) -> Client {
        self.client_of(&self.identity(role))
    }

    fn client_of(&self, identity: &Identity) -> Client {
        Client::new(&self.api.to_string(), identity).expect("a client")
    }

    /// An agent of this host that is in the tree.
    fn agent(&self, host: &str) -> Blocking {
        let identity = self.identity(&format!("node:{host}"));
        let enrol = Enrol { version: own_version().to_owned(), port: 0, start: 1 };
        let placed: Placed = self.client_of(&identity).post("/v1/agents", &enrol).expect("it is taken in");
        let link = self.join(&identity, placed.tree, placed.index);
        until("the agent is in the tree", || self.is_connected(host));
        link
    }

    fn is_connected(&self, host: &str) -> bool {
        let tree = self.client("administrator:0").get::<Tree>("/v1/tree").expect("a tree");
        tree.agents.iter().any(|agent| agent.host == host && agent.connected)
    }

    /// Tries to join the tree with an identity's certificate.
    fn join(&self, identity: &Identity, tree: u64, index: u32) -> Blocking {
        let config = Config {
            setup: Setup {
                id: NodeId(index + 1),
                incarnation: incarnation_now(),
                ancestors: vec![NodeId::ROOT],
                ranks: RankSet::one(Rank(index)),
                timing: TIMING,
                registry: Arc::new(Registry::default()),
            },
            tree,
            listener: None,
            contacts: vec![Contact { address: Address::Tcp(self.tree), host: Some(Role::Controller.name()) }],
            credentials: Some(Arc::new(identity.credentials().expect("credentials"))),
        };
        Blocking::start(config, None).expect("it begins")
    }
}

fn status<T>(asked: Result<T, SiteError>) -> u16 {
    match asked {
        Ok(_) => 200,
        Err(SiteError::Refused { status, .. }) => status,
        Err(error) => panic!("{error}"),
    }
}

fn wanted() -> Wanted {
    Wanted { nodes: vec!["n1".into()], ticket: "{}".into(), secret: "0".repeat(64) }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < HANG, "{what}: not within {HANG:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn everybody_may_ask_only_what_their_role_allows() {
    let site = Site::start();
    let enrol = Enrol { version: own_version().to_owned(), port: 0, start: 1 };
    for (role, tree, agents, begin) in [
        ("user:7", 200, 403, 200),
        ("administrator:0", 200, 403, 200),
        ("node:n1", 403, 200, 403),
        ("controller", 403, 403, 403),
        ("scheduler:990", 403, 403, 403),
    ] {
        let client = site.client(role);
        assert_eq!(status(client.get::<Tree>("/v1/tree")), tree, "{role}");
        assert_eq!(status(client.post::<Placed>("/v1/agents", &enrol)), agents, "{role}");
        assert_eq!(status(client.post::<Begun>("/v1/windows", &wanted())), begin, "{role}");
        assert_eq!(status(client.get::<()>("/v1/nothing")), 404, "{role}");
    }
    let older = Enrol { version: "0.0.0".to_owned(), port: 0, start: 1 };
    assert_eq!(status(site.client("node:n1").post::<Placed>("/v1/agents", &older)), 409);
    assert_eq!(status(site.client("node:n1").post::<Placed>("/v1/agents", &"no enrolment")), 400);
}

#[test]
fn weather_is_for_people_and_orders_of_probes_are_for_agents() {
    let site = Site::start();
    for (role, host, order) in
        [("user:7", 404, 403), ("administrator:0", 404, 403), ("node:n1", 403, 404), ("controller", 403, 403)]
    {
        let client = site.client(role);
        assert_eq!(status(client.get::<HostWeather>("/v1/weather/n1/0")), host, "{role}: no such host yet");
        assert_eq!(status(client.post::<PairFound>("/v1/weather/n1/to/n2", &())), host, "{role}");
        assert_eq!(status(client.get::<ProbeOrder>("/v1/probes/0/order")), order, "{role}");
        let outcome = ProbeOutcome { found: None, why_not: None };
        assert_eq!(status(client.post::<()>("/v1/probes/0/outcome", &outcome)), order, "{role}");
    }
    let ann = site.client("user:7");
    assert_eq!(status(ann.get::<HostWeather>("/v1/weather/n1/20")), 400, "there is no such level");
    assert_eq!(status(ann.get::<HostWeather>("/v1/weather/n1/x")), 400);
    // It is in the tree, and says nothing.
    let _silent = site.agent("n1");
    assert_eq!(status(ann.get::<HostWeather>("/v1/weather/n1/0")), 503);
}

#[test]
fn a_window_is_seen_and_ended_by_its_owner_only() {
    let site = Site::start();
    let (ann, bob, node) = (site.client("user:7"), site.client("user:8"), site.client("node:n1"));
    let begun: Begun = ann.post("/v1/windows", &wanted()).expect("it begins");
    assert_eq!(begun.missing, ["n1"], "its agent is not in the tree");
    let path = format!("/v1/windows/{}", begun.id);
    assert_eq!(status(bob.get::<WindowState>(&path)), 404);
    assert_eq!(status(bob.delete(&path)), 404);
    assert_eq!(status(site.client("administrator:7").get::<WindowState>(&path)), 404);
    // No agent was asked for it, so none gets its secret; and people never do.
    assert_eq!(status(node.get::<Order>(&format!("{path}/order"))), 404);
    assert_eq!(status(node.post::<()>(&format!("{path}/outcome"), &Outcome { refused: None, owner: None })), 404);
    assert_eq!(status(ann.get::<Order>(&format!("{path}/order"))), 403);
    assert_eq!(status(ann.delete(&path)), 200);
    assert_eq!(status(ann.get::<WindowState>(&path)), 404);
}

#[test]
fn an_order_goes_to_its_node_s_agent_with_the_asker_s_user() {
    let site = Site::start();
    let (link, agent) = (site.agent("n1"), site.identity("node:n1"));
    let ann = site.client("user:7");
    let members = || ann.get::<Tree>("/v1/tree").expect("a tree").agents;
    let begun: Begun = ann.post("/v1/windows", &wanted()).expect("it begins");
    assert!(begun.missing.is_empty());
    let path = format!("/v1/windows/{}/order", begun.id);
    assert_eq!(status(site.client("node:n2").get::<Order>(&path)), 404, "another node's agent");
    let order: Order = site.client_of(&agent).get(&path).expect("its order");
    assert_eq!((order.uid, order.is_administrator, order.secret), (7, false, wanted().secret));
    assert_eq!(status(site.client_of(&agent).get::<Order>(&path)), 404, "once");
    drop(link);
    until("it is gone", || members().iter().all(|agent| !agent.connected));
    assert!(members()[0].health.is_none(), "nothing is said for it");
}

#[test]
fn a_certificate_of_another_authority_or_expired_or_early_is_refused() {
    let (site, other) = (Site::start(), Site::start());
    let now = SystemTime::now();
    let role: Role = "user:7".parse().expect("a role");
    let between = |name: &str, from, until| {
        let path = site.path(name);
        site.authority.issue_between(&role, from, until, &path).expect("an identity");
        Identity::load(&path).expect("it is read")
    };
    for (name, identity) in [
        ("another authority's", other.identity("user:7")),
        ("expired", between("expired", now - 3 * DAY, now - DAY)),
        ("not valid yet", between("early", now + DAY, now + 2 * DAY)),
    ] {
        let error = site.client_of(&identity).get::<Tree>("/v1/tree").expect_err(name);
        // Of two authorities each end distrusts the other one; ours is the first.
        let is_right = match name {
            "another authority's" => matches!(error, SiteError::NotTrusted { .. }),
            _ => matches!(error, SiteError::NotTaken { .. }),
        };
        assert!(is_right, "{name}: {error:?}");
    }
    // Whoever asks doesn't fall for another site's controller either, nor for a node that says it is one.
    let error = other.client_of(&site.identity("user:8")).get::<Tree>("/v1/tree").expect_err("another site's");
    assert!(matches!(error, SiteError::NotTrusted { .. }), "{error:?}");
}

#[test]
fn only_agents_join_the_tree() {
    let site = Site::start();
    let tree = site.client("user:1").get::<Tree>("/v1/tree").expect("a tree");
    assert!(tree.agents.is_empty());
    let placed: Placed = site
        .client("node:n1")
        .post("/v1/agents", &Enrol { version: own_version().to_owned(), port: 0, start: 1 })
        .expect("it is taken in");
    let trouble = || site.client("user:1").get::<Tree>("/v1/tree").expect("a tree").controller.trouble;
    for role in ["user:7", "administrator:0"] {
        let person = site.join(&site.identity(role), placed.tree, placed.index);
        until(role, || trouble().is_some_and(|trouble| trouble.contains("is not node 1")));
        assert_eq!(person.handle().parent(), None, "{role}");
    }
    let other = Site::start();
    let stranger = site.join(&other.identity("node:n1"), placed.tree, placed.index);
    until("another site's agent", || {
        stranger.handle().troubles().iter().any(|trouble| trouble.what.contains("TLS refused"))
    });
    let expired = site.path("expired-node");
    let now = SystemTime::now();
    let role = "node:n1".parse().expect("a role");
    site.authority.issue_between(&role, now - 3 * DAY, now - DAY, &expired).expect("an identity");
    let late = site.join(&Identity::load(&expired).expect("it is read"), placed.tree, placed.index);
    until("an expired agent", || trouble().is_some_and(|trouble| trouble.contains("expired")));
    assert_eq!((stranger.handle().parent(), late.handle().parent()), (None, None));
}

/// Neither port says a word to somebody without a certificate, by TLS or not.
#[test]
fn no_port_answers_without_a_certificate() {
    let site = Site::start();
    let mut roots = RootCertStore::empty();
    let authority = std::fs::read(site.folder.path().join("authority/authority.pem")).expect("it is there");
    let certificate = rustls::pki_types::pem::PemObject::from_pem_slice(&authority).expect("a certificate");
    roots.add(certificate).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    for (name, address) in [("API", site.api), ("tree", site.tree)] {
        let server = ServerName::try_from(Role::Controller.name()).expect("a name");
        let tls = ClientConnection::new(config.clone(), server).expect("TLS");
        let mut stream = rustls::StreamOwned::new(tls, connected(address));
        let mut answer = Vec::new();
        let _refused = stream.write_all(b"GET /v1/tree HTTP/1.1\r\nhost: x\r\n\r\n");
        let _closed = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{name}: {}", String::from_utf8_lossy(&answer));

        let mut plain = connected(address);
        plain.write_all(b"GET /v1/tree HTTP/1.1\r\nhost: x\r\n\r\n").expect("it is sent");
        let _reset = plain.read_to_end(&mut answer);
        assert!(!answer.windows(4).any(|part| part == b"HTTP"), "{name}");
        assert!(answer.len() < 16, "{name}: at most TLS's word that it is over: {answer:?}");
    }
}

fn connected(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(HANG)).expect("a limit");
    stream
}
