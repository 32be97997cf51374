//! Objects whose address nobody but a function's caller and those that are given it can know, as `this` of a method or
//! parameters that `main` has in its frame: what is read through such a pointer changes only where this code shows it.
//!
//! The pointer is followed from the argument that it came in, through registers and slots of the frame, along every way
//! through the function. It must be kept nowhere else, and whatever is given it is looked into. The caller must have the
//! object in its own frame, and must not have put its address anywhere either.
//!
//! Next: `how_far`, which asks; `lent` for objects of the function itself.

use crate::bound::{Instructions, States, by_block, settle};
use crate::how_far::Surroundings;
use crate::lent::{
    ARGUMENTS, OBJECT_BYTES, OBJECT_BYTES_SEEN, is_call, is_write, may_write_so_far, number, on_stack, writes_at_most,
};
use crate::library::{declared, keeps_for_later};
use crate::linear::{CALL_CHANGES, Linear, ReadablePlace, State, Value};
use crate::written::is_immediate;
use crate::{Analysis, ControlFlow, FunctionCode, Loop};
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trimtab_types::ProcAddr;

const RAX: u8 = 0;
const RDX: u8 = 2;
const RSP: u8 = 4;
const RBP: u8 = 5;
/// Bytes that no write comes to: who is asked for them says whether an address is kept.
pub(crate) const NO_BYTES: Range<i64> = 1 << 40..(1 << 40) + 1;
/// Every write comes to these.
const ALL_BYTES: Range<i64> = -(1 << 39)..1 << 39;
/// Blocks of a function beyond which it is not followed.
const BLOCKS_MAX: usize = 1500;

/// The relation of a register or a slot to the pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// The pointer plus this.
    Of(i64),
    /// The pointer plus this or more, as what walks upwards through an array.
    AtLeast(i64),
    /// It or a part of the object, which one is chosen by an index.
    Element,
    /// The pointer or another one.
    Maybe,
}

/// At one point: what is made of the pointer; whatever is not listed has nothing to do with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Held {
    registers: BTreeMap<u8, Made>,
    /// By their distance from the stack pointer's first value.
    slots: BTreeMap<i64, Made>,
}

impl Held {
    /// With what another way here holds; true if that is more.
    fn join(&mut self, other: &Held) -> bool {
        let before = self.clone();
        join(&mut self.registers, &other.registers);
        join(&mut self.slots, &other.slots);
        *self != before
    }
}

/// Where both ways have it, but not the same, it walks; where only one has it, the other may have another one.
fn join<K: Ord + Copy>(one: &mut BTreeMap<K, Made>, other: &BTreeMap<K, Made>) {
    for (key, made) in one.iter_mut() {
        *made = match (*made, other.get(key)) {
            (same, Some(other)) if same == *other => same,
            (Made::Maybe, _) | (Made::Of(_), None) | (_, Some(Made::Maybe)) => Made::Maybe,
            (Made::Of(at), Some(Made::Of(other))) => Made::AtLeast(at.min(*other)),
            // A pointer that comes to less with each way round walks downwards.
            (Made::AtLeast(least), Some(Made::Of(at) | Made::AtLeast(at))) if *at >= least => Made::AtLeast(least),
            (Made::Of(at), Some(Made::AtLeast(least))) if at >= *least => Made::AtLeast(*least),
            _ => Made::Element,
        };
    }
    for (key, made) in other {
        let alone = if made.is_part() { Made::Element } else { Made::Maybe };
        one.entry(*key).or_insert(alone);
    }
}

/// The care with which code is looked at that has the pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// Whoever has it may use it for all that it could reach.
    All,
    /// An element that is chosen by an index is none of the bytes, as a program writes to a variable by its name; of another
    /// module's function only the very address is held against it.
    Names,
    /// As `Names`, and the bytes must not be read either: a pointer lies there.
    Untouched,
    /// Writes are no matter, only that no address of the object is kept for later. Code that is not known keeps it, but of
    /// another module's function it is taken that it does not, unless it is known to.
    Keeping,
}

impl Care {
    fn is_by_name(self) -> bool {
        matches!(self, Care::Names | Care::Untouched)
    }

    /// The answer for code that is not known, which is given an address that the bytes are counted from.
    pub fn of_unknown(self, bytes: &Range<i64>) -> Option<Returned> {
        (self == Care::Names && !bytes.contains(&0)).then_some(Returned::Other)
    }
}

/// Where a function has the pointer from.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// It came in this register.
    Argument(u8),
    /// The object lies in the frame, so far from the stack pointer's first value; addresses from `from` on may be of it.
    Frame { at: i64, from: i64, end: i64 },
    /// The object lies at a fixed address.
    Fixed { begin: u64, end: u64 },
}

/// Something may write to the bytes, or learn their address.
struct Shared;

