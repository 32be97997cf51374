/* Ground truth: a PMPI wrapper library that measures a whole MPI program with MPI_Wtime. Preloaded in tests only.
 *
 * Why: what trimtab reports about a window is compared with what this library, which shares no code and no method
 * with it, saw of the same iterations of the same processes. It writes one JSON file per rank, GT_OUT.<rank>.json.
 *
 * Iterations: the program calls gt_mark(iteration) if a library defines it; or GT_MARK_FUNCTION=MPI_Alltoall counts
 * the calls of that function. One row is kept per iteration, so that the reader can add up any range of them.
 * GT_START and GT_COUNT restrict the rows kept (all by default).
 *
 * Time: only the outermost call of each thread, without the bookkeeping around it, but with one reading of the clock,
 * whose cost stands in the file (clock_s); unix_offset_s turns MPI_Wtime into the calendar's time. Communicator,
 * datatype and group management is not communication. A call that another thread has open at a mark counts to the iteration it ends in.
 *
 * Bytes, at the sender, count x type size: point to point to the peer, itself included; bcast root -> each other;
 * reduce, gather(v) each non-root -> root; scatter(v) root -> each other its block; allgather(v), alltoall(v,w) each
 * -> every other; allreduce, reduce_scatter(_block), scan, exscan: own contribution, no link. Blocks of no bytes and
 * one's own blocks make no message. Over an intercommunicator the others are the remote group. PROC_NULL: nothing.
 *
 * GT_LATE=RANK:SECONDS has one rank come out of MPI_Init so much later than the library lets it.
 *
 * Next: functions.h (the list), calls.h, plain.h, fortran.h (the wrappers), ../src/groundtruth.rs (the reader).
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "functions.h"

#define ROWS_MAX (1 << 20) /* about an hour of 3 ms iterations; more are dropped and said so */
#define REQUESTS_MAX 4096  /* persistent requests alive at once */

enum {
#define X(name) ID_##name,
    COUNTED_FUNCTIONS(X) PLAIN_FUNCTIONS(X)
#undef X
#define X(name) ID_##name##_c,
    COUNTED_FUNCTIONS(X)
#undef X
    FUNCTION_COUNT
};

static const char *const names[FUNCTION_COUNT] = {
#define X(name) "MPI_" #name,
    COUNTED_FUNCTIONS(X) PLAIN_FUNCTIONS(X)
#undef X
#define X(name) "MPI_" #name "_c",
    COUNTED_FUNCTIONS(X)
#undef X
};

enum kind { POINT_TO_POINT, COLLECTIVE_PART };

struct tally {
    uint64_t calls, bytes, bytes_max;
    double time_s;
};

struct link {
    uint64_t messages, bytes, collective_messages, collective_bytes;
};

/* One per thread that calls MPI. Only its thread writes; a mark reads it without a lock: aligned eight-byte loads
 * and stores do not tear on x86-64. */
struct thread {
    int depth;
    double communication_s;
    struct tally functions[FUNCTION_COUNT];
    struct link *links; /* per world rank */
    struct thread *next;
};

struct call {
    struct thread *thread; /* NULL: nested in another call, not counted */
    int id;
    double start_s;
    uint64_t bytes;
};

struct row_function {
    int id;
    struct tally delta;
};

struct row_link {
    int to;
    struct link delta;
};

struct row {
    int iteration;
    double start_s, duration_s, communication_s;
    size_t functions_begin, functions_end, links_begin, links_end;
};

struct growing {
    char *items;
    size_t used, room;
};

static int world_size, world_self = -1;
static double program_start_s;
static double unix_offset_s; /* the calendar's time less MPI_Wtime, seconds */
static double clock_s; /* what two readings in a row differ by: what this wrapper adds to each call it times */
static struct thread *threads;
static __thread struct thread *self;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int used_ids[FUNCTION_COUNT], used_count;
static bool is_used[FUNCTION_COUNT];

/* ---------------------------------------------------------------- threads and calls */

/* The best of several rounds, because a round may be interrupted. */
static double clock_cost(void) {
    double best = 1;
    for (int round = 0; round < 20; round++) {
        double sum = 0;
        for (int i = 0; i < 100; i++) {
            double begun = PMPI_Wtime();
            sum += PMPI_Wtime() - begun;
        }
        if (sum / 100 < best) best = sum / 100;
    }
    return best;
}

