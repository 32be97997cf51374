/* Wavefront, as in NAS LU: the ranks hold strips of columns, and a sweep goes through them block of rows by block of
 * rows, each block's edge handed on by one small blocking MPI_Send; then the same backwards. Nothing but small
 * blocking messages.
 *
 * Known answer: v[i][j] = (v[i-1][j] + v[i][j-1]) mod PRIME with edges of `iteration + 1` is linear in its edges, so
 * the last corner is (iteration + 1) times the corner computed alone once. --size: rows; --columns: per rank;
 * --block: rows per message.
 */
#include "specimen.h"
#include <mpi.h>
#include <stdint.h>

#define PRIME 1000003

static int ranks, rank, rows, columns, block;
static int64_t *above; /* the row above the block, kept over blocks */

/* One block of rows: `edge` is the column before this strip on entry, the strip's last column on return. */
static void sweep_block(int64_t *edge, int length) {
    for (int row = 0; row < length; row++) {
        int64_t before = edge[row];
        for (int column = 0; column < columns; column++)
            before = above[column] = (above[column] + before) % PRIME;
        edge[row] = before;
    }
}

/* One sweep from the rank with no `before` to the one with no `after`; returns the last value of this strip. */
static int64_t sweep(int64_t boundary, int before, int after, int tag) {
    int64_t edge[block];
    for (int column = 0; column < columns; column++) above[column] = boundary;
    for (int row = 0; row < rows; row += block) {
        for (int i = 0; i < block; i++) edge[i] = boundary;
        if (before != MPI_PROC_NULL)
            MPI_Recv(edge, block, MPI_INT64_T, before, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sweep_block(edge, block);
        if (after != MPI_PROC_NULL) MPI_Send(edge, block, MPI_INT64_T, after, tag, MPI_COMM_WORLD);
    }
    return edge[block - 1];
}

/* The last corner for an edge of one, by one process alone. */
static int64_t corner(void) {
    int width = columns * ranks;
    int64_t *row = malloc(sizeof(int64_t) * width);
    for (int column = 0; column < width; column++) row[column] = 1;
    for (int i = 0; i < rows; i++) {
        int64_t before = 1;
        for (int column = 0; column < width; column++) before = row[column] = (row[column] + before) % PRIME;
    }
    int64_t last = row[width - 1];
    free(row);
    return last;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    specimen_begin(argc, argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int iterations = (int)option(argc, argv, "--iterations", 500), good = 0;
    block = (int)option(argc, argv, "--block", 4);
    rows = (int)option(argc, argv, "--size", 256) / block * block;
    columns = (int)option(argc, argv, "--columns", 600);
    above = malloc(sizeof(int64_t) * columns);
    int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    int64_t one = corner();

    for (int iteration = 0; iteration < iterations; iteration++) {
        iteration_begins(iteration);
        int64_t want = one * (iteration + 1) % PRIME;
        int64_t forth = sweep(iteration + 1, left, right, 1), back = sweep(iteration + 1, right, left, 2);
        good += (rank < ranks - 1 || forth == want) && (rank > 0 || back == want);
    }
    iterations_end(iterations);

    int worst;
    MPI_Allreduce(&good, &worst, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    bool all_right = verdict("wave", worst, iterations, 0, rank == 0);
    MPI_Finalize();
    return all_right ? 0 : 1;
}
