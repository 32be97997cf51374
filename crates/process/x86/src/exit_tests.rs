//! The tests by which a loop is left, as they are seen while it runs: how far apart the two sides of each are.
//!
//! Where code does not show by which step a counter moves, or who writes to it, its value can still be looked at in several
//! passes: a clock of the simulated time with its end, a counter that a called function moves, one that moves by a variable.
//! If the sides come closer by the same in each pass, it follows when they meet, as long as that goes on. That is likely and
//! never sure: the process goes on while it is looked at, so that a look may be one pass off.
//!
//! Next: `approach` for what looks say; `how_far` for counters and bounds that nobody else writes to.

use crate::blocks::{ControlFlow, Edge};
use crate::bound::{Instructions, Pass, by_block};
use crate::called::{Called, Ways};
use crate::how_far::{Failures, Surroundings};
use crate::lent::{ARGUMENTS, is_call, is_write};
use crate::linear::{
    CALL_CHANGES, Extension, Linear, ReadablePlace, State, Value, has_one_register, number_of, opposite,
};
use crate::side::{Element, GoesOn, LoadWord, Side, Sides, Term, Word, goes_on, is_real_comparison, is_signed};
use crate::{Analysis, FunctionCode, Look, Loop};
use iced_x86::{ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register, UsedRegister};
use std::cell::Cell;
use trimtab_types::ProcAddr;

/// Registers that a probe notes for all tests of a loop together.
pub const NOTED_MAX: usize = 3;
/// Blocks before a branch in which its comparison is looked for, and so on.
const BLOCKS_BACK_MAX: usize = 4;
/// Sums between a variable and its comparison.
const VIA_MAX: u32 = 3;
/// Instructions that are followed back from one comparison: those of a loop may lead back to themselves.
const FOLLOWED_MAX: u32 = 32;
/// Words that one side of such a comparison is the sum of.
const TERMS_MAX: usize = 4;

/// The tests by which a loop is left.
#[derive(Clone, Debug, PartialEq)]
pub struct ExitTests {
    tests: Vec<ExitTest>,
    /// Calls whose results it is left by.
    called: Vec<Called>,
    ways: Ways,
    /// It may be left by something that is none of them.
    has_others: bool,
}

/// One test: the loop goes on while `left ? right`.
#[derive(Clone, Debug, PartialEq)]
struct ExitTest {
    left: Side,
    right: Side,
    goes_on: GoesOn,
}

impl ExitTests {
    /// The registers that a probe is to note, by their numbers.
    pub fn registers(&self) -> Vec<u8> {
        let called = self.called.iter().flat_map(Called::places);
        let places = self.tests.iter().flat_map(ExitTest::places).chain(called);
        let mut all: Vec<u8> = places.filter_map(ReadablePlace::register).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// True if the loop may be left in a way that no test shows.
    pub fn has_others(&self) -> bool {
        self.has_others
    }

    /// Both sides of each test now, and of those in called functions, in the pass of this number.
    pub fn look(&self, pass: u64, register: &dyn Fn(u8) -> Option<u64>, load: LoadWord) -> Look {
        let sides = self.tests.iter().map(|test| test.look(register, load)).collect();
        let called = self.ways.look(&self.called, register, load);
        Look { pass, sides, called }
    }
}

impl ExitTest {
    fn places(&self) -> impl Iterator<Item = ReadablePlace> {
        self.left.places().into_iter().chain(self.right.places())
    }

