/* reply.c - answers, and errors in their common form (schemas/errors.md). */
#include "api/api.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "base/check.h"
#include "base/world.h"
#include "json/json.h"

enum { REQUEST_ID_BYTES_MAX = 128, FAULT_BYTES = 4096, SENTENCE_BYTES_MAX = 1024 };

void api_count_reply(struct api *a, int status)
{
    metric_add(a->sheet, a->replies_2xx + (status < 400 ? 0u : status < 500 ? 1u : 2u), 1);
}

/* All but the headers, a quarter of a KiB that header_count makes unreachable. */
static void reply_begin(struct http_reply *r, int status, struct str body,
                        struct http_barrier barrier)
{
    r->status = status;
    r->content_type = (struct str){0};
    r->body = body;
    r->header_count = 0;
    r->barrier = barrier;
    r->close = false;
}

static void add_header(struct http_reply *r, struct str name, struct str value)
{
    if (r->header_count < HTTP_REPLY_HEADERS_MAX)
        r->headers[r->header_count++] = (struct http_header){.name = name, .value = value};
}

/* Text of a client that may be echoed: printable ASCII of bounded length. */
static bool is_echoable(struct str id)
{
    if (id.size == 0 || id.size > REQUEST_ID_BYTES_MAX) return false;
    for (size_t i = 0; i < id.size; i++)
        if (id.bytes[i] < 0x21 || id.bytes[i] > 0x7e) return false;
    return true;
}

size_t api_part(uint32_t connections, unsigned sixteenths, size_t most)
{
    size_t part = (size_t)connections * sixteenths / 16;
    return part > most ? most : part > 0 ? part : 1;
}

struct str api_request_id(const struct http_exchange *x)
{
    struct str sent = http_header_get(x, STR("x-request-id"));
    return is_echoable(sent) ? sent : (struct str){0};
}

static void add_request_id(struct http_reply *r, struct str sent, struct str request_id)
{
    if (!str_is_empty(sent))
        add_header(r, STR("X-Request-ID"), sent);
    else if (!str_is_absent(request_id))
        add_header(r, STR("X-Request-ID"), request_id);
}

enum err api_no_room(struct fault *f)
{
    return fault_set(
        f, ERR_OVERLOADED, "",
        "too many large answers wait for clients that do not read them; try again later");
}

const struct fault *api_no_memory(struct fault *f)
{
    (void)fault_set(f, ERR_OVERLOADED, "",
                    "there is no memory for this request now; try again later");
    return f;
}

void api_send(struct api *a, struct http_exchange *x, struct http_reply *r, struct str request_id)
{
    add_request_id(r, api_request_id(x), request_id);
    api_count_reply(a, r->status);
    http_reply(x, r);
}

void api_reply_at_barrier(struct api *a, struct http_exchange *x, int status, struct str body,
                          struct str request_id, struct http_barrier barrier)
{
    struct http_reply reply;
    struct fault f;
    reply_begin(&reply, status, body, barrier);
    if (!http_has_room(x, body.size)) {
        (void)api_no_room(&f);
        api_refuse_at_barrier(a, x, &f, (struct str){0}, barrier);
        return;
    }
    api_send(a, x, &reply, request_id);
}

bool api_reply_deferred(struct api *a, const struct api_deferred *d, int status, struct str body,
                        struct str request_id)
{
    struct http_reply reply;
    struct fault f;
    reply_begin(&reply, status, body, d->barrier);
    if (!http_server_has_room(d->server, body.size)) {
        (void)api_no_room(&f);
        return api_refuse_deferred(a, d, &f, (struct str){0});
    }
    add_request_id(&reply, d->echo, request_id);
    api_count_reply(a, status);
    return http_resume(d->server, d->token, &reply);
}

void api_reply(struct api *a, struct http_exchange *x, int status, struct str body,
               struct str request_id)
{
    api_reply_at_barrier(a, x, status, body, request_id, (struct http_barrier){0});
}

void api_put_sentence(struct buf *out, struct str text)
{
    struct str rest =
        str_of(text.bytes, text.size < SENTENCE_BYTES_MAX ? text.size : SENTENCE_BYTES_MAX);
    char clean[SENTENCE_BYTES_MAX * 3]; /* as if each byte were invalid */
    struct buf b = buf_over(clean, sizeof clean);
    size_t bad;
    while (!str_is_utf8(rest, &bad)) {
        buf_put(&b, str_of(rest.bytes, bad));
        buf_put_literal(&b, "\xEF\xBF\xBD");
        rest = str_skip(rest, bad + 1);
    }
    buf_put(&b, rest);
    json_put_string(out, buf_view(&b));
}

