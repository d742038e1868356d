/* client.h - HTTP/1.1 out: to the other program, over TCP or a Unix socket.
 *
 * `http_call` blocks its thread (publisher, feed, command line) and keeps its connection alive
 * for the next call; `http_call_start` runs on a loop (forwarding), each call on a connection of
 * its own, or on one of those that are kept for its peer (struct http_idle). Both drive the same machine (transfer.h). Addresses: "http://host:port",
 * "https://host:port", "unix:/path". Bounds: reply head LIMIT_HEAD_BYTES, body as the caller requests. A name is
 * looked up when connecting, by http_call, as part of its time, or beforehand, by the code that
 * fills in the peer. Of its addresses the one that answered last is tried first; the next one is
 * tried as well after a quarter of a second without an answer, and the first connection that
 * succeeds is used. */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include "base/buf.h"
#include "base/fault.h"
#include "http/address.h"
#include "http/server.h"

struct http_client; /* one peer, one kept-alive connection; one thread */

struct http_call {
    const char *method; /* "GET" */
    struct str target;  /* path and query, already encoded */
    struct http_header headers[24];
    size_t header_count;
    struct str content_type; /* absent: none */
    struct str body;
    uint32_t timeout_ms; /* for the whole call */
    uint32_t silence_ms; /* without a byte in either direction; 0: as long as the whole call */
    size_t reply_max;    /* body bytes */
    /* http_call_start() only: where its connection comes from, and is kept for the next call; NULL:
     * the call has a connection of its own. Outlives the call. */
    struct http_idle *idle;
};

/* Connections to one peer on one loop that no call uses now, at most HTTP_IDLE_MAX. None is older than
 * HTTP_IDLE_MS, so that the peer does not close it while a request is on its way. */
struct http_idle;
enum { HTTP_IDLE_MAX = 32, HTTP_IDLE_MS = 5000 };
struct http_idle *http_idle_create(struct loop *l); /* NULL: no memory */
void http_idle_destroy(struct http_idle *i);
/* Closes all. Those in use are not kept either: the next calls are to another peer. */
void http_idle_clear(struct http_idle *i);

struct http_answer {
    int status;
    struct str body; /* valid until the next call on this client */
    struct http_header headers[HTTP_HEADERS_MAX];
    size_t header_count;
    /* that answered; NULL: the connection was kept from an earlier call */
    const struct place *place;
};

/* ERR_BAD_VALUE: not an address, or one with https and no `tls`, which outlives the client. Nothing
 * is connected yet. */
enum err http_client_create(struct str address, struct tls *tls, struct http_client **ret,
                            struct fault *f);
void http_client_destroy(struct http_client *c);

/* ERR_OK with any status; ERR_TIMEOUT, ERR_CLOSED (unknown, refused, reset, interrupted),
 * ERR_BODY_TOO_LARGE, ERR_BAD_REQUEST (the peer speaks no HTTP), ERR_BAD_VALUE (a target or
 * header that cannot be sent); f has the details and may be NULL. A kept-alive connection that
 * the peer closed before a byte of the answer came is tried once more, for GET, HEAD, PUT and
 * DELETE, and for POST if `again` is set, because the peer de-duplicates. */
enum err http_call(struct http_client *c, const struct http_call *call, bool again,
                   struct http_answer *ret, struct fault *f);
/* Whether any of the latest call's request was sent: the peer may have acted on it even though
 * its answer was lost. */
bool http_client_has_sent(const struct http_client *c);
/* From another thread: a running http_call soon ends with ERR_CLOSED. If none is running, the
 * next one does, so that an interrupt between the check of a stop flag and the call is not lost. */
void http_client_interrupt(struct http_client *c);

/* On a loop: `done` is called once, on the loop's thread and never from within this call; the
 * answer (NULL unless ERR_OK) and its views end with it, and so does the returned handle. The
 * peer and everything that `call` points at, but `idle`, are copied. Never blocks: a peer without a
 * known address is ERR_CLOSED. A kept connection that the peer closed before a byte of the answer
 * came is replaced once, for GET, HEAD, PUT and DELETE. NULL: no memory, and `done` is not called. */
struct http_outgoing;
struct http_outgoing *
http_call_start(struct loop *l, const struct http_peer *to, const struct http_call *call,
                void (*done)(void *context, enum err err, const struct http_answer *answer),
                void *context);
/* Why it failed, as text for people; only within `done`. */
const char *http_call_trouble(const struct http_outgoing *o);
/* Whether any of its request was sent: the peer may have acted on it. */
bool http_call_was_sent(const struct http_outgoing *o);
void http_call_cancel(struct http_outgoing *o); /* `done` is not called */

struct str http_answer_header(const struct http_answer *a, struct str name);

/* Percent-encodes all bytes but the unreserved ones (RFC 3986), for building targets. */
void http_put_encoded(struct buf *out, struct str text);

#endif
