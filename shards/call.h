/* call.h - one request to a shard, and its result. Reactors communicate in no other form.
 *
 * A call is made at the origin (the reactor that has the client) and sent to the owner of its slot.
 * One shard_step() answers it there, and it returns to the origin. The reactor that has the call
 * may read and write all of it, its arena included; the mailbox passes it on. Time and chance are
 * inside, so that the same call gives the same result again. The shard copies what it keeps, and
 * puts what it returns into the call's arena.
 *
 * Where a decision depends on the shard (enqueue, share, redeem, mint), the origin has already
 * written the records that become history if the call succeeds. The owner journals them unchanged,
 * with its delta, or not at all. If the call fails, the origin writes another record. */
#ifndef SHARDS_CALL_H
#define SHARDS_CALL_H

#include "base/arena.h"
#include "base/err.h"
#include "base/quota.h"
#include "base/wheel.h"
#include "shards/limit_window.h"
#include "shards/retry_outcome.h"
#include "shards/review.h"
#include "shards/signer.h"
#include "shards/slot.h"
#include "shards/token_facts.h"

enum call_kind {
#define CALL_KIND(name, shards, effect, ordinal, revocation, text) CALL_##name,
#include "shards/call.def"
#undef CALL_KIND
    CALL_KINDS
};

/* The columns of call.def. */
bool call_closes(enum call_kind k);
bool call_asks_each_shard(enum call_kind k);
bool call_is_about_revocation(enum call_kind k);

enum { CALL_RECORDS_MAX = 2, CALL_TRACES_MAX = 2 };

/* The requester of a call about tokens and reviews, and how much it may see. */
struct requester {
    struct str principal, owner; /* of the key (a token's key) */
    struct str key_id;           /* "key_…", for events; absent: a person without a key */
    struct str token_actor;      /* a token: the actor it was minted for; absent: a key */
    struct str token_acting_for; /* and the person it acts for, or absent */
    struct id token;             /* its id */
    uint32_t token_signer;       /* and its signing key */
    bool sees_all;               /* reviewer, admin: everything in its tenant */
};

/* An Idempotency-Key, digested with tenant, credential and route, and the HMAC of the body that came
 * with it. */
struct retry {
    bool given;
    struct review_digest key, body;
    struct review_digest body_plain; /* SHA-256, as earlier versions stored it; only in requests */
    /* of a redemption, and only in requests: with the credential itself, as earlier versions stored it */
    bool has_key_plain;
    struct review_digest key_plain;
};

/* Whether the request has the key whose digest is `kept`. */
static inline bool retry_has_key(const struct retry *asked, const struct review_digest *kept)
{
    return asked->given && (review_digest_equal(&asked->key, kept) ||
                            (asked->has_key_plain && review_digest_equal(&asked->key_plain, kept)));
}

/* Whether the request has the body whose digest is `kept`, written by this version or an earlier
 * one. */
static inline bool retry_has_body(const struct retry *asked, const struct review_digest *kept)
{
    return review_digest_equal(&asked->body, kept) || review_digest_equal(&asked->body_plain, kept);
}

struct call {
    struct call *next;        /* in the list of its present holder: mailbox, parking, waiters */
    struct call **previous;   /* while it waits on a review: the link to remove it by */
    struct wheel_entry timer; /* while it waits: its deadline; belongs to the shard */
    void *sender;             /* the operation that made the call; only the origin reads it */
    /* not a request but a message: the client of this waiting call is gone */
    struct call *forgets;
    enum call_kind kind;
    uint16_t origin; /* reactor */
    uint16_t to;     /* reactor it was sent to */
    uint16_t slot;   /* not used by calls to every shard: …_LIST, REVIEW_FIND, DENY_SPELLINGS */
    bool answered;
    /* of a token's look-up, at an engine that does not lead its fleet: its own copy is good enough, and
     * the result waits for no log. The origin decides once, because the lead may be lost meanwhile. */
    bool reads_copy;
    uint64_t now_ms;
    /* chance: of the first event that the shard makes; each further event adds one */
    struct id id;
    struct arena *arena;
    struct str tenant;
    struct requester requester;
    /* of enqueue, share and redeem: the actor of the request; absent: a person */
    struct str for_actor;
    struct str records[CALL_RECORDS_MAX]; /* events that become history if the call succeeds */
    /* delta entries of the origin (uses, counts) for the same record; or absent */
    struct str spent;
    /* the owner's block that has to be durable before the result leaves; 0: none */
    uint64_t block;
    /* the revocation that all reactors have to know before the result leaves; 0: none */
    uint64_t place;
    size_t recorded_bytes; /* of the owner's records for it */
    /* the result shows a revocation, or that there is none */
    bool shows_revocation;

