/* evaluation_check.c - what is true of an evaluation at each step, and of what it returns. All take
 * constant time. */
#include "policy/condition.h"
#include "policy/evaluation.h"

static void numbers_check(const struct numbers *n)
{
    check(n->count <= n->room);
    check(n->list != NULL || n->count == 0);
}

void evaluation_check(const struct evaluation *b)
{
    check(b->spent[BUDGET_VOTES] <= b->steps);
    check(b->spent[BUDGET_REST] <= b->steps);
    check((unsigned)b->budget < BUDGETS);
    check(b->seen == NULL || b->seen_count <= b->seen_mask); /* a search ends at a free place */
    check(b->role_count <= b->set->role_count);
    check(b->reviewer == NO_RULE || b->reviewer < b->set->rule_count || b->seen == NULL);
    check(b->reviewers_state == REVIEWERS_ONE_AT_MOST || b->reviewer != NO_RULE);
    numbers_check(&b->reviewers);
    numbers_check(&b->approved);
    numbers_check(&b->limited);
}

void condition_check(const struct condition *c)
{
    check(c->program != NULL);
    check(c->line > 0 && c->column > 0);
}

void limit_check(const struct policy_limit *l)
{
    check(l->per <= PER_RESOURCE && l->window_ms > 0);
    check(l->over != VERDICT_COMPUTE);
    check(l->count_max > 0 || l->has_max); /* it bounds something */
    check(l->has_max || l->amount == 0);
    check(l->amount >= AMOUNT_CUT && l->amount <= AMOUNT_MAX);
    check(l->terms != NULL && l->review != NULL);
}

void terms_check(const struct policy_review *r)
{
    check(r->requirement_count > 0 && r->requirements != NULL); /* or anything would meet them */
    check(r->vote_count >= r->requirement_count && r->votes != NULL);
    check(r->approvals > 0 && r->expires_in_ms > 0 && r->good_for_ms > 0);
    check(r->notify_count <= POLICY_CHANNELS_MAX);
}

void unknowns_check(const struct policy_unknowns *u)
{
    check(u->count <= POLICY_OPEN_MAX);
    check(u->count == 0 || u->open[u->count - 1].assumed <= ASSUMED_FAILED);
}

void outcome_check(const struct policy_outcome *o)
{
    const bool permits = o->verdict == VERDICT_ALLOW || o->verdict == VERDICT_COMPUTE;
    check(o->verdict <= VERDICT_ALLOW);
    check(o->rule[0] != '\0' && !str_is_absent(o->reason));
    check((o->verdict == VERDICT_COMPUTE) == (o->safe_args != NULL));
    check(o->verdict != VERDICT_COMPUTE || o->told_args != NULL); /* it can be recorded */
    check(permits || o->limit_count == 0);                        /* a refusal counts nothing */
    check(o->limits != NULL || o->limit_count == 0);
    check(o->shadow_limits != NULL || o->shadow_limit_count == 0);
    if (o->verdict == VERDICT_HUMAN_REVIEW) terms_check(&o->review);
}
