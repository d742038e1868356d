#include "shards/review.h"

#include "base/check.h"

static const struct str names[REVIEW_STATES] = {
    [REVIEW_DENIED] = {"denied", 6},       [REVIEW_EXPIRED] = {"expired", 7},
    [REVIEW_CANCELLED] = {"cancelled", 9}, [REVIEW_REDEEMED] = {"redeemed", 8},
    [REVIEW_PENDING] = {"pending", 7},     [REVIEW_APPROVED] = {"approved", 8},
};

const char *review_state_name(enum review_state s)
{
    check((unsigned)s < REVIEW_STATES);
    return names[s].bytes;
}

const char *review_proof_name(enum review_proof p)
{
    check((unsigned)p < REVIEW_PROOFS);
    static const char *const proofs[REVIEW_PROOFS] = {[REVIEW_PROOF_OWNER] = "owner",
                                                      [REVIEW_PROOF_NAMED] = "named",
                                                      [REVIEW_PROOF_KEY] = "key",
                                                      [REVIEW_PROOF_OIDC] = "oidc"};
    return proofs[p];
}

const char *review_cause_name(enum review_cause c)
{
    check((unsigned)c < REVIEW_CAUSES);
    static const char *const causes[REVIEW_CAUSES] = {[REVIEW_BY_REQUESTER] = "requester",
                                                      [REVIEW_BY_REVOCATION] = "revoked",
                                                      [REVIEW_BY_SUSPENSION] = "suspended"};
    return causes[c];
}

bool review_state_read(struct str name, enum review_state *ret)
{
    for (unsigned i = 0; i < REVIEW_STATES; i++) {
        if (!str_equal(name, names[i])) continue;
        *ret = (enum review_state)i;
        return true;
    }
    return false;
}
