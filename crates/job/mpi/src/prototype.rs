//! The arguments of MPI functions by name, as the MPI standard writes them (without the `MPI_` functions' C types).
//!
//! Next: scripts use them as `$count`, `$dest` and so on.

/// Names of a function's arguments in C order; `None` for functions not listed. The profiling name and the large-count
/// form have the same arguments.
pub fn prototype(function: &str) -> Option<&'static [&'static str]> {
    let name = function.strip_prefix('P').unwrap_or(function);
    let name = name.strip_prefix("MPI_")?;
    let name = name.strip_suffix("_c").unwrap_or(name);
    TABLE.iter().find(|(names, _)| names.contains(&name)).map(|(_, arguments)| *arguments)
}

type Row = (&'static [&'static str], &'static [&'static str]);

const TABLE: &[Row] = &[
    (&["Send", "Bsend", "Ssend", "Rsend"], &["buf", "count", "datatype", "dest", "tag", "comm"]),
    (
        &["Isend", "Ibsend", "Issend", "Irsend", "Send_init", "Bsend_init", "Ssend_init", "Rsend_init"],
        &["buf", "count", "datatype", "dest", "tag", "comm", "request"],
    ),
    (&["Recv"], &["buf", "count", "datatype", "source", "tag", "comm", "status"]),
    (&["Irecv", "Recv_init"], &["buf", "count", "datatype", "source", "tag", "comm", "request"]),
    (
        &["Sendrecv"],
        &[
            "sendbuf",
            "sendcount",
            "sendtype",
            "dest",
            "sendtag",
            "recvbuf",
            "recvcount",
            "recvtype",
            "source",
            "recvtag",
            "comm",
            "status",
        ],
    ),
    (&["Sendrecv_replace"], &["buf", "count", "datatype", "dest", "sendtag", "source", "recvtag", "comm", "status"]),
    (&["Probe"], &["source", "tag", "comm", "status"]),
    (&["Iprobe"], &["source", "tag", "comm", "flag", "status"]),
    (&["Wait"], &["request", "status"]),
    (&["Test"], &["request", "flag", "status"]),
    (&["Waitall"], &["count", "requests", "statuses"]),
    (&["Waitany"], &["count", "requests", "index", "status"]),
    (&["Waitsome", "Testsome"], &["incount", "requests", "outcount", "indices", "statuses"]),
    (&["Testall"], &["count", "requests", "flag", "statuses"]),
    (&["Testany"], &["count", "requests", "index", "flag", "status"]),
    (&["Start"], &["request"]),
    (&["Startall"], &["count", "requests"]),
    (&["Barrier", "Comm_free_keyval"], &["comm"]),
    (&["Ibarrier"], &["comm", "request"]),
    (&["Bcast"], &["buffer", "count", "datatype", "root", "comm"]),
    (&["Ibcast"], &["buffer", "count", "datatype", "root", "comm", "request"]),
    (&["Reduce"], &["sendbuf", "recvbuf", "count", "datatype", "op", "root", "comm"]),
    (&["Ireduce"], &["sendbuf", "recvbuf", "count", "datatype", "op", "root", "comm", "request"]),
    (
        &["Allreduce", "Scan", "Exscan", "Reduce_scatter_block"],
        &["sendbuf", "recvbuf", "count", "datatype", "op", "comm"],
    ),
    (
        &["Iallreduce", "Iscan", "Iexscan", "Ireduce_scatter_block"],
        &["sendbuf", "recvbuf", "count", "datatype", "op", "comm", "request"],
    ),
    (&["Reduce_scatter"], &["sendbuf", "recvbuf", "recvcounts", "datatype", "op", "comm"]),
    (&["Gather", "Scatter"], &["sendbuf", "sendcount", "sendtype", "recvbuf", "recvcount", "recvtype", "root", "comm"]),
    (
        &["Gatherv"],
        &["sendbuf", "sendcount", "sendtype", "recvbuf", "recvcounts", "displs", "recvtype", "root", "comm"],
    ),
    (
        &["Scatterv"],
        &["sendbuf", "sendcounts", "displs", "sendtype", "recvbuf", "recvcount", "recvtype", "root", "comm"],
    ),
    (&["Allgather", "Alltoall"], &["sendbuf", "sendcount", "sendtype", "recvbuf", "recvcount", "recvtype", "comm"]),
    (&["Allgatherv"], &["sendbuf", "sendcount", "sendtype", "recvbuf", "recvcounts", "displs", "recvtype", "comm"]),
    (
        &["Alltoallv"],
        &["sendbuf", "sendcounts", "sdispls", "sendtype", "recvbuf", "recvcounts", "rdispls", "recvtype", "comm"],
    ),
    (
        &["Put", "Get"],
        &[
            "origin_addr",
            "origin_count",
            "datatype",
            "target_rank",
            "target_disp",
            "target_count",
            "target_datatype",
            "win",
        ],
    ),
    (&["Win_fence"], &["assert", "win"]),
    (&["Comm_rank"], &["comm", "rank"]),
    (&["Comm_size"], &["comm", "size"]),
    (&["Comm_dup"], &["comm", "newcomm"]),
    (&["Comm_split"], &["comm", "color", "key", "newcomm"]),
    (&["Comm_free"], &["comm"]),
    (&["Abort"], &["comm", "errorcode"]),
    (&["Init"], &["argc", "argv"]),
    (&["Finalize"], &[]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    #[test]
    fn names_agree_with_the_catalogue() {
        for (names, arguments) in TABLE {
            for name in *names {
                let Some(function) = find(&format!("MPI_{name}")) else { continue };
                let accounting = &function.accounting;
                for (index, expected) in
                    [(accounting.comm, "comm"), (accounting.request, "request"), (accounting.datatype, "datatype")]
                {
                    let Some(found) = arguments.get(usize::from(index)) else { continue };
                    let fits = found.starts_with(expected) || (expected == "datatype" && found.ends_with("type"));
                    assert!(fits, "MPI_{name}: argument {index} is {found}, the catalogue says {expected}");
                }
            }
        }
        assert_eq!(prototype("PMPI_Send_c"), prototype("MPI_Send"));
        assert_eq!(prototype("send"), None);
    }
}
