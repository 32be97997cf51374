//! The requests that a node's owner may make, from inside when it is told something, and from outside at any time.
//!
//! Next: `inbox` for an owner that keeps its messages.

use crate::core::Shared;
use crate::error::Trouble;
use rustls::pki_types::CertificateDer;
use std::sync::Arc;
use std::task::Waker;
use trimtab_overlay::node::Counts;
use trimtab_overlay::{Action, Busy, Node, NodeId, StreamSpec, Told};
use trimtab_reduce::{RankSet, Values};

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

    /// Contributes this node's value to a wave. Many contributions at once cost little more than one: they go on their
    /// way together.
    ///
    /// # Errors
    /// As [`Handle::contribute`].
    pub fn contribute(&mut self, stream: u32, wave: u64, value: &[u8]) -> Result<(), Busy> {
        self.contribute_many(stream, wave, Values::from_iter([value]))
    }

    /// Contributes this node's values to waves that follow each other, from this one on: all of them, but for those of
    /// waves that are over, or none.
    ///
    /// # Errors
    /// As [`Handle::contribute`], for the first wave or value that is not taken.
    pub fn contribute_many(&mut self, stream: u32, wave: u64, values: Values) -> Result<(), Busy> {
        self.node.put(self.now_us, stream, wave, values)?;
        self.has_put = true;
        Ok(())
    }

    /// Sends a payload to the leaves of a stream with these ranks; at the root only.
    ///
    /// # Errors
    /// As [`Handle::multicast`].
    pub fn multicast(&mut self, stream: u32, to: RankSet, payload: Vec<u8>) -> Result<(), Busy> {
        self.node.multicast_into(self.now_us, stream, to, payload, self.actions)
    }

    /// The machine itself, to look at.
    pub fn node(&self) -> &Node {
        self.node
    }
}

/// A running node, from any thread.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// Opens a stream over all nodes; at the root only.
    ///
    /// # Errors
    /// When too many commands are on their way or streams open, or the filter is unknown.
    pub fn open(&self, spec: StreamSpec) -> Result<u32, Busy> {
        self.ask(|node, now_us| node.open(now_us, spec))
    }

    /// Ends a stream; waves that aren't over have no result.
    ///
    /// # Errors
    /// When too many commands are on their way.
    pub fn close(&self, stream: u32) -> Result<(), Busy> {
        self.ask(|node, now_us| node.close(now_us, stream).map(|actions| ((), actions)))
    }

    /// Sends a payload to the leaves of a stream with these ranks; at the root only.
    ///
    /// # Errors
    /// When too many commands are on their way (try again after the next beat), or the payload is too long.
    pub fn multicast(&self, stream: u32, to: RankSet, payload: Vec<u8>) -> Result<(), Busy> {
        self.ask(|node, now_us| node.multicast(now_us, stream, to, payload).map(|actions| ((), actions)))
    }

    /// Contributes this node's value to a wave; only at a node with ranks of the stream's target.
    ///
    /// # Errors
    /// When the wave isn't open (wait for `Told::Window`), was contributed to, or the value isn't one of the filter.
    pub fn contribute(&self, stream: u32, wave: u64, value: &[u8]) -> Result<(), Busy> {
        let values = Values::from_iter([value]);
        self.ask(|node, now_us| node.contribute(now_us, stream, wave, values).map(|actions| ((), actions)))
    }

    /// The ranks at and below this node, of all that are connected.
    pub fn members(&self) -> RankSet {
        self.shared.lock().node.members().clone()
    }

    /// Its parent now.
    pub fn parent(&self) -> Option<NodeId> {
        self.shared.lock().node.parent()
    }

    /// Its children now.
    pub fn children(&self) -> Vec<NodeId> {
        self.shared.lock().node.children().collect()
    }

    /// The machine's counts of events.
    pub fn counts(&self) -> Counts {
        self.shared.lock().node.counts()
    }

    /// How many results wait to be passed on.
    pub fn queue_count(&self) -> usize {
        self.shared.lock().node.queue_count()
    }

    /// How many connections there are.
    pub fn link_count(&self) -> usize {
        self.shared.lock().link_count()
    }

    /// The latest things that went wrong with connections, oldest first.
    pub fn troubles(&self) -> Vec<Trouble> {
        self.shared.lock().troubles().cloned().collect()
    }

    /// Ends connections whose other end proved itself with a certificate that is not good any more; how many. Unix
    /// sockets have no certificates and stay.
    pub fn close_revoked(&self, is_revoked: impl Fn(&CertificateDer<'static>) -> bool) -> usize {
        self.shared.lock().close_revoked(self.shared.now_us(), &is_revoked)
    }

    /// Ends the node: its connections are closed, and those at their other ends notice.
    pub fn stop(&self) {
        self.shared.lock().stop();
    }

    /// Waits until the node was stopped.
    pub(crate) async fn ended(&self) {
        std::future::poll_fn(|context| self.shared.lock().poll_ended(context)).await;
    }

    fn ask<R>(&self, what: impl FnOnce(&mut Node, u64) -> Result<(R, Vec<Action>), Busy>) -> Result<R, Busy> {
        let mut core = self.shared.lock();
        let now_us = self.shared.now_us();
        let (result, actions) = what(&mut core.node, now_us)?;
        core.act(now_us, actions);
        core.wake_driver();
        Ok(result)
    }
}
