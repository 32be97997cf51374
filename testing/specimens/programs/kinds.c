/* Every way of moving bytes that is easily counted wrong, once per iteration: all send modes, blocking or not;
 * persistent requests; wildcards, probes, MPI_PROC_NULL, oneself; derived datatypes and communicators made and freed
 * each iteration, so that handles come back with another meaning; sub-communicators, reversed ranks, Cartesian and
 * intercommunicators; all collectives, blocking or not, in place or not; large counts where the library has them.
 *
 * Known answer: each step says beside its calls what it must have put on which link (world ranks, at the sender; the
 * conventions are in groundtruth/wrap.c), and checks what it received; the checksum is the number of failed checks
 * plus one. After the loop rank 0 prints what ONE iteration moves:
 *   kinds: link FROM TO messages M bytes B collective_messages CM collective_bytes CB   (M, B: both kinds together)
 *   kinds: contributed RANK bytes B      to collectives that have no links: allreduce, reduce_scatter, scan, exscan
 * Any number of ranks from 2 to RANKS_MAX.
 */
#include "specimen.h"
#include <mpi.h>
#include <stdint.h>

#define RANKS_MAX 16
#define LENGTH 64 /* ints per block at most */

struct link {
    long messages, bytes, collective_messages, collective_bytes;
};

static int ranks, rank, left, right, last;
static int out[RANKS_MAX * LENGTH], in[RANKS_MAX * LENGTH];
static struct link expected[RANKS_MAX];
static long contributed;
static bool expecting; /* in the first iteration only */
static int failures;

static void expect(int to, long bytes) {
    if (!expecting) return;
    expected[to].messages++;
    expected[to].bytes += bytes;
}

static void expect_collective(int to, long bytes) {
    expect(to, bytes);
    if (!expecting) return;
    expected[to].collective_messages++;
    expected[to].collective_bytes += bytes;
}

static void expect_others(long bytes) {
    for (int to = 0; to < ranks; to++)
        if (to != rank) expect_collective(to, bytes);
}

static void expect_to_root(int root, long bytes) {
    if (rank != root) expect_collective(root, bytes);
}

static void expect_contribution(long bytes) {
    if (expecting) contributed += bytes;
}

static void must(bool right_answer, const char *what) {
    if (right_answer) return;
    if (failures++ < 5) printf("kinds: rank %d: wrong: %s\n", rank, what);
}

/* All of `out` says who sent it. */
static void sign(void) {
    for (int i = 0; i < ranks * LENGTH; i++) out[i] = 1000 * rank + i % LENGTH;
    memset(in, -1, sizeof in);
}

static bool is_from(int sender, int at, int count) {
    for (int i = 0; i < count; i++)
        if (in[at + i] != 1000 * sender + i) return false;
    return true;
}

/* ---------------------------------------------------------------- point to point */

