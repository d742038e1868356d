/* server.h - HTTP/1.1 in: connections, requests, replies in order. Bytes, not meaning.
 *
 * One server belongs to one loop and one thread. Request parsing is llhttp in strict mode plus
 * checks that it lacks (RFC 9112: obs-fold, bare LF, empty names, doubled Host, doubled or mixed
 * lengths). The service gives a table of routes and two functions: `handle` for a request that
 * matched one, `refuse` for all others (it turns a fault into a reply, so that errors have one
 * form). Either replies before it returns, or defers and resumes later, or parks the request; a connection has one
 * request in hand at a time, so replies leave in order; pipelined requests behind it wait in the
 * connection's buffer.
 *
 * A reply may carry a barrier: it is held back until http_server_release() reports that its
 * block was reached in its lane. Barriers of one connection open in order. Views in a request
 * are valid until handle() returns, whether it replied or deferred. Handlers never nest:
 * http_resume() and http_server_release() only write; requests that waited behind are handled in
 * the next turn. Bounds: limits.h and struct http_limits. http/client_address.h finds the client
 * of a request. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "base/arena.h"
#include "base/fault.h"
#include "http/client_address.h"
#include "http/header.h"
#include "http/socket_kind.h"
#include "loop/loop.h"

struct http_exchange;
struct http_notes;
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

enum { HTTP_PARAMS_MAX = 4, HTTP_REPLY_HEADERS_MAX = 16 };

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
    const char *pattern; /* "/v1/queue/{id}/approve" */
    enum http_body body; /* NONE: a body is read (to its limit) and ignored */
    uint32_t body_max;   /* bytes; 0 = LIMIT_BODY_BYTES */
    /* known query parameters, space-separated, none of them empty; NULL = any */
    const char *parameters;
    /* members of a JSON body, space-separated; NULL = any. The service checks them */
    const char *members;
    uint32_t roles;       /* the service defines its meaning (access/key.h); 0 = public */
    unsigned char effect; /* the service's own */
    unsigned char state;  /* the service's own */
    bool may_be_shed;     /* the service's own */
    unsigned char rates;  /* the service's own (access/rates.h) */
    void (*handle)(void *context, struct http_exchange *x); /* the service's */
    const void *extra;                                      /* the service's own */
};

struct http_service {
    const struct http_route *routes;
    size_t route_count;
    void *context;
    /* Of every reply that has no header of the same name. They outlive the server. */
    const struct http_header *headers;
    size_t header_count;
    /* Optional. Called with the head of a request whose body has not wholly arrived, before it
     * is read (and before 100 Continue is sent). It may reply (for example 401): then the body
     * is not read and the connection closes. It must not defer. True: the sender of the body has
     * shown a credential. Bodies without one are dropped first when connections or memory run
     * short. */
    bool (*admit)(void *context, struct http_exchange *x);
    /* Called for a matched request that has arrived completely. */
    void (*handle)(void *context, struct http_exchange *x);
    /* Called instead for an HTTP error (400, 404, 405 with `Allow`, 408, 413, 414, 415, 417,
     * 431, 501, 505). Must reply. x->route is set where one matched. */
    void (*refuse)(void *context, struct http_exchange *x, const struct fault *f);
    /* Optional. A connection ends whose notes hold something. It may call no function of the server. */
    void (*ended)(void *context, struct http_notes *notes);
};

struct http_limits {
    uint32_t connections_max;
    /* Per phase, each > 0: the whole head; the whole body; between requests (and before the
     * first); without any progress in writing. None runs while the service has to reply. */
    uint32_t head_ms, body_ms, idle_ms, write_ms;
    /* Bound on the memory that all connections together hold beyond a small buffer each; above
     * it http_server_has_room() returns false. 0: no bound. Above half of it, bodies beyond such
     * a buffer are refused if their sender has shown no credential. */
    size_t held_bytes;
    /* The proxies that may report the addresses of their clients; NULL: none. Outlives the
     * server. */
    const struct trusted_proxies *proxies;
    /* For sockets of SOCKET_TLS; NULL: there are none. Outlives the server. The handshake counts as
     * part of the first head's time. */
    struct tls *tls;
};

/* Data that the service keeps with a head, beside the connection that remembers it. It is zeroed
 * whenever another head takes its place, so its content was always put there for these very
 * headers. The service checks whether it is still valid. */
struct http_kept {
    const void *what;
    uint64_t block;
};

/* Data that the service keeps about a connection; zeroed for each new one. */
struct http_notes {
    uint64_t until_ms;
    uint32_t count;
    void *held[2]; /* with one of them, the service is called when the connection ends */
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
    uint64_t missing; /* bits (http_header_bit()) of names that no header has; 0: not computed */
    struct str body;
    struct str allow;         /* for refuse() of 405: "GET, POST" */
    struct http_kept *kept;   /* NULL: this head is not remembered */
    struct http_notes *notes; /* the connection's */
    bool is_resumed;          /* it was parked before */
    struct arena *arena;      /* this exchange's; reset before the next one on this thread */
    struct http_connection *connection; /* the server's own */
};

