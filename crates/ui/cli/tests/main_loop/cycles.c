/* Cycles of three seconds around the iterations of a solver. Each cycle prints its number. FORM says where their
   counter is kept: 0 in a local variable, 1 in a global one that other code might change. Of form 2 there is one cycle, whose
   solver ends by its counter alone. Form 3 has no solver: a cycle takes longer than anybody waits for it. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static double value = 1;
int cycle, cycles;
/* Whoever has this may change it. */
int *volatile lent = &cycles;

__attribute__((noinline, noclone)) static void solve(int iterations, double tolerance) {
    double sum = 1;
#if FORM == 3
    sleep(30);
    iterations = 1;
#endif
    for (int iteration = 0; iteration < iterations && (FORM == 2 || sum > tolerance); iteration++) {
        usleep(50000);
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        value = sum / 2;
    }
}

__attribute__((noinline, noclone)) static void tell(int number) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) printf("%d\n", number);
    fflush(stdout);
}

__attribute__((noinline, noclone)) static void evolve(int count, volatile int *iterations) {
#if FORM != 1
    for (int number = 0; number < count; number++) {
        tell(number);
        solve(*iterations, 1e-9);
    }
#else
    cycles = count;
    for (cycle = 0; cycle < cycles; cycle++) {
        tell(cycle);
        solve(*iterations, 1e-9);
    }
#endif
}

int main(int argc, char **argv) {
    volatile int iterations = FORM == 2 ? 30000 : 60, count = FORM == 2 ? 1 : 500;
    MPI_Init(&argc, &argv);
    evolve(count, &iterations);
    *lent = 0;
    MPI_Finalize();
    return 0;
}