/// A function that has a pointer to some bytes.
struct PointerWalk<'a> {
    flow: &'a ControlFlow,
    instructions: &'a Instructions,
    /// The state before each block, in terms of that when the function began.
    before: &'a States,
    surroundings: &'a dyn Surroundings,
    entry: ProcAddr,
    origin: Origin,
    /// Counted from the pointer.
    bytes: Range<i64>,
    /// Blocks in which the bytes must not be written.
    quiet: &'a dyn Fn(usize) -> bool,
    /// Blocks to which nothing may lead from where an exception is caught: there the frame is not known.
    must_not_come: &'a dyn Fn(usize) -> bool,
    care: Care,
    /// The word by its name in the loop, whose own instructions may write to it; with the states of the loop's pass.
    own: Option<(ReadablePlace, &'a States)>,
}

/// A question about a loop: a place behind a pointer.
pub(crate) struct Question<'a> {
    pub(crate) flow: &'a ControlFlow,
    pub(crate) found: &'a Loop,
    pub(crate) instructions: &'a Instructions,
    pub(crate) before: &'a States,
    pub(crate) in_pass: &'a States,
    pub(crate) surroundings: &'a dyn Surroundings,
    pub(crate) entry: ProcAddr,
}

impl Question<'_> {
    /// True if the place lies behind a pointer that the function was given, and nothing else writes to it while the loop
    /// runs than instructions of the loop that name it so.
    pub(crate) fn is_private(&self, place: ReadablePlace) -> bool {
        let (holder, offset, bytes) = match place {
            ReadablePlace::Frame { register, offset, bytes } => (ReadablePlace::Register(register), offset, bytes),
            ReadablePlace::Behind { register, slot, offset, bytes } => {
                (ReadablePlace::Frame { register, offset: slot, bytes: 8 }, offset, bytes)
            }
            ReadablePlace::Register(_) | ReadablePlace::Fixed { .. } => return false,
        };
        ARGUMENTS.into_iter().any(|argument| {
            let Some(more) = self.held(argument, &NO_BYTES, holder, place) else { return false };
            let begin = more.wrapping_add(offset);
            let bytes = begin..begin.wrapping_add(i64::from(bytes));
            self.held(argument, &bytes, holder, place) == Some(more)
                && self.surroundings.is_own_of_callers(argument, bytes)
        })
    }

    /// The distance of what the holder holds in each pass from the pointer in that argument, unless something else may
    /// write to the bytes.
    fn held(&self, argument: u8, bytes: &Range<i64>, holder: ReadablePlace, place: ReadablePlace) -> Option<i64> {
        let Question { flow, instructions, before, surroundings, entry, .. } = *self;
        // While it is asked where the pointer is, writes are no matter.
        let quiet = |block: usize| *bytes != NO_BYTES && self.found.blocks.binary_search(&block).is_ok();
        let must_not_come = |block: usize| block == self.found.header;
        let walk = PointerWalk {
            flow,
            instructions,
            before,
            surroundings,
            entry,
            origin: Origin::Argument(argument),
            bytes: bytes.clone(),
            quiet: &quiet,
            must_not_come: &must_not_come,
            care: Care::All,
            own: Some((place, self.in_pass)),
        };
        let all = walk.follow().ok()?;
        let held = all.get(&self.found.header)?;
        let made = match holder {
            ReadablePlace::Register(number) => held.registers.get(&number)?,
            ReadablePlace::Frame { register, offset, .. } => {
                let base = before.get(&self.found.header)?.value(ReadablePlace::Register(register));
                held.slots.get(&on_stack(base)?.wrapping_add(offset))?
            }
            _ => return None,
        };
        match made {
            Made::Of(more) => Some(*more),
            Made::AtLeast(_) | Made::Element | Made::Maybe => None,
        }
    }
}

/// The relation of a function's result to an address that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// None.
    Other,
    /// It is the address plus this.
    Address(i64),
    /// It may be made of it.
    Maybe,
    /// Its second half may be, or that is an argument which the function left where it was.
    Second,
    /// Both of its halves may be.
    Both,
}

impl Returned {
    /// Either.
    fn or(self, other: Returned) -> Returned {
        match (self, other) {
            _ if self == other => self,
            (Returned::Second, Returned::Other) | (Returned::Other, Returned::Second) => Returned::Second,
            (Returned::Second | Returned::Both, _) | (_, Returned::Second | Returned::Both) => Returned::Both,
            _ => Returned::Maybe,
        }
    }

    fn of(held: &Held) -> Returned {
        match (held.registers.get(&RAX), held.registers.get(&RDX)) {
            (None, Some(_)) => Returned::Second,
            (Some(_), Some(_)) => Returned::Both,
            (Some(Made::Of(more)), None) => Returned::Address(*more),
            (Some(Made::AtLeast(_) | Made::Element | Made::Maybe), None) => Returned::Maybe,
            (None, None) => Returned::Other,
        }
    }
}

/// A function that leaves bytes alone which are counted from the address in an argument, and keeps no such address: the
/// relation of its result to that. `None`: it may write to them or keep it.
pub fn leaves_alone(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    flow: &ControlFlow,
    (argument, bytes, care): (u8, &Range<i64>, Care),
    surroundings: &dyn Surroundings,
) -> Option<Returned> {
    let known = followed(code, analysis, flow)?;
    let ends = |block: usize| {
        let last = known.0.get(&block).and_then(|all| all.last());
        last.is_none_or(|last| !is_call(last) && flow.blocks[block].successors.is_empty())
    };
    let quiet = |_| care != Care::Keeping;
    let about = About { origin: Origin::Argument(argument), bytes, quiet: &quiet, must_not_come: &ends, care };
    about.returned(flow, code.entry, &known, surroundings)
}

