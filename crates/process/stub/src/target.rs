//! The routine that a probe runs inside the target: find the thread's slot, note entry or exit, count iterations.
//!
//! Everything here stands in the link section `trimtab_stub` and is copied into the target, so it must not call or
//! read anything outside that section: no panics, no slices, no `memcpy`. All shared words are relaxed atomics, which
//! also keeps the compiler from using vector registers (they hold the target's arguments and return values).
//!
//! Why not `fs`-relative thread-local storage: the loader's static block is nearly full in real programs, and the
//! target may be static. The thread pointer itself (`fs:[0]`, which glibc and musl keep equal to the `fs` base) is the
//! key of a hash of slots instead.
//!
//! Next: `paths` finds where a call comes from, `links` counts bytes to peers, `resolve` asks the MPI library for sizes and
//! ranks.

use crate::context::{Arguments, Context, add, at, clipped, thread_pointer, word};
use crate::layout::*;
use crate::{limits, links, paths, polls, sums, teams};
use core::arch::{asm, naked_asm};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The routines as bytes, and where each begins.
#[derive(Clone, Debug)]
pub struct Blob {
    /// The section's bytes.
    pub bytes: &'static [u8],
    /// Offset of `enter(header, probe, saved)`.
    pub enter: u64,
    /// Offset of `leave(header, probe, saved)`.
    pub leave: u64,
    /// Offset of `pass(header, probe, saved)`, for loops.
    pub pass: u64,
}

unsafe extern "C" {
    #[link_name = "__start_trimtab_stub"]
    static SECTION_START: u8;
    #[link_name = "__stop_trimtab_stub"]
    static SECTION_END: u8;
}

/// The in-target routines of this very program.
pub fn blob() -> Blob {
    let start = &raw const SECTION_START;
    let end = &raw const SECTION_END;
    let length = end as usize - start as usize;
    // SAFETY: the linker defines both symbols around one section of this program's own read-only text.
    let bytes = unsafe { core::slice::from_raw_parts(start, length) };
    let offset = |routine: usize| (routine - start as usize) as u64;
    let (enter, leave) = (offset(enter as *const () as usize), offset(leave as *const () as usize));
    Blob { bytes, enter, leave, pass: offset(pass as *const () as usize) }
}

#[inline(always)]
pub(crate) fn ticks() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads the time stamp counter; touches no memory.
    unsafe { asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags)) };
    (u64::from(high) << 32) | u64::from(low)
}

/// The calling thread's slot, claimed at first sight; null if all are taken.
#[inline(always)]
fn find_slot(header: *const Header) -> *const Slot {
    let key = thread_pointer();
    // SAFETY: as `Context::header`.
    let geometry = unsafe { &(*header).geometry };
    let index = slot_hash(key, geometry);
    let offset = geometry.slots_offset + index * geometry.slot_stride;
    if word(header.cast(), offset).load(Relaxed) == key {
        // SAFETY: in bounds by construction of the geometry.
        return unsafe { header.cast::<u8>().add(offset as usize).cast() };
    }
    claim_slot(header, key)
}

#[inline(always)]
fn slot_hash(key: u64, geometry: &Geometry) -> u64 {
    key.wrapping_mul(SLOT_HASH_MULTIPLIER) >> (geometry.slot_shift & 63)
}

#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn claim_slot(header: *const Header, key: u64) -> *const Slot {
    // SAFETY: as `Context::header`.
    let header_ref = unsafe { &*header };
    let geometry = &header_ref.geometry;
    let mut step = 0;
    while step < geometry.slot_count {
        let index = (slot_hash(key, geometry) + step) & (geometry.slot_count - 1);
        let offset = geometry.slots_offset + index * geometry.slot_stride;
        let owner = word(header.cast(), offset);
        let held = owner.load(Relaxed);
        let claimed = held == 0 && owner.compare_exchange(0, key, AcqRel, Relaxed).is_ok();
        if claimed {
            touch_pages(header, offset);
        }
        if held == key || claimed {
            // SAFETY: in bounds by construction of the geometry.
            return unsafe { header.cast::<u8>().add(offset as usize).cast() };
        }
        step += 1;
    }
    header_ref.dropped.fetch_add(1, Relaxed);
    core::ptr::null()
}

/// Reads one word of every page a new slot will use, so that the page faults happen now and not while recording.
#[inline(always)]
fn touch_pages(header: *const Header, slot: u64) {
    // SAFETY: as `Context::header`.
    let geometry = unsafe { &(*header).geometry };
    let end = slot + geometry.details_offset;
    let mut offset = slot;
    while offset < end {
        // SAFETY: the place lies in this slot; the read is volatile because its value is not used.
        unsafe { core::ptr::read_volatile(header.cast::<u8>().add(offset as usize)) };
        offset += PAGE;
    }
    // SAFETY: the first marks lie in the shared memory too.
    unsafe { core::ptr::read_volatile(header.cast::<u8>().add(geometry.marks_offset as usize)) };
}

/// The thread's slot, which is busy from now on; null: there is none, or the thread is in a routine already.
#[inline(always)]
fn begun(header: *const Header) -> *const Slot {
    let slot = find_slot(header);
    if slot.is_null() {
        return slot;
    }
    let context = Context { header, slot };
    if context.slot().busy.load(Relaxed) != 0 {
        add(&context.slot().dropped, 1);
        return core::ptr::null();
    }
    context.slot().busy.store(1, Relaxed);
    slot
}

/// A probe at a function's entry. Hands on the caller's frame pointer, which is still in its register.
#[unsafe(link_section = "trimtab_stub")]
#[unsafe(naked)]
extern "C" fn enter(header: *const Header, number: u64, saved: *const Saved) {
    naked_asm!("mov rcx, rbp", "jmp {entered}", entered = sym entered)
}

