//! Where our code keeps what it found in the stack pointer and the registers, at each of its instructions.
//!
//! Code put into a program has no unwind tables, so they are made of the code itself. It is followed from where the
//! program enters it, instruction by instruction. Copies of the program's own instructions need no following: at each, the
//! stack is as it was at the original, whose address is kept (`origin`). From there on, what a register or a saved word
//! holds is known in terms of that place, or not at all: two ways that meet agree, or nothing is said.
//!
//! Next: `trimtab-plan`'s `frames`, which makes rows of it.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, MemorySize, Mnemonic, OpAccess, OpKind,
    Register, UsedMemory,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trimtab_types::ProcAddr;

/// General registers, by their numbers in machine code.
pub const GENERAL_REGISTERS: usize = 16;
/// The stack pointer's number.
pub const STACK_POINTER: usize = 4;
/// Numbers of registers that a called function gives back.
const GIVEN_BACK: [usize; 6] = [3, 5, 12, 13, 14, 15];
const WORD: i64 = 8;
/// Steps from a piece of code's entries before it is given up: every instruction is passed a few times at most.
const STEPS_PER_BYTE_MAX: usize = 64;

/// The place in the program at which everything was as it is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackOrigin {
    /// The program's instruction at this address, before it runs.
    Instruction(ProcAddr),
    /// The first instruction of a function of ours, right after the call.
    Called,
}

/// A place on the stack, in bytes from where the stack pointer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StackPlace {
    /// At the origin.
    Origin(i64),
    /// After the instruction at this address had aligned it.
    Aligned(ProcAddr, i64),
}

/// The value of a register or a word of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldValue {
    /// The value of this register at the origin.
    Register(usize),
    /// A place on the stack.
    Place(StackPlace),
}

/// The known state in front of one instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackState {
    /// Where everything was as the program had it.
    pub origin: StackOrigin,
    /// The value of each general register.
    pub registers: [Option<HeldValue>; GENERAL_REGISTERS],
    /// The values of words of the stack; only those that were written since.
    pub words: BTreeMap<StackPlace, HeldValue>,
}

/// A piece of our code with the ways into it.
#[derive(Clone, Copy, Debug)]
pub struct OurCode<'a> {
    /// Address of the first byte.
    pub at: ProcAddr,
    /// The code; constants may lie between.
    pub bytes: &'a [u8],
    /// Addresses where it is entered, with what is known there.
    pub entries: &'a [(ProcAddr, StackOrigin)],
    /// Copies of the program's instructions by their addresses here, with the addresses of the originals.
    pub copies: &'a BTreeMap<ProcAddr, ProcAddr>,
}

/// The result of following a piece of code.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Each instruction that is reached, with what is known in front of it.
    pub states: BTreeMap<ProcAddr, (Range<ProcAddr>, StackState)>,
    /// Addresses outside that are called.
    pub called: Vec<ProcAddr>,
}

impl StackPlace {
    fn plus(self, bytes: i64) -> StackPlace {
        match self {
            StackPlace::Origin(at) => StackPlace::Origin(at.wrapping_add(bytes)),
            StackPlace::Aligned(by, at) => StackPlace::Aligned(by, at.wrapping_add(bytes)),
        }
    }

    /// Bytes from `other` to this; `None` if that is not known.
    pub fn since(self, other: StackPlace) -> Option<i64> {
        match (self, other) {
            (StackPlace::Origin(at), StackPlace::Origin(from)) => Some(at.wrapping_sub(from)),
            (StackPlace::Aligned(by, at), StackPlace::Aligned(other, from)) if by == other => {
                Some(at.wrapping_sub(from))
            }
            _ => None,
        }
    }
}

impl StackState {
    /// Everything as at `origin`.
    pub fn at(origin: StackOrigin) -> StackState {
        let mut registers = std::array::from_fn(|number| Some(HeldValue::Register(number)));
        registers[STACK_POINTER] = Some(HeldValue::Place(StackPlace::Origin(0)));
        StackState { origin, registers, words: BTreeMap::new() }
    }

    /// Where the stack pointer points.
    pub fn stack(&self) -> Option<StackPlace> {
        self.place_in(STACK_POINTER)
    }

