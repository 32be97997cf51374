/* dgemm LIBRARY N: one product of square matrices of N rows, by the BLAS in LIBRARY.
 *
 * Known answer: the sum of all elements is that of column sums times row sums. */
#include "routine.h"

typedef void product(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
                     const double *, const int *, const double *, double *, const int *);

int main(int count, char **words) {
    if (count != 3) fail("dgemm takes LIBRARY and N");
    product *dgemm = (product *)function_of(words[1], "dgemm_");
    long n = size_of(words[2]);
    double *a = room_for(n * n), *b = room_for(n * n), *c = room_for(n * n);
    for (long at = 0; at < n * n; at++) {
        a[at] = at % 7 - 3;
        b[at] = at % 11 - 4;
        c[at] = 0;
    }
    double one = 1, none = 0, wanted = 0, found = 0, largest = 1;
    int rows = (int)n;
    dgemm("N", "N", &rows, &rows, &rows, &one, a, &rows, b, &rows, &none, c, &rows);
    for (long k = 0; k < n; k++) {
        double column = 0, row = 0;
        for (long i = 0; i < n; i++) column += a[k * n + i], row += b[i * n + k];
        wanted += column * row;
    }
    for (long at = 0; at < n * n; at++) found += c[at], largest += fabs(c[at]);
    if (fabs(found - wanted) > 1e-9 * largest) fail("dgemm: wrong");
    printf("dgemm: %.0f\n", found);
    return 0;
}
