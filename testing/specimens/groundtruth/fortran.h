/* Fortran entry points of Open MPI, whose Fortran library calls PMPI_x directly and so passes the wrappers by
 * (MPICH's calls MPI_x and needs none of this). Each turns handles into C ones and calls our wrapper.
 * "mpi_x_" is what `use mpi` and mpif.h call, "ompi_x_f" what the mpi_f08 module reaches. Only the functions that
 * the Fortran specimens use are here. Included once by wrap.c.
 */

extern int mpi_fortran_status_ignore_ __attribute__((weak));
extern int mpi_fortran_statuses_ignore_ __attribute__((weak));
extern int mpi_fortran_in_place_ __attribute__((weak));

#define FORTRAN(x, parameters, body)                                                                                   \
    void ompi_##x##_f parameters body                                                                                  \
    void mpi_##x##_ parameters __attribute__((alias("ompi_" #x "_f")));

static const void *c_buffer(const void *buffer) { return buffer == &mpi_fortran_in_place_ ? MPI_IN_PLACE : buffer; }

static void give_status(const MPI_Status *status, MPI_Fint *fortran) {
    if (fortran && fortran != &mpi_fortran_status_ignore_) PMPI_Status_c2f(status, fortran);
}

FORTRAN(init, (MPI_Fint * error), { *error = MPI_Init(NULL, NULL); })
FORTRAN(finalize, (MPI_Fint * error), { *error = MPI_Finalize(); })
FORTRAN(barrier, (MPI_Fint * comm, MPI_Fint *error), { *error = MPI_Barrier(PMPI_Comm_f2c(*comm)); })

FORTRAN(send, (void *buffer, MPI_Fint *count, MPI_Fint *type, MPI_Fint *dest, MPI_Fint *tag, MPI_Fint *comm,
               MPI_Fint *error),
        { *error = MPI_Send(buffer, *count, PMPI_Type_f2c(*type), *dest, *tag, PMPI_Comm_f2c(*comm)); })

FORTRAN(recv, (void *buffer, MPI_Fint *count, MPI_Fint *type, MPI_Fint *source, MPI_Fint *tag, MPI_Fint *comm,
               MPI_Fint *status, MPI_Fint *error), {
    MPI_Status done;
    *error = MPI_Recv(buffer, *count, PMPI_Type_f2c(*type), *source, *tag, PMPI_Comm_f2c(*comm), &done);
    give_status(&done, status);
})

FORTRAN(isend, (void *buffer, MPI_Fint *count, MPI_Fint *type, MPI_Fint *dest, MPI_Fint *tag, MPI_Fint *comm,
                MPI_Fint *request, MPI_Fint *error), {
    MPI_Request posted;
    *error = MPI_Isend(buffer, *count, PMPI_Type_f2c(*type), *dest, *tag, PMPI_Comm_f2c(*comm), &posted);
    *request = PMPI_Request_c2f(posted);
})

FORTRAN(irecv, (void *buffer, MPI_Fint *count, MPI_Fint *type, MPI_Fint *source, MPI_Fint *tag, MPI_Fint *comm,
                MPI_Fint *request, MPI_Fint *error), {
    MPI_Request posted;
    *error = MPI_Irecv(buffer, *count, PMPI_Type_f2c(*type), *source, *tag, PMPI_Comm_f2c(*comm), &posted);
    *request = PMPI_Request_c2f(posted);
})

FORTRAN(wait, (MPI_Fint * request, MPI_Fint *status, MPI_Fint *error), {
    MPI_Request posted = PMPI_Request_f2c(*request);
    MPI_Status done;
    *error = MPI_Wait(&posted, &done);
    *request = PMPI_Request_c2f(posted);
    give_status(&done, status);
})

/* Statuses are dropped: the specimens pass MPI_STATUSES_IGNORE. */
FORTRAN(waitall, (MPI_Fint * count, MPI_Fint requests[], MPI_Fint statuses[], MPI_Fint *error), {
    MPI_Request posted[64];
    if (*count > 64 || statuses != &mpi_fortran_statuses_ignore_) PMPI_Abort(MPI_COMM_WORLD, 9);
    for (int i = 0; i < *count; i++) posted[i] = PMPI_Request_f2c(requests[i]);
    *error = MPI_Waitall(*count, posted, MPI_STATUSES_IGNORE);
    for (int i = 0; i < *count; i++) requests[i] = PMPI_Request_c2f(posted[i]);
})

FORTRAN(sendrecv, (void *send, MPI_Fint *send_count, MPI_Fint *send_type, MPI_Fint *dest, MPI_Fint *send_tag,
                   void *receive, MPI_Fint *receive_count, MPI_Fint *receive_type, MPI_Fint *source,
                   MPI_Fint *receive_tag, MPI_Fint *comm, MPI_Fint *status, MPI_Fint *error), {
    MPI_Status done;
    *error = MPI_Sendrecv(send, *send_count, PMPI_Type_f2c(*send_type), *dest, *send_tag, receive, *receive_count,
                          PMPI_Type_f2c(*receive_type), *source, *receive_tag, PMPI_Comm_f2c(*comm), &done);
    give_status(&done, status);
})

FORTRAN(bcast, (void *buffer, MPI_Fint *count, MPI_Fint *type, MPI_Fint *root, MPI_Fint *comm, MPI_Fint *error),
        { *error = MPI_Bcast(buffer, *count, PMPI_Type_f2c(*type), *root, PMPI_Comm_f2c(*comm)); })

FORTRAN(reduce, (void *send, void *receive, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op, MPI_Fint *root,
                 MPI_Fint *comm, MPI_Fint *error), {
    *error = MPI_Reduce(c_buffer(send), receive, *count, PMPI_Type_f2c(*type), PMPI_Op_f2c(*op), *root,
                        PMPI_Comm_f2c(*comm));
})

FORTRAN(allreduce, (void *send, void *receive, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op, MPI_Fint *comm,
                    MPI_Fint *error), {
    *error = MPI_Allreduce(c_buffer(send), receive, *count, PMPI_Type_f2c(*type), PMPI_Op_f2c(*op),
                           PMPI_Comm_f2c(*comm));
})
