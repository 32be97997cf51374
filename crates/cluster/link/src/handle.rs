//! The requests that a node's owner may make from outside at any time.
//!
//! Next: `owner` for those made while it is told something; `inbox` for an owner that keeps its messages.

use crate::core::Shared;
use crate::error::Trouble;
use rustls::pki_types::CertificateDer;
use std::sync::Arc;
use trimtab_overlay::node::Counts;
use trimtab_overlay::{Action, Busy, Node, NodeId, StreamSpec};
use trimtab_reduce::RankSet;

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
        self.ask(|node, now_us| node.contribute(now_us, stream, wave, value).map(|actions| ((), actions)))
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