/* Whether the set of bits already shows that no header has that name. */
static inline bool http_header_is_missing(const struct http_exchange *x, struct str name)
{
    return (x->missing & http_header_bit(name)) != 0;
}
/* A proxy has reported the client's address: other clients may use the same connection. */
bool http_is_forwarded(const struct http_exchange *x);
/* The connection ends after the reply to this request, which is not sent yet. */
void http_end(const struct http_exchange *x);
/* The request came to a socket of SOCKET_TLS. */
bool http_is_over_tls(const struct http_exchange *x);
/* First header of that name (any case), or absent. */
struct str http_header_get(const struct http_exchange *x, struct str name);
/* The query parameter, percent-decoded (`+` is a blank) into the arena; absent if it is missing.
 * ERR_BAD_PARAMETER: given twice, bad percent-encoding, not UTF-8. Before handle() is called,
 * the server has refused all parameters that the route does not list. */
enum err http_parameter(const struct http_exchange *x, struct str name, struct str *ret,
                        struct fault *f);

struct http_barrier {
    uint32_t lane; /* 0: none; else index into the blocks given to release, less one */
    uint64_t block;
};

struct http_reply {
    int status;
    struct str content_type; /* absent: application/json; not sent where there is no body */
    struct str body;         /* copied before http_reply() returns */
    struct http_header headers[HTTP_REPLY_HEADERS_MAX];
    size_t header_count;
    struct http_barrier barrier;
    bool close; /* close after it */
};

/* Once per exchange. Adds Content-Length, Date, Connection as needed; a HEAD's body is left out.
 * A header whose value has a control byte is left out, because it would end the head. */
void http_reply(struct http_exchange *x, const struct http_reply *reply);

/* Instead: keeps the exchange open. The token stays valid until http_resume() or the client goes
 * away; then resume returns false. x itself must not be used after handle() returns. No timeout
 * runs in the meantime. A TCP client that only closed its own side may still read, so it counts
 * as gone only when it resets or the reply cannot be written. */
struct http_token {
    uint32_t place, generation;
};
struct http_token http_defer(struct http_exchange *x);
bool http_resume(struct http_server *s, struct http_token token, const struct http_reply *reply);
/* Instead: the request stays as it has arrived, and after http_unpark() is handled from the start.
 * For a service that must first look something up about it. Only in handle(), and not for a request
 * with a Transfer-Encoding. The token is for http_unpark() only; it does nothing if the client is
 * gone. */
struct http_token http_park(struct http_exchange *x);
bool http_may_park(const struct http_exchange *x);
void http_unpark(struct http_server *s, struct http_token token);
bool http_token_alive(const struct http_server *s, struct http_token token);
/* `gone` is called once if the client goes away before it is answered; not after http_resume().
 * It may call no function of this server but those of the arenas. False: the client is gone
 * already. */
bool http_when_gone(struct http_server *s, struct http_token token, void (*gone)(void *context),
                    void *context);

/* The caller takes over the exchange's arena with its content; the server continues with another
 * one. Within handle(), once, before the exchange is deferred or after. */
struct arena *http_arena_take(struct http_exchange *x);
/* One more of these, empty. */
struct arena *http_arena_spare(struct http_server *s);
/* Returns it to the server that it came from; its content is gone. Accepts NULL. */
void http_arena_give(struct http_server *s, struct arena *a);

/* One server for a loop: it takes loop_after(). */
struct http_server *http_server_create(struct loop *l, const struct http_service *service,
                                       const struct http_limits *limits);
void http_server_destroy(struct http_server *s);

/* Takes an accepted, non-blocking socket (and owns it); one of TCP gets TCP_NODELAY. Over connections_max it first closes a silent client, the one that has been
 * silent longest. If there is none, it answers 503 and closes the new connection. */
void http_server_take(struct http_server *s, int fd, enum socket_kind kind);
/* Blocks reached, per lane (lanes 1 and 2); they never decrease. Opens barriers and writes.
 * Connections whose next barrier stays closed cost nothing. */
void http_server_release(struct http_server *s, uint64_t written, uint64_t synced);
/* The same of lane 3. */
void http_server_release_log(struct http_server *s, uint64_t committed);
/* No further block of lane 3 is reached: each connection whose next barrier is one gets this reply
 * instead, without a barrier, and ends. Returns the number of connections. */
size_t http_server_lose_log(struct http_server *s, const struct http_reply *instead);
/* While held, no socket is read and no buffered request is handled. */
void http_server_hold(struct http_server *s, bool held);
/* No further requests: idle connections close now, others after their reply. */
void http_server_drain(struct http_server *s);
size_t http_server_connections(const struct http_server *s);
uint64_t http_server_closed_for_room(const struct http_server *s); /* so far */
/* TLS: handshakes that succeeded and that failed, so far; those that have begun and are unfinished. */
struct http_handshakes {
    uint64_t done, failed;
    size_t under_way;
};
struct http_handshakes http_server_handshakes(const struct http_server *s);
/* Whether a reply of so many bytes may wait for a client that perhaps does not read. A large
 * reply may if all that is held stays within limits.held_bytes. Small ones always may, since
 * connections_max and a connection's own limit bound them. */
bool http_server_has_room(const struct http_server *s, size_t reply_bytes);
bool http_has_room(const struct http_exchange *x, size_t reply_bytes); /* the same of its server */
/* Exchanges not yet answered; replies behind a barrier count as unanswered. */
size_t http_server_waiting(const struct http_server *s);

#endif
