/* order.h - items in the order of their ordinals: the source of pages.
 *
 * A sorted sequence in chunks of at most ORDER_PLACES. A binary search over the chunks' first
 * ordinals finds the chunk, another finds the place within it, and an insertion moves at most one
 * chunk's bytes. Items arrive nearly in order (their ordinals are assigned before they travel) and
 * leave in any order. A flat array would move megabytes for each departure; a balanced tree costs a
 * cache miss per level and per entry of a page. A place carries digests of the fields that pages
 * are filtered by, so that counting a filter's matches reads the chunks and not the items. Belongs
 * to its shard's thread. */
#ifndef SHARDS_ORDER_H
#define SHARDS_ORDER_H

#include "base/str.h"

enum { ORDER_PLACES = 64 };

struct order_place {
    uint64_t ordinal;
    void *item;
    uint32_t actor, action, asker; /* by order_digest(), of reviews; 0: none */
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

/* Its counts agree: of chunks, of places, of room. */
void order_check(const struct order *o);

/* Never 0, and valid within this process: equal texts have equal digests. */
uint32_t order_digest(struct str text);

/* Makes sure that one order_put() cannot fail; false: out of memory. */
bool order_ready(struct order *o, struct order_spare *spare);
void order_put(struct order *o, struct order_spare *spare, const struct order_place *p);
/* Removes the item's place; it must be there. */
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