#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn entered(header: *const Header, number: u64, saved: *const Saved, frame_pointer: u64) {
    // First of all, so that what the way to the thread's own memory takes is seen as the probe's cost.
    let arrived = ticks();
    let slot = begun(header);
    if slot.is_null() {
        return;
    }
    let context = Context { header, slot };
    let probe = context.probe(number);
    if probe.role == role::PASSES {
        pass_on(context, number, Arguments(saved));
    } else if limits::is_beyond(context, probe, arrived) {
        leave_alone(context, probe);
    } else if probe.flags & flag::SIMPLE != 0 {
        simple_entry(context, number, Arguments(saved), arrived);
    } else if probe.polls == 0 || !polls_on(context, number, probe, Arguments(saved), arrived) {
        note_entry(context, number, Arguments(saved), frame_pointer, arrived);
    }
    context.slot().busy.store(0, Release);
    if context.header().calibration_begun.load(Relaxed) == 0 && context.probe(number).flags & flag::RING != 0 {
        calibrate(header, slot);
    }
}

/// A call that is not counted any more: its exit finds no open call, and must not take it for one from before the probes.
#[inline(always)]
fn leave_alone(context: Context, probe: &Probe) {
    context.stat(u64::from(probe.function)).open_stack.store(0, Relaxed);
    if context.slot().orphans.load(Relaxed) == 0 {
        context.slot().orphans.store(1, Relaxed);
    }
}

/// A probe at a loop. Hands on what a called function keeps for its caller, which is still in its registers.
#[unsafe(link_section = "trimtab_stub")]
#[unsafe(naked)]
extern "C" fn pass(header: *const Header, number: u64, saved: *const Saved) {
    naked_asm!(
        "push r15", "push r14", "push r13", "push r12", "push rbx",
        "mov rcx, rsp", "mov r8, rbp", "call {passed}", "add rsp, 40", "ret",
        passed = sym passed,
    )
}

#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn passed(header: *const Header, number: u64, saved: *const Saved, kept: *const u64, frame: *const u64) {
    let slot = begun(header);
    if slot.is_null() {
        return;
    }
    let context = Context { header, slot };
    if pass_loop(header, slot, number) {
        note_reading(header, saved, kept, frame);
    }
    context.slot().busy.store(0, Release);
}

/// Notes what the loop's counter and bound are in this pass.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn note_reading(header: *const Header, saved: *const Saved, kept: *const u64, frame: *const u64) {
    // SAFETY: as `Context::header`.
    let header = unsafe { &*header };
    let pass = header.passes.load(Relaxed);
    let turn = if header.readings[0].pass.load(Relaxed) == 0 { 0 } else { 1 + (pass & 1) };
    let reading: &Reading = at((&raw const header.readings).cast(), turn * size_of::<Reading>() as u64);
    reading.pass.store(0, Relaxed);
    let mut index = 0;
    while index < WATCHED_MAX as u64 {
        let place: &WatchedPlace = at((&raw const header.watched).cast(), index * size_of::<WatchedPlace>() as u64);
        let held = read_watched(place, saved, kept, frame);
        word((&raw const reading.words).cast(), index * 8).store(held, Release);
        index += 1;
    }
    reading.pass.store(pass, Release);
}

#[inline(always)]
fn read_watched(place: &WatchedPlace, saved: *const Saved, kept: *const u64, frame: *const u64) -> u64 {
    let how = place.how.load(Relaxed);
    if how >> WATCHED_USED_BIT & 1 == 0 {
        return 0;
    }
    let (holder, index, bytes) = (how & 0xff, ((how >> 8) & 0xff) as usize, (how >> 16) & 0xff);
    // SAFETY: the index is one of the holder's words, which the island and `pass` have put there.
    let held = unsafe {
        if holder == holder::SAVED {
            core::ptr::read_volatile(saved.cast::<u64>().add(index))
        } else if holder == holder::KEPT {
            core::ptr::read_volatile(kept.add(index))
        } else if holder == holder::FRAME {
            core::ptr::read_volatile(frame.add(index))
        } else {
            frame as u64
        }
    };
    // By a mask: of one more case the compiler would make a table, which lies elsewhere.
    let is_address = how >> NOTHING_BIT & 1;
    let mut held = (held & is_address.wrapping_sub(1)).wrapping_add(place.offset.load(Relaxed));
    if how >> POINTER_BIT & 1 != 0 {
        // SAFETY: the slot holds the address of an object of the function's callers, which outlives its loop.
        held = unsafe { core::ptr::read_volatile(held as *const u64) }.wrapping_add(place.further.load(Relaxed));
    }
    // SAFETY: the loop itself reads this memory in each of its passes.
    unsafe {
        if bytes == 4 {
            u64::from(core::ptr::read_volatile(held as *const u32))
        } else if bytes == 8 {
            core::ptr::read_volatile(held as *const u64)
        } else {
            held
        }
    }
}

/// Times a function that consists of an entry and an exit probe, once per process, on the first thread that passes a
/// probe: what a probe costs in this process on this processor.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn calibrate(header: *const Header, slot: *const Slot) {
    // SAFETY: as `Context::header`.
    let header = unsafe { &*header };
    let address = header.calibration.load(Relaxed);
    if address == 0 || header.calibration_begun.swap(1, AcqRel) != 0 {
        return;
    }
    // SAFETY: the session put this function into the arena beside the routine that runs now.
    let (slot, function) = unsafe { (&*slot, core::mem::transmute::<u64, extern "C" fn()>(address)) };
    let written = slot.ring_written.load(Relaxed);
    let (mut best, mut empty) = (u64::MAX, u64::MAX);
    let context = Context { header, slot };
    let depth = slot.depth.load(Relaxed);
    let mut round = 0;
    while round < CALIBRATION_ROUNDS {
        let begun = ticks();
        let mut call = 0;
        while call < CALIBRATION_CALLS {
            function();
            call += 1;
        }
        let taken = ticks() - begun;
        best = if taken < best { taken } else { best };
        let left = context.ring_record(slot.ring_written.load(Relaxed) - 1).exit_ticks.load(Relaxed);
        let nothing = left.wrapping_sub(context.frame(depth).ticks.load(Relaxed));
        empty = if nothing < empty { nothing } else { empty };
        // The calls went to the ring like any other; they were ours, so they are taken back.
        slot.ring_written.store(written, Release);
        round += 1;
    }
    header.empty_ticks.store(if empty < EMPTY_TICKS_MAX { empty } else { 0 }, Relaxed);
    header.calibrated_ticks.store(best, Release);
    if depth > 0 {
        context.frame(depth - 1).ticks.store(ticks(), Relaxed);
    }
}

