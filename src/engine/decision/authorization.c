#include "engine/decision/authorization.h"
#include "engine/handlers.h"

#include "base/check.h"
#include "base/limits.h"
#include "base/planted.h"
#include "engine/runtime/caller_operation.h"
#include "engine/decision/digest.h"
#include "engine/decision/limits_left.h"
#include "engine/decision/old_limits.h"
#include "engine/runtime/sight.h"
#include "engine/decision/traced.h"
#include "pipeline/spans/trace_context.h"
#include "shards/delta.h"

enum {
    LIMITS_PER_REQUEST_MAX = LIMIT_LIMITS_PER_REQUEST,
    SPENT_BYTES_MAX = LIMIT_DELTA_BYTES, /* their lines */
    SHADOW_BYTES = 1 << 10,              /* what an arena takes beside the arrays */
};

static inline struct authorization *of(struct operation *e) { return authorization_of(e); }

/* ---- what holds ---- */

static void limit_counting_check(const struct limit_counting *l)
{
    check(l->counted <= l->count && l->at <= l->count && l->count <= LIMITS_PER_REQUEST_MAX);
    check(l->count == 0 || (l->asked != NULL && l->told != NULL && l->limits != NULL));
}

void authorization_check(const struct authorization *a)
{
    const bool is_redemption = a->kind == AUTHORIZATION_REDEMPTION;
    limit_counting_check(&a->limits);
    limit_counting_check(&a->shadow);
    check((a->holds & HOLD_CLAIM) == 0 || is_redemption);
    check((a->holds & HOLD_KEY) == 0 || a->kind == AUTHORIZATION_FIRST);
    check((a->holds & HOLD_OUTCOME) == 0 || (a->holds & HOLD_KEY) != 0);
    check((a->holds & HOLD_USE) == 0 || a->operation.caller.token != NULL);
    check(a->tools.dry_run ? a->holds == 0 && a->limits.counted == 0 && a->shadow.counted == 0
                           : !a->tools.explain);
}

/* ---- begin ---- */

void *authorization_begin(struct engine_reactor *w, struct http_exchange *x, size_t size)
{
    struct authorization *a = operation_begin(w, x, size);
    if (a == NULL) return NULL;
    a->approved_below = UINT64_MAX;
    a->tools = (struct decide_tools){.hasher = w->api.hasher,
                                     .memory = w->memory,
                                     .keys = &w->engine->digest_keys,
                                     .chance = &w->api.chance,
                                     .now_ms = world_now_ms(),
                                     .steps = w->engine->config.policy_steps,
                                     .started_ns = world_monotonic_ns()};
    check(a->kind == AUTHORIZATION_FIRST && a->holds == 0);
    struct str traceparent = traced_header(x);
    if (!str_is_absent(traceparent)) a->traceparent = arena_copy(a->operation.arena, traceparent);
    return a;
}

void authorization_renew(struct authorization *a)
{
    authorization_check(a);
    check((a->holds & HOLD_KEY) == 0 && a->parent != NULL);
    const size_t kept = offsetof(struct authorization, ask);
    memset((char *)a + kept, 0, sizeof *a - kept);
    a->operation.call = (struct call){0};
    a->approved_below = UINT64_MAX;
    a->tools.now_ms = world_now_ms();
    a->tools.started_ns = world_monotonic_ns();
}

enum err authorization_may(const struct authorization *a, struct fault *f)
{
    const struct caller *c = &a->operation.caller;
    check(c->key != NULL && a->form <= ASK_USER);
    uint32_t needed = a->form == ASK_USER ? ROLE_APP : ROLE_AGENT;
    bool may = c->token != NULL ? a->form != ASK_USER : (c->key->roles & needed) != 0;
    if (may) return ERR_OK;
    return fault_set(f, ERR_MISSING_ROLE, "", "this needs a key with the role %s",
                     role_name((enum role)needed));
}

enum err authorization_read(struct authorization *a, struct str trace_id, struct fault *f)
{
    struct caller *caller = &a->operation.caller;
    check(a->body != NULL && a->d.ask == NULL);
    struct auth_request_source source = {.form = a->form,
                                         .dry_run = a->tools.dry_run,
                                         .arena = a->operation.arena,
                                         .chance = &a->operation.engine_reactor->api.chance,
                                         .traceparent = a->traceparent,
                                         .trace_id = trace_id};
    enum err err = auth_request_read(&source, caller, a->body, &a->ask, f);
    if (err != ERR_OK) return err;
    a->tools.policies = bundle_policies(a->operation.bundle, caller->tenant);
    decide_begin(&a->d, &a->tools, caller, &a->ask, a->operation.arena);
    return ERR_OK;
}

static enum step_result read_body(struct operation *e)
{
    struct fault f;
    if (authorization_read(of(e), (struct str){0}, &f) != ERR_OK)
        return authorization_refuse(e, &f);
    return STEP_NEXT;
}

/* ---- the route: three, with a form each ---- */

