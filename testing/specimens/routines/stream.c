/* stream N: STREAM's triad of three arrays of N numbers, a hundred times.
 *
 * Known answer: each element of the last array. */
#include "routine.h"

enum { TIMES = 100 };

int main(int count, char **words) {
    if (count != 2) fail("stream takes N");
    long n = size_of(words[1]);
    double *a = room_for(n), *b = room_for(n), *c = room_for(n);
    for (long at = 0; at < n; at++) a[at] = 0, b[at] = 1, c[at] = 2;
    double wanted[3] = {0, 1, 2};
    for (int turn = 0; turn < TIMES; turn++) {
        for (long at = 0; at < n; at++) a[at] = b[at] + 0.5 * c[at];
        double *last = c, next = wanted[1] + 0.5 * wanted[2];
        c = b, b = a, a = last;
        wanted[0] = wanted[2], wanted[2] = wanted[1], wanted[1] = next;
    }
    for (long at = 0; at < n; at++)
        if (fabs(b[at] - wanted[1]) > 1e-9 * fabs(wanted[1])) fail("stream: wrong");
    printf("stream: %.6g\n", b[n - 1]);
    return 0;
}