/// The work of a simple probe's inline code, for the cases it leaves to us.
#[inline(always)]
fn simple_entry(context: Context, number: u64, arguments: Arguments, now: u64) {
    let probe = context.probe(number);
    let stat = context.stat(u64::from(probe.function));
    let recording = context.header().state.load(Acquire) == state::RECORD;
    if stat.open_stack.load(Relaxed) > arguments.stack() {
        if recording {
            add(&stat.nested, 1);
        }
        return;
    }
    stat.open_stack.store(arguments.stack(), Relaxed);
    if recording {
        add(&stat.calls, 1);
        if probe.kind == kind::PLAIN_BYTES {
            links::add_bytes(stat, arguments.get(probe.count));
        }
        if stat.first_ticks.load(Relaxed) == 0 {
            stat.first_ticks.store(now, Relaxed);
        }
        stat.last_ticks.store(now, Relaxed);
    }
    stat.open_ticks.store(ticks(), Relaxed);
}

#[inline(always)]
fn simple_exit(context: Context, number: u64, arguments: Arguments, now: u64) {
    let header = context.header();
    let probe = context.probe(number);
    let stat = context.stat(u64::from(probe.function));
    if stat.open_stack.load(Relaxed) != arguments.stack() {
        return;
    }
    stat.open_stack.store(0, Relaxed);
    let first = header.first_ticks.load(Relaxed);
    if header.state.load(Acquire) < state::RECORD || first == 0 {
        return;
    }
    let (from, to) = clipped(header, first, stat.open_ticks.load(Relaxed), now);
    if to > from {
        add(&stat.ticks, to - from);
        if probe.role == role::LEAVES {
            add(&stat.unseen, 1);
        }
    }
}

#[inline(always)]
fn note_entry(context: Context, number: u64, arguments: Arguments, frame_pointer: u64, now: u64) {
    let slot = context.slot();
    let probe = context.probe(number);
    let stack = arguments.stack();
    let site = arguments.return_address();
    let depth = drop_stale_frames(context, stack, site, number);
    if depth >= FRAMES_MAX {
        add(&slot.dropped, 1);
        return;
    }
    if probe.framed != 0 && goes_round(context, stack, depth, probe) {
        return;
    }
    let group = group_word(&slot.group_depth, probe.group);
    let stat = context.stat(u64::from(probe.function));
    let outermost = group.load(Relaxed) == 0;
    let counts =
        if probe.group == USER_GROUP || probe.group == OMP_GROUP { stat.depth.load(Relaxed) == 0 } else { outermost };
    let frame = context.frame(depth);
    set_frame(frame, stack, site, number);
    let polled = if counts { polls::polled_before(context, probe, now) } else { 0 };
    let polls_on = u64::from(polled != 0) * outermost::POLLS_ON;
    let bits = (u64::from(outermost) * outermost::GROUP) | (u64::from(counts) * outermost::FUNCTION) | polls_on;
    frame.outermost.store(bits, Relaxed);
    // A function that is nothing but a jump hands its calls over at once.
    frame.next_plus_one.store(u64::from(probe.next_plus_one), Relaxed);
    frame.handed_over.store(u64::from(probe.next_plus_one != 0), Relaxed);
    if probe.part != part::NONE {
        teams::open(context.header, context.slot, depth);
    }
    add(group, 1);
    add(&stat.depth, 1);
    slot.depth.store(depth + 1, Relaxed);
    frame.ticks.store(now, Relaxed);
    if counts {
        let is_in_ring = probe.flags & flag::RING != 0;
        let site = if is_in_ring { paths::site(context.header, stack, site, frame_pointer) } else { site };
        if context.header().marker_probe.load(Relaxed) as u64 == number {
            pass_marker(context, site, now);
        }
        if is_in_ring {
            frame.path.store(site, Relaxed);
            place_in_ring(context, number, probe, frame, arguments, polled != 0);
        }
        if probe.polls != 0 {
            polls::keep_poll(context, probe, frame, arguments);
        }
        if probe.requests == requests::POSTS {
            frame.kept[0].store(arguments.get(probe.request), Relaxed);
        }
        if probe.flags & (flag::FREES_TYPE | flag::FREES_COMM | flag::FREES_REQUEST) != 0 {
            links::forget(context, probe, arguments);
        }
    }
    record_entry(context, probe, frame, arguments, counts, now);
    if polled != 0 {
        // Nothing else was done since: it is still the same wait, which the probes do not prolong.
        frame.ticks.store(polled, Relaxed);
        slot.polls_since_ticks.store(now, Relaxed);
        return;
    }
    // The call's own time begins here: what the accounting took is the probe's cost.
    let begun = ticks();
    frame.ticks.store(begun, Relaxed);
    if probe.flags & flag::RING != 0 {
        note_overhead(context, now, begun);
    }
}

/// A frame of a call of which nothing but its place is known yet.
#[inline(always)]
fn set_frame(frame: &Frame, stack: u64, site: u64, number: u64) {
    frame.stack.store(stack, Relaxed);
    frame.site.store(site, Relaxed);
    frame.probe.store(number, Relaxed);
    frame.ring.store(0, Relaxed);
    frame.detail.store(0, Relaxed);
    frame.path.store(0, Relaxed);
    frame.path_sum.store(0, Relaxed);
}

