/* gram.h - finds the patterns that have a piece of 8, 4, 2 or 1 bytes in common with a text.
 *
 * Each pattern is stored under one gram of one of its literal pieces. A search looks up the gram at
 * each position of the text: an integer load and a Bloom filter (two bits of one word), then,
 * rarely, a probe. Chosen over an Aho-Corasick automaton, which needs one dependent memory access
 * per byte and ten times the memory for the same patterns. Immutable once built. */
#ifndef POLICY_GRAM_H
#define POLICY_GRAM_H

#include "base/arena.h"

enum { GRAM_SIZES = 4, GRAM_NONE = UINT32_MAX }; /* 8, 4, 2, 1 */

struct gram_slot {
    uint64_t bytes;
    uint32_t value; /* GRAM_NONE: free */
};

struct gram_table { /* grams of one size */
    struct gram_slot *slots;
    uint64_t *filter;
    size_t mask, filter_mask, count;
};

struct grams {
    struct gram_table tables[GRAM_SIZES];
};

struct gram_key {
    uint64_t bytes;
    uint32_t size; /* 8, 4, 2 or 1 */
    uint32_t value;
};

/* The gram of `size` bytes at `bytes`, as an integer. */
uint64_t gram_at(const char *bytes, size_t size);

/* `keys` differ from each other in (size, bytes). False: out of memory. */
bool grams_build(struct grams *g, struct arena *arena, const struct gram_key *keys, size_t count);

/* The value filed under a gram, or GRAM_NONE. */
uint32_t gram_table_get(const struct gram_table *t, uint64_t gram);

static inline size_t gram_size(size_t table) { return (size_t)8 >> table; }

#endif
