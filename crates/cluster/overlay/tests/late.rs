//! Nodes with few turns on their processors: who is late is not taken for dead, and doesn't take others for it.
//!
//! Next: `trimtab-sim`, where nodes do die.

use std::sync::Arc;
use trimtab_overlay::frame::{Accept, Body, Cursor, Join, Link, Ordered, Snapshot};
use trimtab_overlay::{Action, Event, Frame, Node, NodeId, Setup, Timing};
use trimtab_reduce::{RankSet, Registry};
use trimtab_types::Rank;

fn node(id: u32, ancestors: &[u32]) -> Node {
    let ancestors = ancestors.iter().copied().map(NodeId).collect();
    let (timing, registry) = (Timing::default(), Arc::new(Registry::default()));
    let ranks = RankSet::EMPTY;
    Node::new(Setup { id: NodeId(id), incarnation: 1, ancestors, ranks, timing, registry })
}

fn hears(node: &mut Node, now_us: u64, from: u32, number: u32, body: Body) -> Vec<Action> {
    let link = Link { incarnation: 1, number };
    node.handle(now_us, Event::Frame { from: NodeId(from), frame: Frame { link, body } })
}

/// To whom a node says that it wants to join, and with which number.
fn asked(actions: &[Action]) -> Vec<(u32, u32)> {
    let asked = actions.iter().filter_map(|action| match action {
        Action::Send { to, frame: Frame { link, body: Body::Join(_) } } => Some((to.0, link.number)),
        _ => None,
    });
    asked.collect()
}

fn leaves(actions: &[Action]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Send { frame: Frame { body: Body::Leave, .. }, .. }))
}

fn accept() -> Body {
    let fresh = Some(Snapshot { cursor: Cursor { epoch: 1, sequence: 0 }, streams: Vec::new() });
    Body::Accept(Box::new(Accept { depth: 1, pulse: 1, fresh }))
}

/// Lets time pass until `until_us`, the node waking when it wants to; whom it has asked.
fn passes(node: &mut Node, until_us: u64) -> Vec<(u32, u32)> {
    let mut all = Vec::new();
    while node.wake_at_us() <= until_us {
        let at_us = node.wake_at_us();
        let actions = node.handle(at_us, Event::Time);
        all.extend(asked(&actions));
        assert!(node.wake_at_us() > at_us, "it does not wake again and again");
    }
    all
}

#[test]
fn an_only_parent_may_answer_after_the_time_it_has() {
    let timing = Timing::default();
    let mut child = node(1, &[0]);
    assert_eq!(asked(&child.handle(1, Event::Time)), [(0, 0)]);
    let paused_us = timing.answer_us_max + timing.retry_us / 2;
    assert_eq!(passes(&mut child, paused_us), [], "nobody else can be asked");
    assert!(!child.is_attached());
    assert!(!leaves(&hears(&mut child, paused_us, 0, 0, accept())));
    assert!(child.is_attached());
}

#[test]
fn who_was_asked_again_must_answer_that() {
    let timing = Timing::default();
    let mut child = node(1, &[0]);
    child.handle(1, Event::Time);
    let again_us = timing.answer_us_max + timing.retry_us + 10;
    assert_eq!(passes(&mut child, again_us), [(0, 1)]);
    assert!(leaves(&hears(&mut child, again_us, 0, 0, accept())), "the answer to the first question");
    assert!(!child.is_attached());
    hears(&mut child, again_us, 0, 1, accept());
    assert!(child.is_attached());
}

#[test]
fn who_has_others_to_ask_waits_no_longer_than_before() {
    let timing = Timing::default();
    let mut child = node(2, &[1, 0]);
    assert_eq!(asked(&child.handle(1, Event::Time)), [(1, 0)]);
    assert_eq!(passes(&mut child, timing.answer_us_max + 10), [(0, 1)]);
    assert!(leaves(&hears(&mut child, timing.answer_us_max + 10, 1, 0, accept())), "it has asked another since");
    // The last one is too late as well, and comes in the pause.
    let paused_us = 2 * timing.answer_us_max + timing.retry_us / 2;
    assert_eq!(passes(&mut child, paused_us), []);
    hears(&mut child, paused_us, 0, 1, accept());
    assert_eq!(child.parent(), Some(NodeId(0)));
}

#[test]
fn one_that_refuses_in_the_pause_is_asked_in_the_next_round() {
    let timing = Timing::default();
    let mut child = node(1, &[0]);
    child.handle(1, Event::Time);
    let paused_us = timing.answer_us_max + timing.retry_us / 2;
    passes(&mut child, paused_us);
    assert_eq!(asked(&hears(&mut child, paused_us, 0, 0, Body::Refuse)), []);
    assert_eq!(passes(&mut child, timing.answer_us_max + timing.retry_us + 10), [(0, 1)]);
}

/// A root with children 1 and 2, who were heard at `at_us`.
fn root(at_us: u64) -> Node {
    let mut root = node(0, &[]);
    root.handle(1, Event::Time);
    for child in [1, 2] {
        let join = Join { cursor: Cursor::default(), ranks: RankSet::one(Rank(child)), distance: 0 };
        hears(&mut root, at_us, child, 0, Body::Join(Box::new(join)));
    }
    root
}

fn beat(root: &mut Node, now_us: u64, child: u32, order: u32) {
    hears(root, now_us, child, 0, Body::Ordered(order, Ordered::Beat(Cursor { epoch: 1, sequence: 0 })));
}

#[test]
fn a_node_that_had_no_turn_takes_nobody_for_silent() {
    let silence_us = Timing::default().silence_us_max;
    let mut stalled = root(10);
    // All that its children said meanwhile is read now, one after the other.
    let late_us = 10 + 2 * silence_us;
    beat(&mut stalled, late_us, 1, 0);
    assert_eq!(stalled.children().count(), 2, "the other one's is still to be read");
    beat(&mut stalled, late_us + 1, 2, 0);
    passes(&mut stalled, late_us + silence_us / 2);
    assert_eq!(stalled.children().count(), 2);
    // From then on silence is silence.
    passes(&mut stalled, late_us + 2 * silence_us);
    assert_eq!(stalled.children().count(), 0);
}

#[test]
fn a_child_that_is_silent_while_its_parent_has_its_turns_is_lost() {
    let silence_us = Timing::default().silence_us_max;
    let mut root = root(10);
    for (order, at_us) in (0..).zip((10..10 + 2 * silence_us).step_by(50_000)) {
        passes(&mut root, at_us);
        beat(&mut root, at_us, 1, order);
    }
    assert_eq!(root.children().collect::<Vec<_>>(), [NodeId(1)]);
}
