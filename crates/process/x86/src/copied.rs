//! Parts of a loop's passes that a compiler may have put before or behind the loop, as it does when it peels or splits one.
//!
//! A loop makes all of its passes itself if each of them makes a call that nobody else makes on the way to the loop or
//! from it. Debugging information tells more: a call outside of the block of the source that the loop's own variable is
//! declared for is no part of a pass, and a call inside of that block which is made before the loop is a pass, or a part of
//! one, that the loop does not count.
//!
//! Next: `how_far`, which asks.

use crate::how_far::Look;
use crate::lent::{is_call, is_write};
use crate::linear::{Linear, ReadablePlace, State, Value};
use crate::{CallSite, Loop};
use iced_x86::{ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};
use std::collections::BTreeSet;
use trimtab_types::ProcAddr;

const RBP: u8 = 5;

/// The place in the source that an instruction was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeSource {
    /// The blocks around it, outermost first.
    pub blocks: Vec<SourceBlock>,
    /// Where it is written.
    pub position: SourcePosition,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePosition {
    /// The file, as the compiler named it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1; 0: not known.
    pub column: u32,
}

/// A block of the source, or a copy of a function that was inlined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceBlock {
    /// Tells it from all other blocks of its file.
    pub id: u32,
    /// It is a copy of a function.
    pub is_inlined: bool,
    /// Where its own variables are declared: file and line.
    pub variables: Vec<(String, u32)>,
}

impl CodeSource {
    fn is_in(&self, block: u32) -> bool {
        self.blocks.iter().any(|one| one.id == block)
    }

    /// The copies of functions that it lies in.
    fn copies(&self) -> Vec<u32> {
        self.blocks.iter().filter(|block| block.is_inlined).map(|block| block.id).collect()
    }
}

/// The body of a loop in the source, as far as it is known.
enum Body {
    /// The block for which the loop's own variable is declared, and the test in its head.
    Block(u32, SourcePosition),
    /// Lines and columns of the tests and calls that are known to be in it, in these copies of functions of a file.
    Lines { copies: Vec<u32>, file: String, test: (u32, u32), calls: BTreeSet<(u32, u32)> },
    /// There is no debugging information.
    Unknown,
}

impl Body {
    /// True if nothing says that it is none of it.
    fn may_have(&self, source: Option<&CodeSource>) -> bool {
        match (self, source) {
            (Body::Block(block, _), Some(source)) => source.is_in(*block),
            _ => true,
        }
    }

    /// True if it is known to be a part of it, the beginning of a counting loop aside.
    fn has(&self, source: Option<&CodeSource>) -> bool {
        let Some(source) = source else { return false };
        let SourcePosition { file, line, column } = &source.position;
        match self {
            Body::Block(block, head) => {
                let is_begin = *file == head.file && *line == head.line && *column < head.column;
                source.is_in(*block) && !is_begin
            }
            Body::Lines { test, calls, .. } => {
                let at = (*line, *column);
                let from = calls.first().map_or(*test, |first| *test.min(first));
                self.is_beside(source) && from < at && calls.last().is_some_and(|last| at < *last.max(test))
            }
            Body::Unknown => false,
        }
    }

    /// True of an instruction that belongs to the test.
    fn tests_in(&self, source: Option<&CodeSource>) -> bool {
        let Some(source) = source else { return false };
        match self {
            Body::Block(block, head) => source.is_in(*block) && source.position == *head,
            Body::Lines { test, .. } => {
                self.is_beside(source) && (source.position.line, source.position.column) == *test
            }
            Body::Unknown => false,
        }
    }

    /// True if it lies in the same copies of functions.
    fn is_beside(&self, source: &CodeSource) -> bool {
        match self {
            Body::Lines { copies, file, .. } => source.position.file == *file && source.copies() == *copies,
            Body::Block(..) | Body::Unknown => false,
        }
    }
}

