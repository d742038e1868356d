#include "engine/authorization.h"

#include "base/check.h"
#include "base/limits.h"
#include "engine/limits_left.h"
#include "engine/old_limits.h"
#include "engine/digest.h"
#include "engine/repeat.h"
#include "engine/shadow_limits.h"
#include "engine/terms.h"
#include "engine/traced.h"
#include "engine/caller_operation.h"
#include "pipeline/spans/trace_context.h"
#include "shards/delta.h"

enum {
    /* for another redemption of the same approval, which takes only a few calls */
    CLAIM_WAIT_MS = 10000,
    APPROVALS_SEEN_MAX = 8, /* approved reviews of one request that are looked at */
    LIMITS_PER_REQUEST_MAX = LIMIT_LIMITS_PER_REQUEST,
    SPENT_BYTES_MAX = LIMIT_DELTA_BYTES, /* their lines */
    /* of a review, beside the names in its delta */
    TERMS_BYTES_MAX = LIMIT_DELTA_BYTES - (8 << 10),
};

static struct authorization *of(struct operation *e) { return (struct authorization *)(void *)e; }

/* ---- begin ---- */

struct authorization *authorization_begin_sized(struct engine_reactor *w, struct http_exchange *x,
                                                size_t size)
{
    struct authorization *a = caller_operation_begin_bare(w, x, size);
    if (a == NULL) return NULL;
    a->approved_below = UINT64_MAX;
    a->tools = (struct decide_tools){.hasher = w->api.hasher,
                                     .memory = w->memory,
                                     .keys = &w->engine->digest_keys,
                                     .chance = &w->api.chance,
                                     .now_ms = world_now_ms(),
                                     .started_ns = world_monotonic_ns()};
    struct str traceparent = traced_header(x);
    if (!str_is_absent(traceparent)) a->traceparent = arena_copy(a->operation.arena, traceparent);
    return a;
}

void authorization_renew(struct authorization *a)
{
    const size_t kept = offsetof(struct authorization, ask);
    memset((char *)a + kept, 0, sizeof *a - kept);
    a->operation.call = (struct call){0};
    a->approved_below = UINT64_MAX;
    a->tools.now_ms = world_now_ms();
    a->tools.started_ns = world_monotonic_ns();
}

enum err authorization_may(const struct authorization *a, struct fault *f)
{
    uint32_t needed = a->form == ASK_USER ? ROLE_APP : ROLE_AGENT;
    bool may = a->caller.token != NULL ? a->form != ASK_USER : (a->caller.key->roles & needed) != 0;
    if (may) return ERR_OK;
    return fault_set(f, ERR_MISSING_ROLE, "", "this needs a key with the role %s",
                     role_name((enum role)needed));
}

struct authorization *authorization_begin(struct engine_reactor *w, struct http_exchange *x)
{
    return authorization_begin_sized(w, x, sizeof(struct authorization));
}

enum err authorization_read(struct authorization *a, struct str trace_id, struct fault *f)
{
    struct auth_request_source source = {.form = a->form,
                                         .dry_run = a->tools.dry_run,
                                         .arena = a->operation.arena,
                                         .chance = &a->operation.engine_reactor->api.chance,
                                         .traceparent = a->traceparent,
                                         .trace_id = trace_id};
    enum err err = auth_request_read(&source, &a->caller, a->body, &a->ask, f);
    if (err != ERR_OK) return err;
    a->tools.policies = bundle_policies(a->operation.bundle, a->caller.tenant);
    decide_begin(&a->d, &a->tools, &a->caller, &a->ask, a->operation.arena);
    return ERR_OK;
}

/* ---- end ---- */

