#include "engine/authorization.h"

#include "base/check.h"
#include "base/limits.h"
#include "engine/old_limits.h"
#include "engine/place.h"
#include "engine/terms.h"
#include "engine/traced.h"
#include "engine/trip.h"
#include "pipeline/spans/trace_context.h"
#include "shards/delta.h"

enum {
    /* for another redemption of the same approval, which is a matter of hops */
    CLAIM_WAIT_MS = 10000,
    LIMITS_PER_REQUEST_MAX = 64,         /* each is a visit, and a line in the record */
    SPENT_BYTES_MAX = LIMIT_DELTA_BYTES, /* their lines */
    /* of a review, beside the names in its delta */
    TERMS_BYTES_MAX = LIMIT_DELTA_BYTES - (8 << 10),
};

static struct authorization *of(struct errand *e) { return (struct authorization *)(void *)e; }

/* ---- beginning ---- */

struct authorization *authorization_begin_sized(struct worker *w, struct http_exchange *x,
                                                size_t size)
{
    struct authorization *a = trip_begin_bare(w, x, size);
    if (a == NULL) return NULL;
    a->tools = (struct decide_tools){.hasher = w->api.hasher,
                                     .memory = w->memory,
                                     .keys = &w->engine->place_keys,
                                     .chance = &w->api.chance,
                                     .now_ms = world_now_ms(),
                                     .started_ns = world_monotonic_ns()};
    struct str traceparent = traced_header(x);
    if (!str_is_absent(traceparent)) a->traceparent = arena_copy(a->errand.arena, traceparent);
    return a;
}

struct authorization *authorization_begin(struct worker *w, struct http_exchange *x)
{
    return authorization_begin_sized(w, x, sizeof(struct authorization));
}

enum err authorization_read(struct authorization *a, struct str trace_id, struct fault *f)
{
    struct ask_source source = {.form = a->form,
                                .dry_run = a->tools.dry_run,
                                .arena = a->errand.arena,
                                .chance = &a->errand.worker->api.chance,
                                .traceparent = a->traceparent,
                                .trace_id = trace_id};
    enum err err = ask_read(&source, &a->caller, a->body, &a->ask, f);
    if (err != ERR_OK) return err;
    a->tools.policies = bundle_policies(a->errand.bundle, a->caller.tenant);
    decide_begin(&a->d, &a->tools, &a->caller, &a->ask, a->errand.arena);
    return ERR_OK;
}

/* ---- ending ---- */

static void count_outcome(struct authorization *a)
{
    static const enum metric outcomes[] = {[VERDICT_DENY] = METRIC_DECISIONS_DENY,
                                           [VERDICT_HUMAN_REVIEW] = METRIC_DECISIONS_HUMAN_REVIEW,
                                           [VERDICT_COMPUTE] = METRIC_DECISIONS_COMPUTE,
                                           [VERDICT_ALLOW] = METRIC_DECISIONS_ALLOW};
    struct metrics_sheet *sheet = a->errand.worker->sheet;
    metric_add(sheet, a->tools.dry_run ? METRIC_DRY_RUNS : outcomes[a->d.outcome.verdict], 1);
    metric_observe(sheet, HISTOGRAM_DECIDE, a->d.latency_ns);
}

static void answer(struct authorization *a)
{
    count_outcome(a);
    traced_answer(a);
    errand_reply(&a->errand, 200, a->d.answer, a->d.event.request_id);
}

void authorization_refuse(struct authorization *a, const struct fault *f)
{
    struct trace_context caller; /* where the body was not read */
    if (str_is_absent(a->ask.trace_id) && trace_context_read(a->traceparent, &caller))
        a->ask.trace_id = caller.trace_text;
    traced_refusal(a, f);
    errand_refuse(&a->errand, f, a->ask.trace_id);
}

/* ---- giving back ---- */

static void give_back_on(struct errand *e);
static void settle(struct authorization *a);

/* One thing after the other, counters first, so that who claims the approval next finds them as
 * they were; then on with whatever the giving back was for. A use of a token stays spent where
 * there is a decision, whichever it is. */
