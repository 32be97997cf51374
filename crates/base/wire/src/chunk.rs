//! Messages to chunks and back.
//!
//! A chunk is three bytes of length, least first, one byte that says the lane and whether it ends its message, and the
//! payload. Chunks of a lane are in order; lanes are independent.
//!
//! Next: `hello` for what comes before the first chunk.

use crate::limits::{CHUNK_BYTES_MAX, HEADER_BYTES, MESSAGE_BYTES_MAX};

/// The two ways through one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Short, never waits behind the other for more than a chunk.
    Commands,
    /// Results.
    Bulk,
}

/// The bit of a header's last byte that says which lane.
const BULK_BIT: u8 = 1;
/// The bit that says that the message ends here.
const LAST_BIT: u8 = 2;

/// Why bytes are not of our protocol, or a message has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBytes {
    /// A chunk claims to be longer than any.
    #[error("a chunk of {byte_count} bytes, at most {CHUNK_BYTES_MAX}: not our protocol; close the connection")]
    ChunkTooLong {
        /// The length that it claims.
        byte_count: usize,
    },
    /// A message is longer than any.
    #[error("a message of more than {MESSAGE_BYTES_MAX} bytes: close the connection, send less at once")]
    MessageTooLong,
    /// A header with bits that have no meaning.
    #[error("a chunk of unknown kind {kind:#04x}: not our protocol; close the connection")]
    Kind {
        /// The byte.
        kind: u8,
    },
    /// A chunk that neither carries nor ends anything.
    #[error("an empty chunk in the middle of a message: not our protocol; close the connection")]
    Empty,
}

/// A message on its way out, from which chunks are taken one by one.
#[derive(Debug)]
pub struct Message {
    lane: Lane,
    bytes: Vec<u8>,
    at: usize,
}

impl Message {
    /// A message that hasn't begun.
    ///
    /// # Errors
    /// When it is longer than any.
    pub fn new(lane: Lane, bytes: Vec<u8>) -> Result<Self, BadBytes> {
        if bytes.len() > MESSAGE_BYTES_MAX { Err(BadBytes::MessageTooLong) } else { Ok(Message { lane, bytes, at: 0 }) }
    }

    /// Appends its next chunk; whether there is another after it.
    pub fn put_chunk(&mut self, out: &mut Vec<u8>) -> bool {
        let rest = &self.bytes[self.at..];
        let payload = &rest[..rest.len().min(CHUNK_BYTES_MAX)];
        let is_last = payload.len() == rest.len();
        out.extend_from_slice(&header(self.lane, payload.len(), is_last));
        out.extend_from_slice(payload);
        self.at += payload.len();
        !is_last
    }
}

/// Appends a whole message that `write` appends to the buffer, without a copy if it fits one chunk.
///
/// # Errors
/// The errors of `write`, and a message that is longer than any may be; the buffer is then as before.
pub fn put_message<E: From<BadBytes>>(
    lane: Lane,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    if let Err(error) = write(out) {
        out.truncate(start);
        return Err(error);
    }
    let byte_count = out.len() - start - HEADER_BYTES;
    if byte_count <= CHUNK_BYTES_MAX {
        out[start..start + HEADER_BYTES].copy_from_slice(&header(lane, byte_count, true));
        return Ok(());
    }
    let bytes = out.split_off(start + HEADER_BYTES);
    out.truncate(start);
    let mut message = Message::new(lane, bytes)?;
    while message.put_chunk(out) {}
    Ok(())
}

fn header(lane: Lane, byte_count: usize, is_last: bool) -> [u8; HEADER_BYTES] {
    let [low, middle, high, _] = (byte_count as u32).to_le_bytes();
    let kind = if lane == Lane::Bulk { BULK_BIT } else { 0 } | if is_last { LAST_BIT } else { 0 };
    [low, middle, high, kind]
}

/// Finds messages in the bytes of a connection, which come in any pieces.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The beginning of a chunk whose end hasn't come.
    partial: Vec<u8>,
    /// The chunks so far of a message per lane whose last one hasn't come.
    pieces: [Vec<u8>; 2],
}

