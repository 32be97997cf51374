//! The memory that target and monitor share: every structure, its size and its place.
//!
//! All fields are plain words that one side writes and the other reads; single 64-bit stores are atomic on x86-64, so a
//! reader never sees half a word. The target's threads each own one [`Slot`], found by their thread pointer (`fs:[0]`).
//! The descriptor part ([`Header`] and the [`PatchRecord`]s) is what lets a later trimtab undo what a killed one left.
//!
//! Next: `target` writes these from inside the program; `trimtab-session` computes a [`Geometry`] and reads them.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicU16, AtomicU32, AtomicU64};

/// First word of the shared memory: "trimtab" and a layout version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"trimtab\x10");

/// Name of the shared memory as it shows in `/proc/PID/maps` (`/memfd:trimtab`).
pub const MEMFD_NAME: &str = "trimtab";

/// Bytes of original code one patch may replace.
pub const PATCH_BYTES_MAX: usize = 32;

/// Nested probes one thread may be inside at once; deeper calls are counted in `Slot::dropped`.
pub const FRAMES_MAX: u64 = 64;

/// Groups of functions that are timed separately (`comm`, `io`, `mem`, `sleep`, `user`, `omp`).
pub const GROUPS_MAX: usize = 8;

/// Communicators one thread may use in a window, `MPI_COMM_WORLD` included.
pub const COMMS_MAX: u64 = 64;

/// Entries of a thread's datatype-size memo; a collision only costs another query.
pub const TYPES_MAX: u64 = 64;

/// Persistent requests that are known at once in one process.
pub const REQUESTS_MAX: u64 = 4096;

/// Requests of one thread that are posted and not completed, of which it is known which call posted them (power of two).
pub const POSTED_MAX: u64 = 1024;

/// Places among which a handle's is, so that handles which share one don't take each other's (power of two).
pub const POSTED_WAYS: u64 = 8;

/// Requests that a call which completes several is asked for; more are not known.
pub const COMPLETED_MAX: u64 = 1024;

/// Requests of which a call may complete any; of more it is not known which.
pub const ANY_MAX: u64 = 64;

/// Return addresses of which the routine can know whether they end a path, and if not where the caller's lies (power of two).
/// Three quarters are used.
pub const RULES_MAX: u64 = 4096;

/// Paths of calls that are told apart in one process (power of two).
pub const PATHS_MAX: u64 = 4096;

/// Return addresses on one path; what lies further out tells no path apart.
pub const PATH_ADDRESSES_MAX: u64 = 16;

/// Pairs of a function and a call path whose calls one thread sums (power of two); what finds no place is in the function's
/// numbers alone.
pub const PATH_SUMS_MAX: u64 = 1024;

/// Classes of calls by their payload: none, then from each power of two below the next, the last without end.
pub const SIZES_MAX: u64 = 40;

/// Places of return addresses that nobody has given a rule yet (power of two).
pub const UNKNOWN_PLACES: usize = 64;

/// Places after its own in which an entry of these tables may stand.
pub const PROBES_MAX: u64 = 16;

/// Bit of a call's site that says it stands for several return addresses; no address of a program has it.
pub const PATH_BIT: u64 = 1 << 63;

/// A frame larger than this, in bytes, is none: where a path would lead further up the stack it ends.
pub const FRAME_BYTES_MAX: u64 = 1 << 20;

/// So many latest calls of a ring are looked through for one that polls as the next one does.
pub const POLLS_TOGETHER_MAX: u64 = 4;

/// Of a wait by polling no more than one in so many parts lies between calls of which one followed the other late.
pub const WAIT_TO_APART_MIN: u64 = 16;

/// So many calls that polled on and had work to do are charged as one call: the way through their probes is half as long, and
/// three times as much of the time may go to them, because that wait is what a window is to tell.
pub const POLLS_CHARGED_AS_ONE: u64 = 6;

/// Threads of one process whose parts in parallel regions are told apart.
pub const MEMBERS_MAX: usize = 256;

/// Values of [`Header::state`].
pub mod state {
    /// Probes record their ring of calls and count iterations, nothing else.
    pub const OBSERVE: u32 = 1;
    /// Recording begins when the marker has been passed `Header::start` times.
    pub const ARMED: u32 = 2;
    /// Recording.
    pub const RECORD: u32 = 3;
    /// Recording has ended; iterations are still counted.
    pub const DONE: u32 = 4;
}

/// Values of [`Header::library`].
pub mod library {
    /// Handles are 32-bit; the size of a predefined datatype is part of its handle.
    pub const MPICH: u32 = 1;
    /// Handles are pointers; a datatype's size is a word at `Header::type_size_offset`.
    pub const OPEN_MPI: u32 = 2;
}

/// Bits of [`Probe::flags`].
pub mod flag {
    /// Measure time (otherwise only count).
    pub const TIMED: u8 = 1;
    /// Write the call into the ring of calls that loop detection reads.
    pub const RING: u8 = 2;
    /// A collective in which nobody leaves before all have entered.
    pub const SYNCHRONISING: u8 = 4;
    /// The call frees a datatype: sizes remembered for handles are void.
    pub const FREES_TYPE: u8 = 8;
    /// The call frees a communicator: what was remembered for its handle is void.
    pub const FREES_COMM: u8 = 16;
    /// The call frees a request.
    pub const FREES_REQUEST: u8 = 32;
    /// A posted receive: its source is the peer.
    pub const RECEIVES: u8 = 64;
    /// Needs no frame: the open call is kept beside the function's numbers, and islands do the usual case inline.
    pub const SIMPLE: u8 = 128;
}

/// Where the probes of a function stand ([`Probe::role`]).
pub mod role {
    /// At its entry, and where its calls end.
    pub const FUNCTION: u8 = 0;
    /// At a jump to a function whose exits are seen: the call goes on there.
    pub const HANDS_OVER: u8 = 1;
    /// At a jump to where the end of the call is not seen.
    pub const LEAVES: u8 = 2;
    /// At a function that is not measured itself: calls of others go on in it, and end where it returns.
    pub const PASSES: u8 = 3;
    /// At a place that each pass of a loop goes through once: passes are counted, nothing is timed and no argument is read.
    pub const LOOP: u8 = 4;
}

/// The part of a function of the group `omp` in a parallel region ([`Probe::part`]).
pub mod part {
    /// Nothing: it is of another group.
    pub const NONE: u8 = 0;
    /// The runtime's function that a thread calls to have a region run by a team, and that returns when all are done.
    pub const REGION: u8 = 1;
    /// The program's function that the compiler made of a region or a task: each thread of the team runs it.
    pub const BODY: u8 = 2;
    /// The runtime's function waits for all threads of the team; tasks may be run meanwhile.
    pub const BARRIER: u8 = 3;
    /// It waits for a thread to leave a critical region, a lock or the turn before.
    pub const LOCK: u8 = 4;
    /// It waits for tasks, of which it may run some.
    pub const TASK: u8 = 5;
}

