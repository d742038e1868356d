/* slab.h - objects of one size, by the thousand, without malloc for each.
 *
 * Memory grows by chunks and is never given back before slab_fini(); freed objects are used again,
 * newest first. Objects are zeroed and aligned to 16. Bounded: at `max` objects slab_take() says
 * no. Owned by one thread. */
#ifndef BASE_SLAB_H
#define BASE_SLAB_H

#include <stdbool.h>
#include <stddef.h>

struct slab_chunk;

struct slab {
    size_t size, max, count; /* of one object; at most; in use */
    struct slab_chunk *chunks;
    void *unused;     /* freed ones, each pointing to the next */
    char *next, *end; /* of the newest chunk: never used yet */
};

void slab_init(struct slab *s, size_t size, size_t max);
void slab_fini(struct slab *s);  /* all objects are gone with it; accepts a zeroed one */
void *slab_take(struct slab *s); /* NULL: at its bound, or out of memory */
void slab_give(struct slab *s, void *object);

#endif
