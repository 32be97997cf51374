/* Wrappers of the functions without counts: completion, probing, persistent starts, barriers. Included once by wrap.c. */

#define PLAIN(x, parameters, arguments)                                                                                \
    int MPI_##x parameters {                                                                                           \
        struct call call = enter(ID_##x);                                                                              \
        DO(PMPI_##x arguments);                                                                                        \
    }
PLAIN(Wait, (MPI_Request * request, MPI_Status *status), (request, status))
PLAIN(Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]), (count, requests, statuses))
PLAIN(Waitany, (int count, MPI_Request requests[], int *index, MPI_Status *status), (count, requests, index, status))
PLAIN(Waitsome, (int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[]),
      (count, requests, done, indices, statuses))
PLAIN(Test, (MPI_Request * request, int *flag, MPI_Status *status), (request, flag, status))
PLAIN(Testall, (int count, MPI_Request requests[], int *flag, MPI_Status statuses[]), (count, requests, flag, statuses))
PLAIN(Testany, (int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status),
      (count, requests, index, flag, status))
PLAIN(Testsome, (int count, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[]),
      (count, requests, done, indices, statuses))
PLAIN(Probe, (int source, int tag, MPI_Comm comm, MPI_Status *status), (source, tag, comm, status))
PLAIN(Iprobe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status), (source, tag, comm, flag, status))
PLAIN(Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status),
      (source, tag, comm, message, status))
PLAIN(Improbe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status),
      (source, tag, comm, flag, message, status))
PLAIN(Barrier, (MPI_Comm comm), (comm))
PLAIN(Ibarrier, (MPI_Comm comm, MPI_Request *request), (comm, request))
#undef PLAIN

int MPI_Start(MPI_Request *request) {
    struct call call = enter(ID_Start);
    sent_again(&call, *request);
    DO(PMPI_Start(request));
}

int MPI_Startall(int count, MPI_Request requests[]) {
    struct call call = enter(ID_Startall);
    for (int i = 0; i < count; i++) sent_again(&call, requests[i]);
    DO(PMPI_Startall(count, requests));
}

/* Not timed: only ends what remember() began, because the library may use the handle again. */
int MPI_Request_free(MPI_Request *request) {
    forget(*request);
    return PMPI_Request_free(request);
}
