/* Embarrassingly parallel: every rank integrates its share of 4/(1+x^2), and the ranks speak only every --every
 * iterations, by one MPI_Allreduce.
 *
 * Known answer: pi, once all iterations have been done. --size: sample points per rank and iteration.
 */
#include "specimen.h"
#include <mpi.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    specimen_begin(argc, argv);
    int ranks, rank;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long iterations = option(argc, argv, "--iterations", 500), every = option(argc, argv, "--every", 16);
    long size = option(argc, argv, "--size", 500000);
    double points = (double)iterations * (double)size * ranks, own = 0, all = 0;

    for (long iteration = 0; iteration < iterations; iteration++) {
        iteration_begins((int)iteration);
        double part = 0;
        for (long i = 0; i < size; i++) {
            double x = ((double)(i * ranks + rank) * (double)iterations + (double)iteration + 0.5) / points;
            part += 4 / (1 + x * x);
        }
        own += part / points;
        if ((iteration + 1) % every == 0) MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    iterations_end((int)iterations);

    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    bool right = verdict("ep", all, M_PI, 1e-9, rank == 0);
    MPI_Finalize();
    return right ? 0 : 1;
}