/// The value that a probe computes from its call's arguments ([`Probe::kind`]).
pub mod kind {
    /// Nothing.
    pub const NONE: u8 = 0;
    /// `count` elements to `peer` of `comm`.
    pub const SEND: u8 = 1;
    /// Root sends `count` elements to every other member.
    pub const BCAST: u8 = 2;
    /// Every other member sends `count` elements to the root (reduce, gather, gatherv).
    pub const TO_ROOT: u8 = 3;
    /// Root sends `count` elements to every other member (scatter).
    pub const SCATTER: u8 = 4;
    /// Root sends `counts[i]` elements to member i.
    pub const SCATTERV: u8 = 5;
    /// Each sends `count` elements to every other member (allgather, alltoall).
    pub const TO_ALL: u8 = 6;
    /// As `TO_ALL`, but in place the count is `recv_counts[own rank]` (allgatherv).
    pub const ALLGATHERV: u8 = 7;
    /// `counts[i]` elements to member i.
    pub const ALLTOALLV: u8 = 8;
    /// `counts[i]` elements of `datatypes[i]` to member i.
    pub const ALLTOALLW: u8 = 9;
    /// Own contribution, no links (allreduce, scan, exscan).
    pub const OWN: u8 = 10;
    /// Own contribution is the sum of `counts` (reduce_scatter).
    pub const OWN_SUM: u8 = 11;
    /// Own contribution is `count` times the group's size (reduce_scatter_block).
    pub const OWN_BLOCK: u8 = 12;
    /// Creates a persistent request for `count` elements to `peer`.
    pub const SEND_INIT: u8 = 13;
    /// Starts one persistent request.
    pub const START: u8 = 14;
    /// Starts `count` persistent requests.
    pub const STARTALL: u8 = 15;
    /// Bytes of the call only, no link (MPI-IO).
    pub const BYTES: u8 = 16;
    /// Argument `count` is a number of bytes (I/O and memory functions).
    pub const PLAIN_BYTES: u8 = 17;
    /// A non-negative return value is a number of bytes (read, write).
    pub const RETURNED_BYTES: u8 = 18;
    /// Bytes are argument `count` times argument `datatype` (calloc, fwrite).
    pub const PRODUCT_BYTES: u8 = 19;
    /// Creates a persistent request that sends nothing.
    pub const RECEIVE_INIT: u8 = 20;
    /// `count` elements to `peer` of `window`.
    pub const PUT: u8 = 21;
    /// `count` elements from `peer` of `window`.
    pub const GET: u8 = 22;
    /// `count` elements to `peer` of `window`, and `recv_count` from it, or as many (atomic updates that return what was there).
    pub const FETCH: u8 = 23;
    /// `count` elements to each rank that this one sends to in the communicator's topology (neighbourhood collectives).
    pub const NEIGHBOURS: u8 = 24;
    /// `counts[j]` elements to the j-th of them.
    pub const NEIGHBOURS_V: u8 = 25;
    /// `counts[j]` elements of `datatypes[j]` to the j-th of them.
    pub const NEIGHBOURS_W: u8 = 26;
}

/// A function's part in the life of a request ([`Probe::requests`]).
pub mod requests {
    /// Nothing.
    pub const NONE: u8 = 0;
    /// It returns one through the argument `request`.
    pub const POSTS: u8 = 1;
    /// It returns when the one that `request` points to is completed.
    pub const COMPLETES_ONE: u8 = 2;
    /// It returns when the first `count` of the array `request` are.
    pub const COMPLETES_ALL: u8 = 3;
    /// It returns when one of these is, or some are; what is completed is null behind it.
    pub const COMPLETES_ANY: u8 = 4;
}

/// Calls of the calibration function in one round, and rounds of which the fastest counts.
pub const CALIBRATION_CALLS: u64 = 64;
/// Rounds of calibration.
pub const CALIBRATION_ROUNDS: u64 = 8;
/// A probe that takes longer was interrupted, by another process or the kernel: that is not what it costs.
pub const OVERHEAD_TICKS_MAX: u64 = 20_000;
/// An empty call that takes longer was interrupted each time; nothing is taken off calls then.
pub const EMPTY_TICKS_MAX: u64 = 1000;

/// Ticks (about a second) after which a thread that passes a marking loop counts although it has not called MPI.
pub const OWNER_TICKS_MIN: u64 = 1 << 31;

/// Bits of [`Header::marker_thread`] beside its thread, whose pointer is a multiple of 4.
pub mod owner {
    /// It counts because of the time for which it has passed, and not because it calls MPI: one that does takes over.
    pub const BY_TIME: u64 = 1;
    /// The ranks' passes are numbered: no other thread takes over any more.
    pub const FIXED: u64 = 2;

    /// The thread alone.
    #[inline(always)]
    pub fn thread(owner: u64) -> u64 {
        owner & !(BY_TIME | FIXED)
    }
}

/// An argument index that is absent.
pub const ABSENT: u8 = 0xff;

/// Function of a probe whose calls are not known to be of one function.
pub const NOBODY: u32 = u32::MAX;

/// The peer of a link that stands for every other member of its communicator.
pub const PEER_ALL_OTHERS: u32 = 0xffff_fffe;

/// Comm index of a call without communicator.
pub const COMM_NONE: u32 = 0xffff;

/// The work of one probe; `Header::probes_offset`, indexed by probe number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Index of the function's [`FunctionStat`]; [`NOBODY`] at a function in which calls of several go on.
    pub function: u32,
    /// Number, plus one, of the probe of the function to which a call is handed over; 0: none.
    pub next_plus_one: u32,
    /// Group number, below [`GROUPS_MAX`]; 0 is communication.
    pub group: u8,
    /// Bits of [`flag`].
    pub flags: u8,
    /// One of [`kind`].
    pub kind: u8,
    /// Counts are 64 bits wide (`MPI_Send_c`).
    pub large_count: u8,
    /// Argument index of the send buffer, for in-place tests.
    pub buffer: u8,
    /// Argument index of the count or counts.
    pub count: u8,
    /// Argument index of the datatype or datatypes.
    pub datatype: u8,
    /// Argument index of destination, source or root.
    pub peer: u8,
    /// Argument index of the communicator.
    pub comm: u8,
    /// Argument index of the request or requests.
    pub request: u8,
    /// Argument index of the receive count or counts, used in place.
    pub recv_count: u8,
    /// Argument index of the receive datatype or datatypes, used in place.
    pub recv_datatype: u8,
    /// Argument index that `--argument` asks to sum.
    pub argument: u8,
    /// Argument index of a number that multiplies the count (partitions).
    pub factor: u8,
    /// Argument index of the source, of a call that also sends.
    pub source: u8,
    /// Argument index of the window.
    pub window: u8,
    /// One of [`role`].
    pub role: u8,
    /// 1 if open calls are kept as frames because they are handed over to other functions, or from these.
    pub framed: u8,
    /// 1 if it is called again and again until something has come.
    pub polls: u8,
    /// One of [`part`].
    pub part: u8,
    /// One of [`requests`].
    pub requests: u8,
    /// Of one that polls: argument index of the number that is not 0 once something has come.
    pub came: u8,
    /// Of one that returns with a message: argument index of the status, which says from whom it came.
    pub status: u8,
    /// Keeps the size a multiple of 8.
    pub reserved: [u8; 1],
}

impl Probe {
    /// A probe that reads no argument.
    pub const ABSENT: Probe = Probe {
        function: 0,
        next_plus_one: 0,
        group: 0,
        flags: 0,
        kind: kind::NONE,
        large_count: 0,
        buffer: ABSENT,
        count: ABSENT,
        datatype: ABSENT,
        peer: ABSENT,
        comm: ABSENT,
        request: ABSENT,
        recv_count: ABSENT,
        recv_datatype: ABSENT,
        argument: ABSENT,
        factor: ABSENT,
        source: ABSENT,
        window: ABSENT,
        role: role::FUNCTION,
        framed: 0,
        polls: 0,
        part: part::NONE,
        requests: requests::NONE,
        came: ABSENT,
        status: ABSENT,
        reserved: [0; 1],
    };
}

