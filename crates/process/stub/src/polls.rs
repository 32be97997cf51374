//! Waits by asking again and again (`MPI_Test`, `MPI_Iprobe`): which calls are one wait, and its place in the ring.
//!
//! The ring has the first call of such a wait, and the calls that follow it at once go on with that record. Calls after which nothing
//! had come when the thread calls something else were no wait.
//!
//! Next: `target`, which opens and closes these calls; `requests` for what they complete; `layout`'s `FunctionStat::charged` for their cost.

use crate::context::{Arguments, Context, add};
use crate::layout::*;
use core::sync::atomic::Ordering::Relaxed;

/// Keeps of a call that polls in which pass of the marker it is, and where it will say if something has come.
#[inline(always)]
pub(crate) fn keep_poll(context: Context, probe: &Probe, frame: &Frame, arguments: Arguments) {
    frame.kept[0].store(context.header().passes.load(Relaxed), Relaxed);
    frame.kept[1].store(if probe.came == ABSENT { 0 } else { arguments.get(probe.came) }, Relaxed);
}

/// When the call before returned, if both only poll and this one follows it at once; 0: it does not.
///
/// A program that waits so calls as often as it can, and probes make the calls fewer. All that time is one wait, or the time between
/// two calls, which is mostly that of their probes, would count as computation. An interrupt between two of them
/// does not end it, as long as that is little of the whole wait.
#[inline(always)]
pub(crate) fn polled_before(context: Context, probe: &Probe, now: u64) -> u64 {
    let (header, slot) = (context.header(), context.slot());
    let polled = slot.polled_ticks.load(Relaxed);
    if probe.polls == 0 {
        slot.polled_ticks.store(0, Relaxed);
        let vainly = slot.polls_open.load(Relaxed);
        if vainly != 0 {
            slot.polls_open.store(0, Relaxed);
            add(&context.stat(slot.polls_function.load(Relaxed)).polled_vainly, vainly);
        }
        return 0;
    }
    let (apart, apart_max) = (now.wrapping_sub(polled), header.polls_apart_ticks_max.load(Relaxed));
    if apart <= apart_max {
        return polled;
    }
    let all_apart = slot.waits_apart_ticks.load(Relaxed).saturating_add(apart);
    let waited = now.wrapping_sub(slot.waits_since_ticks.load(Relaxed));
    if polled != 0 && apart_max != 0 && all_apart <= waited / WAIT_TO_APART_MIN {
        slot.waits_apart_ticks.store(all_apart, Relaxed);
        return polled;
    }
    slot.waits_since_ticks.store(now, Relaxed);
    slot.waits_apart_ticks.store(0, Relaxed);
    0
}

/// The call has returned: when, if it polls, and if something has come.
#[inline(always)]
pub(crate) fn note_polled(context: Context, probe: &Probe, frame: &Frame, now: u64) {
    let slot = context.slot();
    slot.polled_ticks.store(if probe.polls == 0 { 0 } else { now }, Relaxed);
    if probe.came != ABSENT && has_come(frame.kept[1].load(Relaxed)) {
        slot.polls_open.store(0, Relaxed);
    }
}

/// True if a call that polled has stored there that something has come.
#[inline(always)]
fn has_come(place: u64) -> bool {
    // SAFETY: the library has just written there, where the program has told it to.
    place != 0 && unsafe { core::ptr::read_unaligned(place as *const i32) } != 0
}

/// The ring index, plus one, of the latest call if it is one of this pass of the marker that polls as this one does; u64::MAX: one of
/// the latest ones is, and those since polled too; 0: none is. While a marker counts, the ring tells its passes apart, and a
/// function that was called ten thousand times in one would leave no room for others.
#[inline(always)]
pub(crate) fn polled_in_ring(context: Context, number: u64, site: u64, polls_on: bool) -> u64 {
    let (header, slot) = (context.header(), context.slot());
    let (written, passes) = (slot.ring_written.load(Relaxed), header.passes.load(Relaxed));
    if header.marker_probe.load(Relaxed) == u32::MAX && !polls_on {
        return 0;
    }
    let mut back = 1;
    while back <= POLLS_TOGETHER_MAX && back <= written {
        let record = context.ring_record(written - back);
        let probe = u64::from(record.probe.load(Relaxed));
        if record.passes.load(Relaxed) != passes || context.probe(probe).polls == 0 {
            return 0;
        }
        if probe == number && record.site.load(Relaxed) == site {
            return if back == 1 { written } else { u64::MAX };
        }
        back += 1;
    }
    0
}

/// Has a call that polls stand in the ring as the one that is known there, or not at all; false: it gets a place of its own. A wait in
/// which nothing came gives its place to the next one; one that has ended keeps it.
#[inline(always)]
pub(crate) fn goes_on_in_ring(
    context: Context,
    probe: &Probe,
    frame: &Frame,
    arguments: Arguments,
    known: u64,
    same: bool,
) -> bool {
    if known == u64::MAX {
        return true;
    }
    let record = context.ring_record(known - 1);
    let completes = probe.requests == requests::COMPLETES_ANY;
    if !same {
        if completes && record.strangers.load(Relaxed) != u16::MAX {
            return false;
        }
        record.enter_ticks.store(frame.ticks.load(Relaxed), Relaxed);
    }
    frame.ring.store(known, Relaxed);
    if completes {
        let (place, count) = crate::requests::asked(probe, arguments);
        crate::requests::remember(context.header, context.slot, place, count, known - 1);
    }
    true
}