/// True if a function may keep an address of a variable that lies at these addresses: puts it into memory other than its
/// own frame, returns it, or gives it to a function that may.
pub fn keeps_address(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    flow: &ControlFlow,
    addresses: &Range<ProcAddr>,
    surroundings: &dyn Surroundings,
) -> bool {
    let Some(known) = followed(code, analysis, flow) else { return true };
    let origin = Origin::Fixed { begin: addresses.start.0, end: addresses.end.0 };
    let (quiet, must_not_come) = (&|_| false, &|_| false);
    let about = About { origin, bytes: &NO_BYTES, quiet, must_not_come, care: Care::Keeping };
    about.returned(flow, code.entry, &known, surroundings) != Some(Returned::Other)
}

/// A question about a whole function.
struct About<'a> {
    origin: Origin,
    bytes: &'a Range<i64>,
    quiet: &'a dyn Fn(usize) -> bool,
    must_not_come: &'a dyn Fn(usize) -> bool,
    care: Care,
}

impl About<'_> {
    /// The relation of the function's result to the pointer; `None`: it may do what it must not.
    fn returned(
        &self,
        flow: &ControlFlow,
        entry: ProcAddr,
        (instructions, before): &(Instructions, States),
        surroundings: &dyn Surroundings,
    ) -> Option<Returned> {
        let About { origin, bytes, quiet, must_not_come, care } = *self;
        let bytes = bytes.clone();
        let own = None;
        let walk = PointerWalk {
            flow,
            instructions,
            before,
            surroundings,
            entry,
            origin,
            bytes,
            quiet,
            must_not_come,
            care,
            own,
        };
        let all = walk.follow().ok()?;
        let mut returned = None;
        for (block, mut held) in all {
            let gone = walk.walk(block, |at| {
                at.step(&mut held)?;
                if at.one.flow_control() == FlowControl::Return || at.is_left() {
                    let now = Returned::of(&held);
                    returned = Some(returned.map_or(now, |other: Returned| other.or(now)));
                }
                Ok(())
            });
            gone.ok()?;
        }
        Some(returned.unwrap_or(Returned::Other))
    }
}

/// True if what a function gives to the one that it calls at `call` lies in its own frame and it hands the address to
/// nobody who could keep it, or if that lies at a fixed address and is a variable that nobody else writes to.
pub fn passes_own(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    flow: &ControlFlow,
    (call, argument, bytes): (ProcAddr, u8, &Range<i64>),
    surroundings: &dyn Surroundings,
) -> bool {
    let Some(known) = followed(code, analysis, flow) else { return false };
    let [value] = values_at(&known, call, argument)[..] else { return false };
    if let Value::Linear(Linear { place: None, add, .. }) = value {
        let address = ProcAddr(add.wrapping_add(bytes.start) as u64);
        return surroundings.variable(address, (bytes.end - bytes.start) as u32).is_some();
    }
    let Some(at) = on_stack(value).filter(|at| at.wrapping_add(bytes.end) <= 0) else { return false };
    let from = at.min(at + bytes.start - OBJECT_BYTES + 1);
    let origin = Origin::Frame { at, from, end: at + bytes.end };
    let calls = flow.block_at(call);
    let about =
        About { origin, bytes, quiet: &|_| false, must_not_come: &|block| Some(block) == calls, care: Care::All };
    about.returned(flow, code.entry, &known, surroundings).is_some()
}

/// The values of a register before an instruction.
fn values_at((instructions, before): &(Instructions, States), at: ProcAddr, register: u8) -> Vec<Value> {
    let mut info = InstructionInfoFactory::new();
    let mut values = Vec::new();
    for (block, state) in before {
        let mut state = state.clone();
        for one in instructions.get(block).into_iter().flatten() {
            if one.ip() == at.0 {
                values.push(state.value(ReadablePlace::Register(register)));
            }
            state.step(one, &mut info);
        }
    }
    values
}

/// A function's instructions, and what is known before each block.
fn followed(code: &FunctionCode<'_>, analysis: &Analysis, flow: &ControlFlow) -> Option<(Instructions, States)> {
    let entry = flow.block_at(code.entry).filter(|_| flow.is_complete && flow.blocks.len() <= BLOCKS_MAX)?;
    let instructions = by_block(code, analysis, flow, &|_| true);
    let roots = (0..flow.blocks.len()).filter(|block| flow.blocks[*block].predecessors.is_empty());
    let seeds = roots.map(|root| (root, State::unknown())).chain([(entry, State::cautious())]).collect();
    let (before, _) = settle(flow, &instructions, seeds, &|_| true);
    Some((instructions, before))
}