impl Probe {
    /// True if the probe fits [`flag::SIMPLE`]: a function the user named, timed, with at most one argument as bytes,
    /// whose calls don't go on in others.
    pub fn is_simple(&self) -> bool {
        let bytes = self.kind == kind::NONE || (self.kind == kind::PLAIN_BYTES && self.count < 6);
        let is_alone = self.framed == 0 && matches!(self.role, role::FUNCTION | role::LEAVES);
        let is_plain = self.flags & !flag::SIMPLE == flag::TIMED && self.argument == ABSENT;
        self.group == USER_GROUP && is_plain && bytes && is_alone
    }
}

/// One patched place: enough to undo it without its maker.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchRecord {
    /// Address of the first replaced byte.
    pub address: u64,
    /// Number of replaced bytes.
    pub length: u64,
    /// The bytes as they were.
    pub original: [u8; PATCH_BYTES_MAX],
    /// The bytes written.
    pub patched: [u8; PATCH_BYTES_MAX],
}

/// Places that are read in each pass of a marking loop: its counter and what belongs to it, then registers by which its tests are looked
/// at from outside.
pub const WATCHED_MAX: usize = 6;

/// The first of those registers.
pub const NOTED_FIRST: usize = 3;

/// Where a routine finds a register of the program at a loop's probe ([`WatchedPlace::how`]).
pub mod holder {
    /// The word at this index of [`Saved::registers`](super::Saved).
    pub const SAVED: u64 = 0;
    /// The word at this index of those that a called function keeps: rbx, r12 to r15.
    pub const KEPT: u64 = 1;
    /// The word at this index above where the island's rbp points: its rbp.
    pub const FRAME: u64 = 2;
    /// No register: where the island's rbp points, which is below the program's stack.
    pub const STACK: u64 = 3;
}

/// Bit of [`WatchedPlace::how`] that says that no register is added: the offset is the address.
pub const NOTHING_BIT: u64 = 25;

/// Bit of [`WatchedPlace::how`] that says that what is meant lies behind a pointer in memory.
pub const POINTER_BIT: u64 = 26;

/// Bit of [`WatchedPlace::how`] that says it is used.
pub const WATCHED_USED_BIT: u64 = 24;

/// A register of the program, or memory at one plus an offset.
#[repr(C)]
#[derive(Debug, Default)]
pub struct WatchedPlace {
    /// Bits 0 to 7: one of [`holder`]; 8 to 15: index there; 16 to 23: bytes of memory, 0: the register itself; then whether it is used, whether
    /// the register is left out, and whether a pointer lies there.
    pub how: AtomicU64,
    /// Added to the register.
    pub offset: AtomicU64,
    /// Added to the pointer that lies there, if it is one.
    pub further: AtomicU64,
}

/// The values of the watched places in one pass of the marker.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Reading {
    /// [`Header::passes`] with this one; 0: being written, or never was.
    pub pass: AtomicU64,
    /// The value of each place; 0 where nothing is read.
    pub words: [AtomicU64; WATCHED_MAX],
}

/// One mapping that was made in the target.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingRecord {
    /// First address.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
}

/// Mappings a descriptor can list.
pub const MAPPINGS_MAX: usize = 32;

/// The reader that filled a [`NotedUsage`].
pub mod noted_by {
    /// The process itself.
    pub const OWN: u64 = 1;
    /// The monitor, from `/proc`: some tens of microseconds beside the border.
    pub const BESIDE: u64 = 2;
}

/// `getrusage` of the process at a window's border.
#[repr(C)]
#[derive(Debug, Default)]
pub struct NotedUsage {
    /// One of [`noted_by`] once `words` are filled.
    pub valid: AtomicU64,
    /// The kernel's `struct rusage`: utime(2), stime(2), maxrss, ..., minflt at 6 + 2, majflt, ..., nvcsw, nivcsw.
    pub words: [AtomicU64; 18],
}

