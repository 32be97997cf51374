//! Loops of one function: nesting, headers, latches, exits, and the numbers people call them by.
//!
//! A loop is a set of blocks each of which can reach every other. If it is entered at one block only, that is the
//! header, and the loop is the natural loop of all branches back to it; if at several, it is irreducible, and says so:
//! compilers make such loops when they know how the first pass begins. Its header is then a block that every way round
//! passes once (`pass_block`), or if there is none, the first that is entered. Of some loops compilers make two (`rejoined`). Taking the ways back to the headers away,
//! what still goes round is nested inside.
//! Next: `blocks` for the graph, `point` for measuring at a loop.

use crate::Analysis;
use crate::blocks::{ControlFlow, Edge, for_each_edge};
use crate::pass_block::pass_block;
use std::collections::BTreeMap;
use std::fmt;
use trimtab_types::ProcAddr;

/// A loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Its number among the loops at the same depth, in address order of the headers, after the numbers of the loops
    /// around it: `[1, 2]`, written `1.2`, is the second loop within the first.
    pub number: Vec<u32>,
    /// Its header, as an index of blocks.
    pub header: usize,
    /// Address of the header.
    pub header_at: ProcAddr,
    /// The loop around it, as an index of loops.
    pub parent: Option<usize>,
    /// Its blocks, those of loops inside included, in order.
    pub blocks: Vec<usize>,
    /// Ways back to the header.
    pub latches: Vec<Edge>,
    /// Ways out of the loop, those out of the function included.
    pub exits: Vec<Edge>,
    /// Blocks where it is entered from outside; more than one if it is irreducible.
    pub entries: Vec<usize>,
    /// True if every way round passes the header once, so that passes of the header are passes of the loop.
    pub is_counted_at_header: bool,
}

impl Loop {
    /// True if it is entered at several places.
    pub fn is_irreducible(&self) -> bool {
        self.entries.len() > 1
    }

    /// How many loops are around it, itself included.
    pub fn depth(&self) -> usize {
        self.number.len()
    }
}

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.number.iter().map(u32::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

/// Nesting that is looked at; deeper loops are left to the innermost one found.
const DEPTH_MAX: usize = 64;

/// All loops, outer ones first. `roots` are the blocks entered from outside of the function; loops that are entered at a block of
/// `counted_at` are counted at the other one.
pub(crate) fn find_loops(
    flow: &ControlFlow,
    analysis: &Analysis,
    roots: &[usize],
    counted_at: &BTreeMap<usize, usize>,
) -> Vec<Loop> {
    let nothing = vec![false; flow.blocks.len()];
    let (mut is_root, mut place) = (nothing.clone(), vec![usize::MAX; flow.blocks.len()]);
    roots.iter().for_each(|&root| is_root[root] = true);
    flow.order().iter().enumerate().for_each(|(at, &block)| place[block] = at);
    let is_seen_to_be_entered = reached_from(flow, analysis.entry);
    let (cut, loops) = (nothing, Vec::new());
    let mut search = Search { flow, analysis, is_root, is_seen_to_be_entered, counted_at, place, cut, loops };
    search.within(flow.order(), None);
    search.loops
}

/// Blocks that are reached from the one at `entry`.
fn reached_from(flow: &ControlFlow, entry: ProcAddr) -> Vec<bool> {
    let mut reached = vec![false; flow.blocks.len()];
    let mut work: Vec<usize> = flow.block_at(entry).into_iter().collect();
    while let Some(block) = work.pop() {
        if !std::mem::replace(&mut reached[block], true) {
            work.extend(&flow.blocks[block].successors);
        }
    }
    reached
}

struct Search<'a> {
    flow: &'a ControlFlow,
    analysis: &'a Analysis,
    is_root: Vec<bool>,
    /// Blocks that the function's entry leads to, and not only a handler of exceptions, say.
    is_seen_to_be_entered: Vec<bool>,
    /// Where passes of loops that compilers have made two of are counted, by where they are entered.
    counted_at: &'a BTreeMap<usize, usize>,
    /// Each block's place in the walk from the entry.
    place: Vec<usize>,
    /// Blocks whose incoming edges no longer count: headers of loops found.
    cut: Vec<bool>,
    loops: Vec<Loop>,
}

