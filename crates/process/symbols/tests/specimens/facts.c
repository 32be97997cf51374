/* Types, variables and parameters of every kind C has; prints what the compiler says about them. */
#include "facts.h"
#include <stddef.h>
#include <stdio.h>

enum color { RED = -1, GREEN = 5, BLUE };
typedef unsigned long counter_t;
struct node {
    struct node *next;
    const char *label;
    union {
        int number;
        double real;
    };
    unsigned low : 3;
    int middle : 7;
    unsigned long high : 40;
    short grid[2][3];
    int (*callback)(struct node *, double);
    enum color color;
    counter_t hits;
};
struct pair {
    double left;
    long right;
};
struct big {
    long words[5];
};
struct tiny {
    float x, y;
};
struct opaque;

int global_number = 42;
static long static_number = 7;
__thread int local_number = 3;
const char *const names[3] = {"a", "b", "c"};
struct node head = {.label = "head"};
struct opaque *hidden;

__attribute__((noinline)) long sum(int a, double b, const char *c, struct pair d, struct big e, float f, struct tiny g,
                                   long double h, long i, long j, long k, long l, _Bool m) {
    static int calls;
    long total = a + (long)b + c[0] + (long)d.left + d.right + e.words[4];
    calls++;
    for (int round = 0; round < 2; round++) {
        long inner = total + round; /* inner line */
        total += inner % 3;
    }
    return total + (long)f + (long)(g.x + g.y) + (long)h + i + j + k + l + m + calls + static_number;
}

__attribute__((noinline)) struct pair both(int a) { return (struct pair){a + 0.5, a}; }

__attribute__((noinline)) struct big large(int a) { return (struct big){{a, a, a, a, a}}; }

__attribute__((noinline)) int uses(int value) {
    int result = twice(value) + 1; /* uses line */
    return result;
}

__attribute__((noinline)) int variadic(const char *format, ...) { return format[0]; }

#define OFFSET(record, member) printf("offset " #record "." #member " %zu\n", offsetof(struct record, member))
#define SIZE(type) printf("size " #type " %zu\n", sizeof(type))
#define ADDRESS(name) printf("address " #name " %lx\n", (unsigned long)&name)

int main(int argc, char **argv) {
    struct pair d = {1.5, 31};
    struct big e = {{1, 2, 3, 4, 55}};
    struct tiny g = {0.25f, 0.75f};
    (void)argv;
    printf("sum %ld\n", sum(11, 22.5, "text", d, e, 2.5f, g, 6.25L, 101, 102, 103, 104, argc > 0));
    printf("uses %d %d\n", uses(argc), twice(argc + 1)); /* main line */
    printf("both %f %ld %d\n", both(3).left, large(4).words[2], variadic("x", 1));
    OFFSET(node, next), OFFSET(node, number), OFFSET(node, grid), OFFSET(node, callback), OFFSET(node, color);
    OFFSET(node, hits), OFFSET(pair, right);
    SIZE(struct node), SIZE(struct pair), SIZE(enum color), SIZE(counter_t), SIZE(int), SIZE(long double);
    ADDRESS(global_number), ADDRESS(static_number), ADDRESS(names), ADDRESS(head), ADDRESS(hidden);
    return 0;
}
