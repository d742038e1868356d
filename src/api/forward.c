/* forward.c - one address serves a client: requests for the other program are forwarded to it.
 *
 * The request is sent with the caller's own credential, and only Writ-Forwarded is added. So two
 * programs that have each other's address never pass a request to and fro.
 *
 * A name is looked up at boot, and after a failed call again, each second until a lookup
 * succeeds: the peer may start later than this program, and return at another address. Boot
 * waits a second for it: a silent name server must not keep a program from serving its own
 * paths. */
#include "api/api.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "http/client.h"

enum {
    UNDER_WAY_MAX = LIMIT_FORWARDED,
    /* of them: reads must not keep out requests that resolve a review */
    READS_MAX = 192,
    WAITS_MAX = 128,            /* of those: waits must not keep out reads of a review */
    WAITS_OF_ONE_MAX = 64,      /* of those, with one credential, so that others can wait, too */
    BODIES_MAX = 64 << 20,      /* bytes: the limits of clients do not count copies */
    FORWARD_TIMEOUT_MS = 75000, /* longer than the longest wait (60 s) */
    LOOKUP_MS = 1000,           /* between two lookups; the first may block so long */
};

struct forward {
    struct api *api;
    struct loop *loop;
    struct http_server *const *server;
    const char *name; /* as configured */
    struct tls *tls;
    struct http_peer peer; /* without addresses while they are not known */
    bool is_doubtful;      /* they are not known, or a call failed since they were looked up */
    struct lookup *lookup; /* running, or NULL */
    struct loop_timer look;
    struct list under_way;
    size_t count, reads, waits, body_bytes;
    size_t most, reads_most, waits_most, waits_of_one_most;
    bool draining;
};

struct passage { /* one forwarded request */
    struct link link;
    struct forward *forward;
    struct http_token token;
    struct http_outgoing *outgoing;
    bool reads;          /* GET or HEAD */
    bool waits;          /* and waits for a change */
    uint64_t credential; /* a hash of the credential */
    size_t body_bytes;
    size_t echo_size;
    char echo[]; /* api_request_id() */
};

/* ---- the peer's address ---- */

static void look(struct loop_timer *t)
{
    struct forward *f = link_owner(t, struct forward, look);
    bool was_known = f->peer.place_count > 0;
    if (f->lookup != NULL && http_peer_take(&f->peer, &f->lookup, NULL) == ERR_OK) {
        if (!was_known) log_line(LOG_INFO, "forwarding", "text", f->name, NULL);
        f->is_doubtful = false;
        return;
    }
    if (f->lookup == NULL) f->lookup = http_peer_ask(&f->peer);
    loop_timer_start(f->loop, &f->look, LOOKUP_MS, look);
}

static void doubt(struct forward *f)
{
    if (f->is_doubtful || f->peer.is_fixed) return;
    f->is_doubtful = true;
    loop_timer_start(f->loop, &f->look, LOOKUP_MS, look);
}

static enum err find_peer(struct forward *f, struct fault *fault)
{
    enum err err = http_peer_read(str_from(f->name), f->tls, &f->peer, fault);
    if (err != ERR_OK || f->peer.is_fixed) return err;
    f->lookup = http_peer_ask(&f->peer);
    if (f->lookup != NULL) (void)lookup_wait(f->lookup, LOOKUP_MS);
    err = f->lookup == NULL ? fault_plain(fault, ERR_FULL)
                            : http_peer_take(&f->peer, &f->lookup, fault);
    /* until the address is known, each forwarded request reports the same */
    if (err != ERR_OK) doubt(f);
    return err;
}

/* A forwarded request keeps a connection as long as the peer is silent. So waits may have three
 * quarters, as in the programs' own limits (engine/runtime/waits.h, platform/follow.c), and those with
 * one credential half. */
struct forward *forward_create(struct api *a, struct loop *l, struct http_server *const *server,
                               const char *address, struct tls *tls, uint32_t connections)
{
    struct forward *f = calloc(1, sizeof *f);
    check(f != NULL && address != NULL);
    f->api = a;
    f->loop = l;
    f->server = server;
    f->name = address;
    f->tls = tls;
    f->most = api_part(connections, 14, UNDER_WAY_MAX);
    f->reads_most = api_part(connections, 13, READS_MAX);
    f->waits_most = api_part(connections, 12, WAITS_MAX);
    f->waits_of_one_most = api_part(connections, 8, WAITS_OF_ONE_MAX);
    struct fault fault;
    if (find_peer(f, &fault) != ERR_OK)
        log_text(LOG_WARNING, "not_forwarding", "%s: %s", address, fault.text);
    list_init(&f->under_way);
    return f;
}

/* ---- one request ---- */