impl Search<'_> {
    /// Finds the loops among `blocks`, which are those of `parent`.
    fn within(&mut self, blocks: &[usize], parent: Option<usize>) {
        let mut found = self.rounds(blocks);
        found.sort_by_key(|round| self.flow.blocks[self.header_of(round).0].range.start);
        for (position, round) in found.iter().enumerate() {
            let mut number = parent.map_or(Vec::new(), |parent| self.loops[parent].number.clone());
            number.push(position as u32 + 1);
            if number.len() > DEPTH_MAX {
                continue;
            }
            let found = self.describe(round, number, parent);
            match found.is_counted_at_header {
                true => self.cut[found.header] = true,
                false => found.entries.iter().for_each(|&entry| self.cut[entry] = true),
            }
            self.loops.push(found);
            self.within(round, Some(self.loops.len() - 1));
        }
    }

    /// The block that all passes of a loop go through, and whether they do; if they don't, where it is entered first.
    fn header_of(&self, round: &[usize]) -> (usize, bool) {
        let mut entries = self.entries_of(round);
        entries.sort_by_key(|&block| self.place[block]);
        let first = entries.first().copied().unwrap_or(round[0]);
        // Control that comes from a handler of exceptions goes on with a pass that had begun.
        let comes_from_entry = |block: &&usize| {
            let mut before = self.flow.blocks[**block].predecessors.iter();
            let is_first = self.flow.blocks[**block].range.start == self.analysis.entry;
            is_first || before.any(|from| round.binary_search(from).is_err() && self.is_seen_to_be_entered[*from])
        };
        let seen: Vec<usize> = entries.iter().filter(comes_from_entry).copied().collect();
        if let ([only], _) | (_, [only]) = (&entries[..], &seen[..]) {
            let joined = self.counted_at.get(only).filter(|block| round.binary_search(block).is_ok());
            return (*joined.unwrap_or(only), true);
        }
        let mut others = round.to_vec();
        others.sort_by_key(|&block| self.place[block]);
        let pass = pass_block(self.flow, round, &[entries, others].concat());
        (pass.unwrap_or(first), pass.is_some())
    }

    /// Blocks of a loop that are entered from outside of it.
    fn entries_of(&self, round: &[usize]) -> Vec<usize> {
        let is_outside = |from: &usize| round.binary_search(from).is_err();
        let is_entered =
            |block: &&usize| self.is_root[**block] || self.flow.blocks[**block].predecessors.iter().any(is_outside);
        round.iter().filter(is_entered).copied().collect()
    }

    fn describe(&self, round: &[usize], number: Vec<u32>, parent: Option<usize>) -> Loop {
        let (header, is_counted_at_header) = self.header_of(round);
        let header_at = self.flow.blocks[header].range.start;
        let (mut latches, mut exits) = (Vec::new(), Vec::new());
        for &block in round {
            for_each_edge(self.analysis, self.flow.blocks[block].last, |edge| {
                let to = self.flow.block_at(edge.to);
                if to == Some(header) {
                    latches.push(edge);
                } else if to.is_none_or(|to| round.binary_search(&to).is_err()) {
                    exits.push(edge);
                }
            });
        }
        let entries = self.entries_of(round);
        let blocks = round.to_vec();
        Loop { number, header, header_at, parent, blocks, latches, exits, entries, is_counted_at_header }
    }

    /// Sets of blocks that reach each other within `blocks`, by Tarjan, each in order.
    fn rounds(&self, blocks: &[usize]) -> Vec<Vec<usize>> {
        let mut walk = Walk::new(self.flow.blocks.len());
        blocks.iter().for_each(|&block| walk.allowed[block] = true);
        for &block in blocks {
            walk.from(block, |from| {
                let successors = self.flow.blocks[from].successors.iter();
                successors.filter(|&&to| !self.cut[to]).copied().collect()
            });
        }
        let goes_round = |round: &Vec<usize>| {
            round.len() > 1 || (!self.cut[round[0]] && self.flow.blocks[round[0]].successors.contains(&round[0]))
        };
        walk.found.into_iter().filter(goes_round).collect()
    }
}

/// Tarjan's walk, without recursion.
struct Walk {
    allowed: Vec<bool>,
    /// When each block was met, from 1; 0: not yet.
    met: Vec<usize>,
    lowest: Vec<usize>,
    open: Vec<bool>,
    stack: Vec<usize>,
    clock: usize,
    found: Vec<Vec<usize>>,
}

impl Walk {
    fn new(count: usize) -> Walk {
        let zeros = vec![0; count];
        let (stack, found) = (Vec::new(), Vec::new());
        Walk {
            allowed: vec![false; count],
            met: zeros.clone(),
            lowest: zeros,
            open: vec![false; count],
            stack,
            clock: 0,
            found,
        }
    }

    fn from(&mut self, root: usize, successors: impl Fn(usize) -> Vec<usize>) {
        if self.met[root] != 0 {
            return;
        }
        let mut path = vec![(root, self.meet(root, &successors))];
        while let Some((block, rest)) = path.last_mut() {
            let block = *block;
            match rest.pop() {
                Some(next) if self.met[next] == 0 => path.push((next, self.meet(next, &successors))),
                Some(next) if self.open[next] => self.lowest[block] = self.lowest[block].min(self.met[next]),
                Some(_) => {}
                None => {
                    path.pop();
                    if let Some((above, _)) = path.last() {
                        self.lowest[*above] = self.lowest[*above].min(self.lowest[block]);
                    }
                    if self.lowest[block] == self.met[block] {
                        self.close(block);
                    }
                }
            }
        }
    }

    fn meet(&mut self, block: usize, successors: &impl Fn(usize) -> Vec<usize>) -> Vec<usize> {
        self.clock += 1;
        (self.met[block], self.lowest[block], self.open[block]) = (self.clock, self.clock, true);
        self.stack.push(block);
        let mut next = successors(block);
        next.retain(|&next| self.allowed[next]);
        next
    }

    fn close(&mut self, root: usize) {
        let mut round = Vec::new();
        while let Some(block) = self.stack.pop() {
            self.open[block] = false;
            round.push(block);
            if block == root {
                break;
            }
        }
        round.sort_unstable();
        self.found.push(round);
    }
}
