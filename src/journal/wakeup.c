#include "journal/wakeup.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The futex word is the atomic's own storage. */
static uint32_t *word(struct wakeup *b) { return (uint32_t *)(void *)&b->asleep; }

void wakeup_wake(struct wakeup *b)
{
    if (atomic_exchange(&b->asleep, 0) == 0) return; /* another waker was first */
    syscall(SYS_futex, word(b), FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void wakeup_wait(struct wakeup *b, uint32_t timeout_ms, bool (*news)(void *context), void *context)
{
    atomic_store(&b->asleep, 1);
    if (!news(context)) {
        struct timespec timeout = {.tv_sec = timeout_ms / 1000,
                                   .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
        syscall(SYS_futex, word(b), FUTEX_WAIT_PRIVATE, 1,
                timeout_ms == UINT32_MAX ? NULL : &timeout, NULL, 0);
    }
    atomic_store(&b->asleep, 0);
}
