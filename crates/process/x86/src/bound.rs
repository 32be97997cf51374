//! How many passes a loop has still before it: its counter, its bound, and the test that compares them.
//!
//! A counter is a place that each way round changes by the same constant. A test is a branch that every pass comes to and
//! that leaves the loop when a counter has come to something that no pass changes. From what both hold when a pass begins
//! follows how often the test lets the loop go on. That counts passes of the header; a loop whose condition is tested
//! before anything else passes it once more than its body.
//!
//! The result rests on two things that code does not show: that nothing else writes to the places in memory, and that
//! no call leaves for good. So whoever claims an end looks at two passes, and at [`LoopBound::has_other_exits`].
//!
//! Next: `linear`, which follows places through a pass.

use crate::blocks::{ControlFlow, Edge};
use crate::instruction::for_each_instruction;
use crate::linear::{ComparedValues, Extension, Linear, State, Value, opposite};
use crate::{Analysis, FunctionCode, Loop};
use iced_x86::{ConditionCode, Instruction, InstructionInfoFactory};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_types::ProcAddr;

/// So many passes are not meant where they stand in the code as a number.
const NO_END_MIN: u64 = 1_000_000;

/// Where a loop's counter and bound are, and what compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopBound {
    /// The counter, as the test sees it.
    pub counter: Linear,
    /// Each pass adds this to it.
    pub step: i64,
    /// The bound, as the test sees it.
    pub bound: Linear,
    /// The loop goes on while this holds; `left` is the counter.
    pub(crate) test: ComparedValues,
    /// It can be left in other ways as well: then this is only how far it goes at most.
    pub has_other_exits: bool,
    /// No call of the loop is made before the test, so the pass that ends it does nothing.
    pub is_tested_first: bool,
}

/// Why nothing is known of how far a loop goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBound {
    /// It is never left but from a loop inside or in the middle of a pass.
    #[error("no branch that every pass comes to leaves the loop")]
    NoTest,
    /// Its tests are of other things.
    #[error("what the loop is left for is no counter with a constant step and a bound that stays")]
    NoCounter,
    /// Passes can't be told.
    #[error("it is entered at several places, and no block is passed once in each of its passes")]
    Irreducible,
}

impl LoopBound {
    /// How many passes of the header come after the one that begins with these values. `None`: the numbers fit no such
    /// loop, or it would go on until the counter wraps around.
    pub fn passes_after(&self, counter: u64, bound: u64) -> Option<u64> {
        let (mut counter, mut bound) = (self.counter.value(counter), self.bound.value(bound));
        let step = self.step.wrapping_mul(self.counter.times);
        let is_narrow = self.test.bits == 32;
        if is_narrow {
            (counter, bound) = (u64::from(counter as u32), u64::from(bound as u32));
        }
        use ConditionCode::{a, ae, b, be, e, g, ge, l, le, ne, ns, s};
        match self.test.condition {
            ne => until_equal(counter, bound, step, is_narrow),
            e => Some(u64::from(counter == bound)),
            l | le | g | ge | s | ns => {
                let wide = |value: u64| if is_narrow { i128::from(value as i32) } else { i128::from(value as i64) };
                until_past(wide(counter), wide(bound), step, self.test.condition)
            }
            b | be | a | ae => until_past(counter.into(), bound.into(), step, self.test.condition),
            _ => None,
        }
    }
}

/// Steps until both are the same.
fn until_equal(counter: u64, bound: u64, step: i64, is_narrow: bool) -> Option<u64> {
    let away = if step > 0 { bound.wrapping_sub(counter) } else { counter.wrapping_sub(bound) };
    let away = if is_narrow { u64::from(away as u32) } else { away };
    let step = step.unsigned_abs();
    (step != 0 && away % step == 0).then(|| away / step)
}

