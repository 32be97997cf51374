// A library with one function.
volatile int seen;

int counted_step(int n) {
  for (int i = 0; i < 3; i++) seen += n;
  return seen;
}
