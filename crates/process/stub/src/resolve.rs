//! Asks the MPI library what a handle means: the size of a datatype, the members of a communicator.
//!
//! These run at the entry of an outermost MPI call, on the calling thread, where the program itself might have called
//! the same query functions; so no lock of the library can be held by this thread. Answers are remembered per thread
//! and forgotten when a handle is freed.
//!
//! Nothing is asked while the library initialises itself or has begun to go: a call that it makes itself, in an `MPI_Init`
//! that had begun before the probes were there, looks like one of the program's, and the answers lie in memory that is not
//! filled yet. A query that is safe at any time is made when it is needed.
//!
//! Next: `links` uses the answers; `layout::Header` says which functions are called.

use crate::context::{Context, at};
use crate::layout::*;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicU64};

type Query1 = extern "C" fn(u64, *mut u64) -> i32;
type Translate = extern "C" fn(u64, i32, *const i32, u64, *mut i32) -> i32;
type CartShift = extern "C" fn(u64, i32, i32, *mut i32, *mut i32) -> i32;
type OfRank = extern "C" fn(u64, i32, *mut i32) -> i32;
type GraphNeighbours = extern "C" fn(u64, i32, i32, *mut i32) -> i32;
type DistGraphCount = extern "C" fn(u64, *mut i32, *mut i32, *mut i32) -> i32;
type DistGraphNeighbours = extern "C" fn(u64, i32, *mut i32, *mut i32, i32, *mut i32, *mut i32) -> i32;
type Flag = extern "C" fn(*mut i32) -> i32;
type Free = extern "C" fn(*mut u64) -> i32;

/// Size in bytes of the datatype `handle`.
#[inline(always)]
pub(crate) fn type_size(context: Context, handle: u64) -> u64 {
    let header = context.header();
    let library = header.library.load(Relaxed);
    let handle = handle & header.handle_mask.load(Relaxed);
    if library == library::MPICH && handle >> 24 == 0x4c {
        return (handle >> 8) & 0xff;
    }
    if library == library::OPEN_MPI && header.type_size_offset.load(Relaxed) != 0 && handle != 0 {
        return read_word(handle + header.type_size_offset.load(Relaxed));
    }
    type_size_slow(context.header, context.slot, handle)
}

#[inline(always)]
fn read_word(address: u64) -> u64 {
    // SAFETY: the address lies in an object whose handle the program just passed to the library.
    unsafe { core::ptr::read_volatile(address as *const u64) }
}

#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn type_size_slow(header: *const Header, slot: *const Slot, handle: u64) -> u64 {
    let context = Context { header, slot };
    let header = context.header();
    let slot = context.slot();
    let generation = header.type_generation.load(Acquire);
    if slot.type_generation.load(Relaxed) != generation {
        clear_types(slot);
        slot.type_generation.store(generation, Relaxed);
    }
    let place = (handle ^ (handle >> 9)) & (TYPES_MAX - 1);
    let entry: &TypeEntry = at((&raw const slot.types).cast(), place * size_of::<TypeEntry>() as u64);
    if entry.handle.load(Relaxed) == handle {
        return entry.size.load(Relaxed);
    }
    // The library ends a program that asks about no type; some calls may name none for what they ignore.
    if header.library.load(Relaxed) == library::MPICH && handle >> 24 == 0x0c {
        return 0;
    }
    let mut size = 0u64;
    if !may_ask(header) || !query(&header.type_size, handle, &mut size) {
        return SIZE_UNKNOWN;
    }
    let size = size as u32 as i32;
    // `MPI_UNDEFINED`: it is larger than an `int` can say.
    let size = if size >= 0 { size as u64 } else { SIZE_UNKNOWN };
    entry.size.store(size, Relaxed);
    entry.handle.store(handle, Relaxed);
    size
}

#[inline(always)]
fn clear_types(slot: &Slot) {
    let mut place = 0;
    while place < TYPES_MAX {
        at::<TypeEntry>((&raw const slot.types).cast(), place * size_of::<TypeEntry>() as u64).handle.store(0, Relaxed);
        place += 1;
    }
}

