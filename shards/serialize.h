/* serialize.h - the parts of a shard's saved state that other rooms may read (src/snapshot, pipeline/mirror).
 *
 * A saved entry is opaque except for the slot it belongs to and the object it is. The mirror's
 * shard replays records and never steps or ticks. So shard_prune() removes what time has made
 * useless, and it records nothing and moves nothing. */
#ifndef SHARDS_SERIALIZE_H
#define SHARDS_SERIALIZE_H

#include "shards/shard.h"

/* a review with its item, its redemption, 64 votes and 256 trace ids */
enum { SHARD_ENTRY_BYTES_MAX = 1 << 20 };
enum shard_object {
    SHARD_TOKENS,
    SHARD_REVIEWS,
    SHARD_COUNTERS,
    SHARD_ACTORS,
    SHARD_MIRRORED, /* the number of kinds that are in Redis, too */
    SHARD_SIGNERS = SHARD_MIRRORED,
    SHARD_RETRIES,
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
 * counters that a whole window has passed over, reviews resolved long ago. Later records may still
 * name them, and shard_apply() accepts that. */
void shard_prune(struct shard *s, uint64_t now_ms);

/* Call it after images of unknown freshness were loaded. It revokes counted tokens and expires
 * pending and approved reviews, as of `now_ms`, because the latest uses, resolutions and
 * redemptions may be missing. A review that is pending here may have been denied, or approved and
 * redeemed. Its deadline is moved to `now_ms`: so it is expired for each step, and the shard's tick
 * records that, like every expiry. */
void shard_close_open(struct shard *s, uint64_t now_ms, uint64_t *ret_tokens,
                      uint64_t *ret_reviews);

/* The counter takes a place of the tenant and key of `ask`; without a counter, nothing happens.
 * ERR_FULL: no memory. */
enum err shard_own_counter(struct shard *s, const struct limit_request *ask);

/* Adds requests to the bucket of a counter in which shard_apply() has counted one at `stamp_ms`:
 * for a caller that knows only how many there were. */
void shard_count_more(struct shard *s, const struct limit_request *ask, uint64_t stamp_ms,
                      uint64_t requests);

#endif
