//! Random sequences of integer instructions with operands relative to `rip`, pushes, pops and every kind of branch, and a
//! way to run one from another place.
//!
//! Next: `arena`, where they run.

use crate::arena::{self, Arena, EXITS, Outcome};
use crate::random::Random;
use iced_x86::code_asm::*;
use trimtab_x86::{encode_near_jump, relocate};

/// Instructions of a sequence at most.
pub const INSTRUCTIONS_MAX: u64 = 12;

/// Runs a sequence relocated to the island, with nothing of it left at its own place.
pub fn run_moved(arena: &mut Arena, sequence: &[u8], inputs: &[u64]) -> Outcome {
    let (from, to) = (arena.original(), arena.island());
    let mut moved = relocate(sequence, from, to).expect("the sequence holds nothing that can't be moved").bytes;
    let resume = from + sequence.len() as u64;
    moved.extend(encode_near_jump(to + moved.len() as u64, resume).expect("the arena is small"));
    arena.write_island(&moved);
    // Whatever still went to the original would trap.
    arena.write_original(&vec![0xcc; sequence.len()]);
    arena.run(to, inputs)
}

const WIDE: [AsmRegister64; 9] = [rax, rbx, rcx, rdx, rsi, rdi, r8, r13, r15];
const NARROW: [AsmRegister32; 6] = [eax, ecx, edx, r9d, r12d, r14d];

/// A number for each instruction of a sequence.
pub fn picks(random: &mut Random) -> Vec<u64> {
    (0..1 + random.below(INSTRUCTIONS_MAX)).map(|_| random.next()).collect()
}

/// One instruction for each number, assembled for the arena's original place. The assembler lengthens branches that do not
/// reach, so exits near and far occur in both forms.
pub fn sequence(picks: &[u64], arena: &Arena) -> Vec<u8> {
    // Exits lie right behind the sequence, so its length must be known before its branches: assemble until equal.
    let mut len = 0;
    loop {
        let bytes = assemble(picks, arena, arena.original().0 + len);
        if bytes.len() as u64 == len {
            return bytes;
        }
        len = len.max(bytes.len() as u64);
        if (bytes.len() as u64) < len {
            // Shrank for lack of fixed point; pad with a no-op tail.
            return [bytes.clone(), vec![0x90; len as usize - bytes.len()]].concat();
        }
    }
}

fn assemble(picks: &[u64], arena: &Arena, exits: u64) -> Vec<u8> {
    let mut assembler = CodeAssembler::new(64).expect("64 bits are supported");
    let mut end = assembler.create_label();
    for &pick in picks {
        let mut random = Random::new(pick);
        match random.below(3) {
            0 => branch(&mut assembler, &mut random, exits, end),
            1 => memory(&mut assembler, &mut random, arena),
            _ => compute(&mut assembler, &mut random),
        }
        .expect("the operands fit");
    }
    assembler.set_label(&mut end).expect("the label is new");
    assembler.nop().expect("a no-op is always possible");
    arena::encode(&assembler, arena.original().0).0
}

fn branch(a: &mut CodeAssembler, random: &mut Random, exits: u64, end: CodeLabel) -> Result<(), iced_x86::IcedError> {
    let exit = exits + random.below(EXITS as u64) * arena::EXIT_LEN;
    match random.below(12) {
        0 => a.je(exit),
        1 => a.jne(exit),
        2 => a.jb(exit),
        3 => a.jg(exit),
        4 => a.jp(exit),
        5 => a.jo(exit),
        6 => a.jrcxz(exit),
        7 => a.loop_(exit),
        8 => a.loopne(exit),
        9 => a.jle(end),
        10 => a.js(end),
        _ => a.jrcxz(end),
    }
}

fn memory(a: &mut CodeAssembler, random: &mut Random, arena: &Arena) -> Result<(), iced_x86::IcedError> {
    let place = arena.data() + random.below(arena::DATA_LEN / 8 - 1) * 8;
    let (wide, narrow) = (random.choose(&WIDE), random.choose(&NARROW));
    match random.below(12) {
        0 => a.mov(wide, qword_ptr(rbp + place)),
        1 => a.mov(qword_ptr(rbp + place), wide),
        2 => a.lea(wide, qword_ptr(rbp + place)),
        3 => a.add(wide, qword_ptr(rbp + place)),
        4 => a.mov(dword_ptr(rbp + place), 0x1234_5678),
        5 => a.cmp(byte_ptr(rbp + place), 0x7f),
        6 => a.add(qword_ptr(rbp + place), 0x11),
        7 => a.movsxd(wide, dword_ptr(rbp + place)),
        8 => a.imul_3(narrow, dword_ptr(rbp + place), 77),
        9 => a.push(wide),
        10 => a.pop(wide),
        _ => a.xadd(qword_ptr(rbp + place), wide),
    }
}

fn compute(a: &mut CodeAssembler, random: &mut Random) -> Result<(), iced_x86::IcedError> {
    let (left, right, narrow) = (random.choose(&WIDE), random.choose(&WIDE), random.choose(&NARROW));
    match random.below(12) {
        0 => a.add(left, right),
        1 => a.sub(left, right),
        2 => a.xor(narrow, narrow),
        3 => a.adc(left, right),
        4 => a.shl(narrow, 3),
        5 => a.lea(left, qword_ptr(right + 0x10)),
        6 => a.cmovne(left, right),
        7 => a.test(left, right),
        8 => a.inc(narrow),
        9 => a.sub(left, 1),
        10 => a.bswap(left),
        _ => a.cmp(left, right),
    }
}