static void count_outcome(struct authorization *a)
{
    static const enum metric outcomes[] = {[VERDICT_DENY] = METRIC_DECISIONS_DENY,
                                           [VERDICT_HUMAN_REVIEW] = METRIC_DECISIONS_HUMAN_REVIEW,
                                           [VERDICT_COMPUTE] = METRIC_DECISIONS_COMPUTE,
                                           [VERDICT_ALLOW] = METRIC_DECISIONS_ALLOW};
    struct metrics_sheet *sheet = a->operation.engine_reactor->sheet;
    metric_add(sheet, a->tools.dry_run ? METRIC_DRY_RUNS : outcomes[a->d.outcome.verdict], 1);
    metric_observe(sheet, HISTOGRAM_DECIDE, a->d.latency_ns);
}

static void send(struct authorization *a)
{
    traced_answer(a);
    if (a->finished != NULL)
        a->finished(a, NULL);
    else
        operation_reply(&a->operation, 200, a->d.answer, a->d.event.request_id);
}

static void reply(struct authorization *a)
{
    count_outcome(a);
    send(a);
}

void authorization_refuse(struct authorization *a, const struct fault *f)
{
    struct trace_context caller; /* where the body was not read */
    if (str_is_absent(a->ask.trace_id) && trace_context_read(a->traceparent, &caller))
        a->ask.trace_id = caller.trace_text;
    traced_refusal(a, f);
    if (a->finished != NULL)
        a->finished(a, f);
    else
        operation_refuse(&a->operation, f, a->ask.trace_id);
}

/* ---- the outcome for its Idempotency-Key ---- */

_Static_assert(VERDICT_ALLOW + 1 == RETRY_VERDICTS && VERDICT_DENY < VERDICT_HUMAN_REVIEW &&
                   VERDICT_HUMAN_REVIEW < VERDICT_COMPUTE && VERDICT_COMPUTE < VERDICT_ALLOW,
               "the stricter of two verdicts is the smaller");

static void key_released(struct operation *e) { reply(of(e)); }

/* What the decision counted, spent or enqueued is on the disk. */
static void keep_outcome(struct operation *e)
{
    struct authorization *a = of(e);
    a->holds_key = false;
    e->call.outcome.facts = a->first;
    operation_call(e, CALL_RETRY_KEEP, slot_of_key(a->first.key), key_released);
}

static void answer(struct authorization *a)
{
    struct operation *e = &a->operation;
    if (!a->holds_key) {
        reply(a);
    } else if (a->keeps_outcome) {
        operation_when_synced(e, keep_outcome);
    } else {
        a->holds_key = false;
        e->call.outcome.facts = a->first;
        operation_call(e, CALL_RETRY_DROP, slot_of_key(a->first.key), key_released);
    }
}

/* The entry for the decision's record. */
static void put_outcome(struct authorization *a, struct buf *out)
{
    enum verdict v = a->d.outcome.verdict;
    a->first.at_ms = a->tools.now_ms;
    a->first.verdict = v;
    a->first.has_record = v != VERDICT_ALLOW;
    a->first.record = v != VERDICT_ALLOW ? a->d.record : (struct str){0};
    delta_put_kept(out, &a->first);
}

/* ---- giving back ---- */

static void give_back_on(struct operation *e);
static void give_back_more(struct authorization *a);
static void settle(struct authorization *a);

/* Gives back one thing after the other, counters first, so that the next claim of the approval
 * finds them unchanged. Then continues with `then`. A use of a token stays spent if there is a
 * decision, whatever it is, except that of an approval that can be redeemed. */
static void give_back(struct authorization *a, void (*then)(struct authorization *a))
{
    struct call *c = &a->operation.call;
    a->given_back = then;
    if (a->counted > 0) {
        a->counted--;
        c->limit.ask = a->asked[a->counted];
        c->limit.told = a->told[a->counted];
        operation_call(&a->operation, CALL_UNCOUNT, slot_of_key(c->limit.ask.key), give_back_on);
    } else if (a->shadow.counted > 0) {
        shadow_limits_give_back(a, give_back_more);
    } else if (a->claimed) {
        a->claimed = false;
        c->review.id = a->review.id;
        operation_call(&a->operation, CALL_UNCLAIM, slot_of_id(a->review.id), give_back_on);
    } else if (a->token_spent && (a->is_undecided || a->is_unspent)) {
        a->token_spent = false;
        c->token.id = a->caller.token->id;
        operation_call(&a->operation, CALL_UNSPEND, slot_of_id(c->token.id), give_back_on);
    } else if (a->holds_key && a->is_undecided) {
        a->holds_key = false;
        c->outcome.facts = a->first;
        operation_call(&a->operation, CALL_RETRY_DROP, slot_of_key(a->first.key), give_back_on);
    } else {
        then(a);
    }
}

