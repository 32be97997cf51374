//! Answers of any length through a tree whose values have a limit.
//!
//! A wave of the tree holds a few megabytes of all agents together. So an answer goes up in pieces: the lead says how much
//! room each agent has, takes a wave of first pieces, and asks for what remains, until all have come. One wave is under way
//! at a time, so no node ever holds more than one value for it, and nobody promises room: the lead keeps bytes that came.
//! An agent keeps an answer until its last byte has gone, or until it is asked something else.
//!
//! Pure: what is sent is decided here and sent elsewhere.
//!
//! Next: `lead` and `serve`, which send.

use crate::error::Error;
use crate::talk::Piece;
use std::collections::BTreeMap;

/// Longest answer of one agent: what a node with many ranks says of thousands of functions each.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;
/// Longest answers of all agents together; they lie in the lead's memory.
pub const ANSWERS_BYTES_MAX: u64 = 1 << 30;
/// The bytes of an agent's piece in a wave's value beside its contents, at most: place, lengths.
const PIECE_COST: usize = 24;
/// Least room of a piece: below, waves would carry hardly anything.
const ROOM_MIN: usize = 16;

/// Bytes that each of `sending` agents may put into a wave of all `count`.
pub fn room(value_bytes_max: usize, count: usize, sending: usize) -> u32 {
    let free = value_bytes_max.saturating_sub(PIECE_COST * count);
    (free / sending.max(1)).max(ROOM_MIN) as u32
}

/// The piece of an agent that is not asked for one.
pub const NOTHING: Piece = Piece { total: 0, bytes: Vec::new() };

/// An agent's answer that has not gone entirely.
#[derive(Debug, Default)]
pub struct Keeper {
    answer: Vec<u8>,
}

impl Keeper {
    /// The first piece of a new answer.
    pub fn begin(&mut self, answer: Vec<u8>, room: u32) -> Piece {
        self.answer = answer;
        self.piece(0, room)
    }

    /// The piece that begins there; nothing where there is no answer, or not so much of one.
    pub fn piece(&mut self, from: u64, room: u32) -> Piece {
        let total = self.answer.len() as u64;
        let first = from.min(total) as usize;
        let end = first.saturating_add(room as usize).min(self.answer.len());
        let piece = Piece { total, bytes: self.answer[first..end].to_vec() };
        if end == self.answer.len() {
            self.answer = Vec::new();
        }
        piece
    }
}

/// The answers of all agents as far as they have come.
#[derive(Debug)]
pub struct Gather {
    whole: BTreeMap<usize, Vec<u8>>,
    begun: BTreeMap<usize, (u64, Vec<u8>)>,
    /// Where the next pieces begin: the same at all that are begun.
    from: u64,
}

impl Gather {
    /// From the first pieces, each of so many bytes at most.
    ///
    /// # Errors
    /// [`Error::TooMuch`] if all together would be more than the lead keeps.
    pub fn new(pieces: BTreeMap<usize, Piece>, room: u32) -> Result<Self, Error> {
        let bytes: u64 = pieces.values().fold(0, |sum, piece| sum.saturating_add(piece.total));
        if bytes > ANSWERS_BYTES_MAX {
            return Err(Error::TooMuch { bytes, bytes_max: ANSWERS_BYTES_MAX });
        }
        let begun = pieces.iter().map(|(agent, piece)| (*agent, (piece.total, Vec::new()))).collect();
        let mut gather = Gather { whole: BTreeMap::new(), begun, from: 0 };
        gather.add(pieces, room);
        Ok(gather)
    }

    /// Takes a wave of pieces; an agent whose next piece is not among them is left out.
    pub fn add(&mut self, mut pieces: BTreeMap<usize, Piece>, room: u32) {
        let next = self.from.saturating_add(u64::from(room));
        for (agent, (total, mut bytes)) in std::mem::take(&mut self.begun) {
            let expected = total.min(next) - self.from.min(total);
            let Some(piece) = pieces.remove(&agent) else { continue };
            if piece.total != total || piece.bytes.len() as u64 != expected {
                continue;
            }
            bytes.extend_from_slice(&piece.bytes);
            if bytes.len() as u64 == total {
                self.whole.insert(agent, bytes);
            } else {
                self.begun.insert(agent, (total, bytes));
            }
        }
        self.from = next;
    }

    /// Where the next pieces begin, and which agents have one; `None`: all is here. Nobody else has room in the wave.
    pub fn remaining(&self) -> Option<(u64, Vec<usize>)> {
        (!self.begun.is_empty()).then(|| (self.from, self.begun.keys().copied().collect()))
    }

