//! A script of probes in the ranks of a job of many nodes: what is asked of agents about it, and what they answer.
//!
//! An agent runs the script in its ranks as one machine would ([`trimtab_script::Running`]). The lead asks for what has come
//! since it asked last: messages, whether a body said `stop()`, how many ranks still run. What variables hold is asked once,
//! at the end, and merged in the tree by what the script declares: sums are added on the way up, not collected.
//!
//! Everything here has a bound: a script that of a command, the messages of an answer what the lead has room for, and those
//! that wait at an agent [`MESSAGES_MAX`]; what finds no room is counted and said.
//!
//! Next: [`values`] for how variables merge, [`serve`] for an agent's part, [`lead`] for the user's.

pub mod lead;
pub(crate) mod serve;
pub mod values;

use serde::{Deserialize, Serialize};
use trimtab_reduce::{Bad, FilterSpec, Registry};
use trimtab_script::{Message, MessageValue, Summary};
use values::FILTER;
pub use values::Variable;

/// Messages that wait at an agent until the lead asks.
pub const MESSAGES_MAX: usize = 65_536;

/// A question to an agent about a script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Put it in: [`Answer::Started`].
    Start(Start),
    /// The news? [`Answer::Polled`]
    Poll {
        /// Bytes of messages that the answer may hold.
        bytes_max: u32,
    },
    /// Take it out: [`Answer::Finished`].
    Finish,
}

/// A script as the user gave it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Its text.
    pub text: String,
    /// True if it may assign to the program's variables.
    pub may_write: bool,
    /// True if it may call the program's functions.
    pub may_call: bool,
    /// True if the owner says that filters of system calls let ours pass.
    pub seccomp_ok: bool,
    /// The ranks it is for, as the user wrote them.
    pub ranks: String,
    /// Ranks of the whole job.
    pub size: u32,
}

/// An agent's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// It is in.
    Started(Started),
    /// The news.
    Polled(Polled),
    /// It is out.
    Finished(Box<Finished>),
}

/// A script that went in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// In which ranks; none if the user meant none of this agent's.
    pub ranks: Vec<u32>,
    /// Functions of the script.
    pub functions: u64,
    /// Those that can't be probed, with the reason.
    pub refused: Vec<(String, String)>,
    /// Places in libraries that are not loaded yet.
    pub awaited: Vec<String>,
    /// How long it wants to record.
    pub wanted_us: Option<u64>,
    /// None of the agent's ranks has what the script names, so it is in none of them.
    pub lacking: Option<Lacking>,
}

/// Ranks that have no place for a script; those of other nodes may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lacking {
    /// Which.
    pub ranks: Vec<u32>,
    /// Why, in one line.
    pub reason: String,
    /// The same with the script's lines, for the case that no node has a place.
    pub shown: String,
}

/// The news since the last time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Polled {
    /// Messages, in order.
    pub messages: Vec<Sent>,
    /// More of them wait.
    pub has_more: bool,
    /// True if a body said that it is over.
    pub is_stopped: bool,
    /// A program has set a fault handler of its own meanwhile, so that its probes had to go.
    pub has_new_handler: bool,
    /// Ranks that still run the program.
    pub alive: u64,
}

/// The results that are left when it is out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The last messages.
    pub messages: Vec<Sent>,
    /// Messages that found no room at the agent.
    pub dropped: u64,
    /// Bytes of the variables that stay as long when they merge with others', at most.
    pub fixed_bytes: u64,
    /// Bytes of those that grow.
    pub growing_bytes: u64,
    /// The cost, and what was lost.
    pub summary: Summary,
}

/// A message on its way to the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// The rank, or -1.
    pub rank: i64,
    /// The process on its node.
    pub pid: i32,
    /// The tag.
    pub tag: String,
    /// Time stamp counter of its node.
    pub ticks: u64,
    /// Its values.
    pub values: Vec<SentValue>,
}

/// A value of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SentValue {
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text, or an address in hexadecimal.
    Text(String),
}

impl Sent {
    /// Bytes it takes on its way, about; never fewer than it does.
    fn cost(&self) -> usize {
        let value = |value: &SentValue| 11 + if let SentValue::Text(text) = value { text.len() } else { 0 };
        40 + self.tag.len() + self.values.iter().map(value).sum::<usize>()
    }
}

impl From<Message> for Sent {
    fn from(message: Message) -> Self {
        let Message { rank, pid, tag, ticks, values } = message;
        let value = |value| match value {
            MessageValue::Int(value) => SentValue::Int(value),
            MessageValue::Float(value) => SentValue::Float(value),
            MessageValue::Text(text) => SentValue::Text(text),
        };
        Sent { rank, pid, tag, ticks, values: values.into_iter().map(value).collect() }
    }
}

impl From<Sent> for Message {
    fn from(sent: Sent) -> Self {
        let Sent { rank, pid, tag, ticks, values } = sent;
        let value = |value| match value {
            SentValue::Int(value) => MessageValue::Int(value),
            SentValue::Float(value) => MessageValue::Float(value),
            SentValue::Text(text) => MessageValue::Text(text),
        };
        Message { rank, pid, tag, ticks, values: values.into_iter().map(value).collect() }
    }
}

/// The filters of a tree of agents: all of the tree's own, and the one that merges what scripts counted.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register(FILTER, |parameters| match parameters {
        [] => Ok(std::sync::Arc::new(values::Values)),
        _ => Err(Bad::Form { filter: FILTER, what: "it takes no parameters" }),
    });
    registry
}

/// The filter that merges what scripts counted, for a stream.
pub fn filter() -> FilterSpec {
    FilterSpec::Own { name: FILTER.to_owned(), parameters: Vec::new() }
}
