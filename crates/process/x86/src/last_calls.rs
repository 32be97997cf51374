//! Calls that never come back, and code that is only there behind them.
//!
//! A compiler puts anything behind a call of `abort`: padding, or the next block. Taken for a way on, that is an entrance
//! into loops which has none. Patches are planned without this knowledge, because they must be safe whatever returns.
//!
//! Next: `blocks`, whose graph is made with it.

use crate::Analysis;
use crate::analyse::ExitKind;
use crate::flow::{enter, following};
use crate::instruction::Next;
use trimtab_types::ProcAddr;

impl Analysis {
    /// The same function, where calls of what `never_returns` names by its address have nothing behind them. Code that is
    /// only reached through them is not reached.
    pub(crate) fn ending_at(&self, never_returns: &dyn Fn(ProcAddr) -> bool) -> Analysis {
        let is_last = |index: &usize| {
            let called = matches!(self.steps[*index].next(), Next::Call(Some(target)) if never_returns(target));
            self.reached[*index] && called
        };
        let last_calls: Vec<ProcAddr> =
            (0..self.steps.len()).filter(is_last).map(|index| self.steps[index].at).collect();
        if last_calls.is_empty() {
            return self.clone();
        }
        let mut ending = Analysis { last_calls, ..self.clone() };
        ending.reached = ending.reached_now();
        ending
    }

    /// True if control may leave the function by itself, where calls of what `never_returns` names don't come back.
    pub fn may_return(&self, never_returns: &dyn Fn(ProcAddr) -> bool) -> bool {
        let ending = self.ending_at(never_returns);
        let leaves = |exit: &crate::Exit| {
            let is_reached = ending.is_reached(exit.at);
            is_reached && !(exit.kind == ExitKind::FallsThrough && ending.is_last_call(exit.at))
        };
        !self.unresolved_indirect.is_empty() || !self.external_jumps.is_empty() || self.exits.iter().any(leaves)
    }

    pub(crate) fn is_last_call(&self, at: ProcAddr) -> bool {
        self.last_calls.binary_search(&at).is_ok()
    }

    fn reached_now(&self) -> Vec<bool> {
        let mut reached = vec![false; self.steps.len()];
        let mut work: Vec<ProcAddr> = self.roots.iter().copied().chain([self.entry]).collect();
        while let Some(addr) = work.pop() {
            let mut cursor = enter(&self.steps, addr).filter(|index| self.reached[*index]);
            while let Some(index) = cursor.filter(|index| !reached[*index]) {
                reached[index] = true;
                let step = &self.steps[index];
                match step.next() {
                    Next::Branch(target) | Next::Jump(target) => work.push(target),
                    Next::Call(target) => work.extend(target),
                    Next::IndirectJump => work.extend(self.tables.get(&index).into_iter().flatten()),
                    _ => {}
                }
                let goes_on = step.continues() && !self.is_last_call(step.at);
                cursor = if goes_on { following(&self.steps, index) } else { None };
            }
        }
        reached
    }
}