static void give_back(struct authorization *a, void (*then)(struct authorization *a))
{
    struct call *c = &a->errand.call;
    a->given_back = then;
    if (a->counted > 0) {
        a->counted--;
        c->limit.ask = a->asked[a->counted];
        c->limit.told = a->told[a->counted];
        errand_visit(&a->errand, CALL_UNCOUNT, slot_of_key(c->limit.ask.key), give_back_on);
    } else if (a->claimed) {
        a->claimed = false;
        c->review.id = a->review.id;
        errand_visit(&a->errand, CALL_UNCLAIM, slot_of_id(a->review.id), give_back_on);
    } else if (a->token_spent && a->is_undecided) {
        a->token_spent = false;
        c->token.id = a->caller.token->id;
        errand_visit(&a->errand, CALL_UNSPEND, slot_of_id(c->token.id), give_back_on);
    } else {
        then(a);
    }
}

static void give_back_on(struct errand *e) { give_back(of(e), of(e)->given_back); }

static void refuse_kept_fault(struct authorization *a) { authorization_refuse(a, &a->fault); }

/* No decision can be made or recorded: nothing of it may stay counted. */
static void fail(struct authorization *a, enum err err)
{
    a->is_undecided = true;
    if (err_status(err) == 401)
        auth_failed_note_ended(a->errand.worker, a->caller.key->id, a->caller.token,
                               &a->errand.client, err);
    if (err == ERR_FULL)
        fault_set(&a->fault, ERR_OVERLOADED, "",
                  "records wait for the disk, and no more may wait now");
    else if (err == ERR_OVERLOADED)
        fault_set(&a->fault, ERR_OVERLOADED, "",
                  "as much waits or is kept as may; try again later");
    else if (err == ERR_JOURNAL_FULL || err == ERR_NO_SPACE)
        fault_plain(&a->fault, ERR_JOURNAL_FULL);
    else if (err_status(err) == 503 || err_status(err) == 401 || err == ERR_NOT_FOUND ||
             err == ERR_IDEMPOTENCY_MISMATCH)
        /* the review was forgotten, or redeemed, while its request was decided again */
        fault_plain(&a->fault, err);
    else
        fault_plain(&a->fault, ERR_INTERNAL);
    give_back(a, refuse_kept_fault);
}

/* The outcome is another than what was counted for. */
static void settle_anew(struct authorization *a) { give_back(a, settle); }

/* ---- recording ---- */

static void recorded_here(struct authorization *a, const struct effect_record *record)
{
    struct worker *w = a->errand.worker;
    struct http_gate gate;
    bool spends = record->delta.size > 0; /* what changes a token or a limit is always synced */
    enum err err = commit_records(&w->commit, record, 1, spends, &gate);
    if (!worker_has_room(w)) http_server_hold(w->server, true);
    if (err != ERR_OK) {
        fail(a, err);
        return;
    }
    errand_gate(&a->errand, gate);
    answer(a);
}

/* What the decision spent in other places, for its record. */
static struct str spent_delta(struct authorization *a)
{
    if (!a->token_spent && a->counted == 0) return (struct str){0};
    char *bytes = arena_bytes(a->errand.arena, SPENT_BYTES_MAX);
    if (bytes == NULL) return (struct str){0};
    struct buf b = buf_over(bytes, SPENT_BYTES_MAX);
    if (a->token_spent) delta_put_spent(&b, a->caller.token->id, 1);
    for (size_t i = 0; i < a->counted; i++) delta_put_counted(&b, &a->asked[i], &a->told[i]);
    check(!b.overflow);
    return buf_view(&b);
}

static void record(struct authorization *a);

/* A person has this very request before them already: it gets the same review. */
static void share_pending(struct authorization *a)
{
    const struct review_facts *pending = &a->errand.call.enqueue.facts;
    a->d.is_pending_already = true;
    a->d.review = pending->id;
    a->d.pending_binding = pending->binding;
    a->d.pending_expires_ms = pending->expires_ms;
    enum err err = decide_settle(&a->d, &a->fault);
    if (err == ERR_OK) {
        record(a);
        return;
    }
    a->is_undecided = true;
    give_back(a, refuse_kept_fault);
}

