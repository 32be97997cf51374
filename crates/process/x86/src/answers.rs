//! Functions that answer in the flags, as hand-written code does: carry set for "no", say.
//!
//! Compilers never hand over flags, and never compare without looking at the outcome. So an instruction that does nothing
//! but set flags, whose flags nobody looks at before a return, is there for the caller. Probes at such a function's exits
//! must keep the flags, which elsewhere nobody needs. A subtraction into a register that nobody reads any more, and in which
//! nothing is returned, does nothing but set flags either.
//!
//! One thing cannot be told: `sub eax, ecx; ret` answers in eax, as `strcmp` does, and perhaps in the flags too. It is
//! taken for the former, because every compiler writes it.
//!
//! Next: `liveness`, where this decides what a return reads.

use crate::instruction::{Next, for_each_instruction};
use crate::liveness::edges;
use crate::{Analysis, FunctionCode};
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, RflagsBits};
use std::num::NonZeroU8;

/// An instruction's use of the arithmetic flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagUse {
    /// Neither reads nor changes them.
    None,
    /// Changes them and nothing else.
    Sets,
    /// Reads them, or changes them beside something else.
    Other,
}

impl FlagUse {
    pub(crate) fn of(instruction: &Instruction) -> FlagUse {
        match instruction.mnemonic() {
            mnemonic if only_sets_flags(mnemonic) => FlagUse::Sets,
            _ if (instruction.rflags_read() | instruction.rflags_modified()) & ARITHMETIC != 0 => FlagUse::Other,
            _ => FlagUse::None,
        }
    }
}

/// True if the function sets flags for its caller.
pub fn answers_in_flags(code: &FunctionCode<'_>, analysis: &Analysis) -> bool {
    let steps = &analysis.steps;
    if !steps.iter().any(|step| step.flags == FlagUse::Sets || step.computes.is_some()) {
        return false;
    }
    let edges = edges(analysis);
    let comes_through = flags_come_through(analysis, &edges);
    let last: Vec<(usize, usize)> = edges.iter().copied().filter(|(_, to)| comes_through[*to]).collect();
    if last.iter().any(|(from, _)| steps[*from].flags == FlagUse::Sets) {
        return true;
    }
    let computed: Vec<(usize, u8)> =
        last.iter().filter_map(|(from, _)| Some((*from, steps[*from].computes?.get()))).collect();
    if computed.is_empty() {
        return false;
    }
    let accesses = accesses(code);
    computed.into_iter().any(|(index, register)| is_unread(analysis, &edges, &accesses, index, register))
}

/// Of each instruction, whether flags as they are before it come through to a return: there, or behind it.
fn flags_come_through(analysis: &Analysis, edges: &[(usize, usize)]) -> Vec<bool> {
    let steps = &analysis.steps;
    let passes = |index: usize| steps[index].flags == FlagUse::None && !steps[index].is_call();
    let mut comes_through: Vec<bool> = steps.iter().map(|step| matches!(step.next(), Next::Return(_))).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for (from, to) in edges.iter().rev() {
            if comes_through[*to] && passes(*from) && !comes_through[*from] {
                (comes_through[*from], changed) = (true, true);
            }
        }
    }
    comes_through
}

const ARITHMETIC: u32 =
    RflagsBits::CF | RflagsBits::PF | RflagsBits::AF | RflagsBits::ZF | RflagsBits::SF | RflagsBits::OF;

/// A register that belongs to nobody behind a return, by its number: never 0, which is that of `rax`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scratch(NonZeroU8);

impl Scratch {
    /// Its number.
    fn get(self) -> u8 {
        self.0.get()
    }
}

/// The register, by its number, that an instruction computes anew from its old value, setting the flags, if no caller of
/// the usual convention looks at that one.
pub(crate) fn computed_into(instruction: &Instruction) -> Option<Scratch> {
    use Mnemonic::*;
    let computes =
        matches!(instruction.mnemonic(), Add | Sub | And | Or | Xor | Adc | Sbb | Neg | Inc | Dec | Shl | Shr | Sar);
    let register = instruction.op0_register().full_register();
    // An instruction that only clears a register may be there so that nobody finds the value.
    let clears = instruction.op1_kind() == OpKind::Register && instruction.op1_register() == instruction.op0_register();
    let is_scratch = SCRATCH.contains(&register) && !clears;
    let is_one = computes && instruction.op0_kind() == OpKind::Register && is_scratch;
    NonZeroU8::new(if is_one { register.number() as u8 } else { 0 }).map(Scratch)
}

/// Registers that belong to nobody behind a return.
const SCRATCH: [Register; 7] =
    [Register::RCX, Register::RSI, Register::RDI, Register::R8, Register::R9, Register::R10, Register::R11];

/// Of each instruction, the general registers it reads, and those it overwrites whole, a bit for each.
fn accesses(code: &FunctionCode<'_>) -> Vec<(u16, u16)> {
    let mut info = InstructionInfoFactory::new();
    let mut accesses = Vec::new();
    for_each_instruction(code, |instruction| {
        let (mut reads, mut overwrites) = (0, 0);
        for used in
            info.info(instruction).used_registers().iter().filter(|used| used.register().full_register().is_gpr64())
        {
            let is_whole = used.register().is_gpr64() || used.register().is_gpr32();
            let side = if used.access() == OpAccess::Write && is_whole { &mut overwrites } else { &mut reads };
            *side |= 1 << used.register().full_register().number();
        }
        accesses.push((reads, overwrites));
    });
    accesses
}

