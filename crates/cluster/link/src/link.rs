//! The node's record of a connection: the frames that wait for it, and how its task is woken.
//!
//! Next: `core`, which owns the records; `connection` for the task; `queue` for what is written.

use crate::error::LinkError;
use crate::queue::Queue;
use rustls::pki_types::CertificateDer;
use std::task::Waker;
use trimtab_overlay::Frame;

/// The node's record of a connection to a parent, a child, or a node that may become one.
pub(crate) struct Link {
    /// Tells connections of one peer apart.
    pub(crate) serial: u32,
    /// The time of the last frame in either direction.
    pub(crate) used_us: u64,
    /// The other end's; `None` at a Unix socket.
    pub(crate) certificate: Option<CertificateDer<'static>>,
    queue: Queue,
    task: Option<Waker>,
    /// True if the task looks at the queue without being woken.
    is_awake: bool,
}

impl Link {
    /// A connection whose task is about to start, with bytes that go before all frames.
    pub(crate) fn new(serial: u32, now_us: u64, certificate: Option<CertificateDer<'static>>, first: Vec<u8>) -> Self {
        let mut queue = Queue::default();
        queue.put_before(first);
        Link { serial, used_us: now_us, certificate, queue, task: None, is_awake: true }
    }

    /// Appends a frame to those that wait, and wakes the task if it rests.
    pub(crate) fn push(&mut self, frame: Frame) -> Result<(), LinkError> {
        self.queue.push(frame)?;
        if !std::mem::replace(&mut self.is_awake, true) {
            self.wake();
        }
        Ok(())
    }

    /// Moves a batch of bytes to the end of `out`; false if none wait, and then the task rests.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>) -> Result<bool, LinkError> {
        self.is_awake = self.queue.take(out)?;
        Ok(self.is_awake)
    }

    /// The task runs, and is woken by this from now on.
    pub(crate) fn runs(&mut self, task: &Waker) {
        self.is_awake = true;
        match &mut self.task {
            Some(known) => known.clone_from(task),
            none => *none = Some(task.clone()),
        }
    }

    /// Wakes the task.
    pub(crate) fn wake(&self) {
        self.task.iter().for_each(Waker::wake_by_ref);
    }
}