    /// The answers, by agent.
    pub fn into_answers(self) -> BTreeMap<usize, Vec<u8>> {
        self.whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An agent's answer: of any length, each byte its own.
    fn answer(agent: usize, length: usize) -> Vec<u8> {
        (0..length).map(|index| (index * 31 + agent * 7) as u8).collect()
    }

    /// Carries answers of these lengths through waves of `value_bytes_max`; the answers and the number of waves. `lose`
    /// takes a piece out of a wave.
    fn carry(lengths: &[usize], value_bytes_max: usize, lose: impl Fn(usize, usize) -> bool) -> (Vec<usize>, usize) {
        let mut keepers: Vec<Keeper> = lengths.iter().map(|_| Keeper::default()).collect();
        let count = lengths.len();
        let room_of = |sending| room(value_bytes_max, count, sending);
        let wave = |keepers: &mut Vec<Keeper>, number: usize, make: &dyn Fn(usize, &mut Keeper) -> Piece| {
            let pieces: BTreeMap<usize, Piece> =
                keepers.iter_mut().enumerate().map(|(agent, keeper)| (agent, make(agent, keeper))).collect();
            let bytes: usize = pieces.values().map(|piece| piece.bytes.len() + PIECE_COST).sum();
            assert!(bytes <= value_bytes_max.max(count * (PIECE_COST + ROOM_MIN)), "{bytes} bytes in wave {number}");
            pieces.into_iter().filter(|(agent, _)| !lose(number, *agent)).collect::<BTreeMap<usize, Piece>>()
        };
        let mut waves = 1;
        let own = room_of(count);
        let begin = |agent: usize, keeper: &mut Keeper| keeper.begin(answer(agent, lengths[agent]), own);
        let mut gather = Gather::new(wave(&mut keepers, 0, &begin), own).expect("not too much");
        while let Some((from, sending)) = gather.remaining() {
            let own = room_of(sending.len());
            let more = |agent: usize, keeper: &mut Keeper| match sending.contains(&agent) {
                true => keeper.piece(from, own),
                false => NOTHING,
            };
            gather.add(wave(&mut keepers, waves, &more), own);
            waves += 1;
        }
        let answers = gather.into_answers();
        for (agent, bytes) in &answers {
            assert_eq!(bytes, &answer(*agent, lengths[*agent]), "agent {agent}");
        }
        (answers.into_keys().collect(), waves)
    }

    #[test]
    fn answers_arrive_whole_whatever_their_lengths() {
        let all = |count: usize| (0..count).collect::<Vec<_>>();
        for (case, lengths, waves) in [
            ("short", vec![3, 0, 9], 1),
            ("just_one_wave", vec![1000 - 3 * PIECE_COST; 1], 1),
            ("one_long", vec![3, 5000, 9], 7),
            ("all_long", vec![4000; 5], 23),
        ] {
            let (agents, taken) = carry(&lengths, 1000, |_, _| false);
            assert_eq!(agents, all(lengths.len()), "{case}");
            assert!(taken <= waves, "{case}: {taken} waves");
        }
    }

    /// 65,536 ranks with 400 bytes each, on 1,024 nodes.
    #[test]
    fn rows_of_65536_ranks_arrive_whole() {
        let lengths = vec![64 * 400; 1024];
        let (agents, waves) = carry(&lengths, trimtab_reduce::VALUE_BYTES_MAX, |_, _| false);
        assert_eq!((agents.len(), waves), (1024, 7));
    }

    #[test]
    fn an_agent_that_leaves_a_piece_out_is_left_out_and_no_other() {
        let (agents, _) = carry(&[4000, 4000, 10], 1000, |wave, agent| (wave, agent) == (2, 1));
        assert_eq!(agents, [0, 2]);
        let (agents, _) = carry(&[10, 10], 1000, |_, agent| agent == 0);
        assert_eq!(agents, [1]);
    }

    #[test]
    fn pieces_that_do_not_fit_are_no_answer() {
        let piece = |total, bytes: &[u8]| Piece { total, bytes: bytes.to_vec() };
        for (case, wrong) in [
            ("too_long", piece(3, b"abcd")),
            ("too_short", piece(9, b"abcd")),
            ("longer_than_the_room", piece(9, b"abcdefghi")),
        ] {
            let pieces = BTreeMap::from([(0, wrong), (1, piece(2, b"ab"))]);
            let gather = Gather::new(pieces, 5).expect("not too much");
            assert_eq!(gather.remaining(), None, "{case}");
            assert_eq!(gather.into_answers().into_keys().collect::<Vec<_>>(), [1], "{case}");
        }
        let claims = BTreeMap::from([(0, piece(u64::MAX, b"abcde")), (1, piece(u64::MAX, b"abcde"))]);
        assert!(matches!(Gather::new(claims, 5), Err(Error::TooMuch { .. })), "a promise is no memory");
        let mut keeper = Keeper::default();
        assert_eq!(keeper.piece(7, 100), piece(0, b""), "nothing was asked");
    }
}
