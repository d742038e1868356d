/* retry_table.h - the outcomes of requests that had an Idempotency-Key.
 *
 *   (none) --take--> HELD --keep--> KEPT --its time--> (none)
 *                      \--drop--> (none)
 *
 * An operation holds a key while it decides the key's first request; equal requests wait for its end.
 * A held key is in memory only. An outcome is kept only if the request counted, spent or enqueued
 * something. `record` is the decision's public JSON; it is absent for an allow, which a retry
 * decides again.
 *
 * Bounds: keys, and the bytes of all records, shared by tenants and askers (shares.h). A key takes its
 * place when it is held, so that keeping it cannot fail. One thread. */
#ifndef SHARDS_RETRY_TABLE_H
#define SHARDS_RETRY_TABLE_H

#include "base/map.h"
#include "base/slab.h"
#include "base/wheel.h"
#include "shards/call.h"
#include "shards/shares.h"

struct retry_entry {
    struct retry_outcome facts; /* its record belongs to the entry */
    bool is_kept;
    struct share *share;
    struct call *waiters; /* while it is held */
    unsigned waiter_count;
    struct wheel_entry timer; /* while it is kept */
};

struct retry_table {
    struct map by_key;
    struct shares shares; /* by the digests of tenants and askers */
    struct slab entries;
    struct wheel wheel;
};

void retry_table_init(struct retry_table *t, size_t count_max, size_t bytes_max);
void retry_table_fini(struct retry_table *t);

/* What is true of every key and of every table between two calls. */
void retry_entry_check(const struct retry_entry *r);
void retry_table_check(const struct retry_table *t);

struct retry_entry *retry_find(const struct retry_table *t, struct slot_key key); /* or NULL */
/* Whether one more key of this tenant and asker may be held: errors as of shares_ask(). */
enum err retry_ask(struct retry_table *t, const struct retry_outcome *f, uint64_t now_ms,
                   struct quota *ret);
/* Makes a held key. ERR_FULL: no memory, nothing changed. */
enum err retry_take(struct retry_table *t, const struct retry_outcome *f, uint64_t at_ms,
                    struct retry_entry **ret);
/* If there is no memory for the record, the outcome is kept without it. */
void retry_keep(struct retry_table *t, struct retry_entry *r, const struct retry_outcome *f);
void retry_drop(struct retry_table *t, struct retry_entry *r); /* no call waits for it */
void retry_waiter_add(struct retry_entry *r, struct call *c);
struct call *retry_waiter_take(struct retry_entry *r); /* NULL: none */

/* Drops outcomes past their time, at most `most`; false: there was none. */
bool retry_table_prune(struct retry_table *t, uint64_t now_ms, size_t most);
uint64_t retry_table_next_ms(const struct retry_table *t);
/* Walks the kept ones: start with *cursor = 0; NULL at the end. No changes meanwhile. */
struct retry_entry *retry_table_next(const struct retry_table *t, size_t *cursor);

#endif
