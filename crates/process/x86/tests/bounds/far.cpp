// Loops of C++; `step` is called once in each iteration. As in far.c.
#include <vector>
#include <list>
#include <string>
#include <chrono>
#include <array>
#include <memory>
#include <algorithm>
#include <numeric>
#include <functional>
#include <map>
extern "C" { void step(int); void work(double *, int); double residual(); double now(); void get(int *, int); int check(int); }
#define LOOP extern "C" __attribute__((noinline)) void
// Told in most builds; left in other ways too, so that no end may be told; nothing need be told.
#define PLAIN(name) LOOP plain_##name(int n)
#define EXITS(name) LOOP exits_##name(int n)
#define OTHER(name) LOOP other_##name(int n)
static double field[64];
PLAIN(pp_up) { for (int i = 0; i < n; ++i) { std::vector<double> v(4, 1.0); work(v.data(), i); step(i); } }
PLAIN(pp_size) { std::vector<int> v(n); for (std::size_t i = 0; i < v.size(); ++i) step(v[i]); }
PLAIN(pp_size_n) { std::vector<int> v(n); for (std::size_t i = 0, m = v.size(); i < m; ++i) step(v[i]); }
PLAIN(pp_iterator) { std::vector<int> v(n); for (std::vector<int>::iterator i = v.begin(); i != v.end(); ++i) step(*i); }
PLAIN(pp_range) { std::vector<int> v(n); for (int x : v) step(x); }
PLAIN(pp_range_ref) { std::vector<std::array<double, 5>> v(n); for (auto &x : v) { work(x.data(), 1); step(1); } }
OTHER(pp_list) { std::list<int> v(n); for (int x : v) step(x); }
PLAIN(pp_foreach) { std::vector<int> v(n); std::for_each(v.begin(), v.end(), [](int x) { step(x); }); }
EXITS(pp_chrono) { auto t = std::chrono::steady_clock::now(); int i = 0; while (i < n && std::chrono::steady_clock::now() - t < std::chrono::seconds(100)) { step(i); ++i; } }
PLAIN(pp_count_then_chrono) { auto t = std::chrono::steady_clock::now(); for (int i = 0; i < n; ++i) { auto s = std::chrono::steady_clock::now(); step(i); double d = std::chrono::duration<double>(s - t).count(); work(&d, 1); } }
struct Sim { int it = 0, nt; double t = 0; explicit Sim(int n) : nt(n) {} void run() { for (it = 0; it < nt; ++it) advance(); } __attribute__((noinline)) void advance() { step(it); t += 0.1; } virtual ~Sim() {} };
PLAIN(pp_member) { Sim s(n); s.run(); }
struct Base { virtual void one(int) = 0; virtual bool done() const = 0; virtual ~Base() {} };
struct Impl : Base { int k = 0, n; Impl(int n) : n(n) {} void one(int i) override { step(i); ++k; } bool done() const override { return k >= n; } };
Base *make(int n) { return new Impl(n); }
PLAIN(pp_virtual) { std::unique_ptr<Base> b(make(n)); for (int i = 0; i < n; ++i) b->one(i); }
OTHER(pp_virtual_done) { std::unique_ptr<Base> b(make(n)); while (!b->done()) b->one(0); }
OTHER(pp_function) { std::function<void(int)> f = [](int i) { step(i); }; for (int i = 0; i < n; ++i) f(i); }
PLAIN(pp_catch) { for (int i = 0; i < n; ++i) { try { std::string s("x"); s.resize(40); work(field, (int)s.size()); step(i); } catch (...) { work(field, 1); } } }
PLAIN(pp_long) { const long m = n; long i = 0; while (i < m) { std::string s(30, 'x'); step((int)s.size()); i++; } }
PLAIN(pp_auto_down) { for (auto i = std::size_t(n); i > 0; --i) step(int(i)); }
template <class F> static void repeat(int n, F &&f) { for (int i = 0; i < n; ++i) f(i); }
PLAIN(pp_template) { double x = 1; repeat(n, [&](int i) { x += i; work(&x, 1); step(i); }); }
OTHER(pp_map) { std::map<int, int> m; for (int i = 0; i < n; ++i) m[i] = i; for (auto &p : m) step(p.second); }
OTHER(pp_captured) { int it = 0; auto f = [&] { step(it); }; for (it = 0; it < n; ++it) f(); }
OTHER(pp_captured_moves) { int it = 0; auto f = [&] { step(it); ++it; }; while (it < n) f(); }
PLAIN(pp_at) { std::vector<int> v(n); for (int i = 0; i < n; ++i) { step(v.at(i)); } }
PLAIN(pp_dts) { std::vector<double> dts(n, .1); double t = 0; for (auto i = dts.begin(); i != dts.end(); ++i) { t += *i; work(&t, 1); step(1); } }
OTHER(pp_dts_moved) { std::vector<double> dts(n + 2, .1); int k = 0; for (auto i = dts.begin(); i != dts.end(); ++i) { step(1); if (++k == 5 && dts.size() > 9) dts.erase(dts.end() - 1); } }
struct Model { int it_ = 0, nsteps_; double t_ = 0; double *f_ = field; Model(int n); void run(); void run_counted(); void run_moved(); void advance() const; void grow(int i); };
__attribute__((noinline)) Model::Model(int n) : nsteps_(n) { __asm__ volatile("":::"memory"); }
__attribute__((noinline)) void Model::advance() const { work(f_, nsteps_); step(it_); }
__attribute__((noinline)) void Model::grow(int i) { if (i == 5) nsteps_ += 2; __asm__ volatile("":::"memory"); }
LOOP pointed_plain_pp_method(Model *m) { for (int i = 0; i < m->nsteps_; ++i) { m->advance(); m->t_ += .1; } }
PLAIN(pp_method) { Model m(n); pointed_plain_pp_method(&m); }
LOOP pointed_plain_pp_method_counts(Model *m) { for (m->it_ = 0; m->it_ < m->nsteps_; ++m->it_) m->advance(); }
PLAIN(pp_method_counts) { Model m(n); pointed_plain_pp_method_counts(&m); }
LOOP pointed_other_pp_method_grows(Model *m) { for (int i = 0; i < m->nsteps_; ++i) { m->advance(); m->grow(i); } }
OTHER(pp_method_grows) { Model m(n); pointed_other_pp_method_grows(&m); }
