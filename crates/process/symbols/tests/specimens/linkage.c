/* Calls that leave the file, a function chosen at start, and thread-local data. */
#include <stdio.h>
#include <string.h>

__thread int counted = 7;
static __thread char buffer[40];
__thread long zeroed;

static int plain(int x) { return x + 1; }
static int fancy(int x) { return x + 2; }

static int (*choose(void))(int) { return (unsigned long)plain & 1 ? plain : fancy; }
int chosen(int x) __attribute__((ifunc("choose")));

int main(int argc, char **argv) {
    buffer[0] = (char)argc;
    zeroed = argc;
    printf("%d %zu\n", chosen(argc), strlen(argv[0]));
    return 0;
}
