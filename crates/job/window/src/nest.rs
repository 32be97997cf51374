//! The nest of loops that are running, from samples of stacks and from the binary, and which of them is an iteration.
//!
//! Most samples of a program at work share their outer functions. In each of these the loops around the call of the next
//! one are candidates, and so are loops around all that happens in the last common one. How often they are passed is
//! counted (`trimtab-script`), and a rule says which one is the main loop. A loop of an interpreter or of a function that
//! calls itself is none of the program's: its passes mean something else.
//!
//! Next: [`find_nest`], then [`choose_loop`].

mod bursts;
mod in_step;

pub use bursts::Bursts;
pub use in_step::InStep;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trimtab_types::FileAddr;

/// The part of the samples that a loop must be in to be shown.
pub const SHARE_MIN: f64 = 0.5;
/// The part of the stacks in which a function must occur twice to be one that calls itself.
const RECURSIVE_SHARE_MIN: f64 = 0.1;
/// Passes after which a loop repeats.
pub const PASSES_MIN: u64 = 3;
/// Passes of a loop in one of the loop around it that may be stages of a step, as those of a Runge-Kutta method.
const STAGES_MAX: u64 = 4;
/// The outermost loop is given so many seconds, or as long as the innermost one takes for [`PASSES_MIN`] passes.
pub const NEST_SECONDS: f64 = 2.0;
/// The part of `--max-seconds` that may pass until a loop is chosen.
pub const NEST_PART_MAX: f64 = 1.0 / 3.0;
/// The part of it that may pass where no loop has repeated yet, but one was passed twice.
const SIGHT_PART_MAX: f64 = 1.0 / 2.0;
/// An outermost loop that may be passed in bursts is looked at for so long.
const BURST_SECONDS: f64 = 0.05;
/// Of so many passes of a main loop at least one has a call of MPI in it.
const PASSES_PER_MPI_PASS_MAX: u64 = 10;
/// The part of the passes of a loop below a function that calls itself which have calls of MPI, if it is a main loop.
const IN_RECURSION_WITH_CALLS_MIN: f64 = 0.9;

/// A function of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId {
    /// Number of the file, as the caller counts them.
    pub module: usize,
    /// Its first instruction.
    pub start: FileAddr,
}

/// One function on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackCall {
    /// Which.
    pub function: FunctionId,
    /// Where in it the thread is: at the call of the next one, or at its own instruction.
    pub at: FileAddr,
}

/// A stack that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenStack {
    /// The rank.
    pub rank: u32,
    /// The functions, outermost first.
    pub calls: Vec<StackCall>,
}

/// The owner of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The program's own, or of a library of its own: one that asks for functions of MPI.
    Program,
    /// Of a library that asks for none: its loops are the program's only where it calls back.
    Library,
    /// Of MPI, of a binding to it, or of a tool between it and the program.
    Mpi,
    /// Of an interpreter, or of whatever else calls in a loop what it is told to.
    Interpreter,
    /// Of the C library, the loader or a language's runtime.
    System,
}

/// A loop of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionLoop {
    /// Its number as scripts give it: `[1, 2]` is the second loop in the first.
    pub number: Vec<u32>,
    /// Where its passes begin.
    pub header: FileAddr,
    /// Branches by which it goes back there.
    pub backs: Vec<FileAddr>,
    /// Its code.
    pub blocks: Vec<Range<FileAddr>>,
}

impl FunctionLoop {
    fn contains(&self, at: FileAddr) -> bool {
        self.blocks.iter().any(|block| block.contains(&at))
    }
}

/// Questions about the binary.
pub trait Binary {
    /// The owner of a function.
    fn origin(&self, function: FunctionId) -> Origin;
    /// Its loops, outer ones first; `None`: its code can't be understood.
    fn loops(&self, function: FunctionId) -> Option<Vec<FunctionLoop>>;
    /// True if no pass of what is around both loops of a function goes through the one and the other.
    fn are_alternatives(&self, function: FunctionId, one: &[u32], other: &[u32]) -> bool;
}

