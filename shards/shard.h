/* shard.h - the state that one reactor owns: the tokens, reviews, counters and actors of its slots
 * (and, with slot 0, the signing keys).
 *
 *   shard_step()   performs one call: compares state, changes it, lists effects. Pure: no clock, no
 *                  I/O, no chance except the call's; memory is the shard's slabs and the call's
 *                  arena. No room is ERR_OVERLOADED (call.h: `err`).
 *   shard_tick()   changes by time alone: reviews past their deadline, objects that have expired.
 *   shard_apply()  replays one delta entry of the journal. Never emits anything.
 *   shard_save()   the whole state, as entries of a snapshot; shard_load() is its inverse.
 *
 * Each object remembers the block that holds its newest record (shard_recorded() sets it after
 * performing), so that no result reveals what a crash could still undo. One thread at a time;
 * recovery runs before the threads start. */
#ifndef SHARDS_SHARD_H
#define SHARDS_SHARD_H

#include "base/fault.h"
#include "base/world.h"
#include "shards/delta.h"
#include "shards/effect.h"

struct shard;

struct shard_options {
    unsigned index, count; /* of reactors: it owns the slots with slot % count == index */
    size_t tokens_max, reviews_max, counters_max, outcomes_max; /* 0: LIMIT_… / count */
    uint64_t rotate_ms;                                         /* of signing keys; 0: never */
};

/* NULL: out of memory. */
struct shard *shard_create(const struct shard_options *options);
void shard_destroy(struct shard *s);

/* Counts the places of tenants and keys again and compares; for simulators, since it takes time. */
void shard_recount(const struct shard *s);

/* The present windows of the limits; borrowed until the next call. NULL (the initial value): a
 * counter is kept as long as its own window. Before policies are known: limit_windows_unknown. */
void shard_hold_limits(struct shard *s, const struct limit_windows *windows);

/* The caller journals `ret->records` before it does anything else with the shard. */
void shard_step(struct shard *s, struct call *c, struct effects *ret);

/* Whether the call's step may make a record in the shard's present state. A call that only reads a
 * review makes one only if the review is past its deadline. */
bool shard_may_record(const struct shard *s, const struct call *c);

/* Performs due work of at most one record; false: nothing was due, and *ret_next_ms is the time of
 * the next work (UINT64_MAX: none). */
bool shard_tick(struct shard *s, uint64_t now_ms, struct chance *chance, struct effects *ret,
                uint64_t *ret_next_ms);
/* Only the due work that needs no record: waits that are over. *ret_next_ms: the end of the next
 * wait. */
bool shard_tick_waits(struct shard *s, uint64_t now_ms, struct effects *ret, uint64_t *ret_next_ms);
/* The most record bytes that one tick makes. */
size_t shard_tick_record_most(void);

/* The records of the last step or tick are in this block of the producer. */
void shard_recorded(struct shard *s, uint64_t block);
/* The client of a waiting call is gone: removes the call from its review. False: it was answered
 * already. */
bool shard_forget(struct shard *s, struct call *c);

/* ERR_CORRUPT: the entry is damaged or contradicts the state; ERR_FULL: no memory; *f has the
 * reason. `event` is the public bytes of its record. Entries of slots that this shard does not own
 * are ignored. */
enum err shard_apply(struct shard *s, const struct delta_entry *e, struct str event,
                     struct fault *f);
/* What every reactor has to know of an applied entry; false: nothing. */
bool shard_notice_of(const struct shard *s, const struct delta_entry *e, struct effect_notice *ret);
/* Whether the actor is not suspended, and all blocks up to `durable` agree. */
bool shard_actor_goes_on(const struct shard *s, struct str tenant, struct str actor,
                         uint64_t durable);
/* After recovery: every actor that is suspended or remembered as resumed, and every revoked token
 * that is kept, as notices. */
void shard_notices(const struct shard *s,
                   void (*each)(void *context, const struct effect_notice *n), void *context);
/* Every counter of an earlier program, whose key holds its window; none has a request newer than
 * `newest_ms`. */
void shard_old_limits(const struct shard *s,
                      void (*each)(void *context, const struct limit_request *ask,
                                   uint64_t newest_ms),
                      void *context);
/* The signing keys, if this shard owns their slot; NULL: another shard does. */
const struct signer_table *shard_signers(const struct shard *s);
uint64_t shard_ordinal_max(const struct shard *s); /* the largest that was assigned */

/* ---- snapshots: each object as one entry; loaded into any shard that owns its slot ---- */

/* An entry is valid during `put`; an error of `put` ends the walk. ERR_FULL: an entry is longer
 * than the limit. */
enum err shard_save(const struct shard *s, enum err (*put)(void *context, struct str entry),
                    void *context);
/* Ignores entries of slots that it does not own. Errors as shard_apply(). */
enum err shard_load(struct shard *s, struct str entry, struct fault *f);

struct shard_totals {
    uint64_t tokens, counted_tokens, reviews_pending, reviews, waiters, counters, suspended,
        outcomes, approvals_lapsed;
    uint64_t token_bytes, review_bytes;
};
void shard_totals(const struct shard *s, struct shard_totals *ret); /* its own thread */

#endif
