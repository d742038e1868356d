/* keeping.h - what those who keep a shard's state elsewhere have to know of it (pipeline/keep).
 *
 * A saved entry is opaque but for this: which slot it belongs to, and which object it is. A fold is
 * a shard that nobody steps or ticks, so what time makes useless is dropped from it by
 * shard_prune(), which records nothing and moves nothing. */
#ifndef SHARDS_KEEPING_H
#define SHARDS_KEEPING_H

#include "shards/shard.h"

/* a review with its item, its redemption, 64 votes and 256 trace ids */
enum { SHARD_ENTRY_BYTES_MAX = 1 << 20 };
enum shard_object {
    SHARD_TOKENS,
    SHARD_REVIEWS,
    SHARD_COUNTERS,
    SHARD_ACTORS,
    SHARD_MIRRORED, /* so many kinds are in Redis, too */
    SHARD_SIGNERS = SHARD_MIRRORED,
    SHARD_OBJECTS
};

struct shard_entry {
    unsigned slot;
    enum shard_object object;
    /* its name among the objects of its kind and slot: bytes, borrowed from the entry */
    struct str key;
};

/* False: damaged. */
bool shard_entry_read(struct str entry, struct shard_entry *ret);
static inline bool shard_entry_slot(struct str entry, unsigned *ret_slot)
{
    struct shard_entry e;
    if (!shard_entry_read(entry, &e)) return false;
    *ret_slot = e.slot;
    return true;
}

/* Drops what a live shard would have dropped by `now_ms` without a record: tokens past their time,
 * counters that a whole window passed over, reviews long resolved. Later records may still name
 * them; shard_apply() takes that. */
void shard_prune(struct shard *s, uint64_t now_ms);

/* After images of unknown freshness were loaded: counted tokens are revoked, pending and approved
 * reviews expired, as of `now_ms`, because what was spent, resolved or redeemed last may be
 * missing: what is pending here may have been denied there, or approved and redeemed. */
void shard_close_open(struct shard *s, uint64_t now_ms, uint64_t *ret_tokens,
                      uint64_t *ret_reviews);

/* So many more requests in the bucket of a counter in which shard_apply() has counted one at
 * `stamp_ms`: for who knows how many there were, and not each. */
void shard_count_more(struct shard *s, const struct limit_ask *ask, uint64_t stamp_ms,
                      uint64_t requests);

#endif
