#include "api/operations.h"

#include <stdatomic.h>

#include "base/world.h"
#include "json/json.h"

enum {
    METRICS_BYTES_FIRST = 16 << 10,
    METRICS_BYTES_MAX = 1 << 20,
    QUOTA_SHOWN_MS = 60000,
};

void checks_put(struct checks *c, enum metric gauge, const char *name, bool ok,
                const char *otherwise)
{
    metric_set(c->sheet, gauge, !ok);
    if (c->any) buf_put_byte(c->out, ',');
    json_put_plain(c->out, str_from(name));
    buf_put_byte(c->out, ':');
    api_put_sentence(c->out, str_from(ok ? "ok" : otherwise));
    c->any = true;
    c->degraded = c->degraded || !ok;
}

bool quotas_are_well(const _Atomic uint64_t *refused_ms)
{
    return atomic_load_explicit(refused_ms, memory_order_relaxed) + QUOTA_SHOWN_MS < world_now_ms();
}

void checks_put_end(const struct checks *c, struct buf *out, const char *service)
{
    buf_put_literal(out, ",\"service\":");
    json_put_plain(out, str_from(service));
    buf_put_literal(out, ",\"status\":");
    json_put_plain(out, c->degraded ? STR("degraded") : STR("ok"));
    buf_put_literal(out, ",\"version\":\"" WRIT_VERSION "\"}");
}

void api_reply_alive(struct api *a, struct http_exchange *x)
{
    api_reply(a, x, 200, STR("{\"status\":\"ok\"}"), (struct str){0});
}

void api_reply_metrics(struct api *a, struct http_exchange *x, struct str prefix)
{
    struct buf b;
    buf_init(&b, METRICS_BYTES_FIRST, METRICS_BYTES_MAX);
    metrics_put(&b, prefix);
    struct http_reply reply = {.status = 200,
                               .body = buf_view(&b),
                               .content_type = STR("text/plain; version=0.0.4; charset=utf-8")};
    api_send(a, x, &reply, (struct str){0});
    buf_fini(&b);
}
