//! Attacks on a connection between nodes by somebody on the network: change its records, cut them, repeat them, put
//! others in between, however it arrives; and call a node without its job's secret.
//!
//! The first byte says which, the second in which pieces the bytes arrive. Nothing panics; what is heard is always what
//! was said, from its beginning and in order; all of it if nothing was done to it; nothing is kept beyond what came; and
//! a caller without the secret is heard in nothing.
//!
//! Next: `wire` for what is inside; `trimtab_link::ends`.

use crate::mutate::Mutator;
use crate::target::Target;
use anyhow::Result;
use trimtab_link::ends::Ends;

/// The target, which keeps its two ends: their handshake takes longer than a thousand records.
pub struct Records {
    ends: Ends,
}

/// The first byte's lowest bit: a call of anybody instead of records.
const CALL: u8 = 1;
/// Longer than one record may be.
const LONG_BYTES: usize = 40_000;
/// More than an honest answer to a call is.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// The messages, and which of their bytes are sent.
#[derive(Default)]
struct Sent {
    said: Vec<u8>,
    bytes: Vec<u8>,
    is_spoilt: bool,
}

impl Records {
    /// With two nodes of a job.
    ///
    /// # Panics
    /// When there is no randomness.
    pub fn new() -> Self {
        Records { ends: Ends::new().expect("two nodes of a job can talk") }
    }

    fn steps(&mut self, mut input: &[u8]) -> Sent {
        let mut sent = Sent::default();
        while let Some(step) = take(&mut input) {
            self.step(step, &mut input, &mut sent);
        }
        sent
    }

    fn step(&mut self, step: u8, input: &mut &[u8], sent: &mut Sent) {
        let Sent { said, bytes, is_spoilt } = sent;
        let before = bytes.len();
        match step % 9 {
            0..=2 => self.say(usize::from(take(input).unwrap_or(0)), said, bytes),
            3 if said.len() < LONG_BYTES => self.say(LONG_BYTES, said, bytes),
            4 => self.ends.say_new_keys(bytes).expect("keys can be renewed"),
            5 => {
                // Where, from the end, and what.
                let (back, change) = (take(input).unwrap_or(0), take(input).unwrap_or(1).max(1));
                if let Some(byte) = before.checked_sub(usize::from(back) + 1).and_then(|at| bytes.get_mut(at)) {
                    *byte ^= change;
                    *is_spoilt = true;
                }
            }
            6 => {
                let count = usize::from(take(input).unwrap_or(0));
                let (raw, rest) = input.split_at(count.min(input.len()));
                bytes.extend_from_slice(raw);
                (*input, *is_spoilt) = (rest, *is_spoilt || !raw.is_empty());
            }
            7 => {
                let again = before - usize::from(take(input).unwrap_or(0)).min(before);
                bytes.extend_from_within(again..);
                *is_spoilt |= again < before;
            }
            8 => {
                bytes.truncate(before - usize::from(take(input).unwrap_or(0)).min(before));
                *is_spoilt |= bytes.len() < before;
            }
            _ => {}
        }
    }

    fn say(&mut self, count: usize, said: &mut Vec<u8>, bytes: &mut Vec<u8>) {
        let begun = said.len();
        said.extend((begun..begun + count).map(|index| (index / 3) as u8));
        self.ends.say(&said[begun..], bytes).expect("anything can be said");
    }

    fn hear(&mut self, mut sent: Sent, piece_bytes: usize) -> bool {
        let (mut heard, byte_count) = (Vec::new(), sent.bytes.len());
        let outcome = self.ends.hear(&mut sent.bytes, piece_bytes, &mut heard);
        assert!(sent.said.starts_with(&heard), "something was heard that was not said");
        assert!(self.ends.kept_bytes() <= byte_count, "more is kept than came");
        if !sent.is_spoilt {
            outcome.as_ref().expect("nothing was done to it");
            assert_eq!((heard.len(), self.ends.kept_bytes()), (sent.said.len(), 0), "not all was heard");
        } else {
            self.ends.begin_anew().expect("a new connection");
        }
        !heard.is_empty() || outcome.is_ok()
    }

    fn call(&self, input: &[u8], piece_bytes: usize) -> bool {
        let Ok((heard, answer_bytes)) = self.ends.call(&mut input.to_vec(), piece_bytes) else { return false };
        assert!(heard.is_empty(), "somebody was heard who proved nothing");
        assert!(answer_bytes <= ANSWER_BYTES_MAX, "a call makes an answer of {answer_bytes} bytes");
        answer_bytes > 0
    }
}

impl Default for Records {
    fn default() -> Self {
        Records::new()
    }
}

impl Target for Records {
    fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let call = |piece: u8, bytes: &[u8]| [&[CALL, piece][..], bytes].concat();
        let first = Ends::first_call()?;
        Ok(vec![
            vec![0, 0, 0, 10, 0, 200, 3, 4, 0, 9],
            vec![0, 7, 0, 10, 4, 1, 20, 4, 2, 30],
            vec![0, 1, 0, 40, 5, 0, 1, 0, 9],
            vec![0, 3, 0, 40, 0, 40, 5, 61, 255],
            vec![0, 0, 6, 7, 23, 3, 3, 0, 2, 1, 1, 0, 9],
            vec![0, 5, 0, 12, 7, 34, 8, 3],
            call(0, &first),
            call(50, &first),
            call(0, &[0x15, 3, 3, 0, 2, 1, 0]),
        ])
    }

    fn length_max(&self) -> usize {
        2 * 1024
    }

    fn mutate(&self, mutator: &mut Mutator<'_>, input: &mut Vec<u8>, other: &[u8]) {
        mutator.change(input, other, &[&[23, 3, 3], &[22, 3, 3], &[0xff, 0xff], &[24, 0, 0, 1, 1]]);
    }

    fn run(&mut self, input: &[u8]) -> bool {
        let [kind, pieces, rest @ ..] = input else { return false };
        let piece_bytes = if *pieces == 0 { usize::MAX } else { usize::from(*pieces) };
        if kind & CALL == CALL {
            return self.call(rest, piece_bytes);
        }
        let sent = self.steps(rest);
        self.hear(sent, piece_bytes)
    }
}

fn take(input: &mut &[u8]) -> Option<u8> {
    let (first, rest) = input.split_first()?;
    *input = rest;
    Some(*first)
}
