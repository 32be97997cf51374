//! Where control can go inside one function: what is reached, and what may be jumped to.
//!
//! The graph starts from direct branches and grows as `analyse` finds where indirect jumps lead.
//! Next: `value`, which follows registers along this graph; `analyse`, which drives both.

use crate::instruction::{Next, Step, for_each_instruction};
use crate::{FunctionCode, Refusal};
use iced_x86::Instruction;
use std::collections::BTreeMap;
use trimtab_types::ProcAddr;

/// Instructions of a function and the edges known so far.
pub(crate) struct Graph {
    pub(crate) steps: Vec<Step>,
    /// The same instructions in full; empty until [`Graph::decode_fully`].
    pub(crate) decoded: Vec<Instruction>,
    pub(crate) reached: Vec<bool>,
    /// Where each followed indirect jump (by index) leads inside the function, in order.
    pub(crate) table_targets: BTreeMap<usize, Vec<ProcAddr>>,
}

impl Graph {
    pub(crate) fn new(steps: Vec<Step>) -> Graph {
        let reached = vec![false; steps.len()];
        Graph { steps, decoded: Vec::new(), reached, table_targets: BTreeMap::new() }
    }

    /// Makes every operand known. Only functions with jumps that must be followed need it.
    pub(crate) fn decode_fully(&mut self, code: &FunctionCode<'_>) {
        if self.decoded.is_empty() {
            self.decoded.reserve_exact(self.steps.len());
            for_each_instruction(code, |instruction| self.decoded.push(*instruction));
        }
    }

    /// The instruction that begins at `addr`.
    pub(crate) fn index_of(&self, addr: ProcAddr) -> Option<usize> {
        self.steps.binary_search_by_key(&addr, |step| step.at).ok()
    }

    /// The instruction that control enters at `addr`, which may be the one behind a skipped `lock` prefix.
    pub(crate) fn enter(&self, addr: ProcAddr) -> Option<usize> {
        enter(&self.steps, addr)
    }

    /// The instruction that follows without a gap.
    pub(crate) fn following(&self, index: usize) -> Option<usize> {
        following(&self.steps, index)
    }

    /// Marks everything that control can reach from `roots`.
    ///
    /// # Errors
    /// [`Refusal::MisalignedCode`] and [`Refusal::Undecodable`] where a reached branch leads to no instruction.
    pub(crate) fn explore(
        &mut self,
        code: &FunctionCode<'_>,
        roots: impl IntoIterator<Item = ProcAddr>,
    ) -> Result<(), Refusal> {
        let mut work: Vec<ProcAddr> = roots.into_iter().collect();
        while let Some(addr) = work.pop() {
            if !code.contains(addr) {
                continue;
            }
            let mut cursor = Some(self.enter(addr).ok_or(Refusal::MisalignedCode { target: addr })?);
            while let Some(index) = cursor.filter(|&index| !self.reached[index]) {
                let step = self.steps[index];
                if step.next() == Next::Invalid {
                    return Err(Refusal::Undecodable { at: step.at });
                }
                self.reached[index] = true;
                self.for_each_target(index, |target| work.push(target));
                cursor = if step.continues() { self.following(index) } else { None };
            }
        }
        Ok(())
    }

    /// Calls `run` with each place the instruction may jump to, directly or by a followed table.
    pub(crate) fn for_each_target(&self, index: usize, mut run: impl FnMut(ProcAddr)) {
        match self.steps[index].next() {
            Next::Branch(target) | Next::Jump(target) => run(target),
            Next::IndirectJump => self.table_targets.get(&index).into_iter().flatten().copied().for_each(run),
            _ => {}
        }
    }

    /// Every address inside that a direct branch leads to.
    pub(crate) fn direct_targets(&self, code: &FunctionCode<'_>) -> Vec<ProcAddr> {
        let targets = self.steps.iter().filter_map(|step| match step.next() {
            Next::Branch(target) | Next::Jump(target) => Some(target),
            _ => None,
        });
        targets.filter(|&target| code.contains(target)).collect()
    }

    /// Every address inside that a table, a call or a return from a call leads to.
    pub(crate) fn open_targets(&self, code: &FunctionCode<'_>) -> Vec<ProcAddr> {
        let mut targets: Vec<ProcAddr> = self.table_targets.values().flatten().copied().collect();
        for step in &self.steps {
            if let Next::Call(target) = step.next() {
                targets.push(step.end());
                // A call into the function's own middle: position-independent hand-written code.
                targets.extend(target.filter(|&target| target != code.entry && code.contains(target)));
            }
        }
        targets
    }
}

/// The instruction that control enters at `addr`, which may be the one behind a skipped `lock` prefix.
pub(crate) fn enter(steps: &[Step], addr: ProcAddr) -> Option<usize> {
    match steps.binary_search_by_key(&addr, |step| step.at) {
        Ok(index) => Some(index),
        Err(0) => None,
        Err(after) => {
            let before = after - 1;
            let skips_lock = steps[before].is_locked && steps[before].at + 1 == addr;
            skips_lock.then_some(before)
        }
    }
}

/// The instruction that follows the one at `index` without a gap.
pub(crate) fn following(steps: &[Step], index: usize) -> Option<usize> {
    let next = steps.get(index + 1)?;
    (next.at == steps[index].end()).then_some(index + 1)
}
