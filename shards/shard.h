/* shard.h - what one reactor owns: the tokens, reviews, counters and actors of its slots (and, with
 * slot 0, the signing keys).
 *
 *   shard_step()   one call: state compared, changed, and told of in effects. Pure: no clock, no
 *                  I/O, no chance but what is in the call; memory is the shard's slabs and the
 *                  call's arena. No room is ERR_OVERLOADED (call.h: `err`).
 *   shard_tick()   what time alone changes: reviews past their deadline, things nobody needs.
 *   shard_apply()  one delta entry of the journal: how state is rebuilt. Never emits anything.
 *   shard_save()   all there is, as entries of a snapshot; shard_load() is its inverse.
 *
 * Each object remembers the mark of the block that holds its newest record (shard_recorded() tells
 * it after performing), so that no answer reveals what a crash could still take back.
 * One thread at a time; recovery runs before the threads do. */
#ifndef SHARDS_SHARD_H
#define SHARDS_SHARD_H

#include "base/fault.h"
#include "base/world.h"
#include "shards/delta.h"
#include "shards/effect.h"

struct shard;

struct shard_options {
    unsigned index, count; /* of reactors: it owns the slots with slot % count == index */
    size_t tokens_max, reviews_max, counters_max; /* 0: LIMIT_… / count */
    uint64_t rotate_ms;                           /* of signing keys; 0: never */
};

/* NULL: out of memory. */
struct shard *shard_create(const struct shard_options *options);
void shard_destroy(struct shard *s);

/* The windows that limits have now; borrowed until the next call. NULL (as at first): a counter is
 * kept as long as its own. Before policies are known: limit_windows_unknown. */
void shard_hold_limits(struct shard *s, const struct limit_windows *windows);

/* `ret->records` are to be journaled before anything else is done with the shard. */
void shard_step(struct shard *s, struct call *c, struct effects *ret);

/* Whether the call's step may make a record as the shard is now: what only looks at a review does
 * so only where that is past its time. */
bool shard_may_record(const struct shard *s, const struct call *c);

/* Due work of at most one record; false: nothing was due, and *ret_next_ms says when to come again
 * (UINT64_MAX: never). */
bool shard_tick(struct shard *s, uint64_t now_ms, struct chance *chance, struct effects *ret,
                uint64_t *ret_next_ms);
/* Of that only what needs no record: waits that are over. *ret_next_ms: the next of them. */
bool shard_tick_waits(struct shard *s, uint64_t now_ms, struct effects *ret, uint64_t *ret_next_ms);
/* No more record bytes than this come of one tick. */
size_t shard_tick_record_most(void);

/* The records of the last step or tick are in the producer's block with this mark. */
void shard_recorded(struct shard *s, uint64_t mark);
/* A client of a waiting call is gone: it is taken off its review. False: it was answered
 * already. */
bool shard_forget(struct shard *s, struct call *c);

/* ERR_CORRUPT: the entry is damaged or contradicts the state; ERR_FULL: no memory; *f says how.
 * `event` is the public bytes of its record. Entries of slots that this shard does not own are
 * ignored. */
enum err shard_apply(struct shard *s, const struct delta_entry *e, struct str event,
                     struct fault *f);
/* Whether the actor is not suspended, as all that is in blocks up to this mark has it, too. */
bool shard_actor_goes_on(const struct shard *s, struct str tenant, struct str actor,
                         uint64_t durable);
/* After recovery: every actor that is suspended or remembered as resumed, and every revoked token
 * that is kept, as notices. */
void shard_notices(const struct shard *s,
                   void (*each)(void *context, const struct effect_notice *n), void *context);
/* Every counter that an earlier program made, whose key holds its window; nothing in one is newer
 * than `newest_ms`. */
void shard_old_limits(const struct shard *s,
                      void (*each)(void *context, const struct limit_ask *ask, uint64_t newest_ms),
                      void *context);
/* Of the shard that owns their slot; NULL: another one does. */
const struct signer_table *shard_signers(const struct shard *s);
uint64_t shard_ordinal_max(const struct shard *s); /* the largest that was given */

/* ---- snapshots: each object as one entry; loaded into any shard that owns its slot ---- */

/* An entry is valid during `put`, whose error ends it. ERR_FULL: one is longer than entries may
 * be. */
enum err shard_save(const struct shard *s, enum err (*put)(void *context, struct str entry),
                    void *context);
/* Of the slots that it does not own, nothing is kept. Errors as shard_apply(). */
enum err shard_load(struct shard *s, struct str entry, struct fault *f);

struct shard_totals {
    uint64_t tokens, counted_tokens, reviews_pending, reviews, waiters, counters, suspended;
    uint64_t token_bytes, review_bytes;
};
void shard_totals(const struct shard *s, struct shard_totals *ret); /* its own thread */

#endif
