/* worker.c - one reactor of the engine: its beat, and what is plugged into it.
 *
 *   begin   revocations that are new → the bundle in force
 *   (sleep; sockets and timers: requests are decided and recorded, replies parked)
 *   end     calls that were held → mail → what is due by time → answers of our own go on
 *           → seal the block → marks → release replies and parked answers → flush mail, ring
 *           → hold sockets while no block can be begun
 *
 * Mail is taken after the sleep that its bell ended, so that its records leave with the same block
 * as those of the sockets, and its answers with the same flush. What came after the taking has rung
 * anew. A worker sleeps only where a bell or a timer will wake it for whatever is left.
 *
 * While no block can be begun (none is free, or a segment is slow to come) neither sockets nor mail
 * are read: whoever comes home may have a record to write, and a disk that is slow for a moment
 * must not become an error. The scribe rings when there is room. Where the moment becomes longer
 * than journal.stall, both are read again, so that health is told, and state where all of it is on
 * disk; what could make something looser is refused (route_handle), what makes it stricter waits.
 *
 * The end: drain (no new requests, waits are answered 503) → the main thread sees that
 * nothing is under way anywhere → stop → a barrier, behind which nobody steps a call any
 * more → each frees its own. */
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/errand.h"
#include "engine/signing.h"
#include "engine/traced.h"

enum {
    KEY_CACHE_ENTRIES = 4096,
    TOKEN_CACHE_ENTRIES = 32768,
    POLICY_MEMORY_ENTRIES = 4096, /* tools of all tenants; half a megabyte */
    TICK_MS = 1000,
    OUTBOX_MS = 1
};

static void gauges_set(struct worker *w)
{
    size_t connections = http_server_connections(w->server);
    atomic_store_explicit(&w->connections, connections, memory_order_relaxed);
    metric_set(w->sheet, METRIC_ENGINE_CONNECTIONS, connections);
    metric_set(w->sheet, METRIC_ENGINE_CLOSED_FOR_ROOM, http_server_closed_for_room(w->server));
    metric_set(w->sheet, METRIC_ENGINE_REPLIES_PARKED, http_server_waiting(w->server));
}

