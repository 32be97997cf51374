// Scopes, classes, templates, references and overloads; prints what the compiler says about them.
#include <cstdio>
#include <memory>
#include <string>

namespace space {
enum class Level : unsigned char { low = 1, high = 200 };
struct Base {
    virtual ~Base() {}
    int base_number = 4;
};
class Derived : public Base {
  public:
    Level level = Level::high;
    static int instances;
    explicit Derived(int number) : own(number) { instances++; }
    __attribute__((noinline)) int add(int more, const std::string &text) const {
        return own + more + static_cast<int>(text.size()) + base_number;
    }

  private:
    int own;
};
int Derived::instances = 0;
template <typename T> __attribute__((noinline)) T larger(T a, T b) { return a < b ? b : a; }
namespace {
__attribute__((noinline)) int secret(Derived &derived, int &&moved) { return derived.add(moved, "xyz"); }
int hidden_number = 9;
} // namespace
__attribute__((noinline)) int takes_copy(std::string copy, std::unique_ptr<int> pointer, int last) {
    return static_cast<int>(copy.size()) + *pointer + last;
}
__attribute__((noinline)) std::string returns_text(int count) { return std::string(static_cast<size_t>(count), 'x'); }
} // namespace space

thread_local long per_thread = 12;

int overloaded(int a) { return a; }
int overloaded(double a) { return static_cast<int>(a); }

int main(int argc, char **) {
    space::Derived derived(argc);
    std::printf("add %d\n", space::secret(derived, argc + 1));
    std::printf("larger %d %f\n", space::larger(argc, 2), space::larger(argc * 1.0, 2.0));
    std::printf("copy %d\n", space::takes_copy("copied", std::make_unique<int>(argc), 77));
    std::printf("text %s\n", space::returns_text(argc).c_str());
    std::printf("over %d %d\n", overloaded(argc), overloaded(argc * 2.0));
    std::printf("size space::Derived %zu\n", sizeof(space::Derived));
    std::printf("address space::Derived::instances %lx\n", reinterpret_cast<unsigned long>(&space::Derived::instances));
    std::printf("address space::hidden_number %lx\n", reinterpret_cast<unsigned long>(&space::hidden_number));
    std::printf("thread %ld\n", per_thread);
    return 0;
}
