/* Steps that compute, so that others who compute there slow them; ranks speak after each. Arguments: the number of steps, and the
 * work of one, in rounds. Rank 0 prints "end" when the loop is over. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;
static long rounds;
static volatile double sum;

static void __attribute__((noinline)) step(void)
{
    double out = 1, in = 0, part = 0;
    for (long at = 1; at <= rounds; at++)
        part += 1.0 / (double)at;
    sum = part;
    MPI_Sendrecv(&out, 1, MPI_DOUBLE, (rank + 1) % ranks, 1, &in, 1, MPI_DOUBLE, (rank + ranks - 1) % ranks, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void __attribute__((noinline)) solve(int steps)
{
    for (int it = 0; it < steps; it++)
        step();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    rounds = argc > 2 ? atol(argv[2]) : 100000;
    solve(argc > 1 ? atoi(argv[1]) : 100);
    if (rank == 0)
        printf("end\n");
    MPI_Finalize();
    return 0;
}
