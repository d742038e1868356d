/* memo.h - the last head of a connection, so that the same head again need not be parsed again.
 *
 * A client that keeps its connection sends the same head with each request, but for the digits of
 * Content-Length. Comparing a head with the one before costs a fifteenth of parsing it. What was
 * understood once is understood the same way now: the bytes are equal, save that digits stand for
 * digits. Each connection has its own, since every agent has its own key and so its own head;
 * nothing is remembered of one request for another client.
 *
 * The head is kept as it came, credentials too, as long as the connection lives or until another
 * head replaces it; then its bytes are wiped. */
#ifndef HTTP_MEMO_H
#define HTTP_MEMO_H

#include "http/head.h"

enum { MEMO_BYTES = 640, MEMO_FIELDS = 16 }; /* larger heads are not remembered */

struct head_memo;

/* Whether `bytes` are the remembered head; then *ret is what parsing them would give, with views
 * into the memo. `m` may be NULL. */
bool memo_recall(const struct head_memo *m, const char *bytes, size_t size, struct head *ret);

/* Remembers `h`, which was parsed from `bytes` without a fault, in place of what *m had. Where
 * there is no memory for it, nothing is remembered. */
void memo_take(struct head_memo **m, const char *bytes, size_t size, const struct head *h);

void memo_destroy(struct head_memo *m);

#endif
