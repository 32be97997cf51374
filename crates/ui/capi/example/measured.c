/*
 * Starts a job, measures two windows of it, and asks when it ends.
 *
 *     gcc -o measured measured.c -I ../include -ltrimtab
 *     ./measured mpirun -n 4 ./app
 */
#include <stdio.h>
#include <stdlib.h>
#include <trimtab.h>

static void show(const char *what, int code, char *text) {
    if (code == TRIMTAB_ERROR) {
        fprintf(stderr, "%s: %s\n", what, trimtab_error());
        exit(1);
    }
    if (text)
        printf("%s: %s\n", what, text);
    trimtab_free(text);
}

int main(int argc, char **argv) {
    trimtab_job *job;
    char *text, question[64];
    /* The whole of communication for ten iterations, and waited for. */
    trimtab_request first = {.iterations = 10, .is_blocking = 1};
    /* Then another subset, for two seconds at most, while this program does something else. */
    trimtab_request again = {.iterations = 5, .seconds_max = 2, .groups = "comm,io"};
    int code;

    if (argc < 2)
        return 2;
    code = trimtab_start((const char *const *)argv + 1, &first, &job, &text);
    show("first", code, text);
    show("again", trimtab_measure(job, &again, NULL), NULL);
    code = trimtab_wait(job, &text);
    show("second", code, text);
    snprintf(question, sizeof question, "{\"job\": \"%d\", \"newest_s\": 60}", (int)trimtab_pid(job));
    code = trimtab_forecast("job", question, &text);
    show("end", code, text);
    return trimtab_end(job);
}
