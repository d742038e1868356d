/* limit_table.h - the counters of a shard. For the files of this room only. limit_window.h explains
 * how a window is divided.
 *
 * A counter's buckets lie at their number modulo LIMIT_BUCKETS. `head` is the newest bucket that
 * was looked at; buckets LIMIT_BUCKETS or more behind it are gone. A new request with a stamp from
 * before head counts at head (time does not go back within a counter). A record's count goes into
 * its own bucket. Most limits bound a count and no sum, so the sums are a second allocation: with
 * its place in the index a counter takes 430 bytes without them and 930 with.
 *
 * There is one counter for each key and window. Counters of one key form a chain, and the index has
 * the first of them. A request is counted in the counter of its limit's window. The use of a limit
 * is the total of all counters in the chain; a bucket of another window counts with its newest
 * moment. So counting commutes, whatever the windows were. A chain has more than one counter only
 * after a change of the window.
 *
 * A chain takes one place of the tenant and the key whose request found it empty. The record of that
 * request names them, and so do snapshots. If it comes to nothing, the next request takes the place. */
#ifndef SHARDS_LIMIT_TABLE_H
#define SHARDS_LIMIT_TABLE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "base/slab.h"
#include "base/wheel.h"
#include "shards/shares.h"
#include "shards/limit_window.h"

struct counter {
    struct slot_key key;
    bool is_old; /* see limit_request */
    uint64_t window_ms, head;
    uint64_t newest_ms;       /* nothing was counted later than this */
    uint64_t count;           /* of all live buckets */
    int64_t sum;              /* INT64_MAX: that, or more */
    int64_t *sums;            /* of each bucket; NULL: no amount was counted yet */
    struct counter *next;     /* of the same key, with another window */
    struct wheel_entry timer; /* of the first: when nothing of the chain may be needed any more */
    struct share *share;      /* whose place the chain takes */
    bool is_unnamed;          /* of the first: no record has whose place it is */
    uint32_t counts[LIMIT_BUCKETS];
};

struct limit_table {
    struct shares
        shares; /* by tenants and keys; for new requests: a recorded count has to be accepted */
    size_t counters_max; /* of all chains together */
    struct slab counters, sums;
    struct map by_key;
    struct wheel wheel;
    /* borrowed; NULL: a counter is kept as long as its own window */
    const struct limit_windows *windows;
};

void limit_table_init(struct limit_table *t, size_t count_max);
void limit_table_fini(struct limit_table *t);

/* What is true of every counter and of every table between two calls. */
void counter_check(const struct counter *c);
void limit_table_check(const struct limit_table *t);

/* No room for a new counter: errors as of shares_ask(); nothing was counted. */
enum err limit_count(struct limit_table *t, const struct limit_request *ask, uint64_t now_ms,
                     struct limit_told *ret, struct quota *ret_quota);
/* Takes back the request that limit_count() counted with this result. */
void limit_uncount(struct limit_table *t, const struct limit_request *ask,
                   const struct limit_told *told);
/* Counts a request from a record. ERR_FULL: no memory. */
enum err limit_apply(struct limit_table *t, const struct limit_request *ask,
                     const struct limit_told *told);
/* Adds requests, without an amount, to the bucket where one was counted at `stamp_ms`. */
void limit_count_more(struct limit_table *t, const struct limit_request *ask, uint64_t stamp_ms,
                      uint64_t requests);
/* Drops counters that a whole window has passed over, by the limit's present window, too. Looks at
 * `most` counters at most. False: there was none to look at. The counters of one limit end
 * together, at the end of a bucket. */
bool limit_table_prune(struct limit_table *t, uint64_t now_ms, size_t most);
uint64_t
limit_table_next_ms(const struct limit_table *t); /* when to prune again; UINT64_MAX: empty */

/* ---- snapshots ---- */

/* Walks the counters that hold anything; those of one key by their window, shortest first. Begin
 * with *cursor = 0 and `after` = NULL, then pass the previous result; NULL at the end. The table
 * must not change meanwhile. */
struct counter *limit_table_next(const struct limit_table *t, size_t *cursor,
                                 const struct counter *after);
/* The counter and its buckets, and whose place it takes; the bytes begin with key and window, which no
 * other counter has. */
enum { COUNTER_NAME_BYTES = SLOT_KEY_BYTES + 8, COUNTER_BYTES_MAX = 825 + ID_BYTES + 2 + 1024 };
void counter_put(const struct limit_table *t, const struct counter *c,
                 struct buf *out); /* 45 to COUNTER_BYTES_MAX bytes */
/* The chain takes the place of this tenant and key from now on. ERR_FULL: no memory. */
enum err limit_table_own(struct limit_table *t, const struct limit_request *ask);
/* Adds the counter that counter_put() wrote. ERR_CORRUPT, ERR_FULL, ERR_EXISTS. */
enum err counter_load(struct limit_table *t, struct str bytes);

#endif
