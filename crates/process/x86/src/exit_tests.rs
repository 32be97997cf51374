//! The tests by which a loop is left, as they are seen while it runs: how far apart the two sides of each are.
//!
//! Where code does not show by which step a counter moves, or who writes to it, its value can still be looked at in several
//! passes: a clock of the simulated time with its end, a counter that a called function moves, one that moves by a variable.
//! If the sides come closer by the same in each pass, it follows when they meet, as long as that goes on. That is likely and
//! never sure: the process goes on while it is looked at, so that a look may be one pass off.
//!
//! Next: `flagged` for flags that are set elsewhere; `approach` for what looks say; `how_far` for counters and bounds that nobody else writes to.

use crate::blocks::{ControlFlow, Edge};
use crate::bound::{Pass, by_block};
use crate::called::{Called, Ways};
use crate::how_far::{Failures, Surroundings};
use crate::lent::{ARGUMENTS, is_call};
use crate::linear::{Extension, Linear, ReadablePlace, State, Value, has_one_register, number_of, opposite};
use crate::search::{BLOCKS_BACK_MAX, Origin, Search, code_between, writes};
use crate::side::{Element, GoesOn, LoadWord, Side, Sides, Term, Word, goes_on, is_real_comparison, is_signed};
use crate::{Analysis, FunctionCode, Look, Loop};
use iced_x86::{ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};
use std::cell::Cell;
use trimtab_types::ProcAddr;

/// Registers that a probe notes for all tests of a loop together.
pub const NOTED_MAX: usize = 3;
/// Sums between a variable and its comparison.
const VIA_MAX: u32 = 3;
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
        if let Some(flagged) = search.flagged(code, exit) {
            all.has_others |= flagged.has_others;
            called.extend(flagged.called);
            continue;
        }
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

impl Search<'_> {
    fn test_of(&self, exit: &Edge) -> Found {
        self.begin_to_follow();
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
        let code = code_between(code, call..branch.next_ip(), CODE_MAX)?;
        let (branch, leaves_by_jump) = (exit.from.0, exit.is_jump);
        Some(Called { call, branch, leaves_by_jump, code, code_at: call, registers, resume: None })
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
        registers.retain(|(_, held)| self.is_told(held));
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
