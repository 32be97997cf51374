/* Runs until it is told to end, so that a test may do with it whatever it likes for as long as it takes.
 *
 * In every iteration a number goes round the ranks and all ranks add up a sum, both known beforehand.
 *
 * Known answer: 1, "every number of every iteration was right", however many iterations there were: the output of two
 * runs is the same whatever was done to one of them.
 *
 *   --until FILE     ends after the iteration in which rank 0 sees that FILE exists; else after --iterations N;
 *                    rank 0 makes FILE.begun when all ranks have done an iteration
 *   --threads N      idle threads beside the main one
 *   --sleep-us N     sleeps in every iteration (500), so that a small machine has room for others
 *   --sleep-more-us N  the upper half of the ranks sleeps so much more (0)
 *   --work N         additions in every iteration (20000)
 *   --pages N        pages of fresh memory that are touched in every iteration (0)
 *   --imbalance      the upper half of the ranks does its additions and touches its pages twice
 *   --exit CODE      exit status after the right answer (0)
 */
#include "specimen.h"
#include <mpi.h>
#include <pthread.h>
#include <sys/mman.h>

static volatile double sink;

static void work(long size) {
    double sum = 0;
    for (long i = 1; i <= size; i++) sum += 1.0 / (double)i;
    sink = sum;
}

/* Each page is one fault, since the kernel is asked not to make several at a time. */
static void touch(long pages) {
    size_t length = (size_t)pages * 4096;
    if (pages <= 0) return;
    volatile char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) MPI_Abort(MPI_COMM_WORLD, 2);
    madvise((void *)memory, length, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < length; at += 4096) memory[at] = 1;
    munmap((void *)memory, length);
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

/* Says that all ranks are in the main loop. */
static void tell_begun(const char *until) {
    char name[4096];
    snprintf(name, sizeof name, "%s.begun", until);
    FILE *file = fopen(name, "w");
    if (file) fclose(file);
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
    long iteration = 0, pages = option(argc, argv, "--pages", 0);
    int rank, ranks, own, all;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bool is_upper = rank >= (ranks + 1) / 2;
    if (is_upper) sleep_us += option(argc, argv, "--sleep-more-us", 0);
    int repeats = flag(argc, argv, "--imbalance") && is_upper ? 2 : 1;
    while (!end) {
        iteration_begins((int)iteration);
        for (int i = 0; i < repeats; i++) {
            work(size);
            touch(pages);
        }
        if (sleep_us > 0) usleep((useconds_t)sleep_us);
        end = until ? access(until, F_OK) == 0 : iteration + 1 >= iterations;
        right = iteration_is_right(iteration, &end) && right;
        if (until && iteration == 0 && rank == 0) tell_begun(until);
        iteration++;
    }
    iterations_end((int)iteration);
    own = right;
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    right = verdict("steady", all, 1, 0, rank == 0);
    MPI_Finalize();
    return right ? (int)option(argc, argv, "--exit", 0) : 1;
}
