#include "engine/repeat.h"

#include "engine/caller_operation.h"

static struct authorization *of(struct operation *e) { return (struct authorization *)(void *)e; }

/* What a redemption would find; it decides again. */
static bool is_approved(struct authorization *a, const struct review_facts *r)
{
    struct policy_approval approval;
    if (r->state != REVIEW_APPROVED || authorization_approval(a, r, &approval) != ERR_OK)
        return false;
    const struct policy_outcome *now = &a->d.outcome;
    return now->verdict != VERDICT_HUMAN_REVIEW || policy_approval_covers(&approval, &now->review);
}

/* A review that is not there any more has ended. */
static void looked_at(struct operation *e)
{
    struct authorization *a = of(e);
    const struct review_facts *r = &e->call.review.facts;
    if (e->call.err == ERR_OK && is_approved(a, r)) {
        a->d.review_is_approved = true;
        a->d.review_expires_ms = r->approval_expires_ms;
    }
    a->repeated(a);
}

void repeat_look(struct authorization *a, void (*then)(struct authorization *a))
{
    struct event first;
    struct fault ignored;
    struct id review;
    if (a->first.verdict != VERDICT_HUMAN_REVIEW ||
        event_read(a->first.record, a->operation.arena, &first, &ignored) != ERR_OK ||
        !id_read("rev_", first.review_id, &review)) {
        then(a);
        return;
    }
    struct call *c = &a->operation.call;
    a->repeated = then;
    c->tenant = a->ask.policy.tenant;
    c->requester = caller_operation_requester(&a->caller);
    c->review.id = review;
    operation_call(&a->operation, CALL_REVIEW_GET, slot_of_id(review), looked_at);
}
