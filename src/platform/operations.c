/* operations.c - the answers for operators and load balancers: alive, ready, health. */
#include "platform/platform.h"

#include "api/operations.h"
#include "base/check.h"
#include "base/time.h"
#include "store/store.h"

/* No request here waits for the store. A tick looks at the store each second (checks_tick), and
 * these routes report the result. Otherwise a store that does not answer would delay them, too. */
enum {
    /* a look that takes longer has failed; the longest query takes 5 s */
    LOOK_SECONDS_MAX = 8,
    HEALTH_BYTES_MAX = 128 << 10,
    STREAM_LOOKS = 3, /* every third look counts the streams of all nodes */
    /* A failure counts for so long, unless a read or a write succeeds: one failure is no alert. */
    TROUBLE_SECONDS = 30,
};

/* ERR_OK, or why it cannot be read. */
static enum err reading_trouble(const struct platform *p, struct fault *f)
{
    if (p->looking_s > LOOK_SECONDS_MAX)
        return fault_set(f, ERR_STORE_UNAVAILABLE, "", "the store has not answered for %u s",
                         p->looking_s - 1);
    *f = p->reading_trouble;
    return f->text[0] == '\0' ? ERR_OK : ERR_STORE_UNAVAILABLE;
}

/* How long the store has been busy with a change of the writer or of the consumer. */
static unsigned writing_seconds(const struct platform *p)
{
    struct consumer_status consumer = {0};
    if (p->consumer != NULL) consumer_status(p->consumer, &consumer);
    unsigned own_s = work_writing_seconds(p->work);
    return own_s > consumer.writing_s ? own_s : consumer.writing_s;
}

/* Like reading_trouble(), and also reports a recent failure of the store's users. */
static enum err store_trouble(const struct platform *p, struct fault *f)
{
    if (reading_trouble(p, f) != ERR_OK) return ERR_STORE_UNAVAILABLE;
    uint64_t now_ns = world_monotonic_ns();
    for (unsigned queue = 0; queue < QUEUE_COUNT; queue++) {
        const struct store_trouble *t = &p->trouble[queue];
        if (t->fault.text[0] == '\0' || now_ns - t->at_ns > TROUBLE_SECONDS * UINT64_C(1000000000))
            continue;
        *f = t->fault;
        return ERR_STORE_UNAVAILABLE;
    }
    unsigned writing_s = writing_seconds(p);
    if (writing_s >= WRITING_SECONDS_MAX)
        return fault_set(
            f, ERR_STORE_UNAVAILABLE, "",
            "a change has waited for the store for %u s; further changes wait behind it",
            writing_s);
    return ERR_OK;
}

static void put_checks(struct checks *c, struct platform *p)
{
    if (p->anchors != NULL) {
        struct anchors_status anchors;
        anchors_status(p->anchors, &anchors);
        checks_put(c, METRIC_PLATFORM_CHECK_ANCHORS, "anchors", anchors.is_well, anchors.text);
    }
    char clock[CLOCK_TROUBLE_TEXT];
    checks_put(c, METRIC_PLATFORM_CHECK_CLOCK, "clock", !world_clock_trouble(clock), clock);
    checks_put(c, METRIC_PLATFORM_CHECK_CREDENTIALS, "credentials",
               !strangers_are_slowed(&p->strangers, loop_now_ms(p->loop)), STRANGERS_TEXT);
    if (p->consumer != NULL) {
        struct consumer_status consumer;
        consumer_status(p->consumer, &consumer);
        checks_put(c, METRIC_PLATFORM_CHECK_KAFKA, "kafka", consumer.is_well, consumer.text);
    }
    char keys[KEY_TROUBLE_TEXT];
    checks_put(c, METRIC_PLATFORM_CHECK_KEYS, "keys", !key_trouble(p->keys_unprovable, keys), keys);
    if (p->notifier != NULL) {
        struct notifier_status notify;
        notifier_status(p->notifier, &notify);
        checks_put(c, METRIC_PLATFORM_CHECK_NOTIFY, "notify", notify.is_well, notify.text);
    }
    bool policies_ok;
    const char *policies = directory_health(p->watch, &policies_ok);
    if (policies != NULL)
        checks_put(c, METRIC_PLATFORM_CHECK_POLICIES, "policies", policies_ok, policies);
    char providers[PROVIDER_TROUBLE_TEXT];
    if (p->providers.oidc != NULL)
        checks_put(c, METRIC_PLATFORM_CHECK_PROVIDERS, "providers",
                   !providers_trouble(p, providers), providers);
    checks_put(c, METRIC_PLATFORM_CHECK_QUOTAS, "quotas", quotas_are_well(&p->quota_refused_ms),
               QUOTAS_TEXT);
    checks_put(c, METRIC_PLATFORM_CHECK_SET, "set", p->set_trouble.text[0] == '\0',
               p->set_trouble.text);
    struct fault f;
    checks_put(c, METRIC_PLATFORM_CHECK_STORE, "store", store_trouble(p, &f) == ERR_OK, f.text);
    checks_put(c, METRIC_PLATFORM_CHECK_STREAMS, "streams", p->streams_full.text[0] == '\0',
               p->streams_full.text);
    char tls[TLS_TROUBLE_TEXT];
    if (p->tls != NULL)
        checks_put(c, METRIC_PLATFORM_CHECK_TLS, "tls", tls_is_well(p->tls, world_now_ms(), tls),
                   tls);
}

