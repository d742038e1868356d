/* review.h - the review queue: decisions that wait for a person.
 *
 *   PENDING --approve--> APPROVED --redeem--> REDEEMED
 *      |  |  \             |  \--deadline--> EXPIRED
 *      |  |   \--deny----> | DENIED
 *      |  \------cancel--> CANCELLED <--revoke, suspension-- APPROVED
 *      \-------deadline--> EXPIRED      (counts as a denial)
 *
 * A review lives on the slot of its subject (tenant and actor, or tenant and user), because the
 * frequent questions concern one subject: is the same request pending already, how many are
 * pending, is the actor suspended. Its item is the `review.enqueued` event, kept as its JSON
 * (already masked). The step compares times; timers only give hints. */
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

/* How a vote's key names the person. Journaled. */
enum review_proof {
    REVIEW_PROOF_UNKNOWN, /* an earlier version recorded the vote */
    REVIEW_PROOF_OWNER,   /* the person is the key's owner */
    REVIEW_PROOF_NAMED,   /* a key that may vote for others named the person */
    REVIEW_PROOF_KEY,     /* the person signed in with the key, and has a session */
    REVIEW_PROOF_OIDC,    /* an identity provider has verified the person; there is no key */
    REVIEW_PROOFS
};
const char *review_proof_name(enum review_proof p); /* "owner"; NULL: unknown */

/* One person's approval. */
struct review_vote {
    struct str principal, owner, by, note;
    uint64_t at_ms;
    uint32_t meets; /* bit i: it counts toward requirement i */
    struct id key; /* that cast it; zeros: a person did (OIDC), or an earlier version recorded it */
    enum review_proof proof;
    /* OIDC: JSON of the verified claims by which the person has a role of the requirements */
    struct str claims;
};

/* What ended a cancelled review. Journaled. */
enum review_cause {
    REVIEW_NOT_CANCELLED,
    REVIEW_BY_REQUESTER,  /* withdrawn while it was pending */
    REVIEW_BY_REVOCATION, /* a person took the approval back */
    REVIEW_BY_SUSPENSION, /* its actor was suspended while it was approved */
    REVIEW_CAUSES
};
const char *review_cause_name(enum review_cause c); /* "revoked"; NULL: not cancelled */

/* All facts of a review: as it is enqueued, saved, and shown. Views are borrowed. */
struct review_facts {
    struct id id;               /* contains its slot */
    uint64_t ordinal;           /* its position in lists */
    struct str tenant, subject; /* the actor, or the user */
    bool is_user;
    struct str principal, owner; /* of the credential that made the request */
    struct str acting_for, action, trace_id;
    /* Both are HMACs of the request's full form, so that masked values cannot be guessed from
     * stored or shown bytes. `binding` covers the review's id too: a redemption must match it, and
     * events show it. `request` is never shown; the same request finds its pending review by it. In
     * a review that an earlier version opened, both are the form's plain SHA-256. */
    struct review_digest binding, request;
    uint64_t enqueued_ms, expires_ms, good_for_ms;
    struct str item; /* the review.enqueued event's JSON */
    /* JSON: [{"approvals":1,"by":["finance"]}], at most REVIEW_REQUIREMENTS_MAX */
    struct str requirements;
    bool asks_proof; /* some of them: then only verified people may approve (OIDC) */
    /* JSON: the policy votes that an approval covers, [["review","payments","large"]] */
    struct str votes_approved;

    enum review_state state;
    const struct review_vote *approvals;
    size_t approval_count;
    uint64_t resolved_ms; /* 0: not yet */
    /* of the resolution: the end of PENDING, or of an approval that was taken back */
    enum review_cause cancelled_by;
    struct str resolver, resolver_owner, resolved_by, note;
    uint64_t approval_expires_ms; /* approved: the end of the time in which it may be redeemed */
    uint64_t redeemed_ms;
    struct str redemption; /* the JSON of the decision event that spent it; absent: none */
    /* of the redemption's Idempotency-Key; zeros: none */
    struct review_digest retry_key, retry_body;
};

/* Its position among pending reviews by their deadlines: the milliseconds, and below them the end of
 * its ordinal, which differs for reviews of about the same time. At most 53 bits until 2039, so that
 * every client's numbers hold a cursor exactly. */
enum { REVIEW_TIE_BITS = 12 };
static inline uint64_t review_deadline_position(const struct review_facts *f)
{
    return f->expires_ms << REVIEW_TIE_BITS | (f->ordinal & ((1U << REVIEW_TIE_BITS) - 1));
}

#endif
