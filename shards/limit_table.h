/* limit_table.h - the counters of a shard. Inside of this room only. See limit_window.h
 * for how a window is cut.
 *
 * A counter's buckets lie at their number modulo LIMIT_BUCKETS. `head` is the newest one that was
 * looked at; those LIMIT_BUCKETS behind it are gone. A stamp from before head counts at head when
 * it asks (time does not go back within a counter), and in its own bucket when a record says so.
 * Most limits bound a count and no sum, so the sums are a second allocation: with its place in the
 * index a counter takes 400 bytes without them and 900 with. */
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
    uint64_t window_ms, head;
    uint64_t count;           /* of all live buckets */
    int64_t sum;              /* INT64_MAX: that, or more */
    int64_t *sums;            /* of each bucket; NULL: no amount was counted yet */
    struct wheel_entry timer; /* when a whole window has passed */
    uint32_t counts[LIMIT_BUCKETS];
};

struct limit_table {
    size_t count_max; /* for what counts anew; what is recorded already has to be taken */
    struct slab counters, sums;
    struct map by_key;
    struct wheel wheel;
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
void limit_count_more(struct limit_table *t, const struct slot_key *key, uint64_t stamp_ms,
                      uint64_t requests);
/* Drops counters that a whole window has passed over, at most `most`; false: there was nothing to
 * drop. Those of one limit end together, where a bucket does. */
bool limit_table_prune(struct limit_table *t, uint64_t now_ms, size_t most);
uint64_t
limit_table_next_ms(const struct limit_table *t); /* when to prune again; UINT64_MAX: empty */

/* ---- snapshots ---- */

/* Walks those that hold anything: start with *cursor = 0; NULL at the end. No changes meanwhile. */
struct counter *limit_table_next(const struct limit_table *t, size_t *cursor);
void counter_put(struct buf *out, const struct counter *c); /* its buckets too; 45 to 825 bytes */
/* Adds what counter_put() wrote. ERR_CORRUPT, ERR_FULL, ERR_EXISTS. */
enum err counter_load(struct limit_table *t, struct str bytes);

#endif
