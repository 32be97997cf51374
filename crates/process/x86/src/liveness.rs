//! Flags and registers that an instruction leaves unread: a probe there may spoil them without saving them.
//!
//! It errs towards saving. A call reads every register, because its callee may have a calling convention of its own, and
//! spoils none, because a compiler that knows the callee may count on that. Only flags are as the ABI says: nobody hands
//! them to a function or back, unless its code shows that it answers in them. Where a jump can't be followed, everything is read. Next: `point` for where probes go.

use crate::answers::answers_in_flags;
use crate::blocks::for_each_edge_at;
use crate::flow::enter;
use crate::instruction::{Fixed, Next, Step, for_each_instruction};
use crate::{Analysis, ExitKind, FunctionCode};
use iced_x86::{Code, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, RflagsBits};
use trimtab_types::ProcAddr;

/// Some of the sixteen general registers, by the number the processor gives them: 0 is rax, 4 rsp, 15 r15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterSet(u16);

impl RegisterSet {
    /// True if register `number` is in it.
    pub fn contains(self, number: u8) -> bool {
        self.0 >> number & 1 != 0
    }

    /// Their numbers, lowest first.
    pub fn numbers(self) -> impl Iterator<Item = u8> {
        (0..16).filter(move |&number| self.contains(number))
    }
}

/// Which registers and flags are read later, for every instruction of a function.
#[derive(Clone, Debug)]
pub struct Liveness {
    /// Address and what is live before it, in order.
    before: Vec<(ProcAddr, Live)>,
}

/// Registers by number, and the arithmetic flags as the processor numbers them in groups here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Live {
    registers: u16,
    flags: u32,
}

const FLAGS: u32 = RflagsBits::CF | RflagsBits::PF | RflagsBits::AF | RflagsBits::ZF | RflagsBits::SF | RflagsBits::OF;
const ALL: Live = Live { registers: u16::MAX, flags: FLAGS };
const ALL_REGISTERS: Live = Live { registers: u16::MAX, flags: 0 };
/// rax and rdx, rbx, rsp, rbp, and r12 to r15: what a caller may look at after a return.
const KEPT_OR_RETURNED: u16 = 1 << 0 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 0xf000;

/// The flags and registers that an instruction reads, and those that it overwrites whole.
#[derive(Clone, Copy, Debug, Default)]
struct Effect {
    reads: Live,
    overwrites: Live,
}

impl Liveness {
    /// Follows every value of the function back from where it is read.
    pub fn of(code: &FunctionCode<'_>, analysis: &Analysis) -> Liveness {
        let effects = effects(code, analysis);
        let edges = edges(analysis);
        let mut live = vec![Live::default(); effects.len()];
        let mut changed = true;
        while changed {
            changed = false;
            let mut edges = edges.iter().rev().peekable();
            for index in (0..live.len()).rev() {
                let mut after = Live::default();
                while let Some((_, to)) = edges.next_if(|(from, _)| *from == index) {
                    after = after.or(live[*to]);
                }
                let before = effects[index].before(after);
                changed |= before != live[index];
                live[index] = before;
            }
        }
        let is_known =
            |(index, (step, live)): (usize, (&Step, Live))| analysis.reached[index].then_some((step.at, live));
        Liveness { before: analysis.steps.iter().zip(live).enumerate().filter_map(is_known).collect() }
    }

    /// True if any flag that is set when control comes to `at` may be read later.
    pub fn flags_live(&self, at: ProcAddr) -> bool {
        self.at(at).flags != 0
    }

    /// General registers whose values at `at` nobody reads any more.
    pub fn dead_registers(&self, at: ProcAddr) -> RegisterSet {
        RegisterSet(!self.at(at).registers)
    }

    fn at(&self, at: ProcAddr) -> Live {
        self.before.binary_search_by_key(&at, |(known, _)| *known).map_or(ALL, |index| self.before[index].1)
    }
}

impl Live {
    fn or(self, other: Live) -> Live {
        Live { registers: self.registers | other.registers, flags: self.flags | other.flags }
    }
}

impl Effect {
    fn before(&self, after: Live) -> Live {
        let passed = Live {
            registers: after.registers & !self.overwrites.registers,
            flags: after.flags & !self.overwrites.flags,
        };
        passed.or(self.reads)
    }
}

