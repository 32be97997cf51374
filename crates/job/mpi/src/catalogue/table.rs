//! The functions that communicate, wait or synchronise, with their argument positions.
//!
//! A row stands for a function and, where MPI 4 has one, its large-count twin (`_c`), which has the same positions. A
//! family stands for a blocking collective, its non-blocking form (request after the communicator) and its persistent
//! form (info and request after the communicator; also under the name of Open MPI's `MPIX_` extension).
//!
//! Next: the tests in `tests/headers.rs` check every position against the prototypes of installed MPIs.

use crate::accounting::{Accounting, AccountingKind};
use crate::function::{Class, HandleKind, MpiFunction};

/// One function, with its large-count twin if there is one.
#[derive(Clone, Copy)]
pub(super) struct Row {
    name: &'static str,
    large: Option<&'static str>,
    class: Class,
    synchronising: bool,
    accounting: Accounting,
    invalidates: Option<HandleKind>,
}

impl Row {
    /// The function and its twin.
    pub(super) fn functions(self) -> impl Iterator<Item = MpiFunction> {
        let function = MpiFunction {
            name: self.name,
            class: self.class,
            synchronising: self.synchronising,
            accounting: self.accounting,
            invalidates: self.invalidates,
        };
        let twin = self.large.map(|name| MpiFunction { name, accounting: self.accounting.large(), ..function });
        std::iter::once(function).chain(twin)
    }

    const fn new(name: &'static str, class: Class, accounting: Accounting) -> Row {
        Row { name, large: None, class, synchronising: false, accounting, invalidates: None }
    }

    const fn twin(self, large: &'static str) -> Row {
        Row { large: Some(large), ..self }
    }

    const fn synchronising(self) -> Row {
        Row { synchronising: true, ..self }
    }

    const fn ends(self, handle: HandleKind) -> Row {
        Row { invalidates: Some(handle), ..self }
    }
}

/// All rows, in no particular order.
pub(super) fn rows() -> impl Iterator<Item = Row> {
    let single = [
        POINT_TO_POINT,
        COMPLETION,
        BARRIER,
        ONE_SIDED,
        WINDOWS,
        FILES,
        FILE_TRANSFERS,
        COMMUNICATORS,
        PROCESSES,
        ENVIRONMENT,
        EXTENSIONS,
    ];
    let families = COLLECTIVES.iter().chain(NEIGHBORS).flatten();
    single.into_iter().flatten().chain(families).copied()
}

/// A function without a large-count twin.
macro_rules! one {
    ($class:ident, $name:literal, $accounting:expr) => {
        Row::new($name, Class::$class, $accounting)
    };
}

/// A function and its large-count twin.
macro_rules! two {
    ($class:ident, $name:literal, $accounting:expr) => {
        Row::new($name, Class::$class, $accounting).twin(concat!($name, "_c"))
    };
}

/// A blocking collective, its non-blocking and its persistent form.
macro_rules! family {
    ($class:ident, $name:literal, $nonblocking:literal, $accounting:expr) => {{
        const BASE: Accounting = $accounting;
        const PERSISTENT: Accounting = BASE.request(BASE.comm + 2).at_start();
        [
            Row::new(concat!("MPI_", $name), Class::$class, BASE).twin(concat!("MPI_", $name, "_c")),
            Row::new(concat!("MPI_", $nonblocking), Class::$class, BASE.request(BASE.comm + 1)).twin(concat!(
                "MPI_",
                $nonblocking,
                "_c"
            )),
            Row::new(concat!("MPI_", $name, "_init"), Class::$class, PERSISTENT)
                .twin(concat!("MPI_", $name, "_init_c")),
            Row::new(concat!("MPIX_", $name, "_init"), Class::$class, PERSISTENT),
        ]
    }};
}

const NONE: Accounting = Accounting::NONE;
const SEND: Accounting = Accounting::payload(AccountingKind::Send, 0, 1, 2).peer(3).comm(5);
const ISEND: Accounting = SEND.request(6);
const SEND_INIT: Accounting = ISEND.at_start();
const RECEIVE: Accounting = SEND.kind(AccountingKind::Receive);
const SENDRECV: Accounting =
    Accounting::payload(AccountingKind::SendReceive, 0, 1, 2).peer(3).received(5, 6, 7).source(8).comm(10);
