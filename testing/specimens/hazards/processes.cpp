// Hazards of threads, processes and libraries: made and ended all the time. Each function does its hazard once.
//
// Next: hazards.cpp, which repeats them.

#include "hazards.h"
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <spawn.h>
#include <string>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool exists(const char *suffix) { return access((std::string(until_path) + suffix).c_str(), F_OK) == 0; }

APART static long summed(long n) {
    long sum = 0;
    for (long k = 1; k <= n; k++) sum += k;
    KEEP_FRAME;
    return sum;
}

// --- threads that are made and ended

static void *works(void *given) {
    long n = (long)given;
    bool right = summed(n) == n * (n + 1) / 2 && throws();
    return (void *)(long)right;
}

bool threads() {
    pthread_t made[4];
    bool right = true;
    for (long k = 0; k < 4; k++) pthread_create(&made[k], nullptr, works, (void *)(1000 * (k + 1)));
    for (pthread_t one : made) {
        void *result;
        pthread_join(one, &result);
        right = right && result;
    }
    return right;
}

// --- restartable sequences, from which the kernel sends a thread back that it interrupts

extern "C" {
long asm_adds_here(long *counters, void *area), asm_adds_barely(long *counters, void *area, const void *sequence);
extern const char asm_sequence_barely[];
}

static const long PROCESSORS_MAX = 1024, ADDED = 2000;
static long counters[PROCESSORS_MAX][8];

static void *adds_often(void *) {
    void *area = (char *)__builtin_thread_pointer() + __rseq_offset;
    for (long k = 0; k < ADDED; k++) {
        asm_adds_here(counters[0], area);
        while (!asm_adds_barely(counters[0], area, asm_sequence_barely)) {}
    }
    return nullptr;
}

bool adds() {
    // A kernel that does not take part leaves no processor's number.
    if (__rseq_size == 0 || sysconf(_SC_NPROCESSORS_CONF) > PROCESSORS_MAX) return true;
    pthread_t made[4];
    for (auto &counter : counters) counter[0] = 0;
    for (pthread_t &one : made) pthread_create(&one, nullptr, adds_often, nullptr);
    for (pthread_t one : made) pthread_join(one, nullptr);
    long sum = 0;
    for (auto &counter : counters) sum += counter[0];
    return sum == 4 * 2 * ADDED;
}

// --- cancellation and pthread_exit unwind through all frames

static __thread long unwound;

struct Frame {
    ~Frame() { unwound++; }
};

APART static void sleeps_deep(int depth, int *released) {
    Frame frame;
    if (depth > 0) {
        sleeps_deep(depth - 1, released);
        KEEP_FRAME;
        return;
    }
    if (*released) pthread_exit((void *)5);
    for (;;) usleep(100);
}

static void *is_cancelled(void *) {
    int released = 0;
    sleeps_deep(4, &released);
    return nullptr;
}

static void *exits(void *) {
    int released = 1;
    sleeps_deep(4, &released);
    return nullptr;
}

bool cancels() {
    pthread_t one, other;
    void *cancelled, *exited;
    pthread_create(&one, nullptr, is_cancelled, nullptr);
    pthread_create(&other, nullptr, exits, nullptr);
    pthread_cancel(one);
    pthread_join(one, &cancelled);
    pthread_join(other, &exited);
    return cancelled == PTHREAD_CANCELED && exited == (void *)5;
}

// --- children

static bool returned(pid_t child, int code) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

bool forks() {
    pid_t child = fork();
    if (child == 0) {
        // The child has the patches as well, and does all it can with them.
        bool right = summed(100) == 5050 && throws() && recurses();
        pid_t grandchild = fork();
        if (grandchild == 0) _exit(summed(10) == 55 ? 4 : 1);
        _exit(right && returned(grandchild, 4) ? 3 : 1);
    }
    return summed(1000) == 500500 && returned(child, 3);
}

bool vforks() {
    pid_t child = vfork();
    if (child == 0) _exit(summed(10) == 55 ? 6 : 1);
    if (!returned(child, 6)) return false;
    child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)nullptr);
        _exit(9);
    }
    return returned(child, 0);
}