typedef int send_function(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int post_function(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static void step_send_modes(void) {
    static send_function *const modes[] = {MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend};
    for (int mode = 0; mode < 4; mode++) {
        MPI_Request request;
        sign();
        MPI_Irecv(in, 2 * LENGTH, MPI_INT, left, mode, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD); /* a ready send needs its receive posted */
        modes[mode](out, 10 + mode, MPI_INT, right, mode, MPI_COMM_WORLD);
        expect(right, (10 + mode) * 4);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        must(is_from(left, 0, 10 + mode) && in[10 + mode] == -1, "send modes");
    }
}

static void complete(MPI_Request requests[], int way) {
    int index, flag = 0, done = 0, indices[4], total = 0;
    while (way == 0 && !done) {
        MPI_Testany(4, requests, &index, &flag, MPI_STATUS_IGNORE);
        done = flag && index == MPI_UNDEFINED;
    }
    for (int i = 0; way == 1 && i < 4; i++) MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE);
    while (way == 2 && total < 4) {
        MPI_Waitsome(4, requests, &done, indices, MPI_STATUSES_IGNORE);
        total += done;
    }
    while (way == 3 && total < 4) {
        MPI_Testsome(4, requests, &done, indices, MPI_STATUSES_IGNORE);
        total += done;
    }
    while (way == 4 && !flag) MPI_Testall(4, requests, &flag, MPI_STATUSES_IGNORE);
    for (int i = 0; way == 5 && i < 4; i++)
        for (flag = 0; !flag;) MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
}

static void step_immediate_modes(void) {
    static post_function *const modes[] = {MPI_Isend, MPI_Ibsend, MPI_Issend, MPI_Irsend};
    for (int way = 0; way < 6; way++) {
        MPI_Request receives[4], sends[4];
        sign();
        for (int i = 0; i < 4; i++)
            MPI_Irecv(in + i * 16, 16, MPI_INT, left, i, MPI_COMM_WORLD, &receives[i]);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < 4; i++) {
            modes[i](out, 5 + i, MPI_INT, right, i, MPI_COMM_WORLD, &sends[i]);
            expect(right, (5 + i) * 4);
        }
        complete(receives, way);
        MPI_Waitall(4, sends, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 4; i++) must(is_from(left, i * 16, 5 + i), "immediate modes");
    }
}

