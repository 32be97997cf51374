//! A piece of a target: executable memory with routines and code, the two areas, memory to read and write, a stack, and a
//! trampoline that runs code from given registers and reports all of them.
//!
//! Next: `evaluator` for what should come out, `values` and the others for what is run.

use iced_x86::code_asm::*;
use iced_x86::{BlockEncoder, BlockEncoderOptions, Instruction, InstructionBlock, OpKind, Register};
use trimtab_snippet::emit::{Areas, Code, Environment, SharedRoutines, ThreadKey, compile, shared_routines};
use trimtab_snippet::ir::{Body, Unit, When, process_word, thread_word};
use trimtab_types::ProcAddr;

const LEN: usize = 0x80_0000;
const ROUTINES: u64 = 0x1000;
const TRAMPOLINE: u64 = 0x8000;
const SLOTS: u64 = 0xc000;
pub const CODE: u64 = 0x1_0000;
pub const GATE: u64 = 0xf000;
const PROCESS: u64 = 0x10_0000;
const RANGES: u64 = 0x4000;
const WRITABLES: u64 = 0x4800;
const RING: u64 = 0x8000;
pub const RING_BYTES: u64 = 0x1000;
const THREADS: u64 = 0x20_0000;
pub const THREAD_COUNT: u32 = 8;
const THREAD_STRIDE: u32 = 0x1000;
pub const DATA: u64 = 0x40_0000;
pub const DATA_LEN: u64 = 0x400;
const STACK: u64 = 0x50_0000;
const STACK_LEN: u64 = 0x10_0000;
/// Bytes of stack compared around the stack pointer.
pub const WATCHED: u64 = 512;
/// Ticks per nanosecond is one, so that times are ticks.
const NS_PER_TICK_SHIFTED: u64 = 1 << 32;

/// Everything a run begins with and leaves behind. Vector registers as 256 bits each.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// By number; `rsp` is set by the world.
    pub general: [u64; 16],
    pub flags: u64,
    pub vectors: [[u64; 4]; 16],
    pub mxcsr: u32,
}

impl State {
    pub fn zero() -> State {
        State { general: [0; 16], flags: 0x202, vectors: [[0; 4]; 16], mxcsr: 0x1f80 }
    }
}

pub struct World {
    pub base: u64,
    far: Option<u64>,
    pub areas: Areas,
    pub shared: SharedRoutines,
    leave: u64,
    /// The word at the stack pointer.
    pub return_address: [u8; 8],
}

const GENERAL: [AsmRegister64; 16] = [rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15];
const WIDE: [AsmRegisterYmm; 16] =
    [ymm0, ymm1, ymm2, ymm3, ymm4, ymm5, ymm6, ymm7, ymm8, ymm9, ymm10, ymm11, ymm12, ymm13, ymm14, ymm15];
const KEPT: [AsmRegister64; 6] = [rbx, rbp, r12, r13, r14, r15];
const FLAGS_AT: u64 = SLOTS + 16 * 8;
const MXCSR_AT: u64 = SLOTS + 17 * 8;
const OWN_STACK: u64 = SLOTS + 18 * 8;
const TARGET: u64 = SLOTS + 19 * 8;
const OWN_MXCSR: u64 = SLOTS + 20 * 8;
const VECTORS_AT: u64 = SLOTS + 0x200;

fn map(address: u64, len: usize) -> u64 {
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let fixed = if address == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    // SAFETY: a new anonymous mapping that replaces nothing.
    let base = unsafe { libc::mmap(address as *mut libc::c_void, len, protection, flags, -1, 0) };
    assert_ne!(base, libc::MAP_FAILED, "executable memory is allowed");
    base as u64
}

impl World {
    /// With areas near the code.
    pub fn new() -> World {
        World::with_areas(None)
    }

    /// With areas out of reach of 32-bit displacements.
    pub fn far() -> World {
        let far = (1..64u64).map(|step| step << 40).find_map(|address| {
            // SAFETY: asks for a fresh anonymous mapping at an address nothing is mapped at, or fails.
            let base = unsafe {
                let protection = libc::PROT_READ | libc::PROT_WRITE;
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
                libc::mmap(address as *mut libc::c_void, LEN, protection, flags, -1, 0)
            };
            (base != libc::MAP_FAILED).then_some(base as u64)
        });
        World::with_areas(Some(far.expect("some far address is free")))
    }

