//! Writes in a loop to a slot of the frame, or to a variable at a fixed address, by way of its address.
//!
//! An address is followed from where it is made: into registers, into words of the frame of which nobody else has the address,
//! to calls, and into other memory, from where anybody may take it.
//! One that is handed to a call before the loop must be forgotten when that call returns: functions of this module are looked
//! into, those of others are taken to forget it, but for a few (`library`). Functions that are given one in the loop are
//! looked into. An address a little below a slot counts too, because both may be parts of one object.
//!
//! Next: `how_far`, which asks; `written`, which looks into called functions.

use crate::bound::{Instructions, States};
use crate::how_far::Surroundings;
use crate::library::{declared, keeps_for_later};
use crate::linear::{CALL_CHANGES, Extension, Linear, ReadablePlace, State, Value};
use crate::owned::{Care, NO_BYTES};
use crate::{ControlFlow, Loop};
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trimtab_types::ProcAddr;

const RSP: u8 = 4;
/// An address so many bytes below a slot may be that of an object that contains it.
pub(crate) const OBJECT_BYTES: i64 = 64;
/// The same, where the code that is given it can be looked into.
pub(crate) const OBJECT_BYTES_SEEN: i64 = 4096;
/// Registers in which a function is given addresses: rdi, rsi, rdx, rcx, r8, r9.
pub(crate) const ARGUMENTS: [u8; 6] = [7, 6, 2, 1, 8, 9];

/// A function in which addresses are looked for.
pub(crate) struct Lender<'a> {
    pub(crate) flow: &'a ControlFlow,
    pub(crate) found: &'a Loop,
    pub(crate) instructions: &'a Instructions,
    /// The state before each block, in terms of that when the function began.
    pub(crate) before: &'a States,
    /// The same of each block of the loop, in terms of what held when the pass began.
    pub(crate) in_pass: &'a States,
    pub(crate) surroundings: &'a dyn Surroundings,
    /// Code that can't be looked into is taken to leave the slot alone.
    pub(crate) is_trusting: bool,
}

