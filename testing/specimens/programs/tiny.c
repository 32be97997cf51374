/* Not an MPI program: calls a function of a few nanoseconds in a hot loop and prints what a call costs, again and
 * again, so that a tool may attach, measure and detach while the figures go by. The floor for the benchmark is what
 * the same call costs with the cheapest measuring code written by hand around it.
 *
 * Each line: "tiny: KIND min NS median NS calls N" with ns per call, the least and the median over chunks of 2000
 * calls, and behind that "mean NS" over all of them. KIND goes round
 *   bare     the function, as it is: what a tool patches
 *   counted  a count by increment, in front of the function
 *   pure     another function, which touches no memory; counted_pure, timed_pure: the same around that
 *   prepared the function behind five bytes that a tracer may overwrite
 *   ten      a function of some ten nanoseconds
 *   bound    the function, called through a binding that keeps a frame of its own, as one of MPI's for Fortran does
 *   timed    an entry and exit timed by two rdtsc, with count, sum, least, largest, first and last, and bytes summed
 * At the end the number of calls made must be the number counted by the function: "tiny: checksum N OK".
 *
 *   --seconds N   how long; --chunks N: chunks per line; --kind KIND: only this one
 *   --idle N --busy N   further threads that sleep, and that count
 *   --watch 1   a further thread reads the clock all the time, and each line is followed by "tiny: gap US": the longest
 *               time, microseconds, in which neither it nor the calling thread ran, so in which the process was stopped
 *
 * The first line is "tiny: function ADDRESS pure ADDRESS".
 */
#include "specimen.h"
#include <pthread.h>
#include <stdint.h>
#include <x86intrin.h>

#define CHUNK_CALLS 2000
#define CHUNKS_MAX 100000

uint64_t tiny_calls;
uint64_t busy_rounds; /* so that busy threads do something */
static volatile int stop; /* never set */

/* Two instructions: add to memory, return. Eight bytes, so it has room for a five-byte jump. */
__attribute__((naked, noinline, noclone, aligned(64))) void tiny(uint64_t bytes, const int64_t *place) {
    (void)bytes, (void)place;
    __asm__("incq tiny_calls(%rip)\n\tret");
}

/* Two instructions that touch no memory, so that nothing hides what a probe costs: adding to the same word again and again
 * waits for itself, and a probe costs nothing while it waits. */
__attribute__((naked, noinline, noclone, aligned(64))) void pure(uint64_t bytes, const int64_t *place) {
    (void)bytes, (void)place;
    __asm__("leaq 1(%rdi), %rax\n\tret");
}

/* Some ten nanoseconds: each multiplication waits for the one before; those of one call overlap with the next one's. */
__attribute__((noinline, noclone, aligned(64))) void ten(uint64_t bytes, const int64_t *place) {
    uint64_t product = bytes | 1;
    (void)place;
    for (int i = 0; i < 36; i++) __asm__ volatile("imulq %0, %0" : "+r"(product));
    __asm__ volatile("incq tiny_calls(%%rip)" ::: "memory");
}

/* The same as tiny behind five bytes of nothing, as a compiler writes it for tracers that cannot move instructions. */
__attribute__((noinline, noclone, aligned(64), patchable_function_entry(5))) static void
prepared(uint64_t bytes, const int64_t *place) {
    (void)bytes, (void)place;
    __asm__ volatile("incq tiny_calls(%%rip)" ::: "memory");
}

/* Calls the function as a binding of another language does: its own frame is the return address and eight bytes. */
__attribute__((naked, noinline, noclone, aligned(64))) void binding(uint64_t bytes, const int64_t *place) {
    (void)bytes, (void)place;
    __asm__("subq $8, %rsp\n\tcall tiny\n\taddq $8, %rsp\n\tret");
}

/* What the floor keeps per function; the fields a window's report needs. */
static struct record {
    uint64_t calls, sum, least, largest, first, last, bytes;
} record = {.least = UINT64_MAX};

static volatile int measuring = 1;

/* The measuring code by hand, around one of the functions. */
#define BY_HAND(counted, timed, function)                                                                              \
    __attribute__((noinline, noclone, aligned(64))) static void counted(uint64_t bytes, const int64_t *place) {        \
        record.calls++;                                                                                                \
        function(bytes, place);                                                                                        \
        __asm__ volatile("" ::: "memory");                                                                             \
    }                                                                                                                  \
    __attribute__((noinline, noclone, aligned(64))) static void timed(uint64_t bytes, const int64_t *place) {          \
        if (!measuring) {                                                                                              \
            function(bytes, place);                                                                                    \
            return;                                                                                                    \
        }                                                                                                              \
        uint64_t entry = __rdtsc();                                                                                    \
        function(bytes, place);                                                                                        \
        uint64_t exit = __rdtsc(), spent = exit - entry;                                                               \
        record.calls++;                                                                                                \
        record.sum += spent;                                                                                           \
        record.bytes += bytes;                                                                                         \
        if (spent < record.least) record.least = spent;                                                                \
        if (spent > record.largest) record.largest = spent;                                                            \
        if (record.first == 0) record.first = entry;                                                                   \
        record.last = exit;                                                                                            \
    }

