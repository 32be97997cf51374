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
use crate::emit::generator::{Generator, RAX, width_bytes};
use crate::emit::routines::{RANGE_INSTRUCTIONS_MAX, Shared, claim_instructions_max};
use crate::ir::{Width, process_word, thread_word};
use iced_x86::code_asm::*;

/// Bits of what the search is told that hold the number of bytes to read; the rest is the word's number.
const BYTES_BITS: u32 = 4;

/// Instructions of one search, with what it takes to count a refusal.
fn instructions_max(areas: &Areas) -> u64 {
    RANGE_INSTRUCTIONS_MAX + claim_instructions_max(areas) + 40
}

impl Generator<'_> {
    /// As `readable_address` for the address in `rax`, without the thread's area. Changes `r11` if that is free, else `r10`,
    /// neither of which holds an argument of a function.
    pub(crate) fn hot_address(&mut self, bytes: u32) -> Emitted {
        let (good, search) = (self.w.create_label(), self.w.create_label());
        let range = if self.has_area { r10 } else { r11 };
        self.in_hot_range(rax, range, bytes, search)?;
        self.w.bind(good)?;
        let start = self.w.instructions().len();
        self.w.bind(search)?;
        self.search(bytes)?;
        self.w.jmp(good)?;
        self.w.cold_since(start);
        Ok(())
    }

    /// Loads into `rax` from the address in a register of the program, which stays as it is; changes no other.
    pub(crate) fn hot_load(&mut self, address: AsmRegister64, width: Width, signed: bool) -> Emitted {
        let (loaded, search) = (self.w.create_label(), self.w.create_label());
        let bytes = width_bytes(width);
        self.in_hot_range(address, rax, bytes, search)?;
        self.load(address, width, signed)?;
        self.w.bind(loaded)?;
        let start = self.w.instructions().len();
        self.w.bind(search)?;
        self.w.mov(rax, address)?;
        self.search(bytes)?;
        self.load(rax, width, signed)?;
        self.w.jmp(loaded)?;
        self.w.cold_since(start);
        Ok(())
    }

    /// Goes on here if the bytes at `address` lie in the range that is kept. Comparisons are signed, so that no address of
    /// the kernel's half fits into any range. Changes `range`.
    fn in_hot_range(&mut self, address: AsmRegister64, range: AsmRegister64, bytes: u32, search: CodeLabel) -> Emitted {
        let number = self.hot_number();
        let word = self.w.process(process_word::HOT_RANGES + 8 * number)?;
        self.w.mov(range, word)?;
        self.w.test(range, range)?;
        self.w.je(search)?;
        self.w.cmp(address, qword_ptr(range))?;
        self.w.jl(search)?;
        self.w.mov(range, qword_ptr(range + 8))?;
        self.w.sub(range, address)?;
        self.w.cmp(range, bytes as i32)?;
        Ok(self.w.jl(search)?)
    }

    /// Searches the table for the address in `rax`, which becomes that of zeros if it is not there.
    fn search(&mut self, bytes: u32) -> Emitted {
        self.look_at_unseen_state()?;
        let wanted = self.hot_number() << BYTES_BITS | bytes;
        self.w.push(wanted as i32)?;
        let hot = self.environment.routines.hot;
        self.routine(hot, RAX, instructions_max(self.environment.areas))?;
        Ok(self.w.lea(rsp, qword_ptr(rsp + 8))?)
    }

    /// The number of this place's word.
    fn hot_number(&self) -> u32 {
        (self.environment.at.0 >> 4) as u32 % process_word::HOT_RANGE_COUNT
    }
}

impl Shared<'_> {
    /// `rax`: an address; on the stack: bytes, at most 8, and the number of a word. Leaves in `rax` an address those bytes
    /// can be read from: the same, whose range is put into the word, or that of zeros, and counts that.
    pub(crate) fn hot(&mut self, range: CodeLabel, claim: CodeLabel) -> Result<usize, EmitError> {
        let labels: [CodeLabel; 4] = std::array::from_fn(|_| self.w.create_label());
        let [zeros, refused, none, out] = labels;
        self.w.bind(zeros)?;
        self.w.dq(&[0])?;
        let start = self.starts();
        let saved = [rcx, rdx, r10, r11];
        for register in saved {
            self.w.push(register)?;
        }
        self.w.mov(edx, process_word::RANGE_COUNT)?;
        self.w.call(range)?;
        // Above what was saved and the return address.
        self.w.mov(r10, qword_ptr(rsp + (8 * saved.len() + 8)))?;
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
        for register in saved.into_iter().rev() {
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
