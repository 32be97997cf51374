// A simulation whose steps are a method with inlined templates, a solver that is told when to stop, and a hook: 1 + 2 * (4 + step % 4) calls of MPI per step, and a sum in every fourth. It runs until it is ended.
#include <mpi.h>
#include <functional>
#include <utility>
#include <vector>

struct Ranks {
    int rank, size;
    Ranks() { MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &size); }
    double sum(double mine) const
    {
        double all;
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        return all;
    }
    void shift(std::vector<double> &values) const
    {
        MPI_Status status;
        MPI_Sendrecv_replace(values.data(), 16, MPI_DOUBLE, (rank + 1) % size, 0, (rank + size - 1) % size, 0,
                             MPI_COMM_WORLD, &status);
    }
};

struct Field {
    std::vector<double> now = std::vector<double>(20000, 1.0), next = now;
    void relax(int rounds)
    {
        for (int round = 0; round < rounds; round++)
            for (size_t i = 1; i + 1 < now.size(); i++)
                next[i] = 0.5 * (now[i - 1] + now[i + 1]) + 1e-9 * round;
        std::swap(now, next);
    }
};

template <class Done> static int solve(Field &field, const Ranks &ranks, Done &&done)
{
    int passes = 0;
    while (passes < 40) { // INNER
        field.relax(20);
        ranks.shift(field.now);
        if (done(ranks.sum(field.now[3]), ++passes))
            break;
    }
    return passes;
}

class Simulation {
    Ranks ranks;
    Field field;
    std::function<void(long)> hook = [this](long step) {
        if (step % 4 == 0)
            ranks.sum(1.0);
    };

public:
    void run()
    {
        for (long step = 0; step >= 0; step++) { // LOOP
            field.relax(20);
            ranks.shift(field.now);
            solve(field, ranks, [&](double, int passes) { return passes >= 4 + step % 4; });
            hook(step);
        }
    }
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    Simulation().run();
    MPI_Finalize();
}