/* A dry run or an explanation shows how policies work. So it takes the roles that may read them,
 * which no agent has. An explanation is never a live decision. */
static enum err admit(struct authorization *a, struct http_exchange *x, struct fault *f)
{
    struct engine_reactor *w = a->operation.engine_reactor;
    enum err err = api_flag(x, STR("dry_run"), &a->tools.dry_run, f);
    if (err == ERR_OK) err = api_flag(x, STR("explain"), &a->tools.explain, f);
    if (err != ERR_OK) return err;
    a->tools.dry_run = a->tools.dry_run || a->tools.explain;
    uint32_t roles =
        a->tools.dry_run ? ROLE_POLICY_ADMIN | ROLE_AUDITOR | ROLE_ADMIN : x->route->roles;
    return api_admit(&w->api, x, roles, a->tools.now_ms, &a->operation.caller, f);
}

void authorize_handle(void *context, struct http_exchange *x)
{
    struct authorization *a = authorization_begin(context, x, sizeof *a);
    if (a == NULL) return;
    struct fault f;
    a->form = *(const enum auth_request_form *)x->route->extra;
    enum err err = admit(a, x, &f);
    struct str retry = http_header_get(x, STR("idempotency-key"));
    if (!str_is_absent(retry)) a->retry_header = arena_copy(a->operation.arena, retry);
    if (err == ERR_OK) err = api_body(x, &a->body, &f);
    if (err == ERR_OK)
        operation_start(&a->operation, &authorization_process,
                        sight_is_needed(&a->operation) ? AUTH_CONFIRM_TOKEN : AUTH_READ);
    else
        authorization_refuse(&a->operation, &f);
}

/* ---- end ---- */

static void count_outcome(struct authorization *a)
{
    static const enum metric outcomes[] = {[VERDICT_DENY] = METRIC_DECISIONS_DENY,
                                           [VERDICT_HUMAN_REVIEW] = METRIC_DECISIONS_HUMAN_REVIEW,
                                           [VERDICT_COMPUTE] = METRIC_DECISIONS_COMPUTE,
                                           [VERDICT_ALLOW] = METRIC_DECISIONS_ALLOW};
    check(a->d.outcome.verdict < sizeof outcomes / sizeof *outcomes);
    struct metrics_sheet *sheet = a->operation.engine_reactor->sheet;
    metric_add(sheet, a->tools.dry_run ? METRIC_DRY_RUNS : outcomes[a->d.outcome.verdict], 1);
    metric_observe(sheet, HISTOGRAM_DECIDE, a->d.latency_ns);
}

enum step_result authorization_send(struct authorization *a)
{
    struct operation *e = &a->operation;
    authorization_check(a);
    check(!str_is_absent(a->d.answer));
    traced_answer(a);
    if (a->parent != NULL) return operation_enter(e, a->parent, a->parent_step);
    return operation_reply(e, 200, a->d.answer, a->d.event.request_id);
}

static enum step_result answer(struct operation *e)
{
    struct authorization *a = of(e);
    authorization_check(a);
    check((a->holds & HOLD_KEY) == 0);
    check(authorization_permits(a) || a->limits.counted == 0);
    count_outcome(a);
    return authorization_send(a);
}

enum step_result authorization_refuse(struct operation *e, const struct fault *f)
{
    struct authorization *a = of(e);
    check(f->err != ERR_OK);
    struct trace_context caller; /* where the body was not read */
    if (str_is_absent(a->ask.trace_id) && trace_context_read(a->traceparent, &caller))
        a->ask.trace_id = caller.trace_text;
    traced_refusal(a, f);
    if (a->parent == NULL) return operation_refuse(e, f, a->ask.trace_id);
    a->fault = *f;
    return operation_enter(e, a->parent, a->parent_step);
}

static enum step_result refuse(struct operation *e)
{
    struct authorization *a = of(e);
    authorization_check(a);
    check(a->fault.err != ERR_OK);
    check(a->holds == 0 && a->limits.counted == 0 && a->shadow.counted == 0);
    const struct fault f = a->fault;
    return authorization_refuse(e, &f);
}

/* Makes the text for the error. */
static enum step_result fail(struct operation *e)
{
    struct authorization *a = of(e);
    const enum err err = a->fault.err;
    authorization_check(a);
    check(err != ERR_OK);
    if (err_status(err) == 401)
        auth_failed_note_ended(e->engine_reactor, e->caller.key->id, e->caller.token, &e->client,
                               err);
    if (err == ERR_FULL)
        (void)fault_set(
            &a->fault, ERR_OVERLOADED, "",
            "the journal has no free block, because records wait for the disk; try again later");
    else if (err_status(err) == 429)
        (void)fault_quota(&a->fault, err, &a->operation.call.quota);
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
    return authorization_undo(a, UNDO_ALL, AUTH_REFUSE);
}

/* ---- undo ---- */