/// A loop that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct NestLoop {
    /// The function that it is in.
    pub function: FunctionId,
    /// Its number in that.
    pub number: Vec<u32>,
    /// Where its passes begin.
    pub header: FileAddr,
    /// Branches by which it goes back there.
    pub backs: Vec<FileAddr>,
    /// The part of the stacks that are in it.
    pub share: f64,
    /// True if one of them was in MPI below it.
    pub is_seen_in_mpi: bool,
    /// Ranks of which no stack is in it.
    pub ranks_without: Vec<u32>,
    /// The loops of the same function that the ranks are in instead of which no stack is in this one itself, on other sides of a
    /// branch: one rank sends what another receives. None if some are elsewhere.
    pub instead: Vec<Vec<u32>>,
    /// A function that calls itself, between it and the known loops around it.
    pub in_recursion: Option<FunctionId>,
}

/// Why loops around are not known or mean nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// An interpreter's function runs the program.
    Interpreter(FunctionId),
    /// A function that calls itself.
    Recursive(FunctionId),
    /// A function whose code can't be understood.
    Unread(FunctionId),
    /// No two stacks have a function in common, or there is none.
    NothingInCommon,
}

/// The loops that run, outermost first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nest {
    /// The loops.
    pub loops: Vec<NestLoop>,
    /// The functions that most stacks have in common, outermost first, up to MPI.
    pub path: Vec<FunctionId>,
    /// The obstacles, in the order of the functions.
    pub unusable: Vec<Unusable>,
}

impl Nest {
    /// True if an interpreter runs the program: the loop that the user means is then none of the machine's.
    pub fn interpreter(&self) -> Option<FunctionId> {
        self.unusable.iter().find_map(|one| match one {
            Unusable::Interpreter(function) => Some(*function),
            _ => None,
        })
    }

    /// A function around the outermost loop may have a loop of its own that is not known; this says why.
    pub fn unknown_around(&self) -> Option<&Unusable> {
        let place = |function: &FunctionId| self.path.iter().position(|one| one == function);
        let outermost = place(&self.loops.first()?.function)?;
        self.unusable.iter().find(|one| match one {
            Unusable::Recursive(function) | Unusable::Unread(function) => {
                place(function).is_some_and(|at| at < outermost)
            }
            Unusable::Interpreter(_) | Unusable::NothingInCommon => false,
        })
    }
}

/// Finds the loops that at least [`SHARE_MIN`] of `stacks` are in.
pub fn find_nest(stacks: &[SeenStack], binary: &dyn Binary) -> Nest {
    let mut search =
        Search { stacks, binary, recursive: recursive(stacks, binary), nest: Nest::default(), in_recursion: None };
    let mut together: Vec<&SeenStack> = stacks.iter().collect();
    for depth in 0.. {
        let Some((function, most)) = most_common(&together, depth) else { break };
        if (most.len() as f64) < SHARE_MIN * stacks.len() as f64 || binary.origin(function) == Origin::Mpi {
            break;
        }
        search.nest.path.push(function);
        search.look_into(function, depth, &most);
        together = most;
    }
    if search.nest.path.is_empty() {
        search.nest.unusable.push(Unusable::NothingInCommon);
    }
    search.nest
}

/// Functions of the program that call themselves, directly or through others.
fn recursive(stacks: &[SeenStack], binary: &dyn Binary) -> BTreeSet<FunctionId> {
    let mut counts: BTreeMap<FunctionId, usize> = BTreeMap::new();
    for stack in stacks {
        let (mut once, mut twice) = (BTreeSet::new(), BTreeSet::new());
        for call in &stack.calls {
            if !once.insert(call.function) {
                twice.insert(call.function);
            }
        }
        twice.into_iter().for_each(|function| *counts.entry(function).or_default() += 1);
    }
    let is_often = |count: usize| count as f64 >= RECURSIVE_SHARE_MIN * stacks.len() as f64;
    let is_own = |function: &FunctionId| matches!(binary.origin(*function), Origin::Program | Origin::Library);
    counts.into_iter().filter(|(function, count)| is_often(*count) && is_own(function)).map(|(one, _)| one).collect()
}

