/* Integer sort: random keys are sent to the rank that owns their range (counts by MPI_Alltoall, keys by
 * MPI_Alltoallv) and sorted there by counting, each iteration with other keys, as NAS IS does.
 *
 * Known answer: after each iteration every rank's keys are in order and in its range, and number and sum of all keys
 * are what was generated; the checksum is the number of iterations for which that held. --size: keys per rank.
 */
#include "specimen.h"
#include <mpi.h>
#include <stdint.h>

#define KEY_MAX (1 << 16)

static int ranks, rank, size;
static int *keys, *ordered, *arrived, *counts;

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static int owner(int key) { return (int)((int64_t)key * ranks / KEY_MAX); }

/* Returns the sum of the keys. */
static int64_t generate(int iteration) {
    uint64_t state = 1234567u * (unsigned)(rank + 1) + 7919u * (unsigned)iteration;
    int64_t sum = 0;
    for (int i = 0; i < size; i++) sum += keys[i] = (int)(next(&state) % KEY_MAX);
    return sum;
}

/* Sends every key to its owner; returns how many arrived here. */
static int distribute(void) {
    int to[ranks], from[ranks], to_begin[ranks + 1], from_begin[ranks + 1], filled[ranks];
    memset(to, 0, sizeof to);
    for (int i = 0; i < size; i++) to[owner(keys[i])]++;
    MPI_Alltoall(to, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
    to_begin[0] = from_begin[0] = 0;
    for (int peer = 0; peer < ranks; peer++) {
        to_begin[peer + 1] = to_begin[peer] + to[peer];
        from_begin[peer + 1] = from_begin[peer] + from[peer];
        filled[peer] = to_begin[peer];
    }
    for (int i = 0; i < size; i++) ordered[filled[owner(keys[i])]++] = keys[i];
    MPI_Alltoallv(ordered, to, to_begin, MPI_INT, arrived, from, from_begin, MPI_INT, MPI_COMM_WORLD);
    return from_begin[ranks];
}

static void sort(int length) {
    memset(counts, 0, sizeof(int) * KEY_MAX);
    for (int i = 0; i < length; i++) counts[arrived[i]]++;
    for (int key = 0, i = 0; key < KEY_MAX; key++)
        for (int n = counts[key]; n > 0; n--) arrived[i++] = key;
}

static bool is_sorted(int length) {
    for (int i = 0; i < length; i++)
        if (owner(arrived[i]) != rank || (i > 0 && arrived[i - 1] > arrived[i])) return false;
    return true;
}

/* Nothing lost: differences of number and sum over all ranks are zero. */
static bool is_complete(int length, int64_t generated_sum) {
    int64_t own[2] = {length - size, -generated_sum}, all[2];
    for (int i = 0; i < length; i++) own[1] += arrived[i];
    MPI_Allreduce(own, all, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all[0] == 0 && all[1] == 0;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    specimen_begin(argc, argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int iterations = (int)option(argc, argv, "--iterations", 500), good = 0;
    size = (int)option(argc, argv, "--size", 200000);
    keys = malloc(sizeof(int) * size);
    ordered = malloc(sizeof(int) * size);
    arrived = malloc(sizeof(int) * size * ranks);
    counts = malloc(sizeof(int) * KEY_MAX);

    for (int iteration = 0; iteration < iterations; iteration++) {
        iteration_begins(iteration);
        int64_t sum = generate(iteration);
        int length = distribute();
        sort(length);
        bool complete = is_complete(length, sum);
        good += is_sorted(length) && complete;
    }
    iterations_end(iterations);

    int worst;
    MPI_Allreduce(&good, &worst, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    bool right = verdict("is", worst, iterations, 0, rank == 0);
    MPI_Finalize();
    return right ? 0 : 1;
}
