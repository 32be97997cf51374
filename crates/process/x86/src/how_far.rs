//! How far a loop is and how many passes it has, by what a probe reads in one of its passes.
//!
//! Beside `bound` this asks for where the counter began, and refuses whatever could make a number wrong: a test in the
//! middle of a pass, a counter or bound that other code may write to, and parts of passes that the compiler copied to
//! before or behind the loop, as it does when it peels or splits one. Whoever reads compares two passes: [`HowFar::agree`].
//!
//! Next: `bound` for the test itself.

use crate::blocks::ControlFlow;
use crate::bound::{Instructions, Pass, States, by_block, is_no_end, settle, tested};
use crate::copied::CodeSource;
use crate::lent::{Lender, is_call, is_write, on_stack};
use crate::linear::{Extension, Linear, ReadablePlace, State, Value};
use crate::owned::{Care, Question, Returned};
use crate::{Analysis, CallSite, FunctionCode, Loop, LoopBound, NoBound};
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register};
use std::collections::BTreeSet;
use std::ops::Range;
use trimtab_types::ProcAddr;

/// Blocks of a function beyond which its beginning is not followed.
const BLOCKS_MAX: usize = 3000;
const RSP: u8 = 4;
const RBP: u8 = 5;
/// Where a frame pointer points to, from the stack pointer's first value.
const FRAME_POINTER: i64 = -8;

/// The places that a probe reads, and the meaning of their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HowFar {
    /// The test.
    pub bound: LoopBound,
    /// The counter in the loop's first pass, if that is known.
    first: Option<Linear>,
    /// Another counter, of which it is known, if that of the test is not.
    clock: Option<Clock>,
    /// The values of the places at the probe, less those when the pass began: of counter, bound and beginning.
    moved: [i64; 3],
    /// Its test stands in the middle of a pass, so that the last one may be half a pass.
    may_end_in_a_pass: bool,
    /// The code shows that nobody but the loop writes to counter and bound.
    is_sure: bool,
    /// The bound's own place, if it lies behind a pointer that may point anywhere by then: a probe reads the pointer only.
    behind: Option<BehindPointer>,
}

/// Memory behind a pointer, which is read from outside of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BehindPointer {
    pointer: ReadablePlace,
    offset: i64,
    bytes: u32,
}

/// A place that every pass changes by the same, with what it began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    place: ReadablePlace,
    first: i64,
    step: i64,
    is_narrow: bool,
}

impl Clock {
    /// Passes between two values of it, if it is so.
    fn passes(&self, from: u64, to: u64) -> Option<u64> {
        let way = if self.step > 0 { to.wrapping_sub(from) } else { from.wrapping_sub(to) };
        let way = if self.is_narrow { u64::from(way as u32) } else { way };
        way.is_multiple_of(self.step.unsigned_abs()).then(|| way / self.step.unsigned_abs())
    }
}

/// The facts of a function beside its code.
pub trait Surroundings {
    /// The language lets nobody write to the counter of a counting loop, as Fortran's.
    fn keeps_counters(&self) -> bool {
        false
    }

    /// True if the function that is called there may write to these bytes, counted from the address that it is given
    /// in a register, by its number. `None`: its code is not known.
    fn writes(&self, _target: ProcAddr, _register: u8, _bytes: Range<i64>) -> Option<bool> {
        None
    }

    /// The addresses of the variable that these bytes belong to, if nothing that runs while the loop does writes to it,
    /// the loop's own code aside.
    fn variable(&self, _address: ProcAddr, _bytes: u32) -> Option<Range<ProcAddr>> {
        None
    }

    /// True if the function that is called there may return a second time, as `setjmp`.
    fn returns_twice(&self, _target: ProcAddr) -> bool {
        false
    }

    /// If the function that is called there leaves these bytes alone, counted from the address that it is given in a
    /// register, and keeps no address of them or below: the relation of its result to that address. All of its code is
    /// known, and of what it calls with one.
    fn leaves_alone(&self, _target: ProcAddr, _register: u8, _about: (Range<i64>, Care)) -> Option<Returned> {
        None
    }

    /// True if all callers of the loop's function give it in this register an address that nobody else has: of something in
    /// their own frames, or of a variable that nothing else writes to. The bytes are counted from there.
    fn is_own_of_callers(&self, _register: u8, _bytes: Range<i64>) -> bool {
        false
    }

    /// Where in the source the instruction at an address is from, if debugging information tells all of it.
    fn source(&self, _at: ProcAddr) -> Option<CodeSource> {
        None
    }

    /// The name of the function of another module that is called there; `None`: it lies in this one, or that is not known.
    fn imported(&self, _target: ProcAddr) -> Option<String> {
        None
    }
}

