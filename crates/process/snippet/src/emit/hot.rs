//! Loads in conditions that are tested first: the range that an address was in lately is compared with before the table
//! of readable ranges is searched.
//!
//! A word of the process area holds the address of that range in the table, or 0. It is one word, so nobody sees half of
//! it; that it is 0 again before memory goes away is up to whoever empties the table, as is making a table's ranges empty
//! before it is used anew. The search writes the word first and looks then whether the table has been emptied, who
//! empties it does it the other way round; so the word is never left behind.
//!
//! Next: `filter`, which tests such conditions.

use crate::emit::environment::{Areas, ThreadKey};
use crate::emit::error::{EmitError, Emitted};
use crate::emit::generator::{Generator, RAX, RCX};
use crate::emit::routines::{RANGE_INSTRUCTIONS_MAX, Shared, claim_instructions_max};
use crate::ir::{process_word, thread_word};
use iced_x86::code_asm::*;

/// Bits of what the search is told in `ecx` that hold the number of bytes to read; the rest is the word's number.
const BYTES_BITS: u32 = 4;

/// Instructions of one search, with what it takes to count a refusal.
fn instructions_max(areas: &Areas) -> u64 {
    RANGE_INSTRUCTIONS_MAX + claim_instructions_max(areas) + 40
}

impl Generator<'_> {
    /// As `readable_address` for the address in `rax`, without the thread's area. Changes `rcx`. Comparisons are signed,
    /// so that no address of the kernel's half fits into any range.
    pub(crate) fn hot_address(&mut self, bytes: u32) -> Emitted {
        let number = (self.environment.at >> 4) as u32 % process_word::HOT_RANGE_COUNT;
        let (good, search) = (self.w.create_label(), self.w.create_label());
        let word = self.w.process(process_word::HOT_RANGES + 8 * number)?;
        self.w.mov(rcx, word)?;
        self.w.test(rcx, rcx)?;
        self.w.je(search)?;
        self.w.cmp(rax, qword_ptr(rcx))?;
        self.w.jl(search)?;
        self.w.mov(rcx, qword_ptr(rcx + 8))?;
        self.w.sub(rcx, rax)?;
        self.w.cmp(rcx, bytes as i32)?;
        self.w.jl(search)?;
        self.w.bind(good)?;
        let start = self.w.instructions().len();
        self.w.bind(search)?;
        self.w.mov(ecx, number << BYTES_BITS | bytes)?;
        let hot = self.environment.routines.hot;
        self.routine(hot, RAX | RCX, instructions_max(self.environment.areas))?;
        self.w.jmp(good)?;
        self.w.cold_since(start);
        Ok(())
    }
}

impl Shared<'_> {
    /// `rax`: an address; `ecx`: bytes, at most 8, and the number of a word. Leaves in `rax` an address those bytes can be
    /// read from: the same, whose range is put into the word, or that of zeros, and counts that. Changes `rcx`.
    pub(crate) fn hot(&mut self, range: CodeLabel, claim: CodeLabel) -> Result<usize, EmitError> {
        let labels: [CodeLabel; 4] = std::array::from_fn(|_| self.w.create_label());
        let [zeros, refused, none, out] = labels;
        self.w.bind(zeros)?;
        self.w.dq(&[0])?;
        let start = self.starts();
        for register in [rdx, r10, r11, rcx] {
            self.w.push(register)?;
        }
        self.w.mov(edx, process_word::RANGE_COUNT)?;
        self.w.call(range)?;
        self.w.pop(r10)?;
        self.w.mov(r11d, r10d)?;
        self.w.and(r11d, (1 << BYTES_BITS) - 1)?;
        self.w.cmp(rdx, r11)?;
        self.w.jb(refused)?;
        self.w.shr(r10d, BYTES_BITS)?;
        self.process_base(r11)?;
        self.w.mov(rdx, qword_ptr(r11 + process_word::RANGES))?;
        self.w.add(rdx, r11)?;
        self.w.lea(rcx, qword_ptr(rdx + rcx - 16))?;
        self.w.lea(r10, qword_ptr(r11 + r10 * 8 + process_word::HOT_RANGES))?;
        self.w.xchg(qword_ptr(r10), rcx)?;
        self.w.cmp(qword_ptr(r11 + process_word::RANGE_COUNT), 0)?;
        self.w.jne(out)?;
        self.w.mov(qword_ptr(r10), 0)?;
        self.w.jmp(out)?;
        self.w.bind(refused)?;
        self.count_refusal(claim, none)?;
        self.w.bind(none)?;
        self.w.lea(rax, qword_ptr(zeros))?;
        self.w.bind(out)?;
        for register in [r11, r10, rdx] {
            self.w.pop(register)?;
        }
        self.w.ret()?;
        Ok(start)
    }

    /// Counts a load that is refused; changes `rax` and `r11`.
    fn count_refusal(&mut self, claim: CodeLabel, none: CodeLabel) -> Emitted {
        match self.areas.key {
            ThreadKey::SelfPointer => self.w.mov(rax, qword_ptr(0).fs())?,
            ThreadKey::FsBase => {
                self.w.rdfsbase(rax)?;
                self.w.test(rax, rax)?;
                self.w.je(none)?;
            }
        }
        self.w.call(claim)?;
        self.w.test(r11, r11)?;
        self.w.je(none)?;
        Ok(self.w.add(qword_ptr(r11 + thread_word::UNREADABLE), 1)?)
    }
}
