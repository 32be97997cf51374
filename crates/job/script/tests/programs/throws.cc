// Every second call of `fragile` leaves by an exception, which passes through `between` and is caught in `main`.
#include <cstdio>
#include <unistd.h>

volatile long total;

struct Cleaner {
  ~Cleaner() { total = total + 1; }
};

extern "C" __attribute__((noinline)) long fragile(long n) {
  if (n % 2) throw n;
  return n + total;
}

// It has something to clean up on the way, so the exception stops here for a moment.
extern "C" __attribute__((noinline)) long between(long n) {
  Cleaner cleaner;
  return fragile(n) + 1;
}

int main() {
  std::puts("ready");
  std::fflush(stdout);
  long caught = 0;
  for (long n = 0;; n++) {
    try {
      total = total + between(n);
    } catch (long thrown) {
      caught += thrown == n;
    }
    if (n % 2 && caught != n / 2 + 1) return 1;
    usleep(200);
  }
}
