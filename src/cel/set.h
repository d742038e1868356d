/* set.h - a set of strings that are known when a program is made: `x in ["a", "b", …]`.
 *
 * A hash table with open addressing, at most a quarter full, in the program's arena. A text of up
 * to sixteen bytes is stored as its first eight bytes, its last eight (which may overlap) and its
 * size, and is hashed and compared as three integers, without a loop. Longer texts are hashed
 * completely, with the seed of this process. Only the looked-up string comes from a request, so a
 * search is never longer than the longest run of the policy's own strings. */
#ifndef CEL_SET_H
#define CEL_SET_H

#include "cel/value.h"

struct cel_set_slot {
    uint64_t first, last; /* of up to sixteen bytes these and the size are the whole text */
    const char *bytes;    /* NULL: free */
    size_t size;
};

struct cel_set {
    uint64_t mask;
    const struct cel_set_slot *slots;
};

/* Whether a set can be made of the list: it is a list of CEL, with strings only. */
bool cel_set_fits(struct cel_value list);

/* The set of a list that fits; it keeps the strings' bytes. NULL: the arena is full. */
const struct cel_set *cel_set_make(struct cel_value list, struct arena *arena);

/* A bool, or CEL_FAULT_COST. A value that is no string is in no set. */
struct cel_value cel_set_has(const struct cel_set *set, struct cel_meter *m,
                             const struct cel_value *wanted);

#endif
