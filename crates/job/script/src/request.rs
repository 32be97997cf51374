//! Questions to a node about a script, and its answers: plain values that mean the same on any machine.
//!
//! Next: `node`, which answers; `probing`, which asks.

use crate::error::Failed;
use crate::message::Message;
use crate::source::{EXITS, ScriptOptions};
use crate::target::{Late, Loss};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use trimtab_measure::Question;
use trimtab_types::context::Context;

/// A question to a node about its script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Put it in: [`Answer::Started`].
    Start(Box<Start>),
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
    /// Its text, and what it may do.
    pub options: ScriptOptions,
    /// The ranks it is for.
    pub ranks: Context,
    /// Ranks of the whole job.
    pub size: Option<u32>,
}

/// A node's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// It is in.
    Started(Started),
    /// The news.
    Polled(Poll),
    /// It is out.
    Finished(Box<Finished>),
}

impl Question for Command {
    type Answer = Answer;
    type Error = crate::Error;
}

/// An answer as it goes over whatever carries bytes.
pub type Envelope = Result<Answer, Failed>;

/// A script that went in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// In so many processes; none if the user meant none of this node's.
    pub processes: usize,
    /// Their ranks, of those that have some.
    pub ranks: Vec<u32>,
    /// Functions of the script.
    pub functions: usize,
    /// Those that can't be probed.
    pub refused: Vec<Refusal>,
    /// Places in libraries that are not loaded yet.
    pub awaited: Vec<String>,
    /// How long it wants to record.
    pub wanted: Option<Duration>,
}

/// A function that can't be probed, or of which only the entry can.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Refusal {
    /// Its name; `exit NAME` if only its exits can't be probed.
    pub function: String,
    /// Why.
    pub reason: String,
}

impl Refusal {
    /// True if the function's entry is probed all the same.
    pub fn is_of_exits(&self) -> bool {
        self.function.starts_with(EXITS)
    }
}

/// The news of one look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Poll {
    /// Messages that arrived, in order of each process.
    pub messages: Vec<Message>,
    /// More of them wait.
    pub has_more: bool,
    /// True if the script said `stop()` somewhere.
    pub stopped: bool,
    /// Processes that still run the program.
    pub alive: usize,
    /// True if a program has set a fault handler of its own meanwhile, so that its probes had to go.
    pub has_new_handler: bool,
}

/// The results that are left when it is out, but for the values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Messages since the last look.
    pub messages: Vec<Message>,
    /// Its cost, and what was lost.
    pub summary: Summary,
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Places that were patched, over all processes.
    pub points: usize,
    /// Longest time a process was held to put probes in, microseconds.
    pub pause_insert_us_max: f64,
    /// Longest time a process was held to take them out, microseconds; `None`: none was, because all had ended.
    pub pause_remove_us_max: Option<f64>,
    /// The hits that were not counted.
    pub loss: Loss,
    /// Libraries that came later.
    pub late: Vec<Late>,
    /// Processes that ended by a fault, or by what can't be known, while they were patched; a sentence each.
    pub departed: Vec<String>,
    /// Anything that was not as it should be.
    pub warnings: Vec<String>,
    /// Notes for a reader on what the probes did to the program, although all is as it should be.
    pub notes: Vec<String>,
}

impl Summary {
    /// With what other processes cost and lost.
    #[must_use]
    pub fn and(mut self, other: Summary) -> Summary {
        self.points += other.points;
        self.pause_insert_us_max = self.pause_insert_us_max.max(other.pause_insert_us_max);
        let both = [self.pause_remove_us_max, other.pause_remove_us_max].into_iter().flatten();
        self.pause_remove_us_max = both.reduce(f64::max);
        self.loss = self.loss.and(other.loss);
        self.late.extend(other.late);
        self.departed.extend(other.departed);
        self.warnings.extend(other.warnings);
        self.notes.extend(other.notes);
        self
    }
}
