#include "base/map.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/reserve.h"
#include "base/world.h"

static uint64_t seed[2];
static pthread_once_t seeded = PTHREAD_ONCE_INIT;
static atomic_bool is_seeded; /* this check costs a load, pthread_once() a call */

static void seed_take(void)
{
    world_random(seed, sizeof seed);
    atomic_store_explicit(&is_seeded, true, memory_order_release);
}

static inline uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

struct sip {
    uint64_t a, b, c, d;
};

static inline void sip_round(struct sip *s)
{
    s->a += s->b, s->b = rotate(s->b, 13) ^ s->a, s->a = rotate(s->a, 32);
    s->c += s->d, s->d = rotate(s->d, 16) ^ s->c;
    s->a += s->d, s->d = rotate(s->d, 21) ^ s->a;
    s->c += s->b, s->b = rotate(s->b, 17) ^ s->c, s->c = rotate(s->c, 32);
}

/* The last size % 8 bytes as an integer, the first of them lowest. */
static inline uint64_t last_bytes(const unsigned char *at, size_t size)
{
    uint64_t word = 0;
    uint32_t first, last;
    size_t count = size % 8;
    if (count == 0) return 0;
    if (size >= 8) {
        memcpy(&word, at + size - 8, 8);
        return word >> (64 - 8 * count);
    }
    if (size >= 4) { /* four from the front and four from the end, which may overlap */
        memcpy(&first, at, sizeof first);
        memcpy(&last, at + size - 4, sizeof last);
        return first | (uint64_t)last << (8 * (size - 4));
    }
    for (size_t i = 0; i < size; i++) word |= (uint64_t)at[i] << (8 * i);
    return word;
}

uint64_t hash_bytes(const void *bytes, size_t size)
{
    if (!atomic_load_explicit(&is_seeded, memory_order_acquire)) pthread_once(&seeded, seed_take);
    struct sip s = {seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du,
                    seed[0] ^ 0x6c7967656e657261u, seed[1] ^ 0x7465646279746573u};
    const unsigned char *at = bytes;
    uint64_t word, last = (uint64_t)size << 56 | last_bytes(at, size);
    for (; size >= 8; at += 8, size -= 8) {
        memcpy(&word, at, 8);
        s.d ^= word;
        sip_round(&s);
        s.a ^= word;
    }
    s.d ^= last;
    sip_round(&s);
    s.a ^= last;
    s.c ^= 0xff;
    sip_round(&s), sip_round(&s), sip_round(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}

void map_fini(struct map *m)
{
    free(m->entries);
    *m = (struct map){0};
}

/* The entry that holds `key`, or the free one where it belongs. */
static struct map_entry *map_place(const struct map *m, struct str key, uint64_t hash)
{
    size_t mask = m->capacity - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct map_entry *e = &m->entries[i];
        if (str_is_absent(e->key)) return e;
        if (e->hash == hash && str_equal(e->key, key)) return e;
    }
}

void *map_get(const struct map *m, struct str key)
{
    if (m->count == 0 || str_is_absent(key)) return NULL;
    return map_place(m, key, hash_bytes(key.bytes, key.size))->value;
}

static bool map_grow(struct map *m)
{
    struct map larger = {.capacity = m->capacity == 0 ? 16 : m->capacity * 2, .count = m->count};
    larger.entries = calloc(larger.capacity, sizeof *larger.entries);
    if (larger.entries == NULL) {
        memory_was_missing();
        return false;
    }
    for (size_t i = 0; i < m->capacity; i++) {
        struct map_entry *e = &m->entries[i];
        if (!str_is_absent(e->key)) *map_place(&larger, e->key, e->hash) = *e;
    }
    free(m->entries);
    *m = larger;
    return true;
}

bool map_put(struct map *m, struct str key, void *value)
{
    check(!str_is_absent(key) && value != NULL);
    if (m->count + 1 > m->capacity / 4 * 3 && !map_grow(m)) return false;
    uint64_t hash = hash_bytes(key.bytes, key.size);
    struct map_entry *e = map_place(m, key, hash);
    if (str_is_absent(e->key)) m->count++;
    *e = (struct map_entry){.key = key, .hash = hash, .value = value};
    return true;
}

void *map_remove(struct map *m, struct str key)
{
    if (m->count == 0 || str_is_absent(key)) return NULL;
    struct map_entry *hole = map_place(m, key, hash_bytes(key.bytes, key.size));
    void *value = hole->value;
    if (value == NULL) return NULL;
    /* Close the gap: each entry that follows in the same run and may move up, moves up. */
    size_t mask = m->capacity - 1, free_at = (size_t)(hole - m->entries);
    for (size_t i = (free_at + 1) & mask; !str_is_absent(m->entries[i].key); i = (i + 1) & mask) {
        size_t home = m->entries[i].hash & mask;
        if (((i - home) & mask) < ((i - free_at) & mask)) continue;
        m->entries[free_at] = m->entries[i];
        free_at = i;
    }
    m->entries[free_at] = (struct map_entry){0};
    m->count--;
    return value;
}

bool map_next(const struct map *m, size_t *cursor, struct str *ret_key, void **ret_value)
{
    while (*cursor < m->capacity) {
        struct map_entry *e = &m->entries[(*cursor)++];
        if (str_is_absent(e->key)) continue;
        *ret_key = e->key;
        *ret_value = e->value;
        return true;
    }
    return false;
}
