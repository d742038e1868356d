/* pool.c - a stack of free buffers, linked through their first bytes. */
#include "http/pool.h"

#include <stdlib.h>
#include <string.h>

#include "crypto/crypto.h"

char *pool_take(struct pool *p, size_t size, size_t *ret_capacity)
{
    if (size > POOL_BYTES) {
        char *bytes = malloc(size);
        if (bytes == NULL) return NULL;
        p->large_bytes += size;
        *ret_capacity = size;
        return bytes;
    }
    char *bytes = p->free;
    if (bytes != NULL) {
        memcpy(&p->free, bytes, sizeof p->free);
        p->count--;
    } else {
        bytes = malloc(POOL_BYTES);
        if (bytes == NULL) return NULL;
    }
    *ret_capacity = POOL_BYTES;
    return bytes;
}

void pool_give(struct pool *p, char *bytes, size_t capacity, size_t used)
{
    if (bytes == NULL) return;
    memory_wipe(bytes, used);
    if (capacity > POOL_BYTES) p->large_bytes -= capacity;
    if (capacity != POOL_BYTES || p->count == POOL_KEPT) {
        free(bytes);
        return;
    }
    memcpy(bytes, &p->free, sizeof p->free);
    p->free = bytes;
    p->count++;
}

void pool_fini(struct pool *p)
{
    while (p->free != NULL) {
        char *bytes = p->free;
        memcpy(&p->free, bytes, sizeof p->free);
        free(bytes);
    }
    p->count = 0;
}