impl Lender<'_> {
    /// True if something else in the loop than instructions that name the slot may write to it.
    pub(crate) fn is_written(&self, place: ReadablePlace) -> bool {
        self.is_written_in(place, &|block| self.found.blocks.binary_search(&block).is_ok())
    }

    /// The same of what may run before the loop.
    pub(crate) fn is_written_before(&self, place: ReadablePlace) -> bool {
        let before = self.before_loop();
        self.is_written_in(place, &|block| before.contains(&block) && self.found.blocks.binary_search(&block).is_err())
    }

    fn is_written_in(&self, place: ReadablePlace, is_inside: &dyn Fn(usize) -> bool) -> bool {
        let Some(slot) = self.slot(place) else { return true };
        let mut spilt = SpilledWords::default();
        loop {
            let known_before = spilt.words.len();
            if self.may_be_written(&slot, is_inside, &mut spilt) {
                return true;
            }
            if spilt.words.len() == known_before {
                return spilt.words != spilt.read_back;
            }
        }
    }

    /// The same, with the words of the frame in which addresses are known to be kept; more of them may be found.
    fn may_be_written(&self, slot: &Slot, is_inside: &dyn Fn(usize) -> bool, spilt: &mut SpilledWords) -> bool {
        let mut held: BTreeMap<usize, u16> = self.before.keys().map(|block| (*block, 0)).collect();
        let mut work: Vec<usize> = held.keys().copied().collect();
        let before_loop = self.before_loop();
        let mut info = InstructionInfoFactory::new();
        while let Some(block) = work.pop() {
            let Some(state) = self.before.get(&block) else { return true };
            let in_pass = self.in_pass.get(&block).cloned();
            let mut known = Known { slot, registers: held[&block], state: state.clone(), in_pass };
            known.registers |= known.by_value();
            let is_inside = is_inside(block);
            let all = self.instructions.get(&block).map_or(&[][..], Vec::as_slice);
            for (index, one) in all.iter().enumerate() {
                let is_kept = known.keeps(one) && !self.is_for_a_library(one, &all[index..], &known);
                if is_kept && !known.spills(one, spilt) {
                    return true;
                }
                let is_shown = known.reads_oddly(one, &spilt.words) || known.shows(&spilt.words);
                if is_shown || (is_inside && (known.writes(one, &mut info) || self.gives(one, &known))) {
                    return true;
                }
                if before_loop.contains(&block) && self.is_kept_by_callee(one, &known) {
                    return true;
                }
                known.step(one, spilt, &mut info);
            }
            for next in &self.flow.blocks[block].successors {
                let before = held.entry(*next).or_default();
                if known.registers & !*before != 0 {
                    *before |= known.registers;
                    work.push(*next);
                }
            }
        }
        false
    }

    /// The blocks from which the loop may be come to, its own among them.
    fn before_loop(&self) -> BTreeSet<usize> {
        let mut found: BTreeSet<usize> = self.found.blocks.iter().copied().collect();
        loop {
            let leads_in = |block: &usize| self.flow.blocks[*block].successors.iter().any(|next| found.contains(next));
            let more: Vec<usize> =
                self.before.keys().copied().filter(|block| !found.contains(block) && leads_in(block)).collect();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
    }

    /// True if a call is given an address that it, or somebody it gives that to, may write through once it has returned.
    fn is_kept_by_callee(&self, one: &Instruction, known: &Known<'_>) -> bool {
        let mut given = ARGUMENTS.into_iter().filter(|argument| known.registers & 1 << argument != 0);
        if !is_call(one) {
            return false;
        }
        let target = one.is_call_near().then(|| ProcAddr(one.near_branch_target()));
        match target.and_then(|target| self.surroundings.imported(target)) {
            Some(name) => keeps_for_later(&name) && given.next().is_some(),
            None if self.is_trusting => false,
            None => given.any(|argument| {
                let keeping = (NO_BYTES, Care::Keeping);
                target.is_none_or(|target| self.surroundings.leaves_alone(target, argument, keeping.clone()).is_none())
            }),
        }
    }

    /// Where a place lies; none if it is none whose address can be followed.
    fn slot(&self, place: ReadablePlace) -> Option<Slot> {
        match place {
            ReadablePlace::Register(_) | ReadablePlace::Behind { .. } => None,
            ReadablePlace::Frame { register, offset, bytes } => {
                let base = on_stack(self.before.get(&self.found.header)?.value(ReadablePlace::Register(register)))?;
                let begin = base.wrapping_add(offset);
                let bytes = begin..begin + i64::from(bytes);
                let below = if self.is_trusting { 0 } else { OBJECT_BYTES - 1 };
                Some(Slot { is_fixed: false, near: begin - below..bytes.end, bytes })
            }
            ReadablePlace::Fixed { address, bytes } => {
                let object = self.surroundings.variable(address, bytes)?;
                let bytes = address.0 as i64..address.0 as i64 + i64::from(bytes);
                Some(Slot { is_fixed: true, near: object.start.0 as i64..object.end.0 as i64, bytes })
            }
        }
    }

    /// True if an address beside the slot's is put on the stack for a call of another module's function, which is held
    /// against that as little as one in a register.
    fn is_for_a_library(&self, one: &Instruction, rest: &[Instruction], known: &Known<'_>) -> bool {
        if one.mnemonic() != Mnemonic::Push || one.op0_kind() != OpKind::Register {
            return false;
        }
        let number = number(one.op0_register());
        let address = number.and_then(|number| known.slot.address(known.state.value(ReadablePlace::Register(number))));
        let call = rest.iter().find(|one| is_call(one)).filter(|call| call.is_call_near());
        let is_imported =
            || call.is_some_and(|call| self.surroundings.imported(ProcAddr(call.near_branch_target())).is_some());
        address.is_some_and(|address| !known.slot.bytes.contains(&address)) && is_imported()
    }

    /// True if a call is given an address through which it may write to the slot.
    fn gives(&self, one: &Instruction, known: &Known<'_>) -> bool {
        if !is_call(one) {
            return false;
        }
        let target = one.is_call_near().then(|| ProcAddr(one.near_branch_target()));
        let name = target.and_then(|target| self.surroundings.imported(target));
        let declared = name.as_deref().and_then(declared);
        let mut arguments =
            ARGUMENTS.into_iter().filter(|argument| declared.is_none_or(|known| !known.leaves_alone(*argument)));
        arguments.any(|argument| self.gives_in(argument, (target, name.as_deref()), known))
    }

    /// The same in one register, to a function that may have another module's name.
    fn gives_in(&self, argument: u8, (target, name): (Option<ProcAddr>, Option<&str>), known: &Known<'_>) -> bool {
        let is_known = known.registers & 1 << argument != 0;
        let slot = known.slot;
        let Some(address) = slot.address(known.state.value(ReadablePlace::Register(argument))) else { return is_known };
        let from_it = slot.bytes.start.wrapping_sub(address)..slot.bytes.end.wrapping_sub(address);
        let is_far = from_it.end <= 0 || from_it.start >= OBJECT_BYTES_SEEN;
        if !is_known && (slot.is_fixed || is_far) {
            return false;
        }
        if let Some(name) = name
            && is_known
            && !self.is_trusting
            && may_write_so_far(name, argument, &known.state, &from_it)
        {
            return true;
        }
        match target.and_then(|target| Some((target, self.surroundings.writes(target, argument, from_it.clone())?))) {
            Some((_, writes)) if writes || self.is_trusting || name.is_some() => writes,
            Some((target, _)) => {
                self.surroundings.leaves_alone(target, argument, (from_it.clone(), Care::Names)).is_none()
            }
            None => is_known && !self.is_trusting && (target.is_none() || from_it.contains(&0)),
        }
    }
}

