/* Work that ranks share, and a part that rank 0 does alone while the others wait. Both rest in place of computing, so that
 * sixteen ranks on two processors take as long as on sixteen. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

static int rank, ranks;

static void rest_ms(double ms)
{
    struct timespec time = {0, (long)(ms * 1e6)};
    nanosleep(&time, 0);
}

void __attribute__((noinline)) advance(void)
{
    rest_ms(320.0 / ranks);
}

void __attribute__((noinline)) gather_statistics(void)
{
    rest_ms(20.0);
}

void __attribute__((noinline)) steps(void)
{
    double value = 1;
    for (long step = 1; step < 1000000; step++) {
        advance();
        if (rank == 0)
            gather_statistics();
        MPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (step == 2 && rank == 0) {
            printf("at work\n");
            fflush(stdout);
        }
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
