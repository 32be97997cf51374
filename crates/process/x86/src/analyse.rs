//! A function's control flow: where it leaves, and which addresses anything may jump to.
//!
//! Wherever knowledge ends the answer is the careful one: a jump that can't be followed makes every instruction a
//! possible target, and so is every instruction that nothing was seen to lead to.
//! Next: `site`, which chooses patches from this; `flow`, `value`, `states` and `jump_table` for how it is found.

use crate::flow::Graph;
use crate::instruction::{Next, Step, decode};
use crate::jump_table::{Table, TableTargets};
use crate::states::States;
use crate::value::{State, Value};
use crate::{ClassifyJump, FunctionCode, JumpTarget, ReadMemory, Refusal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use trimtab_types::ProcAddr;

/// The control flow of a function, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    /// Instructions in all ranges, padding included.
    pub instruction_count: usize,
    /// Addresses inside that control may enter other than from the instruction before: branch and jump-table
    /// targets, landing pads, return points of calls, other entries, labels whose address is taken, and fixed
    /// addresses inside that the function reads or writes.
    /// In order, each once.
    pub targets: Vec<ProcAddr>,
    /// Where the function leaves, by address.
    pub exits: Vec<Exit>,
    /// Jumps out of the ranges that [`ClassifyJump`] did not know; each is also an exit.
    pub external_jumps: Vec<ExternalJump>,
    /// Parts of the function that jumps lead to and that were not among the ranges: add them and analyse again. As long
    /// as there are new ones, nothing else need be filled in.
    pub fragments: Vec<Range<ProcAddr>>,
    /// Indirect jumps that could not be followed. If there are any, every instruction is a possible target, and each
    /// of them may be one more exit that is not in `exits`.
    pub unresolved_indirect: Vec<ProcAddr>,
    /// True if no exit was found: the function loops for ever, or ends in calls that do not return.
    pub never_returns: bool,
    /// Branches of the function to its own first instruction.
    pub branches_to_entry: Vec<ProcAddr>,
    /// True if data may be mixed with the code.
    pub may_hold_data: bool,
    pub(crate) steps: Vec<Step>,
    pub(crate) reached: Vec<bool>,
    /// Targets that are entered by more than direct branches of this function, in order.
    pub(crate) open_targets: Vec<ProcAddr>,
    /// Targets of each followed indirect jump, by its place among `steps`.
    pub(crate) tables: BTreeMap<usize, Vec<ProcAddr>>,
    /// Entered in ways that are not seen in the code, in order.
    pub(crate) roots: Vec<ProcAddr>,
    /// The function's first instruction.
    pub(crate) entry: ProcAddr,
    /// Calls that are known not to come back, in order; see [`Analysis::ending_at`].
    pub(crate) last_calls: Vec<ProcAddr>,
}

/// A place where the function leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Exit<A = ProcAddr> {
    /// Address of the leaving instruction.
    pub at: A,
    /// Its length in bytes.
    pub len: u8,
    /// How it leaves.
    pub kind: ExitKind<A>,
}

/// How a function leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ExitKind<A = ProcAddr> {
    /// `ret`, with the bytes of arguments it pops.
    Ret {
        /// Bytes popped besides the return address.
        pop: u16,
    },
    /// A jump to another function, or to an exit that is left in place.
    TailJump {
        /// Where to.
        target: A,
    },
    /// A conditional jump to another function, or to an exit that is left in place; control stays if it is not taken.
    ConditionalTailJump {
        /// Where to.
        target: A,
    },
    /// A jump to another function through a register or memory.
    IndirectTailJump,
    /// No leaving instruction of its own: control runs on into the exit at `target`, which is left in place. The
    /// probe belongs behind all displaced instructions.
    RunsInto {
        /// The leaving instruction.
        target: A,
    },
    /// No instruction at all: control runs on into what follows.
    FallsThrough,
}

/// A jump to an address of unknown meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalJump {
    /// The jump.
    pub at: ProcAddr,
    /// Where to.
    pub target: ProcAddr,
    /// Bytes the stack pointer is below its value at entry. A tail call has 0; anything else tells of a fragment.
    pub stack_depth: Option<i64>,
}

/// Rounds of following indirect jumps; each resolves at least one more level of nested switches.
const ROUNDS_MAX: usize = 64;

/// Finds where the function leaves and what may be jumped to.
///
/// # Errors
/// [`Refusal::BadRanges`], [`Refusal::Undecodable`], [`Refusal::MisalignedCode`]: nothing in the function can be
/// patched.
pub fn analyse(
    code: &FunctionCode<'_>,
    memory: &dyn ReadMemory,
    classify: &dyn ClassifyJump,
) -> Result<Analysis, Refusal> {
    check_ranges(code)?;
    let mut work = Work::new(code, memory, classify);
    work.explore_directly()?;
    if work.finds_new_parts() {
        return Ok(Analysis { fragments: work.fragments, ..Analysis::default() });
    }
    work.explore()?;
    Ok(work.finish())
}

