/* worker.c - one reactor of the engine: its beat, and what is plugged into it.
 *
 *   begin   the bundle in force
 *   (sockets and timers: requests are decided and recorded, replies parked)
 *   end     seal the block → marks → release replies → hold sockets while no block is free
 */
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "engine/engine.h"

enum { KEY_CACHE_ENTRIES = 4096, TICK_MS = 1000 };

static void gauges_set(struct worker *w)
{
    size_t connections = http_server_connections(w->server);
    atomic_store_explicit(&w->connections, connections, memory_order_relaxed);
    metric_set(w->sheet, METRIC_ENGINE_CONNECTIONS, connections);
    metric_set(w->sheet, METRIC_ENGINE_REPLIES_PARKED, http_server_waiting(w->server));
}

static void tick(struct loop_timer *t)
{
    struct worker *w = (struct worker *)(void *)((char *)t - offsetof(struct worker, tick));
    auth_failed_record(w);
    gauges_set(w);
    loop_timer_start(w->loop, &w->tick, TICK_MS, tick);
}

static void worker_enter(void *context, struct loop *loop)
{
    struct worker *w = context;
    struct engine *e = w->engine;
    const struct config *c = &e->config;
    static const struct http_service service = {0};
    struct http_service own = service;
    own.routes = engine_routes;
    own.route_count = engine_route_count;
    own.context = w;
    own.admit = route_admit;
    own.handle = route_handle;
    own.refuse = route_refuse;
    struct http_limits limits = {.connections_max = (uint32_t)(c->connections_max / e->worker_count + 1),
                                 .head_ms = (uint32_t)c->head_ms, .body_ms = (uint32_t)c->body_ms,
                                 .idle_ms = (uint32_t)c->idle_ms, .write_ms = (uint32_t)c->write_ms};
    w->loop = loop;
    w->server = http_server_create(loop, &own, &limits);
    w->api.pepper = &e->pepper;
    w->api.cache = key_cache_create(KEY_CACHE_ENTRIES);
    w->api.hasher = hasher_create();
    w->api.chance.refill = crypto_random;
    w->api.sheet = w->sheet;
    w->api.replies_2xx = METRIC_ENGINE_REPLIES_2XX;
    w->api.auth_failed = METRIC_ENGINE_AUTH_FAILED;
    w->api.on_auth_failed = auth_failed_note;
    w->api.context = w;
    w->commit.producer = journal_producer(e->journal, w->index);
    w->commit.always_synced = str_equal(str_from(c->durability), STR("synced"));
    if (c->platform_url[0] != '\0') w->forward = forward_create(&w->api, loop, &w->server, c->platform_url);
    loop_timer_start(loop, &w->tick, TICK_MS, tick);
}

static void worker_leave(void *context)
{
    struct worker *w = context;
    auth_failed_record(w);
    journal_seal(w->commit.producer);
    loop_timer_stop(w->loop, &w->tick);
    forward_destroy(w->forward);
    http_server_destroy(w->server);
    key_cache_destroy(w->api.cache);
    hasher_destroy(w->api.hasher);
}

/* Steps of the last beat pointed into the old bundle; from here on they may only into the new. */
static void worker_begin(void *context)
{
    struct worker *w = context;
    const struct bundle *newest = atomic_load_explicit(&w->engine->bundle, memory_order_acquire);
    if (newest == w->bundle) return;
    w->bundle = newest;
    w->api.keys = bundle_keys(newest);
    key_cache_clear(w->api.cache);
    atomic_store_explicit(&w->in_use, newest, memory_order_release);
    sem_post(&w->engine->bundle_seen);
}

static void worker_told(void *context, const struct reactor_message *m)
{
    struct worker *w = context;
    if (m->kind == REACTOR_SOCKET) http_server_take(w->server, m->fd, m->is_unix);
    else http_server_drain(w->server);
}

static void observe_durable(struct worker *w, uint64_t durable)
{
    if (w->sealed_ns == 0 || durable < w->sealed_mark) return;
    metric_observe(w->sheet, HISTOGRAM_DURABLE, world_monotonic_ns() - w->sealed_ns);
    w->sealed_ns = 0;
}

static void worker_end(void *context)
{
    struct worker *w = context;
    struct journal_producer *p = w->commit.producer;
    journal_seal(p);
    if (w->sealed_ns == 0 && journal_mark(p) != w->sealed_mark) { /* one block at a time is timed */
        w->sealed_mark = journal_mark(p);
        w->sealed_ns = world_monotonic_ns();
    }
    uint64_t written, durable;
    journal_marks(p, &written, &durable);
    observe_durable(w, durable);
    http_server_release(w->server, written, durable);
    http_server_hold(w->server, journal_blocks_free(p) == 0);
    atomic_store_explicit(&w->connections, http_server_connections(w->server), memory_order_relaxed);
}

enum err worker_start(struct engine *e, unsigned index)
{
    static const struct reactor_ports ports = {.enter = worker_enter, .begin = worker_begin, .told = worker_told,
                                               .end = worker_end, .leave = worker_leave};
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
