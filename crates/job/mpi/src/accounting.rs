//! How much does a call move, and to whom? A flat descriptor that a small routine inside the target interprets.
//!
//! The routine has the raw integer arguments of a call, by index from 0 in the order of the C prototype (indices 6 and
//! above lie on the stack), and this descriptor. It never calls MPI.
//!
//! # Conventions
//!
//! A volume is the *logical payload*: element count times the datatype's size, with no protocol bytes and no
//! knowledge of the algorithm the library chose. It is counted once, **at the rank that contributes it**. A volume on a
//! *link* is also listed from rank to rank; a volume *without a link* only adds to the function's bytes.
//! P is the number of members of the communicator, size(x) the size in bytes of one element of datatype x.
//!
//! | kind | counted at | bytes | link |
//! |---|---|---|---|
//! | `Send` | caller | count x size (x `factor`) | caller to peer; nothing if the peer is `MPI_PROC_NULL` |
//! | `SendReceive` | caller | the send part, as `Send` | as `Send` |
//! | `Receive` | - | 0: the sender counts; the posted size is only a bound | - |
//! | `Bcast` | root | count x size to each other member | root to each other |
//! | `Reduce` | each non-root | count x size | to root |
//! | `Gather`, `Gatherv` | each non-root | its own count x size | to root |
//! | `Scatter` | root | count x size to each other member | root to each other |
//! | `Scatterv` | root | counts\[i\] x size to member i | root to each other |
//! | `Allgather`, `Allgatherv` | each | its contribution to each other member | to each other |
//! | `Alltoall` | each | count x size to each other member | to each other |
//! | `Alltoallv`, `Alltoallw` | each | counts\[i\] x size (x size of types\[i\]) to member i | to each other |
//! | `Allreduce` (also scan, exscan) | each | count x size, its own contribution, once | none |
//! | `ReduceScatter` | each | sum of counts\[0..P\] x size | none |
//! | `ReduceScatterBlock` | each | P x count x size | none |
//! | `NeighborAllgather`, `NeighborAllgatherv`, `NeighborAlltoall` | each | count x size to each out-neighbour | to each out-neighbour |
//! | `NeighborAlltoallv`, `NeighborAlltoallw` | each | counts\[j\] to the j-th out-neighbour | to each out-neighbour |
//! | `Put` (put, accumulate, atomic updates) | origin | origin count x size; 1 element where `count` is absent | origin to target |
//! | `Get` | origin | origin count x size | target to origin |
//! | `IoWrite`, `IoRead` | caller | count x size | none: goes to a file |
//!
//! A rank never sends to itself in a collective. A send to oneself (`MPI_Send` to the own rank) is a message and counts.
//!
//! **Persistent and partitioned** operations ([`Counted::AtStart`]) are evaluated when they are created (MPI forbids
//! changing count arrays until they are freed), remembered under the request they return, and counted at every
//! `MPI_Start` or `MPI_Startall` on it. Partitions marked by `MPI_Pready` add nothing: the start counted the whole message.
//!
//! **Non-blocking** operations are counted at the call that posts them, never at the wait.
//!
//! **`MPI_IN_PLACE`** (see [`HandleFacts::in_place`](crate::HandleFacts)) as `buffer`: `Allgather` uses `recv_count` and
//! `recv_datatype`, `Allgatherv` uses element *own rank* of the `recv_count` array with `recv_datatype`, `Alltoall`,
//! `Alltoallv` and `Alltoallw` use `recv_count` and `recv_datatype` whole. For every other kind the ordinary arguments
//! stay right: at a root of a gather or reduce there is nothing to count, a scatter's root has it in `recv_buffer`, and
//! reductions have one count for both buffers.
//!
//! **Intercommunicators.** Ranks are those of the remote group. "Each other member" is each member of the remote
//! group, own rank included. A root argument of `MPI_ROOT` marks the one root, `MPI_PROC_NULL` its idle companions.
//!
//! **Neighbour collectives** need the out-neighbours of the communicator, in MPI's order. Where they are not known the
//! bytes are *not measured*, never zero.
//!
//! Next: `catalogue/table.rs` gives every function its descriptor.

/// The index that means "this function has no such argument".
pub const ABSENT: u8 = 0xff;

