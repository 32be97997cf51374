//! Writes of a function through an address that it is given.
//!
//! The address is followed in registers and in slots of the frame along every way through the function, and into the
//! functions that it is given to. An element that is chosen by an index is not followed: whoever asks wants to know of
//! one variable, which a program writes to by its name.
//!
//! Next: `lent`, which asks where addresses are handed out.

use crate::bound::{by_block, settle};
use crate::instruction::for_each_instruction;
use crate::lent::{ARGUMENTS, is_write};
use crate::linear::{Extension, Linear, ReadablePlace, State, Value};
use crate::{Analysis, ControlFlow, FunctionCode};
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};
use std::ops::Range;
use trimtab_types::ProcAddr;

const RSP: u8 = 4;
const RBP: u8 = 5;
/// Blocks of a function beyond which it is not followed.
const BLOCKS_MAX: usize = 1500;

/// True if the function may write to these bytes, counted from the address that it is given in a register, or keep the
/// address for later. `further` is asked for functions that are given it in turn: for the function, the register and
/// the bytes.
/// `None`: its code can't be followed, or that of a function that is given the very address of these bytes.
pub fn writes_through(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    flow: &ControlFlow,
    (argument, bytes): (u8, &Range<i64>),
    further: &mut dyn FnMut(ProcAddr, u8, Range<i64>) -> Option<bool>,
) -> Option<bool> {
    let entry = flow.block_at(code.entry).filter(|_| flow.is_complete && flow.blocks.len() <= BLOCKS_MAX)?;
    let instructions = by_block(code, analysis, flow, &|_| true);
    let (before, _) = settle(flow, &instructions, [(entry, State::at_start())].into(), &|_| true);
    let mut info = InstructionInfoFactory::new();
    let mut is_known = true;
    for (block, state) in before {
        let mut state = state;
        for one in instructions.get(&block).into_iter().flatten() {
            let at = At { one, state: &state, argument, bytes, is_last: flow.blocks[block].successors.is_empty() };
            let given = at.gives(further);
            if at.writes(&mut info) || at.keeps() || given == Some(true) {
                return Some(true);
            }
            is_known &= given.is_some();
            state.step(one, &mut info);
        }
    }
    is_known.then_some(false)
}

/// True if the function writes to one of these addresses, or makes one of them for whatever purpose.
pub fn writes_or_lends(code: &FunctionCode<'_>, analysis: &Analysis, addresses: &Range<ProcAddr>) -> bool {
    let mut info = InstructionInfoFactory::new();
    let mut is_so = false;
    for_each_instruction(code, |one| {
        let has_memory = (0..one.op_count()).any(|index| one.op_kind(index) == OpKind::Memory);
        let is_plain = one.is_ip_rel_memory_operand() || one.memory_base() == Register::None;
        let at = one.memory_displacement64();
        let end = at.saturating_add(one.memory_size().size().max(1) as u64);
        let is_there = has_memory && is_plain && at < addresses.end.0 && end > addresses.start.0;
        let mut is_written = || info.info(one).used_memory().iter().any(|used| is_write(used.access()));
        let is_indexed = one.memory_index() != Register::None;
        let is_number = (0..one.op_count())
            .any(|index| is_immediate(one.op_kind(index)) && addresses.contains(&ProcAddr(one.immediate(index))));
        let is_one = (is_there && (one.mnemonic() == Mnemonic::Lea || is_indexed || is_written())) || is_number;
        is_so |= is_one && analysis.is_reached(ProcAddr(one.ip()));
    });
    is_so
}

pub(crate) fn is_immediate(kind: OpKind) -> bool {
    matches!(kind, OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64)
}

/// One instruction, and what holds before it.
struct At<'a> {
    one: &'a Instruction,
    state: &'a State,
    argument: u8,
    bytes: &'a Range<i64>,
    /// The function is left behind its block.
    is_last: bool,
}

impl At<'_> {
    /// The distance from the address, if a value is made of it.
    fn offset_of(&self, value: Linear) -> Option<i64> {
        let is_one = value.place == Some(ReadablePlace::Register(self.argument)) && value.times == 1;
        (is_one && value.extension == Extension::Whole).then_some(value.add)
    }

    fn held(&self, register: u8) -> Option<i64> {
        match self.state.value(ReadablePlace::Register(register)) {
            Value::Linear(value) => self.offset_of(value),
            _ => None,
        }
    }

    fn writes(&self, info: &mut InstructionInfoFactory) -> bool {
        let is_written = info.info(self.one).used_memory().iter().any(|used| is_write(used.access()));
        let at = self.state.address(self.one).filter(|_| is_written).and_then(|address| self.offset_of(address));
        at.is_some_and(|at| at < self.bytes.end && at + self.one.memory_size().size() as i64 > self.bytes.start)
    }

    /// True if the address is put into memory that is no slot of the frame.
    fn keeps(&self) -> bool {
        let is_put = self.one.op_count() == 2
            && self.one.op0_kind() == OpKind::Memory
            && self.one.op1_kind() == OpKind::Register;
        let register = self.one.op1_register();
        let is_slot =
            || matches!(self.state.memory_operand(self.one), Some(ReadablePlace::Frame { register: RSP | RBP, .. }));
        is_put
            && register.is_gpr64()
            && self.held(register.number() as u8).is_some_and(|at| self.reaches(at))
            && !is_slot()
    }

    fn reaches(&self, at: i64) -> bool {
        self.bytes.start >= at
    }

    /// As [`writes_through`], of the function that this instruction gives the address to.
    fn gives(&self, further: &mut dyn FnMut(ProcAddr, u8, Range<i64>) -> Option<bool>) -> Option<bool> {
        let one = self.one;
        let is_jump = one.flow_control() == FlowControl::UnconditionalBranch && one.is_jmp_short_or_near();
        let is_direct = one.is_call_near() || is_jump;
        let is_left = self.is_last && one.flow_control() == FlowControl::IndirectBranch;
        if !(is_direct || is_left || one.is_call_near_indirect()) {
            return Some(false);
        }
        let mut is_known = true;
        for argument in ARGUMENTS {
            let Some(at) = self.held(argument).filter(|at| self.reaches(*at)) else { continue };
            let from_it = self.bytes.start - at..self.bytes.end - at;
            let writes =
                if is_direct { further(ProcAddr(one.near_branch_target()), argument, from_it.clone()) } else { None };
            if writes == Some(true) {
                return writes;
            }
            is_known &= writes.is_some() || !from_it.contains(&0);
        }
        is_known.then_some(false)
    }
}
