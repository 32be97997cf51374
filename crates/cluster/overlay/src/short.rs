//! The frames that nearly all are: payloads for the leaves, ends of waves, and results.
//!
//! Their bytes are those that any frame's would be. But a node that is woken for one of them runs all of its code from
//! memory that others have used meanwhile, so the code that takes just these apart is several times faster than what can
//! read all. Whatever isn't read here, be it malformed or only rare, is left to that.
//!
//! Next: `frame` for all of them.

use crate::frame::{Body, Command, Frame, Link, Ordered, Run};
use trimtab_reduce::RankSet;
use trimtab_reduce::plain::{Plain, put_bytes, put_number};

/// The places of these variants among those of their types.
const ORDERED: u32 = 5;
const UNITS: u32 = 6;
const COMMAND: u32 = 4;
const DATA: u32 = 2;
const RETIRE: u32 = 4;

/// A frame has so many bytes at most beside ranks, values and payloads.
const HEAD_BYTES_MAX: usize = 64;

/// A frame from its bytes; none if they must be read in general.
pub(crate) fn read(bytes: &[u8]) -> Option<Frame> {
    let mut from = Plain::new(bytes);
    let link = Link { incarnation: from.short(), number: from.short() };
    let (kind, number) = (from.short(), from.short());
    let body = match kind {
        UNITS => Body::Units(number, Box::new(Run::read(&mut from)?)),
        ORDERED if from.short() == COMMAND => {
            let sequence = from.number(u64::MAX);
            let command = read_command(&mut from)?;
            from.is_over().then_some(())?;
            Body::Ordered(number, Ordered::Command(sequence, command.into()))
        }
        _ => return None,
    };
    from.is_over().then_some(Frame { link, body })
}

fn read_command(from: &mut Plain<'_>) -> Option<Command> {
    let (kind, stream) = (from.short(), from.short());
    match kind {
        DATA => {
            let to = RankSet::read(from);
            Some(Command::Data { stream, to, payload: from.bytes().to_vec() })
        }
        RETIRE => Some(Command::Retire { stream, below: from.number(u64::MAX) }),
        _ => None,
    }
}

