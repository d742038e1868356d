/* memo.h - the last head of a connection and what was understood of it, so that the same head again
 * need be neither parsed nor understood again.
 *
 * A client that keeps its connection sends the same head with each request, but for the digits of
 * Content-Length. Comparing a head with the one before costs a small part of reading it anew. What
 * was understood once is understood the same way now: the bytes are equal, save that digits stand
 * for digits, and nothing but the body's length hangs on those. Each connection has its own, since
 * every agent has its own key and so its own head; nothing is remembered of one request for another
 * client.
 *
 * Only heads in which nothing was wrong are remembered. One is kept as it came, credentials too, as
 * long as the connection lives or until another one replaces it; then its bytes are wiped. */
#ifndef HTTP_MEMO_H
#define HTTP_MEMO_H

#include "http/head.h"
#include "http/server.h"

enum { MEMO_BYTES = 640, MEMO_FIELDS = 16 }; /* larger heads are not remembered */

/* What a head says. */
struct meaning {
    /* All but the body, the arena and the connection, which are none of the head's. */
    struct http_exchange exchange;
    struct str content_type, content_encoding, expect; /* absent where there is none */
    uint64_t length;                                   /* Content-Length; 0 where there is none */
    bool chunked, http_1_0;                            /* of a client that stays */
};

struct head_memo;

/* Whether `bytes` begin with the remembered head, digits for digits; then its size is
 * *ret_head_size, and memo_meaning() is what reading it would give. `m` may be NULL. */
bool memo_find(struct head_memo *m, const char *bytes, size_t size, size_t *ret_head_size);

/* Of the head that was found or taken last; with views into the memo alone, which hold until the
 * next one is found or taken, and with a place for what the service keeps. */
const struct meaning *memo_meaning(const struct head_memo *m);

/* Remembers the head that was read from `bytes` without a fault, and whose meaning has views into
 * `bytes` alone, in place of what *m had. False: it is too large, or there is no memory for it;
 * nothing is remembered then. */
bool memo_take(struct head_memo **m, const char *bytes, size_t size, const struct meaning *meaning);

void memo_destroy(struct head_memo *m);

#endif