void api_put_fault(struct buf *out, const struct fault *f, struct str trace_id)
{
    buf_put_literal(out, "\"code\":");
    json_put_plain(out, str_from(err_code(f->err)));
    buf_put_literal(out, ",\"error\":");
    api_put_sentence(out, str_from(f->text));
    if (f->field[0] != '\0') {
        buf_put_literal(out, ",\"field\":");
        api_put_sentence(out, str_from(f->field));
    }
    if (!str_is_absent(trace_id)) {
        buf_put_literal(out, ",\"trace_id\":");
        json_put_string(out, trace_id);
    }
}

static struct str fault_body(struct buf *b, const struct fault *f, struct str trace_id)
{
    buf_put_byte(b, '{');
    api_put_fault(b, f, trace_id);
    buf_put_literal(b, "}");
    return buf_view(b);
}

/* Of draft-ietf-httpapi-ratelimit-headers-11: the quota, and that nothing of it is left. */
struct fault_headers {
    char retry[16], policy[96], limit[96];
};

static void add_fault_headers(struct http_reply *r, const struct fault *f, struct fault_headers *h)
{
    static const struct quota none;
    const struct quota *q = r->status == 429 ? &f->quota : &none;
    if (r->status == 401) add_header(r, STR("WWW-Authenticate"), STR("Bearer"));
    if (r->status != 429 && r->status != 503) return;
    struct buf retry = buf_over(h->retry, sizeof h->retry),
               policy = buf_over(h->policy, sizeof h->policy),
               limit = buf_over(h->limit, sizeof h->limit);
    buf_put_u64(&retry, q->retry_s > 0 ? q->retry_s : 1);
    add_header(r, STR("Retry-After"), buf_view(&retry));
    if (q->name == NULL) return;
    buf_printf(&policy, "\"%s\";q=%" PRIu64, q->name, q->most);
    if (q->window_s > 0) buf_printf(&policy, ";w=%u", q->window_s);
    buf_printf(&limit, "\"%s\";r=0;t=%u", q->name, q->retry_s);
    check(!policy.overflow && !limit.overflow);
    add_header(r, STR("RateLimit-Policy"), buf_view(&policy));
    add_header(r, STR("RateLimit"), buf_view(&limit));
}

static void count_quota(struct api *a, enum err err)
{
    if (err != ERR_QUOTA_KEY && err != ERR_QUOTA_TENANT) return;
    metric_add(a->sheet, err == ERR_QUOTA_KEY ? a->quota_key : a->quota_tenant, 1);
    if (a->quota_refused_ms != NULL)
        atomic_store_explicit(a->quota_refused_ms, world_now_ms(), memory_order_relaxed);
}

void api_refuse(struct api *a, struct http_exchange *x, const struct fault *f, struct str trace_id)
{
    api_refuse_at_barrier(a, x, f, trace_id, (struct http_barrier){0});
}

void api_refuse_at_barrier(struct api *a, struct http_exchange *x, const struct fault *f,
                           struct str trace_id, struct http_barrier barrier)
{
    char bytes[FAULT_BYTES];
    struct buf b = buf_over(bytes, sizeof bytes);
    struct http_reply reply;
    struct fault_headers headers;
    struct fault starved;
    if (x->arena->starved || f->err == ERR_FULL) f = api_no_memory(&starved);
    reply_begin(&reply, err_status(f->err), fault_body(&b, f, trace_id), barrier);
    add_fault_headers(&reply, f, &headers);
    count_quota(a, f->err);
    if (f->err == ERR_METHOD_NOT_ALLOWED) add_header(&reply, STR("Allow"), x->allow);
    api_send(a, x, &reply, (struct str){0});
}

bool api_refuse_deferred(struct api *a, const struct api_deferred *d, const struct fault *f,
                         struct str trace_id)
{
    char bytes[FAULT_BYTES];
    struct buf b = buf_over(bytes, sizeof bytes);
    struct http_reply reply;
    struct fault_headers headers;
    struct fault starved;
    if (f->err == ERR_FULL) f = api_no_memory(&starved);
    reply_begin(&reply, err_status(f->err), fault_body(&b, f, trace_id), d->barrier);
    add_fault_headers(&reply, f, &headers);
    count_quota(a, f->err);
    add_request_id(&reply, d->echo, (struct str){0});
    api_count_reply(a, reply.status);
    return http_resume(d->server, d->token, &reply);
}

void api_refuse_lost(struct api *a, struct http_server *s, const struct fault *f)
{
    char bytes[FAULT_BYTES];
    struct buf b = buf_over(bytes, sizeof bytes);
    struct http_reply reply;
    struct fault_headers headers;
    reply_begin(&reply, err_status(f->err), fault_body(&b, f, (struct str){0}),
                (struct http_barrier){0});
    add_fault_headers(&reply, f, &headers);
    for (size_t count = http_server_lose_log(s, &reply); count > 0; count--)
        api_count_reply(a, reply.status);
}
