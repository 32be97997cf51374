//! Register states along all paths of a function, as far as they lead to a jump that must be understood.
//!
//! Most of a function leads to none: of a big switch, everything but the way to it. So only blocks from which an indirect
//! jump or a jump out of the function can be reached are walked. As jumps are understood, the graph grows, and so does
//! what must be walked; nothing is walked anew that stayed the same.
//! Next: `value` for one state, `analyse` for who asks.

use crate::FunctionCode;
use crate::flow::Graph;
use crate::instruction::Next;
use crate::value::State;
use iced_x86::InstructionInfoFactory;
use std::collections::{BTreeMap, BTreeSet};
use trimtab_types::ProcAddr;

/// The states before the instructions where paths meet or begin.
pub(crate) struct States {
    /// By the instruction's place among the steps.
    before: BTreeMap<usize, Box<State>>,
    blocks: Blocks,
    /// Blocks to walk, in address order: paths mostly lead onwards, so few are walked twice.
    work: BTreeSet<usize>,
    info: InstructionInfoFactory,
}

impl States {
    /// Follows all paths from the entry and from `others` until nothing changes.
    pub(crate) fn solve(graph: &Graph, code: &FunctionCode<'_>, others: &[ProcAddr]) -> States {
        let (before, work, blocks) = (BTreeMap::new(), BTreeSet::new(), Blocks::of(graph, code));
        let mut states = States { before, blocks, work, info: InstructionInfoFactory::new() };
        for &addr in others.iter().filter(|&&addr| addr != code.entry) {
            states.flow_into_place(graph, addr, &State::unknown());
        }
        states.flow_into_place(graph, code.entry, &State::at_entry());
        states.run(graph);
        states
    }

    /// Follows the new ways out of the indirect jumps at the indices `grown`.
    pub(crate) fn extend(&mut self, graph: &Graph, code: &FunctionCode<'_>, grown: Vec<usize>) {
        let old = std::mem::replace(&mut self.blocks, Blocks::of(graph, code));
        let is_new = |index: &usize| self.blocks.starts[*index] && !old.starts[*index];
        let split: Vec<usize> = (0..old.starts.len()).filter(is_new).collect();
        let matters_now = |index: &usize| self.blocks.leads_on[*index] && !old.leads_on[*index];
        self.work.extend(self.before.keys().copied().filter(matters_now));
        // A new start inside a block gets its state from the block around it.
        for index in grown.into_iter().chain(split) {
            let around = self.before.range(..=index).next_back().map(|(&around, _)| around);
            self.work.extend(around.filter(|&around| self.blocks.leads_on[around]));
        }
        self.run(graph);
    }

    /// The state right before the instruction at `index`, if any path leads there and it lies on the way to a jump that
    /// must be understood.
    pub(crate) fn before(&self, graph: &Graph, index: usize) -> Option<State> {
        let (&start, state) = self.before.range(..=index).next_back()?;
        let mut state = State::clone(state);
        let mut info = InstructionInfoFactory::new();
        for at in start..index {
            if !graph.steps[at].continues() || graph.following(at).is_none() {
                return None;
            }
            state.apply(&graph.decoded[at], &mut info);
        }
        Some(state)
    }

    fn run(&mut self, graph: &Graph) {
        while let Some(index) = self.work.pop_first() {
            let Some(state) = self.before.get(&index) else { continue };
            self.walk(graph, index, State::clone(state));
        }
    }

    fn walk(&mut self, graph: &Graph, start: usize, mut state: State) {
        let mut index = start;
        loop {
            state.apply(&graph.decoded[index], &mut self.info);
            graph.for_each_target(index, |target| self.flow_into_place(graph, target, &state));
            let next = if graph.steps[index].continues() { graph.following(index) } else { None };
            let Some(next) = next else { return };
            if self.blocks.starts[next] {
                self.flow_into(next, &state);
                return;
            }
            index = next;
        }
    }

    fn flow_into_place(&mut self, graph: &Graph, addr: ProcAddr, state: &State) {
        if let Some(index) = graph.enter(addr) {
            self.flow_into(index, state);
        }
    }

    fn flow_into(&mut self, index: usize, state: &State) {
        let has_changed = match self.before.get_mut(&index) {
            Some(known) => known.meet(state),
            None => {
                self.before.insert(index, Box::new(state.clone()));
                true
            }
        };
        if has_changed && self.blocks.leads_on[index] {
            self.work.insert(index);
        }
    }
}

/// Facts about instructions that begin a block.
struct Blocks {
    /// True for an instruction that begins one: branch targets and what follows a conditional branch.
    starts: Vec<bool>,
    /// True for an instruction from which a jump that must be understood can be reached.
    leads_on: Vec<bool>,
}

impl Blocks {
    fn of(graph: &Graph, code: &FunctionCode<'_>) -> Blocks {
        let count = graph.steps.len();
        let mut blocks = Blocks { starts: vec![false; count], leads_on: vec![false; count] };
        let mut edges = Vec::new();
        for from in (0..count).filter(|&from| graph.reached[from]) {
            let step = &graph.steps[from];
            graph.for_each_target(from, |target| {
                if let Some(to) = graph.enter(target) {
                    blocks.starts[to] = true;
                    edges.push((from, to));
                }
            });
            if matches!(step.next(), Next::Branch(_)) && from + 1 < count {
                blocks.starts[from + 1] = true;
            }
            blocks.leads_on[from] = match step.next() {
                Next::IndirectJump => true,
                Next::Branch(target) | Next::Jump(target) => !code.contains(target),
                _ => false,
            };
        }
        blocks.spread(graph, &edges);
        blocks
    }

    /// Carries `leads_on` back along all edges until nothing changes. Most edges lead onwards, so few rounds do.
    fn spread(&mut self, graph: &Graph, edges: &[(usize, usize)]) {
        let mut changed = true;
        while changed {
            changed = false;
            let mut edges = edges.iter().rev().peekable();
            for index in (0..self.leads_on.len()).rev() {
                let mut leads_on = self.leads_on[index];
                while let Some((_, to)) = edges.next_if(|(from, _)| *from == index) {
                    leads_on |= self.leads_on[*to];
                }
                let goes_on = graph.steps[index].continues() && graph.following(index).is_some();
                leads_on |= goes_on && self.leads_on[index + 1];
                changed |= leads_on != self.leads_on[index];
                self.leads_on[index] = leads_on;
            }
        }
    }
}
