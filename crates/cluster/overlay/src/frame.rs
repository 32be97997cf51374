//! The frames that nodes send to each other, and their bytes.
//!
//! A frame belongs to one link: the one pair of numbers that a child gave when it asked to join. A frame of a dead
//! incarnation, or of an earlier link, names another one and is dropped. Two channels per link: commands, which are
//! numbered and handled in order, and bulk results, which need credit and any order will do. A driver gives each its own
//! connection, or sends commands first.
//!
//! Next: `node` for who says what when.

pub use crate::run::Run;

use crate::StreamSpec;
use crate::limits::FRAME_BYTES_MAX;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::{Deref, Range};
use std::sync::Arc;
use trimtab_reduce::RankSet;

/// One message between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// Which link it belongs to.
    pub link: Link,
    /// The content.
    pub body: Body,
}

/// A link's name, given by the child: higher ones are newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Link {
    /// Which life of the child.
    pub incarnation: u32,
    /// Which attempt to join in that life.
    pub number: u32,
}

/// The two ways between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// Short, never waits behind the other.
    Commands,
    /// Results on their way up.
    Bulk,
}

/// The content of a frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Body {
    /// Child to ancestor: be my parent.
    Join(Box<Join>),
    /// Ancestor to child: I am.
    Accept(Box<Accept>),
    /// Ancestor to child: I can not, try another.
    Refuse,
    /// Child to parent: I have another one now.
    Leave,
    /// Either way: that link does not exist.
    Stranger,
    /// A numbered command of the link.
    Ordered(u32, Ordered),
    /// Results with numbers from this one on.
    Units(u32, Box<Run>),
}

/// A place in the list of commands: which controller's, and the last one that was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cursor {
    /// Which life of the controller; 0 before any.
    pub epoch: u32,
    /// The last command.
    pub sequence: u64,
}

/// A request to be adopted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Join {
    /// The child has received everything up to here.
    pub cursor: Cursor,
    /// The ranks at and below it.
    pub ranks: RankSet,
    /// How many nearer ancestors it would rather have.
    pub distance: u32,
}

/// An adoption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accept {
    /// The child's hops from the root now.
    pub depth: u32,
    /// The latest sign of the root's life.
    pub pulse: u64,
    /// A snapshot for a child that has received nothing of use; others go on where they were.
    pub fresh: Option<Snapshot>,
}

/// Where commands are, for a node that begins here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The last command that is contained in this.
    pub cursor: Cursor,
    /// The streams that are open.
    pub streams: Vec<OpenStream>,
}

/// A stream that was opened before a node began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenStream {
    /// Its number.
    pub stream: u32,
    /// The stream's description.
    pub spec: StreamSpec,
    /// The first wave that isn't over.
    pub below: u64,
    /// How many payloads were sent on it, whomever for.
    pub sent: u64,
}

/// Commands of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Ordered {
    /// Up, every beat: all below have received the commands up to this one.
    Beat(Cursor),
    /// Up: the ranks below have changed.
    Members {
        /// New ones.
        gained: RankSet,
        /// Gone ones.
        lost: RankSet,
    },
    /// Down, every beat: the root's latest sign of life, and the number of the last result that may be sent.
    Pulse {
        /// Which life of the controller.
        epoch: u32,
        /// Counts in that life.
        count: u64,
        /// Results up to this number may be sent.
        credit: u32,
    },
    /// Down: results up to this number may be sent.
    Credit(u32),
    /// Down: a command of the controller.
    Command(u64, Shared<Command>),
    /// Down: begin here instead.
    Fresh(Box<Snapshot>),
    /// Down: I have no parent; find another than me.
    Dissolve,
}

/// Commands of the controller; every node gets every one, in order, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// A stream begins.
    Open {
        /// Its number in this life of the controller.
        stream: u32,
        /// Its description; in a box, since each command is as long as the longest.
        spec: Box<StreamSpec>,
    },
    /// A stream ends.
    Close {
        /// Which.
        stream: u32,
    },
    /// For the leaves.
    Data {
        /// On which stream.
        stream: u32,
        /// For whom of its target.
        to: RankSet,
        /// The payload.
        #[serde(with = "crate::bytes")]
        payload: Vec<u8>,
    },
    /// Contribute again: it was lost on the way.
    Again {
        /// On which stream.
        stream: u32,
        /// To which waves.
        waves: Range<u64>,
        /// Counts these requests.
        attempt: u32,
        /// The ranks.
        ranks: RankSet,
    },
    /// Waves below this one are over.
    Retire {
        /// Of which stream.
        stream: u32,
        /// The first that isn't.
        below: u64,
    },
}

/// A command that many queues hold; one copy.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared<T>(Arc<T>);

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Shared(Arc::new(value))
    }
}

impl Shared<Command> {
    /// The leaves' payload, without a copy if nobody else holds it.
    pub(crate) fn into_payload(mut self) -> Vec<u8> {
        if let Some(Command::Data { payload, .. }) = Arc::get_mut(&mut self.0) {
            return std::mem::take(payload);
        }
        if let Command::Data { payload, .. } = &*self { payload.clone() } else { Vec::new() }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Shared::from)
    }
}

