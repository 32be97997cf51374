/* Called in every iteration, and by the way. */
#ifdef __cplusplus
extern "C" {
#endif
long steps_made;
volatile double clock_now;
__attribute__((noinline)) void step(int i) { (void)i; steps_made++; clock_now += 1; __asm__ volatile("":::"memory"); }
__attribute__((noinline)) void begin_step(int i) { (void)i; steps_made++; clock_now += 2; __asm__ volatile("":::"memory"); }
__attribute__((noinline)) void stepped(int i, int one) { (void)i; steps_made += one; __asm__ volatile("":::"memory"); }
__attribute__((noinline)) void fstep(int *i) { step(*i); }
__attribute__((noinline)) void work(double *a, int n) { *a += n; __asm__ volatile("":::"memory"); }
__attribute__((noinline)) void fwork(double *a, int *n) { work(a, *n); }
__attribute__((noinline)) void get(int *a, int n) { *a = n; __asm__ volatile("":::"memory"); }
__attribute__((noinline)) void fget(int *a, int *n) { get(a, *n); }
__attribute__((noinline)) double residual(void) { __asm__ volatile("":::"memory"); return 1.0; }
__attribute__((noinline)) double now(void) { __asm__ volatile("":::"memory"); return clock_now; }
__attribute__((noinline)) int check(int i) { __asm__ volatile("":::"memory"); (void)i; return 0; }
#ifdef __cplusplus
}
#endif
