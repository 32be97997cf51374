// Throws through frames with handlers and clean-up, and prints each landing pad the unwinder really uses.
// Built at fixed addresses, so that a printed address is one in the file.
#include <cstdio>
#include <dlfcn.h>
#include <stdexcept>
#include <string>

// The C++ runtime calls this to continue at a landing pad; ours is found first.
extern "C" void _Unwind_SetIP(void *context, unsigned long ip) {
    using Real = void (*)(void *, unsigned long);
    static Real real = reinterpret_cast<Real>(dlsym(RTLD_NEXT, "_Unwind_SetIP"));
    std::printf("pad %lx\n", ip);
    real(context, ip);
}

struct Cleaned {
    std::string text;
    ~Cleaned() { std::printf("cleaned %s\n", text.c_str()); }
};

__attribute__((noinline)) int thrower(int depth) {
    Cleaned cleaned{"thrower " + std::to_string(depth)};
    if (depth == 0) throw std::runtime_error("bottom");
    if (depth == 1) throw 17;
    return depth;
}

__attribute__((noinline)) int passes(int depth) {
    Cleaned first{"first"};
    Cleaned second{"second"};
    return thrower(depth) + 1;
}

__attribute__((noinline)) int catches(int depth) {
    try {
        return passes(depth);
    } catch (const std::runtime_error &error) {
        std::printf("caught %s\n", error.what());
        return -1;
    } catch (int number) {
        std::printf("caught %d\n", number);
        return -number;
    }
}

int main() { return catches(0) + catches(1) + catches(2) == -1 - 17 + 3 ? 0 : 1; }
