/* slot.h - which slot an object belongs to, and which reactor owns a slot.
 *
 * The number of slots, LIMIT_SLOTS, never changes; `slot % reactors` is the owner, so the number of
 * reactors may change between starts. An object that is looked up by its id carries its slot in the
 * id's first two bytes of chance. An object that is looked up by meaning (an actor, a counter) has
 * the slot of a digest. Neither depends on a seed of the process: slots are the same after a
 * restart. Pure. */
#ifndef SHARDS_SLOT_H
#define SHARDS_SLOT_H

#include "base/id.h"
#include "base/limits.h"

enum { SLOT_KEY_BYTES = 16 };

/* The first half of a SHA-256 over the names; made by the rooms that have a hasher. */
struct slot_key {
    uint8_t bytes[SLOT_KEY_BYTES];
};

static inline unsigned slot_of_key(struct slot_key k)
{
    return ((unsigned)k.bytes[0] << 8 | k.bytes[1]) % LIMIT_SLOTS;
}

/* Bytes 6 and 7 of an id: the ten bits behind its milliseconds. */
static inline unsigned slot_of_id(struct id id)
{
    return ((unsigned)id.bytes[6] << 8 | id.bytes[7]) % LIMIT_SLOTS;
}

/* The same id, changed so that it belongs to `slot`. */
static inline struct id slot_id(struct id id, unsigned slot)
{
    id.bytes[6] = (uint8_t)((id.bytes[6] & 0xfc) | slot >> 8);
    id.bytes[7] = (uint8_t)slot;
    return id;
}

static inline unsigned slot_owner(unsigned slot, unsigned reactors) { return slot % reactors; }

#endif
