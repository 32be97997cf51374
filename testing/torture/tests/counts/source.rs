//! A C program that counts the calls of each of its functions, in an order that is always the same.
//!
//! It counts with code of its own in each function, or (`BY_COMPILER`) in what the compiler calls at every entry
//! (`-finstrument-functions`). Told `g`, it works on four threads, one of which was there before, and prints what it
//! counted in that window; told `q`, it ends.
//!
//! Next: `main`, which compares.

use std::fmt::Write;
use trimtab_torture::Random;

/// Functions of the program.
pub const FUNCTIONS: u64 = 300;

const HEAD: &str = r#"#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#define N @N@
#define ROUNDS 6
typedef long fn(long, long);
#define QUIET __attribute__((no_instrument_function))
#define COUNTED __attribute__((noipa, noinline))
static unsigned long counts[N];
static fn *table[N];
#ifdef BY_COMPILER
#define COUNT(i)
#define SLOTS 4096
static struct { void *function; int number; } known[SLOTS];
QUIET static unsigned place(void *f) {
  unsigned at = ((unsigned long)f * 0x9e3779b97f4a7c15ul) >> 52;
  while (known[at].function && known[at].function != f) at = (at + 1) % SLOTS;
  return at;
}
QUIET void __cyg_profile_func_enter(void *f, void *site) {
  unsigned at = place(f);
  if (known[at].function) __atomic_fetch_add(&counts[known[at].number], 1, __ATOMIC_RELAXED);
}
QUIET void __cyg_profile_func_exit(void *f, void *site) {}
QUIET static void learn(void) {
  for (int i = 0; i < N; i++) { unsigned at = place((void *)table[i]); known[at].function = (void *)table[i]; known[at].number = i; }
}
#else
#define COUNT(i) __atomic_fetch_add(&counts[i], 1, __ATOMIC_RELAXED)
QUIET static void learn(void) {}
#endif
struct pair { double a; long b; };
"#;

const TAIL: &str = r#"
static long results[4];
static sem_t go, done;
QUIET static void *work(void *argument) {
  long number = (long)argument, sum = 0;
  for (long round = 0; round < ROUNDS; round++)
    for (long i = 0; i < N; i++) sum += table[i](i * 7 + round + number, 8);
  results[number] = sum;
  return 0;
}
QUIET static void *wait_and_work(void *argument) {
  for (;;) { sem_wait(&go); work(argument); sem_post(&done); }
}
QUIET int main(void) {
  for (int i = 0; i < N; i++) table[i] = all[i];
  learn();
  sem_init(&go, 0, 0); sem_init(&done, 0, 0);
  pthread_t early, late[2];
  pthread_create(&early, 0, wait_and_work, (void *)0);
  puts("ready"); fflush(stdout);
  for (int c; (c = getchar()) == 'g';) {
    memset(counts, 0, sizeof counts);
    sem_post(&go);
    for (long i = 0; i < 2; i++) pthread_create(&late[i], 0, work, (void *)(i + 1));
    work((void *)3);
    for (long i = 0; i < 2; i++) pthread_join(late[i], 0);
    sem_wait(&done);
    for (int i = 0; i < N; i++) printf("f%d %lu\n", i, counts[i]);
    printf("end %ld\n", results[0] + results[1] + results[2] + results[3]); fflush(stdout);
  }
  return 0;
}
"#;

/// The program's text.
pub fn source() -> String {
    let mut random = Random::new(3);
    let mut text = HEAD.replace("@N@", &FUNCTIONS.to_string());
    for number in 0..FUNCTIONS {
        let _ = writeln!(text, "fn f{number};");
    }
    for number in 0..FUNCTIONS {
        let body = body(number, &mut random);
        let _ = writeln!(text, "COUNTED long f{number}(long x, long fuel) {{ COUNT({number}); {body} }}");
    }
    let names: Vec<String> = (0..FUNCTIONS).map(|number| format!("f{number}")).collect();
    let _ = writeln!(text, "static fn *const all[N] = {{ {} }};", names.join(", "));
    text + TAIL
}

/// Leaves, loops, switches, recursion, tail calls, calls through pointers, early returns, floating point.
fn body(number: u64, random: &mut Random) -> String {
    let (a, b, callee) = (random.below(90) + 3, random.below(9) + 2, random.below(number.max(1)));
    let call = if number == 0 { "x".to_string() } else { format!("f{callee}(x ^ {a}, fuel - 1)") };
    let spent = "if (fuel <= 0) return x;";
    match random.below(9) {
        0 => format!("return x * {a} + fuel;"),
        1 => format!("{spent} long r = x; for (long i = 0; i < (x & 1) + 1; i++) r += {call} + i; return r;"),
        2 => format!(
            "{spent} switch ((unsigned long)x % {b}) {{ case 0: return x + {a}; case 1: return {call}; case 2: x *= 3; break; \
             case 3: return {call} - 1; case 4: x ^= {a}; case 5: return x; case 6: x += 9; }} return x - {b};"
        ),
        3 => format!("{spent} return {call};"),
        // Not a sum: the compiler would make a loop of it.
        4 => format!("{spent} return f{number}(x - {a}, fuel - 1) ^ (x | {b});"),
        5 => format!("{spent} return all[(unsigned long)x % {}](x + 1, fuel - 1);", number.max(1)),
        6 => format!("if (x & 1) return x; {spent} return {call} + {call};"),
        7 => format!("{spent} struct pair p = {{ x / {b}.5, fuel }}; return (long)p.a + {call} + p.b;"),
        _ => "return 0;".to_string(),
    }
    .replace("all[", "table[")
}
