/* forward.c - one address serves a client: requests for the other program, or for the leader of a
 * fleet, are forwarded to it.
 *
 * The request is sent with the caller's own credential, and only a mark is added: Writ-Forwarded, or
 * Writ-Relay with the name of this engine and the leader's term. So two programs that have each
 * other's address never pass a request to and fro.
 *
 *   to the leader:  under way --answered--> its client
 *                       \--another leader--> a read is asked again; of any other, the outcome is unknown
 *
 * The platform may have the addresses of several engines, of one fleet. It asks the one that answered last,
 * and the next one where that is certain to have done nothing: it was not reached, it answers 503
 * `no_leader`, `leader_changed` or `starting`, or the request only reads.
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
#include "config/config.h"
#include "crypto/crypto.h"
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
    PROBE_MS = 1000,            /* between two, and the longest time for an answer */
    AGAIN_MS = 250, /* until a read is asked again of a leader that did not serve yet ... */
    TRIES_MAX = 40, /* ... so often */
    PASSAGE_BYTES = 256,
    PASSAGE_BYTES_MAX = 2 * LIMIT_BODY_BYTES,
};

enum { ADDRESS_TEXT = CONFIG_URLS_TEXT, MARK_TEXT = 128 };

struct target { /* one address of the peer */
    struct forward *forward;
    char name[ADDRESS_TEXT]; /* as configured, or the leader's; "": there is no leader */
    struct http_peer peer;   /* without addresses while they are not known */
    bool is_doubtful;        /* they are not known, or a call failed since they were looked up */
    struct lookup *lookup;   /* running, or NULL */
    struct loop_timer look;
};

struct forward {
    struct api *api;
    struct loop *loop;
    struct http_server *const *server;
    bool is_to_leader;
    struct target targets[CONFIG_URLS_MAX];
    unsigned target_count, preferred; /* the one that answered last */
    struct http_header mark;
    char mark_text[MARK_TEXT];
    uint32_t timeout_ms;
    struct http_idle *idle; /* NULL: each request has a connection of its own */
    /* to a leader: whether it was reached, for the fleet; and asked each second while it is not */
    void (*reached)(void *context, bool reaches);
    void *context;
    bool is_unreached;
    struct loop_timer probe;
    struct http_outgoing *probing;
    struct tls *tls;
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
    unsigned at, asked;  /* its target; how many were asked */
    bool reads;          /* it changes nothing */
    bool waits;          /* and waits for a change */
    uint64_t credential; /* a hash of the credential */
    size_t body_bytes;
    /* of what another leader or target may be asked again; else empty, but for the echo */
    struct arena arena;
    struct forward_request *request;
    struct loop_timer again; /* the leader did not serve yet */
    unsigned tries;
    struct str echo; /* api_request_id() */
};

/* ---- the peer's addresses ---- */

static void look(struct loop_timer *t)
{
    struct target *to = link_owner(t, struct target, look);
    bool was_known = to->peer.place_count > 0;
    if (to->lookup != NULL && http_peer_take(&to->peer, &to->lookup, NULL) == ERR_OK) {
        if (!was_known) log_line(LOG_INFO, "forwarding", "text", to->name, NULL);
        to->is_doubtful = false;
        return;
    }
    if (to->lookup == NULL) to->lookup = http_peer_ask(&to->peer);
    loop_timer_start(to->forward->loop, &to->look, LOOKUP_MS, look);
}

static void doubt(struct target *to)
{
    if (to->is_doubtful || to->peer.is_fixed) return;
    to->is_doubtful = true;
    loop_timer_start(to->forward->loop, &to->look, LOOKUP_MS, look);
}

static enum err find_peer(struct target *to, struct fault *fault)
{
    struct forward *f = to->forward;
    enum err err = http_peer_read(str_from(to->name), f->tls, &to->peer, fault);
    if (err != ERR_OK || to->peer.is_fixed) return err;
    to->lookup = http_peer_ask(&to->peer);
    if (to->lookup == NULL) return fault_plain(fault, ERR_FULL);
    /* a leader is found while the reactor turns */
    if (!f->is_to_leader) (void)lookup_wait(to->lookup, LOOKUP_MS);
    err = http_peer_take(&to->peer, &to->lookup, fault);
    /* until the address is known, each forwarded request reports the same */
    if (err != ERR_OK) doubt(to);
    return err;
}