/* Before its answer is sent: the client's next request may need the place. */
static void passage_leave(struct passage *p)
{
    link_remove(&p->link);
    p->forward->count--;
    p->forward->reads -= p->reads;
    p->forward->waits -= p->waits;
    p->forward->body_bytes -= p->body_bytes;
}

void forward_destroy(struct forward *f)
{
    if (f == NULL) return;
    list_each (&f->under_way, k, following) {
        struct passage *p = link_owner(k, struct passage, link);
        http_call_cancel(p->outgoing);
        passage_leave(p);
        free(p);
    }
    loop_timer_stop(f->loop, &f->look);
    lookup_leave(f->lookup);
    free(f);
}

static void passage_refuse(struct passage *p, const struct fault *fault)
{
    struct forward *f = p->forward;
    struct api_deferred d = {
        .server = *f->server, .token = p->token, .echo = str_of(p->echo, p->echo_size)};
    passage_leave(p);
    api_refuse_deferred(f->api, &d, fault, (struct str){0});
    free(p);
}

void forward_drain(struct forward *f)
{
    struct fault fault;
    (void)fault_plain(&fault, ERR_DRAINING);
    f->draining = true;
    list_each (&f->under_way, k, following) {
        struct passage *p = link_owner(k, struct passage, link);
        if (!p->reads) continue;
        http_call_cancel(p->outgoing);
        passage_refuse(p, &fault);
    }
}

static void passage_done(void *context, enum err err, const struct http_answer *answer)
{
    static const char *const passed_on[] = {"ETag",  "Retry-After",  "WWW-Authenticate",
                                            "Allow", "X-Request-ID", "Cache-Control"};
    struct passage *p = context;
    struct forward *f = p->forward;
    struct fault fault;
    if (err != ERR_OK) {
        doubt(f);
        if (err == ERR_FULL)
            api_no_memory(&fault);
        else if (err == ERR_BODY_TOO_LARGE)
            (void)fault_set(
                &fault, ERR_UPSTREAM_FAILED, "",
                "the answer of the program that serves this path is too large to be forwarded");
        else
            (void)fault_set(&fault, ERR_UPSTREAM_FAILED, "",
                            "the program that serves this path did not answer: %s",
                            http_call_trouble(p->outgoing));
        passage_refuse(p, &fault);
        return;
    }
    /* the next call must not also wait for a dead connection */
    http_peer_prefer(&f->peer, answer->place);
    if (!http_server_has_room(*f->server, answer->body.size)) {
        (void)api_no_room(&fault);
        passage_refuse(p, &fault);
        return;
    }
    struct http_reply reply = {.status = answer->status,
                               .body = answer->body,
                               .content_type = http_answer_header(answer, STR("content-type"))};
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++) {
        struct str value = http_answer_header(answer, str_from(passed_on[i]));
        if (!str_is_absent(value))
            reply.headers[reply.header_count++] =
                (struct http_header){.name = str_from(passed_on[i]), .value = value};
    }
    passage_leave(p);
    api_count_reply(f->api, answer->status);
    http_resume(*f->server, p->token, &reply);
    free(p);
}

/* A repeated header is forwarded twice: the peer judges it as if it had received it directly. */
static void copy_header(const struct http_exchange *x, struct str name, struct http_call *call)
{
    unsigned copies = 0;
    for (size_t i = 0; i < x->header_count && copies < 2; i++) {
        if (!str_equal_ignoring_case(x->headers[i].name, name)) continue;
        call->headers[call->header_count++] =
            (struct http_header){.name = name, .value = x->headers[i].value};
        copies++;
    }
}

/* Our own headers to the peer: the credential and the caller's conditions, and no header about the
 * connection, and no cookie. */
