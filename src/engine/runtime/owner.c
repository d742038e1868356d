#include "engine/runtime/owner.h"

#include "base/check.h"
#include "base/limits.h"
#include "engine/engine.h"
#include "engine/runtime/signing.h"

enum {
    EFFECT_ARENA_FIRST = 64 << 10,
    EFFECT_ARENA_MOST = 4 << 20, /* all the events and deltas of one step */
    TICKS_PER_TURN = 64,         /* expiries; each may be a record */
};

/* ---- queues ---- */

static void call_queue_check(const struct call_queue *q)
{
    check((q->first == NULL) == (q->count == 0));
    check(q->count == 0 || q->last->next == NULL);
    check(q->count != 1 || q->first == q->last);
}

void owner_check(const struct owner *o)
{
    check(o->shard != NULL && o->effects.arena == &o->arena);
    call_queue_check(&o->held);
    call_queue_check(&o->late);
    call_queue_check(&o->unseen);
    call_queue_check(&o->syncing);
    call_queue_check(&o->ready);
    /* in the order of their blocks, and none of them is durable */
    call_queue_check(&o->parked);
    check(o->parked.count == 0 || o->parked.first->block <= o->parked.last->block);
    check(o->parked.count == 0 || o->parked.first->block > o->durable);
    check(o->syncing.count == 0 || o->syncing.first->block > o->durable);
}

static void put(struct call_queue *q, struct call *c)
{
    c->next = NULL;
    if (q->first == NULL)
        q->first = c;
    else
        q->last->next = c;
    q->last = c;
    q->count++;
    call_queue_check(q);
}

static struct call *take(struct call_queue *q)
{
    struct call *c = q->first;
    call_queue_check(q);
    if (c == NULL) return NULL;
    q->first = c->next;
    q->count--;
    return c;
}

/* ---- answers ---- */

static void return_call(struct engine_reactor *w, struct call *c)
{
    check(c->origin != w->index);
    metric_add(w->sheet, METRIC_CALLS_CROSSED, 1);
    mailbox_send(w->engine->post, w->index, c->origin, c);
}

/* Answers a call that is not being waited for synchronously. A result that waits for an older block
 * than the last parked one waits for that one too: the sync that makes it durable comes anyway. */
static void answer(struct engine_reactor *w, struct call *c)
{
    struct owner *o = &w->owner;
    if (c->origin == w->index) {
        put(&o->ready, c);
    } else if (c->block > o->durable) {
        if (o->parked.count > 0 && c->block < o->parked.last->block)
            c->block = o->parked.last->block;
        put(&o->parked, c);
    } else {
        return_call(w, c);
    }
}

/* Whether the revocation log permits to send the result. In a fleet also, whether no engine of it can
 * admit what was ended up to the result's block. */
static bool is_seen(const struct engine_reactor *w, const struct call *c)
{
    const struct fleet_lane *log = w->commit.log;
    if (c->place != 0 && !revoked_log_seen(w->engine->revoked, c->place)) return false;
    return log == NULL || !c->shows_revocation || fleet_lane_settled(log) >= c->block;
}

void owner_seen(struct engine_reactor *w)
{
    struct owner *o = &w->owner;
    while (o->unseen.count > 0 && is_seen(w, o->unseen.first)) answer(w, take(&o->unseen));
    if (o->place == 0 || !revoked_log_seen(w->engine->revoked, o->place)) return;
    o->place = 0;
    atomic_fetch_and(&w->engine->revoking, ~(UINT64_C(1) << w->index));
}

struct call *owner_ready(struct engine_reactor *w)
{
    if (w->owner.ready.count == 0) return NULL;
    /* as the mailbox does */
    bool goes_on = engine_reactor_has_room(w) || engine_stands_still(w->engine);
    return goes_on ? take(&w->owner.ready) : NULL;
}

/* ---- steps ---- */

/* Sets this reactor's bit, so that readers of the log wake it. Set it before there is something to
 * read, or before checking how far the log was read. */
static void want_ring(struct engine_reactor *w)
{
    atomic_fetch_or(&w->engine->revoking, UINT64_C(1) << w->index);
}

bool owner_all_know(struct engine_reactor *w, struct call *c)
{
    struct owner *o = &w->owner;
    check(c->answered && c->origin == w->index);
    struct revoked_log *log = w->engine->revoked;
    c->shows_revocation = true;
    if (w->commit.log != NULL) c->block = fleet_lane_want(w->commit.log);
    if (w->commit.log == NULL && revoked_log_seen(log, revoked_log_newest(log))) return true;
    want_ring(w);
    o->place = c->place = revoked_log_newest(log);
    if (is_seen(w, c)) return true;
    put(&o->unseen, c);
    return false;
}