/* Makes the call that gives back the newest count. False: there is none. */
static bool undo_count(struct authorization *a, struct limit_counting *l, unsigned *ret_slot)
{
    struct call *c = &a->operation.call;
    if (l->counted == 0) return false;
    limit_counting_check(l);
    l->counted--;
    c->limit.ask = l->asked[l->counted];
    c->limit.told = l->told[l->counted];
    *ret_slot = slot_of_key(c->limit.ask.key);
    return true;
}

static bool undo_counts(struct authorization *a, unsigned *ret_slot)
{
    return undo_count(a, &a->limits, ret_slot);
}

static bool undo_shadow(struct authorization *a, unsigned *ret_slot)
{
    return undo_count(a, &a->shadow, ret_slot);
}

/* Whether it held this, which it holds no more. */
static bool let_go(struct authorization *a, enum authorization_hold what)
{
    bool held = (a->holds & what) != 0;
    a->holds &= ~(unsigned)what;
    return held;
}

static bool undo_claim(struct authorization *a, unsigned *ret_slot)
{
    a->operation.call.review.id = a->review.id;
    *ret_slot = slot_of_id(a->review.id);
    return let_go(a, HOLD_CLAIM);
}

static bool undo_use(struct authorization *a, unsigned *ret_slot)
{
    if (!let_go(a, HOLD_USE)) return false;
    check(a->operation.caller.token->counted);
    a->operation.call.token.id = a->operation.caller.token->id;
    *ret_slot = slot_of_id(a->operation.caller.token->id);
    return true;
}

static bool undo_key(struct authorization *a, unsigned *ret_slot)
{
    a->operation.call.outcome.facts = a->first;
    *ret_slot = slot_of_key(a->first.key);
    a->holds &= ~(unsigned)HOLD_OUTCOME;
    return let_go(a, HOLD_KEY);
}

static const struct {
    enum authorization_hold hold;
    enum call_kind call;
    bool (*undo)(struct authorization *a, unsigned *ret_slot);
} undo_list[] = {{HOLD_COUNTS, CALL_UNCOUNT, undo_counts},
                 {HOLD_SHADOW, CALL_UNCOUNT, undo_shadow},
                 {HOLD_CLAIM, CALL_UNCLAIM, undo_claim},
                 {HOLD_USE, CALL_UNSPEND, undo_use},
                 {HOLD_KEY, CALL_RETRY_DROP, undo_key}};

static enum step_result undo(struct operation *e)
{
    struct authorization *a = of(e);
    unsigned slot = 0;
    authorization_check(a);
    for (size_t i = 0; i < sizeof undo_list / sizeof *undo_list; i++)
        if ((a->undoes & undo_list[i].hold) != 0 && undo_list[i].undo(a, &slot) &&
            !(planted("undo_forgotten") && undo_list[i].hold == HOLD_COUNTS))
            return operation_call(e, undo_list[i].call, slot);
    return authorization_go(a, a->behind_undo);
}

static enum step_result undone(struct operation *e) { return operation_go(e, AUTH_UNDO); }

/* ---- the Idempotency-Key ---- */

_Static_assert(VERDICT_ALLOW + 1 == RETRY_VERDICTS && VERDICT_DENY < VERDICT_HUMAN_REVIEW &&
                   VERDICT_HUMAN_REVIEW < VERDICT_COMPUTE && VERDICT_COMPUTE < VERDICT_ALLOW,
               "the stricter of two verdicts is the smaller");

static enum step_result hold_key(struct operation *e)
{
    struct authorization *a = of(e);
    authorization_check(a);
    check(a->holds == 0 && a->kind == AUTHORIZATION_FIRST);
    if (str_is_absent(a->retry_header) || a->tools.dry_run) return STEP_NEXT;
    const struct requester asker = caller_operation_requester(&e->caller);
    struct fault f;
    enum err err = outcome_digest(a->tools.hasher, a->tools.keys, a->retry_header, &asker,
                                  a->ask.policy.tenant, a->body, e->arena, &a->first, &f);
    if (err != ERR_OK) return authorization_refuse(e, &f);
    a->d.event.idempotency_key = a->retry_header;
    e->call.outcome.facts = a->first;
    return operation_call(e, CALL_RETRY_BEGIN, slot_of_key(a->first.key));
}

static enum step_result key_held(struct operation *e)
{
    struct authorization *a = of(e);
    check(e->call.kind == CALL_RETRY_BEGIN && a->holds == 0);
    if (e->call.err != ERR_OK) return authorization_fail(a, e->call.err);
    if (e->call.outcome.is_held) {
        a->holds |= HOLD_KEY;
    } else {
        a->kind = AUTHORIZATION_RETRY;
        a->first = e->call.outcome.facts;
    }
    return STEP_NEXT;
}

/* Until what the decision counted, spent or enqueued is on the disk. */
static enum step_result sync_outcome(struct operation *e)
{
    return (of(e)->holds & HOLD_OUTCOME) != 0 ? operation_when_synced(e) : STEP_NEXT;
}

static enum step_result next(struct operation *e)
{
    (void)e;
    return STEP_NEXT;
}

