/* A library with an indirect function, and a program that could call it and does not. */
#include <stdio.h>
#include <unistd.h>

long picked(long n);

#ifdef LIBRARY
static long one(long n) { return n + 1; }
static long (*pick(void))(long) { return one; }
long picked(long n) __attribute__((ifunc("pick")));
#else
int main(int count, char **words) {
  (void)words;
  puts("ready");
  fflush(stdout);
  for (;;) {
    if (count > 1000) picked(count);
    usleep(200);
  }
}
#endif
