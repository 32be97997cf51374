// Faults, handled in every way: exceptions out of handlers, jumps, a load that is stepped over, a page that is filled in,
// threads that are cancelled, a timer that walks stacks. Prints what came of it.
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

static char *page;
static thread_local sigjmp_buf landing;
static thread_local int way; // 0: throw, 1: jump, 2: step over, 3: fill the page in
static thread_local volatile sig_atomic_t raising;
extern "C" const char known_load[], behind_known_load[];
__asm__(".pushsection .text\n.globl safe_read\n.type safe_read, @function\nsafe_read:\n.cfi_startproc\n"
        "known_load: mov (%rdi), %rax\nbehind_known_load: lea 1(%rax, %rax, 2), %rax\nret\n"
        ".cfi_endproc\n.size safe_read, . - safe_read\n.popsection");
extern "C" long safe_read(const void *);

static void handle(int, siginfo_t *info, void *state) {
    greg_t *registers = static_cast<ucontext_t *>(state)->uc_mcontext.gregs;
    if (way == 0) {
        raising = 1;
        throw std::runtime_error("fault");
    }
    if (way == 1) siglongjmp(landing, 1);
    if (way == 2 && registers[REG_RIP] == (greg_t)known_load) {
        registers[REG_RAX] = -1;
        registers[REG_RIP] = (greg_t)behind_known_load;
        return;
    }
    if (way == 3 && (char *)info->si_addr >= page && (char *)info->si_addr < page + 4096) {
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
        return;
    }
    _exit(9);
}

static std::atomic<long> walked{0};
static void walk(int) {
    // Right before it hands over to the handler, libgcc's unwinder leaves a stack that can't be walked.
    if (raising) return;
    void *stack[32];
    if (backtrace(stack, 32) > 0) walked++;
}

__attribute__((noipa)) static int sum(const int *at) {
    int one = at[0], two = at[1];
    return one * 3 + two;
}
__attribute__((noipa)) static void put(int *at, int value) {
    at[0] = value;
    at[1] = value + 1;
}
__attribute__((noipa)) static int quotient(int value, int by) { return value / by; }

struct Counted {
    long &count;
    ~Counted() { count++; }
};
__attribute__((noipa)) static long careful(const int *at, int *to, int by, long &cleaned) {
    Counted counted{cleaned};
    put(to, 7);
    return sum(at) + quotient(to[1], by);
}

static void *endless(void *) {
    for (;;) usleep(50);
    return nullptr;
}

int main() {
    void *warm[4];
    backtrace(warm, 4);
    page = (char *)mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    for (int number : {SIGSEGV, SIGBUS, SIGFPE}) sigaction(number, &action, nullptr);
    action.sa_flags = SA_RESTART;
    action.sa_handler = walk;
    sigaction(SIGPROF, &action, nullptr);
    const itimerval often = {{0, 3000}, {0, 3000}};
    setitimer(ITIMER_PROF, &often, nullptr);

    const int numbers[2] = {1, 2};
    int *const volatile nowhere = nullptr;
    long total = 0, cleaned = 0, read = 0, filled = 0, cancelled = 0;
    volatile long caught = 0, jumped = 0;
    for (volatile int round = 0; round < 100000; round = round + 1) {
        int place[2];
        way = 0;
        try {
            total += careful(round % 5 == 1 ? nowhere : numbers, round % 5 == 2 ? nowhere : place, round % 5 == 3 ? 0 : 2, cleaned);
        } catch (const std::exception &) {
            raising = 0;
            caught = caught + 1;
        }
        way = 1;
        if (sigsetjmp(landing, 1)) jumped = jumped + 1;
        else total += sum(round % 7 == 0 ? nowhere : numbers);
        way = 2;
        const long there = round;
        read += safe_read(round % 3 ? &there : (long *)nowhere);
        if (round % 50 == 0) {
            way = 3;
            mprotect(page, 4096, PROT_NONE);
            put((int *)page, round);
            filled += sum((int *)page);
        }
        if (round % 500 == 0) {
            pthread_t thread;
            void *result = nullptr;
            pthread_create(&thread, nullptr, endless, nullptr);
            pthread_cancel(thread);
            pthread_join(thread, &result);
            cancelled += result == PTHREAD_CANCELED;
        }
    }
    printf("%ld %ld %ld %ld %ld %ld %ld\n", total, cleaned, (long)caught, (long)jumped, read, filled, cancelled);
}
