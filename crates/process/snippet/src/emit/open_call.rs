//! Elapsed times: each thread keeps the stack pointer and time stamp of the calls of a function that are open.
//!
//! A call ends where the stack pointer is the same as where it began, as the return address is still in its place. An
//! entry at or below the current stack pointer belongs to a call that was left by `longjmp` or an exception, and is
//! dropped. A call on another stack may drop entries of the first; their times are then not known.
//!
//! The table: 16 times the number of outer calls, the innermost call, the outer ones with the outermost first; each a time
//! stamp and the complement of a stack pointer, which is 0 if no call is open. So the usual call, that is open alone, is
//! where no load has to find it first. That matters because reading the clock waits for everything before it and holds up
//! everything behind it: what stands between two readings costs as long as its longest chain. Counted from what the
//! first word holds, the innermost outer call is where the innermost one is counted from 0. Rare cases move words by the
//! stack, so that no register has to be saved for it.
//!
//! Where nothing else in a script has to be alone on its thread, these bodies need not be either: what a signal handler's
//! calls change in the table in between, they put back, because their stack pointers are lower than all that are there.
//! If a handler jumps out in between, calls further out may have no time, and are counted.
//!
//! Next: `timed_exit` for the usual exit; `fold` for what is done with the times.

use crate::emit::error::{EmitError, Emitted};
use crate::emit::generator::{Generator, frame_word};
use crate::ir::{Area, Kind, OPEN_CALL_BYTES, OPEN_CALLS_MAX, Variable, process_word, thread_word};
use iced_x86::code_asm::*;

/// Bytes of one pair.
const PAIR_BYTES: i32 = OPEN_CALL_BYTES as i32;
/// Instructions of one step through the table.
const STEP_INSTRUCTIONS: u64 = 12;

/// Where one table is.
#[derive(Clone, Copy)]
pub(crate) struct OpenCalls {
    offset: i32,
}

impl OpenCalls {
    pub(crate) fn outer_bytes(self) -> AsmMemoryOperand {
        qword_ptr(r11 + self.offset)
    }

    pub(crate) fn ticks(self) -> AsmMemoryOperand {
        qword_ptr(r11 + (self.offset + 8))
    }

    /// The complement of the innermost call's stack pointer.
    pub(crate) fn stack(self) -> AsmMemoryOperand {
        qword_ptr(r11 + (self.offset + 16))
    }

    /// Of the innermost outer call with what the first word holds, of the innermost one with 0.
    fn ticks_at(self, index: AsmRegister64) -> AsmMemoryOperand {
        qword_ptr(r11 + index + (self.offset + 8))
    }

    fn stack_at(self, index: AsmRegister64) -> AsmMemoryOperand {
        qword_ptr(r11 + index + (self.offset + 16))
    }
}