/// Opens a call that polls on as the one before it was open, whose frame is still there; false: it is another one.
#[inline(always)]
fn polls_on(context: Context, number: u64, probe: &Probe, arguments: Arguments, now: u64) -> bool {
    let (header, slot) = (context.header(), context.slot());
    let depth = slot.depth.load(Relaxed);
    let is_plain = probe.framed == 0 && probe.argument == ABSENT && probe.kind == kind::NONE;
    let is_marker = header.marker_probe.load(Relaxed) as u64 == number;
    if !is_plain || is_marker || depth >= FRAMES_MAX || header.details_max.load(Relaxed) != 0 {
        return false;
    }
    let frame = context.frame(depth);
    let is_same = frame.probe.load(Relaxed) == number
        && frame.stack.load(Relaxed) == arguments.stack()
        && frame.site.load(Relaxed) == arguments.return_address()
        && frame.outermost.load(Relaxed) & outermost::FUNCTION != 0
        && frame.kept[0].load(Relaxed) == header.passes.load(Relaxed);
    let polled = if is_same { polls::polled_before(context, probe, now) } else { 0 };
    if polled == 0 {
        return false;
    }
    let stat = context.stat(u64::from(probe.function));
    add(group_word(&slot.group_depth, probe.group), 1);
    add(&stat.depth, 1);
    slot.depth.store(depth + 1, Relaxed);
    frame.outermost.store(frame.outermost.load(Relaxed) | outermost::POLLS_ON, Relaxed);
    // Its numbers may have been set back since.
    frame.path_sum.store(0, Relaxed);
    frame.ticks.store(polled, Relaxed);
    slot.polls_since_ticks.store(now, Relaxed);
    record_entry(context, probe, frame, arguments, true, now);
    polls::keep_poll(context, probe, frame, arguments);
    let ring = frame.ring.load(Relaxed);
    if probe.requests == requests::COMPLETES_ANY && ring != 0 {
        let (place, count) = crate::requests::asked(probe, arguments);
        crate::requests::remember(context.header, context.slot, place, count, ring - 1);
    }
    true
}

/// The time of this probe's accounting, as it was on this processor with these caches; of the one that began the
/// window, what lies in it.
#[inline(always)]
fn note_overhead(context: Context, from: u64, to: u64) {
    let header = context.header();
    if header.state.load(Relaxed) == state::RECORD {
        let slot = context.slot();
        let (from, _) = clipped(header, header.first_ticks.load(Relaxed), from, to);
        let taken = to.saturating_sub(from);
        if taken <= OVERHEAD_TICKS_MAX { add(&slot.overhead_ticks, taken) } else { add(&slot.interrupted, 1) }
    }
}

#[inline(always)]
fn makes_request(probe: &Probe) -> bool {
    probe.kind == kind::SEND_INIT || probe.kind == kind::RECEIVE_INIT
}

/// The call has returned with a new request, if it makes one.
#[inline(always)]
fn note_request(context: Context, probe: &Probe, frame: &Frame, ring: u64) {
    if probe.requests == requests::POSTS {
        // One that is started later is posted by what starts it.
        let ring = if makes_request(probe) { 0 } else { ring };
        crate::requests::post(context.header, context.slot, frame.kept[0].load(Relaxed), ring);
    }
    if probe.requests == requests::COMPLETES_ANY {
        crate::requests::complete_any(context.header, context.slot, ring);
    }
    if makes_request(probe) {
        links::store_request(context, frame);
    }
}

#[inline(always)]
fn record_entry(context: Context, probe: &Probe, frame: &Frame, arguments: Arguments, outermost: bool, now: u64) {
    let recording = context.header().state.load(Acquire) == state::RECORD;
    if makes_request(probe) && outermost {
        links::keep_request(context, probe, frame, arguments);
    }
    if probe.kind == kind::RETURNED_BYTES {
        // Size of one item, for functions that return a number of items.
        let item = if probe.count == ABSENT { 1 } else { arguments.get(probe.count) };
        frame.kept[0].store(item, Relaxed);
        frame.kept[1].store(u64::from(recording), Relaxed);
    }
    if !recording {
        return;
    }
    let stat = context.stat(u64::from(probe.function));
    if frame.outermost.load(Relaxed) & outermost::POLLS_ON != 0 {
        add(&stat.polled_on, 1);
        add(&context.slot().polls_open, 1);
        context.slot().polls_function.store(u64::from(probe.function), Relaxed);
    } else {
        add(&context.slot().hits, 1);
    }
    if !outermost {
        add(&stat.nested, 1);
        return;
    }
    add(&stat.calls, 1);
    if stat.first_ticks.load(Relaxed) == 0 {
        stat.first_ticks.store(now, Relaxed);
    }
    stat.last_ticks.store(now, Relaxed);
    if probe.argument != ABSENT {
        add(&stat.argument_sum, arguments.get(probe.argument) as i32 as i64 as u64);
    }
    let has_path = frame.path.load(Relaxed) != 0;
    if has_path {
        add(&sums::of_frame(context, probe, frame).calls, 1);
    }
    if probe.kind != kind::NONE {
        let (bytes, unknown) = (stat.bytes.load(Relaxed), stat.unknown_bytes.load(Relaxed));
        links::account(context, probe, stat, arguments);
        let payload = stat.bytes.load(Relaxed).wrapping_sub(bytes);
        if stat.unknown_bytes.load(Relaxed) == unknown && probe.kind != kind::RETURNED_BYTES {
            sums::add_size(context, probe, payload);
            note_bytes(context, frame, payload);
        }
        if has_path {
            add(&sums::of_frame(context, probe, frame).bytes, payload);
        }
    }
    if context.header().details_max.load(Relaxed) != 0 {
        keep_detail(context, probe, stat, frame, arguments, now);
    }
}

/// The payload of a call that is in the ring.
#[inline(always)]
fn note_bytes(context: Context, frame: &Frame, payload: u64) {
    let place = frame.ring.load(Relaxed);
    if place != 0 {
        context.ring_record(place - 1).bytes.store(payload, Relaxed);
    }
}

