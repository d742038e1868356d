/* pool.h - buffers of one size for connections that have something in hand.
 *
 * Last given, first taken: the one that is still in the cache. An idle connection holds none.
 * Larger sizes go to malloc. Owned by one thread. */
#ifndef HTTP_POOL_H
#define HTTP_POOL_H

#include <stddef.h>

enum {
    /* Sixteen pipelined decisions, or the largest head. Not a power of two: buffers a multiple
     * of 4 KiB apart would all compete for the same lines of the first-level cache. */
    POOL_BYTES = 17 * 1024 + 64,
    POOL_KEPT = 256,
};

struct pool {
    void *free; /* the first; each free one holds the pointer to the next */
    size_t count;
    size_t large_bytes; /* of larger ones that were taken and not given back */
};

/* At least `size` bytes; *ret_capacity says how many. NULL: out of memory. */
char *pool_take(struct pool *p, size_t size, size_t *ret_capacity);
/* Accepts NULL. `capacity` is what pool_take() said; the first `used` bytes are wiped, since what clients send
 * and are sent has credentials in it. */
void pool_give(struct pool *p, char *bytes, size_t capacity, size_t used);
void pool_fini(struct pool *p);

#endif
