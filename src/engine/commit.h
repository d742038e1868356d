/* commit.h - the only place where decisions meet the journal: record, then park the reply.
 *
 * Belongs to one reactor thread. A record goes into the reactor's open block; the gate that comes
 * back is what the reply waits for: lane 1 opens when the block is in the kernel (`written`),
 * lane 2 when it is synced. No room for a record is an error, never an unrecorded answer. */
#ifndef ENGINE_COMMIT_H
#define ENGINE_COMMIT_H

#include "event/event.h"
#include "http/server.h"
#include "journal/journal.h"
#include "shards/effect.h"

enum commit_lane { LANE_WRITTEN = 1, LANE_SYNCED = 2 };

struct committer {
    struct journal_producer *producer;
    bool always_synced; /* durability = synced */
};

enum { COMMIT_EVENTS_MAX = EFFECT_RECORDS_MAX };

/* Records already encoded events, all or none, in order. `synced`: whatever the configured
 * durability. ERR_JOURNAL_FULL (the disk), ERR_FULL (no block is free: the caller holds its
 * sockets), ERR_OUT_OF_RANGE (a record is too large). */
enum err commit_events(struct committer *c, const struct str *events, size_t count, bool synced,
                       struct http_gate *ret);

/* The same for events with what they change; deltas may be absent. */
enum err commit_records(struct committer *c, const struct effect_record *records, size_t count,
                        bool synced, struct http_gate *ret);

/* The same in two parts, for who must know that there is room before there is anything to
 * record. Room for records of `size` bytes together, LIMIT_RECORD_HEAD_BYTES for each included, at
 * most LIMIT_RESERVE_BYTES (checked); valid until the next is asked for, or the block is sealed.
 * `closing`: the records make nothing looser, and may use the reserve kept for them. ERR_FULL,
 * ERR_JOURNAL_FULL as above. */
enum err commit_room(struct committer *c, size_t size, bool closing);
struct http_gate commit_put(struct committer *c, const struct effect_record *records, size_t count,
                            bool synced);

/* What opens when both have. */
struct http_gate gate_stricter(struct http_gate a, struct http_gate b);

#endif
