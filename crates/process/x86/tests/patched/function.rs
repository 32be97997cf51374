//! Random functions: blocks of integer instructions, forward branches, loops that end, calls, and several returns.

use crate::arena::{self, Arena, Outcome};
use crate::random::Random;
use iced_x86::IcedError;
use iced_x86::code_asm::*;
use trimtab_types::ProcAddr;
use trimtab_x86::RegisterSet;

/// A function's bytes and where they lie.
pub struct Function {
    pub entry: ProcAddr,
    pub bytes: Vec<u8>,
}

const BLOCKS_MAX: u64 = 8;
const INSTRUCTIONS_MAX: u64 = 5;
/// All but the stack pointer, rbp (which stands for rip here) and r14, which counts loops.
const WIDE: [AsmRegister64; 12] = [rax, rbx, rcx, rdx, rsi, rdi, r8, r9, r11, r12, r13, r15];
const NARROW: [AsmRegister32; 6] = [eax, ebx, ecx, edx, r9d, r12d];

/// A function at `entry`.
pub fn random(random: &mut Random, arena: &Arena, entry: ProcAddr) -> Function {
    let mut assembler = CodeAssembler::new(64).expect("64 bits are supported");
    assemble(&mut assembler, random, arena).expect("the operands fit");
    let (bytes, _) = arena::encode(&assembler, entry.0);
    Function { entry, bytes }
}

fn assemble(a: &mut CodeAssembler, random: &mut Random, arena: &Arena) -> Result<(), IcedError> {
    let count = 2 + random.below(BLOCKS_MAX);
    let mut labels: Vec<CodeLabel> = (0..count).map(|_| a.create_label()).collect();
    match random.below(3) {
        // An entry with a call in its first bytes.
        0 => {
            a.push(rbx)?;
            call(a, random, arena)?;
            a.pop(rbx)?;
        }
        1 => a.lea(r13, qword_ptr(rdi + 8))?,
        _ => {}
    }
    a.and(r14d, 7)?;
    for block in 0..count as usize {
        a.set_label(&mut labels[block])?;
        for _ in 0..1 + random.below(INSTRUCTIONS_MAX) {
            instruction(a, random, arena)?;
        }
        if block + 1 == count as usize {
            break;
        }
        let later = labels[block + 1 + random.below(count - block as u64 - 1) as usize];
        let earlier = labels[random.below(block as u64 + 1) as usize];
        end_block(a, random, later, earlier)?;
    }
    a.ret()
}

fn end_block(
    a: &mut CodeAssembler,
    random: &mut Random,
    later: CodeLabel,
    earlier: CodeLabel,
) -> Result<(), IcedError> {
    match random.below(10) {
        0 => a.je(later),
        1 => a.jb(later),
        2 => a.jle(later),
        3 => a.jp(later),
        4 => a.jmp(later),
        5 | 6 => a.ret(),
        7 | 8 => {
            a.dec(r14d)?;
            a.jg(earlier)
        }
        _ => Ok(()),
    }
}

fn instruction(a: &mut CodeAssembler, random: &mut Random, arena: &Arena) -> Result<(), IcedError> {
    let (left, right, narrow) = (random.choose(&WIDE), random.choose(&WIDE), random.choose(&NARROW));
    let place = arena.data() + random.below(arena::DATA_LEN / 8 - 1) * 8;
    match random.below(18) {
        0 => a.add(left, right),
        1 => a.sub(left, right),
        2 => a.xor(narrow, narrow),
        3 => a.adc(left, right),
        4 => a.shl(narrow, 3),
        5 => a.cmovne(left, right),
        6 => a.test(left, right),
        7 => a.inc(narrow),
        8 => a.mov(left, right),
        9 => a.mov(left, qword_ptr(rbp + place)),
        10 => a.mov(qword_ptr(rbp + place), left),
        11 => a.cmp(byte_ptr(rbp + place), 0x7f),
        12 => {
            a.push(left)?;
            a.pop(right)
        }
        13 => {
            // The red zone, with something in between.
            a.mov(qword_ptr(rsp - 16), left)?;
            a.lea(narrow, qword_ptr(right + 3))?;
            a.add(right, qword_ptr(rsp - 16))
        }
        14 | 15 => call(a, random, arena),
        16 => a.setl(al),
        _ => a.sbb(left, 1),
    }
}

fn call(a: &mut CodeAssembler, random: &mut Random, arena: &Arena) -> Result<(), IcedError> {
    let callee = arena.callee();
    match random.below(5) {
        0 | 1 => a.call(callee),
        2 => {
            a.mov(r10, callee)?;
            a.call(r10)
        }
        3 => a.call(qword_ptr(rbp + arena.callee_pointer())),
        _ => {
            a.mov(r10, callee)?;
            a.push(r10)?;
            a.call(qword_ptr(rsp))?;
            a.pop(r10)
        }
    }
}

/// Code that overwrites these registers, and the flags unless they are live.
pub fn spoil(registers: RegisterSet, flags_live: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in registers.numbers() {
        // mov r64, imm64
        bytes.extend([0x48 | number >> 3, 0xb8 | number & 7]);
        bytes.extend(0x3c3c_0000_0000_3c3cu64.wrapping_mul(u64::from(number) + 1).to_le_bytes());
    }
    if !flags_live {
        // cmp rsp, 0x7f: neither zero nor carry, as after few other instructions.
        bytes.extend([0x48, 0x83, 0xfc, 0x7f]);
    }
    bytes
}

/// The state that a caller may look at after a return: memory and stack, rax, rdx, and the registers a callee keeps.
pub fn kept(outcome: &Outcome) -> (Vec<u64>, &[u8], &[u8]) {
    const REPORTED: [usize; 9] = [0, 1, 3, 6, 11, 12, 13, 14, 16];
    (REPORTED.map(|index| outcome.registers[index]).to_vec(), &outcome.data, &outcome.stack)
}