/// Where a place lies.
struct Slot {
    /// At an address, else counted from the stack pointer as it was when the function began.
    is_fixed: bool,
    /// Its bytes.
    bytes: Range<i64>,
    /// Where addresses may be those of an object that contains it.
    near: Range<i64>,
}

impl Slot {
    /// A value as an address that is counted as its own.
    fn address(&self, value: Value) -> Option<i64> {
        match value {
            Value::Linear(Linear { place: None, add, extension: Extension::Whole | Extension::Zero, .. }) => {
                self.is_fixed.then_some(add)
            }
            value => on_stack(value).filter(|_| !self.is_fixed),
        }
    }
}

/// Words of the frame in which a function keeps addresses for a while. Those that it never reads back may be arguments that it
/// gives on the stack.
#[derive(Default)]
struct SpilledWords {
    /// By their distance from the stack pointer's first value.
    words: BTreeSet<i64>,
    /// Those that it reads back.
    read_back: BTreeSet<i64>,
}

/// The registers that may hold an address of the slot's object at one point.
struct Known<'a> {
    slot: &'a Slot,
    registers: u16,
    state: State,
    in_pass: Option<State>,
}

impl Known<'_> {
    fn has(&self, register: Register) -> bool {
        number(register).is_some_and(|number| self.registers & 1 << number != 0)
    }

    fn is_address(&self, value: Value) -> bool {
        self.slot.address(value).is_some_and(|at| self.slot.near.contains(&at))
    }

    /// The registers of which it is known that they hold one.
    fn by_value(&self) -> u16 {
        let is_one =
            |number: &u8| *number != RSP && self.is_address(self.state.value(ReadablePlace::Register(*number)));
        (0..16).filter(is_one).fold(0, |all, number| all | 1 << number)
    }

    /// True if an address is put into memory.
    fn keeps(&self, one: &Instruction) -> bool {
        let is_known = |index| one.op_kind(index) == OpKind::Register && self.has(one.op_register(index));
        match one.op_count() {
            0 => false,
            1 => one.mnemonic() == Mnemonic::Push && is_known(0),
            // By way of a vector too.
            _ => is_known(1) && (one.op0_kind() == OpKind::Memory || one.op0_register().is_vector_register()),
        }
    }

    /// True if it writes through an address that may be one of the slot.
    fn writes(&self, one: &Instruction, info: &mut InstructionInfoFactory) -> bool {
        let is_written = info.info(one).used_memory().iter().any(|used| is_write(used.access()));
        if is_written && self.is_indexed_from_slot(one) {
            return true;
        }
        if !is_written || !(self.has(one.memory_base()) || self.has(one.memory_index())) {
            return false;
        }
        let base = number(one.memory_base()).map(|number| self.state.value(ReadablePlace::Register(number)));
        let is_known = one.memory_index() == Register::None;
        let at = base.filter(|_| is_known).and_then(|base| on_stack(base).or_else(|| self.slot.address(base)));
        // A place that is followed through the pass is no other's, unless its base may be anything.
        let followed = self.in_pass.as_ref().and_then(|state| state.memory_operand(one));
        let is_followed = matches!(followed, Some(ReadablePlace::Fixed { .. })) || (followed.is_some() && at.is_some());
        !is_followed
            && at.is_none_or(|at| {
                let at = at.wrapping_add(one.memory_displacement64() as i64);
                at < self.slot.bytes.end && at + one.memory_size().size() as i64 > self.slot.bytes.start
            })
    }

    /// True if its memory is chosen by an index that is counted from the slot itself, as bytes of it may be.
    fn is_indexed_from_slot(&self, one: &Instruction) -> bool {
        if one.memory_index() == Register::None {
            return false;
        }
        let more = one.memory_displacement64() as i64;
        let of = |register: Register| on_stack(self.state.value(ReadablePlace::Register(number(register)?)));
        let from = [one.memory_base(), one.memory_index()].into_iter().find_map(of);
        let at = if self.slot.is_fixed { Some(more) } else { from.map(|from| from.wrapping_add(more)) };
        at.is_some_and(|at| self.slot.bytes.contains(&at))
    }

    /// True if an address is put into a word of the frame, which is noted.
    fn spills(&self, one: &Instruction, spilt: &mut SpilledWords) -> bool {
        let is_whole = one.mnemonic() == Mnemonic::Mov && one.op_count() == 2 && one.op1_register().is_gpr64();
        let at = self.on_frame(one).filter(|_| is_whole && one.op0_kind() == OpKind::Memory);
        at.is_some_and(|at| {
            spilt.words.insert(at);
            true
        })
    }

    /// True if a register is filled with one of these words, which is noted.
    fn is_filled(&self, one: &Instruction, spilt: &mut SpilledWords) -> bool {
        let is_load = one.mnemonic() == Mnemonic::Mov && one.op0_register().is_gpr64();
        let at = self.on_frame(one).filter(|at| is_load && spilt.words.contains(at));
        at.is_some_and(|at| {
            spilt.read_back.insert(at);
            true
        })
    }

    /// Where in the frame an instruction's memory lies, if that is one place.
    fn on_frame(&self, one: &Instruction) -> Option<i64> {
        let base = number(one.memory_base()).filter(|_| one.memory_index() == Register::None)?;
        Some(
            on_stack(self.state.value(ReadablePlace::Register(base)))?.wrapping_add(one.memory_displacement64() as i64),
        )
    }

    /// True if it reads one of these words in another way than into a register.
    fn reads_oddly(&self, one: &Instruction, spilt: &BTreeSet<i64>) -> bool {
        let Some(at) = self.on_frame(one).filter(|_| one.mnemonic() != Mnemonic::Lea) else { return false };
        let is_there = spilt.range(at - 7..at + one.memory_size().size().max(1) as i64).next().is_some();
        let is_plain = match one.mnemonic() {
            Mnemonic::Mov => one.op0_kind() == OpKind::Memory || (spilt.contains(&at) && one.op0_register().is_gpr64()),
            Mnemonic::Cmp | Mnemonic::Test => true,
            _ => false,
        };
        is_there && !is_plain
    }

    /// True if a register holds the address of an object that one of these words may be part of.
    fn shows(&self, spilt: &BTreeSet<i64>) -> bool {
        let mut registers = (0..16).filter(|number| *number != RSP);
        registers.any(|number| {
            let address = on_stack(self.state.value(ReadablePlace::Register(number)));
            address.is_some_and(|at| spilt.range(at - 7..at + OBJECT_BYTES_SEEN).next().is_some())
        })
    }

    fn step(&mut self, one: &Instruction, spilt: &mut SpilledWords, info: &mut InstructionInfoFactory) {
        let is_filled = self.is_filled(one, spilt);
        let used = info.info(one).clone();
        let is_load =
            one.mnemonic() != Mnemonic::Lea && (1..one.op_count()).any(|at| one.op_kind(at) == OpKind::Memory);
        // A value that is read from memory at an address is none.
        let is_base = |register: Register| is_load && [one.memory_base(), one.memory_index()].contains(&register);
        let is_from = used
            .used_registers()
            .iter()
            .any(|used| may_go_on(used.access()) && self.has(used.register()) && !is_base(used.register()));
        self.state.step(one, info);
        self.in_pass.iter_mut().for_each(|state| state.step(one, info));
        if is_call(one) {
            CALL_CHANGES.iter().for_each(|number| self.registers &= !(1 << number));
            return;
        }
        for used in used.used_registers().iter().filter(|used| is_write(used.access())) {
            let Some(number) = number(used.register().full_register()).filter(|number| *number != RSP) else {
                continue;
            };
            let is_one = match self.state.value(ReadablePlace::Register(number)) {
                Value::Unknown => (is_from || is_filled) && used.register().is_gpr64(),
                value => self.is_address(value),
            };
            self.registers = self.registers & !(1 << number) | u16::from(is_one) << number;
        }
    }
}