impl Generator<'_> {
    pub(crate) fn open_calls(&self, variable: usize) -> Result<OpenCalls, EmitError> {
        let Variable { area, offset, kind, .. } = *self.variable(variable)?;
        if (area, kind) == (Area::Thread, Kind::OpenCalls) {
            Ok(OpenCalls { offset: offset as i32 })
        } else {
            Err(self.wrong_kind("elapsed time", variable))
        }
    }

    /// The complement of the program's stack pointer into `rdx`, and the innermost call compared with that: equal if it is
    /// the current one, above it if it was left, below it if it is one further out or none.
    pub(crate) fn compare_innermost(&mut self, calls: OpenCalls) -> Emitted {
        self.repeated += STEP_INSTRUCTIONS * u64::from(OPEN_CALLS_MAX);
        self.stack_pointer_complement()?;
        Ok(self.w.cmp(calls.stack(), rdx)?)
    }

    fn stack_pointer_complement(&mut self) -> Emitted {
        self.stack_pointer(rdx)?;
        Ok(self.w.not(rdx)?)
    }

    /// Makes the innermost outer call, of which there is one, the innermost one; `index` holds the first word.
    pub(crate) fn move_in(&mut self, calls: OpenCalls, index: AsmRegister64) -> Emitted {
        self.w.push(calls.ticks_at(index))?;
        self.w.pop(calls.ticks())?;
        self.w.push(calls.stack_at(index))?;
        self.w.pop(calls.stack())?;
        self.w.sub(index, PAIR_BYTES)?;
        Ok(self.w.mov(calls.outer_bytes(), index)?)
    }

    /// Makes the innermost call an outer one; `index` holds the first word.
    fn move_out(&mut self, calls: OpenCalls, index: AsmRegister64) -> Emitted {
        self.w.add(index, PAIR_BYTES)?;
        self.w.push(calls.ticks())?;
        self.w.pop(calls.ticks_at(index))?;
        self.w.push(calls.stack())?;
        self.w.pop(calls.stack_at(index))?;
        Ok(self.w.mov(calls.outer_bytes(), index)?)
    }

    /// Drops calls at or above `rdx`, from the innermost on, of which that is known; goes on at `none` if none is left
    /// and else here, with the first word in `rax` and the flags of the comparison with the first one that stays.
    pub(crate) fn drop_left(&mut self, calls: OpenCalls, none: CodeLabel) -> Emitted {
        let left = self.w.create_label();
        self.w.mov(rax, calls.outer_bytes())?;
        self.w.bind(left)?;
        self.w.test(rax, rax)?;
        self.w.je(none)?;
        self.move_in(calls, rax)?;
        self.w.cmp(calls.stack(), rdx)?;
        Ok(self.w.ja(left)?)
    }

    /// Remembers this call.
    pub(crate) fn open_call(&mut self, variable: usize) -> Emitted {
        let calls = self.open_calls(variable)?;
        let labels: [CodeLabel; 4] = std::array::from_fn(|_| self.w.create_label());
        let [others, inner, alone, done] = labels;
        self.repeated += STEP_INSTRUCTIONS * u64::from(OPEN_CALLS_MAX);
        self.stack_pointer_complement()?;
        self.w.cmp(calls.stack(), 0)?;
        self.w.jne(others)?;
        self.w.bind(alone)?;
        self.w.mov(calls.stack(), rdx)?;
        self.ticks(rax)?;
        self.w.mov(calls.ticks(), rax)?;
        self.w.bind(done)?;
        let start = self.w.instructions().len();
        self.w.bind(others)?;
        self.w.mov(rax, calls.outer_bytes())?;
        self.w.cmp(calls.stack(), rdx)?;
        self.w.jb(inner)?;
        self.drop_left(calls, alone)?;
        self.w.je(alone)?;
        self.w.bind(inner)?;
        // Deeper calls have no time, but what was dropped stays dropped.
        self.w.cmp(rax, (OPEN_CALLS_MAX as i32 - 1) * PAIR_BYTES)?;
        self.w.jae(done)?;
        self.move_out(calls, rax)?;
        self.w.jmp(alone)?;
        self.w.cold_since(start);
        Ok(())
    }

    /// Forgets this call and everything left below it.
    pub(crate) fn close_call(&mut self, variable: usize) -> Emitted {
        let calls = self.open_calls(variable)?;
        let labels: [CodeLabel; 4] = std::array::from_fn(|_| self.w.create_label());
        let [other, left, last, done] = labels;
        self.compare_innermost(calls)?;
        self.w.jne(other)?;
        self.w.cmp(calls.outer_bytes(), 0)?;
        self.w.jne(left)?;
        self.w.bind(last)?;
        self.w.mov(calls.stack(), 0)?;
        self.w.bind(done)?;
        let start = self.w.instructions().len();
        self.w.bind(other)?;
        // The flags are still those of the comparison: an entry further up belongs to a caller.
        self.w.jb(done)?;
        self.w.bind(left)?;
        self.drop_left(calls, last)?;
        self.w.je(left)?;
        self.w.jmp(done)?;
        self.w.cold_since(start);
        Ok(())
    }

    /// Into `rax` whether the innermost open call was left: 1 or 0. At an exit the call that exits is still open.
    pub(crate) fn call_was_left(&mut self, variable: usize, at_exit: bool) -> Emitted {
        let calls = self.open_calls(variable)?;
        self.compare_innermost(calls)?;
        // It changes no flags; those of no call are "below".
        self.w.mov(eax, 0)?;
        let set = if at_exit { self.w.seta(al) } else { self.w.setae(al) };
        Ok(set?)
    }

    /// Forgets the innermost open call; there must be one.
    pub(crate) fn drop_call(&mut self, variable: usize) -> Emitted {
        let calls = self.open_calls(variable)?;
        let (outer, done) = (self.w.create_label(), self.w.create_label());
        self.w.mov(rax, calls.outer_bytes())?;
        self.w.test(rax, rax)?;
        self.w.jne(outer)?;
        self.w.mov(calls.stack(), 0)?;
        self.w.bind(done)?;
        let start = self.w.instructions().len();
        self.w.bind(outer)?;
        self.move_in(calls, rax)?;
        self.w.jmp(done)?;
        self.w.cold_since(start);
        Ok(())
    }

    /// Nanoseconds since this call's entry into `rax`; -1 if it is not known.
    pub(crate) fn elapsed(&mut self, variable: usize) -> Emitted {
        let calls = self.open_calls(variable)?;
        self.end_ticks()?;
        let labels: [CodeLabel; 6] = std::array::from_fn(|_| self.w.create_label());
        let [found, other, next, unknown, backwards, end] = labels;
        self.compare_innermost(calls)?;
        self.w.mov(ecx, 0)?;
        self.w.jne(other)?;
        self.w.bind(found)?;
        let ticks = self.ticks_at();
        self.w.mov(rax, ticks)?;
        self.w.sub(rax, calls.ticks_at(rcx))?;
        self.w.jb(backwards)?;
        self.short_nanoseconds()?;
        self.w.bind(end)?;
        let start = self.w.instructions().len();
        self.w.bind(other)?;
        // The flags are still those of the comparison: an entry further up belongs to a caller.
        self.w.jb(unknown)?;
        self.w.mov(rcx, calls.outer_bytes())?;
        self.w.bind(next)?;
        self.w.test(rcx, rcx)?;
        self.w.je(unknown)?;
        self.w.cmp(calls.stack_at(rcx), rdx)?;
        self.w.je(found)?;
        self.w.jb(unknown)?;
        self.w.sub(rcx, PAIR_BYTES)?;
        self.w.jmp(next)?;
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

    /// As `nanoseconds`, quicker for ticks of less than some seconds. Changes `rdx`.
    pub(crate) fn short_nanoseconds(&mut self) -> Emitted {
        let (long, end) = (self.w.create_label(), self.w.create_label());
        let factor = self.w.process(process_word::NS_PER_TICK_SHIFTED)?;
        self.w.mov(rdx, rax)?;
        self.w.imul_2(rax, factor)?;
        self.w.jo(long)?;
        self.w.shr(rax, 32)?;
        self.w.bind(end)?;
        let start = self.w.instructions().len();
        self.w.bind(long)?;
        self.w.mov(rax, rdx)?;
        self.nanoseconds()?;
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
