//! Messages a script sent: from the words of the ring to tag and values.
//!
//! Next: `trimtab-snippet`'s `emit::message`, which describes the ring.

use serde::Serialize;
use std::collections::BTreeMap;
use trimtab_snippet::emit::HEADER_WORDS;
use trimtab_snippet::ir::{Sent, Statement, Unit};

/// Polls after which a message that was begun and not finished is given up: its writer was thrown out of it.
const PATIENCE_POLLS: u32 = 20;

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    /// The rank it came from, or -1.
    pub rank: i64,
    /// The process.
    pub pid: i32,
    /// The tag.
    pub tag: String,
    /// Time stamp counter when it was sent.
    pub ticks: u64,
    /// Its values.
    pub values: Vec<MessageValue>,
}

/// One value of a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MessageValue {
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text, or an address in hexadecimal.
    Text(String),
}

/// What the values of a `send` are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Int,
    Address,
    Float,
    /// With room for so many bytes.
    Text(u16),
}

/// The values that each text is sent with, in the order of the script; several `send`s may share a text.
pub(crate) fn shapes(unit: &Unit) -> BTreeMap<usize, Vec<Vec<Shape>>> {
    let mut shapes = BTreeMap::new();
    unit.bodies.iter().for_each(|body| gather(&body.statements, &mut shapes));
    shapes
}

fn gather(statements: &[Statement], shapes: &mut BTreeMap<usize, Vec<Vec<Shape>>>) {
    for statement in statements {
        match statement {
            Statement::Send { text, values } => {
                let found = values.iter().map(shape).collect();
                let known: &mut Vec<Vec<Shape>> = shapes.entry(*text).or_default();
                if !known.contains(&found) {
                    known.push(found);
                }
            }
            Statement::If { then, otherwise, .. } => {
                gather(then, shapes);
                gather(otherwise, shapes);
            }
            Statement::While { body, .. } => gather(body, shapes),
            _ => {}
        }
    }
}

fn shape(value: &Sent) -> Shape {
    match value {
        Sent::Int(_) => Shape::Int,
        Sent::Address(_) => Shape::Address,
        Sent::Float(_) => Shape::Float,
        Sent::Text { bytes_max, .. } => Shape::Text(*bytes_max),
    }
}

/// Reads one process's ring from where it was left.
#[derive(Debug)]
pub(crate) struct Reader {
    shapes: BTreeMap<usize, Vec<Vec<Shape>>>,
    texts: Vec<String>,
    position: u64,
    waited: u32,
    /// Messages that were begun and never finished.
    pub unfinished: u64,
}

impl Reader {
    pub(crate) fn new(unit: &Unit) -> Self {
        Reader { shapes: shapes(unit), texts: unit.texts.clone(), position: 0, waited: 0, unfinished: 0 }
    }

    /// Up to where everything has been read.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The messages that are complete. `ring` holds it whole, `head` says how many bytes were ever written.
    pub(crate) fn read(&mut self, ring: &[u8], head: u64, rank: i64, pid: i32) -> Vec<Message> {
        let mut messages = Vec::new();
        while self.position < head {
            let Some((message, bytes)) = self.one(ring, rank, pid) else {
                self.waited += 1;
                if self.waited > PATIENCE_POLLS {
                    (self.position, self.waited) = (head, 0);
                    self.unfinished += 1;
                }
                break;
            };
            self.waited = 0;
            self.position += bytes;
            messages.extend(message);
        }
        messages
    }

    /// The message at the position and its length; `None` if it is not complete.
    fn one(&self, ring: &[u8], rank: i64, pid: i32) -> Option<(Option<Message>, u64)> {
        let word = |index: u64| word_at(ring, self.position + 8 * index);
        if word(0)? != self.position + 1 {
            return None;
        }
        let (bytes, text) = (word(1)? & 0xffff_ffff, (word(1)? >> 32) as usize);
        if bytes < 8 * u64::from(HEADER_WORDS) || bytes > ring.len() as u64 {
            return None;
        }
        let shapes = self.shapes.get(&text).map_or(&[][..], Vec::as_slice);
        let shape = shapes.iter().find(|shape| length(shape) == bytes);
        let message = shape.and_then(|shape| {
            let values = self.values(ring, shape)?;
            Some(Message { rank, pid, tag: self.texts.get(text)?.clone(), ticks: word(3)?, values })
        });
        Some((message, bytes))
    }

    fn values(&self, ring: &[u8], shape: &[Shape]) -> Option<Vec<MessageValue>> {
        let first = self.position + 8 * u64::from(HEADER_WORDS);
        let mut text_at = first + 8 * shape.len() as u64;
        let mut values = Vec::new();
        for (index, kind) in shape.iter().enumerate() {
            let raw = word_at(ring, first + 8 * index as u64)?;
            values.push(match kind {
                Shape::Int => MessageValue::Int(raw as i64),
                Shape::Address => MessageValue::Text(format!("{raw:#x}")),
                Shape::Float => MessageValue::Float(f64::from_bits(raw)),
                Shape::Text(bytes_max) => {
                    let text = text_of(ring, text_at, raw.min(u64::from(*bytes_max)));
                    text_at += u64::from(*bytes_max).next_multiple_of(8);
                    MessageValue::Text(text)
                }
            });
        }
        Some(values)
    }
}

fn length(shape: &[Shape]) -> u64 {
    let texts = shape.iter().map(|kind| match kind {
        Shape::Text(bytes_max) => u64::from(*bytes_max).next_multiple_of(8),
        _ => 0,
    });
    8 * (u64::from(HEADER_WORDS) + shape.len() as u64) + texts.sum::<u64>()
}

/// The word at a position, which counts bytes since the beginning.
fn word_at(ring: &[u8], position: u64) -> Option<u64> {
    let at = (position % ring.len().max(1) as u64) as usize;
    Some(u64::from_le_bytes(ring.get(at..at + 8)?.try_into().ok()?))
}

fn text_of(ring: &[u8], position: u64, length: u64) -> String {
    let byte = |index: u64| ring[((position + index) % ring.len() as u64) as usize];
    String::from_utf8_lossy(&(0..length).map(byte).collect::<Vec<u8>>()).into_owned()
}
