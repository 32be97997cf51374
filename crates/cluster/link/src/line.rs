//! What carries a connection's bytes: its socket, or memory beside it.
//!
//! Next: `memory` for the latter, `link` for what the bytes are.

use crate::events::Events;
use crate::memory::Memory;
use crate::socket::{self, is_not_now};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// See the module; its end is the connection's.
pub(crate) struct Line {
    socket: OwnedFd,
    memory: Option<Box<Memory>>,
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        socket::close(&self.socket);
    }
}

impl Line {
    pub(crate) fn new(socket: OwnedFd, memory: Option<Memory>, events: &Arc<Events>) -> io::Result<Self> {
        let mut line = Line { socket, memory: memory.map(Box::new) };
        line.memory.iter_mut().try_for_each(|memory| memory.listen(events))?;
        Ok(line)
    }

    /// True if the other end is on this host, at a Unix socket.
    pub(crate) fn is_near(&self) -> bool {
        socket::is_unix(&self.socket)
    }

    /// The memory, if it is that.
    pub(crate) fn memory(&mut self) -> Option<&mut Memory> {
        self.memory.as_deref_mut()
    }

    /// True if something is in memory.
    pub(crate) fn has_come(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.has_come())
    }

    /// Reads what is there now, or that it is over; `WouldBlock` when there is nothing.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.memory.as_mut().map(|memory| memory.read(bytes)) {
            // What was said before the end comes before it.
            Some(Err(error)) if is_not_now(&error) => socket::read(&self.socket, bytes),
            Some(read) => read,
            None => socket::read(&self.socket, bytes),
        }
    }

    /// As [`Line::read`], without asking the kernel if bytes don't come by it.
    pub(crate) fn look(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.memory {
            Some(memory) => memory.read(bytes),
            None => socket::read(&self.socket, bytes),
        }
    }

    /// Writes what is taken now; `WouldBlock` when nothing is.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.memory {
            Some(memory) => memory.write(bytes),
            None => socket::write(&self.socket, bytes),
        }
    }
}