static void tell_all(struct engine_reactor *w, const struct effect_notice *n)
{
    struct owner *o = &w->owner;
    want_ring(w);
    o->place = revoked_log_append(w->engine->revoked, n);
    check(o->place != 0);
    o->told = true;
}

/* Unless the actor was suspended again meanwhile: then the suspension stays. */
static void tell_resumed(struct engine_reactor *w, struct call *c)
{
    const struct owner *o = &w->owner;
    check(c->kind == CALL_RESUME);
    if (shard_actor_goes_on(o->shard, c->tenant, c->actor.actor, o->durable))
        tell_all(w, &(struct effect_notice){.kind = NOTICE_ACTOR_RESUMED,
                                            .tenant = c->tenant,
                                            .actor = c->actor.actor,
                                            .at_ms = c->now_ms});
}

static void tell_rotated(struct engine_reactor *w)
{
    check(w->index == SIGNER_SLOT % w->engine->reactor_count);
    signing_follow(w->engine->signing, shard_signers(w->owner.shard), world_now_ms());
    tell_all(w, &(struct effect_notice){.kind = NOTICE_SIGNER_ROTATED});
}

void owner_notice(struct engine_reactor *w, const struct effect_notice *n)
{
    if (n->kind == NOTICE_SIGNER_ROTATED)
        tell_rotated(w);
    else
        tell_all(w, n);
}

static void tell_late(struct engine_reactor *w, struct call *c)
{
    struct owner *o = &w->owner;
    check(c->answered && c->err == ERR_OK && c->block <= o->durable);
    if (c->kind == CALL_ROTATE)
        tell_rotated(w);
    else
        tell_resumed(w, c);
    reactor_wake(w->reactor); /* its next turn reads the log */
    c->place = o->place;
    put(&o->unseen, c);
}

/* As in answer(), a call that waits for an older block than the last one waits for that one. */
bool owner_synced(struct engine_reactor *w, struct call *c)
{
    struct owner *o = &w->owner;
    check(c->answered && c->origin == w->index);
    if (c->block <= o->durable) return true;
    if (o->syncing.count > 0 && c->block < o->syncing.last->block)
        c->block = o->syncing.last->block;
    put(&o->syncing, c);
    return false;
}

