/*
 * trimtab from C: start a measured job, measure it again, and ask what comes.
 *
 * The library starts the program `trimtab` (or the one that TRIMTAB_BINARY names) for windows, so nothing of it is in the
 * measured job. Reports and answers are JSON, as docs/report.md and docs/forecasts.md describe them. Functions return
 * TRIMTAB_DONE, TRIMTAB_PARTIAL (there is a report or an answer, and something in it is missing or not claimed) or TRIMTAB_ERROR
 * (trimtab_error says why). A job must not be used by two threads at once.
 */
#ifndef TRIMTAB_H
#define TRIMTAB_H

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRIMTAB_DONE 0
#define TRIMTAB_PARTIAL 1
#define TRIMTAB_ERROR 2

/* A job that was started or found. */
typedef struct trimtab_job trimtab_job;

/* One window. All zero, it is measured at once and for at least 0.2 s, and waited for only if is_blocking is set. */
typedef struct trimtab_request {
    uint64_t iterations;   /* iterations to record; 0: as many as pass in 0.2 s */
    double seconds_max;    /* measuring time at most, seconds; 0: 60 */
    const char *groups;    /* which functions, "comm,io"; NULL: comm */
    const char *functions; /* further ones, "solve,exchange"; NULL: none */
    const char *event;     /* wait for it first, as `trimtab attach --when` takes it; NULL: do not */
    int is_blocking;       /* 1: return when the report is there; 0: at once, and trimtab_wait gets the report */
} trimtab_request;

/* Starts a program (words end with NULL: mpirun, -n, 4, ./app) and a window of it as soon as all of its ranks are there. If the
 * program can be started and the window can't be measured, *job is set all the same. *report is set by a blocking one only. */
int trimtab_start(const char *const *words, const trimtab_request *request, trimtab_job **job, char **report);

/* A job that runs already, by the process id of its launcher or of a rank. */
int trimtab_find(pid_t pid, trimtab_job **job);

/* Measures again: another subset, event or time, as often as wanted; one window at a time. */
int trimtab_measure(trimtab_job *job, const trimtab_request *request, char **report);

/* Waits for the window that was begun without waiting, and gets its report. */
int trimtab_wait(trimtab_job *job, char **report);

/* The process id of the launcher, or the one that was given. */
pid_t trimtab_pid(const trimtab_job *job);

/* Waits for the end of a program that was started, and forgets the job. The exit code of the program, 128 and the signal's number,
 * or -1: it was found and not started. A window that goes on is waited for. */
int trimtab_end(trimtab_job *job);

/* Asks for a forecast: what is the last word of a path /v1/forecasts/..., as "job" or "corun", and question is JSON as docs/api.md describes it. It is the site's
 * controller that is asked (TRIMTAB_CONTROLLER, TRIMTAB_IDENTITY); without one it is `trimtab forecast`, for questions that name
 * windows, and "job" may be a process id. */
int trimtab_forecast(const char *what, const char *question, char **answer);

/* Why the latest call of this thread that returned TRIMTAB_ERROR did so; valid until its next call. */
const char *trimtab_error(void);

/* Frees a report or an answer. */
void trimtab_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