static void copy_headers(const struct http_exchange *x, struct str credential,
                         char address[CLIENT_ADDRESS_TEXT], struct http_call *call)
{
    static const char *const names[] = {"if-match",     "if-none-match", "idempotency-key",
                                        "traceparent",  "x-request-id",  "writ-node",
                                        "writ-journal", "writ-epoch",    "writ-first-seq"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        copy_header(x, str_from(names[i]), call);
    if (str_is_absent(credential))
        copy_header(x, STR("authorization"), call);
    else
        call->headers[call->header_count++] =
            (struct http_header){.name = STR("Authorization"), .value = credential};
    call->headers[call->header_count++] =
        (struct http_header){.name = STR("Writ-Forwarded"), .value = STR("1")};
    /* For a peer that trusts us as a proxy. A client of a Unix socket has no address. */
    struct str client = client_address_text(&x->client, address);
    if (x->client.kind == CLIENT_IPV4 || x->client.kind == CLIENT_IPV6)
        call->headers[call->header_count++] =
            (struct http_header){.name = STR("X-Forwarded-For"), .value = client};
}

/* Path and query as they came; of an absolute target (RFC 9112, 3.2.2) without scheme and host. */
struct str forward_target(const struct http_exchange *x)
{
    size_t size = x->path.size + (str_is_absent(x->query) ? 0 : 1 + x->query.size);
    return str_skip(x->target, x->target.size - size);
}

/* /v1/queue/{id}/wait, /api/v1/bundle */
static bool asks_to_wait(const struct http_exchange *x)
{
    for (size_t i = 0; i < HTTP_PARAMS_MAX; i++)
        if (str_equal(x->params[i], STR("wait"))) return true;
    return str_equal(str_from(x->route->pattern), STR("/api/v1/bundle"));
}

static unsigned waits_with(struct forward *f, uint64_t credential)
{
    unsigned count = 0;
    list_each (&f->under_way, k, following) {
        const struct passage *p = link_owner(k, struct passage, link);
        count += p->waits && p->credential == credential;
    }
    return count;
}

/* ERR_OK, or the limit that is reached. */
static enum err find_room(struct forward *f, size_t body_bytes, bool reads, bool waits,
                          uint64_t credential, struct fault *fault)
{
    bool has_place = f->count < f->most && (!reads || f->reads < f->reads_most) &&
                     (!waits || f->waits < f->waits_most);
    if (!has_place)
        return fault_set(fault, ERR_OVERLOADED, "", "%zu forwarded requests are under way already",
                         waits   ? f->waits_most
                         : reads ? f->reads_most
                                 : f->most);
    if (waits && f->waits >= f->waits_of_one_most &&
        waits_with(f, credential) >= f->waits_of_one_most)
        return fault_set(fault, ERR_OVERLOADED, "",
                         "%zu forwarded requests wait with this credential already",
                         f->waits_of_one_most);
    if (body_bytes <= BODIES_MAX - f->body_bytes) return ERR_OK;
    return fault_set(fault, ERR_OVERLOADED, "",
                     "the forwarded requests that are under way hold %d MiB already",
                     BODIES_MAX >> 20);
}

/* HEAD is sent as GET: its Content-Length counts a body that only our own connection leaves out. A
 * method without a constant here has no route there either: any of these makes the peer answer with
 * the methods that it has. */
struct str forward_method(const struct http_exchange *x)
{
    static const char *const methods[] = {
        [HTTP_GET] = "GET", [HTTP_HEAD] = "GET",      [HTTP_POST] = "POST",
        [HTTP_PUT] = "PUT", [HTTP_DELETE] = "DELETE", [HTTP_OTHER] = "PATCH"};
    return str_from(methods[x->method]);
}

void forward_exchange(struct forward *f, struct http_exchange *x)
{
    struct str shown = http_header_get(x, STR("authorization"));
    forward_exchange_as(f, x, (struct str){0}, hash_bytes(shown.bytes, shown.size));
}

void forward_exchange_as(struct forward *f, struct http_exchange *x, struct str own, uint64_t who)
{
    struct fault fault;
    if (!str_is_absent(http_header_get(x, STR("writ-forwarded")))) {
        (void)fault_plain(&fault, ERR_NOT_FOUND);
        api_refuse(f->api, x, &fault, (struct str){0});
        return;
    }
    bool reads = x->method == HTTP_GET || x->method == HTTP_HEAD;
    if (reads && f->draining) {
        (void)fault_plain(&fault, ERR_DRAINING);
        api_refuse(f->api, x, &fault, (struct str){0});
        return;
    }
    bool waits = reads && asks_to_wait(x);
    struct str echo = api_request_id(x);
    enum err err = find_room(f, x->body.size, reads, waits, who, &fault);
    struct passage *p = err == ERR_OK ? calloc(1, sizeof *p + echo.size) : NULL;
    if (p == NULL) {
        if (err == ERR_OK) api_no_memory(&fault);
        api_refuse(f->api, x, &fault, (struct str){0});
        return;
    }
    struct http_call call = {.method = forward_method(x).bytes,
                             .target = forward_target(x),
                             .body = x->body,
                             .content_type = http_header_get(x, STR("content-type")),
                             .timeout_ms = FORWARD_TIMEOUT_MS,
                             .reply_max = LIMIT_REPLY_BYTES};
    char address[CLIENT_ADDRESS_TEXT];
    copy_headers(x, own, address, &call);
    p->outgoing = http_call_start(f->loop, &f->peer, &call, passage_done, p);
    if (p->outgoing == NULL) {
        free(p);
        api_refuse(f->api, x, api_no_memory(&fault), (struct str){0});
        return;
    }
    p->forward = f;
    p->echo_size = echo.size;
    if (echo.size > 0) memcpy(p->echo, echo.bytes, echo.size);
    list_append(&f->under_way, &p->link);
    f->count++;
    p->reads = reads;
    f->reads += reads;
    p->credential = who;
    p->waits = waits;
    f->waits += waits;
    p->body_bytes = x->body.size;
    f->body_bytes += p->body_bytes;
    p->token = http_defer(x);
}