impl PointerWalk<'_> {
    /// The state of the pointer before each block.
    fn follow(&self) -> Result<BTreeMap<usize, Held>, Shared> {
        let entry = self.flow.block_at(self.entry).ok_or(Shared)?;
        let is_careful = self.care == Care::All;
        if is_careful && self.caught().any(|root| self.comes_too_far(root)) {
            return Err(Shared);
        }
        let registers = match self.origin {
            Origin::Argument(number) => [(number, Made::Of(0))].into(),
            Origin::Frame { .. } | Origin::Fixed { .. } => BTreeMap::new(),
        };
        let mut all: BTreeMap<usize, Held> = [(entry, Held { registers, ..Held::default() })].into();
        let (mut work, mut thrown, mut spilt) = (vec![entry], Held::default(), BTreeSet::new());
        while let Some(block) = work.pop() {
            let mut held = all[&block].clone();
            let mut is_thrown_anew = false;
            self.walk(block, |at| {
                if is_call(at.one) {
                    is_thrown_anew |= thrown.join(&held);
                }
                at.step(&mut held)
            })?;
            spilt.extend(held.slots.keys().copied());
            let successors = self.flow.blocks[block].successors.iter().map(|next| (*next, &held));
            for (next, held) in successors.chain(self.caught().map(|root| (root, &thrown))) {
                let is_news = match all.get_mut(&next) {
                    Some(known) => known.join(held),
                    None => all.insert(next, held.clone()).is_none(),
                };
                if is_news {
                    work.push(next);
                }
            }
        }
        if self.care != Care::Names {
            self.check_slots(&spilt)?;
        }
        Ok(all)
    }

    /// Calls the handler for each instruction of a block.
    fn walk(&self, block: usize, mut visit: impl FnMut(&At<'_>) -> Result<(), Shared>) -> Result<(), Shared> {
        let mut state = self.before.get(&block).ok_or(Shared)?.clone();
        let mut in_pass = self.own.and_then(|(_, states)| states.get(&block).cloned());
        let mut info = InstructionInfoFactory::new();
        for one in self.instructions.get(&block).into_iter().flatten() {
            let own = self.own.map(|(place, _)| place);
            let is_own =
                own.is_some_and(|own| in_pass.as_ref().and_then(|state| state.memory_operand(one)) == Some(own));
            visit(&At { walk: self, one, state: &state, is_own, is_quiet: (self.quiet)(block) })?;
            state.step(one, &mut info);
            in_pass.iter_mut().for_each(|state| state.step(one, &mut info));
        }
        Ok(())
    }

    /// Slots that hold the pointer must be read as such only, and nobody may use their addresses to come to it: what has that
    /// of something right below could have that of an object with the pointer in it.
    fn check_slots(&self, spilt: &BTreeSet<i64>) -> Result<(), Shared> {
        if spilt.is_empty() {
            return Ok(());
        }
        for block in self.before.keys() {
            self.walk(*block, |at| {
                let is_lent = at.near(spilt).any(|(number, from_it)| at.lends(number, &from_it, *block));
                if is_lent || at.loses_sight(spilt) || at.reads_oddly(spilt) { Err(Shared) } else { Ok(()) }
            })?;
        }
        Ok(())
    }

    /// True if the bytes lie before that address of the object, and are not all that there are.
    fn are_before(&self, at: i64) -> bool {
        at > self.bytes.start && self.bytes.end - self.bytes.start < ALL_BYTES.end
    }

    /// True if what a call returns, in either half, may be read before it is overwritten.
    fn is_result_read(&self, call: u64, block: usize) -> bool {
        [Register::RAX, Register::RDX].into_iter().any(|half| self.is_read_behind(half, call, block))
    }

    fn is_read_behind(&self, half: Register, call: u64, block: usize) -> bool {
        let mut info = InstructionInfoFactory::new();
        let (mut known, mut work) = (BTreeSet::new(), vec![(block, Some(call))]);
        while let Some((block, behind)) = work.pop() {
            let all = self.instructions.get(&block).into_iter().flatten();
            let mut all = all.filter(|one| behind.is_none_or(|call| one.ip() > call));
            match all.find_map(|one| use_of_result(one, half, &mut info)) {
                Some(true) => return true,
                Some(false) => {}
                None => {
                    let successors = &self.flow.blocks[block].successors;
                    if successors.is_empty() {
                        return true;
                    }
                    work.extend(successors.iter().filter(|next| known.insert(**next)).map(|next| (*next, None)));
                }
            }
        }
        false
    }

    /// True if control may come from there where it must not.
    fn comes_too_far(&self, root: usize) -> bool {
        let (mut known, mut work) = (BTreeSet::from([root]), vec![root]);
        while let Some(block) = work.pop() {
            if (self.must_not_come)(block) {
                return true;
            }
            work.extend(self.flow.blocks[block].successors.iter().copied().filter(|next| known.insert(*next)));
        }
        false
    }

    /// Blocks where exceptions are caught.
    fn caught(&self) -> impl Iterator<Item = usize> {
        let is_root = |block: &usize| self.flow.blocks[*block].predecessors.is_empty();
        let begins = |block: &usize| self.flow.blocks[*block].range.start == self.entry;
        (0..self.flow.blocks.len()).filter(move |block| is_root(block) && !begins(block))
    }
}

