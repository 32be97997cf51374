/* Two threads go through one loop; only one of them sends. */
#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>

static volatile double sink;
static int rank, ranks;

void __attribute__((noinline)) solve(int sends)
{
    double out[40] = {0}, in[40];
    for (long step = 0; step < 1000000000000; step++) {
        for (int index = 1; index <= (sends ? 20000 : 3000); index++)
            sink = sqrt(index + step);
        if (sends)
            MPI_Sendrecv(out, 40, MPI_DOUBLE, (rank + 1) % ranks, 1, in, 40, MPI_DOUBLE, (rank + ranks - 1) % ranks, 1,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void *beside(void *nothing)
{
    solve(0);
    return nothing;
}

int main(int argc, char **argv)
{
    int level;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    pthread_create(&thread, NULL, beside, NULL);
    solve(1);
    MPI_Finalize();
    return 0;
}
