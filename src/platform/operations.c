/* operations.c - what operators and load balancers ask: is it alive, is it ready, how is it. */
#include "platform/platform.h"

#include "pipeline/ingest/store.h"

static void probe(struct job *j, struct store *s)
{
    struct fault f = {.text = ""};
    bool ok = store_probe(s, &f) == ERR_OK;
    buf_put_literal(&j->reply, "{\"checks\":{");
    if (j->platform->consumer != NULL) { /* never changes: any thread may read it */
        struct consumer_status consumer;
        consumer_status(j->platform->consumer, &consumer);
        buf_put_literal(&j->reply, "\"kafka\":");
        json_put_string(&j->reply, consumer.is_well ? STR("ok") : str_from(consumer.text));
        buf_put_byte(&j->reply, ',');
        ok = ok && consumer.is_well;
    }
    buf_put_literal(&j->reply, "\"store\":");
    json_put_string(&j->reply, f.text[0] == '\0' ? STR("ok") : str_from(f.text));
    buf_put_literal(&j->reply, "},\"service\":\"writ-platform\",\"status\":");
    json_put_plain(&j->reply, ok ? STR("ok") : STR("degraded"));
    buf_put_literal(&j->reply, ",\"version\":\"" WRIT_VERSION "\"}");
}

void healthz_handle(void *context, struct http_exchange *x)
{
    job_send(job_create(context, x, probe), x, QUEUE_READER);
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
    else
        job_send(job_create(p, x, probe_ready), x, QUEUE_READER);
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
    const struct http_reply reply = {.status = 200,
                                     .body = buf_view(&b),
                                     .content_type =
                                         STR("text/plain; version=0.0.4; charset=utf-8")};
    metric_add(p->sheet, METRIC_PLATFORM_REPLIES_2XX, 1);
    http_reply(x, &reply);
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
