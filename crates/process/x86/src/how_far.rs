//! How far a loop is and how many passes it has, by what a probe reads in one of its passes.
//!
//! Beside `bound` this asks for where the counter began, and refuses whatever could make a number wrong: a test in the
//! middle of a pass, a counter or bound that other code may write to, and parts of passes that the compiler copied to
//! before or behind the loop, as it does when it peels or splits one. Whoever reads compares two passes: [`HowFar::agree`].
//!
//! Next: `bound` for the test itself.

use crate::blocks::ControlFlow;
use crate::bound::{Instructions, Pass, by_block, settle};
use crate::linear::{Extension, Linear, Place, State, Value};
use crate::{Analysis, CallSite, FunctionCode, Loop, LoopBound, NoBound, loop_bound};
use iced_x86::{ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpAccess};
use std::collections::BTreeSet;

/// Blocks of a function beyond which its beginning is not followed.
const BLOCKS_MAX: usize = 3000;
const RBP: u8 = 5;

/// What a probe reads, and what that says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HowFar {
    /// The test.
    pub bound: LoopBound,
    /// The counter in the loop's first pass, if that is known.
    first: Option<Linear>,
    /// What the places hold at the probe, less what they held when the pass began: of counter, bound and beginning.
    moved: [i64; 3],
}

/// Why nothing is said of how far a loop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsure {
    /// Its test is not understood.
    #[error(transparent)]
    Bound(#[from] NoBound),
    /// Something is done before the test and something behind it.
    #[error("its test stands in the middle of a pass")]
    InTheMiddle,
    /// Somebody else may write to a place.
    #[error("its counter or its bound is a variable that other code may change")]
    Shared,
    /// Parts of it may be elsewhere.
    #[error("all calls of a pass are made outside of the loop too, so parts of it may have been moved there")]
    Copied,
    /// Ways through it may be missing.
    #[error("its code can't be followed in full")]
    Incomplete,
    /// The probe's place does not show them.
    #[error("its counter and bound can't be read where its passes are seen")]
    NotThere,
}

/// Decides how to tell how far a loop is from a probe right before the instruction at `site`. `keeps_counters`: the language
/// lets nobody write to the counter of a counting loop, as Fortran's.
///
/// # Errors
/// Why nothing can be told.
pub fn how_far(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    (flow, found): (&ControlFlow, &Loop),
    site: u64,
    keeps_counters: bool,
) -> Result<HowFar, Unsure> {
    if !flow.is_complete {
        return Err(Unsure::Incomplete);
    }
    let bound = loop_bound(code, analysis, flow, found)?;
    let pass = Pass::follow(code, analysis, flow, found);
    let instructions = by_block(code, analysis, flow, &|_| true);
    let look = Look { flow, found, pass: &pass, instructions: &instructions, bound: &bound, entry: code.entry };
    look.check_test()?;
    look.check_places(keeps_counters)?;
    if look.may_be_copied() {
        return Err(Unsure::Copied);
    }
    let first = look.first();
    let at_site = look.state_at(site).ok_or(Unsure::NotThere)?;
    let places = [bound.counter.place, bound.bound.place, first.and_then(|first| first.place)];
    let mut moved = [0; 3];
    for (moved, place) in moved.iter_mut().zip(places) {
        *moved = place.map_or(Some(0), |place| look.moved(&at_site, place)).ok_or(Unsure::NotThere)?;
    }
    Ok(HowFar { bound, first, moved })
}

impl HowFar {
    /// What is to be read: counter, bound, and what the counter began with. `None`: nothing.
    pub fn places(&self) -> [Option<Place>; 3] {
        [self.bound.counter.place, self.bound.bound.place, self.first.and_then(|first| first.place)]
    }

    /// Whether a second reading so many passes after a first one is what the loop would have made of it.
    pub fn agree(&self, first: [u64; 3], second: [u64; 3], passes: u64) -> bool {
        let moved = self.cut(second[0].wrapping_sub(first[0]));
        let expected = self.cut(passes.wrapping_mul(self.bound.step as u64));
        // Of more passes than the counter has numbers nothing follows.
        let is_within = passes.checked_mul(self.bound.step.unsigned_abs()).is_some_and(|way| self.cut(way) == way);
        let is_same = |index: usize| self.places()[index].is_none() || first[index] == second[index];
        passes > 0 && is_within && moved == expected && is_same(1) && is_same(2)
    }

