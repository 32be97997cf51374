// Functions whose names can be written in several ways, and one that the compiler puts into its caller.
#include <cstdio>
#include <unistd.h>

volatile int seen;

namespace ns {
struct S {
  int kept;
  __attribute__((noinline, noclone)) int advance(int n) const {
    for (int i = 0; i < n % 5; i++) seen = seen + kept;
    return n + kept;
  }
};
}  // namespace ns

__attribute__((noinline, noclone)) int advance(const int *n) {
  for (int i = 0; i < *n % 7; i++) seen = seen + i;
  return *n + 1;
}

__attribute__((noinline, noclone)) int advance(int n, double by) {
  for (int i = 0; i < n % 3; i++) seen = seen + i;
  return n + (int)by;
}

extern "C" __attribute__((noinline, noclone)) void rhs_(int *n) {
  for (int i = 0; i < 3; i++) seen = seen + *n;
}

static inline __attribute__((always_inline)) int small(int n) { return n * 7 + seen; }

int main() {
  ns::S s{3};
  puts("ready");
  fflush(stdout);
  for (int i = 0;; i++) {
    seen = s.advance(i) + advance(&i) + advance(i, 2.0) + small(i);
    rhs_(&i);
    usleep(1000);
  }
}
