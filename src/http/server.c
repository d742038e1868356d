/* server.c - all clients of one thread: accepting them, their clocks, barriers, holds, the drain.
 *
 * Lists instead of searches: a connection is in the list of its phase (whose head is the next to
 * time out, and to make room for a new one), in the list of the lane of its first closed barrier
 * (whose head is the next to open), and, if it needs a turn that cannot run now, in the list of
 * work. */
#include "http/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/world.h"
#include "crypto/crypto.h"
#include "http/connection.h"
#include "http/target.h"

enum {
    /* with a head, or with a body without a credential, when others need its place */
    PATIENCE_MS = 1000,
    ROOM_LOOKS_MAX = 8, /* for one new client; each is a system call */
};

/* -- clocks ------------------------------------------------------------------------------ */

static void phase_expired(struct http_connection *c)
{
    if (c->phase == PHASE_HEAD || c->phase == PHASE_BODY || c->phase == PHASE_STRANGERS_BODY) {
        struct fault f;
        (void)fault_plain(&f, ERR_REQUEST_TIMEOUT);
        connection_refuse(c, &f);
        connection_turn(c);
    } else {
        connection_free(c);
    }
}

static void phase_timer_due(struct loop_timer *t)
{
    struct http_server *s = link_owner(t, struct http_server, phase_timer);
    s->phase_timer_ms = UINT64_MAX;
    uint64_t now_ms = loop_now_ms(s->loop), next_ms = UINT64_MAX;
    for (int phase = PHASE_NEW; phase < PHASE_COUNT; phase++) {
        struct list *list = &s->phases[phase];
        while (!list_is_empty(list)) {
            struct http_connection *c =
                link_owner(list->head.next, struct http_connection, phase_link);
            uint64_t due_ms = c->phase_since_ms + s->phase_ms[phase];
            if (due_ms > now_ms) {
                if (due_ms < next_ms) next_ms = due_ms;
                break;
            }
            /* The input came in time, however late it is read: this program may have been
             * suspended. */
            if (link_is_on(&c->arrived_link))
                connection_turn(c);
            else
                phase_expired(c);
        }
    }
    if (next_ms != UINT64_MAX) server_phase_timer(s, next_ms);
}

/* -- turns for connections that wait for one ---------------------------------------------- */

static void work_due(struct loop_timer *t)
{
    struct http_server *s = link_owner(t, struct http_server, work_timer);
    /* Connections that are added during a turn are handled in the next turn: a cycle of them
     * must not keep the loop here. */
    list_append(&s->work, &s->work_end);
    while (s->work.head.next != &s->work_end) {
        struct http_connection *c =
            link_owner(s->work.head.next, struct http_connection, work_link);
        link_remove(&c->work_link);
        connection_work(c);
    }
    link_remove(&s->work_end);
    if (!list_is_empty(&s->work)) loop_timer_start(s->loop, &s->work_timer, 0, work_due);
}

void http_server_hold(struct http_server *s, bool held)
{
    if (s->held == held) return;
    s->held = held;
    while (!held && !list_is_empty(&s->held_back))
        server_queue_work(link_owner(s->held_back.head.next, struct http_connection, work_link));
}

/* -- barriers ------------------------------------------------------------------------------- */

static void open_barriers(struct http_connection *c)
{
    struct http_server *s = c->server;
    uint32_t replies = output_release(&c->out, s->reached);
    check(replies <= s->waiting);
    s->waiting -= replies;
    link_remove(&c->barrier_link);
    if (output_barrier(&c->out) != NULL) server_barrier(c);
    connection_send(c);
    connection_eased(c);
}

static void open_lane(struct http_server *s, size_t lane)
{
    struct list *list = &s->at_barrier[lane];
    while (!list_is_empty(list)) {
        struct http_connection *c =
            link_owner(list->head.next, struct http_connection, barrier_link);
        if (output_barrier(&c->out)->block > s->reached[lane]) break;
        open_barriers(c);
    }
}

void http_server_release(struct http_server *s, uint64_t written, uint64_t synced)
{
    check(written >= s->reached[0] && synced >= s->reached[1]);
    s->reached[0] = written;
    s->reached[1] = synced;
    for (size_t lane = 0; lane < 2; lane++) open_lane(s, lane);
}