/// Functions of libraries that are called when something can't go on, and by no program in order to leave a loop.
const FAILURES: [&str; 9] = [
    "__assert_fail",
    "__stack_chk_fail",
    "__chk_fail",
    "__cxa_bad_cast",
    "__cxa_throw_bad_array_new_length",
    "_gfortran_runtime_error",
    "_gfortran_runtime_error_at",
    "_gfortran_os_error",
    "_gfortran_os_error_at",
];
/// `std::__throw_bad_cast` and its like.
const LIBRARY_THROWS: &str = "_ZSt";
const THROW: &str = "__throw_";
/// Blocks behind a loop that are looked at for the call they end in.
const FAILURE_BLOCKS_MAX: usize = 8;
/// Instructions before a loop that are followed at most.
const BEFORE_MAX: usize = 160;

/// Of a function of which nothing else is known.
impl Surroundings for () {}

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
    #[error("calls of a pass may be made outside of the loop too, where compilers put first or last passes")]
    Copied,
    /// Ways through it may be missing.
    #[error("its code can't be followed in full")]
    Incomplete,
    /// The probe's place does not show them.
    #[error("its counter and bound can't be read where its passes are seen")]
    NotThere,
}

/// Decides how to tell how far a loop is from a probe right before the instruction at `site`, one of whose bytes that is.
///
/// # Errors
/// Why nothing can be told.
pub fn how_far(
    code: &FunctionCode<'_>,
    analysis: &Analysis,
    (flow, found): (&ControlFlow, &Loop),
    site: ProcAddr,
    surroundings: &dyn Surroundings,
) -> Result<HowFar, Unsure> {
    if !flow.is_complete {
        return Err(Unsure::Incomplete);
    }
    let instructions = by_block(code, analysis, flow, &|_| true);
    let whole = whole((code.entry, State::cautious()), flow, &instructions);
    let start = State::at_start_with(whole.0.get(&found.header));
    let failures = Failures { flow, instructions: &instructions, surroundings };
    let pass = Pass::follow(code, analysis, (flow, found), start).without(&|exit| failures.is_one(exit.to));
    let (bound, tests) = tested(&pass)?;
    let (instructions, entry) = (&instructions, code.entry);
    let look = Look { flow, found, pass: &pass, instructions, bound: &bound, tests, whole, surroundings, entry };
    let may_end_in_a_pass = look.is_tested_within()?;
    let (is_sure, behind) = look.check_places()?;
    if look.may_be_copied() {
        return Err(Unsure::Copied);
    }
    let first = look.first();
    let at_site = look.state_at(site).ok_or(Unsure::NotThere)?;
    let seen = |clock: &Clock| look.moved(&at_site, clock.place, clock.is_narrow).is_some();
    let clock = if first.is_none() { look.clock(&seen) } else { None };
    let has_others = look.is_left_by_calls() || first.is_some_and(|first| is_no_end(&first, bound.step));
    let bound = LoopBound { has_other_exits: bound.has_other_exits || has_others, ..bound };
    let mut how = HowFar { bound, first, clock, moved: [0; 3], may_end_in_a_pass, is_sure, behind };
    let is_narrow = [is_narrow(&bound), is_narrow(&bound), clock.map_or(is_narrow(&bound), |clock| clock.is_narrow)];
    for (index, place) in how.places().into_iter().enumerate() {
        let moved = place.map_or(Some(0), |place| look.moved(&at_site, place, is_narrow[index]));
        how.moved[index] = moved.ok_or(Unsure::NotThere)?;
    }
    // Behind another pointer lies another bound.
    if behind.is_some() && how.moved[1] != 0 {
        return Err(Unsure::Shared);
    }
    Ok(how)
}

/// The values known before and behind each block, whichever way the function comes there; nothing if it is too large.
pub(crate) fn whole(
    (entry, start): (ProcAddr, State),
    flow: &ControlFlow,
    instructions: &Instructions,
) -> (States, States) {
    let Some(entry) = flow.block_at(entry).filter(|_| flow.blocks.len() <= BLOCKS_MAX) else {
        return (States::new(), States::new());
    };
    let is_root = |block: &usize| flow.blocks[*block].predecessors.is_empty();
    let caught = (0..flow.blocks.len()).filter(is_root).map(|block| (block, State::unknown()));
    let seeds = caught.chain([(entry, start)]).collect();
    settle(flow, instructions, seeds, &|_| true)
}

impl HowFar {
    /// The places to read: counter, bound, and what the counter began with. `None`: nothing. The word for the bound may be a
    /// pointer to it: see [`HowFar::with_bound`].
    pub fn places(&self) -> [Option<ReadablePlace>; 3] {
        let beginning = self.first.and_then(|first| first.place).or(self.clock.map(|clock| clock.place));
        let bound = self.behind.map_or(self.bound.bound.place, |behind| Some(behind.pointer));
        [self.bound.counter.place, bound, beginning]
    }

