/* The functions the wrapper times, by their name without "MPI_".
 *
 * COUNTED: has a large-count twin "MPI_x_c" in MPI 4, so its wrapper stands in calls.h and is compiled for both.
 * PLAIN: has none; its wrapper stands in plain.h. Next: wrap.c, which makes ids and names of this list.
 */
#define COUNTED_FUNCTIONS(X)                                                                                           \
    X(Send) X(Bsend) X(Ssend) X(Rsend) X(Isend) X(Ibsend) X(Issend) X(Irsend) X(Recv) X(Irecv) X(Mrecv) X(Imrecv)      \
    X(Send_init) X(Bsend_init) X(Ssend_init) X(Rsend_init) X(Recv_init) X(Sendrecv) X(Sendrecv_replace)                \
    X(Bcast) X(Gather) X(Gatherv) X(Scatter) X(Scatterv) X(Allgather) X(Allgatherv) X(Alltoall) X(Alltoallv)           \
    X(Alltoallw) X(Reduce) X(Allreduce) X(Reduce_scatter) X(Reduce_scatter_block) X(Scan) X(Exscan)                    \
    X(Ibcast) X(Igather) X(Igatherv) X(Iscatter) X(Iscatterv) X(Iallgather) X(Iallgatherv) X(Ialltoall) X(Ialltoallv)  \
    X(Ialltoallw) X(Ireduce) X(Iallreduce) X(Ireduce_scatter) X(Ireduce_scatter_block) X(Iscan) X(Iexscan)

#define PLAIN_FUNCTIONS(X)                                                                                             \
    X(Wait) X(Waitall) X(Waitany) X(Waitsome) X(Test) X(Testall) X(Testany) X(Testsome) X(Probe) X(Iprobe) X(Mprobe)   \
    X(Improbe) X(Start) X(Startall) X(Barrier) X(Ibarrier)
