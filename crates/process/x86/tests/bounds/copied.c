/* Loops whose first or last passes are other ones, which compilers move out of the loop, and loops behind calls of the same
   functions, which are no passes. `step` and `begin_step` are an iteration each; `stepped` is one if it is told so.
   Of a TWIN compilers make the same code as of another program that calls `begin_step` before its loop: only debugging
   information tells them apart. */
#define LOOP __attribute__((noinline, noclone)) void
#define PLAIN(name) LOOP plain_##name(int n)
#define EXITS(name) LOOP exits_##name(int n)
#define OTHER(name) LOOP other_##name(int n)
#ifdef TWINS
#define TWIN(name) OTHER(name)
#else
#define TWIN(name) LOOP twin_##name(int n)
#endif
extern void step(int);
extern void begin_step(int);
extern void stepped(int, int);
extern void work(double *, int);
extern double residual(void);
extern int check(int);
extern void get(int *, int);
static double field[64];

OTHER(first_alone) {
  for (int i = 0; i < n; i++) {
    if (i == 0)
      begin_step(i);
    else
      step(i);
  }
}
OTHER(first_alone_declared_before) {
  int i;
  for (i = 0; i < n; i++) {
    if (i == 0)
      begin_step(i);
    else
      step(i);
  }
}
OTHER(first_alone_with_work) {
  int i;
  work(field, n);
  for (i = 0; i < n; i++) {
    if (i == 0) {
      begin_step(i);
      work(field, i);
    } else {
      step(i);
      work(field, i);
      work(field, i);
    }
  }
  work(field, n);
}
TWIN(first_alone_constant) {
  for (int i = 0; i < 25; i++) {
    if (i == 0)
      begin_step(i);
    else
      step(i);
  }
}
OTHER(first_alone_read) {
  int m;
  get(&m, n);
  for (int i = 0; i < m; i++) {
    if (i == 0)
      begin_step(i);
    else
      step(i);
  }
}
TWIN(first_alone_of_one_or_more) {
  int m = n < 1 ? 1 : n;
  for (int i = 0; i < m; i++) {
    if (i == 0)
      begin_step(i);
    else
      step(i);
  }
}
OTHER(first_two) {
  for (int i = 0; i < n; i++) {
    if (i < 2)
      begin_step(i);
    else
      step(i);
  }
}
OTHER(first_ten) {
  for (int i = 1; i <= n; i++) {
    if (i <= 10)
      begin_step(i);
    else
      step(i);
  }
}
OTHER(last_alone) {
  for (int i = 0; i < n; i++) {
    if (i < n - 1)
      step(i);
    else
      begin_step(i);
  }
}
OTHER(last_alone_first) {
  for (int i = 0; i < n; i++) {
    if (i == n - 1)
      begin_step(i);
    else
      step(i);
  }
}
OTHER(half_and_half) {
  for (int i = 0; i < n; i++) {
    if (i < n / 2)
      step(i);
    else
      begin_step(i);
  }
}
OTHER(first_flag) {
  int is_first = 1;
  for (int i = 0; i < n; i++) {
    if (is_first)
      begin_step(i);
    else
      step(i);
    is_first = 0;
  }
}
OTHER(first_in_while) {
  int i = 0;
  while (i < n) {
    if (i == 0)
      begin_step(i);
    else
      step(i);
    i++;
  }
}
TWIN(first_in_do) {
  int i = 0;
  do {
    if (i == 0)
      begin_step(i);
    else
      step(i);
    i++;
  } while (i < n);
}
LOOP twin_first_in_forever(int n) {
  int i = 0;
  for (;;) {
    if (i == 0)
      begin_step(i);
    else if (i >= n)
      break;
    else
      step(i);
    i++;
  }
}
OTHER(first_goes_on) {
  for (int i = 0; i < n; i++) {
    if (i == 0) {
      begin_step(i);
      work(field, i);
      continue;
    }
    step(i);
    work(field, i);
    if (i % 5 == 0)
      work(field, 2);
  }
}
OTHER(same_call_first) {
  for (int i = 0; i < n; i++) {
    if (i == 0)
      stepped(5, 1);
    else
      stepped(i, 1);
  }
}
EXITS(first_alone_or_error) {
  for (int i = 0; i < n && residual() > .5; i++) {
    if (i == 0)
      begin_step(i);
    else
      step(i);
  }
}
/* As solvers do: the same before, in each pass, and behind. */
PLAIN(solver) {
  stepped(0, 0);
  work(field, 1);
  for (int k = 1; k <= n; k++) {
    work(field, k);
    stepped(k, 1);
    work(field, 2);
  }
  work(field, 1);
  stepped(0, 0);
}
OTHER(solver_with_first) {
  stepped(0, 0);
  work(field, 1);
  for (int k = 1; k <= n; k++) {
    if (k == 1)
      work(field, k);
    else {
      work(field, 3);
      work(field, 4);
    }
    stepped(k, 1);
    work(field, 2);
  }
}
EXITS(solver_converges) {
  stepped(0, 0);
  double r = residual();
  for (int k = 1; k <= n && r > .5; k++) {
    work(field, k);
    stepped(k, 1);
    r = residual();
  }
  work(field, (int)r);
}
PLAIN(warm_up) {
  for (int k = 0; k < 3; k++)
    stepped(k, 0);
  for (int k = 0; k < n; k++)
    stepped(k, 1);
}
PLAIN(behind) {
  for (int k = 0; k < n; k++) {
    work(field, k);
    stepped(k, 1);
  }
  work(field, 0);
  stepped(n, 0);
}
static inline void march(int n) {
  for (int k = 0; k < n; k++) {
    work(field, k);
    stepped(k, 1);
  }
}
PLAIN(marched) {
  stepped(0, 0);
  work(field, 0);
  march(n);
  stepped(0, 0);
}
static inline void march_first(int n) {
  for (int k = 0; k < n; k++) {
    if (k == 0) {
      stepped(k, 1);
      work(field, 1);
      continue;
    }
    work(field, k);
    stepped(k, 1);
  }
}
OTHER(marched_first) {
  stepped(0, 0);
  work(field, 0);
  march_first(n);
  stepped(0, 0);
}
PLAIN(with_own_names) {
  int m;
  get(&m, n);
  stepped(0, 0);
  for (int k = 0, every = 5; k < m; k++) {
    double x = k;
    work(&x, k);
    stepped(k, 1);
    if (k % every == 0) {
      int more = check(k);
      work(field, more);
    }
  }
  stepped(0, 0);
}
