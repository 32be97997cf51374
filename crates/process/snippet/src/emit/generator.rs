//! The state while one body becomes code: the frame on the stack, which registers the code changes, and operands.
//!
//! Registers have fixed roles: `rax` holds the value just computed (`xmm14` a float), `rcx`, `rdx` and `xmm15` help,
//! `r11` is the thread area, `r10` the base of what is far. Whatever of these a body really changes is saved on the
//! stack; which ones is known once its code is written, so it is written again until nothing changes any more. The
//! target's own values of saved registers are then read from the stack, those of all others from the registers.
//!
//! The frame, from the stack pointer upwards: words of the body (temporaries first), saved vector registers, MXCSR, saved
//! general registers (with the flags), 128 bytes if the program may use them, and then what the program has there.
//!
//! Next: `frame` writes entry and exit, `integer`, `float` and `condition` values, `statement` the rest.

use crate::emit::environment::{Environment, FreeRegisters};
use crate::emit::error::{EmitError, Emitted};
use crate::emit::writer::Writer;
use crate::ir::{Area, Body, Expression, Kind, Register, Statement, Unit, Variable, When, Width};
use iced_x86::code_asm::*;
use iced_x86::{InstructionInfoFactory, OpAccess};
use std::ops::Range;
use trimtab_types::ProcAddr;

/// General registers by their numbers in encodings.
pub(crate) const GENERAL: [AsmRegister64; 16] =
    [rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15];
/// Vector registers by number.
pub(crate) const VECTORS: [AsmRegisterXmm; 16] =
    [xmm0, xmm1, xmm2, xmm3, xmm4, xmm5, xmm6, xmm7, xmm8, xmm9, xmm10, xmm11, xmm12, xmm13, xmm14, xmm15];
pub(crate) const RAX: u16 = 1;
pub(crate) const RCX: u16 = 1 << 1;
pub(crate) const RDX: u16 = 1 << 2;
const RSP: u16 = 1 << 4;
pub(crate) const R10: u16 = 1 << 10;
pub(crate) const R11: u16 = 1 << 11;
/// Everything a C function may change.
pub(crate) const CALLER_SAVED: u16 = RAX | RCX | RDX | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9 | R10 | R11;
/// Bytes below the stack pointer that a function may use without saying so.
pub(crate) const RED_ZONE_BYTES: u32 = 128;

/// The changes and needs of a body's code; found by writing it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// General registers.
    pub written: u16,
    /// Vector registers.
    pub vectors: u16,
    /// Words of the frame.
    pub words: u32,
    /// True if floats are computed with.
    pub math: bool,
}

impl Plan {
    pub(crate) fn union(self, other: Plan) -> Plan {
        Plan {
            written: self.written | other.written,
            vectors: self.vectors | other.vectors,
            words: self.words.max(other.words),
            math: self.math || other.math,
        }
    }
}

/// An operand that needs no register of ours.
#[derive(Clone, Copy)]
pub(crate) enum Operand {
    Immediate(i32),
    Register(AsmRegister64),
    Memory(AsmMemoryOperand),
}

/// The plans of the two parts of a body, each of which saves and restores what it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plans {
    /// The condition that is tested before anything else.
    pub early: Plan,
    /// The part that it guards, or the whole body.
    pub main: Plan,
}

impl Plans {
    pub(crate) fn union(self, other: Plans) -> Plans {
        Plans { early: self.early.union(other.early), main: self.main.union(other.main) }
    }
}

