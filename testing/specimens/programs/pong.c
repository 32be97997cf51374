/* Messages of several sizes go from each even rank to the odd one behind it and come back, and then collectives of the same
 * sizes follow: for tools that tell how long messages take.
 *
 * Each rank computes for a while between its calls, so that whoever receives has called before the other one sends.
 *
 * Known answer: 1, "every message and every sum was right", however many iterations there were.
 *
 *   --sizes A,B,...    bytes of the messages, at most 16 sizes (8,256,2048,16384,65536)
 *   --between-us N     computes so long between calls (100)
 *   --late-us N        even ranks sleep so long before they send (0)
 *   --posted N         1: messages go by MPI_Isend, MPI_Irecv and MPI_Wait; 2 to 33: both ranks of a pair send N - 1 messages
 *                      at once and wait for all of them by one MPI_Waitall; 0: by MPI_Send and MPI_Recv
 *   --any N            with that, 1: one after the other by MPI_Waitany; 2: by MPI_Waitsome; or asking again and again: 3: by
 *                      MPI_Testall; 4: by MPI_Testany; 5: one after the other by MPI_Test (0)
 *   --wild N           1: receives of MPI_Recv are from any source; 2: both ranks of a pair send at once by MPI_Sendrecv and receive
 *                      from any source; 3: as 1, by MPI_Irecv and MPI_Wait; 4: by MPI_Irecv and MPI_Waitany (0)
 *   --collectives N    N of allreduce, alltoall and bcast after the messages of each size (0)
 *   --until FILE       ends after the iteration in which rank 0 sees that FILE exists; else after --iterations N
 */
#include "specimen.h"
#include <mpi.h>

#define SIZES_MAX 16
#define AT_ONCE_MAX 32

static int sizes[SIZES_MAX], size_count;
static char *out, *in;
static long between_us, late_us, posted, any, wild;

static const char *text_option(int argc, char **argv, const char *name, const char *otherwise) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0) return argv[i + 1];
    return otherwise;
}

static void read_sizes(const char *text) {
    while (*text && size_count < SIZES_MAX) {
        char *end;
        long size = strtol(text, &end, 10);
        if (end == text || size < 1 || size > 1 << 28) MPI_Abort(MPI_COMM_WORLD, 2);
        sizes[size_count++] = (int)size;
        text = *end ? end + 1 : end;
    }
}

static void compute(long us) {
    double until = MPI_Wtime() + 1e-6 * (double)us;
    while (MPI_Wtime() < until) continue;
}

static void fill(int size, int value) {
    out[0] = (char)value;
    out[size - 1] = (char)value;
}

static bool is_filled(int size, int value) {
    return in[0] == (char)value && in[size - 1] == (char)value;
}

