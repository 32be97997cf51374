// C++ with exceptions, worker threads and MPI_THREAD_MULTIPLE. Each iteration the main thread and every worker throw
// through several frames, some of which have called MPI, and catch; and every worker passes a number round its own
// duplicated communicator. Exit probes that disturb the stack break the unwinding.
//
// Known answer: exceptions caught plus numbers received right, both counted: iterations x (1 + 2 x threads) per rank.
// --threads: workers; --size: work per iteration. A longjmp over MPI frames happens once per iteration as well.

#include "specimen.h"
#include <csetjmp>
#include <mpi.h>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

struct Worker {
    MPI_Comm comm;
    long caught = 0, received = 0;
};

volatile double sink;

struct Guard { // its destructor must run while the exception passes
    long &count;
    ~Guard() { count++; }
};

__attribute__((noinline)) void deepest(MPI_Comm comm, int depth, long &unwound) {
    Guard guard{unwound};
    if (depth > 0) {
        deepest(comm, depth - 1, unwound);
        return;
    }
    int rank;
    MPI_Comm_rank(comm, &rank);
    throw std::runtime_error("deep");
}

// Whether the exception arrived after exactly `depth + 1` destructors.
__attribute__((noinline)) bool catches(MPI_Comm comm, int depth) {
    long unwound = 0;
    try {
        deepest(comm, depth, unwound);
    } catch (const std::runtime_error &) {
        return unwound == depth + 1;
    }
    return false;
}

// Whether the neighbour's number came round.
__attribute__((noinline)) bool passes_on(MPI_Comm comm, int number) {
    int rank, ranks, got = -1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    int mine = number * 100 + rank, left = (rank + ranks - 1) % ranks;
    MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % ranks, 5, &got, 1, MPI_INT, left, 5, comm, MPI_STATUS_IGNORE);
    return got == number * 100 + left;
}

void work(long size) {
    double sum = 0;
    for (long i = 1; i <= size; i++) sum += 1.0 / (double)i;
    sink = sum;
}

void run_worker(Worker &worker, int iterations, long size) {
    for (int iteration = 0; iteration < iterations; iteration++) {
        work(size);
        worker.received += passes_on(worker.comm, iteration);
        worker.caught += catches(worker.comm, 3);
    }
}

std::jmp_buf landing;

__attribute__((noinline)) void jump(int depth) {
    int flag;
    MPI_Initialized(&flag);
    if (depth > 0) {
        jump(depth - 1);
        sink = flag; // keeps the call above from being a tail call
    } else {
        std::longjmp(landing, 1);
    }
}

__attribute__((noinline)) bool lands() {
    if (setjmp(landing) != 0) return true;
    jump(3);
    return false;
}

long run_main(int iterations, long size) {
    long good = 0;
    for (int iteration = 0; iteration < iterations; iteration++) {
        iteration_begins(iteration);
        work(size);
        MPI_Barrier(MPI_COMM_WORLD);
        bool caught = catches(MPI_COMM_WORLD, 5);
        good += lands() && caught;
    }
    iterations_end(iterations);
    return good;
}

long run(int iterations, int count, long size) {
    std::vector<Worker> workers(count);
    std::vector<std::thread> threads;
    for (auto &worker : workers) MPI_Comm_dup(MPI_COMM_WORLD, &worker.comm);
    for (auto &worker : workers) threads.emplace_back(run_worker, std::ref(worker), iterations, size);
    long good = run_main(iterations, size);
    for (auto &thread : threads) thread.join();
    for (auto &worker : workers) {
        good += worker.caught + worker.received;
        MPI_Comm_free(&worker.comm);
    }
    return good;
}

} // namespace

int main(int argc, char **argv) {
    int provided, rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    specimen_begin(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (provided < MPI_THREAD_MULTIPLE) {
        if (rank == 0) std::fprintf(stderr, "threads: this MPI library has no MPI_THREAD_MULTIPLE\n");
        MPI_Finalize();
        return 2;
    }
    int iterations = (int)option(argc, argv, "--iterations", 300), count = (int)option(argc, argv, "--threads", 2);
    long size = option(argc, argv, "--size", 1000000);

    long good = run(iterations, count, size), worst;
    MPI_Allreduce(&good, &worst, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
    bool right = verdict("threads", (double)worst, (double)iterations * (1 + 2 * count), 0, rank == 0);
    MPI_Finalize();
    return right ? 0 : 1;
}
