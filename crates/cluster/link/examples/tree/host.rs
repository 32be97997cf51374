//! Some nodes of a tree in one process: leaves that contribute, and inner nodes.
//!
//! It says `listening NODE ADDRESS` for each inner node and `ready` when all have begun, and ends when its standard
//! input does, so that nothing outlives the controller.
//!
//! Next: `plan` for its input.

use crate::Outcome;
use crate::plan::Plan;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;
use trimtab_link::blocking::Hosted;
use trimtab_link::{Config, Contact, Credentials, Hand, Listener, Owner, RunningNode, incarnation_now};
use trimtab_overlay::{NodeId, Setup, Told};
use trimtab_reduce::{Filter, RankSet, Registry};
use trimtab_sim::{Total, Tree, contribution};
use trimtab_types::Rank;

/// The value that a rank contributes to a wave.
pub fn value_of(rank: Rank, wave: u64) -> i128 {
    i128::from(rank.0 + 1) * i128::from(wave + 3)
}

/// The sum of the values of some ranks.
pub fn sum_of(ranks: &RankSet, wave: u64) -> i128 {
    let (Some(first), Some(last)) = (ranks.lowest(), ranks.highest()) else { return 0 };
    let count = ranks.rank_count();
    if count == u64::from(last.0 - first.0) + 1 {
        // Without gaps, as nearly always: twice the mean times the count is even.
        return i128::from(first.0 + 1 + last.0 + 1) * i128::from(count) / 2 * i128::from(wave + 3);
    }
    ranks.iter().map(|rank| value_of(rank, wave)).sum()
}

/// Hosts the nodes that standard input names.
pub fn run() -> Outcome {
    let plan = Plan::read(&mut std::io::stdin().lock())?;
    std::thread::spawn(|| {
        // Only the end of the input matters.
        let mut rest = [0; 64];
        while std::io::stdin().lock().read(&mut rest).is_ok_and(|count| count > 0) {}
        std::process::exit(0);
    });
    if plan.hosted.1 == 1 {
        return run_one(&plan);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        start_all(&plan).await?;
        std::future::pending().await
    })
}

/// One node, as an agent has it: on a thread of its own.
fn run_one(plan: &Plan) -> Outcome {
    let (tree, node) = (plan.tree()?, NodeId(plan.hosted.0));
    let listen = tree.is_inner()[node.0 as usize].then(|| plan.listen(node));
    let config = config(plan, &tree, node, None, Arc::new(contribution::registry()))?;
    let hosted = match tree.ranks(node).lowest() {
        Some(rank) => Hosted::start(config, listen, Leaf::new(rank, plan.flow))?,
        None => Hosted::start(config, listen, |_: Told, _: &mut Hand<'_>| {})?,
    };
    let mut out = std::io::stdout().lock();
    if let Some(address) = hosted.address() {
        writeln!(out, "listening {} {address}", node.0)?;
    }
    writeln!(out, "ready")?;
    out.flush()?;
    loop {
        std::thread::park();
    }
}

async fn start_all(plan: &Plan) -> Outcome {
    let tree = plan.tree()?;
    let (is_inner, registry) = (tree.is_inner(), Arc::new(contribution::registry()));
    let mut out = std::io::stdout().lock();
    for node in (plan.hosted.0..plan.hosted.0 + plan.hosted.1).map(NodeId) {
        let listener = match is_inner[node.0 as usize] {
            true => Some(Listener::bind(&plan.listen(node)).await?),
            false => None,
        };
        if let Some(listener) = &listener {
            writeln!(out, "listening {} {}", node.0, listener.address())?;
        }
        let config = config(plan, &tree, node, listener, registry.clone())?;
        match tree.ranks(node).lowest() {
            Some(rank) => RunningNode::start(config, Leaf::new(rank, plan.flow))?,
            None => RunningNode::start(config, |_: Told, _: &mut Hand<'_>| {})?,
        };
    }
    writeln!(out, "ready")?;
    Ok(out.flush()?)
}

/// One node's configuration.
pub fn config(
    plan: &Plan,
    tree: &Tree,
    node: NodeId,
    listener: Option<Listener>,
    registry: Arc<Registry>,
) -> Outcome<Config> {
    let ancestors = tree.ancestors(node);
    let contact = |id: &NodeId| plan.at.get(id).cloned().map(Contact::from).ok_or(format!("{id} is nowhere"));
    let contacts = ancestors.iter().map(contact).collect::<Result<_, _>>()?;
    let credentials = plan.secret.as_ref().map(|secret| Credentials::of_job(secret, node)).transpose()?.map(Arc::new);
    let (ranks, timing) = (tree.ranks(node), plan.timing());
    let setup = Setup { id: node, incarnation: incarnation_now(), ancestors, ranks, timing, registry };
    Ok(Config { setup, tree: plan.number, listener, contacts, credentials })
}

/// A leaf's program: a contribution for each command, or to each wave that it may.
pub struct Leaf {
    rank: Rank,
    flow: bool,
    streams: BTreeMap<u32, Due>,
}

/// Where a leaf is in a stream.
struct Due {
    next: u64,
    /// Contributions that were asked for end before this wave.
    asked_below: u64,
    /// The tree takes those before this one.
    open_below: u64,
}

impl Leaf {
    /// One that hasn't contributed.
    pub fn new(rank: Rank, flow: bool) -> Leaf {
        Leaf { rank, flow, streams: BTreeMap::new() }
    }
}

impl Owner for Leaf {
    fn told(&mut self, told: Told, hand: &mut Hand<'_>) {
        let stream = match told {
            Told::Opened { stream, wave, .. } => {
                let asked_below = if self.flow { u64::MAX } else { wave };
                self.streams.insert(stream, Due { next: wave, asked_below, open_below: wave });
                stream
            }
            Told::Command { stream, .. } => {
                if let Some(due) = self.streams.get_mut(&stream) {
                    due.asked_below = due.asked_below.saturating_add(1);
                }
                stream
            }
            Told::Window { stream, below } => {
                if let Some(due) = self.streams.get_mut(&stream) {
                    due.open_below = below;
                }
                stream
            }
            _ => return,
        };
        let Some(due) = self.streams.get_mut(&stream) else { return };
        let below = due.asked_below.min(due.open_below);
        for wave in due.next..below {
            // A number always has bytes, and waves that are over need nothing of this leaf.
            let _over = Total.encode(&value_of(self.rank, wave)).map(|value| hand.contribute(stream, wave, &value));
        }
        due.next = due.next.max(below);
    }
}