    /// Passes that were completed before the one of this reading. `None`: it is not known with what the counter began.
    pub fn done(&self, read: [u64; 3]) -> Option<u64> {
        let held = self.held(read);
        let (counter, first) = (held[0], self.first?.value(held[2]));
        let step = self.bound.step;
        let way = if step > 0 { counter.wrapping_sub(first) } else { first.wrapping_sub(counter) };
        let way = self.cut(way);
        way.is_multiple_of(step.unsigned_abs()).then(|| way / step.unsigned_abs())
    }

    /// Passes that the test leaves before the loop ends, the one of this reading included.
    pub fn remaining(&self, read: [u64; 3]) -> Option<u64> {
        let held = self.held(read);
        let after = self.bound.passes_after(held[0], held[1])?;
        Some(if self.bound.is_tested_first { after } else { after + 1 })
    }

    /// What the places held when the pass began.
    fn held(&self, read: [u64; 3]) -> [u64; 3] {
        std::array::from_fn(|index| read[index].wrapping_sub(self.moved[index] as u64))
    }

    fn cut(&self, value: u64) -> u64 {
        if is_narrow(&self.bound) { u64::from(value as u32) } else { value }
    }
}

/// Only the lower half of the counter counts.
fn is_narrow(bound: &LoopBound) -> bool {
    let four_bytes = |place| matches!(place, Place::Frame { bytes: 4, .. } | Place::Fixed { bytes: 4, .. });
    bound.test.bits == 32 || bound.counter.extension != Extension::Whole || bound.counter.place.is_some_and(four_bytes)
}

/// All that is known of one loop.
struct Look<'a> {
    flow: &'a ControlFlow,
    found: &'a Loop,
    pass: &'a Pass<'a>,
    instructions: &'a Instructions,
    bound: &'a LoopBound,
    /// Where the function begins.
    entry: u64,
}

