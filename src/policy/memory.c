/* memory.c - one entry for each hash of (index, action). */
#include "policy/memory.h"

#include <stdlib.h>

#include "base/check.h"

/* A client that sends thousands of names, or makes names collide, only removes the benefit for all
 * clients of the thread: evaluation is then as fast as without a memory. */
static uint64_t hash_of(uint64_t index, struct str text)
{
    const uint64_t multiplier = 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio, odd */
    uint64_t hash = (index ^ text.size) * multiplier, word;
    size_t at = 0;
    for (; text.size - at >= 8; at += 8) {
        memcpy(&word, text.bytes + at, 8);
        hash = (hash ^ word) * multiplier;
        hash ^= hash >> 32;
    }
    word = 0;
    for (; at < text.size; at++) word = word << 8 | (unsigned char)text.bytes[at];
    hash = (hash ^ word) * multiplier;
    return hash ^ hash >> 32;
}

struct policy_memory *policy_memory_create(size_t entries)
{
    size_t size = 1;
    while (size < entries) size *= 2;
    struct policy_memory *m = calloc(1, sizeof *m);
    check(m != NULL);
    m->entries = aligned_alloc(64, size * sizeof *m->entries);
    check(m->entries != NULL);
    memset(m->entries, 0, size * sizeof *m->entries);
    m->mask = size - 1;
    return m;
}

void policy_memory_destroy(struct policy_memory *m)
{
    if (m == NULL) return;
    free(m->entries);
    free(m);
}

void policy_memory_expect(const struct policy_memory *m, const struct policy_set *s,
                          struct str action)
{
    if (m == NULL || action.size > REMEMBERED_TEXT) return;
    const struct remembered *e = &m->entries[hash_of(s->enforced.serial, action) & m->mask];
    __builtin_prefetch(e);
    __builtin_prefetch(&e->groups[sizeof e->groups / sizeof *e->groups - 1]);
}

const struct remembered *remembered_find(const struct policy_memory *m, const struct rule_index *x,
                                         struct str action)
{
    if (m == NULL || action.size > REMEMBERED_TEXT) return NULL;
    const struct remembered *e = &m->entries[hash_of(x->serial, action) & m->mask];
    bool same = e->index == x->serial && str_equal(str_of(e->text, e->size), action);
    check(!same || (e->count <= REMEMBERED_GROUPS && e->size <= REMEMBERED_TEXT));
    return same ? e : NULL;
}

void remembered_keep(struct policy_memory *m, const struct rule_index *x, struct str action,
                     const uint32_t *groups, size_t count)
{
    if (m == NULL || action.size > REMEMBERED_TEXT || count > REMEMBERED_GROUPS) return;
    check(x->serial > 0); /* 0 would be: free */
    struct remembered *e = &m->entries[hash_of(x->serial, action) & m->mask];
    e->index = x->serial;
    e->size = (uint8_t)action.size;
    if (action.size > 0) memcpy(e->text, action.bytes, action.size);
    e->count = (uint32_t)count;
    if (count > 0) memcpy(e->groups, groups, count * sizeof *groups);
}
