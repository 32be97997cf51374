/* A second file with a static variable of the same name. */
static volatile long counter = 22;
volatile long shared = 33;
static unsigned short alone[3] = {65535, 2, 1};

__attribute__((noipa)) long rounds_other(void) { return counter + alone[0]; }

__attribute__((noipa)) void rest_other(void) { alone[1] = 4; }
