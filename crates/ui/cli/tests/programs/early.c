/* Calls as soon as it may, so that whoever comes later misses most. */
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, sum = 0, one = 1;
    MPI_Init(&argc, &argv);
    for (int step = 0; step < 300; step++) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int step = 0; step < 20; step++) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) printf("%d OK\n", sum);
    MPI_Finalize();
    return 0;
}
