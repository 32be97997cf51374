// Hazards of control flow: exceptions, jumps, signals, stacks, hand-written code. Each function does its hazard once.
//
// Next: hazards.cpp, which repeats them.

#include "hazards.h"
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <execinfo.h>
#include <immintrin.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile long sink;

// --- exceptions

struct Guard { // its destructor must run while the exception passes
    long &count;
    ~Guard() { count++; }
};

APART static void deep_throw(int depth, long &unwound) {
    Guard guard{unwound};
    if (depth == 0) throw std::runtime_error("deep");
    deep_throw(depth - 1, unwound);
    KEEP_FRAME;
}

APART static void passes_on(int depth, long &unwound) {
    try {
        deep_throw(depth, unwound);
    } catch (const std::runtime_error &) {
        unwound += 100;
        throw;
    }
}

bool throws() {
    long unwound = 0;
    try {
        passes_on(6, unwound);
    } catch (const std::exception &error) {
        return unwound == 107 && strcmp(error.what(), "deep") == 0;
    }
    return false;
}

// --- longjmp

static thread_local jmp_buf landing;

APART static void deep_jump(int depth) {
    if (depth == 0) longjmp(landing, 42);
    deep_jump(depth - 1);
    KEEP_FRAME;
}

bool jumps() {
    volatile long before = 17;
    int value = setjmp(landing);
    if (value == 0) deep_jump(5);
    return value == 42 && before == 17;
}

// --- backtraces: the same callers each time

static void *first_trace[64];
static int first_count;

APART static bool same_trace() {
    void *trace[64];
    int count = backtrace(trace, 64);
    if (first_count == 0) {
        first_count = count;
        memcpy(first_trace, trace, sizeof trace);
    }
    return count == first_count && memcmp(trace, first_trace, sizeof(void *) * count) == 0;
}

APART static bool deep_trace(int depth) {
    bool same = depth == 0 ? same_trace() : deep_trace(depth - 1);
    KEEP_FRAME;
    return same;
}

bool backtraces() {
    bool same = deep_trace(8);
    KEEP_FRAME;
    return same && first_count > 9;
}

// --- recursion, mutual

APART static long odd(long n);
APART static long even(long n) {
    long r = n == 0 ? 1 : odd(n - 1);
    KEEP_FRAME;
    return r;
}
APART static long odd(long n) {
    long r = n == 0 ? 0 : even(n - 1);
    KEEP_FRAME;
    return r;
}
APART static long fibonacci(long n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

bool recurses() { return even(500) == 1 && odd(500) == 0 && fibonacci(16) == 987; }

// --- signal handlers: that call probed functions, and that leave by siglongjmp

static sigjmp_buf out_of_handler;
static volatile sig_atomic_t is_armed, arrivals;

APART static long hot(long x) {
    long r = x * 2 + 1;
    KEEP_FRAME;
    return r;
}

static void on_alarm(int) {
    arrivals = arrivals + (hot(3) == 7);
    if (is_armed) {
        is_armed = 0;
        siglongjmp(out_of_handler, 1);
    }
}

static void alarm_every_us(long us) {
    struct itimerval timer = {{0, us}, {0, us}};
    setitimer(ITIMER_REAL, &timer, nullptr);
}

bool leaps() {
    struct sigaction action = {};
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, nullptr);
    volatile bool right = true;
    arrivals = 0;
    if (sigsetjmp(out_of_handler, 1) == 0) {
        is_armed = 1;
        alarm_every_us(300);
        for (long k = 0;; k++) right = right && hot(k) == 2 * k + 1;
    }
    // Now some that return.
    for (long k = 0; arrivals < 4; k++) right = right && hot(k) == 2 * k + 1;
    alarm_every_us(0);
    return right;
}

// --- alternate signal stacks, with somebody's data right below

static const size_t ALTERNATE_BYTES = 16384;
static struct {
    unsigned char below[16384];
    unsigned char stack[ALTERNATE_BYTES];
} alternate __attribute__((aligned(64)));
static sigjmp_buf after_fault;
static volatile long on_alternate;
static volatile int *volatile nowhere;

APART static long busy_on_stack(long rounds) {
    long sum = 0;
    for (long k = 0; k < rounds; k++) sum += hot(k);
    return sum;
}