const REPLACE: Accounting = Accounting::payload(AccountingKind::SendReceive, 0, 1, 2).peer(3).source(5).comm(7);
const MATCHED: Accounting = Accounting::payload(AccountingKind::Receive, 0, 1, 2);
const PARTITIONED: Accounting =
    Accounting::payload(AccountingKind::Send, 0, 2, 3).factor(1).peer(4).comm(6).request(8).at_start().large();
const PROBE: Accounting = NONE.peer(0).comm(2);

const POINT_TO_POINT: &[Row] = &[
    two!(PointToPointSend, "MPI_Send", SEND),
    two!(PointToPointSend, "MPI_Bsend", SEND),
    two!(PointToPointSend, "MPI_Ssend", SEND),
    two!(PointToPointSend, "MPI_Rsend", SEND),
    two!(PointToPointSend, "MPI_Isend", ISEND),
    two!(PointToPointSend, "MPI_Ibsend", ISEND),
    two!(PointToPointSend, "MPI_Issend", ISEND),
    two!(PointToPointSend, "MPI_Irsend", ISEND),
    two!(PointToPointSend, "MPI_Send_init", SEND_INIT),
    two!(PointToPointSend, "MPI_Bsend_init", SEND_INIT),
    two!(PointToPointSend, "MPI_Ssend_init", SEND_INIT),
    two!(PointToPointSend, "MPI_Rsend_init", SEND_INIT),
    one!(PointToPointSend, "MPI_Psend_init", PARTITIONED),
    two!(Receive, "MPI_Recv", RECEIVE),
    two!(Receive, "MPI_Irecv", RECEIVE.request(6)),
    two!(Receive, "MPI_Recv_init", RECEIVE.request(6).at_start()),
    two!(Receive, "MPI_Mrecv", MATCHED),
    two!(Receive, "MPI_Imrecv", MATCHED.request(4)),
    one!(Receive, "MPI_Precv_init", PARTITIONED.kind(AccountingKind::Receive)),
    two!(SendReceive, "MPI_Sendrecv", SENDRECV),
    two!(SendReceive, "MPI_Sendrecv_replace", REPLACE),
    two!(SendReceive, "MPI_Isendrecv", SENDRECV.request(11)),
    two!(SendReceive, "MPI_Isendrecv_replace", REPLACE.request(8)),
    one!(Probe, "MPI_Probe", PROBE),
    one!(Probe, "MPI_Iprobe", PROBE),
    one!(Probe, "MPI_Mprobe", PROBE),
    one!(Probe, "MPI_Improbe", PROBE),
];

const COMPLETION: &[Row] = &[
    one!(Wait, "MPI_Wait", NONE.request(0)),
    one!(Wait, "MPI_Waitall", NONE.count(0).request(1)),
    one!(Wait, "MPI_Waitany", NONE.count(0).request(1)),
    one!(Wait, "MPI_Waitsome", NONE.count(0).request(1)),
    two!(Wait, "MPI_Buffer_detach", NONE),
    one!(Wait, "MPI_Buffer_flush", NONE),
    two!(Wait, "MPI_Comm_detach_buffer", NONE.comm(0)),
    one!(Wait, "MPI_Comm_flush_buffer", NONE.comm(0)),
    two!(Wait, "MPI_Session_detach_buffer", NONE),
    one!(Wait, "MPI_Session_flush_buffer", NONE),
    one!(Start, "MPI_Buffer_iflush", NONE.request(0)),
    one!(Start, "MPI_Comm_iflush_buffer", NONE.comm(0).request(1)),
    one!(Start, "MPI_Session_iflush_buffer", NONE.request(1)),
    one!(Test, "MPI_Test", NONE.request(0)),
    one!(Test, "MPI_Testall", NONE.count(0).request(1)),
    one!(Test, "MPI_Testany", NONE.count(0).request(1)),
    one!(Test, "MPI_Testsome", NONE.count(0).request(1)),
    one!(Test, "MPI_Request_get_status", NONE),
    one!(Test, "MPI_Request_get_status_all", NONE.count(0).request(1)),
    one!(Test, "MPI_Request_get_status_any", NONE.count(0).request(1)),
    one!(Test, "MPI_Request_get_status_some", NONE.count(0).request(1)),
    one!(Test, "MPI_Parrived", NONE),
    one!(Start, "MPI_Start", NONE.kind(AccountingKind::Start).request(0)),
    one!(Start, "MPI_Startall", NONE.kind(AccountingKind::Startall).count(0).request(1)),
    one!(Start, "MPI_Pready", NONE),
    one!(Start, "MPI_Pready_list", NONE),
    one!(Start, "MPI_Pready_range", NONE),
    one!(RequestManagement, "MPI_Cancel", NONE.request(0)),
    one!(RequestManagement, "MPI_Request_free", NONE.request(0)).ends(HandleKind::Request),
];

