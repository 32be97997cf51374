//! Whole trees for tests: every node in one runtime, a real socket for each edge.
//!
//! A leaf contributes to the next wave whenever a command comes, or whenever it may. Its value is a function of rank and
//! wave, so every result can be checked.
//!
//! Next: `tree.rs` for trees that must work, `refused.rs` for connections that must not.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::sync::Arc;
use std::time::{Duration, Instant};
use trimtab_link::{
    Address, Config, Contact, Credentials, Hand, Handle, Inbox, JobSecret, Listener, RunningNode, inbox,
};
use trimtab_overlay::node::WaveResult;
use trimtab_overlay::{NodeId, Setup, StreamSpec, Timing, Told};
use trimtab_reduce::{Filter, RankSet};
use trimtab_sim::{PATIENT, Total, Tree, contribution};
use trimtab_types::Rank;

/// Anything that takes longer hangs.
pub const HANG: Duration = Duration::from_secs(120);
/// The number of every tree here.
pub const TREE: u64 = 0x7ee;

/// The transport of a tree's edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    Unix,
    Tls,
}

/// All there are.
pub const ALL_EDGES: [Edges; 2] = [Edges::Unix, Edges::Tls];

/// When leaves contribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    OnCommand,
    Always,
}

/// A tree whose nodes all run here.
pub struct LocalTree {
    pub tree: Tree,
    pub secret: JobSecret,
    pub edges: Edges,
    pub timing: Timing,
    pub folder: tempfile::TempDir,
    pub addresses: Vec<Option<Address>>,
    pub handles: Vec<Option<Handle>>,
    pub root: Inbox,
}

/// The value that a rank contributes to a wave.
pub fn value_of(rank: Rank, wave: u64) -> i128 {
    i128::from(rank.0 + 1) * i128::from(wave + 3)
}

/// The sum of the values of some ranks.
pub fn sum_of(ranks: &RankSet, wave: u64) -> i128 {
    ranks.iter().map(|rank| value_of(rank, wave)).sum()
}

/// A stream that sums over all leaves.
pub fn sums(leaf_count: u32) -> StreamSpec {
    let target = RankSet::range(Rank(0), Rank(leaf_count - 1));
    StreamSpec { target, filter: Total::spec(), sync: PATIENT }
}

/// A runtime as every node has it.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A node's place in a tree.
pub fn setup(tree: &Tree, node: NodeId, timing: Timing) -> Setup {
    Setup {
        id: node,
        incarnation: trimtab_link::incarnation_now(),
        ancestors: tree.ancestors(node),
        ranks: tree.ranks(node),
        timing,
        registry: Arc::new(contribution::registry()),
    }
}

/// Times for machines on which many tests run at once.
pub fn patient() -> Timing {
    Timing { silence_us_max: 5_000_000, answer_us_max: 3_000_000, return_us: 20_000_000, ..Timing::default() }
}

/// Waits for a condition.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < HANG, "{what}: not within {HANG:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The next result at the root.
pub async fn next_result(root: &Inbox) -> WaveResult {
    loop {
        let told = tokio::time::timeout(HANG, root.next()).await.expect("a result before it counts as hanging");
        if let Told::Result(result) = told.expect("the root runs") {
            return *result;
        }
    }
}

/// A leaf's program.
pub fn leaf(rank: Rank, when: Leaves) -> impl FnMut(Told, &mut Hand<'_>) + Send {
    let mut waves = std::collections::BTreeMap::new();
    move |told, hand| {
        let (stream, contributes_below) = match told {
            Told::Opened { stream, wave, .. } => {
                waves.insert(stream, wave);
                return;
            }
            Told::Command { stream, .. } if when == Leaves::OnCommand => {
                (stream, waves.get(&stream).map_or(0, |wave| wave + 1))
            }
            Told::Window { stream, below } if when == Leaves::Always => (stream, below),
            _ => return,
        };
        let Some(next) = waves.get_mut(&stream) else { return };
        while *next < contributes_below {
            let value = Total.encode(&value_of(rank, *next)).unwrap();
            hand.contribute(stream, *next, &value).unwrap();
            *next += 1;
        }
    }
}

impl LocalTree {
    /// Starts all nodes, each parent before its children.
    pub async fn start(tree: Tree, edges: Edges, when: Leaves, timing: Timing) -> LocalTree {
        let (filler, root) = inbox();
        let count = tree.node_count();
        let mut tree = LocalTree {
            secret: JobSecret::new().unwrap(),
            folder: tempfile::tempdir().unwrap(),
            addresses: vec![None; count],
            handles: (0..count).map(|_| None).collect(),
            tree,
            edges,
            timing,
            root,
        };
        let config = tree.config(NodeId::ROOT, true).await;
        tree.handles[0] = Some(RunningNode::start(config, filler).unwrap());
        let inner = tree.tree.is_inner();
        for node in tree.tree.nodes().skip(1) {
            tree.grow(node, inner[node.0 as usize], when).await;
        }
        tree
    }

    /// Starts a node, again.
    pub async fn grow(&mut self, node: NodeId, is_inner: bool, when: Leaves) {
        let config = self.config(node, is_inner).await;
        let handle = match self.tree.ranks(node).lowest() {
            Some(rank) => RunningNode::start(config, leaf(rank, when)),
            None => RunningNode::start(config, |_: Told, _: &mut Hand<'_>| {}),
        };
        self.handles[node.0 as usize] = Some(handle.unwrap());
    }

    pub async fn config(&mut self, node: NodeId, is_inner: bool) -> Config {
        let ancestors = self.tree.ancestors(node);
        let listener = if is_inner { Some(self.listen(node).await) } else { None };
        if let Some(listener) = &listener {
            self.addresses[node.0 as usize] = Some(listener.address().clone());
        }
        let address = |id: &NodeId| self.addresses[id.0 as usize].clone().expect("parents are started first");
        let contacts = ancestors.iter().map(address).map(Contact::from).collect();
        let credentials =
            (self.edges != Edges::Unix).then(|| Arc::new(Credentials::of_job(&self.secret, node).unwrap()));
        let setup = setup(&self.tree, node, self.timing);
        Config { setup, tree: TREE, listener, contacts, credentials }
    }

    async fn listen(&self, node: NodeId) -> Listener {
        let address = match self.edges {
            Edges::Unix => Address::Unix(self.folder.path().join(node.to_string())),
            Edges::Tls => Address::Tcp("127.0.0.1:0".parse().unwrap()),
        };
        Listener::bind(&address).await.unwrap()
    }

    pub fn handle(&self, node: u32) -> &Handle {
        self.handles[node as usize].as_ref().expect("it runs")
    }

    /// Waits until so many ranks are in the tree.
    pub async fn full(&self, leaf_count: u32) {
        let root = self.handle(0);
        until("all leaves in the tree", || root.members().rank_count() == u64::from(leaf_count)).await;
    }
}
