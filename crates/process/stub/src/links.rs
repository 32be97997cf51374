//! Bytes to peers: interprets a call's arguments as its probe says and adds to the thread's tables.
//!
//! Payload is counted logically, at the sender: a broadcast's root sends to each other member, every other member sends
//! to a reduction's root, and so on; which collectives make links and which only bytes is documented in `trimtab-mpi`.
//! Ranks stay those of the communicator here; the monitor translates them when it reads the tables.
//!
//! Next: `resolve` finds sizes of datatypes and members of communicators.

use crate::context::{Arguments, Context, add, at, handle_in};
use crate::layout::*;
use crate::resolve;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};

/// Adds one call's payload to its function.
#[inline(always)]
pub(crate) fn add_bytes(stat: &FunctionStat, bytes: u64) {
    add(&stat.bytes, bytes);
    if bytes > stat.bytes_max.load(Relaxed) {
        stat.bytes_max.store(bytes, Relaxed);
    }
}

/// Index of the communicator `handle` in the thread's table; [`COMM_NONE`] if it can't be known.
#[inline(always)]
pub(crate) fn comm_index(context: Context, handle: u64) -> u32 {
    let header = context.header();
    if header.library.load(Relaxed) == 0 {
        return COMM_NONE;
    }
    let handle = handle & header.handle_mask.load(Relaxed);
    let slot = context.slot();
    let first: &CommEntry = &slot.comms[0];
    if first.handle.load(Relaxed) == handle && handle == header.comm_world.load(Relaxed) {
        return 0;
    }
    resolve::comm_index_slow(context.header, context.slot, handle, 0)
}

/// Index of the members of window `handle` in the thread's table of communicators; [`COMM_NONE`] if they can't be known.
#[inline(always)]
fn window_index(context: Context, handle: u64) -> u32 {
    let header = context.header();
    if header.library.load(Relaxed) == 0 {
        return COMM_NONE;
    }
    resolve::comm_index_slow(context.header, context.slot, handle & header.handle_mask.load(Relaxed), 1)
}

/// Interprets one call while recording.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn account_outlined(
    header: *const Header,
    slot: *const Slot,
    probe: *const Probe,
    stat: *const FunctionStat,
    saved: *const Saved,
) {
    let context = Context { header, slot };
    // SAFETY: both come from `Context::probe` and `Context::stat`.
    let (probe, stat) = unsafe { (&*probe, &*stat) };
    let call = Call { context, probe, stat, arguments: Arguments(saved) };
    call.account();
}

/// Interprets one call while recording.
#[inline(always)]
pub(crate) fn account(context: Context, probe: &Probe, stat: &FunctionStat, arguments: Arguments) {
    account_outlined(context.header, context.slot, probe, stat, arguments.0);
}

/// Partitions of a partitioned message; 1 for all others.
#[inline(always)]
fn factor(probe: &Probe, arguments: Arguments) -> u64 {
    let factor = if probe.factor == ABSENT { 1 } else { arguments.get(probe.factor) as i32 as i64 };
    if factor > 0 { factor as u64 } else { 0 }
}

#[derive(Clone, Copy)]
struct Call<'a> {
    context: Context,
    probe: &'a Probe,
    stat: &'a FunctionStat,
    arguments: Arguments,
}

