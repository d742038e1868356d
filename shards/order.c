#include "shards/order.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/map.h"

void order_check(const struct order *o)
{
    check(o->count <= o->capacity);
    check((o->count == 0) == (o->size == 0));
    check(o->size >= o->count && o->size <= o->count * ORDER_PLACES); /* no chunk is empty */
}

uint32_t order_digest(struct str text) { return (uint32_t)hash_bytes(text.bytes, text.size) | 1; }

bool order_ready(struct order *o, struct order_spare *spare)
{
    order_check(o);
    if (spare->chunk == NULL) spare->chunk = calloc(1, sizeof *spare->chunk);
    if (spare->chunk == NULL) return false;
    if (o->count < o->capacity) return true;
    size_t capacity = o->capacity == 0 ? 2 : o->capacity * 2;
    struct order_chunk **chunks = realloc(o->chunks, capacity * sizeof(*chunks));
    if (chunks == NULL) return false;
    o->chunks = chunks;
    o->capacity = capacity;
    return true;
}

/* The chunk where `ordinal` belongs: the last whose first ordinal is not above it, or the first. */
static size_t chunk_of(const struct order *o, uint64_t ordinal)
{
    size_t low = 0, high = o->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (o->chunks[middle]->places[0].ordinal <= ordinal)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* How many of the chunk's places have an ordinal below this one (with_equal: or the same). */
static size_t places_before(const struct order_chunk *k, uint64_t ordinal, bool with_equal)
{
    size_t low = 0, high = k->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        uint64_t there = k->places[middle].ordinal;
        if (there < ordinal || (with_equal && there == ordinal))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Puts the spare chunk at `at`. */
static struct order_chunk *chunk_insert(struct order *o, struct order_spare *spare, size_t at)
{
    struct order_chunk *fresh = spare->chunk;
    check(at <= o->count);
    check(fresh != NULL && o->count < o->capacity);
    spare->chunk = NULL;
    memmove(o->chunks + at + 1, o->chunks + at, (o->count - at) * sizeof(*o->chunks));
    o->chunks[at] = fresh;
    o->count++;
    fresh->count = 0;
    return fresh;
}

static void chunk_remove(struct order *o, struct order_spare *spare, size_t at)
{
    check(at < o->count);
    struct order_chunk *gone = o->chunks[at];
    o->count--;
    memmove(o->chunks + at, o->chunks + at + 1, (o->count - at) * sizeof(*o->chunks));
    if (spare->chunk == NULL)
        spare->chunk = gone;
    else
        free(gone);
}

/* Moves the upper half into a chunk of its own, except at the very end: there, arrivals in order
 * would leave only half-full chunks. */
static void chunk_split(struct order *o, struct order_spare *spare, size_t at)
{
    struct order_chunk *full = o->chunks[at], *fresh = chunk_insert(o, spare, at + 1);
    check(full->count == ORDER_PLACES);
    fresh->count = ORDER_PLACES / 2;
    full->count -= fresh->count;
    memcpy(fresh->places, full->places + full->count, fresh->count * sizeof *fresh->places);
}

void order_put(struct order *o, struct order_spare *spare, const struct order_place *p)
{
    if (o->count == 0) chunk_insert(o, spare, 0);
    size_t at = chunk_of(o, p->ordinal);
    struct order_chunk *k = o->chunks[at];
    size_t place = places_before(k, p->ordinal, true);
    if (k->count == ORDER_PLACES && at == o->count - 1 && place == k->count) {
        k = chunk_insert(o, spare, at + 1);
        place = 0;
    } else if (k->count == ORDER_PLACES) {
        chunk_split(o, spare, at);
        if (place > k->count) {
            place -= k->count;
            k = o->chunks[at + 1];
        }
    }
    check(k->count < ORDER_PLACES && place <= k->count);
    check(place == 0 || k->places[place - 1].ordinal <= p->ordinal);
    check(place == k->count || k->places[place].ordinal > p->ordinal);
    memmove(k->places + place + 1, k->places + place, (k->count - place) * sizeof *k->places);
    k->places[place] = *p;
    k->count++;
    o->size++;
    order_check(o);
}

/* Merges neighbours that are nearly empty, so that departures free memory. */
static void chunk_merge(struct order *o, struct order_spare *spare, size_t at)
{
    if (at + 1 >= o->count) return;
    struct order_chunk *k = o->chunks[at], *next = o->chunks[at + 1];
    check(k->count > 0 && next->count > 0);
    if (k->count + next->count > ORDER_PLACES / 2) return;
    memcpy(k->places + k->count, next->places, next->count * sizeof *next->places);
    k->count += next->count;
    chunk_remove(o, spare, at + 1);
}

/* Ordinals are unique in an engine, but a damaged or foreign snapshot may hold one twice. Then the
 * item itself decides, and its place may be in an earlier chunk. */
static void place_find(const struct order *o, uint64_t ordinal, const void *item, size_t *ret_chunk,
                       size_t *ret_place)
{
    for (size_t at = chunk_of(o, ordinal);; at--) {
        const struct order_chunk *k = o->chunks[at];
        for (size_t place = places_before(k, ordinal, false);
             place < k->count && k->places[place].ordinal == ordinal; place++) {
            if (k->places[place].item != item) continue;
            *ret_chunk = at;
            *ret_place = place;
            return;
        }
        check(at > 0);
    }
}

void order_remove(struct order *o, struct order_spare *spare, uint64_t ordinal, const void *item)
{
    size_t at, place;
    check(o->count > 0);
    place_find(o, ordinal, item, &at, &place);
    struct order_chunk *k = o->chunks[at];
    check(place < k->count);
    k->count--;
    o->size--;
    memmove(k->places + place, k->places + place + 1, (k->count - place) * sizeof *k->places);
    if (k->count == 0) {
        chunk_remove(o, spare, at);
    } else {
        chunk_merge(o, spare, at);
        if (at > 0) chunk_merge(o, spare, at - 1);
    }
    order_check(o);
}

void order_fini(struct order *o)
{
    for (size_t i = 0; i < o->count; i++) free(o->chunks[i]);
    free(o->chunks);
    *o = (struct order){0};
}

void order_spare_fini(struct order_spare *spare)
{
    free(spare->chunk);
    spare->chunk = NULL;
}

struct order_cursor order_after(const struct order *o, uint64_t after)
{
    order_check(o);
    struct order_cursor c = {0};
    if (after == 0 || o->count == 0) return c;
    c.chunk = chunk_of(o, after);
    c.at = places_before(o->chunks[c.chunk], after, true);
    return c;
}

const struct order_place *order_next(const struct order *o, struct order_cursor *c)
{
    check(c->chunk >= o->count || c->at <= o->chunks[c->chunk]->count);
    if (c->chunk < o->count && c->at == o->chunks[c->chunk]->count) {
        c->chunk++;
        c->at = 0;
    }
    if (c->chunk >= o->count) return NULL;
    return &o->chunks[c->chunk]->places[c->at++];
}
