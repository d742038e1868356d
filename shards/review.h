/* review.h - the review queue: decisions that wait for a person.
 *
 *   PENDING --approve--> APPROVED --redeem--> REDEEMED
 *      |  |  \              \--deadline--> EXPIRED
 *      |  |   \--deny----> DENIED
 *      |  \------cancel--> CANCELLED
 *      \-------deadline--> EXPIRED      (counts as a denial)
 *
 * A review lives on the slot of its subject (tenant and actor, or tenant and user), because what
 * is asked of the queue at once concerns one subject: is the same request pending already, are a
 * hundred, is the actor suspended. Its item is the `review.enqueued` event, kept as its JSON
 * (masked already). Times are compared in the step; timers only hint. */
#ifndef SHARDS_REVIEW_H
#define SHARDS_REVIEW_H

#include <stdbool.h>

#include "base/id.h"
#include "base/str.h"

enum review_state {
    REVIEW_DENIED,
    REVIEW_EXPIRED,
    REVIEW_CANCELLED,
    REVIEW_REDEEMED,
    REVIEW_PENDING,
    REVIEW_APPROVED
};
enum { REVIEW_STATES = REVIEW_APPROVED + 1 };
const char *review_state_name(enum review_state s); /* "pending" */
bool review_state_read(struct str name, enum review_state *ret);

enum { REVIEW_DIGEST_BYTES = 32, REVIEW_VOTES_MAX = 64, REVIEW_REQUIREMENTS_MAX = 32 };

struct review_digest {
    uint8_t bytes[REVIEW_DIGEST_BYTES];
};
static inline bool review_digest_equal(const struct review_digest *a, const struct review_digest *b)
{
    return memcmp(a->bytes, b->bytes, REVIEW_DIGEST_BYTES) == 0;
}

/* One person's approval. */
struct review_vote {
    struct str principal, owner, by, note;
    uint64_t at_ms;
    uint32_t meets; /* bit i: it counts toward requirement i */
};

/* All there is to tell of a review: as it is enqueued, saved, and shown. Views are borrowed. */
struct review_facts {
    struct id id;               /* its slot is in it */
    uint64_t ordinal;           /* its place in lists */
    struct str tenant, subject; /* the actor, or the user */
    bool is_user;
    struct str principal, owner; /* of the credential that asked */
    struct str acting_for, action, trace_id;
    /* Both are HMACs of the request's full form, so that masked values cannot be guessed from what
     * is stored or shown. `binding` covers the review's id too: a redemption has to have it, and events
     * show it. By `request`, which is never shown, the same request finds its pending review. In a review
     * that an earlier version opened, both are the form's plain SHA-256. */
    struct review_digest binding, request;
    uint64_t enqueued_ms, expires_ms, good_for_ms;
    struct str item; /* the review.enqueued event's JSON */
    /* JSON: [{"approvals":1,"by":["finance"]}], at most REVIEW_REQUIREMENTS_MAX */
    struct str requirements;
    /* JSON: the policy votes that an approval covers, [["review","payments","large"]] */
    struct str votes_approved;

    enum review_state state;
    const struct review_vote *approvals;
    size_t approval_count;
    uint64_t resolved_ms;                                   /* 0: not yet */
    struct str resolver, resolver_owner, resolved_by, note; /* of what ended PENDING */
    uint64_t approval_expires_ms; /* approved: until when it may be redeemed */
    uint64_t redeemed_ms;
    struct str redemption; /* the decision event's JSON that spent it; absent: none */
    /* of the redemption's Idempotency-Key; zeros: none */
    struct review_digest retry_key, retry_body;
};

#endif