    fn look(&self, register: &dyn Fn(u8) -> Option<u64>, load: LoadWord) -> Option<Sides> {
        let is_whole = !matches!(self.left, Side::Real(_));
        let (left, right) = (self.left.value(register, load)?, self.right.value(register, load)?);
        Some(Sides { left, right, goes_on: self.goes_on, is_whole, compared_at: 0 })
    }
}

/// Finds the tests by which a loop is left, for a probe right before the instruction at `site`. `None`: none can be looked at.
pub fn exit_tests(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    (flow, found): (&ControlFlow, &Loop),
    site: ProcAddr,
    surroundings: &dyn Surroundings,
) -> Option<ExitTests> {
    let instructions = by_block(code, analysis, flow, &|_| true);
    let failures = Failures { flow, instructions: &instructions, surroundings };
    let pass = Pass::follow(code, analysis, (flow, found), State::at_start());
    let (at_site, budget) = (State::unknown(), Cell::new(0));
    let mut search = Search { flow, found, pass: &pass, instructions: &instructions, surroundings, at_site, budget };
    let block = flow.block_at(site)?;
    let index = instructions.get(&block)?.iter().position(|one| one.ip() == site.0)?;
    search.at_site = search.before(block, index)?;
    let exits = found.exits.iter().filter(|exit| !failures.is_one(exit.to));
    // As `setjmp`, behind which a call of the loop may go on.
    let mut returns_twice = flow.calls.iter().filter_map(|call| call.target);
    let has_others = !flow.is_complete || returns_twice.any(|target| surroundings.returns_twice(target));
    let mut all = ExitTests { tests: Vec::new(), called: Vec::new(), ways: Ways::default(), has_others };
    // Compilers may put the same test at several places.
    let mut tests: Vec<(ExitTest, Vec<usize>)> = Vec::new();
    let mut called: Vec<(Called, usize)> = Vec::new();
    for exit in exits {
        match (search.test_of(exit), flow.block_at(exit.from)) {
            (Found::Test(test), Some(block)) => match tests.iter_mut().find(|(known, _)| *known == *test) {
                Some((_, blocks)) => blocks.push(block),
                None => tests.push((*test, vec![block])),
            },
            (Found::Never, _) => {}
            (Found::Other, Some(block)) => match search.called(code, exit) {
                Some(test) => called.push((test, block)),
                None => all.has_others = true,
            },
            _ => all.has_others = true,
        }
    }
    for (test, blocks) in tests {
        // One that only some passes come to is no end when its sides have met, but later.
        if pass.goes_through(&blocks) { all.add(test) } else { all.has_others = true }
    }
    for (test, block) in called {
        if pass.goes_through(&[block]) { all.add_called(test) } else { all.has_others = true }
    }
    (!all.tests.is_empty() || !all.called.is_empty()).then_some(all)
}

impl ExitTests {
    fn add_called(&mut self, test: Called) {
        self.called.push(test);
        // The more arguments, the less likely that they are some.
        while self.registers().len() > NOTED_MAX {
            if self.called.last_mut().and_then(|called| called.registers.pop()).is_none() {
                break;
            }
        }
    }

    fn add(&mut self, test: ExitTest) {
        self.has_others |= test.right.is_no_end() || test.left.is_no_end();
        self.tests.push(test);
        if self.registers().len() > NOTED_MAX {
            self.tests.pop();
            self.has_others = true;
        }
    }
}

/// Code between a call and the branch that goes by its result, in bytes.
const CODE_MAX: u64 = 256;
/// The first arguments of a call, as far as they are looked at.
const ARGUMENTS_MAX: usize = 3;
/// Functions whose results end no loop, and that lead far.
const NEVER_FOLLOWED: [&str; 3] = ["MPI_", "PMPI_", "mpi_"];

enum Found {
    Test(Box<ExitTest>),
    /// Only numbers that are none lead there.
    Never,
    Other,
}

/// From where a register has its value.
enum Origin {
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

/// True if an instruction stores a register's number with a fraction.
fn is_stored(one: &Instruction, register: Register) -> bool {
    use Mnemonic::{Movsd, Movss, Vmovsd, Vmovss};
    let is_store = matches!(one.mnemonic(), Movsd | Movss | Vmovsd | Vmovss) && one.op0_kind() == OpKind::Memory;
    is_store && one.op1_kind() == OpKind::Register && one.op1_register().full_register() == register
}

struct Search<'a> {
    flow: &'a ControlFlow,
    found: &'a Loop,
    pass: &'a Pass<'a>,
    instructions: &'a Instructions,
    surroundings: &'a dyn Surroundings,
    /// The values right before the probe.
    at_site: State,
    /// So many instructions may still be followed back for this test.
    budget: Cell<u32>,
}

impl Search<'_> {
    fn test_of(&self, exit: &Edge) -> Found {
        self.budget.set(FOLLOWED_MAX);
        self.test(exit).unwrap_or(Found::Other)
    }

