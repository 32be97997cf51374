//! A stretch of executable memory with a trampoline that runs code from given registers and reports all of them.
//!
//! Layout, from its start: the trampoline; the original with the exits right behind it; the island; data; a stack.

use iced_x86::code_asm::*;
use iced_x86::{BlockEncoder, BlockEncoderOptions, Instruction, InstructionBlock, Mnemonic, OpKind, Register};
use std::ops::Range;
use trimtab_types::ProcAddr;

const ARENA_LEN: usize = 0x40_0000;
const ORIGINAL: u64 = 0x1_0000;
const ISLAND: u64 = 0x20_0000;
const DATA: u64 = 0x30_0000;
const STACK: u64 = 0x38_0000;
const SLOTS: u64 = 0x3f_0000;
const PROBE: u64 = 0x8000;
const CALLEE: u64 = 0xa000;

/// Bytes of data that code may read and write.
pub const DATA_LEN: u64 = 256;
const STACK_LEN: u64 = 1024;
/// Ways out of a sequence; the first is its end.
pub const EXITS: usize = 4;
/// Bytes of one exit: a store of its number and a jump.
pub const EXIT_LEN: u64 = 15;
/// General registers except the stack pointer, then the flags.
pub const INPUTS: usize = 16;

/// A gate and two routines that count how often they are called, and spoil whatever a routine may.
#[derive(Clone, Copy)]
pub struct ProbePlaces {
    pub gate: ProcAddr,
    pub enter: ProcAddr,
    pub leave: ProcAddr,
}

/// Everything a run leaves behind.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub exit: usize,
    pub registers: Vec<u64>,
    pub data: Vec<u8>,
    pub stack: Vec<u8>,
}

pub struct Arena {
    base: u64,
    leave: u64,
    probe: ProbePlaces,
    /// The return address that the code that is run finds.
    return_to: Option<u64>,
}

const REGISTERS: [AsmRegister64; 15] = [rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15];
/// Slots: registers in and out, then these.
const FLAGS: u64 = SLOTS + 15 * 8;
const STACK_POINTER: u64 = SLOTS + 16 * 8;
/// Places among the registers reported.
pub const FLAGS_INDEX: usize = 15;
const STACK_POINTER_INDEX: usize = 16;
const EXIT: u64 = SLOTS + 17 * 8;
const TARGET: u64 = SLOTS + 18 * 8;
const OWN_STACK: u64 = SLOTS + 19 * 8;
const ENTERED: u64 = SLOTS + 20 * 8;
const LEFT: u64 = SLOTS + 21 * 8;
const GATE: u64 = SLOTS + 22 * 8;
const CALLEE_POINTER: u64 = SLOTS + 23 * 8;
/// Arithmetic flags that programs may set: carry, parity, adjust, zero, sign, overflow; and the fixed bit 1.
const FLAGS_IN: u64 = 0x8d5;
const FLAG_FIXED: u64 = 2;