static double unix_now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void begin_program(void) {
    static bool begun;
    pthread_mutex_lock(&lock);
    if (!begun) {
        PMPI_Comm_rank(MPI_COMM_WORLD, &world_self);
        PMPI_Comm_size(MPI_COMM_WORLD, &world_size);
        clock_s = clock_cost();
        program_start_s = PMPI_Wtime();
        unix_offset_s = unix_now_s() - program_start_s;
        begun = true;
    }
    pthread_mutex_unlock(&lock);
}

static struct thread *this_thread(void) {
    if (self) return self;
    begin_program();
    struct thread *fresh = calloc(1, sizeof *fresh);
    fresh->links = calloc((size_t)world_size, sizeof *fresh->links);
    pthread_mutex_lock(&lock);
    fresh->next = threads;
    threads = fresh;
    pthread_mutex_unlock(&lock);
    return self = fresh;
}

static void note_used(int id) {
    pthread_mutex_lock(&lock);
    if (!is_used[id]) {
        is_used[id] = true;
        used_ids[used_count++] = id;
    }
    pthread_mutex_unlock(&lock);
}

static void mark_by_function(int id);

static struct call enter(int id) {
    struct thread *thread = this_thread();
    struct call call = {thread->depth++ == 0 ? thread : NULL, id, 0, 0};
    if (!call.thread) return call;
    if (!is_used[id]) note_used(id);
    mark_by_function(id);
    return call;
}

static void start(struct call *call) {
    if (call->thread) call->start_s = PMPI_Wtime();
}

static void leave(struct call *call) {
    struct thread *thread = self;
    thread->depth--;
    if (!call->thread) return;
    double time_s = PMPI_Wtime() - call->start_s;
    struct tally *tally = &thread->functions[call->id];
    tally->calls++;
    tally->time_s += time_s;
    tally->bytes += call->bytes;
    if (call->bytes > tally->bytes_max) tally->bytes_max = call->bytes;
    thread->communication_s += time_s;
}

#define DO(expression)                                                                                                 \
    start(&call);                                                                                                      \
    int result = (expression);                                                                                         \
    leave(&call);                                                                                                      \
    return result

/* ---------------------------------------------------------------- communicators and types */

/* Kept on the communicator as an attribute, so that it goes away with it and a handle used again finds none. */
struct members {
    bool inter;
    int own_rank, size; /* in the local group */
    int peers;          /* those a call addresses: remote group of an intercommunicator, else the local one */
    int world[];        /* of the peers; MPI_UNDEFINED for processes of another MPI_COMM_WORLD */
};

static int drop_members(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)extra;
    free(value);
    return MPI_SUCCESS;
}

static struct members *find_members(MPI_Comm comm) {
    int inter, peers;
    MPI_Group group, world;
    PMPI_Comm_test_inter(comm, &inter);
    if (inter)
        PMPI_Comm_remote_group(comm, &group);
    else
        PMPI_Comm_group(comm, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_size(group, &peers);
    struct members *found = malloc(sizeof *found + sizeof(int) * (size_t)peers);
    int *local = malloc(sizeof(int) * (size_t)(peers + 1));
    for (int i = 0; i < peers; i++) local[i] = i;
    PMPI_Group_translate_ranks(group, peers, local, world, found->world);
    free(local);
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    found->inter = inter;
    found->peers = peers;
    PMPI_Comm_rank(comm, &found->own_rank);
    PMPI_Comm_size(comm, &found->size);
    return found;
}

static const struct members *members_of(MPI_Comm comm) {
    static int key = MPI_KEYVAL_INVALID;
    struct members *found = NULL;
    int present = 0;
    pthread_mutex_lock(&lock);
    if (key == MPI_KEYVAL_INVALID) PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, drop_members, &key, NULL);
    pthread_mutex_unlock(&lock);
    PMPI_Comm_get_attr(comm, key, &found, &present);
    if (present) return found;
    found = find_members(comm);
    PMPI_Comm_set_attr(comm, key, found);
    return found;
}

static int peers(MPI_Comm comm) { return members_of(comm)->peers; }
static int members(MPI_Comm comm) { return members_of(comm)->size; }
static int own_rank(MPI_Comm comm) { return members_of(comm)->own_rank; }

static bool is_root(MPI_Comm comm, int root) {
    const struct members *group = members_of(comm);
    return group->inter ? root == MPI_ROOT : root == group->own_rank;
}

static int world_rank(MPI_Comm comm, int peer) {
    if (peer == MPI_PROC_NULL) return MPI_PROC_NULL;
    if (comm == MPI_COMM_WORLD) return peer;
    const struct members *group = members_of(comm);
    return peer >= 0 && peer < group->peers ? group->world[peer] : MPI_UNDEFINED;
}

