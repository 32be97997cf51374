//! The values of registers along a function's paths, as far as they tell where an indirect jump leads and whether the
//! stack frame is gone.
//!
//! A small abstract interpretation: each register is a known address, a place in the frame, an entry of a table,
//! something that came from outside, or unknown; where paths meet, what differs becomes unknown. It only ever errs
//! towards unknown. Next: `states` follows the paths; `jump_table` reads the tables found.

use crate::jump_table::{Table, TableForm};
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, MemorySize, Mnemonic, OpAccess, OpKind, Register};

/// The value of a register or a slot of the frame.
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
    /// A jump target taken from the table that begins here: a distance added to an address this far from the table.
    RelativeTarget { base: u64, anchor: i32 },
    /// A jump target taken from the table of addresses that begins here.
    AbsoluteTarget { base: u64 },
}

impl Value {
    /// The table that a jump to this value goes through.
    pub(crate) fn table(self) -> Option<Table> {
        let (base, form) = match self {
            Value::RelativeTarget { base, anchor } => {
                (base, TableForm::Relative32 { anchor: base.wrapping_add_signed(anchor.into()) })
            }
            Value::AbsoluteTarget { base } => (base, TableForm::Absolute64),
            _ => return None,
        };
        Some(Table { base, form })
    }
}