static void give_back_more(struct authorization *a) { give_back(a, a->given_back); }

static void give_back_on(struct operation *e) { give_back_more(of(e)); }

static void refuse_kept_fault(struct authorization *a) { authorization_refuse(a, &a->fault); }

/* No decision can be made or recorded: none of its counts may stay. */
static void fail(struct authorization *a, enum err err)
{
    a->is_undecided = true;
    if (err_status(err) == 401)
        auth_failed_note_ended(a->operation.engine_reactor, a->caller.key->id, a->caller.token,
                               &a->operation.client, err);
    if (err == ERR_FULL)
        (void)fault_set(
            &a->fault, ERR_OVERLOADED, "",
            "the journal has no free block, because records wait for the disk; try again later");
    else if (err == ERR_OVERLOADED)
        (void)fault_set(&a->fault, ERR_OVERLOADED, "", OVERLOADED_TEXT);
    else if (err == ERR_JOURNAL_FULL || err == ERR_NO_SPACE)
        (void)fault_plain(&a->fault, ERR_JOURNAL_FULL);
    else if (err_status(err) == 503 || err_status(err) == 401 || err == ERR_NOT_FOUND ||
             err == ERR_IDEMPOTENCY_MISMATCH)
        /* the review was dropped, or redeemed, while its request was decided again */
        (void)fault_plain(&a->fault, err);
    else
        (void)fault_plain(&a->fault, ERR_INTERNAL);
    give_back(a, refuse_kept_fault);
}

/* The outcome is no longer the one that was counted for. */
static void settle_anew(struct authorization *a) { give_back(a, settle); }

/* ---- recording ---- */

static void recorded_here(struct authorization *a, const struct effect_record *record)
{
    struct engine_reactor *w = a->operation.engine_reactor;
    struct http_barrier barrier;
    /* records that change a token or a limit are always synced */
    bool spends = record->delta.size > 0;
    enum err err = commit_records(&w->commit, record, 1, spends, &barrier);
    if (!engine_reactor_has_room(w)) http_server_hold(w->server, true);
    if (err != ERR_OK) {
        fail(a, err);
        return;
    }
    operation_barrier(&a->operation, barrier);
    answer(a);
}

/* The token uses and counts that the decision spent, and the outcome that is kept for its
 * Idempotency-Key, for its record. */
static struct str spent_delta(struct authorization *a)
{
    bool asks = a->d.outcome.verdict == VERDICT_HUMAN_REVIEW && !a->tools.asks_nobody;
    bool spends = a->token_spent || a->counted > 0;
    /* an approval that can be redeemed spends nothing, and asks no person */
    a->keeps_outcome = a->holds_key && (spends || asks) && !a->d.review_is_approved;
    if (!spends && !a->keeps_outcome) return (struct str){0};
    char *bytes = arena_bytes(a->operation.arena, SPENT_BYTES_MAX);
    if (bytes == NULL) return (struct str){0};
    struct buf b = buf_over(bytes, SPENT_BYTES_MAX);
    if (a->token_spent) delta_put_spent(&b, a->caller.token->id, 1);
    for (size_t i = 0; i < a->counted; i++) delta_put_counted(&b, &a->asked[i], &a->told[i]);
    if (a->keeps_outcome) put_outcome(a, &b);
    check(!b.overflow);
    return buf_view(&b);
}

static void record(struct authorization *a);

