//! The tables that switch statements and computed gotos jump through.
//!
//! Lengths are not recorded anywhere, so entries are read as long as they make sense: a few too many only forbid a
//! few more places, one too few could let a patch be jumped into. Next: `value`, which finds out that a jump uses
//! a table, and which.

use crate::analyse::in_order;
use crate::flow::Graph;
use crate::{ClassifyJump, FunctionCode, JumpTarget, ReadMemory};
use std::ops::Range;
use trimtab_types::ProcAddr;

/// A table that an indirect jump takes its target from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Table {
    /// Address of the first entry.
    pub(crate) base: u64,
    pub(crate) form: TableForm,
}

/// The form of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TableForm {
    /// A signed 32-bit distance from `anchor`.
    Relative32 { anchor: u64 },
    /// A 64-bit address.
    Absolute64,
}

/// Where a table leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TableTargets {
    /// Places in this function, and parts of it that were not given, in order.
    Inside { targets: Vec<ProcAddr>, outside: Vec<ProcAddr> },
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
        let (mut targets, mut outside) = (Vec::new(), Vec::new());
        let mut entries = Entries { table: self, memory, chunk: [0; CHUNK], held: 0..0 };
        for index in 0..ENTRIES_MAX {
            let Some(target) = entries.get(index).map(ProcAddr) else { break };
            if code.contains(target) {
                match graph.index_of(target) {
                    Some(_) => targets.push(target),
                    None => break,
                };
            } else if matches!(classify.classify(target), JumpTarget::Fragment(_)) {
                outside.push(target);
            } else if index == 0 && target.0 != 0 {
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
            false => TableTargets::Inside { targets: in_order(targets), outside: in_order(outside) },
        }
    }

    fn entry_len(&self) -> u64 {
        match self.form {
            TableForm::Relative32 { .. } => 4,
            TableForm::Absolute64 => 8,
        }
    }

    fn entry(&self, bytes: &[u8]) -> Option<u64> {
        Some(match self.form {
            TableForm::Relative32 { anchor } => {
                anchor.wrapping_add_signed(i64::from(i32::from_le_bytes(*bytes.first_chunk()?)))
            }
            TableForm::Absolute64 => u64::from_le_bytes(*bytes.first_chunk()?),
        })
    }
}

/// Bytes of a table read at once: memory of another process costs a system call each time.
const CHUNK: usize = 512;

/// A table's entries, read ahead where there is something to read.
struct Entries<'a> {
    table: &'a Table,
    memory: &'a dyn ReadMemory,
    chunk: [u8; CHUNK],
    /// The addresses whose bytes are in `chunk`.
    held: Range<u64>,
}

impl Entries<'_> {
    fn get(&mut self, index: u64) -> Option<u64> {
        let len = self.table.entry_len();
        let at = self.table.base.checked_add(index * len)?;
        let end = at.checked_add(CHUNK as u64)?;
        if !self.held.contains(&at) {
            self.held = match self.memory.read(ProcAddr(at), &mut self.chunk) {
                true => at..end,
                false => self.memory.read(ProcAddr(at), &mut self.chunk[..len as usize]).then_some(at..at + len)?,
            };
        }
        self.table.entry(&self.chunk[(at - self.held.start) as usize..])
    }
}
