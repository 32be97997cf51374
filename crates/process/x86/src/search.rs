//! One pass of a loop as its tests are looked for: which instruction a value comes from, and by which places it is seen.
//!
//! Next: `exit_tests` and `flagged`, which look for them.

use crate::blocks::ControlFlow;
use crate::bound::{Instructions, Pass};
use crate::how_far::Surroundings;
use crate::lent::{is_call, is_write};
use crate::linear::{CALL_CHANGES, Extension, Linear, ReadablePlace, State, Value, number_of};
use crate::{FunctionCode, Loop};
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register, UsedRegister};
use std::cell::Cell;
use std::ops::Range;
use trimtab_types::ProcAddr;

/// Blocks before a branch in which its comparison is looked for, and so on.
pub(crate) const BLOCKS_BACK_MAX: usize = 4;
/// Instructions that are followed back from one comparison: those of a loop may lead back to themselves.
const FOLLOWED_MAX: u32 = 32;

pub(crate) struct Search<'a> {
    pub(crate) flow: &'a ControlFlow,
    pub(crate) found: &'a Loop,
    pub(crate) pass: &'a Pass<'a>,
    pub(crate) instructions: &'a Instructions,
    pub(crate) surroundings: &'a dyn Surroundings,
    /// The values right before the probe.
    pub(crate) at_site: State,
    /// So many instructions may still be followed back for this test.
    pub(crate) budget: Cell<u32>,
}

/// From where a register has its value.
pub(crate) enum Origin {
    /// The instruction that wrote to it, by block and index.
    Write(usize, usize),
    /// It was stored there since.
    Stored(ReadablePlace),
    /// Control comes from several blocks.
    Several(Vec<usize>),
}

/// Memory that is written to between a store and its use.
#[derive(Default)]
struct Overwritten {
    /// Addresses of variables.
    fixed: Vec<u64>,
    /// Elsewhere, too, or by a function that is called.
    is_elsewhere: bool,
}

impl Overwritten {
    fn note(&mut self, one: &Instruction, info: &mut InstructionInfoFactory) {
        let is_write = is_call(one) || info.info(one).used_memory().iter().any(|used| is_write(used.access()));
        match one.is_ip_rel_memory_operand() {
            true if is_write => self.fixed.push(one.ip_rel_memory_address()),
            false => self.is_elsewhere |= is_write,
            true => {}
        }
    }

    /// True if what an instruction stores to a variable is still there.
    fn leaves(&self, one: &Instruction) -> bool {
        one.is_ip_rel_memory_operand() && !self.is_elsewhere && !self.fixed.contains(&one.ip_rel_memory_address())
    }
}

