//! Payloads that are narrowed on the way down are never missed: whoever comes to a node at the wrong moment asks
//! further up.
//!
//! Next: `trimtab-sim`, where nodes die and move while commands flow.

use std::collections::BTreeMap;
use std::sync::Arc;
use trimtab_overlay::frame::{Accept, Body, Command, Cursor, Join, Link, OpenStream, Ordered, Snapshot};
use trimtab_overlay::stream::Down;
use trimtab_overlay::{Action, Event, Frame, Node, NodeId, Setup, StreamSpec, Sync, Timing, Told};
use trimtab_reduce::down::{parts_of, scatter};
use trimtab_reduce::{FilterSpec, RankSet, Registry};
use trimtab_types::Rank;

const LINK: Link = Link { incarnation: 1, number: 0 };

fn node(id: u32, ancestors: &[u32], ranks: RankSet) -> Node {
    let ancestors = ancestors.iter().copied().map(NodeId).collect();
    let (timing, registry) = (Timing::default(), Arc::new(Registry::default()));
    let mut node = Node::new(Setup { id: NodeId(id), incarnation: 1, ancestors, ranks, timing, registry });
    node.handle(1, Event::Time);
    node
}

fn ranks(first: u32, last: u32) -> RankSet {
    RankSet::range(Rank(first), Rank(last))
}

fn spec() -> StreamSpec {
    StreamSpec { target: ranks(0, 9), filter: FilterSpec::Sum, sync: Sync::WaitForAll, down: Down::Scatter }
}

fn opened() -> OpenStream {
    OpenStream { stream: 0, spec: spec(), below: 0, sent: 0 }
}

fn parts(of: &RankSet) -> BTreeMap<Rank, Vec<u8>> {
    of.iter().map(|rank| (rank, vec![rank.0 as u8; 5])).collect()
}

/// Something comes from another node.
fn hears(node: &mut Node, now_us: u64, from: u32, body: Body) -> Vec<Action> {
    node.handle(now_us, Event::Frame { from: NodeId(from), frame: Frame { link: LINK, body } })
}

fn join(node: &mut Node, now_us: u64, child: u32, of: RankSet, cursor: Cursor) -> Vec<Action> {
    hears(node, now_us, child, Body::Join(Box::new(Join { cursor, ranks: of, distance: 0 })))
}

/// The frames that a node is sent.
fn sent(actions: &[Action], whom: u32) -> Vec<Body> {
    let bodies = actions.iter().filter_map(|action| match action {
        Action::Send { to, frame } if *to == NodeId(whom) => Some(frame.body.clone()),
        _ => None,
    });
    bodies.collect()
}

/// The payloads that a node is sent: for whom, without whose parts, and whose parts are in it.
fn data(actions: &[Action], whom: u32) -> Vec<(RankSet, RankSet, Vec<u32>)> {
    let commands = sent(actions, whom).into_iter().filter_map(|body| match body {
        Body::Ordered(_, Ordered::Command(_, command)) => Some(command),
        _ => None,
    });
    let data = commands.filter_map(|command| match &*command {
        Command::Data { to, cut, payload, .. } => {
            let parts = parts_of(payload, &ranks(0, 99)).expect("parts");
            Some((to.clone(), cut.clone(), parts.into_keys().map(|rank| rank.0).collect()))
        }
        _ => None,
    });
    data.collect()
}

/// A node between the root and leaves that has joined the root, where a stream is open.
fn inner() -> Node {
    let mut inner = node(1, &[0], RankSet::EMPTY);
    let cursor = Cursor { reign: 1, sequence: 7 };
    let fresh = Some(Snapshot { cursor, streams: vec![opened()] });
    hears(&mut inner, 2, 0, Body::Accept(Box::new(Accept { depth: 1, pulse: 1, fresh })));
    assert!(inner.is_attached());
    inner
}

/// The first command after those that a node began with.
fn command(to: RankSet, cut: RankSet) -> Body {
    let payload = scatter(&parts(&to)).expect("parts");
    Body::Ordered(0, Ordered::Command(8, Command::Data { stream: 0, to, cut, payload }.into()))
}