pub(crate) struct Generator<'a> {
    pub w: Writer,
    pub unit: &'a Unit,
    /// All run at the same point, one after the other.
    pub bodies: &'a [&'a Body],
    pub when: When,
    pub environment: &'a Environment<'a>,
    plans: Plans,
    /// The part before the main one, while it is written: index of its first instruction.
    early_from: Option<usize>,
    /// That part's instructions, once they are written, and what they change.
    early: Option<(Range<usize>, Plan)>,
    /// Registers written by routines, which the instructions do not show.
    clobbered: u16,
    pub math: bool,
    words: u32,
    words_max: u32,
    /// Before anything is saved: registers hold the program's values.
    pub bare: bool,
    /// Where the body being written ends.
    pub end: CodeLabel,
    /// Where the innermost loops end.
    pub loop_ends: Vec<CodeLabel>,
    /// The word with this run's time stamp, if the body asks for elapsed times.
    pub ticks_word: Option<u32>,
    /// Where an early condition that has not looked at the script's state yet goes if the state says that it does nothing.
    pub state_unseen: Option<CodeLabel>,
    /// True if the part being written keeps the thread's area in `r11`.
    pub has_area: bool,
    /// True if that word is filled from the start.
    pub ticks_early: bool,
    /// The temporary that is still in `rax` where a statement begins, and until it first asks for a value.
    pub in_rax: Option<usize>,
    /// Instructions run beyond those written: repetitions of loops, and routines.
    pub repeated: u64,
}

