/* Conjugate gradient: each outer iteration solves A z = b with --inner steps, each step one halo exchange by
 * MPI_Sendrecv with both neighbours and two MPI_Allreduce; a loop inside a loop, as in NAS CG. (A marker finder must
 * choose between the two; the marks are at the outer one.)
 *
 * A = tridiagonal (-1, 3, -1) of order ranks x size. Known answer: b is made from a known vector, so z must be it;
 * the checksum is the mean of z, and the largest error over all outer iterations must be below 1e-6.
 */
#include "specimen.h"
#include <mpi.h>

static int ranks, rank, size;
/* Vectors with one halo point on each side. */
static double *z, *residual, *direction, *product, *known, *b;

static double *vector(void) { return calloc((size_t)size + 2, sizeof(double)); }

static void exchange(double *values) {
    int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(&values[1], 1, MPI_DOUBLE, left, 1, &values[size + 1], 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(&values[size], 1, MPI_DOUBLE, right, 2, &values[0], 1, MPI_DOUBLE, left, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void multiply(double *from, double *to) {
    exchange(from);
    for (int i = 1; i <= size; i++) to[i] = 3 * from[i] - from[i - 1] - from[i + 1];
}

static double dot(const double *one, const double *other) {
    double own = 0, all = 0;
    for (int i = 1; i <= size; i++) own += one[i] * other[i];
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void solve(int steps) {
    memset(z, 0, sizeof(double) * ((size_t)size + 2));
    memcpy(residual, b, sizeof(double) * ((size_t)size + 2));
    memcpy(direction, b, sizeof(double) * ((size_t)size + 2));
    double rho = dot(residual, residual);
    for (int step = 0; step < steps; step++) {
        multiply(direction, product);
        double alpha = rho / dot(direction, product);
        for (int i = 1; i <= size; i++) {
            z[i] += alpha * direction[i];
            residual[i] -= alpha * product[i];
        }
        double rho_before = rho;
        rho = dot(residual, residual);
        for (int i = 1; i <= size; i++) direction[i] = residual[i] + rho / rho_before * direction[i];
    }
}

static double error_max(void) {
    double worst = 0;
    for (int i = 1; i <= size; i++) worst = fmax(worst, fabs(z[i] - known[i]));
    return worst;
}

static double mean(void) {
    double own = 0, all = 0;
    for (int i = 1; i <= size; i++) own += z[i];
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all / size / ranks;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    specimen_begin(argc, argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int iterations = (int)option(argc, argv, "--iterations", 200), inner = (int)option(argc, argv, "--inner", 25);
    size = (int)option(argc, argv, "--size", 20000);
    z = vector(), residual = vector(), direction = vector(), product = vector(), known = vector(), b = vector();

    double worst = 0;
    for (int iteration = 0; iteration < iterations; iteration++) {
        iteration_begins(iteration);
        /* Alternating around one, so the mean is one whatever the iteration; the sizes are even. */
        for (int i = 1; i <= size; i++) known[i] = 1 + (i % 2 ? 0.5 : -0.5) * (1 + iteration % 3);
        multiply(known, b);
        solve(inner);
        worst = fmax(worst, error_max());
    }
    iterations_end(iterations);

    double worst_of_all, average = mean();
    MPI_Allreduce(&worst, &worst_of_all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    bool right = verdict("cg", worst_of_all < 1e-6 ? average : -1, 1, 1e-6, rank == 0);
    MPI_Finalize();
    return right ? 0 : 1;
}