/* Everybody reports to rank 0, which does not know who comes first. */
static void step_any_source(void) {
    sign();
    if (rank > 0) {
        MPI_Send(out, rank, MPI_INT, 0, rank, MPI_COMM_WORLD);
        expect(0, rank * 4);
    }
    for (int i = 1; rank == 0 && i < ranks; i++) {
        MPI_Status status;
        int count;
        MPI_Recv(in, LENGTH, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        must(count == status.MPI_SOURCE && is_from(status.MPI_SOURCE, 0, count), "any source");
    }
    MPI_Barrier(MPI_COMM_WORLD); /* or the next step's messages might be taken for these */
}

static void step_probes(void) {
    MPI_Request request;
    MPI_Status status;
    MPI_Message message;
    for (int way = 0; way < 4; way++) {
        int flag = 0;
        sign();
        MPI_Isend(out, 3 + way, MPI_INT, right, 20 + way, MPI_COMM_WORLD, &request);
        expect(right, (3 + way) * 4);
        if (way == 0) MPI_Probe(left, 20, MPI_COMM_WORLD, &status);
        while (way == 1 && !flag) MPI_Iprobe(left, 21, MPI_COMM_WORLD, &flag, &status);
        if (way == 2) MPI_Mprobe(left, 22, MPI_COMM_WORLD, &message, &status);
        while (way == 3 && !flag) MPI_Improbe(left, 23, MPI_COMM_WORLD, &flag, &message, &status);
        if (way < 2) MPI_Recv(in, LENGTH, MPI_INT, left, 20 + way, MPI_COMM_WORLD, &status);
        if (way == 2) MPI_Mrecv(in, LENGTH, MPI_INT, &message, &status);
        if (way == 3) {
            MPI_Request receive;
            MPI_Imrecv(in, LENGTH, MPI_INT, &message, &receive);
            MPI_Wait(&receive, &status);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        must(is_from(left, 0, 3 + way), "probes");
    }
}

/* Neither bytes nor messages. */
static void step_nobody(void) {
    MPI_Request request;
    MPI_Send(out, 7, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Recv(in, 7, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Isend(out, 7, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, 7, MPI_INT, MPI_PROC_NULL, 0, in, 7, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

/* Oneself, and a message of no bytes. */
static void step_self_and_empty(void) {
    sign();
    MPI_Sendrecv(out, 2, MPI_INT, rank, 30, in, 2, MPI_INT, rank, 30, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(rank, 8);
    must(is_from(rank, 0, 2), "oneself");
    MPI_Sendrecv(out, 3, MPI_INT, 0, 31, in, 3, MPI_INT, 0, 31, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    expect(rank, 12);
    must(is_from(rank, 0, 3), "MPI_COMM_SELF");
    MPI_Sendrecv(NULL, 0, MPI_INT, right, 32, in, 1, MPI_INT, left, 32, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(right, 0);
}

static void step_exchanges(void) {
    sign();
    /* Room for more than comes: the posted length is not what arrives. */
    MPI_Sendrecv(out, 9, MPI_INT, right, 40, in, LENGTH, MPI_INT, left, 40, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(right, 36);
    must(is_from(left, 0, 9), "Sendrecv");
    memcpy(in, out, sizeof in);
    MPI_Sendrecv_replace(in, 11, MPI_INT, left, 41, right, 41, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(left, 44);
    must(is_from(right, 0, 11), "Sendrecv_replace");
}

#define PERSISTENT 5
static MPI_Request lasting[PERSISTENT]; /* made before the loop: a tool that comes later did not see it */

static void prepare_persistent(MPI_Request requests[]) {
    MPI_Recv_init(in, LENGTH, MPI_INT, left, 50, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(in + LENGTH, LENGTH, MPI_INT, left, 51, MPI_COMM_WORLD, &requests[1]);
    MPI_Send_init(out, 12, MPI_INT, right, 50, MPI_COMM_WORLD, &requests[2]);
    MPI_Ssend_init(out, 13, MPI_INT, right, 51, MPI_COMM_WORLD, &requests[3]);
    MPI_Send_init(out, 14, MPI_INT, MPI_PROC_NULL, 51, MPI_COMM_WORLD, &requests[4]);
}

static void run_persistent(MPI_Request requests[]) {
    sign();
    MPI_Start(&requests[0]);
    MPI_Start(&requests[1]);
    MPI_Startall(PERSISTENT - 2, requests + 2);
    expect(right, 48);
    expect(right, 52);
    MPI_Waitall(PERSISTENT, requests, MPI_STATUSES_IGNORE);
    must(is_from(left, 0, 12) && is_from(left, LENGTH, 13), "persistent");
}

static void step_persistent(void) {
    MPI_Request fresh[PERSISTENT], modes[4];
    run_persistent(lasting);
    prepare_persistent(fresh);
    run_persistent(fresh);
    run_persistent(fresh);
    for (int i = 0; i < PERSISTENT; i++) MPI_Request_free(&fresh[i]);

    sign();
    MPI_Recv_init(in, LENGTH, MPI_INT, left, 52, MPI_COMM_WORLD, &modes[0]);
    MPI_Recv_init(in + LENGTH, LENGTH, MPI_INT, left, 53, MPI_COMM_WORLD, &modes[1]);
    MPI_Rsend_init(out, 15, MPI_INT, right, 52, MPI_COMM_WORLD, &modes[2]);
    MPI_Bsend_init(out, 16, MPI_INT, right, 53, MPI_COMM_WORLD, &modes[3]);
    MPI_Startall(2, modes);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Start(&modes[2]);
    MPI_Start(&modes[3]);
    expect(right, 60);
    expect(right, 64);
    MPI_Waitall(4, modes, MPI_STATUSES_IGNORE);
    must(is_from(left, 0, 15) && is_from(left, LENGTH, 16), "persistent modes");
    for (int i = 0; i < 4; i++) MPI_Request_free(&modes[i]);
}

/* ---------------------------------------------------------------- datatypes */

/* Sends one item of `type` to the right, and frees it; `bytes`: its size, which is not its extent. */
static void send_typed(MPI_Datatype type, long bytes) {
    MPI_Type_commit(&type);
    sign();
    MPI_Sendrecv(out, 1, type, right, 60, in, 1, type, left, 60, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(right, bytes);
    int low_half = 0xffff; /* all that the type of shorts brings */
    must((in[0] & low_half) == (1000 * left & low_half), "derived datatypes");
    MPI_Type_free(&type);
}

/* One type after the other, so that the library may give the same handle to all. */
static void step_derived_types(void) {
    MPI_Datatype type, inner;
    MPI_Type_contiguous(6, MPI_INT, &type);
    send_typed(type, 24);
    MPI_Type_vector(3, 2, 4, MPI_INT, &type);
    send_typed(type, 24);
    MPI_Type_contiguous(10, MPI_INT, &type);
    send_typed(type, 40);

    int lengths[2] = {1, 2};
    MPI_Aint places[2] = {0, 8};
    MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Type_create_struct(2, lengths, places, parts, &type);
    send_typed(type, 20);

    int blocks[2] = {3, 1}, displacements[2] = {0, 8};
    MPI_Type_indexed(2, blocks, displacements, MPI_INT, &type);
    send_typed(type, 16);

    MPI_Type_vector(2, 1, 3, MPI_SHORT, &inner);
    MPI_Type_create_resized(inner, 0, 64, &type);
    MPI_Type_free(&inner);
    send_typed(type, 4);
}

static void step_named_types(void) {
    static const struct {
        MPI_Datatype type;
        long bytes;
    } rows[] = {{MPI_CHAR, 1}, {MPI_SHORT, 2}, {MPI_FLOAT, 4}, {MPI_DOUBLE, 8}, {MPI_LONG_LONG, 8}, {MPI_BYTE, 1},
                {MPI_UINT16_T, 2}, {MPI_DOUBLE_INT, 12}, {MPI_2INT, 8}, {MPI_SHORT_INT, 6}, {MPI_PACKED, 1},
                {MPI_C_DOUBLE_COMPLEX, 16}, {MPI_LONG_DOUBLE, sizeof(long double)}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        MPI_Sendrecv(out, 3, rows[i].type, right, 61, in, 3, rows[i].type, left, 61, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        expect(right, 3 * rows[i].bytes);
    }
}

/* ---------------------------------------------------------------- communicators */

static MPI_Comm pairs, copy, ring, reversed, bridge;
static MPI_Comm halves; /* the local side of `bridge`: even and odd world ranks */

static void prepare_communicators(void) {
    int periodic = 1;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pairs);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Cart_create(copy, 1, &ranks, &periodic, 0, &ring);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &halves);
    MPI_Intercomm_create(halves, 0, copy, 1 - rank % 2, 70, &bridge);
}

/* Sends to the world's right neighbour by its rank in `comm`, where world rank w has rank place(w). */
static void send_right_in(MPI_Comm comm, int place_right, int place_left, int count, const char *what) {
    sign();
    MPI_Sendrecv(out, count, MPI_INT, place_right, 71, in, count, MPI_INT, place_left, 71, comm, MPI_STATUS_IGNORE);
    expect(right, count * 4);
    must(is_from(left, 0, count), what);
}

static void step_communicators(void) {
    int source, dest;
    send_right_in(copy, right, left, 4, "duplicate");
    MPI_Cart_shift(ring, 0, 1, &source, &dest);
    send_right_in(ring, dest, source, 5, "ring");
    send_right_in(reversed, last - right, last - left, 6, "reversed");

    /* Within a pair: the partner, if there is one. */
    int partner = rank ^ 1;
    if (partner > last) return;
    sign();
    MPI_Sendrecv(out, 7, MPI_INT, 1 - rank % 2, 72, in, 7, MPI_INT, 1 - rank % 2, 72, pairs, MPI_STATUS_IGNORE);
    expect(partner, 28);
    must(is_from(partner, 0, 7), "pairs");
}

/* Made and freed each iteration, one with ranks as in the world, one turned: a handle's meaning changes. */
static void step_passing_communicators(void) {
    for (int turn = 0; turn < 3; turn++) {
        MPI_Comm comm;
        bool turned = turn % 2;
        MPI_Comm_split(MPI_COMM_WORLD, 0, turned ? -rank : rank, &comm);
        send_right_in(comm, turned ? last - right : right, turned ? last - left : left, 8, "passing communicators");
        MPI_Bcast(in, 3, MPI_INT, 0, comm); /* from the world's first or last rank */
        if (rank == (turned ? last : 0)) expect_others(12);
        MPI_Comm_free(&comm);
    }
}

static void step_sub_collectives(void) {
    int partner = rank ^ 1;
    sign();
    MPI_Allgather(out, 2, MPI_INT, in, 2, MPI_INT, pairs);
    if (partner <= last) expect_collective(partner, 8);
    MPI_Bcast(out, 4, MPI_INT, last, reversed); /* from world rank 0 */
    if (rank == 0) expect_others(16);
    must(out[1] == 1, "broadcast of reversed ranks");
    MPI_Gather(out, 1, MPI_INT, in, 1, MPI_INT, 0, reversed); /* to the world's last rank */
    expect_to_root(last, 4);
}

static int opposite_count(void) { return rank % 2 == 0 ? ranks / 2 : (ranks + 1) / 2; }

static void expect_opposite(long bytes) {
    for (int i = 0; i < opposite_count(); i++) expect_collective(2 * i + 1 - rank % 2, bytes);
}

static void step_intercommunicator(void) {
    int own, all, partner = rank ^ 1;
    MPI_Comm_rank(halves, &own);
    if (partner <= last) { /* local rank i faces remote rank i */
        sign();
        MPI_Sendrecv(out, 9, MPI_INT, own, 73, in, 9, MPI_INT, own, 73, bridge, MPI_STATUS_IGNORE);
        expect(partner, 36);
        must(is_from(partner, 0, 9), "intercommunicator");
    }
    /* World rank 0 broadcasts to all odd ranks. */
    int root = rank == 0 ? MPI_ROOT : rank % 2 == 0 ? MPI_PROC_NULL : 0;
    sign();
    MPI_Bcast(out, 5, MPI_INT, root, bridge);
    if (rank == 0) expect_opposite(20);
    must(rank % 2 == 0 || out[1] == 1, "intercommunicator broadcast");
    /* All odd ranks gather to world rank 0. */
    MPI_Gather(out, 2, MPI_INT, in, 2, MPI_INT, root, bridge);
    if (rank % 2 == 1) expect_collective(0, 8);
    MPI_Allgather(out, 3, MPI_INT, in, 3, MPI_INT, bridge);
    expect_opposite(12);
    MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, bridge);
    expect_contribution(4);
}

/* ---------------------------------------------------------------- collectives */

/* Block lengths of the "v" functions, in ints, and where the blocks lie. From `from` to `to`; never 0. */
static int length_of(int from, int to) { return 1 + (from + 2 * to) % 5; }
static int spaced[RANKS_MAX], contributions[RANKS_MAX], to_each[RANKS_MAX], from_each[RANKS_MAX];
static int spaced_bytes[RANKS_MAX];
static MPI_Datatype ints[RANKS_MAX];

static void prepare_blocks(void) {
    for (int i = 0; i < ranks; i++) {
        spaced[i] = i * LENGTH;
        spaced_bytes[i] = i * LENGTH * 4;
        contributions[i] = i + 1;
        to_each[i] = length_of(rank, i);
        from_each[i] = length_of(i, rank);
        ints[i] = MPI_INT;
    }
}

static bool all_arrived(const int lengths[]) {
    for (int i = 0; i < ranks; i++)
        if (!is_from(i, spaced[i], lengths[i])) return false;
    return true;
}

/* Runs a collective in its blocking or its non-blocking form. */
static void finish(MPI_Request *request, bool immediate) {
    if (immediate) MPI_Wait(request, MPI_STATUS_IGNORE);
}
#define BOTH(x, ix, ...)                                                                                               \
    do {                                                                                                               \
        MPI_Request request;                                                                                           \
        if (immediate)                                                                                                 \
            MPI_##ix(__VA_ARGS__, &request);                                                                           \
        else                                                                                                           \
            MPI_##x(__VA_ARGS__);                                                                                      \
        finish(&request, immediate);                                                                                   \
    } while (0)

static void rooted(bool immediate, int root) {
    sign();
    BOTH(Bcast, Ibcast, out, 6, MPI_INT, root, MPI_COMM_WORLD);
    if (rank == root) expect_others(24);
    must(out[1] == 1000 * root + 1, "Bcast");
    sign();
    BOTH(Gather, Igather, out, 5, MPI_INT, in, 5, MPI_INT, root, MPI_COMM_WORLD);
    expect_to_root(root, 20);
    must(rank != root || is_from(last, last * 5, 5), "Gather");
    sign();
    BOTH(Gatherv, Igatherv, out, rank + 1, MPI_INT, in, contributions, spaced, MPI_INT, root, MPI_COMM_WORLD);
    expect_to_root(root, (rank + 1) * 4);
    must(rank != root || all_arrived(contributions), "Gatherv");
    sign();
    BOTH(Scatter, Iscatter, out, LENGTH, MPI_INT, in, LENGTH, MPI_INT, root, MPI_COMM_WORLD);
    if (rank == root) expect_others(LENGTH * 4);
    must(is_from(root, 0, LENGTH), "Scatter");
    sign();
    BOTH(Scatterv, Iscatterv, out, contributions, spaced, MPI_INT, in, rank + 1, MPI_INT, root, MPI_COMM_WORLD);
    for (int to = 0; to < ranks && rank == root; to++)
        if (to != root) expect_collective(to, (to + 1) * 4);
    must(is_from(root, 0, rank + 1), "Scatterv");
    sign();
    BOTH(Reduce, Ireduce, out, in, 3, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
    expect_to_root(root, 12);
    must(rank != root || in[2] == 500 * ranks * last + 2 * ranks, "Reduce");
}

static void rooted_in_place(bool immediate, int root) {
    bool here = rank == root;
    sign();
    BOTH(Reduce, Ireduce, here ? MPI_IN_PLACE : out, out, 4, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
    expect_to_root(root, 16);
    must(!here || out[1] == 500 * ranks * last + ranks, "Reduce in place");
    sign();
    memcpy(in + root * 5, out, 20);
    BOTH(Gather, Igather, here ? MPI_IN_PLACE : out, 5, MPI_INT, in, 5, MPI_INT, root, MPI_COMM_WORLD);
    expect_to_root(root, 20);
    must(!here || is_from(last, last * 5, 5), "Gather in place");
    sign();
    BOTH(Scatter, Iscatter, out, LENGTH, MPI_INT, here ? MPI_IN_PLACE : in, LENGTH, MPI_INT, root, MPI_COMM_WORLD);
    if (here) expect_others(LENGTH * 4);
    must(here || is_from(root, 0, LENGTH), "Scatter in place");
}

static void step_rooted(void) {
    for (int immediate = 0; immediate < 2; immediate++) {
        rooted(immediate, 0);
        rooted(immediate, last);
        rooted_in_place(immediate, last);
    }
}

static void reductions(bool immediate) {
    int sum = 500 * ranks * last;
    sign();
    BOTH(Allreduce, Iallreduce, out, in, 5, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect_contribution(20);
    must(in[4] == sum + 4 * ranks, "Allreduce");
    BOTH(Allreduce, Iallreduce, MPI_IN_PLACE, out, 6, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect_contribution(24);
    must(out[4] == sum + 4 * ranks, "Allreduce in place");
    sign();
    BOTH(Reduce_scatter_block, Ireduce_scatter_block, out, in, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect_contribution(8 * ranks);
    must(in[0] == sum + 2 * rank * ranks, "Reduce_scatter_block");
    sign();
    BOTH(Reduce_scatter, Ireduce_scatter, out, in, contributions, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect_contribution(2 * ranks * (ranks + 1));
    must(in[0] == sum + ranks * (rank * (rank + 1) / 2), "Reduce_scatter");
    BOTH(Reduce_scatter, Ireduce_scatter, MPI_IN_PLACE, out, contributions, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect_contribution(2 * ranks * (ranks + 1));
    sign();
    BOTH(Scan, Iscan, out, in, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect_contribution(16);
    must(in[1] == 500 * rank * (rank + 1) + rank + 1, "Scan");
    BOTH(Scan, Iscan, MPI_IN_PLACE, out, 5, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect_contribution(20);
    sign();
    BOTH(Exscan, Iexscan, out, in, 6, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect_contribution(24);
    must(rank == 0 || in[1] == 500 * rank * (rank - 1) + rank, "Exscan");
}

static void gathers(bool immediate) {
    sign();
    BOTH(Allgather, Iallgather, out, 5, MPI_INT, in, 5, MPI_INT, MPI_COMM_WORLD);
    expect_others(20);
    must(is_from(last, last * 5, 5), "Allgather");
    BOTH(Allgather, Iallgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 5, MPI_INT, MPI_COMM_WORLD);
    expect_others(20);
    must(is_from(last, last * 5, 5), "Allgather in place");
    sign();
    BOTH(Allgatherv, Iallgatherv, out, rank + 1, MPI_INT, in, contributions, spaced, MPI_INT, MPI_COMM_WORLD);
    expect_others((rank + 1) * 4);
    must(all_arrived(contributions), "Allgatherv");
    BOTH(Allgatherv, Iallgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, contributions, spaced, MPI_INT,
         MPI_COMM_WORLD);
    expect_others((rank + 1) * 4);
    must(all_arrived(contributions), "Allgatherv in place");
}

static void expect_each(void) {
    for (int to = 0; to < ranks; to++)
        if (to != rank) expect_collective(to, to_each[to] * 4);
}

static void transposes(bool immediate) {
    sign();
    BOTH(Alltoall, Ialltoall, out, LENGTH, MPI_INT, in, LENGTH, MPI_INT, MPI_COMM_WORLD);
    expect_others(LENGTH * 4);
    must(is_from(left, left * LENGTH, LENGTH), "Alltoall");
    sign();
    BOTH(Alltoallv, Ialltoallv, out, to_each, spaced, MPI_INT, in, from_each, spaced, MPI_INT, MPI_COMM_WORLD);
    expect_each();
    must(all_arrived(from_each), "Alltoallv");
    sign();
    BOTH(Alltoallw, Ialltoallw, out, to_each, spaced_bytes, ints, in, from_each, spaced_bytes, ints, MPI_COMM_WORLD);
    expect_each();
    must(all_arrived(from_each), "Alltoallw");
}

/* In place needs the same length both ways: the contribution of the larger rank. */
static void transposes_in_place(bool immediate) {
    int both_ways[RANKS_MAX];
    for (int i = 0; i < ranks; i++) both_ways[i] = 1 + (i > rank ? i : rank);
    sign();
    memcpy(in, out, sizeof in);
    BOTH(Alltoall, Ialltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, LENGTH, MPI_INT, MPI_COMM_WORLD);
    expect_others(LENGTH * 4);
    must(is_from(left, left * LENGTH, LENGTH), "Alltoall in place");
    memcpy(in, out, sizeof in);
    BOTH(Alltoallv, Ialltoallv, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, in, both_ways, spaced, MPI_INT,
         MPI_COMM_WORLD);
    for (int to = 0; to < ranks; to++)
        if (to != rank) expect_collective(to, both_ways[to] * 4);
    must(is_from(left, left * LENGTH, both_ways[left]), "Alltoallv in place");
    memcpy(in, out, sizeof in);
    BOTH(Alltoallw, Ialltoallw, MPI_IN_PLACE, NULL, NULL, NULL, in, both_ways, spaced_bytes, ints, MPI_COMM_WORLD);
    for (int to = 0; to < ranks; to++)
        if (to != rank) expect_collective(to, both_ways[to] * 4);
    must(is_from(left, left * LENGTH, both_ways[left]), "Alltoallw in place");
}

static void step_all(void) {
    for (int immediate = 0; immediate < 2; immediate++) {
        reductions(immediate);
        gathers(immediate);
        transposes(immediate);
    }
    /* Open MPI 4.1 cannot do the non-blocking ones in place reliably, so all libraries do only the blocking ones. */
    transposes_in_place(false);
    MPI_Request request;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* ---------------------------------------------------------------- large counts */

static void step_large_counts(void) {
#if MPI_VERSION >= 4
    MPI_Request requests[2];
    MPI_Count to[RANKS_MAX], from[RANKS_MAX];
    MPI_Aint places[RANKS_MAX];
    sign();
    MPI_Irecv_c(in, LENGTH, MPI_INT, left, 80, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend_c(out, 17, MPI_INT, right, 80, MPI_COMM_WORLD, &requests[1]);
    expect(right, 68);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    must(is_from(left, 0, 17), "Isend_c");
    sign();
    MPI_Irecv(in, LENGTH, MPI_INT, left, 81, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_c(out, 18, MPI_INT, right, 81, MPI_COMM_WORLD);
    expect(right, 72);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    must(is_from(left, 0, 18), "Send_c");
    for (int i = 0; i < ranks; i++) to[i] = to_each[i], from[i] = from_each[i], places[i] = spaced[i];
    MPI_Alltoallv_c(out, to, places, MPI_INT, in, from, places, MPI_INT, MPI_COMM_WORLD);
    expect_each();
    must(all_arrived(from_each), "Alltoallv_c");
    MPI_Bcast_c(out, 7, MPI_INT, last, MPI_COMM_WORLD);
    if (rank == last) expect_others(28);
    MPI_Allreduce_c(MPI_IN_PLACE, out, 7, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect_contribution(28);
#endif
}

/* ---------------------------------------------------------------- all of it */

static void (*const steps[])(void) = {
    step_send_modes,     step_immediate_modes, step_any_source,    step_probes,
    step_nobody,         step_self_and_empty,  step_exchanges,     step_persistent,
    step_derived_types,  step_named_types,     step_communicators, step_passing_communicators,
    step_sub_collectives, step_intercommunicator, step_rooted,     step_all,
    step_large_counts,
};

static void print_expected(void) {
    struct link links[RANKS_MAX * RANKS_MAX];
    long own[RANKS_MAX];
    MPI_Gather(expected, 4 * ranks, MPI_LONG, links, 4 * ranks, MPI_LONG, 0, MPI_COMM_WORLD);
    MPI_Gather(&contributed, 1, MPI_LONG, own, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < ranks * ranks; i++) {
        if (links[i].messages == 0) continue;
        printf("kinds: link %d %d messages %ld bytes %ld collective_messages %ld collective_bytes %ld\n", i / ranks,
               i % ranks, links[i].messages, links[i].bytes, links[i].collective_messages, links[i].collective_bytes);
    }
    for (int i = 0; rank == 0 && i < ranks; i++) printf("kinds: contributed %d bytes %ld\n", i, own[i]);
}

static void attach_buffer(void) {
    int bytes = 1 << 20;
    MPI_Buffer_attach(malloc(bytes), bytes);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    specimen_begin(argc, argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int iterations = (int)option(argc, argv, "--iterations", 200);
    if (ranks < 2 || ranks > RANKS_MAX) {
        if (rank == 0) fprintf(stderr, "kinds: runs with 2 to %d ranks, not %d\n", RANKS_MAX, ranks);
        MPI_Finalize();
        return 2;
    }
    last = ranks - 1, right = (rank + 1) % ranks, left = (rank + last) % ranks;
    attach_buffer();
    prepare_blocks();
    prepare_communicators();
    prepare_persistent(lasting);

    for (int iteration = 0; iteration < iterations; iteration++) {
        iteration_begins(iteration);
        expecting = iteration == 0;
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) steps[i]();
    }
    iterations_end(iterations);

    int all_failures;
    MPI_Allreduce(&failures, &all_failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    print_expected();
    bool good = verdict("kinds", all_failures + 1, 1, 0, rank == 0);
    MPI_Finalize();
    return good ? 0 : 1;
}
