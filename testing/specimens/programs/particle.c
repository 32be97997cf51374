/* Particle simulation on a 2-D mesh: every rank pushes its particles, which deposit charge on its part of the mesh,
 * and the field is smoothed with a 5-point stencil after a halo exchange with up to four neighbours.
 *
 * Known answer: smoothing with reflecting edges conserves the sum, so the sum over all ranks is what was there at
 * first plus what the particles deposited. A lost, stale or misplaced halo breaks it.
 *
 *   --iterations N --size N (mesh points per side and rank) --particles N (per rank)
 *   --nonblocking   Isend/Irecv/Waitall instead of blocking pairs of Send and Recv
 *   --sendrecv      Sendrecv instead
 *   --imbalance     the upper half of the ranks does its work twice
 *   --sleep-us N    sleeps in every iteration (0), so that a small machine has room for others
 *   --mark          calls measuremark(iteration) once per iteration
 *   --tag-iteration the tag of every message is iteration % 16384
 */
#include "specimen.h"
#include <mpi.h>

#define SMOOTHING 0.125
#define CHARGE (1.0 / 1024)

enum { NORTH, SOUTH, WEST, EAST, SIDES };
static const int opposite[SIDES] = {SOUTH, NORTH, EAST, WEST};

static int size, neighbour[SIDES], position[2];
static double *field, *smoothed, *x, *v;
static double *sent[SIDES], *received[SIDES];
static MPI_Comm mesh;

static double *at(double *values, int row, int column) { return values + (size_t)row * size + column; }

/* Copies the four edges out; where there is no neighbour the edge is its own halo, which reflects. */
static void pack(void) {
    for (int i = 0; i < size; i++) {
        sent[NORTH][i] = *at(field, 0, i);
        sent[SOUTH][i] = *at(field, size - 1, i);
        sent[WEST][i] = *at(field, i, 0);
        sent[EAST][i] = *at(field, i, size - 1);
    }
    for (int side = 0; side < SIDES; side++)
        if (neighbour[side] == MPI_PROC_NULL) memcpy(received[side], sent[side], sizeof(double) * size);
}

/* Ranks at odd places receive first, so that no pair waits for each other. */
static void exchange_blocking(int tag) {
    for (int side = 0; side < SIDES; side++) {
        int peer = neighbour[side], odd = position[side >= WEST] % 2;
        for (int turn = 0; turn < 2; turn++) {
            if (turn == odd)
                MPI_Send(sent[side], size, MPI_DOUBLE, peer, tag, mesh);
            else
                MPI_Recv(received[side], size, MPI_DOUBLE, peer, tag, mesh, MPI_STATUS_IGNORE);
        }
    }
}

static void exchange_sendrecv(int tag) {
    for (int side = 0; side < SIDES; side++)
        MPI_Sendrecv(sent[side], size, MPI_DOUBLE, neighbour[side], tag, received[opposite[side]], size, MPI_DOUBLE,
                     neighbour[opposite[side]], tag, mesh, MPI_STATUS_IGNORE);
}

static void exchange_nonblocking(int tag) {
    MPI_Request requests[2 * SIDES];
    for (int side = 0; side < SIDES; side++)
        MPI_Irecv(received[side], size, MPI_DOUBLE, neighbour[side], tag, mesh, &requests[side]);
    for (int side = 0; side < SIDES; side++)
        MPI_Isend(sent[side], size, MPI_DOUBLE, neighbour[side], tag, mesh, &requests[SIDES + side]);
    MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
}

static double value(int row, int column) {
    if (row < 0) return received[NORTH][column];
    if (row >= size) return received[SOUTH][column];
    if (column < 0) return received[WEST][row];
    if (column >= size) return received[EAST][row];
    return *at(field, row, column);
}