/// True if an instruction reads a half of a call's result, false if that is gone with it.
fn use_of_result(one: &Instruction, half: Register, info: &mut InstructionInfoFactory) -> Option<bool> {
    let used = info.info(one).used_registers();
    let mut of_result = used.iter().filter(|used| used.register().full_register() == half).peekable();
    let is_used = of_result.peek().is_some();
    if of_result.any(|used| used.access() != OpAccess::Write || used.register().size() < 4) {
        return Some(true);
    }
    // The address of something in its frame is nothing that a function returns.
    (is_used || is_call(one) || one.flow_control() == FlowControl::Return).then_some(false)
}

/// One instruction, and what holds before it.
struct At<'a> {
    walk: &'a PointerWalk<'a>,
    one: &'a Instruction,
    state: &'a State,
    /// It names the word itself as the loop does.
    is_own: bool,
    /// The bytes must not be written here.
    is_quiet: bool,
}

impl At<'_> {
    fn of(&self, held: &Held, register: Register) -> Option<Made> {
        let number = number(register.full_register()).filter(|number| *number != RSP)?;
        held.registers.get(&number).copied().or_else(|| self.by_value(number))
    }

    /// A register that holds an address of the frame's object.
    fn by_value(&self, number: u8) -> Option<Made> {
        let Origin::Frame { at, from, end } = self.walk.origin else { return None };
        let address = on_stack(self.state.value(ReadablePlace::Register(number)))?;
        (number != RBP && (from..end).contains(&address)).then_some(Made::Of(address - at))
    }

    /// The address of the object at a fixed place that an instruction makes.
    fn by_number(&self, number: u64) -> Option<Made> {
        let Origin::Fixed { begin, end } = self.walk.origin else { return None };
        (begin..end).contains(&number).then(|| Made::Of((number - begin) as i64))
    }

    /// The same, if it is put into a register or, with an index, is a part of what is put there.
    fn created(&self) -> Option<Made> {
        let one = self.one;
        match one.mnemonic() {
            Mnemonic::Lea if one.is_ip_rel_memory_operand() || one.memory_base() == Register::None => {
                let made = self.by_number(one.memory_displacement64())?;
                Some(if one.memory_index() == Register::None { made } else { Made::Element })
            }
            Mnemonic::Lea => self.by_number(one.memory_displacement64()).map(|_| Made::Element),
            _ => self.immediate().map(|made| if one.mnemonic() == Mnemonic::Mov { made } else { Made::Element }),
        }
    }

    /// The same, where it stands in the instruction itself.
    fn immediate(&self) -> Option<Made> {
        let one = self.one;
        let is_one = |index: &u32| is_immediate(one.op_kind(*index));
        (0..one.op_count()).filter(is_one).find_map(|index| self.by_number(one.immediate(index)))
    }

    /// True if it leaves the function by a jump.
    fn is_left(&self) -> bool {
        let flow = self.walk.flow;
        match self.one.flow_control() {
            FlowControl::UnconditionalBranch => flow.block_at(ProcAddr(self.one.near_branch_target())).is_none(),
            FlowControl::IndirectBranch => {
                flow.block_at(ProcAddr(self.one.ip())).is_some_and(|block| flow.blocks[block].successors.is_empty())
            }
            _ => false,
        }
    }

    fn step(&self, held: &mut Held) -> Result<(), Shared> {
        let one = self.one;
        if is_call(one) || self.is_left() {
            return self.call(held);
        }
        let mut info = InstructionInfoFactory::new();
        self.check_memory(held, &mut info)?;
        let made = self.result(held, &mut info);
        for used in info.info(one).used_registers().iter().filter(|used| is_write(used.access())) {
            let register = used.register().full_register();
            let Some(number) = number(register) else {
                let is_flag = !(register.is_vector_register() || register.is_mm() || register.is_st());
                if made.is_some_and(|made| self.may_reach(made)) && !is_flag {
                    return Err(Shared);
                }
                continue;
            };
            // It may keep what it had, or a part of that.
            let may_stay =
                matches!(used.access(), OpAccess::CondWrite | OpAccess::ReadCondWrite) || used.register().size() < 4;
            let made = if may_stay { made.or(self.of(held, register)).map(|_| Made::Maybe) } else { made };
            match made.filter(|_| number != RSP) {
                Some(made) => held.registers.insert(number, made),
                None => held.registers.remove(&number),
            };
        }
        Ok(())
    }

    /// The relation of the registers that are written to the pointer afterwards.
    fn result(&self, held: &Held, info: &mut InstructionInfoFactory) -> Option<Made> {
        let one = self.one;
        if let Some(made) = self.created() {
            return Some(made);
        }
        let is_wide = one.op_count() > 0 && one.op0_kind() == OpKind::Register && one.op0_register().is_gpr64();
        let has_memory = (1..one.op_count()).any(|index| one.op_kind(index) == OpKind::Memory);
        let is_number = one.op_count() == 2 && one.op1_kind() != OpKind::Register && !has_memory;
        match one.mnemonic() {
            Mnemonic::Mov if is_wide && one.op1_kind() == OpKind::Register => return self.of(held, one.op1_register()),
            Mnemonic::Mov if is_wide && has_memory => {
                return self.slot().and_then(|slot| held.slots.get(&slot)).copied();
            }
            Mnemonic::Lea if is_wide && one.memory_index() == Register::None => {
                let more = one.memory_displacement64() as i64;
                return self.of(held, one.memory_base()).map(|made| made.plus(more));
            }
            Mnemonic::Add if is_wide && is_number => {
                return self.of(held, one.op0_register()).map(|made| made.plus(one.immediate(1) as i64));
            }
            Mnemonic::Xor | Mnemonic::Sub
                if is_wide && one.op1_kind() == OpKind::Register && one.op0_register() == one.op1_register() =>
            {
                return None;
            }
            _ => {}
        }
        // A value that is read from memory by the pointer is none.
        let is_load = one.mnemonic() != Mnemonic::Lea;
        let is_changed = matches!(info.info(one).op0_access(), OpAccess::ReadWrite | OpAccess::ReadCondWrite);
        let is_also_operand = |register| is_changed && one.op0_register() == register;
        let is_base = |register: Register| {
            is_load && [one.memory_base(), one.memory_index()].contains(&register) && !is_also_operand(register)
        };
        let used = info.info(one).used_registers().to_vec();
        let is_made = used.iter().any(|used| {
            !matches!(used.access(), OpAccess::Write | OpAccess::CondWrite | OpAccess::None)
                && self.of(held, used.register()).is_some()
                && !is_base(used.register())
        });
        is_made.then_some(Made::Element)
    }

    /// Registers that hold an address of the frame at or right below one of these words, with the word's bytes from there.
    fn near(&self, spilt: &BTreeSet<i64>) -> impl Iterator<Item = (u8, Range<i64>)> {
        let registers = (0..16).filter(|number| ![RSP, RBP].contains(number));
        registers.flat_map(|number| {
            let address = on_stack(self.state.value(ReadablePlace::Register(number)));
            let words =
                address.into_iter().flat_map(|at| spilt.range(at - 7..at + OBJECT_BYTES).map(move |word| word - at));
            words.map(move |word| (number, word..word + 8)).collect::<Vec<_>>()
        })
    }

    /// True if it makes an address of the frame of which it is not known where it lies, and it may be that of an object with one
    /// of these words in it.
    fn loses_sight(&self, spilt: &BTreeSet<i64>) -> bool {
        let one = self.one;
        let at = |register: Register, more: i64| {
            let register = number(register)?;
            Some(on_stack(self.state.value(ReadablePlace::Register(register)))?.wrapping_add(more))
        };
        let (base, index) = (one.memory_base(), one.memory_index());
        let more = one.memory_displacement64() as i64;
        let made = match one.mnemonic() {
            Mnemonic::Lea if index != Register::None => [at(base, more), at(index, more)],
            Mnemonic::Add | Mnemonic::Sub if one.op1_kind() == OpKind::Register => {
                [at(one.op0_register(), 0), at(one.op1_register(), 0)]
            }
            _ => [None, None],
        };
        made.into_iter().flatten().any(|at| spilt.range(at - 7..at + OBJECT_BYTES_SEEN).next().is_some())
    }

    /// True if the register with an address is put into memory or given to a call, by which somebody may come to bytes from
    /// there.
    fn lends(&self, number: u8, from_it: &Range<i64>, block: usize) -> bool {
        let one = self.one;
        if is_call(one) {
            return ARGUMENTS.contains(&number) && self.lends_to(number, from_it, block);
        }
        let is_it = |register: Register| register.is_gpr() && register.full_register().number() == usize::from(number);
        let is_copied =
            (0..one.op_count()).any(|index| one.op_kind(index) == OpKind::Register && is_it(one.op_register(index)));
        let is_named = [one.memory_base(), one.memory_index()].into_iter().any(is_it);
        let is_kept_in_sight = match one.mnemonic() {
            Mnemonic::Mov | Mnemonic::Lea => true,
            Mnemonic::Add => one.op1_kind() != OpKind::Register,
            _ => false,
        };
        let is_moved = is_kept_in_sight && one.op0_kind() == OpKind::Register && one.op0_register().is_gpr64();
        let is_left = self.is_left() && ARGUMENTS.contains(&number);
        is_left
            || one.is_string_instruction()
            || (is_copied && !is_moved)
            || (is_named && one.memory_index() != Register::None)
    }

    /// The same of a call.
    fn lends_to(&self, argument: u8, from_it: &Range<i64>, block: usize) -> bool {
        let At { walk, one, state, .. } = *self;
        let Some(target) = one.is_call_near().then(|| ProcAddr(one.near_branch_target())) else { return true };
        let Some(name) = walk.surroundings.imported(target) else {
            return match walk.surroundings.leaves_alone(target, argument, (from_it.clone(), Care::Untouched)) {
                Some(Returned::Other) => false,
                Some(_) => walk.is_result_read(one.ip(), block),
                None => true,
            };
        };
        let Some(known) = declared(&name) else { return true };
        let is_written = from_it.contains(&0) || may_write_so_far(&name, argument, state, from_it);
        (is_written && !known.leaves_alone(argument))
            || (known.returns(argument) && walk.is_result_read(one.ip(), block))
    }

    /// The word of the frame that it reads or writes.
    fn slot(&self) -> Option<i64> {
        let is_plain = self.one.memory_index() == Register::None && self.one.memory_size().size() == 8;
        self.on_stack().filter(|_| is_plain)
    }

    /// Where in the frame its memory lies.
    fn on_stack(&self) -> Option<i64> {
        let base = number(self.one.memory_base())?;
        let base = on_stack(self.state.value(ReadablePlace::Register(base)))?;
        Some(base.wrapping_add(self.one.memory_displacement64() as i64))
    }

    /// True if it reads one of these words in another way than into a register.
    fn reads_oddly(&self, spilt: &BTreeSet<i64>) -> bool {
        let one = self.one;
        let Some(at) = self.on_stack().filter(|_| one.mnemonic() != Mnemonic::Lea) else { return false };
        let is_there = spilt.range(at - 7..at + one.memory_size().size().max(1) as i64).next().is_some();
        let has_it_first = one.op_count() > 0 && one.op0_kind() == OpKind::Memory;
        let is_plain = self.slot().is_some_and(|slot| spilt.contains(&slot))
            && match one.mnemonic() {
                Mnemonic::Mov => has_it_first || one.op0_register().is_gpr64(),
                Mnemonic::Cmp | Mnemonic::Test => true,
                _ => false,
            };
        is_there && !is_plain
    }

    /// Writes to memory: by the pointer, or of the pointer itself.
    fn check_memory(&self, held: &mut Held, info: &mut InstructionInfoFactory) -> Result<(), Shared> {
        let one = self.one;
        if !info.info(one).used_memory().iter().any(|used| is_write(used.access())) {
            return if self.walk.care == Care::Untouched && self.reads(held, info) { Err(Shared) } else { Ok(()) };
        }
        if let Some(made) = self.immediate() {
            return self.put(held, made);
        }
        if one.mnemonic() == Mnemonic::Push {
            let pointer = if one.op0_kind() == OpKind::Register { self.of(held, one.op0_register()) } else { None };
            return if pointer.is_some_and(|made| self.may_reach(made)) { Err(Shared) } else { Ok(()) };
        }
        let registers = (1..one.op_count()).filter(|index| one.op_kind(*index) == OpKind::Register);
        if let Some(made) = { registers }.find_map(|index| self.of(held, one.op_register(index))) {
            return self.put(held, made);
        }
        if let Some(slot) = self.slot().filter(|_| one.mnemonic() == Mnemonic::Mov) {
            held.slots.remove(&slot);
        }
        if one.is_string_instruction() {
            let is_by_pointer = [Register::RDI, Register::RSI].into_iter().any(|by| self.of(held, by).is_some());
            return if is_by_pointer && self.is_quiet { Err(Shared) } else { Ok(()) };
        }
        let is_beside = self.is_beside(held);
        if is_beside || self.is_own || !self.is_quiet { Ok(()) } else { Err(Shared) }
    }

    /// True if it reads the bytes, or may read them.
    fn reads(&self, held: &Held, info: &mut InstructionInfoFactory) -> bool {
        let one = self.one;
        let is_read = info.info(one).used_memory().iter().any(|used| used.access() != OpAccess::NoMemAccess);
        let is_by_pointer = || [Register::RDI, Register::RSI].into_iter().any(|by| self.of(held, by).is_some());
        is_read && (!self.is_beside(held) || (one.is_string_instruction() && is_by_pointer()))
    }

    /// True if its memory is none of the bytes.
    fn is_beside(&self, held: &Held) -> bool {
        let one = self.one;
        match (self.of(held, one.memory_base()), self.of(held, one.memory_index())) {
            (None, None) => true,
            (Some(Made::Of(at)), None) if one.memory_index() == Register::None => {
                let at = at.wrapping_add(one.memory_displacement64() as i64);
                let bytes = &self.walk.bytes;
                at >= bytes.end || at + one.memory_size().size() as i64 <= bytes.start
            }
            (Some(Made::AtLeast(at)), None) if one.memory_index() == Register::None => {
                at.wrapping_add(one.memory_displacement64() as i64) >= self.walk.bytes.end
                    || self.walk.care.is_by_name()
            }
            (Some(Made::Maybe), _) => false,
            _ => self.walk.care.is_by_name(),
        }
    }

    /// Puts it into memory: that may be a slot of the frame.
    fn put(&self, held: &mut Held, made: Made) -> Result<(), Shared> {
        let one = self.one;
        let is_whole = one.op_count() == 2 && (one.op1_register().is_gpr64() || is_immediate(one.op1_kind()));
        match self.slot().filter(|_| one.mnemonic() == Mnemonic::Mov && is_whole) {
            Some(slot) => {
                held.slots.insert(slot, made);
                Ok(())
            }
            None if self.may_reach(made) => Err(Shared),
            None => Ok(()),
        }
    }

    /// True if the bytes may be reached by what is made of the pointer so.
    fn may_reach(&self, made: Made) -> bool {
        match (made, self.walk.care) {
            (_, Care::All | Care::Keeping) | (Made::Maybe, _) => true,
            (Made::Of(at), Care::Names | Care::Untouched) => !self.walk.are_before(at),
            (Made::AtLeast(_) | Made::Element, Care::Names | Care::Untouched) => false,
        }
    }

    /// A call, or a jump to another function.
    fn call(&self, held: &mut Held) -> Result<(), Shared> {
        let one = self.one;
        let is_direct = one.is_call_near() || one.is_jmp_short_or_near();
        let target = is_direct.then(|| ProcAddr(one.near_branch_target()));
        let bytes = if self.is_quiet { &self.walk.bytes } else { &NO_BYTES };
        let (mut result, mut second) = (None, None);
        for argument in ARGUMENTS.into_iter().chain([10, 11]) {
            let made = held.registers.get(&argument).copied().or_else(|| self.by_value(argument));
            let Some(made) = made else { continue };
            let returned = self.gives(target, (argument, made), bytes)?;
            if matches!(returned, Returned::Second | Returned::Both) {
                second = Some(Made::Maybe);
            }
            let now = match (made, returned) {
                (_, Returned::Other | Returned::Second) => continue,
                (made @ Made::Of(_), Returned::Address(more)) => made.plus(more),
                _ => Made::Maybe,
            };
            result = Some(if result.is_none_or(|other| other == now) { now } else { Made::Maybe });
        }
        CALL_CHANGES.iter().for_each(|number| {
            held.registers.remove(number);
        });
        held.registers.extend([(RAX, result), (RDX, second)].into_iter().filter_map(|(to, made)| Some((to, made?))));
        Ok(())
    }
}

