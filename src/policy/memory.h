/* memory.h - inside of the room: a cache of the groups whose pattern an action matches.
 *
 * Agents have few tools and call them often. The search for the rules of an action is the largest
 * part of an evaluation: hashes of all beginnings, endings and grams of its name, then a match of
 * each candidate. The result depends only on the index and the action's text, so it is cached, in
 * a table with one entry for each hash, in which a newer result replaces an older one.
 *
 * An entry has the serial of its index, which no other index of this process ever has, so entries
 * need not be removed when sets are replaced. Only plain names without capitals are cached,
 * because then no check of the name is needed later. Owned by one thread. */
#ifndef POLICY_MEMORY_H
#define POLICY_MEMORY_H

#include "policy/set.h"

enum {
    REMEMBERED_TEXT = 47,   /* bytes of a name; longer ones are not kept */
    REMEMBERED_GROUPS = 16, /* nor those that match more patterns */
};

struct remembered { /* two cache lines */
    uint64_t index; /* its serial; 0: free */
    char text[REMEMBERED_TEXT];
    uint8_t size;
    uint32_t count;
    uint32_t groups[REMEMBERED_GROUPS]; /* values of the index of actions */
};
_Static_assert(sizeof(struct remembered) == 128, "two cache lines");

struct policy_memory {
    struct remembered *entries;
    uint64_t mask;
};

/* NULL: not kept. Good until the next remembered_keep(). */
const struct remembered *remembered_find(const struct policy_memory *m, const struct rule_index *x,
                                         struct str action);
/* `action` is plain, without capitals. What is too large is left out. */
void remembered_keep(struct policy_memory *m, const struct rule_index *x, struct str action,
                     const uint32_t *groups, size_t count);

#endif
