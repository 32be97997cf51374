//! Changes to inputs: bits, numbers of every width where numbers stand, LEB128, pieces moved, words of a dictionary.
//!
//! Next: `worker`, which chooses what is changed.

use crate::random::Random;

/// Values at which arithmetic and bounds go wrong.
const EDGES: [u64; 20] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    16,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];
/// Changes made at once at most.
const CHANGES_MAX: u64 = 6;
/// Longest piece that is moved.
const PIECE_MAX: usize = 64;
/// An insertion repeats its piece at most so often.
const REPEATS_MAX: u64 = 8;

/// Makes changes.
pub struct Mutator<'a> {
    /// Where choices come from.
    pub random: &'a mut Random,
    /// No input becomes longer, in bytes.
    pub length_max: usize,
}

impl Mutator<'_> {
    /// A few changes. `words` are pieces that mean something to the target.
    pub fn change(&mut self, input: &mut Vec<u8>, other: &[u8], words: &[&[u8]]) {
        // One change alone gets past more checks than many.
        let more = if self.random.below(2) == 0 { 0 } else { self.random.below(CHANGES_MAX) };
        for _ in 0..=more {
            self.change_once(input, other, words);
        }
        input.truncate(self.length_max);
    }

    fn change_once(&mut self, input: &mut Vec<u8>, other: &[u8], words: &[&[u8]]) {
        if input.is_empty() {
            input.extend(self.random.next().to_le_bytes());
        }
        match self.random.below(12) {
            0 => {
                let at = self.place(input.len());
                input[at] ^= 1 << self.random.below(8);
            }
            1 => {
                let at = self.place(input.len());
                input[at] = self.random.next() as u8;
            }
            2..=4 => self.set_number(input),
            5 => self.add_to_number(input),
            6 => self.set_leb(input),
            7 => self.copy_inside(input),
            8 => self.insert_piece(input, other),
            9 => {
                let range = self.piece(input.len());
                input.drain(range);
            }
            10 if !words.is_empty() => self.insert_word(input, words),
            _ => self.splice(input, other),
        }
    }

    fn place(&mut self, length: usize) -> usize {
        self.random.below(length.max(1) as u64) as usize
    }

    fn piece(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.place(length);
        let bytes = 1 + self.place(PIECE_MAX);
        start..(start + bytes).min(length)
    }

    /// A place for a number of `width` bytes, mostly aligned.
    fn number_place(&mut self, length: usize, width: usize) -> Option<usize> {
        let last = length.checked_sub(width)?;
        let at = self.place(last + 1);
        Some(if self.random.below(4) > 0 { at / width * width } else { at })
    }

    fn width(&mut self) -> usize {
        1 << self.random.below(4)
    }

    fn set_number(&mut self, input: &mut [u8]) {
        let width = self.width();
        let Some(at) = self.number_place(input.len(), width) else { return };
        let edge = EDGES[self.place(EDGES.len())];
        let value = match self.random.below(6) {
            0 => self.random.next(),
            1 => input.len() as u64,
            2 => edge.wrapping_neg(),
            3 => self.random.below(0x1_0000),
            _ => edge,
        };
        input[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }

    fn add_to_number(&mut self, input: &mut [u8]) {
        let width = self.width();
        let Some(at) = self.number_place(input.len(), width) else { return };
        let mut raw = [0; 8];
        raw[..width].copy_from_slice(&input[at..at + width]);
        let step = 1 + self.random.below(32);
        let value = u64::from_le_bytes(raw);
        let value = if self.random.below(2) == 0 { value.wrapping_add(step) } else { value.wrapping_sub(step) };
        input[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }

    /// A number as DWARF and postcard write it, over what is there.
    fn set_leb(&mut self, input: &mut Vec<u8>) {
        let at = self.place(input.len());
        let mut value = if self.random.below(2) == 0 { EDGES[self.place(EDGES.len())] } else { self.random.below(512) };
        let mut bytes = Vec::new();
        loop {
            let byte = (value & 0x7f) as u8;
            value >>= 7;
            bytes.push(if value == 0 { byte } else { byte | 0x80 });
            if value == 0 {
                break;
            }
        }
        let end = if self.random.below(2) == 0 { at } else { (at + bytes.len()).min(input.len()) };
        input.splice(at..end, bytes);
    }

    fn copy_inside(&mut self, input: &mut [u8]) {
        let from = self.piece(input.len());
        let to = self.place(input.len());
        let bytes = from.len().min(input.len() - to);
        input.copy_within(from.start..from.start + bytes, to);
    }

    fn insert_piece(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        let source = if self.random.below(2) == 0 && !other.is_empty() { other } else { &input[..] };
        let range = self.piece(source.len());
        let piece = source[range].repeat(1 + self.random.below(REPEATS_MAX) as usize);
        let at = self.place(input.len());
        input.splice(at..at, piece);
    }

    fn insert_word(&mut self, input: &mut Vec<u8>, words: &[&[u8]]) {
        let word = words[self.place(words.len())];
        let at = self.place(input.len());
        let end = if self.random.below(2) == 0 { at } else { (at + word.len()).min(input.len()) };
        input.splice(at..end, word.iter().copied());
    }

    /// The beginning of one, the end of another, or a piece of another over this one.
    fn splice(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        if other.is_empty() {
            return;
        }
        if self.random.below(4) == 0 {
            input.truncate(self.place(input.len()));
            input.extend(&other[self.place(other.len())..]);
            return;
        }
        let range = self.piece(other.len());
        let at = self.place(input.len());
        let bytes = range.len().min(input.len() - at);
        input[at..at + bytes].copy_from_slice(&other[range.start..range.start + bytes]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_many_and_bounded() {
        let mut random = Random::new(7);
        let mut mutator = Mutator { random: &mut random, length_max: 100 };
        let mut made = std::collections::BTreeSet::new();
        for number in 0..20_000_usize {
            let mut input = vec![number as u8; number % 90];
            mutator.change(&mut input, b"another input", &[b"word"]);
            assert!(input.len() <= 100);
            made.insert(input);
        }
        assert!(made.len() > 10_000, "{}", made.len());
    }
}
