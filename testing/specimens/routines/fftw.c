/* fftw LIBRARY N: four transforms of N complex numbers and back, by the FFTW in LIBRARY.
 *
 * Known answer: the numbers of the beginning. */
#include "routine.h"

enum { TIMES = 4, ESTIMATE = 1 << 6 };

typedef void *plan_of(int, double *, double *, int, unsigned);
typedef void carry_out(void *);

int main(int count, char **words) {
    if (count != 3) fail("fftw takes LIBRARY and N");
    plan_of *plan = (plan_of *)function_of(words[1], "fftw_plan_dft_1d");
    carry_out *execute = (carry_out *)function_of(words[1], "fftw_execute");
    long n = size_of(words[2]);
    double *values = NULL;
    if (posix_memalign((void **)&values, 64, 2 * n * sizeof *values)) fail("too little memory");
    void *forth = plan((int)n, values, values, -1, ESTIMATE), *back = plan((int)n, values, values, 1, ESTIMATE);
    if (!forth || !back) fail("fftw has no plan");
    for (long at = 0; at < 2 * n; at++) values[at] = at % 13 - 6;
    for (int turn = 0; turn < TIMES; turn++) {
        execute(forth);
        execute(back);
        for (long at = 0; at < 2 * n; at++) values[at] /= n;
    }
    for (long at = 0; at < 2 * n; at++)
        if (fabs(values[at] - (at % 13 - 6)) > 1e-6) fail("fftw: wrong");
    printf("fftw: %ld numbers\n", n);
    return 0;
}