/// First page of the shared memory.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// [`MAGIC`]; written last, so that a half-made descriptor is never believed.
    pub magic: AtomicU64,
    /// Checksum of the descriptor: geometry, mappings and patch records ([`checksum`]).
    pub checksum: AtomicU64,
    /// Where this memory lies in the target.
    pub base: AtomicU64,
    /// The places of everything else.
    pub geometry: Geometry,
    /// Process id of the monitor that made it.
    pub monitor_pid: AtomicU64,
    /// Start time of that monitor, clock ticks since boot.
    pub monitor_start: AtomicU64,
    /// Number of valid entries in `mappings`.
    pub mapping_count: AtomicU64,
    /// Mappings made in the target, this one included.
    pub mappings: [MappingRecord; MAPPINGS_MAX],

    /// One of [`state`].
    pub state: AtomicU32,
    /// One of [`library`]; 0: no MPI accounting.
    pub library: AtomicU32,
    /// Probe that counts iterations; `u32::MAX`: none.
    pub marker_probe: AtomicU32,
    /// 1 if the stub may make system calls of its own (`getrusage` at a window's borders).
    pub may_call_system: AtomicU32,
    /// Site of the marker's call, as [`CallRecord::site`]; 0: any caller.
    pub marker_site: AtomicU64,
    /// Thread pointer of the thread whose passes count, if the marker is a loop: the first that passed it
    /// and has called MPI; with the bits of [`owner`]. 0: none yet.
    pub marker_thread: AtomicU64,
    /// Passes of the marker, if it is a loop, by other threads: they count nowhere else.
    pub passes_of_others: AtomicU64,
    /// Places that are read in each pass of the marker, if it is a loop.
    pub watched: [WatchedPlace; WATCHED_MAX],
    /// Their values in the first pass, and by turns in the others.
    pub readings: [Reading; 3],
    /// Passes of the marking call so far.
    pub passes: AtomicU64,
    /// Passes in one iteration (a call site in a loop over neighbours is passed several times); 0 and 1: one.
    pub marker_every: AtomicU64,
    /// The pass, modulo `marker_every`, that marks an iteration.
    pub marker_phase: AtomicU64,
    /// Iterations begun so far: one more than the number of the last mark.
    pub iteration: AtomicU64,
    /// Recording begins at the pass that finds `iteration == start`.
    pub start: AtomicU64,
    /// Recording ends at the pass that finds `iteration == end`.
    pub end: AtomicU64,
    /// Time stamp of the window's start; 0: not begun.
    pub first_ticks: AtomicU64,
    /// Time stamp of the window's end; 0: not ended.
    pub last_ticks: AtomicU64,
    /// Iteration marks written since the window began (index modulo the capacity).
    pub marks_written: AtomicU64,
    /// Calls that found no free slot.
    pub dropped: AtomicU64,
    /// Trace records kept of each function.
    pub details_max: AtomicU64,
    /// Bumped whenever a datatype is freed.
    pub type_generation: AtomicU64,
    /// Bumped whenever a communicator is freed.
    pub comm_generation: AtomicU64,
    /// Words used in the pool of world ranks.
    pub pool_used: AtomicU64,
    /// Address of a function that consists of one entry and one exit probe; 0: none.
    pub calibration: AtomicU64,
    /// 1 once a thread has begun to calibrate.
    pub calibration_begun: AtomicU64,
    /// Ticks that [`CALIBRATION_CALLS`] calls of it took in the fastest round; 0: not yet.
    pub calibrated_ticks: AtomicU64,
    /// Ticks between the two time stamps of a call that does nothing: what is taken off each measured call.
    pub empty_ticks: AtomicU64,

    /// `MPI_COMM_WORLD`.
    pub comm_world: AtomicU64,
    /// `MPI_REQUEST_NULL`; 0: not known.
    pub request_null: AtomicU64,
    /// Requests that were over when the call which made them returned share handles: the bits by which these are known,
    pub request_over_mask: AtomicU64,
    /// and their values; 0: not known.
    pub request_over: AtomicU64,
    /// `MPI_ANY_SOURCE` (two's complement),
    pub any_source: AtomicU64,
    /// and where a status has the rank that a message came from, plus one; 0: not known.
    pub status_source_plus_one: AtomicU64,
    /// `MPI_IN_PLACE`.
    pub in_place: AtomicU64,
    /// `MPI_ROOT` (two's complement): how an intercommunicator's root names itself.
    pub root: AtomicU64,
    /// Offset of the size in a datatype (Open MPI).
    pub type_size_offset: AtomicU64,
    /// Mask of a handle's valid bits (32-bit handles in 64-bit registers).
    pub handle_mask: AtomicU64,
    /// `PMPI_Type_size`.
    pub type_size: AtomicU64,
    /// `PMPI_Comm_size`.
    pub comm_size: AtomicU64,
    /// `PMPI_Comm_rank`.
    pub comm_rank: AtomicU64,
    /// `PMPI_Comm_group`.
    pub comm_group: AtomicU64,
    /// `PMPI_Comm_remote_group`.
    pub comm_remote_group: AtomicU64,
    /// `PMPI_Comm_test_inter`.
    pub comm_test_inter: AtomicU64,
    /// `PMPI_Group_size`.
    pub group_size: AtomicU64,
    /// `PMPI_Group_translate_ranks`.
    pub group_translate_ranks: AtomicU64,
    /// `PMPI_Group_free`.
    pub group_free: AtomicU64,
    /// `PMPI_Win_get_group`.
    pub win_get_group: AtomicU64,
    /// The answers of `PMPI_Topo_test` for a Cartesian topology, a graph and a distributed graph; 0: not known.
    pub topologies: [AtomicU64; 3],
    /// `PMPI_Topo_test`.
    pub topo_test: AtomicU64,
    /// `PMPI_Cartdim_get`.
    pub cartdim_get: AtomicU64,
    /// `PMPI_Cart_shift`.
    pub cart_shift: AtomicU64,
    /// `PMPI_Graph_neighbors_count`.
    pub graph_neighbors_count: AtomicU64,
    /// `PMPI_Graph_neighbors`.
    pub graph_neighbors: AtomicU64,
    /// `PMPI_Dist_graph_neighbors_count`.
    pub dist_graph_neighbors_count: AtomicU64,
    /// `PMPI_Dist_graph_neighbors`.
    pub dist_graph_neighbors: AtomicU64,
    /// `PMPI_Initialized`; 0: the library may be asked at any time.
    pub initialized: AtomicU64,
    /// `PMPI_Finalized`.
    pub finalized: AtomicU64,
    /// Rank in `MPI_COMM_WORLD` as the library says, plus one; 0: not asked yet.
    pub world_rank_plus_one: AtomicU64,
    /// Size of `MPI_COMM_WORLD` as the library says.
    pub world_size: AtomicU64,

    /// Resources used at the window's start.
    pub usage_first: NotedUsage,
    /// Resources used at the window's end.
    pub usage_last: NotedUsage,
    /// Threads that are held because they set a fault handler.
    pub hold: HoldWords,

    /// Return addresses met that have no rule, at the place of their hash: the latest of each place. 0: none.
    pub unknown: [AtomicU64; UNKNOWN_PLACES],
    /// Calls whose path found no place in the table: their site is the return address alone.
    pub paths_lost: AtomicU64,

    /// Address of CPython's key for the state of a thread ([`python`]); 0: no Python line is noted.
    pub python_key: AtomicU64,
    /// Bytes from a thread's pointer to the word that it keeps by that key.
    pub python_word: AtomicU64,

    /// Time that a window counts as at least where a share of it is the limit.
    pub limit_ticks_min: AtomicU64,
    /// A call that polls follows the one before at once if no more time lies between the probes of both; 0: none does.
    pub polls_apart_ticks_max: AtomicU64,
    /// A call that polls and lasts longer has done some work.
    pub polls_idle_ticks_max: AtomicU64,
    /// Teams of threads, where parallel regions are measured.
    pub teams: Teams,
}

/// Values of [`FunctionLimit::stopped_by`].
pub mod stopped_by {
    /// Probes of the function took more of a thread's time than they may.
    pub const COST: u64 = 1;
    /// A thread has called it [`FunctionLimit::calls_max`](super::FunctionLimit::calls_max) times.
    pub const CALLS: u64 = 2;
}

/// How long one function is counted. The routine itself ends that, so a function that costs too much is left alone from
/// the very call on at which it does, whatever the monitor is doing.
#[repr(C)]
#[derive(Debug, Default)]
pub struct FunctionLimit {
    /// Calls on a thread from which on the routine looks closer; 0 once it has stopped.
    pub look_at_calls: AtomicU64,
    /// Time stamp since when nothing is counted; 0: all is.
    pub stopped_ticks: AtomicU64,
    /// Calls that a thread may make in each tick of the window, times 2^32; 0: there is no such limit.
    pub calls_per_tick: AtomicU64,
    /// Calls that a thread counts at most; 0: there is no such limit.
    pub calls_max: AtomicU64,
    /// One of [`stopped_by`].
    pub stopped_by: AtomicU64,
    /// Keeps an entry in one line of the cache.
    pub reserved: [AtomicU64; 3],
}

/// The teams of one process.
#[repr(C)]
#[derive(Debug)]
pub struct Teams {
    /// Thread pointer of the thread that has a region run; 0: none has.
    pub master: AtomicU64,
    /// Regions that began while another thread had one run: whose threads are whose is not known.
    pub mixed: AtomicU64,
    /// Regions inside of regions: their time is that of the outer ones.
    pub nested: AtomicU64,
    /// Regions, their functions or waits that were left by an exception or `longjmp`.
    pub lost: AtomicU64,
    /// Threads that have run a region's function.
    pub member_count: AtomicU64,
    /// The places of their slots, from the memory's beginning.
    pub members: [AtomicU64; MEMBERS_MAX],
}

/// Threads that set a handler of a fault are held until the code is back where such a handler looks for it.
#[repr(C)]
#[derive(Debug, Default)]
pub struct HoldWords {
    /// Threads that have asked so far; each counts itself.
    pub asked: AtomicU64,
    /// Of these, how many may go on; [`u64::MAX`]: all, and whoever comes.
    pub answered: AtomicU64,
    /// Address and signal of what each is about to set; 0: not told yet. Indexed by its number, modulo their number.
    pub handlers: [AtomicU64; HOLD_PLACES],
}

/// Threads that may be held at once with what they set told.
pub const HOLD_PLACES: usize = 4;

