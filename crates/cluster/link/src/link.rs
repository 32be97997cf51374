//! One established connection: the task that reads and writes it, and the node's record of it.
//!
//! The task reads all that has come, gives its frames to the node, and then writes all that waits, so that one write
//! carries many frames. A connection that takes no more keeps its batch here, and the frames behind it stay in the queue,
//! which is bounded.
//!
//! Next: `core`, which owns the records; `queue` for what is written; `socket` for how.

use crate::core::Shared;
use crate::error::LinkError;
use crate::limits::BATCH_BYTES;
use crate::queue::{Queue, feed};
use crate::socket::Stream;
use rustls::pki_types::CertificateDer;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use trimtab_overlay::{Frame, NodeId};
use trimtab_wire::Decoder;

thread_local! {
    /// The batch that is being written, for all connections of the thread.
    static BATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Frames between their bytes and the machine, for all connections of the thread.
    static FRAMES: Cell<Vec<Frame>> = const { Cell::new(Vec::new()) };
}

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

/// The task of a connection.
pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) peer: NodeId,
    pub(crate) serial: u32,
    pub(crate) stream: Stream,
    pub(crate) decoder: Decoder,
    /// A batch that the connection didn't take whole, and how much of it was taken.
    pub(crate) unsent: (Vec<u8>, usize),
}

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if !self.shared.lock().link_runs(self.peer, self.serial, context.waker()) {
            // The node has closed it. The other end is told, if that is possible at once.
            let _told = self.stream.poll_shutdown(context);
            return Poll::Ready(());
        }
        match self.turn(context) {
            Ok(()) => Poll::Pending,
            Err(why) => {
                let _told = self.stream.poll_shutdown(context);
                let now_us = self.shared.now_us();
                self.shared.lock().ended(now_us, self.peer, self.serial, &why);
                Poll::Ready(())
            }
        }
    }
}

impl Connection {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<(), LinkError> {
        let is_more = self.read(context)?;
        self.write(context)?;
        if is_more {
            // The other tasks have their turn before.
            context.waker().wake_by_ref();
        }
        Ok(())
    }

    /// Reads until nothing is left, or a batch has come; true if there may be more.
    fn read(&mut self, context: &mut Context<'_>) -> Result<bool, LinkError> {
        let mut byte_count = 0;
        while byte_count < BATCH_BYTES {
            let mut frames = FRAMES.take();
            let decoder = &mut self.decoder;
            let taken = self.stream.poll_take(context, |bytes| (bytes.len(), feed(decoder, bytes, &mut frames)));
            let Poll::Ready(taken) = taken else { return Ok(false) };
            let (count, fed) = taken?;
            if count == 0 {
                return Err(LinkError::Closed);
            }
            // Frames before the first bad one count, as if that had come later.
            self.shared.lock().frames_came(self.shared.now_us(), self.peer, self.serial, &mut frames)?;
            FRAMES.set(frames);
            fed?;
            byte_count += count;
        }
        Ok(true)
    }

    /// Writes all that waits, as far as the connection takes it.
    fn write(&mut self, context: &mut Context<'_>) -> Result<(), LinkError> {
        BATCH.with_borrow_mut(|batch| {
            loop {
                if self.poll_unsent(context)?.is_pending() || self.stream.poll_flush(context)?.is_pending() {
                    return Ok(());
                }
                batch.clear();
                batch.shrink_to(4 * BATCH_BYTES);
                if !self.shared.lock().take_batch(self.peer, self.serial, batch)? {
                    return Ok(());
                }
                if let Poll::Ready(count) = self.stream.poll_write(context, batch)? {
                    if count < batch.len() {
                        self.unsent = (batch.split_off(count), 0);
                    }
                } else {
                    self.unsent = (std::mem::take(batch), 0);
                }
            }
        })
    }

    fn poll_unsent(&mut self, context: &mut Context<'_>) -> Poll<Result<(), LinkError>> {
        let (bytes, at) = &mut self.unsent;
        while *at < bytes.len() {
            *at += std::task::ready!(self.stream.poll_write(context, &bytes[*at..]))?;
        }
        self.unsent = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }
}
