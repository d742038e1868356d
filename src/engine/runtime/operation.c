/* operation.c - the loop over steps; calls leave, return to the origin, and the next step follows.
 *
 *            /-- the owner is this reactor, and answers: ANSWERED, nothing is deferred
 *   call  --+--- AWAY: the exchange is deferred, arena and bundle are the operation's --> origin --> ANSWERED
 *            \-- LIMIT_CALLS_AWAY are away: ANSWERED, with ERR_OVERLOADED
 *
 *   wait  --+-- AWAY with an arena and an address of its own, without a bundle
 *           |     |   client gone, or draining: abandoned; its owner is asked to forget it
 *           |     \-- origin (answered, or forgotten): ANSWERED, or nothing if it was abandoned
 *           \-- a limit of waits is reached, in all or with its key: refused
 *
 *   work  --+-- AWAY at the thread of offload.h, with a bundle that it holds itself --> origin --> ANSWERED
 *            \-- a limit of that thread is reached: ANSWERED, with the reason
 *
 * A call belongs to the reactor it was sent to until it returns to the origin. So an abandoned
 * wait's memory lives until both its call and the message that asks to forget it have returned:
 * each returns exactly once. If the result is already on its way, the owner returns the message
 * alone. */
#include "engine/runtime/operation.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/planted.h"
#include "engine/engine.h"

enum {
    WAIT_SPARE_BYTES = 256,    /* beside the copies: alignment */
    WAIT_ARENA_MOST = 1 << 20, /* with a review's facts, and its item once more as JSON tree */
};

enum wait_state {
    WAITING,
    WAIT_RESUMED,   /* answered: the operation takes its steps */
    WAIT_ABANDONED, /* its client was answered, or is gone: only returns to the origin follow */
};

struct operation_wait {
    struct operation *operation; /* in the arena */
    struct share *share;
    struct arena arena;
    struct call forget; /* the message */
    enum wait_state state;
    unsigned out; /* of call and message, so many are at the owner, or on the way */
};

/* ---- what holds ---- */

void operation_check(const struct operation *e)
{
    check(e->process == NULL ? e->x != NULL : e->step < e->process->count);
    check(e->calls_away == 0 || e->x == NULL);
    check(e->x == NULL || !link_is_on(&e->link));
    check((e->wait == NULL) == (e->bundle != NULL));
    check(e->wait == NULL || (e->x == NULL && e->wait->operation == e));
    check((e->gathered == NULL) == (e->gathered_count == 0));
    check(e->aside != NULL || e->aside_count == 0);
    check(e->state != OPERATION_ANSWERED || e->process->steps[e->step].answered != NULL);
}

/* ---- life ---- */

static void *refuse_beginning(struct engine_reactor *w, struct http_exchange *x)
{
    struct fault f;
    (void)fault_set(&f, ERR_BODY_TOO_LARGE, "",
                    "the request needs more memory than one request may use");
    api_refuse(&w->api, x, &f, (struct str){0});
    return NULL;
}

/* The largest part of a request is copied only if the operation can outlive it: the head is not. */
void *operation_begin(struct engine_reactor *w, struct http_exchange *x, size_t size)
{
    check(size >= sizeof(struct operation));
    struct arena *arena = x->arena;
    struct operation *e = arena_take(arena, size);
    if (e == NULL) return refuse_beginning(w, x);
    x->body = arena_copy(arena, x->body);
    if (!str_is_absent(x->query)) x->query = arena_copy(arena, x->query);
    if (arena->overflow) return refuse_beginning(w, x);
    e->engine_reactor = w;
    e->x = x;
    e->arena = arena;
    e->client = x->client;
    e->bundle = w->bundle;
    operation_check(e);
    return e;
}

static void count(struct engine_reactor *w)
{
    atomic_store_explicit(&w->under_way, w->calls_away + (unsigned)w->waits.shares.all.count,
                          memory_order_relaxed);
}

