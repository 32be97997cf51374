// The same in C++: a step may throw, and goes on behind the handler; it has several ways back.
#include <cmath>
#include <cstdlib>
#include <mpi.h>
#include <stdexcept>
#include <vector>

namespace flow {
class Solver {
public:
    Solver(int rank, int ranks) : rank(rank), ranks(ranks), out(40), in(40) {}
    __attribute__((noinline)) void solve(int steps);

private:
    __attribute__((noinline)) void exchange();
    __attribute__((noinline)) void check(int step);
    int rank, ranks;
    double state = 1.0;
    std::vector<double> out, in;
};

void Solver::exchange()
{
    for (int index = 1; index <= 2000; index++)
        state += std::sqrt(index + state) * 1e-9;
    MPI_Sendrecv(out.data(), 40, MPI_DOUBLE, (rank + 1) % ranks, 1, in.data(), 40, MPI_DOUBLE, (rank + ranks - 1) % ranks,
                 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void Solver::check(int step)
{
    if (step % 7 == 6)
        throw std::runtime_error("too far");
}

void Solver::solve(int steps)
{
    int step = 0;
    while (step < steps) {
        step++;
        try {
            for (int count = 0; count < 5; count++)
                exchange();
            check(step);
        } catch (const std::runtime_error &) {
            state = 1.0;
            if (step % 2)
                continue;
        }
        if (step % 4 == 0) {
            double sum;
            MPI_Allreduce(&state, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
    }
}
} // namespace flow

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    flow::Solver(rank, ranks).solve(argc > 1 ? std::atoi(argv[1]) : 1000000000);
    MPI_Finalize();
}
