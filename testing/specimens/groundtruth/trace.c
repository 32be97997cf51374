/* A profiler of MPI for programs of others: one record for each outermost call of any function of MPI, C or Fortran.
 *
 * Why: a window of trimtab is compared with what this library, preloaded, saw in exactly the seconds of that window,
 * in programs whose iterations nobody marks. wrap.c knows arguments and needs mpi.h; this one knows none and serves
 * both MPI libraries and all functions alike.
 *
 * How: arguments of MPI are integers and addresses, so a wrapper hands on sixteen words, whatever they mean: six come in
 * registers, and what a caller did not put on the stack is read and ignored. Fortran's entry points are wrapped as
 * well, because Open MPI's call PMPI functions directly. A call inside another one (ROMIO's, a Fortran library that
 * calls the C one) has no record of its own.
 *
 * The file TRACE_OUT.<process id>.<thread id> holds records of three little-endian 64-bit words: begin and end in
 * nanoseconds since 1970, and the number of the function in every.h. It is written from time to time and at the end.
 *
 * Next: every.h (the list), ../src/trace.rs (the reader).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "every.h"

#define RECORDS 4096 /* in memory of each thread */

enum {
#define X(c, fortran) ID_##c,
    EVERY_FUNCTION(X)
#undef X
};

struct record {
    uint64_t begin_ns, end_ns, function;
};

struct thread {
    int depth, file;
    size_t used;
    struct record records[RECORDS];
    struct thread *next;
};

static __thread struct thread *self;
static struct thread *threads;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct thread *this_thread(void) {
    if (self) return self;
    struct thread *fresh = calloc(1, sizeof *fresh);
    const char *prefix = getenv("TRACE_OUT");
    char path[4096];
    if (!fresh || !prefix) abort();
    snprintf(path, sizeof path, "%s.%d.%ld", prefix, (int)getpid(), syscall(SYS_gettid));
    fresh->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (fresh->file < 0) abort();
    do fresh->next = __atomic_load_n(&threads, __ATOMIC_ACQUIRE);
    while (!__sync_bool_compare_and_swap(&threads, fresh->next, fresh));
    return self = fresh;
}

static void flush(struct thread *thread) {
    const char *bytes = (const char *)thread->records;
    size_t left = thread->used * sizeof *thread->records;
    while (left > 0) {
        ssize_t written = write(thread->file, bytes, left);
        if (written < 0) abort();
        bytes += written;
        left -= (size_t)written;
    }
    thread->used = 0;
}

static uint64_t enter(void) { return this_thread()->depth++ == 0 ? now_ns() : 0; }

static void leave(uint64_t begin_ns, int function) {
    struct thread *thread = self;
    if (--thread->depth > 0) return;
    thread->records[thread->used++] = (struct record){begin_ns, now_ns(), (uint64_t)function};
    if (thread->used == RECORDS || function == ID_Finalize) flush(thread);
}

__attribute__((destructor)) static void flush_all(void) {
    for (struct thread *thread = threads; thread; thread = thread->next) flush(thread);
}

#define WORDS(x) x a, x b, x c, x d, x e, x f, x g, x h, x i, x j, x k, x l, x m, x n, x o, x p
#define WRAPPER(name, real, id)                                                                                        \
    extern long real(WORDS(long)) __attribute__((weak));                                                               \
    long name(WORDS(long));                                                                                            \
    long name(WORDS(long)) {                                                                                           \
        uint64_t begin_ns = enter();                                                                                   \
        long result = real(WORDS());                                                                                   \
        leave(begin_ns, id);                                                                                           \
        return result;                                                                                                 \
    }
#define X(c, fortran)                                                                                                  \
    WRAPPER(MPI_##c, PMPI_##c, ID_##c)                                                                                 \
    WRAPPER(mpi_##fortran##_, pmpi_##fortran##_, ID_##c)
EVERY_FUNCTION(X)