/* Sets the number of calls that the operation counts for; it may count for more already. */
static void charge(struct operation *e, unsigned calls_away)
{
    struct engine_reactor *w = e->engine_reactor;
    check(w->calls_away >= e->calls_away);
    if (calls_away > e->calls_away) {
        w->calls_away += calls_away - e->calls_away;
        e->calls_away = calls_away;
    }
    count(w);
}

/* The operation's bundle is the reactor's, or the one before it: the feed makes no third while the
 * first is in use. */
static void unpin(struct operation *e)
{
    struct engine_reactor *w = e->engine_reactor;
    if (e->bundle == w->bundle) {
        check(w->pins > 0);
        w->pins--;
        return;
    }
    check(w->pins_before > 0);
    if (--w->pins_before == 0) engine_reactor_moved(w);
}

/* Offloaded work may wait for seconds. The operation holds the bundle for that time, and so the next
 * revocation does not wait for it. */
static void hold_bundle(struct operation *e)
{
    if (e->holds_bundle) return;
    bundle_hold(e->bundle);
    unpin(e);
    e->holds_bundle = true;
}

static void come_back(struct operation *e)
{
    struct engine_reactor *w = e->engine_reactor;
    check(w->calls_away >= e->calls_away);
    w->calls_away -= e->calls_away;
    e->calls_away = 0;
    count(w);
    if (e->holds_bundle)
        bundle_let_go(e->bundle);
    else
        unpin(e);
}

static void give_back_gathered(struct operation *e)
{
    for (unsigned i = 0; e->gathered != NULL && i < e->gathered_count; i++) {
        struct arena *arena = e->gathered[i]->arena;
        if (arena != e->arena) http_arena_give(e->engine_reactor->server, arena);
    }
    e->gathered = NULL;
    e->gathered_count = 0;
}

void operation_set_aside(struct operation *e)
{
    operation_check(e);
    check(e->aside == NULL);
    e->aside = e->gathered;
    e->aside_count = e->gathered_count;
    e->gathered = NULL;
    e->gathered_count = 0;
}

void operation_take_up(struct operation *e)
{
    give_back_gathered(e);
    e->gathered = e->aside;
    e->gathered_count = e->aside_count;
    e->aside = NULL;
    e->aside_count = 0;
}

static void wait_free(struct operation_wait *t)
{
    struct engine_reactor *w = t->operation->engine_reactor;
    check(t->operation->wait == t && link_is_on(&t->operation->link));
    link_remove(&t->operation->link);
    waits_leave(&w->waits, t->share);
    count(w);
    arena_fini(&t->arena);
    free(t);
}

/* Releases what it held; the operation's memory is gone after that. */
static void end(struct operation *e)
{
    operation_check(e);
    struct engine_reactor *w = e->engine_reactor;
    operation_take_up(e);
    give_back_gathered(e);
    if (e->wait != NULL) {
        wait_free(e->wait);
    } else if (e->x == NULL) {
        link_remove(&e->link);
        come_back(e);
        http_arena_give(w->server, e->arena);
    } /* otherwise the arena is the exchange's */
}

/* Whether it may have so many calls away at once. */
static bool may_leave(const struct operation *e, unsigned calls_away)
{
    return calls_away <= e->calls_away ||
           e->engine_reactor->calls_away + (calls_away - e->calls_away) <= LIMIT_CALLS_AWAY;
}

/* From here on the request outlives its handler. */
static void go_away(struct operation *e, unsigned calls_away)
{
    struct engine_reactor *w = e->engine_reactor;
    charge(e, calls_away);
    if (e->x == NULL) return;
    e->echo = arena_copy(e->arena, api_request_id(e->x));
    e->token = http_defer(e->x);
    check(http_arena_take(e->x) == e->arena);
    e->x = NULL;
    list_append(&w->away, &e->link);
    w->pins++;
}

/* ---- answers ---- */

static struct api_deferred deferred(const struct operation *e)
{
    return (struct api_deferred){.server = e->engine_reactor->server,
                                 .token = e->token,
                                 .echo = e->echo,
                                 .barrier = e->barrier};
}

