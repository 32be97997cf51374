/* Steps of a loop whose form is chosen when it is compiled; each prints how many are done, and the end how many there were.
   From a SIGUSR1 on they compute nothing. A step takes as long on a slow machine as on a fast one, and
   leaves the processor to others. */
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double state = 1.0;
static long done;
static int rank, ranks, nothing;
static volatile sig_atomic_t computes = 1;
#define STEP_S 2.5e-3

static void hurry(int number)
{
    (void)number;
    computes = 0;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void __attribute__((noinline)) step(void)
{
    double out[4] = {0}, in[4];
    for (double end_s = now_s() + STEP_S; computes && now_s() < end_s; usleep(500))
        state += sqrt(1 + state) * 1e-9;
    MPI_Sendrecv(out, 4, MPI_DOUBLE, (rank + 1) % ranks, 1, in, 4, MPI_DOUBLE, (rank + ranks - 1) % ranks, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    done++;
    if (rank == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        printf("%ld %ld.%09ld\n", done, (long)now.tv_sec, now.tv_nsec);
        fflush(stdout);
    }
}

static double __attribute__((noinline)) error(void) { return state < 0 ? 0 : 1; }
static void __attribute__((noinline)) sum(void) { MPI_Allreduce(MPI_IN_PLACE, &state, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void __attribute__((noinline)) prepare(int *steps, int *start) { *start = *steps / 4; }

struct config { double dt; int steps; };

/* The bound belongs to the caller. */
static void __attribute__((noinline)) follow(const struct config *config)
{
    for (int it = 0; it < config->steps; it++) {
        step();
        state += config->dt * 1e-9;
    }
}

void __attribute__((noinline)) solve(int steps)
{
#if FORM == 0
    for (int it = 0; it < steps; it++)
        step();
#elif FORM == 1
    for (int it = steps; it > 0; it--) {
        step();
        if (it % 4 == 0)
            sum();
    }
#elif FORM == 2
    int it = 0;
    while (it < steps) {
        step();
        it++;
    }
#elif FORM == 3
    long it = 1;
    do {
        step();
        it += 3;
    } while (it <= 3l * steps);
#elif FORM == 4
    for (int it = 0; it < steps; it++) {
        if (it == 0)
            sum();
        step();
    }
#elif FORM == 5 || FORM == 11
    for (int it = 0; it < steps; it++) {
        if (it < steps / 3)
            sum();
        step();
    }
#elif FORM == 6
    int it = 0;
    while (error() > 1e-9 && it < 2 * steps) {
        step();
        if (done == steps)
            state = -1;
        it++;
    }
#elif FORM == 7
    for (int it = 0; it < 2 * steps; it++) {
        step();
        if (done == steps)
            break;
    }
#elif FORM == 8
    int start = 0;
    int end = steps + steps / 4;
    prepare(&steps, &start);
    for (int it = start; it < end; it++)
        step();
#elif FORM == 12
    struct config config = {0.1, steps};
    follow(&config);
#elif FORM == 9
    steps = 10 * (steps / 10);
    for (int part = 0; part < 10; part++)
        for (int it = part * (steps / 10); it < (part + 1) * (steps / 10); it++)
            step();
#endif
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    signal(SIGUSR1, hurry);
    solve(atoi(argv[1]));
    MPI_Finalize();
    return 0;
}