    /// True if the code shows that nobody but the loop writes to counter and bound. Else they may be believed for as long as
    /// they do what a counting loop makes of them, and nobody knows how long that is.
    pub fn is_sure(&self) -> bool {
        self.is_sure
    }

    /// A reading with the bound itself, which `load` reads from the process: at an address, so many bytes. `None`: it can't.
    pub fn with_bound(&self, read: [u64; 3], load: &dyn Fn(u64, u32) -> Option<u64>) -> Option<[u64; 3]> {
        let Some(BehindPointer { offset, bytes, .. }) = self.behind else { return Some(read) };
        Some([read[0], load(read[1].wrapping_add_signed(offset), bytes)?, read[2]])
    }

    /// The place by which it is seen that the loop begins anew, its value at the probe then, and whether only the lower half
    /// of that counts. `None`: it does not begin with a number.
    pub fn begins_with(&self) -> Option<(usize, u64, bool)> {
        let (place, first, is_narrow) = match (self.clock, self.first) {
            (Some(clock), _) => (2, clock.first as u64, clock.is_narrow),
            (None, Some(first @ Linear { place: None, .. })) => (0, first.value(0), is_narrow(&self.bound)),
            _ => return None,
        };
        let seen = first.wrapping_add_signed(self.moved[place]);
        Some((place, if is_narrow { u64::from(seen as u32) } else { seen }, is_narrow))
    }

    /// True if the loop may end before, in other ways or within the last of its passes.
    pub fn may_end_before(&self) -> bool {
        self.bound.has_other_exits || self.may_end_in_a_pass
    }

    /// True if a second reading so many passes after a first one is what the loop would have made of it.
    pub fn agree(&self, first: [u64; 3], second: [u64; 3], passes: u64) -> bool {
        let moved = self.cut(second[0].wrapping_sub(first[0]));
        let expected = self.cut(passes.wrapping_mul(self.bound.step as u64));
        // Of more passes than the counter has numbers nothing follows.
        let is_within = passes.checked_mul(self.bound.step.unsigned_abs()).is_some_and(|way| self.cut(way) == way);
        let is_same = |index: usize| self.places()[index].is_none() || first[index] == second[index];
        let is_third = self.clock.map_or_else(|| is_same(2), |clock| clock.passes(first[2], second[2]) == Some(passes));
        passes > 0 && is_within && moved == expected && is_same(1) && is_third
    }

    /// Passes that were completed before the one of this reading. `None`: it is not known with what the counter began.
    pub fn done(&self, read: [u64; 3]) -> Option<u64> {
        let held = self.held(read);
        if let Some(clock) = self.clock {
            return clock.passes(clock.first as u64, held[2]);
        }
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

    /// The values of the places when the pass began.
    fn held(&self, read: [u64; 3]) -> [u64; 3] {
        std::array::from_fn(|index| read[index].wrapping_sub(self.moved[index] as u64))
    }

    fn cut(&self, value: u64) -> u64 {
        if is_narrow(&self.bound) { u64::from(value as u32) } else { value }
    }
}

/// Only the lower half of the counter counts.
fn is_narrow(bound: &LoopBound) -> bool {
    let four_bytes = |place| {
        matches!(
            place,
            ReadablePlace::Frame { bytes: 4, .. }
                | ReadablePlace::Behind { bytes: 4, .. }
                | ReadablePlace::Fixed { bytes: 4, .. }
        )
    };
    bound.test.bits == 32 || bound.counter.extension != Extension::Whole || bound.counter.place.is_some_and(four_bytes)
}

/// Ways out of a loop that are no way to leave it.
pub(crate) struct Failures<'a> {
    pub(crate) flow: &'a ControlFlow,
    pub(crate) instructions: &'a Instructions,
    pub(crate) surroundings: &'a dyn Surroundings,
}

impl Failures<'_> {
    /// True if whatever comes behind an address ends in a call that says that something went wrong.
    pub(crate) fn is_one(&self, address: ProcAddr) -> bool {
        let Some(block) = self.flow.block_at(address) else { return false };
        let (mut known, mut work) = (BTreeSet::from([block]), vec![block]);
        while let Some(block) = work.pop() {
            let successors = &self.flow.blocks[block].successors;
            if successors.is_empty() && !self.ends_so(block) {
                return false;
            }
            work.extend(successors.iter().copied().filter(|next| known.insert(*next)));
            if known.len() > FAILURE_BLOCKS_MAX {
                return false;
            }
        }
        true
    }

    fn ends_so(&self, block: usize) -> bool {
        let last = self.instructions.get(&block).and_then(|all| all.last());
        let name = last.filter(|last| last.is_call_near()).and_then(|last| {
            let name = self.surroundings.imported(ProcAddr(last.near_branch_target()))?;
            Some(name.split('@').next()?.to_owned())
        });
        name.is_some_and(|name| {
            FAILURES.contains(&name.as_str()) || (name.starts_with(LIBRARY_THROWS) && name.contains(THROW))
        })
    }
}

