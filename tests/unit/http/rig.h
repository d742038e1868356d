/* rig.h - a server in this process with a small service, and clients on real sockets.
 *
 * Nothing sleeps: rig_hear() turns the loop until what is expected has come, and a ticking timer
 * keeps a turn from waiting for ever. */
#ifndef TESTS_HTTP_RIG_H
#define TESTS_HTTP_RIG_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/world.h"
#include "http/server.h"

enum { RIG_TOKENS = 8, RIG_TICK_MS = 5, RIG_PATIENCE_MS = 120000 };

struct rig {
    struct loop *loop;
    struct http_server *server;
    struct loop_timer tick;
    struct http_token tokens[RIG_TOKENS];
    size_t token_count;
    bool keep_arenas; /* of what is answered later; with the path in each */
    struct arena *arenas[RIG_TOKENS];
    struct str texts[RIG_TOKENS];
    size_t handled, refused, admitted;
    bool deny_admission, is_of_strangers; /* what rig_admit() says */
    struct fault fault;                   /* the latest refusal's */
};

struct peer {
    int fd;
    bool ended;
    size_t size;
    char heard[4 << 20];
};

static void rig_reply_text(struct http_exchange *x, int status, const char *text)
{
    struct http_reply r = {.status = status, .body = str_from(text)};
    http_reply(x, &r);
}

static uint64_t rig_number(struct http_exchange *x, const char *name)
{
    struct str text;
    uint64_t value = 0;
    assert_int_equal(http_parameter(x, str_from(name), &text, NULL), ERR_OK);
    if (!str_is_absent(text)) assert_true(str_to_u64(text, &value));
    return value;
}

static void serve_echo(void *context, struct http_exchange *x)
{
    (void)context;
    struct http_reply r = {.status = 200, .body = x->body};
    r.barrier.lane = (uint32_t)rig_number(x, "lane");
    r.barrier.block = rig_number(x, "mark");
    r.close = rig_number(x, "close") != 0;
    http_reply(x, &r);
}

static void serve_thing(void *context, struct http_exchange *x)
{
    (void)context;
    struct str q;
    struct fault f = {0};
    if (http_parameter(x, STR("q"), &q, &f) != ERR_OK) {
        rig_reply_text(x, err_status(f.err), f.text);
        return;
    }
    char text[400];
    snprintf(text, sizeof text, "%.*s id=%.*s q=%.*s", STR_FORMAT(x->method_text),
             STR_FORMAT(x->params[0]), STR_FORMAT(q));
    rig_reply_text(x, 200, text);
}

static void serve_later(void *context, struct http_exchange *x)
{
    struct rig *rig = context;
    assert_true(rig->token_count < RIG_TOKENS);
    if (rig->keep_arenas) {
        rig->texts[rig->token_count] = arena_copy(x->arena, x->path);
        rig->arenas[rig->token_count] = http_arena_take(x);
    }
    rig->tokens[rig->token_count++] = http_defer(x);
}

static void serve_size(void *context, struct http_exchange *x)
{
    (void)context;
    uint64_t sum = 0;
    for (size_t i = 0; i < x->body.size; i++) sum = sum * 31 + (unsigned char)x->body.bytes[i];
    char text[64];
    snprintf(text, sizeof text, "%zu %llu", x->body.size, (unsigned long long)sum);
    rig_reply_text(x, 200, text);
}

static void serve_flood(void *context, struct http_exchange *x)
{
    (void)context;
    size_t size = (size_t)rig_number(x, "bytes");
    char *bytes = malloc(size + 1);
    memset(bytes, 'x', size);
    http_reply(x, &(struct http_reply){.status = 200, .body = str_of(bytes, size)});
    free(bytes);
}

static void serve_header(void *context, struct http_exchange *x)
{
    (void)context;
    struct http_reply r = {.status = 200, .body = http_header_get(x, STR("X-Question"))};
    r.headers[r.header_count++] = (struct http_header){STR("X-Good"), STR("fine")};
    r.headers[r.header_count++] = (struct http_header){STR("X-Bad"), STR("a\r\nInjected: yes")};
    http_reply(x, &r);
}

static void serve_nothing(void *context, struct http_exchange *x)
{
    (void)context;
    http_reply(x, &(struct http_reply){.status = 204});
}

/* How often the service has seen this head, and the length that it says now. */
static void serve_kept(void *context, struct http_exchange *x)
{
    (void)context;
    char text[500];
    unsigned long long times = x->kept == NULL ? 0 : (unsigned long long)++x->kept->block;
    snprintf(text, sizeof text, "seen=%llu length=%.*s a=%.*s b=%.*s body=%.*s", times,
             STR_FORMAT(http_header_get(x, STR("content-length"))), STR_FORMAT(x->params[0]),
             STR_FORMAT(x->params[1]), STR_FORMAT(x->body));
    rig_reply_text(x, 200, text);
}