/// True if the library may be asked about handles: it is initialised and has not ended.
#[inline(always)]
fn may_ask(header: &Header) -> bool {
    let initialized = header.initialized.load(Relaxed);
    initialized == 0 || (is_set(initialized) && !is_set(header.finalized.load(Relaxed)))
}

/// Calls one of the library's `int f(flag)` functions; false if it is unknown or fails.
#[inline(always)]
fn is_set(address: u64) -> bool {
    if address == 0 {
        return false;
    }
    // SAFETY: as in `query`; the standard allows these two at any time and on any thread.
    let call: Flag = unsafe { core::mem::transmute(address) };
    let mut flag = 0i32;
    call(&raw mut flag) == 0 && flag != 0
}

/// Calls one of the library's `int f(handle, out)` functions; false if it is unknown or fails.
#[inline(always)]
fn query(function: &AtomicU64, handle: u64, out: &mut u64) -> bool {
    let address = function.load(Relaxed);
    if address == 0 {
        return false;
    }
    // SAFETY: the session stored the address of this very function of the library that is mapped here.
    let call: Query1 = unsafe { core::mem::transmute(address) };
    call(handle, out) == 0
}

/// Finds or makes the entry of communicator `handle`, or of a window if `is_window` is not 0.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
pub(crate) extern "C" fn comm_index_slow(header: *const Header, slot: *const Slot, handle: u64, is_window: u64) -> u32 {
    let context = Context { header, slot };
    let header = context.header();
    let slot = context.slot();
    let generation = header.comm_generation.load(Acquire);
    if slot.comm_generation.load(Relaxed) != generation {
        forget_comms(header, slot);
        slot.comm_generation.store(generation, Relaxed);
    }
    if slot.comm_count.load(Relaxed) == 0 {
        if !may_ask(header) {
            return COMM_NONE;
        }
        // Index 0 is always the world, whichever communicator is met first.
        slot.comm_count.store(1, Relaxed);
        describe_comm(context, comm_entry(slot, 0), header.comm_world.load(Relaxed));
    }
    let count = slot.comm_count.load(Relaxed);
    let mut index = 0;
    while index < count {
        if comm_entry(slot, index).handle.load(Relaxed) == handle {
            return index as u32;
        }
        index += 1;
    }
    if count >= COMMS_MAX || !may_ask(header) {
        return COMM_NONE;
    }
    slot.comm_count.store(count + 1, Relaxed);
    let entry = comm_entry(slot, count);
    let is_known =
        if is_window != 0 { describe_window(context, entry, handle) } else { describe_comm(context, entry, handle) };
    if !is_known {
        return COMM_NONE;
    }
    reuse_entry(context, count) as u32
}

/// Programs that create and free a communicator in every iteration would fill the table: an entry that was freed and
/// had the same members serves again. The index of the entry to use.
#[inline(always)]
fn reuse_entry(context: Context, newest: u64) -> u64 {
    let slot = context.slot();
    let new = comm_entry(slot, newest);
    let mut index = 1;
    while index < newest {
        let old = comm_entry(slot, index);
        if old.handle.load(Relaxed) == 0 && has_same_members(context, old, new) {
            let (first, size) = (new.pool.load(Relaxed), new.size.load(Relaxed));
            old.rank.store(new.rank.load(Relaxed), Relaxed);
            old.neighbours.store(0, Relaxed);
            old.handle.store(new.handle.load(Relaxed), Relaxed);
            new.handle.store(0, Relaxed);
            slot.comm_count.store(newest, Relaxed);
            // Given back only if no other thread has taken more meanwhile.
            let _ = context.header().pool_used.compare_exchange(first + size, first, AcqRel, Relaxed);
            return index;
        }
        index += 1;
    }
    newest
}

