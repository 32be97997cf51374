//! The routines that all bodies of one arena share: claiming a thread area, checking addresses, texts, histograms,
//! stacks, messages. They keep to no calling convention; each says what it takes and what it changes.
//!
//! Every loop is bounded: by the number of areas, by the 64 halvings a table can take, by a text's or a stack's bound, by
//! a number of attempts.
//!
//! Next: `message` for what the ring looks like; `ring` for the routines that write it.

use crate::emit::environment::{Areas, Routines};
use crate::emit::error::{EmitError, Emitted};
use crate::emit::writer::Writer;
use crate::ir::{HISTOGRAM_BUCKETS, STACKS_WORDS, process_word, thread_word};
use iced_x86::code_asm::*;
use trimtab_types::ProcAddr;

/// Instructions of one address check: 64 halvings.
pub(crate) const RANGE_INSTRUCTIONS_MAX: u64 = 64 * 9 + 48;
pub(crate) const HISTOGRAM_INSTRUCTIONS_MAX: u64 = 26;
/// Bytes of the code of one bucket, as a shift.
const BUCKET_CODE_SHIFT: i32 = 4;
pub(crate) const STACK_INSTRUCTIONS_MAX: u64 = 255 * (RANGE_INSTRUCTIONS_MAX + 22);
pub(crate) const STACK_COUNT_INSTRUCTIONS_MAX: u64 = 64 * 10 + 8;
/// Attempts to reserve room for a message; each failure means that another thread succeeded.
pub(crate) const RESERVE_TRIES_MAX: u32 = 64;
pub(crate) const RESERVE_INSTRUCTIONS_MAX: u64 = RESERVE_TRIES_MAX as u64 * 12 + 12;
/// Multiplier of the hash of stacks, from the golden ratio.
pub const STACK_HASH_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Right shift of a stack's hash that leaves the number of its first pair in the table.
const STACK_PLACE_SHIFT: i32 = 58;
const STACK_PAIRS: i32 = (STACKS_WORDS as i32 - 2) / 2;

pub(crate) fn claim_instructions_max(areas: &Areas) -> u64 {
    u64::from(areas.thread_count + 1) * 16 + 24
}

pub(crate) fn write_instructions_max(words: u32) -> u64 {
    u64::from(words) * 10 + 12
}

pub(crate) fn text_instructions_max(bytes: u64) -> u64 {
    bytes * 14 + (bytes / 16 + 2) * RANGE_INSTRUCTIONS_MAX
}

/// The shared routines of one arena, ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRoutines {
    /// Their code, for the address they were made for.
    pub bytes: Vec<u8>,
    /// Where each of them is.
    pub addresses: Routines,
}

/// Makes the shared routines for address `at`.
///
/// # Errors
/// [`EmitError`] if the areas are no power of two in number, or too far apart.
pub fn shared_routines(at: ProcAddr, areas: &Areas) -> Result<SharedRoutines, EmitError> {
    areas.check()?;
    let mut shared = Shared { w: Writer::new(at, areas.process)?, areas };
    let threads = shared.starts();
    shared.w.dq(&[areas.threads.0])?;
    let claim_label = shared.w.create_label();
    shared.w.bind(claim_label)?;
    let claim = shared.claim()?;
    let range_label = shared.w.create_label();
    let any_range = shared.w.create_label();
    shared.range(any_range)?;
    let range = shared.readable_range(range_label, any_range)?;
    let readable = shared.readable(range_label)?;
    let hot = shared.hot(any_range, claim_label)?;
    let writable = shared.writable(any_range)?;
    let text_equal = shared.text_equal(range_label)?;
    let rest = shared.w.create_label();
    shared.histogram_rest(rest)?;
    let histogram = shared.histogram(rest)?;
    let times_histogram = shared.times_histogram(rest)?;
    let stack_hash = shared.stack_hash(range_label)?;
    let stack_count = shared.stack_count()?;
    let reserve = shared.reserve()?;
    let write_words = shared.write_words()?;
    let copy_text = shared.copy_text(range_label)?;
    let encoded = shared.w.encode()?;
    let address = |index: usize| at + u64::from(encoded.offsets[index]);
    let addresses = Routines {
        claim: address(claim),
        range: address(range),
        readable: address(readable),
        hot: address(hot),
        writable: address(writable),
        text_equal: address(text_equal),
        histogram: address(histogram),
        times_histogram: address(times_histogram),
        stack_hash: address(stack_hash),
        stack_count: address(stack_count),
        reserve: address(reserve),
        write_words: address(write_words),
        copy_text: address(copy_text),
        threads_word: address(threads),
    };
    Ok(SharedRoutines { bytes: encoded.bytes, addresses })
}

