//! The values of places in one pass of a loop, as what they held when the pass began plus a constant.
//!
//! Registers, slots of the frame and words at fixed addresses are followed along every way through the loop; where ways
//! meet that say different things, nothing is known. So whatever a loop inside changes is unknown behind it. Words behind
//! pointers are followed by the names that the code has for them. Stores through other pointers are taken to leave all these
//! alone, which whoever relies on it must check: `lent` and `owned` do.
//!
//! Next: `bound`, which asks for a loop's counter.

use iced_x86::{ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use std::ops::Range;
use std::sync::Arc;
use trimtab_types::ProcAddr;

/// A place in the program whose value can be read when a pass begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadablePlace {
    /// A general register, by its number: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
    Register(u8),
    /// Memory at a register's value plus an offset.
    Frame {
        /// The register's number, as above.
        register: u8,
        /// Bytes to add.
        offset: i64,
        /// Bytes there.
        bytes: u32,
    },
    /// Memory at the address that a slot holds, plus an offset.
    Behind {
        /// The number of the register that names the slot, as above.
        register: u8,
        /// Bytes to add to it for the slot, which has 8 bytes.
        slot: i64,
        /// Bytes to add to the address there.
        offset: i64,
        /// Bytes there.
        bytes: u32,
    },
    /// Memory at an address.
    Fixed {
        /// The address.
        address: ProcAddr,
        /// Bytes there.
        bytes: u32,
    },
}

impl ReadablePlace {
    /// The number of the register that it is, or that names it.
    pub(crate) fn register(self) -> Option<u8> {
        match self {
            ReadablePlace::Register(register)
            | ReadablePlace::Frame { register, .. }
            | ReadablePlace::Behind { register, .. } => Some(register),
            ReadablePlace::Fixed { .. } => None,
        }
    }
}

/// How the 64 bits of a value are made of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// The sum itself.
    Whole,
    /// Its lower 32 bits, zeros above.
    Zero,
    /// Its lower 32 bits, their sign above.
    Sign,
    /// Its lower 32 bits; the upper ones are not known.
    Lower,
}

/// A value: that of a place when the pass began, if any, times a number, plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// The place; `None`: the constant alone.
    pub place: Option<ReadablePlace>,
    /// How many times; 1 without a place.
    pub times: i64,
    /// The constant.
    pub add: i64,
    /// The part of the sum that is meant.
    pub extension: Extension,
}

impl Linear {
    pub(crate) const fn constant(add: i64) -> Linear {
        Linear { place: None, times: 1, add, extension: Extension::Whole }
    }

    pub(crate) const fn of(place: ReadablePlace) -> Linear {
        Linear { place: Some(place), times: 1, add: 0, extension: Extension::Whole }
    }

    /// The value, if the place held `held`.
    pub fn value(&self, held: u64) -> u64 {
        let times = if self.place.is_some() { held.wrapping_mul(self.times as u64) } else { 0 };
        let sum = times.wrapping_add_signed(self.add);
        match self.extension {
            Extension::Whole => sum,
            Extension::Zero | Extension::Lower => u64::from(sum as u32),
            Extension::Sign => sum as i32 as i64 as u64,
        }
    }

    /// With `more` added by an instruction of 32 or 64 bits; the upper half of an extended value can't be followed.
    fn plus(self, more: i64, bits: u32) -> Option<Linear> {
        let add = self.add.wrapping_add(more);
        match (bits, self.extension, self.place) {
            (32, ..) => Some(Linear { add, extension: Extension::Zero, ..self }),
            (_, Extension::Whole, _) => Some(Linear { add, ..self }),
            _ => None,
        }
    }

    /// The lower half of both, if that is the same variable's.
    fn lower_half_with(self, other: Linear) -> Option<Linear> {
        let lower = Linear { extension: Extension::Lower, ..self };
        (self.place.is_some() && lower == Linear { extension: Extension::Lower, ..other }).then_some(lower)
    }

    /// So many times as much, by an instruction of 32 or 64 bits.
    fn times(self, factor: i64, bits: u32) -> Option<Linear> {
        let whole = self.plus(0, bits)?;
        let times = if whole.place.is_some() { whole.times.wrapping_mul(factor) } else { 1 };
        let is_nothing = whole.place.is_some() && times == 0;
        let product = Linear { times, add: whole.add.wrapping_mul(factor), ..whole };
        Some(if is_nothing { Linear { place: None, times: 1, ..product } } else { product })
    }