/// Where everything lies in the shared memory: offsets and capacities. Capacities that are masks are powers of two.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of data (code arenas come after it in the file).
    pub data_length: u64,
    /// Bytes of the whole file.
    pub file_length: u64,
    /// Number of [`PatchRecord`]s.
    pub patch_count: u64,
    /// Their place.
    pub patches_offset: u64,
    /// Number of [`Probe`]s.
    pub probe_count: u64,
    /// Their place.
    pub probes_offset: u64,
    /// Number of functions, that is of [`FunctionStat`]s per slot.
    pub function_count: u64,
    /// Capacity of the iteration marks (power of two).
    pub mark_capacity: u64,
    /// Their place.
    pub marks_offset: u64,
    /// Capacity of the pool of world ranks, in 32-bit words.
    pub pool_capacity: u64,
    /// Its place.
    pub pool_offset: u64,
    /// Place of the table of persistent requests.
    pub requests_offset: u64,
    /// Number of slots (power of two).
    pub slot_count: u64,
    /// Bytes from slot to slot.
    pub slot_stride: u64,
    /// Place of the first slot.
    pub slots_offset: u64,
    /// Within a slot: place of its [`FunctionStat`]s.
    pub stats_offset: u64,
    /// Within a slot: place of its [`LinkEntry`]s.
    pub links_offset: u64,
    /// Capacity of the link table (power of two).
    pub link_capacity: u64,
    /// Within a slot: place of its ring of [`CallRecord`]s.
    pub ring_offset: u64,
    /// Capacity of the ring (power of two).
    pub ring_capacity: u64,
    /// Within a slot: place of its [`DetailRecord`]s, `detail_capacity` for each function.
    pub details_offset: u64,
    /// Trace records per function.
    pub detail_capacity: u64,
    /// 64 minus the binary logarithm of `slot_count`: the hash keeps that many of its highest bits.
    pub slot_shift: u64,
    /// Place of a script's process area; 0: no script.
    pub process_area_offset: u64,
    /// Place of a script's first thread area.
    pub thread_areas_offset: u64,
    /// Bytes from one thread area to the next.
    pub thread_area_stride: u64,
    /// Number of thread areas (power of two).
    pub thread_area_count: u64,
    /// Place of the table of [`ReturnRule`]s.
    pub rules_offset: u64,
    /// Their number: [`RULES_MAX`], or none where the routine doesn't run.
    pub rule_count: u64,
    /// Place of the table of [`PathEntry`]s.
    pub paths_offset: u64,
    /// Their number: [`PATHS_MAX`], or none where the routine doesn't run.
    pub path_count: u64,
    /// Address in the target of the unwind table of our code; 0: none.
    pub frames_at: u64,
    /// Bytes of that table.
    pub frames_bytes: u64,
    /// Patches at the end of the list by which it is found: the last to be taken back.
    pub frames_patches: u64,
    /// Within a slot: place of its [`PathSum`]s.
    pub path_sums_offset: u64,
    /// Their number: [`PATH_SUMS_MAX`], or none where the routine doesn't run.
    pub path_sum_count: u64,
    /// Within a slot: place of its [`SizeClass`]es, [`SIZES_MAX`] for each function.
    pub sizes_offset: u64,
    /// Place of the [`FunctionLimit`]s, one for each function.
    pub limits_offset: u64,
    /// Within a slot: place of its [`RegionStat`]s.
    pub regions_offset: u64,
    /// Their number: one for each function, or none where parallel regions are not measured.
    pub region_count: u64,
}

/// Room for a script's variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaNeeds {
    /// Bytes of the process area.
    pub process_bytes: u64,
    /// Bytes of one thread area.
    pub thread_bytes: u64,
}

/// The things that a window needs room for.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Places to patch.
    pub patches: u64,
    /// Probes.
    pub probes: u64,
    /// Functions.
    pub functions: u64,
    /// Ranks of the job.
    pub ranks: u64,
    /// Trace records per function.
    pub details: u64,
    /// Bytes of code.
    pub code: u64,
    /// Threads that may pass probes.
    pub threads: u64,
    /// A script's areas; then nothing is kept for the in-target routine.
    pub areas: Option<AreaNeeds>,
    /// Parallel regions are measured.
    pub regions: bool,
}

/// Multiplier of the hash from thread pointers to slots: `(pointer * multiplier) >> slot_shift`. Thread pointers are
/// spaced by stack sizes, so their low bits carry nothing.
pub const SLOT_HASH_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Places in the page of an arena's gate word: the gate itself, then what inline probes load.
pub mod gate {
    /// 32 bits: 0 closed, 1 open.
    pub const OPEN: u64 = 0;
    /// Address of the [`Header`](super::Header).
    pub const HEADER: u64 = 8;
    /// Address of the first slot.
    pub const SLOTS: u64 = 16;
}

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// The next multiple of `unit` (a power of two) at or above `value`.
pub const fn round_up(value: u64, unit: u64) -> u64 {
    (value + unit - 1) & !(unit - 1)
}

impl Geometry {
    /// Lays out shared memory for `needs`; `Header` comes first, code last.
    pub fn for_needs(needs: &Needs) -> Self {
        let mut geometry = Geometry {
            patch_count: needs.patches,
            probe_count: needs.probes,
            function_count: needs.functions,
            mark_capacity: 65_536,
            pool_capacity: (needs.ranks * 16).max(65_536),
            slot_count: (needs.threads * 2).clamp(64, 4096).next_power_of_two(),
            link_capacity: (needs.ranks * 4).max(1024).next_power_of_two(),
            ring_capacity: 16_384,
            detail_capacity: needs.details,
            rule_count: RULES_MAX,
            path_count: PATHS_MAX,
            path_sum_count: PATH_SUMS_MAX,
            region_count: if needs.regions { needs.functions } else { 0 },
            ..Geometry::default()
        };
        if let Some(areas) = needs.areas {
            geometry.thread_area_count = geometry.slot_count;
            geometry.thread_area_stride = round_up(areas.thread_bytes, 64);
            (geometry.slot_count, geometry.ring_capacity, geometry.mark_capacity) = (2, 2, 2);
            (geometry.link_capacity, geometry.pool_capacity) = (2, 2);
            (geometry.rule_count, geometry.path_count, geometry.path_sum_count) = (0, 0, 0);
        }
        geometry.slot_shift = u64::from(64 - geometry.slot_count.trailing_zeros());
        geometry.place_slot();
        geometry.place_all(needs.code, needs.areas.map_or(0, |areas| areas.process_bytes));
        geometry
    }

    /// Reads a geometry from its words, in order.
    pub fn from_words(word: impl Fn(usize) -> u64) -> Self {
        Geometry {
            data_length: word(0),
            file_length: word(1),
            patch_count: word(2),
            patches_offset: word(3),
            probe_count: word(4),
            probes_offset: word(5),
            function_count: word(6),
            mark_capacity: word(7),
            marks_offset: word(8),
            pool_capacity: word(9),
            pool_offset: word(10),
            requests_offset: word(11),
            slot_count: word(12),
            slot_stride: word(13),
            slots_offset: word(14),
            stats_offset: word(15),
            links_offset: word(16),
            link_capacity: word(17),
            ring_offset: word(18),
            ring_capacity: word(19),
            details_offset: word(20),
            detail_capacity: word(21),
            slot_shift: word(22),
            process_area_offset: word(23),
            thread_areas_offset: word(24),
            thread_area_stride: word(25),
            thread_area_count: word(26),
            rules_offset: word(27),
            rule_count: word(28),
            paths_offset: word(29),
            path_count: word(30),
            frames_at: word(31),
            frames_bytes: word(32),
            frames_patches: word(33),
            path_sums_offset: word(34),
            path_sum_count: word(35),
            sizes_offset: word(36),
            limits_offset: word(37),
            regions_offset: word(38),
            region_count: word(39),
        }
    }

    fn place_slot(&mut self) {
        let mut end = round_up(size_of::<Slot>() as u64, 64);
        let mut take = |bytes: u64| {
            let place = end;
            end = round_up(end + bytes, 64);
            place
        };
        self.stats_offset = take(self.function_count * size_of::<FunctionStat>() as u64);
        self.links_offset = take(self.link_capacity * size_of::<LinkEntry>() as u64);
        self.path_sums_offset = take(self.path_sum_count * size_of::<PathSum>() as u64);
        self.sizes_offset = take(self.function_count * SIZES_MAX * size_of::<SizeClass>() as u64);
        self.regions_offset = take(self.region_count * size_of::<RegionStat>() as u64);
        self.ring_offset = take(self.ring_capacity * size_of::<CallRecord>() as u64);
        self.details_offset = take(self.function_count * self.detail_capacity * size_of::<DetailRecord>() as u64);
        self.slot_stride = round_up(end, PAGE);
    }

