//! Threads that may be in the middle of a walk of a stack which reads a table of ours.
//!
//! Next: `remove`, which waits for them; `frames`, by which the unwinder finds the tables.

use crate::target::Target;
use crate::threads::{Stacks, Stand, stands};
use trimtab_os::{MappingTable, Stopped};

/// Most of a stack that is searched for words that point into a table.
const STACK_BYTES_MAX: u64 = 256 << 10;
/// Bytes below the stack pointer that belong to the running function.
const RED_ZONE: u64 = 128;
/// From where a signal frame keeps the interrupted instruction to where it keeps the stack pointer.
const SAVED_STACK: u64 = 8;

/// True if a thread may be in the middle of a walk that reads a table of ours: a word of its stack, of a stack that it was
/// interrupted on, or a register points into one.
pub(crate) fn is_anyone_reading(stopped: &Stopped, stacks: &Stacks, maps: &MappingTable, target: &Target) -> bool {
    let table = target.frames();
    if table.is_empty() {
        return false;
    }
    // A walk that has come to its end points behind the last byte.
    let points = |word: u64| (table.start..=table.end).contains(&word);
    let registers = |stand: &trimtab_os::Thread| {
        let at = &stand.registers;
        [at.rax, at.rbx, at.rcx, at.rdx, at.rsi, at.rdi, at.rbp, at.r8, at.r9]
            .into_iter()
            .chain([at.r10, at.r11, at.r12, at.r13, at.r14, at.r15])
            .any(points)
    };
    if stopped.threads().iter().any(registers) {
        return true;
    }
    let interrupted =
        stands(stopped, stacks, target.gadgets.signal_return).into_iter().filter_map(|stand| match stand {
            Stand::SignalFrame { saved_at, .. } => stopped.memory().read_word(saved_at - SAVED_STACK).ok(),
            Stand::Thread { .. } => None,
        });
    let tops = stopped.threads().iter().map(|thread| thread.registers.rsp).chain(interrupted);
    let ranges: Vec<(u64, usize)> = tops.filter_map(|top| searched(maps, top)).collect();
    stopped.memory().read_many(&ranges).iter().any(|bytes| {
        bytes.chunks_exact(8).map(|raw| u64::from_le_bytes(raw.try_into().unwrap_or_default())).any(points)
    })
}

/// The part of a stack that is searched.
fn searched(maps: &MappingTable, top: u64) -> Option<(u64, usize)> {
    let mapping = maps.at(top)?;
    let first = top.saturating_sub(RED_ZONE).max(mapping.start) & !7;
    Some((first, mapping.end.min(first + STACK_BYTES_MAX).saturating_sub(first) as usize))
}