const BARRIER: &[Row] = &[
    one!(Collective, "MPI_Barrier", NONE.comm(0)).synchronising(),
    one!(Collective, "MPI_Ibarrier", NONE.comm(0).request(1)),
    one!(Collective, "MPI_Barrier_init", NONE.comm(0).request(2).at_start()),
    one!(Collective, "MPIX_Barrier_init", NONE.comm(0).request(2).at_start()),
];

const fn scalar(kind: AccountingKind) -> Accounting {
    Accounting::payload(kind, 0, 1, 2).received(3, 4, 5)
}

const fn receive_array(kind: AccountingKind) -> Accounting {
    Accounting::payload(kind, 0, 1, 2).received(3, 4, 6)
}

const fn both_arrays(kind: AccountingKind) -> Accounting {
    Accounting::payload(kind, 0, 1, 3).received(4, 5, 7).comm(8)
}

const fn reduction(kind: AccountingKind) -> Accounting {
    let accounting = Accounting::payload(kind, 0, 2, 3).comm(5);
    Accounting { recv_buffer: 1, ..accounting }
}

const COLLECTIVES: &[[Row; 4]] = &[
    family!(Collective, "Bcast", "Ibcast", Accounting::payload(AccountingKind::Bcast, 0, 1, 2).peer(3).comm(4)),
    family!(Collective, "Reduce", "Ireduce", reduction(AccountingKind::Reduce).peer(5).comm(6)),
    family!(Collective, "Gather", "Igather", scalar(AccountingKind::Gather).peer(6).comm(7)),
    family!(Collective, "Gatherv", "Igatherv", receive_array(AccountingKind::Gatherv).peer(7).comm(8)),
    family!(Collective, "Scatter", "Iscatter", scalar(AccountingKind::Scatter).peer(6).comm(7)),
    family!(
        Collective,
        "Scatterv",
        "Iscatterv",
        Accounting::payload(AccountingKind::Scatterv, 0, 1, 3).received(4, 5, 6).peer(7).comm(8)
    ),
    synchronising(family!(Collective, "Allgather", "Iallgather", scalar(AccountingKind::Allgather).comm(6))),
    synchronising(family!(Collective, "Allgatherv", "Iallgatherv", receive_array(AccountingKind::Allgatherv).comm(7))),
    synchronising(family!(Collective, "Alltoall", "Ialltoall", scalar(AccountingKind::Alltoall).comm(6))),
    synchronising(family!(Collective, "Alltoallv", "Ialltoallv", both_arrays(AccountingKind::Alltoallv))),
    synchronising(family!(Collective, "Alltoallw", "Ialltoallw", both_arrays(AccountingKind::Alltoallw))),
    synchronising(family!(Collective, "Allreduce", "Iallreduce", reduction(AccountingKind::Allreduce))),
    synchronising(family!(Collective, "Reduce_scatter", "Ireduce_scatter", reduction(AccountingKind::ReduceScatter))),
    synchronising(family!(
        Collective,
        "Reduce_scatter_block",
        "Ireduce_scatter_block",
        reduction(AccountingKind::ReduceScatterBlock)
    )),
    family!(Collective, "Scan", "Iscan", reduction(AccountingKind::Allreduce)),
    family!(Collective, "Exscan", "Iexscan", reduction(AccountingKind::Allreduce)),
];

