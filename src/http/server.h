/* server.h - HTTP/1.1 in: connections, requests, replies in order. Bytes, not meaning.
 *
 * One server belongs to one loop and one thread. Request parsing is llhttp in strict mode plus
 * what that lets pass (RFC 9112: obs-fold, bare LF, empty names, doubled Host, doubled or mixed
 * lengths). The service gives a table of routes and two functions: `handle` for a request that
 * matched one, `refuse` for what did not (it turns a fault into a reply, so that errors have one
 * form). Either replies before it returns, or defers and resumes later; a connection has one
 * request in hand at a time, so replies leave in order; what is pipelined behind it waits in the
 * connection's buffer.
 *
 * A reply may carry a gate: it is kept back until http_server_release() says that its mark was
 * reached in its lane. Gates of one connection open in order. Views in a request are valid until
 * handle() returns, whether it replied or deferred. Handlers never nest: http_resume() and
 * http_server_release() only write; what waited behind is handled in the next beat.
 * Bounds: limits.h and struct http_limits. Who a request comes from is http/client_address.h's. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "base/arena.h"
#include "base/fault.h"
#include "http/client_address.h"
#include "http/header.h"
#include "loop/loop.h"

struct http_exchange;
struct http_server;
struct http_connection;

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_DELETE,
    HTTP_OTHER,
    HTTP_METHODS
};

enum { HTTP_PARAMS_MAX = 4, HTTP_REPLY_HEADERS_MAX = 8 };

enum http_body {
    HTTP_BODY_NONE,
    HTTP_BODY_JSON,
    HTTP_BODY_OPTIONAL_JSON,
    HTTP_BODY_FORM_OR_JSON,
    HTTP_BODY_NDJSON
};

/* A segment of `pattern` written {name} matches one non-empty segment, percent-decoded into
 * params[] in order. HEAD is served by the GET route without a body. A route of HTTP_OTHER takes
 * every method that has no name here; without one they are 405. */
struct http_route {
    enum http_method method;
    const char *pattern;    /* "/v1/queue/{id}/approve" */
    enum http_body body;    /* NONE: a body is read (to its limit) and ignored */
    uint32_t body_max;      /* bytes; 0 = LIMIT_BODY_BYTES */
    const char *parameters; /* known query parameters, space-separated; NULL = any */
    uint32_t roles;         /* meaning is the service's (access/key.h); 0 = public */
    void (*handle)(void *context, struct http_exchange *x); /* the service's */
    const void *extra;                                      /* the service's own */
};

struct http_service {
    const struct http_route *routes;
    size_t route_count;
    void *context;
    /* Optional. Called with the head of a request whose body has not wholly arrived, before it is
     * read (and before 100 Continue is sent). It may reply (401, say): then the body is not read
     * and the connection closes. It must not defer. True: it knows who sends the body; that of a
     * stranger makes room where connections or memory run short. */
    bool (*admit)(void *context, struct http_exchange *x);
    /* Called for a matched, wholly received request. */
    void (*handle)(void *context, struct http_exchange *x);
    /* Called instead for a fault of the transport (400, 404, 405 with `Allow`, 408, 413, 414,
     * 415, 417, 431, 501, 505). Must reply. x->route is set where one matched. */
    void (*refuse)(void *context, struct http_exchange *x, const struct fault *f);
};

struct http_limits {
    uint32_t connections_max;
    /* Per phase, each > 0: the whole head; the whole body; between requests (and before the
     * first); without any progress in writing. None runs while a reply is ours to give. */
    uint32_t head_ms, body_ms, idle_ms, write_ms;
    /* Of what all connections together hold beyond a small buffer each, before
     * http_server_has_room() says no; 0: any number. Above half of it, strangers' bodies beyond
     * such a buffer are refused. */
    size_t held_bytes;
    /* Whose word on who their clients are is taken; NULL: nobody's. Outlives the server. */
    const struct trusted_proxies *proxies;
};

/* What the service keeps with a head, beside the connection that remembers it: zeroed whenever
 * another head takes its place, so that what is there was put there for these very headers. Whether
 * it still holds is the service's to know. */
struct http_kept {
    const void *what;
    uint64_t mark;
};

struct http_exchange {
    enum http_method method;
    struct str method_text;
    struct str target; /* as sent */
    struct str path;   /* before `?`, as sent */
    struct str query;  /* after it, as sent; absent where there is no `?` */
    const struct http_route *route;
    struct str params[HTTP_PARAMS_MAX];
    const struct http_header *headers;
    size_t header_count;
    struct client_address client; /* who sent it */
    uint64_t missing; /* names that no header has, by http_header_bit(); 0: nobody has looked */
    struct str body;
    struct str allow;       /* for refuse() of 405: "GET, POST" */
    struct http_kept *kept; /* NULL: this head is not remembered */
    struct arena *arena;    /* this exchange's; reset before the next one on this thread */
    struct http_connection *connection; /* the server's own */
};