static enum step_result release_key(struct operation *e)
{
    struct authorization *a = of(e);
    const bool keeps = (a->holds & HOLD_OUTCOME) != 0;
    if ((a->holds & HOLD_KEY) == 0) return STEP_NEXT;
    authorization_check(a);
    a->holds &= ~(unsigned)(HOLD_KEY | HOLD_OUTCOME);
    e->call.outcome.facts = a->first;
    return operation_call(e, keeps ? CALL_RETRY_KEEP : CALL_RETRY_DROP, slot_of_key(a->first.key));
}

/* ---- the actor and its token ---- */

bool authorization_is_stopped(const struct authorization *a)
{
    const struct policy_request *p = &a->ask.policy;
    return p->kind == SUBJECT_AGENT &&
           engine_reactor_actor_is_suspended(a->operation.engine_reactor, p->tenant, p->actor);
}

void authorization_deny_stopped(struct authorization *a)
{
    decide_deny(&a->d, "actor:suspended", "This actor is suspended.");
}

/* People's decisions, by an application's key, need no lease: no revocation of state ends them. */
static bool needs_lease(const struct authorization *a)
{
    return a->operation.engine_reactor->engine->member != NULL && !a->tools.dry_run &&
           a->ask.policy.kind == SUBJECT_AGENT;
}

static bool is_admitted(const struct authorization *a)
{
    return !needs_lease(a) || fleet_member_admits(a->operation.engine_reactor->engine->member);
}

static enum step_result check_actor(struct operation *e)
{
    struct authorization *a = of(e);
    if (!is_admitted(a)) return authorization_fail(a, ERR_FLEET_STALE);
    if (!authorization_is_stopped(a)) return STEP_NEXT;
    enum err err = a->tools.dry_run ? ERR_OK : operation_look(e);
    if (err != ERR_OK) return authorization_fail(a, err);
    /* the explanation is of the state after a resume: evaluated() denies */
    if (a->tools.explain) return authorization_go(a, AUTH_EVALUATE);
    authorization_deny_stopped(a);
    return authorization_go(a, AUTH_SETTLE);
}

/* A redemption ends a request: if that was made with this same token, its use was spent then. The
 * first request with an Idempotency-Key spent that of its retries. */
static enum step_result spend_token(struct operation *e)
{
    struct authorization *a = of(e);
    const struct token_claims *token = e->caller.token;
    check((a->holds & (HOLD_USE | HOLD_CLAIM)) == 0 && a->limits.counted == 0);
    if (token == NULL || !token->counted || a->tools.dry_run || a->use_was_spent ||
        a->kind == AUTHORIZATION_RETRY)
        return STEP_NEXT;
    e->call.token.id = token->id;
    e->call.tenant = a->ask.policy.tenant;
    return operation_call(e, CALL_SPEND, slot_of_id(token->id));
}

static enum step_result token_spent(struct operation *e)
{
    struct authorization *a = of(e);
    check(e->call.kind == CALL_SPEND && (a->holds & HOLD_USE) == 0);
    if (e->call.err != ERR_OK) return authorization_fail(a, e->call.err);
    switch (e->call.token.use) {
    case TOKEN_SPENT: a->holds |= HOLD_USE; return STEP_NEXT;
    case TOKEN_NONE_LEFT:
        decide_deny(&a->d, "token:uses", "No use of this token is left.");
        return authorization_go(a, AUTH_SETTLE);
    case TOKEN_DEAD: break;
    }
    return authorization_fail(a, ERR_CREDENTIAL_REVOKED);
}

/* The request waited on another reactor. Its actor's suspension and its token's end are checked
 * again before its decision is recorded or repeated. */
static bool was_away(const struct authorization *a)
{
    return a->operation.x == NULL && !a->tools.dry_run;
}

bool authorization_token_died(const struct authorization *a)
{
    const struct operation *e = &a->operation;
    return was_away(a) && e->caller.token != NULL &&
           engine_reactor_token_is_dead(e->engine_reactor, e->caller.token);
}

/* ---- evaluate ---- */

/* A retry: the stricter of its first outcome and today's is answered, and nothing is counted. A
 * review was opened already, so it is not asked for again. */
static enum step_result evaluate_again(struct authorization *a)
{
    enum verdict now = a->d.outcome.verdict;
    check((a->holds & HOLD_USE) == 0 && a->limits.count == 0);
    bool first_stays =
        a->first.verdict < now || (a->first.verdict == now && now == VERDICT_HUMAN_REVIEW);
    a->d.replayed = true;
    if (!first_stays) return authorization_go(a, AUTH_SETTLE);
    if (a->first.has_record) return authorization_go(a, AUTH_LOOK_AGAIN);
    return authorization_fail(a, ERR_OVERLOADED);
}

