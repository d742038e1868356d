/* memo.h - the last head of a connection and its parsed form, so that an identical head need not be
 * parsed again.
 *
 * A client that keeps its connection sends the same head with each request, but for the digits of
 * Content-Length. Comparing a head with the previous one costs a small part of parsing it again.
 * The result is the same: the bytes are equal, except that digits may replace digits, and only the
 * body's length depends on those. Each connection has its own memo, since every agent has its own
 * key and so its own head. A request of one client never uses the memo of another.
 *
 * Only heads without an error are remembered. A head is kept as it came, including credentials,
 * until the connection ends or another head replaces it; then its bytes are wiped. */
#ifndef HTTP_MEMO_H
#define HTTP_MEMO_H

#include "http/head.h"
#include "http/server.h"

enum { MEMO_BYTES = 640, MEMO_FIELDS = 16 }; /* larger heads are not remembered */

/* The content of a head. */
struct meaning {
    /* all but the body, the arena and the connection, which do not depend on the head */
    struct http_exchange exchange;
    struct str content_type, content_encoding, expect; /* absent where there is none */
    uint64_t length;                                   /* Content-Length; 0 where there is none */
    bool chunked, http_1_0;                            /* the connection is kept alive */
};

struct head_memo;

/* Whether `bytes` begin with the remembered head, where digits may replace digits. If so, its
 * size is *ret_head_size, and memo_meaning() is the result of parsing it. `m` may be NULL. */
bool memo_find(struct head_memo *m, const char *bytes, size_t size, size_t *ret_head_size);

/* The parsed form of the head that was found or taken last. Its views point into the memo and
 * are valid until the next head is found or taken. It has room for data of the service. */
const struct meaning *memo_meaning(const struct head_memo *m);

/* Remembers the head that was read from `bytes` without a fault, in place of the previous one in
 * *m. Its views must point into `bytes` only. False: it is too large, or there is no memory;
 * nothing is remembered then. */
bool memo_take(struct head_memo **m, const char *bytes, size_t size, const struct meaning *meaning);

void memo_destroy(struct head_memo *m);

#endif
