//! Trees over real sockets: they come about, commands arrive, sums are exact, also after a node is lost.
//!
//! Next: `common` for how a tree is made, `refused.rs` for connections that are refused.

mod common;

use common::*;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use trimtab_link::blocking::Blocking;
use trimtab_link::{Address, Config, Credentials, Hand, LinkError, RunningNode, inbox};
use trimtab_overlay::Frame;
use trimtab_overlay::frame::Body;
use trimtab_overlay::limits::PAYLOAD_BYTES_MAX;
use trimtab_overlay::{NodeId, Setup, StreamSpec, Timing, Told};
use trimtab_reduce::lists::Concat;
use trimtab_reduce::{Filter, FilterSpec, RankSet};
use trimtab_sim::{PATIENT, Total, Tree};
use trimtab_types::Rank;
use trimtab_wire::{Decoder, HelloReader};

#[test]
fn a_multicast_is_answered_by_an_exact_sum() {
    for edges in ALL_EDGES {
        runtime().block_on(async {
            let tree = LocalTree::start(Tree::balanced(3, 9).unwrap(), edges, Leaves::OnCommand, patient()).await;
            tree.full(9).await;
            let root = tree.handle(0);
            let stream = root.open(sums(9)).unwrap();
            let all = RankSet::range(Rank(0), Rank(8));
            for wave in 0..50 {
                root.multicast(stream, all.clone(), vec![wave as u8]).unwrap();
                let result = next_result(&tree.root).await;
                assert_eq!((result.wave, &result.covers), (wave, &all), "{edges:?}");
                assert_eq!(Total.decode(&result.value), Ok(sum_of(&all, wave)), "{edges:?} {wave}");
            }
        });
    }
}

#[test]
fn waves_flow_in_order_and_none_is_lost() {
    for edges in ALL_EDGES {
        runtime().block_on(async {
            let tree = LocalTree::start(Tree::balanced(4, 14).unwrap(), edges, Leaves::Always, patient()).await;
            tree.full(14).await;
            let stream = tree.handle(0).open(sums(14)).unwrap();
            for wave in 0..300 {
                let result = next_result(&tree.root).await;
                assert_eq!((result.stream, result.wave), (stream, wave));
                assert_eq!(Total.decode(&result.value), Ok(sum_of(&result.covers, wave)));
                assert!(result.missing.is_empty());
            }
            assert_eq!(tree.root.dropped_count(), 0);
        });
    }
}

/// Beats so far apart that what is left until the next one is noticed.
fn far_beats() -> Timing {
    Timing { beat_us: 60_000_000, silence_us_max: 200_000_000, ..patient() }
}

/// The kernel says once that bytes have come. They are never left until the next beat, which is far away here.
#[test]
fn nothing_that_has_come_waits_for_a_beat() {
    let timing = far_beats();
    for edges in ALL_EDGES {
        runtime().block_on(async {
            let tree = LocalTree::start(Tree::balanced(8, 20).unwrap(), edges, Leaves::OnCommand, timing).await;
            tree.full(20).await;
            let root = tree.handle(0);
            let stream = root.open(sums(20)).unwrap();
            let began = Instant::now();
            for wave in 0..400 {
                root.multicast(stream, RankSet::range(Rank(0), Rank(19)), vec![]).unwrap();
                assert_eq!(next_result(&tree.root).await.wave, wave);
            }
            assert!(began.elapsed() < Duration::from_micros(timing.beat_us), "{edges:?}: {:?}", began.elapsed());
        });
    }
}