    /* The result: ERR_OK, or the reason for a refusal. A refused call has changed nothing, with one
     * exception. ERR_OVERLOADED may also mean that the change is made and there is no memory to
     * show it (approve, deny, cancel, revoke), or that it is made in part (suspend). A repetition
     * of the call returns the present state. */
    enum err err;
    struct quota quota; /* of ERR_QUOTA_KEY and ERR_QUOTA_TENANT */
    union {
        struct {
            /* in: the token to mint. out: the token that exists (on a retry, the earlier one) */
            struct token_facts facts;
            struct retry retry;
            /* a token of an older signing key is dead: a retry of its mint makes a new token */
            uint32_t signer_least;
            bool replayed; /* out */
        } mint;
        struct {
            bool at_once; /* the older keys verify no tokens any more */
            uint8_t salt[SIGNER_SALT_BYTES];
            struct signer_rotation made; /* out */
        } rotate;
        struct {
            struct id id;
            enum token_use use;       /* out, of spend */
            struct token_facts facts; /* out */
        } token;
        struct {
            struct limit_request ask;
            struct limit_told told; /* out of count; in of uncount */
        } limit;
        struct {
            /* in: key, tenant, asker and body; of keep the rest, too. out of begin, unless it is
             * held: verdict, at_ms and record of the first request */
            struct retry_outcome facts;
            bool is_held; /* out of begin: the operation has to keep it or drop it */
        } outcome;
        struct {
            /* in; of SHARE the review's id and state, and the request's trace_id */
            struct review_facts facts;
            struct review_digest request_plain; /* SHA-256, as earlier versions stored it */
            /* in: of approved reviews, only those whose ordinal is below this are returned */
            uint64_t approved_below;
            /* out: no review was made, because the same request has this one: pending, or approved
             * and not redeemed. The origin uses it for its decision, and sends SHARE. If the votes
             * of an approved one are not enough, it sends ENQUEUE again, below its ordinal */
            bool same;
        } enqueue;
        struct {
            struct id id;
            uint64_t deadline_ms; /* of a wait, and of a claim that another operation holds */
            struct str note, by, owner, principal; /* of resolve */
            /* of an approval: bit i, it counts toward requirement i; 0: toward none */
            uint32_t meets;
            struct id key;                /* of an approval: the key that casts it */
            enum review_proof proof;      /* of resolve: how it names the person */
            struct str claims;            /* of resolve: those of review_vote */
            struct review_digest binding; /* of redeem */
            struct retry retry;           /* of redeem */
            bool claimed;  /* out of claim: no other operation redeems it until it is given back */
            bool replayed; /* out of redeem: facts.redemption is the earlier answer */
            bool repeated; /* out of resolve: the same principal repeats its outcome */
            struct review_facts facts; /* out: the review's present state */
        } review;
        struct {                                            /* of calls to several shards */
            struct str actor, action, acting_for, trace_id; /* filters; absent: any */
            bool any_state, active_only;
            /* of pending reviews: by review_deadline_position(), which `after` is then */
            bool by_deadline;
            enum review_state state; /* ignored if any_state */
            uint64_t after;          /* ordinals, or positions, above this one only */
            /* between two steps of the owner: its list was read up to this ordinal, or position; and
             * the bytes of what it copied */
            bool is_begun, reads_all;
            uint64_t read_to;
            size_t bytes;
            uint32_t room;
            /* set by the origin: this ordinal and those above it were given out after the shards
             * were asked */
            uint64_t before;
            uint32_t limit;
            /* out: how many match, beyond this page too; of TOKEN_LIST and REVIEW_FIND: `count` */
            uint64_t total;
            /* out: more matched than had room; the result has nothing after the last of these */
            bool cut;
            uint32_t count; /* out: the length of these: */
            struct review_facts *reviews;
            struct token_facts *tokens;
            struct actor_facts *actors;
        } list;
        struct {
            struct str actor, reason; /* reason: out too, where the actor is suspended already */
            uint64_t ordinal;         /* of suspend: its position in lists */
            uint64_t suspended_ms;    /* out */
            /* of suspend: the time and the id of the event of an earlier suspension, at another
             * engine, which is taken over from the platform; 0 and absent: it begins now */
            uint64_t since_ms;
            struct str since_event;
        } actor;
    };
};

/* An actor that is suspended. */
struct actor_facts {
    struct str tenant, actor, reason, by;
    uint64_t ordinal;
    uint64_t suspended_ms;
};

/* What is true of every call that is passed on: its kind, slot and reactors exist, and an answered
 * call waits nowhere. */
void call_check(const struct call *c);

/* The most record bytes that one step of the call can make, including private ones and the
 * journal's bytes before each record. Room for them is taken before the step. At most
 * LIMIT_RESERVE_BYTES. */
size_t call_record_most(const struct call *c);
/* The ordinal, which the owner assigns; NULL: the call has none. */
uint64_t *call_ordinal(struct call *c);

/* For the steps: the id of one more event, a different one each time. */
struct id call_event_id(struct call *c);

#endif
