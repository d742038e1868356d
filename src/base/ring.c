#include "base/ring.h"

#include <stdlib.h>

#include "base/check.h"

void ring_init(struct ring *r, size_t places)
{
    size_t rounded = 2;
    while (rounded < places) rounded *= 2;
    r->places = calloc(rounded, sizeof *r->places);
    check(r->places != NULL);
    r->mask = rounded - 1;
    r->head_seen = r->tail_seen = 0;
    atomic_init(&r->tail, 0);
    atomic_init(&r->head, 0);
}

void ring_fini(struct ring *r)
{
    free(r->places);
    r->places = NULL;
}

bool ring_push(struct ring *r, void *item)
{
    check(item != NULL);
    size_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    if (tail - r->head_seen > r->mask) {
        r->head_seen = atomic_load_explicit(&r->head, memory_order_acquire);
        if (tail - r->head_seen > r->mask) return false;
    }
    r->places[tail & r->mask] = item;
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
    return true;
}

void *ring_pop(struct ring *r)
{
    size_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    if (head == r->tail_seen) {
        r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire);
        if (head == r->tail_seen) return NULL;
    }
    void *item = r->places[head & r->mask];
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
    return item;
}

size_t ring_depth(const struct ring *r)
{
    size_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    size_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    return tail - head;
}
