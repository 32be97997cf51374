//! What registers hold along a function's paths, as far as it tells where an indirect jump leads and whether the
//! stack frame is gone.
//!
//! A small abstract interpretation: each register is a known address, a place in the frame, an entry of a table,
//! something that came from outside, or unknown; where paths meet, what differs becomes unknown. It only ever errs
//! towards unknown. Next: `jump_table` reads the tables found; `analyse` asks for the results.

use crate::flow::Graph;
use crate::instruction::Next;
use crate::jump_table::{Table, TableForm};
use iced_x86::{Instruction, InstructionInfoFactory, MemorySize, Mnemonic, OpAccess, OpKind, Register};
use std::collections::{BTreeMap, BTreeSet};

/// What a register or a slot of the frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Anything.
    Unknown,
    /// Something this function did not make: an argument, a call's result, or a load through one of these.
    Foreign,
    /// This number.
    Constant(u64),
    /// The stack pointer at entry plus this.
    Stack(i64),
    /// The address of some element of the table that begins here.
    Element { base: u64 },
    /// A 32-bit entry of the table that begins here, not yet sign-extended.
    RawOffset { base: u64 },
    /// A 32-bit entry of the table that begins here, sign-extended.
    Offset { base: u64 },
    /// A jump target taken from a table.
    Target(Table),
}

/// Registers and frame slots at one point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    registers: [Value; 16],
    /// Values stored in the frame, by distance from the stack pointer at entry.
    slots: Vec<(i64, Value)>,
}

/// The states before the instructions where paths meet or begin.
pub(crate) struct States {
    /// By the instruction's place among the steps.
    before: BTreeMap<usize, Box<State>>,
    /// Which instructions begin a block.
    starts: Vec<bool>,
    /// Blocks to walk, in address order: paths mostly lead onwards, so few are walked twice.
    work: BTreeSet<usize>,
    info: InstructionInfoFactory,
}

/// Indices of the registers that a call may change.
const CALL_CLOBBERED: [usize; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];
const RAX: usize = 0;
const RSP: usize = 4;
const RBP: usize = 5;
/// Frame slots followed at once; a function that spills more loses some precision.
const SLOTS_MAX: usize = 64;

impl State {
    /// At the entry: arguments everywhere, and the stack pointer where it is.
    fn at_entry() -> State {
        let mut registers = [Value::Foreign; 16];
        registers[RSP] = Value::Stack(0);
        State { registers, slots: Vec::new() }
    }

    /// At a place that control may reach in ways not followed.
    fn unknown() -> State {
        State { registers: [Value::Unknown; 16], slots: Vec::new() }
    }

    /// How far the stack pointer is below where it was at entry, in bytes, if known.
    pub(crate) fn depth(&self) -> Option<i64> {
        match self.registers[RSP] {
            Value::Stack(offset) => Some(-offset),
            _ => None,
        }
    }

    /// What the indirect jump takes its target from.
    pub(crate) fn jump_value(&self, jump: &Instruction) -> Value {
        match jump.op0_kind() {
            OpKind::Register => register_index(jump.op0_register()).map_or(Value::Unknown, |at| self.registers[at]),
            OpKind::Memory => self.load(jump),
            _ => Value::Unknown,
        }
    }

    /// Keeps what both states agree on; true if anything changed.
    fn meet(&mut self, other: &State) -> bool {
        let mut changed = false;
        for (mine, theirs) in self.registers.iter_mut().zip(other.registers) {
            if *mine != theirs && *mine != Value::Unknown {
                *mine = Value::Unknown;
                changed = true;
            }
        }
        let slots_before = self.slots.len();
        self.slots.retain(|(offset, value)| other.slot(*offset) == *value);
        changed || self.slots.len() != slots_before
    }

