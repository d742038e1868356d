/* ends.h - the pieces that a text begins with.
 *
 * Pieces of all lengths in one hash table. A text asks with the hash of each of its beginnings
 * whose length some piece has; one running hash gives them all. A Bloom filter in front (two bits
 * of one word) answers nearly every question that has no answer. What suffixes ask is the same of
 * names and pieces written backwards. Chosen over a radix tree, whose nodes are found one through
 * the other: with a hundred thousand pieces that is a cache miss after the other, and these do not
 * wait for each other. Immutable once built. */
#ifndef POLICY_ENDS_H
#define POLICY_ENDS_H

#include "base/arena.h"

enum {
    END_BYTES_MAX = 64, /* longer pieces are filed under their first bytes */
    END_NONE = UINT32_MAX,
};

struct end_slot {
    uint32_t tag;   /* the hash's upper half stands for the piece: a wrong proposal does no harm */
    uint32_t value; /* END_NONE: free */
};

struct ends {
    struct end_slot *slots; /* NULL: no pieces but perhaps the empty one */
    uint64_t *filter;
    size_t mask, filter_mask;
    uint64_t lengths; /* bit n - 1: a piece of n bytes */
    uint32_t always;  /* value of the empty piece, which every text begins with; or END_NONE */
};

struct end_key {
    struct str bytes; /* at most END_BYTES_MAX */
    uint32_t value;
};

/* `keys` differ from each other. False: out of memory. */
bool ends_build(struct ends *e, struct arena *arena, const struct end_key *keys, size_t count);

/* A cursor over the values of all pieces that `text` (probably) begins with, so that the caller's
 * visit is a plain call. */
struct end_walk {
    const struct ends *ends;
    struct str text;
    uint64_t lengths; /* not yet asked */
    uint64_t hash;
    size_t at;   /* bytes in the hash */
    size_t slot; /* where to go on among those of `at` bytes; SIZE_MAX: nowhere */
};

static inline struct end_walk end_walk_begin(const struct ends *e, struct str text)
{
    return (struct end_walk){.ends = e, .text = text, .lengths = e->lengths, .slot = SIZE_MAX};
}

/* The next value, or END_NONE at the end. `always` is not among them. */
uint32_t end_walk_next(struct end_walk *w);

#endif
