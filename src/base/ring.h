/* ring.h - a bounded queue of pointers between exactly two threads.
 *
 * One thread pushes, one pops; neither ever waits for the other (single producer, single
 * consumer: Lamport 1983, with each side caching the other's index). A push into a full ring
 * fails. */
#ifndef BASE_RING_H
#define BASE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct ring {
    void **places;
    size_t mask;                      /* capacity - 1, where the capacity is a power of two */
    _Alignas(64) _Atomic size_t tail; /* next push; written by the producer only */
    size_t head_seen;
    _Alignas(64) _Atomic size_t head; /* next pop; written by the consumer only */
    size_t tail_seen;
};

void ring_init(struct ring *r, size_t places); /* rounded up to a power of two */
void ring_fini(struct ring *r);
bool ring_push(struct ring *r, void *item); /* false: full */
void *ring_pop(struct ring *r);             /* NULL: empty */
size_t ring_depth(const struct ring *r);    /* any thread; only a momentary value */

#endif
