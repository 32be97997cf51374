/* Steps of five exchanges each, with a sum over all ranks in every fourth step and a print in every hundredth. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double state = 1.0;

static void __attribute__((noinline)) compute(int count)
{
    for (int index = 1; index <= count; index++)
        state += sqrt(index + state) * 1e-9;
}

void __attribute__((noinline)) solve(int rank, int ranks, int steps)
{
    double out[40] = {0}, in[40], sum;
    for (int step = 0; step < steps; step++) {
        for (int exchange = 0; exchange < 5; exchange++) {
            compute(2000);
            MPI_Sendrecv(out, 40, MPI_DOUBLE, (rank + 1) % ranks, 1, in, 40, MPI_DOUBLE, (rank + ranks - 1) % ranks, 1,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (step % 4 != 3)
            continue;
        MPI_Allreduce(&state, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (step % 100 == 99 && rank == 0)
            fprintf(stderr, "step %d %g\n", step, sum);
    }
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    solve(rank, ranks, argc > 1 ? atoi(argv[1]) : 1000000000);
    MPI_Finalize();
    return 0;
}