/* The same request has a review already: it gets the same one. */
static void share_review(struct authorization *a)
{
    const struct review_facts *r = &a->operation.call.enqueue.facts;
    a->d.has_review = true;
    a->d.review_is_approved = r->state == REVIEW_APPROVED;
    a->d.review = r->id;
    a->d.review_binding = r->binding;
    a->d.review_expires_ms = a->d.review_is_approved ? r->approval_expires_ms : r->expires_ms;
    enum err err = decide_settle(&a->d, &a->fault);
    if (err == ERR_OK) {
        record(a);
        return;
    }
    a->is_undecided = true;
    give_back(a, refuse_kept_fault);
}

/* The names, review terms and counts of the request do not fit into one record. */
static void deny_unrecordable(struct authorization *a)
{
    decide_deny(
        &a->d, "limit:record",
        "The request and its review terms are larger than one record may be, so no review can be made.");
}

static bool is_stopped(const struct authorization *a)
{
    const struct policy_request *p = &a->ask.policy;
    return p->kind == SUBJECT_AGENT &&
           engine_reactor_actor_is_suspended(a->operation.engine_reactor, p->tenant, p->actor);
}

static void deny_stopped(struct authorization *a)
{
    decide_deny(&a->d, "actor:suspended", "This actor is suspended.");
}

/* The owner refuses to make the review. */
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

static void enqueue(struct authorization *a);

/* Votes that cover all that is asked now are enough; else the next approved review is looked at. */
static void approved_already(struct authorization *a)
{
    const struct review_facts *r = &a->operation.call.enqueue.facts;
    struct policy_approval approval;
    if (authorization_approval(a, r, &approval) != ERR_OK) {
        fail(a, ERR_INTERNAL);
        return;
    }
    if (policy_approval_covers(&approval, &a->d.outcome.review)) {
        share_review(a);
        return;
    }
    a->approvals_seen++;
    a->approved_below = a->approvals_seen < APPROVALS_SEEN_MAX ? r->ordinal : 0;
    enqueue(a);
}

static void enqueued(struct operation *e)
{
    struct authorization *a = of(e);
    switch (e->call.err) {
    case ERR_OK:
        if (!e->call.enqueue.same)
            answer(a);
        else if (e->call.enqueue.facts.state == REVIEW_APPROVED)
            approved_already(a);
        else
            share_review(a);
        return;
    case ERR_PENDING_LIMIT:
        decide_deny(
            &a->d, "limit:pending",
            "This subject has the most pending reviews that are allowed; resolve some first.");
        settle(a);
        return;
    default: refuse_review(a, e->call.err);
    }
}

static void shared(struct operation *e)
{
    struct authorization *a = of(e);
    switch (e->call.err) {
    case ERR_OK:
        a->is_unspent = a->d.review_is_approved;
        give_back(a, answer);
        return;
    case ERR_NOT_FOUND: /* it changed meanwhile: the owner is asked again */
        a->d.has_review = a->d.review_is_approved = false;
        a->approved_below = UINT64_MAX;
        settle(a);
        return;
    default: refuse_review(a, e->call.err);
    }
}

static void begin_owners_record(struct authorization *a)
{
    struct call *c = &a->operation.call;
    c->tenant = a->ask.policy.tenant;
    c->requester = caller_operation_requester(&a->caller);
    c->for_actor = a->ask.policy.actor;
    c->records[0] = a->d.record;
    c->records[1] = a->d.beside;
    c->spent = spent_delta(a);
}

static void share(struct authorization *a)
{
    struct call *c = &a->operation.call;
    begin_owners_record(a);
    if (a->d.review_is_approved) c->spent = (struct str){0};
    c->enqueue.facts =
        (struct review_facts){.id = a->d.review,
                              .trace_id = a->ask.trace_id,
                              .state = a->d.review_is_approved ? REVIEW_APPROVED : REVIEW_PENDING};
    if (a->operation.arena->overflow)
        fail(a, ERR_INTERNAL);
    else
        operation_call(&a->operation, CALL_SHARE, slot_of_id(a->d.review), shared);
}

