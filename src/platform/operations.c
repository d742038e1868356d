/* operations.c - what operators and load balancers ask: is it alive, is it ready, how is it. */
#include "platform/platform.h"

#include "pipeline/ingest/store.h"

/* What is asked here waits for no store: it is looked at each second (checks_tick), and these
 * tell what was seen. A store that answers nobody would otherwise keep them away, too, for as
 * long as it takes to give up. */
enum {
    /* a look that is away for longer has failed; the longest query takes 5 */
    LOOK_SECONDS_MAX = 8,
    HEALTH_BYTES_MAX = 64 << 10,
    /* after that, and nothing written or read since, who knows: one failure is no alert */
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

/* How long the store has been at a change: the writer's, or the consumer's. */
static unsigned writing_seconds(const struct platform *p)
{
    struct consumer_status consumer = {0};
    if (p->consumer != NULL) consumer_status(p->consumer, &consumer);
    unsigned own_s = work_writing_seconds(p->work);
    return own_s > consumer.writing_s ? own_s : consumer.writing_s;
}

/* The same, or why it could not be used lately. */
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
            "a change has waited for the store for %u s; what is written waits behind it",
            writing_s);
    return ERR_OK;
}

struct checks {
    struct buf text; /* the members of `checks` */
    bool degraded;
};

/* One check: "ok", or what is wrong. Its gauge is set with it, so that /healthz
 * and /metrics say the same. */
static void put_check(struct checks *c, struct platform *p, enum metric gauge, const char *name,
                      bool ok, const char *trouble)
{
    metric_set(p->sheet, gauge, !ok);
    if (c->text.size > 0) buf_put_byte(&c->text, ',');
    json_put_plain(&c->text, str_from(name));
    buf_put_byte(&c->text, ':');
    api_put_sentence(&c->text, str_from(ok ? "ok" : trouble));
    c->degraded = c->degraded || !ok;
}

static void put_checks(struct checks *c, struct platform *p)
{
    char clock[CLOCK_TROUBLE_TEXT];
    put_check(c, p, METRIC_PLATFORM_CHECK_CLOCK, "clock", !world_clock_trouble(clock), clock);
    if (p->consumer != NULL) {
        struct consumer_status consumer;
        consumer_status(p->consumer, &consumer);
        put_check(c, p, METRIC_PLATFORM_CHECK_KAFKA, "kafka", consumer.is_well, consumer.text);
    }
    char keys[KEY_TROUBLE_TEXT];
    put_check(c, p, METRIC_PLATFORM_CHECK_KEYS, "keys", !key_trouble(p->keys_unprovable, keys),
              keys);
    bool policies_ok;
    const char *policies = watch_health(p->watch, &policies_ok);
    if (policies != NULL)
        put_check(c, p, METRIC_PLATFORM_CHECK_POLICIES, "policies", policies_ok, policies);
    struct fault f;
    put_check(c, p, METRIC_PLATFORM_CHECK_STORE, "store", store_trouble(p, &f) == ERR_OK, f.text);
}

void healthz_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct checks c = {0};
    struct buf reply;
    buf_init(&c.text, 1 << 10, HEALTH_BYTES_MAX);
    buf_init(&reply, 1 << 10, HEALTH_BYTES_MAX);
    put_checks(&c, p);
    buf_put_literal(&reply, "{\"checks\":{");
    buf_put(&reply, buf_view(&c.text));
    buf_put_literal(&reply, "},\"service\":\"writ-platform\",\"status\":");
    json_put_plain(&reply, c.degraded ? STR("degraded") : STR("ok"));
    buf_put_literal(&reply, ",\"version\":\"" WRIT_VERSION "\"}");
    api_reply(&p->api, x, 200, buf_view(&reply), (struct str){0});
    buf_fini(&reply);
    buf_fini(&c.text);
}

void livez_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    api_reply(&p->api, x, 200, STR("{\"status\":\"ok\"}"), (struct str){0});
}

void readyz_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct fault f;
    enum err err = ERR_OK;
    if (p->draining)
        err = fault_plain(&f, ERR_DRAINING);
    else if (!watch_is_ready(p->watch))
        err = fault_set(&f, ERR_STARTING, "", "policies.dir has not been looked through yet");
    else
        err = reading_trouble(p, &f);
    if (!platform_failed(p, x, err, &f))
        api_reply(&p->api, x, 200, STR("{\"status\":\"ready\"}"), (struct str){0});
}

/* ---- each second ---- */

struct look_detail {
    uint64_t rows;
};

/* Rows are counted here, since others store them too: the consumer, other platforms, retention. */
static void look(struct job *j, struct store *s)
{
    struct look_detail *d = j->detail;
    struct audit_store *audit = store_audit(s);
    j->err = store_probe(s, &j->fault);
    if (j->err == ERR_OK) j->err = audit->ops->count(audit->state, &d->rows);
}

static void looked(struct job *j)
{
    struct platform *p = j->platform;
    const struct look_detail *d = j->detail;
    p->looking_s = 0;
    p->reading_trouble.text[0] = '\0';
    if (j->err == ERR_OK)
        metric_set(p->sheet, METRIC_STORE_EVENTS, d->rows);
    else if (j->fault.text[0] != '\0')
        p->reading_trouble = j->fault;
    else
        fault_plain(&p->reading_trouble, j->err);
    job_destroy(j);
}

static void look_at_store(struct platform *p)
{
    if (p->looking_s > 0) {
        p->looking_s++;
        return;
    }
    struct job *j = job_create(p, NULL, look);
    (void)job_detail(j, struct look_detail);
    j->done = looked;
    if (job_queue(j, QUEUE_READER))
        p->looking_s = 1;
    else
        job_destroy(j); /* the readers have a thousand other questions: the next second will do */
}

void checks_tick(struct platform *p)
{
    struct unprovable unprovable =
        key_table_unprovable(p->keys, pepper_mark(&p->pepper), world_now_ms());
    key_trouble_note(&p->keys_unprovable, &unprovable);
    struct checks c = {0}; /* for its gauges */
    buf_init(&c.text, 1 << 10, HEALTH_BYTES_MAX);
    put_checks(&c, p);
    buf_fini(&c.text);
    look_at_store(p);
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
