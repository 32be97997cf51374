//! Where threads stand: at displaced instructions, inside islands, or in signal handlers that will return there.
//!
//! Next: `insert` moves threads out of the way, `remove` waits until nobody is inside.

use std::ops::Range;
use trimtab_os::{MappingTable, Stopped};

/// Bytes of each stack that are searched for signal frames.
const SEARCH_BYTES: u64 = 64 << 10;
/// From a signal frame's return address to the interrupted instruction pointer: 8 (that word) + 40 (head of the
/// context) + 16 registers.
const SAVED_POINTER_OFFSET: u64 = 8 + 40 + 16 * 8;

/// A place where a thread stands or will return to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Thread number `index` stands at `address`.
    Thread { index: usize, address: u64 },
    /// A signal handler will return to `address`, which is stored at `saved_at`.
    SignalFrame { saved_at: u64, address: u64 },
}

impl Stand {
    pub(crate) fn address(self) -> u64 {
        match self {
            Stand::Thread { address, .. } | Stand::SignalFrame { address, .. } => address,
        }
    }
}

/// Every place where execution of the stopped process will go on.
pub(crate) fn stands(stopped: &Stopped, maps: &MappingTable, signal_return: u64) -> Vec<Stand> {
    let mut found = Vec::new();
    for (index, thread) in stopped.threads().iter().enumerate() {
        found.push(Stand::Thread { index, address: thread.instruction_pointer() });
        found.extend(signal_frames(stopped, maps, thread.registers.rsp, signal_return));
    }
    found
}

/// Interrupted places kept in signal frames above `stack`, found by the return address the kernel put there.
fn signal_frames(stopped: &Stopped, maps: &MappingTable, stack: u64, signal_return: u64) -> Vec<Stand> {
    let first = stack & !7;
    let end = maps.at(stack).map_or(first, |mapping| mapping.end.min(first + SEARCH_BYTES));
    let Ok(bytes) = stopped.memory().read_vec(first, end.saturating_sub(first) as usize) else { return Vec::new() };
    let word = |offset: usize| {
        let raw: Option<[u8; 8]> = bytes.get(offset..offset + 8)?.try_into().ok();
        raw.map(u64::from_le_bytes)
    };
    let frames = (0..bytes.len() / 8).map(|index| index * 8).filter(|offset| word(*offset) == Some(signal_return));
    frames
        .filter_map(|offset| {
            let saved = offset + SAVED_POINTER_OFFSET as usize;
            word(saved).map(|address| Stand::SignalFrame { saved_at: first + saved as u64, address })
        })
        .collect()
}

/// Whether anybody stands in one of `ranges`.
pub(crate) fn anyone_in(stands: &[Stand], ranges: &[Range<u64>]) -> bool {
    stands.iter().any(|stand| ranges.iter().any(|range| range.contains(&stand.address())))
}

/// A measured function and the probe that belongs to it.
pub(crate) type FunctionRange = (Range<u64>, u32);

/// Threads that are inside a measured function right now, as (thread pointer, probe): they stand in it, or the innermost
/// return address into one on their stack was put there by a call. `ignored` is the program's own text: who stands there
/// computes, whatever old words its stack holds.
pub(crate) fn inside(
    stopped: &Stopped,
    maps: &MappingTable,
    functions: &[FunctionRange],
    ignored: &Range<u64>,
) -> Vec<(u64, u32)> {
    let mut found = Vec::new();
    for thread in stopped.threads() {
        let at = thread.instruction_pointer();
        let standing = function_at(functions, at);
        let calling = || innermost_call(stopped, maps, functions, thread.registers.rsp);
        let probe = standing.or_else(|| if ignored.contains(&at) { None } else { calling() });
        found.extend(probe.map(|probe| (thread.registers.fs_base, probe)));
    }
    found
}

fn function_at(functions: &[FunctionRange], address: u64) -> Option<u32> {
    // A return address never is a function's first byte, and who stands there has not entered it.
    functions.iter().find(|(range, _)| range.contains(&address) && address != range.start).map(|(_, probe)| *probe)
}

fn innermost_call(stopped: &Stopped, maps: &MappingTable, functions: &[FunctionRange], stack: u64) -> Option<u32> {
    let first = stack & !7;
    let end = maps.at(stack).map_or(first, |mapping| mapping.end.min(first + SEARCH_BYTES));
    let bytes = stopped.memory().read_vec(first, end.saturating_sub(first) as usize).ok()?;
    let words = bytes.chunks_exact(8).filter_map(|raw| Some(u64::from_le_bytes(raw.try_into().ok()?)));
    let mut calls = words.filter(|word| function_at(functions, *word).is_some() && follows_call(stopped, *word));
    calls.next().and_then(|address| function_at(functions, address))
}

/// Whether the bytes before `address` can be a call: `e8 rel32`, or `ff` with a register or memory operand.
fn follows_call(stopped: &Stopped, address: u64) -> bool {
    let Ok(before) = stopped.memory().read_vec(address.saturating_sub(7), 7) else { return false };
    let indirect = |length: usize| before[7 - length] == 0xff && before[8 - length] & 0x38 == 0x10;
    before[2] == 0xe8 || indirect(2) || indirect(3) || indirect(6) || indirect(7)
}