static void enqueue(struct authorization *a)
{
    const struct policy_request *p = &a->ask.policy;
    const struct decision *d = &a->d;
    const struct policy_review *asks = &d->outcome.review;
    struct call *c = &a->operation.call;
    bool is_user = p->kind == SUBJECT_USER;
    begin_owners_record(a);
    c->enqueue.same = false;
    c->enqueue.approved_below = a->approved_below;
    c->enqueue.facts =
        (struct review_facts){.id = d->review,
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
                              .requirements = terms_requirements(asks, a->operation.arena),
                              .votes_approved = terms_votes(asks, a->operation.arena),
                              .state = REVIEW_PENDING};
    c->enqueue.facts.binding = d->binding;
    c->enqueue.facts.request = decide_request_digest(d);
    c->enqueue.request_plain = decide_request_plain(d);
    if (a->operation.arena->overflow) {
        fail(a, ERR_INTERNAL);
        return;
    }
    size_t terms = c->enqueue.facts.requirements.size + c->enqueue.facts.votes_approved.size;
    if (terms > TERMS_BYTES_MAX || asks->requirement_count > REVIEW_REQUIREMENTS_MAX) {
        deny_unrecordable(a);
        settle(a);
        return;
    }
    operation_call(&a->operation, CALL_ENQUEUE, d->slot, enqueued);
}

/* The request waited on another reactor. Its actor's suspension and its token's end are checked
 * again before its decision is recorded or repeated. */
static bool was_away(const struct authorization *a)
{
    return a->operation.x == NULL && !a->tools.dry_run;
}

static bool token_died_meanwhile(const struct authorization *a)
{
    return was_away(a) && a->caller.token != NULL &&
           engine_reactor_token_is_dead(a->operation.engine_reactor, a->caller.token);
}

static void replay(struct authorization *a)
{
    struct decision *d = &a->d;
    if (token_died_meanwhile(a)) {
        fail(a, ERR_CREDENTIAL_REVOKED);
        return;
    }
    if (is_stopped(a)) { /* an earlier allow is not repeated to an actor that is suspended now */
        deny_stopped(a);
        settle_anew(a);
        return;
    }
    struct str record = a->redeeming || a->retry.given ? a->review.redemption : a->first.record;
    if (decide_repeat(d, record) != ERR_OK) {
        fail(a, ERR_INTERNAL);
        return;
    }
    send(a);
}

