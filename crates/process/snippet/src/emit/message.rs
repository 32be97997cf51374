//! `send`: messages in a ring that all threads of the process write and trimtab reads.
//!
//! A writer reserves room by moving `MESSAGES_HEAD`, writes its words, and last of all the first one, the commit word.
//! Positions count bytes since the beginning and never repeat, so a reader at position `p` knows that the message there
//! is complete when its commit word is `p + 1`; nothing needs to be cleared. Every position is a multiple of 8, and each
//! word lies at its position modulo the ring's size, so a message may go round the end.
//!
//! | word | |
//! |---|---|
//! | 0 | position + 1, written last |
//! | 1 | bytes of the whole message (low half), number of its text (high half) |
//! | 2 | the thread area's `OWNER` |
//! | 3 | time stamp counter |
//! | 4 | number of values (low 8 bits), then two bits for the kind of each: integer, address, float, text |
//! | 5... | one word per value: integer, address, bits of a float, or for a text its length in bytes (low half) and the bytes of its room (high half) |
//! | then | the texts' bytes, each with room for its bound, rounded up to words |
//!
//! A thread that a signal handler throws out of a message leaves it uncommitted; a reader that sees the head move on for
//! long goes to the head.
//!
//! Next: [`read_message`] for the other side; `ring` for reserving and copying.

use crate::emit::error::{EmitError, Emitted};
use crate::emit::generator::{Generator, R10, RCX, RDX, frame_word};
use crate::emit::routines;
use crate::ir::{Expression, Sent, SentValue, process_word, thread_word};
use iced_x86::code_asm::*;

/// Words before the values.
pub const HEADER_WORDS: u32 = 5;
/// Values of one message at most: as many as their kinds have room for.
pub const MESSAGE_VALUES_MAX: usize = 28;
/// The longest message; longer ones are refused when they are compiled.
pub const MESSAGE_BYTES_MAX: u64 = 1 << 20;

/// Bytes of a message with these values.
pub fn message_bytes(values: &[Sent]) -> u64 {
    let texts = values.iter().map(|value| text_room(value).unwrap_or(0));
    8 * (u64::from(HEADER_WORDS) + values.len() as u64) + texts.sum::<u64>()
}

/// Bytes that a text takes behind the values.
fn text_room(value: &Sent) -> Option<u64> {
    match value {
        Sent::Text { bytes_max, .. } => Some(u64::from(*bytes_max).next_multiple_of(8)),
        Sent::Int(_) | Sent::Address(_) | Sent::Float(_) => None,
    }
}

/// The word that says how many values there are and of which kinds.
fn kinds(values: &[Sent]) -> u64 {
    let kind = |value: &Sent| match value {
        Sent::Int(_) => KIND_INT,
        Sent::Address(_) => KIND_ADDRESS,
        Sent::Float(_) => KIND_FLOAT,
        Sent::Text { .. } => KIND_TEXT,
    };
    let places = values.iter().enumerate();
    places.fold(values.len() as u64, |word, (number, value)| word | kind(value) << (8 + 2 * number))
}

const KIND_INT: u64 = 0;
const KIND_ADDRESS: u64 = 1;
const KIND_FLOAT: u64 = 2;
const KIND_TEXT: u64 = 3;

/// A message as it was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Bytes it takes in the ring.
    pub bytes: u64,
    /// Number of its text.
    pub text: u32,
    /// `OWNER` of the thread area of the thread that sent it.
    pub thread: u64,
    /// Time stamp counter when it was sent.
    pub ticks: u64,
    /// Its values.
    pub values: Vec<SentValue>,
}

/// Reads the message at `position` from a copy of the ring's bytes (a power of two of them); `None` while it is not
/// complete. Whatever the bytes are, nothing outside them is read; a damaged message ends early.
pub fn read_message(ring: &[u8], position: u64) -> Option<Message> {
    let byte = |at: u64| ring.get((at & (ring.len() as u64).wrapping_sub(1)) as usize).copied();
    let word = |index: u64| {
        let bytes: Option<Vec<u8>> = (0..8).map(|part| byte(position.wrapping_add(8 * index + part))).collect();
        bytes?.try_into().ok().map(u64::from_le_bytes)
    };
    if word(0)? != position.wrapping_add(1) {
        return None;
    }
    let (size, kinds) = (word(1)?, word(4)?);
    let count = (kinds & 0xff).min(MESSAGE_VALUES_MAX as u64);
    let first = u64::from(HEADER_WORDS);
    let mut text_at = position.wrapping_add(8 * (first + count));
    let mut values = Vec::new();
    for number in 0..count {
        let value = word(first + number)?;
        values.push(match kinds >> (8 + 2 * number) & 3 {
            KIND_INT => SentValue::Int(value as i64),
            KIND_ADDRESS => SentValue::Address(value),
            KIND_FLOAT => SentValue::Float(f64::from_bits(value)),
            _ => {
                let (length, room) = (value as u32, value >> 32);
                let length = u64::from(length).min(room).min(ring.len() as u64);
                let text = (0..length).map(|at| byte(text_at.wrapping_add(at))).collect::<Option<_>>()?;
                text_at = text_at.wrapping_add(room);
                SentValue::Text(text)
            }
        });
    }
    Some(Message { bytes: size & 0xffff_ffff, text: (size >> 32) as u32, thread: word(2)?, ticks: word(3)?, values })
}

