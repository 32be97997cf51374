//! The state that every routine of the stub works on, and how it reads and counts there.
//!
//! Next: `target`, the routines that probes call.

use crate::layout::*;
use core::arch::asm;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Everything a routine needs to find its way, kept in registers.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub header: *const Header,
    pub slot: *const Slot,
}

#[inline(always)]
pub(crate) fn word<'a>(base: *const u8, offset: u64) -> &'a AtomicU64 {
    // SAFETY: offsets come from the geometry that sized the shared memory; every place is 8-byte aligned.
    unsafe { &*base.add(offset as usize).cast::<AtomicU64>() }
}

#[inline(always)]
pub(crate) fn at<'a, T>(base: *const u8, offset: u64) -> &'a T {
    // SAFETY: as for `word`; the structure at each offset is fixed by the geometry.
    unsafe { &*base.add(offset as usize).cast::<T>() }
}

#[inline(always)]
pub(crate) fn add(word: &AtomicU64, value: u64) {
    // One writer (the owning thread): a plain read-modify-write is enough and does not lock the bus.
    word.store(word.load(Relaxed).wrapping_add(value), Relaxed);
}

impl Context {
    #[inline(always)]
    pub fn header<'a>(self) -> &'a Header {
        // SAFETY: islands pass the address at which the shared memory is mapped.
        unsafe { &*self.header }
    }

    #[inline(always)]
    pub fn slot<'a>(self) -> &'a Slot {
        // SAFETY: `find_slot` returned it: a slot inside the shared memory.
        unsafe { &*self.slot }
    }

    #[inline(always)]
    pub fn base(self) -> *const u8 {
        self.header.cast()
    }

    #[inline(always)]
    pub fn probe<'a>(self, number: u64) -> &'a Probe {
        at(self.base(), self.header().geometry.probes_offset + number * size_of::<Probe>() as u64)
    }

    #[inline(always)]
    pub fn stat<'a>(self, function: u64) -> &'a FunctionStat {
        at(self.slot.cast(), self.header().geometry.stats_offset + function * size_of::<FunctionStat>() as u64)
    }

    /// The place of call number `index` in the thread's ring.
    #[inline(always)]
    pub fn ring_record<'a>(self, index: u64) -> &'a CallRecord {
        let geometry = &self.header().geometry;
        let place = index & (geometry.ring_capacity - 1);
        at(self.slot.cast(), geometry.ring_offset + place * size_of::<CallRecord>() as u64)
    }

    #[inline(always)]
    pub fn frame<'a>(self, index: u64) -> &'a Frame {
        let slot = self.slot();
        at((&raw const slot.frames).cast(), (index & (FRAMES_MAX - 1)) * size_of::<Frame>() as u64)
    }
}

/// The program's arguments at a function's entry.
#[derive(Clone, Copy)]
pub(crate) struct Arguments(pub *const Saved);

impl Arguments {
    /// Argument `index` in C order, as it was passed (upper bits of narrow ones are undefined).
    #[inline(always)]
    pub fn get(self, index: u8) -> u64 {
        // SAFETY: the island saved nine registers below the return address; stack arguments stand above it.
        unsafe {
            let words = self.0.cast::<u64>();
            let place = if index < 4 {
                4 + index as usize
            } else if index == 4 {
                3
            } else if index == 5 {
                2
            } else {
                10 + (index as usize - 6)
            };
            core::ptr::read_volatile(words.add(place))
        }
    }

    #[inline(always)]
    pub fn return_address(self) -> u64 {
        // SAFETY: the island passes the address of its saved registers.
        unsafe { (*self.0).return_address }
    }

    #[inline(always)]
    pub fn stack(self) -> u64 {
        self.0 as u64 + 72
    }

    #[inline(always)]
    pub fn returned(self) -> u64 {
        // SAFETY: as above; rax is the last of the nine.
        unsafe { (*self.0).registers[8] }
    }
}

/// The handle number `index` of an array that the program passed, as wide as the library's handles are.
#[inline(always)]
pub(crate) fn handle_in(header: &Header, array: u64, index: u64) -> u64 {
    // SAFETY: the program passed this address for the library to read handles from, or to write one to, which it has done.
    unsafe {
        if header.handle_mask.load(Relaxed) == u64::MAX {
            core::ptr::read_volatile((array as *const u64).wrapping_add(index as usize))
        } else {
            u64::from(core::ptr::read_volatile((array as *const u32).wrapping_add(index as usize)))
        }
    }
}

/// The part of a call that lies in the window.
#[inline(always)]
pub(crate) fn clipped(header: &Header, first: u64, entered: u64, now: u64) -> (u64, u64) {
    let last = header.last_ticks.load(Relaxed);
    (if entered > first { entered } else { first }, if last != 0 && now > last { last } else { now })
}

/// The calling thread's pointer, by which its slot is found: the first word that it points to holds it, too.
#[inline(always)]
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the session refuses threads whose fs base does not point at itself before it inserts any probe.
    unsafe { asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
    pointer
}