static struct target *add_target(struct forward *f, struct str name)
{
    check(f->target_count < CONFIG_URLS_MAX && name.size < ADDRESS_TEXT);
    struct target *to = &f->targets[f->target_count++];
    to->forward = f;
    if (name.size > 0) memcpy(to->name, name.bytes, name.size);
    return to;
}

/* ---- whether the leader is reached ---- */

static void probe_later(struct forward *f);

static void note_reach(struct forward *f, bool reaches)
{
    if (!f->is_to_leader || f->is_unreached == !reaches) return;
    f->is_unreached = !reaches;
    f->reached(f->context, reaches);
    if (!reaches) probe_later(f);
}

static void probed(void *context, enum err err, const struct http_answer *answer)
{
    struct forward *f = context;
    (void)answer;
    f->probing = NULL;
    if (err == ERR_OK)
        note_reach(f, true);
    else
        probe_later(f);
}

static void probe(struct loop_timer *t)
{
    struct forward *f = link_owner(t, struct forward, probe);
    const struct http_call call = {
        .method = "GET", .target = STR("/livez"), .timeout_ms = PROBE_MS, .reply_max = 1 << 10};
    if (f->is_unreached && f->probing == NULL)
        f->probing = http_call_start(f->loop, &f->targets[0].peer, &call, probed, f);
}

static void probe_later(struct forward *f)
{
    loop_timer_start(f->loop, &f->probe, PROBE_MS, probe);
}

static void probe_stop(struct forward *f)
{
    loop_timer_stop(f->loop, &f->probe);
    http_call_cancel(f->probing);
    f->probing = NULL;
}

/* ---- life ---- */

/* A forwarded request keeps a connection as long as the peer is silent. So waits may have three
 * quarters, as in the programs' own limits (engine/runtime/waits.h, platform/follow.c), and those with
 * one credential half. */
static struct forward *create(struct api *a, struct loop *l, struct http_server *const *server,
                              struct tls *tls, uint32_t connections)
{
    struct forward *f = calloc(1, sizeof *f);
    check(f != NULL);
    f->api = a;
    f->loop = l;
    f->server = server;
    f->tls = tls;
    f->most = api_part(connections, 14, UNDER_WAY_MAX);
    f->reads_most = api_part(connections, 13, READS_MAX);
    f->waits_most = api_part(connections, 12, WAITS_MAX);
    f->waits_of_one_most = api_part(connections, 8, WAITS_OF_ONE_MAX);
    list_init(&f->under_way);
    return f;
}

struct forward *forward_create(struct api *a, struct loop *l, struct http_server *const *server,
                               const char *addresses, struct tls *tls, uint32_t connections)
{
    struct forward *f = create(a, l, server, tls, connections);
    struct fault fault;
    struct str rest = str_from(addresses), one;
    f->mark = (struct http_header){.name = STR("Writ-Forwarded"), .value = STR("1")};
    f->timeout_ms = FORWARD_TIMEOUT_MS;
    while (str_split(&rest, ',', &one)) {
        struct target *to = add_target(f, one);
        if (find_peer(to, &fault) != ERR_OK)
            log_text(LOG_WARNING, "not_forwarding", "%s: %s", to->name, fault.text);
    }
    return f;
}

struct forward *forward_create_to_leader(struct api *a, struct loop *l,
                                         struct http_server *const *server, struct tls *tls,
                                         uint32_t connections, uint32_t timeout_ms,
                                         void (*reached)(void *context, bool reaches),
                                         void *context)
{
    struct forward *f = create(a, l, server, tls, connections);
    f->is_to_leader = true;
    (void)add_target(f, STR(""));
    f->reached = reached;
    f->context = context;
    f->timeout_ms = timeout_ms > FORWARD_TIMEOUT_MS ? timeout_ms : FORWARD_TIMEOUT_MS;
    f->idle = http_idle_create(l);
    check(f->idle != NULL);
    return f;
}

/* ---- one request ---- */

/* Before its answer is sent: the client's next request may need the place. */
static void passage_leave(struct passage *p)
{
    loop_timer_stop(p->forward->loop, &p->again);
    link_remove(&p->link);
    p->forward->count--;
    p->forward->reads -= p->reads;
    p->forward->waits -= p->waits;
    p->forward->body_bytes -= p->body_bytes;
}

