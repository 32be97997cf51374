//! Messages a script sent: out of the ring, with tag and values for people.
//!
//! Next: `trimtab-snippet`'s `emit::message`, which describes the ring.

use serde::Serialize;
use trimtab_snippet::emit;
use trimtab_snippet::ir::Unit;

/// Looks after which a message that was begun and not finished is given up: its writer was thrown out of it.
const PATIENCE_LOOKS: u32 = 20;

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

impl From<emit::MessageValue> for MessageValue {
    fn from(value: emit::MessageValue) -> Self {
        match value {
            emit::MessageValue::Int(value) => MessageValue::Int(value),
            emit::MessageValue::Address(value) => MessageValue::Text(format!("{value:#x}")),
            emit::MessageValue::Float(value) => MessageValue::Float(value),
            emit::MessageValue::Text(bytes) => MessageValue::Text(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }
}

/// Reads one process's ring from where it was left.
#[derive(Debug)]
pub(crate) struct Reader {
    texts: Vec<String>,
    position: u64,
    waited: u32,
    /// Messages that were begun and never finished.
    pub unfinished: u64,
}

impl Reader {
    pub(crate) fn new(unit: &Unit) -> Self {
        Reader { texts: unit.texts.clone(), position: 0, waited: 0, unfinished: 0 }
    }

    /// Up to where everything has been read.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The messages that are complete. `ring` holds it whole, `head` says how many bytes were ever written.
    pub(crate) fn read(&mut self, ring: &[u8], head: u64, rank: i64, pid: i32) -> Vec<Message> {
        let mut messages = Vec::new();
        while self.position < head {
            let Some(message) = emit::read_message(ring, self.position).filter(|message| message.bytes > 0) else {
                self.waited += 1;
                if self.waited > PATIENCE_LOOKS {
                    (self.position, self.waited) = (head, 0);
                    self.unfinished += 1;
                }
                break;
            };
            self.waited = 0;
            self.position += message.bytes;
            let tag = self.texts.get(message.text as usize).cloned().unwrap_or_default();
            let values = message.values.into_iter().map(MessageValue::from).collect();
            messages.push(Message { rank, pid, tag, ticks: message.ticks, values });
        }
        messages
    }
}
