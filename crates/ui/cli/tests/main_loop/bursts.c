/* Two thousand passes follow each other at once, and then nobody does anything for a while. */
#include <mpi.h>
#include <unistd.h>

static int rank, ranks;

void __attribute__((noinline)) steps(void)
{
    double out[40] = {0}, in[40];
    for (long step = 1; step < 1000000000000; step++) {
        MPI_Sendrecv(out, 40, MPI_DOUBLE, (rank + 1) % ranks, 1, in, 40, MPI_DOUBLE, (rank + ranks - 1) % ranks, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (step % 2000 == 0)
            usleep(300000);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    steps();
    MPI_Finalize();
    return 0;
}