/* Whether it can be told at once that no header has that name. */
static inline bool http_header_is_missing(const struct http_exchange *x, struct str name)
{
    return (x->missing & http_header_bit(name)) != 0;
}
/* First header of that name (any case), or absent. */
struct str http_header_get(const struct http_exchange *x, struct str name);
/* The query parameter, percent-decoded (`+` is a blank) into the arena; absent where not given.
 * ERR_BAD_PARAMETER: given twice, bad percent-encoding, not UTF-8. The server has refused
 * parameters that the route does not know before handle() is called. */
enum err http_parameter(const struct http_exchange *x, struct str name, struct str *ret,
                        struct fault *f);

struct http_gate {
    uint32_t lane; /* 0: none; else index into the marks given to release, less one */
    uint64_t mark;
};

struct http_reply {
    int status;
    struct str content_type; /* absent: application/json; not sent where there is no body */
    struct str body;         /* copied before http_reply() returns */
    struct http_header headers[HTTP_REPLY_HEADERS_MAX];
    size_t header_count;
    struct http_gate gate;
    bool close; /* close after it */
};

/* Once per exchange. Adds Content-Length, Date, Connection as needed; a HEAD's body is left out.
 * A header whose value holds a control byte is left out: it would end the head. */
void http_reply(struct http_exchange *x, const struct http_reply *reply);

/* Instead: keeps the exchange open. The token stays valid until http_resume() or the client goes
 * away; then resume returns false. x itself must not be used after handle() returns. No timeout
 * runs meanwhile. A TCP client that only ended its own side may still read, so it is not gone
 * until it resets or the reply cannot be written. */
struct http_token {
    uint32_t place, generation;
};
struct http_token http_defer(struct http_exchange *x);
bool http_resume(struct http_server *s, struct http_token token, const struct http_reply *reply);
bool http_token_alive(const struct http_server *s, struct http_token token);
/* `gone` is called once if the client goes away before it is answered; not after http_resume(). It
 * may call nothing of this server but the arenas' functions. False: it is gone already. */
bool http_when_gone(struct http_server *s, struct http_token token, void (*gone)(void *context),
                    void *context);

/* The exchange's arena becomes the caller's, with all that is in it; the server goes on with
 * another. Within handle(), once, and before it is deferred or after. */
struct arena *http_arena_take(struct http_exchange *x);
/* One more of these, empty. */
struct arena *http_arena_spare(struct http_server *s);
/* Back to the server that it came from; all in it is gone. Accepts NULL. */
void http_arena_give(struct http_server *s, struct arena *a);

/* One server for a loop: it takes loop_after(). */
struct http_server *http_server_create(struct loop *l, const struct http_service *service,
                                       const struct http_limits *limits);
void http_server_destroy(struct http_server *s);

/* Takes an accepted, non-blocking socket (and owns it); one of TCP (not `is_unix`) gets
 * TCP_NODELAY. Over connections_max it makes room first: a client that keeps silent is closed, the
 * longest silent first; where none is, it answers 503 and closes. */
void http_server_take(struct http_server *s, int fd, bool is_unix);
/* Marks reached, per lane (lanes 1 and 2); they never go back. Opens gates and writes. Costs
 * nothing for connections whose next gate stays closed. */
void http_server_release(struct http_server *s, uint64_t mark_lane_1, uint64_t mark_lane_2);
/* While held, no socket is read and no buffered request is handled. */
void http_server_hold(struct http_server *s, bool held);
/* No further requests: idle connections close now, others after their reply. */
void http_server_drain(struct http_server *s);
size_t http_server_connections(const struct http_server *s);
uint64_t http_server_closed_for_room(const struct http_server *s); /* so far */
/* Whether a reply of so many bytes may be left waiting for a client that perhaps does not read: a
 * large one may where all that is held stays within limits.held_bytes. Small ones always may:
 * connections_max and a connection's own bound are theirs. */
bool http_server_has_room(const struct http_server *s, size_t reply_bytes);
bool http_has_room(const struct http_exchange *x, size_t reply_bytes); /* the same of its server */
/* Exchanges not yet answered; replies behind a gate count as unanswered. */
size_t http_server_waiting(const struct http_server *s);

#endif
