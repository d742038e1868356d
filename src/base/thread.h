/* thread.h - starting a thread, sharing a core with others, and waiting for them. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Threads that are started from here on have stacks of at least 8 MiB, the usual size. Otherwise
 * `ulimit -s` would decide, and with a small value compiling a policy could end the program.
 * First call in main(). */
void thread_stacks_take(void);

/* Starts a thread that the program needs; signals go to the main thread. If the system refuses,
 * that is logged (`cannot_start`) and the process ends with status 1. Only at boot, where ending
 * is acceptable. `name` has at most 15 bytes: top and perf show it. */
void thread_start(pthread_t *ret, const char *name, void *(*run)(void *), void *context);

/* From here on the calling thread does not preempt a running thread. If others want all of the
 * core, it gets the part that `nice` (1 to 19) leaves it: about a quarter at 5, a tenth at 10.
 * For background work. False, with errno: the system refused some of it. */
bool thread_step_back(int nice);

/* A condition whose timed waits use the monotonic clock: setting the system time does not change
 * their length. */
void condition_init(pthread_cond_t *condition);

/* The time that is `ms` from now, for pthread_cond_timedwait() on such a condition. */
struct timespec condition_deadline(uint64_t ms);

#endif
