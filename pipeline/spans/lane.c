#include "pipeline/spans/lane.h"

#include <stdlib.h>

#include "base/check.h"

_Static_assert((LANE_PLACES & (LANE_PLACES - 1)) == 0, "an index is masked, and may wrap");

static struct span *place(const struct span_lane *l, size_t index)
{
    return &l->places[index & (LANE_PLACES - 1)];
}

void lane_init(struct span_lane *l)
{
    *l = (struct span_lane){.filled = 0};
    l->places = calloc(LANE_PLACES, sizeof *l->places);
    check(l->places != NULL); /* only at boot */
}

void lane_fini(struct span_lane *l)
{
    if (l == NULL) return;
    free(l->places);
    l->places = NULL;
}

size_t span_copy(char *to, size_t most, struct str text)
{
    size_t size = text.size < most ? text.size : most;
    while (size < text.size && size > 0 && ((unsigned char)text.bytes[size] & 0xc0) == 0x80) size--;
    if (size > 0) memcpy(to, text.bytes, size);
    return size;
}

struct span *lane_open(struct span_lane *l)
{
    if (l->filled - l->head_seen == LANE_PLACES)
        l->head_seen = atomic_load_explicit(&l->head, memory_order_acquire);
    if (l->filled - l->head_seen == LANE_PLACES) {
        metric_add(l->sheet, METRIC_SPANS_DROPPED_FULL, 1);
        return NULL;
    }
    struct span *s = place(l, l->filled);
    *s = (struct span){.begin_ns = 0};
    return s;
}

void lane_keep(struct span_lane *l) { l->filled++; }

static bool is_open(const struct span *s, uint64_t written, uint64_t synced)
{
    return s->barrier_durability == 0 ||
           s->barrier_block <= (s->barrier_durability == 1 ? written : synced);
}

bool lane_release(struct span_lane *l, uint64_t written, uint64_t synced, uint64_t now_ns)
{
    size_t tail = atomic_load_explicit(&l->tail, memory_order_relaxed);
    size_t head = atomic_load_explicit(&l->head, memory_order_relaxed);
    size_t depth_before = tail - head;
    /* a written one may be finished while a synced one before it waits */
    for (size_t i = tail; i != l->filled; i++) {
        struct span *s = place(l, i);
        if (s->end_ns == 0 && is_open(s, written, synced)) s->end_ns = now_ns;
    }
    while (tail != l->filled && place(l, tail)->end_ns != 0) tail++;
    atomic_store_explicit(&l->tail, tail, memory_order_release);
    return depth_before < LANE_PLACES / 2 && tail - head >= LANE_PLACES / 2;
}

/* Published, but not dropped yet. */
static size_t depth_of(const struct span_lane *l)
{
    return atomic_load_explicit(&l->tail, memory_order_acquire) -
           atomic_load_explicit(&l->head, memory_order_relaxed);
}

const struct span *lane_peek(const struct span_lane *l)
{
    return depth_of(l) == 0 ? NULL : place(l, atomic_load_explicit(&l->head, memory_order_relaxed));
}

void lane_drop(struct span_lane *l)
{
    check(depth_of(l) > 0);
    atomic_store_explicit(&l->head, atomic_load_explicit(&l->head, memory_order_relaxed) + 1,
                          memory_order_release);
}
