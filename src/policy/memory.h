/* memory.h - inside of the room: the groups whose pattern an action matches, remembered.
 *
 * Agents have few tools and call them often, and to find the rules about one is the largest part of
 * an evaluation: hashes of all beginnings, endings and grams of its name, then a look at each
 * pattern that was proposed. What comes of it depends on nothing but the index and the action's text;
 * so it is kept, in a table with one place for each hash, where the newer displaces the older.
 *
 * An entry names its index by a number that no other of this process ever has, so that nothing
 * needs to be forgotten when sets are replaced. Kept are plain names without capitals: of these all
 * that is asked later (is it odd, are there capitals) is known without looking. Owned by one
 * thread. */
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
