//! Where a stopped thread may keep our signal frames: on its own stack, and nowhere else.
//!
//! Below the stack pointer there is free room only on a stack that is known from end to end. A coroutine's stack, an
//! alternate signal stack or one that the program made for a thread may be a few kilobytes in the middle of a heap, with
//! somebody's data right below. So room is taken in the mapping that holds the thread's own stack: the kernel's for a
//! process's first thread, or the one with the thread's control block at its top and a guard at its bottom, as C
//! libraries make them. A thread that stands elsewhere at the moment leaves its own stack as it was, and of that the
//! lowest pages are free if nobody has ever touched them.
//!
//! Next: `inject`, which puts the frames there.

use crate::proc::MappingTable;
use crate::thread::Thread;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use trimtab_types::Pid;
use trimtab_types::procfs::Mapping;

const PAGE: u64 = 4096;
/// Bits of a page's word in /proc/PID/pagemap: in memory, or swapped out.
const TOUCHED: u64 = 0b11 << 62;

/// The address below which `thread` has `needed` bytes of stack that nobody uses; `None` if that is not certain.
pub(crate) fn room_for(pid: Pid, thread: &Thread, maps: &MappingTable, needed: u64) -> Option<u64> {
    let (stack, base) = (thread.registers.rsp, thread.registers.fs_base);
    let own = own_stack(thread.tid == pid.0, base, maps)?;
    if (own.start..own.end).contains(&stack) {
        return (stack.saturating_sub(needed) >= maps.lowest_of_stack(own)).then_some(stack);
    }
    // A page more than it needs, since the stack may have been used down to the middle of one.
    let pages = needed.div_ceil(PAGE);
    let top = own.start + pages * PAGE;
    (top + PAGE <= own.end && !is_touched(pid, own.start, pages + 1)).then_some(top)
}

/// The part of its own stack that `thread` uses: from the stack pointer to the stack's end. `None` if it stands
/// elsewhere, on an alternate signal stack perhaps.
pub fn used_stack(pid: Pid, thread: &Thread, maps: &MappingTable) -> Option<Range<u64>> {
    let own = own_stack(thread.tid == pid.0, thread.registers.fs_base, maps)?;
    let stack = thread.registers.rsp;
    (own.start..own.end).contains(&stack).then_some(stack..own.end)
}

/// The mapping that holds the stack of a process's first thread, or of one with its control block at `base`.
fn own_stack(is_first: bool, base: u64, maps: &MappingTable) -> Option<&Mapping> {
    if is_first {
        return maps.0.iter().find(|mapping| mapping.path == "[stack]" && mapping.writable);
    }
    let index = maps.0.partition_point(|mapping| mapping.end <= base);
    let own = maps.0.get(index).filter(|mapping| mapping.start <= base)?;
    let is_guard = |below: &Mapping| below.end < own.start || !(below.readable || below.writable || below.executable);
    let is_guarded = index.checked_sub(1).and_then(|below| maps.0.get(below)).is_none_or(is_guard);
    (own.inode == 0 && own.writable && own.path != "[heap]" && is_guarded).then_some(own)
}

/// True if one of `pages` from `start` was ever used; also if the kernel does not tell.
fn is_touched(pid: Pid, start: u64, pages: u64) -> bool {
    let mut words = vec![0; pages as usize * size_of::<u64>()];
    let read = File::open(format!("/proc/{pid}/pagemap"))
        .and_then(|file| file.read_exact_at(&mut words, start / PAGE * size_of::<u64>() as u64));
    let word = |raw: &[u8]| u64::from_le_bytes(raw.try_into().unwrap_or([0xff; 8]));
    read.is_err() || words.chunks_exact(8).any(|raw| word(raw) & TOUCHED != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_types::procfs::parse_maps;

    const MAPS: &str = "\
000055d00000-000055d20000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000001000 ---p 00000000 00:00 0 
7f0000001000-7f0000100000 rw-p 00000000 00:00 0 
7f0000100000-7f0000200000 rw-s 00000000 00:01 9 /dev/shm/x
7f0000200000-7f0000300000 rw-p 00000000 00:00 0 
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
";

    fn thread(tid: i32, rsp: u64, fs_base: u64) -> Thread {
        let mut registers = crate::sys::no_registers();
        (registers.rsp, registers.fs_base) = (rsp, fs_base);
        Thread { tid, registers }
    }

    #[test]
    fn only_a_stack_of_its_own_has_room() {
        let maps = MappingTable(parse_maps(MAPS.as_bytes()).expect("a map"));
        let nobody = Pid(i32::MAX);
        let first = i32::MAX;
        let rows = [
            ("first", first, 0x7ffd_0001_8000, 0x7f00_0020_1000, Some(0x7ffd_0001_8000)),
            // The kernel makes this one larger.
            ("first, nearly full", first, 0x7ffd_0000_0800, 0x7f00_0020_1000, Some(0x7ffd_0000_0800)),
            ("another, guarded", 7, 0x7f00_0008_0000, 0x7f00_000f_f000, Some(0x7f00_0008_0000)),
            ("no guard below", 7, 0x7f00_0028_0000, 0x7f00_002f_f000, None),
            ("on a heap", 7, 0x55d1_0000, 0x55d1_f000, None),
            // Of a process that is gone nothing is known to be untouched.
            ("elsewhere", 7, 0x55d1_0000, 0x7f00_000f_f000, None),
            ("first, elsewhere", first, 0x55d1_0000, 0x7f00_000f_f000, None),
            ("unmapped", 7, 0x1000, 0x2000, None),
        ];
        for (name, tid, rsp, fs_base, wanted) in rows {
            assert_eq!(room_for(nobody, &thread(tid, rsp, fs_base), &maps, 0x1000), wanted, "{name}");
        }
    }

    #[test]
    fn what_is_used_of_a_stack() {
        let maps = MappingTable(parse_maps(MAPS.as_bytes()).expect("a map"));
        let rows = [
            ("own", 0x7f00_0008_0000, Some(0x7f00_0008_0000..0x7f00_0010_0000)),
            ("elsewhere", 0x7f00_0028_0000, None),
        ];
        for (name, rsp, wanted) in rows {
            assert_eq!(used_stack(Pid(9), &thread(7, rsp, 0x7f00_000f_f000), &maps), wanted, "{name}");
        }
    }

    #[test]
    fn pages_of_this_program_are_touched() {
        let own = Pid(std::process::id() as i32);
        let word = 5u64;
        assert!(is_touched(own, (&raw const word) as u64 & !(PAGE - 1), 1));
        assert!(is_touched(Pid(i32::MAX), 0x1000, 1), "nothing is known");
    }
}