/// Of a long command the kernel takes a part at a time, and nothing else happens until the leaves have all of it.
#[test]
fn a_connection_that_took_no_more_is_written_when_it_does() {
    let timing = far_beats();
    for edges in ALL_EDGES {
        runtime().block_on(async {
            let tree = LocalTree::start(Tree::balanced(2, 2).unwrap(), edges, Leaves::OnCommand, timing).await;
            tree.full(2).await;
            let root = tree.handle(0);
            let stream = root.open(sums(2)).unwrap();
            let began = Instant::now();
            for wave in 0..3 {
                let payload = vec![7; PAYLOAD_BYTES_MAX];
                root.multicast(stream, RankSet::range(Rank(0), Rank(1)), payload).unwrap();
                assert_eq!(next_result(&tree.root).await.wave, wave);
            }
            assert!(began.elapsed() < Duration::from_micros(timing.beat_us), "{edges:?}: {:?}", began.elapsed());
        });
    }
}

/// A node that vanishes without a word: its orphans find an ancestor, and what was on its way is asked for again.
#[test]
fn a_lost_inner_node_costs_no_result() {
    for edges in ALL_EDGES {
        runtime().block_on(async {
            let mut tree = LocalTree::start(Tree::balanced(3, 27).unwrap(), edges, Leaves::Always, patient()).await;
            tree.full(27).await;
            tree.handle(0).open(sums(27)).unwrap();
            // A wave that lost something on the way comes in after later ones; each comes once.
            let mut waves = BTreeSet::new();
            while waves.last() < Some(&1_200) || waves.len() <= waves.last().map_or(0, |last| *last as usize) {
                // The first level are nodes 1 to 3, the second 4 to 12.
                if waves.len() % 500 == 250 {
                    let lost = if waves.len() == 250 { 2 } else { 4 + waves.len() / 500 };
                    tree.handles[lost].take().into_iter().for_each(|handle| handle.stop());
                }
                let result = next_result(&tree.root).await;
                assert!(waves.insert(result.wave), "{edges:?}: wave {} came twice", result.wave);
                assert_eq!(Total.decode(&result.value), Ok(sum_of(&result.covers, result.wave)), "{edges:?}");
                assert_eq!(result.covers.rank_count(), 27, "the leaves live, so nobody may be missing");
            }
        });
    }
}

/// Results of megabytes, of which the kernel takes a part at a time, are on their way while commands go there and back
/// beside them.
#[test]
fn long_results_come_through_beside_commands() {
    const LONG_BYTES: usize = 300_000;
    for edges in ALL_EDGES {
        runtime().block_on(async {
            let (tree, timing) = (Tree::balanced(2, 4).unwrap(), far_beats());
            let mut tree = LocalTree::start(tree, edges, Leaves::OnCommand, timing).await;
            let began = Instant::now();
            tree.full(4).await;
            // A fifth leaf's program that answers with much.
            let (id, root) = (NodeId(tree.tree.node_count() as u32), tree.addresses[0].clone().unwrap());
            let config = tree.config(NodeId(1), false).await;
            let (ranks, ancestors) = (RankSet::one(Rank(4)), vec![NodeId::ROOT]);
            let credentials = config.credentials.map(|_| Credentials::of_job(&tree.secret, id).unwrap().into());
            let (setup, contacts) = (Setup { id, ranks, ancestors, ..config.setup }, vec![root.into()]);
            let answers = |told: Told, hand: &mut Hand<'_>| {
                if let Told::Window { stream, below } = told {
                    for wave in below.saturating_sub(trimtab_overlay::limits::WAVE_WINDOW)..below {
                        let value = Concat { byte_count_max: 4 << 20 }.encode(&[(Rank(4), vec![7; LONG_BYTES])].into());
                        // Those before the last ones are contributed already.
                        let _twice = hand.contribute(stream, wave, &value.unwrap());
                    }
                }
            };
            let _fifth = RunningNode::start(Config { setup, contacts, credentials, ..config }, answers).unwrap();
            tree.full(5).await;
            let root = tree.handle(0);
            let target = RankSet::one(Rank(4));
            let filter = FilterSpec::Concat(4 << 20);
            let spec = StreamSpec { target, filter, sync: PATIENT };
            let (long, short) = (root.open(spec).unwrap(), root.open(sums(4)).unwrap());
            let all = RankSet::range(Rank(0), Rank(3));
            let (mut long_count, mut short_count) = (0, 0);
            root.multicast(short, all.clone(), vec![]).unwrap();
            while long_count < 10 || short_count < 10 {
                let result = next_result(&tree.root).await;
                if result.stream == long {
                    assert!(result.value.len() > LONG_BYTES);
                    long_count += 1;
                } else {
                    assert_eq!(Total.decode(&result.value), Ok(sum_of(&all, result.wave)));
                    short_count += 1;
                    root.multicast(short, all.clone(), vec![]).unwrap();
                }
            }
            assert!(began.elapsed() < Duration::from_micros(timing.beat_us), "{edges:?}: {:?}", began.elapsed());
        });
    }
}

