/* boot.c - the platform's life: boot, serve, drain.
 *
 *   addresses taken → pepper → store (made, migrated) → keys and revision → consumer → writer and
 *   readers → keeper, watch → accepting → serve
 *   … platform_stop → stop accepting → answer who waits → finish what is in hand → join → close
 *
 * The store is opened once before the threads start, so that a store that cannot be used ends the
 * boot with its own sentence. */
#include "platform/platform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "pipeline/ingest/key_store.h"

enum { KEY_CACHE_ENTRIES = 1024, TICK_MS = 1000, DRAIN_MS = 10000, AUDIT_KEEP_LEAST_MS = 86400000 };

/* ---- boot ---- */

static enum err check_store(const struct config *c, struct fault *f)
{
    if (c->store_url[0] != '\0' && !store_is_address(c->store_url))
        return fault_set(
            f, ERR_BAD_VALUE, "store.url",
            "store.url: is no address of PostgreSQL; it must be like postgresql://user@host:5432/name");
    if (c->store_url[0] != '\0' && c->sources[CONFIG_AT_store] != NULL)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "store, store.url: only one of them can be the store");
    if (c->audit_keep_ms != 0 && c->audit_keep_ms < AUDIT_KEEP_LEAST_MS)
        return fault_set(f, ERR_BAD_VALUE, "audit.keep",
                         "audit.keep: must be 0 (for ever), or at least 1d");
    return ERR_OK;
}

static enum err read_store(struct platform *p, struct fault *f)
{
    struct store *s;
    enum err err = store_open(platform_store(p->config), true, &s, f);
    if (err != ERR_OK) return err;
    err = store_revision(s, &p->revision, f);
    if (err == ERR_OK) err = key_store_table(s, &p->keys, f);
    store_close(s);
    if (err == ERR_OK && key_table_count(p->keys) == 0)
        log_line(LOG_WARNING, "no_keys", "text",
                 "there is no API key yet: make the first one with writ key create --data DIR",
                 NULL);
    return err;
}

static void tick(struct loop_timer *t)
{
    struct platform *p = link_owner(t, struct platform, tick);
    world_time_discipline();
    auth_failed_record(p);
    checks_tick(p);
    followers_tick(p);
    metric_set(p->sheet, METRIC_PLATFORM_CONNECTIONS, http_server_connections(p->server));
    metric_set(p->sheet, METRIC_PLATFORM_CLOSED_FOR_ROOM, http_server_closed_for_room(p->server));
    loop_timer_start(p->loop, &p->tick, TICK_MS, tick);
}

static void woken(struct loop_bell *b) { (void)b; } /* being awake is all it is for */

static void make_api(struct platform *p)
{
    p->sheet = metrics_sheet_create();
    p->api.keys = p->keys;
    p->api.pepper = &p->pepper;
    p->api.cache = key_cache_create(KEY_CACHE_ENTRIES);
    p->api.hasher = hasher_create();
    p->api.sheet = p->sheet;
    p->api.replies_2xx = METRIC_PLATFORM_REPLIES_2XX;
    p->api.auth_failed = METRIC_PLATFORM_AUTH_FAILED;
    p->api.on_auth_failed = auth_failed_note;
    p->api.context = p;
    metric_set(p->sheet, METRIC_PLATFORM_REVISION, p->revision);
}

static void make_server(struct platform *p)
{
    const struct config *c = p->config;
    routes_make(p);
    const struct http_service service = {.routes = p->routes,
                                         .route_count = p->route_count,
                                         .context = p,
                                         .admit = route_admit,
                                         .handle = route_handle,
                                         .refuse = route_refuse};
    const struct http_limits limits = {.connections_max = (uint32_t)c->connections_max,
                                       .head_ms = (uint32_t)c->head_ms,
                                       .body_ms = (uint32_t)c->body_ms,
                                       .idle_ms = (uint32_t)c->idle_ms,
                                       .write_ms = (uint32_t)c->write_ms,
                                       .held_bytes = LIMIT_HELD_BYTES,
                                       .proxies = &p->proxies};
    p->server = http_server_create(p->loop, &service, &limits);
    if (c->engine_url[0] != '\0')
        p->forward =
            forward_create(&p->api, p->loop, &p->server, c->engine_url, limits.connections_max);
}

static void accepted(void *context, int fd, bool is_unix)
{
    struct platform *p = context;
    http_server_take(p->server, fd, is_unix);
}

static enum err start_consuming(struct platform *p, struct fault *f)
{
    const struct config *c = p->config;
    if (c->kafka_brokers[0] == '\0') return ERR_OK;
    const struct topic_access access = {.brokers = c->kafka_brokers,
                                        .topic = c->kafka_topic,
                                        .security = c->kafka_security,
                                        .mechanism = c->kafka_sasl_mechanism,
                                        .user = c->kafka_user,
                                        .password_file = c->kafka_password_file,
                                        .ca_file = c->kafka_ca_file,
                                        .token_file = c->kafka_token_file};
    struct consumer_options options = {.store = platform_store(c), .topic = c->kafka_topic};
    enum err err = kafka_source_create(&access, &options.source, f);
    return err == ERR_OK ? consumer_start(&options, &p->consumer, f) : err;
}