/// Ways from instruction to instruction, as (from, to), in order of `from`.
pub(crate) fn edges(analysis: &Analysis) -> Vec<(usize, usize)> {
    let mut edges = Vec::with_capacity(analysis.steps.len());
    let steps = &analysis.steps;
    for index in (0..steps.len()).filter(|&index| analysis.reached[index]) {
        for_each_edge_at(analysis, index, |edge| {
            // Mostly what follows, which need not be looked for.
            let to = if edge.is_jump { enter(steps, edge.to) } else { Some(index + 1) };
            edges.extend(to.map(|to| (index, to)));
        });
    }
    edges
}

fn effects(code: &FunctionCode<'_>, analysis: &Analysis) -> Vec<Effect> {
    let mut info = InstructionInfoFactory::new();
    let mut effects = Vec::with_capacity(analysis.steps.len());
    for_each_instruction(code, |instruction| effects.push(effect(instruction, &mut info)));
    let reached = effects.iter().zip(&analysis.reached).filter(|(_, reached)| **reached);
    let written = reached.fold(0, |all, (effect, _)| all | effect.overwrites.registers);
    let answer = if answers_in_flags(code, analysis) { FLAGS } else { 0 };
    for (index, step) in analysis.steps.iter().enumerate() {
        effects[index].reads = effects[index].reads.or(read_besides(analysis, index, step, written));
        if let Next::Return(_) = step.next() {
            effects[index].reads.flags |= answer;
        }
    }
    effects
}

/// The reads where control leaves the function or can't be followed. `written` are the registers the function writes:
/// a caller that knows the function may count on the others.
fn read_besides(analysis: &Analysis, index: usize, step: &Step, written: u16) -> Live {
    let exit = analysis.exits.binary_search_by_key(&step.at, |exit| exit.at).ok().map(|found| analysis.exits[found]);
    let is_unknown = analysis.external_jumps.iter().any(|jump| jump.at == step.at);
    let next_is_known = !step.continues() || crate::flow::following(&analysis.steps, index).is_some();
    let is_odd = matches!(
        step.fixed,
        // A restartable sequence may be left at any instruction, and a fault's handler may go on anywhere.
        Some(Fixed::SystemCall | Fixed::Breakpoint | Fixed::Transaction | Fixed::Restartable | Fixed::MayFault)
    );
    if is_unknown || is_odd || !next_is_known || analysis.unresolved_indirect.contains(&step.at) {
        return ALL;
    }
    match step.next() {
        Next::Return(_) => Live { registers: KEPT_OR_RETURNED | !written, flags: 0 },
        Next::Call(_) => ALL_REGISTERS,
        Next::Stop | Next::Invalid => ALL,
        _ => match exit.map(|exit| exit.kind) {
            Some(ExitKind::FallsThrough) => ALL,
            Some(_) => ALL_REGISTERS,
            None => Live::default(),
        },
    }
}

fn effect(instruction: &Instruction, info: &mut InstructionInfoFactory) -> Effect {
    let mut effect = Effect::default();
    for used in info.info(instruction).used_registers() {
        let register = used.register();
        let full = register.full_register();
        if !full.is_gpr64() {
            continue;
        }
        // A narrow write leaves the rest of the register to be read.
        let is_whole = used.access() == OpAccess::Write && (register.is_gpr64() || register.is_gpr32());
        let side = if is_whole { &mut effect.overwrites } else { &mut effect.reads };
        side.registers |= 1 << full.number();
    }
    effect.reads.flags = instruction.rflags_read() & FLAGS;
    if always_sets_flags(instruction) {
        let set = instruction.rflags_written() | instruction.rflags_cleared() | instruction.rflags_set();
        effect.overwrites.flags = set & FLAGS;
    }
    effect
}

/// Shifts by a register, and repeated comparisons, leave the flags alone if there is nothing to do.
fn always_sets_flags(instruction: &Instruction) -> bool {
    let counted = (0..instruction.op_count()).any(|operand| {
        instruction.op_kind(operand) == OpKind::Register && instruction.op_register(operand) == Register::CL
    }) && matches!(
        instruction.mnemonic(),
        Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Sal
            | Mnemonic::Rol
            | Mnemonic::Ror
            | Mnemonic::Rcl
            | Mnemonic::Rcr
            | Mnemonic::Shld
            | Mnemonic::Shrd
    );
    let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    !counted && !repeated && instruction.code() != Code::INVALID
}
