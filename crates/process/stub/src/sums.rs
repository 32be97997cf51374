//! Calls of a function by where they come from, and by how much they carry.
//!
//! Each thread has a table of its own: a look-up by function and path, one line of the cache, and additions. A pair that
//! finds no place adds to a place of its own that nobody reads; the function's own numbers have it all the same, so the
//! reader knows how much is missing.
//!
//! Next: `paths` for what a path is; `trimtab-measure`'s `node::sums`, which reads these.

use crate::context::{Context, add, at};
use crate::layout::*;
use core::sync::atomic::Ordering::Relaxed;

/// The sums of an open call's path.
#[inline(always)]
pub(crate) fn of_frame<'a>(context: Context, probe: &Probe, frame: &Frame) -> &'a PathSum {
    let known = frame.path_sum.load(Relaxed);
    if known != 0 {
        return at(context.base(), known);
    }
    let sum = find(context, u64::from(probe.function), frame.path.load(Relaxed));
    frame.path_sum.store(sum as u64 - context.base() as u64, Relaxed);
    // SAFETY: `find` returns a place in the shared memory.
    unsafe { &*sum }
}

#[inline(always)]
fn find(context: Context, function: u64, site: u64) -> *const PathSum {
    let first = (site ^ (function << 48)).wrapping_mul(SLOT_HASH_MULTIPLIER) >> 40;
    let sum: &PathSum = at(context.slot.cast(), place(context, first));
    if sum.site.load(Relaxed) == site && sum.function.load(Relaxed) == function {
        return sum;
    }
    search(context.header, context.slot, first, function, site)
}

/// Place in the slot of an entry.
#[inline(always)]
fn place(context: Context, index: u64) -> u64 {
    let geometry = &context.header().geometry;
    geometry.path_sums_offset + (index & (PATH_SUMS_MAX - 1)) * size_of::<PathSum>() as u64
}

/// The entry of this pair, taken if there is none; [`Slot::other_paths`] if there is no room.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn search(header: *const Header, slot: *const Slot, first: u64, function: u64, site: u64) -> *const PathSum {
    let context = Context { header, slot };
    let mut probe = 0;
    while probe < PROBES_MAX {
        let sum: &PathSum = at(slot.cast(), place(context, first + probe));
        let held = sum.site.load(Relaxed);
        if held == site && sum.function.load(Relaxed) == function {
            return sum;
        }
        if held == 0 {
            sum.function.store(function, Relaxed);
            sum.site.store(site, Relaxed);
            return sum;
        }
        probe += 1;
    }
    &raw const context.slot().other_paths
}

/// Adds a call with its payload to the function's sizes.
#[inline(always)]
pub(crate) fn add_size(context: Context, probe: &Probe, bytes: u64) {
    let place = u64::from(probe.function) * SIZES_MAX + size_class(bytes);
    let offset = context.header().geometry.sizes_offset + place * size_of::<SizeClass>() as u64;
    let class: &SizeClass = at(context.slot.cast(), offset);
    add(&class.calls, 1);
    add(&class.bytes, bytes);
}
