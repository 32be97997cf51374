/* Programs with known nests of loops, one for each KIND; LOOP marks the line of the main one. They run until they are ended.
   MPI calls per pass and rank are in the comment of each. */
#include <mpi.h>

static int rank, size;
static double a[20000], b[20000];

static __attribute__((noinline)) void work(int rounds)
{
    for (int round = 0; round < rounds; round++)
        for (int i = 1; i < 19999; i++)
            b[i] = 0.5 * (a[i - 1] + a[i + 1]) + 1e-9 * round;
    a[5] = b[7];
}

static void exchange(void) /* 3 calls */
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(a, 10, MPI_DOUBLE, (rank + size - 1) % size, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(b, 10, MPI_DOUBLE, (rank + 1) % size, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
}

static double norm(void) /* 1 call */
{
    double mine = a[5], all;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

#if KIND == 1 /* rare calls: 3 + 1/4 + 1/10 */
static void run(void)
{
    for (long step = 0; step >= 0; step++) { /* LOOP */
        work(60);
        exchange();
        if (step % 4 == 0)
            norm();
        if (step % 10 == 9)
            norm();
    }
}
#elif KIND == 2 /* an iteration inside of time steps, of 5, 6 or 7 passes: 4 * 6 + 3 */
static void solve(int passes)
{
    for (int pass = 0; pass < passes; pass++) { /* INNER */
        work(20);
        exchange();
        if (norm() < -1)
            break;
    }
}

static void run(void)
{
    for (long step = 0; step >= 0; step++) { /* LOOP */
        work(20);
        exchange();
        solve(5 + step % 3);
    }
}
#elif KIND == 3 /* levels of a multigrid cycle that call each other: 2 cycles of 4 * 2 exchanges, and 1 */
static void level(int depth)
{
    work(4);
    exchange();
    for (int down = 0; depth < 3 && down < 1; down++)
        level(depth + 1);
    work(4);
    exchange();
}

static void run(void)
{
    for (long step = 0; step >= 0; step++) { /* LOOP */
        level(0);
        level(0);
        norm();
    }
}
#elif KIND == 4 /* a library's loop that calls back, steps in blocks: 3 + 1/4 */
static void each(void (*step)(long), long steps)
{
    for (long number = 0; number < steps; number++) /* LOOP */
        step(number);
}

static void step(long number)
{
    work(60);
    exchange();
    if (number % 4 == 0)
        norm();
}

static void (*volatile called)(long) = step;

static void run(void)
{
    each(called, 1L << 60);
}
#elif KIND == 5 /* nothing but a function that calls itself */
static double run_from(long steps)
{
    work(1000);
    exchange();
    return steps > 0 ? norm() + run_from(steps - 1) : 0;
}

static void run(void)
{
    a[9] = run_from(1000000);
}
#elif KIND == 6 /* loops with an end: steps, 7 sweeps in each, up to 9 passes of a solver in each of these: 7 * 9 * 1 */
#include <fcntl.h>
#include <unistd.h>
static volatile int many = 200000, seven = 7, nine = 9;

static __attribute__((noinline)) void note(int fd, long step)
{
    if (rank == 0 && pwrite(fd, &step, sizeof step, 0) != sizeof step)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static __attribute__((noinline)) void solve(double tolerance, int most)
{
    double error = 1;
    int it = 0;
    while (error > tolerance && it < most) { /* SOLVER */
        work(2);
        error = 1 + norm();
        it++;
    }
}

static __attribute__((noinline)) void sweep(void)
{
    int passes = seven;
    for (int pass = 0; pass < passes; pass++) /* SWEEP */
        solve(1e-9, nine);
}

static void run(void)
{
    int steps = many, fd = open("step", O_CREAT | O_WRONLY, 0600);
    for (int step = 1; step <= steps; step++) { /* LOOP */
        note(fd, step);
        sweep();
    }
}
#endif

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    run();
    MPI_Finalize();
    return 0;
}
