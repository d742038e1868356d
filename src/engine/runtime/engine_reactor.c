/* engine_reactor.c - one reactor of the engine: its turn, and its ports.
 *
 *   begin   new revocations → the bundle in force
 *   (sleep; sockets and timers: requests are decided and recorded, replies parked)
 *   end     held calls → one paused call → mailbox → offloaded work → due work → own results continue
 *           → seal the block → block numbers → release replies and parked results → flush the mailbox, wake
 *           → hold sockets while no block can be begun
 *
 * The mailbox is read after the sleep that its wakeup ended, so that its records leave with the
 * same block as those of the sockets, and its results with the same flush. Calls that arrive after
 * that wake the reactor again. A reactor sleeps only if a wakeup or a timer will wake it for the
 * rest.
 *
 * While no block can be begun (none is free, or a segment is late), neither sockets nor the mailbox
 * are read. A returned call may have a record to write, and a disk that is slow for a moment must
 * not cause errors. The journal writer wakes the reactor when there is room. If this takes longer
 * than journal.stall, both are read again, so that health is reported, and state whose records are
 * all on disk. Then requests that may permit something are refused (route_handle), and those that
 * restrict something wait.
 *
 * The end: drain (no new requests, waits are answered 503) → the main thread sees that no work is
 * left anywhere → stop → a barrier, after which no thread steps a call → each frees its own. */
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/fleet/fleet_reactor.h"
#include "engine/runtime/operation.h"
#include "engine/runtime/signing.h"
#include "engine/control/takeover.h"
#include "engine/decision/traced.h"

enum {
    KEY_CACHE_ENTRIES = 4096,
    TOKEN_CACHE_ENTRIES = 32768,
    POLICY_MEMORY_ENTRIES = 4096, /* tools of all tenants; half a megabyte */
    TICK_MS = 1000,
    OUTBOX_MS = 1
};

static void gauges_set(struct engine_reactor *w)
{
    size_t connections = http_server_connections(w->server);
    atomic_store_explicit(&w->connections, connections, memory_order_relaxed);
    metric_set(w->sheet, METRIC_ENGINE_CONNECTIONS, connections);
    metric_set(w->sheet, METRIC_ENGINE_CLOSED_FOR_ROOM, http_server_closed_for_room(w->server));
    metric_set(w->sheet, METRIC_ENGINE_HANDSHAKES_DONE, http_server_handshakes(w->server).done);
    metric_set(w->sheet, METRIC_ENGINE_HANDSHAKES_FAILED, http_server_handshakes(w->server).failed);
    metric_set(w->sheet, METRIC_ENGINE_REPLIES_PARKED, http_server_waiting(w->server));
}

static void state_gauges_set(struct engine_reactor *w)
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
        {METRIC_CALLS_AWAY, w->calls_away},
        {METRIC_WAITS, w->waits.shares.all.count},
        {METRIC_TOKENS, totals.tokens},
        {METRIC_REVIEWS_PENDING, totals.reviews_pending},
        {METRIC_REVIEWS_KEPT, totals.reviews},
        {METRIC_APPROVALS_LAPSED, totals.approvals_lapsed},
        {METRIC_COUNTERS_KEPT, totals.counters},
        {METRIC_OUTCOMES_KEPT, totals.outcomes},
        {METRIC_ACTORS_SUSPENDED, totals.suspended},
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        metric_set(w->sheet, figures[i].metric, figures[i].value);
}

static void tick(struct loop_timer *t)
{
    struct engine_reactor *w = link_owner(t, struct engine_reactor, tick);
    if (w->index == SIGNER_SLOT)
        signing_keep_up(w->engine->signing, shard_signers(w->owner.shard), world_now_ms());
    auth_failed_record(w);
    gauges_set(w);
    state_gauges_set(w);
    loop_timer_start(w->loop, &w->tick, TICK_MS, tick);
}

/* The part of one reactor; each may hold two of the largest. */
static size_t held_bytes_each(unsigned reactors)
{
    check(reactors > 0 && reactors <= LIMIT_REACTORS);
    size_t part = LIMIT_HELD_BYTES / reactors, least = 2 * (size_t)LIMIT_REPLY_BYTES;
    return part > least ? part : least;
}