/// Puts a frame's bytes behind others; whether it is one of these.
pub(crate) fn put(frame: &Frame, out: &mut Vec<u8>) -> bool {
    match &frame.body {
        Body::Units(first, run) => {
            out.reserve(HEAD_BYTES_MAX + run.value_bytes());
            put_head(frame.link, UNITS, *first, out);
            run.put(out);
            true
        }
        Body::Ordered(order, Ordered::Command(sequence, command)) => match &**command {
            Command::Data { stream, to, payload } => {
                out.reserve(HEAD_BYTES_MAX + payload.len());
                put_command(frame.link, (*order, *sequence), (DATA, *stream), out);
                to.put(out);
                put_bytes(payload, out);
                true
            }
            Command::Retire { stream, below } => {
                put_command(frame.link, (*order, *sequence), (RETIRE, *stream), out);
                put_number(*below, out);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

fn put_command(link: Link, (order, sequence): (u32, u64), (kind, stream): (u32, u32), out: &mut Vec<u8>) {
    put_head(link, ORDERED, order, out);
    for number in [u64::from(COMMAND), sequence, u64::from(kind), u64::from(stream)] {
        put_number(number, out);
    }
}

fn put_head(link: Link, kind: u32, number: u32, out: &mut Vec<u8>) {
    for number in [link.incarnation, link.number, kind, number] {
        put_number(u64::from(number), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunRef;
    use proptest::prelude::*;
    use trimtab_reduce::Values;
    use trimtab_types::Rank;

    /// Any number, of any length.
    fn number() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0_u32..64).prop_map(|(number, shift)| number >> shift)
    }

    fn short() -> impl Strategy<Value = u32> {
        (any::<u32>(), 0_u32..32).prop_map(|(number, shift)| number >> shift)
    }

    fn ranks() -> impl Strategy<Value = RankSet> {
        proptest::collection::vec((short(), short()), 0..4).prop_map(|all| {
            let each =
                all.into_iter().map(|(first, more)| RankSet::range(Rank(first), Rank(first.saturating_add(more))));
            each.fold(RankSet::EMPTY, |set, range| set.union(&range))
        })
    }

    fn bytes(count_max: usize) -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..count_max)
    }

    fn body() -> impl Strategy<Value = Body> {
        let values = proptest::collection::vec(bytes(70), 1..4).prop_map(|all| all.iter().collect::<Values>());
        let units = ((short(), short(), short(), number()), short(), ranks(), values).prop_map(
            |((first, epoch, stream, wave), attempt, covers, values)| {
                let run = RunRef { epoch, stream, wave, attempt, covers: &covers, values: values.view() };
                Body::Units(first, Box::new(run.into()))
            },
        );
        let data =
            (short(), ranks(), bytes(300)).prop_map(|(stream, to, payload)| Command::Data { stream, to, payload });
        let retire = (short(), number()).prop_map(|(stream, below)| Command::Retire { stream, below });
        let close = short().prop_map(|stream| Command::Close { stream });
        let command = (short(), number(), prop_oneof![data, retire, close])
            .prop_map(|(order, sequence, command)| Body::Ordered(order, Ordered::Command(sequence, command.into())));
        let credit = (short(), short()).prop_map(|(order, credit)| Body::Ordered(order, Ordered::Credit(credit)));
        prop_oneof![3 => units, 3 => command, 1 => credit]
    }

    fn frame() -> impl Strategy<Value = Frame> {
        (short(), short(), body())
            .prop_map(|(incarnation, number, body)| Frame { link: Link { incarnation, number }, body })
    }

    /// A frame as it would be read in general.
    fn any_frame(bytes: &[u8]) -> Option<Frame> {
        postcard::take_from_bytes(bytes).ok().filter(|(_, rest)| rest.is_empty()).map(|(frame, _)| frame)
    }

    proptest! {
        #[test]
        fn bytes_are_those_that_any_frame_would_have(frame in frame(), before in bytes(9)) {
            let mut out = before.clone();
            let general = postcard::to_stdvec(&frame).unwrap();
            if put(&frame, &mut out) {
                prop_assert_eq!(&out[before.len()..], &general);
            }
            prop_assert_eq!(&out[..before.len()], &before);
            prop_assert!(read(&general).is_none_or(|read| Some(read) == any_frame(&general)));
            prop_assert_eq!(Frame::decode(&general).ok(), any_frame(&general));
        }

        #[test]
        fn spoilt_bytes_are_read_as_in_general(frame in frame(), at in any::<usize>(), byte in any::<u8>(), cut in any::<bool>()) {
            let mut bytes = postcard::to_stdvec(&frame).unwrap();
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(if cut { at } else { bytes.len() });
            prop_assert_eq!(Frame::decode(&bytes).ok(), any_frame(&bytes));
        }

        #[test]
        fn hostile_bytes_are_read_as_in_general(mut bytes in bytes(40), kind in 4_u8..8, command in 0_u8..6) {
            prop_assert_eq!(Frame::decode(&bytes).ok(), any_frame(&bytes));
            let head = [1, 1, kind, 1, 4, 1, command];
            bytes.splice(0..0, head);
            prop_assert_eq!(Frame::decode(&bytes).ok(), any_frame(&bytes));
        }
    }

    #[test]
    fn what_is_frequent_is_read_here() {
        let link = Link { incarnation: 3, number: 1 };
        let all = RankSet::range(Rank(3), Rank(9));
        let data = Command::Data { stream: 1, to: all.clone(), payload: vec![7; 3] };
        let values = Values::from_iter([[1]]);
        let run = RunRef { epoch: 1, stream: 2, wave: 1 << 40, attempt: 0, covers: &all, values: values.view() };
        for body in [
            Body::Ordered(4, Ordered::Command(1 << 20, data.into())),
            Body::Ordered(4, Ordered::Command(5, Command::Retire { stream: 1, below: 1 << 30 }.into())),
            Body::Units(8, Box::new(run.into())),
        ] {
            let (frame, mut bytes) = (Frame { link, body }, Vec::new());
            assert!(put(&frame, &mut bytes));
            assert_eq!(read(&bytes), Some(frame));
        }
    }
}
