/* forward.c - one address serves a client: what the other program serves is asked of it.
 *
 * The request goes on with the caller's own credential and nothing added but Writ-Forwarded, so
 * that two programs which know each other never pass a request to and fro. */
#include "api/api.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "http/client.h"

enum {
    UNDER_WAY_MAX = 256,
    READS_MAX = 192, /* of them: who waits for a review must not keep out who resolves it */
    FORWARD_TIMEOUT_MS = 75000, /* longer than the longest wait (60 s) */
    ADDRESS_BYTES_MAX = 512,
};

struct forward {
    struct api *api;
    struct loop *loop;
    struct http_server *const *server;
    struct buf address;   /* with a numeric host: names are looked up once, at boot, because that blocks */
    struct list under_way;
    size_t count, reads;
};

struct passage { /* one request on its way */
    struct link link;
    struct forward *forward;
    struct http_token token;
    struct http_outgoing *outgoing;
    bool reads; /* GET or HEAD */
};

struct forward *forward_create(struct api *a, struct loop *l, struct http_server *const *server, const char *address)
{
    struct forward *f = calloc(1, sizeof *f);
    check(f != NULL && address != NULL);
    f->api = a;
    f->loop = l;
    f->server = server;
    buf_init(&f->address, 64, ADDRESS_BYTES_MAX);
    struct fault fault;
    if (http_address_resolve(str_from(address), &f->address, &fault) != ERR_OK) {
        log_text(LOG_WARNING, "not_forwarding", "%s: %s", address, fault.text);
        buf_clear(&f->address);
        buf_put(&f->address, str_from(address)); /* each forward will say so too */
    }
    list_init(&f->under_way);
    return f;
}

static void passage_end(struct passage *p)
{
    link_remove(&p->link);
    p->forward->count--;
    p->forward->reads -= p->reads;
    free(p);
}

void forward_destroy(struct forward *f)
{
    if (f == NULL) return;
    list_each (&f->under_way, k, following) {
        struct passage *p = link_owner(k, struct passage, link);
        if (p->outgoing != NULL) http_call_cancel(p->outgoing);
        passage_end(p);
    }
    buf_fini(&f->address);
    free(f);
}

static void passage_done(void *context, enum err err, const struct http_answer *answer)
{
    static const char *const passed_on[] = {"ETag", "Location", "Retry-After", "WWW-Authenticate", "Allow", "X-Request-ID"};
    struct passage *p = context;
    struct forward *f = p->forward;
    struct http_token token = p->token;
    passage_end(p);
    if (err != ERR_OK) {
        struct fault fault;
        fault_set(&fault, ERR_UPSTREAM_FAILED, "", "the program that serves this path did not answer: %s", err_sentence(err));
        api_refuse_later(f->api, *f->server, token, &fault);
        return;
    }
    struct http_reply reply = {.status = answer->status, .body = answer->body,
                               .content_type = http_answer_header(answer, STR("content-type"))};
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++) {
        struct str value = http_answer_header(answer, str_from(passed_on[i]));
        if (!str_is_absent(value))
            reply.headers[reply.header_count++] = (struct http_header){.name = str_from(passed_on[i]), .value = value};
    }
    api_count_reply(f->api, answer->status);
    http_resume(*f->server, token, &reply);
}

/* What came twice goes on twice: the peer judges it as if it had been asked directly. */
static void copy_header(const struct http_exchange *x, struct str name, struct http_call *call)
{
    unsigned copies = 0;
    for (size_t i = 0; i < x->header_count && copies < 2; i++) {
        if (!str_equal_ignoring_case(x->headers[i].name, name)) continue;
        call->headers[call->header_count++] = (struct http_header){.name = name, .value = x->headers[i].value};
        copies++;
    }
}

/* Our own headers to the peer: the caller's credential and conditions, nothing of the connection. */
static void copy_headers(const struct http_exchange *x, struct http_call *call)
{
    static const char *const names[] = {"authorization", "if-match", "if-none-match", "idempotency-key", "traceparent",
                                        "x-request-id", "writ-node", "writ-journal", "writ-epoch", "writ-first-seq"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) copy_header(x, str_from(names[i]), call);
    call->headers[call->header_count++] = (struct http_header){.name = STR("Writ-Forwarded"), .value = STR("1")};
}

/* Path and query as they came, where the target was absolute (RFC 9112, 3.2.2) without scheme and host. */
static struct str origin_form(const struct http_exchange *x)
{
    size_t size = x->path.size + (str_is_absent(x->query) ? 0 : 1 + x->query.size);
    return str_skip(x->target, x->target.size - size);
}

void forward_exchange(struct forward *f, struct http_exchange *x)
{
    struct fault fault;
    if (!str_is_absent(http_header_get(x, STR("writ-forwarded")))) {
        fault_plain(&fault, ERR_NOT_FOUND);
        api_refuse(f->api, x, &fault, (struct str){0});
        return;
    }
    bool reads = x->method == HTTP_GET || x->method == HTTP_HEAD;
    bool has_room = f->count < UNDER_WAY_MAX && (!reads || f->reads < READS_MAX);
    struct passage *p = has_room ? calloc(1, sizeof *p) : NULL;
    if (p == NULL) {
        fault_set(&fault, ERR_OVERLOADED, "", "%d forwarded requests are under way already", reads ? READS_MAX : UNDER_WAY_MAX);
        api_refuse(f->api, x, &fault, (struct str){0});
        return;
    }
    /* HEAD asks as GET does: its Content-Length tells of a body that only our own connection leaves out. */
    static const char *const methods[] = {[HTTP_GET] = "GET", [HTTP_HEAD] = "GET", [HTTP_POST] = "POST",
                                          [HTTP_PUT] = "PUT", [HTTP_DELETE] = "DELETE"};
    check(x->method < HTTP_OTHER); /* it has a route */
    struct http_call call = {.method = methods[x->method], .target = origin_form(x), .body = x->body,
                             .content_type = http_header_get(x, STR("content-type")),
                             .timeout_ms = FORWARD_TIMEOUT_MS, .reply_max = LIMIT_REPLY_BYTES};
    copy_headers(x, &call);
    p->forward = f;
    list_append(&f->under_way, &p->link);
    f->count++;
    p->reads = reads;
    f->reads += reads;
    p->token = http_defer(x);
    p->outgoing = http_call_start(f->loop, buf_view(&f->address), &call, passage_done, p);
}