impl Decoder {
    /// Takes what has arrived and hands over each message that is complete.
    ///
    /// # Errors
    /// When the bytes are not of our protocol, or what `take` says; the connection is of no use any more then.
    pub fn feed<E: From<BadBytes>>(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(Lane, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.partial.is_empty() {
            bytes = self.complete(bytes, &mut take)?;
        }
        while let Some((head, byte_count)) = chunk(bytes)? {
            let (now, later) = bytes.split_at(HEADER_BYTES + byte_count);
            self.take_chunk(head, &now[HEADER_BYTES..], &mut take)?;
            bytes = later;
        }
        if !bytes.is_empty() {
            self.partial.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Adds to an incomplete chunk, as far as it needs; what is left then.
    #[cold]
    fn complete<'a, E: From<BadBytes>>(
        &mut self,
        mut bytes: &'a [u8],
        take: &mut impl FnMut(Lane, &[u8]) -> Result<(), E>,
    ) -> Result<&'a [u8], E> {
        while !self.partial.is_empty() && !bytes.is_empty() {
            let wanted = self.partial_wanted()? - self.partial.len();
            let (now, later) = bytes.split_at(wanted.min(bytes.len()));
            self.partial.extend_from_slice(now);
            bytes = later;
            if let Some((head, byte_count)) = chunk(&self.partial)? {
                // A connection that idles keeps no memory, so the buffer goes with the chunk.
                let whole = std::mem::take(&mut self.partial);
                self.take_chunk(head, &whole[HEADER_BYTES..HEADER_BYTES + byte_count], take)?;
            }
        }
        Ok(bytes)
    }

    /// How many bytes are kept because something is incomplete.
    pub fn kept_bytes(&self) -> usize {
        self.partial.len() + self.pieces.iter().map(Vec::len).sum::<usize>()
    }

    /// How long the incomplete chunk is, or its header if that is incomplete.
    fn partial_wanted(&self) -> Result<usize, BadBytes> {
        Ok(head(&self.partial)?.map_or(HEADER_BYTES, |(_, byte_count)| HEADER_BYTES + byte_count))
    }

    #[inline]
    fn take_chunk<E: From<BadBytes>>(
        &mut self,
        (lane, is_last): (Lane, bool),
        payload: &[u8],
        take: &mut impl FnMut(Lane, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // Nearly every message is one chunk.
        if is_last && self.pieces[lane as usize].is_empty() {
            return take(lane, payload);
        }
        match self.whole(lane, is_last, payload)? {
            Some(whole) => take(lane, &whole),
            None => Ok(()),
        }
    }

    /// The message that a chunk ends.
    #[cold]
    fn whole(&mut self, lane: Lane, is_last: bool, payload: &[u8]) -> Result<Option<Vec<u8>>, BadBytes> {
        let pieces = &mut self.pieces[lane as usize];
        if pieces.len() + payload.len() > MESSAGE_BYTES_MAX {
            return Err(BadBytes::MessageTooLong);
        }
        if payload.is_empty() && !is_last {
            return Err(BadBytes::Empty);
        }
        pieces.extend_from_slice(payload);
        Ok(is_last.then(|| std::mem::take(pieces)))
    }
}

/// A chunk's lane and whether it ends its message, and its length; none while the header is incomplete.
type Head = ((Lane, bool), usize);

fn head(bytes: &[u8]) -> Result<Option<Head>, BadBytes> {
    let Some(&[low, middle, high, kind]) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    if kind & !(BULK_BIT | LAST_BIT) != 0 {
        return Err(BadBytes::Kind { kind });
    }
    let byte_count = u32::from_le_bytes([low, middle, high, 0]) as usize;
    if byte_count > CHUNK_BYTES_MAX {
        return Err(BadBytes::ChunkTooLong { byte_count });
    }
    let lane = if kind & BULK_BIT != 0 { Lane::Bulk } else { Lane::Commands };
    Ok(Some(((lane, kind & LAST_BIT != 0), byte_count)))
}

/// The head of a chunk that is there as a whole.
fn chunk(bytes: &[u8]) -> Result<Option<Head>, BadBytes> {
    Ok(head(bytes)?.filter(|(_, byte_count)| bytes.len() - HEADER_BYTES >= *byte_count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(decoder: &mut Decoder, bytes: &[u8]) -> Result<Vec<(Lane, Vec<u8>)>, BadBytes> {
        let mut messages = Vec::new();
        decoder.feed(bytes, |lane, message| {
            messages.push((lane, message.to_vec()));
            Ok::<(), BadBytes>(())
        })?;
        Ok(messages)
    }

    fn put(lane: Lane, message: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_message(lane, &mut out, |out| {
            out.extend_from_slice(message);
            Ok::<(), BadBytes>(())
        })
        .unwrap();
        out
    }

    #[test]
    fn a_command_passes_between_the_chunks_of_a_result() {
        let long: Vec<u8> = (0..3 * CHUNK_BYTES_MAX).map(|index| index as u8).collect();
        let mut result = Message::new(Lane::Bulk, long.clone()).unwrap();
        let mut out = Vec::new();
        assert!(result.put_chunk(&mut out));
        assert!(out.len() <= HEADER_BYTES + CHUNK_BYTES_MAX, "a command waits for no more than this");
        out.extend(put(Lane::Commands, b"now"));
        while result.put_chunk(&mut out) {}
        let messages = all(&mut Decoder::default(), &out).unwrap();
        assert_eq!(messages, [(Lane::Commands, b"now".to_vec()), (Lane::Bulk, long)]);
    }

    #[test]
    fn what_is_not_ours_is_refused_by_its_first_bytes() {
        for (name, bytes, expected) in [
            ("kind", &[1, 0, 0, 4][..], BadBytes::Kind { kind: 4 }),
            ("length", &[1, 64, 0, 2], BadBytes::ChunkTooLong { byte_count: CHUNK_BYTES_MAX + 1 }),
            ("text", b"GET / HTTP/1.1", BadBytes::Kind { kind: b' ' }),
            ("empty", &[0, 0, 0, 0], BadBytes::Empty),
        ] {
            assert_eq!(all(&mut Decoder::default(), bytes), Err(expected), "{name}");
        }
    }

    #[test]
    fn a_message_without_end_is_refused_at_its_bound() {
        let mut decoder = Decoder::default();
        let mut chunk = header(Lane::Bulk, CHUNK_BYTES_MAX, false).to_vec();
        chunk.extend(vec![7; CHUNK_BYTES_MAX]);
        let fed = (0..).take_while(|_| all(&mut decoder, &chunk).is_ok()).count();
        assert_eq!(fed, MESSAGE_BYTES_MAX / CHUNK_BYTES_MAX);
        assert!(decoder.kept_bytes() <= MESSAGE_BYTES_MAX);
        assert_eq!(Message::new(Lane::Bulk, vec![0; MESSAGE_BYTES_MAX + 1]).unwrap_err(), BadBytes::MessageTooLong);
    }

    proptest! {
        #[test]
        fn messages_come_through_in_any_pieces(
            messages in proptest::collection::vec((any::<bool>(), 0_usize..40_000, any::<u8>()), 0..6),
            cut in 1_usize..20_000,
        ) {
            let messages: Vec<(Lane, Vec<u8>)> = messages
                .into_iter()
                .map(|(bulk, len, byte)| (if bulk { Lane::Bulk } else { Lane::Commands }, vec![byte; len]))
                .collect();
            let bytes: Vec<u8> = messages.iter().flat_map(|(lane, message)| put(*lane, message)).collect();
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            for piece in bytes.chunks(cut) {
                found.extend(all(&mut decoder, piece).unwrap());
            }
            prop_assert_eq!(found, messages);
            prop_assert_eq!(decoder.kept_bytes(), 0);
        }

        #[test]
        fn hostile_bytes_keep_no_more_than_came(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..20),
        ) {
            let (mut decoder, mut came) = (Decoder::default(), 0);
            for piece in pieces {
                came += piece.len();
                let fine = all(&mut decoder, &piece).is_ok();
                prop_assert!(decoder.kept_bytes() <= came);
                if !fine {
                    break;
                }
            }
        }

        #[test]
        fn cutting_differently_changes_nothing(
            bytes in proptest::collection::vec(prop_oneof![4 => 0_u8..4, 1 => any::<u8>()], 0..200),
            cut in 1_usize..20,
        ) {
            let whole = all(&mut Decoder::default(), &bytes);
            let mut decoder = Decoder::default();
            let mut found = Ok(Vec::new());
            for piece in bytes.chunks(cut) {
                match (&mut found, all(&mut decoder, piece)) {
                    (Ok(found), Ok(more)) => found.extend(more),
                    (_, Err(bad)) => { found = Err(bad); break }
                    _ => {}
                }
            }
            prop_assert_eq!(found, whole);
        }
    }
}