/// The function that most stacks have at `depth`, and those stacks.
fn most_common<'s>(stacks: &[&'s SeenStack], depth: usize) -> Option<(FunctionId, Vec<&'s SeenStack>)> {
    let mut groups: BTreeMap<FunctionId, Vec<&SeenStack>> = BTreeMap::new();
    for stack in stacks {
        if let Some(call) = stack.calls.get(depth) {
            groups.entry(call.function).or_default().push(stack);
        }
    }
    groups.into_iter().max_by_key(|(_, group)| group.len())
}

struct Search<'a> {
    stacks: &'a [SeenStack],
    binary: &'a dyn Binary,
    recursive: BTreeSet<FunctionId>,
    nest: Nest,
    /// The function that calls itself and lies in a known loop, once there was one.
    in_recursion: Option<FunctionId>,
}

impl Search<'_> {
    /// Adds the loops of a function that most stacks are in.
    fn look_into(&mut self, function: FunctionId, depth: usize, stacks: &[&SeenStack]) {
        match self.binary.origin(function) {
            Origin::Mpi | Origin::System => return,
            Origin::Interpreter => {
                if self.nest.interpreter().is_none() {
                    self.nest.unusable.push(Unusable::Interpreter(function));
                }
                return;
            }
            Origin::Program | Origin::Library => {}
        }
        if self.recursive.contains(&function) {
            let why = Unusable::Recursive(function);
            if !self.nest.unusable.contains(&why) {
                self.nest.unusable.push(why);
            }
            if !self.nest.loops.is_empty() {
                self.in_recursion.get_or_insert(function);
            }
            return;
        }
        let Some(loops) = self.binary.loops(function) else {
            return self.nest.unusable.push(Unusable::Unread(function));
        };
        let stacks_in = |one: &FunctionLoop| -> Vec<&SeenStack> {
            stacks.iter().filter(|stack| one.contains(stack.calls[depth].at)).copied().collect()
        };
        for found in &loops {
            let inside = stacks_in(found);
            let around =
                loops.iter().find(|one| found.number.split_last().is_some_and(|(_, outer)| one.number == outer));
            let around = around.filter(|_| self.has_rank_of(&inside)).map_or_else(|| inside.clone(), stacks_in);
            let judged = self.judged(function, found.clone(), depth, &inside, &around);
            let ranks_in = |one: &FunctionLoop| stacks_in(one).into_iter().map(|stack| stack.rank).collect();
            self.nest
                .loops
                .extend(judged.map(|one| NestLoop { instead: self.instead(&one, &loops, &ranks_in), ..one }));
        }
    }

    /// Loops as deep in the function as this one, in which the ranks are that are not in this one, each in one of them.
    fn instead(
        &self,
        one: &NestLoop,
        loops: &[FunctionLoop],
        ranks_in: &dyn Fn(&FunctionLoop) -> BTreeSet<u32>,
    ) -> Vec<Vec<u32>> {
        let own = loops.iter().find(|own| own.number == one.number).map(ranks_in).unwrap_or_default();
        let mut lacking: BTreeSet<u32> = self.stacks.iter().map(|stack| stack.rank).collect();
        lacking.retain(|rank| !own.contains(rank));
        let mut chosen = vec![one.number.clone()];
        for other in loops.iter().filter(|other| other.number.len() == one.number.len()) {
            let ranks = ranks_in(other);
            let is_apart = |known: &Vec<u32>| self.binary.are_alternatives(one.function, known, &other.number);
            if !ranks.is_empty() && ranks.is_subset(&lacking) && chosen.iter().all(is_apart) {
                lacking.retain(|rank| !ranks.contains(rank));
                chosen.push(other.number.clone());
            }
        }
        if lacking.is_empty() { chosen.split_off(1) } else { Vec::new() }
    }

    /// True if all stacks of some rank are among these.
    ///
    /// Where only some ranks do something at the end of a pass, compilers give these a way back of their own, and so an
    /// inner loop: what lies before its beginning is part of a pass, too, and there the stacks of the others may be.
    fn has_rank_of(&self, inside: &[&SeenStack]) -> bool {
        let mut counts: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
        self.stacks.iter().for_each(|stack| counts.entry(stack.rank).or_default().0 += 1);
        inside.iter().for_each(|stack| counts.entry(stack.rank).or_default().1 += 1);
        counts.values().any(|(all, inside)| all == inside)
    }

    /// A loop with the stacks in it, if these, or those that count as such, are enough.
    fn judged(
        &self,
        function: FunctionId,
        found: FunctionLoop,
        depth: usize,
        inside: &[&SeenStack],
        around: &[&SeenStack],
    ) -> Option<NestLoop> {
        let share = inside.len() as f64 / self.stacks.len() as f64;
        let any_below = |wanted: &[Origin]| {
            let below = inside.iter().flat_map(|stack| &stack.calls[depth + 1..]);
            below.into_iter().any(|call| wanted.contains(&self.binary.origin(call.function)))
        };
        let is_own = match self.binary.origin(function) {
            Origin::Library => any_below(&[Origin::Program, Origin::Mpi]),
            _ => true,
        };
        if (around.len() as f64) < SHARE_MIN * self.stacks.len() as f64 || !is_own {
            return None;
        }
        let ranks: BTreeSet<u32> = self.stacks.iter().map(|stack| stack.rank).collect();
        let with: BTreeSet<u32> = around.iter().map(|stack| stack.rank).collect();
        Some(NestLoop {
            function,
            number: found.number,
            header: found.header,
            backs: found.backs,
            share,
            is_seen_in_mpi: any_below(&[Origin::Mpi]),
            ranks_without: ranks.difference(&with).copied().collect(),
            instead: Vec::new(),
            in_recursion: self.in_recursion,
        })
    }
}

