/* approved.c - whether an approval still meets what a rule requires, or a whole review. */
#include "policy/evaluation.h"

static bool has_word(const struct str *list, size_t count, struct str word)
{
    for (size_t i = 0; i < count; i++)
        if (str_equal(list[i], word)) return true;
    return false;
}

/* Whether the people who meet `r` also meet `t`. */
static bool requirement_covers(const struct policy_requirement *r,
                               const struct policy_requirement *t)
{
    check(t->approvals > 0); /* none would be met by anything */
    if (r->approvals < t->approvals || r->proof < t->proof) return false;
    if (t->by_count == 0) return true;
    for (size_t i = 0; i < r->by_count; i++)
        if (!has_word(t->by, t->by_count, r->by[i])) return false;
    return r->by_count > 0;
}

static bool is_met(const struct policy_requirement *met, size_t count,
                   const struct policy_requirement *asked)
{
    for (size_t i = 0; i < count; i++)
        if (requirement_covers(&met[i], asked)) return true;
    return false;
}

/* The people who approved met every requirement of the review. If one of these is as strict as the
 * rule's present requirement, the rule's is met as well. If the rule has become stricter since, a
 * new review is needed. */
static bool terms_are_met(const struct policy_request *q, const struct review_terms *t)
{
    const struct policy_requirement asked = {
        .approvals = t->approvals, .by = t->by, .by_count = t->by_count, .proof = t->proof};
    return q->met == NULL || is_met(q->met, q->met_count, &asked);
}

static bool has_vote(const struct policy_vote *list, size_t count, const struct policy_vote *vote)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].kind == vote->kind && str_equal(list[i].rule_id, vote->rule_id) &&
            str_equal(list[i].policy_name, vote->policy_name))
            return true;
    return false;
}

bool is_approved(const struct policy_request *q, enum policy_vote_kind kind,
                 const struct rule *rule)
{
    check((unsigned)kind < VOTE_KINDS && rule->document != NULL);
    const struct policy_vote vote = {
        .kind = kind, .policy_name = rule->document->name, .rule_id = rule->id};
    return has_vote(q->approved, q->approved_count, &vote) && terms_are_met(q, &rule->review);
}

bool policy_approval_covers(const struct policy_approval *a, const struct policy_review *asks)
{
    for (size_t i = 0; i < asks->vote_count; i++)
        if (!has_vote(a->votes, a->vote_count, &asks->votes[i])) return false;
    for (size_t i = 0; i < asks->requirement_count; i++)
        if (!is_met(a->met, a->met_count, &asks->requirements[i])) return false;
    return asks->vote_count > 0 && asks->requirement_count > 0;
}

/* An approval lets a request pass a limit only if the limit's `over` is human_review now. */
bool limit_is_lifted(const struct evaluation *b, const struct set_rule *r)
{
    return r->has_limit && r->rule->limit->over == VERDICT_HUMAN_REVIEW &&
           is_approved(b->request, VOTE_LIMIT, r->rule);
    check(!r->has_limit || r->rule->limit != NULL);
}
