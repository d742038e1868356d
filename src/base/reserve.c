#include "base/reserve.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

struct piece {
    size_t size;
    _Alignas(16) char bytes[];
};

static _Alignas(16) char reserve[RESERVE_BYTES]; /* costs nothing until it is used */
static _Atomic size_t used;

static _Thread_local uint64_t missed;

void memory_was_missing(void) { missed++; }
uint64_t memory_missed(void) { return missed; }

static bool is_of_reserve(const void *taken)
{
    uintptr_t at = (uintptr_t)taken, from = (uintptr_t)reserve;
    return at >= from && at < from + RESERVE_BYTES;
}

static void *piece_take(size_t size)
{
    check(size < RESERVE_BYTES);
    size_t whole = (sizeof(struct piece) + size + 15) / 16 * 16;
    size_t from = atomic_fetch_add(&used, whole);
    check(from <= RESERVE_BYTES && whole <= RESERVE_BYTES - from); /* the reserve is used up */
    struct piece *p = (struct piece *)(void *)(reserve + from);
    p->size = size;
    return p->bytes;
}

void *reserve_take(size_t size)
{
    void *taken = calloc(1, size);
    return taken != NULL ? taken : piece_take(size);
}

static size_t size_of(void *taken)
{
    if (!is_of_reserve(taken)) return malloc_usable_size(taken);
    return ((struct piece *)(void *)((char *)taken - offsetof(struct piece, bytes)))->size;
}

void *reserve_resize(void *before, size_t size)
{
    if (!is_of_reserve(before)) {
        void *larger = realloc(before, size);
        if (larger != NULL) return larger;
    }
    void *taken = is_of_reserve(before) ? reserve_take(size) : piece_take(size);
    if (before == NULL) return taken;
    size_t kept = size_of(before);
    memcpy(taken, before, kept < size ? kept : size);
    reserve_give(before);
    return taken;
}

void reserve_give(void *taken)
{
    if (!is_of_reserve(taken)) free(taken);
}
