//! One established connection: what waits to be written, in which order, and what was read and is incomplete.
//!
//! Frames wait as frames, of which a multicast's payload exists once for all children, and become bytes when the kernel
//! takes some. Commands go first; of a long result one chunk at a time.
//!
//! Next: `core`, which owns a node's links; `line` for what takes the bytes.

use crate::error::LinkError;
use crate::events::Events;
use crate::limits::{BATCH_BYTES, COMMANDS_WAITING_MAX, FIRST_BYTES_MAX, RESULTS_WAITING_MAX};
use crate::line::Line;
use crate::seal::Seal;
use crate::socket;
use rustls::pki_types::CertificateDer;
use std::cell::RefCell;
use std::collections::VecDeque;
use trimtab_overlay::frame::{BadFrame, Body, Channel};
use trimtab_overlay::{Frame, NodeId};
use trimtab_wire::limits::{CHUNK_BYTES_MAX, HEADER_BYTES};
use trimtab_wire::{Decoder, Lane, Message, put_message};

thread_local! {
    /// Plain and sealed bytes on their way, for all nodes of the thread: a connection at rest has no buffer.
    static BUFFERS: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
    /// Empty ones, with room, for connections that have something to say.
    #[expect(clippy::vec_box, reason = "a connection has one in a box, or none")]
    static SPARE: RefCell<Vec<Box<Waiting>>> = const { RefCell::new(Vec::new()) };
}

/// So many empty ones are kept for all nodes of the thread.
const SPARE_COUNT_MAX: usize = 64;
/// An empty one that is kept has room for no more frames.
const SPARE_FRAMES_MAX: usize = 16;

/// A connection to a parent, a child, or somebody who may become one.
pub(crate) struct Link {
    /// Tells connections of one peer apart.
    pub(crate) serial: u32,
    /// True if it is in the list of those to be written.
    pub(crate) is_listed: bool,
    /// When a frame last went either way.
    pub(crate) used_us: u64,
    /// True if the kernel took no more, and is to say when it does.
    is_blocked: bool,
    line: Line,
    seal: Seal,
    decoder: Decoder,
    /// What is to be written; a connection at rest, as nearly all are, has no room for any.
    waiting: Option<Box<Waiting>>,
}

/// What is to be written: first what is already bytes, then commands, then results.
#[derive(Default)]
struct Waiting {
    /// Bytes of the connection that go before all others, and with the first of them.
    first: Vec<u8>,
    /// Bytes that the kernel didn't take yet.
    unsent: Vec<u8>,
    unsent_at: usize,
    commands: VecDeque<Frame>,
    /// The result of which some chunks are out.
    long: Option<Message>,
    results: VecDeque<Frame>,
}

impl Link {
    pub(crate) fn new(serial: u32, now_us: u64, line: Line, seal: Seal) -> Self {
        let decoder = Decoder::default();
        Link { serial, is_listed: false, used_us: now_us, is_blocked: false, line, seal, decoder, waiting: None }
    }

    /// The certificate of the other end; none on a Unix socket.
    pub(crate) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.seal.certificate()
    }

    /// Bytes of the connection that go before all others.
    pub(crate) fn say_first(&mut self, bytes: Vec<u8>) {
        self.waiting.get_or_insert_with(Waiting::spare).first = bytes;
    }

    /// What carries its bytes.
    pub(crate) fn line(&self) -> &Line {
        &self.line
    }

    /// What carries its bytes, to read from it.
    pub(crate) fn line_mut(&mut self) -> &mut Line {
        &mut self.line
    }

    /// Frames from bytes that have arrived, which are overwritten; whether TLS wants to answer by itself.
    pub(crate) fn open(&mut self, bytes: &mut [u8], frames: &mut Vec<Frame>) -> Result<bool, LinkError> {
        let Link { seal, decoder, .. } = self;
        seal.open(bytes, |plain| feed(decoder, plain, frames))?;
        Ok(self.seal.is_pending())
    }

    /// Frames from bytes of the protocol that came right behind the hello.
    pub(crate) fn open_plain(&mut self, plain: &[u8], frames: &mut Vec<Frame>) -> Result<bool, LinkError> {
        feed(&mut self.decoder, plain, frames).map(|()| false)
    }

    /// Puts a frame behind those that wait, or into the last of them.
    pub(crate) fn push(&mut self, frame: Frame) -> Result<(), LinkError> {
        self.waiting.get_or_insert_with(Waiting::spare).push(frame)
    }

    /// Writes as much as the kernel takes; whether that was everything. If it wasn't, an event says when there is room.
    pub(crate) fn flush(&mut self, peer: NodeId, events: &Events) -> Result<bool, LinkError> {
        let is_all = self.write()?;
        if self.is_blocked == is_all && self.line.memory().is_none() {
            self.is_blocked = !is_all;
            events.await_room(&self.line, peer, self.serial, self.is_blocked)?;
        }
        Ok(is_all)
    }

    fn write(&mut self) -> Result<bool, LinkError> {
        BUFFERS.with_borrow_mut(|(plain, sealed)| {
            loop {
                match self.write_some(plain, sealed) {
                    Ok(true) => {}
                    Ok(false) => return Ok(true),
                    Err(LinkError::Io(error)) if socket::is_not_now(&error) => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
        })
    }

    /// Writes a batch; whether there may be more.
    fn write_some(&mut self, plain: &mut Vec<u8>, sealed: &mut Vec<u8>) -> Result<bool, LinkError> {
        plain.clear();
        sealed.clear();
        if let Some(waiting) = &mut self.waiting {
            if waiting.has_unsent() {
                waiting.write_unsent(&mut self.line)?;
                return Ok(true);
            }
            waiting.put_batch(plain)?;
            if !waiting.first.is_empty() {
                sealed.append(&mut std::mem::take(&mut waiting.first));
            }
        }
        let bytes = match &mut self.seal {
            Seal::Plain if sealed.is_empty() => &*plain,
            seal => {
                if plain.is_empty() {
                    seal.put_pending(sealed)?
                } else {
                    seal.seal(plain, sealed)?
                }
                &*sealed
            }
        };
        if bytes.is_empty() {
            self.rests();
            return Ok(false);
        }
        // What is encoded is in TLS's order, so what the kernel leaves must be kept.
        let written = match self.line.write(bytes) {
            Err(error) if socket::is_not_now(&error) => 0,
            other => other?,
        };
        if written < bytes.len() {
            self.waiting.get_or_insert_default().unsent.extend_from_slice(&bytes[written..]);
        }
        plain.shrink_to(4 * BATCH_BYTES);
        sealed.shrink_to(4 * BATCH_BYTES);
        let more = self.waiting.as_ref().is_some_and(|waiting| !waiting.is_empty());
        if !more {
            self.rests();
        }
        Ok(more)
    }

    /// Nothing waits.
    fn rests(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.keep();
        }
    }
}

