/* Loops that are left by what a called function says; as in far.c. */
#include <stdbool.h>
#include <math.h>
#define LOOP __attribute__((noinline, noclone)) void
/* As code that lies in another file. */
#define FAR __attribute__((noipa))
/* Told in most builds; nothing can be told, and nothing wrong may be. */
#define ASKED(name) LOOP asked_##name(int n)
#define OTHER(name) LOOP other_##name(int n)
extern void step(int);
extern void work(double *, int);
struct sim { int it, nt, *stop; double t, dt, t_end; float u, u_end; long left; struct sim *inner; };
static struct sim the, within;
static int flag;
static struct sim *of(int n)
{
    struct sim *s = &the;
    s->it = 0, s->nt = n, s->stop = &flag, s->t = 0, s->dt = 0.1, s->t_end = n * 0.1 - 0.05, s->u = 0, s->u_end = n - 0.5f;
    s->left = n, s->inner = &within;
    within = *s;
    __asm__ volatile("" ::: "memory");
    return s;
}
FAR bool is_over(const struct sim *s) { return s->it >= s->nt; }
FAR int goes_on(const struct sim *s) { return s->t + 0.5 * s->dt < s->t_end; }
FAR bool is_short(const struct sim *s) { return s->u < s->u_end; }
FAR bool is_early(const struct sim *s) { return s->u + 0.25 < s->t_end * 10; }
FAR long left(void) { return the.left; }
FAR int advance(struct sim *s) { s->it++; return s->it < s->nt; }
FAR bool is_stopped(struct sim *s) { if (*s->stop) return true; if (s->it >= s->nt) return true; return false; }
FAR int steps_of(const struct sim *s) { return s->inner->nt; }
FAR bool is_over_within(const struct sim *s) { return s->it >= steps_of(s); }
FAR bool is_over_and_late(const struct sim *s) { return s->it >= s->nt && s->t >= 0; }
FAR bool is_over_or_broken(const struct sim *s) { double all[4] = {s->t, s->dt, 1, 2}; work(all, 1); return isnan(all[2]) || s->it >= s->nt; }
FAR double time_left(const struct sim *s) { return s->t_end - s->t; }
FAR bool by_sum(const struct sim *s) { int k, sum = 0; for (k = 0; k < 5; k++) sum += s->it; return sum >= 5 * s->nt; }
FAR bool by_hash(const struct sim *s) { return (s->it * 2654435761u >> 26) == 5 || s->it >= s->nt; }
FAR bool alternates(struct sim *s) { return s->it % 2 ? s->it >= s->nt : s->t >= s->t_end; }
FAR bool both(const struct sim *s) { return s->it >= s->nt / 2 && s->t >= s->t_end; }
/* Asks first, and then works for longer than anybody follows. */
FAR int one_step(struct sim *s)
{
    if (s->nt > 0 && s->it >= s->nt)
        return 0;
    double all[64];
    for (int k = 0; k < 5000; k++)
        all[k % 64] = k + s->t;
    work(all, 3);
    step(s->it++);
    return 1;
}

ASKED(over) { struct sim *s = of(n); while (!is_over(s)) { step(s->it); s->it++; } }
ASKED(own) { struct sim s = *of(n); while (!is_over(&s)) { step(s.it); s.it++; } }
ASKED(time) { struct sim *s = of(n); while (goes_on(s)) { step(1); s->t += s->dt; } }
ASKED(single) { struct sim *s = of(n); while (is_short(s)) { step(1); s->u += 1; } }
ASKED(early) { struct sim *s = of(n); while (is_early(s)) { step(1); s->u += 1; } }
ASKED(count) { of(n); while (left() > 0) { step(1); the.left--; } }
ASKED(advance) { struct sim *s = of(n); do step(s->it); while (advance(s)); }
ASKED(stopped) { struct sim *s = of(n); for (;;) { if (is_stopped(s)) break; step(s->it); s->it++; } }
ASKED(nested) { struct sim *s = of(n); while (!is_over_within(s)) { step(s->it); s->it += 1; } }
ASKED(late) { struct sim *s = of(n); while (!is_over_and_late(s)) { step(s->it); s->it += 1; } }
/* A number that shrinks may be a residual. */
OTHER(compared) { struct sim *s = of(n); while (time_left(s) > 0) { step(s->it); s->t += s->dt; } }
ASKED(two) { struct sim *s = of(n); while (!is_over(s) && goes_on(s)) { step(s->it); s->it++; s->t += s->dt; } }
ASKED(working) { struct sim *s = of(n); while (one_step(s)) work(&s->t, 0); }
ASKED(flagged) { struct sim *s = of(n); bool done = false; while (!done) { step(s->it); s->it++; done = is_over(s); } }
OTHER(broken) { struct sim *s = of(n); while (!is_over_or_broken(s)) { step(s->it); s->it += 1; } }
OTHER(sum) { struct sim *s = of(n); while (!by_sum(s)) { step(s->it); s->it += 1; } }
OTHER(hash) { struct sim *s = of(n); while (!by_hash(s)) { step(s->it); s->it += 1; } }
OTHER(alternates) { struct sim *s = of(n); while (!alternates(s)) { step(s->it); s->it++; s->t += 0.7 * s->dt; } }
OTHER(both) { struct sim *s = of(n); while (!both(s)) { step(s->it); s->it++; s->t += s->dt; } }