enum step_result operation_reply(struct operation *e, int status, struct str body,
                                 struct str request_id)
{
    operation_check(e);
    check(e->state == OPERATION_STEPPING && status >= 200);
    struct api *api = &e->engine_reactor->api;
    if (e->x != NULL) {
        api_reply_at_barrier(api, e->x, status, body, request_id, e->barrier);
    } else {
        struct api_deferred d = deferred(e);
        api_reply_deferred(api, &d, status, body, request_id);
    }
    end(e);
    return STEP_DONE;
}

enum step_result operation_refuse(struct operation *e, const struct fault *f, struct str trace_id)
{
    struct api *api = &e->engine_reactor->api;
    struct fault starved;
    if (e->arena->starved) f = api_no_memory(&starved);
    if (e->x != NULL) {
        api_refuse_at_barrier(api, e->x, f, trace_id, e->barrier);
    } else {
        struct api_deferred d = deferred(e);
        api_refuse_deferred(api, &d, f, trace_id);
    }
    end(e);
    return STEP_DONE;
}

enum step_result operation_relay(struct operation *e)
{
    struct engine_reactor *w = e->engine_reactor;
    struct forward *to = w->relaying.to_leader;
    if (e->x != NULL) {
        forward_relay(to, e->x, e->x->route->effect == EFFECT_READ);
    } else if (e->request != NULL) {
        const struct api_deferred d = deferred(e);
        forward_relay_deferred(to, e->request, &d);
    } else {
        struct fault f;
        (void)fault_set(&f, ERR_BODY_TOO_LARGE, "",
                        "the request needs more memory than one request may use");
        return operation_refuse(e, &f, (struct str){0});
    }
    end(e);
    return STEP_DONE;
}

enum step_result operation_fail(struct operation *e, const struct fault *f)
{
    check(e->process != NULL && f->err != ERR_OK);
    if (e->process->refuse != NULL) return e->process->refuse(e, f);
    return operation_refuse(e, f, (struct str){0});
}

/* ---- the loop ---- */

static void take_steps(struct operation *e)
{
    struct engine_reactor *w = e->engine_reactor;
    check(!w->is_stepping);
    check(e->process != NULL);
    w->is_stepping = true;
    operation_check(e);
    for (;;) {
        check(e->step < e->process->count);
        const struct step *s = &e->process->steps[e->step];
        const bool is_answered = e->state == OPERATION_ANSWERED;
        e->state = OPERATION_STEPPING;
        e->next_step = e->step + 1;
        const enum step_result r = is_answered ? s->answered(e) : s->run(e);
        if (r == STEP_DONE) break;
        if (r == STEP_NEXT) {
            check(e->state == OPERATION_STEPPING);
            e->step = e->next_step;
        } else if (e->state == OPERATION_AWAY) {
            break;
        } else {
            check(e->state == OPERATION_ANSWERED);
            operation_check(e);
        }
    }
    w->is_stepping = false;
    engine_reactor_check(w);
}

void operation_start(struct operation *e, const struct process *p, unsigned step)
{
    check(e->process == NULL && step < p->count);
    e->process = p;
    e->step = step;
    take_steps(e);
}

/* Behind an answer that came in a later turn. The time counts for the caller, if a rate is set. */
static void continue_steps(struct operation *e)
{
    const struct metered metered = e->caller.metered;
    if (metered.key == NULL && metered.tenant == NULL) {
        take_steps(e);
        return;
    }
    const uint64_t begun_ns = world_monotonic_ns();
    take_steps(e);
    api_spend(&metered, RATE_CPU, world_monotonic_ns() - begun_ns);
}

/* ---- calls ---- */

static void address(struct operation *e, struct call *c, enum call_kind kind, unsigned to,
                    unsigned slot, struct arena *arena)
{
    struct engine_reactor *w = e->engine_reactor;
    check(kind < CALL_KINDS && slot < LIMIT_SLOTS && to < w->engine->reactor_count);
    c->next = NULL;
    c->previous = NULL;
    c->sender = e;
    c->forgets = NULL;
    c->kind = kind;
    c->origin = (uint16_t)w->index;
    c->to = (uint16_t)to;
    c->slot = (uint16_t)slot;
    c->answered = false;
    c->now_ms = world_now_ms();
    c->id = id_make(c->now_ms, &w->api.chance);
    c->arena = arena;
    c->block = c->place = 0;
    c->recorded_bytes = 0;
    c->shows_revocation = false;
    c->err = ERR_OK;
}

