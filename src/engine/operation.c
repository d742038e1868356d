/* operation.c - calls leave, return to the origin, and the request continues.
 *
 *            /-- the owner is this reactor, and answers: nothing is deferred
 *   call  --+--- away: the exchange is deferred, arena and bundle are the operation's --> origin --> then
 *            \-- LIMIT_CALLS_AWAY are away: then, with ERR_OVERLOADED
 *
 *   wait  --+-- away with an arena and an address of its own, without a bundle
 *           |     |   client gone, or draining: abandoned; its owner is asked to forget it
 *           |     \-- origin (answered, or forgotten): then, or nothing if it was abandoned
 *           \-- a limit of waits is reached, in all or with its key: refused
 *
 * A call belongs to the reactor it was sent to until it returns to the origin. So an abandoned
 * wait's memory lives until both its call and the message that asks to forget it have returned:
 * each returns exactly once. If the result is already on its way, the owner returns the message
 * alone. */
#include "engine/operation.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "engine/engine.h"

enum {
    WAIT_SPARE_BYTES = 256,    /* beside the copies: alignment */
    WAIT_ARENA_MOST = 1 << 20, /* with a review's facts, and its item once more as JSON tree */
};

struct operation_wait {
    struct operation *operation; /* in the arena */
    struct waits_share *share;
    struct arena arena;
    struct call forget; /* the message */
    bool abandoned;     /* answered or client gone: only returns to the origin follow */
    bool call_is_out, forget_is_out; /* at the owner, or on the way */
};

/* ---- life ---- */

/* The largest part of a request is copied only if the operation can outlive it: the head is not. */
struct operation *operation_begin(struct engine_reactor *w, struct http_exchange *x, size_t size)
{
    check(size >= sizeof(struct operation));
    struct arena *arena = x->arena;
    struct operation *e = arena_take(arena, size);
    if (e == NULL) return NULL;
    x->body = arena_copy(arena, x->body);
    if (!str_is_absent(x->query)) x->query = arena_copy(arena, x->query);
    if (arena->overflow) return NULL;
    e->engine_reactor = w;
    e->x = x;
    e->arena = arena;
    e->client = x->client;
    e->bundle = w->bundle;
    return e;
}

static void count(struct engine_reactor *w)
{
    atomic_store_explicit(&w->under_way, w->calls_away + w->waits.count, memory_order_relaxed);
}

/* Sets the number of calls that the operation counts for; it may count for more already. */
static void charge(struct operation *e, unsigned calls_away)
{
    struct engine_reactor *w = e->engine_reactor;
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
    w->calls_away -= e->calls_away;
    e->calls_away = 0;
    count(w);
    if (e->bundle == w->bundle) {
        w->pins--;
        return;
    }
    check(w->pins_before > 0);
    if (--w->pins_before == 0) engine_reactor_moved(w);
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
    link_remove(&t->operation->link);
    waits_leave(&w->waits, t->share);
    count(w);
    arena_fini(&t->arena);
    free(t);
}

/* Releases what it held; the operation's memory is gone after that. */
static void end(struct operation *e)
{
    struct engine_reactor *w = e->engine_reactor;
    operation_take_up(e);
    give_back_gathered(e);
    if (e->wait != NULL) {
        wait_free(e->wait);
    } else if (e->is_away) {
        link_remove(&e->link);
        unpin(e);
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
    if (e->is_away) return;
    e->echo = arena_copy(e->arena, api_request_id(e->x));
    e->token = http_defer(e->x);
    check(http_arena_take(e->x) == e->arena);
    e->x = NULL;
    e->is_away = true;
    list_append(&w->away, &e->link);
    w->pins++;
}

/* ---- answers ---- */

void operation_barrier(struct operation *e, struct http_barrier barrier)
{
    e->barrier = barrier_stricter(e->barrier, barrier);
}

static struct api_deferred deferred(const struct operation *e)
{
    return (struct api_deferred){.server = e->engine_reactor->server,
                                 .token = e->token,
                                 .echo = e->echo,
                                 .barrier = e->barrier};
}

void operation_reply(struct operation *e, int status, struct str body, struct str request_id)
{
    struct api *api = &e->engine_reactor->api;
    if (e->x != NULL) {
        api_reply_at_barrier(api, e->x, status, body, request_id, e->barrier);
    } else {
        struct api_deferred d = deferred(e);
        api_reply_deferred(api, &d, status, body, request_id);
    }
    end(e);
}

void operation_refuse(struct operation *e, const struct fault *f, struct str trace_id)
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
}

