//! Where threads stand: at displaced instructions, inside islands, or in signal handlers that will return there.
//!
//! Next: `insert` moves threads out of the way, `remove` waits until nobody is inside.

use std::ops::Range;
use trimtab_os::{Gadgets, MappingTable, Stopped};

/// Bytes of each stack that are searched for signal frames.
const SEARCH_BYTES: u64 = 64 << 10;
/// From a signal frame's return address to the interrupted instruction pointer: 8 (that word) + 40 (head of the
/// context) + 16 registers.
const SAVED_POINTER_OFFSET: u64 = 8 + 40 + 16 * 8;

/// Length of `syscall`, and of the signal return.
const SYSTEM_CALL_BYTES: u64 = 2;
const SIGNAL_RETURN_BYTES: u64 = 9;

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

/// The upper end of every held thread's stack, read once per stop.
pub(crate) struct Stacks(Vec<Stack>);

struct Stack {
    first: u64,
    bytes: Vec<u8>,
}

impl Stacks {
    pub(crate) fn read(stopped: &Stopped, maps: &MappingTable) -> Self {
        let range = |stack: u64| {
            let first = stack & !7;
            let end = maps.at(stack).map_or(first, |mapping| mapping.end.min(first + SEARCH_BYTES));
            (first, end.saturating_sub(first) as usize)
        };
        let ranges: Vec<_> = stopped.threads().iter().map(|thread| range(thread.registers.rsp)).collect();
        let bytes = stopped.memory().read_many(&ranges);
        Stacks(ranges.iter().zip(bytes).map(|((first, _), bytes)| Stack { first: *first, bytes }).collect())
    }
}

impl Stack {
    /// Address and value of every word.
    fn words(&self) -> impl Iterator<Item = (u64, u64)> {
        let values = self.bytes.chunks_exact(8).map(|raw| u64::from_le_bytes(raw.try_into().unwrap_or_default()));
        (self.first..).step_by(8).zip(values)
    }

    /// Interrupted places kept in signal frames, found by the return address the kernel put there.
    fn signal_frames(&self, signal_return: u64) -> impl Iterator<Item = Stand> {
        self.words().filter(move |(_, word)| *word == signal_return).filter_map(|(at, _)| {
            let saved_at = at + SAVED_POINTER_OFFSET;
            let offset = (saved_at - self.first) as usize;
            let raw: [u8; 8] = self.bytes.get(offset..offset + 8)?.try_into().ok()?;
            Some(Stand::SignalFrame { saved_at, address: u64::from_le_bytes(raw) })
        })
    }
}

/// Every place where execution of the stopped process will go on.
pub(crate) fn stands(stopped: &Stopped, stacks: &Stacks, signal_return: u64) -> Vec<Stand> {
    let mut found = Vec::new();
    for (index, (thread, stack)) in stopped.threads().iter().zip(&stacks.0).enumerate() {
        found.push(Stand::Thread { index, address: thread.instruction_pointer() });
        found.extend(stack.signal_frames(signal_return));
    }
    found
}

/// True if a thread is on its way through a chain of calls that a trimtab, perhaps one that was killed, gave it: on a
/// busy machine it may take a while until it gets a processor.
pub(crate) fn is_making_calls(stopped: &Stopped, gadgets: &Gadgets) -> bool {
    let ranges: Vec<_> = stopped.threads().iter().map(|thread| (thread.registers.rsp, size_of::<u64>())).collect();
    stopped.threads().iter().zip(stopped.memory().read_many(&ranges)).any(|(thread, returns_to)| {
        let at = thread.instruction_pointer();
        let calls = (gadgets.system_call..=gadgets.system_call + SYSTEM_CALL_BYTES).contains(&at);
        let returns = (gadgets.signal_return..gadgets.signal_return + SIGNAL_RETURN_BYTES).contains(&at);
        returns || (calls && returns_to == gadgets.signal_return.to_le_bytes())
    })
}

/// True if anybody stands in one of `ranges`.
pub(crate) fn anyone_in(stands: &[Stand], ranges: &[Range<u64>]) -> bool {
    stands.iter().any(|stand| ranges.iter().any(|range| range.contains(&stand.address())))
}

