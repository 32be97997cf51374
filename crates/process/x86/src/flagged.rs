//! A loop that is left by a flag, as `while (!done)`: by which comparisons the flag is set.
//!
//! They lie anywhere in the loop, and calls may come between them and the branch that goes by the flag. So the code around the
//! place where it is set is followed at each look, and then the branch's own, as if nothing lay between.
//!
//! Next: `called`, which looks at such code; `exit_tests`, which asks for it.

use crate::FunctionCode;
use crate::blocks::Edge;
use crate::called::Called;
use crate::followed::Resume;
use crate::lent::{is_call, is_write};
use crate::linear::{CALL_CHANGES, Linear, ReadablePlace, Value, has_one_register, number_of};
use crate::search::{Search, code_between, writes};
use iced_x86::{ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use std::collections::{BTreeSet, VecDeque};

/// Blocks between the first comparison and the place behind which the flag stays.
const BLOCKS_MAX: usize = 32;
/// Blocks that are looked through for the next one that every pass comes to, and for those before one.
const SEARCHED_MAX: usize = 64;
/// Instructions between a flag and its branch.
const CHAIN_MAX: usize = 6;
/// Bytes of the loop from the first instruction that is followed to the last one.
const CODE_MAX: u64 = 1 << 16;
const RESULT: u8 = 0;
const STACK_POINTER: u8 = 4;
const FRAME_POINTER: u8 = 5;

/// The code that decides about the flags of a loop.
#[derive(Default)]
pub(crate) struct Flagged {
    /// That of each place where it is set, with the block that every pass comes to.
    pub(crate) called: Vec<(Called, usize)>,
    /// It is set in other places, too, or it is not known how.
    pub(crate) has_others: bool,
}

/// A flag that a branch goes by.
struct Flag {
    place: ReadablePlace,
    /// The first instruction from the flag to the branch.
    from: u64,
    /// The loop is left if it is zero, and else if it is not.
    leaves_at_zero: bool,
    /// It is compared with zero.
    is_by_zero: bool,
}

/// Code from where all is known that decides about a flag, to where it is decided.
#[derive(Clone, PartialEq)]
struct Region {
    start: (usize, usize),
    /// The block of the end, and the address behind the last instruction.
    end: (usize, u64),
    blocks: BTreeSet<usize>,
}

impl Search<'_> {
    /// The code that decides about the flag that an exit's branch goes by. `None`: it goes by none.
    pub(crate) fn flagged(&self, code: &FunctionCode<'_>, exit: &Edge) -> Option<Flagged> {
        self.begin_to_follow();
        let (flag, asked) = (self.flag_of(exit)?, self.flow.block_at(exit.from)?);
        let writes = self.writes_to(flag.place);
        // Neither a counter that is compared with a number is one, nor the result of a call that is asked for at once.
        let all = |is_one: &dyn Fn(usize, usize) -> bool| writes.iter().all(|(block, index)| is_one(*block, *index));
        let is_flag = (flag.is_by_zero && !flag.leaves_at_zero) || all(&|block, index| self.is_truth(block, index));
        if writes.is_empty() || !is_flag || !all(&|block, index| !self.is_result(block, index)) {
            return None;
        }
        let stays =
            |one: &Instruction| is_set_to_number(one).is_some_and(|number| (number == 0) != flag.leaves_at_zero);
        let mut found = Flagged::default();
        let mut regions: Vec<Region> = Vec::new();
        for (block, index) in writes.iter().copied() {
            if stays(&self.instructions[&block][index]) {
                continue;
            }
            match self.region(block, index).filter(|region| self.lasts_behind((region, asked), &writes, &stays)) {
                Some(region) if !regions.contains(&region) => regions.push(region),
                Some(_) => {}
                None => found.has_others = true,
            }
        }
        for region in &regions {
            let is_part = |other: &&Region| *other != region && other.blocks.is_superset(&region.blocks);
            if regions.iter().any(|other| is_part(&other)) {
                continue;
            }
            match self.decided(code, exit, &flag, region) {
                Some(called) => found.called.push((called, region.start.0)),
                None => found.has_others = true,
            }
        }
        found.has_others |= found.called.is_empty();
        Some(found)
    }

    /// The flag that a branch goes by: a variable, or a register that calls leave alone.
    fn flag_of(&self, exit: &Edge) -> Option<Flag> {
        let block = self.flow.block_at(exit.from)?;
        let branch = self.instructions.get(&block)?.last()?;
        let (mut at, mut index) = self.comparison_of(block)?;
        let compared = &self.instructions[&at][index];
        let number = match compared.mnemonic() {
            Mnemonic::Cmp => compared.try_immediate(1).ok()?,
            Mnemonic::Test if has_one_register(compared) => 0,
            Mnemonic::Test => (compared.try_immediate(1).ok()? == 1).then_some(0)?,
            _ => return None,
        };
        let is_equal = match branch.condition_code() {
            ConditionCode::e => exit.is_jump,
            ConditionCode::ne => !exit.is_jump,
            _ => return None,
        };
        let is_by_zero = number == 0;
        let mut leaves_at_zero = is_equal == is_by_zero;
        (number <= 1).then_some(())?;
        let mut from = compared.ip();
        let named = |at: usize, index: usize, leaves_at_zero: bool| {
            let (place, from) = (self.memory(at, index)?, self.address_from(at, index));
            Some(Flag { place, from, leaves_at_zero, is_by_zero })
        };
        let mut register = match compared.op0_kind() {
            OpKind::Memory => return named(at, index, leaves_at_zero),
            _ => compared.op0_register(),
        };
        for _ in 0..CHAIN_MAX {
            let Some((before, place)) = self.last_write(at, index, register.full_register()) else { break };
            let one = &self.instructions[&before][place];
            from = one.ip();
            (at, index) = (before, place);
            match (one.mnemonic(), one.op1_kind()) {
                (Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx, OpKind::Memory) => {
                    return named(at, index, leaves_at_zero);
                }
                (Mnemonic::Mov | Mnemonic::Movzx, OpKind::Register) => register = one.op1_register(),
                (Mnemonic::Xor, _) if one.try_immediate(1).is_ok_and(|number| number == 1) => {
                    leaves_at_zero = !leaves_at_zero
                }
                (Mnemonic::And, _) if one.try_immediate(1).is_ok_and(|number| number == 1) => {}
                _ => return None,
            }
        }
        let number = number_of(register)? as u8;
        let place = ReadablePlace::Register(number);
        (!CALL_CHANGES.contains(&number)).then_some(Flag { place, from, leaves_at_zero, is_by_zero })
    }

    /// The first of the instructions by which memory is named: a register may be loaded right before.
    fn address_from(&self, at: usize, index: usize) -> u64 {
        let one = &self.instructions[&at][index];
        let base = one.memory_base();
        let is_loaded = number_of(base).is_some_and(|number| CALL_CHANGES.contains(&(number as u8)));
        let loaded = is_loaded.then(|| self.last_write(at, index, base.full_register())).flatten();
        loaded.map_or(one.ip(), |(at, index)| self.instructions[&at][index].ip())
    }

    /// The instructions of the loop that write to a flag, by block and index.
    fn writes_to(&self, place: ReadablePlace) -> Vec<(usize, usize)> {
        let mut info = InstructionInfoFactory::new();
        let mut all = Vec::new();
        for block in &self.found.blocks {
            for (index, one) in self.instructions.get(block).into_iter().flatten().enumerate() {
                let is_it = match place {
                    ReadablePlace::Register(number) => writes(one, number, &mut info),
                    _ => {
                        one.op0_kind() == OpKind::Memory
                            && info.info(one).used_memory().iter().any(|used| is_write(used.access()))
                            && self.memory(*block, index).is_some_and(|other| is_same(other, place))
                    }
                };
                if is_it {
                    all.push((*block, index));
                }
            }
        }
        all
    }

    /// True if an instruction writes down a number, or whether something holds.
    fn is_truth(&self, block: usize, index: usize) -> bool {
        let (mut block, mut index) = (block, index);
        for _ in 0..CHAIN_MAX {
            let one = &self.instructions[&block][index];
            let is_condition = one.condition_code() != ConditionCode::None && one.op_count() == 1;
            if is_condition || is_set_to_number(one).is_some() {
                return true;
            }
            let is_copy =
                matches!(one.mnemonic(), Mnemonic::Mov | Mnemonic::Movzx) && one.op1_kind() == OpKind::Register;
            let copied = is_copy.then(|| self.last_write(block, index, one.op1_register().full_register())).flatten();
            let Some(before) = copied else { return false };
            (block, index) = before;
        }
        false
    }

    /// True if an instruction writes down the result of a call.
    fn is_result(&self, block: usize, index: usize) -> bool {
        let all = &self.instructions[&block];
        let Some(call) = all[..index].iter().rposition(is_call) else { return false };
        let mut info = InstructionInfoFactory::new();
        let is_source = |register: Register| register.full_register() == Register::RAX;
        let is_copy = |one: &Instruction| {
            matches!(one.mnemonic(), Mnemonic::Mov | Mnemonic::Movzx)
                && one.op1_kind() == OpKind::Register
                && is_source(one.op1_register())
        };
        let is_kept = |one: &Instruction, info: &mut _| is_copy(one) || !writes(one, RESULT, info);
        is_copy(&all[index]) && all[call + 1..index].iter().all(|one| is_kept(one, &mut info))
    }

    /// The code around a write: from the earliest place from where no call and no loop lies before it, to where every pass
    /// comes behind it.
    fn region(&self, block: usize, index: usize) -> Option<Region> {
        let (end_block, end) = match self.pass.goes_through(&[block]) {
            true => (block, self.instructions[&block][index].next_ip()),
            false => {
                let next = self.behind(block)?;
                (next, self.instructions.get(&next)?.first()?.ip())
            }
        };
        let until = (end_block, if end_block == block { index } else { 0 });
        let mut best = None;
        for start in self.dominators(end_block) {
            let from = match start == end_block {
                true => self.instructions[&start][..until.1].iter().rposition(is_call),
                false => self.instructions.get(&start)?.iter().rposition(is_call),
            };
            let mut blocks = self.pass.reached_from(start, &[end_block]);
            blocks.extend([start, end_block]);
            let is_fit = blocks.len() <= BLOCKS_MAX
                && self.pass.goes_through(&[start])
                && !self.has_loop(&blocks)
                && self.has_way(&blocks, [start, block, end_block]);
            if !blocks.contains(&block) {
                continue;
            } else if !is_fit {
                break;
            }
            best = Some(Region { start: (start, from.map_or(0, |call| call + 1)), end: (end_block, end), blocks });
            if from.is_some() {
                break;
            }
        }
        best
    }

    /// True if a flag that is set in a region is still set in the block that asks for it.
    fn lasts_behind(
        &self,
        (region, asked): (&Region, usize),
        writes: &[(usize, usize)],
        stays: &dyn Fn(&Instruction) -> bool,
    ) -> bool {
        let (end, address) = region.end;
        let behind = self.pass.reached_from(end, &[asked]);
        writes.iter().all(|(block, index)| {
            let one = &self.instructions[block][*index];
            let is_behind = behind.contains(block) && (*block != end || one.ip() >= address);
            let keeps = || one.mnemonic() == Mnemonic::Or || (is_set_to_number(one).is_some() && !stays(one));
            !is_behind || keeps()
        })
    }

    /// The next block behind one that every pass comes to: the first on all ways, so the nearest.
    fn behind(&self, block: usize) -> Option<usize> {
        let (mut known, mut next) = (BTreeSet::from([block]), VecDeque::from([block]));
        for _ in 0..SEARCHED_MAX {
            let at = next.pop_front()?;
            if at != block && self.pass.goes_through(&[at]) {
                return Some(at);
            }
            let successors = self.flow.blocks[at].successors.iter().copied();
            let is_on = |to: usize| to != self.found.header && self.pass.is_inside(to);
            next.extend(successors.filter(|to| is_on(*to) && known.insert(*to)));
        }
        None
    }

    /// The blocks that every way from the beginning of a pass to one comes to, the nearest first, itself included.
    fn dominators(&self, block: usize) -> impl Iterator<Item = usize> + '_ {
        let before = |at: &usize| self.flow.blocks[*at].dominator.filter(|before| self.pass.is_inside(*before));
        std::iter::successors(Some(block), before).take(SEARCHED_MAX)
    }

    fn has_loop(&self, blocks: &BTreeSet<usize>) -> bool {
        // Blocks that nothing leads to any more are taken away until only those in circles are left.
        let mut left = blocks.clone();
        loop {
            let is_led_to = |block: &usize| {
                left.iter()
                    .any(|before| self.flow.blocks[*before].successors.contains(block) && *block != self.found.header)
            };
            let next: BTreeSet<usize> = left.iter().copied().filter(is_led_to).collect();
            if next.len() == left.len() {
                return !left.is_empty();
            }
            left = next;
        }
    }

    /// True if a way without calls leads from the first block of a region to another block of it; both may make some.
    fn has_way(&self, blocks: &BTreeSet<usize>, [start, to, end]: [usize; 3]) -> bool {
        let calls = |block: &usize| self.instructions.get(block).is_none_or(|all| all.iter().any(is_call));
        let is_closed = |block: &usize| ![start, to].contains(block) && (*block == end || calls(block));
        let closed: Vec<usize> = blocks.iter().copied().filter(is_closed).collect();
        self.pass.reached_from(start, &closed).contains(&to)
    }

    fn decided(&self, code: &FunctionCode<'_>, exit: &Edge, flag: &Flag, region: &Region) -> Option<Called> {
        let call = self.instructions.get(&region.start.0)?.get(region.start.1)?.ip();
        let (at, branch) = (region.end.1, self.instructions.get(&self.flow.block_at(exit.from)?)?.last()?);
        let in_region = region.blocks.iter().filter_map(|block| Some(self.instructions.get(block)?.last()?.next_ip()));
        let high = in_region.max()?.max(branch.next_ip());
        let low = region.blocks.iter().map(|block| self.flow.blocks[*block].range.start.0).min()?.min(flag.from);
        let own = code_between(code, low..high, CODE_MAX)?;
        let registers = self.known_at(flag, region)?;
        let resume = Some(Resume { at, from: flag.from });
        let leaves_by_jump = exit.is_jump;
        Some(Called { call, branch: exit.from.0, leaves_by_jump, code: own, code_at: low, registers, resume })
    }

    /// The registers that a region and the flag's branch need, as far as they are known at its start.
    fn known_at(&self, flag: &Flag, region: &Region) -> Option<Vec<(u8, Linear)>> {
        let state = self.before(region.start.0, region.start.1)?;
        let mut read = self.read_in(region)?;
        read.extend(flag.place.register().filter(|_| !matches!(flag.place, ReadablePlace::Register(_))));
        read.sort_unstable();
        read.dedup();
        // Frames first: most variables lie in them.
        read.sort_by_key(|number| (![STACK_POINTER, FRAME_POINTER].contains(number), CALL_CHANGES.contains(number)));
        let known = read.into_iter().filter_map(|number| match state.value(ReadablePlace::Register(number)) {
            Value::Linear(value) => Some((number, value)),
            _ => Some((number, Linear::of(self.loaded_before(region, number)?))),
        });
        Some(known.filter(|(_, held)| self.is_told(held)).collect())
    }

    /// The registers that a region reads before it writes to them; calls are not followed.
    fn read_in(&self, region: &Region) -> Option<Vec<u8>> {
        let mut info = InstructionInfoFactory::new();
        let (mut read, mut written_first) = (Vec::new(), BTreeSet::new());
        let (start, end) = (region.start.0, region.end);
        let others = region.blocks.iter().filter(|block| **block != start);
        for block in [start].iter().chain(others) {
            let mut written = written_first.clone();
            let from = if *block == start { region.start.1 } else { 0 };
            let is_inside = |one: &&Instruction| *block != end.0 || one.ip() < end.1;
            for one in self.instructions.get(block)?.iter().skip(from).take_while(is_inside).filter(|one| !is_call(one))
            {
                let used = info.info(one).used_registers().iter();
                let numbered = used.filter_map(|used| Some((number_of(used.register())? as u8, used.access())));
                for (number, access) in numbered {
                    read.extend(Some(number).filter(|number| access != OpAccess::Write && !written.contains(number)));
                    written.extend(Some(number).filter(|_| access == OpAccess::Write));
                }
            }
            if *block == start {
                written_first = written;
            }
        }
        Some(read)
    }

    /// The variable that a register was loaded from, wherever in the pass before a region.
    fn loaded_before(&self, region: &Region, number: u8) -> Option<ReadablePlace> {
        let (block, from) = region.start;
        let mut info = InstructionInfoFactory::new();
        let mut write_in = |block: usize, until: usize| {
            let all = self.instructions.get(&block)?.get(..until)?;
            all.iter().rposition(|one| writes(one, number, &mut info))
        };
        let whole = |block: usize| self.instructions.get(&block).map_or(0, Vec::len);
        if let Some(index) = write_in(block, from) {
            return self.load_at(block, index);
        }
        for before in self.dominators(block).skip(1) {
            let between = self.pass.reached_from(before, &[block]);
            let is_written =
                between.iter().filter(|other| **other != before).any(|other| write_in(*other, whole(*other)).is_some());
            match write_in(before, whole(before)) {
                _ if is_written => return None,
                Some(index) => return self.load_at(before, index),
                None => {}
            }
        }
        None
    }

    fn load_at(&self, block: usize, index: usize) -> Option<ReadablePlace> {
        let one = &self.instructions[&block][index];
        let is_load = matches!(one.mnemonic(), Mnemonic::Mov | Mnemonic::Movsxd) && one.op1_kind() == OpKind::Memory;
        is_load.then(|| self.memory(block, index)).flatten()
    }
}

/// The number that an instruction sets its target to.
fn is_set_to_number(one: &Instruction) -> Option<u64> {
    match one.mnemonic() {
        Mnemonic::Xor if has_one_register(one) => Some(0),
        Mnemonic::Mov => one.try_immediate(1).ok(),
        _ => None,
    }
}

/// True if both are of one variable, however much of it is named.
fn is_same(one: ReadablePlace, other: ReadablePlace) -> bool {
    use ReadablePlace::{Behind, Fixed, Frame};
    match (one, other) {
        (Frame { register, offset, .. }, Frame { register: other, offset: at, .. }) => {
            (register, offset) == (other, at)
        }
        (Fixed { address, .. }, Fixed { address: other, .. }) => address == other,
        (Behind { register, slot, offset, .. }, Behind { register: other, slot: behind, offset: at, .. }) => {
            (register, slot, offset) == (other, behind, at)
        }
        _ => false,
    }
}
