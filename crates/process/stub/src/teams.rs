//! Parallel regions: how long each thread of a team works in one, and for how long it waits for the others.
//!
//! A thread calls the runtime to have a region run; each thread of the team, that one included, then runs the function that
//! the compiler made of the region, and waits in functions of the runtime. Waits are taken off the function they lie in, and
//! tasks that are run in a wait are taken off the wait. Each thread sums its own part; the thread that had the region run
//! adds all parts up when the region has ended, because nobody is in it then: so the longest of each single region is known,
//! not only of their sums.
//!
//! Next: `layout`'s `RegionStat`; `trimtab-measure`'s `node::regions`, which reads it.

use crate::context::{Context, add, at, clipped};
use crate::layout::*;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// A function of a region is entered: the frame is `index`.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
pub(crate) extern "C" fn open(header: *const Header, slot: *const Slot, index: u64) {
    let context = Context { header, slot };
    let frame = context.frame(index);
    frame.inner.store(0, Relaxed);
    frame.body.store(0, Relaxed);
    if part_of(context, index) != part::REGION || around(context, index) != 0 {
        return;
    }
    // The thread's work outside of regions belongs to none: tasks are run at once there.
    let team = &context.slot().team;
    take(&team.entries);
    take(&team.busy);
    take(&team.comm);
    let mut wait = 0;
    while wait < 3 {
        take(at(team.waits.as_ptr().cast(), wait * 8));
        wait += 1;
    }
    let (teams, key) = (&context.header().teams, context.slot().key.load(Relaxed));
    let held = teams.master.swap(key, AcqRel);
    if held != 0 && held != key {
        note(context, &teams.mixed);
    }
}

/// The function of the frame `index` has returned.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
pub(crate) extern "C" fn close(header: *const Header, slot: *const Slot, index: u64, now: u64) {
    let context = Context { header, slot };
    let frame = context.frame(index);
    let inside = inside(context, frame, now);
    let part = part_of(context, index);
    let around = around(context, index);
    if part == part::NONE {
        let group = context.probe(frame.probe.load(Relaxed)).group;
        let is_outermost = frame.outermost.load(Relaxed) & outermost::GROUP != 0;
        if group == 0 && is_outermost && around != 0 && part_of(context, around - 1) != part::REGION {
            add(&context.slot().team.comm, inside);
        }
    } else if part == part::BODY {
        close_body(context, frame, inside, around);
    } else if part == part::REGION {
        close_region(context, frame, inside, around);
    } else {
        close_wait(context, frame, inside, (part, around));
    }
}

/// A frame was left by an exception or `longjmp`.
#[inline(always)]
pub(crate) fn lose(context: Context, frame: &Frame) {
    let teams = &context.header().teams;
    note(context, &teams.lost);
    let is_region = context.probe(frame.probe.load(Relaxed)).part == part::REGION;
    if is_region && teams.master.load(Relaxed) == context.slot().key.load(Relaxed) {
        teams.master.store(0, Relaxed);
    }
}

/// A region ends that the thread was not seen to begin: it lasted since the window began.
#[inline(always)]
pub(crate) fn end_unseen(context: Context, number: u64, now: u64) {
    let header = context.header();
    let first = header.first_ticks.load(Relaxed);
    let is_region = context.probe(number).part == part::REGION;
    if is_region && header.state.load(Acquire) >= state::RECORD && first != 0 {
        let (from, to) = clipped(header, first, first, now);
        add(&context.slot().team.unseen, to.saturating_sub(from));
    }
}

/// Counts what happens while recording.
#[inline(always)]
fn note(context: Context, word: &AtomicU64) {
    if context.header().state.load(Acquire) == state::RECORD {
        word.fetch_add(1, Relaxed);
    }
}

/// The frame's time in the window.
#[inline(always)]
fn inside(context: Context, frame: &Frame, now: u64) -> u64 {
    let header = context.header();
    let first = header.first_ticks.load(Relaxed);
    if header.state.load(Acquire) < state::RECORD || first == 0 {
        return 0;
    }
    let (from, to) = clipped(header, first, frame.ticks.load(Relaxed), now);
    to.saturating_sub(from)
}

#[inline(always)]
fn part_of(context: Context, index: u64) -> u8 {
    context.probe(context.frame(index).probe.load(Relaxed)).part
}

/// The innermost frame of a region around the frame `index`, plus one; 0: there is none.
#[inline(always)]
fn around(context: Context, index: u64) -> u64 {
    let mut below = index;
    while below > 0 && part_of(context, below - 1) == part::NONE {
        below -= 1;
    }
    below
}

#[inline(always)]
fn close_body(context: Context, frame: &Frame, inside: u64, around_frame: u64) {
    let waited = frame.inner.load(Relaxed);
    let busy = inside.saturating_sub(waited);
    if around_frame != 0 {
        let outer = context.frame(around_frame - 1);
        let outer_part = part_of(context, around_frame - 1);
        if outer_part == part::REGION && outer.body.load(Relaxed) == 0 {
            let function = context.probe(frame.probe.load(Relaxed)).function;
            outer.body.store(u64::from(function) + 1, Relaxed);
        }
        if outer_part != part::REGION || around(context, around_frame - 1) != 0 {
            // A task, or a region inside of another one: part of what it lies in.
            if outer_part == part::BODY || outer_part == part::REGION {
                add(&outer.inner, waited);
            } else {
                // The task's own waits are told already.
                add(&outer.inner, busy);
                add(&outer.body, waited);
            }
            return;
        }
    }
    if inside > 0 {
        join(context);
        let team = &context.slot().team;
        add(&team.entries, 1);
        add(&team.busy, busy);
    }
}

