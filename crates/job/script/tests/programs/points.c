/* One round after the other in `main`, which is entered once: what each function is called per round is written at
 * its call. */
#ifdef SIGNALS
#include <signal.h>
#endif
#include <stdio.h>
#include <string.h>
#include <unistd.h>

volatile long total;
static volatile long length = 24, width = 3;

/* Two loops, one inside the other, and a call that is never made. */
__attribute__((noinline)) long work(long n) {
  long sum = 0;
  for (long i = 0; i < n; i++) {
    for (long j = 0; j < width; j++) sum += i ^ j ^ total;
    total = sum;
  }
  if (n == 1000) puts("never");
  return sum;
}

/* The same code under another name. */
long twice(long n) __attribute__((alias("work")));

/* Leaves by a jump to `work`. */
__attribute__((noinline)) long tail(long n) {
  total += n;
  return work(n + 1);
}

#ifndef NO_IFUNC
static long slow(long n) { total += n; return n + 1; }
static long fast(long n) { total += 2 * n; return n + 2; }
/* Which of them `chosen` is, is decided when the program starts. */
static long (*choose(void))(long) { return getpagesize ? fast : slow; }
long chosen(long n) __attribute__((ifunc("choose")));
#else
__attribute__((noinline)) long chosen(long n) { total += 2 * n; return n + 2; }
#endif

int main(void) {
  char from[64] = "some text", to[64];
#ifdef SIGNALS
  signal(SIGUSR1, SIG_IGN);
#endif
  puts("ready");
  fflush(stdout);
  for (;;) {
    total += work(2);                 /* 1, and with the calls below 3 */
    total += twice(3);                /* 1 */
    total += tail(4);                 /* 1 */
    total += chosen(5);               /* 1 */
    memcpy(to, from, (size_t)length); /* 1 */
    total += to[3];
    usleep(200);
  }
}