/// Why bytes are no frame, or a frame has no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// It is longer than any frame.
    #[error("a frame of {byte_count} bytes, at most {FRAME_BYTES_MAX}: close the connection")]
    TooLong {
        /// How long it is.
        byte_count: usize,
    },
    /// It doesn't have the form of one.
    #[error("malformed frame: close the connection; do both ends run the same version?")]
    Form,
}

impl Frame {
    /// On which channel it travels.
    pub fn channel(&self) -> Channel {
        if matches!(self.body, Body::Units(..)) { Channel::Bulk } else { Channel::Commands }
    }

    /// Takes in the frame that is to be sent next, if both can be one; otherwise it comes back.
    pub fn absorb(&mut self, next: Frame) -> Option<Frame> {
        let link = self.link;
        match (&mut self.body, next) {
            (Body::Units(first, run), Frame { link: theirs, body: Body::Units(number, more) })
                if link == theirs && *first as usize + run.unit_count() == number as usize =>
            {
                let is_taken = run.take(&more.view());
                (!is_taken).then(|| Frame { link, body: Body::Units(number, more) })
            }
            (_, next) => Some(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sync;
    use crate::run::RunRef;
    use proptest::prelude::*;
    use trimtab_reduce::{FilterSpec, Values};
    use trimtab_types::Rank;

    fn examples() -> Vec<Frame> {
        let target = RankSet::range(Rank(3), Rank(9));
        let spec = StreamSpec { target: target.clone(), filter: FilterSpec::Concat(9), sync: Sync::DontWait };
        let cursor = Cursor { epoch: 1, sequence: 99 };
        let open = OpenStream { stream: 1, spec: spec.clone(), below: 7, sent: 9 };
        let snapshot = Snapshot { cursor, streams: vec![open] };
        let run = |values: Values| {
            RunRef { epoch: 1, stream: 2, wave: 3, attempt: 4, covers: &target, values: values.view() }.into()
        };
        let data = Command::Data { stream: 1, to: target.clone(), payload: vec![7; 3] };
        let bodies = [
            Body::Join(Box::new(Join { cursor, ranks: target.clone(), distance: 1 })),
            Body::Accept(Box::new(Accept { depth: 2, pulse: 5, fresh: Some(snapshot.clone()) })),
            Body::Leave,
            Body::Ordered(4, Ordered::Fresh(Box::new(snapshot))),
            Body::Ordered(5, Ordered::Command(6, Command::Open { stream: 1, spec: Box::new(spec) }.into())),
            Body::Ordered(5, Ordered::Command(7, data.into())),
            Body::Ordered(7, Ordered::Members { gained: target.clone(), lost: RankSet::EMPTY }),
            Body::Units(8, Box::new(run([[1, 2]].iter().collect()))),
            Body::Units(8, Box::new(run([[1, 2], [3, 4]].iter().collect()))),
            Body::Ordered(
                8,
                Ordered::Command(
                    8,
                    Command::Again { stream: 1, waves: 3..9, attempt: 1, ranks: target.clone() }.into(),
                ),
            ),
        ];
        let link = Link { incarnation: 3, number: 1 };
        bodies.into_iter().map(|body| Frame { link, body }).collect()
    }

    #[test]
    fn frames_go_there_and_back() {
        for frame in examples() {
            assert_eq!(Frame::decode(&frame.encode().unwrap()), Ok(frame));
        }
    }

    fn unit(number: u32, wave: u64) -> Frame {
        let covers = RankSet::range(Rank(3), Rank(9));
        let values = Values::from_iter([[1]]);
        let run = RunRef { epoch: 1, stream: 2, wave, attempt: 0, covers: &covers, values: values.view() };
        Frame { link: Link { incarnation: 3, number: 1 }, body: Body::Units(number, Box::new(run.into())) }
    }

    #[test]
    fn results_that_follow_each_other_become_one_frame() {
        let mut frame = unit(8, 40);
        for next in [unit(9, 41), unit(10, 42)] {
            assert_eq!(frame.absorb(next), None);
        }
        let mut of_others = unit(11, 43);
        of_others.link.number += 1;
        for other in [unit(11, 44), unit(12, 43), of_others] {
            assert_eq!(frame.absorb(other.clone()), Some(other));
        }
        let Body::Units(8, run) = frame.body else { panic!("{frame:?}") };
        assert_eq!(run.unit_count(), 3);
    }

    #[test]
    fn what_is_too_long_is_refused_unread() {
        let bytes = vec![0; FRAME_BYTES_MAX + 1];
        assert_eq!(Frame::decode(&bytes), Err(BadFrame::TooLong { byte_count: FRAME_BYTES_MAX + 1 }));
    }

    proptest! {
        #[test]
        fn hostile_bytes_give_a_frame_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            (example, at, byte) in (0_usize..10, any::<usize>(), any::<u8>()),
        ) {
            let _ = Frame::decode(&bytes);
            let mut bytes = examples()[example].encode().unwrap();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = Frame::decode(&bytes);
            prop_assert!(Frame::decode(&bytes[..at]).is_err());
        }
    }
}