/// Registers and frame slots at one point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    registers: [Value; 16],
    /// Values stored in the frame, by distance from the stack pointer at entry.
    slots: Vec<(i64, Value)>,
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
    pub(crate) fn at_entry() -> State {
        let mut registers = [Value::Foreign; 16];
        registers[RSP] = Value::Stack(0);
        State { registers, slots: Vec::new() }
    }

    /// At a place that control may reach in ways not followed.
    pub(crate) fn unknown() -> State {
        State { registers: [Value::Unknown; 16], slots: Vec::new() }
    }

    /// How far the stack pointer is below where it was at entry, in bytes, if known.
    pub(crate) fn depth(&self) -> Option<i64> {
        match self.registers[RSP] {
            Value::Stack(offset) => Some(-offset),
            _ => None,
        }
    }

    /// The value that the indirect jump takes its target from.
    pub(crate) fn jump_value(&self, jump: &Instruction) -> Value {
        match jump.op0_kind() {
            OpKind::Register => register_index(jump.op0_register()).map_or(Value::Unknown, |at| self.registers[at]),
            OpKind::Memory => self.load(jump),
            _ => Value::Unknown,
        }
    }

    /// Keeps what both states agree on; true if anything changed.
    pub(crate) fn meet(&mut self, other: &State) -> bool {
        let mut changed = false;
        for (mine, theirs) in self.registers.iter_mut().zip(other.registers) {
            if *mine != theirs && *mine != Value::Unknown {
                *mine = Value::Unknown;
                changed = true;
            }
        }
        if self.slots == other.slots {
            return changed;
        }
        let slots_before = self.slots.len();
        let mut rest = other.slots.as_slice();
        self.slots.retain(|slot| {
            let ahead = rest.iter().take_while(|theirs| theirs.0 < slot.0).count();
            rest = &rest[ahead..];
            rest.first() == Some(slot)
        });
        changed || self.slots.len() != slots_before
    }

    /// The effect of one instruction.
    pub(crate) fn apply(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        let result = self.result(instruction);
        let stack_pointer = self.stack_pointer_after(instruction);
        self.store(instruction);
        for_each_written(instruction, info, |at| self.registers[at] = Value::Unknown);
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
            if matches!(sum, Value::RelativeTarget { .. }) && instruction.memory_displacement64() == 0 {
                return sum;
            }
        }
        match self.place(instruction) {
            MemoryOperand::Fixed(address) => Value::Constant(address),
            MemoryOperand::Indexed { base } => Value::Element { base },
            MemoryOperand::Frame(offset) => Value::Stack(offset),
            MemoryOperand::Foreign | MemoryOperand::Unknown => Value::Unknown,
        }
    }

    /// The value read by a memory operand.
    fn load(&self, instruction: &Instruction) -> Value {
        let size = instruction.memory_size();
        let is_wide = matches!(size, MemorySize::UInt64 | MemorySize::Int64 | MemorySize::QwordOffset);
        match self.place(instruction) {
            MemoryOperand::Fixed(_) | MemoryOperand::Foreign if is_wide => Value::Foreign,
            MemoryOperand::Indexed { base } if is_wide => Value::AbsoluteTarget { base },
            MemoryOperand::Indexed { base } if matches!(size, MemorySize::UInt32 | MemorySize::Int32) => {
                Value::RawOffset { base }
            }
            MemoryOperand::Frame(offset) if is_wide => self.slot(offset),
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
    fn place(&self, instruction: &Instruction) -> MemoryOperand {
        if matches!(instruction.memory_segment(), Register::FS | Register::GS) {
            return MemoryOperand::Foreign;
        }
        if instruction.is_ip_rel_memory_operand() {
            return MemoryOperand::Fixed(instruction.ip_rel_memory_address());
        }
        let displacement = instruction.memory_displacement64();
        let has_index = instruction.memory_index() != Register::None;
        let base = match instruction.memory_base() {
            Register::None => Value::Constant(0),
            register => self.register(register),
        };
        match (base, has_index) {
            (Value::Constant(base), false) => MemoryOperand::Fixed(base.wrapping_add(displacement)),
            (Value::Constant(base), true) => self.indexed(instruction, base.wrapping_add(displacement)),
            (Value::Element { base }, false) if displacement == 0 => MemoryOperand::Indexed { base },
            (Value::Stack(offset), false) => MemoryOperand::Frame(offset.wrapping_add_unsigned(displacement)),
            (Value::Foreign, false) => MemoryOperand::Foreign,
            (_, true) if instruction.memory_index_scale() == 1 => match self.register(instruction.memory_index()) {
                Value::Constant(base) => MemoryOperand::Indexed { base: base.wrapping_add(displacement) },
                _ => MemoryOperand::Unknown,
            },
            _ => MemoryOperand::Unknown,
        }
    }

    fn indexed(&self, instruction: &Instruction, base: u64) -> MemoryOperand {
        match (base, instruction.memory_index_scale()) {
            // No base at all and a small displacement: an object that the "index" points to.
            (base, 1) if base < crate::PAGE_BYTES => MemoryOperand::Unknown,
            (base, 1 | 4 | 8) => MemoryOperand::Indexed { base },
            _ => MemoryOperand::Unknown,
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
                    MemoryOperand::Frame(offset) if instruction.op1_register().is_gpr64() => {
                        Some((offset, self.register(instruction.op1_register())))
                    }
                    MemoryOperand::Frame(offset) => Some((offset, Value::Unknown)),
                    _ => None,
                }
            }
            _ if instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Memory => {
                match self.place(instruction) {
                    MemoryOperand::Frame(offset) => Some((offset, Value::Unknown)),
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
enum MemoryOperand {
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

/// Calls `run` with each general register the instruction may write. The usual instructions are known without asking.
fn for_each_written(instruction: &Instruction, info: &mut InstructionInfoFactory, mut run: impl FnMut(usize)) {
    let reads_only = matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop)
        || matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch);
    let writes_first = matches!(
        instruction.mnemonic(),
        Mnemonic::Mov
            | Mnemonic::Lea
            | Mnemonic::Add
            | Mnemonic::Sub
            | Mnemonic::Xor
            | Mnemonic::And
            | Mnemonic::Or
            | Mnemonic::Movzx
            | Mnemonic::Movsx
            | Mnemonic::Movsxd
    );
    if writes_first {
        if instruction.op0_kind() == OpKind::Register {
            register_index(instruction.op0_register()).into_iter().for_each(run);
        }
    } else if !reads_only || matches!(instruction.mnemonic(), Mnemonic::Loop | Mnemonic::Loope | Mnemonic::Loopne) {
        for used in info.info(instruction).used_registers() {
            let writes = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess);
            register_index(used.register()).filter(|_| writes).into_iter().for_each(&mut run);
        }
    }
}

fn added(left: Value, right: Value) -> Value {
    match (left, right) {
        (Value::Offset { base }, Value::Constant(anchor)) | (Value::Constant(anchor), Value::Offset { base }) => {
            let anchor = i32::try_from(anchor.wrapping_sub(base) as i64);
            anchor.map_or(Value::Unknown, |anchor| Value::RelativeTarget { base, anchor })
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
