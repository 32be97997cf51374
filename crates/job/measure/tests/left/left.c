/* A loop that is left on SIGUSR1, and the main loop after it, both inside of loops over a benchmark's parameters. It runs until
   it is ended. Or, with an argument:
     chat    a loop whose passes have more calls than a rank remembers, and no collective
     set-up  no loop until SIGUSR1, then the main loop
     parts   steps of a second with a loop in each, and in the first one before that the loop that is left on SIGUSR1 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static volatile sig_atomic_t told, ended;
static double mine[8], theirs[8];

static void tell(int number)
{
    (void)number;
    told = 1;
}

static __attribute__((noinline)) int is_told(void)
{
    int here = told, anywhere;
    MPI_Allreduce(&here, &anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return anywhere;
}

static __attribute__((noinline)) void exchange(int with, int from, int tag)
{
    MPI_Sendrecv(mine, 8, MPI_DOUBLE, with, tag, theirs, 8, MPI_DOUBLE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static __attribute__((noinline)) void prepare(void)
{
    do {
        usleep(100000);
    } while (!is_told());
}

static __attribute__((noinline)) void solve(void)
{
    for (long step = 0; !ended; step++) {
        usleep(20000);
        exchange((rank + 1) % size, (rank + size - 1) % size, 1);
    }
}

static __attribute__((noinline)) void chat(void)
{
    for (long step = 0; !ended; step++) {
        for (int message = 0; message < 30000; message++)
            exchange(rank, rank, message % 100);
        exchange((rank + 1) % size, (rank + size - 1) % size, 1);
    }
}

static __attribute__((noinline)) void converge(void)
{
    for (int pass = 0; pass < 50; pass++) {
        usleep(20000);
        exchange((rank + 1) % size, (rank + size - 1) % size, 2);
    }
}

static __attribute__((noinline)) void steps(void)
{
    for (long step = 0; !ended; step++) {
        if (step == 0)
            prepare();
        converge();
    }
}

static volatile int values = 1;

static __attribute__((noinline)) void for_all_parameters(void)
{
    for (int a = 0; a < values; a++)
        for (int b = 0; b < values; b++)
            for (int c = 0; c < values; c++)
                for (int d = 0; d < values; d++)
                    for (int e = 0; e < values; e++)
                        for (int f = 0; f < values; f++)
                            for (int g = 0; g < values; g++)
                                for (int h = 0; h < values; h++)
                                    for (int i = 0; i < values; i++) {
                                        prepare();
                                        solve();
                                    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    signal(SIGUSR1, tell);
    MPI_Barrier(MPI_COMM_WORLD);
    puts("at work");
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "chat"))
        chat();
    if (argc > 1 && !strcmp(argv[1], "set-up")) {
        pause();
        solve();
    }
    if (argc > 1 && !strcmp(argv[1], "parts"))
        steps();
    for_all_parameters();
    return 0;
}