impl Call<'_> {
    /// True if the probe is of this kind. Read anew each time, or the compiler would make a jump table of the chain,
    /// and jump tables lie outside the section.
    #[inline(always)]
    fn is(self, kind: u8) -> bool {
        // SAFETY: a plain byte of the shared memory.
        unsafe { core::ptr::read_volatile(&raw const self.probe.kind) == kind }
    }

    #[inline(always)]
    fn account(self) {
        if self.is(kind::SEND) {
            self.send();
        } else if self.is(kind::PLAIN_BYTES) {
            add_bytes(self.stat, self.arguments.get(self.probe.count));
        } else if self.is(kind::PRODUCT_BYTES) {
            let product = self.arguments.get(self.probe.count).wrapping_mul(self.arguments.get(self.probe.datatype));
            add_bytes(self.stat, product);
        } else if self.is(kind::START) {
            self.start(self.arguments.get(self.probe.request));
        } else if self.is(kind::STARTALL) {
            self.startall();
        } else if self.is(kind::BYTES) {
            self.bytes_only();
        } else if self.is(kind::PUT) || self.is(kind::GET) || self.is(kind::FETCH) {
            self.one_sided();
        } else if self.is(kind::NEIGHBOURS) || self.is(kind::NEIGHBOURS_V) || self.is(kind::NEIGHBOURS_W) {
            self.to_neighbours();
        } else if !self.is(kind::SEND_INIT) && !self.is(kind::RECEIVE_INIT) && !self.is(kind::RETURNED_BYTES) {
            self.collective();
        }
    }

    #[inline(always)]
    fn count_at(self, index: u8) -> u64 {
        let raw = self.arguments.get(index);
        self.widen(raw)
    }

    #[inline(always)]
    fn widen(self, raw: u64) -> u64 {
        let count = if self.probe.large_count != 0 { raw as i64 } else { raw as i32 as i64 };
        if count > 0 { count as u64 } else { 0 }
    }

    #[inline(always)]
    fn type_size(self, handle: u64) -> u64 {
        let size = resolve::type_size(self.context, handle);
        if size == SIZE_UNKNOWN {
            self.note_unknown();
            return 0;
        }
        size
    }

    /// The payload of one message is not known: the function's bytes are no longer all of them.
    #[inline(always)]
    fn note_unknown(self) {
        add(&self.stat.unknown_bytes, 1);
    }

    #[inline(always)]
    fn message_bytes(self) -> u64 {
        let count = if self.probe.count == ABSENT { 1 } else { self.count_at(self.probe.count) };
        let factor = factor(self.probe, self.arguments);
        count.wrapping_mul(factor).wrapping_mul(self.type_size(self.arguments.get(self.probe.datatype)))
    }

    #[inline(always)]
    fn bytes_only(self) {
        if self.probe.datatype == ABSENT {
            add_bytes(self.stat, self.count_at(self.probe.count));
        } else {
            add_bytes(self.stat, self.message_bytes());
        }
    }

    #[inline(always)]
    fn send(self) {
        let peer = self.arguments.get(self.probe.peer) as i32;
        if peer < 0 {
            return;
        }
        let bytes = self.message_bytes();
        add_bytes(self.stat, bytes);
        let comm = comm_index(self.context, self.arguments.get(self.probe.comm));
        self.link(comm, peer as u32, 1, bytes, 0);
    }

    /// The target of a one-sided call does nothing, so both ways are counted here.
    #[inline(always)]
    fn one_sided(self) {
        let peer = self.arguments.get(self.probe.peer) as i32;
        if peer < 0 {
            return;
        }
        let window = window_index(self.context, self.arguments.get(self.probe.window));
        // An operation that only fetches names no buffer, and its type may be none.
        let gives = !self.is(kind::FETCH) || self.arguments.get(self.probe.buffer) != 0;
        if gives {
            let bytes = self.message_bytes();
            add_bytes(self.stat, bytes);
            self.link(window, peer as u32, 1, bytes, if self.is(kind::GET) { LINK_FROM_PEER } else { 0 });
        }
        if self.is(kind::FETCH) {
            let bytes = if self.probe.recv_count == ABSENT {
                self.type_size(self.arguments.get(self.probe.datatype))
            } else {
                let count = self.count_at(self.probe.recv_count);
                count.wrapping_mul(self.type_size(self.arguments.get(self.probe.recv_datatype)))
            };
            self.link(window, peer as u32, 1, bytes, LINK_FROM_PEER);
        }
    }

    #[inline(always)]
    fn link(self, comm: u32, peer: u32, messages: u64, bytes: u64, collective: u64) {
        add_link(
            self.context.header,
            self.context.slot,
            collective | (u64::from(comm) << 32) | u64::from(peer),
            messages,
            bytes,
        );
    }

    /// An empty block of a collective is no message.
    #[inline(always)]
    fn collective_link(self, comm: u32, peer: u32, bytes: u64) {
        if bytes > 0 {
            self.link(comm, peer, 1, bytes, LINK_COLLECTIVE);
        }
    }

    #[inline(always)]
    fn is_in_place(self) -> bool {
        self.probe.buffer != ABSENT
            && self.arguments.get(self.probe.buffer) == self.context.header().in_place.load(Relaxed)
    }

    /// Bytes of this rank's contribution, with the receive arguments where it is in place.
    #[inline(always)]
    fn contribution(self) -> u64 {
        if self.is_in_place() && self.probe.recv_count != ABSENT {
            let count = self.count_at(self.probe.recv_count);
            return count.wrapping_mul(self.type_size(self.arguments.get(self.probe.recv_datatype)));
        }
        self.message_bytes()
    }

    /// Element `index` of an array of counts.
    #[inline(always)]
    fn count_in(self, array: u64, index: u64) -> u64 {
        if array == 0 {
            return 0;
        }
        // SAFETY: the program passes an array with one count per member to the MPI function about to run.
        let raw = unsafe {
            if self.probe.large_count != 0 {
                core::ptr::read_volatile((array as *const u64).wrapping_add(index as usize))
            } else {
                u64::from(core::ptr::read_volatile((array as *const u32).wrapping_add(index as usize)))
            }
        };
        self.widen(raw)
    }

    #[inline(always)]
    fn handle_in(self, array: u64, index: u64) -> u64 {
        handle_in(self.context.header(), array, index)
    }

    #[inline(always)]
    fn collective(self) {
        let comm_at = comm_index(self.context, self.arguments.get(self.probe.comm));
        let known = comm_at != COMM_NONE;
        let comm: &CommEntry = at(
            (&raw const self.context.slot().comms).cast(),
            if known { u64::from(comm_at) * size_of::<CommEntry>() as u64 } else { 0 },
        );
        let size = if known { comm.size.load(Relaxed) } else { 0 };
        let rank = comm.rank.load(Relaxed);
        let inter = known && comm.inter.load(Relaxed) != 0;
        if !known {
            if self.is(kind::OWN) {
                add_bytes(self.stat, self.contribution());
            } else {
                self.note_unknown();
            }
            return;
        }
        // On an intercommunicator the other group's members are the peers, all of them, and the root names itself.
        let others = if inter {
            size
        } else if size > 0 {
            size - 1
        } else {
            0
        };
        let own = if inter { u64::MAX } else { rank };
        let is_root = self.is_root(if inter { self.context.header().root.load(Relaxed) } else { rank });
        if self.is(kind::OWN) {
            add_bytes(self.stat, self.contribution());
        } else if self.is(kind::BCAST) || self.is(kind::SCATTER) {
            if is_root {
                let bytes = self.message_bytes();
                self.to_all_others(comm_at, others, bytes);
            }
        } else if self.is(kind::TO_ROOT) {
            // A negative root on an intercommunicator: this process belongs to the root's own group.
            if !is_root && self.arguments.get(self.probe.peer) as i32 >= 0 {
                let bytes = self.message_bytes();
                add_bytes(self.stat, bytes);
                self.collective_link(comm_at, self.arguments.get(self.probe.peer) as u32, bytes);
            }
        } else if self.is(kind::TO_ALL) {
            self.to_all_others(comm_at, others, self.contribution());
        } else if self.is(kind::ALLGATHERV) {
            self.to_all_others(comm_at, others, self.allgatherv_contribution(rank));
        } else if self.is(kind::OWN_SUM) {
            add_bytes(self.stat, self.sum_of_counts(size));
        } else if self.is(kind::OWN_BLOCK) {
            add_bytes(self.stat, self.message_bytes().wrapping_mul(size));
        } else if !self.is(kind::SCATTERV) || is_root {
            self.per_peer(comm_at, size, own);
        }
    }

    #[inline(always)]
    fn is_root(self, rank: u64) -> bool {
        self.arguments.get(self.probe.peer) as i32 as i64 == rank as i64
    }

    #[inline(always)]
    fn to_all_others(self, comm: u32, others: u64, bytes: u64) {
        add_bytes(self.stat, bytes.wrapping_mul(others));
        self.collective_link(comm, PEER_ALL_OTHERS, bytes);
    }

    #[inline(always)]
    fn allgatherv_contribution(self, rank: u64) -> u64 {
        if !self.is_in_place() {
            return self.message_bytes();
        }
        let count = self.count_in(self.arguments.get(self.probe.recv_count), rank);
        count.wrapping_mul(self.type_size(self.arguments.get(self.probe.recv_datatype)))
    }

    #[inline(always)]
    fn sum_of_counts(self, size: u64) -> u64 {
        let counts = self.arguments.get(self.probe.count);
        let mut sum = 0u64;
        let mut index = 0;
        while index < size {
            sum = sum.wrapping_add(self.count_in(counts, index));
            index += 1;
        }
        sum.wrapping_mul(self.type_size(self.arguments.get(self.probe.datatype)))
    }

    /// scatterv, alltoallv, alltoallw: a count (and type) for every peer.
    #[inline(always)]
    fn per_peer(self, comm: u32, size: u64, rank: u64) {
        let in_place = !self.is(kind::SCATTERV) && self.is_in_place();
        let count_at = if in_place { self.probe.recv_count } else { self.probe.count };
        let type_at = if in_place { self.probe.recv_datatype } else { self.probe.datatype };
        let counts = self.arguments.get(count_at);
        let types = self.arguments.get(type_at);
        let shared = if self.is(kind::ALLTOALLW) { 0 } else { self.type_size(types) };
        let mut total = 0u64;
        let mut peer = 0;
        while peer < size {
            let count = self.count_in(counts, peer);
            if peer != rank {
                let each = if self.is(kind::ALLTOALLW) {
                    if count == 0 { 0 } else { self.type_size(self.handle_in(types, peer)) }
                } else {
                    shared
                };
                let bytes = count.wrapping_mul(each);
                total = total.wrapping_add(bytes);
                self.collective_link(comm, peer as u32, bytes);
            }
            peer += 1;
        }
        add_bytes(self.stat, total);
    }

    /// Neighbourhood collectives: a block for every rank that the topology names, and none for this one itself.
    #[inline(always)]
    fn to_neighbours(self) {
        let comm_at = comm_index(self.context, self.arguments.get(self.probe.comm));
        let known = comm_at != COMM_NONE;
        let count = if known {
            resolve::neighbour_count(self.context.header, self.context.slot, u64::from(comm_at))
        } else {
            NEIGHBOURS_UNKNOWN
        };
        if count == NEIGHBOURS_UNKNOWN {
            self.note_unknown();
            return;
        }
        let comm: &CommEntry =
            at((&raw const self.context.slot().comms).cast(), u64::from(comm_at) * size_of::<CommEntry>() as u64);
        let own = comm.rank.load(Relaxed) as i32;
        let (counts, types) = (self.arguments.get(self.probe.count), self.arguments.get(self.probe.datatype));
        let same = if self.is(kind::NEIGHBOURS) { self.message_bytes() } else { 0 };
        let shared = if self.is(kind::NEIGHBOURS_V) { self.type_size(types) } else { 0 };
        let mut total = 0u64;
        let mut number = 0;
        while number < count {
            let peer = resolve::neighbour(self.context, u64::from(comm_at), number);
            if peer >= 0 && peer != own {
                let bytes = if self.is(kind::NEIGHBOURS) {
                    same
                } else {
                    let elements = self.count_in(counts, number);
                    if self.is(kind::NEIGHBOURS_V) {
                        elements.wrapping_mul(shared)
                    } else if elements == 0 {
                        0
                    } else {
                        elements.wrapping_mul(self.type_size(self.handle_in(types, number)))
                    }
                };
                total = total.wrapping_add(bytes);
                self.collective_link(comm_at, peer as u32, bytes);
            }
            number += 1;
        }
        add_bytes(self.stat, total);
    }

    #[inline(always)]
    fn startall(self) {
        let count = self.arguments.get(self.probe.count) as i32;
        let requests = self.arguments.get(self.probe.request);
        let width = if self.context.header().handle_mask.load(Relaxed) == u64::MAX { 8 } else { 4 };
        let mut index = 0;
        while index < count {
            self.start(requests.wrapping_add(index as u64 * width));
            index += 1;
        }
    }

    /// One start of the persistent request whose handle lies at `place`.
    #[inline(always)]
    fn start(self, place: u64) {
        if place == 0 {
            return;
        }
        let entry = find_request(self.context.header, self.handle_in(place, 0), 0);
        if entry.is_null() {
            add(&self.context.slot().unknown_starts, 1);
            self.note_unknown();
            return;
        }
        // SAFETY: `find_request` returns a place in the shared table.
        let entry = unsafe { &*entry };
        if entry.peer.load(Relaxed) == SENDS_NOTHING {
            return;
        }
        let bytes = entry.bytes.load(Relaxed);
        if bytes == SIZE_UNKNOWN {
            add(&self.context.slot().unknown_starts, 1);
            self.note_unknown();
            return;
        }
        add_bytes(self.stat, bytes);
        let comm = comm_index(self.context, entry.comm.load(Relaxed));
        self.link(comm, entry.peer.load(Relaxed) as u32, 1, bytes, 0);
    }
}