static void credential_refused(void *context, const struct http_exchange *x, enum err err)
{
    auth_failed_note(context, x, err);
    strangers_note_false(&((struct engine_reactor *)context)->strangers, x);
}

static void token_refused(void *context, const struct http_exchange *x,
                          const struct token_claims *t, enum err err)
{
    token_rejected_note(context, x, t, err);
    /* A revoked token was verified once, and costs nothing more: its agent may ask again. */
    if (err != ERR_CREDENTIAL_REVOKED)
        strangers_note_false(&((struct engine_reactor *)context)->strangers, x);
}

static void engine_reactor_enter(void *context, struct loop *loop)
{
    struct engine_reactor *w = context;
    struct engine *e = w->engine;
    const struct config *c = &e->config;
    const struct http_service service = {.routes = engine_routes,
                                         .route_count = engine_route_count,
                                         .context = w,
                                         .admit = route_admit,
                                         .handle = route_handle,
                                         .refuse = route_refuse,
                                         .ended = api_connection_ended};
    struct http_limits limits = {.connections_max =
                                     (uint32_t)(c->connections_max / e->reactor_count + 1),
                                 .head_ms = (uint32_t)c->head_ms,
                                 .body_ms = (uint32_t)c->body_ms,
                                 .idle_ms = (uint32_t)c->idle_ms,
                                 .write_ms = (uint32_t)c->write_ms,
                                 .held_bytes = held_bytes_each(e->reactor_count),
                                 .proxies = &e->proxies,
                                 .tls = e->tls};
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
    w->api.quota_key = METRIC_ENGINE_QUOTA_KEY;
    w->api.quota_tenant = METRIC_ENGINE_QUOTA_TENANT;
    w->api.quota_refused_ms = &w->engine->quota_refused_ms;
    api_set_rates(&w->api, c);
    w->api.on_auth_failed = credential_refused;
    w->api.context = w;
    w->api.assertion_key = &e->assertion_key;
    w->api.started_ms = e->started_ms;
    w->api.signers = signing_now(e->signing);
    w->api.tokens = token_cache_create(TOKEN_CACHE_ENTRIES);
    w->api.token_issuer = str_from(c->token_issuer);
    w->api.token_audience = str_from(c->token_audience);
    w->api.token_is_dead = engine_reactor_token_is_dead;
    w->api.on_token_rejected = token_refused;
    if (e->spans != NULL) w->spans = spans_lane(e->spans, w->index, w->sheet);
    w->commit.producer = journal_producer(e->journal, w->index);
    w->commit.log = e->member == NULL ? NULL : fleet_member_lane(e->member, w->index);
    w->commit.always_synced = str_equal(str_from(c->durability), STR("synced"));
    if (c->platform_url[0] != '\0')
        w->forward = forward_create(&w->api, loop, &w->server, c->platform_url, e->tls,
                                    limits.connections_max);
    relaying_begin(w);
    w->disk.seen_ms = loop_now_ms(loop);
    overload_init(&w->overload, c->overload_delay_ms, world_monotonic_ns());
    const struct strangers_ports ports = {.api = &w->api,
                                          .loop = loop,
                                          .server = &w->server,
                                          .waited = METRIC_STRANGERS_WAITED,
                                          .refused = METRIC_REFUSED_STRANGERS,
                                          .closed = METRIC_STRANGERS_CLOSED,
                                          .proceed = route_proceed,
                                          .context = w};
    strangers_init(&w->strangers, &ports);
    loop_timer_start(loop, &w->tick, TICK_MS, tick);
}

static void engine_reactor_leave(void *context)
{
    struct engine_reactor *w = context;
    /* until here other reactors may have calls of this one, and this one theirs */
    pthread_barrier_wait(&w->engine->leaving);
    operations_drop(w);
    waits_fini(&w->waits);
    owner_fini(w);
    revoked_view_destroy(w->revoked);
    auth_failed_record(w);
    while (w->refused.count > 0) refused_drop(&w->refused); /* the journal had no room for these */
    journal_seal(w->commit.producer);
    loop_timer_stop(w->loop, &w->tick);
    loop_timer_stop(w->loop, &w->outbox);
    strangers_fini(&w->strangers);
    forward_destroy(w->forward);
    relaying_end(w);
    http_server_destroy(w->server);
    key_cache_destroy(w->api.cache);
    token_cache_destroy(w->api.tokens);
    hasher_destroy(w->api.hasher);
    policy_memory_destroy(w->memory);
}

