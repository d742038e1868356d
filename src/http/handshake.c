/* handshake.c - connections with TLS, before their first byte of HTTP.
 *
 *   NEW --first bytes--> READY --a place is free--> UNDER WAY --done--> the usual connection
 *                          \--none is--> WAITING --a place is free--> READY
 *
 * A handshake costs as much as many decisions, and memory before the client has shown anything. So
 * no memory is taken before the client's first bytes, no more than LIMIT_TLS_HANDSHAKES are under
 * way, and a turn of the loop makes a few steps only: clients that are connected are served between
 * them. Clients without a place wait in order; their bytes stay in the kernel. A handshake that is
 * older than a second gives its place up when others wait. */
#include <poll.h>
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "http/connection.h"
#include "tls/tls.h"

enum {
    STEPS_PER_TURN = 4,
    PATIENCE_MS = 1000,
    LOOK_MS = 100, /* whether a place has become free */
};

static void queue(struct http_connection *c)
{
    struct http_server *s = c->server;
    if (link_is_on(&c->work_link)) return;
    if (list_is_empty(&s->handshakes_ready))
        loop_timer_start(s->loop, &s->handshake_timer, 0, s->handshake_due);
    list_append(&s->handshakes_ready, &c->work_link);
}

static void ready(struct loop_fd *w, int events)
{
    (void)events;
    struct http_connection *c = link_owner(w, struct http_connection, watch);
    loop_fd_change(c->server->loop, w, 0);
    queue(c);
}

/* -- places ------------------------------------------------------------------------------ */

static bool find_place(struct http_server *s)
{
    if (s->handshakes.under_way < LIMIT_TLS_HANDSHAKES) return true;
    check(!list_is_empty(&s->phases[PHASE_HANDSHAKE]));
    struct http_connection *oldest =
        link_owner(s->phases[PHASE_HANDSHAKE].head.next, struct http_connection, phase_link);
    if (oldest->phase_since_ms + PATIENCE_MS > loop_now_ms(s->loop)) return false;
    s->handshakes.failed++;
    connection_free(oldest);
    return true;
}

/* The client has closed its side, with or without bytes before: a load balancer that only looks, or
 * a client that has waited too long. */
static bool has_left(const struct http_connection *c)
{
    struct pollfd p = {.fd = c->watch.fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) == 1;
}

/* Takes a place. False: the connection is gone. */
static bool begin(struct http_connection *c)
{
    struct http_server *s = c->server;
    struct str early = str_of(c->in.bytes + c->in.from, input_size(c));
    if (!has_left(c)) c->tls = tls_accept(s->limits.tls, c->watch.fd, early);
    if (c->tls == NULL) {
        connection_free(c);
        return false;
    }
    connection_drop_input(c);
    c->secure = SECURE_HANDSHAKE;
    s->handshakes.under_way++;
    server_phase(c, PHASE_HANDSHAKE);
    return true;
}

/* -- steps ------------------------------------------------------------------------------- */

static void done(struct http_connection *c)
{
    c->server->handshakes.done++;
    c->server->handshakes.under_way--;
    c->secure = SECURE;
    c->watch.ready = connection_ready;
    server_phase(c, PHASE_NEW);
    loop_fd_change(c->server->loop, &c->watch, LOOP_READ);
    if (tls_has_more(c->tls)) connection_ready(&c->watch, LOOP_READ);
}

static void failed(struct http_connection *c, const struct fault *f)
{
    struct http_server *s = c->server;
    s->handshakes.failed++;
    uint64_t held;
    if (log_rate_allows(&s->handshake_log, loop_now_ms(s->loop), &held)) {
        char client[CLIENT_ADDRESS_TEXT + 1] = "", before[24];
        (void)client_address_text(&c->client, client);
        snprintf(before, sizeof before, "%llu", (unsigned long long)held);
        log_line(LOG_WARNING, "tls_handshake_failed", "client", client, "why", f->text,
                 "similar_before", before, NULL);
    }
    connection_free(c);
}

static void step(struct http_connection *c)
{
    struct fault f;
    switch (tls_handshake(c->tls, &f)) {
    case TLS_DONE: done(c); break;
    case TLS_WANTS_READ: loop_fd_change(c->server->loop, &c->watch, LOOP_READ); break;
    case TLS_WANTS_WRITE: loop_fd_change(c->server->loop, &c->watch, LOOP_WRITE); break;
    case TLS_FAILED: failed(c, &f); break;
    }
}

static struct http_connection *first_of(struct list *l)
{
    struct http_connection *c = link_owner(l->head.next, struct http_connection, work_link);
    link_remove(&c->work_link);
    return c;
}

/* The next one that can make a step; NULL: none can now. */
static struct http_connection *next_of(struct http_server *s)
{
    bool others_wait = !list_is_empty(&s->handshakes_waiting);
    if (others_wait && find_place(s)) {
        struct http_connection *c = first_of(&s->handshakes_waiting);
        return begin(c) ? c : NULL;
    }
    if (list_is_empty(&s->handshakes_ready)) return NULL;
    struct http_connection *c = first_of(&s->handshakes_ready);
    if (c->tls != NULL) return c;
    if (!others_wait && find_place(s)) return begin(c) ? c : NULL;
    list_append(&s->handshakes_waiting, &c->work_link);
    return NULL;
}

void handshakes_step(struct loop_timer *t)
{
    struct http_server *s = link_owner(t, struct http_server, handshake_timer);
    for (int i = 0; i < STEPS_PER_TURN; i++) {
        struct http_connection *c = next_of(s);
        if (c != NULL) step(c);
    }
    bool are_ready = !list_is_empty(&s->handshakes_ready);
    if (are_ready || !list_is_empty(&s->handshakes_waiting))
        loop_timer_start(s->loop, t, are_ready ? 0 : LOOK_MS, s->handshake_due);
}

void handshake_begin(struct http_connection *c)
{
    c->watch.ready = ready;
    if (input_size(c) == 0) return;
    loop_fd_change(c->server->loop, &c->watch, 0);
    queue(c);
}
