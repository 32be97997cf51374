/* Every function of MPI that is more than a local query, by its C name without "MPI_" and by its Fortran name.
 *
 * A name that a library lacks does no harm: trace.c refers to it weakly, and nobody calls it. Large-count twins
 * ("MPI_Send_c") are left out; no program of Debian's calls one. Next: trace.c.
 */
#define EVERY_FUNCTION(X) \
    X(Accumulate, accumulate) X(Allgather, allgather) X(Allgather_init, allgather_init) X(Allgatherv, allgatherv)      \
    X(Allgatherv_init, allgatherv_init) X(Allreduce, allreduce) X(Allreduce_init, allreduce_init)                      \
    X(Alltoall, alltoall) X(Alltoall_init, alltoall_init) X(Alltoallv, alltoallv) X(Alltoallv_init, alltoallv_init)    \
    X(Alltoallw, alltoallw) X(Alltoallw_init, alltoallw_init) X(Barrier, barrier) X(Barrier_init, barrier_init)        \
    X(Bcast, bcast) X(Bcast_init, bcast_init) X(Bsend, bsend) X(Bsend_init, bsend_init)                                \
    X(Buffer_detach, buffer_detach) X(Cancel, cancel) X(Cart_create, cart_create) X(Cart_map, cart_map)                \
    X(Cart_sub, cart_sub) X(Close_port, close_port) X(Comm_accept, comm_accept) X(Comm_connect, comm_connect)          \
    X(Comm_create, comm_create) X(Comm_create_from_group, comm_create_from_group)                                      \
    X(Comm_create_group, comm_create_group) X(Comm_disconnect, comm_disconnect) X(Comm_dup, comm_dup)                  \
    X(Comm_dup_with_info, comm_dup_with_info) X(Comm_free, comm_free) X(Comm_idup, comm_idup)                          \
    X(Comm_idup_with_info, comm_idup_with_info) X(Comm_join, comm_join) X(Comm_set_info, comm_set_info)                \
    X(Comm_spawn, comm_spawn) X(Comm_spawn_multiple, comm_spawn_multiple) X(Comm_split, comm_split)                    \
    X(Comm_split_type, comm_split_type) X(Compare_and_swap, compare_and_swap)                                          \
    X(Dist_graph_create, dist_graph_create) X(Dist_graph_create_adjacent, dist_graph_create_adjacent)                  \
    X(Exscan, exscan) X(Exscan_init, exscan_init) X(Fetch_and_op, fetch_and_op) X(File_close, file_close)              \
    X(File_delete, file_delete) X(File_get_position_shared, file_get_position_shared)                                  \
    X(File_get_size, file_get_size) X(File_iread, file_iread) X(File_iread_all, file_iread_all)                        \
    X(File_iread_at, file_iread_at) X(File_iread_at_all, file_iread_at_all) X(File_iread_shared, file_iread_shared)    \
    X(File_iwrite, file_iwrite) X(File_iwrite_all, file_iwrite_all) X(File_iwrite_at, file_iwrite_at)                  \
    X(File_iwrite_at_all, file_iwrite_at_all) X(File_iwrite_shared, file_iwrite_shared) X(File_open, file_open)        \
    X(File_preallocate, file_preallocate) X(File_read, file_read) X(File_read_all, file_read_all)                      \
    X(File_read_all_begin, file_read_all_begin) X(File_read_all_end, file_read_all_end)                                \
    X(File_read_at, file_read_at) X(File_read_at_all, file_read_at_all)                                                \
    X(File_read_at_all_begin, file_read_at_all_begin) X(File_read_at_all_end, file_read_at_all_end)                    \
    X(File_read_ordered, file_read_ordered) X(File_read_ordered_begin, file_read_ordered_begin)                        \
    X(File_read_ordered_end, file_read_ordered_end) X(File_read_shared, file_read_shared)                              \
    X(File_seek_shared, file_seek_shared) X(File_set_atomicity, file_set_atomicity) X(File_set_info, file_set_info)    \
    X(File_set_size, file_set_size) X(File_set_view, file_set_view) X(File_sync, file_sync)                            \
    X(File_write, file_write) X(File_write_all, file_write_all) X(File_write_all_begin, file_write_all_begin)          \
    X(File_write_all_end, file_write_all_end) X(File_write_at, file_write_at)                                          \
    X(File_write_at_all, file_write_at_all) X(File_write_at_all_begin, file_write_at_all_begin)                        \
    X(File_write_at_all_end, file_write_at_all_end) X(File_write_ordered, file_write_ordered)                          \
    X(File_write_ordered_begin, file_write_ordered_begin) X(File_write_ordered_end, file_write_ordered_end)            \
    X(File_write_shared, file_write_shared) X(Finalize, finalize) X(Gather, gather) X(Gather_init, gather_init)        \
    X(Gatherv, gatherv) X(Gatherv_init, gatherv_init) X(Get, get) X(Get_accumulate, get_accumulate)                    \
    X(Graph_create, graph_create) X(Graph_map, graph_map) X(Iallgather, iallgather) X(Iallgatherv, iallgatherv)        \
    X(Iallreduce, iallreduce) X(Ialltoall, ialltoall) X(Ialltoallv, ialltoallv) X(Ialltoallw, ialltoallw)              \
    X(Ibarrier, ibarrier) X(Ibcast, ibcast) X(Ibsend, ibsend) X(Iexscan, iexscan) X(Igather, igather)                  \
    X(Igatherv, igatherv) X(Improbe, improbe) X(Imrecv, imrecv) X(Ineighbor_allgather, ineighbor_allgather)            \
    X(Ineighbor_allgatherv, ineighbor_allgatherv) X(Ineighbor_alltoall, ineighbor_alltoall)                            \
    X(Ineighbor_alltoallv, ineighbor_alltoallv) X(Ineighbor_alltoallw, ineighbor_alltoallw) X(Init, init)              \
    X(Init_thread, init_thread) X(Intercomm_create, intercomm_create)                                                  \
    X(Intercomm_create_from_groups, intercomm_create_from_groups) X(Intercomm_merge, intercomm_merge)                  \
    X(Iprobe, iprobe) X(Irecv, irecv) X(Ireduce, ireduce) X(Ireduce_scatter, ireduce_scatter)                          \
    X(Ireduce_scatter_block, ireduce_scatter_block) X(Irsend, irsend) X(Iscan, iscan) X(Iscatter, iscatter)            \
    X(Iscatterv, iscatterv) X(Isend, isend) X(Isendrecv, isendrecv) X(Isendrecv_replace, isendrecv_replace)            \
    X(Issend, issend) X(Lookup_name, lookup_name) X(Mprobe, mprobe) X(Mrecv, mrecv)                                    \
    X(Neighbor_allgather, neighbor_allgather) X(Neighbor_allgather_init, neighbor_allgather_init)                      \
    X(Neighbor_allgatherv, neighbor_allgatherv) X(Neighbor_allgatherv_init, neighbor_allgatherv_init)                  \
    X(Neighbor_alltoall, neighbor_alltoall) X(Neighbor_alltoall_init, neighbor_alltoall_init)                          \
    X(Neighbor_alltoallv, neighbor_alltoallv) X(Neighbor_alltoallv_init, neighbor_alltoallv_init)                      \
    X(Neighbor_alltoallw, neighbor_alltoallw) X(Neighbor_alltoallw_init, neighbor_alltoallw_init)                      \
    X(Open_port, open_port) X(Parrived, parrived) X(Pready, pready) X(Pready_list, pready_list)                        \
    X(Pready_range, pready_range) X(Precv_init, precv_init) X(Probe, probe) X(Psend_init, psend_init)                  \
    X(Publish_name, publish_name) X(Put, put) X(Raccumulate, raccumulate) X(Recv, recv) X(Recv_init, recv_init)        \
    X(Reduce, reduce) X(Reduce_init, reduce_init) X(Reduce_scatter, reduce_scatter)                                    \
    X(Reduce_scatter_block, reduce_scatter_block) X(Reduce_scatter_block_init, reduce_scatter_block_init)              \
    X(Reduce_scatter_init, reduce_scatter_init) X(Request_free, request_free)                                          \
    X(Request_get_status, request_get_status) X(Rget, rget) X(Rget_accumulate, rget_accumulate) X(Rput, rput)          \
    X(Rsend, rsend) X(Rsend_init, rsend_init) X(Scan, scan) X(Scan_init, scan_init) X(Scatter, scatter)                \
    X(Scatter_init, scatter_init) X(Scatterv, scatterv) X(Scatterv_init, scatterv_init) X(Send, send)                  \
    X(Send_init, send_init) X(Sendrecv, sendrecv) X(Sendrecv_replace, sendrecv_replace)                                \
    X(Session_finalize, session_finalize) X(Session_init, session_init) X(Ssend, ssend) X(Ssend_init, ssend_init)      \
    X(Start, start) X(Startall, startall) X(Test, test) X(Testall, testall) X(Testany, testany)                        \
    X(Testsome, testsome) X(Unpublish_name, unpublish_name) X(Wait, wait) X(Waitall, waitall) X(Waitany, waitany)      \
    X(Waitsome, waitsome) X(Win_allocate, win_allocate) X(Win_allocate_shared, win_allocate_shared)                    \
    X(Win_complete, win_complete) X(Win_create, win_create) X(Win_create_dynamic, win_create_dynamic)                  \
    X(Win_fence, win_fence) X(Win_flush, win_flush) X(Win_flush_all, win_flush_all)                                    \
    X(Win_flush_local, win_flush_local) X(Win_flush_local_all, win_flush_local_all) X(Win_free, win_free)              \
    X(Win_lock, win_lock) X(Win_lock_all, win_lock_all) X(Win_post, win_post) X(Win_set_info, win_set_info)            \
    X(Win_start, win_start) X(Win_sync, win_sync) X(Win_test, win_test) X(Win_unlock, win_unlock)                      \
    X(Win_unlock_all, win_unlock_all) X(Win_wait, win_wait)