static bool counting_begin(struct authorization *a, struct limit_counting *l,
                           const struct policy_limit *limits, size_t count)
{
    check(l->count == 0 && count > 0);
    l->asked = arena_array(a->operation.arena, struct limit_request, count);
    l->told = arena_array(a->operation.arena, struct limit_told, count);
    if (l->asked == NULL || l->told == NULL) return false;
    l->limits = limits;
    l->count = count;
    for (size_t i = 0; i < count; i++)
        l->asked[i] = (struct limit_request){
            .key = limit_slot_key(a->tools.hasher, a->ask.policy.tenant, &limits[i]),
            .tenant = a->ask.policy.tenant,
            .asker = a->operation.caller.key->id,
            .window_ms = limits[i].window_ms,
            .count_max = limits[i].count_max,
            .has_max = limits[i].has_max,
            .amount_max = limits[i].amount_max,
            .amount = limits[i].amount,
            .let_through = limits[i].over == VERDICT_ALLOW,
            .is_shadow = limits[i].is_shadow};
    return true;
}

/* With the outcome. */
static enum step_result weigh(struct authorization *a)
{
    check(a->limits.count == 0 && a->shadow.count == 0);
    const struct policy_outcome *o = &a->d.outcome;
    if (a->kind == AUTHORIZATION_RETRY) return evaluate_again(a);
    if (!authorization_permits(a) || o->limit_count == 0)
        return authorization_go(a, o->shadow_limit_count == 0 ? AUTH_SETTLE : AUTH_CHECK_SHADOW);
    if (o->limit_count > LIMITS_PER_REQUEST_MAX ||
        !counting_begin(a, &a->limits, o->limits, o->limit_count)) {
        decide_deny(&a->d, "limit:record",
                    "More limits apply to this request than may be counted at once.");
        return authorization_go(a, AUTH_SETTLE);
    }
    return authorization_go(a,
                            a->kind == AUTHORIZATION_REDEMPTION ? AUTH_CLAIM : AUTH_OLD_COUNTERS);
}

static void evaluate_aside(struct operation *e) { decide_evaluate(&of(e)->d); }

/* A dry run changes nothing, so it may wait; an explanation evaluates every rule. */
static enum step_result evaluate(struct operation *e)
{
    struct authorization *a = of(e);
    if (a->tools.dry_run) return operation_offload(e, evaluate_aside, &a->fault);
    decide_evaluate(&a->d);
    return weigh(a);
}

static enum step_result evaluated(struct operation *e)
{
    struct authorization *a = of(e);
    check(a->tools.dry_run);
    if (e->call.err != ERR_OK) return authorization_undo(a, UNDO_ALL, AUTH_REFUSE);
    if (!authorization_is_stopped(a)) return weigh(a);
    authorization_deny_stopped(a);
    return authorization_go(a, AUTH_SETTLE);
}

/* ---- a replica of a fleet ---- */

/* A "no" of this copy may be out of date; the leader is asked, to a bound. */
static bool is_worth_asking(struct authorization *a)
{
    struct relaying *r = &a->operation.engine_reactor->relaying;
    return relaying_asks(r, a->operation.caller.key->id, a->tools.now_ms);
}

bool authorization_touches_state(struct authorization *a)
{
    const struct token_claims *token = a->operation.caller.token;
    /* a dry run shows counts, and may take long: it is the leader's */
    if (a->tools.dry_run || !str_is_absent(a->retry_header) || (token != NULL && token->counted))
        return true;
    if (authorization_is_stopped(a)) return is_worth_asking(a);
    decide_evaluate(&a->d);
    const struct policy_outcome *o = &a->d.outcome;
    if (authorization_permits(a) && o->limit_count > 0) return true;
    return o->shadow_limit_count > 0 || o->verdict == VERDICT_HUMAN_REVIEW;
}

static enum step_result follow(struct operation *e)
{
    struct authorization *a = of(e);
    if (!e->engine_reactor->relaying.follows) return STEP_NEXT;
    if (!is_admitted(a)) return authorization_fail(a, ERR_FLEET_STALE);
    const bool touches = authorization_touches_state(a);
    if (touches && a->parent == NULL) return operation_relay(e);
    /* an item of a batch, of which none touched state a moment ago */
    if (touches) return authorization_fail(a, ERR_LEADER_CHANGED);
    if (authorization_is_stopped(a)) authorization_deny_stopped(a);
    return authorization_go(a, AUTH_SETTLE);
}

/* ---- limits ---- */

static enum step_result count_call(struct operation *e, const struct limit_request *ask,
                                   bool look_only)
{
    check(ask->window_ms > 0);
    e->call.limit.ask = *ask;
    e->call.limit.ask.look_only = look_only;
    return operation_call(e, CALL_COUNT, slot_of_key(ask->key));
}

