//! A block that every pass of a loop with several entries goes through once.
//!
//! Such a loop has no header that all of it is behind. Ways back to a block that dominates where they come from belong to
//! natural loops inside: they are left out, and so are the blocks of these loops, which may be passed several times in one
//! pass. If what is left goes round through one block always, that block counts the passes.
//!
//! Next: `loops`, which asks for it.

use crate::blocks::ControlFlow;
use std::collections::BTreeSet;

/// Blocks that are tried, of those that lie on all ways round met so far; more would cost more than they tell.
const TRIED_MAX: usize = 64;

/// The first of `candidates` that every way round within `round` passes exactly once.
pub(crate) fn pass_block(flow: &ControlFlow, round: &[usize], candidates: &[usize]) -> Option<usize> {
    let graph = Graph::of(flow, round);
    let mut possible = graph.cycle(None)?;
    possible.retain(|&at| !graph.is_inside[at]);
    let mut tried = 0;
    for &block in candidates {
        let Some(at) = graph.index_of(block).filter(|at| possible.contains(at)) else { continue };
        if tried == TRIED_MAX {
            return None;
        }
        tried += 1;
        match graph.cycle(Some(at)) {
            // It must lie on this way round as well.
            Some(another) => possible.retain(|at| another.contains(at)),
            None => return Some(block),
        }
    }
    None
}

/// The blocks of a loop, numbered in order, without the ways back of natural loops inside.
struct Graph<'a> {
    round: &'a [usize],
    successors: Vec<Vec<usize>>,
    /// Blocks of natural loops inside.
    is_inside: Vec<bool>,
}

impl<'a> Graph<'a> {
    fn of(flow: &ControlFlow, round: &'a [usize]) -> Graph<'a> {
        let mut graph = Graph { round, successors: vec![Vec::new(); round.len()], is_inside: vec![false; round.len()] };
        let mut backs = Vec::new();
        for (from, &block) in round.iter().enumerate() {
            for to in &flow.blocks[block].successors {
                let Some(at) = graph.index_of(*to) else { continue };
                if flow.dominates(*to, block) { backs.push((from, at)) } else { graph.successors[from].push(at) }
            }
        }
        for (latch, header) in backs {
            graph.mark_inside(flow, latch, header);
        }
        graph
    }

    fn index_of(&self, block: usize) -> Option<usize> {
        self.round.binary_search(&block).ok()
    }

    /// Marks the natural loop of one way back: all from which the latch is reached without passing the header.
    fn mark_inside(&mut self, flow: &ControlFlow, latch: usize, header: usize) {
        let mut seen = BTreeSet::from([header]);
        let mut work = vec![latch];
        while let Some(at) = work.pop() {
            if !seen.insert(at) {
                continue;
            }
            let before = flow.blocks[self.round[at]].predecessors.iter();
            work.extend(before.filter_map(|&block| self.index_of(block)));
        }
        seen.into_iter().for_each(|at| self.is_inside[at] = true);
    }

    /// The blocks of some way round that does not pass block `without`.
    fn cycle(&self, without: Option<usize>) -> Option<BTreeSet<usize>> {
        let mut state = vec![State::New; self.round.len()];
        for root in 0..self.round.len() {
            if state[root] != State::New || Some(root) == without {
                continue;
            }
            state[root] = State::Open;
            let mut path = vec![(root, 0)];
            while let Some((at, next)) = path.last_mut() {
                let Some(&to) = self.successors[*at].get(*next) else {
                    state[*at] = State::Done;
                    path.pop();
                    continue;
                };
                *next += 1;
                if Some(to) == without {
                    continue;
                }
                match state[to] {
                    State::New => {
                        state[to] = State::Open;
                        path.push((to, 0));
                    }
                    State::Open => {
                        return Some(path.iter().map(|(at, _)| *at).skip_while(|at| *at != to).collect());
                    }
                    State::Done => {}
                }
            }
        }
        None
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}