    /// The sum of both, by an instruction of 32 or 64 bits.
    fn sum(self, other: Linear, bits: u32) -> Option<Value> {
        let (one, other) = (self.plus(0, bits)?, other.plus(0, bits)?);
        let add = one.add.wrapping_add(other.add);
        let times = one.times.wrapping_add(other.times);
        Some(match (one.place, other.place) {
            (_, None) => Value::Linear(Linear { add, ..one }),
            (None, _) => Value::Linear(Linear { add, ..other }),
            (Some(place), Some(same)) if place == same && times != 0 => Value::Linear(Linear { times, add, ..one }),
            (Some(place), Some(same)) if place == same => {
                Value::Linear(Linear { place: None, times: 1, add, extension: one.extension })
            }
            _ => Value::Sum(one, other),
        })
    }
}

/// Two values that are compared, and how the condition `left ? right` is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComparedValues {
    /// As the first operand of `cmp`.
    pub left: Linear,
    /// As the second.
    pub right: Linear,
    /// How many of their lower bits are compared: 32 or 64.
    pub bits: u32,
    /// The condition that must hold.
    pub condition: ConditionCode,
}

/// The value of a register or a word of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Unknown,
    Linear(Linear),
    /// Of two places, by an instruction of as many bits as both have.
    Sum(Linear, Linear),
    /// 1 if this holds, else 0.
    Truth(ComparedValues),
    /// 1 or 0, and this holds at least where it is 1 (`true`) or 0 (`false`), as of conditions joined by `&&` or `||`.
    Half(ComparedValues, bool),
}

impl Value {
    /// The knowledge that is left where two ways meet that say different things.
    fn meet(self, other: Value) -> Value {
        let of_constant = |value: Value| match value {
            Value::Linear(Linear { place: None, add: number @ (0 | 1), .. }) => Some(number == 1),
            _ => None,
        };
        let of_truth = |truth: ComparedValues, is_one: bool| {
            // Where the constant is 1, only 0 says something of the truth.
            let held = if is_one { opposite(truth.condition) } else { Some(truth.condition) };
            held.map_or(Value::Unknown, |condition| Value::Half(ComparedValues { condition, ..truth }, !is_one))
        };
        match (self, other) {
            // A counter of 32 bits on one way, and on another the same where it was kept in memory meanwhile.
            (Value::Linear(one), Value::Linear(other)) => {
                one.lower_half_with(other).map_or(Value::Unknown, Value::Linear)
            }
            (Value::Truth(truth), number) | (number, Value::Truth(truth)) if of_constant(number).is_some() => {
                of_constant(number).map_or(Value::Unknown, |is_one| of_truth(truth, is_one))
            }
            (half @ Value::Half(_, when), number) | (number, half @ Value::Half(_, when))
                if of_constant(number) == Some(!when) =>
            {
                half
            }
            (half @ Value::Half(_, when), Value::Truth(truth)) | (Value::Truth(truth), half @ Value::Half(_, when))
                if of_truth(truth, !when) == half =>
            {
                half
            }
            _ => Value::Unknown,
        }
    }

    /// True of what has one bit of meaning.
    fn is_truth(&self) -> bool {
        matches!(self, Value::Truth(_) | Value::Half(..))
    }

    fn plus(self, more: Linear, bits: u32) -> Option<Value> {
        match (self, more.place) {
            (Value::Linear(one), _) => one.sum(more, bits),
            (Value::Sum(one, other), None) => Some(Value::Sum(one.plus(more.add, bits)?, other.plus(0, bits)?)),
            _ => None,
        }
    }
}

/// The instruction's result that set the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flags {
    Unknown,
    /// `cmp left, right`, or what sets them likewise; `carry`: what that flag says.
    Compared {
        left: Linear,
        right: Linear,
        bits: u32,
        carry: Carry,
    },
    /// A sum of two places was compared with a constant: `one` with the constant less the other.
    Apart {
        one: Linear,
        rest: Linear,
        bits: u32,
    },
    /// A truth was compared with zero.
    Truth(ComparedValues),
    /// The same of a half of one.
    Half(ComparedValues, bool),
}

/// The meaning of the carry flag behind a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carry {
    /// The left side is below the right one, as after `cmp`.
    Below,
    /// It is not, as after adding what is minus the right side.
    NotBelow,
    /// Nothing.
    Other,
}

/// All places at one point of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    registers: [Value; 16],
    /// Memory that was written or read since the pass began, sorted by place; no two overlap. Most blocks write none.
    memory: Arc<Vec<(ReadablePlace, Value)>>,
    /// Of memory that is not listed nothing is known.
    is_memory_lost: bool,
    /// Calls, and stores through pointers, may write to any memory.
    is_memory_fragile: bool,
    flags: Flags,
}

