/* What every C and C++ specimen shares: options, the iteration marks, the verdict.
 *
 * A specimen runs --iterations times the same loop, checks an answer that is known beforehand, prints it as one line
 * ("fft: checksum 4096 OK") and exits with 0 only if it is right. Next: any program beside this file; hooks.c for
 * the Fortran ones.
 */
#ifndef SPECIMEN_H
#define SPECIMEN_H

#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The value after `name` on the command line, or `otherwise`. */
static inline long option(int argc, char **argv, const char *name, long otherwise) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0) return atol(argv[i + 1]);
    return otherwise;
}

/* Whether `name` stands on the command line. */
static inline bool flag(int argc, char **argv, const char *name) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0) return true;
    return false;
}

/* The function by which a user of trimtab can mark iterations. MARK is defined by the builds that have it. It does
 * a little, so that it is not too short for a patch, and may be neither inlined nor cloned. */
#ifdef MARK
volatile long measuremark_calls, measuremark_last;

#ifdef __cplusplus
extern "C"
#endif
__attribute__((noinline, noclone)) void measuremark(int iteration) {
    measuremark_last = iteration;
    measuremark_calls = measuremark_calls + 1;
}
#endif

static void (*ground_truth_mark)(int);
static bool marking;
static long uneven_steps; /* more arithmetic per iteration on this rank, so that others wait for it */
static volatile double uneven_result;

/* This process's place in its job in per mille, by what the launchers of MPICH and Open MPI tell it; 0 if alone. */
static inline long place_in_job(void) {
    const char *rank = getenv("PMI_RANK"), *ranks = getenv("PMI_SIZE");
    if (!rank) rank = getenv("OMPI_COMM_WORLD_RANK"), ranks = getenv("OMPI_COMM_WORLD_SIZE");
    return rank && ranks && atol(ranks) > 0 ? 1000 * atol(rank) / atol(ranks) : 0;
}

/* A fault handler of the program's own, which never has to do anything. */
static inline void handle_fault(int number) {
    (void)number;
    _exit(3);
}

static inline void begin_to_handle_faults(int number) {
    (void)number;
    signal(SIGSEGV, handle_fault);
}

/* Called once at the start: finds the ground truth's mark if that library is loaded, and reads --mark,
 * --uneven N: the upper half of the ranks does N thousand steps of arithmetic more in every iteration, and
 * --handle-faults: the program has a fault handler of its own as soon as SIGUSR2 comes. */
static inline void specimen_begin(int argc, char **argv) {
    void *found = dlsym(RTLD_DEFAULT, "gt_mark");
    memcpy(&ground_truth_mark, &found, sizeof found);
    marking = flag(argc, argv, "--mark");
    if (flag(argc, argv, "--handle-faults")) signal(SIGUSR2, begin_to_handle_faults);
    uneven_steps = place_in_job() >= 500 ? 1000 * option(argc, argv, "--uneven", 0) : 0;
#ifndef MARK
    if (marking) {
        fprintf(stderr, "%s: built without measuremark; build it with -DMARK to use --mark\n", argv[0]);
        exit(2);
    }
#endif
}

/* First thing in every iteration. */
static inline void iteration_begins(int iteration) {
    if (ground_truth_mark) ground_truth_mark(iteration);
#ifdef MARK
    if (marking) measuremark(iteration);
#endif
    double value = 0;
    for (long step = 0; step < uneven_steps; step++) value = value * 0.999 + 0.001;
    uneven_result = value;
}

/* After the last iteration: closes it for the ground truth. Not a measuremark. */
static inline void iterations_end(int iterations) {
    if (ground_truth_mark) ground_truth_mark(iterations);
}

/* Prints the answer and says whether it is right, on the one process with `speaks`. */
static inline bool verdict(const char *program, double got, double want, double tolerance, bool speaks) {
    bool right = fabs(got - want) <= tolerance * fmax(1.0, fabs(want));
    if (speaks && right) printf("%s: checksum %.12g OK\n", program, got);
    if (speaks && !right) printf("%s: checksum %.17g WRONG, expected %.17g\n", program, got, want);
    fflush(stdout);
    return right;
}

static inline double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