/// All that is known of one loop.
pub(crate) struct Look<'a> {
    pub(crate) flow: &'a ControlFlow,
    pub(crate) found: &'a Loop,
    pub(crate) pass: &'a Pass<'a>,
    pub(crate) instructions: &'a Instructions,
    pub(crate) bound: &'a LoopBound,
    /// The blocks that test.
    pub(crate) tests: Vec<usize>,
    /// The values known before and behind each block of the function, in terms of those when it began.
    pub(crate) whole: (States, States),
    pub(crate) surroundings: &'a dyn Surroundings,
    entry: ProcAddr,
}

impl Look<'_> {
    pub(crate) fn is_inside(&self, block: usize) -> bool {
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

    /// True unless calls are made either before the test or behind it; and if behind it, nothing is written before.
    fn is_tested_within(&self) -> Result<bool, Unsure> {
        let own: Vec<&CallSite> = self.flow.calls.iter().filter(|call| self.is_inside(call.block)).collect();
        let behind = self.behind();
        let is_before = |call: &&&CallSite| self.pass.comes_to(call.block, &self.tests);
        let is_behind = |call: &&&CallSite| behind.contains(&call.block);
        match (own.iter().any(|call| is_before(&call)), own.iter().any(|call| is_behind(&call))) {
            (false, false) => Err(Unsure::InTheMiddle),
            (true, is_behind) => Ok(is_behind),
            (false, true) => Ok(!self.is_clean_before(&behind)),
        }
    }

    /// Blocks that a pass comes to behind the test.
    pub(crate) fn behind(&self) -> BTreeSet<usize> {
        let next = self.tests.iter().flat_map(|test| &self.flow.blocks[*test].successors);
        let next = next.filter(|next| **next != self.found.header && self.is_inside(**next));
        next.flat_map(|next| self.pass.reached_from(*next, &[])).collect()
    }

    /// True if nothing but the counter is written before the test.
    fn is_clean_before(&self, behind: &BTreeSet<usize>) -> bool {
        let own_loop = |block: usize| self.flow.blocks[block].innermost_loop.map(|at| &self.flow.loops[at]);
        let mut info = InstructionInfoFactory::new();
        let mut is_clean = true;
        self.walk(|block, one, state| {
            let writes = |access| !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess);
            let is_written = info.info(one).used_memory().iter().any(|used| writes(used.access()));
            let place = state.memory_operand(one);
            let is_truth = place.is_some_and(|place| matches!(place, ReadablePlace::Frame { bytes: 1, .. }));
            let is_other = is_written && place != self.bound.counter.place && !is_truth;
            is_clean &= behind.contains(&block) || (own_loop(block) == Some(self.found) && !is_other);
        });
        is_clean
    }

    /// True if a call of the loop may go on elsewhere in the function: where `setjmp` was called, or where an exception is
    /// caught behind which the function returns.
    fn is_left_by_calls(&self) -> bool {
        let mut calls = self.flow.calls.iter().filter_map(|call| call.target);
        let roots = (0..self.flow.blocks.len()).filter(|block| self.flow.blocks[*block].predecessors.is_empty());
        let mut catches =
            roots.filter(|root| !self.is_inside(*root) && self.flow.blocks[*root].range.start != self.entry);
        calls.any(|target| self.surroundings.returns_twice(target)) || catches.any(|root| self.returns_from(root))
    }

    /// True if the function may return after that block.
    fn returns_from(&self, block: usize) -> bool {
        let (mut known, mut work) = (BTreeSet::from([block]), vec![block]);
        while let Some(block) = work.pop() {
            let last = self.instructions.get(&block).and_then(|all| all.last());
            if last.is_some_and(|last| last.flow_control() == FlowControl::Return) {
                return true;
            }
            work.extend(self.flow.blocks[block].successors.iter().copied().filter(|next| known.insert(*next)));
        }
        false
    }

    /// Nobody else may write to counter and bound: true if the code shows it. Else they may be read all the same; with where the bound
    /// lies, if that is to be done from outside.
    fn check_places(&self) -> Result<(bool, Option<BehindPointer>), Unsure> {
        let (counter, bound) = (self.bound.counter.place, self.bound.bound.place);
        if self.is_own(counter, self.surroundings.keeps_counters()) && self.is_own(bound, false) {
            return Ok((true, None));
        }
        let behind = bound.and_then(|bound| self.behind_pointer(bound));
        let is_readable = |place: Option<ReadablePlace>| place.is_none_or(|place| self.is_always_readable(place));
        match is_readable(counter) && (behind.is_some() || is_readable(bound)) {
            true => Ok((false, behind)),
            false => Err(Unsure::Shared),
        }
    }

    /// True if nobody but the loop writes to a place, as far as the code shows.
    fn is_own(&self, place: Option<ReadablePlace>, is_trusting: bool) -> bool {
        match place {
            None | Some(ReadablePlace::Register(_)) => true,
            Some(place @ ReadablePlace::Fixed { bytes, .. }) => matches!(bytes, 4 | 8) && !self.is_lent(place, false),
            Some(place) if self.is_behind_pointer(place) => self.is_private(place),
            Some(ReadablePlace::Behind { .. }) => false,
            Some(place @ ReadablePlace::Frame { register, bytes, .. }) => {
                self.is_kept(register) && matches!(bytes, 4 | 8) && !self.is_lent(place, is_trusting)
            }
        }
    }

    /// True if a register is the same in each pass.
    fn is_kept(&self, register: u8) -> bool {
        let base = Linear::of(ReadablePlace::Register(register));
        self.pass.latches().into_iter().all(|at| self.pass.added(&base, 64, at) == Some(0))
    }

    /// True of registers, of the function's own frame and of variables at fixed addresses: they are there as long as the loop is.
    fn is_always_readable(&self, place: ReadablePlace) -> bool {
        match place {
            ReadablePlace::Register(_) => true,
            ReadablePlace::Fixed { bytes, .. } => matches!(bytes, 4 | 8),
            ReadablePlace::Frame { register, bytes, .. } => {
                matches!(bytes, 4 | 8) && !self.is_behind_pointer(place) && self.is_kept(register)
            }
            ReadablePlace::Behind { .. } => false,
        }
    }

    /// Memory behind a pointer that no pass changes, itself in a register or in the function's own frame.
    fn behind_pointer(&self, place: ReadablePlace) -> Option<BehindPointer> {
        let (pointer, offset, bytes) = match place {
            ReadablePlace::Frame { register, offset, bytes } if self.is_behind_pointer(place) => {
                (ReadablePlace::Register(register), offset, bytes)
            }
            ReadablePlace::Behind { register, slot, offset, bytes } => {
                (ReadablePlace::Frame { register, offset: slot, bytes: 8 }, offset, bytes)
            }
            _ => return None,
        };
        let stays = match pointer {
            ReadablePlace::Register(register) => self.is_kept(register),
            slot => self.is_always_readable(slot),
        };
        (stays && matches!(bytes, 4 | 8)).then_some(BehindPointer { pointer, offset, bytes })
    }

    /// True of memory that is named by a pointer other than those of the stack.
    pub(crate) fn is_behind_pointer(&self, place: ReadablePlace) -> bool {
        let value =
            |register| self.whole.0.get(&self.found.header).map(|state| state.value(ReadablePlace::Register(register)));
        match place {
            ReadablePlace::Behind { .. } => true,
            ReadablePlace::Frame { register, .. } => value(register).and_then(on_stack).is_none() && register != RSP,
            _ => false,
        }
    }

    /// True if nothing writes to memory behind a pointer but the loop itself, by that name.
    fn is_private(&self, place: ReadablePlace) -> bool {
        let Look { flow, found, instructions, surroundings, entry, .. } = *self;
        let (before, in_pass) = (&self.whole.0, &self.pass.before);
        let bytes = match place {
            ReadablePlace::Frame { bytes, .. } | ReadablePlace::Behind { bytes, .. } => bytes,
            _ => return false,
        };
        matches!(bytes, 4 | 8)
            && Question { flow, found, instructions, before, in_pass, surroundings, entry }.is_private(place)
    }

    /// True if code of the loop may write to a slot by its address.
    fn is_lent(&self, place: ReadablePlace, is_trusting: bool) -> bool {
        self.lender(is_trusting).is_written(place)
    }

    fn lender(&self, is_trusting: bool) -> Lender<'_> {
        let Look { flow, found, instructions, surroundings, .. } = *self;
        let (before, in_pass) = (&self.whole.0, &self.pass.before);
        Lender { flow, found, instructions, before, in_pass, surroundings, is_trusting }
    }

    /// The state right before the instruction of the loop that has its bytes there.
    fn state_at(&self, address: ProcAddr) -> Option<State> {
        let mut found = None;
        self.walk(|_, one, state| {
            if (one.ip()..one.next_ip()).contains(&address.0) {
                found = Some(state.clone());
            }
        });
        found
    }

    /// The value of a place there, less that when the pass began.
    fn moved(&self, state: &State, place: ReadablePlace, is_narrow: bool) -> Option<i64> {
        if let ReadablePlace::Behind { register, slot, .. } = place {
            let slot = ReadablePlace::Frame { register, offset: slot, bytes: 8 };
            if self.moved(state, slot, false) != Some(0) {
                return None;
            }
        }
        if let ReadablePlace::Frame { register, .. } = place {
            let base = state.value(ReadablePlace::Register(register));
            let is_as_before = matches!(base, Value::Linear(base) if base.place == Some(ReadablePlace::Register(register))
                && base.times == 1 && base.add == 0 && base.extension == Extension::Whole);
            if !is_as_before {
                return None;
            }
        }
        match state.value(place) {
            Value::Linear(now) if now.place == Some(place) && now.times == 1 => {
                (now.extension == Extension::Whole || is_narrow).then_some(now.add)
            }
            _ => None,
        }
    }

    /// The counter when the loop is entered. One that is entered in the middle of a pass has no first one.
    fn first(&self) -> Option<Linear> {
        let place = self.bound.counter.place.filter(|_| !self.found.is_irreducible())?;
        let from = self.flow.blocks[self.found.header].predecessors.iter().copied();
        let from: Vec<usize> = from.filter(|block| !self.is_inside(*block)).collect();
        let whole: Option<Vec<&State>> = from.iter().map(|block| self.whole.1.get(block)).collect();
        let whole = whole.filter(|states| !states.is_empty())?;
        if self.is_behind_pointer(place) {
            return self.put_first(place, &from);
        }
        self.constant_first(place, &whole)
            .or_else(|| self.kept_first(place, &whole))
            .or_else(|| {
                let [block] = from[..] else { return None };
                let all = self.before(block);
                // Whatever was computed in an unknown way may have been kept behind that.
                (0..all.len()).find_map(|from| self.kept_first(place, &[&state_after(&all[from..])]))
            })
            .or_else(|| self.left_first(place, &from))
    }

    /// The number that a slot of the frame has had since before calls, none of which was given its address, nor was anything
    /// else that may write to it.
    fn left_first(&self, place: ReadablePlace, from: &[usize]) -> Option<Linear> {
        if !matches!(place, ReadablePlace::Frame { bytes: 4 | 8, .. }) {
            return None;
        }
        let (_, after) = whole((self.entry, State::at_start()), self.flow, self.instructions);
        let states: Option<Vec<&State>> = from.iter().map(|block| after.get(block)).collect();
        let first = self.constant_first(place, &states?)?;
        (!self.lender(false).is_written_before(place)).then_some(first)
    }

    /// The number that is put into memory behind a pointer right before the loop, with no call and no write by another
    /// pointer between.
    fn put_first(&self, place: ReadablePlace, from: &[usize]) -> Option<Linear> {
        let [block] = from else { return None };
        let all = self.before(*block);
        let last_call = all.iter().rposition(is_call).map_or(0, |call| call + 1);
        (last_call..all.len()).find_map(|from| self.put_by(&all[from..], place))
    }

    /// The same, by these instructions.
    fn put_by(&self, instructions: &[Instruction], place: ReadablePlace) -> Option<Linear> {
        let (mut state, mut info) = (State::at_start(), InstructionInfoFactory::new());
        let mut written = Vec::new();
        for one in instructions {
            let is_written = info.info(one).used_memory().iter().any(|used| is_write(used.access()));
            if is_written && one.mnemonic() != Mnemonic::Push {
                written.push(state.memory_operand(one)?);
            }
            state.step(one, &mut info);
        }
        let named = named_before(&state, place)?;
        let is_slot = |place: &ReadablePlace| match place {
            ReadablePlace::Frame { register, .. } => *register == RSP || (*register == RBP && self.base() == RBP),
            ReadablePlace::Fixed { .. } => true,
            _ => false,
        };
        let is_apart = |other: &ReadablePlace| is_slot(other) || pointer_of(*other) == pointer_of(named);
        match state.value(named) {
            Value::Linear(first) if first.place.is_none() => written.iter().all(is_apart).then_some(first),
            _ => None,
        }
    }

    /// The instructions that run right before a block ends, whichever way the function came there.
    fn before(&self, block: usize) -> Vec<Instruction> {
        let (mut blocks, mut count) = (Vec::new(), 0);
        let mut next = Some(block);
        while let Some(block) = next.filter(|block| !blocks.contains(block) && !self.is_inside(*block)) {
            count += self.instructions.get(&block).map_or(0, Vec::len);
            if count > BEFORE_MAX && !blocks.is_empty() {
                break;
            }
            blocks.push(block);
            // The function's first block is come to in another way too.
            let is_first = self.flow.blocks[block].range.start == self.entry;
            next = match self.flow.blocks[block].predecessors[..] {
                [only] if !is_first => Some(only),
                _ => None,
            };
        }
        blocks
            .into_iter()
            .rev()
            .flat_map(|block| self.instructions.get(&block).into_iter().flatten().copied())
            .collect()
    }

    /// Another counter that begins with a number. A DO loop's variable may be lent, if no other one looks like it.
    fn clock(&self, is_seen: &dyn Fn(&Clock) -> bool) -> Option<Clock> {
        let own = self.clocks(&|place| !self.is_lent(place, false)).into_iter().find(is_seen);
        own.or_else(|| match self.clocks(&|_| true)[..] {
            [only] if self.surroundings.keeps_counters() && !self.is_lent(only.place, true) => {
                Some(only).filter(is_seen)
            }
            _ => None,
        })
    }

    /// Counters in registers and in slots that `may_be` that begin with a number.
    fn clocks(&self, may_be: &dyn Fn(ReadablePlace) -> bool) -> Vec<Clock> {
        if self.found.is_irreducible() {
            return Vec::new();
        }
        let from = self.flow.blocks[self.found.header].predecessors.iter().copied();
        let from = from.filter(|block| !self.is_inside(*block));
        let Some(from) = from.map(|block| self.whole.1.get(&block)).collect::<Option<Vec<&State>>>() else {
            return Vec::new();
        };
        let is_followed = |place: &ReadablePlace| match place {
            ReadablePlace::Register(number) => *number != RSP,
            ReadablePlace::Frame { bytes, .. } => matches!(bytes, 4 | 8) && may_be(*place),
            ReadablePlace::Fixed { bytes, .. } => matches!(bytes, 4 | 8) && may_be(*place),
            ReadablePlace::Behind { .. } => false,
        };
        let clock = |place| {
            let is_narrow =
                matches!(place, ReadablePlace::Frame { bytes: 4, .. } | ReadablePlace::Fixed { bytes: 4, .. })
                    || self.pass.step_of(&Linear::of(place), 64).is_none();
            let step = self.pass.step_of(&Linear::of(place), if is_narrow { 32 } else { 64 })?;
            let first = self.constant_first(place, &from)?;
            let first = first.value(0) as i64;
            Some(Clock { place, first, step, is_narrow })
        };
        let Some(latch) = self.pass.latches().into_iter().next() else { return Vec::new() };
        let words = self.pass.behind(latch).into_iter().flat_map(|state| state.places_in_memory());
        (0..16).map(ReadablePlace::Register).chain(words).filter(is_followed).filter_map(clock).collect()
    }

    /// If that is a number, whichever way the function comes there.
    fn constant_first(&self, place: ReadablePlace, from: &[&State]) -> Option<Linear> {
        let mut all = from.iter().map(|state| held_in(state, place));
        let first = all.next()??;
        (first.place.is_none() && all.all(|other| other == Some(first))).then_some(first)
    }

    /// If a place that stays as it is in the loop held the same, or that and a constant more.
    fn kept_first(&self, place: ReadablePlace, from: &[&State]) -> Option<Linear> {
        let held: Option<Vec<Linear>> = from.iter().map(|state| held_in(state, place)).collect();
        let held = held?;
        let made_of = |kept: ReadablePlace| {
            let mut all = from.iter().zip(&held).map(|(state, first)| {
                let other = held_in(state, kept)?;
                let is_whole =
                    other.extension == Extension::Whole || first.extension != Extension::Whole || is_narrow(self.bound);
                let (times, less) = match (other.place == first.place, other.times == first.times, other.times) {
                    (true, true, _) => (1, other.add),
                    (true, false, 1) => (first.times, other.add.wrapping_mul(first.times)),
                    _ => return None,
                };
                is_whole.then(|| (times, first.add.wrapping_sub(less)))
            });
            let first = all.next()??;
            all.all(|other| other == Some(first)).then_some(first)
        };
        let mut kept = self.kept_places(from[0], held[0].place).into_iter().filter(|kept| *kept != place);
        kept.find_map(|kept| {
            let (times, add) = made_of(kept)?;
            let first = Linear { times, add, extension: held[0].extension, ..Linear::of(kept) };
            self.stays(kept).then_some(first)
        })
    }

    /// Places that may hold in the loop what the counter began with, as the loop names them.
    fn kept_places(&self, state: &State, source: Option<ReadablePlace>) -> Vec<ReadablePlace> {
        let registers = (0..16).map(ReadablePlace::Register);
        let words = state.places_in_memory().chain(source);
        let words = words.filter_map(|place| match place {
            ReadablePlace::Fixed { .. } => Some(place),
            place => in_terms_of(state, place, self.base()),
        });
        registers.chain(words).collect()
    }

    /// The register by which the loop's code names slots.
    fn base(&self) -> u8 {
        let state = self.whole.0.get(&self.found.header);
        // Where none is kept, the register may have the address of anything.
        let value = state.map(|state| state.value(ReadablePlace::Register(RBP)));
        let has_frame = value.is_some_and(|value| on_stack(value) == Some(FRAME_POINTER));
        if has_frame { RBP } else { RSP }
    }

    /// True if it names some by the stack pointer although there is a frame pointer: they could be the same.
    fn is_named_otherwise(&self) -> bool {
        let mut is_so = false;
        self.walk(|_, one, _| {
            let is_by_stack = one.memory_base() == Register::RSP;
            is_so |= is_by_stack && self.base() == RBP;
        });
        is_so
    }

    /// True if nothing changes the place in the loop, as far as the code shows.
    fn stays(&self, place: ReadablePlace) -> bool {
        let as_it_is = |place| {
            let itself = Linear::of(place);
            self.pass.latches().into_iter().all(|latch| self.pass.added(&itself, 64, latch) == Some(0))
        };
        match place {
            ReadablePlace::Register(number) => number != RSP && as_it_is(place),
            ReadablePlace::Frame { register, bytes, .. } => {
                let is_named_so = register == self.base() && !self.is_named_otherwise();
                is_named_so
                    && matches!(bytes, 4 | 8)
                    && as_it_is(ReadablePlace::Register(register))
                    && as_it_is(place)
                    && !self.is_lent(place, false)
            }
            ReadablePlace::Fixed { bytes, .. } => {
                matches!(bytes, 4 | 8) && as_it_is(place) && !self.is_lent(place, false)
            }
            ReadablePlace::Behind { .. } => false,
        }
    }
}