/// The passes that were counted of a loop on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Passes {
    /// How often it was passed.
    pub passes: u64,
    /// Passes before which MPI was called since the pass before.
    pub with_mpi: u64,
}

/// A loop that may be chosen, on the rank that has passed it least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// The counts; `None`: its passes can't be seen, or are too many to be counted.
    pub passes: Option<Passes>,
    /// True if a stack was in MPI below it.
    pub is_seen_in_mpi: bool,
    /// It can't be counted, so that nobody knows how often it is passed: what is inside of it may be inner loops only.
    pub is_hidden: bool,
    /// Its passes come in bursts ([`Bursts`]).
    pub is_in_bursts: bool,
    /// A loop inside of it was left before, and it still runs: that one may have been a part of its passes.
    pub is_around_left: bool,
    /// A function that calls itself lies around all known loops: it may be one loop of a program's script and another.
    pub is_in_recursion: bool,
}

impl Counted {
    /// True if an iteration may be a pass of it: passes can be counted, and MPI is called in them. Below a function that
    /// calls itself, in nearly all of them: where a program interprets a script of its own, one loop of it runs all those of
    /// the script, and passes of some of these have no calls.
    fn may_be_main(&self) -> bool {
        self.passes.is_some_and(|Passes { passes, with_mpi }| match self.is_in_recursion && passes >= PASSES_MIN {
            true => with_mpi as f64 >= IN_RECURSION_WITH_CALLS_MIN * passes as f64,
            false => self.is_seen_in_mpi || with_mpi * PASSES_PER_MPI_PASS_MAX >= passes.max(1),
        })
    }

    fn is_in_sight(&self) -> bool {
        self.passes.is_some_and(|counted| counted.passes + 1 >= PASSES_MIN)
    }

    /// True if it is around a loop that was left, and three of its passes may fit into the limit, as far as is seen.
    fn may_come_around(&self, elapsed_s: f64, limit_s: f64) -> bool {
        let fits = |counted: Passes| (counted.passes + 1) as f64 * limit_s > PASSES_MIN as f64 * elapsed_s;
        self.is_around_left && !self.is_in_bursts && self.passes.is_some_and(fits)
    }