impl At<'_> {
    /// The relation of a function's result to what it is given, which is made of the pointer.
    fn gives(
        &self,
        target: Option<ProcAddr>,
        (argument, made): (u8, Made),
        bytes: &Range<i64>,
    ) -> Result<Returned, Shared> {
        let At { walk: PointerWalk { surroundings, care, .. }, state, .. } = *self;
        let is_by_name = care.is_by_name();
        // A part of the object behind these bytes is another one.
        let is_behind = matches!(made, Made::Of(at) | Made::AtLeast(at) if self.walk.are_before(at));
        if is_behind || (is_by_name && made.is_part()) {
            return Ok(Returned::Other);
        }
        let is_argument = ARGUMENTS.contains(&argument);
        let Some(target) = target.filter(|_| is_argument) else {
            return if *care == Care::Names { Ok(Returned::Maybe) } else { Err(Shared) };
        };
        let from_it = |at: i64| bytes.start.wrapping_sub(at)..bytes.end.wrapping_sub(at);
        let Some(name) = surroundings.imported(target) else {
            // Where writes are no matter here, they are none further down.
            let care = if *care == Care::All && !self.is_quiet { Care::Keeping } else { *care };
            // Of an address that may be any of the object's nothing may be written.
            let bytes = if let Made::Of(at) = made { from_it(at) } else { ALL_BYTES };
            return surroundings.leaves_alone(target, argument, (bytes, care)).ok_or(Shared);
        };
        let declared = declared(&name);
        // Of those that are declared none reads a pointer out of what it is given, in order to use it.
        if *care == Care::Untouched && declared.is_none() {
            return Err(Shared);
        }
        let is_left_alone = declared.is_some_and(|known| known.leaves_alone(argument));
        let is_safe = match made {
            _ if is_left_alone => true,
            _ if keeps_for_later(&name) => {
                let bytes = &self.walk.bytes;
                is_by_name && matches!(made, Made::Of(at) if !(bytes.start..bytes.end).contains(&at))
            }
            // Any other of a library keeps no address, but may write to all that lies behind one.
            Made::Of(at) if !is_by_name && self.is_quiet => {
                at <= self.walk.bytes.start
                    && writes_at_most(&name, argument, state).is_some_and(|reach| from_it(at).start >= reach)
            }
            _ if !is_by_name => !self.is_quiet,
            Made::Of(at) => !from_it(at).contains(&0) && !may_write_so_far(&name, argument, state, &from_it(at)),
            _ => true,
        };
        match (is_safe, declared.is_some_and(|known| !known.returns(argument))) {
            (false, _) => Err(Shared),
            (true, true) => Ok(Returned::Other),
            (true, false) => Ok(Returned::Maybe),
        }
    }
}

impl Made {
    fn plus(self, more: i64) -> Made {
        match self {
            Made::Of(at) => Made::Of(at.wrapping_add(more)),
            Made::AtLeast(at) => Made::AtLeast(at.wrapping_add(more)),
            other => other,
        }
    }

    /// True of a part of the object of which it is not known where it lies.
    fn is_part(self) -> bool {
        matches!(self, Made::Element | Made::AtLeast(_))
    }
}
