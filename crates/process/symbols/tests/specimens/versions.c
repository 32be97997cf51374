/* A library with two versions of one symbol; links ask for the second. */
int old_answer(void) { return 1; }
int new_answer(void) { return 2; }
__asm__(".symver old_answer,answer@V1");
__asm__(".symver new_answer,answer@@V2");
__attribute__((visibility("hidden"))) int hidden_helper(void) { return 3; }
static int static_helper(void) { return 4; }
__attribute__((visibility("protected"))) int protected_helper(void) { return hidden_helper() + static_helper(); }
int shared_data[6];