static void serve_client(void *context, struct http_exchange *x)
{
    (void)context;
    char text[CLIENT_ADDRESS_TEXT];
    http_reply(x,
               &(struct http_reply){.status = 200, .body = client_address_text(&x->client, text)});
}

static const struct http_route rig_routes[] = {
    {.method = HTTP_GET, .pattern = "/client", .handle = serve_client},
    {.method = HTTP_POST,
     .pattern = "/echo",
     .body = HTTP_BODY_JSON,
     .parameters = "lane mark close",
     .handle = serve_echo},
    {.method = HTTP_GET, .pattern = "/things/{id}", .parameters = "q", .handle = serve_thing},
    {.method = HTTP_DELETE, .pattern = "/things/{id}", .parameters = "", .handle = serve_thing},
    {.method = HTTP_POST,
     .pattern = "/things/{id}/parts/{part}",
     .body = HTTP_BODY_OPTIONAL_JSON,
     .handle = serve_thing},
    {.method = HTTP_GET, .pattern = "/things/all", .parameters = "q", .handle = serve_thing},
    {.method = HTTP_GET, .pattern = "/later", .handle = serve_later},
    {.method = HTTP_PUT,
     .pattern = "/big",
     .body = HTTP_BODY_JSON,
     .body_max = 3 << 20,
     .handle = serve_size},
    {.method = HTTP_POST, .pattern = "/size", .body = HTTP_BODY_JSON, .handle = serve_size},
    {.method = HTTP_POST, .pattern = "/ignores", .handle = serve_size},
    {.method = HTTP_POST, .pattern = "/lines", .body = HTTP_BODY_NDJSON, .handle = serve_size},
    {.method = HTTP_POST, .pattern = "/form", .body = HTTP_BODY_FORM_OR_JSON, .handle = serve_size},
    {.method = HTTP_GET, .pattern = "/flood", .parameters = "bytes", .handle = serve_flood},
    {.method = HTTP_GET, .pattern = "/header", .handle = serve_header},
    {.method = HTTP_GET, .pattern = "/nothing", .handle = serve_nothing},
    {.method = HTTP_GET, .pattern = "/", .handle = serve_nothing},
    {.method = HTTP_POST,
     .pattern = "/kept/{a}/{b}",
     .body = HTTP_BODY_OPTIONAL_JSON,
     .body_max = 300,
     .parameters = "q",
     .handle = serve_kept},
};

static void rig_handle(void *context, struct http_exchange *x)
{
    ((struct rig *)context)->handled++;
    x->route->handle(context, x);
}

static void rig_refuse(void *context, struct http_exchange *x, const struct fault *f)
{
    struct rig *rig = context;
    rig->refused++;
    rig->fault = *f;
    struct http_reply r = {.status = err_status(f->err), .body = str_from(err_code(f->err))};
    if (!str_is_absent(x->allow))
        r.headers[r.header_count++] = (struct http_header){STR("Allow"), x->allow};
    http_reply(x, &r);
}

static bool rig_admit(void *context, struct http_exchange *x)
{
    struct rig *rig = context;
    rig->admitted++;
    if (rig->deny_admission) rig_reply_text(x, 401, "unauthenticated");
    return !rig->deny_admission && !rig->is_of_strangers;
}

static void rig_ticked(struct loop_timer *t)
{
    struct rig *rig = (struct rig *)(void *)((char *)t - offsetof(struct rig, tick));
    loop_timer_start(rig->loop, &rig->tick, RIG_TICK_MS, rig_ticked);
}

static inline struct rig *rig_create_limited(struct http_limits limits)
{
    struct rig *rig = calloc(1, sizeof *rig);
    rig->loop = loop_create();
    struct http_service service = {.routes = rig_routes,
                                   .route_count = sizeof rig_routes / sizeof *rig_routes,
                                   .context = rig,
                                   .admit = rig_admit,
                                   .handle = rig_handle,
                                   .refuse = rig_refuse};
    rig->server = http_server_create(rig->loop, &service, &limits);
    loop_timer_start(rig->loop, &rig->tick, RIG_TICK_MS, rig_ticked);
    return rig;
}

static inline struct http_limits rig_limits(void)
{
    return (struct http_limits){.connections_max = 64,
                                .head_ms = 60000,
                                .body_ms = 60000,
                                .idle_ms = 60000,
                                .write_ms = 60000};
}

static inline struct rig *rig_create(void) { return rig_create_limited(rig_limits()); }

