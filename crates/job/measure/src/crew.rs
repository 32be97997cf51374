//! All nodes of a job, as the job asks them: one in this process by a call, or many over whatever carries bytes.
//!
//! The job's side knows no process and no socket; it asks a crew and gets what came back, with the moments of question
//! and answer. A node that did not answer is simply not among the replies, and the job goes on without its ranks and
//! says so. [`Here`] is the crew of one node in this process: its answers are handed over as they are.
//!
//! Next: `wire` for a crew whose nodes are elsewhere.

use crate::error::Error;
use crate::node::Node;
use crate::request::{Answer, Command};
use trimtab_os::ticks;
use trimtab_window::Exchange;

/// One node's answer.
#[derive(Debug)]
pub struct Reply {
    /// The node.
    pub node: u32,
    /// When it was asked and when the answer was there by the clock of this process, and the node's own in between.
    pub exchange: Exchange,
    /// Its answer.
    pub result: Result<Answer, Error>,
}

/// Nodes that can be asked, all at once.
pub trait Crew {
    /// The nodes there are, ascending; also those that do not answer.
    fn nodes(&self) -> Vec<u32>;

    /// Sends a command to every node and waits for their answers, at most as long as this crew waits for a node. A node
    /// may be missing, for this command or for good.
    fn ask(&mut self, command: &Command) -> Vec<Reply>;

    /// Calls of one rank that an answer may hold.
    fn events_max(&self) -> u32 {
        EVENTS_MAX
    }

    /// As [`Crew::events_max`], where that does not hold enough passes of a loop with many calls.
    fn events_most(&self, ranks: usize) -> u32 {
        self.events_max().max(EVENTS_ALL_RANKS / u32::try_from(ranks.max(1)).unwrap_or(u32::MAX))
    }

    /// The one node is this machine: it reads the same clock.
    fn is_here(&self) -> bool {
        false
    }
}

/// Calls of a rank that an answer over a network may hold: at about ten bytes each, 64 MiB of 65,536 ranks.
const EVENTS_MAX: u32 = 96;

/// Those of all ranks together: of a small job all that a rank remembers.
const EVENTS_ALL_RANKS: u32 = EVENTS_MAX << 16;

/// The crew of one node in this process.
#[derive(Debug)]
pub struct Here<'c> {
    /// The node.
    pub node: Node<'c>,
}

impl Crew for Here<'_> {
    fn nodes(&self) -> Vec<u32> {
        vec![self.node.id()]
    }

    fn ask(&mut self, command: &Command) -> Vec<Reply> {
        let sent_ticks = ticks();
        let result = self.node.handle(command);
        let now = ticks();
        let exchange = Exchange { sent_ticks, node_ticks: now, received_ticks: now };
        vec![Reply { node: self.node.id(), exchange, result }]
    }

    fn events_max(&self) -> u32 {
        u32::MAX
    }

    fn is_here(&self) -> bool {
        true
    }
}