    fn place_all(&mut self, code: u64, process_area: u64) {
        let mut end = round_up(size_of::<Header>() as u64, 64);
        let mut take = |bytes: u64, unit: u64| {
            end = round_up(end, unit);
            let place = end;
            end += bytes;
            place
        };
        self.patches_offset = take(self.patch_count * size_of::<PatchRecord>() as u64, 64);
        self.probes_offset = take(self.probe_count * size_of::<Probe>() as u64, 64);
        self.limits_offset = take(self.function_count * size_of::<FunctionLimit>() as u64, 64);
        self.requests_offset = take(REQUESTS_MAX * size_of::<RequestEntry>() as u64, 64);
        self.rules_offset = take(self.rule_count * size_of::<ReturnRule>() as u64, 64);
        self.paths_offset = take(self.path_count * size_of::<PathEntry>() as u64, 64);
        self.marks_offset = take(self.mark_capacity * size_of::<Mark>() as u64, PAGE);
        self.pool_offset = take(self.pool_capacity * 4, PAGE);
        self.slots_offset = take(self.slot_count * self.slot_stride, PAGE);
        if process_area > 0 {
            self.process_area_offset = take(process_area, PAGE);
            self.thread_areas_offset = take(self.thread_area_count * self.thread_area_stride, PAGE);
        }
        self.data_length = round_up(end, PAGE);
        self.file_length = self.data_length + round_up(code, PAGE);
    }
}

/// One thread's numbers. Followed, within `Geometry::slot_stride`, by its stats, links, ring and details.
#[repr(C)]
#[derive(Debug)]
pub struct Slot {
    /// The owner's thread pointer (`fs:[0]`); 0: free.
    pub key: AtomicU64,
    /// 1 while the owner is inside one of our routines (a signal handler or a call of ours must not enter again).
    pub busy: AtomicU64,
    /// Frames in use.
    pub depth: AtomicU64,
    /// Calls written to the ring so far.
    pub ring_written: AtomicU64,
    /// Probes passed while recording.
    pub hits: AtomicU64,
    /// 1 once nothing that the thread leaves can have been entered before the probes went in, or that has been left. 2 plus
    /// the probe's number if it was left where calls of several functions go on, so that nobody knows whose it was.
    pub orphans: AtomicU64,
    /// Time spent in our own routines while recording.
    pub overhead_ticks: AtomicU64,
    /// Calls not measured: too deep, or made from a signal handler that interrupted a probe.
    pub dropped: AtomicU64,
    /// Bytes whose receiver could not be named.
    pub unattributed_bytes: AtomicU64,
    /// Starts of persistent requests that were made before the probes went in, or whose bytes are not measured.
    pub unknown_starts: AtomicU64,
    /// Probes that were interrupted: their time is not in `overhead_ticks`.
    pub interrupted: AtomicU64,
    /// Communicators known, `MPI_COMM_WORLD` (index 0) included once used.
    pub comm_count: AtomicU64,
    /// `Header::comm_generation` when `comms` was last checked.
    pub comm_generation: AtomicU64,
    /// `Header::type_generation` when `types` was last cleared.
    pub type_generation: AtomicU64,
    /// Probes of each group the thread is inside of.
    pub group_depth: [AtomicU64; GROUPS_MAX],
    /// Time inside outermost calls of each group, in the window.
    pub group_ticks: [AtomicU64; GROUPS_MAX],
    /// Sums of paths that found no place among the [`PathSum`]s; its site stays 0.
    pub other_paths: PathSum,
    /// The thread's part in the region that runs.
    pub team: TeamPart,
    /// The thread's open calls.
    pub frames: [Frame; FRAMES_MAX as usize],
    /// Communicators met.
    pub comms: [CommEntry; COMMS_MAX as usize],
    /// Sizes of datatypes met, by hash of the handle.
    pub types: [TypeEntry; TYPES_MAX as usize],
    /// Requests posted, by hash of the handle: the latest of the places that it is among.
    pub posted: [PostedRequest; POSTED_MAX as usize],
    /// The open call that completes any of several.
    pub any: AnyOfSeveral,
    /// Time stamp at which the latest call returned, if it polled; 0: it did not.
    pub polled_ticks: AtomicU64,
    /// Time stamp at the entry of the open call, if it polls on.
    pub polls_since_ticks: AtomicU64,
    /// Time stamp at the entry of the first call of that wait.
    pub waits_since_ticks: AtomicU64,
    /// Time in that wait between calls of which one followed the other late, as an interrupt makes it.
    pub waits_apart_ticks: AtomicU64,
    /// Calls that polled on since something came, and the function of the latest.
    pub polls_open: AtomicU64,
    /// See above.
    pub polls_function: AtomicU64,
}

/// The requests of which an open call completes any.
#[repr(C)]
#[derive(Debug)]
pub struct AnyOfSeveral {
    /// Its ring index plus one; 0: there is none.
    pub ring: AtomicU64,
    /// Where the program keeps their handles.
    pub place: AtomicU64,
    /// So many.
    pub count: AtomicU64,
    /// The handles as they were at its entry.
    pub handles: [AtomicU64; ANY_MAX as usize],
}

/// A request that a call in the ring has posted.
#[repr(C)]
#[derive(Debug, Default)]
pub struct PostedRequest {
    /// Its handle.
    pub handle: AtomicU64,
    /// Ring index plus one of that call; 0: not known.
    pub ring: AtomicU64,
    /// The same of the call that completed it; 0: none did.
    pub completed_by: AtomicU64,
}

/// A call that has been entered and not left.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Frame {
    /// Stack pointer at entry (it points at the return address).
    pub stack: AtomicU64,
    /// Return address.
    pub site: AtomicU64,
    /// Time stamp at entry.
    pub ticks: AtomicU64,
    /// Probe number.
    pub probe: AtomicU64,
    /// Ring index plus one; 0: not in the ring.
    pub ring: AtomicU64,
    /// Address of the trace record's duration; 0: none.
    pub detail: AtomicU64,
    /// An argument kept for the exit (where the new request will be stored).
    pub kept: [AtomicU64; 4],
    /// Bits of [`outermost`].
    pub outermost: AtomicU64,
    /// Number, plus one, of the probe of the function to which the call was just handed over; 0: it has arrived.
    pub next_plus_one: AtomicU64,
    /// 1 once the call was handed over to another function.
    pub handed_over: AtomicU64,
    /// Where the call comes from, as [`CallRecord::site`]; 0: not asked.
    pub path: AtomicU64,
    /// Place of its [`PathSum`] in the shared memory; 0: not looked up.
    pub path_sum: AtomicU64,
    /// Of a region's function: time in it in which the thread waited; of a wait: time in it in which it ran tasks.
    pub inner: AtomicU64,
    /// Of a region: number, plus one, of the function that its threads run; 0: not seen. Of a wait: time in which tasks that
    /// it ran waited.
    pub body: AtomicU64,
}

/// Bits of [`Frame::outermost`].
pub mod outermost {
    /// No other call of the group is open below this one.
    pub const GROUP: u64 = 1;
    /// This call's time counts for its function: outermost of the group, or, for functions the user named, of itself.
    pub const FUNCTION: u64 = 2;
    /// It polls, and follows a call that polled at once: both are one wait.
    pub const POLLS_ON: u64 = 4;
}