static void state_gauges_set(struct worker *w)
{
    struct shard_totals totals;
    shard_totals(w->owner.shard, &totals);
    const struct {
        enum metric metric;
        uint64_t value;
    } figures[] = {
        {METRIC_MAILBOX_DEPTH, mailbox_depth(w->engine->post, w->index)},
        {METRIC_ANSWERS_PARKED, w->owner.parked.count + w->owner.unseen.count},
        {METRIC_CALLS_HELD, w->owner.held.count},
        {METRIC_VISITS_AWAY, w->visits},
        {METRIC_WAITS, w->waits.count},
        {METRIC_TOKENS, totals.tokens},
        {METRIC_REVIEWS_PENDING, totals.reviews_pending},
        {METRIC_REVIEWS_KEPT, totals.reviews},
        {METRIC_COUNTERS_KEPT, totals.counters},
        {METRIC_ACTORS_SUSPENDED, totals.suspended},
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        metric_set(w->sheet, figures[i].metric, figures[i].value);
}

static void tick(struct loop_timer *t)
{
    struct worker *w = link_owner(t, struct worker, tick);
    if (w->index == SIGNER_SLOT)
        signing_keep_up(w->engine->signing, shard_signers(w->owner.shard), world_now_ms());
    auth_failed_record(w);
    gauges_set(w);
    state_gauges_set(w);
    loop_timer_start(w->loop, &w->tick, TICK_MS, tick);
}

/* A reactor's part; each may hold two of the largest. */
static size_t held_bytes_each(unsigned reactors)
{
    size_t part = LIMIT_HELD_BYTES / reactors, least = 2 * (size_t)LIMIT_REPLY_BYTES;
    return part > least ? part : least;
}

static void worker_enter(void *context, struct loop *loop)
{
    struct worker *w = context;
    struct engine *e = w->engine;
    const struct config *c = &e->config;
    const struct http_service service = {.routes = engine_routes,
                                         .route_count = engine_route_count,
                                         .context = w,
                                         .admit = route_admit,
                                         .handle = route_handle,
                                         .refuse = route_refuse};
    struct http_limits limits = {.connections_max =
                                     (uint32_t)(c->connections_max / e->worker_count + 1),
                                 .head_ms = (uint32_t)c->head_ms,
                                 .body_ms = (uint32_t)c->body_ms,
                                 .idle_ms = (uint32_t)c->idle_ms,
                                 .write_ms = (uint32_t)c->write_ms,
                                 .held_bytes = held_bytes_each(e->worker_count),
                                 .proxies = &e->proxies};
    w->loop = loop;
    w->server = http_server_create(loop, &service, &limits);
    list_init(&w->away);
    list_init(&w->waiting);
    waits_init(&w->waits, limits.connections_max);
    w->revoked = revoked_view_create(e->revoked, w->index);
    check(w->revoked != NULL);
    owner_init(w, e->shards[w->index]);
    w->api.pepper = &e->pepper;
    w->api.cache = key_cache_create(KEY_CACHE_ENTRIES);
    w->api.hasher = hasher_create();
    w->memory = policy_memory_create(POLICY_MEMORY_ENTRIES);
    w->api.chance.refill = crypto_random;
    w->api.sheet = w->sheet;
    w->api.replies_2xx = METRIC_ENGINE_REPLIES_2XX;
    w->api.auth_failed = METRIC_ENGINE_AUTH_FAILED;
    w->api.on_auth_failed = auth_failed_note;
    w->api.context = w;
    w->api.signers = signing_now(e->signing);
    w->api.tokens = token_cache_create(TOKEN_CACHE_ENTRIES);
    w->api.token_issuer = str_from(c->token_issuer);
    w->api.token_audience = str_from(c->token_audience);
    w->api.token_is_dead = worker_token_is_dead;
    w->api.on_token_rejected = token_rejected_note;
    if (e->spans != NULL) w->spans = spans_lane(e->spans, w->index, w->sheet);
    w->commit.producer = journal_producer(e->journal, w->index);
    w->commit.always_synced = str_equal(str_from(c->durability), STR("synced"));
    if (c->platform_url[0] != '\0')
        w->forward =
            forward_create(&w->api, loop, &w->server, c->platform_url, limits.connections_max);
    w->disk.seen_ms = loop_now_ms(loop);
    loop_timer_start(loop, &w->tick, TICK_MS, tick);
}

static void worker_leave(void *context)
{
    struct worker *w = context;
    /* calls of ours may be at others until here, and theirs with us */
    pthread_barrier_wait(&w->engine->leaving);
    errands_drop(w);
    waits_fini(&w->waits);
    owner_fini(w);
    revoked_view_destroy(w->revoked);
    auth_failed_record(w);
    journal_seal(w->commit.producer);
    loop_timer_stop(w->loop, &w->tick);
    loop_timer_stop(w->loop, &w->outbox);
    forward_destroy(w->forward);
    http_server_destroy(w->server);
    key_cache_destroy(w->api.cache);
    token_cache_destroy(w->api.tokens);
    hasher_destroy(w->api.hasher);
    policy_memory_destroy(w->memory);
}

static void wake_peer(void *context, unsigned peer)
{
    struct worker *w = context;
    reactor_wake(w->engine->workers[peer].reactor);
}

/* Whoever waits until all have seen its revocation is told that we have. */
static void take_revocations(struct worker *w)
{
    if (!revoked_view_take(w->revoked, world_now_ms())) return;
    w->api.signers = signing_now(w->engine->signing); /* of a rotation the log tells, too */
    for (uint64_t left = atomic_load(&w->engine->revoking); left != 0; left &= left - 1)
        wake_peer(w, (unsigned)__builtin_ctzll(left)); /* ourselves too */
}

/* Steps of the last beat pointed into the old bundle; from here on they may only into the new.
 * Errands that are away still do: then the last of them tells that we have moved. */
static void take_bundle(struct worker *w)
{
    const struct bundle *newest = atomic_load_explicit(&w->engine->bundle, memory_order_acquire);
    if (newest == w->bundle) return;
    check(w->pins_before == 0); /* the feed waited for us the last time */
    w->pins_before = w->pins;
    w->pins = 0;
    w->bundle = newest;
    w->api.keys = bundle_keys(newest);
    w->api.served = bundle_served(newest);
    shard_hold_limits(w->owner.shard, bundle_limit_windows(newest));
    key_cache_clear(w->api.cache);
    if (w->pins_before == 0) worker_moved(w);
}

static void worker_begin(void *context)
{
    struct worker *w = context;
    w->api.signers = signing_now(w->engine->signing); /* sets that were replaced are kept */
    take_revocations(w);
    take_bundle(w);
}

static void worker_told(void *context, const struct reactor_message *m)
{
    struct worker *w = context;
    if (m->kind == REACTOR_SOCKET) {
        http_server_take(w->server, m->fd, m->is_unix);
        return;
    }
    http_server_drain(w->server); /* before the waits are answered: their connections close then */
    errands_drain(w);
    if (w->forward != NULL) forward_drain(w->forward);
}

static void observe_durable(struct worker *w, uint64_t durable)
{
    if (w->sealed_ns == 0 || durable < w->sealed_mark) return;
    metric_observe(w->sheet, HISTOGRAM_DURABLE, world_monotonic_ns() - w->sealed_ns);
    w->sealed_ns = 0;
}

/* What ended the call, a suspension that denies what its actor waits for, may have been told after
 * this beat began; but before it was sent. */
static void come_home(struct worker *w, struct call *c)
{
    take_revocations(w);
    errand_home(w, c);
}

/* True: more has come than one beat takes. */
static bool take_mail(struct worker *w)
{
    bool more = false;
    struct call *c;
    while ((worker_has_room(w) || engine_stands_still(w->engine)) &&
           (c = mailbox_take(w->engine->post, w->index, &more)) != NULL) {
        if (c->home == w->index)
            come_home(w, c);
        else
            owner_receive(w, c);
    }
    return more;
}

static void outbox_due(struct loop_timer *t) { (void)t; } /* the end of this beat flushes */

/* One bell for each peer that has news, and one for all where there is a revocation. A
 * ring that was full is tried again soon; its reader may be waiting for a disk, so not
 * at once and at once again. */
static void flush_mail(struct worker *w)
{
    if (mailbox_flush(w->engine->post, w->index, wake_peer, w))
        loop_timer_start(w->loop, &w->outbox, OUTBOX_MS, outbox_due);
    if (!w->owner.told) return;
    w->owner.told = false;
    for (unsigned i = 0; i < w->engine->worker_count; i++)
        if (i != w->index) wake_peer(w, i);
}

/* True: something is left for the next beat, and no bell will ring for it. */
static bool move_calls(struct worker *w)
{
    owner_retry(w);
    bool more = take_mail(w);
    more = owner_tick(w) || more;
    owner_seen(w);
    for (struct call *c; (c = owner_ready(w)) != NULL;) come_home(w, c);
    return more;
}

/* Time in which this thread itself was stopped, or had no processor, is not the disk's: there is a
 * beat each second at least, and none counts for much more. */
static void watch_disk(struct worker *w, bool has_room, uint64_t durable)
{
    struct disk_watch *d = &w->disk;
    uint64_t now_ms = loop_now_ms(w->loop), passed_ms = now_ms - d->seen_ms;
    bool waits = !has_room || durable < journal_mark(w->commit.producer);
    bool is_idle = waits && d->waits && durable == d->durable;
    if (passed_ms > 2 * TICK_MS) passed_ms = 2 * TICK_MS;
    d->idle_ms = is_idle ? d->idle_ms + passed_ms : 0;
    d->seen_ms = now_ms;
    d->durable = durable;
    d->waits = waits;
    bool stands_still = d->idle_ms >= w->engine->config.stall_ms;
    if (stands_still == d->stands_still) return;
    d->stands_still = stands_still;
    if (stands_still) {
        atomic_fetch_add(&w->engine->standing_still, 1);
        log_text(LOG_ERROR, "disk_stands_still", "%s: what needs a record is refused",
                 STANDS_STILL_TEXT);
    } else {
        atomic_fetch_sub(&w->engine->standing_still, 1);
        log_line(LOG_INFO, "disk_goes_on", NULL);
    }
}

static void worker_end(void *context)
{
    struct worker *w = context;
    struct journal_producer *p = w->commit.producer;
    bool more = move_calls(w);
    journal_seal(p);
    if (w->sealed_ns == 0 && journal_mark(p) != w->sealed_mark) { /* one block at a time is timed */
        w->sealed_mark = journal_mark(p);
        w->sealed_ns = world_monotonic_ns();
    }
    uint64_t written, durable;
    journal_marks(p, &written, &durable);
    observe_durable(w, durable);
    http_server_release(w->server, written, durable);
    traced_beat(w, written, durable);
    owner_durable(w, durable);
    flush_mail(w);
    bool has_room = worker_has_room(w);
    watch_disk(w, has_room, durable);
    http_server_hold(w->server, !has_room && !engine_stands_still(w->engine));
    atomic_store_explicit(&w->connections, http_server_connections(w->server),
                          memory_order_relaxed);
    if (more) reactor_wake(w->reactor);
}

enum err worker_start(struct engine *e, unsigned index)
{
    static const struct reactor_ports ports = {.enter = worker_enter,
                                               .begin = worker_begin,
                                               .told = worker_told,
                                               .end = worker_end,
                                               .leave = worker_leave};
    struct worker *w = &e->workers[index];
    w->engine = e;
    w->index = index;
    w->sheet = metrics_sheet_create();
    return reactor_create(index, &ports, w, &w->reactor);
}

void worker_tell(struct worker *w, enum reactor_message_kind kind, int fd, bool is_unix)
{
    struct reactor_message m = {.kind = kind, .fd = fd, .is_unix = is_unix};
    while (reactor_tell(w->reactor, &m) != ERR_OK) {
        if (kind == REACTOR_SOCKET) {
            close(fd);
            log_line(LOG_WARNING, "connection_refused", "why", "the reactor's inbox is full", NULL);
            return;
        }
        sched_yield(); /* it is full of sockets, and emptied each beat */
    }
}
