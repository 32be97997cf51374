// What patched code must survive: one subcommand per hazard, `hazards NAME UNTIL [PLUGIN]`.
//
// The hazard is repeated until file UNTIL exists; UNTIL.begun appears after the first time. Known answer: every
// repetition was right, "hazards: NAME OK" and exit status 0. Threads, children and jumps are made anew in each
// repetition, so probes come and go at every stage of them. Next: assembly.S for hand-written code, plugin.c for the
// library that is loaded and unloaded, flow.cpp for control flow, tails.cpp for calls that go on behind jumps, faults.cpp for handlers of faults, walks.cpp for
// stacks that are walked from anywhere, processes.cpp for threads and processes.

#include "hazards.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>

const char *self_path, *until_path, *plugin_path;

void has_begun() { close(open((std::string(until_path) + ".begun").c_str(), O_CREAT | O_WRONLY, 0600)); }

namespace {

struct Hazard {
    const char *name;
    bool (*once)();
};

const Hazard HAZARDS[] = {
    {"throw", throws},         {"longjmp", jumps},       {"backtrace", backtraces}, {"recursion", recurses},
    {"siglongjmp", leaps},     {"altstack", alternates}, {"tail", tails},           {"table", switches},
    {"assembly", assembles},   {"vectors", vectors},     {"coroutine", coroutines}, {"threads", threads},
    {"cancel", cancels},       {"fork", forks},          {"vfork", vforks},         {"spawn", spawns},
    {"exec", execs},           {"plugin", plugs},        {"blocked", blocks},       {"dozing", dozes},
    {"waiting", waits},        {"late", late_plugin},    {"shut", shuts_itself_in}, {"flags", flags},
    {"holding", holds},        {"sequence", adds},      {"fault_throw", faults_throw}, {"fault_jump", faults_jump},
    {"fault_step", faults_step}, {"fault_bus", faults_bus}, {"fault_late", faults_late}, {"fault_end", faults_end},
    {"hands_on", hands_on},  {"samples", samples},     {"cancel_anywhere", cancels_anywhere},
    {"sums", sums_hotly},
};

bool exists(const std::string &path) { return access(path.c_str(), F_OK) == 0; }

int run(const Hazard &hazard) {
    long right = 0, wrong = 0;
    do {
        (hazard.once() ? right : wrong)++;
        if (right + wrong == 1) has_begun();
    } while (!exists(until_path));
    if (wrong == 0) printf("hazards: %s OK\n", hazard.name);
    else printf("hazards: %s WRONG, %ld of %ld times\n", hazard.name, wrong, right + wrong);
    return wrong != 0;
}

} // namespace

int main(int argc, char **argv) {
    self_path = argv[0];
    until_path = argc > 2 ? argv[2] : "";
    plugin_path = argc > 3 ? argv[3] : nullptr;
    for (const Hazard &hazard : HAZARDS)
        if (argc > 2 && strcmp(hazard.name, argv[1]) == 0) return run(hazard);
    fprintf(stderr, "usage: hazards NAME UNTIL [PLUGIN]\n");
    return 2;
}
