/* boot.c - the platform's life: boot, serve, drain.
 *
 *   addresses taken → pepper → store (made, migrated) → keys and revision → consumer → writer and
 *   readers → retention thread, policy directory → accepting → serve
 *   … platform_stop → stop accepting → answer waiting requests → finish running jobs → join → close
 *
 * The store is opened once before the threads start. So a store that cannot be used ends the boot
 * with its own error text. */
#include "platform/platform.h"
#include "platform/relying_party.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/clock_log.h"
#include "base/limits.h"
#include "base/log.h"
#include "evidence/signing_key.h"
#include "store/engine_key.h"
#include "store/key_store.h"
#include "store/set.h"

enum { KEY_CACHE_ENTRIES = 1024, TICK_MS = 1000, DRAIN_MS = 10000, AUDIT_KEEP_LEAST_MS = 86400000 };

/* ---- boot ---- */

static enum err check_store(const struct config *c, struct fault *f)
{
    if (c->store_url[0] != '\0' && !store_is_address(c->store_url))
        return fault_set(
            f, ERR_BAD_VALUE, "store.url",
            "store.url: is not an address of PostgreSQL; it must be like postgresql://user@host:5432/name");
    if (c->store_url[0] != '\0' && c->sources[CONFIG_AT_store] != NULL)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "store, store.url: both are set; set only one of them");
    if (c->audit_keep_ms != 0 && c->audit_keep_ms < AUDIT_KEEP_LEAST_MS)
        return fault_set(f, ERR_BAD_VALUE, "audit.keep",
                         "audit.keep: must be 0 (events are never removed), or at least 1d");
    return ERR_OK;
}

static enum err read_store(struct platform *p, struct fault *f)
{
    struct store *s;
    enum err err = store_open(platform_store(p->config), true, &s, f);
    if (err != ERR_OK) return err;
    store_share_history(s, &p->history);
    store_share_pepper(s, &p->pepper);
    struct revision now = {0};
    err = set_found(s, 0, f);
    if (err == ERR_OK) err = store_revision(s, &now, f);
    if (err == ERR_OK) {
        uint8_t own[ED25519_KEY_BYTES];
        ed25519_public(p->signer, own);
        err = engine_key_add_own(s, own, world_now_ms(), f);
    }
    p->revision = now.number;
    if (err == ERR_OK) err = key_store_table(s, &p->keys, f);
    if (err == ERR_SET_REFUSED) { /* it starts all the same: the trail can be read */
        set_trouble_note(p, err, f);
        err = key_store_table_of_refused(s, &p->keys, f);
    }
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
    clock_log();
    auth_failed_record(p);
    reads_record(p);
    checks_tick(p);
    followers_tick(p);
    tls_keep_up(p->tls, false);
    metric_set(p->sheet, METRIC_PLATFORM_CONNECTIONS, http_server_connections(p->server));
    metric_set(p->sheet, METRIC_PLATFORM_CLOSED_FOR_ROOM, http_server_closed_for_room(p->server));
    metric_set(p->sheet, METRIC_PLATFORM_HANDSHAKES_DONE, http_server_handshakes(p->server).done);
    metric_set(p->sheet, METRIC_PLATFORM_HANDSHAKES_FAILED,
               http_server_handshakes(p->server).failed);
    loop_timer_start(p->loop, &p->tick, TICK_MS, tick);
}

/* It also ends the loop's wait. */
static void woken(struct loop_wakeup *b)
{
    struct platform *p = link_owner(b, struct platform, wake);
    if (atomic_exchange(&p->reloading, false)) tls_keep_up(p->tls, true);
}

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
    p->api.quota_key = METRIC_PLATFORM_QUOTA_KEY;
    p->api.quota_tenant = METRIC_PLATFORM_QUOTA_TENANT;
    p->api.quota_refused_ms = &p->quota_refused_ms;
    api_set_rates(&p->api, p->config);
    api_set_meters(&p->api, p->meters);
    p->api.on_auth_failed = auth_failed_note;
    p->api.context = p;
    metric_set(p->sheet, METRIC_PLATFORM_REVISION, p->revision);
}