/// Steps while `counter ? bound`, where the counter moves towards the bound.
fn until_past(counter: i128, bound: i128, step: i64, condition: ConditionCode) -> Option<u64> {
    use ConditionCode::{a, ae, b, be, g, ge, l, le, ns, s};
    let step = i128::from(step);
    // The first value with which the loop ends, in the direction of the step.
    let (end, is_upwards) = match condition {
        l | b | s => (bound, true),
        le | be => (bound + 1, true),
        g | a => (bound, false),
        ge | ae | ns => (bound - 1, false),
        _ => return None,
    };
    let away = if is_upwards { end - counter } else { counter - end };
    if away <= 0 {
        return Some(0);
    }
    let towards = if is_upwards { step } else { -step };
    (towards > 0).then(|| u64::try_from((away + towards - 1) / towards).ok()).flatten()
}

/// Finds the counter and the bound of a loop whose passes begin at its header.
///
/// # Errors
/// Why there are none.
pub fn loop_bound(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    flow: &ControlFlow,
    found: &Loop,
) -> Result<LoopBound, NoBound> {
    tested(&Pass::follow(code, analysis, (flow, found), State::at_start())).map(|(bound, _)| bound)
}

/// The same, with the blocks that test.
pub(crate) fn tested(pass: &Pass<'_>) -> Result<(LoopBound, Vec<usize>), NoBound> {
    if !pass.found.is_counted_at_header {
        return Err(NoBound::Irreducible);
    }
    let tests = pass.tests();
    let known: Vec<(usize, Test)> = tests.iter().filter_map(|block| Some((*block, pass.test_at(*block)?))).collect();
    // Compilers copy a test to the ends of several ways through a loop: one of the copies is on each.
    let copies = known.iter().map(|(_, test)| {
        let same = known.iter().filter(|(_, other)| other == test);
        (*test, same.map(|(block, _)| *block).collect::<Vec<usize>>())
    });
    let bounds = copies.filter(|(_, blocks)| pass.goes_through(blocks)).map(|(test, blocks)| {
        let bound = pass.bound_of(test, &blocks);
        (bound, blocks)
    });
    let best = bounds.max_by_key(|(bound, _)| !bound.has_other_exits);
    let is_always_tested = tests.iter().any(|block| pass.goes_through(&[*block]));
    best.ok_or(if is_always_tested { NoBound::NoCounter } else { NoBound::NoTest })
}

/// A comparison, its left side a counter with a step, its right one a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Test {
    comparison: ComparedValues,
    step: i64,
    /// The loop may be left here although it holds, for another condition.
    is_one_of_several: bool,
}

/// One pass of a loop, followed along all of its ways.
pub(crate) struct Pass<'a> {
    flow: &'a ControlFlow,
    found: &'a Loop,
    /// The state before each block of the loop.
    pub(crate) before: BTreeMap<usize, State>,
    /// The state behind each block of the loop.
    after: BTreeMap<usize, State>,
    /// The last instruction of each block of the loop.
    last: BTreeMap<usize, Instruction>,
    /// The ways out of the loop, those aside that nobody takes to leave it.
    exits: Vec<Edge>,
}