static inline void rig_destroy(struct rig *rig)
{
    http_server_destroy(rig->server);
    loop_timer_stop(rig->loop, &rig->tick);
    loop_destroy(rig->loop);
    free(rig);
}

static inline struct peer *peer_over(int fd)
{
    struct peer *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->fd = fd;
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return p;
}

static inline struct peer *rig_connect(struct rig *rig)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    http_server_take(rig->server, pair[0], SOCKET_UNIX);
    return peer_over(pair[1]);
}

/* A listening socket on a free port of the loopback interface. */
static inline int rig_listen(struct sockaddr_in *ret)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    *ret = (struct sockaddr_in){.sin_family = AF_INET};
    ret->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(listener, (struct sockaddr *)ret, sizeof *ret), 0);
    assert_int_equal(listen(listener, 16), 0);
    socklen_t size = sizeof *ret;
    assert_int_equal(getsockname(listener, (struct sockaddr *)ret, &size), 0);
    return listener;
}

static inline struct peer *rig_connect_tcp(struct rig *rig)
{
    struct sockaddr_in at;
    int listener = rig_listen(&at), fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    int accepted = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    assert_true(accepted >= 0);
    close(listener);
    http_server_take(rig->server, accepted, SOCKET_TCP);
    return peer_over(fd);
}

static inline void peer_close(struct peer *p)
{
    close(p->fd);
    free(p);
}

/* A close that resets, as a killed client's with unread data does. */
static inline void peer_reset(struct peer *p)
{
    struct linger now = {.l_onoff = 1};
    setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    peer_close(p);
}

static inline void peer_listen(struct peer *p)
{
    for (;;) {
        assert_true(p->size < sizeof p->heard - 1);
        ssize_t got = recv(p->fd, p->heard + p->size, sizeof p->heard - 1 - p->size, 0);
        if (got > 0) {
            p->size += (size_t)got;
            p->heard[p->size] = '\0';
            continue;
        }
        if (got == 0 || errno == ECONNRESET) p->ended = true;
        return;
    }
}

static inline void rig_say_bytes(struct rig *rig, struct peer *p, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(p->fd, bytes, size, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EPIPE || errno == ECONNRESET) return;
            assert_int_equal(errno, EAGAIN);
            peer_listen(p);
            loop_turn(rig->loop, true);
            continue;
        }
        bytes += sent;
        size -= (size_t)sent;
    }
}

static inline void rig_say(struct rig *rig, struct peer *p, const char *text)
{
    rig_say_bytes(rig, p, text, strlen(text));
}

/* A few turns in which whatever is ready gets done. */
static inline void rig_turn(struct rig *rig)
{
    for (int i = 0; i < 4; i++) loop_turn(rig->loop, false);
}

/* The size of the first whole reply in p->heard from `from` on, or 0. */
static inline size_t reply_size(const struct peer *p, size_t from, bool head_only)
{
    const char *start = p->heard + from, *end = strstr(start, "\r\n\r\n");
    if (p->size <= from || end == NULL) return 0;
    size_t size = (size_t)(end + 4 - start), body = 0;
    const char *length = strstr(start, "Content-Length: ");
    if (length != NULL && length < end && !head_only) body = (size_t)strtoul(length + 16, NULL, 10);
    return p->size - from >= size + body ? size + body : 0;
}

/* Turns until p holds `count` whole replies (or has ended); how many it holds. */
static inline size_t rig_hear(struct rig *rig, struct peer *p, size_t count)
{
    uint64_t until_ns = world_monotonic_ns() + RIG_PATIENCE_MS * 1000000ull;
    for (;;) {
        peer_listen(p);
        size_t held = 0, at = 0, size;
        while ((size = reply_size(p, at, false)) > 0) held++, at += size;
        if (held >= count || p->ended || world_monotonic_ns() > until_ns) return held;
        loop_turn(rig->loop, true);
    }
}

static inline void rig_hear_end(struct rig *rig, struct peer *p)
{
    uint64_t until_ns = world_monotonic_ns() + RIG_PATIENCE_MS * 1000000ull;
    while (!p->ended && world_monotonic_ns() < until_ns) {
        peer_listen(p);
        if (!p->ended) loop_turn(rig->loop, true);
    }
    assert_true(p->ended);
}

static inline bool heard(const struct peer *p, const char *text)
{
    return strstr(p->heard, text) != NULL;
}

static inline void peer_forget(struct peer *p)
{
    p->size = 0;
    p->heard[0] = '\0';
}

static inline int heard_status(const struct peer *p)
{
    return p->size < 12 ? 0 : (int)strtol(p->heard + 9, NULL, 10);
}

#endif
