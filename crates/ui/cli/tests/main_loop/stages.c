/* Steps of more than a second of two stages each, as a Runge-Kutta method has them, inside of a loop that is passed once. */
#include <mpi.h>
#include <unistd.h>

static double value = 1;

static void compute(double seconds) {
    double until = MPI_Wtime() + seconds;
    while (MPI_Wtime() < until) value = value * 0.999 + 0.001;
}

__attribute__((noinline, noclone)) static void advance(int stages) {
    for (int stage = 0; stage < stages; stage++) {
        double sum;
        compute(0.03);
        usleep(500000);
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        value = sum / 2;
    }
}

__attribute__((noinline, noclone)) static void run(int steps, volatile int *stages) {
    for (int step = 0; step < steps; step++) {
        advance(*stages);
        compute(0.01);
    }
}

int main(int argc, char **argv) {
    volatile int stages = 2, runs = 1;
    MPI_Init(&argc, &argv);
    for (int number = 0; number < runs; number++) run(1000000, &stages);
    MPI_Finalize();
    return 0;
}
