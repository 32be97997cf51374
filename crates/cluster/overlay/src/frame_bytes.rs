//! Frames to bytes and back: the frequent ones by `short`, which is several times faster, all others by `postcard`.
//!
//! Next: `frame` for what they say.

use crate::frame::{BadFrame, Frame};
use crate::limits::FRAME_BYTES_MAX;
use crate::short;

impl Frame {
    /// Its bytes, without a length in front.
    pub fn encode(&self) -> Result<Vec<u8>, BadFrame> {
        let bytes = self.encode_onto(Vec::new())?;
        if bytes.len() > FRAME_BYTES_MAX { Err(BadFrame::TooLong { byte_count: bytes.len() }) } else { Ok(bytes) }
    }

    /// Appends its bytes to a buffer; whoever sends it sees to its length.
    pub fn encode_onto(&self, mut bytes: Vec<u8>) -> Result<Vec<u8>, BadFrame> {
        if short::put(self, &mut bytes) { Ok(bytes) } else { self.encode_any_onto(bytes) }
    }

    #[cold]
    fn encode_any_onto(&self, bytes: Vec<u8>) -> Result<Vec<u8>, BadFrame> {
        postcard::to_extend(self, bytes).map_err(|_| BadFrame::Form)
    }

    /// A frame from its bytes, all of which must belong to it.
    pub fn decode(bytes: &[u8]) -> Result<Frame, BadFrame> {
        if bytes.len() > FRAME_BYTES_MAX {
            return Err(BadFrame::TooLong { byte_count: bytes.len() });
        }
        match short::read(bytes) {
            Some(frame) => Ok(frame),
            None => Frame::decode_any(bytes),
        }
    }

    #[cold]
    fn decode_any(bytes: &[u8]) -> Result<Frame, BadFrame> {
        match postcard::take_from_bytes(bytes) {
            Ok((frame, [])) => Ok(frame),
            _ => Err(BadFrame::Form),
        }
    }
}
