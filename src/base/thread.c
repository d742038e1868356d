#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/world.h"

enum { STACK_BYTES = 8 << 20 };

void thread_stacks_take(void)
{
    pthread_attr_t usual;
    size_t size;
    check(pthread_getattr_default_np(&usual) == 0);
    check(pthread_attr_getstacksize(&usual, &size) == 0);
    if (size < STACK_BYTES) {
        check(pthread_attr_setstacksize(&usual, STACK_BYTES) == 0);
        check(pthread_setattr_default_np(&usual) == 0);
    }
    pthread_attr_destroy(&usual);
}

static void end_without(const char *name, int number)
{
    struct fault f;
    (void)fault_set(&f, ERR_FULL, "",
                    "the thread %s cannot be started: %s. Check ulimit -u, the number of "
                    "tasks that the service or container may have, and its memory",
                    name, strerror(number));
    log_line(LOG_ERROR, "cannot_start", "why", f.text, NULL);
    _exit(1);
}

void thread_start(pthread_t *ret, const char *name, void *(*run)(void *), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    check(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    int failed = pthread_create(ret, NULL, run, context);
    check(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    if (failed != 0) end_without(name, failed);
    pthread_setname_np(*ret, name);
}

bool thread_step_back(int nice)
{
    const struct sched_param none = {0};
    check(nice >= 1 && nice <= 19);
    /* On Linux both apply to this thread only. */
    return sched_setscheduler(0, SCHED_BATCH, &none) == 0 &&
           setpriority(PRIO_PROCESS, 0, nice) == 0;
}

void condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

struct timespec condition_deadline(uint64_t ms)
{
    uint64_t ns = world_monotonic_ns() + ms * 1000000;
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
}