    /// The place whose address a register holds.
    pub fn place_in(&self, register: usize) -> Option<StackPlace> {
        match self.registers[register] {
            Some(HeldValue::Place(place)) => Some(place),
            _ => None,
        }
    }

    /// Keeps what both say; true if this one says less than before.
    fn meet(&mut self, other: &StackState) -> bool {
        let before = (self.registers, self.words.len());
        if self.origin != other.origin {
            self.registers = [None; GENERAL_REGISTERS];
            self.words.clear();
        }
        for (own, others) in self.registers.iter_mut().zip(other.registers) {
            *own = own.filter(|held| others == Some(*held));
        }
        self.words.retain(|place, held| other.words.get(place) == Some(held));
        before != (self.registers, self.words.len())
    }

    fn move_stack(&mut self, bytes: i64) {
        let moved = self.stack().map(|place| place.plus(bytes));
        self.set_stack(moved);
    }

    /// Memory below the stack pointer belongs to nobody.
    fn set_stack(&mut self, place: Option<StackPlace>) {
        self.registers[STACK_POINTER] = place.map(HeldValue::Place);
        if let Some(stack) = place {
            self.words.retain(|word, _| word.since(stack).is_none_or(|above| above >= 0));
        }
    }

    fn forget_words(&mut self, from: StackPlace, bytes: i64) {
        self.words.retain(|word, _| word.since(from).is_none_or(|at| at <= -WORD || at >= bytes));
    }
}

/// Follows a piece of code.
pub fn follow(code: &OurCode<'_>) -> Course {
    let mut following = Following {
        code,
        course: Course::default(),
        pending: Vec::new(),
        indirect: Vec::new(),
        facts: InstructionInfoFactory::new(),
        steps_left: code.bytes.len() * STEPS_PER_BYTE_MAX,
    };
    for (address, origin) in code.entries {
        following.come_to(*address, StackState::at(*origin));
    }
    following.go_on();
    while let Some((from, state)) = following.indirect.pop() {
        following.go_through(from, &state);
    }
    if following.steps_left == 0 { Course::default() } else { following.course }
}

struct Following<'a> {
    code: &'a OurCode<'a>,
    course: Course,
    pending: Vec<ProcAddr>,
    /// The targets of our jumps to calculated places, and the state there.
    indirect: Vec<(ProcAddr, StackState)>,
    facts: InstructionInfoFactory,
    steps_left: usize,
}

