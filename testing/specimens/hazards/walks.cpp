// Hazards of programs whose stacks are walked from wherever a thread happens to be: a timer's handler that takes samples,
// and threads that are cancelled at any instruction. Each function does its hazard once.
//
// Next: hazards.cpp, which repeats them.

#include "hazards.h"
#include <csignal>
#include <ctime>
#include <execinfo.h>
#include <pthread.h>

/* Short functions, so that much of the time passes where probes are. */
extern "C" {
__attribute__((noipa)) long walk_adds(long n) {
    long sum = 0;
    for (long k = 0; k < n; k++) {
        sum += k;
        __asm__ volatile("" : "+r"(sum));
    }
    return sum;
}
__attribute__((noipa)) long walk_nests(long depth) {
    long sum = depth > 0 ? walk_nests(depth - 1) : 0;
    KEEP_FRAME;
    return sum + walk_adds(depth);
}
}

static bool nests_rightly() {
    bool right = walk_nests(3) == 0 + 1 + 3;
    KEEP_FRAME;
    return right;
}

static long now_us() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

// --- samples: each must end where the thread began

static const int FRAMES_MAX = 64, OUTERMOST = 3;
static void *outermost[OUTERMOST];
static volatile long taken, whole;

/* The frames that called main are the same all the time. */
static bool ends_outermost(void **frames, int count) {
    for (int at = 0; at < OUTERMOST; at++)
        if (count < OUTERMOST || frames[count - OUTERMOST + at] != outermost[at]) return false;
    return true;
}

static void sample(int) {
    void *frames[FRAMES_MAX];
    int count = backtrace(frames, FRAMES_MAX);
    taken++;
    if (ends_outermost(frames, count)) whole++;
}

static bool starts_sampling() {
    // The first walk of a program may load a library.
    void *frames[FRAMES_MAX];
    int count = backtrace(frames, FRAMES_MAX);
    if (count < OUTERMOST) return false;
    for (int at = 0; at < OUTERMOST; at++) outermost[at] = frames[count - OUTERMOST + at];
    struct sigaction action {};
    action.sa_handler = sample;
    action.sa_flags = SA_RESTART;
    if (sigaction(SIGPROF, &action, nullptr) != 0) return false;
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGPROF;
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return false;
    const itimerspec every = {{0, 97 * 1000}, {0, 97 * 1000}};
    return timer_settime(timer, 0, &every, nullptr) == 0;
}

/* One in a hundred may be cut off: those that are taken in the very moment in which probes come or go. */
bool samples() {
    static bool is_sampling = starts_sampling();
    bool right = is_sampling;
    for (long until = now_us() + 5000; now_us() < until;) right = nests_rightly() && right;
    return right && whole * 100 >= taken * 99;
}

// --- threads that are cancelled anywhere: every clean-up runs

static volatile long cleaned;

struct CleanedUp {
    ~CleanedUp() { cleaned++; }
};

/* Nothing to be cleaned up is in here, so it may end at each of its instructions. */
__attribute__((noipa)) static void toils(volatile long *rounds) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
    for (;;) {
        if (!nests_rightly()) *rounds = -1;
        else if (*rounds >= 0) *rounds = *rounds + 1;
    }
}

__attribute__((noipa)) static void toils_deep(int depth, volatile long *rounds) {
    CleanedUp frame;
    if (depth > 0) toils_deep(depth - 1, rounds);
    else toils(rounds);
    KEEP_FRAME;
}

static const int DEPTH = 4;

static void *toils_until_cancelled(void *rounds) {
    toils_deep(DEPTH, (volatile long *)rounds);
    return nullptr;
}

bool cancels_anywhere() {
    const int THREADS = 4;
    bool right = true;
    long before = cleaned;
    for (int each = 0; each < THREADS; each++) {
        pthread_t made;
        volatile long rounds = 0;
        void *result = nullptr;
        if (pthread_create(&made, nullptr, toils_until_cancelled, (void *)&rounds) != 0) return false;
        while (rounds >= 0 && rounds < 100) {}
        right = pthread_cancel(made) == 0 && pthread_join(made, &result) == 0 && right;
        right = right && result == PTHREAD_CANCELED && rounds > 0;
    }
    return right && cleaned - before == THREADS * (DEPTH + 1);
}