impl<'a> Pass<'a> {
    pub(crate) fn follow(
        code: &FunctionCode<'_>,
        analysis: &Analysis,
        (flow, found): (&'a ControlFlow, &'a Loop),
        start: State,
    ) -> Pass<'a> {
        let instructions = by_block(code, analysis, flow, &|block| found.blocks.binary_search(&block).is_ok());
        let last = instructions.iter().filter_map(|(block, all)| Some((*block, *all.last()?))).collect();
        let is_inside = |next: usize| next != found.header && found.blocks.binary_search(&next).is_ok();
        let (before, after) = settle(flow, &instructions, seeds(flow, found, start), &is_inside);
        Pass { flow, found, before, after, last, exits: found.exits.clone() }
    }

    /// The same, with those ways out that `are_none` left aside.
    pub(crate) fn without(mut self, are_none: &dyn Fn(&Edge) -> bool) -> Self {
        self.exits.retain(|exit| !are_none(exit));
        self
    }

    /// Blocks of its own that end in a branch out of the loop.
    fn tests(&self) -> Vec<usize> {
        let mut blocks: Vec<usize> = self.found.exits.iter().filter_map(|exit| self.flow.block_at(exit.from)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let is_own =
            |block: usize| self.flow.blocks[block].innermost_loop.map(|at| &self.flow.loops[at]) == Some(self.found);
        let branches = |block| self.last.get(&block).is_some_and(|last| last.condition_code() != ConditionCode::None);
        blocks.retain(|&block| is_own(block) && branches(block));
        blocks
    }

    /// True if every way round comes to one of these blocks.
    pub(crate) fn goes_through(&self, blocks: &[usize]) -> bool {
        let beside = self.reached_from(self.found.header, blocks);
        !self.latches().iter().any(|latch| beside.contains(latch))
    }

    /// Blocks of the rest of a pass from a block on, itself included, on ways that don't come to one of `without`.
    pub(crate) fn reached_from(&self, from: usize, without: &[usize]) -> BTreeSet<usize> {
        let (mut reached, mut work) = (BTreeSet::new(), vec![from]);
        while let Some(block) = work.pop() {
            if without.contains(&block) || !reached.insert(block) {
                continue;
            }
            let next = self.flow.blocks[block].successors.iter().copied();
            work.extend(next.filter(|next| *next != self.found.header && self.is_inside(*next)));
        }
        reached
    }

    /// The values known behind a block of the loop.
    pub(crate) fn behind(&self, block: usize) -> Option<&State> {
        self.after.get(&block)
    }

    pub(crate) fn is_inside(&self, block: usize) -> bool {
        self.found.blocks.binary_search(&block).is_ok()
    }

    /// True if a pass may come from the block to one of these, and if it is one of them.
    pub(crate) fn comes_to(&self, block: usize, tests: &[usize]) -> bool {
        self.reached_from(block, &[]).iter().any(|reached| tests.contains(reached))
    }

    pub(crate) fn latches(&self) -> Vec<usize> {
        self.found.latches.iter().filter_map(|latch| self.flow.block_at(latch.from)).collect()
    }

    /// The test of a block, if it tests a counter.
    fn test_at(&self, block: usize) -> Option<Test> {
        let last = self.last.get(&block)?;
        let state = self.after.get(&block)?;
        // The loop goes on where the branch does not lead out.
        let leaves_if_taken = self.found.exits.iter().any(|exit| exit.from.0 == last.ip() && exit.is_jump);
        let half = state.half(last.condition_code()).filter(|(_, if_taken)| *if_taken != leaves_if_taken);
        let is_one_of_several = half.is_some();
        let (taken, on) = match half {
            Some((holds, _)) => (holds, holds.condition),
            None => {
                let taken = state.comparison(last.condition_code())?;
                (taken, if leaves_if_taken { opposite(taken.condition)? } else { taken.condition })
            }
        };
        let test = ComparedValues { condition: on, ..taken };
        let swapped =
            swapped(on).map(|on| ComparedValues { left: test.right, right: test.left, condition: on, ..test });
        [Some(test), swapped].into_iter().flatten().find_map(|comparison| {
            let step = self.step_of(&comparison.left, comparison.bits)?;
            let is_test = self.stays(&comparison.right, comparison.bits) && comparison.left.times.abs() == 1;
            is_test.then_some(Test { comparison, step, is_one_of_several })
        })
    }

    /// The test that all of these blocks make.
    fn bound_of(&self, test: Test, blocks: &[usize]) -> LoopBound {
        let is_other = |from: ProcAddr| self.flow.block_at(from).is_none_or(|from| !blocks.contains(&from));
        let mut calls = self.flow.calls.iter().filter(|call| self.is_inside(call.block));
        LoopBound {
            counter: test.comparison.left,
            step: test.step,
            bound: test.comparison.right,
            test: test.comparison,
            has_other_exits: test.is_one_of_several
                || is_no_end(&test.comparison.right, test.step)
                || self.exits.iter().any(|exit| is_other(exit.from)),
            is_tested_first: !calls.any(|call| self.comes_to(call.block, blocks)),
        }
    }

    /// The number that a pass adds to a value's place, if all ways round agree and it is something.
    pub(crate) fn step_of(&self, value: &Linear, bits: u32) -> Option<i64> {
        let mut steps = self.latches().into_iter().map(|latch| self.added(value, bits, latch));
        let first = steps.next()??;
        (first != 0 && steps.all(|step| step == Some(first))).then_some(first)
    }

    /// True if no pass changes what a value is made of.
    fn stays(&self, value: &Linear, bits: u32) -> bool {
        value.place.is_none() || self.latches().into_iter().all(|latch| self.added(value, bits, latch) == Some(0))
    }

    /// The number that a way round adds to a value's place, as far as the test sees it.
    pub(crate) fn added(&self, value: &Linear, bits: u32, latch: usize) -> Option<i64> {
        let is_lower_half_enough = bits == 32 || value.extension != Extension::Whole;
        match self.after.get(&latch)?.value(value.place?) {
            Value::Linear(after) if after.place == value.place && after.times == 1 => {
                (after.extension == Extension::Whole || is_lower_half_enough).then_some(after.add)
            }
            _ => None,
        }
    }
}

