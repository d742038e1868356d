/* set.c - see set.h. */
#include "cel/set.h"

#include "base/map.h"

enum { SHORT = 16, COUNT_MAX = 1 << 24 };

/* The text as a slot would hold it. */
static inline struct cel_set_slot slot_of(const char *bytes, size_t size)
{
    struct cel_set_slot s = {.bytes = bytes, .size = size};
    uint32_t head, tail;
    if (size > SHORT) {
        s.first = hash_bytes(bytes, size);
    } else if (size >= 8) {
        memcpy(&s.first, bytes, 8);
        memcpy(&s.last, bytes + size - 8, 8);
    } else if (size >= 4) {
        memcpy(&head, bytes, 4);
        memcpy(&tail, bytes + size - 4, 4);
        s.first = (uint64_t)tail << 32 | head;
    } else if (size > 0) {
        s.first = (uint8_t)bytes[0] | (uint32_t)(uint8_t)bytes[size / 2] << 8 |
                  (uint32_t)(uint8_t)bytes[size - 1] << 16;
    }
    return s;
}

/* Fibonacci hashing: the upper half of a product with the golden ratio is well mixed. */
static inline uint64_t hash(const struct cel_set_slot *s)
{
    uint64_t mixed = s->first ^ (s->last << 29 | s->last >> 35) ^ s->size;
    return mixed * 0x9E3779B97F4A7C15u >> 32;
}

static inline bool same(const struct cel_set_slot *a, const struct cel_set_slot *b)
{
    return a->first == b->first && a->last == b->last && a->size == b->size &&
           (a->size <= SHORT || memcmp(a->bytes, b->bytes, a->size) == 0);
}

bool cel_set_fits(struct cel_value list)
{
    if (list.kind != CEL_LIST || list.form != CEL_OWN || list.size > COUNT_MAX) return false;
    for (uint32_t i = 0; i < list.size; i++)
        if (list.items[i].kind != CEL_STRING) return false;
    return true;
}

/* The text's slot, or the free slot for it; *ret_tried counts the slots that were read. */
static inline uint64_t find(const struct cel_set_slot *slots, uint64_t mask,
                            const struct cel_set_slot *wanted, uint32_t *ret_tried)
{
    uint64_t at = hash(wanted) & mask;
    for (*ret_tried = 1; slots[at].bytes != NULL; at = (at + 1) & mask, ++*ret_tried)
        if (same(&slots[at], wanted)) break;
    return at;
}

const struct cel_set *cel_set_make(struct cel_value list, struct arena *arena)
{
    size_t size = 4;
    uint32_t tried;
    check(cel_set_fits(list));
    while (size < (size_t)list.size * 4) size *= 2;
    struct cel_set *set = arena_new(arena, struct cel_set);
    struct cel_set_slot *slots = arena_array(arena, struct cel_set_slot, size); /* zeroed: free */
    if (set == NULL || slots == NULL) return NULL;
    for (uint32_t i = 0; i < list.size; i++) {
        struct cel_set_slot slot = slot_of(list.items[i].bytes, list.items[i].size);
        slots[find(slots, size - 1, &slot, &tried)] = slot;
    }
    *set = (struct cel_set){.mask = size - 1, .slots = slots};
    return set;
}

struct cel_value cel_set_has(const struct cel_set *set, struct cel_meter *m,
                             const struct cel_value *wanted)
{
    uint32_t tried;
    if (wanted->kind != CEL_STRING) return cel_bool(false);
    if (!cel_pay(m, wanted->size / 8)) return cel_fail(CEL_FAULT_COST, NULL);
    struct cel_set_slot slot = slot_of(wanted->bytes, wanted->size);
    uint64_t at = find(set->slots, set->mask, &slot, &tried); /* few: the set is a quarter full */
    if (!cel_pay(m, tried)) return cel_fail(CEL_FAULT_COST, NULL);
    return cel_bool(set->slots[at].bytes != NULL);
}