#[inline(always)]
fn has_same_members(context: Context, old: &CommEntry, new: &CommEntry) -> bool {
    let size = new.size.load(Relaxed);
    let (old_first, new_first) = (old.pool.load(Relaxed), new.pool.load(Relaxed));
    if old.size.load(Relaxed) != size || old.inter.load(Relaxed) != new.inter.load(Relaxed) {
        return false;
    }
    if old_first == u64::MAX || new_first == u64::MAX {
        return false;
    }
    let mut member = 0;
    while member < size {
        if pool_word(context, old_first + member).load(Relaxed) != pool_word(context, new_first + member).load(Relaxed)
        {
            return false;
        }
        member += 1;
    }
    true
}

#[inline(always)]
fn pool_word<'a>(context: Context, index: u64) -> &'a AtomicI32 {
    at(context.base(), context.header().geometry.pool_offset + index * 4)
}

#[inline(always)]
fn comm_entry(slot: &Slot, index: u64) -> &CommEntry {
    at((&raw const slot.comms).cast(), index * size_of::<CommEntry>() as u64)
}

/// A communicator was freed somewhere: every handle but the world's may now mean another one.
#[inline(always)]
fn forget_comms(header: &Header, slot: &Slot) {
    let count = slot.comm_count.load(Relaxed);
    let world = header.comm_world.load(Relaxed);
    let mut index = 0;
    while index < count {
        let entry = comm_entry(slot, index);
        if entry.handle.load(Relaxed) != world {
            entry.handle.store(0, Relaxed);
        }
        index += 1;
    }
}

#[inline(always)]
fn describe_comm(context: Context, entry: &CommEntry, handle: u64) -> bool {
    let header = context.header();
    let mut size = 0u64;
    let mut rank = 0u64;
    let mut inter = 0u64;
    entry.pool.store(u64::MAX, Relaxed);
    entry.handle.store(0, Relaxed);
    entry.neighbours.store(0, Relaxed);
    if !query(&header.comm_size, handle, &mut size) || !query(&header.comm_rank, handle, &mut rank) {
        return false;
    }
    query(&header.comm_test_inter, handle, &mut inter);
    entry.rank.store(rank as u32 as u64, Relaxed);
    entry.inter.store(inter as u32 as u64, Relaxed);
    entry.size.store(size as u32 as u64, Relaxed);
    if handle == header.comm_world.load(Relaxed) {
        header.world_size.store(size as u32 as u64, Relaxed);
        header.world_rank_plus_one.store(rank as u32 as u64 + 1, Release);
    } else {
        translate(context, entry, handle, inter as u32 != 0);
    }
    entry.handle.store(handle, Relaxed);
    true
}

/// A window's ranks are those of its group. Nobody needs the own one.
#[inline(always)]
fn describe_window(context: Context, entry: &CommEntry, handle: u64) -> bool {
    let header = context.header();
    let mut group = 0u64;
    entry.pool.store(u64::MAX, Relaxed);
    entry.handle.store(0, Relaxed);
    entry.rank.store(0, Relaxed);
    entry.inter.store(0, Relaxed);
    entry.size.store(0, Relaxed);
    if !query(&header.win_get_group, handle, &mut group) {
        return false;
    }
    translate_group(context, entry, &mut group);
    entry.handle.store(handle, Relaxed);
    true
}

/// Writes the world ranks of a communicator's members into the pool.
#[inline(always)]
fn translate(context: Context, entry: &CommEntry, handle: u64, inter: bool) {
    let header = context.header();
    let members = if inter { &header.comm_remote_group } else { &header.comm_group };
    let mut group = 0u64;
    if query(members, handle, &mut group) {
        translate_group(context, entry, &mut group);
    }
}

/// Writes the world ranks of a group into the pool, and frees it.
#[inline(always)]
fn translate_group(context: Context, entry: &CommEntry, group: &mut u64) {
    let header = context.header();
    let mut world_group = 0u64;
    let mut size = 0u64;
    let world = header.comm_world.load(Relaxed);
    if query(&header.comm_group, world, &mut world_group) && query(&header.group_size, *group, &mut size) {
        let size = size as u32 as u64;
        let first = header.pool_used.fetch_add(size, Relaxed);
        if first + size <= header.geometry.pool_capacity {
            entry.size.store(size, Relaxed);
            translate_members(context, *group, world_group, first, size);
            entry.pool.store(first, Release);
        }
        free_group(header, &mut world_group);
    }
    free_group(header, group);
}

