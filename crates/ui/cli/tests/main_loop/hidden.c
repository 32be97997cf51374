// A loop that is entered at several places, and of which no block is passed once in each pass: how often it is passed can't be
// counted. The steps are in a function that it calls; while that one runs, the loop around it is not passed.
//
// Next: ../main_loop.rs.
#include <mpi.h>
#include <stdlib.h>

static volatile double state = 1;

__attribute__((noinline)) static int stays(void) { return state > 0; }

__attribute__((noinline)) static void steps(int rank, int size, long count) {
    double own[40] = {0}, other[40], sum;
    for (long step = 0; step < count; step++) {
        for (int k = 0; k < 20000; k++) state = state * 0.5 + 1;
        for (int part = 0; part < 3; part++)
            MPI_Sendrecv(own, 40, MPI_DOUBLE, (rank + 1) % size, 1, other, 40, MPI_DOUBLE, (rank + size - 1) % size, 1,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (step % 4 == 3) MPI_Allreduce(own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long count = argc > 1 ? atol(argv[1]) : 1000000000;
    if (stays()) goto second;
first:
    state += 1;
    if (stays()) goto third;
second:
    steps(rank, size, count);
    if (!stays()) goto first;
third:
    steps(rank, size, count);
    if (!stays()) goto first;
    goto second;
}
