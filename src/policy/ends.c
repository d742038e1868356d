/* ends.c - a hash table of pieces, and the search for the beginnings of a text. */
#include "policy/ends.h"

#include "base/check.h"

/* FNV-1a (Fowler, Noll, Vo) byte by byte, because a search needs the hash of every beginning. Its
 * multiplication leaves the upper bits of short texts alike, so a search mixes them. */
static inline uint64_t hash_more(uint64_t hash, char byte)
{
    return (hash ^ (unsigned char)byte) * 0x100000001B3u;
}

static inline uint64_t hash_mixed(uint64_t hash)
{
    hash = (hash ^ hash >> 32) * 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio, odd */
    return hash ^ hash >> 29;
}

static uint64_t hash_of(struct str piece)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < piece.size; i++) hash = hash_more(hash, piece.bytes[i]);
    return hash_mixed(hash);
}

static inline uint64_t filter_bits(uint64_t hash)
{
    return (uint64_t)1 << (hash >> 20 & 63) | (uint64_t)1 << (hash >> 26 & 63);
}

static inline uint32_t tag_of(uint64_t hash) { return (uint32_t)(hash >> 32); }

static size_t power_of_two(size_t at_least)
{
    size_t power = 4;
    while (power < at_least) power *= 2;
    return power;
}

static void put(struct ends *e, struct str piece, uint32_t value)
{
    check(piece.size > 0 && piece.size <= END_BYTES_MAX);
    check(value != END_NONE);
    uint64_t hash = hash_of(piece);
    e->lengths |= (uint64_t)1 << (piece.size - 1);
    e->filter[hash & e->filter_mask] |= filter_bits(hash);
    size_t at = hash & e->mask;
    while (e->slots[at].value != END_NONE) at = (at + 1) & e->mask;
    e->slots[at] = (struct end_slot){.tag = tag_of(hash), .value = value};
}

bool ends_build(struct ends *e, struct arena *arena, const struct end_key *keys, size_t count)
{
    *e = (struct ends){.always = END_NONE};
    if (count == 0) return true;
    size_t slots = power_of_two(count * 2), words = power_of_two(count / 4);
    e->slots = arena_array(arena, struct end_slot, slots);
    e->filter = arena_array(arena, uint64_t, words);
    if (e->slots == NULL || e->filter == NULL) return false;
    e->mask = slots - 1;
    e->filter_mask = words - 1;
    for (size_t i = 0; i < slots; i++) e->slots[i].value = END_NONE;
    for (size_t i = 0; i < count; i++) {
        check(keys[i].bytes.size <= END_BYTES_MAX);
        if (keys[i].bytes.size == 0)
            e->always = keys[i].value;
        else
            put(e, keys[i].bytes, keys[i].value);
    }
    return true;
}

/* Moves to the next length that the filter does not exclude; false: none. */
static bool next_length(struct end_walk *w)
{
    const struct ends *e = w->ends;
    for (; w->lengths != 0; w->lengths &= w->lengths - 1) {
        size_t length = (size_t)__builtin_ctzll(w->lengths) + 1;
        if (length > w->text.size) return false;
        for (; w->at < length; w->at++) w->hash = hash_more(w->hash, w->text.bytes[w->at]);
        uint64_t hash = hash_mixed(w->hash), bits = filter_bits(hash);
        if ((e->filter[hash & e->filter_mask] & bits) != bits) continue;
        w->slot = hash & e->mask;
        return true;
    }
    return false;
}

uint32_t end_walk_next(struct end_walk *w)
{
    const struct ends *e = w->ends;
    check(w->at <= w->text.size);
    while (w->slot != SIZE_MAX || next_length(w)) {
        uint32_t tag = tag_of(hash_mixed(w->hash));
        while (e->slots[w->slot].value != END_NONE) {
            const struct end_slot *slot = &e->slots[w->slot];
            w->slot = (w->slot + 1) & e->mask;
            if (slot->tag == tag) return slot->value;
        }
        w->slot = SIZE_MAX;
        w->lengths &= w->lengths - 1;
    }
    return END_NONE;
}
