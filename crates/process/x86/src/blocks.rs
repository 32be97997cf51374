//! Basic blocks, dominators and calls of one function, for those who want to see more than its entry and exits.
//!
//! Addresses of blocks depend on nothing but the function's bytes. Where an indirect jump could not be followed the
//! picture is incomplete and says so. Next: `loops`, which are found on this graph; `point`, which patches at these
//! places.

use crate::Analysis;
use crate::flow::{enter, following};
use crate::instruction::{Next, Step};
use crate::loops::{Loop, find_loops};
use std::collections::BTreeMap;
use std::ops::Range;
use trimtab_types::ProcAddr;

/// A function as a graph of blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlFlow {
    /// Blocks in address order.
    pub blocks: Vec<Block>,
    /// Loops in address order of their headers, an outer one before those inside it.
    pub loops: Vec<Loop>,
    /// Calls in address order.
    pub calls: Vec<CallSite>,
    /// True if every jump could be followed. If not, blocks and edges may be missing.
    pub is_complete: bool,
    /// Blocks in reverse postorder of a walk from the entry.
    order: Vec<usize>,
}

/// Instructions that are passed one after the other; calls in between come back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Its bytes.
    pub range: Range<ProcAddr>,
    /// Address of its last instruction.
    pub last: ProcAddr,
    /// Where control goes from its end, as indices of blocks, each once.
    pub successors: Vec<usize>,
    /// Where control comes from.
    pub predecessors: Vec<usize>,
    /// The nearest block that every path from the function's entry to this one passes. None for the entry, and for
    /// blocks that are entered in ways not seen in the code, such as landing pads.
    pub dominator: Option<usize>,
    /// The innermost loop around it, as an index of loops.
    pub innermost_loop: Option<usize>,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// Address of the call.
    pub at: ProcAddr,
    /// Where the callee returns to.
    pub return_address: ProcAddr,
    /// The callee, if it is named in the instruction.
    pub target: Option<ProcAddr>,
    /// The block it lies in.
    pub block: usize,
}

/// A way from one block to another, or out of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The last instruction of the block it leaves.
    pub from: ProcAddr,
    /// Where it leads.
    pub to: ProcAddr,
    /// True if that instruction jumps there; if not, control runs on into it.
    pub is_jump: bool,
}

impl ControlFlow {
    /// The blocks, loops and calls of an analysed function, all of whose calls may come back.
    pub fn of(analysis: &Analysis) -> ControlFlow {
        ControlFlow::of_ended(analysis)
    }

    /// The same, where calls of what `never_returns` names by its address don't come back.
    pub fn ending_at(analysis: &Analysis, never_returns: &dyn Fn(ProcAddr) -> bool) -> ControlFlow {
        ControlFlow::of_ended(&analysis.ending_at(never_returns))
    }

    fn of_ended(analysis: &Analysis) -> ControlFlow {
        let mut flow = ControlFlow { is_complete: analysis.unresolved_indirect.is_empty(), ..ControlFlow::default() };
        flow.find_blocks(analysis);
        flow.connect(analysis);
        let roots = flow.roots(analysis);
        flow.order = flow.reverse_postorder(&roots);
        flow.find_dominators(&roots);
        flow.find_loops_again(analysis, &BTreeMap::new());
        flow
    }

    /// Finds the loops, where passes of those with some headers are counted at another block that all of them go through.
    pub(crate) fn find_loops_again(&mut self, analysis: &Analysis, counted_at: &BTreeMap<usize, usize>) {
        let roots = self.roots(analysis);
        self.loops = find_loops(self, analysis, &roots, counted_at);
        self.blocks.iter_mut().for_each(|block| block.innermost_loop = None);
        for (index, found) in self.loops.iter().enumerate() {
            // Inner loops come later, so the innermost wins.
            found.blocks.iter().for_each(|&block| self.blocks[block].innermost_loop = Some(index));
        }
    }

    /// The block that holds the byte at `addr`.
    pub fn block_at(&self, addr: ProcAddr) -> Option<usize> {
        let index = self.blocks.partition_point(|block| block.range.start <= addr).checked_sub(1)?;
        self.blocks[index].range.contains(&addr).then_some(index)
    }