static void put_quarantine(struct buf *b, const struct quarantine_status *q)
{
    char oldest[TIME_TEXT];
    buf_printf(b, ",\"quarantine\":{\"bytes\":%llu,\"oldest\":", (unsigned long long)q->bytes);
    if (q->oldest_ms == 0) {
        buf_put_literal(b, "null");
    } else {
        time_write(q->oldest_ms, oldest);
        json_put_plain(b, str_of(oldest, TIME_TEXT));
    }
    buf_printf(b, ",\"rows\":%llu}", (unsigned long long)q->rows);
}

void healthz_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct buf b;
    buf_init(&b, 1 << 10, HEALTH_BYTES_MAX);
    struct checks c = {.out = &b, .sheet = p->sheet};
    buf_put_literal(&b, "{\"checks\":{");
    put_checks(&c, p);
    buf_put_byte(&b, '}');
    anchors_put(&b, p);
    notify_put(&b, p);
    providers_put(&b, p);
    if (p->policy_report.is_complete)
        buf_printf(&b, ",\"policies_refused_when_put\":{\"count\":%zu,%s",
                   p->policy_report.documents, p->policy_report.json);
    put_quarantine(&b, &p->quarantine);
    if (p->untrusted.json[0] != '\0')
        buf_printf(&b, ",\"untrusted_streams\":%s", p->untrusted.json);
    checks_put_end(&c, &b, "writ-platform");
    api_reply(&p->api, x, 200, buf_view(&b), (struct str){0});
    buf_fini(&b);
}

void livez_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    api_reply_alive(&p->api, x);
}

void readyz_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct fault f;
    const char *why;
    enum err err = ERR_OK;
    if (p->draining)
        err = fault_plain(&f, ERR_DRAINING);
    else if ((why = directory_unready(p->watch)) != NULL)
        err = fault_set(&f, ERR_STARTING, "", "policies.dir is not in force: %s", why);
    else
        err = reading_trouble(p, &f);
    if (!platform_failed(p, x, err, &f))
        api_reply(&p->api, x, 200, STR("{\"status\":\"ready\"}"), (struct str){0});
}

/* ---- each second ---- */

struct look_detail {
    uint64_t rows;
    struct quarantine_status quarantine;
    bool counts_streams;
    struct streams_full streams_full;
    struct streams_untrusted untrusted;
};

/* The rows are counted here, because others store them, too: the consumer, other platforms,
 * retention. */
static void look(struct job *j, struct store *s)
{
    struct look_detail *d = j->detail;
    struct audit_store *audit = store_audit(s);
    j->err = store_probe(s, &j->fault);
    if (j->err == ERR_OK) j->err = audit->ops->count(audit->state, &d->rows);
    if (j->err == ERR_OK) j->err = quarantine_status(s, &d->quarantine, &j->fault);
    if (j->err == ERR_OK && d->counts_streams)
        j->err = streams_full(s, &d->streams_full, &j->fault);
    if (j->err == ERR_OK && d->counts_streams)
        j->err = streams_untrusted(s, &d->untrusted, &j->fault);
}