    /// The effect of one instruction.
    fn apply(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        let result = self.result(instruction);
        let stack_pointer = self.stack_pointer_after(instruction);
        self.store(instruction);
        for used in info.info(instruction).used_registers() {
            let writes = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess);
            if let Some(at) = register_index(used.register().full_register()).filter(|_| writes) {
                self.registers[at] = Value::Unknown;
            }
        }
        if let Some((at, value)) = result {
            self.registers[at] = value;
        }
        self.registers[RSP] = stack_pointer;
        if instruction.mnemonic() == Mnemonic::Call {
            self.forget_after_call();
        }
    }

    fn forget_after_call(&mut self) {
        for at in CALL_CLOBBERED {
            self.registers[at] = Value::Unknown;
        }
        self.registers[RAX] = Value::Foreign;
    }

    /// The register an instruction sets to something worth knowing.
    fn result(&self, instruction: &Instruction) -> Option<(usize, Value)> {
        if instruction.op_count() == 0 {
            let is_extension = instruction.mnemonic() == Mnemonic::Cdqe;
            return is_extension.then(|| (RAX, sign_extended(self.registers[RAX])));
        }
        let written = instruction.op0_register();
        let at = register_index(written.full_register()).filter(|_| instruction.op0_kind() == OpKind::Register)?;
        let is_whole = written.is_gpr64() || written.is_gpr32();
        let value = match instruction.mnemonic() {
            Mnemonic::Lea => self.address_value(instruction),
            Mnemonic::Mov if is_whole => self.moved(instruction),
            Mnemonic::Movsxd => match instruction.op1_kind() {
                OpKind::Memory => sign_extended(self.load(instruction)),
                _ => sign_extended(self.register(instruction.op1_register())),
            },
            Mnemonic::Add => self.sum(instruction, self.registers[at]),
            Mnemonic::Pop => self.popped(),
            Mnemonic::Xor if instruction.op1_register() == written => Value::Constant(0),
            _ => return None,
        };
        Some((at, value))
    }

    fn moved(&self, instruction: &Instruction) -> Value {
        let is_wide = instruction.op0_register().is_gpr64();
        match instruction.op1_kind() {
            OpKind::Memory => self.load(instruction),
            OpKind::Register if is_wide => self.register(instruction.op1_register()),
            OpKind::Register => match self.register(instruction.op1_register()) {
                raw @ Value::RawOffset { .. } => raw,
                _ => Value::Unknown,
            },
            OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64 => {
                Value::Constant(instruction.immediate(1))
            }
            _ => Value::Unknown,
        }
    }

    fn sum(&self, instruction: &Instruction, left: Value) -> Value {
        if !instruction.op0_register().is_gpr64() {
            return Value::Unknown;
        }
        let right = match instruction.op1_kind() {
            OpKind::Register => self.register(instruction.op1_register()),
            OpKind::Immediate8to64 | OpKind::Immediate32to64 => Value::Constant(instruction.immediate(1)),
            _ => Value::Unknown,
        };
        added(left, right)
    }

    /// The value of a `lea`.
    fn address_value(&self, instruction: &Instruction) -> Value {
        if !instruction.op0_register().is_gpr64() {
            return Value::Unknown;
        }
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        if base != Register::None && index != Register::None && instruction.memory_index_scale() == 1 {
            let sum = added(self.register(base), self.register(index));
            if matches!(sum, Value::Target(_)) && instruction.memory_displacement64() == 0 {
                return sum;
            }
        }
        match self.place(instruction) {
            Place::Fixed(address) => Value::Constant(address),
            Place::Indexed { base } => Value::Element { base },
            Place::Frame(offset) => Value::Stack(offset),
            Place::Foreign | Place::Unknown => Value::Unknown,
        }
    }

    /// The value read by a memory operand.
    fn load(&self, instruction: &Instruction) -> Value {
        let size = instruction.memory_size();
        let is_wide = matches!(size, MemorySize::UInt64 | MemorySize::Int64 | MemorySize::QwordOffset);
        match self.place(instruction) {
            Place::Fixed(_) | Place::Foreign if is_wide => Value::Foreign,
            Place::Indexed { base } if is_wide => Value::Target(Table { base, form: TableForm::Absolute64 }),
            Place::Indexed { base } if matches!(size, MemorySize::UInt32 | MemorySize::Int32) => {
                Value::RawOffset { base }
            }
            Place::Frame(offset) if is_wide => self.slot(offset),
            _ => Value::Unknown,
        }
    }

    fn popped(&self) -> Value {
        match self.registers[RSP] {
            Value::Stack(offset) => self.slot(offset),
            _ => Value::Unknown,
        }
    }

    /// Where a memory operand lies.
    fn place(&self, instruction: &Instruction) -> Place {
        if matches!(instruction.memory_segment(), Register::FS | Register::GS) {
            return Place::Foreign;
        }
        if instruction.is_ip_rel_memory_operand() {
            return Place::Fixed(instruction.ip_rel_memory_address());
        }
        let displacement = instruction.memory_displacement64();
        let has_index = instruction.memory_index() != Register::None;
        let base = match instruction.memory_base() {
            Register::None => Value::Constant(0),
            register => self.register(register),
        };
        match (base, has_index) {
            (Value::Constant(base), false) => Place::Fixed(base.wrapping_add(displacement)),
            (Value::Constant(base), true) => self.indexed(instruction, base.wrapping_add(displacement)),
            (Value::Element { base }, false) if displacement == 0 => Place::Indexed { base },
            (Value::Stack(offset), false) => Place::Frame(offset.wrapping_add_unsigned(displacement)),
            (Value::Foreign, false) => Place::Foreign,
            (_, true) if instruction.memory_index_scale() == 1 => match self.register(instruction.memory_index()) {
                Value::Constant(base) => Place::Indexed { base: base.wrapping_add(displacement) },
                _ => Place::Unknown,
            },
            _ => Place::Unknown,
        }
    }

    fn indexed(&self, instruction: &Instruction, base: u64) -> Place {
        match (base, instruction.memory_index_scale()) {
            // No base at all and a small displacement: an object that the "index" points to.
            (base, 1) if base < crate::PAGE_BYTES => Place::Unknown,
            (base, 1 | 4 | 8) => Place::Indexed { base },
            _ => Place::Unknown,
        }
    }

    /// Follows what is stored in the frame.
    fn store(&mut self, instruction: &Instruction) {
        let stored = match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Push, _) => {
                let value = match instruction.op0_kind() {
                    OpKind::Register => self.register(instruction.op0_register()),
                    _ => Value::Unknown,
                };
                self.depth().map(|depth| (-depth - 8, value))
            }
            (Mnemonic::Mov, OpKind::Register) if instruction.op0_kind() == OpKind::Memory => {
                match self.place(instruction) {
                    Place::Frame(offset) if instruction.op1_register().is_gpr64() => {
                        Some((offset, self.register(instruction.op1_register())))
                    }
                    Place::Frame(offset) => Some((offset, Value::Unknown)),
                    _ => None,
                }
            }
            _ if instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Memory => {
                match self.place(instruction) {
                    Place::Frame(offset) => Some((offset, Value::Unknown)),
                    _ => None,
                }
            }
            _ => None,
        };
        if let Some((offset, value)) = stored {
            self.set_slot(offset, value);
        }
    }

    fn slot(&self, offset: i64) -> Value {
        let found = self.slots.binary_search_by_key(&offset, |(at, _)| *at);
        found.map_or(Value::Unknown, |index| self.slots[index].1)
    }

    fn set_slot(&mut self, offset: i64, value: Value) {
        // A wider store than 8 bytes, or one that overlaps, also ends what its neighbours hold.
        let low = offset.saturating_sub(7);
        let reach = if value == Value::Unknown { 64 } else { 8 };
        let high = offset.saturating_add(reach);
        let first = self.slots.partition_point(|(at, _)| *at < low);
        let last = self.slots.partition_point(|(at, _)| *at < high);
        self.slots.drain(first..last);
        if value != Value::Unknown && self.slots.len() < SLOTS_MAX {
            self.slots.insert(first, (offset, value));
        }
    }

    fn stack_pointer_after(&self, instruction: &Instruction) -> Value {
        let Value::Stack(offset) = self.registers[RSP] else { return self.stack_pointer_from_frame(instruction) };
        match instruction.mnemonic() {
            Mnemonic::Call => Value::Stack(offset),
            Mnemonic::Push | Mnemonic::Pop | Mnemonic::Pushfq | Mnemonic::Popfq if !pops_stack_pointer(instruction) => {
                Value::Stack(offset.wrapping_add(i64::from(instruction.stack_pointer_increment())))
            }
            _ if !writes_stack_pointer(instruction) => Value::Stack(offset),
            _ => self.stack_pointer_from_frame(instruction),
        }
    }

    /// The stack pointer after an instruction that sets it from something else than itself, or adjusts it.
    fn stack_pointer_from_frame(&self, instruction: &Instruction) -> Value {
        let immediate = || match instruction.op1_kind() {
            OpKind::Immediate8to64 | OpKind::Immediate32to64 => Some(instruction.immediate(1)),
            _ => None,
        };
        let is_target = instruction.op_count() > 0 && instruction.op0_register() == Register::RSP;
        match (instruction.mnemonic(), self.registers[RSP]) {
            (Mnemonic::Leave, _) => match self.registers[RBP] {
                Value::Stack(offset) => Value::Stack(offset.wrapping_add(8)),
                _ => Value::Unknown,
            },
            (Mnemonic::Mov, _) if is_target => self.moved(instruction),
            (Mnemonic::Lea, _) if is_target => self.address_value(instruction),
            (Mnemonic::Add, Value::Stack(offset)) if is_target => {
                immediate().map_or(Value::Unknown, |by| Value::Stack(offset.wrapping_add_unsigned(by)))
            }
            (Mnemonic::Sub, Value::Stack(offset)) if is_target => {
                immediate().map_or(Value::Unknown, |by| Value::Stack(offset.wrapping_sub_unsigned(by)))
            }
            _ => Value::Unknown,
        }
    }

    fn register(&self, register: Register) -> Value {
        register_index(register).filter(|_| register.is_gpr64() || register.is_gpr32()).map_or(Value::Unknown, |at| {
            match (register.is_gpr64(), self.registers[at]) {
                (true, value) => value,
                (false, raw @ Value::RawOffset { .. }) => raw,
                _ => Value::Unknown,
            }
        })
    }
}