impl Analysis {
    /// True if control may enter at the instruction that begins at `addr` other than from the one before it.
    pub fn may_be_entered(&self, addr: ProcAddr) -> bool {
        !self.unresolved_indirect.is_empty()
            || contains(&self.targets, addr)
            || !self.index_of(addr).is_some_and(|index| self.reached[index])
    }

    /// The first address in `range` that may be jumped to.
    pub fn first_target(&self, range: Range<ProcAddr>) -> Option<ProcAddr> {
        let first = self.targets.get(self.targets.partition_point(|&target| target < range.start))?;
        (*first < range.end).then_some(*first)
    }

    pub(crate) fn is_open_target(&self, addr: ProcAddr) -> bool {
        contains(&self.open_targets, addr)
    }

    pub(crate) fn index_of(&self, addr: ProcAddr) -> Option<usize> {
        self.steps.binary_search_by_key(&addr, |step| step.at).ok()
    }

    pub(crate) fn is_reached(&self, addr: ProcAddr) -> bool {
        self.index_of(addr).is_some_and(|index| self.reached[index])
    }
}

impl Exit {
    /// One past the leaving instruction.
    pub fn end(&self) -> ProcAddr {
        self.at + u64::from(self.len)
    }

    /// True if control never runs on behind it.
    pub fn is_unconditional(&self) -> bool {
        !matches!(self.kind, ExitKind::ConditionalTailJump { .. } | ExitKind::RunsInto { .. })
    }
}

fn contains(sorted: &[ProcAddr], addr: ProcAddr) -> bool {
    sorted.binary_search(&addr).is_ok()
}

pub(crate) fn in_order(mut addresses: Vec<ProcAddr>) -> Vec<ProcAddr> {
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

fn check_ranges(code: &FunctionCode<'_>) -> Result<(), Refusal> {
    let bad = Err(Refusal::BadRanges { entry: code.entry });
    let mut sorted: Vec<(ProcAddr, ProcAddr)> = Vec::with_capacity(code.ranges.len());
    for range in &code.ranges {
        let len = (range.bytes.len() + range.after.len()) as u64;
        if range.bytes.is_empty() || range.addr.0.checked_add(len).is_none() {
            return bad;
        }
        sorted.push((range.addr, range.end()));
    }
    sorted.sort_unstable();
    let overlaps = sorted.windows(2).any(|pair| pair[1].0 < pair[0].1);
    match code.ranges.first() {
        Some(first) if first.contains(code.entry) && !overlaps => Ok(()),
        _ => bad,
    }
}

/// An analysis under way.
struct Work<'a> {
    code: &'a FunctionCode<'a>,
    memory: &'a dyn ReadMemory,
    classify: &'a dyn ClassifyJump,
    graph: Graph,
    /// Entered in ways that are not seen in the code.
    roots: Vec<ProcAddr>,
    /// Roots that are labels taken by code or data, not by the unwinder.
    has_labels: bool,
    touched: Vec<ProcAddr>,
    fragments: Vec<Range<ProcAddr>>,
    states: Option<States>,
    /// Indirect jumps with targets that `states` does not know yet.
    grown: Vec<usize>,
    /// The table each indirect jump was last found to use.
    followed: BTreeMap<usize, Table>,
    tables: BTreeMap<Table, Rc<TableTargets>>,
}

/// The meaning of an indirect jump.
enum Indirect {
    /// It takes its target from this table.
    Inside(Table),
    TailJump,
    Unresolved,
}