/* It has a credential. */
static void request_wipe(struct forward_request *r)
{
    for (size_t i = 0; i < r->header_count; i++) {
        const struct http_header *h = &r->headers[i];
        if (str_equal_ignoring_case(h->name, STR("authorization")))
            memory_wipe((void *)(uintptr_t)h->value.bytes, h->value.size);
    }
}

static void passage_destroy(struct passage *p)
{
    if (p->request != NULL) request_wipe(p->request);
    arena_fini(&p->arena);
    free(p);
}

void forward_destroy(struct forward *f)
{
    if (f == NULL) return;
    list_each (&f->under_way, k, following) {
        struct passage *p = link_owner(k, struct passage, link);
        http_call_cancel(p->outgoing);
        passage_leave(p);
        passage_destroy(p);
    }
    probe_stop(f);
    for (unsigned i = 0; i < f->target_count; i++) {
        loop_timer_stop(f->loop, &f->targets[i].look);
        lookup_leave(f->targets[i].lookup);
    }
    http_idle_destroy(f->idle);
    free(f);
}

/* What became of a request for the leader; ERR_OK: its answer was passed on. */
static void count_relay(const struct forward *f, enum err err)
{
    if (!f->is_to_leader) return;
    metric_add(f->api->sheet,
               err == ERR_OK                ? METRIC_FLEET_RELAYS_ANSWERED
               : err == ERR_LEADER_CHANGED  ? METRIC_FLEET_RELAYS_LEADER_CHANGED
               : err == ERR_NO_LEADER       ? METRIC_FLEET_RELAYS_NO_LEADER
               : err == ERR_OUTCOME_UNKNOWN ? METRIC_FLEET_RELAYS_OUTCOME_UNKNOWN
                                            : METRIC_FLEET_RELAYS_REFUSED,
               1);
}