void http_server_release_log(struct http_server *s, uint64_t committed)
{
    check(committed >= s->reached[2]);
    s->reached[2] = committed;
    open_lane(s, 2);
}

size_t http_server_lose_log(struct http_server *s, const struct http_reply *instead)
{
    struct list *list = &s->at_barrier[2];
    size_t count = 0;
    check(instead->barrier.lane == 0);
    for (; !list_is_empty(list); count++)
        connection_lose(link_owner(list->head.next, struct http_connection, barrier_link), instead);
    return count;
}

/* -- clients come and go ----------------------------------------------------------------- */

static struct http_connection *connection_new(struct http_server *s)
{
    struct http_connection *c = s->free;
    if (c != NULL) {
        s->free = c->next_free;
        struct http_connection blank = {
            .server = s, .place = c->place, .generation = c->generation + 1};
        *c = blank;
        return c;
    }
    if (s->slots_used == s->slot_count) return NULL;
    c = calloc(1, sizeof *c);
    if (c == NULL) return NULL;
    c->server = s;
    c->place = (uint32_t)s->slots_used;
    c->generation = 1; /* a zeroed token belongs to no exchange */
    s->slots[s->slots_used++] = c;
    return c;
}

/* -- room for one more ------------------------------------------------------------------- */

/* Input that has arrived in the meantime must not be lost because it is unread. */
static bool is_silent(const struct http_connection *c)
{
    char byte;
    return !link_is_on(&c->arrived_link) &&
           recv(c->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

/* A connection that has been in that phase for at least so long; the one with the longest
 * silence among the first few. */
static struct http_connection *silent_of(struct http_server *s, enum phase phase, uint64_t for_ms)
{
    unsigned looks = 0;
    list_each (&s->phases[phase], k, following) {
        struct http_connection *c = link_owner(k, struct http_connection, phase_link);
        if (c->phase_since_ms + for_ms > loop_now_ms(s->loop) || looks++ == ROOM_LOOKS_MAX) break;
        if (is_silent(c)) return c;
    }
    return NULL;
}

/* Connections cost a client nothing. So a client that has sent nothing is closed first, then one
 * that does not finish its head, or a body without a credential, then one that was answered and
 * is silent. A client stays if its request is being answered, or if it has shown a credential
 * for the body that it sends. */
static void make_room(struct http_server *s)
{
    struct http_connection *c = silent_of(s, PHASE_NEW, PATIENCE_MS);
    if (c == NULL) c = silent_of(s, PHASE_HANDSHAKE, PATIENCE_MS);
    if (c == NULL) c = silent_of(s, PHASE_HEAD, PATIENCE_MS);
    if (c == NULL) c = silent_of(s, PHASE_STRANGERS_BODY, PATIENCE_MS);
    if (c == NULL) c = silent_of(s, PHASE_IDLE, 0);
    if (c == NULL) return;
    connection_free(c);
    s->closed_for_room++;
}

static void refuse_connection(struct http_connection *c)
{
    struct http_server *s = c->server;
    if (c->secure != SECURE_NOT) {
        connection_free(c); /* a handshake only to refuse is too much */
        return;
    }
    struct fault f;
    (void)fault_set(&f, s->draining ? ERR_DRAINING : ERR_OVERLOADED, "",
                    s->draining ? "shutting down" : "there are too many connections");
    connection_refuse(c, &f);
    connection_turn(c);
}

void http_server_take(struct http_server *s, int fd, enum socket_kind kind)
{
    if (s->count >= s->limits.connections_max && !s->draining) make_room(s);
    struct http_connection *c = connection_new(s);
    if (c == NULL) {
        close(fd);
        return;
    }
    s->count++;
    c->client = client_address_of(fd);
    c->awaits_proxy_header = s->limits.proxies != NULL && s->limits.proxies->send_proxy_header &&
                             trusted_proxies_have(s->limits.proxies, &c->client);
    c->secure = kind == SOCKET_TLS ? SECURE_NEW : SECURE_NOT;
    if (kind != SOCKET_UNIX) {
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    loop_fd_start(s->loop, &c->watch, fd, LOOP_READ, connection_ready);
    if (s->count > s->limits.connections_max || s->draining) {
        refuse_connection(c);
        return;
    }
    server_phase(c, PHASE_NEW);
    if (c->secure != SECURE_NOT && !c->awaits_proxy_header) handshake_begin(c);
}

void http_server_drain(struct http_server *s)
{
    s->draining = true;
    for (size_t i = 0; i < s->slots_used; i++) {
        struct http_connection *c = s->slots[i];
        bool idle = c->watch.fd >= 0 && c->stage == STAGE_HEAD && input_size(c) == 0 &&
                    output_pending(&c->out) == 0;
        if (idle) connection_free(c);
    }
}

struct http_server *http_server_create(struct loop *l, const struct http_service *service,
                                       const struct http_limits *limits)
{
    check(service->handle != NULL && service->refuse != NULL);
    check(limits->head_ms > 0 && limits->body_ms > 0 && limits->idle_ms > 0 &&
          limits->write_ms > 0);
    struct http_server *s = calloc(1, sizeof *s);
    check(s != NULL);
    s->loop = l;
    s->service = *service;
    s->limits = *limits;
    s->routes = routes_create(service->routes, service->route_count);
    s->slot_count = (size_t)limits->connections_max + SPARE_CONNECTIONS;
    s->slots = calloc(s->slot_count, sizeof(struct http_connection *));
    s->scratch = malloc(SCRATCH_BYTES);
    check(s->slots != NULL && s->scratch != NULL);
    s->arena = spare_take(&s->spares);
    for (int phase = 0; phase < PHASE_COUNT; phase++) list_init(&s->phases[phase]);
    for (int lane = 0; lane < HTTP_LANES; lane++) list_init(&s->at_barrier[lane]);
    list_init(&s->handshakes_ready);
    list_init(&s->handshakes_waiting);
    s->handshake_due = handshakes_step;
    s->secure_begin = handshake_begin;
    s->phase_due = phase_timer_due;
    s->work_due = work_due;
    list_init(&s->arrived);
    loop_after(l, connections_arrived, s);
    list_init(&s->work);
    list_init(&s->held_back);
    s->phase_ms[PHASE_NEW] = s->phase_ms[PHASE_IDLE] = limits->idle_ms;
    s->phase_ms[PHASE_HEAD] = s->phase_ms[PHASE_HANDSHAKE] = limits->head_ms;
    s->phase_ms[PHASE_BODY] = s->phase_ms[PHASE_STRANGERS_BODY] = limits->body_ms;
    s->phase_ms[PHASE_WRITE] = limits->write_ms;
    s->phase_ms[PHASE_LINGER] = LINGER_MS;
    s->phase_timer_ms = UINT64_MAX;
    return s;
}

void http_server_destroy(struct http_server *s)
{
    if (s == NULL) return;
    for (size_t i = 0; i < s->slots_used; i++) {
        if (s->slots[i]->watch.fd >= 0) connection_free(s->slots[i]);
        free(s->slots[i]);
    }
    loop_timer_stop(s->loop, &s->phase_timer);
    loop_timer_stop(s->loop, &s->work_timer);
    loop_timer_stop(s->loop, &s->handshake_timer);
    loop_after(s->loop, NULL, NULL);
    routes_destroy(s->routes);
    pool_fini(&s->pool);
    spare_give(&s->spares, s->arena);
    spares_fini(&s->spares);
    free(s->slots);
    free(s->scratch);
    free(s);
}

bool http_server_has_room(const struct http_server *s, size_t reply_bytes)
{
    size_t most = s->limits.held_bytes;
    if (reply_bytes <= SMALL_REPLY_BYTES || most == 0) return true;
    return reply_bytes <= most && s->pool.large_bytes <= most - reply_bytes;
}

bool http_has_room(const struct http_exchange *x, size_t reply_bytes)
{
    return http_server_has_room(x->connection->server, reply_bytes);
}

size_t http_server_connections(const struct http_server *s) { return s->count; }
uint64_t http_server_closed_for_room(const struct http_server *s) { return s->closed_for_room; }
struct http_handshakes http_server_handshakes(const struct http_server *s) { return s->handshakes; }
size_t http_server_waiting(const struct http_server *s) { return s->waiting; }

/* -- exchanges --------------------------------------------------------------------------- */

bool http_is_forwarded(const struct http_exchange *x)
{
    return !client_address_equal(&x->client, &x->connection->client);
}

void http_end(const struct http_exchange *x) { x->connection->persistence = PERSIST_NOT; }

bool http_is_over_tls(const struct http_exchange *x) { return x->connection->tls != NULL; }

struct str http_header_get(const struct http_exchange *x, struct str name)
{
    if (http_header_is_missing(x, name)) return (struct str){0};
    return http_header_find(x->headers, x->header_count, name);
}

enum err http_parameter(const struct http_exchange *x, struct str name, struct str *ret,
                        struct fault *f)
{
    struct str query = x->query, one, value, found = {0};
    while (query_next(&query, &one, &value)) {
        struct str decoded;
        enum err err = query_decode(one, x->arena, &decoded, f);
        if (err != ERR_OK) return err;
        if (!str_equal(decoded, name)) continue;
        if (!str_is_absent(found))
            return fault_set(f, ERR_BAD_PARAMETER, "", "%.*s: given twice", STR_FORMAT(name));
        err = query_decode(value, x->arena, &found, f);
        if (err == ERR_BAD_PARAMETER)
            return fault_set(f, err, "", "%.*s: is not percent-encoded UTF-8", STR_FORMAT(name));
        if (err != ERR_OK) return err;
    }
    *ret = found;
    return ERR_OK;
}

void http_reply(struct http_exchange *x, const struct http_reply *reply)
{
    check(x->connection->stage == STAGE_HAND);
    connection_reply(x->connection, reply);
}

struct http_token http_defer(struct http_exchange *x)
{
    struct http_connection *c = x->connection;
    check(c->stage == STAGE_HAND);
    c->stage = STAGE_DEFERRED;
    c->on_gone = NULL;
    c->generation++;
    return (struct http_token){.place = c->place, .generation = c->generation};
}

/* The connection that waits for the answer, broken or not; NULL: it is gone. */
static struct http_connection *connection_of(const struct http_server *s, struct http_token token)
{
    if (token.place >= s->slots_used) return NULL;
    struct http_connection *c = s->slots[token.place];
    return c->generation == token.generation && c->stage == STAGE_DEFERRED ? c : NULL;
}

bool http_token_alive(const struct http_server *s, struct http_token token)
{
    const struct http_connection *c = connection_of(s, token);
    return c != NULL && c->peer != PEER_BROKEN;
}

/* A broken connection is freed in its next turn. Until then `gone` can still be set, so that the
 * requester is notified and may take the request back. */
bool http_when_gone(struct http_server *s, struct http_token token, void (*gone)(void *context),
                    void *context)
{
    if (connection_of(s, token) == NULL) return false;
    s->slots[token.place]->on_gone = gone;
    s->slots[token.place]->on_gone_context = context;
    return true;
}

bool http_may_park(const struct http_exchange *x)
{
    return x->connection->framing != FRAMING_CHUNKED;
}

struct http_token http_park(struct http_exchange *x)
{
    struct http_connection *c = x->connection;
    check(c->stage == STAGE_HAND && c->framing == FRAMING_LENGTH);
    c->stage = STAGE_PARKED;
    c->generation++;
    return (struct http_token){.place = c->place, .generation = c->generation};
}

void http_unpark(struct http_server *s, struct http_token token)
{
    if (token.place >= s->slots_used) return;
    struct http_connection *c = s->slots[token.place];
    if (c->generation != token.generation || c->stage != STAGE_PARKED || c->peer == PEER_BROKEN)
        return;
    c->stage = STAGE_BODY; /* with the whole body */
    c->resumed = true;
    s->waiting--;
    server_queue_work(c);
}

bool http_resume(struct http_server *s, struct http_token token, const struct http_reply *reply)
{
    if (!http_token_alive(s, token)) return false;
    struct http_connection *c = s->slots[token.place];
    connection_reply(c, reply);
    connection_send(c);
    if (input_size(c) > 0 && c->progress == PROGRESS_FREE)
        c->progress = PROGRESS_BLOCKED; /* pipelined requests behind it: in the next turn */
    connection_eased(c);
    return true;
}
