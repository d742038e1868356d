/* ends.h - the pieces that a text begins with.
 *
 * Pieces of all lengths are in one hash table. A search looks up the hash of each beginning of the
 * text whose length some piece has; one running hash gives them all. A Bloom filter in front (two
 * bits of one word) answers nearly every lookup without a result. Suffixes use the same table with
 * names and pieces reversed. Chosen over a radix tree: its nodes lead to each other, so a hundred
 * thousand pieces cost one cache miss after the other. The lookups here do not wait for each
 * other. Immutable once built. */
#ifndef POLICY_ENDS_H
#define POLICY_ENDS_H

#include "base/arena.h"

enum {
    END_BYTES_MAX = 64, /* longer pieces are stored under their first bytes */
    END_NONE = UINT32_MAX,
};

struct end_slot {
    uint32_t tag;   /* the hash's upper half identifies the piece: a wrong candidate does no harm */
    uint32_t value; /* END_NONE: free */
};

struct ends {
    struct end_slot *slots; /* NULL: no pieces but perhaps the empty one */
    uint64_t *filter;
    size_t mask, filter_mask;
    uint64_t lengths; /* bit n - 1: a piece of n bytes */
    uint32_t always;  /* value of the empty piece, with which every text begins; or END_NONE */
};

struct end_key {
    struct str bytes; /* at most END_BYTES_MAX */
    uint32_t value;
};

/* `keys` differ from each other. False: out of memory. */
bool ends_build(struct ends *e, struct arena *arena, const struct end_key *keys, size_t count);

/* A cursor over the values of all pieces with which `text` (probably) begins. */
struct end_walk {
    const struct ends *ends;
    struct str text;
    uint64_t lengths; /* not looked up yet */
    uint64_t hash;
    size_t at;   /* bytes in the hash */
    size_t slot; /* the next entry among those of `at` bytes; SIZE_MAX: none */
};

static inline struct end_walk end_walk_begin(const struct ends *e, struct str text)
{
    return (struct end_walk){.ends = e, .text = text, .lengths = e->lengths, .slot = SIZE_MAX};
}

/* The next value, or END_NONE at the end. It does not return `always`. */
uint32_t end_walk_next(struct end_walk *w);

#endif
