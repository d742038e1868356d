/* authorization_review.c - the steps of a request for a decision that call the owner of a review.
 *
 *   enqueue --(the same request has a review)--> settle --> share
 *   share   --(it changed meanwhile)----------> settle --> enqueue
 *   claim --> limits --> redeem               --(not possible)--> conclude --> replay, or a denial
 */
#include "base/check.h"
#include "base/limits.h"
#include "engine/decision/authorization.h"
#include "engine/runtime/caller_operation.h"
#include "engine/decision/terms.h"

enum {
    /* for another redemption of the same approval, which takes only a few calls */
    CLAIM_WAIT_MS = 10000,
    APPROVALS_SEEN_MAX = 8, /* approved reviews of one request that are looked at */
    /* of a review, beside the names in its delta */
    TERMS_BYTES_MAX = LIMIT_DELTA_BYTES - (8 << 10),
};

static inline struct authorization *of(struct operation *e) { return authorization_of(e); }

/* The names, review terms and counts of the request do not fit into one record. */
static void deny_unrecordable(struct authorization *a)
{
    decide_deny(
        &a->d, "limit:record",
        "The request and its review terms are larger than one record may be, so no review can be made.");
}

static void begin_owners_record(struct authorization *a)
{
    struct call *c = &a->operation.call;
    authorization_check(a);
    check(!str_is_absent(a->d.record) && !a->tools.dry_run);
    c->tenant = a->ask.policy.tenant;
    c->requester = caller_operation_requester(&a->operation.caller);
    c->for_actor = a->ask.policy.actor;
    c->records[0] = a->d.record;
    c->records[1] = a->d.beside;
    c->spent = authorization_spent(a);
}

/* ---- a new review, or one that the same request has already ---- */

/* The owner refuses to make the review. */
static enum step_result refuse_review(struct authorization *a, enum err err)
{
    check(err != ERR_OK);
    if (err == ERR_ACTOR_SUSPENDED)
        authorization_deny_stopped(a);
    else if (err == ERR_OUT_OF_RANGE)
        deny_unrecordable(a);
    else
        return authorization_fail(a, err);
    return authorization_go(a, AUTH_SETTLE);
}

enum step_result authorization_enqueue(struct operation *e)
{
    struct authorization *a = of(e);
    const struct policy_request *p = &a->ask.policy;
    const struct decision *d = &a->d;
    const struct policy_review *asks = &d->outcome.review;
    struct call *c = &e->call;
    check(d->outcome.verdict == VERDICT_HUMAN_REVIEW && !d->has_review);
    bool is_user = p->kind == SUBJECT_USER;
    begin_owners_record(a);
    c->enqueue.same = false;
    c->enqueue.approved_below = a->approved_below;
    c->enqueue.facts = (struct review_facts){.id = d->review,
                                             .tenant = p->tenant,
                                             .is_user = is_user,
                                             .subject = is_user ? p->user : p->actor,
                                             .principal = c->requester.principal,
                                             .owner = c->requester.owner,
                                             .acting_for = p->acting_for,
                                             .action = p->action,
                                             .trace_id = a->ask.trace_id,
                                             .enqueued_ms = a->tools.now_ms,
                                             .expires_ms = d->event.expires_at,
                                             .good_for_ms = asks->good_for_ms,
                                             .item = d->beside,
                                             .requirements = terms_requirements(asks, e->arena),
                                             .votes_approved = terms_votes(asks, e->arena),
                                             .asks_proof = asks->proof != POLICY_PROOF_ANY,
                                             .state = REVIEW_PENDING};
    c->enqueue.facts.binding = d->binding;
    c->enqueue.facts.request = decide_request_digest(d);
    c->enqueue.request_plain = decide_request_plain(d);
    if (e->arena->overflow) return authorization_fail(a, ERR_INTERNAL);
    size_t terms = c->enqueue.facts.requirements.size + c->enqueue.facts.votes_approved.size;
    if (terms > TERMS_BYTES_MAX || asks->requirement_count > REVIEW_REQUIREMENTS_MAX) {
        deny_unrecordable(a);
        return authorization_go(a, AUTH_SETTLE);
    }
    return operation_call(e, CALL_ENQUEUE, d->slot);
}

/* The same request has a review already: it gets the same one. */
static enum step_result use_review(struct authorization *a, const struct review_facts *r)
{
    check(r->state == REVIEW_PENDING || r->state == REVIEW_APPROVED);
    struct decision *d = &a->d;
    d->has_review = true;
    d->review_is_approved = r->state == REVIEW_APPROVED;
    d->review = r->id;
    d->review_binding = r->binding;
    d->review_expires_ms = d->review_is_approved ? r->approval_expires_ms : r->expires_ms;
    return authorization_go(a, AUTH_SETTLE);
}