/* ---- calls ---- */

static void address(struct operation *e, struct call *c, enum call_kind kind, unsigned to,
                    unsigned slot, struct arena *arena)
{
    struct engine_reactor *w = e->engine_reactor;
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
    c->err = ERR_OK;
}

static void send(struct engine_reactor *w, struct call *c)
{
    metric_add(w->sheet, METRIC_CALLS_CROSSED, 1);
    mailbox_send(w->engine->post, w->index, c->to, c);
}

/* The result of an own slot may reveal what is not durable yet: then the reply waits. */
static void raise_barrier(struct operation *e, const struct call *c)
{
    if (c->to == e->engine_reactor->index && c->block != 0)
        operation_barrier(e, (struct http_barrier){.lane = LANE_SYNCED, .block = c->block});
}

static void refuse_call(struct call *c, enum err err)
{
    c->err = err;
    c->answered = true;
}

/* A call to an own slot that is not answered at once stays on this reactor, at most one for each
 * connection: so it may exceed LIMIT_CALLS_AWAY. */
void operation_call(struct operation *e, enum call_kind kind, unsigned slot,
                    void (*then)(struct operation *e))
{
    struct engine_reactor *w = e->engine_reactor;
    struct call *c = &e->call;
    unsigned to = slot_owner(slot, w->engine->reactor_count);
    e->then = then;
    address(e, c, kind, to, slot, e->arena);
    if (to != w->index && may_leave(e, 1)) {
        go_away(e, 1);
        send(w, c);
    } else if (to != w->index) {
        refuse_call(c, ERR_OVERLOADED);
        then(e);
    } else if (owner_call(w, c)) {
        raise_barrier(e, c);
        then(e);
    } else {
        go_away(e, 1);
    }
}

/* The call is answered, and stays on this reactor. */
void operation_when_all_know(struct operation *e, void (*then)(struct operation *e))
{
    struct engine_reactor *w = e->engine_reactor;
    struct call *c = &e->call;
    e->then = then;
    address(e, c, c->kind, w->index, c->slot, e->arena);
    c->answered = true;
    if (owner_all_know(w, c))
        then(e);
    else
        go_away(e, 1);
}

void operation_when_synced(struct operation *e, void (*then)(struct operation *e))
{
    struct engine_reactor *w = e->engine_reactor;
    struct call *c = &e->call;
    e->then = then;
    address(e, c, c->kind, w->index, c->slot, e->arena);
    c->answered = true;
    c->block = e->barrier.lane == LANE_SYNCED ? e->barrier.block : 0;
    if (owner_synced(w, c))
        then(e);
    else
        go_away(e, 1);
}

/* ---- gathering ---- */

static void refuse_gathering(struct operation *e, enum err err)
{
    refuse_call(&e->call, err);
    e->call.arena = e->arena;
    e->itself = &e->call;
    e->gathered = &e->itself;
    e->gathered_count = 1;
    e->then(e);
}

/* Each shard answers into an arena of its own, because all of them do so at once. */
static void send_parts(struct operation *e, struct call *parts, enum call_kind kind)
{
    struct engine_reactor *w = e->engine_reactor;
    for (unsigned i = 0; i < e->gathered_count; i++) {
        parts[i] = e->call;
        e->gathered[i] = &parts[i];
        address(e, &parts[i], kind, i, 0, i == w->index ? e->arena : http_arena_spare(w->server));
    }
    for (unsigned i = 0; i < e->gathered_count; i++)
        if (i != w->index) send(w, &parts[i]);
}

void operation_gather(struct operation *e, enum call_kind kind, void (*then)(struct operation *e))
{
    struct engine_reactor *w = e->engine_reactor;
    const size_t count_of_shards = w->engine->reactor_count;
    const unsigned calls_away = (unsigned)count_of_shards - 1;
    e->call.list.before = engine_reactor_ordinal_next(w);
    give_back_gathered(e);
    e->then = then;
    struct call **gathered = arena_array(e->arena, struct call *, count_of_shards);
    struct call *parts = arena_array(e->arena, struct call, count_of_shards);
    if (gathered == NULL || parts == NULL) {
        refuse_gathering(e, ERR_BODY_TOO_LARGE);
        return;
    }
    if (!may_leave(e, calls_away)) {
        refuse_gathering(e, ERR_OVERLOADED);
        return;
    }
    e->gathered = gathered;
    e->gathered_count = e->gathered_left = w->engine->reactor_count;
    if (calls_away > 0) go_away(e, calls_away);
    send_parts(e, parts, kind);
    struct call *mine = &parts[w->index];
    if (!owner_call(w, mine)) {
        go_away(e, 1);
        return;
    }
    raise_barrier(e, mine);
    if (--e->gathered_left == 0) then(e);
}