BY_HAND(counted, timed, tiny)
BY_HAND(counted_pure, timed_pure, pure)

static int compare(const void *one, const void *other) {
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

typedef void called_fn(uint64_t, const int64_t *);

static int watching;
static int64_t seen_ns;          /* when a thread of this process last read the clock */
static volatile int64_t gap_ns;  /* the longest time since the last line in which none did */

/* A thread that was held up between reading the clock and noting it finds a later note, and adds nothing. */
static double look(void) {
    double now = seconds_now();
    if (!watching) return now;
    int64_t now_ns = (int64_t)(now * 1e9), before_ns = __atomic_load_n(&seen_ns, __ATOMIC_RELAXED);
    bool is_next = now_ns > before_ns &&
                   __atomic_compare_exchange_n(&seen_ns, &before_ns, now_ns, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (is_next && now_ns - before_ns > gap_ns) gap_ns = now_ns - before_ns;
    return now;
}

static void *watch(void *unused) {
    while (!stop) look();
    return unused;
}

/* Nanoseconds per call of one chunk. */
static double chunk(called_fn *called) {
    static const int64_t place = 7;
    double begin = look();
    for (int i = 0; i < CHUNK_CALLS; i++) called(8, &place);
    return (look() - begin) / CHUNK_CALLS * 1e9;
}

static long print_line(const char *kind, called_fn *called, int chunks) {
    static double times[CHUNKS_MAX];
    double sum = 0;
    for (int i = 0; i < chunks; i++) sum += times[i] = chunk(called);
    qsort(times, chunks, sizeof *times, compare);
    printf("tiny: %s min %.3f median %.3f calls %d mean %.3f\n", kind, times[0], times[chunks / 2], chunks * CHUNK_CALLS,
           sum / chunks);
    if (watching) {
        printf("tiny: gap %.1f\n", (double)gap_ns / 1e3);
        gap_ns = 0;
    }
    fflush(stdout);
    return (long)chunks * CHUNK_CALLS;
}

static void *sleep_on(void *unused) {
    while (pause() < 0) continue; /* until the process ends */
    return unused;
}

static void *count_on(void *unused) {
    while (!stop) __atomic_fetch_add(&busy_rounds, 1, __ATOMIC_RELAXED);
    return unused;
}

static void start_threads(long count, void *(*body)(void *)) {
    for (long i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, body, NULL) != 0) {
            perror("tiny: pthread_create");
            exit(2);
        }
    }
}

int main(int argc, char **argv) {
    specimen_begin(argc, argv);
    static const struct {
        const char *name;
        called_fn *called;
        bool is_counted; /* by the function itself */
    } kinds[] = {
        {"bare", tiny, true}, {"counted", counted, true}, {"timed", timed, true}, {"prepared", prepared, true}, {"ten", ten, true},
        {"bound", binding, true},
        {"pure", pure, false}, {"counted_pure", counted_pure, false}, {"timed_pure", timed_pure, false},
    };
    double seconds = (double)option(argc, argv, "--seconds", 1);
    int chunks = (int)option(argc, argv, "--chunks", 500);
    if (chunks < 1 || chunks > CHUNKS_MAX) {
        fprintf(stderr, "tiny: --chunks must be 1 to %d, not %d\n", CHUNKS_MAX, chunks);
        return 2;
    }
    start_threads(option(argc, argv, "--idle", 0), sleep_on);
    start_threads(option(argc, argv, "--busy", 0), count_on);
    printf("tiny: function %p pure %p\n", (void *)tiny, (void *)pure);
    seen_ns = (int64_t)(seconds_now() * 1e9);
    watching = option(argc, argv, "--watch", 0) != 0;
    start_threads(watching, watch);
    const char *only = NULL;
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--kind") == 0) only = argv[i + 1];

    long made = 0, printed;
    double end = seconds_now() + seconds;
    do {
        printed = 0;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            if (only && strcmp(only, kinds[i].name) != 0) continue;
            long calls = print_line(kinds[i].name, kinds[i].called, chunks);
            printed += calls;
            if (kinds[i].is_counted) made += calls;
        }
    } while (printed > 0 && seconds_now() < end);
    return printed > 0 && verdict("tiny", (double)tiny_calls, (double)made, 0, true) ? 0 : 1;
}