/* The record would have to say more of who asked, who decides and what was counted than it can. */
static void deny_unrecordable(struct authorization *a)
{
    decide_deny(
        &a->d, "limit:record",
        "More belongs to this request than one record can hold, so it cannot be kept for a person.");
}

static bool is_stopped(const struct authorization *a)
{
    const struct policy_request *p = &a->ask.policy;
    return p->kind == SUBJECT_AGENT &&
           worker_actor_is_suspended(a->errand.worker, p->tenant, p->actor);
}

static void deny_stopped(struct authorization *a)
{
    decide_deny(&a->d, "actor:suspended", "This actor is suspended.");
}

/* Its owner gives no review. */
static void refuse_review(struct authorization *a, enum err err)
{
    if (err != ERR_ACTOR_SUSPENDED && err != ERR_OUT_OF_RANGE) {
        fail(a, err);
        return;
    }
    if (err == ERR_ACTOR_SUSPENDED)
        deny_stopped(a);
    else
        deny_unrecordable(a);
    settle(a);
}

static void enqueued(struct errand *e)
{
    struct authorization *a = of(e);
    switch (e->call.err) {
    case ERR_OK:
        if (e->call.enqueue.same)
            share_pending(a);
        else
            answer(a);
        return;
    case ERR_PENDING_LIMIT:
        decide_deny(
            &a->d, "limit:pending",
            "As many requests of this subject wait for a person as may; resolve some first.");
        settle(a);
        return;
    default: refuse_review(a, e->call.err);
    }
}

static void shared(struct errand *e)
{
    struct authorization *a = of(e);
    switch (e->call.err) {
    case ERR_OK: answer(a); return;
    case ERR_NOT_FOUND: /* resolved meanwhile: this request asks for a review of its own */
        a->d.is_pending_already = false;
        settle(a);
        return;
    default: refuse_review(a, e->call.err);
    }
}

static void begin_owners_record(struct authorization *a)
{
    struct call *c = &a->errand.call;
    c->tenant = a->ask.policy.tenant;
    c->asker = trip_asker(&a->caller);
    c->for_actor = a->ask.policy.actor;
    c->records[0] = a->d.record;
    c->records[1] = a->d.beside;
    c->spent = spent_delta(a);
}

static void share(struct authorization *a)
{
    struct call *c = &a->errand.call;
    begin_owners_record(a);
    c->enqueue.facts = (struct review_facts){.id = a->d.review, .trace_id = a->ask.trace_id};
    if (a->errand.arena->overflow)
        fail(a, ERR_INTERNAL);
    else
        errand_visit(&a->errand, CALL_SHARE, slot_of_id(a->d.review), shared);
}

static void enqueue(struct authorization *a)
{
    const struct policy_request *p = &a->ask.policy;
    const struct decision *d = &a->d;
    const struct policy_review *asks = &d->outcome.review;
    struct call *c = &a->errand.call;
    bool is_user = p->kind == SUBJECT_USER;
    begin_owners_record(a);
    c->enqueue.same = false;
    c->enqueue.facts =
        (struct review_facts){.id = d->review,
                              .tenant = p->tenant,
                              .is_user = is_user,
                              .subject = is_user ? p->user : p->actor,
                              .principal = c->asker.principal,
                              .owner = c->asker.owner,
                              .acting_for = p->acting_for,
                              .action = p->action,
                              .trace_id = a->ask.trace_id,
                              .enqueued_ms = a->tools.now_ms,
                              .expires_ms = d->event.expires_at,
                              .good_for_ms = asks->good_for_ms,
                              .item = d->beside,
                              .requirements = terms_requirements(asks, a->errand.arena),
                              .votes_approved = terms_votes(asks, a->errand.arena),
                              .state = REVIEW_PENDING};
    c->enqueue.facts.binding = d->binding;
    c->enqueue.facts.request = decide_request_digest(d);
    c->enqueue.request_plain = decide_request_plain(d);
    if (a->errand.arena->overflow) {
        fail(a, ERR_INTERNAL);
        return;
    }
    size_t terms = c->enqueue.facts.requirements.size + c->enqueue.facts.votes_approved.size;
    if (terms > TERMS_BYTES_MAX || asks->requirement_count > REVIEW_REQUIREMENTS_MAX) {
        deny_unrecordable(a);
        settle(a);
        return;
    }
    errand_visit(&a->errand, CALL_ENQUEUE, d->slot, enqueued);
}

