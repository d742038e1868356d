/* errand.c - calls leave, come home, and the request goes on.
 *
 *            /-- the owner is this reactor, and answers: nothing is deferred
 *   visit --+--- away: the exchange is deferred, arena and bundle are the errand's --> home --> then
 *            \-- LIMIT_VISITS are away: then, with ERR_OVERLOADED
 *
 *   wait  --+-- away with an arena and an address of its own, without a bundle
 *           |     |   client gone, or draining: abandoned; its owner is told to forget it
 *           |     \-- home (answered, or forgotten): then, or nothing where it was abandoned
 *           \-- as many wait as may, in all or with its key: refused
 *
 * A call belongs to whoever it was sent to until it is home, so an abandoned wait's memory
 * lives until both its call and the message that asks to forget it are home: each comes
 * exactly once. The answer may be on its way already when it is to be forgotten; then the
 * owner sends the message back alone. */
#include "engine/errand.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "engine/engine.h"

enum {
    WAIT_SPARE_BYTES = 256,    /* beside what is copied: alignment */
    WAIT_ARENA_MOST = 1 << 20, /* with a review's facts, and its item once more as JSON tree */
};

struct errand_wait {
    struct errand *errand; /* in the arena */
    struct waits_share *share;
    struct arena arena;
    struct call forget;              /* the message */
    bool abandoned;                  /* answered or gone: nothing follows but coming home */
    bool call_is_out, forget_is_out; /* at the owner, or under way */
};

/* ---- life ---- */

/* The largest part of a request is copied once more only where it can be outlived: the head is
 * not. */
struct errand *errand_begin(struct worker *w, struct http_exchange *x, size_t size)
{
    check(size >= sizeof(struct errand));
    struct arena *arena = x->arena;
    struct errand *e = arena_take(arena, size);
    if (e == NULL) return NULL;
    x->body = arena_copy(arena, x->body);
    if (!str_is_absent(x->query)) x->query = arena_copy(arena, x->query);
    if (arena->overflow) return NULL;
    e->worker = w;
    e->x = x;
    e->arena = arena;
    e->client = x->client;
    e->bundle = w->bundle;
    return e;
}

static void count(struct worker *w)
{
    atomic_store_explicit(&w->under_way, w->visits + w->waits.count, memory_order_relaxed);
}

/* From now on it counts for so many calls, or for more already. */
static void charge(struct errand *e, unsigned visits)
{
    struct worker *w = e->worker;
    if (visits > e->visits) {
        w->visits += visits - e->visits;
        e->visits = visits;
    }
    count(w);
}

/* The bundle that the errand began with is the worker's, or the one before it: the feed makes no
 * third while the first is in use. */
static void unpin(struct errand *e)
{
    struct worker *w = e->worker;
    w->visits -= e->visits;
    e->visits = 0;
    count(w);
    if (e->bundle == w->bundle) {
        w->pins--;
        return;
    }
    check(w->pins_before > 0);
    if (--w->pins_before == 0) worker_moved(w);
}

static void give_back_gathered(struct errand *e)
{
    for (unsigned i = 0; e->gathered != NULL && i < e->gathered_count; i++) {
        struct arena *arena = e->gathered[i]->arena;
        if (arena != e->arena) http_arena_give(e->worker->server, arena);
    }
    e->gathered = NULL;
    e->gathered_count = 0;
}

void errand_set_aside(struct errand *e)
{
    check(e->aside == NULL);
    e->aside = e->gathered;
    e->aside_count = e->gathered_count;
    e->gathered = NULL;
    e->gathered_count = 0;
}

void errand_take_up(struct errand *e)
{
    give_back_gathered(e);
    e->gathered = e->aside;
    e->gathered_count = e->aside_count;
    e->aside = NULL;
    e->aside_count = 0;
}

static void wait_free(struct errand_wait *t)
{
    struct worker *w = t->errand->worker;
    link_remove(&t->errand->link);
    waits_leave(&w->waits, t->share);
    count(w);
    arena_fini(&t->arena);
    free(t);
}

