//! Restartable sequences (rseq): whether a stopped thread stands in one.
//!
//! The kernel sends a thread that it interrupted in such a sequence elsewhere, as soon as the thread runs in user mode
//! again; it looks where the thread stands then. A thread that was sent to other code meanwhile, and back, would go on in
//! the middle of the sequence as if nobody had interrupted it. So it is not borrowed.
//!
//! Next: `inject` and `call`, which borrow threads.

use crate::error::Error;
use crate::stop::Stopped;
use crate::sys;

/// Where `struct rseq` has the address of the sequence that was begun last.
const SEQUENCE_AT: u64 = 8;
/// Where that sequence's `struct rseq_cs` has its first address and its length.
const START_AT: u64 = 8;
const LENGTH_AT: u64 = 16;

impl Stopped {
    /// True if thread number `index` stands in a restartable sequence. To go on in the middle of one would be wrong.
    ///
    /// # Errors
    /// [`Error::Call`] if the kernel does not tell (before Linux 5.13).
    pub fn is_in_restartable_sequence(&self, index: usize) -> Result<bool, Error> {
        let thread = &self.threads()[index];
        let failed = |source| Error::Call { call: "PTRACE_GET_RSEQ_CONFIGURATION", pid: self.pid(), source };
        let place = sys::restartable_sequences(thread.tid).map_err(failed)?;
        if place == 0 {
            return Ok(false);
        }
        let word = |at: u64| self.memory().read_word(at);
        // Mostly one that is over: nobody takes it back but the kernel, the next time it interrupts the thread.
        let sequence = word(place.wrapping_add(SEQUENCE_AT))?;
        if sequence == 0 {
            return Ok(false);
        }
        let (start, length) = (word(sequence.wrapping_add(START_AT))?, word(sequence.wrapping_add(LENGTH_AT))?);
        Ok(thread.registers.rip.wrapping_sub(start) < length)
    }
}
