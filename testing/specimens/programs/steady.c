/* Runs until it is told to end, so that a test may do with it whatever it likes for as long as it takes.
 *
 * In every iteration a number goes round the ranks and all ranks add up a sum, both known beforehand.
 *
 * Known answer: 1, "every number of every iteration was right", however many iterations there were: the output of two
 * runs is the same whatever was done to one of them.
 *
 *   --until FILE     ends after the iteration in which rank 0 sees that FILE exists; else after --iterations N
 *   --threads N      idle threads beside the main one
 *   --sleep-us N     sleeps in every iteration (500), so that a small machine has room for others
 *   --work N         additions in every iteration (20000)
 *   --exit CODE      exit status after the right answer (0)
 */
#include "specimen.h"
#include <mpi.h>
#include <pthread.h>

static volatile double sink;

static void work(long size) {
    double sum = 0;
    for (long i = 1; i <= size; i++) sum += 1.0 / (double)i;
    sink = sum;
}

static void *sleep_on(void *unused) {
    while (pause() < 0) continue; /* until the process ends */
    return unused;
}

static const char *file_to_end(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--until") == 0) return argv[i + 1];
    return NULL;
}

/* Whether both the number from the neighbour and the sum over all ranks are right; `end` becomes the common decision. */
static bool iteration_is_right(long iteration, bool *end) {
    int ranks, rank;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int left = (rank + ranks - 1) % ranks;
    long mine = iteration * ranks + rank, got = -1;
    MPI_Sendrecv(&mine, 1, MPI_LONG, (rank + 1) % ranks, 3, &got, 1, MPI_LONG, left, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    long own[2] = {iteration + rank, *end && rank == 0}, all[2];
    MPI_Allreduce(own, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    *end = all[1] != 0;
    return got == iteration * ranks + left && all[0] == iteration * ranks + (long)ranks * (ranks - 1) / 2;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    specimen_begin(argc, argv);
    const char *until = file_to_end(argc, argv);
    long iterations = option(argc, argv, "--iterations", 1000), size = option(argc, argv, "--work", 20000);
    long sleep_us = option(argc, argv, "--sleep-us", 500), threads = option(argc, argv, "--threads", 0);
    for (long i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, sleep_on, NULL) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
    }

    bool right = true, end = false;
    long iteration = 0;
    while (!end) {
        iteration_begins((int)iteration);
        work(size);
        if (sleep_us > 0) usleep((useconds_t)sleep_us);
        end = until ? access(until, F_OK) == 0 : iteration + 1 >= iterations;
        right = iteration_is_right(iteration, &end) && right;
        iteration++;
    }
    iterations_end((int)iteration);
    int rank, own = right, all;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    right = verdict("steady", all, 1, 0, rank == 0);
    MPI_Finalize();
    return right ? (int)option(argc, argv, "--exit", 0) : 1;
}
