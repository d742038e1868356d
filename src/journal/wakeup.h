/* wakeup.h - one thread sleeps until another wakes it.
 *
 * A futex, because waking must cost nothing while the sleeper is awake: then it is one load. The
 * order of operations makes it safe (Dekker). The waker first publishes its news with a
 * sequentially consistent store, then checks whether the other thread sleeps. The sleeper first
 * announces that it sleeps, then checks for news. One of the two sees the other. */
#ifndef JOURNAL_WAKEUP_H
#define JOURNAL_WAKEUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct wakeup {
    _Atomic uint32_t asleep;
};

void wakeup_wake(struct wakeup *b); /* the slow half of wakeup_send */

/* Any thread, after a seq_cst store of the news. */
static inline void wakeup_send(struct wakeup *b)
{
    if (__builtin_expect(atomic_load(&b->asleep) != 0, 0)) wakeup_wake(b);
}

/* Sleeps until it is woken or `timeout_ms` have passed (UINT32_MAX: no timeout). Returns at once if
 * `news` returns true. May return early. One thread. */
void wakeup_wait(struct wakeup *b, uint32_t timeout_ms, bool (*news)(void *context), void *context);

#endif
