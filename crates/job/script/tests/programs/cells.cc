// What probes read of a C++ program: classes with bases, references, names with scopes.
#include <cstdio>
#include <unistd.h>

namespace grid {
long cells = 12;
enum class Side : unsigned char { Left = 1, Right = 200 };
struct Base {
  long number = 5;
  virtual ~Base() {}
};
struct Cell : Base {
  static long made;
  double level = 2.5;
  Side side = Side::Right;
  bool open = true;
  Cell *self = this;
  __attribute__((noipa)) double lift_cell(const double &by, int times);
};
long Cell::made = 31;

double Cell::lift_cell(const double &by, int times) { return level + by * times; }
} // namespace grid

namespace {
volatile long hidden = 44;
}

__attribute__((noipa)) const long &larger_cell(const long &a, const long &b) { return a > b ? a : b; }

int main() {
  grid::Cell cell;
  long sum = 0;
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    double by = 0.25;
    sum += static_cast<long>(cell.lift_cell(by, 4)) + larger_cell(grid::cells, grid::Cell::made) + hidden;
    if (sum == 42) return 1;
    usleep(1000);
  }
}
