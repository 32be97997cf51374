/* Loops that are left by a flag, which comparisons set somewhere else in a pass; as in far.c. */
#include <stdbool.h>
#include <math.h>
#define LOOP __attribute__((noinline, noclone)) void
/* Told in most builds; nothing can be told, and nothing wrong may be. */
#define ASKED(name) LOOP asked_##name(int n)
#define OTHER(name) LOOP other_##name(int n)
extern void step(int);
extern void work(double *, int);
struct sim { int it, nt, by_steps, by_time, done; double t, dt, t_end; };
static struct sim the;
static struct sim *of(int n)
{
    struct sim *s = &the;
    s->it = 0, s->nt = n, s->by_steps = 1, s->by_time = 0, s->done = 0, s->t = 0, s->dt = 0.1, s->t_end = n * 0.1 - 0.05;
    __asm__ volatile("" ::: "memory");
    return s;
}

ASKED(steps) { struct sim *s = of(n); int done = 0; while (!done) { step(s->it); s->it++; if (s->it >= s->nt) done = 1; work(&s->t, 0); } }
ASKED(local) { double x = 0; int done = 0, i = 0; while (!done) { step(i); i++; if (i == n) done = 1; work(&x, 0); } }
ASKED(truth) { struct sim *s = of(n); bool over = false; while (!over) { step(1); s->t += s->dt; over = s->t >= s->t_end; work(&s->t, 0); } }
ASKED(running) { struct sim *s = of(n); int runs = 1; while (runs) { step(s->it); s->it++; if (s->it >= s->nt) runs = 0; work(&s->t, 0); } }
ASKED(either) { struct sim *s = of(n); bool done = false; while (!done) { step(1); s->it++; s->t += s->dt; if (s->it >= s->nt || s->t >= s->t_end) done = true; work(&s->t, 0); } }
ASKED(one_after_the_other) { struct sim *s = of(n); bool done = false; while (!done) { step(1); s->it++; s->t += s->dt; if (s->it >= s->nt) done = true; if (s->t >= s->t_end) done = true; work(&s->t, 0); } }
ASKED(chosen) { struct sim *s = of(n); bool done = false; while (!done) { step(1); s->it++; s->t += s->dt; if (s->by_steps && s->it >= s->nt) done = true; if (s->by_time && s->t >= s->t_end) done = true; work(&s->t, 0); } }
ASKED(said) { struct sim *s = of(n); int done = 0; do { step(s->it); s->it++; if (s->it >= s->nt) { work(&s->t, 1); done = 1; } work(&s->t, 0); } while (!done); }
ASKED(member) { struct sim *s = of(n); while (!s->done) { step(s->it); s->it++; if (s->it >= s->nt) s->done = 1; work(&s->t, 0); } }
ASKED(broken) { struct sim *s = of(n); bool done = false; while (!done) { step(s->it); s->it++; if (s->it >= s->nt) done = true; work(&s->t, 0); if (isnan(s->t)) { work(&s->t, 1); done = true; } } }
OTHER(both) { struct sim *s = of(n); bool done = false; while (!done) { step(1); s->it++; s->t += s->dt; if (s->it >= s->nt / 2 && s->t >= s->t_end) done = true; work(&s->t, 0); } }
OTHER(seldom) { struct sim *s = of(n); bool done = false; while (!done) { step(1); s->it++; if (s->it % 3 == 0 && s->it >= s->nt) done = true; work(&s->t, 0); } }
OTHER(late) { struct sim *s = of(n); bool done = false; while (!done) { step(1); s->it++; if (s->it > s->nt / 2) { if (s->it >= s->nt) done = true; } else if (s->t > 1e9) done = true; work(&s->t, 0); } }
OTHER(twice) { struct sim *s = of(n); int done = 0; while (done < 2) { step(s->it); s->it++; if (s->it >= s->nt / 2) done++; work(&s->t, 0); } }
OTHER(undone) { struct sim *s = of(n); int done = 0; while (!done) { step(s->it); s->it++; if (s->it >= s->nt / 2) done = 1; work(&s->t, 0); if (s->it < s->nt) done = 0; } }
OTHER(counted) { struct sim *s = of(n); int left = n; while (left) { step(s->it); if (s->it++ >= 0) left--; work(&s->t, 0); } }
