/* MPI programs that are hard to attach to. One of:
 *
 *   --mode block    the last rank sits in one MPI_Recv until the others have done all their iterations
 *   --mode threads  every rank has --threads idle threads (64) beside its main loop
 *   --mode exec     at iteration --exec-at every rank executes itself anew, before MPI_Init: the first life does plain
 *                   work without MPI, the second the main loop (MPI cannot be started twice)
 *   --mode exit     at iteration --exit-at the last rank leaves the loop for MPI_Finalize; the others go on
 *   --mode vanish   at iteration --exit-at the last rank ends by _exit(3), without MPI_Finalize
 *
 * Known answer: the sum over iterations of an allreduced number among the ranks that take part.
 */
#define _GNU_SOURCE
#include "specimen.h"
#include <mpi.h>
#include <pthread.h>

static int ranks, rank;
static volatile double sink;

static void work(long size) {
    double sum = 0;
    for (long i = 1; i <= size; i++) sum += 1.0 / (double)i;
    sink = sum;
}

/* The main loop: in every iteration each member adds one. */
static double loop(int begin, int end, long size, MPI_Comm comm) {
    double total = 0, one = 1, all;
    for (int iteration = begin; iteration < end; iteration++) {
        iteration_begins(iteration);
        work(size);
        MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, comm);
        total += all;
    }
    return total;
}

/* A communicator of all ranks but the last; MPI_COMM_NULL there. */
static MPI_Comm without_last(void) {
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, rank == ranks - 1 ? MPI_UNDEFINED : 0, rank, &comm);
    return comm;
}

static double run_block(int iterations, long size) {
    MPI_Comm others = without_last();
    double total = 0;
    if (others == MPI_COMM_NULL) {
        MPI_Recv(&total, 1, MPI_DOUBLE, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return total;
    }
    total = loop(0, iterations, size, others);
    if (rank == 0) MPI_Send(&total, 1, MPI_DOUBLE, ranks - 1, 9, MPI_COMM_WORLD);
    return total;
}

static void *sleep_on(void *unused) {
    while (pause() < 0) continue; /* until the process ends */
    return unused;
}

static double run_threads(int iterations, long size, long threads) {
    for (long i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, sleep_on, NULL) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return loop(0, iterations, size, MPI_COMM_WORLD);
}

/* The last rank leaves after `exit_at`; `vanish`: without any good-bye. */
static double run_exit(int iterations, int exit_at, long size, bool vanish) {
    MPI_Comm others = without_last();
    double total = loop(0, exit_at, size, MPI_COMM_WORLD);
    if (others != MPI_COMM_NULL) return total + loop(exit_at, iterations, size, others);
    if (vanish) _exit(3);
    return total + (double)(iterations - exit_at) * (ranks - 1);
}

/* First life: works for a while without MPI, then becomes the second, told so by its environment. */
static void first_life(char **argv, int exec_at, long size) {
    if (getenv("SPECIMEN_SECOND_LIFE")) return;
    for (int iteration = 0; iteration < exec_at; iteration++) work(size);
    setenv("SPECIMEN_SECOND_LIFE", "1", 1);
    execv("/proc/self/exe", argv);
    perror("sleeper: execv");
    exit(2);
}

static const char *mode_of(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--mode") == 0) return argv[i + 1];
    return "block";
}

int main(int argc, char **argv) {
    specimen_begin(argc, argv);
    const char *mode = mode_of(argc, argv);
    int iterations = (int)option(argc, argv, "--iterations", 300);
    int exit_at = (int)option(argc, argv, "--exit-at", iterations / 2);
    long size = option(argc, argv, "--size", 1000000);
    if (strcmp(mode, "exec") == 0) first_life(argv, (int)option(argc, argv, "--exec-at", iterations / 2), size);

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double total = -1, want = (double)iterations * ranks;
    if (strcmp(mode, "block") == 0) {
        total = run_block(iterations, size);
        want = (double)iterations * (ranks - 1);
    } else if (strcmp(mode, "threads") == 0) {
        total = run_threads(iterations, size, option(argc, argv, "--threads", 64));
    } else if (strcmp(mode, "exec") == 0) {
        total = loop(0, iterations, size, MPI_COMM_WORLD);
    } else if (strcmp(mode, "exit") == 0 || strcmp(mode, "vanish") == 0) {
        total = run_exit(iterations, exit_at, size, mode[0] == 'v');
        want = (double)exit_at * ranks + (double)(iterations - exit_at) * (ranks - 1);
    } else if (rank == 0) {
        fprintf(stderr, "sleeper: --mode is block, threads, exec, exit or vanish, not %s\n", mode);
    }
    iterations_end(iterations);
    bool right = verdict("sleeper", total, want, 0, rank == 0);
    MPI_Finalize();
    return right ? 0 : 1;
}