    fn test(&self, exit: &Edge) -> Option<Found> {
        let block = self.flow.block_at(exit.from)?;
        let branch = self.instructions.get(&block)?.last()?;
        let taken = branch.condition_code();
        let (at, index) = self.comparison_of(block)?;
        let compared = &self.instructions[&at][index];
        let is_real = is_real_comparison(compared);
        if is_real && matches!(taken, ConditionCode::p | ConditionCode::np) {
            return Some(if exit.is_jump == (taken == ConditionCode::p) { Found::Never } else { Found::Other });
        }
        let condition = if exit.is_jump { opposite(taken)? } else { taken };
        let real = |operand| self.real(at, index, operand);
        let test = match is_real {
            true => ExitTest { left: real(0)?, right: real(1)?, goes_on: goes_on(condition)? },
            false => self.whole((at, index), block, condition)?,
        };
        self.are_seen(test.places()).then(|| Found::Test(Box::new(test)))
    }

    /// The call whose result a branch goes by.
    fn called(&self, code: &FunctionCode<'_>, exit: &Edge) -> Option<Called> {
        let block = self.flow.block_at(exit.from)?;
        let branch = self.instructions.get(&block)?.last().filter(|one| one.is_jcc_short_or_near())?;
        let (at, last) = self.call_before(block)?;
        let (index, registers) = self.first_call(at, last)?;
        let call = self.instructions[&at][index].ip();
        let bytes = branch.next_ip().checked_sub(call).filter(|bytes| *bytes <= CODE_MAX)?;
        let range = code.ranges.iter().find(|range| range.contains(ProcAddr(call)))?;
        let from = (call - range.addr.0) as usize;
        let code = range.bytes.get(from..from + bytes as usize)?.to_vec();
        Some(Called { call, branch: exit.from.0, leaves_by_jump: exit.is_jump, code, registers })
    }

    /// A call of a block, or the first of those before it from whose results it has its object, and the registers that are known
    /// there.
    fn first_call(&self, block: usize, last: usize) -> Option<(usize, Vec<(u8, Linear)>)> {
        let all = self.instructions.get(&block)?;
        let mut index = last;
        loop {
            let call = &all[index];
            let target = call.is_call_near().then(|| ProcAddr(call.near_branch_target()));
            let imported = target.and_then(|target| self.surroundings.imported(target)).unwrap_or_default();
            if NEVER_FOLLOWED.iter().any(|name| imported.starts_with(name)) {
                return None;
            }
            let known = self.known_before(block, index)?;
            let earlier = all[..index].iter().rposition(is_call);
            let mut info = InstructionInfoFactory::new();
            let is_given = |number: u8, info: &mut _| {
                let since = earlier.map_or(0, |earlier| earlier + 1);
                all[since..index].iter().any(|one| writes(one, number, info))
            };
            let object = ARGUMENTS[0];
            let mut needed = named_by(call);
            needed.extend(Some(object).filter(|object| is_given(*object, &mut info)));
            if needed.iter().all(|number| known.iter().any(|(known, _)| known == number)) {
                return Some((index, known));
            }
            index = earlier?;
        }
    }

