/* health.c - liveness, readiness, health checks and metrics. */
#include <stdio.h>

#include "api/operations.h"
#include "base/check.h"
#include "engine/engine.h"
#include "engine/handlers.h"
#include "engine/control/takeover.h"
#include "engine/fleet/fleet_snapshots.h"

#define SINGLE_BROKER_TEXT "fleet.single_broker: the state is lost with the disk of one broker"

enum {
    SILENT_MS = 5000,
    PUBLISH_SILENT_MS = 3 * PUBLISH_POLL_MS,
    LOAD_SHOWN_MS = 10000, /* so that a client that asks now and then sees it */
    HEALTH_BYTES = 16 << 10,
    DISK_DEGRADED_PERCENT = 80,
    FLEET_CHECK_TEXT = FLEET_REASON_TEXT + 256,
};

/* A total of 0: there is no bound, or it is unknown. */
static bool is_tight(uint64_t left, uint64_t total)
{
    return (double)left < (double)total * (100 - DISK_DEGRADED_PERCENT) / 100;
}

/* All reactors have the same monotonic clock. */
static bool refuses_for_load(const struct engine_reactor *w)
{
    for (unsigned i = 0; i < w->engine->reactor_count; i++) {
        uint64_t at_ms =
            atomic_load_explicit(&w->engine->reactors[i].overload.refused_ms, memory_order_relaxed);
        if (at_ms != 0 && loop_now_ms(w->loop) < at_ms + LOAD_SHOWN_MS) return true;
    }
    return false;
}

static bool publishes_well(const struct publish_status *s)
{
    return !publish_state_is_alarm(s->state) && s->silent_ms < PUBLISH_SILENT_MS;
}

/* This engine's own trouble alone, or all that is not as it should be. */
static bool fleet_has_worry(const struct engine *e, char to[FLEET_CHECK_TEXT])
{
    char members[FLEET_REASON_TEXT];
    if (fleet_member_trouble(e->member, to)) return true;
    const char *const worries[] = {
        fleet_member_worry(e->member, members) ? members : NULL,
        e->config.fleet_single_broker ? SINGLE_BROKER_TEXT : NULL,
    };
    struct buf text = buf_over(to, FLEET_CHECK_TEXT - 1);
    for (size_t i = 0; i < sizeof worries / sizeof *worries; i++) {
        if (worries[i] == NULL) continue;
        if (text.size > 0) buf_put_literal(&text, "; ");
        buf_put(&text, str_from(worries[i]));
    }
    check(!text.overflow);
    to[text.size] = '\0';
    return text.size > 0;
}

static bool slows_credentials(const struct engine_reactor *w)
{
    for (unsigned i = 0; i < w->engine->reactor_count; i++)
        if (strangers_are_slowed(&w->engine->reactors[i].strangers, loop_now_ms(w->loop)))
            return true;
    return false;
}

