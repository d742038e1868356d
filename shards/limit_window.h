/* limit_window.h - counters of policies' limits: exact over a sliding window.
 *
 * Time is cut into buckets of exactly a sixtieth of the window, and what is counted is all of the
 * last 61: the one being filled and sixty before it. So nothing of the window is ever missed, and
 * it is stricter by a sixtieth at most. (Buckets of whole milliseconds, rounded up, would be
 * stricter than that: by 36 ms of a second.) Counting and giving back commute, so the decision's
 * record may say what it counted wherever it is journaled. A counter nobody used for a whole window
 * is dropped. Time is the caller's stamp, and never goes back within a counter. Belongs to its
 * shard's thread. */
#ifndef SHARDS_LIMIT_WINDOW_H
#define SHARDS_LIMIT_WINDOW_H

#include <stdbool.h>

#include "shards/slot.h"

enum { LIMIT_BUCKETS = 61, LIMIT_WINDOW_MS_MIN = LIMIT_BUCKETS - 1 };

/* No time or span that was ever written is beyond it, and what is reckoned with it cannot
 * overflow. */
static const uint64_t limit_time_most_ms = UINT64_C(1) << 52;

/* The bucket of a time, and the first millisecond of a bucket. No bucket is shorter than a
 * millisecond. */
static inline uint64_t limit_window(uint64_t window_ms)
{
    return window_ms < LIMIT_WINDOW_MS_MIN ? LIMIT_WINDOW_MS_MIN : window_ms;
}

static inline uint64_t limit_bucket(uint64_t stamp_ms, uint64_t window_ms)
{
    uint64_t w = limit_window(window_ms);
    return stamp_ms / w * (LIMIT_BUCKETS - 1) + stamp_ms % w * (LIMIT_BUCKETS - 1) / w;
}

static inline uint64_t limit_bucket_begin_ms(uint64_t bucket, uint64_t window_ms)
{
    uint64_t w = limit_window(window_ms), whole = bucket / (LIMIT_BUCKETS - 1),
             part = bucket % (LIMIT_BUCKETS - 1);
    return whole * w + (part * w + LIMIT_BUCKETS - 2) / (LIMIT_BUCKETS - 1);
}

struct limit_ask {       /* one request to count */
    struct slot_key key; /* of (tenant, policy, rule, per, value, window) */
    uint64_t window_ms;
    uint64_t count_max; /* 0: not bounded */
    bool has_max;
    int64_t amount_max, amount; /* millionths; amount -1: is over at once */
    bool let_through;           /* a person has approved it: counted, never refused */
    bool look_only;             /* whether there is room; nothing is counted */
};

struct limit_told {
    /* false: it would be over, and nothing was counted. look_only: it would be counted */
    bool counted;
    uint64_t stamp_ms; /* where it was counted: to give it back, and for the record */
};

#endif