    fn with_areas(far: Option<u64>) -> World {
        let base = map(0, LEN);
        let home = far.unwrap_or(base);
        let areas = Areas {
            process: ProcAddr(home + PROCESS),
            threads: ProcAddr(home + THREADS),
            thread_count: THREAD_COUNT,
            thread_stride: THREAD_STRIDE,
            key: ThreadKey::SelfPointer,
            multiplier: 0x9e37_79b9_7f4a_7c15,
            thread_id_at: None,
        };
        let shared = shared_routines(ProcAddr(base + ROUTINES), &areas).expect("routines fit");
        let mut world = World { base, far, areas, shared, leave: 0, return_address: [0x77; 8] };
        assert!((world.shared.bytes.len() as u64) < TRAMPOLINE - ROUTINES);
        let bytes = world.shared.bytes.clone();
        world.write(base + ROUTINES, &bytes);
        world.write_trampoline();
        world.reset();
        world
    }

    /// Areas and data as at the beginning: recording, the gate open, data and stack readable, data writable.
    pub fn reset(&mut self) {
        let areas = [0u8; (THREAD_STRIDE * THREAD_COUNT) as usize];
        self.write(self.areas.threads.0, &areas);
        self.write(self.areas.process.0, &[0u8; 0xa000]);
        for (word, value) in [
            (process_word::RECORDING, 1),
            (process_word::RANK, 3),
            (process_word::RANKS, 4),
            (process_word::RANGE_COUNT, 2),
            (process_word::RANGES, RANGES),
            (process_word::WRITABLE_COUNT, 1),
            (process_word::WRITABLES, WRITABLES),
            (process_word::MESSAGES, RING),
            (process_word::MESSAGES_BYTES, RING_BYTES),
            (process_word::NS_PER_TICK_SHIFTED, NS_PER_TICK_SHIFTED),
        ] {
            self.set_process_word(word, value);
        }
        let data = self.base + DATA;
        let stack = self.base + STACK;
        for (number, bound) in [data, data + DATA_LEN, stack, stack + STACK_LEN].into_iter().enumerate() {
            self.write_word(self.areas.process.0 + RANGES + 8 * number as u64, bound);
        }
        self.write_word(self.areas.process.0 + WRITABLES, data);
        self.write_word(self.areas.process.0 + WRITABLES + 8, data + DATA_LEN);
        let fresh: Vec<u8> = (0..DATA_LEN).map(|at| (at * 37) as u8 ^ 0x5a).collect();
        self.write(data, &fresh);
        self.write_word(self.base + GATE, 1);
    }

