/* Two threads go through one loop; the one that sends does nothing for a while once it sees that it is measured. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How long it does nothing, microseconds. */
#ifndef AWAY_US
#define AWAY_US 1700000
#endif

static int rank, ranks;

static int is_measured(void)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && !found && fgets(line, sizeof line, maps))
        found = strstr(line, "memfd:trimtab") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

static void __attribute__((noinline)) pass(int sends)
{
    static double out[40], in[40];
    static int has_waited;
    if (!sends) {
        usleep(200000);
        return;
    }
    usleep(5000);
    if (!has_waited && is_measured()) {
        has_waited = 1;
        usleep(AWAY_US);
    }
    MPI_Sendrecv(out, 40, MPI_DOUBLE, (rank + 1) % ranks, 1, in, 40, MPI_DOUBLE, (rank + ranks - 1) % ranks, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void __attribute__((noinline)) solve(int sends)
{
    for (long step = 0; step < 1000000000000; step++)
        pass(sends);
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