#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn add_link(header: *const Header, slot: *const Slot, key: u64, messages: u64, bytes: u64) {
    let context = Context { header, slot };
    let geometry = &context.header().geometry;
    let stored = key + 1;
    let mask = geometry.link_capacity - 1;
    let mut place = (key ^ (key >> 27)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let mut tries = 0;
    while tries < 64 && (key >> 32) as u32 & 0xffff != COMM_NONE {
        place &= mask;
        let entry: &LinkEntry = at(slot.cast(), geometry.links_offset + place * size_of::<LinkEntry>() as u64);
        let held = entry.key.load(Relaxed);
        if held == 0 {
            entry.key.store(stored, Relaxed);
        }
        if held == 0 || held == stored {
            add(&entry.messages, messages);
            add(&entry.bytes, bytes);
            return;
        }
        place += 1;
        tries += 1;
    }
    add(&context.slot().unattributed_bytes, bytes);
}

/// The entry of persistent request `handle`; with `claim` a free one if there is none. Null if there is none.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn find_request(header: *const Header, handle: u64, claim: u64) -> *const RequestEntry {
    // SAFETY: as `Context::header`.
    let header_ref = unsafe { &*header };
    let mut place = (handle ^ (handle >> 17)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let mut tries = 0;
    while tries < 32 {
        place &= REQUESTS_MAX - 1;
        let offset = header_ref.geometry.requests_offset + place * size_of::<RequestEntry>() as u64;
        let entry: &RequestEntry = at(header.cast(), offset);
        let held = entry.handle.load(Relaxed);
        let is_free = held == 0 || held == u64::MAX;
        let taken = claim != 0 && is_free && entry.handle.compare_exchange(held, handle, AcqRel, Relaxed).is_ok();
        if held == handle || taken {
            return entry;
        }
        place += 1;
        tries += 1;
    }
    core::ptr::null()
}

