// Steps of a loop in a method, with an object that must be destroyed and an exception that is caught in some of them.
// From a SIGUSR1 on they compute nothing. A step takes as long on a slow machine as on a fast one, and
// leaves the processor to others.
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mpi.h>
#include <stdexcept>
#include <unistd.h>
#include <vector>

static volatile std::sig_atomic_t computes = 1;
static const double step_s = 2.5e-3;

static void hurry(int) { computes = 0; }

static double now_s()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

namespace flow {
class Solver {
public:
    Solver(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
    void solve(int steps);

private:
    void step(std::vector<double> &field);
    double end(int steps) const;
    int rank_, ranks_;
    long done_ = 0;
    double state_ = 1;
#if FORM >= 3
    int steps_ = 0, made_ = 0;
#endif
#if FORM >= 5
public:
    // Simulated time, its step and its end, and the number of steps; a stride, and a residual.
    double now_ = 0, by_ = 0.25, end_ = 0, norm_ = 1;
    int cycle_ = 0, stride_ = 1;
#endif
};

#if FORM >= 3
// Others know the solver: they may change its steps.
Solver *known;
#endif

__attribute__((noinline)) void Solver::step(std::vector<double> &field)
{
    for (double end_s = now_s() + step_s; computes && now_s() < end_s; usleep(500))
        state_ += std::sqrt(1 + state_) * 1e-9;
    MPI_Sendrecv_replace(field.data(), 4, MPI_DOUBLE, (rank_ + 1) % ranks_, 1, (rank_ + ranks_ - 1) % ranks_, 1,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank_ == 0) {
        timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        std::printf("%ld %ld.%09ld\n", ++done_, long(now.tv_sec), now.tv_nsec);
        std::fflush(stdout);
    }
#if FORM == 4
    if (++made_ == 1000)
        known->steps_ += 50;
#endif
#if FORM >= 5
    known->cycle_++;
    known->now_ += known->by_;
    known->norm_ *= 0.98;
#if FORM == 7
    known->by_ *= 1.01;
#endif
#endif
    if (state_ < 0)
        throw std::runtime_error("it diverged");
}

#if FORM >= 5
// The middle of the last of so many steps of simulated time.
__attribute__((noinline)) double Solver::end(int steps) const
{
    double end = 0, by = by_;
    for (int step = 1; step < steps; step++, by *= FORM == 7 ? 1.01 : 1)
        end += by;
    return end + by / 2;
}
#endif

#if FORM == 9
// Says itself when it is over; only the object tells which function is asked.
struct Timer {
    virtual bool done() const = 0;
    virtual void next() = 0;
    virtual ~Timer() {}
};

struct Steps : Timer {
    std::vector<double> lengths;
    std::size_t at = 0;
    explicit Steps(int steps) : lengths(steps, 0.25) {}
    bool done() const override { return at >= lengths.size(); }
    void next() override { ++at; }
};

__attribute__((noinline)) Timer *timer_of(int steps) { return new Steps(steps); }
Timer *(*volatile timer_made)(int) = timer_of;
#endif

#if FORM == 10
__attribute__((noinline)) bool is_broken(double norm) { return std::isnan(norm); }
#endif

__attribute__((noinline)) void Solver::solve(int steps)
{
#if FORM == 0
    for (int it = 0; it < steps; ++it) {
        std::vector<double> field(4, 1.0);
        step(field);
    }
#elif FORM == 1
    std::size_t left = steps;
    while (left-- > 0) {
        std::vector<double> field(4, 1.0);
        step(field);
    }
#elif FORM == 2
    std::vector<double> field(4, 1.0);
    for (long it = steps; it != 0; --it)
        step(field);
#elif FORM == 5 || FORM == 7
    std::vector<double> field(4, 1.0);
    known = this;
    end_ = end(steps);
    while (now_ < end_ && cycle_ < 1000000)
        step(field);
#elif FORM == 6
    std::vector<double> field(4, 1.0);
    known = this;
    stride_ = std::atoi("7");
    for (int it = 0; it < 7 * steps;) {
        step(field);
        it += stride_;
    }
#elif FORM == 8
    std::vector<double> field(4, 1.0);
    known = this;
    norm_ = 1e-9 * std::pow(0.98, -(steps - 0.5));
    for (int it = 0; it < 1000000 && norm_ > 1e-9; ++it)
        step(field);
#elif FORM == 10
    // A flag, and something is done between where it is set and where it is asked for.
    std::vector<double> field(4, 1.0);
    known = this;
    for (bool over = false; !over;) {
        step(field);
        if (cycle_ >= steps)
            over = true;
        if (is_broken(norm_))
            std::fprintf(stderr, "it diverged\n");
    }
#elif FORM == 9
    std::vector<double> field(4, 1.0);
    known = this;
    Timer *timer = timer_made(steps);
    while (!timer->done()) {
        step(field);
        timer->next();
    }
    delete timer;
#else
    std::vector<double> field(4, 1.0);
    known = this;
    steps_ = FORM == 4 ? steps - 50 : steps;
    for (int it = 0; it < steps_; ++it)
        step(field);
#endif
}
} // namespace flow

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    std::signal(SIGUSR1, hurry);
    flow::Solver(rank, ranks).solve(std::atoi(argv[1]));
    MPI_Finalize();
}