    /// The registers that an indirect call names and its first arguments, as far as they are known.
    fn known_before(&self, block: usize, index: usize) -> Option<Vec<(u8, Linear)>> {
        let state = self.before(block, index)?;
        let mut wanted = named_by(&self.instructions[&block][index]);
        wanted.extend(&ARGUMENTS[..ARGUMENTS_MAX]);
        let mut registers: Vec<(u8, Linear)> = Vec::new();
        for number in wanted {
            let held = match state.value(ReadablePlace::Register(number)) {
                Value::Linear(value) => Some(value),
                _ => self.variable((block, index), Register::RAX + u32::from(number), 0).map(Linear::of),
            };
            let is_new = registers.iter().all(|(known, _)| *known != number);
            registers.extend(held.filter(|_| is_new).map(|held| (number, held)));
        }
        // A register that calls change has no argument before a pass.
        let is_left_over = |place| matches!(place, ReadablePlace::Register(number) if CALL_CHANGES.contains(&number));
        let is_told = |held: &Linear| held.extension != Extension::Lower && !held.place.is_some_and(is_left_over);
        registers.retain(|(_, held)| is_told(held) && self.are_seen(held.place));
        Some(registers)
    }

    /// The last call before the end of a block, on the only way there.
    fn call_before(&self, block: usize) -> Option<(usize, usize)> {
        let mut block = block;
        for _ in 0..BLOCKS_BACK_MAX {
            if let Some(index) = self.instructions.get(&block)?.iter().rposition(is_call) {
                return Some((block, index));
            }
            block = self.only_before(block)?;
        }
        None
    }