/// Words of memory that are followed at once.
const MEMORY_MAX: usize = 500;
/// Registers that a call may change: rax, rcx, rdx, rsi, rdi, r8 to r11.
pub(crate) const CALL_CHANGES: [u8; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];

impl State {
    /// When a pass begins.
    pub(crate) fn at_start() -> State {
        let held = |number: usize| Value::Linear(Linear::of(ReadablePlace::Register(number as u8)));
        let (is_memory_lost, is_memory_fragile) = (false, false);
        let (memory, flags) = (Arc::default(), Flags::Unknown);
        State { registers: std::array::from_fn(held), memory, is_memory_lost, is_memory_fragile, flags }
    }

    /// The same, with the registers that hold a number whenever one begins, as `known` says.
    pub(crate) fn at_start_with(known: Option<&State>) -> State {
        let mut state = State::at_start();
        for (own, known) in state.registers.iter_mut().zip(known.into_iter().flat_map(|known| known.registers)) {
            if matches!(known, Value::Linear(Linear { place: None, .. })) {
                *own = known;
            }
        }
        state
    }

    /// The same, where nothing is relied on that a call or a store through a pointer could change.
    pub(crate) fn cautious() -> State {
        State { is_memory_fragile: true, ..State::at_start() }
    }

    /// Where control comes in ways that the code does not show.
    pub(crate) fn unknown() -> State {
        State { registers: [Value::Unknown; 16], is_memory_lost: true, ..State::cautious() }
    }

    /// Keeps the values that two ways that meet agree on; true if that is less than this one said.
    pub(crate) fn meet(&mut self, other: &State) -> bool {
        let before = self.clone();
        for (one, other) in self.registers.iter_mut().zip(&other.registers) {
            if one != other {
                *one = one.meet(*other);
            }
        }
        self.is_memory_lost |= other.is_memory_lost;
        for place in self.places_apart(other) {
            let (one, other) = (self.load(place), other.load(place));
            if one != other {
                self.store(place, one.meet(other));
            }
        }
        if self.is_memory_lost && self.memory.iter().any(|(_, value)| *value == Value::Unknown) {
            // Places that are not listed are unknown too: one way to say it, so that equal states look equal.
            self.listed().retain(|(_, value)| *value != Value::Unknown);
        }
        if self.flags != other.flags {
            self.flags = Flags::Unknown;
        }
        *self != before
    }

    /// Places of memory of which not both say the same; both lists are sorted.
    fn places_apart(&self, other: &State) -> Vec<ReadablePlace> {
        if Arc::ptr_eq(&self.memory, &other.memory) {
            return Vec::new();
        }
        let is_in = |list: &[(ReadablePlace, Value)], (place, value): &(ReadablePlace, Value)| {
            list.binary_search_by_key(place, |(known, _)| *known).is_ok_and(|at| list[at].1 == *value)
        };
        let ours = self.memory.iter().filter(|known| !is_in(&other.memory, known));
        let theirs = other.memory.iter().filter(|known| !is_in(&self.memory, known));
        ours.chain(theirs).map(|(place, _)| *place).collect()
    }

    /// The value of a place.
    pub(crate) fn value(&self, place: ReadablePlace) -> Value {
        match place {
            ReadablePlace::Register(number) => self.registers[usize::from(number)],
            memory => self.load(memory),
        }
    }

    fn load(&self, place: ReadablePlace) -> Value {
        match self.memory[self.overlapping(place)].first() {
            Some((known, value)) if *known == place => *value,
            Some(_) => Value::Unknown,
            None if self.is_memory_lost => Value::Unknown,
            None => Value::Linear(Linear::of(place)),
        }
    }

    /// The list, to be changed.
    fn listed(&mut self) -> &mut Vec<(ReadablePlace, Value)> {
        Arc::make_mut(&mut self.memory)
    }

    /// The listed places that have bytes in common with one: a part of the list, as no two of it overlap.
    fn overlapping(&self, place: ReadablePlace) -> Range<usize> {
        let at = self.memory.partition_point(|(known, _)| *known < place);
        let is_before = at.checked_sub(1).is_some_and(|before| overlap(self.memory[before].0, place));
        let behind = self.memory[at..].iter().take_while(|(known, _)| overlap(*known, place)).count();
        at - usize::from(is_before)..at + behind
    }

