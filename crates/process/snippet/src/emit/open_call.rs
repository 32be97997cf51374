//! Elapsed times: each thread keeps the stack pointer and time stamp of the calls of a function that are open.
//!
//! A call ends where the stack pointer is the same as where it began, as the return address is still in its place. An
//! entry at or below the current stack pointer belongs to a call that was left by `longjmp` or an exception, and is
//! dropped. What runs on another stack may drop entries of the first; their times are then not known.
//!
//! The table: a depth, then pairs of stack pointer and time stamp. So with `rcx` at 16 times the depth, the innermost
//! pair is at 8 bytes before the variable plus `rcx`.
//!
//! Next: `fold` for what is done with the times.

use crate::emit::error::{EmitError, Emitted};
use crate::emit::generator::{Generator, frame_word};
use crate::ir::{Area, Kind, OPEN_CALLS_MAX, Variable, thread_word};
use iced_x86::code_asm::*;

/// Bytes of one pair, as a shift.
const PAIR_SHIFT: i32 = 4;
const PAIR_BYTES: i32 = 1 << PAIR_SHIFT;
/// Instructions of one step down the table.
const STEP_INSTRUCTIONS: u64 = 6;

impl Generator<'_> {
    fn open_calls(&self, variable: usize) -> Result<u32, EmitError> {
        let Variable { area, offset, kind, .. } = *self.variable(variable)?;
        if (area, kind) == (Area::Thread, Kind::OpenCalls) {
            Ok(offset)
        } else {
            Err(self.wrong_kind("elapsed time", variable))
        }
    }

    /// 16 times the depth into `rcx`, the program's stack pointer into `rdx`.
    fn innermost(&mut self, offset: u32) -> Emitted {
        self.w.mov(rcx, qword_ptr(r11 + offset))?;
        self.w.shl(rcx, PAIR_SHIFT)?;
        self.stack_pointer(rdx)
    }

    /// Drops entries at or below the stack pointer, from `rcx` on; goes on here with those left. The usual case, that
    /// there is none to drop, is a jump not taken.
    fn drop_left(&mut self, offset: u32) -> Emitted {
        let (again, kept) = (self.w.create_label(), self.w.create_label());
        self.repeated += STEP_INSTRUCTIONS * u64::from(OPEN_CALLS_MAX);
        self.w.bind(again)?;
        self.w.test(rcx, rcx)?;
        self.w.je(kept)?;
        self.w.cmp(qword_ptr(r11 + rcx + (offset as i32 - 8)), rdx)?;
        self.w.ja(kept)?;
        self.w.sub(rcx, PAIR_BYTES)?;
        self.w.jmp(again)?;
        self.w.bind(kept)
    }

    /// Remembers this call.
    pub(crate) fn open_call(&mut self, variable: usize) -> Emitted {
        let offset = self.open_calls(variable)?;
        self.innermost(offset)?;
        self.drop_left(offset)?;
        let (full, store) = (self.w.create_label(), self.w.create_label());
        self.w.cmp(rcx, OPEN_CALLS_MAX as i32 * PAIR_BYTES)?;
        self.w.jae(full)?;
        self.w.mov(qword_ptr(r11 + rcx + (offset as i32 + 8)), rdx)?;
        self.w.add(rcx, PAIR_BYTES)?;
        self.w.mov(rax, rcx)?;
        self.w.shr(rax, PAIR_SHIFT)?;
        self.w.mov(qword_ptr(r11 + offset), rax)?;
        self.ticks(rax)?;
        self.w.mov(qword_ptr(r11 + rcx + offset as i32), rax)?;
        self.w.bind(store)?;
        let start = self.w.instructions().len();
        self.w.bind(full)?;
        // Deeper calls have no time, but what was dropped stays dropped.
        self.w.shr(rcx, PAIR_SHIFT)?;
        self.w.mov(qword_ptr(r11 + offset), rcx)?;
        self.w.jmp(store)?;
        self.w.cold_since(start);
        Ok(())
    }

    /// Forgets this call and everything left below it.
    pub(crate) fn close_call(&mut self, variable: usize) -> Emitted {
        let offset = self.open_calls(variable)?;
        self.innermost(offset)?;
        self.drop_left(offset)?;
        self.w.shr(rcx, PAIR_SHIFT)?;
        Ok(self.w.mov(qword_ptr(r11 + offset), rcx)?)
    }

    /// Nanoseconds since this call's entry into `rax`; -1 if it is not known.
    pub(crate) fn elapsed(&mut self, variable: usize) -> Emitted {
        let offset = self.open_calls(variable)?;
        self.end_ticks()?;
        self.innermost(offset)?;
        let labels: [CodeLabel; 5] = std::array::from_fn(|_| self.w.create_label());
        let [again, found, unknown, backwards, end] = labels;
        self.repeated += STEP_INSTRUCTIONS * u64::from(OPEN_CALLS_MAX);
        self.w.bind(again)?;
        self.w.test(rcx, rcx)?;
        self.w.je(unknown)?;
        let below = self.w.create_label();
        self.w.cmp(qword_ptr(r11 + rcx + (offset as i32 - 8)), rdx)?;
        self.w.jne(below)?;
        self.w.bind(found)?;
        let ticks = self.ticks_at();
        self.w.mov(rax, ticks)?;
        self.w.sub(rax, qword_ptr(r11 + rcx + offset as i32))?;
        self.w.jb(backwards)?;
        self.nanoseconds()?;
        self.w.bind(end)?;
        let start = self.w.instructions().len();
        self.w.bind(below)?;
        // The flags are still those of the comparison: an entry above belongs to a caller.
        self.w.ja(unknown)?;
        self.w.sub(rcx, PAIR_BYTES)?;
        self.w.jmp(again)?;
        self.w.bind(unknown)?;
        self.w.add(qword_ptr(r11 + thread_word::ELAPSED_UNKNOWN), 1)?;
        self.w.mov(rax, -1i64)?;
        self.w.jmp(end)?;
        self.w.bind(backwards)?;
        // Processors whose counters differ: no time rather than an enormous one.
        self.w.xor(eax, eax)?;
        self.w.jmp(end)?;
        self.w.cold_since(start);
        Ok(())
    }

    fn ticks_at(&self) -> AsmMemoryOperand {
        frame_word(self.ticks_word.unwrap_or_default())
    }

    /// Reads the time stamp counter if this run has not yet: all elapsed times of a run end at once.
    fn end_ticks(&mut self) -> Emitted {
        if self.ticks_early {
            return Ok(());
        }
        let (place, known) = (self.ticks_at(), self.w.create_label());
        self.w.cmp(place, 0)?;
        self.w.jne(known)?;
        self.ticks(rax)?;
        self.w.mov(place, rax)?;
        self.w.bind(known)
    }
}
