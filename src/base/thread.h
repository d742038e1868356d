/* thread.h - how a thread is started, shares its core with others, and waits for them. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Threads that are started from here on have stacks of at least 8 MiB, the usual size. Otherwise it
 * would be what `ulimit -s` says, be it so little that a policy which is compiled ends the program.
 * First thing in main(). */
void thread_stacks_take(void);

/* Starts a thread that the program cannot be without; it leaves signals to the main thread. Where
 * the system gives none, that is logged (`cannot_start`) and the process ends with status 1. At
 * boot, where a crash is as good. `name` has at most 15 bytes: top and perf show it. */
void thread_start(pthread_t *ret, const char *name, void *(*run)(void *), void *context);

/* From here on the calling thread does not interrupt one that runs, and where others want all of
 * the core it gets the part that `nice` (1 to 19) leaves it: about a quarter at 5, a tenth at 10.
 * For work that nobody waits for. False, with errno: the system refused some of it. */
bool thread_step_back(int nice);

/* A condition whose timed waits go by the monotonic clock: setting the time
 * neither ends nor prolongs one. */
void condition_init(pthread_cond_t *condition);

/* The moment that is `ms` from now, for pthread_cond_timedwait() on such a condition. */
struct timespec condition_deadline(uint64_t ms);

#endif