static void send(struct engine_reactor *w, struct call *c)
{
    check(c->origin == w->index && c->to != w->index);
    metric_add(w->sheet, METRIC_CALLS_CROSSED, 1);
    mailbox_send(w->engine->post, w->index, c->to, c);
}

/* The result of an own slot may reveal what is not durable yet: then the reply waits. In a fleet, the
 * operation has looked at state from here on. */
static void raise_barrier(struct operation *e, const struct call *c)
{
    operation_recorded(e, c->recorded_bytes);
    const bool is_own = c->to == e->engine_reactor->index;
    if (c->reads_copy) return;
    if (e->engine_reactor->commit.log != NULL)
        operation_barrier(e,
                          (struct http_barrier){.lane = LANE_LOG, .block = is_own ? c->block : 0});
    else if (is_own && c->block != 0)
        operation_barrier(e, (struct http_barrier){.lane = LANE_SYNCED, .block = c->block});
}

/* The call is answered, without having left. */
static enum step_result answered(struct operation *e)
{
    e->state = OPERATION_ANSWERED;
    return STEP_WAIT;
}

static enum step_result refuse_call(struct operation *e, enum err err)
{
    e->call.err = err;
    e->call.answered = true;
    return answered(e);
}

/* What has begun goes on: its calls may be the way back. */
static enum err may_begin(const struct operation *e)
{
    return e->barrier.lane == LANE_LOG ? ERR_OK : engine_state_refusal(e->engine_reactor->engine);
}

enum err operation_look(struct operation *e)
{
    struct engine_reactor *w = e->engine_reactor;
    if (w->commit.log == NULL) return ERR_OK;
    enum err err = may_begin(e);
    if (err == ERR_OK)
        operation_barrier(
            e, (struct http_barrier){.lane = LANE_LOG, .block = fleet_lane_want(w->commit.log)});
    return err;
}

static enum step_result away(struct operation *e, unsigned calls_away)
{
    go_away(e, calls_away);
    check(e->x == NULL && link_is_on(&e->link));
    e->state = OPERATION_AWAY;
    return STEP_WAIT;
}

/* A call to an own slot that is not answered at once stays on this reactor, at most one for each
 * connection: so it may exceed LIMIT_CALLS_AWAY. */
enum step_result operation_call(struct operation *e, enum call_kind kind, unsigned slot)
{
    struct engine_reactor *w = e->engine_reactor;
    struct call *c = &e->call;
    operation_check(e);
    check(e->state == OPERATION_STEPPING && !call_asks_each_shard(kind));
    unsigned to = slot_owner(slot, w->engine->reactor_count);
    address(e, c, kind, to, slot, e->arena);
    enum err err = c->reads_copy ? ERR_OK : may_begin(e);
    if (err != ERR_OK) return refuse_call(e, err);
    if (to == w->index) {
        if (!owner_call(w, c)) return away(e, 1);
        raise_barrier(e, c);
        return answered(e);
    }
    if (!may_leave(e, 1)) return refuse_call(e, ERR_OVERLOADED);
    enum step_result r = away(e, 1);
    send(w, c);
    return r;
}

/* The call is answered, and stays on this reactor. */
static struct call *address_again(struct operation *e)
{
    struct call *c = &e->call;
    check(e->state == OPERATION_STEPPING);
    address(e, c, c->kind, e->engine_reactor->index, c->slot, e->arena);
    c->answered = true;
    return c;
}

enum step_result operation_when_all_know(struct operation *e)
{
    struct call *c = address_again(e);
    return owner_all_know(e->engine_reactor, c) ? answered(e) : away(e, 1);
}