    /// True if every path to block `below` passes block `above`; every block dominates itself.
    pub fn dominates(&self, above: usize, below: usize) -> bool {
        let mut at = Some(below);
        while let Some(block) = at {
            if block == above {
                return true;
            }
            at = self.blocks[block].dominator;
        }
        false
    }

    /// The loop with this number: `[1, 2]` is the second loop within the first.
    pub fn loop_numbered(&self, number: &[u32]) -> Option<&Loop> {
        self.loops.iter().find(|found| found.number == number)
    }

    /// True if no pass of what is around both loops goes through the one and the other: they stand on two sides of a branch.
    pub fn are_alternatives(&self, one: &[u32], other: &[u32]) -> bool {
        let (Some(first), Some(second)) = (self.loop_numbered(one), self.loop_numbered(other)) else { return false };
        let common = one.iter().zip(other).take_while(|(one, other)| one == other).count();
        let around = self.loop_numbered(&one[..common]);
        let is_inside = common == one.len() || common == other.len();
        if is_inside || !self.is_complete || around.is_some_and(Loop::is_irreducible) {
            return false;
        }
        let begins = around.map(|around| around.header);
        !self.leads_to(first, second, begins) && !self.leads_to(second, first, begins)
    }

    /// True if there is a way from one loop to another that does not go through the block `but`.
    fn leads_to(&self, from: &Loop, to: &Loop, but: Option<usize>) -> bool {
        let mut is_seen = vec![false; self.blocks.len()];
        let mut left = from.blocks.clone();
        while let Some(block) = left.pop() {
            if Some(block) == but || std::mem::replace(&mut is_seen[block], true) {
                continue;
            }
            if to.blocks.contains(&block) {
                return true;
            }
            left.extend(&self.blocks[block].successors);
        }
        false
    }

    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    fn find_blocks(&mut self, analysis: &Analysis) {
        let steps = &analysis.steps;
        let starts = block_starts(analysis);
        for index in (0..steps.len()).filter(|&index| analysis.reached[index]) {
            let step = steps[index];
            let goes_on = !starts[index] && self.blocks.last().is_some_and(|block| block.range.end == step.at);
            match self.blocks.last_mut().filter(|_| goes_on) {
                Some(block) => (block.range.end, block.last) = (step.end(), step.at),
                None => self.blocks.push(Block { range: step.at..step.end(), last: step.at, ..Block::default() }),
            }
            if let Next::Call(target) = step.next() {
                let block = self.blocks.len() - 1;
                self.calls.push(CallSite { at: step.at, return_address: step.end(), target, block });
            }
        }
    }

    fn connect(&mut self, analysis: &Analysis) {
        for from in 0..self.blocks.len() {
            let mut successors = Vec::new();
            for_each_edge(analysis, self.blocks[from].last, |edge| {
                successors.extend(self.entered_at(analysis, edge.to))
            });
            successors.sort_unstable();
            successors.dedup();
            for &to in &successors {
                self.blocks[to].predecessors.push(from);
            }
            self.blocks[from].successors = successors;
        }
    }

    fn entered_at(&self, analysis: &Analysis, addr: ProcAddr) -> Option<usize> {
        self.block_at(analysis.steps[enter(&analysis.steps, addr)?].at)
    }

    /// The entry, and what is entered in ways not seen in the code.
    fn roots(&self, analysis: &Analysis) -> Vec<usize> {
        let entered = [analysis.entry].into_iter().chain(analysis.roots.iter().copied());
        let mut roots: Vec<usize> = entered.filter_map(|addr| self.entered_at(analysis, addr)).collect();
        // A part that only a call inside the function leads to.
        roots.extend((0..self.blocks.len()).filter(|&block| self.blocks[block].predecessors.is_empty()));
        let mut seen = vec![false; self.blocks.len()];
        roots.retain(|&block| !std::mem::replace(&mut seen[block], true));
        roots
    }

