/* index.h - finds the patterns that can match a name, without a comparison with all patterns.
 *
 * Every pattern is stored under one of its literal pieces. A lookup searches the pieces of the
 * name:
 *
 *   invoice_get     the whole name, in a hash table: one probe
 *   get_*           the text before the first `*`, in a hash table of beginnings
 *   *_prod          the text after the last `*`, in a hash table of endings
 *   *drop*table*    a gram of 8, 4, 2 or 1 bytes, in a hash table that is probed at each position of
 *                   the name (a Bloom filter in front answers nearly all probes)
 *
 * A pattern with several possible pieces (`write_*_prod`) is stored under the rarest, so ten
 * thousand patterns with the same beginning are distinguished by their ends. The cost of a lookup
 * grows with the name's length and with the number of matches, not with the number of patterns.
 *
 * All comparisons fold ASCII case, for exact and folding patterns alike. A pattern that is found is
 * only a candidate: the caller must match it. Immutable after index_build(), any thread. */
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

/* Calls `visit` with the values of every pattern that may match the name; a value may come several
 * times. */
typedef void index_visit(void *context, const uint32_t *values, size_t count);
void index_lookup(const struct index *x, const struct name *n, index_visit *visit, void *context);

#endif
