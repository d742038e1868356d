/* server.c - all clients of one thread: taking them, their clocks, gates, holds, the drain.
 *
 * Lists instead of searches: a connection is in the list of its phase (whose head is the next
 * to time out, and to make room for a new one), in the list of the lane of its first closed
 * gate (whose head is the next to open), and, where it wants a turn that nobody can give it
 * now, in the list of work. */
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
    PATIENCE_MS = 1000, /* with a head, or a stranger's body, where others want its place */
    ROOM_LOOKS_MAX = 8, /* for one new client; each is a system call */
};

/* -- clocks ------------------------------------------------------------------------------ */

static void phase_timer_due(struct loop_timer *t);

static void phase_timer_set(struct http_server *s, uint64_t due_ms)
{
    if (due_ms >= s->phase_timer_ms) return;
    uint64_t now_ms = loop_now_ms(s->loop);
    loop_timer_start(s->loop, &s->phase_timer, due_ms > now_ms ? due_ms - now_ms : 0,
                     phase_timer_due);
    s->phase_timer_ms = due_ms;
}

void server_phase(struct http_connection *c, enum phase phase)
{
    if (phase == c->phase && !c->phase_restart) return;
    struct http_server *s = c->server;
    c->phase_restart = false;
    c->phase = phase;
    link_remove(&c->phase_link);
    if (phase == PHASE_NONE) return;
    c->phase_since_ms = loop_now_ms(s->loop);
    list_append(&s->phases[phase], &c->phase_link);
    phase_timer_set(s, c->phase_since_ms + s->phase_ms[phase]);
}

static void phase_expired(struct http_connection *c)
{
    if (c->phase == PHASE_HEAD || c->phase == PHASE_BODY || c->phase == PHASE_STRANGERS_BODY) {
        struct fault f;
        fault_plain(&f, ERR_REQUEST_TIMEOUT);
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
            /* What has come was in time, however late it is read: this program may have been kept
             * from running. */
            if (link_is_on(&c->arrived_link))
                connection_turn(c);
            else
                phase_expired(c);
        }
    }
    if (next_ms != UINT64_MAX) phase_timer_set(s, next_ms);
}

const char *server_date(struct http_server *s)
{
    uint64_t now_ms = loop_now_ms(s->loop);
    if (now_ms >= s->date_until_ms) {
        uint64_t wall_ms = world_now_ms();
        reply_write_date(wall_ms, s->date);
        s->date_until_ms = now_ms + (1000 - wall_ms % 1000);
    }
    return s->date;
}

/* -- turns for those who wait for one ---------------------------------------------------- */

static void work_due(struct loop_timer *t)
{
    struct http_server *s = link_owner(t, struct http_server, work_timer);
    /* What a turn adds comes in the next beat: a ring of them must not keep the loop here. */
    list_append(&s->work, &s->work_end);
    while (s->work.head.next != &s->work_end) {
        struct http_connection *c =
            link_owner(s->work.head.next, struct http_connection, work_link);
        link_remove(&c->work_link);
        connection_turn(c);
    }
    link_remove(&s->work_end);
    if (!list_is_empty(&s->work)) loop_timer_start(s->loop, &s->work_timer, 0, work_due);
}

void server_arrived(void *server)
{
    struct http_server *s = server;
    while (!list_is_empty(&s->arrived)) {
        struct http_connection *c =
            link_owner(s->arrived.head.next, struct http_connection, arrived_link);
        connection_turn(c); /* which takes it off the list */
    }
    memory_wipe(s->scratch, s->scratch_used);
    s->scratch_used = 0;
}

void server_queue_work(struct http_connection *c)
{
    struct http_server *s = c->server;
    link_remove(&c->work_link);
    if (list_is_empty(&s->work)) loop_timer_start(s->loop, &s->work_timer, 0, work_due);
    list_append(&s->work, &c->work_link);
}

void http_server_hold(struct http_server *s, bool held)
{
    if (s->held == held) return;
    s->held = held;
    while (!held && !list_is_empty(&s->held_back))
        server_queue_work(link_owner(s->held_back.head.next, struct http_connection, work_link));
}

/* -- gates ------------------------------------------------------------------------------- */

/* Marks mostly rise, so the place is at the list's end or near it. */
void server_gate(struct http_connection *c)
{
    const struct output_gate *gate = output_gate(&c->out);
    struct list *list = &c->server->gated[gate->lane - 1];
    struct link *before = list->head.previous;
    while (before != &list->head) {
        struct http_connection *other = link_owner(before, struct http_connection, gate_link);
        if (output_gate(&other->out)->mark <= gate->mark) break;
        before = before->previous;
    }
    c->gate_link.previous = before;
    c->gate_link.next = before->next;
    before->next->previous = &c->gate_link;
    before->next = &c->gate_link;
}

static void open_gates(struct http_connection *c)
{
    struct http_server *s = c->server;
    uint32_t replies = output_release(&c->out, s->reached);
    check(replies <= s->waiting);
    s->waiting -= replies;
    link_remove(&c->gate_link);
    if (output_gate(&c->out) != NULL) server_gate(c);
    connection_send(c);
    connection_eased(c);
}