/// The state after instructions, in terms of that before.
fn state_after(instructions: &[Instruction]) -> State {
    let (mut state, mut info) = (State::cautious(), InstructionInfoFactory::new());
    instructions.iter().for_each(|one| state.step(one, &mut info));
    state
}

/// A slot that is named by what a register held before, as one of the register as it is now.
fn in_terms_of(state: &State, place: ReadablePlace, base: u8) -> Option<ReadablePlace> {
    let ReadablePlace::Frame { register, offset, bytes } = place else { return None };
    match state.value(ReadablePlace::Register(base)) {
        Value::Linear(Linear {
            place: Some(ReadablePlace::Register(same)),
            times: 1,
            add,
            extension: Extension::Whole,
        }) if same == register => {
            Some(ReadablePlace::Frame { register: base, offset: offset.wrapping_sub(add), bytes })
        }
        _ => None,
    }
}

/// Memory behind a pointer, by the pointer as it was before.
fn named_before(state: &State, place: ReadablePlace) -> Option<ReadablePlace> {
    let of = |place| match state.value(place) {
        Value::Linear(held) if held.times == 1 && held.extension == Extension::Whole => Some((held.place?, held.add)),
        _ => None,
    };
    let (holder, offset, bytes) = match place {
        ReadablePlace::Frame { register, offset, bytes } => (of(ReadablePlace::Register(register))?, offset, bytes),
        ReadablePlace::Behind { register, slot, offset, bytes } => {
            let is_as_before = of(ReadablePlace::Register(register)) == Some((ReadablePlace::Register(register), 0));
            let slot = ReadablePlace::Frame { register, offset: slot, bytes: 8 };
            (of(slot).filter(|_| is_as_before)?, offset, bytes)
        }
        _ => return None,
    };
    match holder {
        (ReadablePlace::Register(register), more) => {
            Some(ReadablePlace::Frame { register, offset: offset.wrapping_add(more), bytes })
        }
        (ReadablePlace::Frame { register, offset: slot, bytes: 8 }, more) => {
            Some(ReadablePlace::Behind { register, slot, offset: offset.wrapping_add(more), bytes })
        }
        _ => None,
    }
}

/// The pointer that memory is named by.
fn pointer_of(place: ReadablePlace) -> Option<ReadablePlace> {
    match place {
        ReadablePlace::Frame { register, .. } => Some(ReadablePlace::Register(register)),
        ReadablePlace::Behind { register, slot, .. } => Some(ReadablePlace::Frame { register, offset: slot, bytes: 8 }),
        _ => None,
    }
}

/// The value of a place that is named by registers as they are now.
fn held_in(state: &State, place: ReadablePlace) -> Option<Linear> {
    let place = match place {
        ReadablePlace::Frame { register, offset, bytes } => match state.value(ReadablePlace::Register(register)) {
            Value::Linear(Linear {
                place: Some(ReadablePlace::Register(base)),
                times: 1,
                add,
                extension: Extension::Whole,
            }) => ReadablePlace::Frame { register: base, offset: offset.wrapping_add(add), bytes },
            _ => return None,
        },
        place => place,
    };
    match state.value(place) {
        Value::Linear(held) if held.extension != Extension::Lower => Some(held),
        _ => None,
    }
}