static void wake_peer(void *context, unsigned peer)
{
    check(peer < ((struct engine_reactor *)context)->engine->reactor_count);
    struct engine_reactor *w = context;
    reactor_wake(w->engine->reactors[peer].reactor);
}

/* Wakes the reactors that wait until all have seen their revocation. */
static void take_revocations(struct engine_reactor *w)
{
    if (!revoked_view_take(w->revoked, world_now_ms())) return;
    w->api.signers = signing_now(w->engine->signing); /* the log also announces rotations */
    for (uint64_t left = atomic_load(&w->engine->revoking); left != 0; left &= left - 1)
        wake_peer(w, (unsigned)__builtin_ctzll(left)); /* this one too */
}

/* Steps of the last turn pointed into the old bundle; from here on they may only use the new one.
 * Operations that are away still use the old: then the last of them reports the move. */
static void take_bundle(struct engine_reactor *w)
{
    const struct bundle *newest = atomic_load_explicit(&w->engine->bundle, memory_order_acquire);
    if (newest == w->bundle) return;
    check(w->pins_before == 0); /* the feed waited for this reactor the last time */
    w->pins_before = w->pins;
    w->pins = 0;
    w->bundle = newest;
    w->api.keys = bundle_keys(newest);
    w->api.served = bundle_served(newest);
    api_set_meters(&w->api, w->engine->meters);
    shard_hold_limits(w->owner.shard, bundle_limit_windows(newest));
    key_cache_clear(w->api.cache);
    strangers_new_keys(&w->strangers);
    if (w->pins_before == 0) engine_reactor_moved(w);
}

static void engine_reactor_begin(void *context)
{
    struct engine_reactor *w = context;
    if (w->commit.log != NULL) fleet_reactor_begin(w);
    w->api.signers = signing_now(w->engine->signing); /* sets that were replaced are kept */
    take_revocations(w);
    take_bundle(w);
    engine_reactor_check(w);
    if (w->relaying.member != NULL) relaying_turn(w);
}

static void engine_reactor_told(void *context, const struct reactor_message *m)
{
    struct engine_reactor *w = context;
    if (m->kind == REACTOR_SOCKET) {
        http_server_take(w->server, m->fd, (enum socket_kind)m->socket);
        return;
    }
    http_server_drain(w->server); /* before the waits are answered: their connections close then */
    operations_drain(w);
    w->strangers.draining = true;
    if (w->forward != NULL) forward_drain(w->forward);
    if (w->relaying.to_leader != NULL) forward_drain(w->relaying.to_leader);
}

static void observe_durable(struct engine_reactor *w, uint64_t durable)
{
    if (w->sealed_ns == 0 || durable < w->sealed_block) return;
    check(w->sealed_block != 0);
    metric_observe(w->sheet, HISTOGRAM_DURABLE, world_monotonic_ns() - w->sealed_ns);
    w->sealed_ns = 0;
}

/* The event that ended the call, for example a suspension that denies a waiting review, may have
 * been published after this turn began, but before the call was sent. */
static void return_to_origin(struct engine_reactor *w, struct call *c)
{
    take_revocations(w);
    const bool is_taken = operation_origin(w, c);
    check(is_taken);
}

/* True: there are more calls than one turn takes. */
static bool take_mail(struct engine_reactor *w)
{
    bool more = false;
    struct call *c;
    while ((engine_reactor_has_room(w) || engine_stands_still(w->engine)) &&
           (c = mailbox_take(w->engine->post, w->index, &more)) != NULL) {
        if (c->origin == w->index)
            return_to_origin(w, c);
        else
            owner_receive(w, c);
    }
    return more;
}

static void outbox_due(struct loop_timer *t) { (void)t; } /* the end of this turn flushes */

/* One wakeup for each peer that has new calls, and one for all if there is a revocation. A ring
 * that was full is tried again after a short time and not at once, because its reader may be
 * waiting for a disk. */