#[test]
fn each_child_gets_the_parts_of_its_ranks_and_of_those_who_are_nowhere() {
    let mut root = node(0, &[], RankSet::EMPTY);
    let (stream, _) = root.open(2, spec()).expect("room");
    join(&mut root, 3, 1, ranks(0, 3), Cursor::default());
    join(&mut root, 4, 2, ranks(4, 6), Cursor::default());
    let payload = scatter(&parts(&ranks(0, 9))).expect("parts");
    let actions = root.multicast(5, stream, ranks(0, 8), payload).expect("room");
    assert_eq!(data(&actions, 1), [(ranks(0, 3).union(&ranks(7, 8)), ranks(4, 6), vec![0, 1, 2, 3, 7, 8])]);
    assert_eq!(data(&actions, 2), [(ranks(4, 8), ranks(0, 3), vec![4, 5, 6, 7, 8])]);
}

#[test]
fn a_payload_that_can_not_be_narrowed_is_refused_at_the_root() {
    let mut root = node(0, &[], RankSet::EMPTY);
    let (stream, _) = root.open(2, spec()).expect("room");
    assert!(root.multicast(3, stream, ranks(0, 8), vec![0xff; 9]).is_err());
    let own = StreamSpec { down: Down::Own { name: "nobody's".into(), parameters: vec![] }, ..spec() };
    assert!(root.open(4, own).is_err(), "a filter that is not there");
}

#[test]
fn a_child_that_lacks_a_part_which_is_no_longer_here_is_not_adopted() {
    let mut inner = inner();
    let cursor = Cursor { reign: 1, sequence: 7 };
    // It has acknowledged nothing, so that the command stays.
    join(&mut inner, 3, 5, ranks(0, 1), cursor);
    hears(&mut inner, 4, 0, command(ranks(0, 4), ranks(5, 9)));
    let refused = join(&mut inner, 5, 6, ranks(5, 5), cursor);
    assert_eq!(sent(&refused, 6), [Body::Refuse]);
    let adopted = join(&mut inner, 6, 7, ranks(2, 2), cursor);
    assert_eq!(data(&adopted, 7), [(ranks(2, 4), ranks(0, 1).union(&ranks(5, 9)), vec![2, 3, 4])]);
    let adopted = join(&mut inner, 7, 6, ranks(5, 5), Cursor { sequence: 8, ..cursor });
    assert!(matches!(sent(&adopted, 6)[..], [Body::Accept(_)]), "it has that command already");
}

#[test]
fn a_leaf_whose_part_was_cut_away_asks_further_up_and_others_keep_what_it_lacks() {
    let mut leaf = node(3, &[1, 0], ranks(2, 2));
    let cursor = Cursor { reign: 1, sequence: 7 };
    let fresh = Some(Snapshot { cursor, streams: vec![opened()] });
    hears(&mut leaf, 2, 1, Body::Accept(Box::new(Accept { depth: 2, pulse: 1, fresh })));
    let actions = hears(&mut leaf, 3, 1, command(ranks(0, 1), ranks(2, 9)));
    assert!(!actions.iter().any(|action| matches!(action, Action::Tell(Told::Command { .. }))), "{actions:?}");
    assert_eq!(sent(&actions, 1), [Body::Stranger], "the parent keeps its log, as for a lost child");
    assert!(matches!(&sent(&actions, 0)[..], [Body::Join(join)] if join.cursor == cursor), "{actions:?}");
    assert_eq!((leaf.counts().cut, leaf.parent()), (1, None));

    // From the root it gets the same command whole.
    let link = Link { incarnation: 1, number: 1 };
    let accept = Body::Accept(Box::new(Accept { depth: 1, pulse: 1, fresh: None }));
    for (now_us, body) in [(4, accept), (5, command(ranks(0, 9), RankSet::EMPTY))] {
        let actions = leaf.handle(now_us, Event::Frame { from: NodeId::ROOT, frame: Frame { link, body } });
        let told = actions.iter().find_map(|action| match action {
            Action::Tell(Told::Command { payload, .. }) => Some(payload.clone()),
            _ => None,
        });
        let part = scatter(&parts(&ranks(2, 2))).expect("parts");
        assert_eq!(told, (now_us == 5).then_some(part));
    }
}
