#include "base/world.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/check.h"

#define NS_PER_MS 1000000u

enum { CLOCK_TOLD_SECONDS = 60 };

/* now = BOOTTIME + offset. Only world_time_discipline() and world_time_floor() change the
 * offset. */
static _Atomic int64_t offset_ms;
static _Atomic int64_t wall_ahead_ms; /* of our clock; negative: it is behind */
static _Atomic uint64_t latest_ms;
static pthread_once_t started = PTHREAD_ONCE_INIT;

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    check(clock_gettime(id, &t) == 0);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int64_t clock_ms(clockid_t id) { return (int64_t)(clock_ns(id) / NS_PER_MS); }

static void world_start(void)
{
    atomic_store(&offset_ms, clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_BOOTTIME));
}

uint64_t world_now_ms(void)
{
    pthread_once(&started, world_start);
    uint64_t now = (uint64_t)(clock_ms(CLOCK_BOOTTIME) +
                              atomic_load_explicit(&offset_ms, memory_order_relaxed));
    uint64_t latest = atomic_load_explicit(&latest_ms, memory_order_relaxed);
    while (now > latest)
        if (atomic_compare_exchange_weak_explicit(&latest_ms, &latest, now, memory_order_relaxed,
                                                  memory_order_relaxed))
            return now;
    return latest;
}

uint64_t world_monotonic_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

uint64_t world_boot_ms(void) { return (uint64_t)clock_ms(CLOCK_BOOTTIME); }

uint64_t world_wall_ns(void) { return clock_ns(CLOCK_REALTIME); }

void world_time_floor(uint64_t not_before_ms)
{
    pthread_once(&started, world_start);
    /* Time continues from the floor, and approaches the wall clock slowly
     * (world_time_discipline). If it stopped until the clock has caught up, nothing would expire
     * during that time. */
    int64_t behind_ms = (int64_t)not_before_ms - clock_ms(CLOCK_BOOTTIME) - atomic_load(&offset_ms);
    if (behind_ms > 0) atomic_fetch_add(&offset_ms, behind_ms);
    uint64_t latest = atomic_load(&latest_ms);
    while (latest < not_before_ms &&
           !atomic_compare_exchange_weak(&latest_ms, &latest, not_before_ms)) {
    }
}

uint64_t world_expiry_ms(uint64_t now_ms)
{
    int64_t ahead = atomic_load_explicit(&wall_ahead_ms, memory_order_relaxed);
    return ahead > 0 ? now_ms + (uint64_t)ahead : now_ms;
}

bool world_clock_trouble(char to[CLOCK_TROUBLE_TEXT])
{
    int64_t seconds = atomic_load_explicit(&wall_ahead_ms, memory_order_relaxed) / 1000;
    if (seconds >= 0)
        snprintf(
            to, CLOCK_TROUBLE_TEXT,
            "the machine's clock was set, and is %lld seconds ahead of this program's clock, which "
            "gains one second in ten; a restart sets it at once",
            (long long)seconds);
    else
        snprintf(
            to, CLOCK_TROUBLE_TEXT,
            "the machine's clock was set back, and is %lld seconds behind this program's clock, "
            "which runs at half speed until both agree, so that records stay in the order of time",
            (long long)-seconds);
    return seconds > CLOCK_TOLD_SECONDS || seconds < -CLOCK_TOLD_SECONDS;
}

void world_time_discipline(void)
{
    pthread_once(&started, world_start);
    static _Atomic int64_t last_ms; /* of the last call, on any thread */
    int64_t boot_ms = clock_ms(CLOCK_BOOTTIME);
    int64_t before_ms = atomic_exchange(&last_ms, boot_ms);
    int64_t passed_ms = before_ms == 0 ? 0 : boot_ms - before_ms;
    int64_t error_ms = clock_ms(CLOCK_REALTIME) - boot_ms - atomic_load(&offset_ms);
    int64_t most = passed_ms / (error_ms < 0 ? 2 : 10), step_ms = error_ms;
    if (step_ms > most) step_ms = most;
    if (step_ms < -most) step_ms = -most;
    atomic_fetch_add(&offset_ms, step_ms);
    atomic_store_explicit(&wall_ahead_ms, error_ms - step_ms, memory_order_relaxed);
}

void world_random(void *bytes, size_t size)
{
    char *to = bytes;
    while (size > 0) {
        ssize_t got = getrandom(to, size, 0);
        if (got < 0 && errno == EINTR) continue;
        check(got > 0);
        to += got;
        size -= (size_t)got;
    }
}

void chance_take(struct chance *c, void *bytes, size_t size)
{
    check(size <= 64);
    if (c->left < size) {
        (c->refill == NULL ? world_random : c->refill)(c->pool, sizeof c->pool);
        c->left = sizeof c->pool;
    }
    c->left -= size;
    memcpy(bytes, c->pool + c->left, size);
    memset(c->pool + c->left, 0, size);
}
