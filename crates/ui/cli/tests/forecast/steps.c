/* Steps that sleep, so that their time does not depend on who else computes; every 50th sleeps as long as ten. The first
 * argument is their number. Rank 0 prints "step N" for every tenth, and "end SECONDS" when the loop is over. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int rank, ranks;
static long done;

static void __attribute__((noinline)) step(void)
{
    double out = 1, in = 0;
    struct timespec pause = {0, done % 50 == 49 ? 50000000 : 5000000};
    nanosleep(&pause, NULL);
    MPI_Sendrecv(&out, 1, MPI_DOUBLE, (rank + 1) % ranks, 1, &in, 1, MPI_DOUBLE, (rank + ranks - 1) % ranks, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    done++;
    if (rank == 0 && done % 10 == 0) {
        printf("step %ld\n", done);
        fflush(stdout);
    }
}

static void __attribute__((noinline)) solve(int steps)
{
    for (int it = 0; it < steps; it++)
        step();
}

int main(int argc, char **argv)
{
    struct timespec now;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    solve(argc > 1 ? atoi(argv[1]) : 100);
    clock_gettime(CLOCK_REALTIME, &now);
    if (rank == 0)
        printf("end %ld.%09ld\n", (long)now.tv_sec, now.tv_nsec);
    MPI_Finalize();
    return 0;
}
