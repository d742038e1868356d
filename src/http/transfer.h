/* transfer.h - one request sent and one answer received, on a loop. Behind client.h.
 *
 *   connecting --the first of them is--> (TLS handshake) --> sending --all sent--> head --head whole--> body --whole--> over
 *       \--refused, or silent--> one more address                  ^--1xx--/
 *
 * A peer may answer before it has read everything (for example 413), so answers are read while
 * sending. Owned by one thread; `done` is called once, from a turn, and may free the transfer. */
#ifndef HTTP_TRANSFER_H
#define HTTP_TRANSFER_H

#include "base/buf.h"
#include "http/address.h"
#include "http/chunk.h"
#include "http/client.h"
#include "http/head.h"
#include "tls/tls.h"

struct wire {                /* a connection */
    int fd;                  /* -1: none */
    struct tls_session *tls; /* NULL: without TLS */
};
void wire_close(struct wire *w); /* accepts one without a connection */

struct knock { /* a connection attempt to one address */
    struct loop_fd watch;
    struct transfer *of; /* NULL: none is */
};

struct transfer {
    struct loop *loop;
    struct loop_fd watch;
    struct loop_timer deadline; /* of the whole */
    struct loop_timer silence;  /* of the addresses that are being connected to; then of the peer */
    uint32_t share_ms, silence_ms;
    void (*done)(struct transfer *t, enum err err);
    bool is_over;
    enum err failed_early; /* a failure before the loop could be used: the timer reports it */
    struct wire wire;      /* after `done`, what may be kept for the next transfer */
    bool may_keep;

    struct http_peer to;
    size_t place_next; /* of to.places: the number that was tried */
    struct knock knocks[ADDRESS_PLACES];
    const struct place *place; /* the address of the connection; NULL: a kept connection */

    struct buf request; /* the head, and the body if it had to be copied */
    struct str body;    /* the caller's bytes, sent after `request` without a copy */
    size_t sent;        /* of both together */
    bool head_only;     /* HEAD: the answer has no body */

    struct buf reply;
    size_t reply_max;
    struct head_scan scan;
    size_t head_from, head_size; /* position of the final head; size 0: it has not arrived yet */
    bool chunked, until_end;
    uint64_t length;
    size_t body_size; /* decoded, after the head */
    struct chunk_decoder chunk;
    struct head head;
    struct fault fault;
};

/* Writes the head of a request to t->to into t->request; the body is not copied: it must outlive
 * the transfer, or transfer_own_body() follows. ERR_BAD_VALUE, ERR_FULL. */
enum err transfer_prepare(struct transfer *t, const struct http_call *call, bool keep_alive,
                          struct fault *f);
/* Copies the body, for a caller that continues before the end. ERR_FULL. */
enum err transfer_own_body(struct transfer *t, struct fault *f);
/* Begins, over `wire` if that is connected (it is taken), else over a new connection to one of t->to's
 * addresses. */
void transfer_begin(struct transfer *t, struct loop *l, struct wire wire, uint32_t timeout_ms,
                    void (*done)(struct transfer *, enum err));
/* The same request over a new connection, after a transfer that is over without an answer. */
void transfer_again(struct transfer *t, uint32_t timeout_ms);
/* Ends it without calling `done`; frees its memory and closes t->wire. Accepts a zeroed one with
 * fd -1. */
void transfer_fini(struct transfer *t);
/* After ERR_OK: views into t. */
void transfer_answer(struct transfer *t, struct http_answer *ret);
/* Whether any byte of an answer has arrived. */
bool transfer_has_begun_answer(const struct transfer *t);

#endif
