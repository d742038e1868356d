/* effect.h - what one step wants done at the edge, in order.
 *
 * A step changes memory and says here what has to become of it: records to be journaled together,
 * calls that are answered by it (its own, and waiters' of what it resolved), and what every
 * reactor has to know before its next request. Whoever runs the step performs the list: records
 * first; an answer leaves the owner when the block of the newest record that it reveals is as safe
 * as promised. Room for the records is taken before the step (call_record_most), so performing
 * cannot fail. Owned by one reactor, reset before each step. */
#ifndef SHARDS_EFFECT_H
#define SHARDS_EFFECT_H

#include "base/buf.h"
#include "shards/call.h"

struct effect_record {
    struct str event, delta; /* valid until the next step */
};

enum notice_kind {
    NOTICE_TOKEN_REVOKED,
    NOTICE_ACTOR_SUSPENDED,
    NOTICE_ACTOR_RESUMED,
    NOTICE_SIGNER_ROTATED /* nothing but that there is another set of signing keys */
};

struct effect_notice {
    enum notice_kind kind;
    struct id token;          /* of TOKEN_REVOKED, */
    uint64_t expires_ms;      /* and until when that matters */
    struct str tenant, actor; /* valid until the next step */
    uint64_t at_ms;
};

enum { EFFECT_RECORDS_MAX = 16, EFFECT_NOTICES_MAX = 1 };

struct effects {
    struct arena *arena; /* for events and deltas; reset before each step */
    struct effect_record records[EFFECT_RECORDS_MAX];
    size_t record_count;
    struct effect_notice notices[EFFECT_NOTICES_MAX];
    size_t notice_count;
    /* Answered, in order, by `next`. A step's own call is not among them: it is answered when its
     * `answered` is true, and waits on a review otherwise. */
    struct call *woken, **woken_tail;
    /* the step's own call is not answered yet: perform this, make room, and step it again */
    bool again;
    /* the step's own answer tells of something whose last record may not be durable yet: */
    bool reveals_unsynced;
    uint64_t reveals_mark; /* that record's block (of this shard's producer) */
};

void effects_reset(struct effects *e);

/* ---- for the steps ---- */

/* One record more; its bytes are in e->arena or live as long as the call. */
void effects_record(struct effects *e, struct str event, struct str delta);
void effects_notice(struct effects *e, const struct effect_notice *n);
/* `c` is answered. */
void effects_wake(struct effects *e, struct call *c);
/* The step's own answer tells of something whose last record is in the block with this mark (0:
 * none that could be lost). */
void effects_reveal(struct effects *e, uint64_t mark);

#endif