/* What it held goes back; the errand's memory is gone. */
static void end(struct errand *e)
{
    struct worker *w = e->worker;
    errand_take_up(e);
    give_back_gathered(e);
    if (e->wait != NULL) {
        wait_free(e->wait);
    } else if (e->is_away) {
        link_remove(&e->link);
        unpin(e);
        http_arena_give(w->server, e->arena);
    } /* else the arena is the exchange's */
}

/* Whether it may have so many calls away at once. */
static bool may_leave(const struct errand *e, unsigned visits)
{
    return visits <= e->visits || e->worker->visits + (visits - e->visits) <= LIMIT_VISITS;
}

/* From here on the request outlives its handler. */
static void go_away(struct errand *e, unsigned visits)
{
    struct worker *w = e->worker;
    charge(e, visits);
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

void errand_gate(struct errand *e, struct http_gate gate)
{
    e->gate = gate_stricter(e->gate, gate);
}

static struct api_deferred deferred(const struct errand *e)
{
    return (struct api_deferred){
        .server = e->worker->server, .token = e->token, .echo = e->echo, .gate = e->gate};
}

void errand_reply(struct errand *e, int status, struct str body, struct str request_id)
{
    struct api *api = &e->worker->api;
    if (e->x != NULL) {
        api_reply_gated(api, e->x, status, body, request_id, e->gate);
    } else {
        struct api_deferred d = deferred(e);
        api_reply_deferred(api, &d, status, body, request_id);
    }
    end(e);
}

void errand_refuse(struct errand *e, const struct fault *f, struct str trace_id)
{
    struct api *api = &e->worker->api;
    if (e->x != NULL) {
        api_refuse_gated(api, e->x, f, trace_id, e->gate);
    } else {
        struct api_deferred d = deferred(e);
        api_refuse_deferred(api, &d, f, trace_id);
    }
    end(e);
}

/* ---- leaving ---- */

static void address(struct errand *e, struct call *c, enum call_kind kind, unsigned to,
                    unsigned slot, struct arena *arena)
{
    struct worker *w = e->worker;
    c->next = NULL;
    c->previous = NULL;
    c->sender = e;
    c->forgets = NULL;
    c->kind = kind;
    c->home = (uint16_t)w->index;
    c->to = (uint16_t)to;
    c->slot = (uint16_t)slot;
    c->answered = false;
    c->now_ms = world_now_ms();
    c->id = id_make(c->now_ms, &w->api.chance);
    c->arena = arena;
    c->mark = c->place = 0;
    c->err = ERR_OK;
}

static void send(struct worker *w, struct call *c)
{
    metric_add(w->sheet, METRIC_CALLS_CROSSED, 1);
    mailbox_send(w->engine->post, w->index, c->to, c);
}

/* What an answer of our own slots reveals may not be durable yet: then the reply waits. */
static void raise_gate(struct errand *e, const struct call *c)
{
    if (c->to == e->worker->index && c->mark != 0)
        errand_gate(e, (struct http_gate){.lane = LANE_SYNCED, .mark = c->mark});
}

static void refuse_call(struct call *c, enum err err)
{
    c->err = err;
    c->answered = true;
}

/* A call to a slot of our own that is not answered at once stays on this reactor, and there is no
 * more than one for each connection: so it may go beyond LIMIT_VISITS. */
void errand_visit(struct errand *e, enum call_kind kind, unsigned slot,
                  void (*then)(struct errand *e))
{
    struct worker *w = e->worker;
    struct call *c = &e->call;
    unsigned to = slot_owner(slot, w->engine->worker_count);
    e->then = then;
    address(e, c, kind, to, slot, e->arena);
    if (to != w->index && may_leave(e, 1)) {
        go_away(e, 1);
        send(w, c);
    } else if (to != w->index) {
        refuse_call(c, ERR_OVERLOADED);
        then(e);
    } else if (owner_ask(w, c)) {
        raise_gate(e, c);
        then(e);
    } else {
        go_away(e, 1);
    }
}

/* The call is answered, and stays with us. */
void errand_when_all_know(struct errand *e, void (*then)(struct errand *e))
{
    struct worker *w = e->worker;
    struct call *c = &e->call;
    e->then = then;
    address(e, c, c->kind, w->index, c->slot, e->arena);
    c->answered = true;
    if (owner_all_know(w, c))
        then(e);
    else
        go_away(e, 1);
}

/* ---- gathering ---- */

static void refuse_gathering(struct errand *e, enum err err)
{
    refuse_call(&e->call, err);
    e->call.arena = e->arena;
    e->itself = &e->call;
    e->gathered = &e->itself;
    e->gathered_count = 1;
    e->then(e);
}

/* Each shard answers into an arena of its own, since all of them do so at once. */
static void send_parts(struct errand *e, struct call *parts, enum call_kind kind)
{
    struct worker *w = e->worker;
    for (unsigned i = 0; i < e->gathered_count; i++) {
        parts[i] = e->call;
        e->gathered[i] = &parts[i];
        address(e, &parts[i], kind, i, 0, i == w->index ? e->arena : http_arena_spare(w->server));
    }
    for (unsigned i = 0; i < e->gathered_count; i++)
        if (i != w->index) send(w, &parts[i]);
}

void errand_gather(struct errand *e, enum call_kind kind, void (*then)(struct errand *e))
{
    struct worker *w = e->worker;
    const size_t count_of_shards = w->engine->worker_count;
    const unsigned visits = (unsigned)count_of_shards - 1;
    e->call.list.before = worker_ordinal_next(w);
    give_back_gathered(e);
    e->then = then;
    struct call **gathered = arena_array(e->arena, struct call *, count_of_shards);
    struct call *parts = arena_array(e->arena, struct call, count_of_shards);
    if (gathered == NULL || parts == NULL) {
        refuse_gathering(e, ERR_BODY_TOO_LARGE);
        return;
    }
    if (!may_leave(e, visits)) {
        refuse_gathering(e, ERR_OVERLOADED);
        return;
    }
    e->gathered = gathered;
    e->gathered_count = e->gathered_left = w->engine->worker_count;
    if (visits > 0) go_away(e, visits);
    send_parts(e, parts, kind);
    struct call *mine = &parts[w->index];
    if (!owner_ask(w, mine)) {
        go_away(e, 1);
        return;
    }
    raise_gate(e, mine);
    if (--e->gathered_left == 0) then(e);
}

/* ---- waiting ---- */

/* What has to outlive the exchange's arena, in one of its own size. */
static struct errand_wait *wait_create(const struct errand *e, size_t size)
{
    const struct asker *a = &e->call.asker;
    struct str echo = e->x != NULL ? api_request_id(e->x) : e->echo;
    size_t bytes = size + WAIT_SPARE_BYTES + e->call.tenant.size + a->principal.size +
                   a->owner.size + a->key_id.size + a->token_actor.size + a->token_acting_for.size +
                   echo.size;
    struct errand_wait *t = calloc(1, sizeof *t);
    if (t == NULL) return NULL;
    arena_init(&t->arena, bytes, bytes + WAIT_ARENA_MOST);
    struct errand *n = t->errand = arena_take(&t->arena, size);
    check(n != NULL);
    memcpy(n, e, size);
    n->call = (struct call){.tenant = arena_copy(&t->arena, e->call.tenant)};
    n->call.asker = (struct asker){.principal = arena_copy(&t->arena, a->principal),
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
    n->visits = 0;
    n->gathered = NULL;
    n->gathered_count = 0;
    n->link = (struct link){0};
    return t;
}

/* With a place among those that wait. */
static enum err wait_begin(const struct errand *e, size_t size, struct errand_wait **ret,
                           struct fault *f)
{
    struct waits *waits = &e->worker->waits;
    struct waits_share *share;
    if (e->worker->draining) return fault_plain(f, ERR_DRAINING);
    enum err err = waits_enter(waits, e->call.asker.key_id, &share, f);
    if (err != ERR_OK) return err;
    *ret = wait_create(e, size);
    if (*ret != NULL) {
        (*ret)->share = share;
        return ERR_OK;
    }
    waits_leave(waits, share);
    return fault_plain(f, ERR_OVERLOADED);
}

/* Its answer is of no use any more. */
static void abandon(struct errand_wait *t)
{
    struct errand *e = t->errand;
    struct worker *w = e->worker;
    t->abandoned = true;
    if (e->call.to != w->index) {
        address(e, &t->forget, CALL_REVIEW_WAIT, e->call.to, e->call.slot, NULL);
        t->forget.forgets = &e->call;
        t->forget_is_out = true;
        send(w, &t->forget);
    } else if (owner_forget(w, &e->call)) {
        wait_free(t);
    } /* else it is answered, and comes home with this beat */
}

static void client_gone(void *context) { abandon(context); }

/* The errand that was moved leaves its old place. */
static void leave_behind(struct errand *e)
{
    check(e->aside == NULL);
    give_back_gathered(e);
    if (!e->is_away) return;
    link_remove(&e->link);
    unpin(e);
    http_arena_give(e->worker->server, e->arena);
}

void errand_wait(struct errand *e, size_t size, unsigned slot, void (*then)(struct errand *e))
{
    struct worker *w = e->worker;
    struct errand_wait *t;
    struct fault f;
    if (wait_begin(e, size, &t, &f) != ERR_OK) {
        errand_refuse(e, &f, (struct str){0});
        return;
    }
    leave_behind(e);
    struct errand *n = t->errand;
    struct call *c = &n->call;
    n->then = then;
    count(w);
    address(n, c, CALL_REVIEW_WAIT, slot_owner(slot, w->engine->worker_count), slot, &t->arena);
    if (c->to == w->index && owner_ask(w, c)) {
        raise_gate(n, c);
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

/* ---- coming home ---- */

/* True: there is an errand that goes on. */
static bool wait_home(struct errand_wait *t)
{
    struct errand *e = t->errand;
    t->call_is_out = false;
    if (!t->abandoned) {
        http_when_gone(e->worker->server, e->token, NULL, NULL); /* that was about waiting */
        return true;
    }
    if (!t->forget_is_out) wait_free(t);
    return false;
}

void errand_home(struct worker *w, struct call *c)
{
    if (c->forgets != NULL) {
        struct errand_wait *t = link_owner(c, struct errand_wait, forget);
        t->forget_is_out = false;
        if (!t->call_is_out) wait_free(t);
        return;
    }
    struct errand *e = c->sender;
    check(e->worker == w);
    if (e->wait != NULL && e->wait->call_is_out && !wait_home(e->wait)) return;
    raise_gate(e, c);
    if (c != &e->call && --e->gathered_left > 0) return;
    e->then(e);
}

/* ---- the end ---- */

void errands_drain(struct worker *w)
{
    struct fault f;
    fault_plain(&f, ERR_DRAINING);
    w->draining = true;
    list_each (&w->waiting, k, following) {
        struct errand *e = link_owner(k, struct errand, link);
        if (e->wait->abandoned) continue;
        http_when_gone(w->server, e->token, NULL, NULL);
        struct api_deferred d = deferred(e);
        api_refuse_deferred(&w->api, &d, &f, (struct str){0});
        abandon(e->wait);
    }
}

void errands_drop(struct worker *w)
{
    list_each (&w->away, k, following) end(link_owner(k, struct errand, link));
    list_each (&w->waiting, other, following_other) {
        struct errand *e = link_owner(other, struct errand, link);
        http_when_gone(w->server, e->token, NULL, NULL);
        wait_free(e->wait);
    }
}
