//! Messages a script sent: out of the ring, with tag and values for people.
//!
//! Next: `trimtab-snippet`'s `emit::message`, which describes the ring.

use serde::{Deserialize, Serialize, Serializer};
use trimtab_snippet::emit;
use trimtab_snippet::ir::{SentValue, Unit};

/// Looks after which a message that was begun and not finished is given up: its writer was thrown out of it.
const PATIENCE_LOOKS: u32 = 20;

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// One value of a message. People and their programs read it bare; between nodes its kind goes with it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub enum MessageValue {
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text, or an address in hexadecimal.
    Text(String),
}

impl Serialize for MessageValue {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let name = "MessageValue";
        match (self, to.is_human_readable()) {
            (MessageValue::Int(value), true) => value.serialize(to),
            (MessageValue::Float(value), true) => value.serialize(to),
            (MessageValue::Text(text), true) => text.serialize(to),
            (MessageValue::Int(value), false) => to.serialize_newtype_variant(name, 0, "Int", value),
            (MessageValue::Float(value), false) => to.serialize_newtype_variant(name, 1, "Float", value),
            (MessageValue::Text(text), false) => to.serialize_newtype_variant(name, 2, "Text", text),
        }
    }
}

impl From<SentValue> for MessageValue {
    fn from(value: SentValue) -> Self {
        match value {
            SentValue::Int(value) => MessageValue::Int(value),
            SentValue::Address(value) => MessageValue::Text(format!("{value:#x}")),
            SentValue::Float(value) => MessageValue::Float(value),
            SentValue::Text(bytes) => MessageValue::Text(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }
}

impl Message {
    /// Bytes it takes between nodes, about; never fewer than it does.
    pub(crate) fn bytes_max(&self) -> usize {
        let value = |value: &MessageValue| 11 + if let MessageValue::Text(text) = value { text.len() } else { 0 };
        40 + self.tag.len() + self.values.iter().map(value).sum::<usize>()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        let text = MessageValue::Text("some text".to_owned());
        let values = vec![MessageValue::Int(i64::MIN), MessageValue::Float(1.5), text];
        Message { rank: i64::MIN, pid: i32::MIN, tag: "a tag".to_owned(), ticks: u64::MAX, values }
    }

    #[test]
    fn a_message_takes_no_more_bytes_than_it_is_counted_for_and_comes_as_it_went() {
        let bytes = postcard::to_stdvec(&message()).expect("it has bytes");
        assert!(bytes.len() <= message().bytes_max(), "{} {}", bytes.len(), message().bytes_max());
        assert_eq!(postcard::from_bytes::<Message>(&bytes), Ok(message()));
    }

    #[test]
    fn readers_get_bare_values() {
        let json = serde_json::to_value(message()).expect("it has a form");
        assert_eq!(json["values"], serde_json::json!([i64::MIN, 1.5, "some text"]));
    }
}
