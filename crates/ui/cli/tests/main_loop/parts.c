/* Steps without a call that is made once: three exchanges of 3, 5 and 2 messages, of which each is waited for until all have
   come, now in more, now in fewer parts. */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

enum { MESSAGES_MAX = 5, SIZE = 64 };

static double state = 1.0;

static void __attribute__((noinline)) compute(int count)
{
    for (int index = 1; index <= count; index++)
        state += sqrt(index + state) * 1e-9;
}

static void __attribute__((noinline)) exchange(int other, int messages)
{
    static char in[MESSAGES_MAX][SIZE], out[SIZE];
    MPI_Request requests[2 * MESSAGES_MAX];
    int indices[2 * MESSAGES_MAX], done, left = 2 * messages;
    for (int message = 0; message < messages; message++)
        MPI_Irecv(in[message], SIZE, MPI_CHAR, other, message, MPI_COMM_WORLD, &requests[message]);
    for (int message = 0; message < messages; message++) {
        compute(rand() % 3000);
        MPI_Isend(out, SIZE, MPI_CHAR, other, message, MPI_COMM_WORLD, &requests[messages + message]);
    }
    for (; left > 0; left -= done)
        MPI_Waitsome(2 * messages, requests, &done, indices, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    srand(1 + (unsigned)rank);
    for (long step = 0; step < 1000000000; step++) {
        compute(50000);
        exchange(rank ^ 1, 3);
        exchange(rank ^ 1, 5);
        compute(20000);
        exchange(rank ^ 1, 2);
    }
    MPI_Finalize();
    return 0;
}