enum step_result authorization_enqueued(struct operation *e)
{
    struct authorization *a = of(e);
    check(e->call.kind == CALL_ENQUEUE && !a->d.has_review);
    const struct review_facts *r = &e->call.enqueue.facts;
    struct policy_approval approval;
    if (e->call.err == ERR_PENDING_LIMIT) {
        decide_deny(
            &a->d, "limit:pending",
            "This subject has the most pending reviews that are allowed; resolve some first.");
        return authorization_go(a, AUTH_SETTLE);
    }
    if (e->call.err != ERR_OK) return refuse_review(a, e->call.err);
    if (!e->call.enqueue.same) return authorization_go(a, AUTH_SYNC);
    if (r->state != REVIEW_APPROVED) return use_review(a, r);
    /* Votes that cover all that is asked now are enough; else the next approved review is looked
     * at. */
    if (authorization_approval(a, r, &approval) != ERR_OK)
        return authorization_fail(a, ERR_INTERNAL);
    if (policy_approval_covers(&approval, &a->d.outcome.review)) return use_review(a, r);
    a->approvals_seen++;
    a->approved_below = a->approvals_seen < APPROVALS_SEEN_MAX ? r->ordinal : 0;
    return authorization_go(a, AUTH_ENQUEUE);
}

enum step_result authorization_share(struct operation *e)
{
    struct authorization *a = of(e);
    struct call *c = &e->call;
    check(a->d.has_review);
    begin_owners_record(a);
    if (a->d.review_is_approved) c->spent = (struct str){0};
    c->enqueue.facts =
        (struct review_facts){.id = a->d.review,
                              .trace_id = a->ask.trace_id,
                              .state = a->d.review_is_approved ? REVIEW_APPROVED : REVIEW_PENDING};
    if (e->arena->overflow) return authorization_fail(a, ERR_INTERNAL);
    return operation_call(e, CALL_SHARE, slot_of_id(a->d.review));
}

enum step_result authorization_shared(struct operation *e)
{
    struct authorization *a = of(e);
    check(e->call.kind == CALL_SHARE && a->d.has_review);
    switch (e->call.err) {
    case ERR_OK:
        return authorization_undo(a, a->d.review_is_approved ? UNDO_SPENT : UNDO_COUNTED,
                                  AUTH_SYNC);
    case ERR_NOT_FOUND: /* it changed meanwhile: the owner is asked again */
        a->d.has_review = a->d.review_is_approved = false;
        a->approved_below = UINT64_MAX;
        return authorization_go(a, AUTH_SETTLE);
    default: return refuse_review(a, e->call.err);
    }
}

/* ---- the redemption of an approval ---- */

enum step_result authorization_claim(struct operation *e)
{
    check(of(e)->kind == AUTHORIZATION_REDEMPTION && (of(e)->holds & HOLD_CLAIM) == 0);
    e->call.review.id = of(e)->review.id;
    e->call.review.deadline_ms = world_now_ms() + CLAIM_WAIT_MS;
    return operation_call(e, CALL_CLAIM, slot_of_id(of(e)->review.id));
}

/* No other redemption counts for this approval now, or none needs to any more. */
enum step_result authorization_claimed(struct operation *e)
{
    struct authorization *a = of(e);
    const struct call *c = &e->call;
    check(c->kind == CALL_CLAIM && (a->holds & HOLD_CLAIM) == 0);
    if (c->err != ERR_OK) return authorization_fail(a, c->err);
    a->review = c->review.facts;
    if (c->review.claimed) a->holds |= HOLD_CLAIM;
    if (a->review.state != REVIEW_APPROVED) return authorization_go(a, AUTH_CONCLUDE);
    /* its time was over before the other redemption finished */
    if (!c->review.claimed) return authorization_fail(a, ERR_OVERLOADED);
    return STEP_NEXT;
}

enum step_result authorization_redeem(struct operation *e)
{
    struct authorization *a = of(e);
    struct call *c = &e->call;
    check(a->kind == AUTHORIZATION_REDEMPTION && authorization_permits(a));
    begin_owners_record(a);
    c->review.id = a->review.id;
    if (e->arena->overflow) return authorization_fail(a, ERR_INTERNAL);
    c->review.binding = a->d.binding;
    c->review.retry = a->retry;
    c->review.replayed = false;
    return operation_call(e, CALL_REDEEM, slot_of_id(a->review.id));
}

enum step_result authorization_redeemed(struct operation *e)
{
    struct authorization *a = of(e);
    const struct call *c = &e->call;
    authorization_check(a);
    check(c->kind == CALL_REDEEM && a->kind == AUTHORIZATION_REDEMPTION);
    switch (c->err) {
    case ERR_OK:
        if (!c->review.replayed) return authorization_go(a, AUTH_SYNC);
        a->review = c->review.facts;
        return authorization_undo(a, UNDO_ALL, AUTH_REPLAY);
    case ERR_NOT_REDEEMABLE: a->review = c->review.facts; return authorization_go(a, AUTH_CONCLUDE);
    case ERR_ACTOR_SUSPENDED: authorization_deny_stopped(a); break;
    case ERR_OUT_OF_RANGE: deny_unrecordable(a); break;
    default: return authorization_fail(a, c->err);
    }
    return authorization_undo(a, UNDO_COUNTED, AUTH_SETTLE);
}

