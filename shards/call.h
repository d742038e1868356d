/* call.h - one question to a shard, and its answer: the only form in which reactors talk.
 *
 * A call is made at home (the reactor that has the client), goes to the owner of its slot, is
 * answered there by one shard_step(), and comes home. Whoever holds it may read and write all of
 * it, its arena included; the mailbox hands it over. Time and chance are inside, so that the same
 * call gives the same answer again. What the shard keeps it copies; what it answers it puts into
 * the call's arena.
 *
 * Where a decision depends on the shard (enqueue, share, redeem, mint), home has already written the
 * records that shall become history if the answer is yes: the owner journals them as they are,
 * with its delta, or not at all; and home writes another where the answer is no. */
#ifndef SHARDS_CALL_H
#define SHARDS_CALL_H

#include "base/arena.h"
#include "base/err.h"
#include "base/wheel.h"
#include "shards/limit_window.h"
#include "shards/review.h"
#include "shards/signer.h"
#include "shards/slot.h"
#include "shards/token_facts.h"

enum call_kind {
#define CALL_KIND(name, closing, text) CALL_##name,
#include "shards/call.def"
#undef CALL_KIND
    CALL_KINDS
};
bool call_closes(enum call_kind k); /* may use the journal's reserve: it makes nothing looser */

enum { CALL_RECORDS_MAX = 2, CALL_TRACES_MAX = 2 };

/* Who asks about tokens and reviews, and how far they may look. */
struct asker {
    struct str principal, owner; /* of the key (a token's key) */
    struct str key_id;           /* "key_…", for events */
    struct str token_actor;      /* a token: the actor it was minted for; absent: a key */
    struct str token_acting_for; /* and for whom, or for nobody */
    struct id token;             /* which */
    uint32_t token_signer;       /* and under which signing key */
    bool sees_all;               /* reviewer, admin: whatever is in its tenant */
};

/* An Idempotency-Key, digested with tenant, credential and route, and the HMAC of the body that came
 * with it. */
struct retry {
    bool given;
    struct review_digest key, body;
    struct review_digest body_plain; /* SHA-256, as earlier versions kept it; of who asks only */
};

/* Whether the request has the body that `kept` was taken of, by this version or an earlier one. */
static inline bool retry_has_body(const struct retry *asked, const struct review_digest *kept)
{
    return review_digest_equal(&asked->body, kept) || review_digest_equal(&asked->body_plain, kept);
}

struct call {
    struct call *next;        /* of whoever holds it: mailbox, parking, waiters */
    struct call **previous;   /* while it waits on a review: so that it can be taken off */
    struct wheel_entry timer; /* while it waits: its deadline; the shard's */
    void *sender;             /* home's own: what asks; nobody else looks at it */
    /* not a question but a message: the client of this waiting call is gone */
    struct call *forgets;
    enum call_kind kind;
    uint16_t home; /* reactor */
    uint16_t to;   /* reactor it was sent to */
    uint16_t slot; /* not of those that every shard is asked: …_LIST, REVIEW_FIND, DENY_SPELLINGS */
    bool answered;
    uint64_t now_ms;
    /* chance: of the first event that the shard makes; others are one more each */
    struct id id;
    struct arena *arena;
    struct str tenant;
    struct asker asker;
    /* of enqueue, share and redeem: for which actor it is asked; absent: for a person */
    struct str for_actor;
    struct str records[CALL_RECORDS_MAX]; /* events that become history if the answer is yes */
    /* delta entries of home's (uses, counts) that go with them; or absent */
    struct str spent;
    /* the owner's block that has to be durable before the answer is told; 0: none */
    uint64_t mark;
    /* of the revocation log, which all have to have seen before it is told; 0: none */
    uint64_t place;

    /* The answer: ERR_OK, or why not. What is refused has changed nothing; but ERR_OVERLOADED may
     * also mean that it is done and there is no memory to show it (approve, deny, cancel, revoke),
     * or that not all of it is done yet (suspend): who asks again is told what is. */
    enum err err;
    union {
        struct {
            /* in: what to mint. out: what there is (on a retry, what was) */
            struct token_facts facts;
            struct retry retry;
            /* a token of an older signing key is dead: a retry of its mint makes a new token */
            uint32_t signer_least;
            bool replayed; /* out */
        } mint;
        struct {
            bool at_once; /* the older keys verify no more */
            uint8_t salt[SIGNER_SALT_BYTES];
            struct signer_rotation made; /* out */
        } rotate;
        struct {
            struct id id;
            enum token_use use;       /* out, of spend */
            struct token_facts facts; /* out */
        } token;
        struct {
            struct limit_ask ask;
            struct limit_told told; /* out of count; in of uncount */
        } limit;
        struct {
            struct review_facts facts; /* in; of SHARE its id, and the request's trace_id */
            struct review_digest request_plain; /* SHA-256, as earlier versions kept it */
            /* out: this review was pending for the same request already: its facts.id,
             * expires_ms. Home makes its decision of it, and asks to SHARE it */
            bool same;
        } enqueue;
        struct {
            struct id id;
            uint64_t deadline_ms;                  /* of a wait, and of a claim that another has */
            struct str note, by, owner, principal; /* of resolve */
            /* of an approval: bit i, it counts toward requirement i; 0: toward none */
            uint32_t meets;
            struct review_digest binding; /* of redeem */
            struct retry retry;           /* of redeem */
            bool claimed;  /* out of claim: nobody else redeems it until it is given back */
            bool replayed; /* out of redeem: facts.redemption is what was answered */
            bool repeated; /* out of resolve: the same principal's same outcome again */
            struct review_facts facts; /* out: as it is now */
        } review;
        struct {                                            /* what more than one shard is asked */
            struct str actor, action, acting_for, trace_id; /* filters; absent: any */
            bool any_state, active_only;
            enum review_state state; /* unless any_state */
            uint64_t after;          /* ordinals above this one only */
            /* home's: this one and what is above it came while the shards were asked */
            uint64_t before;
            uint32_t limit;
            /* out: how many match, beyond this page too; of TOKEN_LIST and REVIEW_FIND: `count` */
            uint64_t total;
            /* out: there is more than had room; what follows the last of these is not known */
            bool cut;
            uint32_t count; /* out: of these: */
            struct review_facts *reviews;
            struct token_facts *tokens;
            struct actor_facts *actors;
        } list;
        struct {
            struct str actor, reason; /* reason: out too, where the actor is suspended already */
            uint64_t ordinal;         /* of suspend: its place in lists */
            uint64_t suspended_ms;    /* out */
        } actor;
    };
};

/* An actor that is suspended. */
struct actor_facts {
    struct str tenant, actor, reason, by;
    uint64_t ordinal;
    uint64_t suspended_ms;
};

/* No more record bytes than this can come of one step of the call, private ones and what
 * the journal puts before each record included: room for them is taken before the step. At
 * most LIMIT_RESERVE_BYTES. */
size_t call_record_most(const struct call *c);

/* For the steps: the id of one more event, another each time. */
struct id call_event_id(struct call *c);

#endif
