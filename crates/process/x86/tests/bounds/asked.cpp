// Loops of C++ that are left by what a called function says; as in asked.c.
#include <memory>
#include <vector>
extern "C" { void step(int); void work(double *, int); }
#define LOOP extern "C" __attribute__((noinline)) void
#define FAR __attribute__((noipa))
#define ASKED(name) LOOP asked_##name(int n)
#define OTHER(name) LOOP other_##name(int n)
struct Timer {
    virtual bool done() const = 0;
    virtual void next() = 0;
    virtual ~Timer() {}
};
struct Steps : Timer {
    std::vector<double> lengths;
    std::size_t at = 0;
    explicit Steps(int n) : lengths(n, 1.0) {}
    FAR bool done() const override { return at >= lengths.size(); }
    FAR void next() override { ++at; }
};
struct Clock : Timer {
    double now = 0, dt = 0.25, end;
    bool is_inner = false;
    explicit Clock(int n) : end(n * 0.25) {}
    FAR double value() const { return now; }
    FAR bool done() const override { bool runs = value() < end - 0.5 * dt; if (runs && is_inner) return false; return !runs; }
    FAR void next() override { now += dt; }
};
struct Run {
    std::unique_ptr<Timer> timer;
    int steps = 0, most;
    explicit Run(Timer *timer, int most) : timer(timer), most(most) {}
    FAR bool runs() const { return !timer->done() && steps < most; }
    FAR void one() { step(steps++); timer->next(); }
};
FAR Timer *of_steps(int n) { return new Steps(n); }
FAR Timer *of_clock(int n) { return new Clock(n); }
ASKED(steps) { std::unique_ptr<Timer> t(of_steps(n)); while (!t->done()) { step(1); t->next(); } }
ASKED(clock) { std::unique_ptr<Timer> t(of_clock(n)); while (!t->done()) { step(1); t->next(); } }
ASKED(run) { Run r(of_steps(n), 1000); while (r.runs()) r.one(); }
ASKED(most) { Run r(of_clock(1000), n); while (r.runs()) r.one(); }
ASKED(raised) { std::unique_ptr<Timer> t(of_steps(n)); try { while (!t->done()) { step(1); t->next(); } } catch (...) { step(0); } }
ASKED(negated) { std::unique_ptr<Timer> t(of_clock(n)); for (bool is_over = t->done(); !is_over; is_over = t->done()) { step(1); t->next(); } }
