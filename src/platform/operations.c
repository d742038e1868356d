/* operations.c - what operators and load balancers ask: is it alive, is it ready, how is it. */
#include "platform/platform.h"

#include "pipeline/ingest/store.h"

enum { WRITE_TROUBLE_SECONDS = 60 }; /* after that, and nothing written since, who knows */

static struct str write_trouble(const struct platform *p)
{
    bool is_old = world_monotonic_ns() - p->write_trouble_ns > WRITE_TROUBLE_SECONDS * UINT64_C(1000000000);
    return str_from(is_old ? "" : p->write_trouble.text);
}

struct probe_detail {
    struct str write_trouble; /* empty: none */
    struct str policies; /* absent: no directory is watched */
    bool policies_ok;
    size_t keys_unprovable;
};

static void probe(struct job *j, struct store *s)
{
    const struct probe_detail *d = j->detail;
    struct fault f = {.text = ""};
    enum err err = store_probe(s, &f);
    if (err != ERR_OK && f.text[0] == '\0') fault_plain(&f, err);
    struct str store = err == ERR_OK ? d->write_trouble : str_from(f.text);
    char keys[KEY_TROUBLE_TEXT];
    bool keys_ok = !key_trouble(d->keys_unprovable, keys), ok = str_is_empty(store) && d->policies_ok && keys_ok;
    buf_put_literal(&j->reply, "{\"checks\":{");
    if (j->platform->consumer != NULL) { /* never changes: any thread may read it */
        struct consumer_status consumer;
        consumer_status(j->platform->consumer, &consumer);
        buf_put_literal(&j->reply, "\"kafka\":");
        api_put_sentence(&j->reply, consumer.is_well ? STR("ok") : str_from(consumer.text));
        buf_put_byte(&j->reply, ',');
        ok = ok && consumer.is_well;
    }
    buf_put_literal(&j->reply, "\"keys\":");
    api_put_sentence(&j->reply, keys_ok ? STR("ok") : str_from(keys));
    buf_put_byte(&j->reply, ',');
    if (!str_is_absent(d->policies)) {
        buf_put_literal(&j->reply, "\"policies\":");
        api_put_sentence(&j->reply, d->policies);
        buf_put_byte(&j->reply, ',');
    }
    buf_put_literal(&j->reply, "\"store\":");
    api_put_sentence(&j->reply, str_is_empty(store) ? STR("ok") : store);
    buf_put_literal(&j->reply, "},\"service\":\"writ-platform\",\"status\":");
    json_put_plain(&j->reply, ok ? STR("ok") : STR("degraded"));
    buf_put_literal(&j->reply, ",\"version\":\"" WRIT_VERSION "\"}");
}

void healthz_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct job *j = job_create(p, x, probe);
    struct probe_detail *d = job_detail(j, struct probe_detail);
    d->policies = job_copy(j, str_from(watch_health(p->watch, &d->policies_ok)));
    d->write_trouble = job_copy(j, write_trouble(p));
    d->keys_unprovable = p->keys_unprovable;
    job_send(j, x, QUEUE_READER);
}

void livez_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    api_reply(&p->api, x, 200, STR("{\"status\":\"ok\"}"), (struct str){0});
}

static void probe_ready(struct job *j, struct store *s)
{
    j->err = store_probe(s, &j->fault) == ERR_OK ? ERR_OK : ERR_STORE_UNAVAILABLE;
    if (j->err == ERR_OK) buf_put_literal(&j->reply, "{\"status\":\"ready\"}");
}

void readyz_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct fault f;
    if (p->draining)
        platform_failed(p, x, fault_plain(&f, ERR_DRAINING), &f);
    else if (!watch_is_ready(p->watch))
        platform_failed(p, x, fault_set(&f, ERR_STARTING, "", "policies.dir has not been looked through yet"), &f);
    else
        job_send(job_create(p, x, probe_ready), x, QUEUE_READER);
}

/* ---- the same as gauges, looked at each second ---- */

enum { PROBE_SECONDS_MAX = 10 };

struct look_detail {
    uint64_t rows;
};

static void look(struct job *j, struct store *s)
{
    struct look_detail *d = j->detail;
    struct audit_store *audit = store_audit(s);
    j->err = store_probe(s, &j->fault);
    if (j->err == ERR_OK) j->err = audit->ops->count(audit->state, &d->rows);
}

/* Rows are counted here, since others store them too: the consumer, other platforms, retention. */
static void looked(struct job *j)
{
    struct platform *p = j->platform;
    const struct look_detail *d = j->detail;
    p->probing_s = 0;
    metric_set(p->sheet, METRIC_PLATFORM_CHECK_STORE, j->err != ERR_OK || !str_is_empty(write_trouble(p)));
    if (j->err == ERR_OK) metric_set(p->sheet, METRIC_STORE_EVENTS, d->rows);
    job_destroy(j);
}

/* A store that answers nobody fails too, so a probe that is long away counts as failed. */
void checks_tick(struct platform *p)
{
    if (p->consumer != NULL) {
        struct consumer_status consumer;
        consumer_status(p->consumer, &consumer);
        metric_set(p->sheet, METRIC_PLATFORM_CHECK_KAFKA, !consumer.is_well);
    }
    key_trouble_note(&p->keys_unprovable, key_table_unprovable(p->keys, pepper_mark(&p->pepper), world_now_ms()));
    metric_set(p->sheet, METRIC_PLATFORM_CHECK_KEYS, p->keys_unprovable > 0);
    bool policies_ok = true;
    watch_health(p->watch, &policies_ok);
    metric_set(p->sheet, METRIC_PLATFORM_CHECK_POLICIES, !policies_ok);
    if (p->probing_s > 0) {
        if (++p->probing_s > PROBE_SECONDS_MAX) metric_set(p->sheet, METRIC_PLATFORM_CHECK_STORE, 1);
        return;
    }
    struct job *j = job_create(p, NULL, look);
    (void)job_detail(j, struct look_detail);
    j->done = looked;
    if (job_queue(j, QUEUE_READER)) p->probing_s = 1;
    else job_destroy(j); /* the readers have a thousand other questions: the next second will do */
}

void config_check_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    api_reply(&p->api, x, 200, STR("{\"ok\":true}"), (struct str){0});
}

enum { METRICS_BYTES_MAX = 1 << 20 };

static void reply_metrics(struct platform *p, struct http_exchange *x)
{
    struct buf b;
    buf_init(&b, 16 << 10, METRICS_BYTES_MAX);
    metric_set(p->sheet, METRIC_PLATFORM_CONNECTIONS, http_server_connections(p->server));
    metrics_put(&b, STR("writ_platform_"));
    struct http_reply reply = {.status = 200,
                               .body = buf_view(&b),
                               .content_type = STR("text/plain; version=0.0.4; charset=utf-8")};
    api_send(&p->api, x, &reply, (struct str){0});
    buf_fini(&b);
}

void metrics_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct fault f;
    enum err err = p->config->metrics_public ? ERR_OK
                                             : api_admit(&p->api, x, ROLE_METRICS | ROLE_ADMIN,
                                                         world_now_ms(), &p->caller, &f);
    if (!platform_failed(p, x, err, &f)) reply_metrics(p, x);
}