/// Where a memory operand lies.
enum Place {
    Fixed(u64),
    /// An element of a table.
    Indexed {
        base: u64,
    },
    /// In the frame, from the stack pointer at entry.
    Frame(i64),
    /// Behind a pointer that came from outside.
    Foreign,
    Unknown,
}

impl States {
    /// Follows all paths from `entry` and from `others` until nothing changes.
    pub(crate) fn solve(graph: &Graph, entry: u64, others: impl IntoIterator<Item = u64>) -> States {
        let (before, work, starts) = (BTreeMap::new(), BTreeSet::new(), block_starts(graph));
        let mut states = States { before, starts, work, info: InstructionInfoFactory::new() };
        for addr in others.into_iter().filter(|&addr| addr != entry) {
            states.flow_into_place(graph, addr, &State::unknown());
        }
        states.flow_into_place(graph, entry, &State::at_entry());
        states.run(graph);
        states
    }

    /// Follows the new ways out of the indirect jumps at the indices `grown`.
    pub(crate) fn extend(&mut self, graph: &Graph, grown: Vec<usize>) {
        let starts = block_starts(graph);
        let is_new = |index: &usize| starts[*index] && !self.starts[*index];
        let split: Vec<usize> = (0..starts.len()).filter(is_new).collect();
        self.starts = starts;
        // A new start inside a block gets its state from the block around it.
        for index in grown.into_iter().chain(split) {
            if let Some((&around, _)) = self.before.range(..=index).next_back() {
                self.work.insert(around);
            }
        }
        self.run(graph);
    }