/* Whoever was away may have been overtaken by the kill switch or the end of its token: looked at
 * again where it is recorded, and where it is repeated. */
static bool was_away(const struct authorization *a)
{
    return a->errand.x == NULL && !a->tools.dry_run;
}

static bool token_died_meanwhile(const struct authorization *a)
{
    return was_away(a) && a->caller.token != NULL &&
           worker_token_is_dead(a->errand.worker, a->caller.token);
}

static void replay(struct authorization *a)
{
    struct decision *d = &a->d;
    if (token_died_meanwhile(a)) {
        fail(a, ERR_CREDENTIAL_REVOKED);
        return;
    }
    if (is_stopped(a)) { /* what was allowed once is not said again to whom nothing is allowed */
        deny_stopped(a);
        settle_anew(a);
        return;
    }
    if (decide_repeat(d, a->review.redemption) != ERR_OK) {
        fail(a, ERR_INTERNAL);
        return;
    }
    traced_answer(a);
    errand_reply(&a->errand, 200, d->answer, d->event.request_id);
}

static void redeemed(struct errand *e)
{
    struct authorization *a = of(e);
    const struct call *c = &e->call;
    if (c->err == ERR_OK && !c->review.replayed) {
        answer(a);
        return;
    }
    if (c->err == ERR_OK) {
        a->review = c->review.facts;
        a->is_undecided = true; /* by this request */
        give_back(a, replay);
        return;
    }
    switch (c->err) {
    case ERR_NOT_REDEEMABLE:
        a->review = c->review.facts;
        authorization_conclude(a);
        return;
    case ERR_ACTOR_SUSPENDED:
        deny_stopped(a);
        settle_anew(a);
        return;
    case ERR_OUT_OF_RANGE:
        deny_unrecordable(a);
        settle_anew(a);
        return;
    default: fail(a, c->err);
    }
}

static void redeem(struct authorization *a)
{
    struct call *c = &a->errand.call;
    begin_owners_record(a);
    c->review.id = a->review.id;
    if (a->errand.arena->overflow) {
        fail(a, ERR_INTERNAL);
        return;
    }
    c->review.binding = a->d.binding;
    c->review.retry = a->retry;
    c->review.replayed = false;
    errand_visit(&a->errand, CALL_REDEEM, slot_of_id(a->review.id), redeemed);
}

static void record(struct authorization *a)
{
    enum verdict v = a->d.outcome.verdict;
    if (v != VERDICT_DENY && token_died_meanwhile(a)) {
        fail(a, ERR_CREDENTIAL_REVOKED);
        return;
    }
    if (v != VERDICT_DENY && was_away(a) && is_stopped(a)) {
        deny_stopped(a);
        settle_anew(a);
        return;
    }
    if (!a->tools.dry_run && v == VERDICT_HUMAN_REVIEW) {
        if (a->d.is_pending_already)
            share(a);
        else
            enqueue(a);
        return;
    }
    if (a->redeeming && (v == VERDICT_ALLOW || v == VERDICT_COMPUTE)) {
        redeem(a);
        return;
    }
    struct effect_record one = {.event = a->d.record, .delta = spent_delta(a)};
    if (a->errand.arena->overflow)
        fail(a, ERR_INTERNAL);
    else
        recorded_here(a, &one);
}

/* ---- deciding ---- */

static void settle(struct authorization *a)
{
    if (!a->described) decide_describe(&a->d);
    a->described = true;
    if (a->d.outcome.verdict == VERDICT_HUMAN_REVIEW)
        a->d.slot = place_subject(
            a->tools.hasher, a->ask.policy.tenant, a->ask.policy.kind == SUBJECT_USER,
            a->ask.policy.kind == SUBJECT_USER ? a->ask.policy.user : a->ask.policy.actor);
    enum err err = decide_settle(&a->d, &a->fault);
    if (err != ERR_OK) {
        a->is_undecided = true;
        give_back(a, refuse_kept_fault);
        return;
    }
    bool permits = a->d.outcome.verdict == VERDICT_ALLOW || a->d.outcome.verdict == VERDICT_COMPUTE;
    if (a->counted > 0 && !permits)
        settle_anew(a); /* it became a deny that counts nothing */
    else
        record(a);
}

