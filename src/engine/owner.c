#include "engine/owner.h"

#include "base/check.h"
#include "base/limits.h"
#include "engine/engine.h"
#include "engine/signing.h"

enum {
    EFFECT_ARENA_FIRST = 64 << 10,
    EFFECT_ARENA_MOST = 4 << 20, /* all the events and deltas of one step */
    TICKS_PER_BEAT = 64,         /* expiries; each may be a record */
};

/* ---- queues ---- */

static void put(struct call_queue *q, struct call *c)
{
    c->next = NULL;
    if (q->first == NULL)
        q->first = c;
    else
        q->last->next = c;
    q->last = c;
    q->count++;
}

static struct call *take(struct call_queue *q)
{
    struct call *c = q->first;
    if (c == NULL) return NULL;
    q->first = c->next;
    q->count--;
    return c;
}

/* ---- answers ---- */

static void go_home(struct worker *w, struct call *c)
{
    metric_add(w->sheet, METRIC_CALLS_CROSSED, 1);
    mailbox_send(w->engine->post, w->index, c->home, c);
}

/* An answer that nobody waits for in this very moment. What waits for an older block than the last
 * one parked waits for that one too: the sync that makes it durable is coming anyway. */
static void answer(struct worker *w, struct call *c)
{
    struct owner *o = &w->owner;
    if (c->home == w->index) {
        put(&o->ready, c);
    } else if (c->mark > o->durable) {
        if (o->parked.count > 0 && c->mark < o->parked.last->mark) c->mark = o->parked.last->mark;
        put(&o->parked, c);
    } else {
        go_home(w, c);
    }
}

/* Whether the answer may be given as far as the revocation log is concerned. */
static bool is_seen(const struct worker *w, const struct call *c)
{
    return c->place == 0 || revoked_log_seen(w->engine->revoked, c->place);
}

void owner_seen(struct worker *w)
{
    struct owner *o = &w->owner;
    while (o->unseen.count > 0 && is_seen(w, o->unseen.first)) answer(w, take(&o->unseen));
    if (o->place == 0 || !revoked_log_seen(w->engine->revoked, o->place)) return;
    o->place = 0;
    atomic_fetch_and(&w->engine->revoking, ~(UINT64_C(1) << w->index));
}

struct call *owner_ready(struct worker *w)
{
    if (w->owner.ready.count == 0) return NULL;
    bool goes_on = worker_has_room(w) || engine_stands_still(w->engine); /* as mail does */
    return goes_on ? take(&w->owner.ready) : NULL;
}

/* ---- steps ---- */

/* Our bit says that we want to be rung by whoever has read the log: set before there is something to
 * read, or before it is looked at how far that is. */
static void want_ring(struct worker *w)
{
    atomic_fetch_or(&w->engine->revoking, UINT64_C(1) << w->index);
}

bool owner_all_know(struct worker *w, struct call *c)
{
    struct owner *o = &w->owner;
    struct revoked_log *log = w->engine->revoked;
    if (revoked_log_seen(log, revoked_log_newest(log))) return true;
    want_ring(w);
    o->place = c->place = revoked_log_newest(log);
    if (is_seen(w, c)) return true;
    put(&o->unseen, c);
    return false;
}

static void tell_all(struct worker *w, const struct effect_notice *n)
{
    struct owner *o = &w->owner;
    want_ring(w);
    o->place = revoked_log_append(w->engine->revoked, n);
    o->told = true;
}

/* Unless the actor was suspended again meanwhile: that is what holds then. */
static void tell_resumed(struct worker *w, struct call *c)
{
    const struct owner *o = &w->owner;
    if (shard_actor_goes_on(o->shard, c->tenant, c->actor.actor, o->durable))
        tell_all(w, &(struct effect_notice){.kind = NOTICE_ACTOR_RESUMED,
                                            .tenant = c->tenant,
                                            .actor = c->actor.actor,
                                            .at_ms = c->now_ms});
}

static void tell_rotated(struct worker *w)
{
    signing_follow(w->engine->signing, shard_signers(w->owner.shard), world_now_ms());
    tell_all(w, &(struct effect_notice){.kind = NOTICE_SIGNER_ROTATED});
}