/// True of a number in the code that so many steps lead to that it stands for "no end": such a loop ends in another way, where
/// a function that it calls ends the program, say.
pub(crate) fn is_no_end(bound: &Linear, step: i64) -> bool {
    bound.place.is_none() && bound.add.unsigned_abs() / step.unsigned_abs().max(1) >= NO_END_MIN
}

/// Instructions that are reached, of the blocks that are wanted.
pub(crate) fn by_block(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    flow: &ControlFlow,
    is_wanted: &dyn Fn(usize) -> bool,
) -> Instructions {
    let mut instructions = Instructions::new();
    for_each_instruction(code, |instruction| {
        let block = flow.block_at(ProcAddr(instruction.ip())).filter(|block| is_wanted(*block));
        if let Some(block) = block.filter(|_| analysis.is_reached(ProcAddr(instruction.ip()))) {
            instructions.entry(block).or_default().push(*instruction);
        }
    });
    instructions
}

/// Instructions of blocks.
pub(crate) type Instructions = BTreeMap<usize, Vec<Instruction>>;
/// The state at one end of each block.
pub(crate) type States = BTreeMap<usize, State>;

/// The state where a pass begins, and where control comes into it without a branch, as exceptions are caught.
fn seeds(flow: &ControlFlow, found: &Loop, start: State) -> States {
    let is_root = |block: &usize| flow.blocks[*block].predecessors.is_empty();
    let caught = found.blocks.iter().copied().filter(is_root).map(|block| (block, State::unknown()));
    caught.chain([(found.header, start)]).collect()
}

/// Follows blocks until nothing more is unlearnt: what holds before and behind each. Each place of each block is unlearnt
/// once at most.
pub(crate) fn settle(
    flow: &ControlFlow,
    instructions: &Instructions,
    seeds: States,
    goes_to: &dyn Fn(usize) -> bool,
) -> (States, States) {
    let mut info = InstructionInfoFactory::new();
    // A block is followed when all that come before it have been, ways back aside.
    let mut place = vec![usize::MAX; flow.blocks.len()];
    flow.order().iter().enumerate().for_each(|(at, &block)| place[block] = at);
    let mut work: BTreeSet<(usize, usize)> = seeds.keys().map(|&block| (place[block], block)).collect();
    let (mut before, mut after) = (seeds, States::new());
    while let Some((_, block)) = work.pop_first() {
        let Some(mut state) = before.get(&block).cloned() else { continue };
        instructions.get(&block).into_iter().flatten().for_each(|one| state.step(one, &mut info));
        for &next in flow.blocks[block].successors.iter().filter(|next| goes_to(**next)) {
            let is_news = match before.get_mut(&next) {
                Some(known) => known.meet(&state),
                None => before.insert(next, state.clone()).is_none(),
            };
            if is_news {
                work.insert((place[next], next));
            }
        }
        after.insert(block, state);
    }
    (before, after)
}

/// The same with both sides exchanged.
fn swapped(condition: ConditionCode) -> Option<ConditionCode> {
    use ConditionCode::{a, ae, b, be, e, g, ge, l, le, ne};
    Some(match condition {
        e | ne => condition,
        l => g,
        g => l,
        le => ge,
        ge => le,
        b => a,
        a => b,
        be => ae,
        ae => be,
        // Of a comparison with zero, whose sides are told apart by their places.
        _ => return None,
    })
}