/* The next counter that an earlier program made for one of the limits, see old_limits.h. */
static enum step_result read_old(struct operation *e)
{
    struct authorization *a = of(e);
    struct limit_counting *l = &a->limits;
    const struct old_limits *old = e->engine_reactor->engine->old_limits;
    if (old == NULL || a->tools.now_ms > old->until_ms) return STEP_NEXT;
    for (; l->at < l->count; l->at++, a->old_at = 0) {
        const struct policy_limit *limit = &l->limits[l->at];
        while (a->old_at < old->window_count) {
            struct slot_key key = old_limit_slot_key(a->tools.hasher, a->ask.policy.tenant, limit,
                                                     old->windows[a->old_at++]);
            if (!old_limits_may_have(old, key)) continue;
            const struct limit_request ask = {
                .key = key, .is_old = true, .window_ms = limit->window_ms};
            return count_call(e, &ask, false);
        }
    }
    l->at = 0;
    return STEP_NEXT;
}

static enum step_result old_read(struct operation *e)
{
    struct authorization *a = of(e);
    check(e->call.kind == CALL_COUNT && a->limits.at < a->limits.count);
    check(a->limits.counted == 0);
    if (e->call.err != ERR_OK) return authorization_fail(a, e->call.err);
    limit_used_add(&a->limits.asked[a->limits.at].before, &e->call.limit.told.used);
    return authorization_go(a, AUTH_OLD_COUNTERS);
}

static enum step_result over_limit(struct authorization *a, size_t limit)
{
    check(limit < a->limits.count);
    policy_over_limit(&a->limits.limits[limit], a->operation.arena, &a->d.outcome);
    return authorization_undo(a, UNDO_COUNTED, AUTH_SETTLE);
}

/* If there are several limits, all are checked before the first is counted. Otherwise a request
 * that one limit refuses would use up another limit's room meanwhile. */
static enum step_result check_limits(struct operation *e)
{
    struct authorization *a = of(e);
    struct limit_counting *l = &a->limits;
    limit_counting_check(l);
    check(l->counted == 0);
    if (l->at < l->count && (l->count > 1 || a->tools.dry_run))
        return count_call(e, &l->asked[l->at], true);
    if (!a->tools.dry_run) return STEP_NEXT;
    a->d.limits = limits_left_json(l->limits, l->told, l->count, a->form == ASK_TOOL, e->arena);
    return authorization_go(a, AUTH_CHECK_SHADOW);
}

static enum step_result limit_checked(struct operation *e)
{
    struct authorization *a = of(e);
    struct limit_counting *l = &a->limits;
    check(e->call.kind == CALL_COUNT && l->at < l->count && l->counted == 0);
    if (e->call.err != ERR_OK) return authorization_fail(a, e->call.err);
    if (a->tools.dry_run)
        l->told[l->at] = e->call.limit.told;
    else if (!e->call.limit.told.counted)
        return over_limit(a, l->at);
    l->at++;
    return authorization_go(a, AUTH_CHECK_LIMITS);
}

static enum step_result count_limits(struct operation *e)
{
    struct authorization *a = of(e);
    struct limit_counting *l = &a->limits;
    limit_counting_check(l);
    check(!a->tools.dry_run);
    if (planted("step_skipped")) return STEP_NEXT;
    if (l->counted < l->count) return count_call(e, &l->asked[l->counted], false);
    return authorization_go(a,
                            a->d.outcome.shadow_limit_count == 0 ? AUTH_SETTLE : AUTH_CHECK_SHADOW);
}

/* The counter's answer becomes part of what is recorded, or given back. */
static void keep_count(struct limit_counting *l, const struct call *c)
{
    check(l->counted < l->count);
    l->asked[l->counted] = c->limit.ask;
    l->told[l->counted] = c->limit.told;
    l->counted++;
}

static enum step_result limit_counted(struct operation *e)
{
    struct authorization *a = of(e);
    check(e->call.kind == CALL_COUNT && a->limits.counted < a->limits.count);
    if (e->call.err != ERR_OK) return authorization_fail(a, e->call.err);
    if (!e->call.limit.told.counted) return over_limit(a, a->limits.counted);
    keep_count(&a->limits, &e->call);
    return authorization_go(a, AUTH_COUNT_LIMITS);
}

/* ---- limits of shadow documents ----
 *
 * Counts what these would let through, so that `would_have` shows what their limits would do. These
 * counters are in the memory of the owners, apart from those in force: no record and no snapshot has
 * them, so they begin with zero when the engine starts. A request that finds no room there is not
 * counted. Only decisions to which such a limit applies wait for them. */

/* The memory does not reduce that of the decision. False: there is none. */
static bool shadow_begin(struct authorization *a)
{
    const struct policy_outcome *o = &a->d.outcome;
    struct arena *arena = a->operation.arena;
    size_t count = o->shadow_limit_count;
    if (count == 0 || count > LIMIT_LIMITS_PER_REQUEST) return false;
    const size_t each = sizeof *a->shadow.asked + sizeof *a->shadow.told;
    struct arena before = arena_begin_aside(arena, count * each + SHADOW_BYTES);
    const bool has_room = counting_begin(a, &a->shadow, o->shadow_limits, count);
    return arena_keep_aside(arena, &before) && has_room;
}