    /// The state right before the instruction at `index`, if any path leads there.
    pub(crate) fn before(&self, graph: &Graph, index: usize) -> Option<State> {
        let (&start, state) = self.before.range(..=index).next_back()?;
        let mut state = State::clone(state);
        let mut info = InstructionInfoFactory::new();
        for at in start..index {
            if !graph.steps[at].continues() || graph.following(at).is_none() {
                return None;
            }
            state.apply(&graph.decoded[at], &mut info);
        }
        Some(state)
    }

    fn run(&mut self, graph: &Graph) {
        while let Some(index) = self.work.pop_first() {
            let Some(state) = self.before.get(&index) else { continue };
            self.walk(graph, index, State::clone(state));
        }
    }

    fn walk(&mut self, graph: &Graph, start: usize, mut state: State) {
        let mut index = start;
        loop {
            state.apply(&graph.decoded[index], &mut self.info);
            graph.for_each_target(index, |target| self.flow_into_place(graph, target, &state));
            let next = if graph.steps[index].continues() { graph.following(index) } else { None };
            let Some(next) = next else { return };
            if self.starts[next] {
                self.flow_into(next, &state);
                return;
            }
            index = next;
        }
    }

    fn flow_into_place(&mut self, graph: &Graph, addr: u64, state: &State) {
        if let Some(index) = graph.enter(addr) {
            self.flow_into(index, state);
        }
    }

