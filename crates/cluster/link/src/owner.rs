//! The program that a node belongs to: it is told what happens, and acts through a [`Hand`] while it is told.
//!
//! Next: [`crate::handle`] for requests from outside at any time.

use std::task::Waker;
use trimtab_overlay::{Action, Busy, Node, Told};
use trimtab_reduce::RankSet;

/// The program a node belongs to. It is called under the node's lock, so it must be quick and not wait.
pub trait Owner: Send {
    /// Something has happened; `hand` is for what follows from it.
    fn told(&mut self, told: Told, hand: &mut Hand<'_>);

    /// True if it has been told more than it has taken. The tree then waits for it: leaves are sent no more commands
    /// than a log holds, and no more waves begin. It is asked after it was told something, and at least every beat.
    /// An owner that passes on to an inbox passes this and [`Owner::wake_when_taken`] on too.
    fn is_behind(&self) -> bool {
        false
    }

    /// Wakes the tree once this is no longer behind, which it just was; one that doesn't is asked at the next beat.
    fn wake_when_taken(&self, _tree: &Waker) {}
}

impl<F: FnMut(Told, &mut Hand<'_>) + Send> Owner for F {
    fn told(&mut self, told: Told, hand: &mut Hand<'_>) {
        self(told, hand);
    }
}

/// The node, while its owner is being told something.
pub struct Hand<'a> {
    node: &'a mut Node,
    now_us: u64,
    actions: &'a mut Vec<Action>,
    /// Contributions were made of which nothing has followed yet.
    pub(crate) has_put: bool,
}

impl<'a> Hand<'a> {
    pub(crate) fn new(node: &'a mut Node, now_us: u64, actions: &'a mut Vec<Action>) -> Self {
        Hand { node, now_us, actions, has_put: false }
    }

    /// Contributes this node's value to a wave; some contributions at once go on their way together.
    ///
    /// # Errors
    /// As [`crate::Handle::contribute`].
    pub fn contribute(&mut self, stream: u32, wave: u64, value: &[u8]) -> Result<(), Busy> {
        self.node.put(self.now_us, stream, wave, value)?;
        self.has_put = true;
        Ok(())
    }

    /// Sends a payload to the leaves of a stream with these ranks; at the root only.
    ///
    /// # Errors
    /// As [`crate::Handle::multicast`].
    pub fn multicast(&mut self, stream: u32, to: RankSet, payload: Vec<u8>) -> Result<(), Busy> {
        self.node.multicast_into(self.now_us, stream, to, payload, self.actions)
    }

    /// The machine itself, to look at.
    pub fn node(&self) -> &Node {
        self.node
    }
}
