/* Prints, from inside several kinds of frames, how far the stack pointer really is from the frame's base.
   Built at fixed addresses, so that a printed address is one in the file. */
#include <stdio.h>

#define HERE(name)                                                                                                     \
    do {                                                                                                               \
        char *stack, *here;                                                                                            \
        __asm__ volatile("lea 0(%%rip), %1\n\tmov %%rsp, %0" : "=r"(stack), "=r"(here));                               \
        printf("cfa %s %lx %ld\n", name, (unsigned long)here, (long)((char *)__builtin_dwarf_cfa() - stack));          \
    } while (0)

__attribute__((noinline)) int leaf_like(int a) {
    HERE("leaf_like");
    return a + 1;
}

__attribute__((noinline)) int with_array(int a) {
    volatile char room[1000];
    room[a] = 1;
    HERE("with_array");
    return room[a] + a;
}

__attribute__((noinline)) int many_saved(int a, int b, int c, int d) {
    int x = leaf_like(a), y = leaf_like(b), z = leaf_like(c), w = leaf_like(d);
    HERE("many_saved");
    return leaf_like(x + y) + leaf_like(z + w) + x * y * z * w + leaf_like(a + b + c + d);
}

int main(void) { return many_saved(1, 2, 3, 4) + with_array(5) > 0 ? 0 : 1; }
