//! Which call completes a request that another call posted: a receive that is posted is over when its wait returns.
//!
//! Handles are used anew. So each thread keeps a small table of the handles that calls of its ring have returned; a call that
//! waits for one, or for several, writes the time of its entry into the records of the calls that posted them. Calls that
//! find out by asking (`MPI_Test`, `MPI_Waitany`) are not among these: which request they completed is known only behind
//! them. A handle that is returned again takes the place of what was known of it.
//!
//! Next: `target` calls these; `trimtab-window` finds a message's end by them.

use crate::context::{Context, at, handle_in};
use crate::layout::*;
use core::sync::atomic::Ordering::Relaxed;

#[inline(always)]
fn posted<'a>(slot: &Slot, handle: u64) -> &'a PostedRequest {
    let hash = (handle ^ (handle >> 17)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    at((&raw const slot.posted).cast(), (hash & (POSTED_MAX - 1)) * size_of::<PostedRequest>() as u64)
}

/// At the exit of a call that has stored a request at `place`: it is the one at `ring`, a ring index plus one; 0: it is in no ring.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
pub(crate) extern "C" fn post(header: *const Header, slot: *const Slot, place: u64, ring: u64) {
    let context = Context { header, slot };
    if place == 0 || context.header().library.load(Relaxed) == 0 {
        return;
    }
    let handle = handle_in(context.header(), place, 0);
    let entry = posted(context.slot(), handle);
    entry.handle.store(handle, Relaxed);
    entry.ring.store(ring, Relaxed);
}

/// At the entry of a call, at ring index `ring`, that returns when `count` requests of the array at `place` are completed.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
pub(crate) extern "C" fn complete(header: *const Header, slot: *const Slot, place: u64, count: i64, ring: u64) {
    let context = Context { header, slot };
    let (header, own) = (context.header(), context.ring_record(ring));
    let mut strangers = 0;
    if place == 0 || header.library.load(Relaxed) == 0 || count > COMPLETED_MAX as i64 {
        own.strangers.store(u16::MAX, Relaxed);
        return;
    }
    let mut index = 0;
    while (index as i64) < count {
        let handle = handle_in(header, place, index);
        if handle != header.request_null.load(Relaxed) {
            let entry = posted(context.slot(), handle);
            let posted_at = entry.ring.load(Relaxed);
            let is_there = ring.wrapping_sub(posted_at) + 1 < header.geometry.ring_capacity;
            if entry.handle.load(Relaxed) == handle && posted_at != 0 && is_there {
                let ticks = own.enter_ticks.load(Relaxed);
                context.ring_record(posted_at - 1).completed_ticks.store(ticks, Relaxed);
                entry.ring.store(0, Relaxed);
            } else {
                strangers += 1;
            }
        }
        index += 1;
    }
    own.strangers.store(strangers, Relaxed);
}
