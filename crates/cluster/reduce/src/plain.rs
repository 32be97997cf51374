//! Numbers as bytes, for what is so frequent that the general way costs too much: its code alone is more than caches keep
//! between two turns of a node.
//!
//! Seven bits to a byte, lowest first, as all bytes but the last say by their highest bit; just as `postcard` does it.
//! Values that are written any other way than the shortest are refused here, and left to the general way to judge.
//!
//! Next: `ranks` for sets, `trimtab-overlay`'s frames, which are read and written so.

/// Reads what was written plainly. The first thing that isn't spoils all: it is asked for once, at the end.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a> {
    left: &'a [u8],
    is_plain: bool,
}

impl<'a> Plain<'a> {
    /// Reads from the beginning of some bytes.
    pub fn new(bytes: &'a [u8]) -> Plain<'a> {
        Plain { left: bytes, is_plain: true }
    }

    /// A number; 0 if there is none up to this one.
    pub fn number(&mut self, max: u64) -> u64 {
        match self.left {
            // Nearly all.
            [byte, behind @ ..] if *byte < 0x80 && u64::from(*byte) <= max => {
                self.left = behind;
                u64::from(*byte)
            }
            _ => self.long_number(max),
        }
    }

    #[inline(never)]
    fn long_number(&mut self, max: u64) -> u64 {
        let (mut number, mut shift) = (0, 0);
        while let Some((byte, behind)) = self.left.split_first() {
            self.left = behind;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                let is_shortest = *byte > 0 || shift == 0;
                if number <= max && is_shortest {
                    return number;
                }
                break;
            }
            shift += 7;
            // The tenth byte of the longest has one bit; such numbers are rare.
            if shift > 56 {
                break;
            }
        }
        self.spoil();
        0
    }

    /// A number of 32 bits.
    pub fn short(&mut self) -> u32 {
        self.number(u64::from(u32::MAX)) as u32
    }

    /// As many bytes as the number before them says.
    pub fn bytes(&mut self) -> &'a [u8] {
        let count = self.number(self.left.len() as u64) as usize;
        let Some((bytes, behind)) = self.left.split_at_checked(count) else {
            self.spoil();
            return &[];
        };
        self.left = behind;
        bytes
    }

    /// Nothing that was read is of any use.
    pub fn spoil(&mut self) {
        self.is_plain = false;
        self.left = &[];
    }

    /// True if all there was has been read, and was plain.
    pub fn is_over(&self) -> bool {
        self.is_plain && self.left.is_empty()
    }
}

/// Writes a number behind some bytes.
pub fn put_number(number: u64, out: &mut Vec<u8>) {
    if number < 0x80 { out.push(number as u8) } else { put_long_number(number, out) }
}

#[inline(never)]
fn put_long_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes some bytes behind others, after how many they are.
pub fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_written_and_read_as_in_general(number in any::<u64>(), shift in 0_u32..64) {
            let number = number >> shift;
            let mut bytes = Vec::new();
            put_number(number, &mut bytes);
            prop_assert_eq!(&bytes, &postcard::to_stdvec(&number).unwrap());
            let mut plain = Plain::new(&bytes);
            let read = plain.number(u64::MAX);
            prop_assert_eq!((read, plain.is_over()), if bytes.len() < 10 { (number, true) } else { (0, false) });
        }

        #[test]
        fn what_is_read_is_read_so_in_general(bytes in proptest::collection::vec(any::<u8>(), 0..9)) {
            let mut plain = Plain::new(&bytes);
            let read = (plain.short(), plain.number(u64::MAX), plain.bytes());
            if plain.is_over() {
                prop_assert_eq!(postcard::take_from_bytes::<(u32, u64, &[u8])>(&bytes), Ok((read, &[][..])));
            }
        }
    }
}
