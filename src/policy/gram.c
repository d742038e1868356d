/* gram.c - hash tables of grams with a Bloom filter in front. */
#include "policy/gram.h"

#include "base/check.h"

uint64_t gram_at(const char *bytes, size_t size)
{
    uint64_t gram = 0;
    switch (size) {
    case 8: memcpy(&gram, bytes, 8); break;
    case 4: memcpy(&gram, bytes, 4); break;
    case 2: memcpy(&gram, bytes, 2); break;
    default: memcpy(&gram, bytes, 1); break;
    }
    return gram;
}

static uint64_t hash_of(uint64_t gram)
{
    uint64_t hash = gram * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

/* Two bits of the filter word that the hash names. */
static uint64_t filter_bits(uint64_t hash)
{
    return (uint64_t)1 << (hash >> 40 & 63) | (uint64_t)1 << (hash >> 46 & 63);
}

static size_t power_of_two(size_t at_least)
{
    size_t power = 4;
    while (power < at_least) power *= 2;
    return power;
}

static bool gram_table_init(struct gram_table *t, struct arena *arena, size_t count)
{
    size_t slots = power_of_two(count * 2), words = power_of_two(count / 4);
    t->slots = arena_array(arena, struct gram_slot, slots);
    t->filter = arena_array(arena, uint64_t, words);
    if (t->slots == NULL || t->filter == NULL) return false;
    t->mask = slots - 1;
    t->filter_mask = words - 1;
    for (size_t i = 0; i < slots; i++) t->slots[i].value = GRAM_NONE;
    return true;
}

static void gram_table_put(struct gram_table *t, uint64_t gram, uint32_t value)
{
    check(t->count < t->mask); /* a search ends at a free place */
    check(value != GRAM_NONE);
    uint64_t hash = hash_of(gram);
    t->filter[hash >> 20 & t->filter_mask] |= filter_bits(hash);
    size_t at = hash & t->mask;
    while (t->slots[at].value != GRAM_NONE) at = (at + 1) & t->mask;
    t->slots[at] = (struct gram_slot){.bytes = gram, .value = value};
    t->count++;
}

bool grams_build(struct grams *g, struct arena *arena, const struct gram_key *keys, size_t count)
{
    *g = (struct grams){0};
    size_t counts[GRAM_SIZES] = {0};
    for (size_t i = 0; i < count; i++)
        for (size_t table = 0; table < GRAM_SIZES; table++)
            counts[table] += keys[i].size == gram_size(table);
    check(counts[0] + counts[1] + counts[2] + counts[3] == count);
    for (size_t table = 0; table < GRAM_SIZES; table++) {
        if (counts[table] == 0) continue;
        if (!gram_table_init(&g->tables[table], arena, counts[table])) return false;
        for (size_t i = 0; i < count; i++)
            if (keys[i].size == gram_size(table))
                gram_table_put(&g->tables[table], keys[i].bytes, keys[i].value);
    }
    return true;
}

uint32_t gram_table_get(const struct gram_table *t, uint64_t gram)
{
    uint64_t hash = hash_of(gram), bits = filter_bits(hash);
    if ((t->filter[hash >> 20 & t->filter_mask] & bits) != bits) return GRAM_NONE;
    for (size_t at = hash & t->mask; t->slots[at].value != GRAM_NONE; at = (at + 1) & t->mask)
        if (t->slots[at].bytes == gram) return t->slots[at].value;
    return GRAM_NONE;
}