    /// An environment in which nothing about the program is known.
    pub fn environment(&self, when: When) -> Environment<'_> {
        let (at, gate) = (self.base + CODE, self.base + GATE);
        Environment::cautious(
            when,
            ProcAddr(at),
            ProcAddr(0x1234_5678),
            ProcAddr(gate),
            &self.areas,
            &self.shared.addresses,
        )
    }

    pub fn compile(&self, unit: &Unit, body: &Body) -> Code {
        compile(unit, body, &self.environment(body.when)).expect("the body compiles")
    }

    pub fn stack_pointer(&self) -> u64 {
        self.base + STACK + STACK_LEN - WATCHED
    }

    /// Runs code from a state, with the stack filled with a pattern; returns the state afterwards.
    pub fn run(&mut self, code: &Code, before: &State) -> State {
        self.run_bytes(code.at.0, &code.bytes, code.entry_address().0, before)
    }

    /// As [`World::run`], for any bytes that fall through at their end.
    pub fn run_bytes(&mut self, at: u64, code: &[u8], entry: u64, before: &State) -> State {
        let mut bytes = code.to_vec();
        let from = at + bytes.len() as u64 + 5;
        bytes.push(0xe9);
        bytes.extend((self.leave.wrapping_sub(from) as i32).to_le_bytes());
        self.write(at, &bytes);
        self.write(self.stack_pointer() - WATCHED, &self.stack_pattern());
        let mut state = before.clone();
        state.general[4] = self.stack_pointer();
        self.put_state(&state, entry);
        let enter = self.base + TRAMPOLINE;
        // SAFETY: the trampoline keeps to the C calling convention and runs the code, which falls into the jump back.
        let enter: extern "C" fn() = unsafe { std::mem::transmute::<*const (), extern "C" fn()>(enter as *const ()) };
        enter();
        self.take_state()
    }

    /// Bytes around the stack pointer before a run.
    pub fn stack_pattern(&self) -> Vec<u8> {
        let mut pattern: Vec<u8> = (0..2 * WATCHED).map(|at| (at * 11 + 3) as u8).collect();
        pattern[WATCHED as usize..][..8].copy_from_slice(&self.return_address);
        pattern
    }

    /// Bytes around the stack pointer now.
    pub fn stack(&self) -> Vec<u8> {
        self.read(self.stack_pointer() - WATCHED, 2 * WATCHED)
    }

    /// Puts code in place as a function: it returns to its caller at its end. It keeps all registers.
    pub fn function(&mut self, code: &Code) -> extern "C" fn() {
        let mut bytes = code.bytes.clone();
        bytes.push(0xc3);
        self.write(code.at.0, &bytes);
        // SAFETY: the code was just written there; it changes no register but the flags and returns.
        unsafe { std::mem::transmute::<*const (), extern "C" fn()>(code.entry_address().0 as *const ()) }
    }

    /// A function that calls two others, with the same stack pointer.
    pub fn pair(&mut self, one: usize, other: usize, number: u64) -> usize {
        let at = self.base + CODE + number * 0x2000;
        let mut bytes = Vec::new();
        for target in [one, other] {
            bytes.push(0xe8);
            let next = at + bytes.len() as u64 + 4;
            bytes.extend(((target as u64).wrapping_sub(next) as i32).to_le_bytes());
        }
        bytes.push(0xc3);
        self.write(at, &bytes);
        at as usize
    }

    /// As [`World::compile`], for the `number`th place for code.
    pub fn compile_at(&self, unit: &Unit, body: &Body, number: u64) -> Code {
        let mut environment = self.environment(body.when);
        environment.at = environment.at + number * 0x2000;
        compile(unit, body, &environment).expect("the body compiles")
    }

    fn put_state(&mut self, state: &State, target: u64) {
        for (number, value) in state.general.iter().enumerate() {
            self.write_word(self.base + SLOTS + 8 * number as u64, *value);
        }
        self.write_word(self.base + FLAGS_AT, state.flags);
        self.write_word(self.base + MXCSR_AT, state.mxcsr.into());
        self.write_word(self.base + TARGET, target);
        for (number, value) in state.vectors.iter().flatten().enumerate() {
            self.write_word(self.base + VECTORS_AT + 8 * number as u64, *value);
        }
    }

    fn take_state(&self) -> State {
        let slot = |at: u64| self.word(self.base + at);
        State {
            general: std::array::from_fn(|number| slot(SLOTS + 8 * number as u64)),
            flags: slot(FLAGS_AT),
            vectors: std::array::from_fn(|number| {
                std::array::from_fn(|lane| slot(VECTORS_AT + 8 * (4 * number + lane) as u64))
            }),
            mxcsr: slot(MXCSR_AT) as u32,
        }
    }

    fn write_trampoline(&mut self) {
        assert!(is_x86_feature_detected!("avx"), "these tests look at 256-bit registers");
        let at = self.base + TRAMPOLINE;
        let mut assembler = CodeAssembler::new(64).expect("64 bits are supported");
        let leave = self.assemble_trampoline(&mut assembler).expect("the trampoline is fixed");
        let (bytes, offsets) = encode(&assembler, at);
        self.leave = at + u64::from(offsets[leave]);
        self.write(at, &bytes);
    }

    /// Returns the number of the instruction behind the jump into the tested code. `rbp` as a base stands for `rip`.
    fn assemble_trampoline(&self, a: &mut CodeAssembler) -> Result<usize, iced_x86::IcedError> {
        let slot = |offset: u64| qword_ptr(rbp + (self.base + offset));
        let half = |offset: u64| dword_ptr(rbp + (self.base + offset));
        let wide = |number: usize| ymmword_ptr(rbp + (self.base + VECTORS_AT + 32 * number as u64));
        for register in KEPT {
            a.push(register)?;
        }
        a.mov(slot(OWN_STACK), rsp)?;
        a.stmxcsr(half(OWN_MXCSR))?;
        for (number, register) in WIDE.into_iter().enumerate() {
            a.vmovups(register, wide(number))?;
        }
        a.ldmxcsr(half(MXCSR_AT))?;
        a.push(slot(FLAGS_AT))?;
        a.popfq()?;
        for (number, register) in GENERAL.into_iter().enumerate() {
            a.mov(register, slot(SLOTS + 8 * number as u64))?;
        }
        a.jmp(slot(TARGET))?;
        let leave = a.instructions().len();
        for (number, register) in GENERAL.into_iter().enumerate() {
            a.mov(slot(SLOTS + 8 * number as u64), register)?;
        }
        a.mov(rsp, slot(OWN_STACK))?;
        a.pushfq()?;
        a.pop(slot(FLAGS_AT))?;
        // Single steps end here.
        a.push(2)?;
        a.popfq()?;
        a.stmxcsr(half(MXCSR_AT))?;
        a.ldmxcsr(half(OWN_MXCSR))?;
        for (number, register) in WIDE.into_iter().enumerate() {
            a.vmovups(wide(number), register)?;
        }
        a.vzeroupper()?;
        for register in KEPT.into_iter().rev() {
            a.pop(register)?;
        }
        a.cld()?;
        a.ret()?;
        Ok(leave)
    }

    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        self.check(address, bytes.len());
        // SAFETY: the range was just checked to lie in a mapping of this world, which is writable.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    }

    pub fn read(&self, address: u64, len: u64) -> Vec<u8> {
        self.check(address, len as usize);
        // SAFETY: the range was just checked to lie in a mapping of this world, which is readable.
        unsafe { std::slice::from_raw_parts(address as *const u8, len as usize) }.to_vec()
    }

    fn check(&self, address: u64, len: usize) {
        let inside = |base: u64| address >= base && address + len as u64 <= base + LEN as u64;
        assert!(inside(self.base) || self.far.is_some_and(inside), "{address:#x} lies in this world");
    }

    pub fn write_word(&mut self, address: u64, value: u64) {
        self.write(address, &value.to_le_bytes());
    }

    pub fn word(&self, address: u64) -> u64 {
        u64::from_le_bytes(self.read(address, 8).try_into().expect("eight bytes"))
    }

    pub fn process_word(&self, offset: u32) -> u64 {
        self.word(self.areas.process.0 + u64::from(offset))
    }

    pub fn set_process_word(&mut self, offset: u32, value: u64) {
        self.write_word(self.areas.process.0 + u64::from(offset), value);
    }

    /// The area of the calling thread, if it has one.
    pub fn own_area(&self) -> Option<u64> {
        let own = thread_pointer();
        self.owned_areas().into_iter().find(|area| self.word(area + u64::from(thread_word::OWNER)) == own)
    }

    /// All areas that threads have taken.
    pub fn owned_areas(&self) -> Vec<u64> {
        let stride = u64::from(THREAD_STRIDE);
        let areas = (0..u64::from(THREAD_COUNT)).map(|number| self.areas.threads.0 + number * stride);
        areas.filter(|area| self.word(area + u64::from(thread_word::OWNER)) != 0).collect()
    }

    /// A word of the calling thread's area; 0 if it has none.
    pub fn thread_word(&self, offset: u32) -> u64 {
        self.own_area().map_or(0, |area| self.word(area + u64::from(offset)))
    }

    /// Where the calling thread's area is, or will be if nobody else is there.
    pub fn expected_area(&self) -> u64 {
        if let Some(own) = self.own_area() {
            return own;
        }
        let first = self.areas.threads.0;
        if self.word(first + u64::from(thread_word::OWNER)) == 0 {
            return first;
        }
        let place = self.areas.first_place(thread_pointer());
        self.areas.threads.0 + u64::from(place) * u64::from(THREAD_STRIDE)
    }

    pub fn set_thread_word(&mut self, offset: u32, value: u64) {
        let area = self.expected_area();
        self.write_word(area + u64::from(offset), value);
    }

    /// A copy of the ring.
    pub fn ring(&self) -> Vec<u8> {
        self.read(self.areas.process.0 + RING, RING_BYTES)
    }

    /// The ring's word at a position.
    pub fn ring_word(&self, position: u64) -> u64 {
        self.word(self.areas.process.0 + RING + (position & (RING_BYTES - 1)))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for base in [Some(self.base), self.far].into_iter().flatten() {
            // SAFETY: the mapping was made by this world with this length, and nothing runs or borrows it any more.
            unsafe { libc::munmap(base as *mut libc::c_void, LEN) };
        }
    }
}

/// The thread's pointer, which the ABI keeps at `fs:[0]`.
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reads the word the x86-64 ABI guarantees there.
    unsafe { std::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly)) };
    pointer
}

/// Encodes at `at`, with `rbp` as a base turned into `rip`.
fn encode(assembler: &CodeAssembler, at: u64) -> (Vec<u8>, Vec<u32>) {
    let mut instructions: Vec<Instruction> = assembler.instructions().to_vec();
    for instruction in &mut instructions {
        let has_memory = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
        if has_memory && instruction.memory_base() == Register::RBP {
            instruction.set_memory_base(Register::RIP);
        }
    }
    let block = InstructionBlock::new(&instructions, at);
    let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let encoded = BlockEncoder::encode(64, block, options).expect("everything is near");
    (encoded.code_buffer, encoded.new_instruction_offsets)
}