/// A thread goes once more through a loop. Passes of one thread count: a loop that several threads pass at a time would else
/// have as many iterations as all of them together.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn pass_loop(header: *const Header, slot: *const Slot, number: u64) -> bool {
    let context = Context { header, slot };
    let (header, slot) = (context.header(), context.slot());
    let stat = context.stat(u64::from(context.probe(number).function));
    let now = ticks();
    add(&stat.passes, 1);
    if stat.first_pass_ticks.load(Relaxed) == 0 {
        stat.first_pass_ticks.store(now, Relaxed);
    }
    stat.last_pass_ticks.store(now, Relaxed);
    let calls = slot.ring_written.load(Relaxed);
    if stat.calls_at_pass.load(Relaxed) != calls {
        stat.calls_at_pass.store(calls, Relaxed);
        add(&stat.passes_with_calls, 1);
    }
    let mut is_watched = false;
    if u64::from(header.marker_probe.load(Acquire)) == number {
        if is_thread_of_marker(header, slot, now.wrapping_sub(stat.first_pass_ticks.load(Relaxed))) {
            pass_marker(context, 0, now);
            is_watched = header.watched[0].how.load(Relaxed) != 0;
            write_pass(context, number, now);
        } else if header.marker_thread.load(Relaxed) != 0 {
            // Before it is known which thread's passes count, this may be one of its own.
            header.passes_of_others.fetch_add(1, Relaxed);
        }
    }
    if header.state.load(Acquire) == state::RECORD {
        add(&slot.hits, 1);
        add(&stat.calls, 1);
        if stat.first_ticks.load(Relaxed) == 0 {
            stat.first_ticks.store(now, Relaxed);
        }
        stat.last_ticks.store(now, Relaxed);
        note_overhead(context, now, ticks());
    }
    is_watched
}

/// True if this thread's passes count. It is the first one that has also called MPI; where none does, the first that
/// has passed for a while. That may be only because the one that calls was kept from a processor meanwhile: until passes are
/// numbered it takes over.
#[inline(always)]
fn is_thread_of_marker(header: &Header, slot: &Slot, passing_ticks: u64) -> bool {
    let (owner, key) = (header.marker_thread.load(Relaxed), slot.key.load(Relaxed));
    if owner::thread(owner) == key {
        return true;
    }
    let calls_mpi = slot.ring_written.load(Relaxed) != 0;
    let may_own = if owner == 0 {
        calls_mpi || passing_ticks > OWNER_TICKS_MIN
    } else {
        calls_mpi && owner & (owner::BY_TIME | owner::FIXED) == owner::BY_TIME
    };
    let own = if calls_mpi { key } else { key | owner::BY_TIME };
    may_own && header.marker_thread.compare_exchange(owner, own, AcqRel, Relaxed).is_ok()
}

/// A pass of the marker among the thread's calls: one that has returned at once.
#[inline(always)]
fn write_pass(context: Context, number: u64, now: u64) {
    let slot = context.slot();
    let index = slot.ring_written.load(Relaxed);
    let record = context.ring_record(index);
    record.probe.store(number as u32, Relaxed);
    record.source.store(-1, Relaxed);
    record.site.store(0, Relaxed);
    record.exit_ticks.store(now, Relaxed);
    record.comm.store(COMM_NONE as u16, Relaxed);
    record.strangers.store(0, Relaxed);
    record.completed_ticks.store(0, Relaxed);
    record.peer.store(-1, Relaxed);
    record.passes.store(context.header().passes.load(Relaxed), Relaxed);
    record.bytes.store(SIZE_UNKNOWN, Relaxed);
    record.enter_ticks.store(now, Relaxed);
    slot.ring_written.store(index + 1, Release);
}

/// Frames whose stack lies below the current one were left by longjmp or an exception; so was one at the same place, unless
/// its call was just handed over to this function, with which it shares the return address.
#[inline(always)]
fn drop_stale_frames(context: Context, stack: u64, site: u64, number: u64) -> u64 {
    let slot = context.slot();
    let mut depth = slot.depth.load(Relaxed);
    while depth > 0 {
        let frame = context.frame(depth - 1);
        let held = frame.stack.load(Relaxed);
        // No exit takes off the frame of a function that is only counted.
        let timed = context.probe(frame.probe.load(Relaxed)).flags & flag::TIMED != 0;
        if timed && (held > stack || arrives(frame, stack, site, number)) {
            break;
        }
        lose_frame(context, frame);
        depth -= 1;
    }
    slot.depth.store(depth, Relaxed);
    depth
}

/// True if the call of this frame was handed over to the function that is entered; then it has arrived.
#[inline(always)]
fn arrives(frame: &Frame, stack: u64, site: u64, number: u64) -> bool {
    let is_it = frame.next_plus_one.load(Relaxed) == number + 1
        && frame.stack.load(Relaxed) == stack
        && frame.site.load(Relaxed) == site;
    if is_it {
        frame.next_plus_one.store(0, Relaxed);
    }
    is_it
}

/// True if the call came back to its own function by jumps: then it is open already, and stays one call.
#[inline(always)]
fn goes_round(context: Context, stack: u64, depth: u64, probe: &Probe) -> bool {
    let mut below = depth;
    while below > 0 {
        let frame = context.frame(below - 1);
        if frame.stack.load(Relaxed) != stack {
            return false;
        }
        if context.probe(frame.probe.load(Relaxed)).function == probe.function {
            if context.header().state.load(Acquire) == state::RECORD {
                add(&context.slot().hits, 1);
                add(&context.stat(u64::from(probe.function)).nested, 1);
            }
            hand_frame_over(context.frame(depth - 1), probe);
            return true;
        }
        below -= 1;
    }
    false
}

#[inline(always)]
fn hand_frame_over(frame: &Frame, probe: &Probe) {
    if probe.next_plus_one != 0 {
        frame.next_plus_one.store(u64::from(probe.next_plus_one), Relaxed);
        frame.handed_over.store(1, Relaxed);
    }
}