static void passage_refuse(struct passage *p, const struct fault *fault)
{
    struct forward *f = p->forward;
    struct api_deferred d = {.server = *f->server, .token = p->token, .echo = p->echo};
    count_relay(f, fault->err);
    passage_leave(p);
    api_refuse_deferred(f->api, &d, fault, (struct str){0});
    passage_destroy(p);
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

/* What a client may do is clear only if the peer cannot have acted on the request. */
static void leader_lost(bool may_have_acted, const char *trouble, struct fault *ret)
{
    if (may_have_acted)
        (void)fault_set(
            ret, ERR_OUTCOME_UNKNOWN, "",
            "the leader of the fleet did not answer (%s), and may have done the request. "
            "Read the state, or repeat the request with its Idempotency-Key",
            trouble);
    else
        (void)fault_set(ret, ERR_NO_LEADER, "",
                        "the leader of the fleet is not reached from this engine (%s); nothing was "
                        "done: try again",
                        trouble);
}

static void no_answer(const struct passage *p, enum err err, struct fault *ret)
{
    const char *trouble = http_call_trouble(p->outgoing);
    if (err == ERR_FULL)
        api_no_memory(ret);
    else if (p->forward->is_to_leader)
        leader_lost(!p->reads && http_call_was_sent(p->outgoing), trouble, ret);
    else if (err == ERR_BODY_TOO_LARGE)
        (void)fault_set(
            ret, ERR_UPSTREAM_FAILED, "",
            "the answer of the program that serves this path is too large to be forwarded");
    else
        (void)fault_set(ret, ERR_UPSTREAM_FAILED, "",
                        "the program that serves this path did not answer: %s", trouble);
}

static void ask_again(struct passage *p);

static void again_due(struct loop_timer *t) { ask_again(link_owner(t, struct passage, again)); }

/* A leader that has just won serves a moment later. True: the read is asked again then. */
static bool waits_for_leader(struct passage *p, const struct http_answer *answer)
{
    if (!p->forward->is_to_leader || p->request == NULL || p->tries == TRIES_MAX) return false;
    if (answer->status != 503 || !str_starts(answer->body, STR("{\"code\":\"leader_changed\"")))
        return false;
    p->tries++;
    p->outgoing = NULL;
    loop_timer_start(p->forward->loop, &p->again, AGAIN_MS, again_due);
    return true;
}

static struct http_outgoing *ask_peer(struct forward *f, const struct forward_request *r,
                                      struct passage *p);

/* Of engines that answer so, nothing of the request was done. */
static bool did_nothing(const struct http_answer *answer)
{
    static const char *const codes[] = {"{\"code\":\"no_leader\"", "{\"code\":\"leader_changed\"",
                                        "{\"code\":\"starting\""};
    for (size_t i = 0; answer->status == 503 && i < sizeof codes / sizeof *codes; i++)
        if (str_starts(answer->body, str_from(codes[i]))) return true;
    return false;
}

/* True: the next target is asked. */
static bool asks_next(struct passage *p, bool may_repeat)
{
    struct forward *f = p->forward;
    if (!may_repeat || p->request == NULL || f->is_to_leader || p->asked == f->target_count)
        return false;
    p->at = (p->at + 1) % f->target_count;
    struct http_outgoing *next = ask_peer(f, p->request, p);
    if (next != NULL) p->outgoing = next;
    return next != NULL;
}

static void passage_done(void *context, enum err err, const struct http_answer *answer)
{
    static const char *const passed_on[] = {
        "ETag",         "Retry-After",   "WWW-Authenticate", "Allow",
        "X-Request-ID", "Cache-Control", "RateLimit-Policy", "RateLimit"};
    struct passage *p = context;
    struct forward *f = p->forward;
    struct fault fault;
    if (err != ERR_OK) {
        doubt(&f->targets[p->at]);
        if (asks_next(p, !http_call_was_sent(p->outgoing) || (p->reads && err == ERR_CLOSED)))
            return;
        if (!http_call_was_sent(p->outgoing)) note_reach(f, false);
        no_answer(p, err, &fault);
        passage_refuse(p, &fault);
        return;
    }
    note_reach(f, true);
    if (waits_for_leader(p, answer) || asks_next(p, did_nothing(answer))) return;
    /* the next call must not also wait for a dead connection, or a dead engine */
    http_peer_prefer(&f->targets[p->at].peer, answer->place);
    f->preferred = p->at;
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
    count_relay(f, ERR_OK);
    api_count_reply(f->api, answer->status);
    http_resume(*f->server, p->token, &reply);
    passage_destroy(p);
}

/* ---- what is sent ---- */

/* A repeated header is forwarded twice: the peer judges it as if it had received it directly. */
static void copy_header(const struct http_exchange *x, struct str name, struct forward_request *to)
{
    unsigned copies = 0;
    for (size_t i = 0; i < x->header_count && copies < 2; i++) {
        if (!str_equal_ignoring_case(x->headers[i].name, name)) continue;
        check(to->header_count < FORWARD_HEADERS_MAX);
        to->headers[to->header_count++] =
            (struct http_header){.name = name, .value = x->headers[i].value};
        copies++;
    }
}

/* Our own headers to the peer: the credential and the caller's conditions, and no header about the
 * connection, and no cookie. */
static void copy_headers(const struct http_exchange *x, struct str credential,
                         struct forward_request *to)
{
    static const char *const names[] = {"if-match",     "if-none-match", "idempotency-key",
                                        "traceparent",  "x-request-id",  "writ-node",
                                        "writ-journal", "writ-epoch",    "writ-first-seq"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        copy_header(x, str_from(names[i]), to);
    if (str_is_absent(credential))
        copy_header(x, STR("authorization"), to);
    else
        to->headers[to->header_count++] =
            (struct http_header){.name = STR("Authorization"), .value = credential};
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
    const struct str pattern = str_from(x->route->pattern), end = STR("/wait");
    bool ends_so =
        pattern.size > end.size && str_equal(str_skip(pattern, pattern.size - end.size), end);
    return ends_so || str_equal(pattern, STR("/api/v1/bundle"));
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

/* Views into the exchange. */
static void request_of(const struct http_exchange *x, struct str own, uint64_t who,
                       struct forward_request *ret)
{
    *ret = (struct forward_request){.method = forward_method(x).bytes,
                                    .target = forward_target(x),
                                    .content_type = http_header_get(x, STR("content-type")),
                                    .body = x->body,
                                    .client = x->client,
                                    .echo = api_request_id(x),
                                    .reads = x->method == HTTP_GET || x->method == HTTP_HEAD,
                                    .who = who};
    ret->waits = ret->reads && asks_to_wait(x);
    copy_headers(x, own, ret);
}

static uint64_t shown_by(const struct http_exchange *x)
{
    struct str shown = http_header_get(x, STR("authorization"));
    return hash_bytes(shown.bytes, shown.size);
}

static struct forward_request *copy_request(const struct forward_request *r, struct arena *arena)
{
    struct forward_request *copy = arena_new(arena, struct forward_request);
    if (copy == NULL) return NULL;
    *copy = *r;
    copy->target = arena_copy(arena, r->target);
    if (!str_is_absent(r->content_type)) copy->content_type = arena_copy(arena, r->content_type);
    if (!str_is_absent(r->body)) copy->body = arena_copy(arena, r->body);
    if (!str_is_absent(r->echo)) copy->echo = arena_copy(arena, r->echo);
    for (size_t i = 0; i < r->header_count; i++)
        copy->headers[i].value = arena_copy(arena, r->headers[i].value);
    return arena->overflow ? NULL : copy;
}

struct forward_request *forward_request_copy(const struct http_exchange *x, struct arena *arena)
{
    struct forward_request r;
    request_of(x, (struct str){0}, shown_by(x), &r);
    return copy_request(&r, arena);
}

/* ---- limits ---- */

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
static enum err find_room(struct forward *f, const struct forward_request *r, struct fault *fault)
{
    bool has_place = f->count < f->most && (!r->reads || f->reads < f->reads_most) &&
                     (!r->waits || f->waits < f->waits_most);
    if (!has_place)
        return fault_set(fault, ERR_OVERLOADED, "", "%zu forwarded requests are under way already",
                         r->waits   ? f->waits_most
                         : r->reads ? f->reads_most
                                    : f->most);
    if (r->waits && f->waits >= f->waits_of_one_most &&
        waits_with(f, r->who) >= f->waits_of_one_most)
        return fault_set(fault, ERR_OVERLOADED, "",
                         "%zu forwarded requests wait with this credential already",
                         f->waits_of_one_most);
    if (r->body.size <= BODIES_MAX - f->body_bytes) return ERR_OK;
    return fault_set(fault, ERR_OVERLOADED, "",
                     "the forwarded requests that are under way hold %d MiB already",
                     BODIES_MAX >> 20);
}

/* ---- begin ---- */

static struct http_outgoing *ask_peer(struct forward *f, const struct forward_request *r,
                                      struct passage *p)
{
    char address[CLIENT_ADDRESS_TEXT];
    struct http_call call = {.method = r->method,
                             .target = r->target,
                             .body = r->body,
                             .content_type = r->content_type,
                             .timeout_ms = f->timeout_ms,
                             .reply_max = LIMIT_REPLY_BYTES,
                             .idle = f->idle};
    memcpy(call.headers, r->headers, r->header_count * sizeof *r->headers);
    call.header_count = r->header_count;
    call.headers[call.header_count++] = f->mark;
    /* For a peer that trusts us as a proxy. A client of a Unix socket has no address. */
    struct str client = client_address_text(&r->client, address);
    if (r->client.kind == CLIENT_IPV4 || r->client.kind == CLIENT_IPV6)
        call.headers[call.header_count++] =
            (struct http_header){.name = STR("X-Forwarded-For"), .value = client};
    p->asked++;
    return http_call_start(f->loop, &f->targets[p->at].peer, &call, passage_done, p);
}

/* The caller gives it its token. NULL: refused, and *fault is the reason. */
static struct passage *passage_begin(struct forward *f, const struct forward_request *r,
                                     struct fault *fault)
{
    if (r->reads && f->draining) {
        (void)fault_plain(fault, ERR_DRAINING);
        return NULL;
    }
    if (f->is_to_leader && f->targets[0].name[0] == '\0') {
        (void)fault_plain(fault, ERR_NO_LEADER);
        return NULL;
    }
    if (find_room(f, r, fault) != ERR_OK) return NULL;
    struct passage *p = calloc(1, sizeof *p);
    if (p == NULL) {
        api_no_memory(fault);
        return NULL;
    }
    arena_init(&p->arena, PASSAGE_BYTES, PASSAGE_BYTES_MAX);
    p->echo = str_is_absent(r->echo) ? r->echo : arena_copy(&p->arena, r->echo);
    p->forward = f;
    p->at = f->preferred;
    if (f->is_to_leader ? r->reads : f->target_count > 1) p->request = copy_request(r, &p->arena);
    p->outgoing = p->arena.overflow ? NULL : ask_peer(f, r, p);
    if (p->outgoing == NULL) {
        passage_destroy(p);
        api_no_memory(fault);
        return NULL;
    }
    list_append(&f->under_way, &p->link);
    f->count++;
    p->reads = r->reads;
    f->reads += p->reads;
    p->credential = r->who;
    p->waits = r->waits;
    f->waits += p->waits;
    p->body_bytes = r->body.size;
    f->body_bytes += p->body_bytes;
    return p;
}

static void exchange(struct forward *f, struct http_exchange *x, const struct forward_request *r)
{
    struct fault fault;
    struct passage *p = passage_begin(f, r, &fault);
    if (p != NULL) {
        p->token = http_defer(x);
        return;
    }
    count_relay(f, fault.err);
    api_refuse(f->api, x, &fault, (struct str){0});
}

void forward_exchange(struct forward *f, struct http_exchange *x)
{
    forward_exchange_as(f, x, (struct str){0}, shown_by(x));
}

void forward_exchange_as(struct forward *f, struct http_exchange *x, struct str own, uint64_t who)
{
    struct forward_request r;
    struct fault fault;
    if (!str_is_absent(http_header_get(x, STR("writ-forwarded")))) {
        (void)fault_plain(&fault, ERR_NOT_FOUND);
        api_refuse(f->api, x, &fault, (struct str){0});
        return;
    }
    request_of(x, own, who, &r);
    exchange(f, x, &r);
}

/* ---- the leader ---- */

void forward_relay(struct forward *f, struct http_exchange *x, bool reads)
{
    struct forward_request r;
    request_of(x, (struct str){0}, shown_by(x), &r);
    r.reads = reads;
    exchange(f, x, &r);
}

void forward_relay_deferred(struct forward *f, const struct forward_request *r,
                            const struct api_deferred *d)
{
    struct fault fault;
    struct passage *p = passage_begin(f, r, &fault);
    if (p != NULL) {
        p->token = d->token;
        return;
    }
    count_relay(f, fault.err);
    api_refuse_deferred(f->api, d, &fault, (struct str){0});
}

static void ask_again(struct passage *p)
{
    struct fault fault;
    loop_timer_stop(p->forward->loop, &p->again);
    http_call_cancel(p->outgoing);
    p->outgoing =
        p->forward->targets[0].name[0] != '\0' ? ask_peer(p->forward, p->request, p) : NULL;
    if (p->outgoing != NULL) return;
    (void)fault_plain(&fault, ERR_NO_LEADER);
    passage_refuse(p, &fault);
}

static void give_up(struct passage *p)
{
    struct fault fault;
    if (http_call_was_sent(p->outgoing))
        (void)fault_plain(&fault, ERR_OUTCOME_UNKNOWN);
    else
        (void)fault_plain(&fault, ERR_LEADER_CHANGED);
    http_call_cancel(p->outgoing);
    passage_refuse(p, &fault);
}

void forward_lead(struct forward *f, struct str address, struct str mark)
{
    struct fault fault;
    struct target *to = &f->targets[0];
    check(f->is_to_leader && address.size < sizeof to->name && mark.size < sizeof f->mark_text);
    http_idle_clear(f->idle);
    probe_stop(f);
    note_reach(f, true); /* until it is seen */
    loop_timer_stop(f->loop, &to->look);
    lookup_leave(to->lookup);
    to->lookup = NULL;
    to->is_doubtful = false;
    to->peer = (struct http_peer){0};
    if (address.size > 0) memcpy(to->name, address.bytes, address.size);
    to->name[address.size] = '\0';
    memcpy(f->mark_text, mark.bytes, mark.size);
    f->mark =
        (struct http_header){.name = STR("Writ-Relay"), .value = str_of(f->mark_text, mark.size)};
    if (address.size > 0 && find_peer(to, &fault) != ERR_OK && to->lookup == NULL &&
        !to->is_doubtful)
        log_text(LOG_WARNING, "not_relaying", "the leader's address %s cannot be used: %s",
                 to->name, fault.text);
    list_each (&f->under_way, k, following) {
        struct passage *p = link_owner(k, struct passage, link);
        if (p->request != NULL)
            ask_again(p);
        else
            give_up(p);
    }
}