    /// The instruction that sets the flags of a branch, by block and index.
    fn comparison_of(&self, block: usize) -> Option<(usize, usize)> {
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
    fn only_before(&self, block: usize) -> Option<usize> {
        match self.all_before(block)[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The blocks of the loop from which control comes to another.
    fn all_before(&self, block: usize) -> Vec<usize> {
        let is_inside = |block: &&usize| self.found.blocks.binary_search(block).is_ok();
        self.flow.blocks[block].predecessors.iter().filter(is_inside).copied().collect()
    }

    /// The state before an instruction of the loop.
    fn before(&self, block: usize, index: usize) -> Option<State> {
        let mut state = self.pass.before.get(&block)?.clone();
        let mut info = InstructionInfoFactory::new();
        self.instructions[&block][..index].iter().for_each(|one| state.step(one, &mut info));
        Some(state)
    }

    /// A comparison of whole numbers that a branch at the end of a block goes by.
    fn whole(&self, (at, index): (usize, usize), block: usize, condition: ConditionCode) -> Option<ExitTest> {
        if let Some(known) = self.pass.behind(block)?.comparison(condition) {
            let side = |value: Linear| Side::whole(value, known.bits, known.condition);
            let (left, right) = (side(known.left), side(known.right));
            return Some(ExitTest { left, right, goes_on: goes_on(known.condition)? });
        }
        let (compared, state) = (&self.instructions[&at][index], self.before(at, index)?);
        let bits = match compared.op0_kind() {
            OpKind::Register => compared.op0_register().size() as u32 * 8,
            _ => compared.memory_size().size() as u32 * 8,
        };
        let side = |number: u32| {
            let named = self.operand(&state, (at, index), number).map(|value| Side::whole(value, bits, condition));
            named.or_else(|| self.element_side((at, index), number, bits, condition))
        };
        let right = match compared.mnemonic() {
            Mnemonic::Cmp => side(1)?,
            Mnemonic::Test if has_one_register(compared) => Side::whole(Linear::constant(0), bits, condition),
            _ => return None,
        };
        let test = ExitTest { left: side(0)?, right, goes_on: goes_on(condition)? };
        matches!(bits, 32 | 64).then_some(test)
    }

    /// An operand, by its value or else by the variable that it is.
    fn operand(&self, state: &State, (at, index): (usize, usize), number: u32) -> Option<Linear> {
        let compared = &self.instructions[&at][index];
        match (state.operand(compared, number), compared.op_kind(number)) {
            (Value::Linear(value), _) => Some(value),
            (_, OpKind::Memory) => self.memory(at, index).map(Linear::of),
            (_, OpKind::Register) => self.variable((at, index), compared.op_register(number), VIA_MAX).map(Linear::of),
            _ => None,
        }
    }

    /// An operand that is an element of an array, or has been loaded from one.
    fn element_side(
        &self,
        (at, index): (usize, usize),
        number: u32,
        bits: u32,
        condition: ConditionCode,
    ) -> Option<Side> {
        let compared = &self.instructions[&at][index];
        let (at, index) = match compared.op_kind(number) {
            OpKind::Memory => (at, index),
            OpKind::Register => {
                let (at, index) = self.last_write(at, index, compared.op_register(number).full_register())?;
                let one = &self.instructions[&at][index];
                let is_load = one.mnemonic() == Mnemonic::Mov && one.op1_kind() == OpKind::Memory;
                is_load.then_some((at, index))?
            }
            _ => return None,
        };
        let element = self.element(at, index).filter(|element| 8 * element.bytes == bits)?;
        Some(Side::Element { element, is_signed: is_signed(condition) })
    }

    /// The memory that an instruction names by a pointer and an index which are in places.
    fn element(&self, at: usize, index: usize) -> Option<Element> {
        let (one, state) = (&self.instructions[&at][index], self.before(at, index)?);
        let held = |register: Register| {
            let value = match state.value(ReadablePlace::Register(number_of(register)? as u8)) {
                Value::Linear(value) => Some(value),
                _ => self.variable((at, index), register, 0).map(Linear::of),
            };
            value.filter(|value| value.extension != Extension::Lower)
        };
        let is_plain = one.segment_prefix() == Register::None && !one.is_ip_rel_memory_operand();
        let base = number_of(one.memory_base()).filter(|_| is_plain)?;
        let (base, index) = match (state.value(ReadablePlace::Register(base as u8)), one.memory_index()) {
            // Without optimisation the address is added up before.
            (Value::Sum(base, index), Register::None) => (base, Some((index, 1))),
            (_, Register::None) => (held(one.memory_base())?, None),
            (_, register) => (held(one.memory_base())?, Some((held(register)?, one.memory_index_scale()))),
        };
        let (offset, bytes) = (one.memory_displacement64() as i64, one.memory_size().size() as u32);
        (base.place.is_some() && matches!(bytes, 4 | 8)).then_some(Element { base, index, offset, bytes })
    }

    /// The memory that an instruction names, in either way.
    fn word(&self, at: usize, index: usize) -> Option<Word> {
        self.memory(at, index).map(Word::Named).or_else(|| self.element(at, index).map(Word::Element))
    }

    /// The memory that an instruction names.
    fn memory(&self, at: usize, index: usize) -> Option<ReadablePlace> {
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
    fn variable(&self, (at, index): (usize, usize), register: Register, via: u32) -> Option<ReadablePlace> {
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
    fn accumulates(&self, number: u8) -> bool {
        let mut info = InstructionInfoFactory::new();
        let all = self.found.blocks.iter().filter_map(|block| self.instructions.get(block)).flatten();
        !CALL_CHANGES.contains(&number)
            && all.into_iter().all(|one| !writes(one, number, &mut info) || adds(one, number))
    }

    /// A number with a fraction as it is compared: of memory, or sums of it.
    fn real(&self, at: usize, index: usize, operand: u32) -> Option<Side> {
        let mut terms = Vec::new();
        self.add_terms((at, index), operand, false, &mut terms)?;
        Some(Side::Real(terms))
    }

    fn add_terms(
        &self,
        (at, index): (usize, usize),
        operand: u32,
        is_subtracted: bool,
        terms: &mut Vec<Term>,
    ) -> Option<()> {
        let one = &self.instructions[&at][index];
        match one.op_kind(operand) {
            OpKind::Memory => add_term(self.word(at, index)?, is_subtracted, terms),
            OpKind::Register => self.add_terms_of((at, index), one.op_register(operand), is_subtracted, terms),
            _ => None,
        }
    }

    /// The words that a register holds the sum of, before an instruction.
    fn add_terms_of(
        &self,
        (at, index): (usize, usize),
        register: Register,
        is_subtracted: bool,
        terms: &mut Vec<Term>,
    ) -> Option<()> {
        let register = register.full_register();
        let (block, index) = match self.origin(at, index, register)? {
            Origin::Write(block, index) => (block, index),
            Origin::Stored(place) => {
                return add_term(Word::Named(place), is_subtracted, terms);
            }
            Origin::Several(before) => return self.add_common_terms(&before, register, is_subtracted, terms),
        };
        let one = &self.instructions[&block][index];
        let place = (block, index);
        use Mnemonic::{
            Movapd, Movaps, Movq, Movsd, Movss, Pxor, Vmovapd, Vmovaps, Vmovq, Vmovsd, Vmovss, Xorpd, Xorps,
        };
        match (one.mnemonic(), one.op_count()) {
            (Movsd | Movss | Movapd | Movaps | Movq | Vmovsd | Vmovss | Vmovapd | Vmovaps | Vmovq, 2) => {
                self.add_terms(place, 1, is_subtracted, terms)
            }
            // Constants come through other registers, too.
            (Mnemonic::Mov, 2) if one.op1_kind() == OpKind::Memory => self.add_terms(place, 1, is_subtracted, terms),
            (Mnemonic::Addsd | Mnemonic::Addss | Mnemonic::Subsd | Mnemonic::Subss, 2) => {
                let is_minus = matches!(one.mnemonic(), Mnemonic::Subsd | Mnemonic::Subss);
                self.add_terms(place, 0, is_subtracted, terms)?;
                self.add_terms(place, 1, is_subtracted != is_minus, terms)
            }
            (Mnemonic::Vaddsd | Mnemonic::Vaddss | Mnemonic::Vsubsd | Mnemonic::Vsubss, 3) => {
                let is_minus = matches!(one.mnemonic(), Mnemonic::Vsubsd | Mnemonic::Vsubss);
                self.add_terms(place, 1, is_subtracted, terms)?;
                self.add_terms(place, 2, is_subtracted != is_minus, terms)
            }
            (Pxor | Xorpd | Xorps, 2) if one.op0_register() == one.op1_register() => Some(()),
            _ => None,
        }
    }

    /// The words that a register holds the sum of at the ends of all these blocks, if they are the same.
    fn add_common_terms(
        &self,
        blocks: &[usize],
        register: Register,
        is_subtracted: bool,
        terms: &mut Vec<Term>,
    ) -> Option<()> {
        let mut common: Option<Vec<Term>> = None;
        for block in blocks {
            let mut own = Vec::new();
            self.add_terms_of((*block, self.instructions.get(block)?.len()), register, is_subtracted, &mut own)?;
            match &common {
                Some(known) if *known != own => return None,
                _ => common = Some(own),
            }
        }
        terms.extend(common?);
        (terms.len() <= TERMS_MAX).then_some(())
    }

    /// The last instruction before one that writes to a register, on the only way there.
    fn last_write(&self, block: usize, index: usize, register: Register) -> Option<(usize, usize)> {
        match self.origin(block, index, register)? {
            Origin::Write(block, index) => Some((block, index)),
            Origin::Stored(_) | Origin::Several(_) => None,
        }
    }

    /// From where a register has what it holds before an instruction.
    fn origin(&self, block: usize, index: usize, register: Register) -> Option<Origin> {
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

    /// True if the registers that are noted at the probe are those that these places are named by.
    fn are_seen(&self, places: impl IntoIterator<Item = ReadablePlace>) -> bool {
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

/// The registers by which an indirect call names its target.
fn named_by(call: &Instruction) -> Vec<u8> {
    let registers = match call.op0_kind() {
        OpKind::Register => [call.op0_register(), Register::None],
        OpKind::Memory => [call.memory_base(), call.memory_index()],
        _ => [Register::None; 2],
    };
    registers.into_iter().filter_map(number_of).map(|number| number as u8).collect()
}

/// Adds a word that may be looked at, if there are not too many already.
fn add_term(word: Word, is_subtracted: bool, terms: &mut Vec<Term>) -> Option<()> {
    terms.push(Term { word, is_subtracted });
    (matches!(word.bytes(), 4 | 8) && terms.len() <= TERMS_MAX).then_some(())
}

fn writes(one: &Instruction, number: u8, info: &mut InstructionInfoFactory) -> bool {
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