/// A call goes on in this function, which is not measured itself, or the function is called for its own sake.
#[inline(always)]
fn pass_on(context: Context, number: u64, arguments: Arguments) {
    let slot = context.slot();
    drop_stale_frames(context, arguments.stack(), arguments.return_address(), number);
    if slot.orphans.load(Relaxed) == 0 {
        slot.orphans.store(1, Relaxed);
    }
    if context.header().state.load(Relaxed) == state::RECORD {
        add(&slot.hits, 1);
    }
}

/// A jump by which the open call goes on in another function.
#[inline(always)]
fn hand_over(context: Context, number: u64, arguments: Arguments) {
    let slot = context.slot();
    let (stack, probe) = (arguments.stack(), context.probe(number));
    let mut depth = slot.depth.load(Relaxed);
    while depth > 0 && context.frame(depth - 1).stack.load(Relaxed) < stack {
        lose_frame(context, context.frame(depth - 1));
        depth -= 1;
    }
    slot.depth.store(depth, Relaxed);
    if context.header().state.load(Relaxed) == state::RECORD {
        add(&slot.hits, 1);
    }
    if depth > 0 && context.frame(depth - 1).stack.load(Relaxed) == stack {
        hand_frame_over(context.frame(depth - 1), probe);
    } else if is_orphan(slot, depth) {
        adopt(context, number, arguments);
    }
}

/// True if the thread leaves what it entered before the probes went in: that is the first thing it does.
#[inline(always)]
fn is_orphan(slot: &Slot, depth: u64) -> bool {
    depth == 0 && slot.ring_written.load(Relaxed) == 0 && slot.orphans.load(Relaxed) == 0
}

/// A call that was entered before the probes went in is handed over: it gets a frame, as if entered long ago.
#[inline(always)]
fn adopt(context: Context, number: u64, arguments: Arguments) {
    let slot = context.slot();
    let probe = context.probe(number);
    if probe.flags & flag::TIMED == 0 {
        slot.orphans.store(2 + number, Relaxed);
        return;
    }
    slot.orphans.store(1, Relaxed);
    let frame = context.frame(0);
    set_frame(frame, arguments.stack(), arguments.return_address(), number);
    frame.outermost.store(outermost::GROUP | outermost::FUNCTION, Relaxed);
    frame.ticks.store(0, Relaxed);
    hand_frame_over(frame, probe);
    add(group_word(&slot.group_depth, probe.group), 1);
    add(&context.stat(u64::from(probe.function)).depth, 1);
    slot.depth.store(1, Relaxed);
}

/// Takes off a frame of which nobody saw where its call ended.
#[inline(always)]
fn lose_frame(context: Context, frame: &Frame) {
    let header = context.header();
    if context.probe(frame.probe.load(Relaxed)).part != part::NONE {
        teams::lose(context, frame);
    }
    let is_counted = frame.handed_over.load(Relaxed) != 0 && header.first_ticks.load(Relaxed) != 0;
    if is_counted && header.state.load(Acquire) == state::RECORD {
        let probe = context.probe(frame.probe.load(Relaxed));
        add(&context.stat(u64::from(probe.function)).unseen, 1);
    }
    pop_group(context, frame);
}

#[inline(always)]
fn pop_group(context: Context, frame: &Frame) {
    let probe = context.probe(frame.probe.load(Relaxed));
    let group = group_word(&context.slot().group_depth, probe.group);
    let function = &context.stat(u64::from(probe.function)).depth;
    for word in [group, function] {
        let depth = word.load(Relaxed);
        if depth > 0 {
            word.store(depth - 1, Relaxed);
        }
    }
}

#[inline(always)]
fn group_word(words: &[AtomicU64; GROUPS_MAX], group: u8) -> &AtomicU64 {
    at(words.as_ptr().cast(), (u64::from(group) & (GROUPS_MAX as u64 - 1)) * 8)
}

/// A probe at a function's exit.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn leave(header: *const Header, number: u64, saved: *const Saved) {
    let now = ticks();
    let slot = find_slot(header);
    if slot.is_null() {
        return;
    }
    let context = Context { header, slot };
    if context.slot().busy.load(Relaxed) != 0 {
        return;
    }
    context.slot().busy.store(1, Relaxed);
    let probe = context.probe(number);
    if probe.flags & flag::SIMPLE != 0 {
        simple_exit(context, number, Arguments(saved), now);
    } else if probe.role == role::HANDS_OVER {
        hand_over(context, number, Arguments(saved));
    } else {
        let has_polled_on = note_exit(context, number, Arguments(saved), now);
        if !has_polled_on {
            note_overhead(context, now, ticks());
        }
    }
    context.slot().busy.store(0, Release);
}

/// Closes the calls that end here; true if it is one that polled on.
#[inline(always)]
fn note_exit(context: Context, number: u64, arguments: Arguments, now: u64) -> bool {
    let slot = context.slot();
    let stack = arguments.stack();
    let mut depth = slot.depth.load(Relaxed);
    let mut is_known = is_orphan(slot, depth);
    if is_known {
        slot.orphans.store(1, Relaxed);
        close_orphan(context, number, now);
    }
    let is_seen = context.probe(number).role != role::LEAVES;
    let mut has_polled_on = false;
    while depth > 0 {
        let frame = context.frame(depth - 1);
        let held = frame.stack.load(Relaxed);
        if held > stack {
            break;
        }
        if held == stack {
            is_known = true;
            has_polled_on = frame.outermost.load(Relaxed) & outermost::POLLS_ON != 0;
            close_frame(context, frame, arguments, now, is_seen);
            if context.header().geometry.region_count != 0 {
                teams::close(context.header, context.slot, depth - 1, now);
            }
            pop_group(context, frame);
        } else {
            lose_frame(context, frame);
        }
        depth -= 1;
    }
    slot.depth.store(depth, Relaxed);
    if !is_known {
        teams::end_unseen(context, number, now);
    }
    has_polled_on
}