/// In `RequestEntry::peer`: a receive, or a message to `MPI_PROC_NULL`.
const SENDS_NOTHING: u64 = u64::MAX;

/// At the entry of MPI_Send_init, MPI_Recv_init and their kin: keep what the exit will need once the handle exists.
#[inline(always)]
pub(crate) fn keep_request(context: Context, probe: &Probe, frame: &Frame, arguments: Arguments) {
    let count = arguments.get(probe.count);
    let count = if probe.large_count != 0 { count as i64 } else { count as i32 as i64 };
    let size = resolve::type_size(context, arguments.get(probe.datatype));
    let count = if count > 0 { (count as u64).wrapping_mul(factor(probe, arguments)) } else { 0 };
    let bytes = if size == SIZE_UNKNOWN { SIZE_UNKNOWN } else { count.wrapping_mul(size) };
    frame.kept[0].store(arguments.get(probe.request), Relaxed);
    frame.kept[1].store(bytes, Relaxed);
    let peer = arguments.get(probe.peer) as u32;
    let sends = probe.kind == kind::SEND_INIT && peer as i32 >= 0;
    frame.kept[2].store(if sends { u64::from(peer) } else { SENDS_NOTHING }, Relaxed);
    frame.kept[3].store(arguments.get(probe.comm), Relaxed);
}