    fn store(&mut self, place: ReadablePlace, value: Value) {
        let overlapping = self.overlapping(place);
        let is_listed = !(self.is_memory_lost && value == Value::Unknown);
        self.listed().splice(overlapping, is_listed.then_some((place, value)));
        if self.memory.len() > MEMORY_MAX {
            // Values that can't be kept must not seem unchanged, and a list without an end takes time without an end.
            self.memory = Arc::default();
            self.is_memory_lost = true;
        }
    }

    /// Words of memory of which something is known.
    pub(crate) fn places_in_memory(&self) -> impl Iterator<Item = ReadablePlace> {
        self.memory.iter().map(|(place, _)| *place)
    }

    /// Follows one instruction.
    pub(crate) fn step(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        if instruction.is_call_near() || instruction.is_call_near_indirect() {
            CALL_CHANGES.into_iter().for_each(|number| self.registers[usize::from(number)] = Value::Unknown);
            self.flags = Flags::Unknown;
            self.lose_memory();
            return;
        }
        if instruction.mnemonic() == Mnemonic::Cdqe {
            let value = match self.registers[0] {
                Value::Linear(value) => Value::Linear(Linear { extension: Extension::Sign, ..value }),
                _ => Value::Unknown,
            };
            self.registers[0] = value;
            return;
        }
        let (value, flags) = (self.result(instruction), self.flags_after(instruction));
        self.forget(instruction, info);
        if let Some(flags) = flags {
            self.flags = flags;
        }
        if let Some(value) = value {
            self.put(instruction, value);
        }
    }