const NEIGHBORS: &[[Row; 4]] = &[
    family!(
        NeighborCollective,
        "Neighbor_allgather",
        "Ineighbor_allgather",
        scalar(AccountingKind::NeighborAllgather).comm(6)
    ),
    family!(
        NeighborCollective,
        "Neighbor_allgatherv",
        "Ineighbor_allgatherv",
        receive_array(AccountingKind::NeighborAllgatherv).comm(7)
    ),
    family!(
        NeighborCollective,
        "Neighbor_alltoall",
        "Ineighbor_alltoall",
        scalar(AccountingKind::NeighborAlltoall).comm(6)
    ),
    family!(
        NeighborCollective,
        "Neighbor_alltoallv",
        "Ineighbor_alltoallv",
        both_arrays(AccountingKind::NeighborAlltoallv)
    ),
    family!(
        NeighborCollective,
        "Neighbor_alltoallw",
        "Ineighbor_alltoallw",
        both_arrays(AccountingKind::NeighborAlltoallw)
    ),
];

/// Marks the blocking form (the first of a family) as synchronising.
const fn synchronising(family: [Row; 4]) -> [Row; 4] {
    let [blocking, nonblocking, persistent, extension] = family;
    [blocking.synchronising(), nonblocking, persistent, extension]
}

const PUT: Accounting = Accounting::payload(AccountingKind::Put, 0, 1, 2).peer(3).window(7);
const GET: Accounting = PUT.kind(AccountingKind::Get);
const ACCUMULATE: Accounting = PUT.window(8);
const GET_ACCUMULATE: Accounting =
    Accounting::payload(AccountingKind::Put, 0, 1, 2).received(3, 4, 5).peer(6).window(11);
const ONE_ELEMENT: Accounting = Accounting::payload(AccountingKind::Put, 0, crate::ABSENT, 2).peer(3).window(6);
const COMPARE_AND_SWAP: Accounting = Accounting::payload(AccountingKind::Put, 0, crate::ABSENT, 3).peer(4).window(6);

const ONE_SIDED: &[Row] = &[
    two!(OneSided, "MPI_Put", PUT),
    two!(OneSided, "MPI_Get", GET),
    two!(OneSided, "MPI_Accumulate", ACCUMULATE),
    two!(OneSided, "MPI_Get_accumulate", GET_ACCUMULATE),
    two!(OneSided, "MPI_Rput", PUT.request(8)),
    two!(OneSided, "MPI_Rget", GET.request(8)),
    two!(OneSided, "MPI_Raccumulate", ACCUMULATE.request(9)),
    two!(OneSided, "MPI_Rget_accumulate", GET_ACCUMULATE.request(12)),
    one!(OneSided, "MPI_Fetch_and_op", ONE_ELEMENT),
    one!(OneSided, "MPI_Compare_and_swap", COMPARE_AND_SWAP),
];

const WINDOWS: &[Row] = &[
    two!(OneSidedSynchronization, "MPI_Win_create", NONE.comm(4).created(5)),
    two!(OneSidedSynchronization, "MPI_Win_allocate", NONE.comm(3).created(5)),
    two!(OneSidedSynchronization, "MPI_Win_allocate_shared", NONE.comm(3).created(5)),
    one!(OneSidedSynchronization, "MPI_Win_create_dynamic", NONE.comm(1).created(2)),
    one!(OneSidedSynchronization, "MPI_Win_free", NONE).ends(HandleKind::Window),
    one!(OneSidedSynchronization, "MPI_Win_set_info", NONE.window(0)),
    one!(OneSidedSynchronization, "MPI_Win_fence", NONE.window(1)),
    one!(OneSidedSynchronization, "MPI_Win_post", NONE.window(2)),
    one!(OneSidedSynchronization, "MPI_Win_start", NONE.window(2)),
    one!(OneSidedSynchronization, "MPI_Win_complete", NONE.window(0)),
    one!(OneSidedSynchronization, "MPI_Win_wait", NONE.window(0)),
    one!(OneSidedSynchronization, "MPI_Win_test", NONE.window(0)),
    one!(OneSidedSynchronization, "MPI_Win_lock", NONE.peer(1).window(3)),
    one!(OneSidedSynchronization, "MPI_Win_lock_all", NONE.window(1)),
    one!(OneSidedSynchronization, "MPI_Win_unlock", NONE.peer(0).window(1)),
    one!(OneSidedSynchronization, "MPI_Win_unlock_all", NONE.window(0)),
    one!(OneSidedSynchronization, "MPI_Win_flush", NONE.peer(0).window(1)),
    one!(OneSidedSynchronization, "MPI_Win_flush_all", NONE.window(0)),
    one!(OneSidedSynchronization, "MPI_Win_flush_local", NONE.peer(0).window(1)),
    one!(OneSidedSynchronization, "MPI_Win_flush_local_all", NONE.window(0)),
    one!(OneSidedSynchronization, "MPI_Win_sync", NONE.window(0)),
];

