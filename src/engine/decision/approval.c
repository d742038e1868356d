#include "engine/decision/approval.h"

#include "base/check.h"
#include "access/claims.h"
#include "engine/decision/authorization.h"
#include "engine/decision/terms.h"

enum { ROTATIONS_MAX = 256 }; /* a longer row of rotated keys ends the vote */

/* The key, and those that rotations put in its place. */
static bool line_stands(const struct key_table *keys, struct id id)
{
    for (unsigned i = 0; i < ROTATIONS_MAX; i++) {
        const struct key *k = key_table_get(keys, id);
        if (k == NULL)
            return i > 0; /* the successor is not known yet, and the key itself is good */
        if (k->revoked_at != 0) return false;
        if (str_is_absent(k->replaced_by)) return true;
        if (!id_read("key_", k->replaced_by, &id)) return false;
    }
    return false;
}

bool approval_vote_stands(const struct approval_now *now, const struct review_vote *v)
{
    static const struct id none;
    check(now->keys != NULL && !str_is_absent(now->tenant));
    if (v->proof == REVIEW_PROOF_OIDC) return true; /* a person without a key, which could end */
    if (!id_equal(v->key, none)) return line_stands(now->keys, v->key);
    return key_table_has_reviewer(now->keys, now->tenant, v->principal, v->owner, now->now_ms);
}

/* The person as the vote knew it: by the claims of the token that was verified then. */
static bool has_role_still(const struct review_vote *v, const struct approval_now *now,
                           struct arena *a, const struct policy_requirement *q)
{
    struct policy_person person = {.name = v->by};
    if (q->by_count == 0) return true;
    if (claims_read(v->claims, a, &person.claims, &person.claim_count) != ERR_OK) return false;
    return policy_has_role(now->policies, &person, q->by, q->by_count, a);
}

static bool is_met(const struct review_facts *r, const struct approval_now *now, struct arena *a,
                   const struct policy_requirement *q, unsigned number)
{
    unsigned count = 0;
    check(number < REVIEW_REQUIREMENTS_MAX);
    for (size_t i = 0; i < r->approval_count; i++) {
        const struct review_vote *v = &r->approvals[i];
        if ((v->meets >> number & 1) == 0 || !approval_vote_stands(now, v)) continue;
        if (q->proof == POLICY_PROOF_OIDC && v->proof != REVIEW_PROOF_OIDC) continue;
        if (has_role_still(v, now, a, q)) count++;
    }
    return count >= q->approvals;
}

enum err approval_read(const struct review_facts *r, const struct approval_now *now,
                       struct arena *a, struct policy_approval *ret)
{
    const struct policy_requirement *all;
    size_t count;
    enum err err = terms_read_votes(r->votes_approved, a, &ret->votes, &ret->vote_count);
    if (err == ERR_OK) err = terms_read_requirements(r->requirements, a, &all, &count);
    if (err != ERR_OK) return err;
    struct policy_requirement *met = arena_array(a, struct policy_requirement, count + 1);
    if (met == NULL) return ERR_FULL;
    ret->met = met;
    ret->met_count = 0;
    for (unsigned i = 0; i < count && i < REVIEW_REQUIREMENTS_MAX; i++)
        if (is_met(r, now, a, &all[i], i)) met[ret->met_count++] = all[i];
    check(ret->met_count <= count);
    return a->overflow ? ERR_FULL : ERR_OK;
}

enum err authorization_approval(struct authorization *a, const struct review_facts *r,
                                struct policy_approval *ret)
{
    check(a->tools.policies != NULL && a->operation.bundle != NULL);
    const struct approval_now now = {.keys = bundle_keys(a->operation.bundle),
                                     .policies = a->tools.policies,
                                     .tenant = a->operation.caller.tenant,
                                     .now_ms = a->tools.now_ms};
    return approval_read(r, &now, a->operation.arena, ret);
}

const char *approval_cancelled_reason(enum review_cause c)
{
    switch (c) {
    case REVIEW_BY_REVOCATION: return "A person has taken the approval back.";
    case REVIEW_BY_SUSPENSION: return "The actor was suspended, which ended the approval.";
    case REVIEW_BY_REQUESTER:
    case REVIEW_NOT_CANCELLED:
    case REVIEW_CAUSES: break;
    }
    return "The requester has cancelled this review.";
}