    fn repeats(&self) -> bool {
        self.passes.is_some_and(|counted| counted.passes >= PASSES_MIN)
    }
}

/// Which loop is the main one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopChoice {
    /// The one with this number, from 0.
    Take(usize),
    /// It is too early to say.
    Wait,
    /// None.
    Nothing,
}

/// The rule: the outermost loop that is passed three times within 2 s, or as long as the innermost one needs for three
/// passes if that is longer, and at most a third of `max_s`, or half of it where no loop has been passed more often than twice. `loops` are those of a nest, outermost first, after `elapsed_s`.
/// One that is passed as often as the one inside of it is waited for as long as that, and so is one in each of whose passes that is
/// passed at most four times: these are the stages of a step. Nothing inside of a hidden one is taken; one whose passes come in bursts is if there is no other. A loop around one that
/// was left is given all of that time, as long as three passes of it may fit.
pub fn choose_loop(loops: &[Counted], elapsed_s: f64, max_s: f64) -> LoopChoice {
    let seen = loops.iter().position(|one| one.is_hidden).unwrap_or(loops.len());
    let loops = &loops[..seen];
    if loops.is_empty() {
        return LoopChoice::Nothing;
    }
    let may_be_main: Vec<usize> = (0..loops.len()).filter(|index| loops[*index].may_be_main()).collect();
    let all_repeating = || may_be_main.iter().copied().filter(|index| loops[*index].repeats());
    let repeating = all_repeating().find(|index| !loops[*index].is_in_bursts).or_else(|| all_repeating().next());
    // Nothing around it can be the main loop: it is chosen at once, unless a burst of it may be all that was seen.
    let outermost = (0..loops.len()).find(|index| loops[*index].passes.is_some());
    let is_sure = |index: usize| {
        let has_others = loops[index + 1..].iter().any(|one| one.passes.is_some());
        !loops[index].is_in_bursts && (!has_others || elapsed_s >= BURST_SECONDS.min(max_s * NEST_PART_MAX))
    };
    if let Some(taken) = repeating.filter(|index| Some(*index) == outermost && is_sure(*index)) {
        return LoopChoice::Take(taken);
    }
    // A loop whose third pass is in sight is waited for.
    let is_in_sight = may_be_main.iter().any(|index| loops[*index].is_in_sight());
    let limit_s = max_s * if repeating.is_none() && is_in_sight { SIGHT_PART_MAX } else { NEST_PART_MAX };
    let is_awaited = |index: &usize| {
        repeating.is_none_or(|inside| *index < inside) && loops[*index].may_come_around(elapsed_s, limit_s)
    };
    // One that has passed as often as the one inside of it, but for the pass that goes on, is the next to repeat. So is one of whose
    // passes that one's are stages.
    let passes = |index: usize| loops[index].passes.map_or(0, |counted| counted.passes);
    let is_abreast = |index: &usize| {
        let own = passes(*index);
        let stages = if own > 0 { STAGES_MAX * (own + 1) } else { 0 };
        let is_next = |inside| *index < inside && passes(inside) <= stages.max(own + 1);
        repeating.is_some_and(is_next) && !loops[*index].is_in_bursts
    };
    let is_any_awaited = may_be_main.iter().any(|index| is_awaited(index) || is_abreast(index));
    // One that some rank does not pass at all says nothing of the time that it takes.
    let innermost =
        may_be_main.iter().rev().find(|index| loops[**index].passes.is_some_and(|counted| counted.passes > 0));
    let innermost_repeats = innermost.is_some_and(|index| loops[*index].repeats());
    let may_take_long = !innermost_repeats || is_any_awaited;
    if elapsed_s < NEST_SECONDS.min(limit_s) || (may_take_long && elapsed_s < limit_s) {
        return LoopChoice::Wait;
    }
    repeating.map_or(LoopChoice::Nothing, LoopChoice::Take)
}

#[cfg(test)]
mod tests;
