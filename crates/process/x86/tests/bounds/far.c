/* Loops as people write them; `step` is called once in each iteration, so that whoever looks on knows how many were made. */
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <stddef.h>
#include <stdbool.h>
#include <string.h>
#include <setjmp.h>
#define LOOP __attribute__((noinline, noclone)) void
/* Told in most builds; left in other ways too, so that no end may be told; nothing need be told. */
#define PLAIN(name) LOOP plain_##name(int n)
#define EXITS(name) LOOP exits_##name(int n)
#define OTHER(name) LOOP other_##name(int n)
extern void step(int);           /* one iteration */
extern void work(double *, int); /* something else */
extern double residual(void);    /* 1 always */
extern double now(void);
extern void get(int *, int);     /* puts a number there */
extern int check(int);           /* 0 always */
struct params { int nsteps; double dt; int every; long long big; };
static struct params par; struct params *pp = &par;
int nsteps_g; static int hidden; long it_g; size_t max_g;
static double field[64];
struct sim { int it; int nt; double *f; double t; };

PLAIN(up_plain) { for (int i = 0; i < n; i++) step(i); }
PLAIN(up_le) { for (int i = 1; i <= n; i++) step(i); }
PLAIN(up_ne) { for (int i = 0; i != n; ++i) step(i); }
PLAIN(down_from) { for (int i = n; i > 0; i--) step(i); }
PLAIN(down_ge) { for (int i = n - 1; i >= 0; i--) step(i); }
PLAIN(down_while) { int left = n; while (left--) step(left); }
PLAIN(by_two) { for (int i = 0; i < 2 * n; i += 2) step(i); }
PLAIN(by_two_odd) { for (int i = 1; i <= 2 * n; i += 2) step(i); }
PLAIN(down_by_two) { for (int i = 2 * n; i > 0; i -= 2) step(i); }
PLAIN(unsigned_up) { for (unsigned i = 0u; i < (unsigned)n; i++) step((int)i); }
PLAIN(unsigned_down) { for (unsigned i = (unsigned)n; i-- > 0;) step((int)i); }
PLAIN(long_up) { for (long i = 0; i < (long)n; i++) step((int)i); }
PLAIN(long_arg_up) { long long m = n; for (long long i = 1; i <= m; i++) step((int)i); }
PLAIN(size_up) { size_t m = (size_t)n; for (size_t i = 0; i < m; i++) step((int)i); }
PLAIN(struct_bound) { par.nsteps = n; for (int i = 0; i < par.nsteps; i++) step(i); }
OTHER(pointer_bound) { pp->nsteps = n; for (int i = 0; i < pp->nsteps; i++) step(i); }
PLAIN(local_struct) { struct params p; p.nsteps = n; p.dt = 1; for (int i = 0; i < p.nsteps; i++) step(i); }
PLAIN(local_struct_given) { struct params p = {n, 0.1, 3, 9}; get(&p.every, 5); for (int i = 0; i < p.nsteps; i++) step(i); }
PLAIN(global_bound) { nsteps_g = n; for (int i = 0; i < nsteps_g; i++) step(i); }
PLAIN(static_bound) { hidden = n; for (int i = 0; i < hidden; i++) step(i); }
OTHER(global_counter) { for (it_g = 0; it_g < n; it_g++) step((int)it_g); }
PLAIN(read_bound) { int m; get(&m, n); for (int i = 0; i < m; i++) step(i); }
PLAIN(text_bound) { char t[16]; snprintf(t, 16, "%d", n); int m = atoi(t); for (int i = 0; i < m; i++) step(i); }
OTHER(lent_counter) { int i; for (i = 0; i < n; i++) { step(i); get(&i, i); } }
OTHER(lent_and_moved) { int i; for (i = 0; i < n; i++) { step(i); if (i == 3) get(&i, 5); } }
OTHER(float_time) { double t = 0, dt = 0.25, end = n * 0.25; while (t < end) { step((int)t); t += dt; } }
OTHER(float_and_count) { double t = 0, dt = 0.25, end = n * 0.25; int it = 0; while (t < end) { step(it); t += dt; it++; } }
EXITS(float_or_count) { double t = 0; int it = 0; while (t < 1e9 && it < n) { step(it); t += 0.5; it++; } }
OTHER(count_and_float) { double t = 0; for (int it = 0; it < n && t < 3.0; it++) { step(it); t += 0.25; } }
static double time_g, since_g, dt_g;
/* Compilers make two loops of it: the time is loaded anew behind the work that is done seldom. */
EXITS(seldom_work) { dt_g = 0.25; since_g = 0; time_g = 200 - n * 0.25; while (time_g < 200.0) { if (time_g + dt_g > 200.0) dt_g = 200.0 - time_g; step((int)time_g); time_g = time_g + dt_g; since_g = since_g + dt_g; if (since_g >= 1.0) { since_g = since_g - 1.0; work(field, 2); } } }
EXITS(with_break) { for (int i = 0; i < 2 * n; i++) { step(i); if (i == n - 1 + check(i)) break; } }
EXITS(break_first) { for (int i = 0; i < 2 * n; i++) { if (check(i) + i == n) break; step(i); } }
PLAIN(forever) { int i = 0; while (1) { step(i); i++; if (i >= n) break; } }
PLAIN(forever_top) { int i = 0; for (;;) { if (i == n) break; step(i); i++; } }
PLAIN(forever_mid) { int i = 0; for (;;) { work(field, 3); if (i >= n) break; step(i); i++; } }
PLAIN(by_goto) { int i = 0; again: step(i); if (++i < n) goto again; }
PLAIN(by_goto_top) { int i = 0; again: if (i >= n) goto done; step(i); i++; goto again; done: work(field, 1); }
PLAIN(do_up) { int i = 0; do { step(i); i++; } while (i < n); }
PLAIN(do_down) { int i = n; do { step(i); } while (--i > 0); }
PLAIN(do_until) { int i = 0; bool done = false; do { step(i); i++; done = i >= n; } while (!done); }
static volatile double clock_end;
PLAIN(clock_alone) { clock_end = n; for (double t = 0; t <= clock_end; t += 0.25) field[(int)t & 31] += t; }
EXITS(clock_now_and_then) { static volatile double t; t = 0; clock_end = n; for (int i = 0;; i++) { step(i); t += 1; if (i % 8 == 7 && t >= clock_end) break; } }
EXITS(count_now_and_then) { static volatile int seen; seen = 0; for (int i = 0;; i++) { step(i); seen++; if (i % 16 == 15 && seen >= n) break; } }
EXITS(count_now_and_then_at_most) { static volatile int seen; seen = 0; for (int i = 0; i < 2 * n; i++) { step(i); seen++; if (i % 16 == 15 && seen >= n) break; } }
PLAIN(flag_loop) { int i = 0, go = n > 0; while (go) { step(i); i++; go = i < n; } }
EXITS(converge) { int it = 0; while (residual() > 1e-6 && it < n) { step(it); it++; } }
EXITS(converge_other) { int it = 0; while (it < n && residual() > 1e-6) { step(it); it++; } }
EXITS(converge_ends) { int it = 0; double err = 1; do { step(it); err = residual() - (it >= n - 1); it++; } while (err > 0.5 && it < 2 * n); }
EXITS(converge_for) { for (int it = 1; it <= 2 * n; it++) { step(it); if (residual() + (it == n) > 1.5) break; } }
PLAIN(two_n) { for (int i = 0; i < 2 * (n / 2); i++) step(i); if (n & 1) work(field, n); }
PLAIN(n_over) { for (int i = 0; i < (n + 3) / 4; i++) step(i); }
PLAIN(from_it0) { int it0 = n / 4; for (int it = it0; it < n; it++) step(it); }
PLAIN(from_read) { int it0; get(&it0, n / 4); for (int it = it0; it < n; it++) step(it); }
OTHER(from_read_to) { int it0; get(&it0, n / 4); for (int it = it0 + 1; it <= it0 + n; it++) step(it); }
PLAIN(first_special) { for (int i = 0; i < n; i++) { if (i == 0) work(field, 2); step(i); } }
PLAIN(last_special) { for (int i = 0; i < n; i++) { step(i); if (i == n - 1) work(field, 2); } }
PLAIN(third) { for (int i = 0; i < n; i++) { if (i < n / 3) work(field, 2); step(i); } }
PLAIN(switches) { for (int i = 0; i < n; i++) { switch (i % 5) { case 0: work(field, 1); break; case 1: work(field, 2); break; case 2: get(&nsteps_g, 2); break; case 3: residual(); break; default: now(); } step(i); } }
PLAIN(every) { for (int i = 0; i < n; i++) { step(i); if (i % 10 == 0) work(field, i); if ((i + 1) % 7 == 0) get(&nsteps_g, 3); } }
PLAIN(ping_pong) { double *a = field, *b = field + 32; for (int i = 0; i < n; i++) { step(i); work(a, i); double *s = a; a = b; b = s; } }
PLAIN(pointer_walk) { double *p = field, *e = field + n; for (; p < e; p++) { step((int)(p - field)); work(p, 1); } }
PLAIN(pointer_walk_index) { for (int i = 0; i < n; i++) { work(&field[i], 1); step(0); } }
PLAIN(merged) { for (int i = 0; i < n; i++) { step(i * 12); work(field + i % 3, i * 12); } }
PLAIN(merged_only) { for (long i = 0; i < n; i++) step((int)(i * 24)); }
PLAIN(entered_late) { int i = 0; if (n & 1) goto late; for (; i < n; i++) { step(i); late: work(field, 1); } }
PLAIN(entered_anywhere) { int i = 0; switch (n & 3) { case 0: while (i < n) { step(i); case 3: work(field, 1); case 2: work(field + 1, 2); case 1: work(field + 2, 3); i++; } } }
PLAIN(entered_late_below) { int i = n; if (n & 1) goto late; do { work(field, 1); late: step(i); } while (--i > 0); }
PLAIN(begun_or_read) { int it = 0; if (n & 1) get(&it, n / 4); else work(field, 2); while (residual() >= 0 && it < n) { step(it); it++; } }
EXITS(entered_late_left) { int i = 0; if (n & 1) goto late; for (; i < n; i++) { step(i); if (check(i)) return; late: work(field, 1); } }
EXITS(entered_late_and_left) { int i = 0; if (n & 1) goto late; for (;;) { step(i); late: if (residual() > 1e-6 && i < n) i++; else break; } }
#define FILL4(a, k) a[k] = k; a[k + 1] = k; a[k + 2] = k; a[k + 3] = k;
#define FILL16(a, k) FILL4(a, k) FILL4(a, k + 4) FILL4(a, k + 8) FILL4(a, k + 12)
#define FILL64(a, k) FILL16(a, k) FILL16(a, k + 16) FILL16(a, k + 32) FILL16(a, k + 48)
PLAIN(among_many_slots) { volatile long a[192]; for (int i = 0; i < n; i++) { FILL64(a, 0) step(i); FILL64(a, 64) FILL64(a, 128) } }
static jmp_buf over;
__attribute__((noinline)) void leave_at(int i, int n) { if (i + 1 >= n) longjmp(over, 1); }
LOOP pointed_exits_no_end(int n) { for (int i = 0; i < 10000000; i++) { step(i); leave_at(i, n); } }
EXITS(no_end) { if (!setjmp(over)) pointed_exits_no_end(n); }
LOOP pointed_exits_no_end_down(int n) { for (int i = 100000000; i--;) { step(i); leave_at(99999999 - i, n); } }
EXITS(no_end_down) { if (!setjmp(over)) pointed_exits_no_end_down(n); }
struct plan { int *ends; double *times; long chosen; struct sim *s; };
static int ends_of_all[8]; static double times_of_all[8];
static struct plan plan_g = {ends_of_all, times_of_all, 5, 0}; struct plan *plan_p = &plan_g;
PLAIN(bound_in_an_array) { struct plan *p = plan_p; p->ends[p->chosen] = n; for (int i = 0; i < p->ends[p->chosen]; i++) step(i); }
PLAIN(bound_in_an_array_of_steps) { struct plan *p = plan_p; int e = (int)p->chosen - 2; p->ends[e] = n; work(field, 1); for (int i = 1; i <= p->ends[e]; i++) { step(i); work(field, 2); } }
PLAIN(time_in_an_array) { struct plan *p = plan_p; p->times[p->chosen] = n * 0.25; for (double t = 0; t < p->times[p->chosen]; t += 0.25) step((int)t); }
PLAIN(two_counters) { for (int i = 0, k = n; i < k; i++) { step(i); work(field, k); } }
OTHER(meet) { for (int i = 0, k = 2 * n; i < k; i++, k--) step(i); }
OTHER(moved_by_body) { for (int i = 0; i < n; i++) { step(i); if (i % 5 == 2) i++; } }
OTHER(bound_shrinks) { for (int i = 0; i < n; i++) { step(i); if (i == 4) n--; } }
OTHER(bound_grows_by_call) { nsteps_g = n; for (int i = 0; i < nsteps_g; i++) { step(i); if (i == 4) get(&nsteps_g, n + 2); } }
OTHER(doubling) { for (int i = 1; i < n; i *= 2) step(i); }
PLAIN(in_struct) { struct sim s = {0, n, field, 0}; while (s.it < s.nt) { step(s.it); s.t += 0.1; s.it++; } }
static __attribute__((noinline)) void advance(struct sim *s) { step(s->it); s->it++; s->t += .1; }
OTHER(in_struct_lent) { struct sim s = {0, n, field, 0}; while (s.it < s.nt) advance(&s); }
OTHER(in_heap) { struct sim *s = malloc(sizeof *s); s->it = 0; s->nt = n; for (s->it = 0; s->it < s->nt; s->it++) step(s->it); free(s); }
PLAIN(inner_loops) { for (int i = 0; i < n; i++) { for (int k = 0; k < 3; k++) work(field, k); for (int k = 0; k < 64; k++) field[k] += 1; step(i); } }
PLAIN(vectorised) { double s[64]; for (int k = 0; k < 64; k++) s[k] = k; for (int i = 0; i < n; i++) { for (int k = 0; k < 64; k++) s[k] = s[k] * 0.5 + field[k]; work(s, i); step(i); } }
PLAIN(nested) { for (int o = 0; o < n; o++) for (int k = 0; k < 1; k++) step(o * 4 + k); }
OTHER(char_counter) { for (unsigned char i = 0; i < (unsigned char)n; i++) step(i); }
OTHER(short_counter) { for (short i = 0; i < n; i++) step(i); }
PLAIN(volatile_counter) { volatile int i; for (i = 0; i < n; i++) step(i); }
PLAIN(constant_bound) { for (int i = 0; i < 25; i++) step(n); }
#define NT 25
PLAIN(constant_le) { int i; for (i = 1; i <= NT; i++) step(n); }
PLAIN(constant_down) { for (int i = 25; i; --i) step(n); }
PLAIN(negative_start) { for (int i = -5; i < n - 5; i++) step(i); }
OTHER(time_based) { double t0 = now(); int i = 0; while (now() - t0 < n) { step(i); i++; } }
EXITS(returns_inside) { for (int i = 0; i < n; i++) { step(i); if (check(i)) return; } }
EXITS(exits_inside) { for (int i = 0; i < n; i++) { step(i); if (check(i)) exit(1); } }
PLAIN(continues) { for (int i = 0; i < n; i++) { step(i); if (i % 2) continue; work(field, i); } }
PLAIN(while_pre) { int i = 0; while (i++ < n) step(i); }
PLAIN(while_pre_dec) { int i = n + 1; while (--i > 0) step(i); }
PLAIN(while_ne_zero) { int left = n; while (left != 0) { step(left); left -= 1; } }
PLAIN(comma) { int i = 0; while (work(field, i), i < n) { step(i); i++; } }
PLAIN(with_vla) { double b[n + 1]; for (int i = 0; i < n; i++) { b[i] = i; work(b, i); step(i); } }
static void inlined_driver(int from, int to, int every) { for (int i = from; i < to; i++) { if (every && i % every == 0) work(field, i); step(i); } }
PLAIN(inlined) { inlined_driver(0, n, 5); }
PLAIN(phases) { for (int i = 0; i < 3; i++) work(field, i); for (int i = 0; i < n; i++) step(i); for (int i = 0; i < 3; i++) work(field, i); }
PLAIN(min_bound) { int m = n < 1000 ? n : 1000; for (int i = 0; i < m; i++) step(i); }
OTHER(max_twice) { int m = n > 3 ? n : 3; for (int i = 0; i < m && i < 100; i++) step(i); }
OTHER(lent_in_struct_moved) { int i; struct { int *p; int *q; } r = {&i, &n}; for (i = 0; i < n; i++) { step(i); if (i == 3) *r.p += 2; } work((double *)field, *r.q); }
OTHER(lent_by_pointer_moved) { int i; int *p = &i; get(p, 0); for (i = 0; i < n; i++) { step(i); if (i == 5) *p += 1; } }
OTHER(lent_bound_moved) { int m = n; for (int i = 0; i < m; i++) { step(i); if (i == 5) get(&m, n + 3); } }
static __attribute__((noinline, noclone)) void hands_on(int *p, int v) { get(p, v); }
OTHER(lent_by_wrapper_moved) { int m = n; for (int i = 0; i < m; i++) { step(i); if (i == 5) hands_on(&m, n + 3); } }
void (*getter)(int *, int) = get;
static __attribute__((noinline, noclone)) void hands_on_by_pointer(int *p, int v) { work(field, v); getter(p, v); }
OTHER(lent_by_pointed_wrapper_moved) { int m = n; for (int i = 0; i < m; i++) { step(i); if (i == 5) hands_on_by_pointer(&m, n + 3); } }
OTHER(lent_at_bottom) { int m[1]; m[0] = n; for (int i = 0; i < m[0]; i++) { step(i); if (i == 5) get(m, n + 3); } }
PLAIN(lent_down) { int m = n; get(&m, n); while (m > 0) { step(m); m--; } }
PLAIN(down_le) { for (int i = n; i >= 1; --i) step(i); }
PLAIN(bcast_bound) { int m = 0; get(&m, n); get(&nsteps_g, n); for (int it = 1; it <= m; it++) { step(it); if (it % 10 == 0) work(field, it); } }
PLAIN(step_of_five) { int m = 5 * n; for (int i = 0; i < m; i += 5) step(i); }
PLAIN(partial_step) { for (int i = 0; i < 3 * n - 1; i += 3) step(i); }
PLAIN(size_down) { for (size_t i = (size_t)n; i != 0; i--) step((int)i); }
PLAIN(long_of_int) { long total = n * 1L; for (long it = 0; it < total; ++it) { step((int)it); if (it == total / 2) work(field, 1); } }
PLAIN(unsigned_le) { unsigned m = (unsigned)n; for (unsigned i = 1; i <= m; ++i) step((int)i); }
PLAIN(unsigned_long_up) { unsigned long m = (unsigned long)n; unsigned long i = 0; while (i < m) { step((int)i); ++i; } }
OTHER(skips_on_error) { int it = 0; while (it < n) { if (check(it)) { it += 2; continue; } step(it); it++; } }
OTHER(retries) { int it = 0; while (it < n) { step(it); if (check(it)) continue; it++; } }
EXITS(with_label) { int it; for (it = 0; it < n; it++) { step(it); if (check(it)) goto out; } work(field, 1); out: work(field, it); }
PLAIN(two_tests) { for (int it = 0; it < n; it++) { step(it); if (it + 1 == n) { work(field, 1); } else { work(field, 2); } } }
PLAIN(calls_only_some) { for (int it = 0; it < n; it++) { if (it % 2) step(it); else { work(field, 1); step(it + 1); } } }
/* Whoever is given a struct may write to any of it; other ways out than the loop's own. */
#include <setjmp.h>
struct limits { double dt; int nsteps; int it; };
LOOP change(struct limits *l, int i) { if (i == 5) l->nsteps += 2; __asm__ volatile("":::"memory"); }
LOOP skip(struct limits *l, int i) { if (i == 5) l->it += 2; __asm__ volatile("":::"memory"); }
LOOP change_array(int *a, int i) { if (i == 5) a[2] += 2; __asm__ volatile("":::"memory"); }
OTHER(field_bound_moved) { struct limits l = {.5, n, 0}; for (int i = 0; i < l.nsteps; i++) { step(i); change(&l, i); } }
OTHER(field_counter_moved) { struct limits l = {.5, n, 0}; for (l.it = 0; l.it < n; l.it++) { step(l.it); skip(&l, l.it); } }
OTHER(array_bound_moved) { int m[3] = {1, 2, n}; for (int i = 0; i < m[2]; i++) { step(i); change_array(m, i); } }
OTHER(global_struct_bound_moved) { par.nsteps = n; for (int i = 0; i < par.nsteps; i++) { step(i); if (i == 5) get(&par.nsteps, n + 2); } }
static int total_g; int it_other;
LOOP grow(int i) { if (i == 5) total_g += 2; __asm__ volatile("":::"memory"); }
OTHER(static_bound_moved) { total_g = n; for (int i = 0; i < total_g; i++) { step(i); grow(i); } }
LOOP hop(int i) { if (i == 5) it_other += 2; __asm__ volatile("":::"memory"); }
OTHER(global_counter_moved) { for (it_other = 0; it_other < n; it_other++) { step(it_other); hop(it_other); } }
LOOP pointed_other_argument_bound_moved(struct limits *l) { for (int i = 0; i < l->nsteps; i++) { step(i); change(l, i); } }
OTHER(argument_bound_moved) { struct limits l = {.5, n, 0}; pointed_other_argument_bound_moved(&l); }
LOOP pointed_other_argument_counter_moved(struct limits *l) { for (l->it = 0; l->it < l->nsteps; l->it++) { step(l->it); skip(l, l->it); } }
OTHER(argument_counter_moved) { struct limits l = {.5, n, 0}; pointed_other_argument_counter_moved(&l); }
static jmp_buf out_of_it;
LOOP leap(int i) { if (i == 9) longjmp(out_of_it, 1); }
EXITS(longjmp) { if (setjmp(out_of_it) == 0) for (int i = 0; i < n; i++) { step(i); leap(i); } }
EXITS(global_flag) { hidden = 0; for (int i = 0; i < n && !hidden; i++) { step(i); if (i == 9) hidden = 1; } }
EXITS(deep_goto) { for (int i = 0; i < n; i++) { for (int k = 0; k < 2; k++) { work(field, k); if (i == 9 + check(i)) goto out; } step(i); } out: work(field, 0); }
OTHER(unsigned_wrap) { for (unsigned i = (unsigned)-3; i != (unsigned)n; i++) step((int)i); }
OTHER(bound_by_body_rarely) { int m = n; for (int i = 0; i < m; i++) { step(i); if (check(i) + i == 20) m -= 3; } }
OTHER(switch_moves) { for (int i = 0; i < n; i++) { step(i); switch (i) { case 4: i++; break; case 9: work(field, 1); break; default: check(i); } } }
OTHER(alias_bound) { int m = n, *p = check(1) ? &nsteps_g : &m; for (int i = 0; i < m; i++) { step(i); if (i == 5) *p += 2; } }
OTHER(alias_counter) { int i, *p = check(1) ? &nsteps_g : &i; for (i = 0; i < n; i++) { step(i); if (i == 5) *p += 2; } }
OTHER(union_counter) { union { int i; short s[2]; } u; for (u.i = 0; u.i < n; u.i++) { step(u.i); if (u.i == 5) u.s[0] += 2; } }
OTHER(byte_of_counter) { int i; for (i = 0; i < n; i++) { step(i); if (i == 5) ((char *)&i)[0] += 2; } }
OTHER(volatile_bound) { volatile int m = n; for (int i = 0; i < m; i++) { step(i); if (i == 5) m += 2; } }
PLAIN(volatile_bound_kept) { volatile int m = n; for (int i = 0; i < m; i++) step(i); }
PLAIN(long_down) { for (long i = n; i >= 1; i -= 1) { step((int)i); work(field, 1); } }
PLAIN(negative_to) { for (int i = -1; i >= -n; i--) step(i); }
/* Addresses that are given on the stack, as the request of MPI_Isend; ways out that nobody takes to leave a loop. */
#include <assert.h>
static int pick(int *a, int *b, int *c, int *d, int *e) { return sscanf("1 2 3 4 9", "%d %d %d %d %d", a, b, c, d, e); }
PLAIN(stack_given) { int a[4], e[4]; for (int i = 0; i < n; i++) { step(i); pick(a, a + 1, a + 2, a + 3, &e[1]); } }
OTHER(stack_given_counter_moved) { int a[4]; int i; for (i = 0; i < n; i++) { step(i); if (i == 5) pick(a, a + 1, a + 2, a + 3, &i); } }
OTHER(stack_given_bound_moved) { int a[4]; int m = n; for (int i = 0; i < m; i++) { step(i); if (i == 5) pick(a, a + 1, a + 2, a + 3, &m); } }
LOOP change_seventh(int a, int b, int c, int d, int e, int f, struct limits *l, int i) { if (i == 5) l->nsteps += 2; __asm__ volatile("":::"memory"); }
OTHER(stack_given_field_moved) { struct limits l = {.5, n, 0}; for (int i = 0; i < l.nsteps; i++) { step(i); change_seventh(1, 2, 3, 4, 5, 6, &l, i); } }
PLAIN(asserted) { for (int i = 0; i < n; i++) { step(i); assert(check(i) == 0); } }
EXITS(exit_or_assert) { for (int i = 0; i < 2 * n; i++) { step(i); if (i == n - 1 + check(i)) { if (check(i)) assert(0); break; } } }
/* Bounds and counters of somebody else's object. */
#define GIVEN(kind, name) LOOP pointed_##kind##_##name(struct limits *l); LOOP kind##_##name(int n) { struct limits l = {.5, n, 0}; pointed_##kind##_##name(&l); } LOOP pointed_##kind##_##name(struct limits *l)
static struct limits *kept_l, other_l;
static int *kept_n;
LOOP look(const struct limits *l) { field[0] += l->dt; __asm__ volatile("":::"memory"); }
LOOP look_deeper(const struct limits *l, int i) { if (i % 3) look(l); field[1] += l->nsteps; }
LOOP keep(struct limits *l) { kept_l = l; }
LOOP keep_bound(struct limits *l) { kept_n = &l->nsteps; }
LOOP grow_kept(int i) { if (i == 5 && kept_l) kept_l->nsteps += 2; __asm__ volatile("":::"memory"); }
LOOP grow_bound(int i) { if (i == 5 && kept_n) *kept_n += 2; __asm__ volatile("":::"memory"); }
LOOP change_some(struct limits *l, int i) { struct limits *q = check(i) ? &other_l : l; if (i == 5) q->nsteps += 2; __asm__ volatile("":::"memory"); }
struct holder { struct limits *l; int k; };
LOOP change_held(struct holder *h, int i) { if (i == 5) h->l->nsteps += 2; __asm__ volatile("":::"memory"); }
LOOP change_pair(double x, struct limits *l, int i) { field[0] += x; for (int k = 0; k < 2; k++) { if (i == 5 && k) l->nsteps += 2; } __asm__ volatile("":::"memory"); }
GIVEN(plain, given_bound) { for (int i = 0; i < l->nsteps; i++) step(i); }
GIVEN(plain, given_bound_looked_at) { for (int i = 0; i < l->nsteps; i++) { look(l); look_deeper(l, i); step(i); } }
GIVEN(plain, given_counter) { for (l->it = 0; l->it < l->nsteps; l->it++) step(l->it); }
GIVEN(plain, given_other_field) { for (int i = 0; i < l->nsteps; i++) { step(i); l->dt *= 1.1; work(field, i); } }
GIVEN(plain, given_down) { for (int i = 0; i != l->nsteps; ++i) { double b[3]; get(&l->it, i); work(b, i); step(i); } }
GIVEN(other, given_kept_inside) { for (int i = 0; i < l->nsteps; i++) { step(i); if (i == 2) keep(l); grow_kept(i); } kept_l = 0; }
GIVEN(other, given_bound_kept_inside) { for (int i = 0; i < l->nsteps; i++) { step(i); if (i == 2) keep_bound(l); grow_bound(i); } kept_n = 0; }
GIVEN(other, given_some) { for (int i = 0; i < l->nsteps; i++) { step(i); change_some(l, i); } }
GIVEN(other, given_held) { struct holder h = {l, 1}; for (int i = 0; i < l->nsteps; i++) { step(i); change_held(&h, i); } }
GIVEN(other, given_pair) { for (int i = 0; i < l->nsteps; i++) { step(i); change_pair(1, l, i); } }
GIVEN(other, given_moves) { struct limits more = {.5, l->nsteps + 3, 0}; for (int i = 0; i < l->nsteps; i++) { step(i); if (i == 5) l = &more; } }
GIVEN(other, given_own_write) { for (int i = 0; i < l->nsteps; i++) { step(i); if (i == 5) l->nsteps += 2; } }
GIVEN(other, given_alias) { int *q = &l->nsteps; for (int i = 0; i < l->nsteps; i++) { step(i); if (i == 5) *q += 2; } }
GIVEN(other, given_cond_alias) { int *q = check(1) ? &nsteps_g : &l->nsteps; for (int i = 0; i < l->nsteps; i++) { step(i); if (i == 5) *q += 2; } }
GIVEN(other, given_copy) { struct limits more = *l; more.nsteps += 2; for (int i = 0; i < l->nsteps; i++) { step(i); if (i == 5) *l = more; } }
GIVEN(other, given_memcpy) { struct limits more = *l; more.nsteps += 2; for (int i = 0; i < l->nsteps; i++) { step(i); if (i == 5) memcpy(l, &more, sizeof *l * (size_t)(1 + check(i))); } }
GIVEN(other, given_index) { int *a = (int *)l; for (int i = 0; i < l->nsteps; i++) { step(i); if (i < 4) a[i] += 2; } }
GIVEN(other, given_scanned) { for (int i = 0; i < l->nsteps; i++) { step(i); if (i == 5) { char t[8]; snprintf(t, 8, "%d", l->nsteps + 2); sscanf(t, "%d", &l->nsteps); } } }
GIVEN(other, given_counter_jumps) { for (l->it = 0; l->it < l->nsteps; l->it++) { int *q = &l->it; step(l->it); if (*q == 5) *q += 2; } }
LOOP pointed_other_given_kept_before(struct limits *l) { for (int i = 0; i < l->nsteps; i++) { step(i); grow_kept(i); } }
OTHER(given_kept_before) { struct limits l = {.5, n, 0}; keep(&l); pointed_other_given_kept_before(&l); kept_l = 0; }
LOOP pointed_other_given_kept_by_caller(struct limits *l) { for (int i = 0; i < l->nsteps; i++) { step(i); grow_kept(i); } }
OTHER(given_kept_by_caller) { struct limits l = {.5, n, 0}; kept_l = &l; pointed_other_given_kept_by_caller(&l); kept_l = 0; }
LOOP pointed_other_given_bound_kept(struct limits *l) { for (int i = 0; i < l->nsteps; i++) { step(i); grow_bound(i); } }
OTHER(given_bound_kept) { struct limits l = {.5, n, 0}; kept_n = &l.nsteps; pointed_other_given_bound_kept(&l); kept_n = 0; }
LOOP pointed_other_given_from_heap(struct limits *l) { for (int i = 0; i < l->nsteps; i++) { step(i); grow_kept(i); } }
OTHER(given_from_heap) { struct limits *l = malloc(sizeof *l); l->nsteps = n; kept_l = l; pointed_other_given_from_heap(l); kept_l = 0; free(l); }
LOOP pointed_other_given_twice(struct limits *l) { for (int i = 0; i < l->nsteps; i++) { step(i); grow_kept(i); } }
LOOP second_caller(struct limits *l) { pointed_other_given_twice(l); }
OTHER(given_twice) { struct limits l = {.5, n, 0}; kept_l = &l; second_caller(&l); kept_l = 0; struct limits m = {.5, 0, 0}; pointed_other_given_twice(&m); }
/* Addresses of a function's own variables that a call before the loop keeps, or has another one keep. */
LOOP keep_number(int *p) { kept_n = p; }
LOOP have_kept(int *p) { field[0] += 1; keep_number(p); field[1] += 1; }
LOOP look_at(const int *p) { field[0] += *p; __asm__ volatile("":::"memory"); }
OTHER(own_bound_kept_before) { int m = n; keep_number(&m); for (int i = 0; i < m; i++) { step(i); grow_bound(i); } kept_n = 0; }
OTHER(own_bound_kept_deeper) { int m = n; have_kept(&m); for (int i = 0; i < m; i++) { step(i); grow_bound(i); } kept_n = 0; }
OTHER(own_counter_kept_before) { int i = 0; keep_number(&i); for (; i < n; i++) { step(i); grow_bound(i); } kept_n = 0; }
OTHER(own_field_kept_before) { struct limits l = {.5, n, 0}; keep(&l); for (int i = 0; i < l.nsteps; i++) { step(i); grow_kept(i); } kept_l = 0; }
OTHER(own_bound_kept_by_pointer) { void (*volatile f)(int *) = keep_number; int m = n; f(&m); for (int i = 0; i < m; i++) { step(i); grow_bound(i); } kept_n = 0; }
OTHER(own_bound_kept_inside) { int m = n; for (int i = 0; i < m; i++) { step(i); if (i == 2) keep_number(&m); grow_bound(i); } kept_n = 0; }
PLAIN(own_bound_looked_at_before) { int m = n; look_at(&m); for (int i = 0; i < m; i++) { step(i); work(field, i); } look_at(&m); }
PLAIN(own_bound_scanned_before) { int m; char t[16]; snprintf(t, 16, "%d", n); sscanf(t, "%d", &m); for (int i = 0; i < m; i++) { step(i); work(field, i); } }
static struct limits static_l, given_l;
LOOP grow_static(int i) { if (i == 5) static_l.nsteps += 2; __asm__ volatile("":::"memory"); }
LOOP pointed_plain_given_static(struct limits *l) { for (int i = 0; i < l->nsteps; i++) step(i); }
PLAIN(given_static) { given_l.nsteps = n; pointed_plain_given_static(&given_l); }
LOOP pointed_other_given_static_moved(struct limits *l) { for (int i = 0; i < l->nsteps; i++) { step(i); grow_static(i); } }
OTHER(given_static_moved) { static_l.nsteps = n; pointed_other_given_static_moved(&static_l); }
/* Bounds at fixed addresses that other code knows by a pointer. */
static struct limits plain_kept, heap_kept, callee_kept, chosen_kept, returned_one, passed_one, never_kept;
static struct holder *on_heap;
LOOP keep_plain(void) { kept_l = &plain_kept; }
LOOP keep_on_heap(void) { on_heap = malloc(sizeof *on_heap); on_heap->l = &heap_kept; }
LOOP grow_on_heap(int i) { if (i == 5) on_heap->l->nsteps += 2; __asm__ volatile("":::"memory"); }
LOOP keep_chosen(int i) { kept_l = check(i) ? &static_l : &chosen_kept; }
__attribute__((noinline, noclone)) struct limits *the_one(void) { __asm__ volatile("":::"memory"); return &returned_one; }
LOOP grow_given(struct limits *l, int i) { if (i == 5) l->nsteps += 2; __asm__ volatile("":::"memory"); }
LOOP set_up(struct limits *l, int n) { l->nsteps = n; l->dt = .5; }
OTHER(fixed_kept_plainly) { plain_kept.nsteps = n; keep_plain(); for (int i = 0; i < plain_kept.nsteps; i++) { step(i); grow_kept(i); } kept_l = 0; }
OTHER(fixed_kept_on_heap) { heap_kept.nsteps = n; keep_on_heap(); for (int i = 0; i < heap_kept.nsteps; i++) { step(i); grow_on_heap(i); } free(on_heap); }
OTHER(fixed_kept_by_callee) { callee_kept.nsteps = n; keep(&callee_kept); for (int i = 0; i < callee_kept.nsteps; i++) { step(i); grow_kept(i); } kept_l = 0; }
OTHER(fixed_kept_by_choice) { chosen_kept.nsteps = n; keep_chosen(n); for (int i = 0; i < chosen_kept.nsteps; i++) { step(i); grow_kept(i); } kept_l = 0; }
OTHER(fixed_returned) { returned_one.nsteps = n; struct limits *l = the_one(); for (int i = 0; i < returned_one.nsteps; i++) { step(i); grow_given(l, i); } }
OTHER(fixed_passed) { passed_one.nsteps = n; for (int i = 0; i < passed_one.nsteps; i++) { step(i); grow_given(&passed_one, i); } }
PLAIN(fixed_set_up) { set_up(&never_kept, n); for (int i = 0; i < never_kept.nsteps; i++) { step(i); work(field, i); } }
OTHER(field_some_moved) { struct limits l = {.5, n, 0}; for (int i = 0; i < l.nsteps; i++) { step(i); change_some(&l, i); } }
OTHER(field_pair_moved) { struct limits l = {.5, n, 0}; for (int i = 0; i < l.nsteps; i++) { step(i); change_pair(1, &l, i); } }
OTHER(field_held_moved) { struct limits l = {.5, n, 0}; struct holder h = {&l, 1}; for (int i = 0; i < l.nsteps; i++) { step(i); change_held(&h, i); } }
OTHER(field_memcpy_moved) { struct limits l = {.5, n, 0}, more = {.5, n + 2, 0}; for (int i = 0; i < l.nsteps; i++) { step(i); if (i == 5) memcpy(&l, &more, sizeof l * (size_t)(1 + check(i))); } }
/* Pointers in a word of the frame, beside what others are given. */
struct far_holder { double pad[3]; struct limits *l; };
static struct far_holder copied_holder;
static struct far_holder *held_holder;
LOOP change_far_held(struct far_holder *h, int i) { if (i == 5) h->l->nsteps += 2; __asm__ volatile("":::"memory"); }
LOOP copy_held(struct far_holder *h) { copied_holder = *h; __asm__ volatile("":::"memory"); }
LOOP keep_holder(struct far_holder *h) { held_holder = h; __asm__ volatile("":::"memory"); }
LOOP grow_copied(int i) { if (i == 5) copied_holder.l->nsteps += 2; __asm__ volatile("":::"memory"); }
LOOP grow_held(int i) { if (i == 5) held_holder->l->nsteps += 2; __asm__ volatile("":::"memory"); }
LOOP swap_held(struct far_holder *h, struct limits *l, int i) { if (i == 5) h->l = l; __asm__ volatile("":::"memory"); }
__attribute__((noinline, noclone)) struct far_holder *same_holder(struct far_holder *h) { __asm__ volatile("":::"memory"); return h; }
static int grow_found(const void *key, const void *h) { if (*(const int *)key == 5) ((struct far_holder *)h)->l->nsteps += 2; return 0; }
LOOP two_sums(const double *a, double *b) { *b += *a; __asm__ volatile("":::"memory"); }
GIVEN(other, given_far_held) { struct far_holder h = {{1, 2, 3}, l}; for (int i = 0; i < l->nsteps; i++) { step(i); change_far_held(&h, i); } }
GIVEN(other, given_held_copied) { struct far_holder h = {{1, 2, 3}, l}; for (int i = 0; i < l->nsteps; i++) { step(i); copy_held(&h); grow_copied(i); } }
GIVEN(other, given_held_kept) { struct far_holder h = {{1, 2, 3}, l}; keep_holder(&h); for (int i = 0; i < l->nsteps; i++) { step(i); grow_held(i); } }
GIVEN(other, given_held_returned) { struct far_holder h = {{1, 2, 3}, l}; for (int i = 0; i < l->nsteps; i++) { step(i); struct far_holder *q = same_holder(&h); if (i == 5) q->l->nsteps += 2; } }
GIVEN(other, given_held_found) { struct far_holder h = {{1, 2, 3}, l}; for (int i = 0; i < l->nsteps; i++) { step(i); bsearch(&i, &h, 1, sizeof h, grow_found); } }
GIVEN(other, given_held_by_memcpy) { struct far_holder h = {{1, 2, 3}, l}; memcpy(&copied_holder, &h, sizeof h * (size_t)(1 + check(1))); for (int i = 0; i < l->nsteps; i++) { step(i); grow_copied(i); } }
GIVEN(other, given_held_swapped) { struct limits more = {.5, l->nsteps + 3, 0}; struct far_holder h = {{1, 2, 3}, l}; for (int i = 0; i < h.l->nsteps; i++) { step(i); swap_held(&h, &more, i); } }
GIVEN(other, given_held_by_index) { struct far_holder h[2] = {{{1, 2, 3}, l}, {{1, 2, 3}, l}}; for (int i = 0; i < l->nsteps; i++) { step(i); change_far_held(&h[i & 1], i); } }
GIVEN(plain, given_beside_locals) { double a = 1, b = 0; for (int i = 0; i < l->nsteps; i++) { two_sums(&a, &b); step(i); get(&l->it, i); } }
GIVEN(plain, given_beside_time) { char t[16]; for (int i = 0; i < l->nsteps; i++) { snprintf(t, 16, "%d", i); step(i); } }
/* Arrays of an object, walked through by a pointer. */
struct mesh { int it, nsteps; double dt; double u[32]; };
#define MESH(kind, name) LOOP pointed_##kind##_##name(struct mesh *m); LOOP kind##_##name(int n) { struct mesh m = {0, n, .5}; pointed_##kind##_##name(&m); } LOOP pointed_##kind##_##name(struct mesh *m)
LOOP relax(struct mesh *m) { for (int i = 1; i < 32; i++) m->u[i] += m->dt * (m->u[i - 1] - m->u[i]); }
LOOP relax_by_pointer(struct mesh *m) { for (double *p = m->u, *end = m->u + 32; p != end; p++) { *p += m->dt; __asm__ volatile("":::"memory"); } }
LOOP walk_down(struct mesh *m, int i) { for (int *p = (int *)m + 9; p > (int *)m; p--) { if (i == 5 && p == &m->nsteps) *p += 2; __asm__ volatile("":::"memory"); } }
LOOP walk_up(struct mesh *m, int i) { for (int *p = (int *)m, *end = p + 9; p != end; p++) { if (i == 5 && p == &m->nsteps) *p += 2; __asm__ volatile("":::"memory"); } }
LOOP walk_by(struct mesh *m, int i, long by) { int *p = (int *)m + 9; for (int k = 0; k < 9; k++) { if (i == 5 && p == &m->nsteps) *p += 2; p += by; __asm__ volatile("":::"memory"); } }
LOOP walk_behind(struct mesh *m, int i) { for (int *p = (int *)m + 4, *end = p + 9; p != end; p++) { if (i == 5) p[-3] += p == (int *)m + 4 ? 2 : 0; __asm__ volatile("":::"memory"); } }
LOOP walk_to_and_fro(struct mesh *m, int i) { int *p = (int *)m + 4; for (int k = 0; k < 6; k++) { p += k % 2 ? 3 : -3; if (i == 5 && p == &m->nsteps) *p += 2; __asm__ volatile("":::"memory"); } }
LOOP walk_chosen(struct mesh *m, int i) { int *p = check(i) ? (int *)(m->u + 3) : (int *)m; for (int k = 0; k < 4; k++, p++) { if (i == 5 && p == &m->nsteps) *p += 2; __asm__ volatile("":::"memory"); } }
LOOP walk_and_give(struct mesh *m, int i) { for (int *p = (int *)m, *end = p + 9; p != end; p++) if (i == 5 && p == &m->nsteps) get(p, m->nsteps + 2); }
MESH(plain, mesh_relaxed) { for (m->it = 0; m->it < m->nsteps; m->it++) { relax_by_pointer(m); step(m->it); } }
MESH(other, mesh_indexed) { for (m->it = 0; m->it < m->nsteps; m->it++) { relax(m); step(m->it); } }
MESH(other, mesh_walked_down) { for (int i = 0; i < m->nsteps; i++) { step(i); walk_down(m, i); } }
MESH(other, mesh_walked_up) { for (int i = 0; i < m->nsteps; i++) { step(i); walk_up(m, i); } }
MESH(other, mesh_walked_by) { for (int i = 0; i < m->nsteps; i++) { step(i); walk_by(m, i, -1); } }
MESH(other, mesh_walked_behind) { for (int i = 0; i < m->nsteps; i++) { step(i); walk_behind(m, i); } }
MESH(other, mesh_walked_to_and_fro) { for (int i = 0; i < m->nsteps; i++) { step(i); walk_to_and_fro(m, i); } }
MESH(other, mesh_chosen) { for (int i = 0; i < m->nsteps; i++) { step(i); walk_chosen(m, i); } }
MESH(other, mesh_given) { for (int i = 0; i < m->nsteps; i++) { step(i); walk_and_give(m, i); } }
MESH(other, mesh_walked_down_here) { for (int i = 0; i < m->nsteps; i++) { step(i); for (int *p = (int *)m + 9; p > (int *)m; p--) { if (i == 5 && p == &m->nsteps) *p += 2; __asm__ volatile("":::"memory"); } } }
/* What is left in registers, and results in two halves. */
struct pair_of { long k; struct limits *l; };
__attribute__((noinline, noclone)) struct pair_of make_pair(long a, long b, struct limits *l) { struct pair_of p = {a + b, l}; __asm__ volatile("":::"memory"); return p; }
__attribute__((noinline, noclone)) struct limits *choose(struct limits *a, struct limits *b, int c) { __asm__ volatile("":::"memory"); return c ? a : b; }
LOOP grow_third(int i, int k, struct limits *l) { if (i == k) l->nsteps += 2; __asm__ volatile("":::"memory"); }
LOOP grow_at(struct limits *l, int i, long more) { struct limits *q = (struct limits *)((char *)l - more); if (i == 5) q->nsteps += 2; __asm__ volatile("":::"memory"); }
GIVEN(other, given_in_pair) { for (int i = 0; i < l->nsteps; i++) { step(i); struct pair_of p = make_pair(i, 1, l); if (i == 5) p.l->nsteps += 2; } }
GIVEN(other, given_pair_passed_on) { for (int i = 0; i < l->nsteps; i++) { step(i); struct pair_of p = make_pair(i, 1, l); grow_third(i, 5, p.l); } }
GIVEN(other, given_chosen) { struct limits more = {.5, l->nsteps, 0}; for (int i = 0; i < l->nsteps; i++) { step(i); change(choose(l, &more, 1 + check(i)), i); } }
GIVEN(other, given_chosen_once) { struct limits more = {.5, l->nsteps, 0}, *q = check(1) ? &more : l; for (int i = 0; i < l->nsteps; i++) { step(i); change(q, i); } }
GIVEN(other, given_behind_maybe) { struct limits *q = check(1) ? l + 3 : l; for (int i = 0; i < l->nsteps; i++) { step(i); grow_at(q, i, 0); } }
GIVEN(other, given_index_then_call) { for (int i = 0; i < l->nsteps; i++) { step(i); change(l + check(i), i); } }
GIVEN(other, given_behind_chosen) { int *q = check(1) ? &nsteps_g : &l->it; for (int i = 0; i < l->nsteps; i++) { step(i); if (i == 5) get(q - 1 + check(i), l->nsteps + 2); } }
LOOP bump(int i) { field[i & 7] += 1; __asm__ volatile("":::"memory"); }
LOOP bump_by(int i, const struct limits *l) { field[i & 7] += l->dt; __asm__ volatile("":::"memory"); }
GIVEN(plain, given_left_in_register) { bump_by(1, l); for (int i = 0; i < l->nsteps; i++) { step(i); bump(i); bump_by(i, l); bump(i); } }
/* Several conditions that are one value before they are tested: by one of them alone nothing is said of the end. */
EXITS(both) { double t = 0; int it = 0; while (t < n && it < 2 * n) { step(it); it++; t += 1; } }
EXITS(both_turned) { double t = 0; int it = 0; while (it < 2 * n && t < n) { step(it); it++; t += 1; } }
OTHER(either) { double t = 0; int it = 0; while (it < n / 2 || t < n) { step(it); it++; t += 1; } }
OTHER(either_turned) { double t = 0; int it = 0; while (t < n || it < n / 2) { step(it); it++; t += 1; } }
EXITS(not_either) { double t = 0; int it = 0; while (!(t >= n || it >= 2 * n)) { step(it); it++; t += 1; } }
OTHER(not_both) { double t = 0; int it = 0; while (!(t >= n && it >= n / 2)) { step(it); it++; t += 1; } }
OTHER(chosen_end) { double t = 0; int it = 0; while (t < n / 2 ? it < n / 2 + 1 : it < n) { step(it); it++; t += 1; } }
EXITS(chosen_or_none) { double t = 0; int it = 0; while (t < n ? it < 2 * n : 0) { step(it); it++; t += 1; } }
OTHER(chosen_or_on) { double t = 0; int it = 0; while (t < n ? 1 : it < n / 2) { step(it); it++; t += 1; } }
EXITS(bits_of_both) { double t = 0; int it = 0; while ((t < n) & (it < 2 * n)) { step(it); it++; t += 1; } }
OTHER(bits_of_either) { double t = 0; int it = 0; while ((t < n) | (it < n / 2)) { step(it); it++; t += 1; } }
OTHER(bits_of_one) { double t = 0; int it = 0; while ((t < n) ^ (it >= 2 * n)) { step(it); it++; t += 1; } }
EXITS(both_kept) { double t = 0; int it = 0; bool go = n > 0; while (go) { step(it); it++; t += 1; go = t < n && it < 2 * n; } }
OTHER(either_kept) { double t = 0; int it = 0; bool go = n > 0; while (go) { step(it); it++; t += 1; go = t < n || it < n / 2; } }
OTHER(both_late) { int it = 0; bool go = n > 0, next = n > 0; while (go) { step(it); it++; go = next; next = residual() > .5 && it < n; } }
EXITS(do_both) { double t = 0; int it = 0; do { step(it); it++; t += 1; } while (t < n && it < 2 * n); }
OTHER(do_either) { double t = 0; int it = 0; do { step(it); it++; t += 1; } while (t < n || it < n / 2); }
EXITS(both_of_three) { double t = 0; int it = 0; while (residual() > .5 && t < n && it < 2 * n) { step(it); it++; t += 1; } }
OTHER(both_or_third) { double t = 0; int it = 0; while ((residual() > .5 && it < n / 2) || t < n) { step(it); it++; t += 1; } }
EXITS(both_and_either) { double t = 0; int it = 0; while ((residual() > 2 || t < n) && it < 2 * n) { step(it); it++; t += 1; } }
OTHER(skipped_if_both) { double t = 0; int it = 0; while (it < n) { step(it); bool is = t > 3 && it < n / 2; if (is) it += 2; it++; t += 1; } }
OTHER(left_if_not_both) { double t = 0; int it = 0; for (;;) { bool out = t >= n && it >= n / 2; if (out) break; step(it); it++; t += 1; } }
EXITS(left_if_either) { double t = 0; int it = 0; for (;;) { bool out = t >= n || it >= 2 * n; if (out) break; step(it); it++; t += 1; } }
/* The counter's first value, put there before calls that may change it, or may not. */
__attribute__((noinline, noclone)) void put_first(int *p, int v) { *p = v; __asm__ volatile("":::"memory"); }
__attribute__((noinline, noclone)) void put_behind(int *p, int v) { p[1] = v; __asm__ volatile("":::"memory"); }
__attribute__((noinline, noclone)) void move_by(struct limits *l, int v) { l->it = v; __asm__ volatile("":::"memory"); }
PLAIN(first_left) { int it = 0, m; get(&m, n); work(field, 1); do { step(it); it++; } while (it < m); }
PLAIN(first_left_long) { long it = 5, m = n + 5; char text[16]; snprintf(text, 16, "%ld", m); work(field, 1); do { step((int)it); it++; } while (it < m); }
PLAIN(first_left_while) { int it = 3; double s[4]; work(s, 2); check(1); while (it < n + 3) { step(it); work(s, 1); it++; } }
OTHER(first_lent) { int it = 0; get(&it, n / 4); do { step(it); it++; } while (it < n); }
OTHER(first_lent_by_wrapper) { int it = 0; hands_on(&it, n / 4); do { step(it); it++; } while (it < n); }
OTHER(first_lent_by_pointed_wrapper) { int it = 0; hands_on_by_pointer(&it, n / 4); do { step(it); it++; } while (it < n); }
OTHER(first_lent_here) { int it = 0; put_first(&it, n / 4); do { step(it); it++; } while (it < n); }
OTHER(first_lent_once) { int it = 0; if (check(n) == 0) put_first(&it, n / 4); do { step(it); it++; } while (it < n); }
OTHER(first_read) { char text[16]; int it = 0; snprintf(text, 16, "%d", n / 4); sscanf(text, "%d", &it); do { step(it); it++; } while (it < n); }
OTHER(first_copied) { int it = 0, k = n / 4; get(&k, k); memcpy(&it, &k, sizeof it + check(0)); do { step(it); it++; } while (it < n); }
OTHER(first_aliased) { int it = 0, other = 0, *p = check(1) ? &other : &it; *p = n / 4; do { step(it); it++; } while (it < n); }
OTHER(first_in_struct) { struct limits l = {.5, n, 0}; move_by(&l, n / 4); do { step(l.it); l.it++; } while (l.it < n); }
OTHER(first_in_array) { int m[3] = {0, 0, n}; put_behind(m, n / 4); do { step(m[1]); m[1]++; } while (m[1] < n); }
OTHER(first_kept_pointer) { int it = 0; struct { int *p; int k; } r = {&it, 1}; work(field, r.k); *r.p = n / 4; do { step(it); it++; } while (it < n); }
OTHER(first_on_one_way) { int it = 0; work(field, 1); if (check(n) == 0) it = n / 4; work(field, 1); do { step(it); it++; } while (it < n); }
OTHER(first_counted) { int it = 0; for (int k = 0; k < n / 4; k++) { work(field, k); it++; } do { step(it); it++; } while (it < n); }
OTHER(first_in_union) { union { int it; short s[2]; } u; u.it = 0; u.s[0] = (short)(n / 4); work(field, 1); do { step(u.it); u.it++; } while (u.it < n); }
OTHER(first_by_bytes) { int it = 0; char *p = (char *)&it; work(field, 1); p[check(1)] = (char)(n / 4); do { step(it); it++; } while (it < n); }
OTHER(first_by_index) { int it = 0, *p = &it; work(field, 1); p[check(1)] = n / 4; do { step(it); it++; } while (it < n); }
OTHER(counter_by_bytes) { int it = 0; char *p = (char *)&it; while (it < n) { step(it); if (it == 5) p[check(1)] += 2; it++; } }
OTHER(counter_by_index) { int it = 0, *p = &it; while (it < n) { step(it); if (it == 5) p[check(1)] += 2; it++; } }
OTHER(bound_by_bytes) { int m = n; char *p = (char *)&m; for (int i = 0; i < m; i++) { step(i); if (i == 5) p[check(1)] += 2; } }
OTHER(bound_by_index) { int m = n, *p = &m; for (int i = 0; i < m; i++) { step(i); if (i == 5) p[check(1)] += 2; } }
OTHER(static_bound_by_index) { hidden = n; int *p = &hidden; for (int i = 0; i < hidden; i++) { step(i); if (i == 5) p[check(1)] += 2; } }