/// The data that a call moves; fixes which fields of [`Accounting`] are set and whether `count` is a number or an
/// array.
///
/// The numbers are part of the contract with the routine inside the target and never change meaning.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccountingKind {
    /// Moves nothing that is counted; fields may still name a communicator, a peer or a request.
    None = 0,
    /// One message to `peer_or_root`.
    Send = 1,
    /// One message to `peer_or_root` while receiving another.
    SendReceive = 2,
    /// Receives; `peer_or_root` is the posted source, perhaps `MPI_ANY_SOURCE`.
    Receive = 3,
    /// Root to all.
    Bcast = 4,
    /// All to root, combined.
    Reduce = 5,
    /// All to root, equal blocks.
    Gather = 6,
    /// All to root; `count` is a number, `recv_count` an array that only the root may read.
    Gatherv = 7,
    /// Root to all, equal blocks.
    Scatter = 8,
    /// Root to all; `count` is an array that only the root may read.
    Scatterv = 9,
    /// All to all, one contribution each.
    Allgather = 10,
    /// All to all; `count` is a number, `recv_count` an array.
    Allgatherv = 11,
    /// All to all, equal blocks.
    Alltoall = 12,
    /// All to all; `count` and `recv_count` are arrays.
    Alltoallv = 13,
    /// As `Alltoallv`; `datatype` and `recv_datatype` are arrays too.
    Alltoallw = 14,
    /// Own contribution only: allreduce, scan, exscan.
    Allreduce = 15,
    /// Own contribution; `count` is an array of P numbers.
    ReduceScatter = 16,
    /// Own contribution of P equal blocks.
    ReduceScatterBlock = 17,
    /// One contribution to each out-neighbour.
    NeighborAllgather = 18,
    /// One contribution to each out-neighbour; `count` is a number, `recv_count` an array.
    NeighborAllgatherv = 19,
    /// One block to each out-neighbour.
    NeighborAlltoall = 20,
    /// `count` is an array over out-neighbours.
    NeighborAlltoallv = 21,
    /// As `NeighborAlltoallv`; `datatype` and `recv_datatype` are arrays too.
    NeighborAlltoallw = 22,
    /// Starts the persistent request that `request` points to.
    Start = 23,
    /// Starts the first `count` requests of the array `request`.
    Startall = 24,
    /// Origin to target memory.
    Put = 25,
    /// Target memory to origin.
    Get = 26,
    /// Memory to file.
    IoWrite = 27,
    /// File to memory.
    IoRead = 28,
}

impl AccountingKind {
    /// True if `count` points to an array of counts instead of being one.
    pub const fn has_count_array(self) -> bool {
        use AccountingKind::*;
        matches!(self, Scatterv | Alltoallv | Alltoallw | ReduceScatter | NeighborAlltoallv | NeighborAlltoallw)
    }

    /// True if `recv_count` points to an array of counts instead of being one.
    pub const fn has_recv_count_array(self) -> bool {
        use AccountingKind::*;
        matches!(
            self,
            Gatherv | Allgatherv | Alltoallv | Alltoallw | NeighborAllgatherv | NeighborAlltoallv | NeighborAlltoallw
        )
    }

    /// True if `datatype` and `recv_datatype` point to arrays of datatypes instead of being one.
    pub const fn has_datatype_array(self) -> bool {
        matches!(self, AccountingKind::Alltoallw | AccountingKind::NeighborAlltoallw)
    }
}

/// When the volume is counted.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counted {
    /// At the call itself.
    AtCall = 0,
    /// At every start of the request that the call returns through `request`.
    AtStart = 1,
}