static void put_checks(struct checks *c, struct engine_reactor *w)
{
    struct engine *e = w->engine;
    const struct bundle_facts *facts = bundle_facts(w->bundle);
    struct journal_totals totals;
    journal_totals(e->journal, &totals);
    bool tight = is_tight(totals.free_bytes, totals.total_bytes);
    const char *policies = facts->revision == 0
                               ? engine_why_empty(e)
                               : "the newest policies of a tenant cannot be loaded; see the log";
    checks_put(c, METRIC_ENGINE_CHECK_BUNDLE, "bundle",
               facts->revision != 0 && facts->tenants_unloadable == 0, policies);
    char clock[CLOCK_TROUBLE_TEXT];
    checks_put(c, METRIC_ENGINE_CHECK_CLOCK, "clock", !world_clock_trouble(clock), clock);
    checks_put(c, METRIC_ENGINE_CHECK_CREDENTIALS, "credentials", !slows_credentials(w),
               STRANGERS_TEXT);
    checks_put(c, METRIC_ENGINE_CHECK_DISK, "disk",
               !tight && !is_tight(totals.free_files, totals.total_files),
               tight ? "the journal's file system is more than 80 % full"
                     : "more than 80 % of the inodes of the journal's file system are in use");
    if (e->config.platform_url[0] != '\0') {
        struct feed_status feed;
        feed_status(e, &feed);
        char text[sizeof feed.trouble + 40];
        snprintf(text, sizeof text, "%s%s",
                 feed.is_cut_short ? "" : "policies and keys stay as they are: ",
                 feed.trouble[0] != '\0' ? feed.trouble : "the platform does not answer");
        checks_put(c, METRIC_ENGINE_CHECK_FEED, "feed",
                   !feed.is_cut_short && !feed.is_refused &&
                       (feed.reachable || feed.silent_ms < SILENT_MS),
                   text);
    }
    char fleet[FLEET_CHECK_TEXT];
    if (e->member != NULL)
        checks_put(c, METRIC_ENGINE_CHECK_FLEET, "fleet", !fleet_has_worry(e, fleet), fleet);
    char snapshots[FLEET_REASON_TEXT] = "";
    pthread_mutex_lock(&e->followers_lock);
    bool fails = e->fleet_snapshots != NULL &&
                 fleet_snapshots_trouble(e->fleet_snapshots, snapshots, sizeof snapshots);
    pthread_mutex_unlock(&e->followers_lock);
    if (e->member != NULL)
        checks_put(c, METRIC_ENGINE_CHECK_SNAPSHOT, "snapshot", !fails, snapshots);
    bool is_full = journal_is_full(e->journal);
    checks_put(c, METRIC_ENGINE_CHECK_JOURNAL, "journal", !is_full && !engine_stands_still(e),
               is_full ? "there is no room for records: decisions are refused"
                       : STANDS_STILL_TEXT ": decisions are refused");
    char keys[KEY_TROUBLE_TEXT];
    checks_put(c, METRIC_ENGINE_CHECK_KEYS, "keys",
               !key_trouble(atomic_load(&e->keys_unprovable), keys), keys);
    checks_put(c, METRIC_ENGINE_CHECK_LOAD, "load", !refuses_for_load(w),
               "more requests arrive than the engine can handle: some are refused (503)");
    pthread_mutex_lock(&e->followers_lock);
    struct state_follower_status keep = {0};
    bool keeping = e->state_follower != NULL;
    if (keeping) state_follower_status(e->state_follower, &keep);
    struct publish_status publish = {0};
    bool publishing = e->publisher != NULL;
    if (publishing) publish_status(e->publisher, &publish);
    if (publishing && publishes_well(&publish) && e->fleet_publisher != NULL)
        publish_status(e->fleet_publisher, &publish);
    pthread_mutex_unlock(&e->followers_lock);
    if (publishing)
        checks_put(c, METRIC_ENGINE_CHECK_PUBLISH, "publish", publishes_well(&publish),
                   publish.text[0] != '\0' ? publish.text : "records wait for the platform");
    checks_put(c, METRIC_ENGINE_CHECK_QUOTAS, "quotas", quotas_are_well(&e->quota_refused_ms),
               QUOTAS_TEXT);
    char tls[TLS_TROUBLE_TEXT];
    if (keeping && keep.redis_configured)
        checks_put(c, METRIC_ENGINE_CHECK_REDIS, "redis",
                   keep.redis_reachable && keep.text[0] == '\0',
                   keep.text[0] != '\0' ? keep.text : "Redis was not reached yet");
    if (keeping)
        checks_put(c, METRIC_ENGINE_CHECK_SNAPSHOT, "snapshot", !keep.snapshot_fails,
                   keep.snapshot_text);
    if (e->tls != NULL)
        checks_put(c, METRIC_ENGINE_CHECK_TLS, "tls", tls_is_well(e->tls, world_now_ms(), tls),
                   tls);
}

/* What a person needs who has no key, or cannot read the log of this machine. */
static void put_fleet(struct buf *b, struct engine *e)
{
    struct fleet_view v;
    if (e->member == NULL) return;
    fleet_member_view(e->member, &v, NULL);
    buf_put_literal(b, ",\"fleet\":{\"name\":");
    json_put_string(b, str_from(e->config.fleet));
    buf_put_literal(b, ",\"leader\":");
    json_put_string(b, str_from(v.leader.node));
    buf_put_literal(b, ",\"term\":");
    buf_put_u64(b, v.leader.term);
    buf_put_literal(b, ",\"next_offset\":");
    buf_put_u64(b, v.next_offset);
    buf_put_literal(b, ",\"lease_left_ms\":");
    buf_put_u64(b, v.lease_left_ms);
    buf_put_literal(b, ",\"reading_ended\":");
    if (v.ended[0] == '\0')
        buf_put_literal(b, "null");
    else
        api_put_sentence(b, str_from(v.ended));
    buf_put_byte(b, '}');
}

void healthz_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    char bytes[HEALTH_BYTES];
    struct buf b = buf_over(bytes, sizeof bytes);
    struct checks checks = {.out = &b, .sheet = w->engine->reactors[0].sheet};
    buf_put_literal(&b, "{\"checks\":{");
    put_checks(&checks, w);
    buf_put_byte(&b, '}');
    put_fleet(&b, w->engine);
    buf_put_literal(&b, ",\"journal_hours_left\":");
    buf_put_u64(&b, atomic_load(&w->engine->journal_left_seconds) / 3600);
    buf_put_literal(&b, ",\"node\":");
    json_put_string(&b, str_from(w->engine->node));
    checks_put_end(&checks, &b, "writ-engine");
    api_reply(&w->api, x, 200, buf_view(&b), (struct str){0});
}

void livez_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    api_reply_alive(&w->api, x);
}

/* True: the state lacks records of this node, or of its fleet, that the platform has, so it should
 * serve no requests. */