impl Generator<'_> {
    pub(crate) fn send(&mut self, text: usize, values: &[Sent]) -> Emitted {
        if text >= self.unit.texts.len() {
            return Err(EmitError::UnknownText { text });
        }
        if values.len() > MESSAGE_VALUES_MAX {
            return Err(EmitError::MessageValues { count: values.len(), max: MESSAGE_VALUES_MAX });
        }
        let bytes = message_bytes(values);
        if bytes > MESSAGE_BYTES_MAX {
            return Err(EmitError::MessageTooLong { bytes, max: MESSAGE_BYTES_MAX });
        }
        let words = HEADER_WORDS - 1 + values.len() as u32;
        let (first, position) = (self.take(words), self.take(1));
        for (number, value) in values.iter().enumerate() {
            self.sent_value(value)?;
            self.w.mov(frame_word(first + HEADER_WORDS - 1 + number as u32), rax)?;
        }
        self.header(first, bytes, text, kinds(values))?;
        let dropped = self.w.create_label();
        self.w.mov(edx, bytes as u32)?;
        let reserve = self.environment.routines.reserve;
        self.routine(reserve, RCX | R10, routines::RESERVE_INSTRUCTIONS_MAX)?;
        self.w.cmp(rax, -1)?;
        self.w.je(dropped)?;
        self.w.mov(frame_word(position), rax)?;
        self.w.add(rax, 8)?;
        self.w.lea(rcx, frame_word(first))?;
        self.w.mov(edx, words)?;
        let write = self.environment.routines.write_words;
        self.routine(write, RCX | RDX | R10, routines::write_instructions_max(words))?;
        self.texts(first, position, values)?;
        self.commit(position)?;
        self.w.bind(dropped)?;
        self.release(words + 1);
        Ok(())
    }

    /// A value's word, or for a text its address, into `rax`.
    fn sent_value(&mut self, value: &Sent) -> Emitted {
        let (expression, float) = match value {
            Sent::Int(expression) | Sent::Address(expression) => (expression, false),
            Sent::Float(expression) => (expression, true),
            Sent::Text { address, .. } => (address, false),
        };
        if self.is_float(expression)? != float {
            return Err(EmitError::Mixed { what: "a message" });
        }
        self.bits(expression)
    }

    fn header(&mut self, first: u32, bytes: u64, text: usize, kinds: u64) -> Emitted {
        self.w.mov(rax, (text as u64) << 32 | bytes)?;
        self.w.mov(frame_word(first), rax)?;
        self.w.mov(rax, qword_ptr(r11 + thread_word::OWNER))?;
        self.w.mov(frame_word(first + 1), rax)?;
        self.ticks(rax)?;
        self.w.mov(frame_word(first + 2), rax)?;
        self.w.mov(rax, kinds)?;
        Ok(self.w.mov(frame_word(first + 3), rax)?)
    }

    /// Copies the texts; their addresses stand where their lengths will in the message.
    fn texts(&mut self, first: u32, position: u32, values: &[Sent]) -> Emitted {
        let mut offset = 8 * (u64::from(HEADER_WORDS) + values.len() as u64);
        for (number, value) in values.iter().enumerate() {
            let Sent::Text { bytes_max, .. } = value else { continue };
            self.w.mov(rcx, frame_word(position))?;
            self.w.lea(r10, qword_ptr(rcx + offset as i32))?;
            self.w.add(rcx, 8 * (HEADER_WORDS as i32 + number as i32))?;
            self.w.mov(rax, frame_word(first + HEADER_WORDS - 1 + number as u32))?;
            self.w.mov(edx, u32::from(*bytes_max))?;
            let copy = self.environment.routines.copy_text;
            let most = routines::text_instructions_max(u64::from(*bytes_max));
            self.routine(copy, RCX | RDX | R10, most)?;
            offset += text_room(value).unwrap_or(0);
        }
        Ok(())
    }

    /// Writes the commit word. Stores of one thread are seen in their order.
    fn commit(&mut self, position: u32) -> Emitted {
        let mask = self.w.process(process_word::MESSAGES_BYTES)?;
        self.w.mov(rcx, mask)?;
        let ring = self.w.process(process_word::MESSAGES)?;
        self.w.mov(rdx, ring)?;
        self.w.dec(rcx)?;
        self.w.mov(rax, frame_word(position))?;
        self.w.and(rcx, rax)?;
        self.w.add(rdx, rcx)?;
        let process = self.environment.areas.process.0;
        self.w.mov(rcx, process)?;
        self.w.add(rax, 1)?;
        Ok(self.w.mov(qword_ptr(rcx + rdx), rax)?)
    }

    /// Into `rax`, true if the text at an address is one of the script's.
    pub(crate) fn text_equals(&mut self, address: &Expression, text: usize) -> Emitted {
        let expected = self.unit.texts.get(text).ok_or(EmitError::UnknownText { text })?;
        let mut bytes = expected.as_bytes().to_vec();
        bytes.push(0);
        self.integer(address)?;
        let constant = self.w.constant(&bytes)?;
        self.w.lea(rcx, qword_ptr(constant))?;
        self.w.mov(edx, bytes.len() as u32)?;
        let equal = self.environment.routines.text_equal;
        let most = routines::text_instructions_max(bytes.len() as u64);
        self.routine(equal, RCX | RDX | R10, most)
    }
}
