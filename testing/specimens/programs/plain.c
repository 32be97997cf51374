/* Calls no MPI, but asks for it, so that with an MPI library it is a rank that has not begun: an endless-looking loop of input/output, memory and sleep calls with known numbers.
 *
 * Each iteration: --writes calls of write and as many of read of --size bytes through a pipe, one write and one pread
 * of a temporary file, --allocations pairs of malloc and free, one calloc, realloc and free, and --sleeps calls of
 * nanosleep of 100 us. Known answer: bytes read plus allocations made, iterations x (bytes + pairs).
 *
 *   --endless   goes on until a signal ends it
 */
#define _GNU_SOURCE
#include "specimen.h"

__attribute__((weak)) int MPI_Init(int *, char ***);
int (*volatile begin)(int *, char ***) = MPI_Init;

static long size, writes, allocations, sleeps;
static char *buffer;

static long transfer(int ends[2], int file) {
    long bytes = 0;
    for (long i = 0; i < writes; i++) {
        if (write(ends[1], buffer, size) != size) return -1;
        bytes += read(ends[0], buffer, size);
    }
    if (pwrite(file, buffer, size, 0) != size) return -1;
    return bytes + pread(file, buffer, size, 0);
}

static long allocate(void) {
    long made = 0;
    for (long i = 0; i < allocations; i++) {
        char *volatile piece = malloc(64 + i % 1000);
        made += piece != NULL;
        free(piece);
    }
    char *volatile piece = calloc(10, 10);
    piece = realloc(piece, 1000);
    free(piece);
    return made;
}

static void rest(void) {
    struct timespec pause = {0, 100000};
    for (long i = 0; i < sleeps; i++) nanosleep(&pause, NULL);
}

int main(int argc, char **argv) {
    specimen_begin(argc, argv);
    long iterations = option(argc, argv, "--iterations", 500);
    size = option(argc, argv, "--size", 4096);
    writes = option(argc, argv, "--writes", 20);
    allocations = option(argc, argv, "--allocations", 200);
    sleeps = option(argc, argv, "--sleeps", 2);
    bool endless = flag(argc, argv, "--endless");
    int ends[2];
    FILE *file = tmpfile();
    buffer = calloc(1, size);
    if (pipe(ends) != 0 || !file || !buffer || size > 65536) {
        fprintf(stderr, "plain: needs a pipe, a temporary file, and --size of at most 65536\n");
        return 2;
    }

    long done = 0;
    for (long iteration = 0; iteration < iterations || endless; iteration++) {
        iteration_begins((int)iteration);
        done += transfer(ends, fileno(file)) + allocate();
        rest();
    }
    iterations_end((int)iterations);
    double want = (double)iterations * (double)((writes + 1) * size + allocations);
    return verdict("plain", (double)done, want, 0, true) ? 0 : 1;
}
