/* Ranks that are in different loops, on two sides of a branch. Even ranks send what odd ones receive and send back; with an
   argument, rank 0 hands out what the others ask for. */
#include <math.h>
#include <mpi.h>

static double state = 1.0;

static void __attribute__((noinline)) compute(int count)
{
    for (int index = 1; index <= count; index++)
        state += sqrt(index + state) * 1e-9;
}

static void __attribute__((noinline)) exchange(int rank, int size)
{
    static char data[1 << 10];
    MPI_Status status;
    for (int round = 0; round < 1000000; round++) {
        int other = rank ^ 1;
        if (rank % 2 == 0) {
            for (int message = 0; message < 1000000000; message++) {
                compute(5000);
                MPI_Send(data, size, MPI_CHAR, other, 1, MPI_COMM_WORLD);
                MPI_Recv(data, size, MPI_CHAR, other, 1, MPI_COMM_WORLD, &status);
            }
        } else {
            for (int message = 0; message < 1000000000; message++) {
                MPI_Recv(data, size, MPI_CHAR, other, 1, MPI_COMM_WORLD, &status);
                compute(5000);
                MPI_Send(data, size, MPI_CHAR, other, 1, MPI_COMM_WORLD);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void __attribute__((noinline)) hand_out(int rank, int size)
{
    static char data[1 << 10];
    MPI_Status status;
    if (rank == 0) {
        for (;;) {
            MPI_Recv(data, size, MPI_CHAR, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
            compute(500);
            MPI_Send(data, size, MPI_CHAR, status.MPI_SOURCE, 1, MPI_COMM_WORLD);
        }
    } else {
        for (;;) {
            MPI_Send(data, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
            MPI_Recv(data, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &status);
            compute(2000);
        }
    }
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1)
        hand_out(rank, 512);
    exchange(rank, 512);
    MPI_Finalize();
    return 0;
}
