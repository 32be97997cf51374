//! All nodes of a job, as the job asks them: one in this process by a call, or many over whatever carries bytes.
//!
//! The job's side knows no process and no socket; it asks a crew and gets what came back, with the moments of question
//! and answer. A node that did not answer is simply not among the replies, and the job goes on without its ranks and
//! says so. [`Here`] is the crew of one node in this process: its answers are handed over as they are. Windows and scripts
//! ask in the same way, each their own kind of question.
//!
//! Next: `wire` for a crew whose nodes are elsewhere.

use crate::error::Error;
use crate::node::WindowNode;
use crate::request::{Answer, Command};
use trimtab_os::ticks;
use trimtab_window::Exchange;

/// A kind of question to nodes.
pub trait Question {
    /// The answer of a node that could do it.
    type Answer;
    /// Why one could not.
    type Error;
}

impl Question for Command {
    type Answer = Answer;
    type Error = Error;
}

/// One node's answer; to a command of a window, if nothing else is said.
#[derive(Debug)]
pub struct Reply<Q: Question = Command> {
    /// The node.
    pub node: u32,
    /// When it was asked and when the answer was there by the clock of this process, and the node's own in between.
    pub exchange: Exchange,
    /// Its answer.
    pub result: Result<Q::Answer, Q::Error>,
}

impl<Q: Question> Reply<Q> {
    /// The answer of a node at these moments: asked, answered by the node's own clock, there.
    pub fn new(
        node: u32,
        [sent_ticks, node_ticks, received_ticks]: [u64; 3],
        result: Result<Q::Answer, Q::Error>,
    ) -> Self {
        Reply { node, exchange: Exchange { sent_ticks, node_ticks, received_ticks }, result }
    }
}

/// The nodes that a reply is of, and the reply.
pub type Replied<Q = Command> = (Vec<u32>, Reply<Q>);

/// Nodes that can be asked, all at once.
pub trait Crew<Q: Question = Command> {
    /// The nodes there are, ascending; also those that do not answer.
    fn nodes(&self) -> Vec<u32>;

    /// Asks every node and waits for their answers, at most as long as this crew waits for a node. A node may be missing, for
    /// this question or for good.
    fn ask(&mut self, question: &Q) -> Vec<Reply<Q>>;

    /// As [`Crew::ask`], of a question whose answers may become one on the way: each reply with the nodes that it is of.
    fn ask_merged(&mut self, question: &Q) -> Vec<Replied<Q>> {
        self.ask(question).into_iter().map(|reply| (vec![reply.node], reply)).collect()
    }

    /// The one node is this machine: it reads the same clock.
    fn is_here(&self) -> bool {
        false
    }
}

/// A node that answers one kind of question.
pub trait Asked<Q: Question> {
    /// Its number in the crew.
    fn number(&self) -> u32;

    /// Does what it is asked.
    ///
    /// # Errors
    /// It can't.
    fn answer_to(&mut self, question: &Q) -> Result<Q::Answer, Q::Error>;
}

impl Asked<Command> for WindowNode<'_> {
    fn number(&self) -> u32 {
        self.id()
    }

    fn answer_to(&mut self, command: &Command) -> Result<Answer, Error> {
        self.handle(command)
    }
}

/// The crew of one node in this process.
#[derive(Debug)]
pub struct Here<N> {
    /// The node.
    pub node: N,
}

impl<Q: Question, N: Asked<Q>> Crew<Q> for Here<N> {
    fn nodes(&self) -> Vec<u32> {
        vec![self.node.number()]
    }

    fn ask(&mut self, question: &Q) -> Vec<Reply<Q>> {
        let sent_ticks = ticks();
        let result = self.node.answer_to(question);
        let now = ticks();
        vec![Reply::new(self.node.number(), [sent_ticks, now, now], result)]
    }

    fn is_here(&self) -> bool {
        true
    }
}