impl Look<'_> {
    /// True unless all passes are known to be made by the loop's own code.
    pub(crate) fn may_be_copied(&self) -> bool {
        // Counters of optimised code are not kept in memory at the frame pointer.
        let is_slot = |place| match place {
            ReadablePlace::Frame { register, .. } => register == RBP && !self.is_behind_pointer(place),
            ReadablePlace::Behind { register, .. } => register == RBP,
            _ => false,
        };
        if self.bound.counter.place.is_some_and(is_slot) {
            return false;
        }
        let (body, around, before) = (self.body(), self.around(), self.before_it());
        let of_body = |call: &&CallSite| body.may_have(self.surroundings.source(call.at).as_ref());
        let outside = self.flow.calls.iter().filter(|call| !self.is_inside(call.block) && around.contains(&call.block));
        let outside: Vec<&CallSite> = outside.filter(of_body).collect();
        let targets: BTreeSet<Option<ProcAddr>> = outside.iter().map(|call| call.target).collect();
        let is_own_call = |target: &ProcAddr| !targets.contains(&Some(*target));
        !self.always_called().iter().any(is_own_call)
            || self.is_split(&around, &of_body)
            || self.is_begun_or_ended_outside(&body, &before)
            || match body {
                // Every call tells by itself that it is none of a pass.
                Body::Block(..) => false,
                Body::Lines { .. } => self.is_entered_within(&body, &before) || self.is_cut(&before),
                Body::Unknown => self.is_cut(&before) || self.is_turned(),
            }
    }

    /// True if the code shows passes, or parts of them, before the loop or behind it.
    fn is_cut(&self, before: &BTreeSet<usize>) -> bool {
        self.goes_on_elsewhere() || self.is_tested_before(before)
    }

    /// True if the loop tests first although its first pass is certain: compilers let such a loop test last, unless they have made
    /// the first half of a pass before it.
    fn is_turned(&self) -> bool {
        self.bound.is_tested_first && self.bound.bound.place.is_none()
    }

    /// True if a loop whose test does not stand at its beginning in the source is entered at or behind its test.
    fn is_entered_within(&self, body: &Body, before: &BTreeSet<usize>) -> bool {
        let Body::Lines { test, calls, .. } = body else { return false };
        if calls.first().is_none_or(|first| test < first) {
            // A loop with the test in its head.
            return false;
        }
        let at = |address: ProcAddr| {
            let source = self.surroundings.source(address).filter(|source| body.is_beside(source))?;
            Some((source.position.line, source.position.column))
        };
        let is_last = calls.last().is_none_or(|last| last < test);
        let is_copy = |block: &&usize| at(self.flow.blocks[**block].last) == Some(*test);
        let is_other = |call: &&CallSite| at(call.at).is_some_and(|position| !calls.contains(&position));
        let others: Vec<usize> = self.flow.calls.iter().filter(is_other).map(|call| call.block).collect();
        let is_behind_other = |copy: &usize| {
            let way = self.reached(&[*copy], &|block| {
                let from = self.flow.blocks[block].predecessors.iter().copied();
                from.filter(|from| before.contains(from)).collect()
            });
            others.iter().any(|other| way.contains(other))
        };
        (is_last && self.bound.is_tested_first)
            || before.iter().filter(is_copy).any(|copy| is_last || is_behind_other(copy))
    }

    /// The loop's body in the source.
    fn body(&self) -> Body {
        let calls = self.flow.calls.iter().filter(|call| self.is_inside(call.block)).map(|call| call.at);
        let tests: Vec<ProcAddr> = self.tests.iter().map(|block| self.flow.blocks[*block].last).collect();
        let tests: Option<Vec<CodeSource>> = tests.into_iter().map(|at| self.surroundings.source(at)).collect();
        let calls: Option<Vec<CodeSource>> = calls.map(|at| self.surroundings.source(at)).collect();
        let (Some(tests), Some(calls)) = (tests, calls) else { return Body::Unknown };
        let Some(test) = tests.first() else { return Body::Unknown };
        let head = &test.position;
        let is_its_own = |block: &&SourceBlock| {
            let is_in_head = |(file, line): &(String, u32)| (file, *line) == (&head.file, head.line);
            block.variables.iter().any(is_in_head) && tests.iter().chain(&calls).all(|one| one.is_in(block.id))
        };
        if let Some(block) = test.blocks.iter().rev().find(|block| !block.is_inlined && is_its_own(block)) {
            return Body::Block(block.id, head.clone());
        }
        let copies = test.copies();
        let own = calls.iter().filter(|one| one.position.file == head.file && one.copies() == copies);
        let calls: BTreeSet<(u32, u32)> = own.map(|one| (one.position.line, one.position.column)).collect();
        Body::Lines { copies, file: head.file.clone(), test: (head.line, head.column), calls }
    }

    /// True if a call that belongs to the body is made behind the loop where its test has ended it, or before it, but for
    /// the first half of a pass whose second half the loop begins with.
    fn is_begun_or_ended_outside(&self, body: &Body, before: &BTreeSet<usize>) -> bool {
        let behind = self.behind_it();
        let is_of_body = |call: &&CallSite| body.has(self.surroundings.source(call.at).as_ref());
        let of_body = || self.flow.calls.iter().filter(is_of_body);
        let mut begun = of_body().filter(|call| before.contains(&call.block));
        of_body().any(|call| behind.contains(&call.block))
            || begun.any(|call| !self.has_calls_around_test() || self.is_tested_from(call.block, body, before))
    }

    /// True if the loop makes calls before its test and behind it.
    fn has_calls_around_test(&self) -> bool {
        let behind = self.behind();
        let own = || self.flow.calls.iter().filter(|call| self.is_inside(call.block));
        own().any(|call| self.pass.comes_to(call.block, &self.tests)) && own().any(|call| behind.contains(&call.block))
    }

    /// True if a copy of the test is come to from a block before the loop.
    fn is_tested_from(&self, block: usize, body: &Body, before: &BTreeSet<usize>) -> bool {
        let way = self.reached(&[block], &|block| {
            self.flow.blocks[block].successors.iter().copied().filter(|next| before.contains(next)).collect()
        });
        way.iter().any(|block| body.tests_in(self.surroundings.source(self.flow.blocks[*block].last).as_ref()))
    }

    /// Functions that every pass calls, on whichever way.
    fn always_called(&self) -> BTreeSet<ProcAddr> {
        let own = || self.flow.calls.iter().filter(|call| self.is_inside(call.block));
        let targets: BTreeSet<ProcAddr> = own().filter_map(|call| call.target).collect();
        let is_always = |target: &ProcAddr| {
            let calls = own().filter(|call| call.target == Some(*target));
            self.pass.goes_through(&calls.map(|call| self.block_or_loop(call.block)).collect::<Vec<usize>>())
        };
        targets.into_iter().filter(is_always).collect()
    }

    /// A block, or the beginning of the loop inside that it lies in.
    fn block_or_loop(&self, block: usize) -> usize {
        let contains = |one: &&Loop| one.blocks.binary_search(&block).is_ok();
        let mut inner = self.flow.loops.iter().filter(contains).filter(|one| one.depth() == self.found.depth() + 1);
        inner.next().map_or(block, |one| one.header)
    }

    /// True if another loop before or behind this one makes a call that each pass of this one makes: the compiler may have made
    /// two loops of one, with the passes up to some number in the first.
    fn is_split(&self, around: &BTreeSet<usize>, of_body: &dyn Fn(&&CallSite) -> bool) -> bool {
        let own = self.always_called();
        let is_beside =
            |other: &&Loop| around.contains(&other.header) && !other.blocks.iter().any(|block| self.is_inside(*block));
        let others = self.flow.loops.iter().filter(is_beside);
        let beside: BTreeSet<usize> = others.flat_map(|other| other.blocks.iter().copied()).collect();
        let in_others =
            self.flow.calls.iter().filter(|call| beside.contains(&call.block) && !self.is_inside(call.block));
        in_others.filter(of_body).filter_map(|call| call.target).any(|target| own.contains(&target))
    }

    /// Blocks from which the loop is reached, and those that are reached from it.
    fn around(&self) -> BTreeSet<usize> {
        let start = [self.found.header];
        let before = self.reached(&start, &|block| self.flow.blocks[block].predecessors.clone());
        &before | &self.reached(&start, &|block| self.flow.blocks[block].successors.clone())
    }

    /// Blocks outside of the loop that control comes through before it, within one pass of the loops around it.
    fn before_it(&self) -> BTreeSet<usize> {
        let all = self.reached(&[self.found.header], &|block| {
            let from = self.flow.blocks[block].predecessors.iter().copied();
            from.filter(|from| !self.is_way_round(*from, block)).collect()
        });
        all.into_iter().filter(|block| !self.is_inside(*block)).collect()
    }

    /// The same behind it, where its test has ended it.
    fn behind_it(&self) -> BTreeSet<usize> {
        let ends = self.tests.iter().flat_map(|test| self.flow.blocks[*test].successors.iter().copied());
        let ends: Vec<usize> = ends.filter(|block| !self.is_inside(*block)).collect();
        self.reached(&ends, &|block| {
            let next = self.flow.blocks[block].successors.iter().copied();
            next.filter(|next| !self.is_inside(*next) && !self.is_way_round(block, *next)).collect()
        })
    }

    /// True if control goes from one block to the other in order to begin another pass of a loop around this one.
    fn is_way_round(&self, from: usize, to: usize) -> bool {
        let is_around = |one: &&Loop| one.header == to && one.depth() < self.found.depth();
        let mut around = self.flow.loops.iter().filter(is_around);
        around
            .any(|one| one.blocks.binary_search(&from).is_ok() && one.blocks.binary_search(&self.found.header).is_ok())
    }

    fn reached(&self, from: &[usize], next: &dyn Fn(usize) -> Vec<usize>) -> BTreeSet<usize> {
        let (mut known, mut work) = (from.iter().copied().collect::<BTreeSet<usize>>(), from.to_vec());
        while let Some(block) = work.pop() {
            work.extend(next(block).into_iter().filter(|next| known.insert(*next)));
        }
        known
    }

    /// True if a loop beside this one goes on with the same counter, in a register: they were one, or count together.
    fn goes_on_elsewhere(&self) -> bool {
        let Some(ReadablePlace::Register(counter)) = self.bound.counter.place else { return false };
        let is_outside = |block: &usize| !self.is_inside(*block);
        let ends = self.found.exits.iter().filter_map(|exit| self.flow.block_at(exit.to)).filter(is_outside);
        let begins = self.flow.blocks[self.found.header].predecessors.iter().copied().filter(is_outside);
        self.is_stepped(counter, ends.collect(), true) || self.is_stepped(counter, begins.collect(), false)
    }

    /// True if the first instruction that changes a register, on some way forth or back, is the step of a loop beside this one.
    fn is_stepped(&self, counter: u8, from: Vec<usize>, is_forth: bool) -> bool {
        let (mut known, mut work) = (from.iter().copied().collect::<BTreeSet<usize>>(), from);
        while let Some(block) = work.pop() {
            let writers = self.instructions.get(&block).into_iter().flatten();
            let mut writers: Vec<&Instruction> = writers.filter(|one| writes(one, counter)).collect();
            let one = if is_forth { writers.first().copied() } else { writers.pop() };
            let Some(one) = one else {
                let of = &self.flow.blocks[block];
                let next = if is_forth { &of.successors } else { &of.predecessors };
                let next = next.iter().copied().filter(|next| !self.is_inside(*next));
                work.extend(next.filter(|next| known.insert(*next)));
                continue;
            };
            let is_beside = self.flow.blocks[block].innermost_loop.is_some_and(|at| {
                let other = &self.flow.loops[at];
                other.blocks.binary_search(&self.found.header).is_err()
            });
            if is_beside && step_of(one, counter) == Some(self.bound.step) {
                return true;
            }
        }
        false
    }

    /// True if the bound was held against something already, so that the loop might have been left out, before a call that
    /// is made on the way to the test which decides that: the call may be of a first pass.
    fn is_tested_before(&self, before: &BTreeSet<usize>) -> bool {
        let Some(bound) = self.bound.bound.place else { return false };
        let ends = self.behind_it();
        let leaves = |block: usize| {
            !before.contains(&block) && !self.is_inside(block) && (ends.contains(&block) || self.returns_at_once(block))
        };
        let may_leave = |block: &usize| {
            let next = &self.flow.blocks[*block].successors;
            next.len() == 2 && next.iter().any(|next| leaves(*next))
        };
        let tests: Vec<usize> = before.iter().copied().filter(may_leave).filter(|at| self.is_of(*at, bound)).collect();
        let on_way = |from: usize| {
            let next = |block: usize| -> Vec<usize> {
                self.flow.blocks[block].successors.iter().copied().filter(|next| before.contains(next)).collect()
            };
            self.reached(&next(from), &next)
        };
        let calls_in = |block: &usize| self.flow.calls.iter().any(|call| call.block == *block);
        let is_tested_again = |call: usize, test: usize| {
            let behind = on_way(call);
            self.bound.is_tested_first
                || tests.iter().any(|other| *other != test && (*other == call || behind.contains(other)))
        };
        tests
            .iter()
            .any(|test| on_way(*test).iter().filter(|block| calls_in(block)).any(|call| is_tested_again(*call, *test)))
    }

    /// True if the function returns behind a block, without a call.
    fn returns_at_once(&self, block: usize) -> bool {
        let way = self.reached(&[block], &|block| self.flow.blocks[block].successors.clone());
        !self.flow.calls.iter().any(|call| way.contains(&call.block))
    }

    /// True if a block ends in a test of a place, or of something that was made of the same.
    fn is_of(&self, block: usize, place: ReadablePlace) -> bool {
        let Some(all) = self.instructions.get(&block) else { return false };
        let condition = all.last().map_or(ConditionCode::None, Instruction::condition_code);
        let origin = |value| match value {
            Value::Linear(Linear { place: Some(place), .. }) => Some(place),
            _ => None,
        };
        let at_header = self.whole.0.get(&self.found.header).and_then(|state| origin(state.value(place)));
        let of = |state: &State, meant: ReadablePlace| {
            let tested = state.comparison(condition).or_else(|| Some(state.half(condition)?.0));
            tested.is_some_and(|one| one.left.place == Some(meant) || one.right.place == Some(meant))
        };
        let (mut state, mut info) = (State::at_start(), InstructionInfoFactory::new());
        // Of memory nothing is known behind a call but what is read there.
        let from = all.iter().rposition(is_call).map_or(0, |call| call + 1);
        all[from..].iter().for_each(|one| state.step(one, &mut info));
        let whole = self.whole.1.get(&block).zip(at_header);
        of(&state, place) || whole.is_some_and(|(state, meant)| of(state, meant))
    }
}

/// True if it writes to a register or a part of it.
fn writes(one: &Instruction, register: u8) -> bool {
    let is_it = |written: Register| {
        written.is_gpr()
            && written.full_register().is_gpr64()
            && written.full_register().number() == usize::from(register)
    };
    let mut info = InstructionInfoFactory::new();
    info.info(one).used_registers().iter().any(|used| is_write(used.access()) && is_it(used.register()))
}

/// The number that an instruction adds to a register.
fn step_of(one: &Instruction, register: u8) -> Option<i64> {
    let is_it =
        |other: Register| other.full_register().is_gpr64() && other.full_register().number() == usize::from(register);
    if !is_it(one.op0_register()) {
        return None;
    }
    let constant = || (one.op1_kind() != OpKind::Register).then(|| one.immediate(1) as i64);
    match one.mnemonic() {
        Mnemonic::Inc => Some(1),
        Mnemonic::Dec => Some(-1),
        Mnemonic::Add => constant(),
        Mnemonic::Sub => constant().map(i64::wrapping_neg),
        Mnemonic::Lea if is_it(one.memory_base()) && one.memory_index() == Register::None => {
            Some(one.memory_displacement64() as i32 as i64)
        }
        _ => None,
    }
}