static uint64_t payload(int64_t count, MPI_Datatype type) {
    MPI_Count size = 0;
    PMPI_Type_size_x(type, &size);
    return (uint64_t)count * (uint64_t)size;
}

/* ---------------------------------------------------------------- what a call sends */

static void add_to_link(struct call *call, int to, uint64_t bytes, enum kind kind) {
    call->bytes += bytes;
    if (to < 0 || to >= world_size) return;
    struct link *link = &call->thread->links[to];
    link->messages++;
    link->bytes += bytes;
    if (kind == POINT_TO_POINT) return;
    link->collective_messages++;
    link->collective_bytes += bytes;
}

static void sent(struct call *call, MPI_Comm comm, int peer, uint64_t bytes, enum kind kind) {
    if (call->thread && peer != MPI_PROC_NULL) add_to_link(call, world_rank(comm, peer), bytes, kind);
}

static void sent_to_other(struct call *call, MPI_Comm comm, int peer, uint64_t bytes) {
    if (!call->thread || bytes == 0) return;
    const struct members *group = members_of(comm);
    if (group->inter || peer != group->own_rank) sent(call, comm, peer, bytes, COLLECTIVE_PART);
}

static void sent_to_others(struct call *call, MPI_Comm comm, uint64_t bytes) {
    if (!call->thread) return;
    for (int peer = 0; peer < peers(comm); peer++) sent_to_other(call, comm, peer, bytes);
}

/* On an intercommunicator the root itself (MPI_ROOT) does not come here, its companions pass MPI_PROC_NULL. */
static void sent_to_root(struct call *call, MPI_Comm comm, int root, uint64_t bytes) {
    sent_to_other(call, comm, root, bytes);
}

static void contributed(struct call *call, uint64_t bytes) { call->bytes += bytes; }

/* ---------------------------------------------------------------- persistent requests */

static struct persistent {
    bool alive;
    MPI_Request request;
    int to;
    uint64_t bytes;
} persistent[REQUESTS_MAX];

static void remember(MPI_Request request, int to, uint64_t bytes) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < REQUESTS_MAX; i++) {
        if (persistent[i].alive) continue;
        persistent[i] = (struct persistent){true, request, to, bytes};
        pthread_mutex_unlock(&lock);
        return;
    }
    fprintf(stderr, "ground truth: more than %d persistent requests; raise REQUESTS_MAX in wrap.c\n", REQUESTS_MAX);
    PMPI_Abort(MPI_COMM_WORLD, 9);
}

static void forget(MPI_Request request) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < REQUESTS_MAX; i++)
        if (persistent[i].alive && persistent[i].request == request) persistent[i].alive = false;
    pthread_mutex_unlock(&lock);
}

/* A request that was not remembered is a receive. */
static void sent_again(struct call *call, MPI_Request request) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < REQUESTS_MAX && call->thread; i++) {
        const struct persistent *known = &persistent[i];
        if (!known->alive || known->request != request || known->to == MPI_PROC_NULL) continue;
        add_to_link(call, known->to, known->bytes, POINT_TO_POINT);
        break;
    }
    pthread_mutex_unlock(&lock);
}

/* ---------------------------------------------------------------- iterations */

static struct growing rows, row_functions, row_links;
static struct tally *functions_before;
static struct link *links_before;
static double open_start_s, open_communication_s;
static int open_iteration;
static bool iteration_open;
static uint64_t rows_dropped;

static void *grow(struct growing *list, size_t item_size) {
    if (list->used + item_size > list->room) {
        list->room = list->room ? 2 * list->room : 64 * item_size;
        list->items = realloc(list->items, list->room);
    }
    void *item = list->items + list->used;
    list->used += item_size;
    return memset(item, 0, item_size);
}

static struct tally function_total(int id) {
    struct tally total = {0};
    for (const struct thread *thread = threads; thread; thread = thread->next) {
        const struct tally *part = &thread->functions[id];
        total.calls += part->calls;
        total.bytes += part->bytes;
        total.time_s += part->time_s;
        if (part->bytes_max > total.bytes_max) total.bytes_max = part->bytes_max;
    }
    return total;
}

static struct link link_total(int to) {
    struct link total = {0};
    for (const struct thread *thread = threads; thread; thread = thread->next) {
        const struct link *part = &thread->links[to];
        total.messages += part->messages;
        total.bytes += part->bytes;
        total.collective_messages += part->collective_messages;
        total.collective_bytes += part->collective_bytes;
    }
    return total;
}

