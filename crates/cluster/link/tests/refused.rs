//! Connections that are refused: wrong and expired certificates, other users, other trees, other versions, garbage, and
//! silence. The tree goes on beside them.
//!
//! Next: `greet` in the sources, which refuses them.

mod common;

use common::*;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use trimtab_link::credentials::SiteIdentity;
use trimtab_link::{Address, Config, Credentials, Hand, Handle, JobSecret, LinkError, RunningNode};
use trimtab_overlay::{NodeId, Told};
use trimtab_reduce::Filter;
use trimtab_sim::{Total, Tree};
use trimtab_specimens::skip;
use trimtab_types::Rank;
use trimtab_wire::{Hello, Role, VERSION};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A root with one leaf, and the configuration of another leaf, to be spoiled.
async fn tree_and_config(edges: Edges) -> (LocalTree, Config) {
    let mut tree = LocalTree::start(Tree::balanced(2, 2).unwrap(), edges, Leaves::OnCommand, patient()).await;
    tree.handles[2].take().expect("it runs").stop();
    let root = tree.handle(0).clone();
    until("only one leaf is left", || root.link_count() == 1).await;
    let config = tree.config(NodeId(2), false).await;
    (tree, config)
}

/// Starts a node that nobody may take in, and returns what it and the root say about it.
async fn refused(tree: &LocalTree, config: Config) -> (String, String) {
    let before = tree.handle(0).troubles().len();
    let node = RunningNode::start(config, |_: Told, _: &mut Hand<'_>| {}).unwrap();
    let root = tree.handle(0);
    until("both ends say why", || !node.troubles().is_empty() && root.troubles().len() > before).await;
    assert_eq!(node.parent(), None);
    node.stop();
    let texts = |troubles: Vec<trimtab_link::Trouble>| {
        troubles.into_iter().map(|trouble| format!("{}: {}\n", trouble.with, trouble.what)).collect()
    };
    (texts(node.troubles()), texts(root.troubles().split_off(before)))
}

/// The tree that was there goes on.
async fn goes_on(tree: &LocalTree) {
    let root = tree.handle(0);
    let stream = root.open(sums(1)).unwrap();
    root.multicast(stream, trimtab_reduce::RankSet::one(Rank(0)), vec![]).unwrap();
    assert_eq!(next_result(&tree.root).await.covers.rank_count(), 1);
}

#[test]
fn who_can_not_prove_to_be_of_the_job_is_refused() {
    let now = SystemTime::now();
    let expired = |secret: &JobSecret| Credentials::valid(secret, NodeId(2), now - 3 * DAY, now - DAY);
    let early = |secret: &JobSecret| Credentials::valid(secret, NodeId(2), now + DAY, now + 2 * DAY);
    let stranger = |_: &JobSecret| Credentials::of_job(&JobSecret::new().unwrap(), NodeId(2));
    let another = |secret: &JobSecret| Credentials::of_job(secret, NodeId(1));
    type Make<'a> = &'a dyn Fn(&JobSecret) -> Result<Credentials, LinkError>;
    let rows: [(&str, Make<'_>, &str, &str); 4] = [
        ("another job's secret", &stranger, "invalid peer certificate", ""),
        ("an expired certificate", &expired, "", "expired"),
        ("one that is not valid yet", &early, "", "not valid yet"),
        ("another node's certificate", &another, "refused", "not node 2"),
    ];
    for (name, make, theirs, ours) in rows {
        runtime().block_on(async {
            let (tree, config) = tree_and_config(Edges::Tls).await;
            let credentials = Some(Arc::new(make(&tree.secret).unwrap()));
            let (said, heard) = refused(&tree, Config { credentials, ..config }).await;
            assert!(said.contains(theirs), "{name}: {said}");
            assert!(heard.contains(ours), "{name}: {heard}");
            goes_on(&tree).await;
        });
    }
}

#[test]
fn other_trees_and_places_above_are_refused() {
    for edges in ALL_EDGES {
        runtime().block_on(async {
            let (tree, config) = tree_and_config(edges).await;
            let (said, heard) = refused(&tree, Config { tree: 1, ..config }).await;
            assert!(said.contains("node 0 refused this node"), "{said}");
            assert!(heard.contains("node 2 of tree 1 called for node 0"), "{heard}");
            goes_on(&tree).await;
        });
    }
}

#[test]
fn tcp_without_credentials_can_not_be_had() {
    runtime().block_on(async {
        let (_tree, config) = tree_and_config(Edges::Tls).await;
        let error = RunningNode::start(Config { credentials: None, ..config }, |_: Told, _: &mut Hand<'_>| {});
        let error = error.err().expect("refused").to_string();
        assert!(error.contains("needs credentials"), "{error}");
    });
}

/// Says something to the root over a connection of its own and returns what comes back, until it is closed.
async fn say(root: &Address, bytes: Vec<u8>) -> Vec<u8> {
    let root = root.clone();
    let thread = std::thread::spawn(move || match root {
        Address::Unix(path) => exchange(std::os::unix::net::UnixStream::connect(path).unwrap(), &bytes),
        Address::Tcp(address) => exchange(std::net::TcpStream::connect(address).unwrap(), &bytes),
    });
    until("the connection is closed", || thread.is_finished()).await;
    thread.join().unwrap()
}

fn exchange(mut stream: impl Read + Write, bytes: &[u8]) -> Vec<u8> {
    // The other end may close before it has read everything.
    let _closed = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn garbage_silence_and_other_versions_are_closed_and_said() {
    let hello = Hello { version: VERSION, tree: TREE, from: 2, to: 0, incarnation: 1, role: Role::Leaf };
    let newer = format!("version {} of the protocol, this one {VERSION}", VERSION + 1);
    let with = |hello: Hello, rest: &[u8]| [&hello.encode()[..], rest].concat();
    let endless = vec![0x16; 1 << 20];
    let rows: [(&str, Edges, Vec<u8>, &str); 9] = [
        ("text", Edges::Unix, b"GET / HTTP/1.1\r\n\r\n".to_vec(), "does not speak trimtab's protocol"),
        ("text to TLS", Edges::Tls, b"GET / HTTP/1.1\r\n\r\n".to_vec(), "TLS refused"),
        ("much to TLS", Edges::Tls, endless, "TLS refused"),
        ("no TLS", Edges::Tls, with(hello, b""), "TLS refused"),
        ("silence", Edges::Unix, vec![], "did not say who it is within"),
        ("silence on TCP", Edges::Tls, vec![], "did not say who it is within"),
        ("newer", Edges::Unix, with(Hello { version: VERSION + 1, ..hello }, b""), newer.as_str()),
        ("the controller", Edges::Unix, with(Hello { role: Role::Root, ..hello }, b""), "an address of an earlier run"),
        ("garbage after hello", Edges::Unix, with(hello, &[9; 99]), "not our protocol"),
    ];
    for (name, edges, bytes, expected) in rows {
        runtime().block_on(async {
            let (tree, _) = tree_and_config(edges).await;
            let answer = say(tree.addresses[0].as_ref().unwrap(), bytes).await;
            let root: &Handle = tree.handle(0);
            let all = || root.troubles().into_iter().map(|trouble| trouble.what).collect::<Vec<_>>().join("\n");
            until(&format!("{name}: the root says `{expected}`"), || all().contains(expected)).await;
            if name == "newer" {
                assert_eq!(answer[8..10], VERSION.to_le_bytes(), "so the other end can say that it is newer");
            }
            goes_on(&tree).await;
        });
    }
}

/// An older parent's answer is understood as one, and said in words.
#[test]
fn a_parent_of_another_version_is_named_as_the_reason() {
    runtime().block_on(async {
        let (tree, config) = tree_and_config(Edges::Unix).await;
        let path = tree.folder.path().join("newer");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let hello = Hello { version: VERSION + 1, tree: TREE, from: 0, to: 2, incarnation: 1, role: Role::Root };
            stream.write_all(&hello.encode()).unwrap();
        });
        let contacts = vec![Address::Unix(path).into()];
        let node = RunningNode::start(Config { contacts, ..config }, |_: Told, _: &mut Hand<'_>| {}).unwrap();
        let both = format!("the other end speaks version {} of the protocol, this one {VERSION}", VERSION + 1);
        let expected = format!("{both}: run the same trimtab on both ends");
        until("the node says why", || node.troubles().iter().any(|trouble| trouble.what == expected)).await;
        node.stop();
        answering.join().unwrap();
    });
}

/// A byte that is changed on the way ends the connection, which its node makes anew, and no sum is wrong or lost.
#[test]
fn a_record_that_is_changed_on_the_way_ends_its_connection() {
    runtime().block_on(async {
        let mut tree = LocalTree::start(Tree::balanced(1, 1).unwrap(), Edges::Tls, Leaves::Always, patient()).await;
        tree.handles[1].take().expect("it runs").stop();
        let root = tree.handle(0).clone();
        until("the first leaf is gone", || root.link_count() == 0).await;
        let Some(Address::Tcp(behind)) = tree.addresses[0].clone() else { panic!("TCP") };
        let changes = Arc::new(AtomicBool::new(false));
        tree.addresses[0] = Some(Address::Tcp(between(behind, changes.clone()).await));
        tree.grow(NodeId(1), false, Leaves::Always).await;
        until("the leaf is in the tree", || root.link_count() == 1 && root.members().rank_count() == 1).await;
        root.open(sums(1)).unwrap();
        let mut waves = BTreeSet::new();
        while waves.last() < Some(&400) || waves.len() <= waves.last().map_or(0, |last| *last as usize) {
            if waves.len() % 200 == 100 {
                changes.store(true, Relaxed);
                until("a byte is changed", || !changes.load(Relaxed)).await;
            }
            let result = next_result(&tree.root).await;
            assert!(waves.insert(result.wave), "wave {} came twice", result.wave);
            assert_eq!(Total.decode(&result.value), Ok(sum_of(&result.covers, result.wave)));
            assert_eq!(result.covers.rank_count(), 1);
        }
        let is_said = || root.troubles().iter().any(|trouble| trouble.what.contains("cannot decrypt"));
        until("the root says why", is_said).await;
    });
}

/// An address that passes connections on, and changes a byte of a caller's when it is told to.
async fn between(behind: SocketAddr, changes: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (calls, answers_to) = listener.accept().await.unwrap().0.into_split();
            let (answers, calls_to) = TcpStream::connect(behind).await.unwrap().into_split();
            tokio::spawn(pass(calls, calls_to, changes.clone()));
            tokio::spawn(pass(answers, answers_to, Arc::default()));
        }
    });
    at
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, changes: Arc<AtomicBool>) {
    let mut bytes = vec![0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        bytes[count - 1] ^= u8::from(changes.swap(false, Relaxed));
        if to.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
}

/// Another user.
const NOBODY: u32 = 65534;

/// A program of another user; none, and said, where that can't be had.
fn of_another_user(test: &str, script: &str, socket: &Path) -> Option<Child> {
    if std::fs::metadata("/proc/self").map(|me| std::os::unix::fs::MetadataExt::uid(&me)).ok() != Some(0) {
        skip(test, "only root can start a process of another user: run the tests as root");
        return None;
    }
    let mut child = Command::new("python3");
    child.args(["-c", script]).arg(socket).uid(NOBODY).current_dir("/").stdin(Stdio::null());
    let child = child.spawn().ok();
    if child.is_none() {
        skip(test, "python3 can't be started: install python3");
    }
    child
}

/// A client of a Unix socket, which ends with the number of bytes that it was sent.
const LISTEN_TO: &str = "import socket,sys; s=socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1]); sys.exit(len(s.recv(99)))";

/// A process of another user finds the socket and is not heard.
#[test]
fn another_user_is_refused() {
    runtime().block_on(async {
        let (tree, _) = tree_and_config(Edges::Unix).await;
        let open = || std::os::unix::fs::PermissionsExt::from_mode(0o777);
        let Some(Address::Unix(path)) = &tree.addresses[0] else { panic!("a Unix socket") };
        std::fs::set_permissions(tree.folder.path(), open()).unwrap();
        std::fs::set_permissions(path, open()).unwrap();
        let Some(mut child) = of_another_user("another_user_is_refused", LISTEN_TO, path) else { return };
        let mut status = None;
        until("the connection is closed", || {
            status = child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        assert_eq!(status.and_then(|status| status.code()), Some(0), "nothing is said to another user");
        let root = tree.handle(0);
        let users = "runs as user 65534, this one as user 0";
        until("the root says who it was", || root.troubles().iter().any(|trouble| trouble.what.contains(users))).await;
        goes_on(&tree).await;
    });
}

/// Certificates of a site, as its administrators make them.
#[test]
fn a_site_s_own_certificates_work_and_another_site_s_do_not() {
    let folder = tempfile::tempdir().unwrap();
    for site in ["here", "there"] {
        if let Err(reason) = make_site(folder.path(), site) {
            return skip("a_site_s_own_certificates_work_and_another_site_s_do_not", &reason);
        }
    }
    let file = |site: &str, name: &str| folder.path().join(format!("{site}-{name}.pem"));
    let of = |site, may_call| {
        let certificate = |name| CertificateDer::from_pem_file(file(site, name)).unwrap();
        let key = PrivateKeyDer::from_pem_file(file(site, "key")).unwrap();
        Credentials::of_site(SiteIdentity {
            authority: certificate("ca"),
            chain: vec![certificate("cert")],
            key,
            may_call,
            verifiers: None,
        })
    };
    runtime().block_on(async {
        let tree = Tree::balanced(1, 1).unwrap();
        let mut tree = LocalTree::start(tree, Edges::Tls, Leaves::OnCommand, patient()).await;
        let here = Arc::new(of("here", |_| true).unwrap());
        let root = Config { credentials: Some(here.clone()), ..tree.config(NodeId::ROOT, true).await };
        let root = RunningNode::start(root, |_: Told, _: &mut Hand<'_>| {}).unwrap();
        let leaf = Config { credentials: Some(here), ..tree.config(NodeId(1), false).await };
        let leaf = RunningNode::start(leaf, |_: Told, _: &mut Hand<'_>| {}).unwrap();
        until("the leaf joins", || root.members().rank_count() == 1).await;
        leaf.stop();
        let there = Some(Arc::new(of("there", |_| true).unwrap()));
        let foreign = Config { credentials: there, ..tree.config(NodeId(1), false).await };
        let foreign = RunningNode::start(foreign, |_: Told, _: &mut Hand<'_>| {}).unwrap();
        until("it says why", || foreign.troubles().iter().any(|trouble| trouble.what.contains("TLS refused"))).await;
        assert_eq!(foreign.parent(), None);
        // The site's authority vouches for people too, and these are no nodes.
        let picky = Some(Arc::new(of("here", |_| false).unwrap()));
        let root = Config { credentials: picky.clone(), ..tree.config(NodeId::ROOT, true).await };
        let root = RunningNode::start(root, |_: Told, _: &mut Hand<'_>| {}).unwrap();
        let person = Config { credentials: picky, ..tree.config(NodeId(1), false).await };
        let person = RunningNode::start(person, |_: Told, _: &mut Hand<'_>| {}).unwrap();
        let is_said = || root.troubles().iter().any(|trouble| trouble.what.contains("is not node 1"));
        until("the root says who it was not", is_said).await;
        assert_eq!(person.parent(), None);
    });
}

/// An authority and a host's certificate, by the tool that everybody has.
fn make_site(folder: &Path, site: &str) -> Result<(), String> {
    let script = format!(
        "set -e; umask 077
        openssl req -x509 -newkey ed25519 -nodes -keyout {site}-cakey.pem -out {site}-ca.pem -subj '/CN={site}' -days 2
        openssl req -newkey ed25519 -nodes -keyout {site}-key.pem -out {site}.csr -subj '/CN=host'
        printf 'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth,clientAuth\\n' > {site}.ext
        openssl x509 -req -in {site}.csr -CA {site}-ca.pem -CAkey {site}-cakey.pem -CAcreateserial \
            -out {site}-cert.pem -days 2 -extfile {site}.ext"
    );
    let output = Command::new("sh").args(["-c", &script]).current_dir(folder).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run sh: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("openssl: {}: install openssl", errors.trim())) }
}