/// A measured function and the probe that belongs to it.
pub(crate) type FunctionRange = (Range<u64>, u32);

/// Numbered ranges, sorted before a process is held: thousands of words of its stacks are looked up here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    /// By start; they may overlap.
    sorted: Vec<FunctionRange>,
    /// The highest end of each and all before it.
    ends: Vec<u64>,
}

impl Ranges {
    pub(crate) fn new(mut ranges: Vec<FunctionRange>) -> Self {
        ranges.sort_by_key(|(range, number)| (range.start, *number));
        let highest = |highest: &mut u64, (range, _): &FunctionRange| {
            *highest = range.end.max(*highest);
            Some(*highest)
        };
        let ends = ranges.iter().scan(0, highest).collect();
        Ranges { sorted: ranges, ends }
    }

    /// From the first to the last of them.
    fn span(&self) -> Range<u64> {
        let start = self.sorted.first().map_or(0, |(range, _)| range.start);
        start..self.ends.last().copied().unwrap_or_default()
    }

    /// The lowest number of those that hold `address` behind their first byte.
    pub(crate) fn behind_start(&self, address: u64) -> Option<u32> {
        let after = self.sorted.partition_point(|(range, _)| range.start < address);
        let candidates = (0..after).rev().take_while(|index| self.ends[*index] > address);
        candidates.map(|index| &self.sorted[index]).filter(|(range, _)| range.contains(&address)).map(|(_, n)| *n).min()
    }
}

/// Threads that are inside a measured function right now, as (thread pointer, probe): they stand in it, or the innermost
/// return address into one on their stack was put there by a call. `ignored` is the program's own text: who stands there
/// computes, whatever old words its stack holds.
pub(crate) fn inside(stopped: &Stopped, stacks: &Stacks, functions: &Ranges, ignored: &Range<u64>) -> Vec<(u64, u32)> {
    let mut found = Vec::new();
    for (thread, stack) in stopped.threads().iter().zip(&stacks.0) {
        let at = thread.instruction_pointer();
        // A return address never is a function's first byte, and who stands there has not entered it.
        let standing = functions.behind_start(at);
        let calling = || innermost_call(stopped, stack, functions);
        let probe = standing.or_else(|| if ignored.contains(&at) { None } else { calling() });
        found.extend(probe.map(|probe| (thread.registers.fs_base, probe)));
    }
    found
}

fn innermost_call(stopped: &Stopped, stack: &Stack, functions: &Ranges) -> Option<u32> {
    let span = functions.span();
    let near = stack.words().map(|(_, word)| word).filter(|word| span.contains(word));
    let mut calls = near.filter_map(|word| functions.behind_start(word).map(|probe| (word, probe)));
    calls.find(|(word, _)| follows_call(stopped, *word)).map(|(_, probe)| probe)
}

/// True if the bytes before `address` can be a call.
fn follows_call(stopped: &Stopped, address: u64) -> bool {
    stopped.memory().read_vec(address.saturating_sub(7), 7).is_ok_and(|before| is_call(&before))
}

/// True if seven bytes end in a call: `e8 rel32`, or `ff` with a register or memory operand.
pub(crate) fn is_call(before: &[u8]) -> bool {
    let indirect = |length: usize| before[7 - length] == 0xff && before[8 - length] & 0x38 == 0x10;
    before[2] == 0xe8 || indirect(2) || indirect(3) || indirect(6) || indirect(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_any_address_behind_their_first() {
        let functions = Ranges::new(vec![(0x300..0x310, 0), (0x100..0x200, 1), (0x120..0x130, 2), (0x100..0x140, 3)]);
        for (name, address, want) in [
            ("before_all", 0xff, None),
            ("first_byte", 0x100, None),
            ("shared_start", 0x101, Some(1)),
            ("inside_another", 0x125, Some(1)),
            ("first_byte_of_the_inner", 0x120, Some(1)),
            ("behind_the_inner", 0x1ff, Some(1)),
            ("between", 0x200, None),
            ("last", 0x30f, Some(0)),
            ("behind_all", 0x310, None),
        ] {
            assert_eq!(functions.behind_start(address), want, "{name}");
        }
        assert_eq!(functions.span(), 0x100..0x310);
        assert_eq!(Ranges::default().behind_start(0), None);
    }
}