/// The first thing a thread does is to leave a function: it was inside since before the probes went in.
#[inline(always)]
fn close_orphan(context: Context, number: u64, now: u64) {
    let header = context.header();
    let first = header.first_ticks.load(Relaxed);
    if header.state.load(Acquire) < state::RECORD || first == 0 {
        return;
    }
    let probe = context.probe(number);
    let (from, to) = clipped(header, first, first, now);
    if to <= from {
        return;
    }
    if probe.flags & flag::TIMED != 0 {
        let stat = context.stat(u64::from(probe.function));
        add(&stat.ticks, to - from);
        add(group_word(&context.slot().group_ticks, probe.group), to - from);
        if probe.role == role::LEAVES {
            add(&stat.unseen, 1);
        }
    } else if probe.function == NOBODY {
        context.slot().orphans.store(2 + number, Relaxed);
    }
}

/// The passage of a call's exit, which of one that polls on counts only if it had work to do.
#[inline(always)]
fn count_exit(context: Context, probe: &Probe, polls_on: bool, now: u64) {
    let (header, slot) = (context.header(), context.slot());
    if !polls_on {
        add(&slot.hits, 1);
    } else if now.wrapping_sub(slot.polls_since_ticks.load(Relaxed)) > header.polls_idle_ticks_max.load(Relaxed) {
        add(&context.stat(u64::from(probe.function)).polled_work, 1);
    }
}

#[inline(always)]
fn close_frame(context: Context, frame: &Frame, arguments: Arguments, now: u64, is_seen: bool) {
    let header = context.header();
    let slot = context.slot();
    let probe = context.probe(frame.probe.load(Relaxed));
    let ring = frame.ring.load(Relaxed);
    if ring != 0 {
        close_record(context, probe, frame, now, is_seen);
    }
    // Behind a jump the request is still to be made.
    if is_seen && frame.outermost.load(Relaxed) & outermost::FUNCTION != 0 {
        note_request(context, probe, frame, ring);
        polls::note_polled(context, probe, frame, now);
    }
    let state = header.state.load(Acquire);
    if state < state::RECORD {
        return;
    }
    let first = header.first_ticks.load(Relaxed);
    if first == 0 {
        return;
    }
    let entered = frame.ticks.load(Relaxed);
    let (from, to) = clipped(header, first, entered, now);
    let outermost = frame.outermost.load(Relaxed);
    let polls_on = outermost & outermost::POLLS_ON != 0;
    if state == state::RECORD {
        count_exit(context, probe, polls_on, now);
    }
    if to <= from || outermost == 0 {
        return;
    }
    let stat = context.stat(u64::from(probe.function));
    if !is_seen && outermost & outermost::FUNCTION != 0 {
        add(&stat.unseen, 1);
    }
    if probe.flags & flag::TIMED != 0 {
        let empty = if polls_on { 0 } else { header.empty_ticks.load(Relaxed) };
        let inside = (to - from).saturating_sub(empty);
        if outermost & outermost::FUNCTION != 0 {
            add(&stat.ticks, inside);
            if frame.path.load(Relaxed) != 0 {
                add(&sums::of_frame(context, probe, frame).ticks, inside);
            }
        }
        if outermost & outermost::GROUP != 0 {
            add(group_word(&slot.group_ticks, probe.group), inside);
        }
    }
    let detail = frame.detail.load(Relaxed);
    if detail != 0 && is_seen {
        word(context.base(), detail).store(now - entered, Relaxed);
    }
    if probe.kind == kind::RETURNED_BYTES && state == state::RECORD && !is_seen {
        add(&stat.unknown_bytes, 1);
    } else if probe.kind == kind::RETURNED_BYTES && state == state::RECORD {
        let returned = arguments.returned() as i64;
        let items = if returned > 0 { returned as u64 } else { 0 };
        let bytes = items.wrapping_mul(frame.kept[0].load(Relaxed));
        links::add_bytes(stat, bytes);
        // A call that was under way when the window began is none of its calls.
        if frame.kept[1].load(Relaxed) != 0 && outermost & outermost::FUNCTION != 0 {
            sums::add_size(context, probe, bytes);
        }
    }
}

/// The exit of a call that is in the ring, unless its place was taken meanwhile.
#[inline(always)]
fn close_record(context: Context, probe: &Probe, frame: &Frame, now: u64, is_seen: bool) {
    let place = frame.ring.load(Relaxed) - 1;
    let written = context.slot().ring_written.load(Relaxed);
    if written.wrapping_sub(place) <= context.header().geometry.ring_capacity {
        if is_seen && probe.status != ABSENT {
            note_source(context, probe, frame, place);
        }
        context.ring_record(place).exit_ticks.store(now, Relaxed);
    }
}

/// At the exit of a receive from any source, or of a call that completes one request: its status says from whom the message came.
#[inline(always)]
fn note_source(context: Context, probe: &Probe, frame: &Frame, ring: u64) {
    let (header, record, status) = (context.header(), context.ring_record(ring), frame.kept[3].load(Relaxed));
    let place = header.status_source_plus_one.load(Relaxed);
    let named = if probe.kind == kind::SEND { record.source.load(Relaxed) } else { record.peer.load(Relaxed) };
    let is_told = probe.requests != requests::NONE || named == header.any_source.load(Relaxed) as i32;
    // Special values of the pointer say that nobody wants to know.
    if place == 0 || status <= 1 || status == u64::MAX || !is_told {
        return;
    }
    // SAFETY: the program passed this address for the library to write the status to, which it has done.
    let source = unsafe { core::ptr::read_volatile((status + place - 1) as *const i32) };
    record.source.store(source, Relaxed);
}

#[inline(always)]
fn place_in_ring(context: Context, number: u64, probe: &Probe, frame: &Frame, arguments: Arguments, polls_on: bool) {
    let site = frame.path.load(Relaxed);
    let known = if probe.polls == 0 { 0 } else { polls::polled_in_ring(context, number, site, polls_on) };
    if known == 0 || !polls::goes_on_in_ring(context, probe, frame, arguments, known, polls_on) {
        write_ring(context, number, probe, frame, arguments, site);
    }
}

