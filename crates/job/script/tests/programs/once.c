/* What a called function must not spoil, and what a probe must not: errno, a double on its way, the carry flag. Every
 * mistake is counted in `wrong`. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

volatile long total, noted, wrong;
volatile long settings[600];

/* Called by scripts only; changes what it may change. */
__attribute__((noinline, used)) long note(long n) {
  volatile double twice = (double)n * 2;
  noted += (long)twice;
  errno = 77;
  return noted;
}

__attribute__((noinline)) double work(double x) {
  total++;
  return x + 1;
}

/* Carry says whether the argument is below a thousand. */
__asm__(".text\n.globl below\n.type below, @function\nbelow:\n cmp $1000, %rdi\n mov $1, %eax\n ret\n"
        ".size below, . - below\n");

static int is_below(long n) {
  unsigned char carry;
  __asm__ volatile("call below\n setc %0" : "=r"(carry), "+D"(n) : : "rax", "cc", "memory");
  return carry;
}

/* Two ways out of the loop, and one around it. */
__attribute__((noinline)) long search(volatile long *list, long count, long wanted) {
  long i = 0;
  if (count > 100) return -1;
  while (i < count) {
    if (list[i] == wanted) break;
    i++;
  }
  total += i;
  return i;
}

/* One loop, of which a compiler has made two: what is left stays in a register on the short way round, and is loaded anew behind a
 * call that every eighth pass makes. Returns the calls. */
long seldom(long passes);
__asm__(".text\n.globl seldom\n.type seldom, @function\nseldom:\n push %rbx\n sub $16, %rsp\n xor %ebx, %ebx\n"
        " mov %rdi, 8(%rsp)\n.p2align 4\n1: mov 8(%rsp), %rdx\n2: cmp $0, %rdx\n je 4f\n sub $1, %rdx\n"
        " mov %rdx, 8(%rsp)\n test $7, %dl\n jne 2b\n add $1, %rbx\n mov $1, %edi\n call below\n jmp 1b\n"
        "4: mov %rbx, %rax\n add $16, %rsp\n pop %rbx\n ret\n.size seldom, . - seldom\n");

int main(void) {
  volatile long list[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  settings[599] = 7;
  puts("ready");
  fflush(stdout);
  for (double x = 0;;) {
    errno = 5;
    double y = work(x);
    wrong += errno != 5 || y != x + 1;
    x = y < 1e6 ? y : 0;
    for (long n = 998; n < 1002; n++) wrong += is_below(n) != (n < 1000);
    wrong += search(list, 8, 3) != 2;    /* leaves in the middle */
    wrong += search(list, 8, 100) != 8;  /* leaves at the end */
    wrong += search(list, 200, 1) != -1; /* goes around it */
    wrong += seldom(20) != 3;
    usleep(200);
  }
}
