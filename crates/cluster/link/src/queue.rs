//! The frames that wait for one connection, and the order in which they become its bytes.
//!
//! Frames wait as frames, of which a multicast's payload exists once for all children, and become bytes when the
//! connection takes some. Commands go first; of a long result one chunk at a time.
//!
//! Next: `link` for the task that writes the bytes.

use crate::error::LinkError;
use crate::limits::{BATCH_BYTES, COMMANDS_WAITING_MAX, FIRST_BYTES_MAX, RESULTS_WAITING_MAX};
use std::cell::RefCell;
use std::collections::VecDeque;
use trimtab_overlay::Frame;
use trimtab_overlay::frame::{BadFrame, Body, Channel};
use trimtab_wire::limits::{CHUNK_BYTES_MAX, HEADER_BYTES};
use trimtab_wire::{Decoder, Lane, Message, put_message};

thread_local! {
    /// Empty ones, with room, for all connections of the thread. A process of thousands of nodes finds these in the
    /// processor's caches, and fresh memory not.
    #[expect(clippy::vec_box, reason = "a queue has one in a box, or none")]
    static SPARE: RefCell<Vec<Box<Waiting>>> = const { RefCell::new(Vec::new()) };
}

/// The number of empty ones that are kept.
const SPARE_COUNT_MAX: usize = 64;
/// The room of an empty one that is kept, in frames.
const SPARE_FRAMES_MAX: usize = 16;

/// See the module. A connection at rest, as nearly all are, has no room for frames.
#[derive(Default)]
pub(crate) struct Queue(Option<Box<Waiting>>);

#[derive(Default)]
struct Waiting {
    /// Bytes that go before all frames.
    first: Vec<u8>,
    commands: VecDeque<Frame>,
    /// The result of which some chunks are out.
    long: Option<Message>,
    results: VecDeque<Frame>,
}

impl Queue {
    /// Puts bytes before all frames.
    pub(crate) fn put_before(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.0.get_or_insert_with(Waiting::spare).first = bytes;
        }
    }

    /// Appends a frame, or merges it into the last one.
    pub(crate) fn push(&mut self, frame: Frame) -> Result<(), LinkError> {
        self.0.get_or_insert_with(Waiting::spare).push(frame)
    }

    /// Moves a batch of bytes to the end of `out`; false if none wait.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>) -> Result<bool, LinkError> {
        let Some(waiting) = &mut self.0 else { return Ok(false) };
        waiting.put_batch(out)?;
        if waiting.is_empty()
            && let Some(waiting) = self.0.take()
        {
            waiting.keep();
        }
        Ok(true)
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

    fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.results.is_empty() && self.long.is_none()
    }

    /// The next frames as bytes, commands first.
    fn put_batch(&mut self, out: &mut Vec<u8>) -> Result<(), LinkError> {
        out.append(&mut self.first);
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
        // The value makes up nearly all of the length. Ranks in pieces may add some, which is one longer chunk.
        if value_bytes + HEADER_BYTES < CHUNK_BYTES_MAX / 2 {
            return put_message(Lane::Bulk, out, |out| put_frame(frame, out));
        }
        put_frame(frame, out)?;
        self.long = Some(Message::new(Lane::Bulk, out.split_off(start))?);
        Ok(())
    }
}

/// Decodes bytes that have come and appends their frames.
pub(crate) fn feed(decoder: &mut Decoder, bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), LinkError> {
    decoder.feed(bytes, |lane, message| {
        let frame = Frame::decode(message)?;
        if lane_of(&frame) != lane {
            return Err(LinkError::Lane);
        }
        frames.push(frame);
        Ok(())
    })
}

/// Appends the frames that may go with the hello, as bytes; how many of them these are, from the first.
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
