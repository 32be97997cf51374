//! Which call completes a request that another call posted: a receive that is posted is over when its wait returns.
//!
//! Handles are used anew. So each thread keeps a small table of the handles that calls of its ring have returned; a call that
//! waits for one, or for several, writes the time of its entry into the records of the calls that posted them. One that waits
//! for any of several (`MPI_Waitany`) does so at its exit, for the handles that are null then. So does one that asks (`MPI_Test`):
//! of a wait by asking again and again the first call is in the ring and stands for all. A handle that is returned again takes
//! the place of what was known of it. Requests that were over when they were made share handles in both families of libraries,
//! and there is nothing to wait for in them.
//!
//! Next: `target` calls these; `trimtab-window` finds a message's end by them.

use crate::context::{Arguments, Context, at, handle_in};
use crate::layout::*;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// The place of a handle in the table: where it is known, else that of its places which was posted to longest ago.
#[inline(always)]
fn posted<'a>(slot: &Slot, handle: u64) -> &'a PostedRequest {
    let hash = (handle ^ (handle >> 17)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let first = (hash & (POSTED_MAX / POSTED_WAYS - 1)) * POSTED_WAYS;
    let place = |way: u64| -> &'a PostedRequest {
        at((&raw const slot.posted).cast(), (first + way) * size_of::<PostedRequest>() as u64)
    };
    let mut oldest = place(0);
    let mut way = 0;
    while way < POSTED_WAYS {
        let entry = place(way);
        if entry.handle.load(Relaxed) == handle {
            return entry;
        }
        if entry.ring.load(Relaxed) < oldest.ring.load(Relaxed) {
            oldest = entry;
        }
        way += 1;
    }
    oldest
}

/// Where the requests are that a call may complete, and how many.
#[inline(always)]
pub(crate) fn asked(probe: &Probe, arguments: Arguments) -> (u64, i64) {
    let count = if probe.count == ABSENT { 1 } else { i64::from(arguments.get(probe.count) as i32) };
    (arguments.get(probe.request), count)
}

/// True of a handle that all requests share which were over when their call returned, as short sends are: none of them is waited for.
#[inline(always)]
fn is_over(header: &Header, handle: u64) -> bool {
    let over = header.request_over.load(Relaxed);
    over != 0 && handle & header.request_over_mask.load(Relaxed) == over
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
    if is_over(context.header(), handle) {
        return;
    }
    let entry = posted(context.slot(), handle);
    entry.handle.store(handle, Relaxed);
    entry.ring.store(ring, Relaxed);
    entry.completed_by.store(0, Relaxed);
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
        if handle != header.request_null.load(Relaxed) && !is_over(header, handle) {
            strangers += u16::from(!complete_one(context, handle, ring));
        }
        index += 1;
    }
    own.strangers.store(strangers, Relaxed);
}

/// A request is completed by the call at `ring`; false: nobody knows who posted it.
#[inline(always)]
fn complete_one(context: Context, handle: u64, ring: u64) -> bool {
    let entry = posted(context.slot(), handle);
    if entry.handle.load(Relaxed) != handle {
        return false;
    }
    let posted_at = entry.ring.load(Relaxed);
    if posted_at == 0 {
        // No request is named twice in one array, but those that were over share a handle.
        return entry.completed_by.load(Relaxed) == ring + 1;
    }
    if ring.wrapping_sub(posted_at) + 1 >= context.header().geometry.ring_capacity {
        return false;
    }
    let ticks = context.ring_record(ring).enter_ticks.load(Relaxed);
    context.ring_record(posted_at - 1).completed_ticks.store(ticks, Relaxed);
    entry.ring.store(0, Relaxed);
    entry.completed_by.store(ring + 1, Relaxed);
    true
}

/// At the entry of a call that completes any of the `count` requests of the array at `place`; `ring` is the ring index of it, or of
/// the first call of the wait that it goes on with.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
pub(crate) extern "C" fn remember(header: *const Header, slot: *const Slot, place: u64, count: i64, ring: u64) {
    let context = Context { header, slot };
    let any = &context.slot().any;
    any.ring.store(0, Relaxed);
    if place == 0 || context.header().library.load(Relaxed) == 0 || !(0..=ANY_MAX as i64).contains(&count) {
        return;
    }
    let mut index = 0;
    while (index as i64) < count {
        any_handle(any, index).store(handle_in(context.header(), place, index), Relaxed);
        index += 1;
    }
    any.place.store(place, Relaxed);
    any.count.store(count as u64, Relaxed);
    any.ring.store(ring + 1, Relaxed);
}

/// At the exit of that call, by its ring index plus one: what is null now was completed by it.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
pub(crate) extern "C" fn complete_any(header: *const Header, slot: *const Slot, ring_plus_one: u64) {
    let context = Context { header, slot };
    let (header, any) = (context.header(), &context.slot().any);
    if ring_plus_one == 0 || any.ring.load(Relaxed) != ring_plus_one {
        return;
    }
    any.ring.store(0, Relaxed);
    let (ring, null) = (ring_plus_one - 1, header.request_null.load(Relaxed));
    let known = &context.ring_record(ring).strangers;
    let (mut strangers, mut active, mut completed) = (0, 0, 0);
    let mut index = 0;
    while index < any.count.load(Relaxed) {
        let before = any_handle(any, index).load(Relaxed);
        if before != null {
            active += 1;
            if handle_in(header, any.place.load(Relaxed), index) == null {
                completed += 1;
                strangers += u16::from(!is_over(header, before) && !complete_one(context, before, ring));
            }
        }
        index += 1;
    }
    // Nothing has come, or it was a persistent request, which keeps its handle: which of them was completed does not show.
    if null == 0 || (active > 0 && completed == 0) {
        return;
    }
    let before = known.load(Relaxed);
    known.store(if before == u16::MAX { strangers } else { before + strangers }, Relaxed);
}

#[inline(always)]
fn any_handle(any: &AnyOfSeveral, index: u64) -> &AtomicU64 {
    at((&raw const any.handles).cast(), index * size_of::<AtomicU64>() as u64)
}