static void add_row_functions(void) {
    for (int i = 0; i < used_count; i++) {
        int id = used_ids[i];
        struct tally now = function_total(id), *before = &functions_before[id];
        if (now.calls == before->calls) continue;
        struct row_function *part = grow(&row_functions, sizeof *part);
        part->id = id;
        part->delta.calls = now.calls - before->calls;
        part->delta.bytes = now.bytes - before->bytes;
        part->delta.time_s = now.time_s - before->time_s;
    }
}

static void add_row_links(void) {
    for (int to = 0; to < world_size; to++) {
        struct link now = link_total(to), *before = &links_before[to];
        if (now.messages == before->messages) continue;
        struct row_link *part = grow(&row_links, sizeof *part);
        part->to = to;
        part->delta = (struct link){now.messages - before->messages, now.bytes - before->bytes,
                                    now.collective_messages - before->collective_messages,
                                    now.collective_bytes - before->collective_bytes};
    }
}

static int environment_int(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static bool is_wanted(int iteration) {
    static int first = -1, count;
    if (first < 0) {
        first = environment_int("GT_START", 0);
        count = environment_int("GT_COUNT", ROWS_MAX);
    }
    return iteration >= first && iteration - first < count;
}

static void close_iteration(double now_s, double communication_s) {
    if (!is_wanted(open_iteration)) return;
    if (rows.used / sizeof(struct row) >= ROWS_MAX) {
        rows_dropped++;
        return;
    }
    struct row row = {.iteration = open_iteration, .start_s = open_start_s, .duration_s = now_s - open_start_s,
                      .communication_s = communication_s - open_communication_s,
                      .functions_begin = row_functions.used / sizeof(struct row_function),
                      .links_begin = row_links.used / sizeof(struct row_link)};
    add_row_functions();
    add_row_links();
    row.functions_end = row_functions.used / sizeof(struct row_function);
    row.links_end = row_links.used / sizeof(struct row_link);
    *(struct row *)grow(&rows, sizeof row) = row;
}

static void open_row(int iteration, double now_s, double communication_s) {
    for (int i = 0; i < used_count; i++) functions_before[used_ids[i]] = function_total(used_ids[i]);
    for (int to = 0; to < world_size; to++) links_before[to] = link_total(to);
    open_iteration = iteration;
    open_start_s = now_s;
    open_communication_s = communication_s;
    iteration_open = true;
}

/* Programs call this as the first thing of every iteration, and once more after the last. */
void gt_mark(int iteration) {
    double now_s = PMPI_Wtime();
    double communication_s = this_thread()->communication_s;
    pthread_mutex_lock(&lock);
    if (!functions_before) {
        functions_before = calloc(FUNCTION_COUNT, sizeof *functions_before);
        links_before = calloc((size_t)world_size, sizeof *links_before);
    }
    if (iteration_open) close_iteration(now_s, communication_s);
    open_row(iteration, now_s, communication_s);
    pthread_mutex_unlock(&lock);
}

static void mark_by_function(int id) {
    static int wanted = -2, count;
    if (wanted == -2) {
        const char *name = getenv("GT_MARK_FUNCTION");
        wanted = -1;
        for (int i = 0; name && i < FUNCTION_COUNT; i++)
            if (strcmp(names[i], name) == 0) wanted = i;
    }
    if (id == wanted) gt_mark(count++);
}

/* ---------------------------------------------------------------- the file */

static void write_functions(FILE *file) {
    fprintf(file, "\"functions\":[");
    for (int i = 0; i < used_count; i++) {
        struct tally total = function_total(used_ids[i]);
        fprintf(file, "%s{\"name\":\"%s\",\"calls\":%" PRIu64 ",\"time_s\":%.9f,\"bytes\":%" PRIu64 ",\"bytes_max\":%" PRIu64
                      "}", i ? "," : "", names[used_ids[i]], total.calls, total.time_s, total.bytes, total.bytes_max);
    }
}

static void write_link(FILE *file, const char *comma, int to, const struct link *link) {
    fprintf(file, "%s{\"to\":%d,\"messages\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"collective_messages\":%" PRIu64
                  ",\"collective_bytes\":%" PRIu64 "}", comma, to, link->messages, link->bytes,
            link->collective_messages, link->collective_bytes);
}

static void write_links(FILE *file) {
    const char *comma = "";
    fprintf(file, "],\n\"links\":[");
    for (int to = 0; to < world_size; to++) {
        struct link total = link_total(to);
        if (total.messages == 0) continue;
        write_link(file, comma, to, &total);
        comma = ",";
    }
}

static void write_row(FILE *file, const struct row *row) {
    fprintf(file, "{\"iteration\":%d,\"start_s\":%.9f,\"duration_s\":%.9f,\"communication_s\":%.9f,\"functions\":[",
            row->iteration, row->start_s, row->duration_s, row->communication_s);
    for (size_t i = row->functions_begin; i < row->functions_end; i++) {
        const struct row_function *part = (struct row_function *)row_functions.items + i;
        fprintf(file, "%s{\"name\":\"%s\",\"calls\":%" PRIu64 ",\"time_s\":%.9f,\"bytes\":%" PRIu64 "}",
                i > row->functions_begin ? "," : "", names[part->id], part->delta.calls, part->delta.time_s,
                part->delta.bytes);
    }
    fprintf(file, "],\"links\":[");
    for (size_t i = row->links_begin; i < row->links_end; i++) {
        const struct row_link *part = (struct row_link *)row_links.items + i;
        write_link(file, i > row->links_begin ? "," : "", part->to, &part->delta);
    }
    fprintf(file, "]}");
}

static void write_file(bool finalized) {
    static bool written;
    const char *prefix = getenv("GT_OUT");
    if (written || !prefix || world_self < 0) return;
    written = true;
    char path[4096];
    snprintf(path, sizeof path, "%s.%d.json", prefix, world_self);
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        return;
    }
    double program_end_s = finalized ? PMPI_Wtime() : program_start_s;
    fprintf(file, "{\"schema\":\"trimtab.groundtruth/1\",\"rank\":%d,\"ranks\":%d,\"pid\":%d,\"finalized\":%s,"
                  "\"program_s\":%.9f,\"clock_s\":%.12f,\"unix_offset_s\":%.6f,\"rows_dropped\":%" PRIu64 ",\n\"communication_s\":[",
            world_self, world_size, (int)getpid(), finalized ? "true" : "false", program_end_s - program_start_s,
            clock_s, unix_offset_s, rows_dropped);
    for (const struct thread *thread = threads; thread; thread = thread->next)
        fprintf(file, "%s%.9f", thread == threads ? "" : ",", thread->communication_s);
    fprintf(file, "],\n");
    write_functions(file);
    write_links(file);
    fprintf(file, "],\n\"iterations\":[");
    for (size_t i = 0; i < rows.used / sizeof(struct row); i++) {
        fprintf(file, i ? ",\n" : "\n");
        write_row(file, (struct row *)rows.items + i);
    }
    fprintf(file, "]}\n");
    fclose(file);
}