/* ---- waiting ---- */

/* Copies what has to outlive the exchange's arena into an arena of its own size. */
static struct operation_wait *wait_create(const struct operation *e, size_t size)
{
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
    n->link = (struct link){0};
    return t;
}

/* Also takes a place among the waits. */
static enum err wait_begin(const struct operation *e, size_t size, struct operation_wait **ret,
                           struct fault *f)
{
    struct waits *waits = &e->engine_reactor->waits;
    struct waits_share *share;
    if (e->engine_reactor->draining) return fault_plain(f, ERR_DRAINING);
    const struct requester *who = &e->call.requester;
    struct str shared_by = str_is_absent(who->key_id) ? who->owner : who->key_id;
    enum err err = waits_enter(waits, shared_by, &share, f);
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
    t->abandoned = true;
    if (e->call.to != w->index) {
        address(e, &t->forget, CALL_REVIEW_WAIT, e->call.to, e->call.slot, NULL);
        t->forget.forgets = &e->call;
        t->forget_is_out = true;
        send(w, &t->forget);
    } else if (owner_forget(w, &e->call)) {
        wait_free(t);
    } /* otherwise it is answered, and returns to the origin in this turn */
}

static void client_gone(void *context) { abandon(context); }

/* The operation moves to its new place. */
static void leave_behind(struct operation *e)
{
    check(e->aside == NULL);
    give_back_gathered(e);
    if (!e->is_away) return;
    link_remove(&e->link);
    unpin(e);
    http_arena_give(e->engine_reactor->server, e->arena);
}

void operation_wait(struct operation *e, size_t size, unsigned slot,
                    void (*then)(struct operation *e))
{
    struct engine_reactor *w = e->engine_reactor;
    struct operation_wait *t;
    struct fault f;
    if (wait_begin(e, size, &t, &f) != ERR_OK) {
        operation_refuse(e, &f, (struct str){0});
        return;
    }
    leave_behind(e);
    struct operation *n = t->operation;
    struct call *c = &n->call;
    n->then = then;
    count(w);
    address(n, c, CALL_REVIEW_WAIT, slot_owner(slot, w->engine->reactor_count), slot, &t->arena);
    if (c->to == w->index && owner_call(w, c)) {
        raise_barrier(n, c);
        then(n);
        return;
    }
    if (n->x != NULL) n->token = http_defer(n->x);
    n->x = NULL;
    n->is_away = true;
    list_append(&w->waiting, &n->link);
    t->call_is_out = true;
    if (c->to != w->index) send(w, c);
    if (!http_when_gone(w->server, n->token, client_gone, t)) abandon(t);
}

/* ---- the return to the origin ---- */

/* True: there is an operation that continues. */
static bool wait_origin(struct operation_wait *t)
{
    struct operation *e = t->operation;
    t->call_is_out = false;
    if (!t->abandoned) {
        http_when_gone(e->engine_reactor->server, e->token, NULL,
                       NULL); /* which was the owner's part of waiting */
        return true;
    }
    if (!t->forget_is_out) wait_free(t);
    return false;
}

void operation_origin(struct engine_reactor *w, struct call *c)
{
    if (c->forgets != NULL) {
        struct operation_wait *t = link_owner(c, struct operation_wait, forget);
        t->forget_is_out = false;
        if (!t->call_is_out) wait_free(t);
        return;
    }
    struct operation *e = c->sender;
    check(e->engine_reactor == w);
    if (e->wait != NULL && e->wait->call_is_out && !wait_origin(e->wait)) return;
    raise_barrier(e, c);
    if (c != &e->call && --e->gathered_left > 0) return;
    e->then(e);
}

/* ---- the end ---- */

void operations_drain(struct engine_reactor *w)
{
    struct fault f;
    (void)fault_plain(&f, ERR_DRAINING);
    w->draining = true;
    list_each (&w->waiting, k, following) {
        struct operation *e = link_owner(k, struct operation, link);
        if (e->wait->abandoned) continue;
        http_when_gone(w->server, e->token, NULL, NULL);
        struct api_deferred d = deferred(e);
        api_refuse_deferred(&w->api, &d, &f, (struct str){0});
        abandon(e->wait);
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
}
