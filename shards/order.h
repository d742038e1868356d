/* order.h - things in the order of their ordinals: what pages are made of.
 *
 * A sorted sequence in chunks of at most ORDER_PLACES: the chunk is found by binary search over the
 * chunks' first ordinals, a place within it by another, and an insertion moves at most one chunk's
 * bytes. They arrive nearly in order (their ordinals are given out before they travel) and
 * leave anywhere. A flat array would move megabytes for each departure; a balanced tree costs a
 * cache miss per level and per entry of a page. A place carries digests of what pages are filtered
 * by, so that counting a filter's matches reads the chunks and not the things.
 * Belongs to its shard's thread. */
#ifndef SHARDS_ORDER_H
#define SHARDS_ORDER_H

#include "base/str.h"

enum { ORDER_PLACES = 64 };

struct order_place {
    uint64_t ordinal;
    void *item;
    uint32_t actor, action; /* by order_digest(), of reviews; 0: it has none */
};

struct order_chunk {
    size_t count; /* never 0 while it is in an order */
    struct order_place places[ORDER_PLACES];
};

struct order { /* a zeroed one is empty */
    struct order_chunk **chunks;
    size_t count, capacity; /* of chunks */
    size_t size;            /* of places */
};

/* A chunk that is ready to be used, shared by all orders of a table. */
struct order_spare {
    struct order_chunk *chunk;
};

/* Never 0, and of this process: two equal texts have the same. */
uint32_t order_digest(struct str text);

/* Makes sure that one order_put() cannot fail; false: out of memory. */
bool order_ready(struct order *o, struct order_spare *spare);
void order_put(struct order *o, struct order_spare *spare, const struct order_place *p);
/* Takes the item's place out; it is there. */
void order_remove(struct order *o, struct order_spare *spare, uint64_t ordinal, const void *item);
void order_fini(struct order *o);
void order_spare_fini(struct order_spare *spare);

/* Walks from the first place whose ordinal is above `after` (0: from the start). */
struct order_cursor {
    size_t chunk, at;
};
struct order_cursor order_after(const struct order *o, uint64_t after);
/* NULL: the end */
const struct order_place *order_next(const struct order *o, struct order_cursor *c);

#endif