/* If there are several, all are checked before the first one counts. A dry run only looks. */
static enum step_result check_shadow(struct operation *e)
{
    struct authorization *a = of(e);
    struct limit_counting *l = &a->shadow;
    limit_counting_check(l);
    check(l->counted == 0);
    if (l->count == 0 && !shadow_begin(a)) return authorization_go(a, AUTH_SETTLE);
    if (l->at < l->count && (l->count > 1 || a->tools.dry_run))
        return count_call(e, &l->asked[l->at], true);
    return a->tools.dry_run ? authorization_go(a, AUTH_SETTLE) : STEP_NEXT;
}

static enum step_result count_shadow(struct operation *e)
{
    const struct limit_counting *l = &of(e)->shadow;
    limit_counting_check(l);
    check(!of(e)->tools.dry_run);
    return l->counted < l->count ? count_call(e, &l->asked[l->counted], false) : STEP_NEXT;
}

/* If one is over, nothing stays counted, and the outcome's would_have is its. */
static enum step_result shadow_is_over(struct authorization *a, size_t limit)
{
    check(limit < a->shadow.count);
    const struct call *c = &a->operation.call;
    if (c->err == ERR_OK)
        policy_over_shadow_limit(&a->d.outcome.shadow_limits[limit], &a->d.outcome);
    return authorization_undo(a, HOLD_SHADOW, AUTH_SETTLE);
}

static enum step_result shadow_checked(struct operation *e)
{
    struct authorization *a = of(e);
    check(e->call.kind == CALL_COUNT && a->shadow.counted == 0);
    if (e->call.err != ERR_OK || !e->call.limit.told.counted)
        return shadow_is_over(a, a->shadow.at);
    a->shadow.at++;
    return authorization_go(a, AUTH_CHECK_SHADOW);
}

static enum step_result shadow_counted(struct operation *e)
{
    struct authorization *a = of(e);
    check(e->call.kind == CALL_COUNT && a->shadow.counted < a->shadow.count);
    if (e->call.err != ERR_OK || !e->call.limit.told.counted)
        return shadow_is_over(a, a->shadow.counted);
    keep_count(&a->shadow, &e->call);
    return authorization_go(a, AUTH_COUNT_SHADOW);
}

/* ---- settle and record ---- */

static enum step_result settle(struct operation *e)
{
    struct authorization *a = of(e);
    authorization_check(a);
    const struct policy_request *p = &a->ask.policy;
    decide_describe(&a->d);
    if (a->d.outcome.verdict == VERDICT_HUMAN_REVIEW)
        a->d.slot = slot_of_subject(a->tools.hasher, p->tenant, p->kind == SUBJECT_USER,
                                    p->kind == SUBJECT_USER ? p->user : p->actor);
    if (decide_settle(&a->d, &a->fault) != ERR_OK)
        return authorization_undo(a, UNDO_ALL, AUTH_REFUSE);
    if (a->limits.counted > 0 &&
        !authorization_permits(a)) /* it became a deny, which counts nothing */
        return authorization_undo(a, UNDO_COUNTED, AUTH_SETTLE);
    return STEP_NEXT;
}

/* The entry for the decision's record. */
static void put_outcome(struct authorization *a, struct buf *out)
{
    check((a->holds & HOLD_OUTCOME) != 0 && !str_is_absent(a->d.record));
    enum verdict v = a->d.outcome.verdict;
    a->first.at_ms = a->tools.now_ms;
    a->first.verdict = v;
    a->first.has_record = v != VERDICT_ALLOW;
    a->first.record = v != VERDICT_ALLOW ? a->d.record : (struct str){0};
    delta_put_kept(out, &a->first);
}

struct str authorization_spent(struct authorization *a)
{
    authorization_check(a);
    const bool asks = a->d.outcome.verdict == VERDICT_HUMAN_REVIEW && !a->tools.asks_nobody;
    const bool has_use = (a->holds & HOLD_USE) != 0;
    const bool spends = has_use || a->limits.counted > 0;
    a->holds &= ~(unsigned)HOLD_OUTCOME;
    /* an approval that can be redeemed spends nothing, and asks no person */
    if ((a->holds & HOLD_KEY) != 0 && (spends || asks) && !a->d.review_is_approved)
        a->holds |= HOLD_OUTCOME;
    if (!spends && (a->holds & HOLD_OUTCOME) == 0) return (struct str){0};
    char *bytes = arena_bytes(a->operation.arena, SPENT_BYTES_MAX);
    if (bytes == NULL) return (struct str){0};
    struct buf b = buf_over(bytes, SPENT_BYTES_MAX);
    if (has_use) delta_put_spent(&b, a->operation.caller.token->id, 1);
    for (size_t i = 0; i < a->limits.counted; i++)
        delta_put_counted(&b, &a->limits.asked[i], &a->limits.told[i]);
    if ((a->holds & HOLD_OUTCOME) != 0) put_outcome(a, &b);
    check(!b.overflow);
    return buf_view(&b);
}