impl<'a> Generator<'a> {
    pub(crate) fn new(
        unit: &'a Unit,
        bodies: &'a [&'a Body],
        environment: &'a Environment<'a>,
        plans: Plans,
    ) -> Result<Generator<'a>, EmitError> {
        let mut w = Writer::new(environment.at, environment.areas.process)?;
        let end = w.create_label();
        let when = bodies.first().map_or(When::Once, |body| body.when);
        Ok(Generator {
            w,
            unit,
            bodies,
            when,
            environment,
            plans,
            early_from: None,
            early: None,
            clobbered: 0,
            math: false,
            words: 0,
            words_max: 0,
            bare: false,
            end,
            loop_ends: Vec::new(),
            ticks_word: None,
            state_unseen: None,
            has_area: false,
            ticks_early: false,
            in_rax: None,
            repeated: 0,
        })
    }

    /// The changes and needs of the code written so far.
    pub(crate) fn observed(&self) -> Plans {
        let (range, early) = self.early.clone().unwrap_or_default();
        let outside = (0..self.w.instructions().len()).filter(|index| !range.contains(index));
        Plans { early, main: self.observed_in(outside) }
    }

    fn observed_in(&self, indices: impl Iterator<Item = usize>) -> Plan {
        let mut plan = Plan { written: self.clobbered, vectors: 0, words: self.words_max, math: self.math };
        let mut factory = InstructionInfoFactory::new();
        for index in indices {
            for used in factory.info(&self.w.instructions()[index]).used_registers() {
                let changes = matches!(
                    used.access(),
                    OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
                );
                let full = used.register().full_register();
                if changes && full.is_gpr() {
                    plan.written |= 1 << full.number();
                } else if changes && full.is_vector_register() {
                    plan.vectors |= 1 << (full.number() & 15);
                }
            }
        }
        plan.written &= !RSP;
        plan
    }

    /// From here on the code is that of the early condition, with a plan of its own.
    pub(crate) fn begin_early(&mut self) {
        self.early_from = Some(self.w.instructions().len());
    }

    /// From here on the code is the main part's.
    pub(crate) fn end_early(&mut self) {
        let Some(from) = self.early_from.take() else { return };
        let range = from..self.w.instructions().len();
        let plan = self.observed_in(range.clone());
        self.early = Some((range, plan));
        (self.clobbered, self.words, self.words_max, self.math) = (0, 0, 0, false);
    }

    /// True if the early condition is being written.
    pub(crate) fn is_early(&self) -> bool {
        self.early_from.is_some()
    }

    /// The changes and needs of the part being written, as far as they are known.
    pub(crate) fn plan(&self) -> Plan {
        if self.is_early() { self.plans.early } else { self.plans.main }
    }

    /// Registers on the stack while the body runs, by number.
    pub(crate) fn saved(&self) -> u16 {
        let flags = if self.environment.flags_live { RAX } else { 0 };
        (self.plan().written & !self.free()) | flags
    }

    /// Registers the program does not need and the body does not name.
    fn free(&self) -> u16 {
        let FreeRegisters(free) = self.environment.free;
        self.bodies.iter().fold(free, |free, body| free & !named_registers(&body.statements))
    }

    /// Bytes from the body's words to the saved registers.
    pub(crate) fn frame_bytes(&self) -> u32 {
        let plan = self.plan();
        let mxcsr = if plan.math { 8 } else { 0 };
        8 * plan.words + 16 * plan.vectors.count_ones() + mxcsr
    }

    /// Words pushed before the frame.
    pub(crate) fn pushed(&self) -> u32 {
        self.saved().count_ones() + u32::from(self.environment.flags_live)
    }

    /// Bytes between the stack pointer of the body and that of the program.
    pub(crate) fn depth(&self) -> u32 {
        let red_zone = if self.environment.red_zone { RED_ZONE_BYTES } else { 0 };
        self.frame_bytes() + 8 * self.pushed() + red_zone
    }

    /// As [`Self::depth`], of the part that needs most.
    pub(crate) fn depth_max(&mut self) -> u32 {
        let main = self.depth();
        self.begin_early();
        let early = self.depth();
        self.early_from = None;
        main.max(early)
    }

    /// Where a saved general register is. With live flags, `rax` is pushed first and the flags next.
    pub(crate) fn saved_at(&self, number: usize) -> AsmMemoryOperand {
        let before = (self.saved() & ((1 << number) - 1)).count_ones();
        let flags = if self.environment.flags_live && number != 0 { 1 } else { 0 };
        qword_ptr(rsp + self.frame_bytes() + 8 * (self.pushed() - 1 - before - flags))
    }

    /// Where a saved vector register is.
    pub(crate) fn saved_vector_at(&self, number: usize) -> u32 {
        let plan = self.plan();
        let before = (plan.vectors & ((1 << number) - 1)).count_ones();
        8 * plan.words + 16 * before
    }

    /// Where MXCSR is kept, and behind it the value to compute with.
    pub(crate) fn mxcsr_at(&self) -> u32 {
        8 * self.plan().words + 16 * self.plan().vectors.count_ones()
    }

    /// Takes words of the frame until [`Self::release`].
    pub(crate) fn take(&mut self, count: u32) -> u32 {
        let first = self.words;
        self.words += count;
        self.words_max = self.words_max.max(self.words);
        first
    }

    /// Gives back the words taken last.
    pub(crate) fn release(&mut self, count: u32) {
        self.words -= count;
    }

    /// Calls a shared routine that changes `changed` besides what the instructions show, and runs at most
    /// `instructions_max` instructions.
    pub(crate) fn routine(&mut self, address: ProcAddr, changed: u16, instructions_max: u64) -> Emitted {
        self.clobbered |= changed;
        self.repeated += instructions_max;
        self.w.routine(address)
    }

    pub(crate) fn clobber(&mut self, changed: u16) {
        self.clobbered |= changed;
    }

    pub(crate) fn variable(&self, variable: usize) -> Result<&'a Variable, EmitError> {
        self.unit.variables.get(variable).ok_or(EmitError::UnknownVariable { variable })
    }

    pub(crate) fn wrong_kind(&self, what: &'static str, variable: usize) -> EmitError {
        match self.variable(variable) {
            Ok(found) => EmitError::Kind { what, variable, kind: found.kind, area: found.area },
            Err(error) => error,
        }
    }

    /// The word at `offset` of an area; may change `r10`.
    pub(crate) fn area_word(&mut self, area: Area, offset: u32) -> Result<AsmMemoryOperand, EmitError> {
        match area {
            Area::Thread => Ok(qword_ptr(r11 + offset)),
            Area::Process => self.w.process(offset),
        }
    }

    /// Refuses registers where there are none.
    pub(crate) fn needs_registers(&self) -> Emitted {
        match self.when {
            When::Every { .. } | When::Once => Err(EmitError::NoRegisters),
            When::Entry | When::Exit | When::At => Ok(()),
        }
    }

    /// Where the program's value of a register is. Not for `Rsp` and `Rip`.
    pub(crate) fn register(&self, register: Register) -> Result<Operand, EmitError> {
        self.needs_registers()?;
        let number = register as usize;
        let on_stack = !self.bare && self.saved() & (1 << number) != 0;
        Ok(if on_stack { Operand::Memory(self.saved_at(number)) } else { Operand::Register(GENERAL[number]) })
    }

    /// An integer that is already somewhere. May change `r10`, so it must be used before the next one is asked for.
    pub(crate) fn operand(&mut self, value: &Expression) -> Result<Option<Operand>, EmitError> {
        Ok(match *value {
            Expression::Int(constant) => i32::try_from(constant).ok().map(Operand::Immediate),
            Expression::Register(Register::Rsp | Register::Rip) => None,
            Expression::Register(register) => Some(self.register(register)?),
            Expression::Variable { variable } => {
                let Variable { area, offset, .. } = *self.variable(variable)?;
                Some(Operand::Memory(self.area_word(area, offset)?))
            }
            Expression::Temporary { temporary, .. } => Some(Operand::Memory(frame_word(temporary as u32))),
            Expression::ProcessWord(offset) => Some(Operand::Memory(self.w.process(offset)?)),
            Expression::ThreadWord(offset) => Some(Operand::Memory(qword_ptr(r11 + offset))),
            _ => None,
        })
    }

    /// True if a value is a float.
    pub(crate) fn is_float(&self, value: &Expression) -> Result<bool, EmitError> {
        use crate::ir::{Binary, Unary};
        Ok(match value {
            Expression::Float(_) | Expression::Vector(_) | Expression::VectorSingle(_) => true,
            Expression::LoadFloat { .. } => true,
            Expression::Variable { variable } => is_float_kind(self.variable(*variable)?.kind),
            Expression::Temporary { float, .. } => *float,
            Expression::Unary(Unary::ToFloat | Unary::UnsignedToFloat, _) => true,
            Expression::Unary(Unary::Negate | Unary::Absolute, operand) => self.is_float(operand)?,
            Expression::Binary(operator, left, _) => {
                let arithmetic = !matches!(
                    operator,
                    Binary::Equal
                        | Binary::NotEqual
                        | Binary::Less
                        | Binary::LessEqual
                        | Binary::LessUnsigned
                        | Binary::LessEqualUnsigned
                );
                arithmetic && self.is_float(left)?
            }
            Expression::Select(_, one, _) => self.is_float(one)?,
            _ => false,
        })
    }
}