const FILES: &[Row] = &[
    one!(Io, "MPI_File_open", NONE.comm(0).created(4)),
    one!(Io, "MPI_File_close", NONE),
    one!(Io, "MPI_File_delete", NONE),
    one!(Io, "MPI_File_set_size", NONE),
    one!(Io, "MPI_File_preallocate", NONE),
    one!(Io, "MPI_File_get_size", NONE),
    one!(Io, "MPI_File_set_info", NONE),
    one!(Io, "MPI_File_set_view", NONE),
    one!(Io, "MPI_File_set_atomicity", NONE),
    one!(Io, "MPI_File_seek_shared", NONE),
    one!(Io, "MPI_File_get_position_shared", NONE),
    one!(Io, "MPI_File_sync", NONE),
];

const WRITE: Accounting = Accounting::payload(AccountingKind::IoWrite, 1, 2, 3);
const WRITE_AT: Accounting = Accounting::payload(AccountingKind::IoWrite, 2, 3, 4);
const READ: Accounting = WRITE.kind(AccountingKind::IoRead);
const READ_AT: Accounting = WRITE_AT.kind(AccountingKind::IoRead);

const FILE_TRANSFERS: &[Row] = &[
    two!(Io, "MPI_File_read", READ),
    two!(Io, "MPI_File_read_all", READ),
    two!(Io, "MPI_File_read_shared", READ),
    two!(Io, "MPI_File_read_ordered", READ),
    two!(Io, "MPI_File_read_at", READ_AT),
    two!(Io, "MPI_File_read_at_all", READ_AT),
    two!(Io, "MPI_File_read_all_begin", READ),
    two!(Io, "MPI_File_read_at_all_begin", READ_AT),
    two!(Io, "MPI_File_read_ordered_begin", READ),
    one!(Io, "MPI_File_read_all_end", NONE),
    one!(Io, "MPI_File_read_at_all_end", NONE),
    one!(Io, "MPI_File_read_ordered_end", NONE),
    two!(Io, "MPI_File_iread", READ.request(4)),
    two!(Io, "MPI_File_iread_all", READ.request(4)),
    two!(Io, "MPI_File_iread_shared", READ.request(4)),
    two!(Io, "MPI_File_iread_at", READ_AT.request(5)),
    two!(Io, "MPI_File_iread_at_all", READ_AT.request(5)),
    two!(Io, "MPI_File_write", WRITE),
    two!(Io, "MPI_File_write_all", WRITE),
    two!(Io, "MPI_File_write_shared", WRITE),
    two!(Io, "MPI_File_write_ordered", WRITE),
    two!(Io, "MPI_File_write_at", WRITE_AT),
    two!(Io, "MPI_File_write_at_all", WRITE_AT),
    two!(Io, "MPI_File_write_all_begin", WRITE),
    two!(Io, "MPI_File_write_at_all_begin", WRITE_AT),
    two!(Io, "MPI_File_write_ordered_begin", WRITE),
    one!(Io, "MPI_File_write_all_end", NONE),
    one!(Io, "MPI_File_write_at_all_end", NONE),
    one!(Io, "MPI_File_write_ordered_end", NONE),
    two!(Io, "MPI_File_iwrite", WRITE.request(4)),
    two!(Io, "MPI_File_iwrite_all", WRITE.request(4)),
    two!(Io, "MPI_File_iwrite_shared", WRITE.request(4)),
    two!(Io, "MPI_File_iwrite_at", WRITE_AT.request(5)),
    two!(Io, "MPI_File_iwrite_at_all", WRITE_AT.request(5)),
];