/// Which argument means what, for one function: thirteen argument indices and three small numbers, all of one byte.
///
/// An index is the position in the C prototype, from 0, or [`ABSENT`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Accounting {
    /// How to interpret the indices below.
    pub kind: AccountingKind,
    /// When to count.
    pub counted: Counted,
    /// True if counts (numbers and arrays) are 64 bits wide instead of 32.
    pub large_count: bool,
    /// The buffer to compare with `MPI_IN_PLACE`.
    pub buffer: u8,
    /// Element count, or array of them ([`AccountingKind::has_count_array`]).
    pub count: u8,
    /// Datatype handle, or array of them ([`AccountingKind::has_datatype_array`]).
    pub datatype: u8,
    /// A 32-bit number that multiplies `count`: the partitions of a partitioned message.
    pub factor: u8,
    /// Destination, posted source, root or target rank, in the communicator or window.
    pub peer_or_root: u8,
    /// Communicator handle (of the parent, where a communicator is created).
    pub comm: u8,
    /// Window handle, where ranks are those of the window's group.
    pub window: u8,
    /// Pointer to a request handle, or array of them (`Startall`, `MPI_Waitall`...).
    pub request: u8,
    /// Receive buffer of a collective or of a combined send and receive.
    pub recv_buffer: u8,
    /// Receive count, or array of them ([`AccountingKind::has_recv_count_array`]).
    pub recv_count: u8,
    /// Receive datatype handle, or array of them.
    pub recv_datatype: u8,
    /// Rank received from in a combined send and receive.
    pub source: u8,
    /// Pointer through which a new communicator, window or file handle is returned.
    pub created: u8,
}

impl Accounting {
    /// Counts nothing and names nothing.
    pub const NONE: Accounting = Accounting {
        kind: AccountingKind::None,
        counted: Counted::AtCall,
        large_count: false,
        buffer: ABSENT,
        count: ABSENT,
        datatype: ABSENT,
        factor: ABSENT,
        peer_or_root: ABSENT,
        comm: ABSENT,
        window: ABSENT,
        request: ABSENT,
        recv_buffer: ABSENT,
        recv_count: ABSENT,
        recv_datatype: ABSENT,
        source: ABSENT,
        created: ABSENT,
    };

    /// The highest argument index used, so that a reader knows how far up the stack to look; `None` if none is used.
    pub fn last_argument(&self) -> Option<u8> {
        self.indices().into_iter().filter(|index| *index != ABSENT).max()
    }

    pub(crate) const fn payload(kind: AccountingKind, buffer: u8, count: u8, datatype: u8) -> Accounting {
        Accounting { kind, buffer, count, datatype, ..Accounting::NONE }
    }

    pub(crate) const fn kind(self, kind: AccountingKind) -> Accounting {
        Accounting { kind, ..self }
    }

    pub(crate) const fn count(self, count: u8) -> Accounting {
        Accounting { count, ..self }
    }

    pub(crate) const fn factor(self, factor: u8) -> Accounting {
        Accounting { factor, ..self }
    }

    pub(crate) const fn peer(self, peer_or_root: u8) -> Accounting {
        Accounting { peer_or_root, ..self }
    }

    pub(crate) const fn comm(self, comm: u8) -> Accounting {
        Accounting { comm, ..self }
    }

    pub(crate) const fn window(self, window: u8) -> Accounting {
        Accounting { window, ..self }
    }

    pub(crate) const fn request(self, request: u8) -> Accounting {
        Accounting { request, ..self }
    }

    pub(crate) const fn received(self, recv_buffer: u8, recv_count: u8, recv_datatype: u8) -> Accounting {
        Accounting { recv_buffer, recv_count, recv_datatype, ..self }
    }

    pub(crate) const fn source(self, source: u8) -> Accounting {
        Accounting { source, ..self }
    }

    pub(crate) const fn created(self, created: u8) -> Accounting {
        Accounting { created, ..self }
    }

    pub(crate) const fn at_start(self) -> Accounting {
        Accounting { counted: Counted::AtStart, ..self }
    }

    pub(crate) const fn large(self) -> Accounting {
        Accounting { large_count: true, ..self }
    }

    fn indices(&self) -> [u8; 13] {
        [
            self.buffer,
            self.count,
            self.datatype,
            self.factor,
            self.peer_or_root,
            self.comm,
            self.window,
            self.request,
            self.recv_buffer,
            self.recv_count,
            self.recv_datatype,
            self.source,
            self.created,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptor_is_sixteen_bytes_without_padding() {
        assert_eq!(size_of::<Accounting>(), 16);
        assert_eq!(align_of::<Accounting>(), 1);
    }

    #[test]
    fn last_argument_ignores_absent_ones() {
        assert_eq!(Accounting::NONE.last_argument(), None);
        assert_eq!(Accounting::NONE.comm(7).request(9).last_argument(), Some(9));
    }
}
