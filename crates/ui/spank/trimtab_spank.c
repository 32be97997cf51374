/* Slurm plug-in: `srun --trimtab=window ./app` measures one window of a step while it runs.
 *
 * Why a plug-in: Slurm knows when and where the tasks of a step begin, so nobody has to look for them, and the user adds
 * one word to a command. It does little: when the first task of a step is made on a node, it starts
 * `trimtab attach --slurm JOB.STEP --wait` there, on the first node only, as the job's user, with no right that the user
 * has not, and forgets it. That one has agents started on the others. With `--follow` it also starts `trimtab hold PID` for each
 * task, which has the task wait where it comes out of MPI_Init until the window begins, at most for some seconds. The tasks
 * of a node begin once each has been looked at, or ten seconds later. Whatever fails here fails without harm to the job.
 *
 * In plugstack.conf, on all nodes:
 *
 *     optional /usr/lib/x86_64-linux-gnu/slurm/trimtab_spank.so binary=/usr/bin/trimtab
 *
 * Build: gcc -shared -fPIC -O2 -Wall -Wextra -o trimtab_spank.so trimtab_spank.c   (header: package libslurm-dev)
 *
 * Next: docs/slurm.md for users; crates/ui/cli/tests/slurm.rs, which runs it in a real Slurm.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

SPANK_PLUGIN(trimtab, 1);

/* Longest value of the option, and most words in it: it becomes a command line of ours. */
#define VALUE_BYTES_MAX 1024
#define WORDS_MAX 64
/* Seconds that `trimtab attach` waits for the ranks. */
#define WAIT "120"
#define GROUPS_MAX 65536
/* Seconds that a task waits where it comes out of MPI_Init. */
#define HOLD "10"
/* The tasks of a node wait at most so long for the first look at each of them. */
#define LOOKS_MS 10000

static char value[VALUE_BYTES_MAX];
static const char *binary = "/usr/bin/trimtab";
static int started;
/* Each helper writes one byte here once it looks at its task; how many have been begun. */
static int looks[2] = {-1, -1};
static uint32_t helpers;

static int read_option(int val, const char *text, int remote) {
    (void)val;
    (void)remote;
    const char *words = text ? text : "window";
    size_t mode = strcspn(words, ":");
    int known = (mode == 6 && !strncmp(words, "window", mode)) || (mode == 3 && !strncmp(words, "off", mode));
    if (!known) {
        slurm_error("--trimtab=%s: expected window or off, and options behind a colon, e.g. "
                    "--trimtab='window:--iterations 20'", words);
        return -1;
    }
    if (strlen(words) >= sizeof value) {
        slurm_error("--trimtab: more than %zu characters", sizeof value - 1);
        return -1;
    }
    strcpy(value, words);
    return 0;
}

static struct spank_option option = {
    "trimtab", "window|off[:options]",
    "Measure one window of this step with trimtab; options as of `trimtab attach`", 1, 0, read_option,
};

int slurm_spank_init(spank_t spank, int ac, char **av) {
    for (int i = 0; i < ac; i++) {
        if (!strncmp(av[i], "binary=", 7)) binary = av[i] + 7;
        else slurm_error("trimtab: unknown word in plugstack.conf: %s (expected binary=PATH)", av[i]);
    }
    /* srun shows it in its help; the daemon of the step gets what srun was given. Batch scripts call srun themselves. */
    if (spank_context() == S_CTX_LOCAL || spank_context() == S_CTX_REMOTE) return spank_option_register(spank, &option);
    return ESPANK_SUCCESS;
}

/* Who the job belongs to. */
struct user {
    uid_t uid;
    gid_t gid;
    gid_t *groups;
    int group_count;
};

static int become(const struct user *user) {
    /* Groups first: without root's rights they can't be changed any more. All three user ids, so that none comes back. */
    if (geteuid() == 0 && setgroups((size_t)user->group_count, user->groups)) return -1;
    if (setresgid(user->gid, user->gid, user->gid) || setresuid(user->uid, user->uid, user->uid)) return -1;
    return user->uid != 0 && (setuid(0) == 0 || seteuid(0) == 0) ? -1 : 0;
}

/* Words of the option's second half, parted by spaces; no shell sees them. */
static int split(char *words, char **list, int count) {
    char *rest = NULL;
    for (char *word = strtok_r(words, " ", &rest); word && count < WORDS_MAX; word = strtok_r(NULL, " ", &rest))
        list[count++] = word;
    return count;
}

static int has_word(const char *word) {
    const char *at = value;
    size_t length = strlen(word);
    for (; (at = strstr(at, word)); at += length)
        if ((at[-1] == ' ' || at[-1] == ':') && strchr(" =", at[length])) return 1;
    return 0;
}

/* Whether tasks are to wait where they come out of MPI_Init: the whole run is asked for, and nothing that only iterations show. */
static int holds(void) {
    static const char *const others[] = {"--mark", "--loop", "--start", "--when", "--windows", "--no-hold"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has_word(others[i])) return 0;
    return has_word("--follow") || has_word("--hold");
}

/* Where one of our programs is to run, and by whom. */
struct place {
    const struct user *user;
    const char *folder, *file;
    char **environment;
    /* What it tells us goes there in place of the file; -1: nothing. */
    int told;
};

/* In the child of a child of the daemon: nothing of the daemon's stays open, and errors can only be written down. */
static void become_trimtab(const struct place *place, char **list) {
    const struct user *user = place->user;
    const char *folder = place->folder, *file = place->file;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    setsid();
    if (become(user) || (chdir(folder) && chdir("/"))) _exit(2);
    int input = open("/dev/null", O_RDONLY), output = open(file, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0644);
    if (output < 0) output = open("/dev/null", O_WRONLY);
    dup2(input, 0);
    dup2(place->told < 0 ? output : place->told, 1);
    dup2(output, 2);
    if (close_range(3, ~0U, 0)) _exit(2);
    execve(binary, list, place->environment);
    dprintf(2, "trimtab: can't run %s: %s\n", binary, strerror(errno));
    _exit(2);
}