impl Waiting {
    fn spare() -> Box<Waiting> {
        SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    /// Keeps an empty one.
    fn keep(self: Box<Self>) {
        if self.commands.capacity() <= SPARE_FRAMES_MAX && self.results.capacity() <= SPARE_FRAMES_MAX {
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < SPARE_COUNT_MAX {
                    spare.push(self);
                }
            });
        }
    }

    fn push(&mut self, mut frame: Frame) -> Result<(), LinkError> {
        if frame.channel() == Channel::Bulk
            && let Some(last) = self.results.back_mut()
        {
            match last.absorb(frame) {
                None => return Ok(()),
                Some(alone) => frame = alone,
            }
        }
        let (queue, count_max) = match frame.channel() {
            Channel::Commands => (&mut self.commands, COMMANDS_WAITING_MAX),
            Channel::Bulk => (&mut self.results, RESULTS_WAITING_MAX),
        };
        if queue.len() >= count_max {
            return Err(LinkError::Full { count: queue.len() });
        }
        queue.push_back(frame);
        Ok(())
    }

    fn has_unsent(&self) -> bool {
        self.unsent_at < self.unsent.len()
    }

    fn is_empty(&self) -> bool {
        let has_frames = !self.commands.is_empty() || !self.results.is_empty() || self.long.is_some();
        !has_frames && !self.has_unsent() && self.first.is_empty()
    }

    fn write_unsent(&mut self, line: &mut Line) -> Result<(), LinkError> {
        self.unsent_at += line.write(&self.unsent[self.unsent_at..])?;
        if !self.has_unsent() {
            (self.unsent, self.unsent_at) = (Vec::new(), 0);
        }
        Ok(())
    }

    /// The next frames as bytes, commands first.
    fn put_batch(&mut self, out: &mut Vec<u8>) -> Result<(), LinkError> {
        while out.len() < BATCH_BYTES {
            if let Some(frame) = self.commands.pop_front() {
                put_message(Lane::Commands, out, |out| put_frame(&frame, out))?;
            } else if let Some(long) = &mut self.long {
                if !long.put_chunk(out) {
                    self.long = None;
                }
            } else if let Some(frame) = self.results.pop_front() {
                self.put_result(&frame, out)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn put_result(&mut self, frame: &Frame, out: &mut Vec<u8>) -> Result<(), LinkError> {
        let start = out.len();
        let value_bytes = match &frame.body {
            Body::Units(_, run) => run.value_bytes(),
            _ => 0,
        };
        // The value tells nearly all of the length; ranks in pieces may add some, which then go out at once.
        if value_bytes + HEADER_BYTES < CHUNK_BYTES_MAX / 2 {
            return put_message(Lane::Bulk, out, |out| put_frame(frame, out));
        }
        put_frame(frame, out)?;
        self.long = Some(Message::new(Lane::Bulk, out.split_off(start))?);
        Ok(())
    }
}

fn feed(decoder: &mut Decoder, plain: &[u8], frames: &mut Vec<Frame>) -> Result<(), LinkError> {
    decoder.feed(plain, |lane, message| {
        let frame = Frame::decode(message)?;
        if lane_of(&frame) != lane {
            return Err(LinkError::Lane);
        }
        frames.push(frame);
        Ok(())
    })
}

/// Frames that may go with the hello, as bytes of the protocol; how many of them these are, from the first.
pub(crate) fn put_first(frames: &[Frame], out: &mut Vec<u8>) -> usize {
    let mut count = 0;
    for frame in frames.iter().take_while(|frame| frame.channel() == Channel::Commands) {
        let before = out.len();
        let put = put_message(Lane::Commands, out, |out| put_frame(frame, out));
        if put.is_err() || out.len() > FIRST_BYTES_MAX {
            out.truncate(before);
            break;
        }
        count += 1;
    }
    count
}

fn put_frame(frame: &Frame, out: &mut Vec<u8>) -> Result<(), LinkError> {
    let start = out.len();
    *out = frame.encode_onto(std::mem::take(out))?;
    let byte_count = out.len() - start;
    if byte_count > trimtab_overlay::limits::FRAME_BYTES_MAX {
        return Err(BadFrame::TooLong { byte_count }.into());
    }
    Ok(())
}

fn lane_of(frame: &Frame) -> Lane {
    match frame.channel() {
        Channel::Commands => Lane::Commands,
        Channel::Bulk => Lane::Bulk,
    }
}