static void count_limits(struct authorization *a);

/* The first of them that is not yet known to have room, and then the first that is not yet
 * counted. */
static size_t limit_at_hand(const struct authorization *a)
{
    return a->looked < a->limit_count ? a->looked : a->counted;
}

/* What an earlier program counted against this limit, see old_limits.h. */
static void old_limit_told(struct errand *e)
{
    struct authorization *a = of(e);
    if (e->call.err != ERR_OK) {
        fail(a, e->call.err);
        return;
    }
    limit_used_add(&a->before, &e->call.limit.told.used);
    count_limits(a);
}

/* False: there is nothing more to ask. */
static bool asks_old_limit(struct authorization *a, const struct policy_limit *l)
{
    const struct old_limits *old = a->errand.worker->engine->old_limits;
    if (old == NULL || a->tools.now_ms > old->until_ms) return false;
    while (a->old_looked < old->window_count) {
        struct slot_key key = place_old_limit(a->tools.hasher, a->ask.policy.tenant, l,
                                              old->windows[a->old_looked++]);
        if (!old_limits_may_have(old, key)) continue;
        a->errand.call.limit.ask =
            (struct limit_ask){.key = key, .is_old = true, .window_ms = l->window_ms};
        errand_visit(&a->errand, CALL_COUNT, slot_of_key(key), old_limit_told);
        return true;
    }
    return false;
}

static void limit_counted(struct errand *e)
{
    struct authorization *a = of(e);
    a->old_looked = 0;
    a->before = (struct limit_used){0};
    if (e->call.err != ERR_OK) {
        fail(a, e->call.err);
        return;
    }
    if (!e->call.limit.told.counted) {
        policy_over_limit(&a->limits[limit_at_hand(a)], e->arena, &a->d.outcome);
        settle_anew(a);
        return;
    }
    if (e->call.limit.ask.look_only) {
        a->looked++;
        count_limits(a);
        return;
    }
    a->asked[a->counted] = e->call.limit.ask;
    a->told[a->counted] = e->call.limit.told;
    a->counted++;
    count_limits(a);
}

/* Of several, all are looked at before the first is counted: what one of them refuses must not use
 * up another's room meanwhile, where those who may have it would be refused. */
static void count_limits(struct authorization *a)
{
    if (a->limit_count == 1) a->looked = 1;
    if (a->counted == a->limit_count) {
        settle(a);
        return;
    }
    const struct policy_limit *l = &a->limits[limit_at_hand(a)];
    if (asks_old_limit(a, l)) return;
    struct limit_ask *ask = &a->errand.call.limit.ask;
    *ask = (struct limit_ask){.key = place_limit(a->tools.hasher, a->ask.policy.tenant, l),
                              .window_ms = l->window_ms,
                              .before = a->before,
                              .count_max = l->count_max,
                              .has_max = l->has_max,
                              .amount_max = l->amount_max,
                              .amount = l->amount,
                              .let_through = l->over == VERDICT_ALLOW,
                              .look_only = a->looked < a->limit_count};
    errand_visit(&a->errand, CALL_COUNT, slot_of_key(ask->key), limit_counted);
}

/* Nobody else counts for this approval now, or nobody needs to any more. */
static void claimed(struct errand *e)
{
    struct authorization *a = of(e);
    const struct call *c = &e->call;
    if (c->err != ERR_OK) {
        fail(a, c->err);
        return;
    }
    a->review = c->review.facts;
    a->claimed = c->review.claimed;
    if (a->review.state != REVIEW_APPROVED) authorization_conclude(a);
    /* its time was over before whoever has it was done */
    else if (!a->claimed)
        fail(a, ERR_OVERLOADED);
    else
        count_limits(a);
}