/* The job's own environment, so that trimtab finds scontrol and the user's store as the user would. */
static char **environment_of(spank_t spank) {
    char **environment = NULL;
    return spank_get_item(spank, S_JOB_ENV, &environment) == ESPANK_SUCCESS ? environment : NULL;
}

static void measure(const struct place *place, const char *id) {
    char *list[WORDS_MAX + 10] = {(char *)binary, "attach", "--slurm", (char *)id, "--wait", WAIT, NULL};
    int count = 6;
    if (holds() && !has_word("--hold")) {
        list[count++] = "--hold";
        list[count++] = HOLD;
    }
    /* Those beside the tasks do it. */
    if (holds()) list[count++] = "--held";
    char *options = strchr(value, ':');
    if (options) count = split(options + 1, list, count);
    list[count] = NULL;
    become_trimtab(place, list);
}

/* The one that is there for a task ends once the task is about to wait. */
static void hold(const struct place *place, pid_t task) {
    char number[16], seconds[16] = HOLD;
    const char *asked = strstr(value, "--hold");
    if (asked && has_word("--hold")) snprintf(seconds, sizeof seconds, "%lu", strtoul(asked + 7, NULL, 10));
    snprintf(number, sizeof number, "%d", (int)task);
    /* Nobody reads what it tells where there is no pipe. */
    char *list[] = {(char *)binary, "hold", "--seconds", seconds, number, place->told < 0 ? NULL : "--tell", NULL};
    become_trimtab(place, list);
}

static long elapsed_ms(const struct timespec *since) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000;
}

/* Until each helper looks at its task, or has ended: a task that begins MPI from then on is seen. */
static void wait_for_looks(void) {
    struct timespec begun;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    /* With our own end closed, the end of all helpers is seen. */
    close(looks[1]);
    for (char bytes[64]; helpers > 0;) {
        long left = LOOKS_MS - elapsed_ms(&begun);
        struct pollfd pipe = {looks[0], POLLIN, 0};
        int ready = left > 0 ? poll(&pipe, 1, (int)left) : 0;
        if (ready < 0 && errno == EINTR) continue;
        ssize_t count = ready > 0 ? read(looks[0], bytes, sizeof bytes < helpers ? sizeof bytes : helpers) : 0;
        if (count <= 0) break;
        helpers -= (uint32_t)count;
    }
    close(looks[0]);
    looks[0] = looks[1] = -1;
    helpers = 0;
}

/* Runs `measure` for a step, or `hold` for one of its tasks. */
static void start(spank_t spank, pid_t task) {
    uint32_t job = 0, step = 0, node = 0;
    struct user user = {0};
    char folder[4096] = "/", id[64], file[128];
    if (spank_get_item(spank, S_JOB_ID, &job) || spank_get_item(spank, S_JOB_STEPID, &step) ||
        spank_get_item(spank, S_JOB_NODEID, &node) || spank_get_item(spank, S_JOB_UID, &user.uid) ||
        spank_get_item(spank, S_JOB_GID, &user.gid)) {
        slurm_error("trimtab: Slurm does not say whose step this is; it is not measured");
        return;
    }
    /* Batch scripts, shells and such have numbers from here on; they are no MPI programs. */
    if (step >= 0xfffffff0u) return;
    /* One window of all ranks: whoever leads it reaches the other nodes. */
    if (node != 0 && !task) return;
    if (spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &user.groups, &user.group_count) || user.group_count < 0 ||
        user.group_count > GROUPS_MAX) {
        user.groups = &user.gid;
        user.group_count = 1;
    }
    char **environment = environment_of(spank);
    if (spank_getenv(spank, "PWD", folder, sizeof folder) != ESPANK_SUCCESS) strcpy(folder, "/");
    snprintf(id, sizeof id, "%u.%u", job, step);
    snprintf(file, sizeof file, "trimtab-%u.%u.txt", job, step);
    struct place place = {&user, folder, file, environment, task ? looks[1] : -1};
    pid_t child = fork();
    if (child == 0) {
        /* Twice, so that the daemon never waits for a child that is no task. */
        pid_t grandchild = fork();
        if (grandchild == 0 && task) hold(&place, task);
        if (grandchild == 0) measure(&place, id);
        _exit(grandchild < 0);
    }
    if (child > 0) {
        waitpid(child, NULL, 0);
        helpers += task != 0;
    } else slurm_error("trimtab: fork: %s; step %s is not measured", strerror(errno), id);
}

/* Called in the daemon of the step for each task that is made, before any of them runs its program. */
int slurm_spank_task_post_fork(spank_t spank, int ac, char **av) {
    (void)ac;
    (void)av;
    if (strncmp(value, "window", 6)) return ESPANK_SUCCESS;
    static uint32_t seen;
    pid_t task = 0;
    uint32_t tasks = 0;
    seen++;
    if (holds() && !spank_get_item(spank, S_TASK_PID, &task) && task > 0) {
        /* Tasks keep neither end. Without a pipe nobody waits. */
        if (looks[0] < 0 && helpers == 0 && pipe2(looks, O_CLOEXEC)) looks[0] = looks[1] = -1;
        start(spank, task);
    }
    if (!started) {
        started = 1;
        start(spank, 0);
    }
    if (looks[0] >= 0 && !spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) && seen >= tasks) wait_for_looks();
    return ESPANK_SUCCESS;
}