void owner_durable(struct engine_reactor *w, uint64_t durable)
{
    struct owner *o = &w->owner;
    check(durable >= o->durable);
    o->durable = durable;
    if (o->yielded.count > 0) {
        put(&o->ready, take(&o->yielded));
        reactor_wake(w->reactor);
    }
    /* the next turn returns them */
    if (o->syncing.count > 0 && o->syncing.first->block <= durable) reactor_wake(w->reactor);
    while (o->syncing.count > 0 && o->syncing.first->block <= durable)
        put(&o->ready, take(&o->syncing));
    while (o->parked.count > 0 && o->parked.first->block <= durable)
        return_call(w, take(&o->parked));
    while (o->late.count > 0 && o->late.first->block <= durable) tell_late(w, take(&o->late));
    owner_check(o);
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* What a result shows of the present state waits for this block: in a fleet also if nothing changed,
 * because another engine may lead by now. 0: for nothing. */
static uint64_t present(struct engine_reactor *w)
{
    return w->commit.log == NULL ? 0 : fleet_lane_want(w->commit.log);
}

/* Performs the effects of a step or a tick. Returns the block of its records; 0: it made none. */
static uint64_t perform(struct engine_reactor *w)
{
    struct owner *o = &w->owner;
    struct effects *e = &o->effects;
    effects_check(e);
    uint64_t block = 0;
    if (e->record_count > 0) {
        block =
            commit_put(&w->commit, e->records, e->record_count, commit_lane_of_state(&w->commit))
                .block;
        shard_recorded(o->shard, block);
        /* no further request in this turn */
        if (!engine_reactor_has_room(w)) http_server_hold(w->server, true);
    }
    /* No access may resume by what a crash could undo: owner_durable() publishes resumptions. */
    for (size_t i = 0; i < e->notice_count; i++) {
        if (e->notices[i].kind == NOTICE_SIGNER_ROTATED)
            tell_rotated(w); /* early enough: long before it signs */
        else if (e->notices[i].kind != NOTICE_ACTOR_RESUMED)
            tell_all(w, &e->notices[i]);
    }
    for (struct call *c = e->woken, *next; c != NULL; c = next) {
        next = c->next;
        c->block = later(later(block, c->block), present(w));
        answer(w, c);
    }
    o->stepped = true;
    return block;
}

static enum err step(struct engine_reactor *w, struct call *c)
{
    struct owner *o = &w->owner;
    size_t most = shard_may_record(o->shard, c) ? call_record_most(c) : 0;
    if (most > 0) {
        enum err err =
            commit_room(&w->commit, most, call_closes(c->kind), commit_lane_of_state(&w->commit));
        if (err != ERR_OK) return err;
    }
    uint64_t before = c->block; /* of this call's earlier steps, if one was not enough */
    shard_step(o->shard, c, &o->effects);
    check(most > 0 || o->effects.record_count == 0);
    for (size_t i = 0; i < o->effects.record_count; i++)
        c->recorded_bytes += o->effects.records[i].event.size + o->effects.records[i].delta.size;
    uint64_t block = perform(w);
    if (o->effects.reveals_unsynced) block = later(block, o->effects.reveals_block);
    c->block = later(later(before, c->block), block);
    return ERR_OK;
}

/* Makes it, or reveals it. If the origin knows of a later one than the owner, the origin waits
 * itself (operation_when_all_know). */
/* The position in lists. The thread that indexes the object right after assigns it: so a later call
 * to this shard finds everything below a later position (page.c). */
static void number(struct engine_reactor *w, struct call *c)
{
    uint64_t *ordinal = call_ordinal(c);
    if (ordinal != NULL) *ordinal = engine_reactor_ordinal(w);
}

/* Refuses to mint a token that would be dead already; the origin checks whether the requester may
 * have another. */
static enum err mint_overtaken(struct engine_reactor *w, const struct call *c)
{
    const struct token_facts *t = &c->mint.facts;
    const struct token_claims token = {
        .id = t->id, .tenant = t->tenant, .actor = t->actor, .signer = t->signer};
    if (engine_reactor_actor_is_suspended(w, t->tenant, t->actor)) return ERR_ACTOR_SUSPENDED;
    bool is_over = c->now_ms >= t->expires_ms || engine_reactor_token_is_dead(w, &token);
    return is_over ? ERR_OVERLOADED : ERR_OK;
}

/* The origin checked before it sent the call, and the call may have waited for room since. So
 * suspensions and revocations published meanwhile are checked again. */
static enum err overtaken(struct engine_reactor *w, const struct call *c)
{
    if (c->kind == CALL_MINT) return mint_overtaken(w, c);
    if (c->kind != CALL_ENQUEUE && c->kind != CALL_SHARE && c->kind != CALL_REDEEM) return ERR_OK;
    const struct token_claims token = {.id = c->requester.token,
                                       .tenant = c->tenant,
                                       .actor = c->requester.token_actor,
                                       .signer = c->requester.token_signer};
    if (!str_is_absent(token.actor) && engine_reactor_token_is_dead(w, &token))
        return ERR_CREDENTIAL_REVOKED;
    bool is_stopped = !str_is_absent(c->for_actor) &&
                      engine_reactor_actor_is_suspended(w, c->tenant, c->for_actor);
    return is_stopped ? ERR_ACTOR_SUSPENDED : ERR_OK;
}

/* True: answered, and only its block may delay the result. */
static bool run(struct engine_reactor *w, struct call *c)
{
    struct owner *o = &w->owner;
    check(!c->answered && c->to == w->index);
    enum err err;
    /* The time of the step, not of the request, which may have waited long. */
    c->now_ms = later(c->now_ms, world_now_ms());
    number(w, c);
    err = overtaken(w, c);
    if (err == ERR_OK) {
        do err = step(w, c);
        while (err == ERR_OK && !c->answered && o->effects.again && !o->effects.pauses);
    }
    if (err == ERR_OK && !c->answered && o->effects.pauses) {
        put(&o->paused, c);
        return false;
    }
    if (err == ERR_FULL) {
        put(&o->held, c);
        return false;
    }
    if (err != ERR_OK) { /* this step changed nothing */
        c->err = err;
        c->answered = true;
    }
    if (!c->answered) return false;
    if (!c->reads_copy) c->block = later(c->block, present(w));
    /* A repeated revocation, or a search for it, is answered no earlier than the first one. */
    c->shows_revocation = call_is_about_revocation(c->kind);
    if (c->shows_revocation) c->place = o->place;
    /* A signing key must not be lost while its tokens are accepted, so it is published when
     * durable. */
    if ((c->kind == CALL_RESUME || c->kind == CALL_ROTATE) && c->err == ERR_OK) {
        put(&o->late, c);
        return false;
    }
    if (is_seen(w, c)) return true;
    put(&o->unseen, c);
    return false;
}

bool owner_call(struct engine_reactor *w, struct call *c) { return run(w, c); }

enum err owner_take_over(struct engine_reactor *w, struct call *c)
{
    check((c->kind == CALL_SUSPEND && c->actor.since_ms != 0) || c->kind == CALL_ROTATE);
    enum err err;
    number(w, c);
    do err = step(w, c);
    while (err == ERR_OK && !c->answered && w->owner.effects.again);
    return err == ERR_OK ? c->err : err;
}

void owner_return(struct engine_reactor *w, struct call *c)
{
    check(c->answered && c->origin == w->index);
    answer(w, c);
}

void owner_yield(struct engine_reactor *w, struct call *c) { put(&w->owner.yielded, c); }

static bool take_out(struct call_queue *q, const struct call *wanted)
{
    struct call *last = NULL;
    for (struct call **at = &q->first; *at != NULL; last = *at, at = &(*at)->next) {
        if (*at != wanted) continue;
        *at = wanted->next;
        if (q->last == wanted) q->last = last;
        q->count--;
        return true;
    }
    return false;
}

bool owner_forget(struct engine_reactor *w, struct call *c)
{
    struct owner *o = &w->owner;
    return take_out(&o->held, c) || shard_forget(o->shard, c);
}

void owner_receive(struct engine_reactor *w, struct call *c)
{
    check(c->origin != w->index && c->to == w->index);
    if (c->forgets != NULL) {
        if (owner_forget(w, c->forgets)) return_call(w, c->forgets);
        return_call(w, c);
    } else if (run(w, c)) {
        answer(w, c);
    }
}

/* In the order of arrival; but a call that closes something does not wait behind one that may not
 * use the reserve. */
void owner_retry(struct engine_reactor *w)
{
    struct owner *o = &w->owner;
    if (o->held.count == 0) return;
    owner_check(o);
    struct call_queue before = o->held;
    bool stuck[2] = {false, false}; /* [call_closes] */
    o->held = (struct call_queue){0};
    for (struct call *c; (c = take(&before)) != NULL;) {
        bool closes = call_closes(c->kind);
        size_t held = o->held.count;
        if (stuck[closes])
            put(&o->held, c);
        else if (run(w, c))
            answer(w, c);
        if (o->held.count > held) stuck[closes] = true;
    }
}

/* One, whatever waits: its client may wait, and those of the other calls of a turn do. */
bool owner_resume(struct engine_reactor *w)
{
    struct owner *o = &w->owner;
    struct call *c = take(&o->paused);
    if (c != NULL && run(w, c)) answer(w, c);
    return o->paused.count > 0;
}

/* ---- time ---- */

static void timer_due(struct loop_timer *t)
{
    struct owner *o = link_owner(t, struct owner, timer);
    check(o->timer_ms != 0);
    o->stepped = true; /* the end of this turn checks */
    o->timer_ms = 0;
}

static void timer_set(struct engine_reactor *w, uint64_t due_ms, uint64_t now_ms)
{
    struct owner *o = &w->owner;
    /* an early check does no harm */
    if (due_ms == UINT64_MAX || (o->timer_ms != 0 && o->timer_ms <= due_ms)) return;
    o->timer_ms = due_ms;
    loop_timer_start(w->loop, &o->timer, due_ms > now_ms ? due_ms - now_ms : 0, timer_due);
}

bool owner_tick(struct engine_reactor *w)
{
    struct owner *o = &w->owner;
    if (!o->stepped || !engine_owns_state(w->engine)) return false;
    owner_check(o);
    uint64_t now_ms = world_now_ms(), next_ms = UINT64_MAX;
    for (unsigned i = 0; i < TICKS_PER_TURN; i++) {
        if (commit_room(&w->commit, shard_tick_record_most(), true,
                        commit_lane_of_state(&w->commit)) != ERR_OK) {
            if (shard_tick_waits(o->shard, now_ms, &o->effects, &next_ms)) perform(w);
            /* a wakeup comes earlier, as soon as there is room */
            timer_set(w, next_ms < now_ms + 1000 ? next_ms : now_ms + 1000, now_ms);
            return false;
        }
        if (!shard_tick(o->shard, now_ms, &w->api.chance, &o->effects, &next_ms)) {
            o->stepped = false;
            timer_set(w, next_ms, now_ms);
            return false;
        }
        perform(w);
    }
    return true;
}

/* ---- life ---- */

void owner_init(struct engine_reactor *w, struct shard *shard)
{
    struct owner *o = &w->owner;
    o->shard = shard;
    arena_init(&o->arena, EFFECT_ARENA_FIRST, EFFECT_ARENA_MOST);
    o->effects.arena = &o->arena;
    o->stepped = true; /* what became due before the start */
    owner_check(o);
}

void owner_fini(struct engine_reactor *w)
{
    struct owner *o = &w->owner;
    loop_timer_stop(w->loop, &o->timer);
    arena_fini(&o->arena);
}
