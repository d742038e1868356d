/* limit_table.h - the counters of a shard. Inside of this room only. See limit_window.h
 * for how a window is cut.
 *
 * A counter's buckets lie at their number modulo LIMIT_BUCKETS. `head` is the newest one that was
 * looked at; those LIMIT_BUCKETS behind it are gone. A stamp from before head counts at head when
 * it asks (time does not go back within a counter), and in its own bucket when a record says so.
 * Most limits bound a count and no sum, so the sums are a second allocation: with its place in the
 * index a counter takes 420 bytes without them and 920 with.
 *
 * There is one counter for each key and window. Those of one key are a chain, the first of which is
 * in the index. A request is counted in the one of its limit's window, and what is counted against
 * it is in all of them: of the others, each bucket at its newest moment. So counting commutes,
 * whatever windows there were. Only after a change of a window has a chain more than one. */
#ifndef SHARDS_LIMIT_TABLE_H
#define SHARDS_LIMIT_TABLE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "base/slab.h"
#include "base/wheel.h"
#include "shards/limit_window.h"

struct counter {
    struct slot_key key;
    bool is_old; /* see limit_ask */
    uint64_t window_ms, head;
    uint64_t newest_ms;       /* no later than this was anything counted */
    uint64_t count;           /* of all live buckets */
    int64_t sum;              /* INT64_MAX: that, or more */
    int64_t *sums;            /* of each bucket; NULL: no amount was counted yet */
    struct counter *next;     /* of the same key, with another window */
    struct wheel_entry timer; /* the first's: when nothing of the chain may be needed any more */
    uint32_t counts[LIMIT_BUCKETS];
};

struct limit_table {
    size_t count_max; /* for what counts anew; what is recorded already has to be taken */
    struct slab counters, sums;
    struct map by_key;
    struct wheel wheel;
    /* borrowed; NULL: a counter is kept as long as its own window */
    const struct limit_windows *windows;
};

void limit_table_init(struct limit_table *t, size_t count_max);
void limit_table_fini(struct limit_table *t);

/* ERR_FULL: no room for a new counter; nothing was counted. */
enum err limit_count(struct limit_table *t, const struct limit_ask *ask, uint64_t now_ms,
                     struct limit_told *ret);
/* Takes back what was counted at told->stamp_ms. */
void limit_uncount(struct limit_table *t, const struct limit_ask *ask,
                   const struct limit_told *told);
/* What a record says was counted. ERR_FULL: no memory. */
enum err limit_apply(struct limit_table *t, const struct limit_ask *ask,
                     const struct limit_told *told);
/* So many more requests, without an amount, in the bucket where one was counted at `stamp_ms`. */
void limit_count_more(struct limit_table *t, const struct limit_ask *ask, uint64_t stamp_ms,
                      uint64_t requests);
/* Drops counters that a whole window has passed over, the one that their limit has now, too; looks
 * at `most` at most; false: there was none to look at. Those of one limit end together, where a
 * bucket does. */
bool limit_table_prune(struct limit_table *t, uint64_t now_ms, size_t most);
uint64_t
limit_table_next_ms(const struct limit_table *t); /* when to prune again; UINT64_MAX: empty */

/* ---- snapshots ---- */

/* Walks those that hold anything, of one key the shortest window first: begin with *cursor = 0 and
 * `after` = NULL, then give the one before; NULL at the end. No changes meanwhile. */
struct counter *limit_table_next(const struct limit_table *t, size_t *cursor,
                                 const struct counter *after);
/* Its buckets too; it begins with key and window, which no other counter has. */
enum { COUNTER_NAME_BYTES = SLOT_KEY_BYTES + 8, COUNTER_BYTES_MAX = 825 };
void counter_put(struct buf *out, const struct counter *c); /* 45 to COUNTER_BYTES_MAX bytes */
/* Adds what counter_put() wrote. ERR_CORRUPT, ERR_FULL, ERR_EXISTS. */
enum err counter_load(struct limit_table *t, struct str bytes);

#endif