static void claim(struct authorization *a)
{
    struct call *c = &a->errand.call;
    c->review.id = a->review.id;
    c->review.deadline_ms = world_now_ms() + CLAIM_WAIT_MS;
    errand_visit(&a->errand, CALL_CLAIM, slot_of_id(a->review.id), claimed);
}

static void evaluate(struct authorization *a)
{
    decide_evaluate(&a->d);
    const struct policy_outcome *o = &a->d.outcome;
    bool permits = o->verdict == VERDICT_ALLOW || o->verdict == VERDICT_COMPUTE;
    if (a->tools.dry_run || !permits || o->limit_count == 0) {
        settle(a);
        return;
    }
    a->limits = o->limits;
    a->limit_count = o->limit_count;
    a->asked = arena_array(a->errand.arena, struct limit_ask, a->limit_count);
    a->told = arena_array(a->errand.arena, struct limit_told, a->limit_count);
    if (a->limit_count > LIMITS_PER_REQUEST_MAX || a->asked == NULL || a->told == NULL) {
        decide_deny(&a->d, "limit:record",
                    "More limits apply to this request than may be counted at once.");
        settle(a);
        return;
    }
    if (a->redeeming)
        claim(a);
    else
        count_limits(a);
}

static void token_used(struct errand *e)
{
    struct authorization *a = of(e);
    if (e->call.err != ERR_OK) {
        fail(a, e->call.err);
        return;
    }
    switch (e->call.token.use) {
    case TOKEN_SPENT:
        a->token_spent = true;
        evaluate(a);
        return;
    case TOKEN_NONE_LEFT:
        decide_deny(&a->d, "token:uses", "No use of this token is left.");
        settle(a);
        return;
    case TOKEN_DEAD: fail(a, ERR_CREDENTIAL_REVOKED);
    }
}

void authorization_start(struct authorization *a)
{
    const struct token_claims *token = a->caller.token;
    if (is_stopped(a)) {
        if (a->tools.explain) decide_evaluate(&a->d); /* what would be said after a resume */
        deny_stopped(a);
        settle(a);
        return;
    }
    /* A redemption is the end of a request: where that was asked with this very token, its use was
     * spent then. */
    if (token != NULL && token->counted && !a->tools.dry_run && !a->use_was_spent) {
        a->errand.call.token.id = token->id;
        a->errand.call.tenant = a->ask.policy.tenant;
        errand_visit(&a->errand, CALL_SPEND, slot_of_id(token->id), token_used);
        return;
    }
    evaluate(a);
}

/* ---- a redemption that cannot be ---- */

static void deny_unredeemable(struct authorization *a)
{
    static const struct {
        const char *rule, *reason;
    } states[] = {
        [REVIEW_PENDING] = {"review:pending", "Nobody has resolved this review yet."},
        [REVIEW_DENIED] = {"review:denied", "A person has denied this."},
        [REVIEW_EXPIRED] = {"review:expired",
                            "The time to approve it, or to use the approval, is over."},
        [REVIEW_CANCELLED] = {"review:cancelled", "Whoever asked has cancelled this review."},
        [REVIEW_REDEEMED] = {"review:redeemed", "The approval was used already."},
    };
    if (a->review.state == REVIEW_APPROVED)
        decide_deny(&a->d, "review:binding",
                    "The approval was given for another request than this one.");
    else
        decide_deny(&a->d, states[a->review.state].rule, states[a->review.state].reason);
    settle_anew(a);
}

void authorization_conclude(struct authorization *a)
{
    const struct review_facts *r = &a->review;
    if (is_stopped(a)) { /* before what it would be told else: every decision for it is this one */
        deny_stopped(a);
        settle_anew(a);
    } else if (!a->retry.given || str_is_absent(r->redemption) ||
               !review_digest_equal(&a->retry.key, &r->retry_key)) {
        deny_unredeemable(a);
    } else if (retry_has_body(&a->retry, &r->retry_body)) {
        a->is_undecided = true; /* by this request */
        give_back(a, replay);
    } else {
        a->is_undecided = true;
        fault_plain(&a->fault, ERR_IDEMPOTENCY_MISMATCH);
        give_back(a, refuse_kept_fault);
    }
}