static void send(int size, int partner, int tag) {
    MPI_Request request;
    if (posted == 0) {
        MPI_Send(out, size, MPI_BYTE, partner, tag, MPI_COMM_WORLD);
    } else {
        MPI_Isend(out, size, MPI_BYTE, partner, tag, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void receive(int size, int partner, int tag) {
    MPI_Request request;
    MPI_Status status;
    if (wild != 0) {
        int index;
        if (wild == 1) MPI_Recv(in, size, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
        else MPI_Irecv(in, size, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &request);
        if (wild == 3) MPI_Wait(&request, &status);
        if (wild == 4) MPI_Waitany(1, &request, &index, &status);
        if (status.MPI_SOURCE != partner) MPI_Abort(MPI_COMM_WORLD, 3);
    } else if (posted == 0) {
        MPI_Recv(in, size, MPI_BYTE, partner, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Irecv(in, size, MPI_BYTE, partner, tag, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void complete(int count, MPI_Request *requests) {
    int done = 0, indices[2 * AT_ONCE_MAX];
    while (any != 0 && done < count) {
        int some = 1, is_over = 0;
        if (any == 1)
            MPI_Waitany(count, requests, indices, MPI_STATUS_IGNORE);
        else if (any == 2)
            MPI_Waitsome(count, requests, &some, indices, MPI_STATUSES_IGNORE);
        else if (any == 3)
            MPI_Testall(count, requests, &is_over, MPI_STATUSES_IGNORE), some = is_over * count;
        else if (any == 4)
            MPI_Testany(count, requests, indices, &some, MPI_STATUS_IGNORE);
        else
            MPI_Test(&requests[done], &some, MPI_STATUS_IGNORE);
        done += some;
    }
    if (any == 0) MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

/* Both send at once; the even rank may come late. */
static bool exchange(int size, int partner, int value, bool is_even) {
    MPI_Request requests[2 * AT_ONCE_MAX];
    int count = (int)posted - 1;
    fill(size, value + is_even);
    compute(between_us);
    if (is_even && late_us > 0) usleep((useconds_t)late_us);
    for (int i = 0; i < count; i++)
        MPI_Irecv(in + (long)i * size, size, MPI_BYTE, partner, 4, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < count; i++)
        MPI_Isend(out, size, MPI_BYTE, partner, 4, MPI_COMM_WORLD, &requests[count + i]);
    complete(2 * count, requests);
    return is_filled(size, value + !is_even);
}

/* The same by one call. */
static bool swap(int size, int partner, int value, bool is_even) {
    MPI_Status status;
    fill(size, value + is_even);
    compute(between_us);
    if (is_even && late_us > 0) usleep((useconds_t)late_us);
    MPI_Sendrecv(out, size, MPI_BYTE, partner, 4, in, size, MPI_BYTE, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &status);
    return status.MPI_SOURCE == partner && is_filled(size, value + !is_even);
}

static bool give(int size, int partner, int value) {
    fill(size, value);
    compute(between_us);
    if (late_us > 0) usleep((useconds_t)late_us);
    send(size, partner, 4);
    receive(size, partner, 5);
    return is_filled(size, value + 1);
}

static bool take(int size, int partner, int value) {
    receive(size, partner, 4);
    bool right = is_filled(size, value);
    fill(size, value + 1);
    compute(between_us);
    send(size, partner, 5);
    return right;
}

static bool both_ways(int size, int rank, int value) {
    if (wild == 2) return swap(size, rank ^ 1, value, rank % 2 == 0);
    if (posted >= 2) return exchange(size, rank ^ 1, value, rank % 2 == 0);
    return rank % 2 ? take(size, rank ^ 1, value) : give(size, rank ^ 1, value);
}

/* Blocks of this size, as far as there is room for one to each rank. */
static bool all_together(int size, int rank, int ranks, int value) {
    fill(size, value);
    MPI_Bcast(out, size, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Allreduce(out, in, size, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    bool right = is_filled(size, value);
    out[(long)rank * size] = (char)value;
    MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
    return right && ranks > 0;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    specimen_begin(argc, argv);
    int rank, ranks, largest = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    read_sizes(text_option(argc, argv, "--sizes", "8,256,2048,16384,65536"));
    for (int i = 0; i < size_count; i++) largest = sizes[i] > largest ? sizes[i] : largest;
    between_us = option(argc, argv, "--between-us", 100), late_us = option(argc, argv, "--late-us", 0);
    posted = option(argc, argv, "--posted", 0), any = option(argc, argv, "--any", 0);
    wild = option(argc, argv, "--wild", 0);
    out = calloc((size_t)ranks, (size_t)largest);
    in = calloc((size_t)ranks + AT_ONCE_MAX, (size_t)largest);
    if (!out || !in || posted > AT_ONCE_MAX + 1) MPI_Abort(MPI_COMM_WORLD, 2);
    long iterations = option(argc, argv, "--iterations", 1000), collectives = option(argc, argv, "--collectives", 0);
    const char *until = text_option(argc, argv, "--until", NULL);
    bool right = true;
    int end = 0, iteration = 0, own, all;
    while (!end) {
        iteration_begins(iteration);
        for (int i = 0; i < size_count; i++) {
            int value = (iteration + i) % 100;
            if ((rank ^ 1) < ranks) right = both_ways(sizes[i], rank, value) && right;
            for (long n = 0; n < collectives; n++) right = all_together(sizes[i], rank, ranks, value) && right;
        }
        iteration++;
        end = until ? access(until, F_OK) == 0 : iteration >= iterations;
        MPI_Bcast(&end, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    iterations_end(iteration);
    own = right;
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    right = verdict("pong", all, 1, 0, rank == 0);
    MPI_Finalize();
    return right ? 0 : 1;
}
