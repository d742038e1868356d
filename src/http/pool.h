/* pool.h - buffers of one size for connections with pending input or output.
 *
 * The buffer that was returned last is taken first, because it is still in the cache. An idle
 * connection holds none. Larger sizes go to malloc. Owned by one thread. */
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
    size_t large_bytes; /* larger ones that were taken and not returned */
};

/* At least `size` bytes; *ret_capacity is the actual size. NULL: out of memory. */
char *pool_take(struct pool *p, size_t size, size_t *ret_capacity);
/* Accepts NULL. `capacity` is the value that pool_take() returned. The first `used` bytes are
 * wiped, since input and output of clients contain credentials. */
void pool_give(struct pool *p, char *bytes, size_t capacity, size_t used);
void pool_fini(struct pool *p);

#endif
