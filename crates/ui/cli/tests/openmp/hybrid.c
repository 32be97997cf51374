/* Two kinds of parallel regions whose threads have known, different work, with a barrier and a critical region, and MPI
 * between them. Each thread keeps its own clock: what it wrote down at the end is the truth of each step. It ends when the
 * file that UNTIL names exists, or after STEPS steps.
 *
 * Lines of the file that TRUTH names, one for each step, region and thread:
 *   step region thread region_s busy_s barrier_s lock_s
 * region_s is of the thread that has the region run; busy_s is the thread's time in the region outside of waits.
 */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#ifdef __clang__
#define OWN __attribute__((noinline))
#else
#define OWN __attribute__((noinline, noclone))
#endif
#define THREADS_MAX 8
#define REGIONS 2

struct note { double region, busy, barrier, lock; };
static struct note notes[STEPS + 1][REGIONS][THREADS_MAX];
volatile int last_step;
static volatile double sink;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

OWN void step(int number) { last_step = number; }

/* Works for so many microseconds of the wall's clock. */
OWN void work(double us) {
    double end = now() + us * 1e-6, sum = 0;
    while (now() < end) sum += 1;
    sink = sum;
}

/* The second thread works three times as long before the barrier; all come into the critical region at once. */
OWN void uneven(int number, int rank) {
    struct note *note = notes[number][0];
    double begun = now();
#pragma omp parallel /* uneven */
    {
        int me = omp_get_thread_num();
        double entered = now();
        work(100 + 200 * (me % 2) + 20 * rank);
        double before_barrier = now();
#pragma omp barrier
        double behind_barrier = now();
#pragma omp critical
        {
            note[me].lock = now() - behind_barrier;
            work(60);
        }
        note[me].barrier = behind_barrier - before_barrier;
        note[me].busy = now() - entered - note[me].barrier - note[me].lock;
    }
    note[0].region = now() - begun;
}

/* In each pass another thread works longest, so that in sum all work alike. */
OWN void turns(int number) {
    struct note *note = notes[number][1];
    double begun = now();
#pragma omp parallel /* turns */
    {
        int me = omp_get_thread_num();
        double entered = now();
        work((number + me) % 2 ? 250 : 50);
        note[me].busy = now() - entered;
    }
    note[0].region = now() - begun;
}

static void tell(const char *prefix) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", prefix, (int)getpid());
    FILE *file = fopen(path, "w");
    if (!file) return;
    for (int number = 1; number <= last_step; number++)
        for (int region = 0; region < REGIONS; region++)
            for (int me = 0; me < omp_get_max_threads() && me < THREADS_MAX; me++) {
                struct note *note = &notes[number][region][me];
                fprintf(file, "%d %d %d %.9f %.9f %.9f %.9f\n", number, region, me, note->region, note->busy,
                        note->barrier, note->lock);
            }
    fclose(file);
}

int main(int argc, char **argv) {
    int provided, rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *until = getenv("UNTIL");
    double go_on = 1;
    for (int number = 1; number <= STEPS && go_on > 0; number++) {
        double one = rank == 0 && until && access(until, F_OK) == 0 ? 0 : 1;
        step(number);
        uneven(number, rank);
        work(150);
        turns(number);
        MPI_Allreduce(&one, &go_on, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    }
    if (getenv("TRUTH")) tell(getenv("TRUTH"));
    MPI_Finalize();
    return 0;
}
