/* bell.h - one thread sleeps until another has something for it.
 *
 * A futex, because the ringer must pay nothing while the sleeper is awake: ringing is one load.
 * The order that makes it safe (Dekker): the ringer first makes its news visible with a
 * sequentially consistent store, then looks whether anyone sleeps; the sleeper first says that it
 * sleeps, then looks for news. One of the two sees the other. */
#ifndef JOURNAL_BELL_H
#define JOURNAL_BELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct bell {
    _Atomic uint32_t asleep;
};

void bell_wake(struct bell *b); /* the slow half of bell_ring */

/* Any thread, after a seq_cst store of the news. */
static inline void bell_ring(struct bell *b)
{
    if (__builtin_expect(atomic_load(&b->asleep) != 0, 0)) bell_wake(b);
}

/* Sleeps until rung, or `timeout_ms` passed (UINT32_MAX: for ever), unless `news` says that there
 * is something already. May return early. One thread. */
void bell_sleep(struct bell *b, uint32_t timeout_ms, bool (*news)(void *context), void *context);

#endif
