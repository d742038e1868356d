/* set.h - a set of strings that are known when a program is made: `x in ["a", "b", …]`.
 *
 * A table of open addressing, at most a quarter full, in the program's arena. Of up to sixteen
 * bytes a text is its first eight, its last eight (which may be some of the same) and its size:
 * hashed and compared as three integers, without a loop. Longer ones are hashed wholly, with this
 * process's seed. The strings are the policy's and only the asked one is a request's, so a request
 * can make a search no longer than the longest run of the policy's own strings. */
#ifndef POLICY_CEL_SET_H
#define POLICY_CEL_SET_H

#include "policy/cel/value.h"

struct cel_set_slot {
    uint64_t first, last; /* of up to sixteen bytes these and the size are the whole text */
    const char *bytes;    /* NULL: free */
    size_t size;
};

struct cel_set {
    uint64_t mask;
    const struct cel_set_slot *slots;
};

/* Whether the list is one that a set can be made of: a list of CEL's own, of strings alone. */
bool cel_set_fits(struct cel_value list);

/* The set of a list that fits; it keeps the strings' bytes. NULL: the arena is full. */
const struct cel_set *cel_set_make(struct cel_value list, struct arena *arena);

/* A bool, or CEL_FAULT_COST. What is no string is in no set. */
struct cel_value cel_set_has(const struct cel_set *set, struct cel_meter *m,
                             const struct cel_value *wanted);

#endif
