/* inside.h - what the files of a shard share; for this room only.
 *
 *   shard.c         the dispatch of calls, ticks, totals      shard_serialize.c   apply, save, load
 *   token_step.c    what calls do to a token                  limit_step.c   counting
 *   review_step.c   what calls do to a review                 review_list.c  pages and traces
 *   review_event.c  the events of a review                    actor_step.c   suspend and resume
 *   signer_step.c   signing keys: rotation, apply, save
 *   retry_step.c    Idempotency-Keys of decisions: calls, apply, save
 *   effect.c        the actions that a step requests          token_keep.c   apply, save of tokens
 *
 * A step first checks, then puts its record's bytes together, then changes the state, then adds the
 * effects. So no failure is possible between a change and its record. */
#ifndef SHARDS_INSIDE_H
#define SHARDS_INSIDE_H

#include "base/check.h"
#include "event/event.h"
#include "shards/actor_table.h"
#include "shards/limit_table.h"
#include "shards/retry_table.h"
#include "shards/review_table.h"
#include "shards/save.h"
#include "shards/shard.h"
#include "shards/token_table.h"

enum {
    /* an event without args and notes: six names of 256 escaped characters, and ids */
    EVENT_MOST_BYTES = 12 << 10,
    DELTA_MOST_BYTES = 4 << 10, /* any entry but an opening, without its note */
    NOTE_BYTES_MAX = 8000,      /* 2000 characters */
    CLAIMS_BYTES_MAX = 4 << 10, /* of a vote; LIMIT_CLAIMS_BYTES, and the JSON around them */
    ESCAPE_GROWTH = 6,          /* of one byte written as \u001f */
    SUSPEND_DENIALS = 4,        /* reviews ended in one step */
    SHARD_BLOCKS_MAX = 2 * EFFECT_RECORDS_MAX,
};

struct shard {
    unsigned index, count;
    struct token_table tokens;
    struct limit_table limits;
    struct limit_table shadow_limits; /* in memory only */
    struct review_table reviews;
    uint64_t approvals_lapsed; /* since the start */
    struct actor_table actors;
    struct retry_table retries;
    struct signer_table signers; /* of slot 0 */
    struct arena scratch;        /* for reading items back */
    /* the block members of the objects that the last step recorded */
    uint64_t *blocks[SHARD_BLOCKS_MAX];
    size_t block_count;
};

/* The object with this member has its newest record among those of this step. */
static inline void shard_note_block(struct shard *s, uint64_t *block)
{
    check(s->block_count < SHARD_BLOCKS_MAX);
    s->blocks[s->block_count++] = block;
}

/* Notes the block of the review and of its tenant, because a list also reveals which reviews it
 * omits and how many it counts. */
static inline void shard_note_review(struct shard *s, struct review *r)
{
    shard_note_block(s, &r->block);
    shard_note_block(s, &r->tenant->block);
}

static inline void shard_note_token(struct shard *s, struct token *k)
{
    shard_note_block(s, &k->block);
    shard_note_block(s, &k->minter->tenant->block);
}

static inline bool shard_owns(const struct shard *s, unsigned slot)
{
    return slot < LIMIT_SLOTS && slot_owner(slot, s->count) == s->index;
}

/* ---- bytes in the effects' arena ---- */

/* no room: every later put overflows */
struct buf effects_buf(struct effects *e, size_t most);
/* the bytes that were put; absent: it overflowed */
struct str effects_take(struct effects *e, struct buf *b, size_t most);

/* ---- events ---- */

struct review_happening {
    struct str kind; /* "review.approved" */
    struct id event;
    uint64_t at_ms;
    struct str key_id, resolved_by, note;
    enum review_proof proof; /* of the person; UNKNOWN: not recorded */
    struct str rule;         /* absent: the item's */
    uint64_t count;          /* 0: none */
    uint64_t expires_ms;     /* of the approval that this vote completes; 0: of none */
};

/* In the effects' arena; absent: no room. */
struct str review_event(struct shard *s, struct effects *e, const struct review *r,
                        const struct review_happening *h);