/// At its exit: remember the new request.
#[inline(always)]
pub(crate) fn store_request(context: Context, frame: &Frame) {
    let place = frame.kept[0].load(Relaxed);
    let peer = frame.kept[2].load(Relaxed);
    if place == 0 {
        return;
    }
    let handle = handle_in(context.header(), place, 0);
    let entry = find_request(context.header, handle, 1);
    if entry.is_null() {
        return;
    }
    // SAFETY: `find_request` returns a place in the shared table.
    let entry = unsafe { &*entry };
    entry.bytes.store(frame.kept[1].load(Relaxed), Relaxed);
    entry.peer.store(peer, Relaxed);
    entry.comm.store(frame.kept[3].load(Relaxed), Relaxed);
}

/// The call frees a handle: what was remembered for it is void.
#[unsafe(link_section = "trimtab_stub")]
#[inline(never)]
extern "C" fn forget_outlined(header: *const Header, flags: u64, place: u64) {
    // SAFETY: as `Context::header`.
    let header_ref = unsafe { &*header };
    if flags as u8 & flag::FREES_TYPE != 0 {
        header_ref.type_generation.fetch_add(1, AcqRel);
    }
    if flags as u8 & flag::FREES_COMM != 0 {
        header_ref.comm_generation.fetch_add(1, AcqRel);
    }
    if flags as u8 & flag::FREES_REQUEST != 0 && place != 0 {
        let entry = find_request(header, handle_in(header_ref, place, 0), 0);
        if !entry.is_null() {
            // SAFETY: `find_request` returns a place in the shared table.
            unsafe { (*entry).handle.store(u64::MAX, Relaxed) };
        }
    }
}

/// The call frees a handle: what was remembered for it is void.
#[inline(always)]
pub(crate) fn forget(context: Context, probe: &Probe, arguments: Arguments) {
    let index = if probe.flags & flag::FREES_REQUEST != 0 { probe.request } else { 0 };
    let place = if index == ABSENT { 0 } else { arguments.get(index) };
    forget_outlined(context.header, u64::from(probe.flags), place);
}