enum step_result operation_when_synced(struct operation *e)
{
    struct call *c = address_again(e);
    c->block = e->barrier.lane >= LANE_SYNCED ? e->barrier.block : 0;
    return owner_synced(e->engine_reactor, c) ? answered(e) : away(e, 1);
}

enum step_result operation_yield(struct operation *e)
{
    owner_yield(e->engine_reactor, address_again(e));
    return away(e, 1);
}

/* ---- offloaded work ---- */

static void do_work(struct offload_job *job)
{
    struct operation *e = link_owner(job, struct operation, job);
    const struct metered *m = &e->caller.metered;
    const uint64_t begun_ns = m->key != NULL || m->tenant != NULL ? world_monotonic_ns() : 0;
    e->work(e);
    if (begun_ns != 0) api_spend(m, RATE_CPU, world_monotonic_ns() - begun_ns);
}

enum step_result operation_offload(struct operation *e, void (*work)(struct operation *e),
                                   struct fault *f)
{
    struct engine_reactor *w = e->engine_reactor;
    check(e->wait == NULL);
    address_again(e);
    enum step_result r = away(e, 1);
    hold_bundle(e);
    e->work = work;
    e->no_work = f;
    e->job = (struct offload_job){.run = do_work, .tenant = e->caller.tenant, .reactor = w->index};
    enum err err = offload_put(w->engine->offload, &e->job, f);
    return err == ERR_OK ? r : refuse_call(e, err);
}

void operation_offloaded(struct engine_reactor *w, struct offload_job *job)
{
    struct operation *e = link_owner(job, struct operation, job);
    if (job->end == OFFLOAD_LATE)
        e->call.err = fault_set(
            e->no_work, ERR_OVERLOADED, "",
            "this has waited for %d seconds behind other explanations, dry runs or large lists; "
            "try again later",
            LIMIT_OFFLOAD_WAIT_SECONDS);
    owner_return(w, &e->call);
}

/* ---- gathering ---- */

static enum step_result refuse_gathering(struct operation *e, enum err err)
{
    e->call.arena = e->arena;
    e->itself = &e->call;
    e->gathered = &e->itself;
    e->gathered_count = 1;
    return refuse_call(e, err);
}

/* Each shard answers into an arena of its own, because all of them do so at once. */
static void send_parts(struct operation *e, struct call *parts, enum call_kind kind)
{
    struct engine_reactor *w = e->engine_reactor;
    check(e->gathered_count == w->engine->reactor_count);
    for (unsigned i = 0; i < e->gathered_count; i++) {
        parts[i] = e->call;
        e->gathered[i] = &parts[i];
        address(e, &parts[i], kind, i, 0, i == w->index ? e->arena : http_arena_spare(w->server));
    }
    for (unsigned i = 0; i < e->gathered_count; i++)
        if (i != w->index) send(w, &parts[i]);
}

enum step_result operation_gather(struct operation *e, enum call_kind kind)
{
    struct engine_reactor *w = e->engine_reactor;
    const size_t count_of_shards = w->engine->reactor_count;
    const unsigned calls_away = (unsigned)count_of_shards - 1;
    operation_check(e);
    check(e->wait == NULL && call_asks_each_shard(kind));
    e->call.kind = kind;
    e->call.list.before = engine_reactor_ordinal_next(w);
    give_back_gathered(e);
    struct call **gathered = arena_array(e->arena, struct call *, count_of_shards);
    struct call *parts = arena_array(e->arena, struct call, count_of_shards);
    if (gathered == NULL || parts == NULL) return refuse_gathering(e, ERR_BODY_TOO_LARGE);
    enum err err = may_begin(e);
    if (err != ERR_OK) return refuse_gathering(e, err);
    if (!may_leave(e, calls_away)) return refuse_gathering(e, ERR_OVERLOADED);
    e->gathered = gathered;
    e->gathered_count = e->gathered_left = w->engine->reactor_count;
    if (calls_away > 0) go_away(e, calls_away);
    send_parts(e, parts, kind);
    struct call *mine = &parts[w->index];
    if (!owner_call(w, mine)) return away(e, 1);
    mine->sender = NULL;
    raise_barrier(e, mine);
    return --e->gathered_left == 0 ? answered(e) : away(e, calls_away);
}