/// A group whose functions are each timed on their own, even inside each other: those that the user named.
pub const USER_GROUP: u8 = 4;

/// Another one: the functions of parallel regions.
pub const OMP_GROUP: u8 = 5;

/// A communicator as one thread knows it.
#[repr(C)]
#[derive(Debug, Default)]
pub struct CommEntry {
    /// Handle; 0: freed since.
    pub handle: AtomicU64,
    /// Members (of the remote group for an intercommunicator).
    pub size: AtomicU64,
    /// Own rank in it.
    pub rank: AtomicU64,
    /// Index of its first world rank in the pool; `u64::MAX`: unknown.
    pub pool: AtomicU64,
    /// 1 for an intercommunicator.
    pub inter: AtomicU64,
    /// Ranks that this one sends to in the communicator's topology, plus one; 0: not asked yet, [`NEIGHBOURS_UNKNOWN`].
    pub neighbours: AtomicU64,
    /// Index of the first of them in the pool, and how many words are kept there.
    pub neighbours_first: AtomicU64,
    /// These words; 0: none yet.
    pub neighbours_room: AtomicU64,
}

/// In [`CommEntry::neighbours`]: the library can't say.
pub const NEIGHBOURS_UNKNOWN: u64 = u64::MAX;

/// The size of a datatype, remembered.
#[repr(C)]
#[derive(Debug, Default)]
pub struct TypeEntry {
    /// Handle; 0: empty.
    pub handle: AtomicU64,
    /// Size in bytes.
    pub size: AtomicU64,
}

/// One function's numbers in one thread.
#[repr(C)]
#[derive(Debug, Default)]
pub struct FunctionStat {
    /// Outermost calls that began in the window.
    pub calls: AtomicU64,
    /// Calls from inside another measured call of the group.
    pub nested: AtomicU64,
    /// Time inside outermost calls, clipped to the window.
    pub ticks: AtomicU64,
    /// Payload bytes.
    pub bytes: AtomicU64,
    /// Largest payload of a call.
    pub bytes_max: AtomicU64,
    /// Sum of the argument asked for (two's complement).
    pub argument_sum: AtomicU64,
    /// Time stamp of the first call.
    pub first_ticks: AtomicU64,
    /// Time stamp of the last call.
    pub last_ticks: AtomicU64,
    /// Trace records kept.
    pub details: AtomicU64,
    /// Calls of this function the thread is inside of.
    pub depth: AtomicU64,
    /// Messages whose payload is not known: their requests were not seen to be made, or their datatype can't be asked for.
    pub unknown_bytes: AtomicU64,
    /// Calls of which nobody saw where they end: they went on in functions that are not followed, or were left there by an
    /// exception or `longjmp`. The time up to a jump is in `ticks`.
    pub unseen: AtomicU64,
    /// Of a simple probe: stack pointer at the entry of the open call; 0: none.
    pub open_stack: AtomicU64,
    /// Of a simple probe: time stamp at the entry of the open call.
    pub open_ticks: AtomicU64,
    /// Of a loop: passes since the probes went in, recorded or not.
    pub passes: AtomicU64,
    /// Of a loop: time stamps of the first of them and the latest.
    pub first_pass_ticks: AtomicU64,
    /// See above.
    pub last_pass_ticks: AtomicU64,
    /// Of a loop: passes before which the thread called MPI since the pass before.
    pub passes_with_calls: AtomicU64,
    /// Of a loop: calls of MPI that the thread had made at the latest pass.
    pub calls_at_pass: AtomicU64,
    /// Of the calls, those that polled and followed a call that polled at once.
    pub polled_on: AtomicU64,
    /// Of these, those that lasted longer than it takes to find that nothing has come: they had work to do, as copying.
    pub polled_work: AtomicU64,
    /// Of calls that polled on, those after which nothing had come when the thread called something else: that was no wait.
    pub polled_vainly: AtomicU64,
}

impl FunctionStat {
    /// Calls whose probes cost time. Those that poll on and find nothing do not: what they wait for comes no later. If nothing
    /// came at all, they are charged for what their probes took, which is half of others.
    #[inline(always)]
    pub fn charged(&self) -> u64 {
        let calls = self.calls.load(Relaxed) + self.nested.load(Relaxed);
        let worked = self.polled_work.load(Relaxed) / POLLS_CHARGED_AS_ONE;
        calls.saturating_sub(self.polled_on.load(Relaxed)) + worked + self.polled_vainly.load(Relaxed) / 2
    }
}

/// The calls of one function that came by one path, in one thread.
#[repr(C)]
#[derive(Debug, Default)]
pub struct PathSum {
    /// The path, as [`CallRecord::site`]; 0: free.
    pub site: AtomicU64,
    /// The function's number.
    pub function: AtomicU64,
    /// As [`FunctionStat::calls`].
    pub calls: AtomicU64,
    /// As [`FunctionStat::ticks`].
    pub ticks: AtomicU64,
    /// As [`FunctionStat::bytes`].
    pub bytes: AtomicU64,
    /// Keeps an entry in one line of the cache.
    pub reserved: [AtomicU64; 3],
}

/// One thread's part in the region that runs: what it does until all are done. The thread that has the region run adds it up.
#[repr(C)]
#[derive(Debug, Default)]
pub struct TeamPart {
    /// 1 once its slot is among [`Teams::members`].
    pub is_member: AtomicU64,
    /// Calls of the region's function, and of tasks that it ran outside of it.
    pub entries: AtomicU64,
    /// Time in these without waits for other threads.
    pub busy: AtomicU64,
    /// Of that, time in communication.
    pub comm: AtomicU64,
    /// Time in waits, as [`part`] tells them apart: barriers, locks, tasks.
    pub waits: [AtomicU64; 3],
    /// Barriers that the thread passed without having been seen to enter a region, since the window began.
    pub stray: AtomicU64,
    /// Time in the window of regions that the thread was not seen to begin.
    pub unseen: AtomicU64,
}

/// The regions of one function that a thread had run, in the window.
#[repr(C)]
#[derive(Debug, Default)]
pub struct RegionStat {
    /// Regions.
    pub passes: AtomicU64,
    /// Time from the call that begins a region until it returns.
    pub ticks: AtomicU64,
    /// The same times the threads of each.
    pub thread_ticks: AtomicU64,
    /// The largest [`TeamPart::busy`] of each times its threads.
    pub longest_ticks: AtomicU64,
    /// Sum of [`TeamPart::busy`].
    pub busy: AtomicU64,
    /// Sum of [`TeamPart::comm`].
    pub comm: AtomicU64,
    /// Of that, what the thread did that had the region run.
    pub comm_of_master: AtomicU64,
    /// Sums of [`TeamPart::waits`].
    pub waits: [AtomicU64; 3],
    /// Threads of the region that had fewest; 0: none ended yet.
    pub threads_min: AtomicU64,
    /// Threads of the region that had most.
    pub threads_max: AtomicU64,
    /// Return address of the latest call that began one.
    pub site: AtomicU64,
    /// This thread's own [`TeamPart::busy`] in regions of this function, whoever had them run.
    pub own_busy: AtomicU64,
    /// Keeps an entry in two lines of the cache.
    pub reserved: [AtomicU64; 2],
}

impl RegionStat {
    /// All that is counted.
    pub fn words(&self) -> [&AtomicU64; 14] {
        let [barrier, lock, task] = &self.waits;
        [
            &self.passes,
            &self.ticks,
            &self.thread_ticks,
            &self.longest_ticks,
            &self.busy,
            &self.comm,
            &self.comm_of_master,
            barrier,
            lock,
            task,
            &self.threads_min,
            &self.threads_max,
            &self.site,
            &self.own_busy,
        ]
    }
}