/// A program of plain threads: no `async` in it.
#[test]
fn plain_threads_have_a_tree() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::balanced(2, 2).unwrap();
    let config = |node: NodeId, contacts| Config {
        setup: setup(&tree, node, patient()),
        tree: TREE,
        listener: None,
        contacts,
        credentials: None,
    };
    let listen = Address::Unix(folder.path().join("root"));
    let root = Blocking::start(config(NodeId::ROOT, vec![]), Some(listen.clone())).unwrap();
    assert_eq!(root.address(), Some(&listen));
    let leaves = [1, 2].map(|node| Blocking::start(config(NodeId(node), vec![listen.clone().into()]), None).unwrap());
    let mut joined = 0;
    while joined < 2 {
        if let Told::Ranks { gained, .. } = root.wait(HANG).expect("leaves come") {
            joined += gained.rank_count();
        }
    }
    let stream = root.handle().open(sums(2)).unwrap();
    root.handle().multicast(stream, RankSet::range(Rank(0), Rank(1)), b"go".to_vec()).unwrap();
    for (rank, leaf) in leaves.iter().enumerate() {
        while !matches!(leaf.wait(HANG).expect("the command comes"), Told::Command { .. }) {}
        let value = Total.encode(&value_of(Rank(rank as u32), 0)).unwrap();
        leaf.handle().contribute(stream, 0, &value).unwrap();
    }
    loop {
        if let Told::Result(result) = root.wait(HANG).expect("the sum comes") {
            assert_eq!(Total.decode(&result.value), Ok(sum_of(&RankSet::range(Rank(0), Rank(1)), 0)));
            break;
        }
    }
    assert!(root.wait(Duration::ZERO).is_none());
    drop(root);
    assert!(!folder.path().join("root").exists(), "the socket's file goes with its node");
    let mut last = None;
    while let Some(told) = leaves[0].wait(HANG) {
        last = Some(told);
        if last == Some(Told::Orphaned) {
            break;
        }
    }
    assert_eq!(last, Some(Told::Orphaned));
}

/// A controller that takes no results stops the leaves, and goes on where it was, with none missing.
#[test]
fn a_tree_waits_for_a_slow_controller() {
    runtime().block_on(async {
        let tree = LocalTree::start(Tree::balanced(3, 3).unwrap(), Edges::Unix, Leaves::Always, patient()).await;
        tree.full(3).await;
        tree.handle(0).open(sums(3)).unwrap();
        let bound = 1024 + 2 * trimtab_overlay::limits::WAVE_WINDOW as usize;
        let mut seen = (0, 0);
        // Waves come in as fast as they may; once none has come for some beats, the tree waits.
        while seen.1 < 10 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let count = tree.root.waiting_count();
            assert!(count <= bound, "{count} results wait");
            seen = if count == seen.0 { (count, seen.1 + 1) } else { (count, 0) };
        }
        assert!(seen.0 >= 1024, "it waits only for a controller that is behind: {}", seen.0);
        for wave in 0..5_000 {
            let result = next_result(&tree.root).await;
            assert_eq!(result.wave, wave);
            assert_eq!(Total.decode(&result.value), Ok(sum_of(&result.covers, wave)));
        }
        assert_eq!(tree.root.dropped_count(), 0);
    });
}