impl Look<'_> {
    fn is_inside(&self, block: usize) -> bool {
        self.found.blocks.binary_search(&block).is_ok()
    }

    /// Calls the handler for each instruction of the loop, with what holds before it.
    fn walk(&self, mut visit: impl FnMut(usize, &Instruction, &State)) {
        let mut info = InstructionInfoFactory::new();
        for (&block, state) in &self.pass.before {
            let mut state = state.clone();
            for one in self.instructions.get(&block).into_iter().flatten() {
                visit(block, one, &state);
                state.step(one, &mut info);
            }
        }
    }

    /// Calls are made before the test or behind it; and if behind it, nothing is written before.
    fn check_test(&self) -> Result<(), Unsure> {
        let test = self.bound.test_block;
        let is_behind = |block: usize| block != test && self.flow.dominates(test, block);
        let own = self.flow.calls.iter().filter(|call| self.is_inside(call.block));
        let (behind, before): (Vec<&CallSite>, Vec<&CallSite>) = own.partition(|call| is_behind(call.block));
        match (before.is_empty(), behind.is_empty()) {
            (false, true) => Ok(()),
            (true, false) => self.check_nothing_before(&is_behind),
            _ => Err(Unsure::InTheMiddle),
        }
    }

    fn check_nothing_before(&self, is_behind: &dyn Fn(usize) -> bool) -> Result<(), Unsure> {
        let own_loop = |block: usize| self.flow.blocks[block].innermost_loop.map(|at| &self.flow.loops[at]);
        let mut info = InstructionInfoFactory::new();
        let mut is_clean = true;
        self.walk(|block, one, state| {
            let writes = |access| !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess);
            let is_written = info.info(one).used_memory().iter().any(|used| writes(used.access()));
            let is_other = is_written && state.memory_operand(one) != self.bound.counter.place;
            is_clean &= is_behind(block) || (own_loop(block) == Some(self.found) && !is_other);
        });
        if is_clean { Ok(()) } else { Err(Unsure::InTheMiddle) }
    }

    /// Nobody else may write to counter and bound, as far as the code shows.
    fn check_places(&self, keeps_counters: bool) -> Result<(), Unsure> {
        let is_counting = matches!(self.bound.test.condition, ConditionCode::ne | ConditionCode::e);
        let may_lend = keeps_counters && is_counting;
        for (place, may_lend) in [(self.bound.counter.place, may_lend), (self.bound.bound.place, false)] {
            let is_own = match place {
                None | Some(Place::Register(_)) => true,
                Some(Place::Fixed { .. }) => false,
                Some(place @ Place::Frame { register, bytes, .. }) => {
                    let base = Linear { place: Some(Place::Register(register)), add: 0, extension: Extension::Whole };
                    let stays = self.pass.latches().into_iter().all(|at| self.pass.added(&base, 64, at) == Some(0));
                    stays && matches!(bytes, 4 | 8) && (may_lend || !self.is_lent(place))
                }
            };
            if !is_own {
                return Err(Unsure::Shared);
            }
        }
        Ok(())
    }

    /// True if the loop makes an address of the place, which others could write through.
    fn is_lent(&self, place: Place) -> bool {
        let Place::Frame { register, offset, .. } = place else { return true };
        let mut is_lent = false;
        self.walk(|_, one, state| {
            let made = if one.mnemonic() == Mnemonic::Lea { state.address(one) } else { None };
            let is_it = |made: Linear| made.place == Some(Place::Register(register)) && made.add == offset;
            is_lent |= made.is_some_and(is_it);
        });
        is_lent
    }

    /// True unless each pass makes a call that is made nowhere on the way to the loop or from it.
    fn may_be_copied(&self) -> bool {
        // Counters of optimised code are not kept in memory at the frame pointer.
        if matches!(self.bound.counter.place, Some(Place::Frame { register: RBP, .. })) {
            return false;
        }
        let around = self.around();
        let outside = self.flow.calls.iter().filter(|call| !self.is_inside(call.block) && around.contains(&call.block));
        let outside: BTreeSet<Option<u64>> = outside.map(|call| call.target).collect();
        let is_only_here =
            |call: &CallSite| call.target.is_some() && !outside.contains(&call.target) && self.is_always(call.block);
        let mut own = self.flow.calls.iter().filter(|call| self.is_inside(call.block));
        !own.any(is_only_here) || self.is_split(&around)
    }

    /// True if another loop before or behind this one makes a call that each pass of this one makes: the compiler may have made
    /// two loops of one, with the passes up to some number in the first.
    fn is_split(&self, around: &BTreeSet<usize>) -> bool {
        let own = self.flow.calls.iter().filter(|call| self.is_inside(call.block) && self.is_always(call.block));
        let own: BTreeSet<u64> = own.filter_map(|call| call.target).collect();
        let is_beside =
            |other: &&Loop| around.contains(&other.header) && !other.blocks.iter().any(|block| self.is_inside(*block));
        let others = self.flow.loops.iter().filter(is_beside);
        let beside: BTreeSet<usize> = others.flat_map(|other| other.blocks.iter().copied()).collect();
        let in_others =
            self.flow.calls.iter().filter(|call| beside.contains(&call.block) && !self.is_inside(call.block));
        in_others.filter_map(|call| call.target).any(|target| own.contains(&target))
    }

    /// Blocks from which the loop is reached, and those that are reached from it.
    fn around(&self) -> BTreeSet<usize> {
        let mut all = BTreeSet::new();
        for is_forth in [true, false] {
            let (mut known, mut work) = (BTreeSet::from([self.found.header]), vec![self.found.header]);
            while let Some(block) = work.pop() {
                let block = &self.flow.blocks[block];
                let next = if is_forth { &block.successors } else { &block.predecessors };
                work.extend(next.iter().copied().filter(|next| known.insert(*next)));
            }
            all.extend(known);
        }
        all
    }

    /// True if every pass comes to the block, or to the loop inside that it lies in.
    fn is_always(&self, block: usize) -> bool {
        let contains = |one: &&Loop| one.blocks.binary_search(&block).is_ok();
        let inner = self.flow.loops.iter().filter(contains).filter(|one| one.depth() == self.found.depth() + 1);
        let at = inner.map(|one| one.header).next().unwrap_or(block);
        self.pass.latches().into_iter().all(|latch| self.flow.dominates(at, latch))
    }

    /// What holds right before an instruction of the loop.
    fn state_at(&self, address: u64) -> Option<State> {
        let mut found = None;
        self.walk(|_, one, state| {
            if one.ip() == address {
                found = Some(state.clone());
            }
        });
        found
    }

    /// What a place holds there, less what it held when the pass began.
    fn moved(&self, state: &State, place: Place) -> Option<i64> {
        if let Place::Frame { register, .. } = place {
            let base = state.value(Place::Register(register));
            let is_as_before = matches!(base, Value::Linear(base) if base.place == Some(Place::Register(register))
                && base.add == 0 && base.extension == Extension::Whole);
            if !is_as_before {
                return None;
            }
        }
        match state.value(place) {
            Value::Linear(now) if now.place == Some(place) => {
                (now.extension == Extension::Whole || is_narrow(self.bound)).then_some(now.add)
            }
            _ => None,
        }
    }

    /// The counter when the loop is entered.
    fn first(&self) -> Option<Linear> {
        let place = self.bound.counter.place?;
        let from = self.flow.blocks[self.found.header].predecessors.iter().copied();
        let from: Vec<usize> = from.filter(|block| !self.is_inside(*block)).collect();
        self.constant_first(place, &from).or_else(|| self.kept_first(place, &from))
    }

    /// If that is a number, whichever way the function comes there.
    fn constant_first(&self, place: Place, from: &[usize]) -> Option<Linear> {
        if self.flow.blocks.len() > BLOCKS_MAX || !self.flow.is_complete {
            return None;
        }
        let entry = self.flow.block_at(self.entry)?;
        let is_root = |block: &usize| self.flow.blocks[*block].predecessors.is_empty();
        let caught = (0..self.flow.blocks.len()).filter(is_root).map(|block| (block, State::unknown()));
        let seeds = caught.chain([(entry, State::cautious())]).collect();
        let (_, after) = settle(self.flow, self.instructions, seeds, &|_| true);
        let mut all = from.iter().map(|block| held_in(after.get(block)?, place));
        let first = all.next()??;
        (first.place.is_none() && all.all(|other| other == Some(first))).then_some(first)
    }

    /// If that was the value of a place that stays as it is.
    fn kept_first(&self, place: Place, from: &[usize]) -> Option<Linear> {
        let [block] = from else { return None };
        let (mut state, mut info) = (State::cautious(), InstructionInfoFactory::new());
        self.instructions.get(block)?.iter().for_each(|one| state.step(one, &mut info));
        let stays = |place: Place| {
            let itself = Linear { place: Some(place), add: 0, extension: Extension::Whole };
            let in_loop = self.pass.latches().into_iter().all(|latch| self.pass.added(&itself, 64, latch) == Some(0));
            in_loop && state.value(place) == Value::Linear(itself)
        };
        let first = held_in(&state, place)?;
        let kept = first.place.filter(|kept| match kept {
            Place::Register(_) => stays(*kept),
            Place::Frame { register, .. } => stays(Place::Register(*register)) && stays(*kept) && !self.is_lent(*kept),
            Place::Fixed { .. } => false,
        });
        kept.map(|_| first)
    }
}

/// What a place that is named by registers as they are now holds.
fn held_in(state: &State, place: Place) -> Option<Linear> {
    let place = match place {
        Place::Frame { register, offset, bytes } => match state.value(Place::Register(register)) {
            Value::Linear(Linear { place: Some(Place::Register(base)), add, extension: Extension::Whole }) => {
                Place::Frame { register: base, offset: offset.wrapping_add(add), bytes }
            }
            _ => return None,
        },
        place => place,
    };
    match state.value(place) {
        Value::Linear(held) => Some(held),
        _ => None,
    }
}
