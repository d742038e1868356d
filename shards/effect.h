/* effect.h - the actions that one step requests, in order.
 *
 * A step changes memory and lists here what the caller has to do: journal records together, return
 * the calls that are answered (its own, and the waiters of a review that it resolved), and publish
 * notices that every reactor needs before its next request. The caller of the step performs the
 * list, records first. A result leaves the owner when the block of the newest record that it
 * reveals is as durable as promised. Room for the records is taken before the step
 * (call_record_most), so performing cannot fail. Owned by one reactor, reset before each step. */
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
    NOTICE_SIGNER_ROTATED /* there is another set of signing keys, and nothing else */
};

struct effect_notice {
    enum notice_kind kind;
    struct id token;          /* of TOKEN_REVOKED, */
    uint64_t expires_ms;      /* and how long it matters */
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
    /* The answered calls, in order, by `next`. A step's own call is not among them: `answered`
     * shows that it is answered. Otherwise it waits on a review. */
    struct call *woken, **woken_tail;
    /* the step's own call is not answered yet: perform the effects, make room, and step it again */
    bool again;
    /* the same, but step it again in a later turn only: it reads much, and others wait */
    bool pauses;
    /* the result of the step's own call shows something whose last record may not be durable
     * yet: */
    bool reveals_unsynced;
    uint64_t reveals_block; /* that record's block (of this shard's producer) */
};

void effects_reset(struct effects *e);
/* Its counts are within their bounds, and its list ends where the tail is. */
void effects_check(const struct effects *e);

/* ---- for the steps ---- */

/* Adds a record; its bytes are in e->arena or live as long as the call. */
void effects_record(struct effects *e, struct str event, struct str delta);
void effects_notice(struct effects *e, const struct effect_notice *n);
/* The step's own call is not answered yet, and continues in a later turn. */
void effects_pause(struct effects *e);
/* `c` is answered. */
void effects_wake(struct effects *e, struct call *c);
/* The result of the step's own call shows something whose last record is in this block (0: none
 * that a crash could lose). */
void effects_reveal(struct effects *e, uint64_t block);

#endif
