/* limit_window.h - counters of policies' limits: exact over a sliding window.
 *
 * Time is divided into buckets of exactly a sixtieth of the window. The use of a limit is the total
 * of the last 61 buckets: the one being filled and sixty before it. So nothing of the window is
 * ever missed, and the limit is stricter by a sixtieth at most. (Buckets of whole milliseconds,
 * rounded up, would be stricter still: by 36 ms of a second.) Counting and giving back commute, so
 * any reactor may journal a decision's record with its counts. A counter that was not used for a
 * whole window is dropped. Time is the caller's stamp, and never goes back within a counter.
 * Belongs to its shard's thread.
 *
 * A counter's key does not hold the window. After a change of the window, earlier requests stay in
 * the buckets of the old window, and each of these counts with its newest moment. So the count is
 * carried over, and is stricter by one such bucket at most. Requests older than the old window are
 * not known. */
#ifndef SHARDS_LIMIT_WINDOW_H
#define SHARDS_LIMIT_WINDOW_H

#include <stdbool.h>

#include "base/str.h"
#include "shards/slot.h"

enum { LIMIT_BUCKETS = 61, LIMIT_WINDOW_MS_MIN = LIMIT_BUCKETS - 1 };

/* No time or span that was ever written exceeds it, and computing with it cannot overflow. */
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

/* What another counter already holds: it is added to this counter's use. */
struct limit_used {
    uint64_t count;
    int64_t sum; /* INT64_MAX: that, or more */
};

static inline void limit_used_add(struct limit_used *u, const struct limit_used *more)
{
    u->count += more->count;
    if (__builtin_add_overflow(u->sum, more->sum, &u->sum)) u->sum = INT64_MAX;
}

struct limit_request { /* one request to count */
    /* of (tenant, policy, rule, per, value); its last four bytes are the tag of all but the value */
    struct slot_key key;
    /* of the request: a counter takes a place of theirs. Absent and zeros: unknown, as of records of
     * earlier programs */
    struct str tenant;
    struct id asker;
    /* the key holds the window, too, as earlier programs made it: such counters are only read */
    bool is_old;
    uint64_t window_ms;
    struct limit_used before; /* the use that an old counter holds of this window */
    uint64_t count_max;       /* 0: not bounded */
    bool has_max;
    int64_t amount_max, amount; /* millionths; amount -1: always over */
    bool let_through;           /* a person has approved it: counted, never refused */
    bool look_only;             /* whether there is room; nothing is counted */
    /* of a shadow document: in counters of their own, which no record and no snapshot has */
    bool is_shadow;
};

enum { LIMIT_TAG_AT = 12 }; /* where the tag begins in a key, little-endian */

static inline uint32_t limit_tag(const struct slot_key *k)
{
    const uint8_t *b = k->bytes + LIMIT_TAG_AT;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* The present windows of the limits, by the tag. A counter has to be kept for this long, even if it
 * was counted under a shorter window. If two limits share a tag, the longer window is kept. */
struct limit_windows {
    const struct limit_windows_entry {
        uint32_t tag;
        uint64_t window_ms;
    } * list; /* sorted by tag */
    size_t count;
    uint64_t longest_ms;
    bool is_unknown; /* the limits are not known yet: every counter is kept */
};

static const struct limit_windows limit_windows_unknown = {.is_unknown = true};

/* A copy whose list is its own. Without memory: limit_windows_unknown, with which nothing is dropped. */
struct limit_windows limit_windows_copy(const struct limit_windows *w);
void limit_windows_free(struct limit_windows *copy);

/* 0: no such limit. */
static inline uint64_t limit_windows_of(const struct limit_windows *w, uint32_t tag)
{
    size_t low = 0, high = w->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->list[middle].tag < tag)
            low = middle + 1;
        else
            high = middle;
    }
    uint64_t longest = 0;
    for (; low < w->count && w->list[low].tag == tag; low++)
        if (w->list[low].window_ms > longest) longest = w->list[low].window_ms;
    return longest;
}

struct limit_told {
    /* false: the limit would be exceeded, and nothing was counted. look_only: it would be
     * counted */
    bool counted;
    uint64_t stamp_ms; /* the time it was counted at: to give it back, and for the record */
    /* the counter was empty: the record shows whose place it takes */
    bool takes_place;
    struct limit_used used; /* of an old counter: the use that it holds of the window */
};

#endif
