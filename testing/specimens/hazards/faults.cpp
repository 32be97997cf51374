// Hazards of programs that handle faults by themselves: the handler throws, jumps, or steps over one known load. None of
// them finds code that lies elsewhere. Each function does its hazard once.
//
// Next: hazards.cpp, which repeats them.

#pragma GCC optimize("non-call-exceptions")

#include "hazards.h"
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static const int numbers[2] = {1, 2};
/* Not known to the compiler, which may leave out what certainly faults. */
static const int *volatile nowhere = nullptr;

/* Its first instructions are those that fault. */
extern "C" __attribute__((noipa)) int fault_sums(const int *at) {
    int one = at[0], two = at[1];
    return one * 3 + two;
}

extern "C" __attribute__((noipa)) void fault_stores(int *at, int value) {
    at[0] = value;
    at[1] = value + 1;
}

__attribute__((noipa)) static int divides(int value, int by) { return value / by; }

static void handle(int signal, void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(signal, &action, nullptr);
}

// --- the handler throws, and the unwinder finds the way from the instruction at fault

struct Counted {
    long &count;
    ~Counted() { count++; }
};

static void throw_fault(int, siginfo_t *, void *) { throw std::runtime_error("fault"); }

__attribute__((noipa)) static long guarded(const int *at, int *to, int by, long &cleaned) {
    Counted counted{cleaned};
    fault_stores(to, 7);
    return fault_sums(at) + divides(to[1], by);
}

bool faults_throw() {
    handle(SIGSEGV, throw_fault);
    handle(SIGFPE, throw_fault);
    long cleaned = 0, caught = 0, sum = 0;
    int place[2];
    for (int round = 0; round < 8; round++) {
        try {
            sum += guarded(round == 3 ? nowhere : numbers, round == 5 ? (int *)nowhere : place, round == 7 ? 0 : 2, cleaned);
        } catch (const std::exception &) {
            caught++;
        }
    }
    return cleaned == 8 && caught == 3 && sum == 5 * (5 + 4);
}

// --- the handler jumps out

static sigjmp_buf fault_landing;

static void jump_out(int, siginfo_t *, void *) { siglongjmp(fault_landing, 1); }

bool faults_jump() {
    handle(SIGSEGV, jump_out);
    volatile long sum = 0, faulted = 0;
    for (volatile int round = 0; round < 6; round = round + 1) {
        if (sigsetjmp(fault_landing, 1)) {
            faulted = faulted + 1;
            continue;
        }
        sum = sum + fault_sums(round == 4 ? nowhere : numbers);
    }
    return faulted == 1 && sum == 5 * 5;
}

// --- the handler steps over the one load that it knows by its address

extern "C" const char known_load[], behind_known_load[];
__asm__(".pushsection .text\n"
        ".globl safe_read\n.type safe_read, @function\nsafe_read:\n"
        ".cfi_startproc\n"
        "known_load: mov (%rdi), %rax\n"
        "behind_known_load: lea 1(%rax, %rax, 2), %rax\n"
        "ret\n"
        ".cfi_endproc\n.size safe_read, . - safe_read\n"
        ".popsection");
extern "C" long safe_read(const void *at);

static std::atomic<long> strange_faults{0};

static void step_over(int, siginfo_t *, void *state) {
    greg_t *registers = static_cast<ucontext_t *>(state)->uc_mcontext.gregs;
    if (registers[REG_RIP] != (greg_t)known_load) {
        // Another load that faulted would do so for ever.
        if (++strange_faults > 3) _exit(9);
        return;
    }
    registers[REG_RAX] = -1;
    registers[REG_RIP] = (greg_t)behind_known_load;
}

bool faults_step() {
    handle(SIGSEGV, step_over);
    const long there = 5;
    bool right = true;
    for (int round = 0; round < 6; round++) right &= safe_read(round % 3 == 2 ? (void *)nowhere : &there) == (round % 3 == 2 ? -2 : 16);
    return right && strange_faults == 0;
}

// --- memory of a file that is shorter than its mapping

bool faults_bus() {
    handle(SIGBUS, step_over);
    FILE *file = tmpfile();
    void *behind = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
    const long there = 5;
    const bool right = safe_read(behind) == -2 && safe_read(&there) == 16;
    munmap(behind, 4096);
    fclose(file);
    return right && strange_faults == 0;
}

// --- a handler that comes while probes are in: faults begin when the test says so

static bool is_told(const char *what) { return access((std::string(until_path) + what).c_str(), F_OK) == 0; }

static void say(const char *what) { fclose(fopen((std::string(until_path) + what).c_str(), "w")); }

static void ignore_it(int, siginfo_t *, void *) {}

/* Whatever is set and asked for other signals, or without a handler, is as without probes. */
static bool sets_others() {
    handle(SIGUSR1, ignore_it);
    struct sigaction usual {}, now {};
    const bool asked = sigaction(SIGSEGV, nullptr, &now) == 0 && now.sa_handler == SIG_DFL;
    usual.sa_handler = SIG_DFL;
    const bool set = sigaction(SIGSEGV, &usual, nullptr) == 0 && signal(SIGUSR2, SIG_IGN) != SIG_ERR;
    const bool read = sigaction(SIGUSR1, nullptr, &now) == 0 && now.sa_sigaction == ignore_it;
    return asked && set && read && sigaction(SIGKILL, &usual, nullptr) == -1 && errno == EINVAL;
}

bool faults_late() {
    has_begun();
    long sum = 0, caught = 0;
    bool right = true;
    for (; !is_told(".go"); usleep(100)) {
        sum += fault_sums(numbers);
        right &= sets_others();
    }
    handle(SIGSEGV, throw_fault);
    say(".handles");
    for (; !is_told(".fault"); usleep(100)) sum += fault_sums(numbers);
    for (int round = 0; round < 10; round++) {
        try {
            sum += fault_sums(round % 2 ? nowhere : numbers);
        } catch (const std::exception &) {
            caught++;
        }
    }
    return right && sum % 5 == 0 && caught == 5;
}

// --- an end by a fault that nobody handles

bool faults_end() {
    has_begun();
    for (; !is_told(".fault") && access(until_path, F_OK) != 0; usleep(100)) fault_sums(numbers);
    if (is_told(".fault")) fault_stores((int *)nowhere, 1);
    return true;
}
