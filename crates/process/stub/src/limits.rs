//! Where counting a function ends by itself: at so many calls, or once its probes have taken their share of the window's time.
//!
//! A comparison where calls are counted anyway finds out when to look closer. The calls that a share of the time allows grow while
//! the window goes on, so each look also says when the next one is due. A thread judges by its own calls and its own time, and
//! a function that one stops is stopped for all.
//!
//! The function that counts iterations is never stopped: without it nothing would end the window.
//!
//! Next: `trimtab-x86`'s `inline` compares where islands count; `trimtab-measure`'s `limits` says what is allowed, and takes
//! out what has stopped.

use crate::context::{Context, at};
use crate::layout::*;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// Calls from one look to the next at least.
const CALLS_BETWEEN_LOOKS: u64 = 256;

#[inline(always)]
fn limit<'a>(context: Context, function: u64) -> &'a FunctionLimit {
    at(context.base(), context.header().geometry.limits_offset + function * size_of::<FunctionLimit>() as u64)
}

/// True if this call is not to be counted: its function is stopped, or is stopped now.
#[inline(always)]
pub(crate) fn is_beyond(context: Context, probe: &Probe, now: u64) -> bool {
    let limit = limit(context, u64::from(probe.function));
    let stat = context.stat(u64::from(probe.function));
    if stat.charged() < limit.look_at_calls.load(Relaxed) {
        return false;
    }
    limit.stopped_ticks.load(Relaxed) != 0 || stops(context.header, context.slot, u64::from(probe.function), now)
}

/// Judges a function whose calls have come to where it is looked at.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn stops(header: *const Header, slot: *const Slot, function: u64, now: u64) -> bool {
    let context = Context { header, slot };
    let (header, stat, limit) = (context.header(), context.stat(function), limit(context, function));
    let first = header.first_ticks.load(Relaxed);
    if header.state.load(Acquire) != state::RECORD || first == 0 {
        return false;
    }
    let calls = stat.charged();
    let calls_max = limit.calls_max.load(Relaxed);
    let is_over_calls = calls_max != 0 && calls >= calls_max;
    let allowed = allowed(header, limit, now.wrapping_sub(first));
    let is_over = is_over_calls || calls >= allowed;
    if !is_over || counts_iterations(context, function) {
        let soonest = calls + CALLS_BETWEEN_LOOKS;
        let next = if allowed > soonest { allowed } else { soonest };
        let is_before = calls < calls_max && calls_max < next;
        limit.look_at_calls.store(if is_before { calls_max } else { next }, Relaxed);
        return false;
    }
    limit.stopped_by.store(if is_over_calls { stopped_by::CALLS } else { stopped_by::COST }, Relaxed);
    // Of several threads the first one says since when.
    let _ = limit.stopped_ticks.compare_exchange(0, now, AcqRel, Relaxed);
    limit.look_at_calls.store(0, Relaxed);
    true
}

/// Calls that the window's time allows so far.
#[inline(always)]
fn allowed(header: &Header, limit: &FunctionLimit, elapsed: u64) -> u64 {
    let per_tick = limit.calls_per_tick.load(Relaxed);
    let least = header.limit_ticks_min.load(Relaxed);
    let ticks = if elapsed > least { elapsed } else { least };
    let calls = (u128::from(ticks) * u128::from(per_tick)) >> 32;
    if per_tick == 0 || calls > u128::from(u64::MAX) { u64::MAX } else { calls as u64 }
}

#[inline(always)]
fn counts_iterations(context: Context, function: u64) -> bool {
    let marker = context.header().marker_probe.load(Relaxed);
    marker != u32::MAX && u64::from(context.probe(u64::from(marker)).function) == function
}