static void tell_late(struct worker *w, struct call *c)
{
    struct owner *o = &w->owner;
    if (c->kind == CALL_ROTATE)
        tell_rotated(w);
    else
        tell_resumed(w, c);
    reactor_wake(w->reactor); /* its next beat reads the log */
    c->place = o->place;
    put(&o->unseen, c);
}

void owner_durable(struct worker *w, uint64_t durable)
{
    struct owner *o = &w->owner;
    o->durable = durable;
    while (o->parked.count > 0 && o->parked.first->mark <= durable) go_home(w, take(&o->parked));
    while (o->late.count > 0 && o->late.first->mark <= durable) tell_late(w, take(&o->late));
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* What a step or a tick wants done. Its records' block; 0: it made none. */
static uint64_t perform(struct worker *w)
{
    struct owner *o = &w->owner;
    struct effects *e = &o->effects;
    uint64_t mark = 0;
    if (e->record_count > 0) {
        mark = commit_put(&w->commit, e->records, e->record_count, true).mark;
        shard_recorded(o->shard, mark);
        /* no further request in this beat */
        if (!worker_has_room(w)) http_server_hold(w->server, true);
    }
    /* What a crash could take back lets nobody go on: of a resumption owner_durable() tells. */
    for (size_t i = 0; i < e->notice_count; i++) {
        if (e->notices[i].kind == NOTICE_SIGNER_ROTATED)
            tell_rotated(w); /* in time: long before it signs */
        else if (e->notices[i].kind != NOTICE_ACTOR_RESUMED)
            tell_all(w, &e->notices[i]);
    }
    for (struct call *c = e->woken, *next; c != NULL; c = next) {
        next = c->next;
        c->mark = later(mark, c->mark);
        answer(w, c);
    }
    o->stepped = true;
    return mark;
}

static enum err step(struct worker *w, struct call *c)
{
    struct owner *o = &w->owner;
    size_t most = shard_may_record(o->shard, c) ? call_record_most(c) : 0;
    if (most > 0) {
        enum err err = commit_room(&w->commit, most, call_closes(c->kind));
        if (err != ERR_OK) return err;
    }
    uint64_t before = c->mark; /* of this call's earlier steps, where one was not enough */
    shard_step(o->shard, c, &o->effects);
    check(most > 0 || o->effects.record_count == 0);
    uint64_t mark = perform(w);
    if (o->effects.reveals_unsynced) mark = later(mark, o->effects.reveals_mark);
    c->mark = later(later(before, c->mark), mark);
    return ERR_OK;
}

/* Makes it, or tells of it; where home knows more of it than the owner, it waits itself
 * (errand_when_all_know). */
static bool is_about_revocation(enum call_kind k)
{
    return k == CALL_REVOKE || k == CALL_SUSPEND || k == CALL_RESUME || k == CALL_ACTOR_LIST;
}

/* Its place in lists, given by the thread that files it right after: whoever then asks this shard
 * for what is below a later place finds it (page.c). */
static void number(struct worker *w, struct call *c)
{
    if (c->kind == CALL_ENQUEUE)
        c->enqueue.facts.ordinal = worker_ordinal(w);
    else if (c->kind == CALL_MINT)
        c->mint.facts.ordinal = worker_ordinal(w);
    else if (c->kind == CALL_SUSPEND)
        c->actor.ordinal = worker_ordinal(w);
}

/* A token that would be dead already is none; whether whoever asks may have another is for home to
 * look at again. */
static enum err mint_overtaken(struct worker *w, const struct call *c)
{
    const struct token_facts *t = &c->mint.facts;
    const struct token_claims token = {
        .id = t->id, .tenant = t->tenant, .actor = t->actor, .signer = t->signer};
    if (worker_actor_is_suspended(w, t->tenant, t->actor)) return ERR_ACTOR_SUSPENDED;
    bool is_over = c->now_ms >= t->expires_ms || worker_token_is_dead(w, &token);
    return is_over ? ERR_OVERLOADED : ERR_OK;
}

/* Home looked before it sent the call, which may have lain here since without room for its record:
 * what everybody was told of meanwhile holds. */
static enum err overtaken(struct worker *w, const struct call *c)
{
    if (c->kind == CALL_MINT) return mint_overtaken(w, c);
    if (c->kind != CALL_ENQUEUE && c->kind != CALL_SHARE && c->kind != CALL_REDEEM) return ERR_OK;
    const struct token_claims token = {.id = c->asker.token,
                                       .tenant = c->tenant,
                                       .actor = c->asker.token_actor,
                                       .signer = c->asker.token_signer};
    if (!str_is_absent(token.actor) && worker_token_is_dead(w, &token))
        return ERR_CREDENTIAL_REVOKED;
    bool is_stopped =
        !str_is_absent(c->for_actor) && worker_actor_is_suspended(w, c->tenant, c->for_actor);
    return is_stopped ? ERR_ACTOR_SUSPENDED : ERR_OK;
}

/* True: answered, and nothing but its block may keep the answer. */
static bool run(struct worker *w, struct call *c)
{
    struct owner *o = &w->owner;
    enum err err;
    /* It is done now, not when it was asked for: whoever asked may have waited long. */
    c->now_ms = later(c->now_ms, world_now_ms());
    number(w, c);
    err = overtaken(w, c);
    if (err == ERR_OK) {
        do err = step(w, c);
        while (err == ERR_OK && !c->answered && o->effects.again);
    }
    if (err == ERR_FULL) {
        put(&o->held, c);
        return false;
    }
    if (err != ERR_OK) { /* nothing was changed by this step */
        c->err = err;
        c->answered = true;
    }
    if (!c->answered) return false;
    /* Whoever repeats a revocation, or looks for it, is told no earlier than whoever made it. */
    if (is_about_revocation(c->kind)) c->place = o->place;
    /* What a token is signed with may not be lost while it is taken: told when it is durable. */
    if ((c->kind == CALL_RESUME || c->kind == CALL_ROTATE) && c->err == ERR_OK) {
        put(&o->late, c);
        return false;
    }
    if (is_seen(w, c)) return true;
    put(&o->unseen, c);
    return false;
}

bool owner_ask(struct worker *w, struct call *c) { return run(w, c); }

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

bool owner_forget(struct worker *w, struct call *c)
{
    struct owner *o = &w->owner;
    return take_out(&o->held, c) || shard_forget(o->shard, c);
}

void owner_receive(struct worker *w, struct call *c)
{
    if (c->forgets != NULL) {
        if (owner_forget(w, c->forgets)) go_home(w, c->forgets);
        go_home(w, c);
    } else if (run(w, c)) {
        answer(w, c);
    }
}

/* In the order in which they came; but what closes something does not stand behind what may not yet
 * use the reserve. */
void owner_retry(struct worker *w)
{
    struct owner *o = &w->owner;
    if (o->held.count == 0) return;
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

/* ---- time ---- */

static void timer_due(struct loop_timer *t)
{
    struct owner *o = link_owner(t, struct owner, timer);
    o->stepped = true; /* the end of this beat looks */
    o->timer_ms = 0;
}

static void timer_set(struct worker *w, uint64_t due_ms, uint64_t now_ms)
{
    struct owner *o = &w->owner;
    /* an early look does no harm */
    if (due_ms == UINT64_MAX || (o->timer_ms != 0 && o->timer_ms <= due_ms)) return;
    o->timer_ms = due_ms;
    loop_timer_start(w->loop, &o->timer, due_ms > now_ms ? due_ms - now_ms : 0, timer_due);
}

bool owner_tick(struct worker *w)
{
    struct owner *o = &w->owner;
    if (!o->stepped) return false;
    uint64_t now_ms = world_now_ms(), next_ms = UINT64_MAX;
    for (unsigned i = 0; i < TICKS_PER_BEAT; i++) {
        if (commit_room(&w->commit, shard_tick_record_most(), true) != ERR_OK) {
            if (shard_tick_waits(o->shard, now_ms, &o->effects, &next_ms)) perform(w);
            /* a bell rings earlier, as soon as there is room */
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

void owner_init(struct worker *w, struct shard *shard)
{
    struct owner *o = &w->owner;
    o->shard = shard;
    arena_init(&o->arena, EFFECT_ARENA_FIRST, EFFECT_ARENA_MOST);
    o->effects.arena = &o->arena;
    o->stepped = true; /* what came due while nobody ran */
}

void owner_fini(struct worker *w)
{
    struct owner *o = &w->owner;
    loop_timer_stop(w->loop, &o->timer);
    arena_fini(&o->arena);
}
