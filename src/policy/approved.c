/* approved.c - what people have let through already, and whether that is still what is asked. */
#include "policy/ballot.h"

static bool has_word(const struct str *list, size_t count, struct str word)
{
    for (size_t i = 0; i < count; i++)
        if (str_equal(list[i], word)) return true;
    return false;
}

/* Whether whoever meets `r` meets the terms too. */
static bool requirement_covers(const struct policy_requirement *r, const struct review_terms *t)
{
    if (r->approvals < t->approvals) return false;
    if (t->by_count == 0) return true;
    for (size_t i = 0; i < r->by_count; i++)
        if (!has_word(t->by, t->by_count, r->by[i])) return false;
    return r->by_count > 0;
}

/* Whoever approved has met every requirement of the review. Where one of them is as strict
 * as what the rule asks now, that is met as well; where the rule has become stricter since,
 * it has to be asked anew. */
static bool terms_are_met(const struct policy_request *q, const struct review_terms *t)
{
    if (q->met == NULL) return true;
    for (size_t i = 0; i < q->met_count; i++)
        if (requirement_covers(&q->met[i], t)) return true;
    return false;
}

bool is_approved(const struct policy_request *q, enum policy_vote_kind kind,
                 const struct rule *rule)
{
    for (size_t i = 0; i < q->approved_count; i++) {
        const struct policy_vote *v = &q->approved[i];
        if (v->kind == kind && str_equal(v->rule_id, rule->id) &&
            str_equal(v->policy_name, rule->document->name))
            return terms_are_met(q, &rule->review);
    }
    return false;
}

/* Who was asked may let a request over a limit through, but only where asking is
 * what the limit says now. */
bool limit_is_lifted(const struct ballot *b, const struct set_rule *r)
{
    return r->has_limit && r->rule->limit->over == VERDICT_HUMAN_REVIEW &&
           is_approved(b->request, VOTE_LIMIT, r->rule);
}