pub(crate) struct Shared<'a> {
    pub w: Writer,
    pub areas: &'a Areas,
}

impl Shared<'_> {
    /// The index of the next instruction: where a routine starts.
    pub(crate) fn starts(&mut self) -> usize {
        self.w.instructions().len()
    }

    /// The process area's address.
    pub(crate) fn process_base(&mut self, into: AsmRegister64) -> Emitted {
        let base = self.areas.process.0;
        Ok(self.w.mov(into, base)?)
    }

    /// `rax`: the thread pointer. Leaves the thread's area in `r11`, or 0 if none is free. Changes nothing else. The first
    /// area is tried before the thread's own first place and those behind it, so whoever comes first has it.
    fn claim(&mut self) -> Result<usize, EmitError> {
        let start = self.starts();
        let labels: [CodeLabel; 6] = std::array::from_fn(|_| self.w.create_label());
        let [next, look, step, claimed, found, out] = labels;
        for register in [rcx, rdx, r10] {
            self.w.push(register)?;
        }
        self.w.mov(r11, self.areas.multiplier)?;
        self.w.imul_2(r11, rax)?;
        self.w.shr(r11, i32::from(self.areas.shift()))?;
        // The first step leads to the thread's own first place.
        self.w.dec(r11)?;
        self.w.mov(ecx, self.areas.thread_count + 1)?;
        self.w.mov(rdx, self.areas.threads.0)?;
        self.w.jmp(look)?;
        self.w.bind(next)?;
        self.w.imul_3(rdx, r11, self.areas.thread_stride as i32)?;
        self.w.mov(r10, self.areas.threads.0)?;
        self.w.add(rdx, r10)?;
        self.w.bind(look)?;
        let owner = qword_ptr(rdx + thread_word::OWNER);
        self.w.cmp(owner, rax)?;
        self.w.je(found)?;
        self.w.cmp(owner, 0)?;
        self.w.jne(step)?;
        self.w.mov(r10, rax)?;
        self.w.xor(eax, eax)?;
        self.w.lock().cmpxchg(owner, r10)?;
        self.w.mov(rax, r10)?;
        self.w.je(claimed)?;
        self.w.bind(step)?;
        self.w.inc(r11)?;
        self.w.and(r11, self.areas.thread_count as i32 - 1)?;
        self.w.dec(ecx)?;
        self.w.jne(next)?;
        let dropped = self.w.process(process_word::THREADS_DROPPED)?;
        self.w.lock().add(dropped, 1)?;
        self.w.xor(r11d, r11d)?;
        self.w.jmp(out)?;
        self.w.bind(claimed)?;
        if let Some(offset) = self.areas.thread_id_at {
            self.w.mov(ecx, dword_ptr(rax + offset))?;
            self.w.mov(qword_ptr(rdx + thread_word::THREAD), rcx)?;
        }
        self.w.bind(found)?;
        self.w.mov(r11, rdx)?;
        self.w.bind(out)?;
        for register in [r10, rdx, rcx] {
            self.w.pop(register)?;
        }
        self.w.ret()?;
        Ok(start)
    }

    /// `rax`: an address; `rdx`: offset of the process area's word with a table's number of ranges, behind which is
    /// the word with its offset. Leaves the number of bytes from the address to its range's end in `rdx`, or 0, and 16
    /// times the range's number counted from 1 in `rcx`. Changes `r10`.
    fn range(&mut self, label: CodeLabel) -> Emitted {
        let labels: [CodeLabel; 4] = std::array::from_fn(|_| self.w.create_label());
        let [next, above, done, none] = labels;
        self.w.bind(label)?;
        self.w.push(rsi)?;
        self.w.push(rdi)?;
        self.process_base(rsi)?;
        self.w.mov(rdi, qword_ptr(rsi + rdx))?;
        self.w.mov(rdx, qword_ptr(rsi + rdx + 8))?;
        self.w.add(rdx, rsi)?;
        self.w.xor(ecx, ecx)?;
        // rcx ranges are known to begin at or before the address, those from rdi on behind it.
        self.w.bind(next)?;
        self.w.cmp(rcx, rdi)?;
        self.w.jae(done)?;
        self.w.lea(rsi, qword_ptr(rcx + rdi))?;
        self.w.shr(rsi, 1)?;
        self.w.mov(r10, rsi)?;
        self.w.shl(r10, 4)?;
        self.w.cmp(qword_ptr(rdx + r10), rax)?;
        self.w.ja(above)?;
        self.w.lea(rcx, qword_ptr(rsi + 1))?;
        self.w.jmp(next)?;
        self.w.bind(above)?;
        self.w.mov(rdi, rsi)?;
        self.w.jmp(next)?;
        self.w.bind(done)?;
        self.w.test(rcx, rcx)?;
        self.w.je(none)?;
        self.w.shl(rcx, 4)?;
        self.w.mov(rdx, qword_ptr(rdx + rcx - 8))?;
        self.w.sub(rdx, rax)?;
        let inside = self.w.create_label();
        self.w.jae(inside)?;
        self.w.bind(none)?;
        self.w.xor(edx, edx)?;
        self.w.bind(inside)?;
        self.w.pop(rdi)?;
        self.w.pop(rsi)?;
        self.w.ret()?;
        Ok(())
    }

    /// As `range` for the readable ranges, with the thread's area in `r11`: the range of the last address is tried first.
    fn readable_range(&mut self, label: CodeLabel, range: CodeLabel) -> Result<usize, EmitError> {
        let start = self.starts();
        let (elsewhere, none) = (self.w.create_label(), self.w.create_label());
        let last = qword_ptr(r11 + thread_word::LAST_RANGE);
        self.w.bind(label)?;
        self.process_base(r10)?;
        self.w.mov(rcx, last)?;
        // The table may have become shorter.
        self.w.cmp(rcx, qword_ptr(r10 + process_word::RANGE_COUNT))?;
        self.w.jae(elsewhere)?;
        self.w.shl(rcx, 4)?;
        self.w.add(rcx, qword_ptr(r10 + process_word::RANGES))?;
        self.w.cmp(rax, qword_ptr(r10 + rcx))?;
        self.w.jb(elsewhere)?;
        self.w.mov(rdx, qword_ptr(r10 + rcx + 8))?;
        self.w.sub(rdx, rax)?;
        self.w.jbe(elsewhere)?;
        self.w.ret()?;
        self.w.bind(elsewhere)?;
        self.w.mov(edx, process_word::RANGE_COUNT)?;
        self.w.call(range)?;
        self.w.test(rdx, rdx)?;
        self.w.je(none)?;
        self.w.shr(rcx, 4)?;
        self.w.dec(rcx)?;
        self.w.mov(last, rcx)?;
        self.w.bind(none)?;
        self.w.ret()?;
        Ok(start)
    }

    /// `rax`: an address; `rdx`: bytes, at most 8; `r11`: the thread's area. Leaves in `rax` an address those bytes can
    /// be read from: the same, or that of zeros. Changes `rcx`, `rdx` and `r10`.
    fn readable(&mut self, range: CodeLabel) -> Result<usize, EmitError> {
        let zeros = self.w.create_label();
        self.w.bind(zeros)?;
        self.w.dq(&[0])?;
        let start = self.starts();
        let refused = self.checked(range)?;
        self.w.bind(refused)?;
        self.w.add(qword_ptr(r11 + thread_word::UNREADABLE), 1)?;
        self.w.lea(rax, qword_ptr(zeros))?;
        self.w.ret()?;
        Ok(start)
    }

    /// As `readable` for writing; leaves 0 in `rax` if refused.
    fn writable(&mut self, range: CodeLabel) -> Result<usize, EmitError> {
        let of_table = self.w.create_label();
        self.w.bind(of_table)?;
        self.w.mov(edx, process_word::WRITABLE_COUNT)?;
        self.w.jmp(range)?;
        let start = self.starts();
        let refused = self.checked(of_table)?;
        self.w.bind(refused)?;
        self.w.add(qword_ptr(r11 + thread_word::UNREADABLE), 1)?;
        self.w.xor(eax, eax)?;
        self.w.ret()?;
        Ok(start)
    }

    /// Returns if `rdx` bytes at `rax` are within a range, jumps otherwise.
    fn checked(&mut self, range: CodeLabel) -> Result<CodeLabel, EmitError> {
        let refused = self.w.create_label();
        self.w.push(rdx)?;
        self.w.call(range)?;
        self.w.pop(rcx)?;
        self.w.cmp(rdx, rcx)?;
        self.w.jb(refused)?;
        self.w.ret()?;
        Ok(refused)
    }

    /// More of the text at `rax`: the number of bytes that can be read there into `rdi`; jumps if there are none.
    pub(crate) fn more_text(&mut self, range: CodeLabel, refused: CodeLabel) -> Emitted {
        self.w.call(range)?;
        self.w.mov(rdi, rdx)?;
        self.w.test(rdx, rdx)?;
        Ok(self.w.je(refused)?)
    }

    /// `rax`: a text's address; `rcx`: what it should be; `rdx`: bytes of that with its zero; `r11`: the thread's area.
    /// Leaves 1 or 0 in `rax`. Changes `rcx`, `rdx` and `r10`.
    fn text_equal(&mut self, range: CodeLabel) -> Result<usize, EmitError> {
        let start = self.starts();
        let labels: [CodeLabel; 5] = std::array::from_fn(|_| self.w.create_label());
        let [next, readable, refused, differs, out] = labels;
        for register in [rsi, rdi, r8] {
            self.w.push(register)?;
        }
        self.w.mov(rsi, rcx)?;
        self.w.mov(r8, rdx)?;
        self.w.xor(edi, edi)?;
        self.w.bind(next)?;
        self.w.test(rdi, rdi)?;
        self.w.jne(readable)?;
        self.more_text(range, refused)?;
        self.w.bind(readable)?;
        self.w.mov(cl, byte_ptr(rax))?;
        self.w.cmp(cl, byte_ptr(rsi))?;
        self.w.jne(differs)?;
        self.w.inc(rax)?;
        self.w.inc(rsi)?;
        self.w.dec(rdi)?;
        self.w.dec(r8)?;
        self.w.jne(next)?;
        self.w.mov(eax, 1)?;
        self.w.jmp(out)?;
        self.w.bind(refused)?;
        self.w.add(qword_ptr(r11 + thread_word::UNREADABLE), 1)?;
        self.w.bind(differs)?;
        self.w.xor(eax, eax)?;
        self.w.bind(out)?;
        for register in [r8, rdi, rsi] {
            self.w.pop(register)?;
        }
        self.w.ret()?;
        Ok(start)
    }

    /// `rax`: a time; `rcx`: a histogram. Changes `rdx` and `r10`.
    ///
    /// As `histogram`, but for values that become known late, right behind a time stamp: a store to a place that depends on
    /// such a value holds up everything behind it (7 ns of 24 where that was measured). So each bucket has an
    /// instruction of its own, and the processor predicts which.
    fn times_histogram(&mut self, histogram: CodeLabel) -> Result<usize, EmitError> {
        let buckets = self.w.create_label();
        let start = self.starts();
        self.w.call(histogram)?;
        self.w.shl(edx, BUCKET_CODE_SHIFT)?;
        self.w.lea(r10, qword_ptr(buckets))?;
        self.w.add(r10, rdx)?;
        self.w.jmp(r10)?;
        self.w.bind(buckets)?;
        for bucket in 0..HISTOGRAM_BUCKETS {
            // add qword ptr [rcx + 8 * bucket], 1; ret; padded.
            let mut code = vec![0x48, 0x83, 0x81];
            code.extend((8 * bucket).to_le_bytes());
            code.extend([0x01, 0xc3]);
            code.resize(1 << BUCKET_CODE_SHIFT, 0xcc);
            self.w.db(&code)?;
        }
        Ok(start)
    }

    /// `rax`: a value; `rcx`: a histogram. Changes `rdx`.
    fn histogram(&mut self, rest: CodeLabel) -> Result<usize, EmitError> {
        let start = self.starts();
        self.w.call(rest)?;
        self.w.add(qword_ptr(rcx + rdx * 8), 1)?;
        self.w.ret()?;
        Ok(start)
    }

    /// All of `histogram` but the bucket, whose number is left in `rdx`.
    fn histogram_rest(&mut self, label: CodeLabel) -> Emitted {
        self.w.bind(label)?;
        let labels: [CodeLabel; 4] = std::array::from_fn(|_| self.w.create_label());
        let [small, first, larger, counted] = labels;
        let word = |number: u32| qword_ptr(rcx + 8 * (HISTOGRAM_BUCKETS + number));
        let (count, sum, least, most) = (word(0), word(1), word(2), word(3));
        self.w.xor(edx, edx)?;
        self.w.test(rax, rax)?;
        self.w.jle(small)?;
        self.w.bsr(rdx, rax)?;
        self.w.inc(edx)?;
        self.w.bind(small)?;
        self.w.add(sum, rax)?;
        self.w.cmp(count, 0)?;
        self.w.je(first)?;
        self.w.cmp(least, rax)?;
        self.w.jle(larger)?;
        self.w.mov(least, rax)?;
        self.w.bind(larger)?;
        self.w.cmp(most, rax)?;
        self.w.jge(counted)?;
        self.w.mov(most, rax)?;
        self.w.bind(counted)?;
        self.w.add(count, 1)?;
        self.w.ret()?;
        self.w.bind(first)?;
        self.w.mov(least, rax)?;
        self.w.mov(most, rax)?;
        self.w.add(count, 1)?;
        self.w.ret()?;
        Ok(())
    }

    /// `rax`: a return address or 0; `rcx`: a frame pointer; `rdx`: return addresses at most, the first included.
    /// Leaves their hash in `rax`, never 0. Changes `rcx`, `rdx` and `r10`. The chain ends where it can't be read or
    /// does not lead upwards.
    fn stack_hash(&mut self, range: CodeLabel) -> Result<usize, EmitError> {
        let start = self.starts();
        let labels: [CodeLabel; 4] = std::array::from_fn(|_| self.w.create_label());
        let [next, walk, out, some] = labels;
        for register in [rsi, rdi, r8, r9] {
            self.w.push(register)?;
        }
        self.w.xor(esi, esi)?;
        self.w.mov(rdi, rcx)?;
        self.w.mov(r8, rdx)?;
        self.w.mov(r9, STACK_HASH_MULTIPLIER)?;
        self.w.test(rax, rax)?;
        self.w.je(walk)?;
        self.w.bind(next)?;
        self.w.sub(r8, 1)?;
        self.w.jb(out)?;
        self.w.xor(rsi, rax)?;
        self.w.imul_2(rsi, r9)?;
        self.w.mov(rax, rsi)?;
        self.w.shr(rax, 32)?;
        self.w.xor(rsi, rax)?;
        self.w.bind(walk)?;
        self.w.mov(rax, rdi)?;
        self.w.test(al, 7)?;
        self.w.jne(out)?;
        self.w.call(range)?;
        self.w.cmp(rdx, 16)?;
        self.w.jb(out)?;
        self.w.mov(rax, qword_ptr(rdi + 8))?;
        self.w.mov(rcx, qword_ptr(rdi))?;
        // The next frame must lie further up; the last one's link is zero, so its address is the last one hashed.
        self.w.cmp(rcx, rdi)?;
        self.w.mov(rdi, rcx)?;
        self.w.ja(some)?;
        self.w.mov(edi, 1)?;
        self.w.bind(some)?;
        self.w.test(rax, rax)?;
        self.w.jne(next)?;
        self.w.bind(out)?;
        self.w.mov(rax, rsi)?;
        let nonzero = self.w.create_label();
        self.w.test(rax, rax)?;
        self.w.jne(nonzero)?;
        self.w.inc(rax)?;
        self.w.bind(nonzero)?;
        for register in [r9, r8, rdi, rsi] {
            self.w.pop(register)?;
        }
        self.w.ret()?;
        Ok(start)
    }

    /// `rax`: a hash; `rcx`: a table of stacks. Changes `rdx` and `r10`.
    fn stack_count(&mut self) -> Result<usize, EmitError> {
        let start = self.starts();
        let labels: [CodeLabel; 4] = std::array::from_fn(|_| self.w.create_label());
        let [next, take, hit, out] = labels;
        self.w.push(rsi)?;
        self.w.mov(rdx, rax)?;
        self.w.shr(rdx, STACK_PLACE_SHIFT)?;
        self.w.mov(r10d, STACK_PAIRS)?;
        self.w.bind(next)?;
        self.w.mov(rsi, rdx)?;
        self.w.shl(rsi, 4)?;
        self.w.add(rsi, rcx)?;
        self.w.cmp(qword_ptr(rsi), rax)?;
        self.w.je(hit)?;
        self.w.cmp(qword_ptr(rsi), 0)?;
        self.w.je(take)?;
        self.w.inc(edx)?;
        self.w.and(edx, STACK_PAIRS - 1)?;
        self.w.dec(r10d)?;
        self.w.jne(next)?;
        self.w.add(qword_ptr(rcx + (16 * STACK_PAIRS + 8)), 1)?;
        self.w.jmp(out)?;
        self.w.bind(take)?;
        self.w.mov(qword_ptr(rsi), rax)?;
        self.w.bind(hit)?;
        self.w.add(qword_ptr(rsi + 8), 1)?;
        self.w.bind(out)?;
        self.w.pop(rsi)?;
        self.w.ret()?;
        Ok(start)
    }
}
