//! The shared routines that write messages: reserve room, copy words, copy a text.
//!
//! Next: `message` for the ring's layout and for who calls these.

use crate::emit::error::EmitError;
use crate::emit::routines::{RESERVE_TRIES_MAX, Shared};
use crate::ir::{process_word, thread_word};
use iced_x86::code_asm::*;

impl Shared<'_> {
    /// `rdx`: bytes; `r11`: the thread's area. Leaves the position reserved in `rax`, or -1 if there is no room, which
    /// is counted. Changes `rcx` and `r10`.
    pub(crate) fn reserve(&mut self) -> Result<usize, EmitError> {
        let start = self.starts();
        let labels: [CodeLabel; 3] = std::array::from_fn(|_| self.w.create_label());
        let [again, full, out] = labels;
        self.w.push(rsi)?;
        self.w.push(rdi)?;
        self.process_base(rsi)?;
        self.w.mov(edi, RESERVE_TRIES_MAX)?;
        self.w.bind(again)?;
        self.w.mov(rax, qword_ptr(rsi + process_word::MESSAGES_HEAD))?;
        self.w.lea(rcx, qword_ptr(rax + rdx))?;
        self.w.mov(r10, rcx)?;
        self.w.sub(r10, qword_ptr(rsi + process_word::MESSAGES_TAIL))?;
        self.w.cmp(r10, qword_ptr(rsi + process_word::MESSAGES_BYTES))?;
        self.w.ja(full)?;
        self.w.lock().cmpxchg(qword_ptr(rsi + process_word::MESSAGES_HEAD), rcx)?;
        self.w.je(out)?;
        self.w.pause()?;
        self.w.dec(edi)?;
        self.w.jne(again)?;
        self.w.bind(full)?;
        self.w.add(qword_ptr(r11 + thread_word::MESSAGES_DROPPED), 1)?;
        self.w.mov(rax, -1i64)?;
        self.w.bind(out)?;
        self.w.pop(rdi)?;
        self.w.pop(rsi)?;
        self.w.ret()?;
        Ok(start)
    }

    /// `rax`: a position; `rcx`: where words are; `rdx`: how many. Changes `rax`, `rcx`, `rdx` and `r10`.
    pub(crate) fn write_words(&mut self) -> Result<usize, EmitError> {
        let start = self.starts();
        let again = self.w.create_label();
        for register in [rsi, rdi, r8] {
            self.w.push(register)?;
        }
        self.process_base(rsi)?;
        self.w.mov(rdi, qword_ptr(rsi + process_word::MESSAGES_BYTES))?;
        self.w.dec(rdi)?;
        self.w.add(rsi, qword_ptr(rsi + process_word::MESSAGES))?;
        self.w.bind(again)?;
        self.w.mov(r10, rax)?;
        self.w.and(r10, rdi)?;
        self.w.mov(r8, qword_ptr(rcx))?;
        self.w.mov(qword_ptr(rsi + r10), r8)?;
        self.w.add(rax, 8)?;
        self.w.add(rcx, 8)?;
        self.w.dec(rdx)?;
        self.w.jne(again)?;
        for register in [r8, rdi, rsi] {
            self.w.pop(register)?;
        }
        self.w.ret()?;
        Ok(start)
    }

    /// `rax`: a text's address; `rdx`: its bound; `rcx`: position of its length; `r10`: position of its bytes; `r11`: the
    /// thread's area. Changes `rax`, `rcx`, `rdx` and `r10`.
    pub(crate) fn copy_text(&mut self, range: CodeLabel) -> Result<usize, EmitError> {
        let start = self.starts();
        let labels: [CodeLabel; 4] = std::array::from_fn(|_| self.w.create_label());
        let [next, readable, refused, done] = labels;
        for register in [rsi, rdi, r8, r9, rbx, rbp] {
            self.w.push(register)?;
        }
        self.w.mov(r8, rdx)?;
        self.w.mov(r9, rcx)?;
        self.w.mov(rbp, r10)?;
        self.w.xor(edi, edi)?;
        self.w.xor(ebx, ebx)?;
        self.process_base(rsi)?;
        self.w.bind(next)?;
        self.w.cmp(rbx, r8)?;
        self.w.jae(done)?;
        self.w.test(rdi, rdi)?;
        self.w.jne(readable)?;
        self.more_text(range, refused)?;
        self.w.bind(readable)?;
        self.w.mov(cl, byte_ptr(rax))?;
        self.w.test(cl, cl)?;
        self.w.je(done)?;
        self.w.lea(rdx, qword_ptr(rbp + rbx))?;
        self.ring_place()?;
        self.w.mov(byte_ptr(rsi + rdx), cl)?;
        self.w.inc(rax)?;
        self.w.inc(rbx)?;
        self.w.dec(rdi)?;
        self.w.jmp(next)?;
        self.w.bind(refused)?;
        self.w.add(qword_ptr(r11 + thread_word::UNREADABLE), 1)?;
        self.w.bind(done)?;
        self.w.mov(rdx, r9)?;
        self.ring_place()?;
        // The room, rounded up to words, in the high half.
        self.w.add(r8, 7)?;
        self.w.and(r8, -8)?;
        self.w.shl(r8, 32)?;
        self.w.or(rbx, r8)?;
        self.w.mov(qword_ptr(rsi + rdx), rbx)?;
        for register in [rbp, rbx, r9, r8, rdi, rsi] {
            self.w.pop(register)?;
        }
        self.w.ret()?;
        Ok(start)
    }

    /// A position in `rdx` to its offset in the process area, which is at `rsi`; changes `r10`.
    fn ring_place(&mut self) -> Result<(), EmitError> {
        self.w.mov(r10, qword_ptr(rsi + process_word::MESSAGES_BYTES))?;
        self.w.dec(r10)?;
        self.w.and(rdx, r10)?;
        Ok(self.w.add(rdx, qword_ptr(rsi + process_word::MESSAGES))?)
    }
}