static void note_figures(struct platform *p, const struct look_detail *d)
{
    p->quarantine = d->quarantine;
    if (d->counts_streams) p->streams_full = d->streams_full;
    if (d->counts_streams) p->untrusted = d->untrusted;
    metric_set(p->sheet, METRIC_STORE_EVENTS, d->rows);
    metric_set(p->sheet, METRIC_QUARANTINE_ROWS, d->quarantine.rows);
    metric_set(p->sheet, METRIC_QUARANTINE_BYTES, d->quarantine.bytes);
    metric_set(p->sheet, METRIC_QUARANTINE_DROPPED, d->quarantine.dropped);
}

static void looked(struct job *j)
{
    struct platform *p = j->platform;
    const struct look_detail *d = j->detail;
    p->looking_s = 0;
    p->reading_trouble.text[0] = '\0';
    if (j->err == ERR_OK)
        note_figures(p, d);
    else if (j->fault.text[0] != '\0')
        p->reading_trouble = j->fault;
    else
        (void)fault_plain(&p->reading_trouble, j->err);
    job_destroy(j);
}

static void look_at_store(struct platform *p)
{
    if (p->looking_s > 0) {
        p->looking_s++;
        return;
    }
    struct job *j = job_create(p, NULL, look);
    struct look_detail *d = job_detail(j, struct look_detail);
    check(d != NULL);
    d->counts_streams = p->looks++ % STREAM_LOOKS == 0;
    j->done = looked;
    if (job_queue(j, QUEUE_READER))
        p->looking_s = 1;
    else
        job_destroy(j); /* the readers' queue is full: the next second will do */
}

/* ---- documents in force that would be refused ---- */

struct report_detail {
    struct policy_report before, report;
};

static void make_report(struct job *j, struct store *s)
{
    struct report_detail *d = j->detail;
    j->err = policy_report_make(j->platform->book, s, &d->before, &d->report, &j->fault);
}

static void report_made(struct job *j)
{
    struct platform *p = j->platform;
    const struct report_detail *d = j->detail;
    p->is_reporting = false;
    if (j->err == ERR_OK && d->report.is_complete) {
        p->policy_report = d->report;
        metric_set(p->sheet, METRIC_POLICIES_REFUSED_WHEN_PUT, d->report.documents);
    }
    job_destroy(j);
}

/* Runs whenever the store has moved. Each look loads some of the new texts, and nothing twice. */
static void report_tick(struct platform *p)
{
    const struct policy_report *r = &p->policy_report;
    if (p->is_reporting || (r->is_complete && r->revision >= p->revision)) return;
    struct job *j = job_create(p, NULL, make_report);
    struct report_detail *d = job_detail(j, struct report_detail);
    check(d != NULL);
    d->before = *r;
    j->done = report_made;
    j->is_check = true;
    p->is_reporting = job_queue(j, QUEUE_READER);
    if (!p->is_reporting) job_destroy(j);
}

void checks_tick(struct platform *p)
{
    struct unprovable unprovable =
        key_table_unprovable(p->keys, pepper_fingerprint(&p->pepper), world_now_ms());
    key_trouble_note(&p->keys_unprovable, &unprovable);
    struct buf unread; /* only the gauges are used */
    buf_init(&unread, 1 << 10, HEALTH_BYTES_MAX);
    struct checks c = {.out = &unread, .sheet = p->sheet};
    put_checks(&c, p);
    buf_fini(&unread);
    look_at_store(p);
    report_tick(p);
}

void config_check_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    api_reply(&p->api, x, 200, STR("{\"ok\":true}"), (struct str){0});
}

void metrics_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct fault f;
    enum err err = p->config->metrics_public ? ERR_OK
                                             : api_admit(&p->api, x, ROLE_METRICS | ROLE_ADMIN,
                                                         world_now_ms(), &p->caller, &f);
    if (platform_failed(p, x, err, &f)) return;
    metric_set(p->sheet, METRIC_PLATFORM_CONNECTIONS, http_server_connections(p->server));
    api_reply_metrics(&p->api, x, STR("writ_platform_"));
}
