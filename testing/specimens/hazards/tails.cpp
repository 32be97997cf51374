// Calls that go on behind jumps: functions that end in another function, shared with others, thrown out of, gone round in,
// behind pointers, stubs and in other libraries. Each call lasts about as long as its name's caller says, so that times can
// be told apart.
//
// Next: hazards.cpp, which repeats them; flow.cpp for other tail calls.

#include "hazards.h"
#include <dlfcn.h>
#include <stdexcept>
#include <unistd.h>

#define NOT_THE_SAME(number) __asm__ volatile("" ::"i"(number)) /* alike functions would be one */

static const long SHORT_US = 300, LONG_US = 6000;

APART static long hand_shared(long us) {
    usleep((useconds_t)us);
    KEEP_FRAME;
    return us + 1;
}
APART static long hand_one(long us) {
    NOT_THE_SAME(1);
    return hand_shared(us);
}
APART static long hand_two(long us) {
    NOT_THE_SAME(2);
    return hand_shared(us + 1);
}

// --- a chain, of which the last one is nobody else's

APART static long hand_third(long us) {
    usleep((useconds_t)us);
    KEEP_FRAME;
    return us + 3;
}
APART static long hand_second(long us) {
    NOT_THE_SAME(3);
    return hand_third(us);
}
APART static long hand_first(long us) {
    NOT_THE_SAME(4);
    return hand_second(us);
}

// --- it also returns by itself

APART static long hand_mixed(long us) {
    if (us & 1) {
        usleep((useconds_t)us);
        KEEP_FRAME;
        return us;
    }
    return hand_shared(us);
}

// --- thrown out of, then called for its own sake by the same instruction

APART static long hand_thrown(long us) {
    usleep((useconds_t)us);
    if (us == SHORT_US) throw std::runtime_error("short");
    KEEP_FRAME;
    return us;
}
APART static long hand_throw(long us) {
    NOT_THE_SAME(5);
    return hand_thrown(us);
}
static long (*volatile both[2])(long) = {hand_throw, hand_thrown};

APART static int catches() {
    int caught = 0;
    for (int index = 0; index < 2; index++) {
        try {
            caught += both[index](index == 0 ? SHORT_US : LONG_US) == LONG_US ? 10 : 100;
        } catch (const std::runtime_error &) {
            caught++;
        }
    }
    return caught;
}

// --- round and round

APART static long hand_ping(long n);
APART static long hand_pong(long n) {
    if (n <= 0) return hand_shared(SHORT_US);
    return hand_ping(n - 1);
}
APART static long hand_ping(long n) {
    NOT_THE_SAME(6);
    return hand_pong(n - 1);
}

// --- where nobody follows

static long (*volatile pointer)(long) = hand_shared;
APART static long hand_pointer(long us) { return pointer(us); }
APART static int hand_away(long us) { return usleep((useconds_t)us); }

// --- through a stub into the same library

static long (*library_function(const char *name))(long) {
    static void *library = plugin_path ? dlopen(plugin_path, RTLD_LAZY) : nullptr;
    return library ? (long (*)(long))dlsym(library, name) : nullptr;
}

bool hands_on() {
    bool right = hand_first(SHORT_US) == SHORT_US + 3;
    right &= hand_one(SHORT_US) == SHORT_US + 1 && hand_two(SHORT_US) == SHORT_US + 2;
    right &= hand_shared(LONG_US) == LONG_US + 1;
    right &= hand_mixed(SHORT_US + 1) == SHORT_US + 1 && hand_mixed(SHORT_US) == SHORT_US + 1;
    right &= catches() == 11;
    right &= hand_ping(20) == SHORT_US + 1;
    right &= hand_pointer(SHORT_US) == SHORT_US + 1 && hand_away(SHORT_US) == 0;
    long (*through_stub)(long) = library_function("library_on");
    right &= !plugin_path || (through_stub && through_stub(SHORT_US) == SHORT_US + 1);
    return right;
}