const COMMUNICATORS: &[Row] = &[
    one!(CommunicatorManagement, "MPI_Comm_dup", NONE.comm(0).created(1)).synchronising(),
    one!(CommunicatorManagement, "MPI_Comm_dup_with_info", NONE.comm(0).created(2)).synchronising(),
    one!(CommunicatorManagement, "MPI_Comm_idup", NONE.comm(0).created(1).request(2)),
    one!(CommunicatorManagement, "MPI_Comm_idup_with_info", NONE.comm(0).created(2).request(3)),
    one!(CommunicatorManagement, "MPI_Comm_create", NONE.comm(0).created(2)).synchronising(),
    one!(CommunicatorManagement, "MPI_Comm_create_group", NONE.comm(0).created(3)),
    one!(CommunicatorManagement, "MPI_Comm_create_from_group", NONE.created(4)),
    one!(CommunicatorManagement, "MPI_Comm_split", NONE.comm(0).created(3)).synchronising(),
    one!(CommunicatorManagement, "MPI_Comm_split_type", NONE.comm(0).created(4)).synchronising(),
    one!(CommunicatorManagement, "MPI_Comm_set_info", NONE.comm(0)),
    one!(CommunicatorManagement, "MPI_Comm_free", NONE).ends(HandleKind::Communicator),
    one!(CommunicatorManagement, "MPI_Intercomm_create", NONE.comm(0).created(5)).synchronising(),
    one!(CommunicatorManagement, "MPI_Intercomm_create_from_groups", NONE.created(7)),
    one!(CommunicatorManagement, "MPI_Intercomm_merge", NONE.comm(0).created(2)).synchronising(),
    one!(CommunicatorManagement, "MPI_Cart_create", NONE.comm(0).created(5)).synchronising(),
    one!(CommunicatorManagement, "MPI_Cart_sub", NONE.comm(0).created(2)).synchronising(),
    one!(CommunicatorManagement, "MPI_Cart_map", NONE.comm(0)),
    one!(CommunicatorManagement, "MPI_Graph_create", NONE.comm(0).created(5)).synchronising(),
    one!(CommunicatorManagement, "MPI_Graph_map", NONE.comm(0)),
    one!(CommunicatorManagement, "MPI_Dist_graph_create", NONE.comm(0).created(8)).synchronising(),
    one!(CommunicatorManagement, "MPI_Dist_graph_create_adjacent", NONE.comm(0).created(9)).synchronising(),
];

const PROCESSES: &[Row] = &[
    one!(ProcessManagement, "MPI_Comm_spawn", NONE.peer(4).comm(5).created(6)),
    one!(ProcessManagement, "MPI_Comm_spawn_multiple", NONE.peer(5).comm(6).created(7)),
    one!(ProcessManagement, "MPI_Comm_accept", NONE.peer(2).comm(3).created(4)),
    one!(ProcessManagement, "MPI_Comm_connect", NONE.peer(2).comm(3).created(4)),
    one!(ProcessManagement, "MPI_Comm_join", NONE.created(1)),
    one!(ProcessManagement, "MPI_Comm_disconnect", NONE).ends(HandleKind::Communicator),
    one!(ProcessManagement, "MPI_Open_port", NONE),
    one!(ProcessManagement, "MPI_Close_port", NONE),
    one!(ProcessManagement, "MPI_Publish_name", NONE),
    one!(ProcessManagement, "MPI_Unpublish_name", NONE),
    one!(ProcessManagement, "MPI_Lookup_name", NONE),
];

const ENVIRONMENT: &[Row] = &[
    one!(Environment, "MPI_Init", NONE),
    one!(Environment, "MPI_Init_thread", NONE),
    one!(Environment, "MPI_Finalize", NONE),
    one!(Environment, "MPI_Session_init", NONE),
    one!(Environment, "MPI_Session_finalize", NONE),
    one!(Environment, "MPI_Abort", NONE.comm(0)),
];

/// Fault tolerance (ULFM), common to MPICH and Open MPI.
const EXTENSIONS: &[Row] = &[
    one!(CommunicatorManagement, "MPIX_Comm_agree", NONE.comm(0)).synchronising(),
    one!(CommunicatorManagement, "MPIX_Comm_iagree", NONE.comm(0).request(2)),
    one!(CommunicatorManagement, "MPIX_Comm_shrink", NONE.comm(0).created(1)).synchronising(),
    one!(CommunicatorManagement, "MPIX_Comm_ishrink", NONE.comm(0).created(1).request(2)),
    one!(CommunicatorManagement, "MPIX_Comm_revoke", NONE.comm(0)),
];