/* Reads `field`, writes `smoothed`: may be done twice with the same result. */
static void smooth(void) {
    for (int row = 0; row < size; row++) {
        bool inner_row = row > 0 && row < size - 1;
        for (int column = 0; column < size; column++) {
            double here = *at(field, row, column);
            double around = inner_row && column > 0 && column < size - 1
                                ? *at(field, row - 1, column) + *at(field, row + 1, column) +
                                      *at(field, row, column - 1) + *at(field, row, column + 1)
                                : value(row - 1, column) + value(row + 1, column) + value(row, column - 1) +
                                      value(row, column + 1);
            *at(smoothed, row, column) = here + SMOOTHING * (around - 4 * here);
        }
    }
}

/* Moves along x in [0, size) and is reflected at both ends. */
static void push(int particles, double step) {
    for (int i = 0; i < particles; i++) {
        x[i] += step * v[i];
        if (x[i] < 0 || x[i] >= size) {
            v[i] = -v[i];
            x[i] = x[i] < 0 ? -x[i] : 2 * size - x[i] - 1e-9;
        }
    }
}

static void deposit(int particles, double charge) {
    for (int i = 0; i < particles; i++) *at(field, i % size, (int)x[i] % size) += charge;
}

static void prepare(int particles) {
    size_t points = (size_t)size * size;
    field = malloc(sizeof(double) * points);
    smoothed = malloc(sizeof(double) * points);
    x = malloc(sizeof(double) * particles);
    v = malloc(sizeof(double) * particles);
    for (size_t i = 0; i < points; i++) field[i] = (double)(i % 7);
    for (int i = 0; i < particles; i++) {
        x[i] = (i * 37L) % size + 0.25;
        v[i] = 0.01 * (i % 11 - 5);
    }
    for (int side = 0; side < SIDES; side++) {
        sent[side] = malloc(sizeof(double) * size);
        received[side] = malloc(sizeof(double) * size);
    }
}

static double sum(void) {
    double own = 0, all = 0;
    for (int i = 0; i < size * size; i++) own += field[i];
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, mesh);
    return all;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    specimen_begin(argc, argv);
    int iterations = (int)option(argc, argv, "--iterations", 1000);
    int particles = (int)option(argc, argv, "--particles", 100000);
    size = (int)option(argc, argv, "--size", 512);
    bool nonblocking = flag(argc, argv, "--nonblocking"), sendrecv = flag(argc, argv, "--sendrecv");
    bool tagged = flag(argc, argv, "--tag-iteration");
    long sleep_us = option(argc, argv, "--sleep-us", 0);

    int ranks, rank, dims[2] = {0, 0}, periods[2] = {0, 0};
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Dims_create(ranks, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &mesh);
    MPI_Comm_rank(mesh, &rank);
    MPI_Cart_coords(mesh, rank, 2, position);
    MPI_Cart_shift(mesh, 0, 1, &neighbour[NORTH], &neighbour[SOUTH]);
    MPI_Cart_shift(mesh, 1, 1, &neighbour[WEST], &neighbour[EAST]);
    int repeats = flag(argc, argv, "--imbalance") && rank >= (ranks + 1) / 2 ? 2 : 1;
    prepare(particles);

    double want = sum() + CHARGE * iterations * (double)particles * ranks;
    for (int iteration = 0; iteration < iterations; iteration++) {
        iteration_begins(iteration);
        int tag = tagged ? iteration % 16384 : 1;
        for (int i = 0; i < repeats; i++) {
            push(particles, 1.0 / repeats);
            deposit(particles, CHARGE / repeats);
        }
        pack();
        if (nonblocking)
            exchange_nonblocking(tag);
        else if (sendrecv)
            exchange_sendrecv(tag);
        else
            exchange_blocking(tag);
        for (int i = 0; i < repeats; i++) smooth();
        if (sleep_us > 0) usleep((useconds_t)sleep_us);
        double *swap = field;
        field = smoothed;
        smoothed = swap;
    }
    iterations_end(iterations);

    bool right = verdict("particle", sum(), want, 1e-9, rank == 0);
    MPI_Finalize();
    return right ? 0 : 1;
}