static void redeemed(struct operation *e)
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
    struct call *c = &a->operation.call;
    begin_owners_record(a);
    c->review.id = a->review.id;
    if (a->operation.arena->overflow) {
        fail(a, ERR_INTERNAL);
        return;
    }
    c->review.binding = a->d.binding;
    c->review.retry = a->retry;
    c->review.replayed = false;
    operation_call(&a->operation, CALL_REDEEM, slot_of_id(a->review.id), redeemed);
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
    if (!a->tools.dry_run && !a->tools.asks_nobody && v == VERDICT_HUMAN_REVIEW) {
        if (a->d.has_review)
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
    if (a->operation.arena->overflow)
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
        a->d.slot = slot_of_subject(
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
        settle_anew(a); /* it became a deny, which counts nothing */
    else
        record(a);
}

static void count_limits(struct authorization *a);

/* The first limit that is not yet known to have room, and then the first that is not yet
 * counted. */
static size_t limit_at_hand(const struct authorization *a)
{
    return a->looked < a->limit_count ? a->looked : a->counted;
}

/* Adds what an earlier program counted against this limit, see old_limits.h. */
static void old_limit_told(struct operation *e)
{
    struct authorization *a = of(e);
    if (e->call.err != ERR_OK) {
        fail(a, e->call.err);
        return;
    }
    limit_used_add(&a->before, &e->call.limit.told.used);
    count_limits(a);
}

/* False: there are no more old counters to read. */
static bool asks_old_limit(struct authorization *a, const struct policy_limit *l)
{
    const struct old_limits *old = a->operation.engine_reactor->engine->old_limits;
    if (old == NULL || a->tools.now_ms > old->until_ms) return false;
    while (a->old_looked < old->window_count) {
        struct slot_key key = old_limit_slot_key(a->tools.hasher, a->ask.policy.tenant, l,
                                                 old->windows[a->old_looked++]);
        if (!old_limits_may_have(old, key)) continue;
        a->operation.call.limit.ask =
            (struct limit_request){.key = key, .is_old = true, .window_ms = l->window_ms};
        operation_call(&a->operation, CALL_COUNT, slot_of_key(key), old_limit_told);
        return true;
    }
    return false;
}

static void settle_dry(struct authorization *a)
{
    a->d.limits = limits_left_json(a->limits, a->told, a->limit_count, a->form == ASK_TOOL,
                                   a->operation.arena);
    shadow_limits_count(a, settle);
}

static void limit_counted(struct operation *e)
{
    struct authorization *a = of(e);
    a->old_looked = 0;
    a->before = (struct limit_used){0};
    if (e->call.err != ERR_OK) {
        fail(a, e->call.err);
        return;
    }
    if (a->tools.dry_run) {
        a->told[a->looked++] = e->call.limit.told;
        count_limits(a);
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

/* If there are several limits, all are checked before the first is counted. Otherwise a request
 * that one limit refuses would use up another limit's room meanwhile. */
static void count_limits(struct authorization *a)
{
    if (a->tools.dry_run && a->looked == a->limit_count) {
        settle_dry(a);
        return;
    }
    if (a->limit_count == 1 && !a->tools.dry_run) a->looked = 1;
    if (a->counted == a->limit_count) {
        shadow_limits_count(a, settle);
        return;
    }
    const struct policy_limit *l = &a->limits[limit_at_hand(a)];
    if (asks_old_limit(a, l)) return;
    struct limit_request *ask = &a->operation.call.limit.ask;
    *ask = limit_request_of(a, l);
    ask->before = a->before;
    ask->look_only = a->looked < a->limit_count;
    operation_call(&a->operation, CALL_COUNT, slot_of_key(ask->key), limit_counted);
}

/* No other redemption counts for this approval now, or none needs to any more. */
static void claimed(struct operation *e)
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
    /* its time was over before the other redemption finished */
    else if (!a->claimed)
        fail(a, ERR_OVERLOADED);
    else
        count_limits(a);
}

static void claim(struct authorization *a)
{
    struct call *c = &a->operation.call;
    c->review.id = a->review.id;
    c->review.deadline_ms = world_now_ms() + CLAIM_WAIT_MS;
    operation_call(&a->operation, CALL_CLAIM, slot_of_id(a->review.id), claimed);
}

/* A retry: the stricter of its first outcome and today's is answered, and nothing is counted. A
 * review was opened already, so it is not asked for again. */
static void evaluate_again(struct authorization *a)
{
    enum verdict now = a->d.outcome.verdict;
    bool first_stays =
        a->first.verdict < now || (a->first.verdict == now && now == VERDICT_HUMAN_REVIEW);
    a->d.replayed = true;
    if (!first_stays) {
        settle(a);
    } else if (a->first.has_record) {
        a->is_undecided = true; /* by this request */
        repeat_look(a, replay);
    } else {
        fail(a, ERR_OVERLOADED);
    }
}

static void evaluate(struct authorization *a)
{
    decide_evaluate(&a->d);
    const struct policy_outcome *o = &a->d.outcome;
    bool permits = o->verdict == VERDICT_ALLOW || o->verdict == VERDICT_COMPUTE;
    if (a->is_retry) {
        evaluate_again(a);
        return;
    }
    if (!permits || o->limit_count == 0) {
        shadow_limits_count(a, settle);
        return;
    }
    a->limits = o->limits;
    a->limit_count = o->limit_count;
    a->asked = arena_array(a->operation.arena, struct limit_request, a->limit_count);
    a->told = arena_array(a->operation.arena, struct limit_told, a->limit_count);
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

static void token_used(struct operation *e)
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

static void decide(struct authorization *a)
{
    const struct token_claims *token = a->caller.token;
    if (is_stopped(a)) {
        /* the explanation is of the state after a resume */
        if (a->tools.explain) decide_evaluate(&a->d);
        deny_stopped(a);
        settle(a);
        return;
    }
    /* A redemption ends a request: if that was made with this same token, its use was spent
     * then. The first request with an Idempotency-Key spent that of its retries. */
    if (token != NULL && token->counted && !a->tools.dry_run && !a->use_was_spent && !a->is_retry) {
        a->operation.call.token.id = token->id;
        a->operation.call.tenant = a->ask.policy.tenant;
        operation_call(&a->operation, CALL_SPEND, slot_of_id(token->id), token_used);
        return;
    }
    evaluate(a);
}

static void key_held(struct operation *e)
{
    struct authorization *a = of(e);
    if (e->call.err != ERR_OK) {
        fail(a, e->call.err);
        return;
    }
    a->holds_key = e->call.outcome.is_held;
    a->is_retry = !a->holds_key;
    if (a->is_retry) a->first = e->call.outcome.facts;
    decide(a);
}

static void hold_key(struct authorization *a)
{
    struct call *c = &a->operation.call;
    const struct requester asker = caller_operation_requester(&a->caller);
    enum err err =
        outcome_digest(a->tools.hasher, a->tools.keys, a->retry_header, &asker,
                       a->ask.policy.tenant, a->body, a->operation.arena, &a->first, &a->fault);
    if (err != ERR_OK) {
        authorization_refuse(a, &a->fault);
        return;
    }
    a->d.event.idempotency_key = a->retry_header;
    c->outcome.facts = a->first;
    operation_call(&a->operation, CALL_RETRY_BEGIN, slot_of_key(a->first.key), key_held);
}

void authorization_start(struct authorization *a)
{
    if (str_is_absent(a->retry_header) || a->tools.dry_run)
        decide(a);
    else
        hold_key(a);
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
    if (a->review.state == REVIEW_APPROVED)
        decide_deny(&a->d, "review:binding",
                    "The approval was given for another request than this one.");
    else if (a->review.state == REVIEW_CANCELLED)
        decide_deny(&a->d, "review:cancelled", approval_cancelled_reason(a->review.cancelled_by));
    else
        decide_deny(&a->d, states[a->review.state].rule, states[a->review.state].reason);
    settle_anew(a);
}

static bool is_out_of_scope(struct authorization *a)
{
    if (a->caller.token == NULL || a->described) return false;
    decide_evaluate(&a->d);
    if (str_equal(str_from(a->d.outcome.rule), STR("token:scope"))) return true;
    a->d.outcome = (struct policy_outcome){0};
    return false;
}

void authorization_conclude(struct authorization *a)
{
    const struct review_facts *r = &a->review;
    if (is_stopped(a)) { /* a suspended actor gets this decision before any other */
        deny_stopped(a);
        settle_anew(a);
    } else if (str_is_absent(r->redemption) || !retry_has_key(&a->retry, &r->retry_key)) {
        deny_unredeemable(a);
    } else if (!retry_has_body(&a->retry, &r->retry_body)) {
        a->is_undecided = true;
        (void)fault_plain(&a->fault, ERR_IDEMPOTENCY_MISMATCH);
        give_back(a, refuse_kept_fault);
    } else if (!a->is_same) { /* the same body, which with this credential is of another actor */
        deny_unredeemable(a);
    } else if (is_out_of_scope(a)) {
        settle_anew(a);
    } else {
        a->is_undecided = true; /* by this request */
        give_back(a, replay);
    }
}