/* ---------------------------------------------------------------- the wrappers */

static void be_late(void) {
    const char *late = getenv("GT_LATE");
    int rank = 0, seconds = 0;
    if (late && sscanf(late, "%d:%d", &rank, &seconds) == 2 && rank == world_self) sleep((unsigned)seconds);
}

int MPI_Init(int *argc, char ***argv) {
    int status = PMPI_Init(argc, argv);
    begin_program();
    be_late();
    return status;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    int status = PMPI_Init_thread(argc, argv, required, provided);
    begin_program();
    be_late();
    return status;
}

int MPI_Finalize(void) {
    write_file(true);
    return PMPI_Finalize();
}

/* A rank that leaves without MPI_Finalize is told from one that finalized. */
__attribute__((destructor)) static void write_at_exit(void) { write_file(false); }

#include "plain.h"

#define COUNT int
#define DISPL int
#define NAME(x) MPI_##x
#define REAL(x) PMPI_##x
#define ID(x) ID_##x
#include "calls.h"
#undef COUNT
#undef DISPL
#undef NAME
#undef REAL
#undef ID

#if MPI_VERSION >= 4
#define COUNT MPI_Count
#define DISPL MPI_Aint
#define NAME(x) MPI_##x##_c
#define REAL(x) PMPI_##x##_c
#define ID(x) ID_##x##_c
#include "calls.h"
#endif

#ifdef OPEN_MPI
#include "fortran.h"
#else
/* MPICH's mpi_f08 module passes MPI_Finalize by (and MPI_Barrier, MPI_Wait*, which the specimens do not use there). */
void mpi_finalize_f08_(MPI_Fint *error) {
    int status = MPI_Finalize();
    if (error) *error = status;
}
#endif