#[inline(always)]
fn translate_members(context: Context, group: u64, world_group: u64, first: u64, size: u64) {
    let header = context.header();
    let address = header.group_translate_ranks.load(Relaxed);
    if address == 0 {
        return;
    }
    // SAFETY: as in `query`.
    let call: Translate = unsafe { core::mem::transmute(address) };
    let mut rank = 0u64;
    while rank < size {
        let asked = rank as i32;
        let mut answer = -1i32;
        call(group, 1, &raw const asked, world_group, &raw mut answer);
        pool_word(context, first + rank).store(answer, Relaxed);
        rank += 1;
    }
}

#[inline(always)]
fn free_group(header: &Header, group: &mut u64) {
    let address = header.group_free.load(Relaxed);
    if address != 0 {
        // SAFETY: as in `query`.
        let call: Free = unsafe { core::mem::transmute(address) };
        call(group);
    }
}

/// How many ranks this one sends to in neighbourhood collectives of the communicator with this index;
/// [`NEIGHBOURS_UNKNOWN`] if the library can't say.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
pub(crate) extern "C" fn neighbour_count(header: *const Header, slot: *const Slot, index: u64) -> u64 {
    let context = Context { header, slot };
    let entry = comm_entry(context.slot(), index);
    let mut known = entry.neighbours.load(Relaxed);
    if known == 0 {
        known = if may_ask(context.header()) { ask_neighbours(context, entry) } else { NEIGHBOURS_UNKNOWN };
        entry.neighbours.store(known, Relaxed);
    }
    if known == NEIGHBOURS_UNKNOWN { known } else { known - 1 }
}

/// Rank in the communicator of one of them; negative: none, at the border of a grid.
#[inline(always)]
pub(crate) fn neighbour(context: Context, index: u64, number: u64) -> i32 {
    let entry = comm_entry(context.slot(), index);
    pool_word(context, entry.neighbours_first.load(Relaxed) + number).load(Relaxed)
}

/// Their number plus one, with their ranks in the pool.
#[inline(always)]
fn ask_neighbours(context: Context, entry: &CommEntry) -> u64 {
    let header = context.header();
    let handle = entry.handle.load(Relaxed);
    let mut kind = 0u64;
    if header.topologies[0].load(Relaxed) == 0 || !query(&header.topo_test, handle, &mut kind) {
        return NEIGHBOURS_UNKNOWN;
    }
    let kind = kind as u32 as u64;
    if kind == header.topologies[0].load(Relaxed) {
        neighbours_in_grid(context, entry, handle)
    } else if kind == header.topologies[1].load(Relaxed) {
        neighbours_in_graph(context, entry, handle)
    } else if kind == header.topologies[2].load(Relaxed) {
        neighbours_in_distributed_graph(context, entry, handle)
    } else {
        NEIGHBOURS_UNKNOWN
    }
}

/// In a Cartesian topology, of each dimension the one before and the one behind.
#[inline(always)]
fn neighbours_in_grid(context: Context, entry: &CommEntry, handle: u64) -> u64 {
    let header = context.header();
    let shift = header.cart_shift.load(Relaxed);
    let mut dimensions = 0u64;
    if shift == 0 || !query(&header.cartdim_get, handle, &mut dimensions) {
        return NEIGHBOURS_UNKNOWN;
    }
    let dimensions = dimensions as u32 as u64;
    let first = make_room(context, entry, dimensions * 2);
    if first == NEIGHBOURS_UNKNOWN {
        return NEIGHBOURS_UNKNOWN;
    }
    // SAFETY: as in `query`.
    let shift: CartShift = unsafe { core::mem::transmute(shift) };
    let mut dimension = 0;
    while dimension < dimensions {
        let (mut before, mut behind) = (-1i32, -1i32);
        if shift(handle, dimension as i32, 1, &raw mut before, &raw mut behind) != 0 {
            return NEIGHBOURS_UNKNOWN;
        }
        pool_word(context, first + dimension * 2).store(before, Relaxed);
        pool_word(context, first + dimension * 2 + 1).store(behind, Relaxed);
        dimension += 1;
    }
    dimensions * 2 + 1
}