void http_server_release(struct http_server *s, uint64_t mark_lane_1, uint64_t mark_lane_2)
{
    check(mark_lane_1 >= s->reached[0] && mark_lane_2 >= s->reached[1]);
    s->reached[0] = mark_lane_1;
    s->reached[1] = mark_lane_2;
    for (size_t lane = 0; lane < HTTP_LANES; lane++) {
        struct list *list = &s->gated[lane];
        while (!list_is_empty(list)) {
            struct http_connection *c =
                link_owner(list->head.next, struct http_connection, gate_link);
            if (output_gate(&c->out)->mark > s->reached[lane]) break;
            open_gates(c);
        }
    }
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
    c->generation = 1; /* a zeroed token names nobody */
    s->slots[s->slots_used++] = c;
    return c;
}

void connection_free(struct http_connection *c)
{
    struct http_server *s = c->server;
    loop_fd_stop(s->loop, &c->watch);
    close(c->watch.fd);
    c->watch.fd = -1;
    for (; c->out.gate_count > 0; c->out.gate_count--) {
        s->waiting -= c->out.gates[c->out.gate_first].replies;
        c->out.gate_first = (c->out.gate_first + 1) % OUTPUT_GATES;
    }
    if (c->stage == STAGE_HAND || c->stage == STAGE_DEFERRED) s->waiting--;
    bool gone = c->stage == STAGE_DEFERRED && c->on_gone != NULL;
    c->stage = STAGE_CLOSING; /* no token finds it */
    if (gone) c->on_gone(c->on_gone_context);
    link_remove(&c->phase_link);
    link_remove(&c->gate_link);
    link_remove(&c->work_link);
    link_remove(&c->arrived_link);
    if (!in_scratch(s, c->in.bytes)) pool_give(&s->pool, c->in.bytes, c->in.capacity, c->in.used);
    c->in = (struct input){0};
    output_fini(&c->out, &s->pool);
    memo_destroy(c->memo);
    c->memo = NULL;
    if (s->understood == c) s->understood = NULL;
    c->next_free = s->free;
    s->free = c;
    s->count--;
}

/* -- room for one more ------------------------------------------------------------------- */

/* What was sent meanwhile is not lost for being unread. */
static bool is_silent(const struct http_connection *c)
{
    char byte;
    return !link_is_on(&c->arrived_link) &&
           recv(c->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

/* One that has been in that phase for so long; the longest of the first few. */
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

/* Connections cost strangers nothing, so who has asked nothing goes first, then who does not come
 * to the end of its head, or of a body without a credential, then who was answered and is silent.
 * Who is being answered, or has shown a credential for the body it sends, stays. */
static void make_room(struct http_server *s)
{
    struct http_connection *c = silent_of(s, PHASE_NEW, PATIENCE_MS);
    if (c == NULL) c = silent_of(s, PHASE_HEAD, PATIENCE_MS);
    if (c == NULL) c = silent_of(s, PHASE_STRANGERS_BODY, PATIENCE_MS);
    if (c == NULL) c = silent_of(s, PHASE_IDLE, 0);
    if (c == NULL) return;
    connection_free(c);
    s->closed_for_room++;
}

void http_server_take(struct http_server *s, int fd, bool is_unix)
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
    if (!is_unix) {
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    loop_fd_start(s->loop, &c->watch, fd, LOOP_READ, connection_ready);
    if (s->count > s->limits.connections_max || s->draining) {
        struct fault f;
        fault_set(&f, s->draining ? ERR_DRAINING : ERR_OVERLOADED, "",
                  s->draining ? "shutting down" : "there are too many connections");
        connection_refuse(c, &f);
        connection_turn(c);
        return;
    }
    server_phase(c, PHASE_NEW);
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
    for (int lane = 0; lane < HTTP_LANES; lane++) list_init(&s->gated[lane]);
    list_init(&s->arrived);
    loop_after(l, server_arrived, s);
    list_init(&s->work);
    list_init(&s->held_back);
    s->phase_ms[PHASE_NEW] = s->phase_ms[PHASE_IDLE] = limits->idle_ms;
    s->phase_ms[PHASE_HEAD] = limits->head_ms;
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
size_t http_server_waiting(const struct http_server *s) { return s->waiting; }

/* -- exchanges --------------------------------------------------------------------------- */

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

/* The connection that waits for the answer, broken or not; NULL: none does any more. */
static struct http_connection *connection_of(const struct http_server *s, struct http_token token)
{
    if (token.place >= s->slots_used) return NULL;
    struct http_connection *c = s->slots[token.place];
    return c->generation == token.generation && c->stage == STAGE_DEFERRED ? c : NULL;
}

bool http_token_alive(const struct http_server *s, struct http_token token)
{
    const struct http_connection *c = connection_of(s, token);
    return c != NULL && !c->broken;
}

/* One that is broken is freed in its next turn: until then who asked is to be
 * told, and may take it back. */
bool http_when_gone(struct http_server *s, struct http_token token, void (*gone)(void *context),
                    void *context)
{
    if (connection_of(s, token) == NULL) return false;
    s->slots[token.place]->on_gone = gone;
    s->slots[token.place]->on_gone_context = context;
    return true;
}

bool http_resume(struct http_server *s, struct http_token token, const struct http_reply *reply)
{
    if (!http_token_alive(s, token)) return false;
    struct http_connection *c = s->slots[token.place];
    connection_reply(c, reply);
    connection_send(c);
    if (input_size(c) > 0) c->blocked = true; /* what is pipelined behind it: in the next beat */
    connection_eased(c);
    return true;
}