/* Of every answer, because a browser may be asked to show any of them. The console's page has a policy
 * of its own (console.c). The last one is for https only (RFC 6797, 7.2). */
static const struct http_header browser_headers[] = {
    {STR("X-Content-Type-Options"), STR("nosniff")},
    {STR("Referrer-Policy"), STR("no-referrer")},
    {STR("Content-Security-Policy"),
     STR("default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")},
    {STR("Strict-Transport-Security"), STR("max-age=31536000; includeSubDomains")},
};

static void make_server(struct platform *p)
{
    const struct config *c = p->config;
    enum { HEADERS = sizeof browser_headers / sizeof *browser_headers };
    bool is_encrypted = browser_is_secure(c->public_url) || c->listen_tls[0] != '\0';
    if (c->console) p->console = console_create(&p->api);
    routes_make(p);
    const struct http_service service = {.routes = p->routes,
                                         .route_count = p->route_count,
                                         .context = p,
                                         .headers = browser_headers,
                                         .header_count = is_encrypted ? HEADERS : HEADERS - 1,
                                         .admit = route_admit,
                                         .handle = route_handle,
                                         .refuse = route_refuse,
                                         .ended = api_connection_ended};
    const struct http_limits limits = {.connections_max = (uint32_t)c->connections_max,
                                       .head_ms = (uint32_t)c->head_ms,
                                       .body_ms = (uint32_t)c->body_ms,
                                       .idle_ms = (uint32_t)c->idle_ms,
                                       .write_ms = (uint32_t)c->write_ms,
                                       .held_bytes = LIMIT_HELD_BYTES,
                                       .proxies = &p->proxies,
                                       .tls = p->tls};
    p->server = http_server_create(p->loop, &service, &limits);
    const struct strangers_ports ports = {.api = &p->api,
                                          .loop = p->loop,
                                          .server = &p->server,
                                          .waited = METRIC_PLATFORM_STRANGERS_WAITED,
                                          .refused = METRIC_PLATFORM_STRANGERS_REFUSED,
                                          .closed = METRIC_PLATFORM_STRANGERS_CLOSED,
                                          .proceed = route_proceed,
                                          .context = p};
    strangers_init(&p->strangers, &ports);
    if (c->engine_url[0] != '\0')
        p->forward = forward_create(&p->api, p->loop, &p->server, c->engine_url, p->tls,
                                    limits.connections_max);
}

static void accepted(void *context, int fd, enum socket_kind kind)
{
    struct platform *p = context;
    http_server_take(p->server, fd, kind);
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
    struct consumer_options options = {
        .store = platform_store(c), .topic = c->kafka_topic, .pepper = &p->pepper};
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
    const struct listen_options listen = api_listen_options(c);
    err = api_tls_create(c, &p->tls, f);
    if (err == ERR_OK) err = listeners_open(&p->listeners, &listen, f);
    if (err == ERR_OK) err = check_store(c, f);
    if (err == ERR_OK) err = pepper_read_or_make(p->config->pepper_file, &p->pepper, f);
    if (err == ERR_OK) err = signing_key_open(c->data, "platform-evidence", &p->signer, f);
    if (err == ERR_OK) err = browser_check_url(c->public_url, f);
    if (err == ERR_OK) err = read_store(p, f);
    if (err != ERR_OK) return err;
    p->assertion_key = assertion_key(&p->pepper);
    p->csrf_key = pepper_derive(&p->pepper, STR("writ csrf tokens of sessions 1"));
    p->flow_key = pepper_derive(&p->pepper, STR("writ sign-ins by identity providers 1"));
    make_api(p);
    make_server(p);
    err = start_consuming(p, f);
    if (err != ERR_OK) return err;
    err = work_create(p, platform_store(c), (unsigned)c->readers, job_finish, &p->work, f);
    if (err == ERR_OK)
        err =
            retention_thread_create(c, &p->history, &p->pepper, p->signer, &p->retention_thread, f);
    if (err == ERR_OK) err = notify_start(p, f);
    if (err == ERR_OK) err = anchors_begin(p, f);
    if (err == ERR_OK) err = providers_start(p, f);
    if (err == ERR_OK) relying_party_tell(p);
    if (err == ERR_OK) err = directory_create(p, &p->watch, f);
    return err == ERR_OK ? listeners_start(&p->listeners, p->loop, accepted, p, f) : err;
}