impl Search<'_> {
    /// A further test may follow as many instructions back as any.
    pub(crate) fn begin_to_follow(&self) {
        self.budget.set(FOLLOWED_MAX);
    }

    /// The instruction that sets the flags of a branch, by block and index.
    pub(crate) fn comparison_of(&self, block: usize) -> Option<(usize, usize)> {
        let mut block = block;
        for _ in 0..BLOCKS_BACK_MAX {
            let all = self.instructions.get(&block)?;
            if let Some(index) = all.iter().rposition(|one| one.rflags_modified() != 0 || is_call(one)) {
                return (!is_call(&all[index])).then_some((block, index));
            }
            block = self.only_before(block)?;
        }
        None
    }

    /// The block of the loop from which control comes to another, if it is the only one.
    pub(crate) fn only_before(&self, block: usize) -> Option<usize> {
        match self.all_before(block)[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The blocks of the loop from which control comes to another.
    pub(crate) fn all_before(&self, block: usize) -> Vec<usize> {
        let is_inside = |block: &&usize| self.found.blocks.binary_search(block).is_ok();
        self.flow.blocks[block].predecessors.iter().filter(is_inside).copied().collect()
    }

    /// The state before an instruction of the loop.
    pub(crate) fn before(&self, block: usize, index: usize) -> Option<State> {
        let mut state = self.pass.before.get(&block)?.clone();
        let mut info = InstructionInfoFactory::new();
        self.instructions[&block][..index].iter().for_each(|one| state.step(one, &mut info));
        Some(state)
    }

    /// The memory that an instruction names.
    pub(crate) fn memory(&self, at: usize, index: usize) -> Option<ReadablePlace> {
        let one = &self.instructions[&at][index];
        let behind = || {
            let ReadablePlace::Frame { register, offset: slot, bytes: 8 } =
                self.variable((at, index), one.memory_base(), 0).filter(|_| one.memory_index() == Register::None)?
            else {
                return None;
            };
            let (offset, bytes) = (one.memory_displacement64() as i64, one.memory_size().size() as u32);
            Some(ReadablePlace::Behind { register, slot, offset, bytes })
        };
        self.before(at, index)?.memory_operand(one).or_else(behind)
    }

    /// The variable that a register holds before an instruction, or held before at most so many sums: one of memory, or the register
    /// itself.
    pub(crate) fn variable(&self, (at, index): (usize, usize), register: Register, via: u32) -> Option<ReadablePlace> {
        let number = number_of(register)? as u8;
        let loaded = || {
            let (at, index) = self.last_write(at, index, register.full_register())?;
            let one = &self.instructions[&at][index];
            let is_sum = adds(one, number) && (0..one.op_count()).all(|at| !is_other_register(one, at, number));
            match (one.mnemonic(), one.op1_kind()) {
                (Mnemonic::Mov | Mnemonic::Movsxd, OpKind::Memory) => self.memory(at, index),
                _ if is_sum && via > 0 => self.variable((at, index), register, via - 1),
                _ => None,
            }
        };
        loaded().or_else(|| self.accumulates(number).then_some(ReadablePlace::Register(number)))
    }

    /// True if the loop does nothing to a register but add to it, and no call changes it.
    pub(crate) fn accumulates(&self, number: u8) -> bool {
        let mut info = InstructionInfoFactory::new();
        let all = self.found.blocks.iter().filter_map(|block| self.instructions.get(block)).flatten();
        !CALL_CHANGES.contains(&number)
            && all.into_iter().all(|one| !writes(one, number, &mut info) || adds(one, number))
    }

    /// The last instruction before one that writes to a register, on the only way there.
    pub(crate) fn last_write(&self, block: usize, index: usize, register: Register) -> Option<(usize, usize)> {
        match self.origin(block, index, register)? {
            Origin::Write(block, index) => Some((block, index)),
            Origin::Stored(_) | Origin::Several(_) => None,
        }
    }

    /// From where a register has what it holds before an instruction.
    pub(crate) fn origin(&self, block: usize, index: usize, register: Register) -> Option<Origin> {
        self.budget.set(self.budget.get().checked_sub(1)?);
        let (mut block, mut index) = (block, index);
        let mut info = InstructionInfoFactory::new();
        let is_kept = number_of(register).is_some_and(|number| !CALL_CHANGES.contains(&(number as u8)));
        let mut overwritten = Overwritten::default();
        for _ in 0..BLOCKS_BACK_MAX {
            while index > 0 {
                index -= 1;
                let one = &self.instructions[&block][index];
                let used = info.info(one).used_registers();
                let is_written =
                    |used: &UsedRegister| used.register().full_register() == register && is_write(used.access());
                if is_call(one) && !is_kept {
                    return None;
                } else if used.iter().any(is_written) {
                    return Some(Origin::Write(block, index));
                } else if is_stored(one, register) && overwritten.leaves(one) {
                    return self.memory(block, index).map(Origin::Stored);
                }
                overwritten.note(one, &mut info);
            }
            let before = self.all_before(block);
            match before[..] {
                [only] => block = only,
                _ => return Some(Origin::Several(before)),
            }
            index = self.instructions.get(&block)?.len();
        }
        None
    }

    /// True if a register's value before an instruction can be told at the probe.
    pub(crate) fn is_told(&self, held: &Linear) -> bool {
        // A register that calls change has nothing left over before a pass.
        let is_left_over = |place| matches!(place, ReadablePlace::Register(number) if CALL_CHANGES.contains(&number));
        held.extension != Extension::Lower && !held.place.is_some_and(is_left_over) && self.are_seen(held.place)
    }

    /// True if the registers that are noted at the probe are those that these places are named by.
    pub(crate) fn are_seen(&self, places: impl IntoIterator<Item = ReadablePlace>) -> bool {
        places.into_iter().all(|place| match place {
            // A counter may have moved in this pass already.
            ReadablePlace::Register(_) => matches!(
                self.at_site.value(place),
                Value::Linear(value) if value.place == Some(place) && value.times == 1
            ),
            ReadablePlace::Frame { register, .. } | ReadablePlace::Behind { register, .. } => {
                let base = ReadablePlace::Register(register);
                self.at_site.value(base) == Value::Linear(Linear::of(base))
            }
            ReadablePlace::Fixed { .. } => true,
        })
    }
}

/// True if an instruction stores a register's number with a fraction.
fn is_stored(one: &Instruction, register: Register) -> bool {
    use Mnemonic::{Movsd, Movss, Vmovsd, Vmovss};
    let is_store = matches!(one.mnemonic(), Movsd | Movss | Vmovsd | Vmovss) && one.op0_kind() == OpKind::Memory;
    is_store && one.op1_kind() == OpKind::Register && one.op1_register().full_register() == register
}

/// The bytes of a function between two addresses of one of its ranges, if they are so many at most.
pub(crate) fn code_between(code: &FunctionCode<'_>, addresses: Range<u64>, bytes_max: u64) -> Option<Vec<u8>> {
    let bytes = addresses.end.checked_sub(addresses.start).filter(|bytes| *bytes <= bytes_max)?;
    let range = code.ranges.iter().find(|range| range.contains(ProcAddr(addresses.start)))?;
    let from = (addresses.start - range.addr.0) as usize;
    range.bytes.get(from..from + bytes as usize).map(<[u8]>::to_vec)
}

/// True if an instruction writes to a general register.
pub(crate) fn writes(one: &Instruction, number: u8, info: &mut InstructionInfoFactory) -> bool {
    let is_it = |register: Register| number_of(register) == Some(number.into());
    info.info(one).used_registers().iter().any(|used| is_it(used.register()) && is_write(used.access()))
}

/// True of an operand that is another register, or memory named by one.
fn is_other_register(one: &Instruction, operand: u32, number: u8) -> bool {
    let is_other = |register: Register| {
        register != Register::None && number_of(register).is_some_and(|other| other != usize::from(number))
    };
    match one.op_kind(operand) {
        OpKind::Register => is_other(one.op_register(operand)),
        OpKind::Memory => is_other(one.memory_base()) || is_other(one.memory_index()),
        _ => false,
    }
}

/// True of an instruction that adds something to a register.
fn adds(one: &Instruction, number: u8) -> bool {
    let is_it = |register: Register| number_of(register) == Some(number.into());
    let is_target = one.op0_kind() == OpKind::Register && is_it(one.op0_register());
    match one.mnemonic() {
        Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec => is_target,
        Mnemonic::Lea => is_target && (is_it(one.memory_base()) || is_it(one.memory_index())),
        _ => false,
    }
}