/* ---- an earlier answer ---- */

/* The review of the first request with this Idempotency-Key. */
enum step_result authorization_look_again(struct operation *e)
{
    struct authorization *a = of(e);
    struct event first;
    struct fault ignored;
    struct id review;
    check(a->kind == AUTHORIZATION_RETRY && a->first.has_record);
    if (a->first.verdict != VERDICT_HUMAN_REVIEW ||
        event_read(a->first.record, e->arena, &first, &ignored) != ERR_OK ||
        !id_read("rev_", first.review_id, &review))
        return authorization_go(a, AUTH_REPLAY);
    e->call.tenant = a->ask.policy.tenant;
    e->call.requester = caller_operation_requester(&e->caller);
    e->call.review.id = review;
    return operation_call(e, CALL_REVIEW_GET, slot_of_id(review));
}

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
enum step_result authorization_looked_again(struct operation *e)
{
    struct authorization *a = of(e);
    check(e->call.kind == CALL_REVIEW_GET && a->kind == AUTHORIZATION_RETRY);
    const struct review_facts *r = &e->call.review.facts;
    if (e->call.err == ERR_OK && is_approved(a, r)) {
        a->d.review_is_approved = true;
        a->d.review_expires_ms = r->approval_expires_ms;
    }
    return STEP_NEXT;
}

enum step_result authorization_replay(struct operation *e)
{
    struct authorization *a = of(e);
    authorization_check(a);
    check(a->kind != AUTHORIZATION_FIRST);
    if (authorization_token_died(a)) return authorization_fail(a, ERR_CREDENTIAL_REVOKED);
    if (authorization_is_stopped(
            a)) { /* an earlier allow is not repeated to an actor that is suspended now */
        authorization_deny_stopped(a);
        return authorization_undo(a, UNDO_ALL, AUTH_SETTLE);
    }
    bool is_redemption = a->kind == AUTHORIZATION_REDEMPTION;
    struct str record = is_redemption ? a->review.redemption : a->first.record;
    if (decide_repeat(&a->d, record) != ERR_OK) return authorization_fail(a, ERR_INTERNAL);
    check(a->holds == 0 && a->limits.counted == 0);
    return authorization_send(a);
}

/* ---- a redemption that is not possible ---- */

static void deny_unredeemable(struct authorization *a)
{
    static const struct {
        const char *rule, *reason;
    } states[] = {
        [REVIEW_PENDING] = {"review:pending", "The review is still pending."},
        [REVIEW_DENIED] = {"review:denied", "A person has denied this."},
        [REVIEW_EXPIRED] = {"review:expired",
                            "The time to approve it, or to use the approval, is over."},
        [REVIEW_REDEEMED] = {"review:redeemed", "The approval was used already."},
    };
    check((unsigned)a->review.state < REVIEW_STATES);
    if (a->review.state == REVIEW_APPROVED)
        decide_deny(&a->d, "review:binding",
                    "The approval was given for another request than this one.");
    else if (a->review.state == REVIEW_CANCELLED)
        decide_deny(&a->d, "review:cancelled", approval_cancelled_reason(a->review.cancelled_by));
    else
        decide_deny(&a->d, states[a->review.state].rule, states[a->review.state].reason);
}

static bool is_out_of_scope(struct authorization *a)
{
    if (a->operation.caller.token == NULL || a->d.is_described) return false;
    decide_evaluate(&a->d);
    if (str_equal(str_from(a->d.outcome.rule), STR("token:scope"))) return true;
    a->d.outcome = (struct policy_outcome){0};
    return false;
}

enum step_result authorization_conclude(struct operation *e)
{
    struct authorization *a = of(e);
    authorization_check(a);
    check(a->kind == AUTHORIZATION_REDEMPTION);
    const struct review_facts *r = &a->review;
    if (authorization_is_stopped(a)) { /* a suspended actor gets this decision before any other */
        authorization_deny_stopped(a);
    } else if (str_is_absent(r->redemption) || !retry_has_key(&a->retry, &r->retry_key)) {
        deny_unredeemable(a);
    } else if (!retry_has_body(&a->retry, &r->retry_body)) {
        (void)fault_plain(&a->fault, ERR_IDEMPOTENCY_MISMATCH);
        return authorization_undo(a, UNDO_ALL, AUTH_REFUSE);
    } else if (!a->is_same) { /* the same body, which with this credential is of another actor */
        deny_unredeemable(a);
    } else if (!is_out_of_scope(a)) {
        return authorization_undo(a, UNDO_ALL, AUTH_REPLAY);
    }
    return authorization_undo(a, UNDO_COUNTED, AUTH_SETTLE);
}