static void on_fault(int) {
    char here;
    on_alternate = (unsigned char *)&here >= alternate.stack && (unsigned char *)&here < alternate.stack + ALTERNATE_BYTES;
    sink = busy_on_stack(3000);
    siglongjmp(after_fault, 1);
}

static bool is_filled(const unsigned char *bytes, size_t length, unsigned char with) {
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != with) return false;
    return true;
}

bool alternates() {
    memset(alternate.below, 0xa5, sizeof alternate.below);
    stack_t stack = {};
    stack.ss_sp = alternate.stack;
    stack.ss_size = ALTERNATE_BYTES;
    sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_handler = on_fault;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    on_alternate = 0;
    if (sigsetjmp(after_fault, 1) == 0) *nowhere = 1;
    return on_alternate && is_filled(alternate.below, sizeof alternate.below, 0xa5);
}

// --- tail calls

APART static long tail_end(long n, long sum);
APART static long tail_middle(long n, long sum) { return tail_end(n - 1, sum + n); }
APART static long tail_end(long n, long sum) { return n <= 0 ? sum : tail_middle(n, sum); }
static long (*volatile through_pointer)(long, long) = tail_end;
APART static long tail_indirect(long n, long sum) { return through_pointer(n, sum); }

bool tails() { return tail_indirect(1000, 0) == 500500; }

// --- jump tables

APART static long chosen(long which, long x) {
    switch (which) {
    case 0: return x + 1;
    case 1: return x * 3;
    case 2: return x ^ 0x55;
    case 3: sink = x; return x - 9;
    case 4: return x << 3;
    case 5: return x % 7;
    case 6: sink = -x; return x | 64;
    case 7: return ~x;
    case 8: return x * x;
    default: return 0;
    }
}

bool switches() {
    long sum = 0;
    for (long k = 0; k < 1000; k++) sum += chosen(k % 11, k);
    return sum == 31258231;
}

// --- hand-written code

extern "C" {
void asm_nothing();
long asm_same(long), asm_seven(), asm_loop_into_entry(long), asm_loop_to_entry(long), asm_count_in_rcx(long);
long asm_asks_flag(long), asm_passes_odd(long, long, long), asm_runs_on(long), asm_next(long), asm_where_am_i(), asm_sums(long);
long asm_bystander(long);
}

bool assembles() {
    bool right = true;
    for (long k = 1; k < 200; k++) {
        asm_nothing();
        right = right && asm_same(k) == k && asm_seven() == 7 && asm_loop_into_entry(k) == k;
        right = right && asm_loop_to_entry(k) == k * (k + 1) / 2 && asm_count_in_rcx(k) == k * (k + 1) / 2;
        right = right && asm_count_in_rcx(0) == 0;
        right = right && asm_passes_odd(k, 5, 7) == k + 10 + 28 && asm_runs_on(k) == k + 101 && asm_next(k) == k + 1;
        right = right && asm_where_am_i() == 0;
    }
    return right;
}

// --- a function that answers in the carry flag

bool flags() {
    bool right = true;
    for (long k = 1; k < 2000; k++) right = right && asm_asks_flag(k) == (k < 1000);
    return right;
}

// --- a hot loop that lends its bytes to probes

bool sums_hotly() {
    bool right = true;
    for (int k = 0; k < 100; k++) right = right && asm_sums(10000) == 50005000;
    return right;
}

// --- vector and mask registers that a hand-written caller expects to keep; it calls from below its red zone

__attribute__((target("avx512f,avx512bw"))) APART static bool keeps_512() {
    alignas(64) unsigned char before[33][64], after[33][64];
    for (size_t i = 0; i < sizeof before; i++) (&before[0][0])[i] = (unsigned char)(i * 31 + 7);
    long result;
    __asm__ volatile(
        "vmovdqu64 0(%[from]), %%zmm0\n vmovdqu64 64(%[from]), %%zmm1\n vmovdqu64 128(%[from]), %%zmm15\n"
        "vmovdqu64 192(%[from]), %%zmm16\n vmovdqu64 256(%[from]), %%zmm31\n kmovq 320(%[from]), %%k1\n"
        "kmovq 328(%[from]), %%k7\n mov $21, %%edi\n lea -256(%%rsp), %%rsp\n call asm_bystander\n lea 256(%%rsp), %%rsp\n"
        "vmovdqu64 %%zmm0, 0(%[to])\n vmovdqu64 %%zmm1, 64(%[to])\n vmovdqu64 %%zmm15, 128(%[to])\n"
        "vmovdqu64 %%zmm16, 192(%[to])\n vmovdqu64 %%zmm31, 256(%[to])\n kmovq %%k1, 320(%[to])\n"
        "kmovq %%k7, 328(%[to])\n"
        : "=&a"(result)
        : [from] "b"(before), [to] "r"(after)
        : "rdi", "rsi", "rdx", "rcx", "r8", "r9", "r10", "r11", "zmm0", "zmm1", "zmm15", "zmm16", "zmm31", "k1", "k7",
          "memory", "cc");
    return result == (42 ^ 5) && memcmp(before, after, 336) == 0;
}