/// The calls of a function whose payload lies between two sizes.
#[repr(C)]
#[derive(Debug, Default)]
pub struct SizeClass {
    /// Calls.
    pub calls: AtomicU64,
    /// Their payload.
    pub bytes: AtomicU64,
}

/// The class of a call with so many bytes: 0 for none, else one more than the power of two that they have reached.
#[inline(always)]
pub const fn size_class(bytes: u64) -> u64 {
    let class = 64 - bytes.leading_zeros() as u64;
    if class < SIZES_MAX { class } else { SIZES_MAX - 1 }
}

/// Traffic to one peer of one communicator by one kind of call.
#[repr(C)]
#[derive(Debug, Default)]
pub struct LinkEntry {
    /// `1 + (collective << 62 | comm index << 32 | peer)`; 0: empty.
    pub key: AtomicU64,
    /// Messages.
    pub messages: AtomicU64,
    /// Bytes.
    pub bytes: AtomicU64,
}

/// In place of a datatype's size or a message's: it is not known.
pub const SIZE_UNKNOWN: u64 = u64::MAX;

/// Bit of a link's key (before the `1 +`) that says the traffic belongs to a collective.
pub const LINK_COLLECTIVE: u64 = 1 << 62;
/// Bit of a link's key that says the bytes come from the peer, which did nothing for it.
pub const LINK_FROM_PEER: u64 = 1 << 61;

/// One call in the ring.
#[repr(C)]
#[derive(Debug, Default)]
pub struct CallRecord {
    /// Probe number.
    pub probe: AtomicU32,
    /// As the program named it: whom a call that also sends receives from, or, once a receive from any source or a call that
    /// completes one request has returned, the one that its status tells; -1: nobody.
    pub source: AtomicI32,
    /// Where it comes from: the return address, or, where that lies in a binding or wrapper, the hash of a [`PathEntry`].
    pub site: AtomicU64,
    /// Time stamp at entry.
    pub enter_ticks: AtomicU64,
    /// Time stamp at exit; 0: not left yet.
    pub exit_ticks: AtomicU64,
    /// Communicator index in this slot.
    pub comm: AtomicU16,
    /// Of a call that completes requests: how many of them nobody knows who posted.
    pub strangers: AtomicU16,
    /// Peer as the program named it (rank in the communicator), -1: none.
    pub peer: AtomicI32,
    /// Value of `Header::passes` after this call was counted.
    pub passes: AtomicU64,
    /// Its payload, as its function's; [`SIZE_UNKNOWN`]: not known, or the call was made while nothing was recorded.
    pub bytes: AtomicU64,
    /// Of a call that posts a request: time stamp at entry of the call that completes it; 0: not seen.
    pub completed_ticks: AtomicU64,
}

/// The routine's step at a return address. The monitor writes it once, the address last.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ReturnRule {
    /// The return address; 0: free.
    pub address: AtomicU64,
    /// One of [`step`], packed by [`step::pack`].
    pub step: AtomicU64,
    /// The eight bytes of code before the address: other code may lie there by now. Not looked at where the path ends.
    pub code: AtomicU64,
    /// Keeps an entry in one line of the cache.
    pub reserved: AtomicU64,
}

/// How the caller of the function that a return address lies in is found: its return address lies eight bytes below the
/// frame base, which is the stack or frame pointer plus an offset.
///
/// Bits 0 to 1 say what to do, bits 8 to 15 where the caller's frame pointer is, bits 32 to 63 hold the offset.
pub mod step {
    /// The path ends here.
    pub const END: u64 = 0;
    /// The frame base is counted from the stack pointer.
    pub const BY_STACK: u64 = 1;
    /// The frame base is counted from the frame pointer (rbp).
    pub const BY_FRAME: u64 = 2;
    /// The path ends here, in CPython: the thread's Python code and the instruction in it are its last two words.
    pub const PYTHON: u64 = 3;
    /// Bits that say what to do.
    pub const KIND: u64 = 3;
    /// The frame pointer's word, counted in words down from the frame base: it is unchanged.
    pub const UNCHANGED: u8 = 0;
    /// The caller's frame pointer is not known.
    pub const LOST: u8 = 0xff;

    /// A step by `kind`, with `offset` bytes from its register to the frame base and the frame pointer's word `saved`.
    pub const fn pack(kind: u64, offset: i32, saved: u8) -> u64 {
        ((offset as u32 as u64) << 32) | ((saved as u64) << 8) | kind
    }
}

/// Offsets in the structures of CPython 3.11, the only one whose layout is known.
pub mod python {
    /// Words that a Python line adds to a path: the code object, and the address of its instruction.
    pub const WORDS: u64 = 2;
    /// A thread's state: its innermost C frame of the interpreter.
    pub const STATE_CFRAME: u64 = 56;
    /// That frame: its innermost Python frame.
    pub const CFRAME_FRAME: u64 = 8;
    /// A Python frame: its code.
    pub const FRAME_CODE: u64 = 32;
    /// A Python frame: the instruction that it executes.
    pub const FRAME_INSTRUCTION: u64 = 56;
}

/// The return addresses of one path, innermost first; the last two words are Python's where the path ends in CPython. The
/// target writes it once, the length last.
#[repr(C)]
#[derive(Debug, Default)]
pub struct PathEntry {
    /// [`path_hash`] of all of them, with [`PATH_BIT`]; 0: free.
    pub hash: AtomicU64,
    /// Number of words; 0: not written yet.
    pub length: AtomicU64,
    /// The addresses.
    pub addresses: [AtomicU64; PATH_ADDRESSES_MAX as usize],
}

/// Where the rule of a return address stands in the table, or at first is looked for.
#[inline(always)]
pub const fn rule_index(address: u64) -> u64 {
    address.wrapping_mul(SLOT_HASH_MULTIPLIER) >> (64 - RULES_MAX.trailing_zeros())
}

/// The hash of a path that was `hash` so far (0 at first) and goes on by `address`.
#[inline(always)]
pub const fn path_hash(hash: u64, address: u64) -> u64 {
    (hash ^ address).wrapping_mul(SLOT_HASH_MULTIPLIER).rotate_left(29)
}

/// One call kept as a trace record.
#[repr(C)]
#[derive(Debug, Default)]
pub struct DetailRecord {
    /// Time stamp at entry.
    pub enter_ticks: AtomicU64,
    /// Duration; 0: not left.
    pub duration_ticks: AtomicU64,
    /// The first six integer arguments.
    pub arguments: [AtomicU64; 6],
}

/// One pass of the marker while recording.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Mark {
    /// Time stamp.
    pub ticks: AtomicU64,
    /// Communication time of the marking thread since the window began.
    pub comm_ticks: AtomicU64,
}

/// A persistent request.
#[repr(C)]
#[derive(Debug, Default)]
pub struct RequestEntry {
    /// Handle; 0: free.
    pub handle: AtomicU64,
    /// Bytes of one start.
    pub bytes: AtomicU64,
    /// Destination (rank in the communicator).
    pub peer: AtomicU64,
    /// Communicator handle.
    pub comm: AtomicU64,
}

/// Registers as an island saved them: lowest address first.
#[repr(C)]
#[derive(Debug)]
pub struct Saved {
    /// r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax.
    pub registers: [u64; 9],
    /// The return address; stack arguments follow.
    pub return_address: u64,
}

/// Checksum of the descriptor (FNV-1a over `bytes`), for [`Header::checksum`].
pub fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