bool spawns() {
    const char *words[] = {"sh", "-c", "exit 3", nullptr};
    pid_t child;
    if (posix_spawn(&child, "/bin/sh", nullptr, nullptr, (char **)words, environ) != 0) return false;
    return returned(child, 3) && system("exit 7") == 7 << 8;
}

// --- another program in the same process, again and again

bool execs() {
    bool right = true;
    for (int k = 0; k < 300; k++) right = right && summed(10000) == 50005000;
    // Long enough for probes to be there when it happens, mostly.
    static time_t begun = time(nullptr);
    if (right && time(nullptr) > begun + 1 && !exists("")) {
        execl(self_path, self_path, "exec", until_path, (char *)nullptr);
        return false;
    }
    return right;
}

// --- a library that comes and goes

typedef long (*Work)(long);

static void *load(Work *work) {
    void *library = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
    *work = library ? (Work)dlsym(library, "plugin_work") : nullptr;
    return library;
}

bool plugs() {
    Work work;
    void *library = load(&work);
    bool right = work != nullptr;
    // Long enough for probes to be put in and taken out while it is loaded, and in between.
    for (int k = 0; right && k < 20; k++) {
        for (int call = 0; call < 50; call++) right = right && work(20) == 590;
        usleep(500);
    }
    return library && dlclose(library) == 0 && right;
}

/* Waits for UNTIL.go, loads the library, works with it until UNTIL.close, unloads it, says so by UNTIL.closed. */
bool late_plugin() {
    static void *library;
    static Work work;
    if (!library && !work && exists(".go")) {
        library = load(&work);
        if (!library) return false;
    }
    if (library && exists(".close")) {
        bool closed = dlclose(library) == 0;
        library = nullptr;
        close(open((std::string(until_path) + ".closed").c_str(), O_CREAT | O_WRONLY, 0600));
        return closed;
    }
    bool right = true;
    for (int k = 0; library && k < 10; k++) right = right && work(20) == 590;
    usleep(500);
    return right && summed(10) == 55;
}

// --- threads that block in a measured function all the time

static int ends[2];

APART static long blocked_inside(void) {
    char byte = 0;
    long got = read(ends[0], &byte, 1);
    KEEP_FRAME;
    return got * byte;
}

static void *blocks_for_long(void *) { return (void *)blocked_inside(); }

bool blocks() {
    if (pipe(ends) != 0) return false;
    pthread_t blocked;
    pthread_create(&blocked, nullptr, blocks_for_long, nullptr);
    has_begun();
    bool right = true;
    while (!exists("")) {
        right = right && summed(100) == 5050;
        usleep(200);
    }
    char byte = 9;
    right = right && write(ends[1], &byte, 1) == 1;
    void *result;
    pthread_join(blocked, &result);
    return right && result == (void *)9;
}

/* Sleeps that must last as long as they were meant to, whoever interrupts them. */
bool dozes() {
    timespec before, after, wanted = {0, 30 * 1000 * 1000};
    clock_gettime(CLOCK_MONOTONIC, &before);
    int result = nanosleep(&wanted, nullptr);
    clock_gettime(CLOCK_MONOTONIC, &after);
    long ns = (after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec;
    return result == 0 && ns >= wanted.tv_nsec && summed(10) == 55;
}

/* A parent of vfork waits in uninterruptible sleep until its child is done. */
bool waits() {
    pid_t child = vfork();
    if (child == 0) {
        has_begun();
        while (access(until_path, F_OK) != 0) usleep(1000);
        _exit(8);
    }
    return returned(child, 8);
}

// --- a filter under which no memory may be mapped, from UNTIL.go on

static bool no_more_memory() {
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 9, 3, 0),   /* mmap */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 11, 2, 0),  /* munmap */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 319, 1, 0), /* memfd_create */
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool shuts_itself_in() {
    static bool is_shut_in;
    bool right = summed(10000) == 50005000;
    if (!is_shut_in && exists(".go")) {
        is_shut_in = right = no_more_memory();
        close(open((std::string(until_path) + ".shut").c_str(), O_CREAT | O_WRONLY, 0600));
    }
    return right;
}
