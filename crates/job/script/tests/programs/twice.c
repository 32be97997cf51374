// Calls a library's function in each of the loader's namespaces that it is in, and says through which name.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int counted_step(int n);

int main(int count, char **words) {
  int (*other)(int) = 0;
  if (count > 1) {
    void *handle = dlmopen(LM_ID_NEWLM, words[1], RTLD_NOW);
    if (!handle) return puts(dlerror()), 1;
    *(void **)&other = dlsym(handle, "counted_step");
  }
  puts("ready");
  fflush(stdout);
  for (int i = 0;; i++) {
    counted_step(i);
    if (other) other(i);
    usleep(1000);
  }
}