impl<'a> Work<'a> {
    fn new(code: &'a FunctionCode<'a>, memory: &'a dyn ReadMemory, classify: &'a dyn ClassifyJump) -> Work<'a> {
        let decoded = decode(code);
        let is_label = |addr: &ProcAddr| *addr != code.entry && code.contains(*addr);
        let mut roots = decoded.named;
        roots.extend(code.other_entries);
        roots.retain(is_label);
        let has_labels = !roots.is_empty();
        let entered = code.landing_pads.iter().chain(code.outside_branches).copied();
        roots.extend(entered.filter(is_label));
        let (roots, touched) = (in_order(roots), decoded.touched);
        let graph = Graph::new(decoded.steps);
        Work {
            code,
            memory,
            classify,
            graph,
            roots,
            has_labels,
            touched,
            fragments: Vec::new(),
            states: None,
            grown: Vec::new(),
            followed: BTreeMap::new(),
            tables: BTreeMap::new(),
        }
    }

    /// Reaches what direct branches lead to.
    fn explore_directly(&mut self) -> Result<(), Refusal> {
        let known = self.roots.iter().copied().filter(|&addr| self.graph.index_of(addr).is_some());
        let starts: Vec<ProcAddr> = [self.code.entry].into_iter().chain(known).collect();
        self.graph.explore(self.code, starts)
    }

    /// True if direct branches lead to parts that are missing. Following indirect jumps, which is most of the work, is
    /// worth it only once they are there.
    fn finds_new_parts(&mut self) -> bool {
        for index in 0..self.graph.steps.len() {
            let step = &self.graph.steps[index];
            if let Next::Jump(target) | Next::Branch(target) = step.next()
                && (!step.is_filler || self.graph.reached[index])
                && !self.code.contains(target)
            {
                self.note_fragment(target);
            }
        }
        let is_new = |part: &Range<ProcAddr>| self.code.ranges.iter().all(|range| range.addr != part.start);
        self.fragments.iter().any(is_new)
    }

    /// Reaches everything reachable, following indirect jumps until no more are found.
    fn explore(&mut self) -> Result<(), Refusal> {
        for _ in 0..ROUNDS_MAX {
            let jumps = self.indirect_jumps();
            if jumps.is_empty() {
                break;
            }
            let states = self.solve();
            let mut found = Vec::new();
            let mut grown = Vec::new();
            for index in jumps {
                if let Indirect::Inside(table) = self.follow(&states, index)
                    && self.followed.insert(index, table) != Some(table)
                {
                    let new = self.new_targets(index, table);
                    grown.extend((!new.is_empty()).then_some(index));
                    found.extend(new);
                }
            }
            self.states = Some(states);
            if found.is_empty() {
                break;
            }
            self.grown.extend(grown);
            self.graph.explore(self.code, found)?;
        }
        Ok(())
    }

    fn indirect_jumps(&self) -> Vec<usize> {
        let is_jump =
            |&index: &usize| self.graph.reached[index] && self.graph.steps[index].next() == Next::IndirectJump;
        (0..self.graph.steps.len()).filter(is_jump).collect()
    }

    /// The states, made anew or brought up to date.
    fn solve(&mut self) -> States {
        self.graph.decode_fully(self.code);
        match self.states.take() {
            Some(mut states) => {
                states.extend(&self.graph, self.code, std::mem::take(&mut self.grown));
                states
            }
            None => States::solve(&self.graph, self.code, &self.roots),
        }
    }

    /// Where the indirect jump at `index` leads, by what its register or memory operand holds.
    fn follow(&mut self, states: &States, index: usize) -> Indirect {
        let Some(state) = states.before(&self.graph, index) else { return Indirect::Unresolved };
        // With labels about, an address from outside may be one of them.
        let may_leave = state.depth() == Some(0) && !self.has_labels;
        let value = state.jump_value(&self.graph.decoded[index]);
        match value.table() {
            Some(table) => match *self.targets_of(table) {
                TableTargets::Inside { .. } => Indirect::Inside(table),
                TableTargets::Outside if may_leave => Indirect::TailJump,
                _ => Indirect::Unresolved,
            },
            None if value == Value::Foreign && may_leave => Indirect::TailJump,
            _ => Indirect::Unresolved,
        }
    }

    /// Adds the targets of `table` to those of the jump at `index`, and tells which of them are new.
    fn new_targets(&mut self, index: usize, table: Table) -> Vec<ProcAddr> {
        let targets = self.targets_of(table);
        let TableTargets::Inside { targets, .. } = &*targets else { return Vec::new() };
        let known = self.graph.table_targets.entry(index).or_default();
        let new: Vec<ProcAddr> = targets.iter().copied().filter(|&target| !contains(known, target)).collect();
        known.extend(&new);
        known.sort_unstable();
        new
    }

    /// Where a table leads; each is read once.
    fn targets_of(&mut self, table: Table) -> Rc<TableTargets> {
        if let Some(known) = self.tables.get(&table) {
            return known.clone();
        }
        let targets = Rc::new(table.targets(self.code, &self.graph, self.memory, self.classify));
        if let TableTargets::Inside { outside, .. } = &*targets {
            outside.iter().for_each(|&target| self.note_fragment(target));
        }
        self.tables.insert(table, targets.clone());
        targets
    }

    fn note_fragment(&mut self, target: ProcAddr) {
        if let JumpTarget::Fragment(range) = self.classify.classify(target)
            && !self.fragments.contains(&range)
        {
            self.fragments.push(range);
        }
    }

    fn finish(mut self) -> Analysis {
        let mut analysis = Analysis { instruction_count: self.graph.steps.len(), ..Analysis::default() };
        for index in 0..self.graph.steps.len() {
            self.finish_step(index, &mut analysis);
        }
        let is_hidden = |step: &Step| step.next() == Next::Invalid;
        analysis.may_hold_data = !self.touched.is_empty() || self.graph.steps.iter().any(is_hidden);
        let mut open_targets = self.graph.open_targets(self.code);
        open_targets.extend(self.roots.iter().chain(&self.touched));
        analysis.open_targets = in_order(open_targets);
        let mut targets = self.graph.direct_targets(self.code);
        targets.extend(&analysis.open_targets);
        analysis.targets = in_order(targets);
        analysis.tables = self.graph.table_targets;
        analysis.roots = self.roots;
        analysis.entry = self.code.entry;
        analysis.exits.sort_unstable();
        analysis.never_returns = analysis.exits.is_empty();
        analysis.fragments = self.fragments;
        analysis.steps = self.graph.steps;
        analysis.reached = self.graph.reached;
        analysis
    }

    fn finish_step(&mut self, index: usize, analysis: &mut Analysis) {
        let step = self.graph.steps[index];
        let reached = self.graph.reached[index];
        if !reached && step.is_filler {
            return;
        }
        let mut exit = |kind| analysis.exits.push(Exit { at: step.at, len: step.len, kind });
        match step.next() {
            Next::Return(pop) => exit(ExitKind::Ret { pop }),
            Next::Jump(target) | Next::Branch(target) if !self.code.contains(target) => {
                self.finish_external(index, target, analysis);
            }
            Next::IndirectJump => match self.follow_finally(index) {
                Indirect::Inside(_) => {}
                Indirect::TailJump => exit(ExitKind::IndirectTailJump),
                Indirect::Unresolved => analysis.unresolved_indirect.push(step.at),
            },
            Next::Jump(target) | Next::Branch(target) if target == self.code.entry => {
                analysis.branches_to_entry.push(step.at);
            }
            Next::Jump(target) | Next::Branch(target) if self.is_behind_marker(target) => {
                analysis.branches_to_entry.push(step.at);
            }
            _ => {}
        }
        let runs_on = matches!(step.next(), Next::Sequential | Next::Branch(_));
        if reached && runs_on && self.graph.following(index).is_none() {
            analysis.exits.push(Exit { at: step.end(), len: 0, kind: ExitKind::FallsThrough });
        }
    }

    fn finish_external(&mut self, index: usize, target: ProcAddr, analysis: &mut Analysis) {
        let step = self.graph.steps[index];
        let meaning = self.classify.classify(target);
        match meaning {
            JumpTarget::Fragment(_) => return self.note_fragment(target),
            JumpTarget::TailCall => {}
            JumpTarget::Unknown => {
                let stack_depth = self.state_before(index).and_then(|state| state.depth());
                analysis.external_jumps.push(ExternalJump { at: step.at, target, stack_depth });
            }
        }
        let kind = match step.next() {
            Next::Branch(_) => ExitKind::ConditionalTailJump { target },
            _ => ExitKind::TailJump { target },
        };
        analysis.exits.push(Exit { at: step.at, len: step.len, kind });
    }

    fn follow_finally(&mut self, index: usize) -> Indirect {
        let Some(states) = self.states.take() else { return Indirect::Unresolved };
        let followed = self.follow(&states, index);
        self.states = Some(states);
        match followed {
            // Targets that came up only now were never explored.
            Indirect::Inside(table) if self.followed.get(&index) != Some(&table) => Indirect::Unresolved,
            followed => followed,
        }
    }

    fn state_before(&mut self, index: usize) -> Option<State> {
        if self.states.is_none() {
            self.states = Some(self.solve());
        }
        self.states.as_ref().and_then(|states| states.before(&self.graph, index))
    }

    /// True if `target` is the instruction behind an `endbr64` at the entry.
    fn is_behind_marker(&self, target: ProcAddr) -> bool {
        target == self.code.entry + ENTRY_MARKER.len() as u64 && entry_has_marker(self.code)
    }
}

/// `endbr64`.
pub const ENTRY_MARKER: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// True if the function begins with `endbr64`.
pub fn entry_has_marker(code: &FunctionCode<'_>) -> bool {
    code.ranges.first().is_some_and(|range| {
        let offset = code.entry.0.saturating_sub(range.addr.0) as usize;
        range.bytes.get(offset..).is_some_and(|bytes| bytes.starts_with(&ENTRY_MARKER))
    })
}
