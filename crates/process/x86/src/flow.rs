//! Where control can go inside one function: what is reached, and what may be jumped to.
//!
//! The graph starts from direct branches and grows as `analyse` finds where indirect jumps lead.
//! Next: `value`, which follows registers along this graph; `analyse`, which drives both.

use crate::instruction::{Next, Step, decode};
use crate::{FunctionCode, Refusal};
use iced_x86::Instruction;
use std::collections::{BTreeMap, BTreeSet};

/// Instructions of a function and the edges known so far.
pub(crate) struct Graph {
    pub(crate) steps: Vec<Step>,
    pub(crate) decoded: Vec<Instruction>,
    pub(crate) reached: Vec<bool>,
    /// Where each followed indirect jump (by index) leads inside the function.
    pub(crate) table_targets: BTreeMap<usize, BTreeSet<u64>>,
}

impl Graph {
    pub(crate) fn new(code: &FunctionCode<'_>) -> Graph {
        let (steps, decoded) = decode(code);
        let reached = vec![false; steps.len()];
        Graph { steps, decoded, reached, table_targets: BTreeMap::new() }
    }

    /// The instruction that begins at `addr`.
    pub(crate) fn index_of(&self, addr: u64) -> Option<usize> {
        self.steps.binary_search_by_key(&addr, |step| step.at).ok()
    }

    /// The instruction that control enters at `addr`, which may be the one behind a skipped `lock` prefix.
    pub(crate) fn enter(&self, addr: u64) -> Option<usize> {
        match self.steps.binary_search_by_key(&addr, |step| step.at) {
            Ok(index) => Some(index),
            Err(0) => None,
            Err(after) => {
                let before = after - 1;
                let skips_lock = self.decoded[before].has_lock_prefix() && self.steps[before].at + 1 == addr;
                skips_lock.then_some(before)
            }
        }
    }

    /// The instruction that follows without a gap.
    pub(crate) fn following(&self, index: usize) -> Option<usize> {
        let next = self.steps.get(index + 1)?;
        (next.at == self.steps[index].end()).then_some(index + 1)
    }

    /// Marks everything that control can reach from `roots`.
    ///
    /// # Errors
    /// [`Refusal::MisalignedCode`] and [`Refusal::Undecodable`] where a reached branch leads to no instruction.
    pub(crate) fn explore(
        &mut self,
        code: &FunctionCode<'_>,
        roots: impl IntoIterator<Item = u64>,
    ) -> Result<(), Refusal> {
        let mut work: Vec<u64> = roots.into_iter().collect();
        while let Some(addr) = work.pop() {
            if !code.contains(addr) {
                continue;
            }
            let mut cursor = Some(self.enter(addr).ok_or(Refusal::MisalignedCode { target: addr })?);
            while let Some(index) = cursor.filter(|&index| !self.reached[index]) {
                let step = self.steps[index];
                if step.next == Next::Invalid {
                    return Err(Refusal::Undecodable { at: step.at });
                }
                self.reached[index] = true;
                work.extend(self.branch_targets(index));
                cursor = if step.continues() { self.following(index) } else { None };
            }
        }
        Ok(())
    }

    /// Where the instruction may jump, directly or by a followed table.
    pub(crate) fn branch_targets(&self, index: usize) -> Vec<u64> {
        match self.steps[index].next {
            Next::Branch(target) | Next::Jump(target) => vec![target],
            Next::IndirectJump => self.table_targets.get(&index).into_iter().flatten().copied().collect(),
            _ => Vec::new(),
        }
    }

    /// Every address inside that a direct branch leads to.
    pub(crate) fn direct_targets(&self, code: &FunctionCode<'_>) -> BTreeSet<u64> {
        let targets = self.steps.iter().filter_map(|step| match step.next {
            Next::Branch(target) | Next::Jump(target) => Some(target),
            _ => None,
        });
        targets.filter(|&target| code.contains(target)).collect()
    }

    /// Every address inside that a table, a call or a return from a call leads to.
    pub(crate) fn open_targets(&self, code: &FunctionCode<'_>) -> BTreeSet<u64> {
        let mut targets: BTreeSet<u64> = self.table_targets.values().flatten().copied().collect();
        for step in &self.steps {
            if let Next::Call(target) = step.next {
                targets.insert(step.end());
                // A call into the function's own middle: position-independent hand-written code.
                targets.extend(target.filter(|&target| target != code.entry && code.contains(target)));
            }
        }
        targets
    }
}
