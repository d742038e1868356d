/* approval.h - what the approval of a review covers now.
 *
 * A vote stands as long as what it rested on: its key is not revoked, nor any key that a rotation
 * put in its place, and its person has one of the roles that the rule asked for, in today's
 * documents. The key's expiry after the vote changes nothing, and neither does its rotation, unless
 * that was without an overlap, which revokes it. A vote that an earlier version recorded has no key:
 * some reviewer's key of that name and owner must be in force. */
#ifndef ENGINE_APPROVAL_H
#define ENGINE_APPROVAL_H

#include "access/key.h"
#include "policy/policy.h"
#include "shards/review.h"

struct approval_now {
    const struct key_table *keys;
    const struct policy_set *policies; /* the tenant's */
    struct str tenant;
    uint64_t now_ms;
};

bool approval_vote_stands(const struct approval_now *now, const struct review_vote *v);
/* Of an approved review: its votes, and those of its requirements that standing votes meet. Views
 * of the review's texts, the rest is in the arena. Not ERR_OK: as of terms.h. */
enum err approval_read(const struct review_facts *r, const struct approval_now *now,
                       struct arena *a, struct policy_approval *ret);
/* Why the review of this cause cannot be redeemed, for the asker. */
const char *approval_cancelled_reason(enum review_cause c);

#endif
