// The hazards' functions: each does its hazard once and says whether all went right. Next: hazards.cpp.
#ifndef HAZARDS_H
#define HAZARDS_H

#define APART __attribute__((noinline, noclone))
#define KEEP_FRAME __asm__ volatile("" ::: "memory") /* behind a call: it is no tail call then */

extern const char *self_path, *until_path, *plugin_path;

/* Says that probes may come: once the hazard was done, or is being done. */
void has_begun();

// flow.cpp
bool throws();
bool jumps();
bool backtraces();
bool recurses();
bool leaps();
bool alternates();
bool tails();
bool switches();
bool assembles();
bool flags();
bool sums_hotly();
bool vectors();
bool holds();
bool coroutines();

// tails.cpp
bool hands_on();

// faults.cpp
bool faults_throw();
bool faults_jump();
bool faults_step();
bool faults_bus();
bool faults_late();
bool faults_end();

// walks.cpp
bool samples();
bool cancels_anywhere();

// processes.cpp
bool threads();
bool cancels();
bool forks();
bool vforks();
bool spawns();
bool execs();
bool plugs();
bool late_plugin();
bool blocks();
bool adds();
bool dozes();
bool waits();
bool shuts_itself_in();

#endif