impl Arena {
    pub fn new() -> Arena {
        let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), ARENA_LEN, protection, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED, "executable memory is allowed");
        let probe = ProbePlaces { gate: ProcAddr(base as u64 + GATE), enter: ProcAddr(0), leave: ProcAddr(0) };
        let mut arena = Arena { base: base as u64, leave: 0, probe, return_to: None };
        arena.write_trampoline();
        arena.write_probe();
        arena.write_callee();
        arena
    }

    pub fn original(&self) -> ProcAddr {
        ProcAddr(self.base + ORIGINAL)
    }

    pub fn island(&self) -> ProcAddr {
        ProcAddr(self.base + ISLAND)
    }

    pub fn data(&self) -> u64 {
        self.base + DATA
    }

    /// Puts a sequence in place, with the exits behind it.
    pub fn write_original(&mut self, sequence: &[u8]) {
        let exits = self.original() + sequence.len() as u64;
        self.write(ORIGINAL, sequence);
        for exit in 0..EXITS as u64 {
            let mut assembler = CodeAssembler::new(64).expect("64 bits are supported");
            assembler.mov(dword_ptr(rbp + (self.base + EXIT)), exit as u32).expect("a store fits");
            assembler.jmp(self.leave).expect("a jump fits");
            let (bytes, _) = encode(&assembler, exits.0 + exit * EXIT_LEN);
            assert_eq!(bytes.len() as u64, EXIT_LEN);
            self.write(exits.0 - self.base + exit * EXIT_LEN, &bytes);
        }
    }

    pub fn write_island(&mut self, bytes: &[u8]) {
        self.write(ISLAND, bytes);
    }

    /// Runs the code at `start` from these registers and fresh memory until it takes an exit.
    pub fn run(&mut self, start: ProcAddr, inputs: &[u64]) -> Outcome {
        let fresh: Vec<u8> = (0..DATA_LEN).map(|at| at as u8 ^ 0x5a).collect();
        self.write(DATA, &fresh);
        let fresh: Vec<u8> = (0..STACK_LEN).map(|at| at as u8 ^ 0xa5).collect();
        self.write(STACK, &fresh);
        if let Some(address) = self.return_to {
            self.write(STACK + STACK_LEN / 2, &address.to_le_bytes());
        }
        for (at, value) in (SLOTS..).step_by(8).zip(&inputs[..INPUTS - 1]) {
            self.write(at, &value.to_le_bytes());
        }
        self.write(FLAGS, &(inputs[INPUTS - 1] & FLAGS_IN | FLAG_FIXED).to_le_bytes());
        self.write(STACK_POINTER, &(self.base + STACK + STACK_LEN / 2).to_le_bytes());
        self.write(TARGET, &start.0.to_le_bytes());
        // SAFETY: the trampoline was written at the arena's start, keeps to the C calling convention, and the code it
        // runs was assembled to touch only the arena and to end in one of its exits.
        let enter: extern "C" fn() =
            unsafe { std::mem::transmute::<*const (), extern "C" fn()>(self.base as *const ()) };
        enter();
        Outcome {
            exit: self.read(EXIT..EXIT + 1)[0].into(),
            registers: self
                .read(SLOTS..STACK_POINTER + 8)
                .chunks_exact(8)
                .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("chunks have 8 bytes")))
                .collect(),
            data: self.read(DATA..DATA + DATA_LEN),
            stack: self.read(STACK..STACK + STACK_LEN),
        }
    }

    /// Calls the function at `start` from these registers and fresh memory. Bytes that it leaves below the stack
    /// pointer are nobody's.
    pub fn call(&mut self, start: ProcAddr, inputs: &[u64]) -> Outcome {
        self.return_to = Some(self.leave);
        self.write(ENTERED, &[0; 16]);
        let mut outcome = self.run(start, inputs);
        self.return_to = None;
        let depth = outcome.registers[STACK_POINTER_INDEX] - (self.base + STACK);
        outcome.stack.drain(..depth as usize);
        outcome
    }

    /// How often the entry routine and the exit routine were called in the last call.
    pub fn probes_seen(&self) -> (u64, u64) {
        let number = |at: u64| self.read(at..at + 8).try_into().map(u64::from_le_bytes).unwrap_or_default();
        (number(ENTERED), number(LEFT))
    }

    pub fn probe_code(&self) -> ProbePlaces {
        self.probe
    }

    /// A function that tests may call.
    pub fn callee(&self) -> u64 {
        self.base + CALLEE
    }

    /// Where its address is stored.
    pub fn callee_pointer(&self) -> u64 {
        self.base + CALLEE_POINTER
    }

    pub fn write_at(&mut self, addr: ProcAddr, bytes: &[u8]) {
        self.write(addr.0 - self.base, bytes);
    }

    fn write_probe(&mut self) {
        let mut assembler = CodeAssembler::new(64).expect("64 bits are supported");
        let starts = [ENTERED, LEFT].map(|counter| {
            let start = assembler.instructions().len();
            self.assemble_probe(&mut assembler, counter).expect("the routine is fixed");
            start
        });
        let (bytes, offsets) = encode(&assembler, self.base + PROBE);
        let [enter, leave] = starts.map(|start| ProcAddr(self.base + PROBE + u64::from(offsets[start])));
        (self.probe.enter, self.probe.leave) = (enter, leave);
        self.write(PROBE, &bytes);
        self.write(GATE, &1u32.to_le_bytes());
    }

    fn assemble_probe(&self, a: &mut CodeAssembler, counter: u64) -> Result<(), iced_x86::IcedError> {
        a.inc(qword_ptr(rbp + (self.base + counter)))?;
        for register in [rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11] {
            a.mov(register, 0x5a5a_0000_0000_5a5au64)?;
        }
        a.cmp(eax, 0x7fff_0000)?;
        // Below the stack pointer everything is the routine's.
        for word in 1..20 {
            a.mov(qword_ptr(rsp - 8 * word), rax)?;
        }
        a.ret()
    }

    fn write_callee(&mut self) {
        let mut a = CodeAssembler::new(64).expect("64 bits are supported");
        let body = [a.add(rax, 7), a.xor(rcx, rdx), a.ret()];
        assert!(body.iter().all(Result::is_ok), "the callee is fixed");
        let (bytes, _) = encode(&a, self.callee());
        self.write(CALLEE, &bytes);
        self.write(CALLEE_POINTER, &self.callee().to_le_bytes());
    }

    fn write_trampoline(&mut self) {
        let mut assembler = CodeAssembler::new(64).expect("64 bits are supported");
        self.assemble_trampoline(&mut assembler).expect("the trampoline is fixed");
        let (bytes, offsets) = encode(&assembler, self.base);
        self.leave = self.base + u64::from(offsets[self.leave_index(&assembler)]);
        self.write(0, &bytes);
    }

    /// The instruction behind the jump into the tested code.
    fn leave_index(&self, assembler: &CodeAssembler) -> usize {
        let is_jump = |instruction: &Instruction| instruction.mnemonic() == Mnemonic::Jmp;
        1 + assembler.instructions().iter().position(is_jump).expect("the trampoline jumps")
    }

    fn assemble_trampoline(&self, a: &mut CodeAssembler) -> Result<(), iced_x86::IcedError> {
        let slot = |offset: u64| qword_ptr(rbp + (self.base + offset));
        let kept = [rbx, rbp, r12, r13, r14, r15];
        for register in kept {
            a.push(register)?;
        }
        a.mov(slot(OWN_STACK), rsp)?;
        a.push(slot(FLAGS))?;
        a.popfq()?;
        a.mov(rsp, slot(STACK_POINTER))?;
        for (at, register) in (SLOTS..).step_by(8).zip(REGISTERS) {
            a.mov(register, slot(at))?;
        }
        a.jmp(slot(TARGET))?;
        for (at, register) in (SLOTS..).step_by(8).zip(REGISTERS) {
            a.mov(slot(at), register)?;
        }
        a.mov(slot(STACK_POINTER), rsp)?;
        a.mov(rsp, slot(OWN_STACK))?;
        a.pushfq()?;
        a.pop(slot(FLAGS))?;
        for register in kept.into_iter().rev() {
            a.pop(register)?;
        }
        a.cld()?;
        a.ret()
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        assert!(offset as usize + bytes.len() <= ARENA_LEN);
        // SAFETY: the range was just checked to lie in the mapping, which lives as long as `self` and is writable.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (self.base + offset) as *mut u8, bytes.len()) };
    }

    fn read(&self, range: Range<u64>) -> Vec<u8> {
        assert!(range.end as usize <= ARENA_LEN);
        // SAFETY: the range was just checked to lie in the mapping, which lives as long as `self` and is readable.
        unsafe {
            std::slice::from_raw_parts((self.base + range.start) as *const u8, (range.end - range.start) as usize)
        }
        .to_vec()
    }
}

/// Encodes at `addr`, with `rbp` as a base turned into `rip`, which the assembler itself does not offer.
/// Returns the bytes and the offset of each instruction.
pub fn encode(assembler: &CodeAssembler, addr: u64) -> (Vec<u8>, Vec<u32>) {
    let mut instructions = assembler.instructions().to_vec();
    for instruction in &mut instructions {
        let has_memory = (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory);
        if has_memory && instruction.memory_base() == Register::RBP {
            instruction.set_memory_base(Register::RIP);
        }
    }
    let block = InstructionBlock::new(&instructions, addr);
    let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let encoded = BlockEncoder::encode(64, block, options).expect("everything in the arena is near");
    (encoded.code_buffer, encoded.new_instruction_offsets)
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and nothing runs or borrows it any more.
        unsafe { libc::munmap(self.base as *mut libc::c_void, ARENA_LEN) };
    }
}