    /// Whatever an instruction writes is unknown, until its result is put there.
    fn forget(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        let stack = self.registers[usize::from(RSP)];
        let used = info.info(instruction);
        let writes = |access| !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess);
        let registers = used.used_registers().iter().filter(|used| writes(used.access()));
        let written: Vec<usize> = registers.filter_map(|used| number_of(used.register())).collect();
        if used.used_memory().iter().any(|used| writes(used.access())) {
            match self.memory_operand(instruction) {
                Some(place) => self.store(place, Value::Unknown),
                None if is_push(instruction) => {}
                None => self.lose_memory(),
            }
        }
        written.into_iter().for_each(|number| self.registers[number] = Value::Unknown);
        let moved = i64::from(instruction.stack_pointer_increment());
        if let Value::Linear(stack) = stack
            && moved != 0
        {
            self.registers[usize::from(RSP)] = stack.plus(moved, 64).map_or(Value::Unknown, Value::Linear);
        }
        if instruction.rflags_modified() != 0 {
            self.flags = Flags::Unknown;
        }
    }

    /// Somebody else may have written anywhere.
    fn lose_memory(&mut self) {
        if self.is_memory_fragile {
            self.memory = Arc::default();
            self.is_memory_lost = true;
        }
    }

    /// Puts a result where the instruction's first operand is.
    fn put(&mut self, instruction: &Instruction, value: Value) {
        match instruction.op0_kind() {
            OpKind::Register => {
                if let Some(number) = number_of(instruction.op0_register()) {
                    self.registers[number] = value;
                }
            }
            OpKind::Memory => {
                if let Some(place) = self.memory_operand(instruction) {
                    self.store(place, value);
                }
            }
            _ => {}
        }
    }

    /// The value of the first operand afterwards, if that can be followed.
    fn result(&self, instruction: &Instruction) -> Option<Value> {
        let bits = operand_bits(instruction, 0)?;
        let second = || self.operand(instruction, 1);
        let linear = |linear: Option<Linear>| linear.map(Value::Linear);
        match instruction.mnemonic() {
            Mnemonic::Mov if bits >= 32 => Some(narrowed(second(), bits)),
            Mnemonic::Mov if bits == 8 => Some(second()).filter(|value| {
                // The rest of a register stays as it was.
                let is_word = instruction.op0_kind() == OpKind::Memory;
                value.is_truth() || (is_word && matches!(value, Value::Linear(Linear { place: None, .. })))
            }),
            Mnemonic::And if matches!(bits, 8 | 32) && self.both_halves(instruction).is_some() => {
                self.both_halves(instruction)
            }
            Mnemonic::Xor | Mnemonic::And if is_one(&second()) && !has_one_register(instruction) => {
                match (self.operand(instruction, 0), instruction.mnemonic()) {
                    (truth, Mnemonic::And) if truth.is_truth() => Some(truth),
                    (Value::Half(truth, when), _) => Some(Value::Half(truth, !when)),
                    (Value::Truth(truth), _) => {
                        let condition = opposite(truth.condition)?;
                        Some(Value::Truth(ComparedValues { condition, ..truth }))
                    }
                    _ => None,
                }
            }
            Mnemonic::Movsxd | Mnemonic::Movsx => match second() {
                Value::Linear(value) if operand_bits(instruction, 1) == Some(32) => {
                    Some(Value::Linear(Linear { extension: Extension::Sign, ..value }))
                }
                _ => None,
            },
            Mnemonic::Movzx => Some(second()).filter(Value::is_truth),
            Mnemonic::Lea => self.address_sum(instruction, bits),
            Mnemonic::Xor | Mnemonic::Sub if has_one_register(instruction) => Some(Value::Linear(Linear::constant(0))),
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec => self.sum(instruction, bits),
            Mnemonic::Neg | Mnemonic::Shl | Mnemonic::Imul => linear(self.product(instruction, bits)),
            _ if instruction.condition_code() != ConditionCode::None && bits == 8 => {
                self.comparison(instruction.condition_code()).map(Value::Truth)
            }
            _ => None,
        }
    }

    fn sum(&self, instruction: &Instruction, bits: u32) -> Option<Value> {
        if bits < 32 {
            return None;
        }
        let more = match instruction.mnemonic() {
            Mnemonic::Inc => Linear::constant(1),
            Mnemonic::Dec => Linear::constant(-1),
            mnemonic => match self.operand(instruction, 1) {
                Value::Linear(more) if mnemonic == Mnemonic::Add => more,
                Value::Linear(more) => more.times(-1, bits)?,
                _ => return None,
            },
        };
        self.operand(instruction, 0).plus(more, bits)
    }

    fn product(&self, instruction: &Instruction, bits: u32) -> Option<Linear> {
        let is_of_three = instruction.op_count() == 3;
        let Value::Linear(first) = self.operand(instruction, u32::from(is_of_three)) else { return None };
        let last = || match self.operand(instruction, if is_of_three { 2 } else { 1 }) {
            Value::Linear(Linear { place: None, add, .. }) => Some(add),
            _ => None,
        };
        let factor = match instruction.mnemonic() {
            Mnemonic::Neg => -1,
            Mnemonic::Shl => last().filter(|shift| (0..31).contains(shift)).map(|shift| 1 << shift)?,
            Mnemonic::Imul if instruction.op_count() > 1 => last()?,
            _ => return None,
        };
        if bits < 32 { None } else { first.times(factor, bits) }
    }

    /// The sum that `lea` makes.
    fn address_sum(&self, instruction: &Instruction, bits: u32) -> Option<Value> {
        if instruction.is_ip_rel_memory_operand() || bits < 32 {
            return self.address(instruction).filter(|_| bits == 64).map(Value::Linear);
        }
        let part = |register: Register, scale: u32| match (register, number_of(register)) {
            (Register::None, _) => Some(Linear::constant(0)),
            (_, Some(number)) => match self.registers[number] {
                Value::Linear(value) => value.times(scale.into(), bits),
                _ => None,
            },
            _ => None,
        };
        let base = part(instruction.memory_base(), 1)?;
        let index = part(instruction.memory_index(), instruction.memory_index_scale())?;
        base.sum(index, bits)?.plus(Linear::constant(instruction.memory_displacement64() as i64), bits)
    }

    /// The result that sets the flags, if that is a comparison or like one.
    fn flags_after(&self, instruction: &Instruction) -> Option<Flags> {
        let bits = operand_bits(instruction, 0)?;
        let zero = Linear::constant(0);
        let both = || match (self.operand(instruction, 0), self.operand(instruction, 1)) {
            (Value::Linear(left), Value::Linear(right)) => Some((left, right)),
            _ => None,
        };
        let compared = |(left, right), carry| Flags::Compared { left, right, bits, carry };
        let is_same = has_one_register(instruction);
        if let (Value::Sum(one, other), Mnemonic::Cmp) = (self.operand(instruction, 0), instruction.mnemonic()) {
            let Value::Linear(against @ Linear { place: None, .. }) = self.operand(instruction, 1) else { return None };
            let Value::Linear(rest) = other.times(-1, bits)?.sum(against, bits)? else { return None };
            return Some(Flags::Apart { one, rest, bits });
        }
        match instruction.mnemonic() {
            Mnemonic::Cmp | Mnemonic::Sub | Mnemonic::Test => {
                let against_zero = match instruction.mnemonic() {
                    Mnemonic::Test => is_same || is_one(&self.operand(instruction, 1)) && bits == 8,
                    Mnemonic::Cmp => self.operand(instruction, 1) == Value::Linear(zero),
                    _ => false,
                };
                match (self.operand(instruction, 0), against_zero) {
                    (Value::Truth(truth), true) => Some(Flags::Truth(truth)),
                    (Value::Half(truth, when), true) => Some(Flags::Half(truth, when)),
                    _ if bits == 8 && instruction.mnemonic() == Mnemonic::Test => {
                        self.both_halves(instruction).and_then(|both| match both {
                            Value::Half(truth, when) => Some(Flags::Half(truth, when)),
                            _ => None,
                        })
                    }
                    (Value::Linear(left), true) if bits >= 32 => Some(compared((left, zero), Carry::Below)),
                    _ if bits >= 32 && instruction.mnemonic() != Mnemonic::Test => {
                        Some(compared(both()?, Carry::Below))
                    }
                    _ => None,
                }
            }
            Mnemonic::Dec | Mnemonic::Inc if bits >= 32 => {
                let Value::Linear(left) = self.operand(instruction, 0) else { return None };
                let right = Linear::constant(if instruction.mnemonic() == Mnemonic::Dec { 1 } else { -1 });
                Some(compared((left, right), Carry::Other))
            }
            Mnemonic::Add if bits >= 32 => {
                let (left, right) = both()?;
                let less = right.times(-1, bits)?;
                Some(match right {
                    Linear { place: Some(_), .. } => Flags::Apart { one: left, rest: less, bits },
                    Linear { add: 0, .. } => compared((left, less), Carry::Other),
                    _ => compared((left, less), Carry::NotBelow),
                })
            }
            _ => None,
        }
    }

    /// The comparison that a condition stands for.
    pub(crate) fn comparison(&self, condition: ConditionCode) -> Option<ComparedValues> {
        let is_unsigned =
            matches!(condition, ConditionCode::a | ConditionCode::ae | ConditionCode::b | ConditionCode::be);
        match self.flags {
            Flags::Compared { left, right, bits, carry } => {
                let condition = match (carry, condition) {
                    (Carry::Below, _) => condition,
                    (Carry::NotBelow, ConditionCode::b | ConditionCode::ae) => opposite(condition)?,
                    _ if is_unsigned => return None,
                    _ => condition,
                };
                Some(ComparedValues { left, right, bits, condition })
            }
            // The sign and so on of a truth are not asked for by compilers.
            Flags::Truth(truth) => match condition {
                ConditionCode::ne => Some(truth),
                ConditionCode::e => Some(ComparedValues { condition: opposite(truth.condition)?, ..truth }),
                _ => None,
            },
            // Of a sum only whether it is the same can be told, as it may have wrapped around.
            Flags::Apart { one, rest, bits } if matches!(condition, ConditionCode::e | ConditionCode::ne) => {
                Some(ComparedValues { left: one, right: rest, bits, condition })
            }
            Flags::Apart { .. } | Flags::Half(..) | Flags::Unknown => None,
        }
    }

    /// The comparison that holds at least where a branch with this condition is taken (`true`), or where it is not.
    pub(crate) fn half(&self, condition: ConditionCode) -> Option<(ComparedValues, bool)> {
        match (&self.flags, condition) {
            (Flags::Half(truth, when), ConditionCode::ne) => Some((*truth, *when)),
            (Flags::Half(truth, when), ConditionCode::e) => Some((*truth, !when)),
            _ => None,
        }
    }

    /// A truth and anything else of a byte, of both of which a result other than 0 says that they hold.
    fn both_halves(&self, instruction: &Instruction) -> Option<Value> {
        let is_of_registers = (0..2).all(|at| instruction.op_kind(at) == OpKind::Register);
        let operands = [0, 1].map(|at| self.operand(instruction, at));
        let held = operands.into_iter().find_map(|operand| match operand {
            Value::Truth(truth) | Value::Half(truth, true) => Some(truth),
            _ => None,
        });
        held.filter(|_| is_of_registers && !has_one_register(instruction)).map(|truth| Value::Half(truth, true))
    }

    pub(crate) fn operand(&self, instruction: &Instruction, index: u32) -> Value {
        match instruction.op_kind(index) {
            OpKind::Register => {
                let register = instruction.op_register(index);
                match number_of(register) {
                    Some(number) if register.size() >= 4 => {
                        narrowed(self.registers[number], register.size() as u32 * 8)
                    }
                    // `ah` and the like are other bytes.
                    Some(_) if matches!(register, Register::AH | Register::BH | Register::CH | Register::DH) => {
                        Value::Unknown
                    }
                    Some(number) => match self.registers[number] {
                        truth if truth.is_truth() => truth,
                        Value::Linear(Linear { place: None, add, .. }) if register.size() == 1 => {
                            Value::Linear(Linear::constant(add & 0xff))
                        }
                        _ => Value::Unknown,
                    },
                    None => Value::Unknown,
                }
            }
            OpKind::Memory => match self.memory_operand(instruction) {
                Some(place) => narrowed(self.load(place), instruction.memory_size().size() as u32 * 8),
                None => Value::Unknown,
            },
            OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64 => {
                let bits = operand_bits(instruction, 0).unwrap_or(64);
                let value = instruction.immediate(index);
                // Narrow comparisons look at the lower half only, and steps have a sign.
                let value = if bits == 32 { value as i32 as i64 } else { value as i64 };
                Value::Linear(Linear::constant(value))
            }
            _ => Value::Unknown,
        }
    }

    /// The address that an instruction computes, as a value.
    pub(crate) fn address(&self, instruction: &Instruction) -> Option<Linear> {
        if instruction.is_ip_rel_memory_operand() {
            return Some(Linear::constant(instruction.ip_rel_memory_address() as i64));
        }
        let is_plain = instruction.memory_index() == Register::None && instruction.segment_prefix() == Register::None;
        let base = number_of(instruction.memory_base()).filter(|_| is_plain)?;
        match self.registers[base] {
            Value::Linear(base) if base.times == 1 => base.plus(instruction.memory_displacement64() as i64, 64),
            _ => None,
        }
    }

    /// The memory that an instruction reads or writes, if it is a place that can be followed.
    pub(crate) fn memory_operand(&self, instruction: &Instruction) -> Option<ReadablePlace> {
        let (address, bytes) = (self.address(instruction)?, instruction.memory_size().size() as u32);
        match address.place {
            None => Some(ReadablePlace::Fixed { address: ProcAddr(address.add as u64), bytes }),
            Some(ReadablePlace::Register(register)) if matches!(register, RSP | RBP) || !self.is_memory_fragile => {
                Some(ReadablePlace::Frame { register, offset: address.add, bytes })
            }
            Some(ReadablePlace::Frame { register, offset: slot, bytes: 8 })
                if matches!(register, RSP | RBP) && !self.is_memory_fragile =>
            {
                Some(ReadablePlace::Behind { register, slot, offset: address.add, bytes })
            }
            _ => None,
        }
    }
}