pub(crate) fn is_call(one: &Instruction) -> bool {
    one.is_call_near() || one.is_call_near_indirect()
}

/// Functions of libraries that write to a number of bytes: the arguments of the address and of the count, and the bytes that one
/// has at most.
const WRITERS: [(&str, u8, u8, i64); 14] = [
    ("memcpy", 7, 2, 1),
    ("memmove", 7, 2, 1),
    ("mempcpy", 7, 2, 1),
    ("memset", 7, 2, 1),
    ("__memcpy_chk", 7, 2, 1),
    ("__memmove_chk", 7, 2, 1),
    ("__memset_chk", 7, 2, 1),
    ("read", 6, 2, 1),
    ("MPI_Bcast", 7, 6, 64),
    ("MPI_Recv", 7, 6, 64),
    ("MPI_Irecv", 7, 6, 64),
    ("MPI_Allreduce", 6, 2, 8),
    ("MPI_Reduce", 6, 2, 8),
    ("MPI_Scan", 6, 2, 8),
];

/// True if that function of a library may write to these bytes, counted from the address in an argument.
pub(crate) fn may_write_so_far(name: &str, argument: u8, state: &State, from_it: &Range<i64>) -> bool {
    writes_at_most(name, argument, state).is_some_and(|bytes| from_it.end > 0 && from_it.start < bytes)
}

