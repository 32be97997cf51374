/* Parts that all routines share: the size, and an end with a reason.
 *
 * Routines are run at many sizes by `bench forecast --only routines`. Each checks its own result and exits with 0 only if it was
 * right. Next: dgemm.c, fftw.c, stream.c. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    exit(1);
}

static long size_of(const char *text) {
    char *end;
    double size = strtod(text, &end);
    if (*end || size < 1 || size > 1e10) fail("the size is no number from 1 to 1e10");
    return (long)size;
}

static void *function_of(const char *library, const char *name) {
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle) fail(dlerror());
    void *found = dlsym(handle, name);
    if (!found) fail(dlerror());
    return found;
}

static double *room_for(long count) {
    double *room = malloc(count * sizeof *room);
    if (!room) fail("too little memory");
    return room;
}
