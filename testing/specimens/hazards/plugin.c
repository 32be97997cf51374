/* The library that is loaded and unloaded while it is probed; its answers are known. Next: processes.cpp. */

int plugin_calls;

__attribute__((noinline)) long plugin_inner(long x) {
    plugin_calls++;
    return 3 * x + 1;
}

__attribute__((noinline)) long plugin_work(long x) {
    long sum = 0;
    for (long i = 0; i < x; i++) sum += plugin_inner(i);
    return sum;
}

/* It ends in a function of this library, to which it jumps through a stub, because others may have one of that name. */
extern int usleep(unsigned us);

__attribute__((noinline)) long library_waits(long us) {
    usleep((unsigned)us);
    plugin_calls++;
    return us + 1;
}

__attribute__((noinline)) long library_on(long us) { return library_waits(us); }
