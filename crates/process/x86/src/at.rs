//! The island of a point in the middle of a function: nothing may be assumed to be free there.
//!
//! Flags, registers and the red zone are kept whatever the probe does, and the stack is aligned for it. Branches among
//! the displaced instructions go to the patch, not to the copies, so that a loop around a point passes the probe every
//! time. Next: `point` for the choice of bytes, `island` for the other kinds.

use crate::island::Writer;
use crate::relocate::relocate;
use crate::{Refusal, Site};
use iced_x86::{Decoder, DecoderOptions};

/// `lea rsp, [rsp - 128]; pushfq; cld`.
const KEEP_RED_ZONE_AND_FLAGS: [u8; 7] = [0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c, 0xfc];
/// `popfq; lea rsp, [rsp + 128]`.
const RESTORE_FLAGS_AND_RED_ZONE: [u8; 9] = [0x9d, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0x00, 0x00, 0x00];
/// `push rbp; mov rbp, rsp; and rsp, -16; push rbp`: an odd number of words, as a call leaves it.
const ALIGN: [u8; 9] = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xf0, 0x55];
/// `mov rsp, rbp; pop rbp`.
const UNALIGN: [u8; 4] = [0x48, 0x89, 0xec, 0x5d];

impl Writer<'_> {
    /// Displaced instructions with the probe before the one at `address`.
    pub(crate) fn at_point(&mut self, site: &Site, original: &[u8], address: u64) -> Result<(), Refusal> {
        let start = site.displaced.start;
        let (before, after) = original.split_at((address - start) as usize);
        self.moved_singly(before, start)?;
        // A thread that stands at the point has not passed it yet.
        let probe = self.here();
        self.put(&KEEP_RED_ZONE_AND_FLAGS);
        self.put(&ALIGN);
        self.probe(self.code.enter)?;
        self.put(&UNALIGN);
        self.put(&RESTORE_FLAGS_AND_RED_ZONE);
        self.moved_singly(after, address)?;
        self.moves.retain(|(old, _)| *old != address);
        self.moves.push((address, probe));
        Ok(())
    }

    /// Moves instructions one by one, so that none takes another's copy for its target.
    fn moved_singly(&mut self, original: &[u8], from: u64) -> Result<(), Refusal> {
        let mut decoder = Decoder::with_ip(64, original, from, DecoderOptions::NONE);
        while decoder.can_decode() {
            let position = decoder.position();
            let at = decoder.decode().ip();
            let moved = relocate(&original[position..decoder.position()], at, self.here())?;
            self.put(&moved.bytes);
            self.moves.extend(moved.offsets);
        }
        Ok(())
    }
}