/// Puts the thread's slot among those whose parts are added up.
#[inline(always)]
fn join(context: Context) {
    let (teams, team) = (&context.header().teams, &context.slot().team);
    if team.is_member.load(Relaxed) == 0 {
        team.is_member.store(1, Relaxed);
        let number = teams.member_count.fetch_add(1, AcqRel);
        if number < MEMBERS_MAX as u64 {
            let place = context.slot as u64 - context.base() as u64;
            at::<AtomicU64>(teams.members.as_ptr().cast(), number * 8).store(place, Relaxed);
        }
    }
}

#[inline(always)]
fn close_wait(context: Context, frame: &Frame, inside: u64, (part, around_frame): (u8, u64)) {
    let waited = inside.saturating_sub(frame.inner.load(Relaxed));
    let team = &context.slot().team;
    if around_frame == 0 || part_of(context, around_frame - 1) == part::REGION {
        if part == part::BARRIER && inside > 0 {
            add(&team.stray, 1);
        }
    } else if part_of(context, around_frame - 1) == part::BODY {
        add(&context.frame(around_frame - 1).inner, waited);
        let own = waited.saturating_sub(frame.body.load(Relaxed));
        add(at::<AtomicU64>(team.waits.as_ptr().cast(), wait_index(part) * 8), own);
    }
}

/// Place in [`TeamPart::waits`].
#[inline(always)]
fn wait_index(part: u8) -> u64 {
    if part == part::BARRIER {
        0
    } else if part == part::LOCK {
        1
    } else {
        2
    }
}

#[inline(always)]
fn close_region(context: Context, frame: &Frame, inside: u64, around_frame: u64) {
    let teams = &context.header().teams;
    if around_frame != 0 {
        add(&context.frame(around_frame - 1).inner, frame.inner.load(Relaxed));
        note(context, &teams.nested);
        return;
    }
    if teams.master.load(Relaxed) == context.slot().key.load(Relaxed) {
        teams.master.store(0, Relaxed);
    }
    if inside > 0 {
        add_up(context, frame, inside);
    }
}

/// All threads of the team have left the region: their parts are added up.
#[inline(always)]
fn add_up(context: Context, frame: &Frame, inside: u64) {
    let teams = &context.header().teams;
    let body = frame.body.load(Relaxed);
    let is_seen = body != 0;
    let function = if is_seen { body - 1 } else { u64::from(context.probe(frame.probe.load(Relaxed)).function) };
    let stat = region(context, context.slot, function);
    let held = teams.member_count.load(Acquire);
    let count = if held < MEMBERS_MAX as u64 { held } else { MEMBERS_MAX as u64 };
    let (mut threads, mut longest, mut number) = (0, 0, 0);
    while number < count {
        let place = at::<AtomicU64>(teams.members.as_ptr().cast(), number * 8).load(Relaxed);
        number += 1;
        // A thread that has just got its number has not written its place yet: it is of no team that has ended.
        if place == 0 {
            continue;
        }
        let member: *const Slot = at::<Slot>(context.base(), place);
        let part = at::<Slot>(context.base(), place);
        let busy = take(&part.team.busy);
        let took_part = take(&part.team.entries) != 0;
        let comm = take(&part.team.comm);
        add(&stat.busy, busy);
        add(&stat.comm, comm);
        if member == context.slot {
            add(&stat.comm_of_master, comm);
        }
        let mut wait = 0;
        while wait < 3 {
            let waited = take(at(part.team.waits.as_ptr().cast(), wait * 8));
            add(at(stat.waits.as_ptr().cast(), wait * 8), waited);
            wait += 1;
        }
        if took_part {
            threads += 1;
            longest = if busy > longest { busy } else { longest };
            add(&region(context, member, function).own_busy, busy);
        }
    }
    add(&stat.passes, 1);
    stat.site.store(frame.site.load(Relaxed), Relaxed);
    if is_seen && threads == 0 {
        return;
    }
    add(&stat.ticks, inside);
    if !is_seen {
        return;
    }
    add(&stat.thread_ticks, inside.wrapping_mul(threads));
    add(&stat.longest_ticks, longest.wrapping_mul(threads));
    let (least, most) = (stat.threads_min.load(Relaxed), stat.threads_max.load(Relaxed));
    stat.threads_min.store(if least == 0 || threads < least { threads } else { least }, Relaxed);
    stat.threads_max.store(if threads > most { threads } else { most }, Relaxed);
}

/// The word's value, which is 0 from now on: its thread is outside of all regions.
#[inline(always)]
fn take(word: &AtomicU64) -> u64 {
    let value = word.load(Relaxed);
    if value != 0 {
        word.store(0, Relaxed);
    }
    value
}

#[inline(always)]
fn region<'a>(context: Context, slot: *const Slot, function: u64) -> &'a RegionStat {
    at(slot.cast(), context.header().geometry.regions_offset + function * size_of::<RegionStat>() as u64)
}