const RSP: u8 = 4;
const RBP: u8 = 5;

/// True if it writes below the stack pointer, where no place that is followed lies.
fn is_push(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Push) && instruction.op0_kind() != OpKind::Memory
}

/// Number of the general register that one is part of.
pub(crate) fn number_of(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}

fn overlap(one: ReadablePlace, other: ReadablePlace) -> bool {
    let meet = |a: i128, length: u32, b: i128, other: u32| a < b + i128::from(other) && b < a + i128::from(length);
    match (one, other) {
        (
            ReadablePlace::Frame { register, offset, bytes },
            ReadablePlace::Frame { register: same, offset: at, bytes: length },
        ) => register == same && meet(offset.into(), bytes, at.into(), length),
        (ReadablePlace::Fixed { address, bytes }, ReadablePlace::Fixed { address: at, bytes: length }) => {
            meet(address.0.into(), bytes, at.0.into(), length)
        }
        (
            ReadablePlace::Behind { register, slot, offset, bytes },
            ReadablePlace::Behind { register: same, slot: same_slot, offset: at, bytes: length },
        ) => (register, slot) == (same, same_slot) && meet(offset.into(), bytes, at.into(), length),
        _ => false,
    }
}

/// True of the constant 1.
fn is_one(value: &Value) -> bool {
    *value == Value::Linear(Linear::constant(1))
}

