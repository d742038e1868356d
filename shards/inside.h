/* inside.h - what the files of a shard share; for this room only.
 *
 *   shard.c         the dispatch of calls, ticks, totals      shard_keep.c   apply, save, load
 *   token_step.c    what calls do to a token                  limit_step.c   counting
 *   review_step.c   what calls do to a review                 review_list.c  pages and traces
 *   review_event.c  the events of a review                    actor_step.c   suspend and resume
 *   signer_step.c   signing keys: rotation, apply, save
 *   effect.c        what a step wants done                    token_keep.c   apply, save of tokens
 *
 * A step looks, then puts its record's bytes together, then changes, then says so in the effects:
 * no failure is possible between a change and its record. */
#ifndef SHARDS_INSIDE_H
#define SHARDS_INSIDE_H

#include "base/check.h"
#include "event/event.h"
#include "shards/actor_table.h"
#include "shards/limit_table.h"
#include "shards/review_table.h"
#include "shards/save.h"
#include "shards/shard.h"
#include "shards/token_table.h"

enum {
    /* an event without args and notes: six names of 256 escaped characters, and ids */
    EVENT_MOST_BYTES = 12 << 10,
    DELTA_MOST_BYTES = 4 << 10, /* any entry but an opening, without its note */
    NOTE_BYTES_MAX = 8000,      /* 2000 characters */
    ESCAPE_GROWTH = 6,          /* of one byte as \u001f */
    SUSPEND_DENIALS = 4,        /* pending reviews denied in one step */
    SHARD_MARKS_MAX = 2 * EFFECT_RECORDS_MAX,
};

struct shard {
    unsigned index, count;
    struct token_table tokens;
    struct limit_table limits;
    struct review_table reviews;
    struct actor_table actors;
    struct signer_table signers;      /* of slot 0 */
    struct arena scratch;             /* for reading items back */
    uint64_t *marks[SHARD_MARKS_MAX]; /* of the objects that the last step recorded */
    size_t mark_count;
};

/* What has this mark has its newest record among those of this step. */
static inline void shard_mark(struct shard *s, uint64_t *mark)
{
    check(s->mark_count < SHARD_MARKS_MAX);
    s->marks[s->mark_count++] = mark;
}

/* With its tenant's mark: a list tells of what it leaves out, and of what it only counts, too. */
static inline void shard_mark_review(struct shard *s, struct review *r)
{
    shard_mark(s, &r->mark);
    shard_mark(s, &r->tenant->mark);
}

static inline void shard_mark_token(struct shard *s, struct token *k)
{
    shard_mark(s, &k->mark);
    shard_mark(s, &k->minter->tenant->mark);
}

static inline bool shard_owns(const struct shard *s, unsigned slot)
{
    return slot < LIMIT_SLOTS && slot_owner(slot, s->count) == s->index;
}

/* ---- bytes in the effects' arena ---- */

/* no room: everything put overflows */
struct buf effects_buf(struct effects *e, size_t most);
/* what was put; absent: it overflowed */
struct str effects_take(struct effects *e, struct buf *b, size_t most);

/* ---- events ---- */

struct review_happening {
    struct str kind; /* "review.approved" */
    struct id event;
    uint64_t at_ms;
    struct str key_id, resolved_by, note;
    struct str rule; /* absent: the item's */
    uint64_t count;  /* 0: none */
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
/* Counted tokens are revoked, as of `now_ms`; how many. */
uint64_t token_close_counted(struct shard *s, uint64_t now_ms);

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

/* Whether the asker may see it. */
bool review_is_visible(const struct review *r, const struct call *c);
/* A copy as it is at `now_ms`: one past its deadline shows as expired. ERR_FULL: the arena is. */
enum err review_show(const struct review *r, uint64_t now_ms, struct arena *arena,
                     struct review_facts *ret);
/* The move is recorded, the review in its new state, and whoever waited for that knows;
 * or nothing is (ERR_FULL). */
enum err review_record_move(struct shard *s, struct review *r, const struct review_facts *after,
                            const struct review_happening *h, struct effects *e);
/* Past its deadline: expired and recorded. ERR_FULL: no memory for it, nothing changed. */
enum err review_expire(struct shard *s, struct review *r, uint64_t now_ms, struct id event,
                       struct effects *e);
/* A wait that ends as the review is now. */
void review_answer_waiter(struct shard *s, struct review *r, struct call *c, uint64_t now_ms,
                          struct effects *e);
/* The actor's next pending review is denied (or expired), recorded. ERR_END: there is none. */
enum err actor_deny_next(struct shard *s, struct actor *a, uint64_t now_ms, struct id event,
                         struct str key_id, struct effects *e);

#endif
