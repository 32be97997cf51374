/* What probes read of a program with debugging information; every value they see is written here. */
#include <stdio.h>
#include <unistd.h>

enum kind { LIGHT = 3, HEAVY = 7 };

struct base {
  double mass;
  float charge;
};
struct particle {
  struct base base;
  unsigned int tag : 3;
  int spin : 5;
  enum kind kind;
  short grid[2][3];
  struct particle *next;
  union {
    long whole;
    int halves[2];
  };
  const char *name;
};
typedef struct particle particle_t;
struct pair {
  long first;
  double second;
};
struct large {
  long values[4];
};

static volatile long counter = 11;
double table[4] = {0.5, 1.5, 2.5, 3.5};
__thread volatile long own = 5;
extern long shared;
long rounds_other(void);
void rest_other(void);

__attribute__((noipa)) double move_particle(particle_t *p, double dt, int steps) {
  static volatile long calls = 77;
  double way = p->base.mass * dt;
  for (int i = 0; i < steps; i++) {
    way += 0.25; /* each step */
    counter += own - 5;
  }
  return way + (calls - 77);
}

__attribute__((noipa)) long many(long a, long b, long c, long d, long e, long f, long g, short h, float x, char i) {
  return a + b + c + d + e + f + g + h + (long)x + i;
}

static __attribute__((noinline)) long shrunk(long kept, long always) {
  __asm__ volatile("" ::: "memory");
  return kept * always + counter;
}

__attribute__((noipa)) long both(struct pair pair) { return pair.first + (long)pair.second; }

__attribute__((noipa)) struct large make(unsigned char seed) {
  struct large made = {{seed, seed + 1, seed + 2, seed + 3}};
  return made;
}

__attribute__((noipa)) void nothing(void) { __asm__ volatile("" ::: "memory"); }

int main(void) {
  static particle_t second = {{1.5, 0.5f}, 5, -3, HEAVY, {{1, 2, 3}, {4, 5, -6}}, 0, {0x500000006}, "second"};
  static particle_t first = {{4.5, 0.25f}, 2, 7, LIGHT, {{0}}, &second, {9}, "first"};
  long sum = 0;
  puts("ready");
  fflush(stdout);
  for (;;) {
    sum += (long)move_particle(&first, 0.5, 3);
    sum += many(1, 2, 3, 4, 5, 6, 70, -8, 9.5f, 'x') + shrunk(sum & 1, 5);
    sum += both((struct pair){20, 2.5}) + make(200).values[1];
    nothing();
    rest_other();
    sum += rounds_other() + shared;
    if (sum == 42) return 1;
    usleep(1000);
  }
}