/// The bytes behind an argument that a function of a library writes to at most, if it is one that has their number as another
/// argument.
pub(crate) fn writes_at_most(name: &str, argument: u8, state: &State) -> Option<i64> {
    let name = name.split('@').next().unwrap_or(name);
    let (_, _, count, bytes) = WRITERS.iter().find(|writer| (writer.0, writer.1) == (name, argument))?;
    Some(match state.value(ReadablePlace::Register(*count)) {
        Value::Linear(count) if count.place.is_none() => (count.value(0) as i64).saturating_mul(*bytes),
        _ => i64::MAX,
    })
}

fn is_read(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

/// True where a value that was there before may be there afterwards too, or elsewhere.
fn may_go_on(access: OpAccess) -> bool {
    is_read(access) || access == OpAccess::CondWrite
}

pub(crate) fn is_write(access: OpAccess) -> bool {
    !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None)
}

pub(crate) fn number(register: Register) -> Option<u8> {
    register.is_gpr64().then(|| register.number() as u8)
}

/// How far above the stack pointer's first value an address is, if it is one of the stack.
pub(crate) fn on_stack(value: Value) -> Option<i64> {
    match value {
        Value::Linear(Linear {
            place: Some(ReadablePlace::Register(RSP)),
            times: 1,
            add,
            extension: Extension::Whole,
        }) => Some(add),
        _ => None,
    }
}
