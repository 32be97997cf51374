//! The tables that switch statements and computed gotos jump through.
//!
//! Lengths are not recorded anywhere, so entries are read as long as they make sense: a few too many only forbid a
//! few more places, one too few could let a patch be jumped into. Next: `value`, which finds out that a jump uses
//! a table, and which.

use crate::flow::Graph;
use crate::{ClassifyJump, FunctionCode, JumpTarget, ReadMemory};
use std::collections::BTreeSet;

/// A table that an indirect jump takes its target from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// Address of the first entry.
    pub(crate) base: u64,
    pub(crate) form: TableForm,
}

/// What one entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableForm {
    /// A signed 32-bit distance from `anchor`.
    Relative32 { anchor: u64 },
    /// A 64-bit address.
    Absolute64,
}

/// Where a table leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TableTargets {
    /// Places in this function, and parts of it that were not given.
    Inside { targets: BTreeSet<u64>, outside: BTreeSet<u64> },
    /// Its first entry is elsewhere: a table of functions.
    Outside,
    /// It can't be read, or does not end.
    Unknown,
}

/// More entries than any compiler emits; a table that goes on this long is no table.
const ENTRIES_MAX: u64 = 65_536;

impl Table {
    /// Reads the entries as long as each is an instruction of this function or lies in a fragment of it.
    pub(crate) fn targets(
        &self,
        code: &FunctionCode<'_>,
        graph: &Graph,
        memory: &dyn ReadMemory,
        classify: &dyn ClassifyJump,
    ) -> TableTargets {
        let (mut targets, mut outside) = (BTreeSet::new(), BTreeSet::new());
        for index in 0..ENTRIES_MAX {
            let Some(target) = self.entry(index, memory) else { break };
            if code.contains(target) {
                match graph.index_of(target) {
                    Some(_) => targets.insert(target),
                    None => break,
                };
            } else if matches!(classify.classify(target), JumpTarget::Fragment(_)) {
                outside.insert(target);
            } else if index == 0 && target != 0 {
                return TableTargets::Outside;
            } else {
                break;
            }
            if index + 1 == ENTRIES_MAX {
                return TableTargets::Unknown;
            }
        }
        match targets.is_empty() && outside.is_empty() {
            true => TableTargets::Unknown,
            false => TableTargets::Inside { targets, outside },
        }
    }

    fn entry(&self, index: u64, memory: &dyn ReadMemory) -> Option<u64> {
        match self.form {
            TableForm::Relative32 { anchor } => {
                let mut bytes = [0; 4];
                memory.read(self.base.checked_add(index * 4)?, &mut bytes).then_some(())?;
                Some(anchor.wrapping_add_signed(i64::from(i32::from_le_bytes(bytes))))
            }
            TableForm::Absolute64 => {
                let mut bytes = [0; 8];
                memory.read(self.base.checked_add(index * 8)?, &mut bytes).then_some(())?;
                Some(u64::from_le_bytes(bytes))
            }
        }
    }
}