/* ---- waiting ---- */

/* Copies what has to outlive the exchange's arena into an arena of its own size. */
static struct operation_wait *wait_create(const struct operation *e, size_t size)
{
    check(size >= sizeof *e);
    const struct requester *a = &e->call.requester;
    struct str echo = e->x != NULL ? api_request_id(e->x) : e->echo;
    size_t bytes = size + WAIT_SPARE_BYTES + e->call.tenant.size + a->principal.size +
                   a->owner.size + a->key_id.size + a->token_actor.size + a->token_acting_for.size +
                   echo.size;
    struct operation_wait *t = calloc(1, sizeof *t);
    if (t == NULL) return NULL;
    arena_init(&t->arena, bytes, bytes + WAIT_ARENA_MOST);
    struct operation *n = t->operation = arena_take(&t->arena, size);
    if (n == NULL) {
        arena_fini(&t->arena);
        free(t);
        return NULL;
    }
    memcpy(n, e, size);
    n->state = OPERATION_AWAY;
    n->call = (struct call){.tenant = arena_copy(&t->arena, e->call.tenant)};
    n->call.requester =
        (struct requester){.principal = arena_copy(&t->arena, a->principal),
                           .owner = arena_copy(&t->arena, a->owner),
                           .key_id = arena_copy(&t->arena, a->key_id),
                           .token_actor = arena_copy(&t->arena, a->token_actor),
                           .token_acting_for = arena_copy(&t->arena, a->token_acting_for),
                           .token = a->token,
                           .token_signer = a->token_signer,
                           .sees_all = a->sees_all};
    n->call.review.id = e->call.review.id;
    n->call.review.deadline_ms = e->call.review.deadline_ms;
    n->echo = arena_copy(&t->arena, echo);
    n->arena = &t->arena;
    n->wait = t;
    n->bundle = NULL;
    n->calls_away = 0;
    n->gathered = NULL;
    n->gathered_count = 0;
    n->caller.metered = (struct metered){0};
    n->link = (struct link){0};
    return t;
}

/* Also takes a place among the waits. */
static enum err wait_begin(const struct operation *e, size_t size, struct operation_wait **ret,
                           struct fault *f)
{
    struct waits *waits = &e->engine_reactor->waits;
    struct share *share;
    if (e->engine_reactor->draining) return fault_plain(f, ERR_DRAINING);
    enum err refusal = may_begin(e);
    if (refusal != ERR_OK) return fault_plain(f, refusal);
    const struct requester *who = &e->call.requester;
    const struct share_asker asker = {.tenant = e->call.tenant,
                                      .key = str_is_absent(who->key_id) ? who->owner : who->key_id};
    enum err err = waits_enter(waits, &asker, world_now_ms(), &share, f);
    if (err != ERR_OK) return err;
    *ret = wait_create(e, size);
    if (*ret != NULL) {
        (*ret)->share = share;
        return ERR_OK;
    }
    waits_leave(waits, share);
    return fault_plain(f, ERR_OVERLOADED);
}

/* Its result is no longer needed. */
static void abandon(struct operation_wait *t)
{
    struct operation *e = t->operation;
    struct engine_reactor *w = e->engine_reactor;
    check(t->state == WAITING && t->out == 1);
    t->state = WAIT_ABANDONED;
    if (e->call.to != w->index) {
        address(e, &t->forget, CALL_REVIEW_WAIT, e->call.to, e->call.slot, NULL);
        t->forget.forgets = &e->call;
        t->out = 2;
        send(w, &t->forget);
    } else if (owner_forget(w, &e->call)) {
        wait_free(t);
    } /* otherwise it is answered, and returns to the origin in this turn */
}

/* One of its call and its message has returned. */
static void abandoned_returned(struct operation_wait *t)
{
    check(t->state == WAIT_ABANDONED && t->out > 0);
    if (--t->out == 0) wait_free(t);
}