/// A value as an operand of so many bits shows it.
fn narrowed(value: Value, bits: u32) -> Value {
    match value {
        Value::Linear(linear) if bits == 32 => Value::Linear(Linear { extension: Extension::Zero, ..linear }),
        Value::Sum(one, other) if bits == 32 => {
            let lower = |linear| Linear { extension: Extension::Zero, ..linear };
            Value::Sum(lower(one), lower(other))
        }
        Value::Linear(Linear { extension: Extension::Lower, .. }) => Value::Unknown,
        value => value,
    }
}

fn operand_bits(instruction: &Instruction, index: u32) -> Option<u32> {
    match (index < instruction.op_count()).then(|| instruction.op_kind(index))? {
        OpKind::Register => Some(instruction.op_register(index).size() as u32 * 8),
        OpKind::Memory => Some(instruction.memory_size().size() as u32 * 8),
        _ => None,
    }
}

/// True if both operands are one register.
pub(crate) fn has_one_register(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register()
}

/// The condition that holds when this one does not.
pub(crate) fn opposite(condition: ConditionCode) -> Option<ConditionCode> {
    use ConditionCode::{a, ae, b, be, e, g, ge, l, le, ne, ns, s};
    Some(match condition {
        e => ne,
        ne => e,
        l => ge,
        ge => l,
        le => g,
        g => le,
        b => ae,
        ae => b,
        be => a,
        a => be,
        s => ns,
        ns => s,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(offset: i64) -> ReadablePlace {
        ReadablePlace::Frame { register: RBP, offset, bytes: 8 }
    }

    #[test]
    fn memory_that_is_too_much_to_follow_is_unknown_and_takes_no_time() {
        let mut state = State::at_start();
        assert_eq!(state.value(slot(8)), Value::Linear(Linear::of(slot(8))), "nobody wrote there");
        for number in 0..50_000 {
            state.store(slot(-8 * number), Value::Linear(Linear::constant(number)));
        }
        assert!(state.memory.len() <= MEMORY_MAX, "{} words are followed", state.memory.len());
        for forgotten in [slot(0), slot(-8 * 30_000), slot(8)] {
            assert_eq!(state.value(forgotten), Value::Unknown, "{forgotten:?}");
        }
        state.store(slot(-64), Value::Linear(Linear::constant(7)));
        assert_eq!(state.value(slot(-64)), Value::Linear(Linear::constant(7)), "what comes later is known");
    }

    /// A counter that is kept in memory by 32 bits on one of two ways, as around a loop inside.
    #[test]
    fn the_lower_half_of_a_counter_is_known_where_one_way_keeps_it_in_memory() {
        use iced_x86::code_asm::{dword_ptr, eax, r14, r14d, rax, rsp};
        let counter = ReadablePlace::Register(14);
        let after = |state: &mut State, write: &dyn Fn(&mut iced_x86::code_asm::CodeAssembler)| {
            let mut code = iced_x86::code_asm::CodeAssembler::new(64).expect("64 bits");
            write(&mut code);
            let mut info = InstructionInfoFactory::new();
            code.instructions().iter().for_each(|one| state.step(one, &mut info));
        };
        let mut state = State::at_start();
        after(&mut state, &|code| {
            code.mov(dword_ptr(rsp + 64), r14d).expect("a store");
            code.xor(r14d, r14d).expect("another use");
            code.mov(r14d, dword_ptr(rsp + 64)).expect("a load");
        });
        state.meet(&State::at_start());
        after(&mut state, &|code| code.add(r14d, 1).expect("a step"));
        let moved = Linear { add: 1, extension: Extension::Zero, ..Linear::of(counter) };
        assert_eq!(state.value(counter), Value::Linear(moved));
        // Nobody knows the upper half.
        let mut state = State::at_start();
        state.registers[14] = Value::Linear(Linear { extension: Extension::Lower, ..Linear::of(counter) });
        after(&mut state, &|code| code.mov(rax, r14).expect("a copy"));
        assert_eq!(state.value(ReadablePlace::Register(0)), Value::Unknown);
        after(&mut state, &|code| code.mov(eax, r14d).expect("a copy"));
        assert_eq!(state.value(ReadablePlace::Register(0)), Value::Linear(Linear { add: 0, ..moved }));
        after(&mut state, &|code| code.cmp(r14, 5).expect("a test"));
        assert_eq!(state.comparison(ConditionCode::l), None);
        // Two numbers are not one variable.
        state.registers[14] = Value::Linear(Linear::constant(-1));
        let mut other = State::at_start();
        other.registers[14] = Value::Linear(Linear { extension: Extension::Zero, ..Linear::constant(-1) });
        state.meet(&other);
        assert_eq!(state.value(counter), Value::Unknown);
    }

    #[test]
    fn ways_that_meet_agree_at_last_also_where_memory_is_lost() {
        let known = |count: i64, value: i64| {
            let mut state = State::at_start();
            (0..count).for_each(|at| state.store(slot(-8 * at), Value::Linear(Linear::constant(value))));
            state
        };
        let (mut one, few, many) = (known(80, 1), known(90, 2), known(50_000, 3));
        assert!(one.meet(&few), "they say different things of each slot");
        assert_eq!((one.value(slot(0)), one.value(slot(-8 * 85))), (Value::Unknown, Value::Unknown));
        assert!(one.meet(&many), "of memory that nobody wrote to nothing is known now");
        assert_eq!(one.value(slot(8)), Value::Unknown);
        for other in [&few, &many] {
            assert!(!one.meet(other), "there is nothing left to unlearn");
        }
    }
}