static enum step_result record_here(struct authorization *a)
{
    struct engine_reactor *w = a->operation.engine_reactor;
    const struct effect_record one = {.event = a->d.record, .delta = authorization_spent(a)};
    struct http_barrier barrier;
    if (a->operation.arena->overflow) return authorization_fail(a, ERR_INTERNAL);
    if (needs_lease(a) && !fleet_member_records(w->engine->member))
        return authorization_fail(a, ERR_FLEET_STALE);
    /* records that change a token or a limit are always synced */
    const enum commit_lane lane =
        operation_lane(&a->operation, one.delta.size > 0 ? LANE_SYNCED : LANE_WRITTEN);
    enum err err = commit_records(&w->commit, &one, 1, lane, &barrier);
    if (!engine_reactor_has_room(w)) http_server_hold(w->server, true);
    if (err != ERR_OK) return authorization_fail(a, err);
    operation_barrier(&a->operation, barrier);
    operation_recorded(&a->operation, one.event.size + one.delta.size);
    return authorization_go(a, (a->holds & HOLD_KEY) != 0 ? AUTH_SYNC : AUTH_ANSWER);
}

static enum step_result record(struct operation *e)
{
    struct authorization *a = of(e);
    const enum verdict v = a->d.outcome.verdict;
    authorization_check(a);
    check(!str_is_absent(a->d.record) && !str_is_absent(a->d.answer));
    check(v != VERDICT_DENY || a->limits.counted == 0);
    if (v != VERDICT_DENY && authorization_token_died(a))
        return authorization_fail(a, ERR_CREDENTIAL_REVOKED);
    if (v != VERDICT_DENY && was_away(a) && authorization_is_stopped(a)) {
        authorization_deny_stopped(a);
        return authorization_undo(a, UNDO_COUNTED, AUTH_SETTLE);
    }
    if (!a->tools.dry_run && !a->tools.asks_nobody && v == VERDICT_HUMAN_REVIEW)
        return authorization_go(a, a->d.has_review ? AUTH_SHARE : AUTH_ENQUEUE);
    if (a->kind == AUTHORIZATION_REDEMPTION && authorization_permits(a))
        return authorization_go(a, AUTH_REDEEM);
    return record_here(a);
}

/* ---- the process ---- */

static const struct step steps[] = {
    [AUTH_CONFIRM_TOKEN] = SIGHT_STEP,
    [AUTH_READ] = {"read", read_body, NULL},
    [AUTH_FOLLOW] = {"relay what touches state", follow, NULL},
    [AUTH_HOLD_KEY] = {"hold the key", hold_key, key_held},
    [AUTH_CHECK_ACTOR] = {"check the actor", check_actor, NULL},
    [AUTH_SPEND_TOKEN] = {"spend the token", spend_token, token_spent},
    [AUTH_EVALUATE] = {"evaluate", evaluate, evaluated},
    [AUTH_CLAIM] = {"claim the approval", authorization_claim, authorization_claimed},
    [AUTH_OLD_COUNTERS] = {"read old counters", read_old, old_read},
    [AUTH_CHECK_LIMITS] = {"check limits", check_limits, limit_checked},
    [AUTH_COUNT_LIMITS] = {"count limits", count_limits, limit_counted},
    [AUTH_CHECK_SHADOW] = {"check shadow limits", check_shadow, shadow_checked},
    [AUTH_COUNT_SHADOW] = {"count shadow limits", count_shadow, shadow_counted},
    [AUTH_SETTLE] = {"settle", settle, NULL},
    [AUTH_RECORD] = {"record", record, NULL},
    [AUTH_ENQUEUE] = {"enqueue", authorization_enqueue, authorization_enqueued},
    [AUTH_SHARE] = {"share the review", authorization_share, authorization_shared},
    [AUTH_REDEEM] = {"redeem", authorization_redeem, authorization_redeemed},
    [AUTH_SYNC] = {"wait for the disk", sync_outcome, next},
    [AUTH_RELEASE_KEY] = {"release the key", release_key, next},
    [AUTH_ANSWER] = {"answer", answer, NULL},
    [AUTH_LOOK_AGAIN] = {"look at the first review", authorization_look_again,
                         authorization_looked_again},
    [AUTH_REPLAY] = {"replay", authorization_replay, NULL},
    [AUTH_CONCLUDE] = {"conclude", authorization_conclude, NULL},
    [AUTH_FAIL] = {"fail", fail, NULL},
    [AUTH_UNDO] = {"undo", undo, undone},
    [AUTH_REFUSE] = {"refuse", refuse, NULL},
};
_Static_assert(sizeof steps / sizeof *steps == AUTH_REFUSE + 1, "each step has its row");
_Static_assert(UNDO_ALL == HOLD_OUTCOME - 1, "undo_list gives back everything that is held");
const struct process authorization_process = {.name = "authorization",
                                              .steps = steps,
                                              .count = sizeof steps / sizeof *steps,
                                              .refuse = authorization_refuse};