static bool is_behind(struct engine *e)
{
    struct publish_status own = {0}, of_fleet = {0};
    pthread_mutex_lock(&e->followers_lock);
    if (e->publisher != NULL) publish_status(e->publisher, &own);
    if (e->fleet_publisher != NULL) publish_status(e->fleet_publisher, &of_fleet);
    pthread_mutex_unlock(&e->followers_lock);
    return publish_state_is_behind(own.state) || publish_state_is_behind(of_fleet.state);
}

void readyz_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    struct fault f = {.err = ERR_OK};
    enum phase phase = atomic_load(&w->engine->phase);
    char fleet[FLEET_REASON_TEXT];
    if (phase == PHASE_DRAINING)
        (void)fault_plain(&f, ERR_DRAINING);
    else if (w->engine->member != NULL && fleet_member_trouble(w->engine->member, fleet))
        (void)fault_set(&f, ERR_FLEET_STALE, "", "%s", fleet);
    else if (phase == PHASE_LOST)
        (void)fault_set(
            &f, ERR_STORE_UNAVAILABLE, "",
            "another engine has taken over this engine's state in Redis; this one ends");
    else if (atomic_load(&w->engine->revision) == 0)
        (void)fault_set(&f, ERR_STARTING, "", "%s", engine_why_empty(w->engine));
    else if (takeover_is_due(w->engine))
        (void)takeover_fault(w->engine, &f);
    else if (journal_is_full(w->engine->journal))
        (void)fault_plain(&f, ERR_JOURNAL_FULL);
    else if (engine_stands_still(w->engine))
        (void)fault_set(&f, ERR_OVERLOADED, "", STANDS_STILL_TEXT);
    else if (is_behind(w->engine))
        (void)fault_set(
            &f, ERR_STORE_UNAVAILABLE, "",
            "the platform has records of this node that this journal does not have, so it does "
            "not know what they revoked or suspended, spent or counted. Start it with a node name "
            "of its own (--node NAME); of a fleet, restore its log. See the check publish in "
            "/healthz");
    if (f.err != ERR_OK)
        api_refuse(&w->api, x, &f, (struct str){0});
    else
        api_reply(&w->api, x, 200, STR("{\"status\":\"ready\"}"), (struct str){0});
}

void config_check_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    bool ok =
        bundle_facts(w->bundle)->revision != 0 && bundle_facts(w->bundle)->tenants_unloadable == 0;
    api_reply(&w->api, x, 200, ok ? STR("{\"ok\":true}") : STR("{\"ok\":false}"), (struct str){0});
}

/* Metrics that belong to no thread are all set by the reactor that is asked for them. */
static void set_shared_figures(struct engine_reactor *w)
{
    struct engine *e = w->engine;
    struct feed_status feed = {.reachable = true};
    struct journal_totals totals;
    if (e->config.platform_url[0] != '\0') feed_status(e, &feed);
    journal_totals(e->journal, &totals);
    const struct {
        enum metric metric;
        uint64_t value;
    } figures[] = {
        {METRIC_BUNDLE_REVISION, atomic_load(&e->revision)},
        {METRIC_BUNDLE_STALE, !feed.reachable},
        {METRIC_POLICY_RULES, bundle_facts(w->bundle)->rules},
        {METRIC_JOURNAL_SEQ, journal_written_seq(e->journal)},
        {METRIC_JOURNAL_DURABLE_SEQ, journal_durable_seq(e->journal)},
        {METRIC_JOURNAL_BYTES, totals.bytes},
        {METRIC_JOURNAL_FRAMES, totals.frames},
        {METRIC_JOURNAL_SYNCS, totals.syncs},
        {METRIC_JOURNAL_SEGMENTS, totals.segments},
        {METRIC_JOURNAL_FULL, journal_is_full(e->journal)},
        {METRIC_JOURNAL_LEFT_SECONDS, atomic_load(&e->journal_left_seconds)},
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        metric_set(e->reactors[0].sheet, figures[i].metric, figures[i].value);
    char texts[HEALTH_BYTES];
    struct buf unread = buf_over(texts, sizeof texts);
    struct checks checks = {.out = &unread, .sheet = e->reactors[0].sheet};
    put_checks(&checks, w);
}

static void reply_metrics(struct engine_reactor *w, struct http_exchange *x)
{
    set_shared_figures(w);
    api_reply_metrics(&w->api, x, STR("writ_engine_"));
}

void metrics_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    struct caller caller;
    struct fault f;
    if (w->engine->config.metrics_public)
        reply_metrics(w, x);
    else if (bundle_facts(w->bundle)->revision == 0)
        route_refuse_starting(w, x);
    else if (api_admit(&w->api, x, ROLE_METRICS | ROLE_ADMIN, world_now_ms(), &caller, &f) ==
             ERR_OK)
        reply_metrics(w, x);
    else
        api_refuse(&w->api, x, &f, (struct str){0});
}
