//! One direction of a connection in memory that both of its ends map: a ring of words that one writes and one reads.
//!
//! Each end keeps its own place and believes only what it can check of the other's: a place that can't be, or a length
//! that isn't there, ends the connection. What is read is copied out first, so that nobody changes it while it is used.
//! Words are atomics, so two ends that disagree read nonsense at worst, which the cipher above refuses.
//!
//! Next: `memory`, which has two of them for each connection.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of data: half of what is read at once.
const DATA_WORDS: u64 = 4096;
/// Words of both places and a sign, each in a line of the cache of its own, and the data.
pub(crate) const RING_WORDS: usize = DATA + DATA_WORDS as usize;
/// Where the writer is.
const HEAD: usize = 0;
/// Where the reader is.
const TAIL: usize = 8;
/// The word that says if the writer waits for room.
const AWAITED: usize = 16;
const DATA: usize = 24;
const WORD_BYTES: usize = 8;

/// The end that writes.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    at: u64,
}

/// The end that reads.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    at: u64,
}

fn nonsense() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the other end wrote nonsense into the memory that both ends share")
}

fn word(ring: &[AtomicU64], at: u64) -> &AtomicU64 {
    &ring[DATA + (at % DATA_WORDS) as usize]
}

impl Writer {
    /// Writes as much as there is room for; `WouldBlock` when there is none. Then the reader is asked to say when there
    /// is.
    pub(crate) fn put(&mut self, ring: &[AtomicU64], bytes: &[u8]) -> io::Result<usize> {
        let mut count = self.put_now(ring, bytes)?;
        if count == 0 && !bytes.is_empty() {
            ring[AWAITED].store(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            // It may have read before it was asked.
            count = self.put_now(ring, bytes)?;
            if count == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        Ok(count)
    }

    fn put_now(&mut self, ring: &[AtomicU64], bytes: &[u8]) -> io::Result<usize> {
        let used = self.at.wrapping_sub(ring[TAIL].load(Ordering::Acquire));
        let free = DATA_WORDS.checked_sub(used).ok_or_else(nonsense)?;
        let count = bytes.len().min(free.saturating_sub(1) as usize * WORD_BYTES);
        if count == 0 {
            return Ok(0);
        }
        word(ring, self.at).store(count as u64, Ordering::Relaxed);
        let mut at = self.at.wrapping_add(1);
        let (whole, rest) = bytes[..count].as_chunks::<WORD_BYTES>();
        for chunk in whole {
            word(ring, at).store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
            at = at.wrapping_add(1);
        }
        if !rest.is_empty() {
            let mut last = [0; WORD_BYTES];
            last[..rest.len()].copy_from_slice(rest);
            word(ring, at).store(u64::from_le_bytes(last), Ordering::Relaxed);
            at = at.wrapping_add(1);
        }
        self.at = at;
        ring[HEAD].store(at, Ordering::Release);
        Ok(count)
    }
}

impl Reader {
    /// True if there is something.
    pub(crate) fn has_come(&self, ring: &[AtomicU64]) -> bool {
        ring[HEAD].load(Ordering::Acquire) != self.at
    }

    /// Reads all that is there, for which `bytes` must have room, as those for what is read at once do; `WouldBlock`
    /// when there is nothing.
    pub(crate) fn take(&mut self, ring: &[AtomicU64], bytes: &mut [u8]) -> io::Result<usize> {
        let mut left = ring[HEAD].load(Ordering::Acquire).wrapping_sub(self.at);
        if left == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if left > DATA_WORDS {
            return Err(nonsense());
        }
        let (mut at, mut filled) = (self.at, 0);
        while left > 0 {
            let count = word(ring, at).load(Ordering::Relaxed) as usize;
            let word_count = count.div_ceil(WORD_BYTES) as u64;
            if count == 0 || word_count >= left {
                return Err(nonsense());
            }
            let out = bytes.get_mut(filled..filled + count).ok_or_else(nonsense)?;
            copy_out(ring, at.wrapping_add(1), out);
            filled += count;
            at = at.wrapping_add(1 + word_count);
            left -= 1 + word_count;
        }
        self.at = at;
        ring[TAIL].store(at, Ordering::Release);
        Ok(filled)
    }

    /// True if the writer waited for the room that was made.
    pub(crate) fn is_awaited(ring: &[AtomicU64]) -> bool {
        fence(Ordering::SeqCst);
        ring[AWAITED].load(Ordering::Relaxed) != 0 && ring[AWAITED].swap(0, Ordering::SeqCst) != 0
    }
}

fn copy_out(ring: &[AtomicU64], mut at: u64, out: &mut [u8]) {
    let (whole, rest) = out.as_chunks_mut::<WORD_BYTES>();
    for chunk in whole {
        *chunk = word(ring, at).load(Ordering::Relaxed).to_le_bytes();
        at = at.wrapping_add(1);
    }
    if !rest.is_empty() {
        let last = word(ring, at).load(Ordering::Relaxed).to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BATCH_BYTES;
    use proptest::prelude::*;

    fn ring() -> Vec<AtomicU64> {
        (0..RING_WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    fn take(reader: &mut Reader, ring: &[AtomicU64]) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; BATCH_BYTES];
        let count = reader.take(ring, &mut bytes)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    #[test]
    fn a_full_ring_takes_no_more_until_it_was_read_and_the_writer_is_told() {
        let (ring, mut writer, mut reader) = (ring(), Writer::default(), Reader::default());
        let bytes: Vec<u8> = (0..BATCH_BYTES).map(|index| (index % 251) as u8).collect();
        let count = writer.put(&ring, &bytes).unwrap();
        assert!(!Reader::is_awaited(&ring));
        assert_eq!(writer.put(&ring, &bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(take(&mut reader, &ring).unwrap(), bytes[..count]);
        assert!(Reader::is_awaited(&ring) && !Reader::is_awaited(&ring), "once");
        assert_eq!(writer.put(&ring, &bytes[..count]).unwrap(), count);
        assert_eq!(take(&mut reader, &ring).unwrap(), bytes[..count]);
        assert_eq!(take(&mut reader, &ring).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_in_its_order(lengths in prop::collection::vec((0_usize..9000, any::<bool>()), 1..60)) {
            let (ring, mut writer, mut reader) = (ring(), Writer { at: u64::MAX - 99 }, Reader { at: u64::MAX - 99 });
            ring[HEAD].store(writer.at, Ordering::Relaxed);
            ring[TAIL].store(writer.at, Ordering::Relaxed);
            let (mut sent, mut heard) = (Vec::new(), Vec::new());
            for (length, reads) in lengths {
                let bytes: Vec<u8> = (0..length).map(|index| (sent.len() + index) as u8).collect();
                if let Ok(count) = writer.put(&ring, &bytes) {
                    sent.extend_from_slice(&bytes[..count]);
                }
                if reads && reader.has_come(&ring) {
                    heard.extend(take(&mut reader, &ring).unwrap());
                }
            }
            if reader.has_come(&ring) {
                heard.extend(take(&mut reader, &ring).unwrap());
            }
            prop_assert_eq!(heard, sent);
        }

        #[test]
        fn nonsense_of_the_other_end_is_refused_or_read_as_bytes(
            places in prop::collection::vec((0..64_usize, prop_oneof![0..70_u64, any::<u64>()]), 0..20),
            head in prop_oneof![0..5000_u64, any::<u64>()],
            tail in prop_oneof![0..5000_u64, any::<u64>()],
        ) {
            let (ring, mut writer, mut reader) = (ring(), Writer::default(), Reader::default());
            for (place, value) in places {
                ring[place].store(value, Ordering::Relaxed);
            }
            ring[HEAD].store(head, Ordering::Relaxed);
            let read = take(&mut reader, &ring);
            prop_assert!(head <= DATA_WORDS || read.is_err());
            prop_assert!(read.is_err() || reader.at == head);
            ring[TAIL].store(tail, Ordering::Relaxed);
            let written = writer.put(&ring, &[7; 100]);
            // Nobody has read what wasn't written.
            prop_assert_eq!(written.is_ok(), tail == 0 || tail.wrapping_neg() <= DATA_WORDS - 14);
        }
    }

    #[test]
    fn two_threads_lose_nothing_and_nobody_sleeps_through() {
        let ring = ring();
        let total = 3 << 20;
        let byte_at = |index: usize| (index * 7 % 253) as u8;
        std::thread::scope(|scope| {
            let ring = &ring;
            let writing = scope.spawn(move || {
                let (mut writer, mut sent) = (Writer::default(), 0);
                while sent < total {
                    let bytes: Vec<u8> = (sent..total.min(sent + 1 + sent % 5000)).map(byte_at).collect();
                    match writer.put(ring, &bytes) {
                        Ok(count) => sent += count,
                        // The reader's sign is what ends the wait.
                        Err(_) => {
                            while ring[AWAITED].load(Ordering::SeqCst) != 0 {
                                std::thread::yield_now()
                            }
                        }
                    }
                }
            });
            let (mut reader, mut heard) = (Reader::default(), 0);
            while heard < total {
                let Ok(bytes) = take(&mut reader, ring) else {
                    std::thread::yield_now();
                    continue;
                };
                Reader::is_awaited(ring);
                assert!(bytes.iter().enumerate().all(|(index, byte)| *byte == byte_at(heard + index)));
                heard += bytes.len();
            }
            writing.join().unwrap();
        });
    }
}