size_t review_opened_most(const struct review_facts *f); /* bytes of its delta entry */

/* ---- steps ---- */

void review_step(struct shard *s, struct call *c, struct effects *e); /* ENQUEUE … REDEEM */
void review_list_step(struct shard *s, struct call *c, struct effects *e);
void review_find_step(struct shard *s, struct call *c, struct effects *e);
void actor_step(struct shard *s, struct call *c, struct effects *e);
void actor_deny_spellings_step(struct shard *s, struct call *c, struct effects *e);
void actor_list_step(struct shard *s, struct call *c, struct effects *e);

/* ---- tokens and limits (token_step.c, limit_step.c) ---- */

/* MINT … REVOKE, TOKEN_LIST */
void token_step(struct shard *s, struct call *c, struct effects *e);
void limit_step(struct shard *s, struct call *c); /* COUNT, UNCOUNT */
enum err token_apply(struct shard *s, const struct delta_entry *e, struct fault *f);
/* Each object as one entry: save_begin(out, …), its body, put(). */
enum err token_save(const struct shard *s, struct buf *out,
                    enum err (*put)(void *context, struct str entry), void *context);
enum err token_load(struct shard *s, const struct shard_entry *head, struct str body,
                    struct fault *f);
void token_notices(const struct shard *s,
                   void (*each)(void *context, const struct effect_notice *n), void *context);
/* Revokes counted tokens, as of `now_ms`; returns how many. */
uint64_t token_close_counted(struct shard *s, uint64_t now_ms);

/* ---- Idempotency-Keys of decisions (retry_step.c) ---- */

/* RETRY_BEGIN, RETRY_KEEP, RETRY_DROP */
void retry_step(struct shard *s, struct call *c, struct effects *e);
enum err retry_apply(struct shard *s, const struct delta_entry *e, struct str event,
                     struct fault *f);
enum err retry_save(const struct shard *s, struct buf *out,
                    enum err (*put)(void *context, struct str entry), void *context);
enum err retry_load(struct shard *s, const struct shard_entry *head, struct str body,
                    struct fault *f);

/* ---- signing keys (signer_step.c) ---- */

#define SIGNER_REASON_AT_ONCE "The older signing keys verify no more."
#define SIGNER_REASON_OVERLAP "The older signing keys verify until their last token has ended."
void signer_step(struct shard *s, struct call *c, struct effects *e); /* ROTATE */
bool signer_tick(struct shard *s, uint64_t now_ms, struct chance *chance, struct effects *e);
enum err signer_apply(struct shard *s, const struct delta_entry *e, struct fault *f);
enum err signer_save(const struct shard *s, struct buf *out,
                     enum err (*put)(void *context, struct str entry), void *context);
enum err signer_load(struct shard *s, const struct shard_entry *head, struct str body,
                     struct fault *f);

/* ---- reviews and actors ---- */

/* Whether the requester may see it. */
bool review_is_visible(const struct review *r, const struct call *c);
/* A copy as of `now_ms`: a review past its deadline is shown as expired. ERR_FULL: the arena is
 * full. */
enum err review_show(const struct review *r, uint64_t now_ms, struct arena *arena,
                     struct review_facts *ret);
/* Records the move, changes the review's state and wakes its waiters, or does nothing
 * (ERR_FULL). */
enum err review_record_move(struct shard *s, struct review *r, const struct review_facts *after,
                            const struct review_happening *h, struct effects *e);
/* The review is past its deadline: expires and records it. ERR_FULL: no memory, nothing changed. */
enum err review_expire(struct shard *s, struct review *r, uint64_t now_ms, struct id event,
                       struct effects *e);
/* Ends a wait with the review's present state. */
void review_answer_waiter(struct shard *s, struct review *r, struct call *c, uint64_t now_ms,
                          struct effects *e);
/* Ends the actor's next review that is pending or approved, and records that. ERR_END: there is none. */
enum err actor_deny_next(struct shard *s, struct actor *a, uint64_t now_ms, struct id event,
                         struct str key_id, struct effects *e);

#endif