static void client_gone(void *context) { abandon(context); }

/* The operation moves to its new place. */
static void leave_behind(struct operation *e)
{
    check(e->aside == NULL);
    give_back_gathered(e);
    if (e->x != NULL) return;
    link_remove(&e->link);
    come_back(e);
    http_arena_give(e->engine_reactor->server, e->arena);
}

enum step_result operation_wait(struct operation *e, size_t size, unsigned slot)
{
    struct engine_reactor *w = e->engine_reactor;
    struct operation_wait *t;
    struct fault f;
    operation_check(e);
    if (wait_begin(e, size, &t, &f) != ERR_OK) return operation_refuse(e, &f, (struct str){0});
    leave_behind(e);
    struct operation *n = t->operation;
    struct call *c = &n->call;
    count(w);
    address(n, c, CALL_REVIEW_WAIT, slot_owner(slot, w->engine->reactor_count), slot, &t->arena);
    if (n->x != NULL) n->token = http_defer(n->x);
    n->x = NULL;
    list_append(&w->waiting, &n->link);
    operation_check(n);
    t->out = 1;
    if (c->to != w->index)
        send(w, c);
    else if (owner_call(w, c))
        owner_return(w, c);
    if (!http_when_gone(w->server, n->token, client_gone, t)) abandon(t);
    return STEP_DONE;
}

/* ---- the return to the origin ---- */

bool operation_origin(struct engine_reactor *w, struct call *c)
{
    if (c->forgets != NULL) {
        abandoned_returned(link_owner(c, struct operation_wait, forget));
        return true;
    }
    struct operation *e = c->sender;
    if (e == NULL || e->state != OPERATION_AWAY) return false;
    if (!c->answered && e->wait == NULL && !planted("result_twice"))
        return false; /* only a forgotten wait returns so */
    check(e->engine_reactor == w);
    operation_check(e);
    if (!planted("result_twice")) c->sender = NULL; /* a result is taken once */
    if (e->wait != NULL && e->wait->state == WAIT_ABANDONED) {
        abandoned_returned(e->wait);
        return true;
    }
    if (e->wait != NULL && e->wait->state == WAITING) {
        e->wait->state = WAIT_RESUMED;
        e->wait->out = 0;
        http_when_gone(w->server, e->token, NULL, NULL); /* which was the owner's part of waiting */
    }
    raise_barrier(e, c);
    check(c == &e->call || e->gathered_left > 0);
    if (c != &e->call && --e->gathered_left > 0) return true;
    e->state = OPERATION_ANSWERED;
    continue_steps(e);
    return true;
}

/* ---- the end ---- */

void operations_drain(struct engine_reactor *w)
{
    struct fault f;
    check(!w->is_stepping);
    (void)fault_plain(&f, ERR_DRAINING);
    w->draining = true;
    list_each (&w->waiting, k, following) {
        struct operation *e = link_owner(k, struct operation, link);
        if (e->wait->state != WAITING) continue;
        http_when_gone(w->server, e->token, NULL, NULL);
        struct api_deferred d = deferred(e);
        api_refuse_deferred(&w->api, &d, &f, (struct str){0});
        abandon(e->wait);
    }
}

void operations_lose(struct engine_reactor *w, const struct fault *f)
{
    check(!w->is_stepping);
    list_each (&w->away, k, following) {
        const struct operation *e = link_owner(k, struct operation, link);
        if (!http_token_alive(w->server, e->token)) continue;
        const struct api_deferred d = {.server = w->server, .token = e->token, .echo = e->echo};
        (void)api_refuse_deferred(&w->api, &d, f, (struct str){0});
    }
}

void operations_drop(struct engine_reactor *w)
{
    list_each (&w->away, k, following) end(link_owner(k, struct operation, link));
    list_each (&w->waiting, other, following_other) {
        struct operation *e = link_owner(other, struct operation, link);
        http_when_gone(w->server, e->token, NULL, NULL);
        wait_free(e->wait);
    }
    check(list_is_empty(&w->away) && list_is_empty(&w->waiting) && w->calls_away == 0);
}
