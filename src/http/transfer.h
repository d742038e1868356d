/* transfer.h - one request sent and one answer received, on a loop. Behind client.h.
 *
 *   connecting --the first of them is--> sending --all sent--> head --head whole--> body --whole--> over
 *       \--refused, or silent--> one more place                  ^--1xx--/
 *
 * A peer may answer before it has read everything (413, say), so answers are read while sending.
 * Owned by one thread; `done` is called once, from a beat, and may free the transfer. */
#ifndef HTTP_TRANSFER_H
#define HTTP_TRANSFER_H

#include "base/buf.h"
#include "http/address.h"
#include "http/chunk.h"
#include "http/client.h"
#include "http/head.h"

struct knock { /* a connection under way to one place */
    struct loop_fd watch;
    struct transfer *of; /* NULL: none is */
};

struct transfer {
    struct loop *loop;
    struct loop_fd watch;
    struct loop_timer deadline; /* of the whole */
    struct loop_timer silence;  /* of the places that are being connected to; then of the peer */
    uint32_t share_ms, silence_ms;
    void (*done)(struct transfer *t, enum err err);
    bool is_over;
    enum err failed_early; /* before the loop could be asked: told by the timer */
    int fd;                /* -1: none; after `done`, what may be kept for the next transfer */
    bool may_keep;

    struct http_peer to;
    size_t place_next; /* of to.places: so many have been tried */
    struct knock knocks[ADDRESS_PLACES];
    const struct place *place; /* that the connection is to; NULL: a kept one's */

    struct buf request; /* the head, and the body where it had to be copied */
    struct str body;    /* the caller's bytes, sent behind `request` from where they lie */
    size_t sent;        /* of both together */
    bool head_only;     /* HEAD: the answer has no body */

    struct buf reply;
    size_t reply_max;
    struct head_scan scan;
    size_t head_from, head_size; /* where the final head is; size 0: not there yet */
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
/* Copies the body, for a caller that does not wait. ERR_FULL. */
enum err transfer_own_body(struct transfer *t, struct fault *f);
/* Begins, over `fd` if that is connected, else over a new connection to one of t->to's places. */
void transfer_begin(struct transfer *t, struct loop *l, int fd, uint32_t timeout_ms,
                    void (*done)(struct transfer *, enum err));
/* Ends it without `done`; frees what it holds, t->fd too. Accepts a zeroed one with fd -1. */
void transfer_fini(struct transfer *t);
/* After ERR_OK: views into t. */
void transfer_answer(struct transfer *t, struct http_answer *ret);
/* Whether anything of an answer has come. */
bool transfer_has_begun_answer(const struct transfer *t);

#endif
