/* FFT-like kernel: a 2-D complex transform forth and back each iteration, with the transposes done by MPI_Alltoall
 * and a checksum by MPI_Allreduce, as NAS FT does.
 *
 * Known answer: the field is one plane wave, so its transform has a single peak of size x size, and going back gives
 * the wave again. --size must be a power of two and a multiple of the number of ranks.
 */
#include "specimen.h"
#include <complex.h>
#include <mpi.h>

typedef double complex number;

static int size, rows, ranks, rank;
static number *mine, *out, *in;

/* In-place radix-2 transform of one row; direction -1 is forward, +1 backward (not scaled). */
static void transform_row(number *row, int direction) {
    for (int i = 1, j = 0; i < size; i++) {
        int bit = size >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        if (i < j) {
            number swap = row[i];
            row[i] = row[j];
            row[j] = swap;
        }
    }
    for (int length = 2; length <= size; length <<= 1) {
        number root = cexp(direction * 2 * M_PI * I / length);
        for (int begin = 0; begin < size; begin += length) {
            number twiddle = 1;
            for (int i = begin; i < begin + length / 2; i++) {
                number low = row[i], high = twiddle * row[i + length / 2];
                row[i] = low + high;
                row[i + length / 2] = low - high;
                twiddle *= root;
            }
        }
    }
}

static void transform_rows(int direction) {
    for (int row = 0; row < rows; row++) transform_row(mine + (size_t)row * size, direction);
}

/* Rows of all ranks become columns. Blocks of rows x rows go to each rank. */
static void transpose(void) {
    int block = rows * rows;
    for (int peer = 0; peer < ranks; peer++)
        for (int row = 0; row < rows; row++)
            for (int column = 0; column < rows; column++)
                out[peer * block + column * rows + row] = mine[(size_t)row * size + peer * rows + column];
    MPI_Alltoall(out, 2 * block, MPI_DOUBLE, in, 2 * block, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int peer = 0; peer < ranks; peer++)
        for (int row = 0; row < rows; row++)
            for (int column = 0; column < rows; column++)
                mine[(size_t)row * size + peer * rows + column] = in[peer * block + row * rows + column];
}

static number wave(int row, int column) {
    return cexp(2 * M_PI * I * (3.0 * (rank * rows + row) + 5.0 * column) / size);
}

static double distance_from_wave(void) {
    double own = 0, all = 0;
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < size; column++)
            own = fmax(own, cabs(mine[(size_t)row * size + column] - wave(row, column)));
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static double sum_of_magnitudes(void) {
    double own = 0, all = 0;
    for (int i = 0; i < rows * size; i++) own += cabs(mine[i]);
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    specimen_begin(argc, argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int iterations = (int)option(argc, argv, "--iterations", 500);
    size = (int)option(argc, argv, "--size", 256);
    if (size % ranks || size & (size - 1)) {
        if (rank == 0) fprintf(stderr, "fft: --size %d must be a power of two and a multiple of %d ranks\n", size, ranks);
        MPI_Finalize(); /* not MPI_Abort, which may end rank 0 before it has spoken */
        return 2;
    }
    rows = size / ranks;
    size_t bytes = sizeof(number) * (size_t)rows * size;
    mine = malloc(bytes), out = malloc(bytes), in = malloc(bytes);
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < size; column++) mine[(size_t)row * size + column] = wave(row, column);

    double peak = 0;
    for (int iteration = 0; iteration < iterations; iteration++) {
        iteration_begins(iteration);
        transform_rows(-1);
        transpose();
        transform_rows(-1);
        peak = sum_of_magnitudes();
        transform_rows(+1);
        transpose();
        transform_rows(+1);
        double scale = 1.0 / size / size;
        for (int i = 0; i < rows * size; i++) mine[i] *= scale;
    }
    iterations_end(iterations);

    bool returned = distance_from_wave() < 1e-8;
    bool right = verdict("fft", returned ? peak : -1, (double)size * size, 1e-7, rank == 0);
    MPI_Finalize();
    return right ? 0 : 1;
}