static enum err boot(struct platform *p, struct fault *f)
{
    const struct config *c = p->config;
    enum err err = trusted_proxies_read(str_from(c->trusted_proxies), &p->proxies, f);
    if (err != ERR_OK) return err;
    p->proxies.send_proxy_header = c->proxy_protocol;
    if (mkdir(c->data, 0700) != 0 && errno != EEXIST)
        return fault_set(f, ERR_IO, "", "data: cannot make %s: %s", c->data, strerror(errno));
    err = listeners_open(&p->listeners, str_from(c->listen), str_from(c->listen_unix), f);
    if (err == ERR_OK) err = check_store(c, f);
    if (err == ERR_OK) err = pepper_read_or_make(p->config->pepper_file, &p->pepper, f);
    if (err == ERR_OK) err = read_store(p, f);
    if (err != ERR_OK) return err;
    make_api(p);
    make_server(p);
    err = start_consuming(p, f);
    if (err != ERR_OK) return err;
    err = work_create(p, platform_store(c), (unsigned)c->readers, job_back, &p->work, f);
    if (err == ERR_OK) err = keeper_create(c, &p->keeper, f);
    if (err == ERR_OK) err = watch_create(p, &p->watch, f);
    return err == ERR_OK ? listeners_start(&p->listeners, p->loop, accepted, p, f) : err;
}

enum err platform_create(const struct config *c, struct platform **ret, struct fault *f)
{
    struct platform *p = calloc(1, sizeof *p);
    check(p != NULL);
    p->config = c;
    p->loop = loop_create();
    p->book = policy_book_create();
    list_init(&p->bundle_waits);
    list_init(&p->followers.waits);
    bell_start(p->loop, &p->wake, woken);
    enum err err = boot(p, f);
    if (err != ERR_OK) {
        platform_destroy(p);
        return err;
    }
    tick(&p->tick);
    *ret = p;
    return ERR_OK;
}

const char *platform_address(const struct platform *p) { return listeners_address(&p->listeners); }

/* ---- the end ---- */

void platform_stop(struct platform *p)
{
    atomic_store(&p->stopping, true);
    bell_ring(&p->wake);
}

static void drain_tick(struct loop_timer *t)
{
    struct platform *p = link_owner(t, struct platform, tick);
    auth_failed_record(p);
    loop_timer_start(p->loop, &p->tick, TICK_MS, drain_tick);
}

/* Stop accepting → answer who waits → finish what is in hand → record whom that refused. */
static void drain(struct platform *p)
{
    p->draining = true;
    listeners_stop(&p->listeners);
    auth_failed_record(p);
    followers_stop(p);
    http_server_drain(p->server);
    if (p->forward != NULL) forward_drain(p->forward);
    uint64_t deadline_ns = world_monotonic_ns() + (uint64_t)DRAIN_MS * 1000000;
    loop_timer_start(p->loop, &p->tick, TICK_MS, drain_tick);
    for (bool is_recorded = false;;) {
        follow_drain(p); /* jobs that come back now may begin to wait */
        followers_drain(p);
        bool busy = http_server_connections(p->server) > 0 || work_under_way(p->work) > 0;
        if (!busy && !is_recorded) {
            auth_failed_record(p);
            is_recorded = true;
            busy = work_under_way(p->work) > 0;
        }
        if (!busy || world_monotonic_ns() >= deadline_ns) break;
        loop_beat(p->loop, true);
    }
}

void platform_run(struct platform *p)
{
    while (!atomic_load(&p->stopping)) loop_beat(p->loop, true);
    drain(p);
}

void platform_destroy(struct platform *p)
{
    if (p == NULL) return;
    listeners_stop(&p->listeners);
    work_stop(p->work);
    work_destroy(p->work);
    watch_destroy(p->watch);
    policy_book_destroy(p->book);
    consumer_stop(p->consumer);
    keeper_destroy(p->keeper);
    if (p->server != NULL) {
        follow_drain(p);
        followers_drain(p);
    }
    forward_destroy(p->forward);
    if (p->server != NULL) http_server_destroy(p->server);
    loop_timer_stop(p->loop, &p->tick);
    bell_stop(&p->wake);
    loop_destroy(p->loop);
    key_cache_destroy(p->api.cache);
    hasher_destroy(p->api.hasher);
    key_table_destroy(p->keys);
    memory_wipe(&p->pepper, sizeof p->pepper);
    free(p->routes);
    free(p);
}
