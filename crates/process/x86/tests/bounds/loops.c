/* Loops of many forms around a call; the test counts the passes of each and compares what was said at each of them. */
#define LOOP(name) __attribute__((noinline, noclone)) void name(int n)
extern void mark(int);
int bound_of_all, passes_of_all;
long wide_bound;

LOOP(up) { for (int i = 0; i < n; i++) mark(i); }
LOOP(up_and_equal) { for (int i = 1; i <= n; i++) mark(i); }
LOOP(down) { for (int i = n; i > 0; i--) mark(i); }
LOOP(down_to_zero) { while (n-- > 0) mark(n); }
LOOP(by_three) { for (int i = 5; i < n; i += 3) mark(i); }
LOOP(unequal) { for (int i = 0; i != n; i++) mark(i); }
LOOP(tested_last) { int i = 0; do mark(i); while (++i < n); }
LOOP(constant) { for (int i = 0; i < 12; i++) mark(i + n); }
LOOP(wide) { for (long i = 0; i < (long)n * 2; i++) mark((int)i); }
LOOP(unsigned_one) { for (unsigned i = 0; i < (unsigned)n; i++) mark((int)i); }
LOOP(of_a_global) { bound_of_all = n; for (int i = 0; i < bound_of_all; i++) mark(i); }
LOOP(counted_in_a_global) { for (passes_of_all = 0; passes_of_all < n; passes_of_all++) mark(n); }
LOOP(with_a_second_exit) { for (int i = 0; i < n; i++) { mark(i); if (bound_of_all == -i) break; } }
LOOP(with_a_loop_inside) { for (int i = 0; i < n; i++) for (int k = 0; k < i % 3 + 1; k++) mark(k); }
LOOP(with_ways_back) { for (int i = 0; i < n; i++) { if (i % 3 == 1) continue; mark(i); } }
LOOP(without_a_counter) { for (int i = 1; i < n; i *= 2) mark(i); }
LOOP(moved_by_the_body) { for (int i = 0; i < n; i++) { mark(i); if (i % 5 == 2) i++; } }