    fn flow_into(&mut self, index: usize, state: &State) {
        match self.before.get_mut(&index) {
            Some(known) => {
                if known.meet(state) {
                    self.work.insert(index);
                }
            }
            None => {
                self.before.insert(index, Box::new(state.clone()));
                self.work.insert(index);
            }
        }
    }
}

/// Which instructions begin a block: branch targets and what follows a conditional branch.
fn block_starts(graph: &Graph) -> Vec<bool> {
    let mut starts = vec![false; graph.steps.len()];
    for index in 0..graph.steps.len() {
        graph.for_each_target(index, |target| {
            if let Some(target) = graph.enter(target) {
                starts[target] = true;
            }
        });
        if matches!(graph.steps[index].next(), Next::Branch(_)) && index + 1 < starts.len() {
            starts[index + 1] = true;
        }
    }
    starts
}

fn added(left: Value, right: Value) -> Value {
    match (left, right) {
        (Value::Offset { base }, Value::Constant(anchor)) | (Value::Constant(anchor), Value::Offset { base }) => {
            Value::Target(Table { base, form: TableForm::Relative32 { anchor } })
        }
        (Value::Constant(a), Value::Constant(b)) => Value::Constant(a.wrapping_add(b)),
        (Value::Stack(offset), Value::Constant(by)) => Value::Stack(offset.wrapping_add_unsigned(by)),
        _ => Value::Unknown,
    }
}

fn sign_extended(value: Value) -> Value {
    match value {
        Value::RawOffset { base } => Value::Offset { base },
        _ => Value::Unknown,
    }
}

fn pops_stack_pointer(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Pop && instruction.op0_register() == Register::RSP
}

fn writes_stack_pointer(instruction: &Instruction) -> bool {
    let names_it = instruction.op_count() > 0
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().full_register() == Register::RSP
        && !matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt);
    let exchanges_it =
        instruction.mnemonic() == Mnemonic::Xchg && instruction.op1_register().full_register() == Register::RSP;
    names_it || exchanges_it || instruction.is_stack_instruction()
}

/// 0 for rax to 15 for r15.
fn register_index(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}