#[inline(always)]
fn neighbours_in_graph(context: Context, entry: &CommEntry, handle: u64) -> u64 {
    let header = context.header();
    let (count, list) = (header.graph_neighbors_count.load(Relaxed), header.graph_neighbors.load(Relaxed));
    if count == 0 || list == 0 {
        return NEIGHBOURS_UNKNOWN;
    }
    // SAFETY: as in `query`.
    let (count, list): (OfRank, GraphNeighbours) =
        unsafe { (core::mem::transmute::<u64, OfRank>(count), core::mem::transmute::<u64, GraphNeighbours>(list)) };
    let rank = entry.rank.load(Relaxed) as i32;
    let mut known = 0i32;
    if count(handle, rank, &raw mut known) != 0 || known < 0 {
        return NEIGHBOURS_UNKNOWN;
    }
    let first = make_room(context, entry, known as u64);
    if first == NEIGHBOURS_UNKNOWN || list(handle, rank, known, pool_word(context, first).as_ptr()) != 0 {
        return NEIGHBOURS_UNKNOWN;
    }
    known as u64 + 1
}

/// MPICH ends a program that does not ask for all there are, so whom it hears from and the weights of both are asked for, too;
/// they lie in the pool behind the ranks that it sends to.
#[inline(always)]
fn neighbours_in_distributed_graph(context: Context, entry: &CommEntry, handle: u64) -> u64 {
    let header = context.header();
    let (count, list) = (header.dist_graph_neighbors_count.load(Relaxed), header.dist_graph_neighbors.load(Relaxed));
    if count == 0 || list == 0 {
        return NEIGHBOURS_UNKNOWN;
    }
    // SAFETY: as in `query`.
    let (count, list): (DistGraphCount, DistGraphNeighbours) = unsafe {
        (core::mem::transmute::<u64, DistGraphCount>(count), core::mem::transmute::<u64, DistGraphNeighbours>(list))
    };
    let (mut sources, mut targets, mut is_weighted) = (0i32, 0i32, 0i32);
    if count(handle, &raw mut sources, &raw mut targets, &raw mut is_weighted) != 0 || targets < 0 || sources < 0 {
        return NEIGHBOURS_UNKNOWN;
    }
    let (to, from) = (targets as u64, sources as u64);
    let first = make_room(context, entry, (to + from) * 2);
    if first == NEIGHBOURS_UNKNOWN {
        return NEIGHBOURS_UNKNOWN;
    }
    let words = |behind: u64| pool_word(context, first + behind).as_ptr();
    let (weights, heard, their_weights) = (words(to), words(to * 2), words(to * 2 + from));
    if list(handle, sources, heard, their_weights, targets, words(0), weights) != 0 {
        return NEIGHBOURS_UNKNOWN;
    }
    to + 1
}

/// Words of the pool for an entry's neighbours, those it has if they are enough; [`NEIGHBOURS_UNKNOWN`]: there are none left.
#[inline(always)]
fn make_room(context: Context, entry: &CommEntry, words: u64) -> u64 {
    let geometry = &context.header().geometry;
    if entry.neighbours_room.load(Relaxed) < words {
        let first = context.header().pool_used.fetch_add(words, Relaxed);
        if first + words > geometry.pool_capacity {
            return NEIGHBOURS_UNKNOWN;
        }
        entry.neighbours_first.store(first, Relaxed);
        entry.neighbours_room.store(words, Relaxed);
    }
    entry.neighbours_first.load(Relaxed)
}
