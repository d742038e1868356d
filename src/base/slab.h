/* slab.h - many objects of one size, without a malloc for each.
 *
 * Memory grows by chunks, which are freed only by slab_fini(). Freed objects are reused, newest
 * first. Objects are zeroed and aligned to 16. Bounded: at `max` objects slab_take() returns
 * NULL. Owned by one thread. */
#ifndef BASE_SLAB_H
#define BASE_SLAB_H

#include <stdbool.h>
#include <stddef.h>

struct slab_chunk;

struct slab {
    size_t size, max, count; /* of one object; at most; in use */
    struct slab_chunk *chunks;
    void *unused;     /* freed ones, each pointing to the next */
    char *next, *end; /* in the newest chunk: never used yet */
};

void slab_init(struct slab *s, size_t size, size_t max);
void slab_fini(struct slab *s);  /* all objects end with it; accepts a zeroed one */
void *slab_take(struct slab *s); /* NULL: the limit is reached, or there is no memory */
void slab_give(struct slab *s, void *object);

#endif
