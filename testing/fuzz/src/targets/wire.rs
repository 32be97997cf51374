//! The bytes of a connection between nodes: a hello, then chunks, then frames for a node of the tree.
//!
//! The first byte says in which pieces the rest arrives; the pieces must not matter, nothing may be kept beyond what
//! came, and a node takes whatever frames come out of it, from above and from below.
//!
//! Next: `trimtab-wire`, and `trimtab-overlay`'s frames.

use crate::hostile::Target;
use anyhow::Result;
use std::sync::Arc;
use trimtab_overlay::frame::{Body, Join, Link, Ordered};
use trimtab_overlay::{Event, Frame, Node, NodeId, Setup, Timing};
use trimtab_reduce::{RankSet, Registry};
use trimtab_types::Rank;
use trimtab_wire::limits::{HEADER_BYTES, MESSAGE_BYTES_MAX};
use trimtab_wire::{BadBytes, Decoder, Hello, HelloReader, Lane, Role, VERSION, put_message};

/// The target.
pub struct Wire;

type Messages = Result<Vec<(Lane, Vec<u8>)>, BadBytes>;

impl Target for Wire {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let hello = Hello { version: VERSION, tree: 7, from: 2, to: 1, incarnation: 3, role: Role::Leaf }.encode();
        let link = Link { incarnation: 1, number: 0 };
        let ranks = RankSet::range(Rank(0), Rank(3));
        let join = Body::Join(Box::new(Join { cursor: Default::default(), ranks: ranks.clone(), distance: 0 }));
        let beat = Body::Ordered(0, Ordered::Beat(Default::default()));
        let members = Body::Ordered(1, Ordered::Members { gained: ranks, lost: RankSet::EMPTY });
        let mut chunks = Vec::new();
        for body in [join, beat, members, Body::Leave] {
            let bytes = Frame { link, body }.encode()?;
            put_message(Lane::Commands, &mut chunks, |out| {
                out.extend_from_slice(&bytes);
                Ok::<(), BadBytes>(())
            })?;
        }
        let mut long = Vec::new();
        put_message(Lane::Bulk, &mut long, |out| {
            out.resize(40_000, 7);
            Ok::<(), BadBytes>(())
        })?;
        let whole = [&[0], &hello[..], &chunks].concat();
        Ok(vec![whole.clone(), [&[5], &whole[1..]].concat(), [&[255], &hello[..], &long, &chunks].concat()])
    }

    fn length_max(&self) -> usize {
        64 * 1024
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let Some((piece, bytes)) = input.split_first() else { return false };
        let piece_bytes = usize::from(*piece) + 1;
        let (mut reader, mut rest) = (HelloReader::default(), bytes);
        let hello = reader.feed(&mut rest);
        let mut again = HelloReader::default();
        let in_pieces = bytes.chunks(piece_bytes).find_map(|mut piece| again.feed(&mut piece).transpose());
        assert_eq!(in_pieces.transpose(), hello, "a hello in pieces");
        let is_greeted = matches!(hello, Ok(Some(_)));
        // Without a hello nothing is listened to; here the rest is tried all the same.
        let chunks = if is_greeted { rest } else { bytes };
        let whole = messages([chunks].into_iter());
        assert_eq!(messages(chunks.chunks(piece_bytes)), whole, "messages in pieces");
        let heard = whole.unwrap_or_default();
        let frames: Vec<Frame> = heard.iter().filter_map(|(_, message)| Frame::decode(message).ok()).collect();
        let is_accepted = is_greeted && !frames.is_empty();
        hear(frames);
        is_accepted
    }
}

/// The messages that a decoder finds in pieces of bytes.
fn messages<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Messages {
    let (mut decoder, mut found, mut came) = (Decoder::default(), Vec::new(), 0);
    for piece in pieces {
        came += piece.len();
        decoder.feed(piece, |lane, message| {
            found.push((lane, message.to_vec()));
            Ok::<(), BadBytes>(())
        })?;
        assert!(decoder.kept_bytes() <= came.min(2 * MESSAGE_BYTES_MAX + HEADER_BYTES), "no more kept than came");
    }
    Ok(found)
}

/// A node between a parent and a child hears frames of either.
fn hear(frames: Vec<Frame>) {
    let mut node = Node::new(Setup {
        id: NodeId(1),
        incarnation: 1,
        ancestors: vec![NodeId::ROOT],
        ranks: RankSet::EMPTY,
        timing: Timing::default(),
        registry: Arc::new(Registry::default()),
    });
    let mut now_us = 1;
    node.handle(now_us, Event::Time);
    for frame in frames {
        for from in [NodeId::ROOT, NodeId(2)] {
            now_us += 1_000;
            node.handle(now_us, Event::Frame { from, frame: frame.clone() });
            assert!(node.queue_count() <= node.queue_bound(), "queues are bounded");
        }
    }
}