enum err platform_create(const struct config *c, struct platform **ret, struct fault *f)
{
    struct platform *p = calloc(1, sizeof *p);
    check(p != NULL);
    p->config = c;
    p->loop = loop_create();
    p->book = policy_book_create();
    p->meters = meters_create();
    p->sessions = sessions_create();
    history_init(&p->history);
    list_init(&p->bundle_waits);
    list_init(&p->followers.waits);
    wakeup_start(p->loop, &p->wake, woken);
    enum err err = boot(p, f);
    if (err != ERR_OK) {
        platform_destroy(p);
        return err;
    }
    tick(&p->tick);
    *ret = p;
    return ERR_OK;
}

const char *platform_address(const struct platform *p, enum socket_kind kind)
{
    return listeners_address(&p->listeners, kind);
}

/* ---- the end ---- */

void platform_stop(struct platform *p)
{
    atomic_store(&p->stopping, true);
    wakeup_send(&p->wake);
}

void platform_reload(struct platform *p)
{
    atomic_store(&p->reloading, true);
    wakeup_send(&p->wake);
}

static void drain_tick(struct loop_timer *t)
{
    struct platform *p = link_owner(t, struct platform, tick);
    auth_failed_record(p);
    reads_record(p);
    loop_timer_start(p->loop, &p->tick, TICK_MS, drain_tick);
}

/* Stop accepting → answer waiting requests → finish running jobs → record refused credentials and reads. */
static void drain(struct platform *p)
{
    p->draining = true;
    p->strangers.draining = true;
    listeners_stop(&p->listeners);
    auth_failed_record(p);
    followers_stop(p);
    http_server_drain(p->server);
    if (p->forward != NULL) forward_drain(p->forward);
    uint64_t deadline_ns = world_monotonic_ns() + (uint64_t)DRAIN_MS * 1000000;
    loop_timer_start(p->loop, &p->tick, TICK_MS, drain_tick);
    for (bool is_recorded = false;;) {
        follow_drain(p); /* jobs that return now may begin to wait */
        followers_drain(p);
        bool busy = http_server_connections(p->server) > 0 || work_under_way(p->work) > 0;
        if (!busy && !is_recorded) {
            auth_failed_record(p);
            reads_record(p);
            is_recorded = true;
            busy = work_under_way(p->work) > 0;
        }
        if (!busy || world_monotonic_ns() >= deadline_ns) break;
        loop_turn(p->loop, true);
    }
}

void platform_run(struct platform *p)
{
    while (!atomic_load(&p->stopping)) loop_turn(p->loop, true);
    drain(p);
}

void platform_destroy(struct platform *p)
{
    if (p == NULL) return;
    listeners_stop(&p->listeners);
    providers_stop(p);
    work_stop(p->work);
    work_destroy(p->work);
    providers_destroy(p);
    directory_destroy(p->watch);
    policy_book_destroy(p->book);
    consumer_stop(p->consumer);
    notifier_stop(p->notifier);
    anchors_stop(p->anchors);
    retention_thread_destroy(p->retention_thread);
    if (p->server != NULL) {
        follow_drain(p);
        followers_drain(p);
    }
    forward_destroy(p->forward);
    console_destroy(p->console);
    if (p->server != NULL) http_server_destroy(p->server);
    loop_timer_stop(p->loop, &p->tick);
    strangers_fini(&p->strangers);
    wakeup_stop(&p->wake);
    loop_destroy(p->loop);
    tls_destroy(p->tls);
    key_cache_destroy(p->api.cache);
    hasher_destroy(p->api.hasher);
    key_table_destroy(p->keys);
    meters_destroy(p->meters);
    history_fini(&p->history);
    sessions_destroy(p->sessions);
    memory_wipe(&p->pepper, sizeof p->pepper);
    ed25519_destroy(p->signer);
    memory_wipe(&p->assertion_key, sizeof p->assertion_key);
    memory_wipe(&p->csrf_key, sizeof p->csrf_key);
    memory_wipe(&p->flow_key, sizeof p->flow_key);
    free(p->routes);
    free(p);
}