APART static bool keeps_128() {
    alignas(16) unsigned char before[32], after[32];
    for (int i = 0; i < 32; i++) before[i] = (unsigned char)(i * 31 + 7);
    long result;
    __asm__ volatile("movdqu 0(%[from]), %%xmm0\n movdqu 16(%[from]), %%xmm15\n mov $21, %%edi\n lea -256(%%rsp), %%rsp\n call asm_bystander\n lea 256(%%rsp), %%rsp\n"
                     "movdqu %%xmm0, 0(%[to])\n movdqu %%xmm15, 16(%[to])\n"
                     : "=&a"(result)
                     : [from] "b"(before), [to] "r"(after)
                     : "rdi", "rsi", "rdx", "rcx", "r8", "r9", "r10", "r11", "xmm0", "xmm15", "memory", "cc");
    return result == (42 ^ 5) && memcmp(before, after, 32) == 0;
}

bool vectors() {
    bool wide = __builtin_cpu_supports("avx512bw");
    bool right = true;
    for (int k = 0; k < 100; k++) right = right && keeps_128() && (!wide || keeps_512());
    return right;
}

/* Values that stay in vector and mask registers while nothing is called: whoever stops a thread must keep them. */
__attribute__((target("avx512f,avx512bw"))) APART static bool holds_512() {
    __m512i high = _mm512_set1_epi64(0x0123456789abcdef), one = _mm512_set1_epi64(1), sum = _mm512_setzero_si512();
    __mmask64 mask = 0x5555555555555555;
    for (int k = 0; k < 20000; k++) {
        __asm__ volatile("" : "+v"(high), "+v"(one), "+v"(sum), "+k"(mask));
        sum = _mm512_add_epi64(sum, one);
    }
    alignas(64) long sums[8], highs[8];
    _mm512_store_si512(sums, sum);
    _mm512_store_si512(highs, high);
    bool right = mask == 0x5555555555555555;
    for (int lane = 0; lane < 8; lane++) right = right && sums[lane] == 20000 && highs[lane] == 0x0123456789abcdef;
    return right;
}

bool holds() { return !__builtin_cpu_supports("avx512bw") || holds_512(); }

// --- coroutines on small stacks, with somebody's data between them

static const int COROUTINES = 3;
static const size_t SMALL_BYTES = 6144;
static struct {
    unsigned char below[8192];
    unsigned char stack[SMALL_BYTES];
} nests[COROUTINES] __attribute__((aligned(64)));
static ucontext_t caller, coroutine[COROUTINES];
static long yields[COROUTINES];

APART static void yield(int number) {
    yields[number]++;
    swapcontext(&coroutine[number], &caller);
    KEEP_FRAME;
}

static void body(int number) {
    for (int turn = 0; turn < 20; turn++) {
        // Most of the time is spent here, on the small stack.
        sink = busy_on_stack(400);
        yield(number);
    }
}

bool coroutines() {
    for (int number = 0; number < COROUTINES; number++) {
        memset(nests[number].below, 0x5a, sizeof nests[number].below);
        yields[number] = 0;
        getcontext(&coroutine[number]);
        coroutine[number].uc_stack.ss_sp = nests[number].stack;
        coroutine[number].uc_stack.ss_size = SMALL_BYTES;
        coroutine[number].uc_link = &caller;
        makecontext(&coroutine[number], (void (*)())body, 1, number);
    }
    bool right = true;
    for (int turn = 0; turn < 21; turn++)
        for (int number = 0; number < COROUTINES; number++) swapcontext(&caller, &coroutine[number]);
    for (int number = 0; number < COROUTINES; number++)
        right = right && yields[number] == 20 && is_filled(nests[number].below, sizeof nests[number].below, 0x5a);
    return right;
}
