/* Wrappers of the functions that take counts. Included by wrap.c with COUNT/DISPL = int and, where the library is
 * MPI 4, once more with MPI_Count/MPI_Aint for the "_c" twins: NAME(x), REAL(x) and ID(x) name the wrapper, the
 * library's function and the id. A body says what the call sends (the conventions are wrap.c's), then DO runs it.
 */

#define SENDING(x)                                                                                                     \
    int NAME(x)(const void *buffer, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {                \
        struct call call = enter(ID(x));                                                                               \
        sent(&call, comm, dest, payload(count, type), POINT_TO_POINT);                                                 \
        DO(REAL(x)(buffer, count, type, dest, tag, comm));                                                             \
    }
SENDING(Send)
SENDING(Bsend)
SENDING(Ssend)
SENDING(Rsend)
#undef SENDING

#define POSTING(x)                                                                                                     \
    int NAME(x)(const void *buffer, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,                  \
                MPI_Request *request) {                                                                                \
        struct call call = enter(ID(x));                                                                               \
        sent(&call, comm, dest, payload(count, type), POINT_TO_POINT);                                                 \
        DO(REAL(x)(buffer, count, type, dest, tag, comm, request));                                                    \
    }
POSTING(Isend)
POSTING(Ibsend)
POSTING(Issend)
POSTING(Irsend)
#undef POSTING

#define PREPARING(x)                                                                                                   \
    int NAME(x)(const void *buffer, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,                  \
                MPI_Request *request) {                                                                                \
        struct call call = enter(ID(x));                                                                               \
        start(&call);                                                                                                  \
        int status = REAL(x)(buffer, count, type, dest, tag, comm, request);                                           \
        leave(&call);                                                                                                  \
        if (status == MPI_SUCCESS) remember(*request, world_rank(comm, dest), payload(count, type));                   \
        return status;                                                                                                 \
    }
PREPARING(Send_init)
PREPARING(Bsend_init)
PREPARING(Ssend_init)
PREPARING(Rsend_init)
#undef PREPARING

int NAME(Recv)(void *buffer, COUNT count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status) {
    struct call call = enter(ID(Recv));
    DO(REAL(Recv)(buffer, count, type, source, tag, comm, status));
}

int NAME(Irecv)(void *buffer, COUNT count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                MPI_Request *request) {
    struct call call = enter(ID(Irecv));
    DO(REAL(Irecv)(buffer, count, type, source, tag, comm, request));
}

int NAME(Recv_init)(void *buffer, COUNT count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                    MPI_Request *request) {
    struct call call = enter(ID(Recv_init));
    DO(REAL(Recv_init)(buffer, count, type, source, tag, comm, request));
}

int NAME(Mrecv)(void *buffer, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Status *status) {
    struct call call = enter(ID(Mrecv));
    DO(REAL(Mrecv)(buffer, count, type, message, status));
}

int NAME(Imrecv)(void *buffer, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Request *request) {
    struct call call = enter(ID(Imrecv));
    DO(REAL(Imrecv)(buffer, count, type, message, request));
}

int NAME(Sendrecv)(const void *send, COUNT send_count, MPI_Datatype send_type, int dest, int send_tag, void *receive,
                   COUNT receive_count, MPI_Datatype receive_type, int source, int receive_tag, MPI_Comm comm,
                   MPI_Status *status) {
    struct call call = enter(ID(Sendrecv));
    sent(&call, comm, dest, payload(send_count, send_type), POINT_TO_POINT);
    DO(REAL(Sendrecv)(send, send_count, send_type, dest, send_tag, receive, receive_count, receive_type, source,
                      receive_tag, comm, status));
}

int NAME(Sendrecv_replace)(void *buffer, COUNT count, MPI_Datatype type, int dest, int send_tag, int source,
                           int receive_tag, MPI_Comm comm, MPI_Status *status) {
    struct call call = enter(ID(Sendrecv_replace));
    sent(&call, comm, dest, payload(count, type), POINT_TO_POINT);
    DO(REAL(Sendrecv_replace)(buffer, count, type, dest, send_tag, source, receive_tag, comm, status));
}

/* Each collective comes blocking (no tail) and non-blocking (", request"): COLLECTIVE(x, Ix, (parameters), (arguments),
 * what it sends). */
#define OPEN(...) __VA_ARGS__
#define COLLECTIVE(x, ix, parameters, arguments, account)                                                              \
    int NAME(x)(OPEN parameters) {                                                                                     \
        struct call call = enter(ID(x));                                                                               \
        account;                                                                                                       \
        DO(REAL(x)(OPEN arguments));                                                                                   \
    }                                                                                                                  \
    int NAME(ix)(OPEN parameters, MPI_Request * request) {                                                             \
        struct call call = enter(ID(ix));                                                                              \
        account;                                                                                                       \
        DO(REAL(ix)(OPEN arguments, request));                                                                         \
    }

COLLECTIVE(Bcast, Ibcast, (void *buffer, COUNT count, MPI_Datatype type, int root, MPI_Comm comm),
           (buffer, count, type, root, comm),
           if (is_root(comm, root)) sent_to_others(&call, comm, payload(count, type)))

COLLECTIVE(Gather, Igather,
           (const void *send, COUNT send_count, MPI_Datatype send_type, void *receive, COUNT receive_count,
            MPI_Datatype receive_type, int root, MPI_Comm comm),
           (send, send_count, send_type, receive, receive_count, receive_type, root, comm),
           if (!is_root(comm, root)) sent_to_root(&call, comm, root, payload(send_count, send_type)))

COLLECTIVE(Gatherv, Igatherv,
           (const void *send, COUNT send_count, MPI_Datatype send_type, void *receive, const COUNT receive_counts[],
            const DISPL displacements[], MPI_Datatype receive_type, int root, MPI_Comm comm),
           (send, send_count, send_type, receive, receive_counts, displacements, receive_type, root, comm),
           if (!is_root(comm, root)) sent_to_root(&call, comm, root, payload(send_count, send_type)))

COLLECTIVE(Scatter, Iscatter,
           (const void *send, COUNT send_count, MPI_Datatype send_type, void *receive, COUNT receive_count,
            MPI_Datatype receive_type, int root, MPI_Comm comm),
           (send, send_count, send_type, receive, receive_count, receive_type, root, comm),
           if (is_root(comm, root)) sent_to_others(&call, comm, payload(send_count, send_type)))

COLLECTIVE(Scatterv, Iscatterv,
           (const void *send, const COUNT send_counts[], const DISPL displacements[], MPI_Datatype send_type,
            void *receive, COUNT receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm),
           (send, send_counts, displacements, send_type, receive, receive_count, receive_type, root, comm),
           if (is_root(comm, root)) for (int peer = 0; peer < peers(comm); peer++)
               sent_to_other(&call, comm, peer, payload(send_counts[peer], send_type)))

COLLECTIVE(Allgather, Iallgather,
           (const void *send, COUNT send_count, MPI_Datatype send_type, void *receive, COUNT receive_count,
            MPI_Datatype receive_type, MPI_Comm comm),
           (send, send_count, send_type, receive, receive_count, receive_type, comm),
           sent_to_others(&call, comm, send == MPI_IN_PLACE ? payload(receive_count, receive_type)
                                                            : payload(send_count, send_type)))

COLLECTIVE(Allgatherv, Iallgatherv,
           (const void *send, COUNT send_count, MPI_Datatype send_type, void *receive, const COUNT receive_counts[],
            const DISPL displacements[], MPI_Datatype receive_type, MPI_Comm comm),
           (send, send_count, send_type, receive, receive_counts, displacements, receive_type, comm),
           sent_to_others(&call, comm, send == MPI_IN_PLACE ? payload(receive_counts[own_rank(comm)], receive_type)
                                                            : payload(send_count, send_type)))

COLLECTIVE(Alltoall, Ialltoall,
           (const void *send, COUNT send_count, MPI_Datatype send_type, void *receive, COUNT receive_count,
            MPI_Datatype receive_type, MPI_Comm comm),
           (send, send_count, send_type, receive, receive_count, receive_type, comm),
           sent_to_others(&call, comm, send == MPI_IN_PLACE ? payload(receive_count, receive_type)
                                                            : payload(send_count, send_type)))

COLLECTIVE(Alltoallv, Ialltoallv,
           (const void *send, const COUNT send_counts[], const DISPL send_displacements[], MPI_Datatype send_type,
            void *receive, const COUNT receive_counts[], const DISPL receive_displacements[],
            MPI_Datatype receive_type, MPI_Comm comm),
           (send, send_counts, send_displacements, send_type, receive, receive_counts, receive_displacements,
            receive_type, comm),
           for (int peer = 0; peer < peers(comm); peer++)
               sent_to_other(&call, comm, peer, send == MPI_IN_PLACE ? payload(receive_counts[peer], receive_type)
                                                                     : payload(send_counts[peer], send_type)))

COLLECTIVE(Alltoallw, Ialltoallw,
           (const void *send, const COUNT send_counts[], const DISPL send_displacements[],
            const MPI_Datatype send_types[], void *receive, const COUNT receive_counts[],
            const DISPL receive_displacements[], const MPI_Datatype receive_types[], MPI_Comm comm),
           (send, send_counts, send_displacements, send_types, receive, receive_counts, receive_displacements,
            receive_types, comm),
           for (int peer = 0; peer < peers(comm); peer++)
               sent_to_other(&call, comm, peer, send == MPI_IN_PLACE ? payload(receive_counts[peer], receive_types[peer])
                                                                     : payload(send_counts[peer], send_types[peer])))

COLLECTIVE(Reduce, Ireduce,
           (const void *send, void *receive, COUNT count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
           (send, receive, count, type, op, root, comm),
           if (!is_root(comm, root)) sent_to_root(&call, comm, root, payload(count, type)))

COLLECTIVE(Allreduce, Iallreduce,
           (const void *send, void *receive, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (send, receive, count, type, op, comm), contributed(&call, payload(count, type)))

COLLECTIVE(Scan, Iscan, (const void *send, void *receive, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (send, receive, count, type, op, comm), contributed(&call, payload(count, type)))

COLLECTIVE(Exscan, Iexscan,
           (const void *send, void *receive, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (send, receive, count, type, op, comm), contributed(&call, payload(count, type)))

COLLECTIVE(Reduce_scatter, Ireduce_scatter,
           (const void *send, void *receive, const COUNT receive_counts[], MPI_Datatype type, MPI_Op op,
            MPI_Comm comm),
           (send, receive, receive_counts, type, op, comm),
           for (int rank = 0; rank < members(comm); rank++) contributed(&call, payload(receive_counts[rank], type)))

COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block,
           (const void *send, void *receive, COUNT receive_count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (send, receive, receive_count, type, op, comm),
           contributed(&call, payload(receive_count, type) * (uint64_t)members(comm)))

#undef COLLECTIVE
#undef OPEN
