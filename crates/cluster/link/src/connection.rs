//! The task that reads and writes one connection.
//!
//! It reads all that has come, gives its frames to the node, and then writes all that waits, so that one write carries many
//! frames. A connection that takes no more keeps its batch here, and the frames behind it stay in the queue, which is bounded.
//!
//! Next: `link` for the node's record of it; `socket` for how bytes go.

use crate::core::{Core, Shared};
use crate::error::LinkError;
use crate::greet::Greeted;
use crate::limits::BATCH_BYTES;
use crate::queue::feed;
use crate::socket::Stream;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use trimtab_overlay::{Frame, NodeId};
use trimtab_wire::Decoder;

thread_local! {
    /// The batch that is being written, for all connections of the thread.
    static BATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Frames between their bytes and the machine, for all connections of the thread.
    static FRAMES: Cell<Vec<Frame>> = const { Cell::new(Vec::new()) };
}

/// Takes in a connection whose other end is known, and starts its task.
pub(crate) fn adopt(core: &mut Core, shared: &Arc<Shared>, greeted: Greeted) -> Result<(), LinkError> {
    let Greeted { peer, stream, rest, unsaid } = greeted;
    let certificate = stream.certificate().map(|own| own.clone().into_owned());
    let (serial, decoder) = core.enter(shared.now_us(), peer, certificate, (unsaid, &rest))?;
    let shared = shared.clone();
    tokio::spawn(Connection { shared, peer, serial, stream, decoder, unsent: (Vec::new(), 0) });
    Ok(())
}

/// The task of a connection.
struct Connection {
    shared: Arc<Shared>,
    peer: NodeId,
    serial: u32,
    stream: Stream,
    decoder: Decoder,
    /// A batch that the connection didn't take whole, and how much of it was taken.
    unsent: (Vec<u8>, usize),
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
