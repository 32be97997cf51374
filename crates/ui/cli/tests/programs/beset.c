/* Around MPI_Init it does what may disturb whoever holds it there: a constructor that calls MPI, another program executed by
 * the same process, handlers of faults and of a timer's signals at work all the time, threads, and children, one of which
 * executes another program, one of which lives on, and one of which begins MPI by itself with the code that it has inherited.
 * Called with "again" it waits until somebody has put something into it, before and after it executes itself, and its
 * child begins MPI beside it. Called with "child" it does not wait for that, and its child has been through MPI before it
 * begins. Two ranks add up to "2 OK" if each of these went well. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t ticks, faults;
static volatile int ends;
static int early = -1;

__attribute__((constructor)) static void before_main(void) {
    int version = 0, subversion = 0;
    MPI_Get_version(&version, &subversion);
    MPI_Initialized(&early);
    if (version < 3) early = -2;
}

static void ticked(int signal) {
    (void)signal;
    ticks++;
}

/* Counts the fault and has its instruction find memory. */
static void faulted(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    static char memory[4096];
    faults++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = (greg_t)memory;
}

static void *beside(void *argument) {
    unsigned long *sum = argument;
    while (!ends) {
        (*sum)++;
        __asm__ volatile("xor %%eax, %%eax\n movb $1, (%%rax)" ::: "rax", "memory");
        usleep(500);
    }
    return NULL;
}

/* True once something of ours is in this process; false if nothing comes. */
static int is_held_soon(void) {
    for (int look = 0; look < 400; look++, usleep(10000)) {
        char line[512];
        FILE *maps = fopen("/proc/self/maps", "r");
        int found = 0;
        while (maps && fgets(line, sizeof line, maps)) found |= strstr(line, "memfd:trimtab") != NULL;
        if (maps) fclose(maps);
        if (found) return 1;
    }
    return 0;
}

extern char **environ;

/* A child that nobody launched as a rank is a program of its own, in which nobody is held: 0 if that works. */
static int begins_by_itself(void) {
    char *own[] = {"OMPI_MCA_ess_singleton_isolated=1", NULL};
    environ = own;
    int size = 0;
    MPI_Init(NULL, NULL);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    usleep(300000);
    MPI_Finalize();
    return size == 1 ? 0 : 4;
}

int main(int argc, char **argv) {
    int is_first = argc > 1 && !strcmp(argv[1], "child");
    if (argc > 1 && !strcmp(argv[1], "again")) {
        int soon = is_held_soon();
        execl(argv[0], argv[0], soon ? "held" : "free", (char *)NULL);
    }
    int soon = is_first || is_held_soon();
    struct sigaction tick = {.sa_handler = ticked, .sa_flags = SA_RESTART}, fault = {.sa_sigaction = faulted, .sa_flags = SA_SIGINFO};
    sigaction(SIGALRM, &tick, NULL);
    sigaction(SIGSEGV, &fault, NULL);
    struct itimerval often = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &often, NULL);
    unsigned long sums[2] = {0, 0};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, beside, &sums[i]);
    pid_t executes = fork();
    if (executes == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(3);
    }
    pid_t lives = fork();
    if (lives == 0) {
        ends = 1;
        _exit(begins_by_itself());
    }
    pid_t stays = fork();
    if (stays == 0) {
        pause();
        _exit(5);
    }
    int first = -1, second = -1, third = -1;
    waitpid(executes, &first, 0);
    if (is_first) waitpid(lives, &second, 0);
    int provided, sum = 0, one = 1, rank, size;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    for (int step = 0; step < 300; step++) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (!is_first) waitpid(lives, &second, 0);
    kill(stays, SIGKILL);
    waitpid(stays, &third, 0);
    ends = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int right = sum == size && early == 0 && first == 0 && second == 0 && WIFSIGNALED(third) && faults > 0 && ticks > 0 && sums[0] && sums[1];
    fprintf(stderr, "rank %d: held %s%d, early %d, children %d %d %d, %d faults, %d ticks\n", rank, argc > 1 ? argv[1] : "", soon,
            early, first, second, third, (int)faults, (int)ticks);
    int all = 0;
    MPI_Allreduce(&right, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0) printf("%d %s\n", sum, all ? "OK" : "WRONG");
    MPI_Finalize();
    return 0;
}