    fn reverse_postorder(&self, roots: &[usize]) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.blocks.len());
        let mut seen = vec![false; self.blocks.len()];
        for &root in roots {
            let mut path = vec![(root, 0)];
            if std::mem::replace(&mut seen[root], true) {
                continue;
            }
            while let Some((block, next)) = path.last_mut() {
                match self.blocks[*block].successors.get(*next) {
                    Some(&successor) => {
                        *next += 1;
                        if !std::mem::replace(&mut seen[successor], true) {
                            path.push((successor, 0));
                        }
                    }
                    None => {
                        order.push(*block);
                        path.pop();
                    }
                }
            }
        }
        order.reverse();
        order
    }

    /// By Cooper, Harvey and Kennedy: each block's dominator is where the paths of its predecessors meet. All roots hang
    /// from one that is no block.
    fn find_dominators(&mut self, roots: &[usize]) {
        let above_all = self.blocks.len();
        let mut place = vec![0; self.blocks.len() + 1];
        self.order.iter().enumerate().for_each(|(at, &block)| place[block] = at + 1);
        let mut dominator: Vec<Option<usize>> = vec![None; self.blocks.len() + 1];
        dominator[above_all] = Some(above_all);
        roots.iter().for_each(|&root| dominator[root] = Some(above_all));
        let is_root: Vec<bool> = (0..self.blocks.len()).map(|block| dominator[block].is_some()).collect();
        let mut changed = true;
        while changed {
            changed = false;
            for &block in self.order.iter().filter(|&&block| !is_root[block]) {
                let known = self.blocks[block].predecessors.iter().filter(|&&from| dominator[from].is_some());
                let met = known.copied().reduce(|one, other| meet(&dominator, &place, one, other));
                if met.is_some() && dominator[block] != met {
                    dominator[block] = met;
                    changed = true;
                }
            }
        }
        for (block, dominator) in self.blocks.iter_mut().zip(dominator) {
            block.dominator = dominator.filter(|&above| above != above_all);
        }
    }
}

/// The nearest block above both.
fn meet(dominator: &[Option<usize>], place: &[usize], mut one: usize, mut other: usize) -> usize {
    while one != other {
        let farther = if place[one] > place[other] { &mut one } else { &mut other };
        *farther = dominator[*farther].unwrap_or(dominator.len() - 1);
    }
    one
}

/// Which instructions begin a block.
fn block_starts(analysis: &Analysis) -> Vec<bool> {
    let steps = &analysis.steps;
    let mut starts = vec![false; steps.len()];
    let targets = analysis.tables.values().flatten().chain(&analysis.roots).copied().chain([analysis.entry]);
    for index in targets.filter_map(|addr| enter(steps, addr)) {
        starts[index] = true;
    }
    for index in (0..steps.len()).filter(|&index| analysis.reached[index]) {
        if let Next::Branch(target) | Next::Jump(target) = steps[index].next() {
            enter(steps, target).into_iter().for_each(|target| starts[target] = true);
        }
        let goes_on = match steps[index].next() {
            Next::Sequential => true,
            Next::Call(_) => !analysis.is_last_call(steps[index].at),
            _ => false,
        };
        if !goes_on && index + 1 < steps.len() {
            starts[index + 1] = true;
        }
    }
    starts
}

/// Calls `run` with each way on from the instruction at `last`, those out of the function included.
pub(crate) fn for_each_edge(analysis: &Analysis, last: ProcAddr, run: impl FnMut(Edge)) {
    if let Some(index) = analysis.index_of(last) {
        for_each_edge_at(analysis, index, run);
    }
}

/// The same for the instruction with this number.
pub(crate) fn for_each_edge_at(analysis: &Analysis, index: usize, mut run: impl FnMut(Edge)) {
    let step: &Step = &analysis.steps[index];
    let last = step.at;
    match step.next() {
        Next::Branch(to) | Next::Jump(to) => run(Edge { from: last, to, is_jump: true }),
        Next::IndirectJump => {
            let targets = analysis.tables.get(&index).into_iter().flatten();
            targets.for_each(|&to| run(Edge { from: last, to, is_jump: true }));
        }
        _ => {}
    }
    if step.continues() && !analysis.is_last_call(last) && following(&analysis.steps, index).is_some() {
        run(Edge { from: last, to: step.end(), is_jump: false });
    }
}
