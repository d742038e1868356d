/* map.h - a hash table from short byte strings to pointers.
 *
 * Open addressing with linear probing, at most 3/4 full, grows by doubling. Keys are views: the
 * caller keeps their bytes alive as long as the entry (as a rule they lie in the value). The hash
 * is SipHash-1-3 (Aumasson, Bernstein 2012) under a per-process random seed, so that a client
 * cannot choose colliding names. Owned by one thread; many may read one that none writes. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/str.h"

struct map_entry {
    struct str key; /* absent = free */
    uint64_t hash;
    void *value;
};

struct map {
    struct map_entry *entries;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
};

uint64_t hash_bytes(const void *bytes, size_t size); /* this process's seed */

void map_fini(struct map *m);                       /* a zeroed map needs no init */
void *map_get(const struct map *m, struct str key); /* NULL: not found */
/* Puts or replaces; false: out of memory, nothing changed. */
bool map_put(struct map *m, struct str key, void *value);
void *map_remove(struct map *m, struct str key); /* the removed value, or NULL */
/* Walks all entries: start with *cursor = 0; false at the end. The map must not change in
 * between. */
bool map_next(const struct map *m, size_t *cursor, struct str *ret_key, void **ret_value);

#endif