/// True if the first word of such a variable is a float.
pub(crate) fn is_float_kind(kind: Kind) -> bool {
    match kind {
        Kind::SumFloat | Kind::LastFloat | Kind::MinFloat | Kind::MaxFloat | Kind::Mean => true,
        Kind::Sum | Kind::Last | Kind::Min | Kind::Max | Kind::Histogram | Kind::Stacks | Kind::OpenCalls => false,
    }
}

/// A word of the frame.
pub(crate) fn frame_word(number: u32) -> AsmMemoryOperand {
    qword_ptr(rsp + 8 * number)
}

/// Bytes of a width.
pub(crate) fn width_bytes(width: Width) -> u32 {
    match width {
        Width::W8 => 1,
        Width::W16 => 2,
        Width::W32 => 4,
        Width::W64 => 8,
    }
}

/// General registers that statements read or set.
fn named_registers(statements: &[Statement]) -> u16 {
    let mut named = 0;
    super::walk::statements(statements, &mut |statement| {
        if let Statement::SetRegister { register, .. } = statement {
            named |= 1u32 << *register as u32;
        }
    });
    super::walk::expressions(statements, &mut |expression| {
        if let Expression::Register(register) = expression {
            named |= 1u32 << *register as u32;
        }
    });
    named as u16
}
