/* Parallel regions whose functions compilers end in a jump to the runtime: the end of an atomic section after two reductions, of a
 * loop whose pieces are handed out, of one whose pieces are known. In each the two threads work 100 and 300 microseconds, or
 * 400 together. It ends when the file that UNTIL names exists.
 */
#include <mpi.h>
#include <omp.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#ifdef __clang__
#define OWN __attribute__((noinline))
#else
#define OWN __attribute__((noinline, noclone))
#endif

static volatile double sink;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

OWN double work(double us) {
    double end = now() + us * 1e-6, sum = 0;
    while (now() < end) sum += 1;
    sink = sum;
    return us;
}

OWN double reduced(void) {
    double first = 0, second = 0;
#pragma omp parallel reduction(+ : first, second)
    {
        first += work(100 + 200 * omp_get_thread_num());
        second += first;
    }
    return first + second;
}

OWN void handed_out(void) {
#pragma omp parallel for schedule(dynamic, 1)
    for (int piece = 0; piece < 4; piece++) work(100);
}

OWN void known(void) {
#pragma omp parallel for schedule(static, 1)
    for (int piece = 0; piece < 2; piece++) work(100 + 200 * piece);
}

int main(int argc, char **argv) {
    int provided, rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *until = getenv("UNTIL");
    double go_on = 1;
    for (int number = 1; number <= 100000 && go_on > 0; number++) {
        double one = rank == 0 && until && access(until, F_OK) == 0 ? 0 : 1;
        sink = reduced();
        handed_out();
        known();
        MPI_Allreduce(&one, &go_on, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
