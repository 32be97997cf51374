/* Calls that leave the file, a function chosen at start, and thread-local data; prints where things really are. */
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
    char *base = __builtin_thread_pointer();
    buffer[0] = (char)argc;
    zeroed = argc;
    printf("%d %zu\n", chosen(argc), strlen(argv[0]));
    printf("tls counted %ld\n", (long)((char *)&counted - base));
    printf("tls buffer %ld\n", (long)((char *)buffer - base));
    printf("tls zeroed %ld\n", (long)((char *)&zeroed - base));
    return 0;
}