static void flush_mail(struct engine_reactor *w)
{
    if (mailbox_flush(w->engine->post, w->index, wake_peer, w))
        loop_timer_start(w->loop, &w->outbox, OUTBOX_MS, outbox_due);
    if (!w->owner.told) return;
    w->owner.told = false;
    for (unsigned i = 0; i < w->engine->reactor_count; i++)
        if (i != w->index) wake_peer(w, i);
}

/* True: something is left for the next turn, and no wakeup will follow for it. */
static bool move_calls(struct engine_reactor *w)
{
    owner_retry(w);
    bool more = owner_resume(w);
    more = take_mail(w) || more;
    for (struct offload_job *job; (job = offload_take(w->engine->offload, w->index)) != NULL;)
        operation_offloaded(w, job);
    more = owner_tick(w) || more;
    owner_seen(w);
    for (struct call *c; (c = owner_ready(w)) != NULL;) return_to_origin(w, c);
    return more;
}

/* Time in which this thread itself was stopped, or had no processor, is not the disk's fault. There
 * is a turn each second at least, and no turn counts for much more. */
static void watch_disk(struct engine_reactor *w, bool has_room, uint64_t durable)
{
    struct disk_watch *d = &w->disk;
    uint64_t now_ms = loop_now_ms(w->loop), passed_ms = now_ms - d->seen_ms;
    check(now_ms >= d->seen_ms && durable >= d->durable);
    bool waits = !has_room || durable < journal_block(w->commit.producer);
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
        log_text(LOG_ERROR, "disk_stands_still", "%s: requests that need a record are refused",
                 STANDS_STILL_TEXT);
    } else {
        atomic_fetch_sub(&w->engine->standing_still, 1);
        log_line(LOG_INFO, "disk_goes_on", NULL);
    }
}

static void engine_reactor_end(void *context)
{
    struct engine_reactor *w = context;
    struct journal_producer *p = w->commit.producer;
    bool more = move_calls(w);
    journal_seal(p);
    if (w->sealed_ns == 0 &&
        journal_block(p) != w->sealed_block) { /* one block at a time is timed */
        w->sealed_block = journal_block(p);
        w->sealed_ns = world_monotonic_ns();
    }
    uint64_t written, durable;
    journal_progress(p, &written, &durable);
    observe_durable(w, durable);
    http_server_release(w->server, written, durable);
    if (w->commit.log == NULL) {
        traced_turn(w, written, durable);
        owner_durable(w, durable);
    } else {
        fleet_reactor_end(w, written, durable);
    }
    more = takeover_turn(w) || more;
    flush_mail(w);
    bool has_room = engine_reactor_has_room(w);
    watch_disk(w, has_room, durable);
    const bool is_held = !has_room && !engine_stands_still(w->engine);
    http_server_hold(w->server, is_held);
    overload_turn_end(&w->overload, loop_woken_ns(w->loop), world_monotonic_ns(), is_held);
    atomic_store_explicit(&w->connections, http_server_connections(w->server),
                          memory_order_relaxed);
    engine_reactor_check(w);
    if (more) reactor_wake(w->reactor);
}

enum err engine_reactor_start(struct engine *e, unsigned index)
{
    check(index < e->reactor_count && e->reactors[index].reactor == NULL);
    static const struct reactor_ports ports = {.enter = engine_reactor_enter,
                                               .begin = engine_reactor_begin,
                                               .told = engine_reactor_told,
                                               .end = engine_reactor_end,
                                               .leave = engine_reactor_leave};
    struct engine_reactor *w = &e->reactors[index];
    w->engine = e;
    w->index = index;
    w->sheet = metrics_sheet_create();
    return reactor_create(index, &ports, w, &w->reactor);
}

void engine_reactor_wake(void *engine, unsigned index)
{
    const struct engine *e = engine;
    reactor_wake(e->reactors[index].reactor);
}

void engine_reactor_tell(struct engine_reactor *w, enum reactor_message_kind kind, int fd,
                         enum socket_kind socket)
{
    struct reactor_message m = {.kind = kind, .fd = fd, .socket = (unsigned char)socket};
    while (reactor_tell(w->reactor, &m) != ERR_OK) {
        if (kind == REACTOR_SOCKET) {
            close(fd);
            log_line(LOG_WARNING, "connection_refused", "why", "the reactor's inbox is full", NULL);
            return;
        }
        sched_yield(); /* it is full of sockets, and emptied each turn */
    }
}