/// True if every way from an instruction comes to a return before the register it computed is read, or overwrites it.
fn is_unread(
    analysis: &Analysis,
    edges: &[(usize, usize)],
    accesses: &[(u16, u16)],
    index: usize,
    register: u8,
) -> bool {
    let bit = 1u16 << register;
    let mut seen = vec![false; accesses.len()];
    let next = |from: usize| {
        let first = edges.partition_point(|(known, _)| *known < from);
        edges[first..].iter().take_while(move |(known, _)| *known == from).map(|(_, to)| *to)
    };
    let mut pending: Vec<usize> = next(index).collect();
    if pending.is_empty() {
        return false;
    }
    while let Some(at) = pending.pop() {
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        let (reads, overwrites) = accesses[at];
        if matches!(analysis.steps[at].next(), Next::Return(_)) {
            continue;
        }
        if reads & bit != 0 || analysis.steps[at].is_call() {
            return false;
        }
        if overwrites & bit == 0 {
            let before = pending.len();
            pending.extend(next(at));
            // Where it is not known what comes, somebody may read it.
            if pending.len() == before {
                return false;
            }
        }
    }
    true
}

fn only_sets_flags(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Cmp | Test
            | Bt
            | Stc
            | Clc
            | Cmc
            | Sahf
            | Popf
            | Popfq
            | Comiss
            | Comisd
            | Ucomiss
            | Ucomisd
            | Vcomiss
            | Vcomisd
            | Vucomiss
            | Vucomisd
            | Ptest
            | Vptest
            | Vtestps
            | Vtestpd
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodeRange, Liveness, analyse};
    use trimtab_types::ProcAddr;

    fn look<T>(bytes: &[u8], then: impl Fn(&FunctionCode<'_>, &Analysis) -> T) -> T {
        let ranges = vec![CodeRange { addr: ProcAddr(0x1000), bytes, after: &[] }];
        let code = FunctionCode { entry: ProcAddr(0x1000), ranges, ..FunctionCode::default() };
        let analysis = analyse(&code, &(), &()).expect("whole instructions");
        then(&code, &analysis)
    }

    #[test]
    fn flags_for_the_caller_are_told_from_those_for_a_branch() {
        let rows: [(&str, &[u8], bool); 14] = [
            ("stc; ret", &[0xf9, 0xc3], true),
            ("cmp edi, esi; ret", &[0x39, 0xf7, 0xc3], true),
            ("cmp edi, esi; mov eax, 1; pop rbx; ret", &[0x39, 0xf7, 0xb8, 1, 0, 0, 0, 0x5b, 0xc3], true),
            ("test edi, edi; je 1f; clc; 1: ret", &[0x85, 0xff, 0x74, 1, 0xf8, 0xc3], true),
            ("cmp edi, esi; setl al; ret", &[0x39, 0xf7, 0x0f, 0x9c, 0xc0, 0xc3], false),
            ("cmp edi, esi; jl 1f; xor eax, eax; 1: ret", &[0x39, 0xf7, 0x7c, 2, 0x31, 0xc0, 0xc3], false),
            ("cmp edi, esi; call 1f; 1: ret", &[0x39, 0xf7, 0xe8, 0, 0, 0, 0, 0xc3], false),
            ("sub edi, esi; ret", &[0x29, 0xf7, 0xc3], true),
            ("sub edi, esi; mov eax, 1; ret", &[0x29, 0xf7, 0xb8, 1, 0, 0, 0, 0xc3], true),
            ("sub edi, esi; mov eax, edi; ret", &[0x29, 0xf7, 0x89, 0xf8, 0xc3], false),
            ("sub edi, esi; call 1f; 1: ret", &[0x29, 0xf7, 0xe8, 0, 0, 0, 0, 0xc3], false),
            ("sub eax, esi; ret", &[0x29, 0xf0, 0xc3], false),
            ("1: dec ecx; jne 1b; ret", &[0xff, 0xc9, 0x75, 0xfc, 0xc3], false),
            ("xor edi, edi; ret", &[0x31, 0xff, 0xc3], false),
        ];
        for (name, bytes, expected) in rows {
            assert_eq!(look(bytes, answers_in_flags), expected, "{name}");
        }
    }

    /// A probe inside such a function keeps them too, once they are set.
    #[test]
    fn flags_for_the_caller_are_read_by_the_return() {
        let live =
            |bytes: &[u8], at: u64| look(bytes, |code, analysis| Liveness::of(code, analysis).flags_live(ProcAddr(at)));
        // cmp edi, esi; mov eax, 1; ret
        let answers = [0x39, 0xf7, 0xb8, 1, 0, 0, 0, 0xc3];
        assert!(live(&answers, 0x1002) && live(&answers, 0x1007) && !live(&answers, 0x1000));
        // sub edi, esi; mov eax, 1; ret; and the same with eax, which is the answer
        assert!(live(&[0x29, 0xf7, 0xb8, 1, 0, 0, 0, 0xc3], 0x1007));
        assert!(!live(&[0x29, 0xf0, 0x90, 0xc3], 0x1003));
    }
}