#[inline(always)]
fn write_ring(context: Context, number: u64, probe: &Probe, frame: &Frame, arguments: Arguments, site: u64) {
    let slot = context.slot();
    let index = slot.ring_written.load(Relaxed);
    let record = context.ring_record(index);
    let named = probe.flags & flag::RECEIVES != 0 || probe.kind == kind::SEND;
    let peer = if named && probe.peer != ABSENT { arguments.get(probe.peer) as i32 } else { -1 };
    let comm = if probe.comm != ABSENT { links::comm_index(context, arguments.get(probe.comm)) } else { COMM_NONE };
    let also_receives = probe.kind == kind::SEND && probe.source != ABSENT;
    let source = if also_receives { arguments.get(probe.source) as i32 } else { -1 };
    if probe.status != ABSENT {
        frame.kept[3].store(arguments.get(probe.status), Relaxed);
    }
    record.probe.store(number as u32, Relaxed);
    record.source.store(source, Relaxed);
    record.site.store(site, Relaxed);
    record.exit_ticks.store(0, Relaxed);
    record.comm.store(comm as u16, Relaxed);
    record.strangers.store(0, Relaxed);
    record.completed_ticks.store(0, Relaxed);
    record.peer.store(peer, Relaxed);
    record.passes.store(context.header().passes.load(Relaxed), Relaxed);
    record.bytes.store(SIZE_UNKNOWN, Relaxed);
    record.enter_ticks.store(frame.ticks.load(Relaxed), Relaxed);
    if probe.requests >= requests::COMPLETES_ONE {
        let (place, count) = crate::requests::asked(probe, arguments);
        if probe.requests == requests::COMPLETES_ANY {
            // Until it has returned nobody knows.
            record.strangers.store(u16::MAX, Relaxed);
            crate::requests::remember(context.header, context.slot, place, count, index);
        } else {
            crate::requests::complete(context.header, context.slot, place, count, index);
        }
    }
    frame.ring.store(index + 1, Relaxed);
    slot.ring_written.store(index + 1, Release);
}

#[inline(always)]
fn keep_detail(context: Context, probe: &Probe, stat: &FunctionStat, frame: &Frame, arguments: Arguments, now: u64) {
    let geometry = &context.header().geometry;
    let kept = stat.details.load(Relaxed);
    if kept >= geometry.detail_capacity || kept >= context.header().details_max.load(Relaxed) {
        return;
    }
    let index = u64::from(probe.function) * geometry.detail_capacity + kept;
    let offset = geometry.details_offset + index * size_of::<DetailRecord>() as u64;
    let record: &DetailRecord = at(context.slot.cast(), offset);
    record.enter_ticks.store(now, Relaxed);
    record.duration_ticks.store(0, Relaxed);
    let mut argument = 0u8;
    while argument < 6 {
        at::<AtomicU64>(record.arguments.as_ptr().cast(), u64::from(argument) * 8)
            .store(arguments.get(argument), Relaxed);
        argument += 1;
    }
    let place = (&raw const record.duration_ticks) as u64 - context.base() as u64;
    frame.detail.store(place, Relaxed);
    stat.details.store(kept + 1, Relaxed);
}

/// Counts one pass of the marker and, at the agreed iterations, begins or ends the window.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn pass_marker_outlined(context_header: *const Header, slot: *const Slot, now: u64) {
    let context = Context { header: context_header, slot };
    let header = context.header();
    let passes = header.passes.fetch_add(1, AcqRel);
    let every = header.marker_every.load(Relaxed);
    let mut iteration = passes;
    if every > 1 {
        iteration = passes / every;
        if passes - iteration * every != header.marker_phase.load(Relaxed) {
            return;
        }
    }
    header.iteration.store(iteration + 1, Release);
    let state = header.state.load(Acquire);
    if state == state::ARMED && iteration == header.start.load(Relaxed) {
        read_usage(header, &header.usage_first);
        let begun = ticks();
        header.first_ticks.store(begun, Relaxed);
        write_mark(context, begun);
        header.state.store(state::RECORD, Release);
    } else if state == state::RECORD && header.end.load(Relaxed) != 0 {
        write_mark(context, now);
        if iteration >= header.end.load(Relaxed) {
            header.last_ticks.store(now, Relaxed);
            header.state.store(state::DONE, Release);
            read_usage(header, &header.usage_last);
        }
    }
}

#[inline(always)]
fn pass_marker(context: Context, site: u64, now: u64) {
    let wanted = context.header().marker_site.load(Relaxed);
    if wanted == 0 || wanted == site {
        pass_marker_outlined(context.header, context.slot, now);
    }
}

#[inline(always)]
fn write_mark(context: Context, now: u64) {
    let header = context.header();
    let index = header.marks_written.load(Relaxed);
    let place = index & (header.geometry.mark_capacity - 1);
    let mark: &Mark = at(context.base(), header.geometry.marks_offset + place * size_of::<Mark>() as u64);
    mark.ticks.store(now, Relaxed);
    mark.comm_ticks.store(context.slot().group_ticks[0].load(Relaxed), Relaxed);
    header.marks_written.store(index + 1, Release);
}

/// `getrusage(RUSAGE_SELF)`, twice per window, only where the session found no seccomp filter.
#[inline(always)]
fn read_usage(header: &Header, usage: &NotedUsage) {
    if header.may_call_system.load(Relaxed) == 0 {
        return;
    }
    let result: i64;
    // SAFETY: system call 98 writes 144 bytes at `words`, which has that size; rcx and r11 are clobbered.
    unsafe {
        asm!("syscall", inlateout("rax") 98i64 => result, in("rdi") 0, in("rsi") usage.words.as_ptr(),
             lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    usage.valid.store(if result == 0 { noted_by::OWN } else { 0 }, Release);
}
