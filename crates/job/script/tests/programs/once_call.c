/* Programs in which a function of the C library may or may not be called at any moment, by MODE. Each computes for ever:
 * `rounds` counts, `wrong` counts whatever a call spoilt, `written` is the length of a file whose text waits in a buffer. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COMPUTES 0
#define ALLOCATES 1
#define FLUSHES 2
#define WAITS_IN_STREAM 3
#define WAITS 4
#define IN_HANDLER 5
#define IN_LIBRARY 6
#define IN_PLACE 7
#define OWN_MALLOC 8

volatile long rounds, wrong, written;
// Read anew each time, or the compiler would compute once for all rounds.
static volatile double sink, nothing;
static FILE *file;

#if MODE == OWN_MALLOC
static char pool[1 << 24];
static size_t used;
void *malloc(size_t size) {
  void *piece = pool + used;
  used += (size + 31) & ~(size_t)31;
  return used <= sizeof pool ? piece : NULL;
}
void free(void *piece) { (void)piece; }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *piece, size_t size) {
  void *fresh = malloc(size);
  if (piece && fresh) memcpy(fresh, piece, size);
  return fresh;
}
#endif

__attribute__((noinline, noclone)) static double compute(double value, long steps) {
  for (long i = 0; i < steps; i++) value = value * 0.5 + 1;
  return value;
}

__attribute__((noinline)) static void rounds_of_work(long count) {
  for (long round = 0; count < 0 || round < count; round++) {
    errno = 5;
    double value = compute(nothing, 3000);
    wrong += errno != 5 || value != 2;
#if MODE == IN_PLACE
    putc_unlocked('x', file);
#endif
    if (round % 64 == 0) {
      struct stat state;
      if (fstat(fileno(file), &state) == 0) written = state.st_size;
    }
    rounds++;
  }
}

__attribute__((unused)) static void *allocate(void *unused) {
  unsigned seed = 1;
  for (;;) {
    char *pieces[16];
    for (int i = 0; i < 16; i++) {
      size_t size = 16 + rand_r(&seed) % 5000;
      pieces[i] = malloc(size);
      memset(pieces[i], i, size);
    }
    for (int i = 0; i < 16; i++) {
      wrong += pieces[i][7] != i;
      free(pieces[i]);
    }
    sink = compute(nothing, 20000);
  }
  return unused;
}

__attribute__((unused)) static void *flush(void *unused) {
  FILE *nowhere = fopen("/dev/null", "w");
  for (long n = 0;; n++) {
    fprintf(nowhere, "%ld of them", n);
    fflush(nowhere);
    sink = compute(nothing, 20000);
  }
  return unused;
}

__attribute__((unused)) static void *wait_for_ever(void *unused) {
  int ends[2];
  char line[80];
  if (pipe(ends) != 0) wrong++;
#if MODE == WAITS_IN_STREAM
  if (fgets(line, sizeof line, fdopen(ends[0], "r"))) wrong++;
#else
  if (read(ends[0], line, sizeof line) >= 0) wrong++;
#endif
  return unused;
}

__attribute__((unused)) static void handler(int number) {
  (void)number;
  rounds_of_work(-1);
}

__attribute__((unused)) static int compared(const void *one, const void *other) {
  (void)one, (void)other;
  rounds_of_work(-1);
  return 0;
}

__attribute__((unused)) static void start(void *(*body)(void *)) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, NULL) != 0) exit(2);
}

int main(void) {
  file = tmpfile();
  puts("ready");
  fflush(stdout);
  fputs("waits in its buffer", file);
#if MODE == ALLOCATES
  start(allocate);
  start(allocate);
#elif MODE == FLUSHES
  start(flush);
#elif MODE == WAITS || MODE == WAITS_IN_STREAM
  start(wait_for_ever);
#elif MODE == IN_HANDLER
  signal(SIGUSR1, handler);
  raise(SIGUSR1);
#elif MODE == IN_LIBRARY
  int pair[2] = {2, 1};
  qsort(pair, 2, sizeof *pair, compared);
#endif
  rounds_of_work(-1);
}