/// A leaf that takes no commands stops the controller, which is told so; nothing is lost or grows.
#[test]
fn a_controller_waits_for_a_slow_leaf() {
    runtime().block_on(async {
        let tree = Tree::balanced(1, 1).unwrap();
        let mut tree = LocalTree::start(tree, Edges::Unix, Leaves::OnCommand, patient()).await;
        tree.handles[1].take().expect("it runs").stop();
        let (filler, leaf) = inbox();
        let _leaf = RunningNode::start(tree.config(NodeId(1), false).await, filler).unwrap();
        tree.full(1).await;
        let root = tree.handle(0);
        let stream = root.open(sums(1)).unwrap();
        let all = RankSet::one(Rank(0));
        let (mut sent, mut refused) = (0_u32, 0);
        while refused < 20 {
            match root.multicast(stream, all.clone(), sent.to_le_bytes().to_vec()) {
                Ok(()) => (sent, refused) = (sent + 1, 0),
                Err(_busy) => {
                    refused += 1;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        let bound = 1024 + 2 * trimtab_overlay::limits::LOG_COUNT_MAX;
        assert!(u64::from(sent) <= bound && sent >= 1024, "{sent} commands were taken");
        let mut next = 0;
        while next < sent {
            let told = tokio::time::timeout(HANG, leaf.next()).await.expect("it comes").expect("it runs");
            if let Told::Command { payload, .. } = told {
                assert_eq!(payload, next.to_le_bytes());
                next += 1;
            }
        }
        until("the controller may go on", || root.multicast(stream, all.clone(), vec![]).is_ok()).await;
        assert_eq!((leaf.dropped_count(), root.parent()), (0, None));
    });
}

#[test]
fn a_stopped_node_says_so_to_whoever_waits() {
    runtime().block_on(async {
        let (filler, news) = inbox();
        let mut tree = LocalTree::start(Tree::balanced(1, 1).unwrap(), Edges::Unix, Leaves::Always, patient()).await;
        let config = tree.config(NodeId(1), false).await;
        let second = RunningNode::start(config, filler).unwrap();
        second.stop();
        assert_eq!(tokio::time::timeout(HANG, news.next()).await, Ok(None));
    });
}

/// One way there and back makes a child of a node: the wish to join doesn't wait for the answer to the hello.
#[test]
fn who_calls_says_at_once_that_it_wants_to_join() {
    runtime().block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root");
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let config = Config {
            setup: setup(&Tree::balanced(1, 1).unwrap(), NodeId(1), patient()),
            tree: TREE,
            listener: None,
            contacts: vec![Address::Unix(path).into()],
            credentials: None,
        };
        let leaf = RunningNode::start(config, |_: Told, _: &mut Hand<'_>| {}).unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut bytes, mut reader, mut hello, mut frames) = (vec![0; 4096], HelloReader::default(), None, Vec::new());
        while frames.is_empty() {
            let read = tokio::time::timeout(HANG, stream.read(&mut bytes)).await.expect("all of it comes unanswered");
            let mut plain = &bytes[..read.unwrap()];
            assert!(!plain.is_empty());
            if hello.is_none() {
                hello = reader.feed(&mut plain).unwrap();
            }
            let keep = |_, message: &[u8]| -> Result<(), LinkError> {
                frames.push(Frame::decode(message)?);
                Ok(())
            };
            Decoder::default().feed(plain, keep).unwrap();
        }
        assert_eq!(hello.map(|hello| (hello.from, hello.to)), Some((1, 0)));
        assert!(matches!(&frames[..], [Frame { body: Body::Join(join), .. }] if join.ranks == RankSet::one(Rank(0))));
        leaf.stop();
    });
}