impl Following<'_> {
    fn decode(&self, address: ProcAddr) -> Option<Instruction> {
        let offset = usize::try_from(address.0.checked_sub(self.code.at.0)?).ok()?;
        let bytes = self.code.bytes.get(offset..).filter(|bytes| !bytes.is_empty())?;
        let instruction = Decoder::with_ip(64, bytes, address.0, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    fn go_on(&mut self) {
        while let Some(address) = self.pending.pop().filter(|_| self.steps_left > 0) {
            self.steps_left -= 1;
            self.pass(address);
        }
    }

    /// Such a jump of ours leads to one of the pieces right behind it, up to code that is entered in another way.
    fn go_through(&mut self, from: ProcAddr, state: &StackState) {
        let known: BTreeSet<ProcAddr> = self.course.states.keys().copied().collect();
        let mut address = from;
        while let Some(instruction) = self.decode(address).filter(|_| self.steps_left > 0) {
            if known.contains(&address) {
                return;
            }
            if instruction.mnemonic() != Mnemonic::Int3 && !self.course.states.contains_key(&address) {
                self.come_to(address, state.clone());
                self.go_on();
            }
            address = ProcAddr(instruction.next_ip());
        }
    }

    /// The state when control comes to an address. Where a copy stands, all is as at its original.
    fn come_to(&mut self, address: ProcAddr, state: StackState) {
        let Some(instruction) = self.decode(address) else { return };
        let copied = self.code.copies.get(&address);
        let state = copied.map_or(state, |original| StackState::at(StackOrigin::Instruction(*original)));
        match self.course.states.get_mut(&address) {
            Some((_, known)) => {
                if !known.meet(&state) {
                    return;
                }
            }
            None => {
                self.course.states.insert(address, (address..ProcAddr(instruction.next_ip()), state));
            }
        }
        self.pending.push(address);
    }

    fn pass(&mut self, address: ProcAddr) {
        let (Some(instruction), Some((_, state))) = (self.decode(address), self.course.states.get(&address)) else {
            return;
        };
        let mut state = state.clone();
        self.run(&instruction, &mut state);
        let next = ProcAddr(instruction.next_ip());
        match instruction.flow_control() {
            FlowControl::Next => {
                // A copy's length is its original's, so what follows that is known from the tables, too.
                let copied = self.code.copies.get(&address);
                let after = copied.map(|original| ProcAddr(original.0.wrapping_add(instruction.len() as u64)));
                let state = after.map_or(state, |after| StackState::at(StackOrigin::Instruction(after)));
                self.come_to(next, state);
            }
            FlowControl::UnconditionalBranch => self.come_to(ProcAddr(instruction.near_branch_target()), state),
            FlowControl::ConditionalBranch => {
                self.come_to(ProcAddr(instruction.near_branch_target()), state.clone());
                self.come_to(next, state);
            }
            FlowControl::Call => self.call(&instruction, state),
            FlowControl::IndirectCall => self.come_to(next, state),
            // The program's own may lead anywhere.
            FlowControl::IndirectBranch if !self.code.copies.contains_key(&address) => {
                self.indirect.push((next, state))
            }
            _ => {}
        }
    }

    /// A call comes back, unless it only puts a word on the stack: then it leads over a breakpoint right behind it.
    fn call(&mut self, instruction: &Instruction, state: StackState) {
        let (next, target) = (ProcAddr(instruction.next_ip()), ProcAddr(instruction.near_branch_target()));
        if target.0 == next.0.wrapping_add(1) && self.decode(next).is_some_and(|at| at.mnemonic() == Mnemonic::Int3) {
            let mut state =
                self.course.states.get(&ProcAddr(instruction.ip())).map_or(state, |(_, before)| before.clone());
            state.move_stack(-WORD);
            return self.come_to(target, state);
        }
        self.course.called.push(target);
        self.come_to(next, state);
    }

    fn run(&mut self, instruction: &Instruction, state: &mut StackState) {
        match instruction.mnemonic() {
            Mnemonic::Push | Mnemonic::Pushfq => push(instruction, state),
            Mnemonic::Pop | Mnemonic::Popfq => pop(instruction, state),
            Mnemonic::Call => called(state),
            Mnemonic::Mov => self.moved(instruction, state),
            Mnemonic::Lea => self.added(instruction, state, address_of(instruction, state)),
            Mnemonic::Add => self.added(instruction, state, sum(instruction, state, 1)),
            Mnemonic::Sub => self.added(instruction, state, sum(instruction, state, -1)),
            Mnemonic::And if register_of(instruction, 0) == Some(STACK_POINTER) => {
                state.set_stack(Some(StackPlace::Aligned(ProcAddr(instruction.ip()), 0)));
            }
            _ => self.others(instruction, state),
        }
    }

    /// `mov` between registers and words of the stack.
    fn moved(&mut self, instruction: &Instruction, state: &mut StackState) {
        let (to, from) = (register_of(instruction, 0), register_of(instruction, 1));
        match (to, from) {
            (Some(to), Some(from)) => set(state, to, state.registers[from]),
            (Some(to), None) if instruction.op1_kind() == OpKind::Memory => {
                let held = address_of(instruction, state).and_then(|place| state.words.get(&place).copied());
                set(state, to, held);
            }
            (None, Some(from)) if instruction.op0_kind() == OpKind::Memory => {
                let Some(place) = address_of(instruction, state) else { return };
                state.forget_words(place, WORD);
                state.words.extend(state.registers[from].map(|held| (place, held)));
            }
            _ => self.others(instruction, state),
        }
    }

    /// An instruction whose first operand becomes an address.
    fn added(&mut self, instruction: &Instruction, state: &mut StackState, place: Option<StackPlace>) {
        match (register_of(instruction, 0), place) {
            (Some(to), Some(place)) => set(state, to, Some(HeldValue::Place(place))),
            _ => self.others(instruction, state),
        }
    }

    /// Whatever an instruction writes is not known any more.
    fn others(&mut self, instruction: &Instruction, state: &mut StackState) {
        let facts = self.facts.info(instruction);
        let writes = |access: OpAccess| {
            matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
        };
        for used in facts.used_memory().iter().filter(|used| writes(used.access())) {
            if let Some((place, bytes)) = written(used, state) {
                state.forget_words(place, bytes);
            }
        }
        for used in facts.used_registers().iter().filter(|used| writes(used.access())) {
            if used.register().is_gpr() {
                set(state, used.register().full_register().number(), None);
            }
        }
    }
}

fn set(state: &mut StackState, register: usize, held: Option<HeldValue>) {
    match (register, held) {
        (STACK_POINTER, Some(HeldValue::Place(place))) => state.set_stack(Some(place)),
        (STACK_POINTER, _) => state.set_stack(None),
        _ => state.registers[register] = held,
    }
}

/// The number of a whole general register that is an operand.
fn register_of(instruction: &Instruction, operand: u32) -> Option<usize> {
    let is_register = operand < instruction.op_count() && instruction.op_kind(operand) == OpKind::Register;
    let register = if is_register { instruction.op_register(operand) } else { Register::None };
    register.is_gpr64().then(|| register.number())
}

/// The place of a memory operand, if it is one on the stack.
fn address_of(instruction: &Instruction, state: &StackState) -> Option<StackPlace> {
    let (base, segment) = (instruction.memory_base(), instruction.segment_prefix());
    if !base.is_gpr64() || instruction.memory_index() != Register::None || segment != Register::None {
        return None;
    }
    Some(state.place_in(base.number())?.plus(instruction.memory_displacement64() as i64))
}

fn sum(instruction: &Instruction, state: &StackState, sign: i64) -> Option<StackPlace> {
    let constant = instruction.try_immediate(1).ok()? as i64;
    Some(state.place_in(register_of(instruction, 0)?)?.plus(sign * constant))
}

fn written(used: &UsedMemory, state: &StackState) -> Option<(StackPlace, i64)> {
    if !used.base().is_gpr64() || used.index() != Register::None {
        return None;
    }
    let place = state.place_in(used.base().number())?;
    let bytes = if used.memory_size() == MemorySize::Unknown { 0 } else { used.memory_size().size() as i64 };
    Some((place.plus(used.displacement() as i64), bytes))
}

fn push(instruction: &Instruction, state: &mut StackState) {
    let held = register_of(instruction, 0).and_then(|register| state.registers[register]);
    // Two bytes may be pushed, too; nobody does.
    let bytes = if instruction.stack_pointer_increment() == -WORD as i32 { Some(WORD) } else { None };
    let place = state.stack().zip(bytes).map(|(place, bytes)| place.plus(-bytes));
    state.set_stack(place);
    if let Some(place) = place {
        state.forget_words(place, WORD);
        state.words.extend(held.map(|held| (place, held)));
    }
}

fn pop(instruction: &Instruction, state: &mut StackState) {
    if instruction.stack_pointer_increment() != WORD as i32 {
        return state.set_stack(None);
    }
    let held = state.stack().and_then(|place| state.words.get(&place).copied());
    state.move_stack(WORD);
    if let Some(register) = register_of(instruction, 0) {
        set(state, register, held);
    } else if instruction.op_count() > 0
        && instruction.op0_kind() == OpKind::Memory
        && let Some(place) = address_of(instruction, state)
    {
        state.forget_words(place, WORD);
    }
}

/// A call has returned. Routines of ours may change what their callers have saved; that is found in the saved words then.
fn called(state: &mut StackState) {
    for number in (0..GENERAL_REGISTERS).filter(|number| *number != STACK_POINTER) {
        let is_saved = state.words.values().any(|held| *held == HeldValue::Register(number));
        if !GIVEN_BACK.contains(&number) || (is_saved && state.registers[number] == Some(HeldValue::Register(number))) {
            state.registers[number] = None;
        }
    }
}
