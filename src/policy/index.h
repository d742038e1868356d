/* index.h - from a name to the patterns that can match it, without looking at the others.
 *
 * Every pattern is filed under one literal piece of it, and a name asks only for pieces that it
 * has itself:
 *
 *   invoice_get     whole names, in a hash table: one probe
 *   get_*           what is before the first `*`, in a hash table asked with the name's beginnings
 *   *_prod          what is behind the last `*`, in one asked with its endings
 *   *drop*table*    a gram of 8, 4, 2 or 1 bytes, in a hash table asked at each of the name's
 *                   positions (a Bloom filter in front answers nearly all of them)
 *
 * A pattern that could be filed in several places (`write_*_prod`) goes where the fewest others
 * are, so ten thousand patterns that share a beginning are told apart by their ends. So the cost
 * of a question grows with the name's length and with what it matches, not with what there is.
 *
 * All under ASCII case folding, for exact and folding patterns alike; and what is filed by a
 * piece of it is only a candidate. The asker matches for certain: an index proposes, a rule
 * disposes. Immutable after index_build(), any thread. */
#ifndef POLICY_INDEX_H
#define POLICY_INDEX_H

#include "policy/glob.h"

struct index;

struct index_entry {
    struct str pattern; /* folded, runs of `*` collapsed (struct glob's text after folding) */
    uint32_t value;
};

/* Sorts `entries` in place; the patterns' bytes must live as long as the index does. All memory
 * is the arena's. NULL: it is full. */
struct index *index_build(struct arena *arena, struct index_entry *entries, size_t count);

/* Calls `visit` with the values of every pattern that may match the name; a value can come more
 * than once. */
typedef void index_visit(void *context, const uint32_t *values, size_t count);
void index_lookup(const struct index *x, const struct name *n, index_visit *visit, void *context);

#endif
